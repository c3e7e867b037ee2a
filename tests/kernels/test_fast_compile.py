"""Kernels compiled by numba's internals and by its public interface: the same answers.

Compiled kernels on disk: no file there, and no lack of space, may stop a program.
"""

import contextlib
import errno
import gc
import itertools
import json
import operator
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core import caching

from fastem import notices
from fastem.kernels.options import WHY_PLAIN, helper, kernel

try:
    from fastem.kernels import fast_compile
except ImportError:
    fast_compile = None

only_fast = pytest.mark.skipif(WHY_PLAIN is not None, reason=str(WHY_PLAIN))

HERE = Path(__file__).parent


def run(*arguments, **environment):
    """What a Python process prints; it must end well."""
    paths = [str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# Both ways ------------------------------------------------------------------------------------


def test_both_ways_give_the_same_answers():
    def results(plain):
        return json.loads(run(str(HERE / "few_kernels.py"), FASTEM_PLAIN_NUMBA=plain))

    why, fast = results("0")
    assert why is None
    why, plain = results("1")
    assert "FASTEM_PLAIN_NUMBA" in why
    assert plain.keys() == fast.keys()
    for name, values in fast.items():
        assert np.isfinite(values).all()
        # Sums are reassociated otherwise.
        np.testing.assert_allclose(plain[name], values, rtol=1e-13, atol=1e-15)
    # What was compiled before is now on disk. A function that two kernels call is then that of the
    # kernel that was loaded first, and each kernel's was optimized by itself.
    why_again, again = results("1")
    assert why_again == why and again.keys() == plain.keys()
    for name, values in plain.items():
        np.testing.assert_allclose(again[name], values, rtol=1e-13, atol=1e-15)
    # By numba's internals it is the kernel's own, to the bit.
    assert results("0") == [None, fast]


#: Run in a process of its own, around something that is done to numba.
BEFORE = """
from numba.core import caching, ccallback, codegen, compiler

def one_more(owner, name):
    original = getattr(owner, name)

    def changed(self, *arguments, one_more_parameter=None, **keywords):
        return original(self, *arguments, **keywords)

    setattr(owner, name, changed)
"""
AFTER = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
from colliding_kernels import double, triple
from fastem.kernels import options
assert (double(1.0), triple(1.0)) == (2.0, 3.0)
print(options.WHY_PLAIN)
"""


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("", "None"),
        ("import numba; numba.__version__ = '9.0.0'", "None"),
        ("del caching.FunctionCache", "FunctionCache"),
        ("del codegen.JITCodeLibrary", "JITCodeLibrary"),
        ("one_more(caching.IndexDataCacheFile, 'save')", "IndexDataCacheFile.save"),
        ("one_more(codegen.CPUCodeLibrary, '_optimize_final_module')", "_optimize_final_module"),
        ("one_more(compiler.Compiler, '__init__')", "Compiler.__init__"),
        ("import numba; numba.__version__ = 'unknown'", "unknown"),
        (
            "import numba; numba.__version__ = '9.0.0'\n"
            "caching.IndexDataCacheFile.save = lambda self, key, data: None",
            "cache on disk",
        ),
    ],
)
def test_where_numba_differs_its_public_interface_is_used(change, why, tmp_path):
    environment = {"NUMBA_CACHE_DIR": str(tmp_path), "FASTEM_PLAIN_NUMBA": "0"}
    assert why in run("-c", f"{BEFORE}\n{change}\n{AFTER}", **environment)


@pytest.mark.parametrize("plain", ["0", "1"])
def test_code_on_disk_is_used_for_the_same_source_of_all_kernels_only(plain, tmp_path):
    def n_compiled(change=""):
        script = f"""
import sys
from fastem.kernels import fingerprint
{change}
sys.path.insert(0, {str(HERE)!r})
from colliding_kernels import double
assert double(1.0) == 2.0
print(sum(double.stats.cache_misses.values()))
"""
        return int(run("-c", script, NUMBA_CACHE_DIR=str(tmp_path), FASTEM_PLAIN_NUMBA=plain))

    assert n_compiled() == 1
    assert n_compiled() == 0
    assert n_compiled("fingerprint.FINGERPRINT = 'of other kernels'") == 1
    assert n_compiled() == 0


@only_fast
def test_numba_is_as_it_was_after_a_kernel_is_compiled():
    run_before = fast_compile.PostProcessor.run
    assert kernel(total_of)(VALUES) == 10.0
    assert fast_compile.PostProcessor.run is run_before
    assert "get_call_type" not in vars(numba.types.Function)
    with pytest.raises(numba.TypingError):
        kernel(lambda x: x.no_such_attribute)(VALUES)
    assert fast_compile.PostProcessor.run is run_before
    assert "get_call_type" not in vars(numba.types.Function)


@only_fast
@pytest.mark.parametrize("thresholds", [(700, 10, 10), (90_000, 5, 200), (0, 10, 10)])
def test_garbage_is_looked_for_as_before_after_a_kernel_is_compiled(thresholds):
    count_before = fast_compile.NRTContext._call_incref_decref
    before, seen = gc.get_threshold(), []

    def note(*given):
        seen.append(gc.get_threshold())
        return count_before(*given)

    fast_compile._count_all_references, kept = note, fast_compile._count_all_references
    try:
        gc.set_threshold(*thresholds)
        fresh = kernel(total_of)
        fresh._cache = caching.NullCache()  # what is on disk is not compiled
        assert fresh(VALUES) == 10.0
        assert gc.get_threshold() == thresholds
        with pytest.raises(numba.TypingError):
            kernel(lambda x: x.no_such_attribute)(VALUES)
        assert gc.get_threshold() == thresholds
    finally:
        gc.set_threshold(*before)
        fast_compile._count_all_references = kept
        fast_compile.NRTContext._call_incref_decref = count_before
    # Looking is rarer meanwhile, but for those who have turned it off.
    assert seen
    for now in seen:
        if thresholds[0] == 0:
            assert now == thresholds
        else:
            assert now[0] >= 20_000 and all(a >= b for a, b in zip(now, thresholds, strict=True))


@only_fast
def test_remembered_types_are_those_that_numba_finds():
    context = numba.core.registry.cpu_target.typing_context
    kinds = (numba.types.int64, numba.types.float64, numba.types.boolean, numba.types.uint8)
    # A constant that no kernel on disk has, so that it is compiled.
    constant = np.random.default_rng().integers(2**62)
    kernel(lambda x: x[0] * constant + 1)(VALUES)
    assert fast_compile._known_calls
    for symbol in (operator.add, operator.mul, operator.truediv, operator.lt):
        function = context.resolve_value_type(symbol)
        for pair in itertools.product(kinds, kinds):
            found = function.get_call_type(context, pair, {})
            for _ in range(2):
                assert fast_compile._remembered_call_type(function, context, pair, {}) == found


@only_fast
def test_functions_that_numba_compiles_in_its_own_way_call_helpers():
    double = helper(lambda x: 2.0 * x)
    four_times = helper(lambda x: double(double(x)))
    assert numba.njit(lambda x: four_times(x) + double(x))(1.0) == 6.0


# On disk --------------------------------------------------------------------------------------


def total_of(values):
    total = 0.0
    for i in range(values.shape[0]):
        total += values[i]
    return total


VALUES = np.arange(5.0)


def compiled_anew():
    """Use a kernel as a new process would; whether it had to be compiled."""
    dispatcher = kernel(total_of)
    assert dispatcher(VALUES) == 10.0
    return sum(dispatcher.stats.cache_misses.values()) > 0


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(notices, "_told_of_no_cache", False)
    return tmp_path


def damage_cut(data):
    return data[: len(data) // 2]


def damage_empty(data):
    return b""


def damage_garbage(data):
    return b"\x80\x04garbage" * 100


def damage_one_byte(data):
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@only_fast
@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", [damage_cut, damage_empty, damage_garbage, damage_one_byte])
def test_a_damaged_file_is_compiled_anew_and_replaced(folder, suffix, damage):
    assert compiled_anew()
    assert not compiled_anew()
    (path,) = folder.rglob(f"*.{suffix}")
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiled_anew()
        assert not compiled_anew()
    assert path.read_bytes() != damage(whole)


@only_fast
def test_a_file_of_another_signature_is_not_used(folder):
    # Two processes that write at once may both take the first number for their code.
    dispatcher = kernel(total_of)
    dispatcher(VALUES)
    dispatcher(VALUES.astype(np.float32))
    first, second = sorted(folder.rglob("*.nbc"))
    first.write_bytes(second.read_bytes())
    assert compiled_anew()


@only_fast
def test_a_full_disk_is_warned_of_once(folder, monkeypatch):
    def full(self, path, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(fast_compile._CheckedFiles, "_write", full)
    with pytest.warns(RuntimeWarning, match="No space left.*NUMBA_CACHE_DIR") as caught:
        assert compiled_anew()
        assert compiled_anew()
    assert len(caught) == 1
    assert caught[0].filename == __file__


@only_fast
def test_a_disk_that_fills_while_a_file_is_written_leaves_nothing(folder, monkeypatch):
    original = fast_compile._CheckedFiles._open_for_write

    @contextlib.contextmanager
    def open_full(self, path):
        with original(self, path) as file:
            file.write(b"so far")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            yield file

    with monkeypatch.context() as patch:
        patch.setattr(fast_compile._CheckedFiles, "_open_for_write", open_full)
        with pytest.warns(RuntimeWarning, match="No space left"):
            assert compiled_anew()
    assert [path for path in folder.rglob("*") if path.is_file()] == []
    assert compiled_anew()
    assert not compiled_anew()


SCRIPT = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import fastem
    model = fastem.CompoundDirichlet(max_iter=2, tol=10.0).fit([[1, 2], [3, 1], [2, 2]])
    model.score([[1, 1]])
print(model.alpha_.shape[0], [str(w.message) for w in caught])
"""


@only_fast
def test_processes_get_over_cut_files(tmp_path):
    assert run("-c", SCRIPT, NUMBA_CACHE_DIR=str(tmp_path)) == "2 []"
    paths = [*tmp_path.rglob("*.nbi"), *tmp_path.rglob("*.nbc")]
    assert len(paths) > 2
    for number, path in enumerate(sorted(paths)):
        data = path.read_bytes()
        path.write_bytes(data[: (len(data) * (number % 3)) // 3])
    assert run("-c", SCRIPT, NUMBA_CACHE_DIR=str(tmp_path)) == "2 []"


@pytest.mark.parametrize("plain", ["0", "1"])
def test_without_a_place_for_files_there_is_one_warning(plain, tmp_path):
    # Below a regular file no folder can be made, not even by the superuser.
    (tmp_path / "file").write_text("")
    nowhere = str(tmp_path / "file" / "below")
    before = """
from numba.core import caching
first, *_ = caching.CacheImpl._locator_classes
caching.CacheImpl._locator_classes = [first]
"""
    out = run("-c", before + SCRIPT, NUMBA_CACHE_DIR=nowhere, FASTEM_PLAIN_NUMBA=plain)
    assert out.startswith("2 [")
    assert out.count("Compiled kernels cannot be kept on disk") == 1
    assert out.count("NUMBA_CACHE_DIR") == 1


# Linking ----------------------------------------------------------------------------------------


@only_fast
@pytest.mark.parametrize("seed", range(20))
def test_callers_are_linked_before_what_they_call(seed):
    """Libraries may name others that their code does not call, in any order."""
    rng = np.random.default_rng(seed)
    libraries = [object.__new__(fast_compile._InnerCode) for _ in range(12)]
    for number, library in enumerate(libraries):
        later = np.arange(number + 1, 12)
        named = rng.permutation(later[rng.random(len(later)) < 0.4])
        library._linking_libraries = [libraries[other] for other in named]
    order = [alone._library for alone in fast_compile._all_called(libraries[0])]
    assert len(set(order)) == len(order)
    reached, place = {libraries[0]}, dict.fromkeys(libraries[:1], -1)
    for number, library in enumerate(order):
        place[library] = number
    for library in libraries:  # each names later ones only
        if library in reached:
            for called in library._linking_libraries:
                reached.add(called)
                assert place[library] < place[called]
    assert reached == {libraries[0], *order}


@helper
def _leaf(x):
    return x + 1.0


@helper
def _middle(x):
    return 2.0 * _leaf(x)


@kernel
def _names_more_than_it_calls(x):
    y = x
    if x != x and x == x:  # never, which LLVM finds out before anything is linked
        y = _leaf(x)
    return y + _middle(x)


def test_a_function_that_is_named_before_it_is_called_is_linked():
    assert _names_more_than_it_calls(3.0) == 11.0
