"""Compiled kernels on disk: no file there, and no lack of space, may stop a program."""

import contextlib
import errno
import os
import subprocess
import sys
import warnings

import numba
import numpy as np
import pytest

from fastem.kernels import disk_cache
from fastem.kernels.options import kernel


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
    monkeypatch.setattr(disk_cache, "_warned", False)
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
    assert len(path.read_bytes()) == len(whole)


def test_a_file_of_another_signature_is_not_used(folder):
    # Two processes that write at once may both take the first number for their code.
    dispatcher = kernel(total_of)
    dispatcher(VALUES)
    dispatcher(VALUES.astype(np.float32))
    first, second = sorted(folder.rglob("*.nbc"))
    first.write_bytes(second.read_bytes())
    assert compiled_anew()


def test_a_full_disk_is_warned_of_once(folder, monkeypatch):
    def full(self, path, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(disk_cache._CheckedFiles, "_write", full)
    with pytest.warns(RuntimeWarning, match="No space left.*NUMBA_CACHE_DIR") as caught:
        assert compiled_anew()
        assert compiled_anew()
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_a_disk_that_fills_while_a_file_is_written_leaves_nothing(folder, monkeypatch):
    original = disk_cache._CheckedFiles._open_for_write

    @contextlib.contextmanager
    def open_full(self, path):
        with original(self, path) as file:
            file.write(b"so far")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            yield file

    with monkeypatch.context() as patch:
        patch.setattr(disk_cache._CheckedFiles, "_open_for_write", open_full)
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


def run_fit(before="", **environment):
    """The printed line of a process that fits; it must end well."""
    done = subprocess.run(
        [sys.executable, "-c", before + SCRIPT],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_processes_get_over_cut_files(tmp_path):
    assert run_fit(NUMBA_CACHE_DIR=str(tmp_path)) == "2 []"
    paths = [*tmp_path.rglob("*.nbi"), *tmp_path.rglob("*.nbc")]
    assert len(paths) > 2
    for number, path in enumerate(sorted(paths)):
        data = path.read_bytes()
        path.write_bytes(data[: (len(data) * (number % 3)) // 3])
    assert run_fit(NUMBA_CACHE_DIR=str(tmp_path)) == "2 []"


def test_without_a_place_for_files_there_is_one_warning(tmp_path):
    # Below a regular file no folder can be made, not even by the superuser.
    (tmp_path / "file").write_text("")
    nowhere = str(tmp_path / "file" / "below")
    before = """
from numba.core import caching
caching.CacheImpl._locator_classes = [caching.UserProvidedCacheLocator]
"""
    out = run_fit(before, NUMBA_CACHE_DIR=nowhere)
    assert out.startswith("2 [")
    assert out.count("Compiled kernels cannot be kept on disk") == 1
    assert out.count("NUMBA_CACHE_DIR") == 1
