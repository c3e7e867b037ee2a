"""What a kernel computes does not depend on what the process did before."""

import importlib
import json
import multiprocessing
import os
import pkgutil
import subprocess
import sys
from collections import namedtuple
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numba import typeof
from numba._dispatcher import compute_fingerprint
from ordered_fits import FITS, fit_in_order

import fastem.kernels
from fastem.families import MixtureOf
from fastem.kernels.families.base import refresh
from fastem.kernels.options import implements

from cases.families import COMPILED


def _new_processes(n_workers=2):
    """Processes each of which does one thing; all that they share is what they import."""
    ways = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in ways else "spawn")
    if "forkserver" in ways:
        context.set_forkserver_preload(["fastem.mixture", "fastem.hmm", "scipy.stats"])
    return ProcessPoolExecutor(n_workers, mp_context=context, max_tasks_per_child=1)


#: What memory holds before it is written: as it comes, all 0x7e (2e301), all 0xfe (-5e303).
_MEMORY = (
    {},
    {"MALLOC_PERTURB_": "129", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"},
    {"MALLOC_PERTURB_": "1", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"},
)


def _run(script, names, **environment):
    """What a program of this folder prints, in a process of its own."""
    here = Path(__file__)
    paths = [str(here.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, str(here.with_name(script)), *names],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment},
        check=True, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    return done.stdout


def test_a_model_learns_the_same_alone_and_after_any_others_whatever_is_in_memory():
    # Those that are alone come first: what they compile is later loaded together.
    with _new_processes() as processes:
        alone = list(processes.map(fit_in_order, [[name] for name in FITS]))
    expected = {name: digest for result in alone for name, digest in result.items()}
    assert expected.keys() == FITS.keys()
    rng = np.random.default_rng(0)
    for environment in _MEMORY:
        order = rng.permutation(list(FITS)).tolist()
        learned = json.loads(_run("ordered_fits.py", order, **environment))
        wrong = [name for name in order if learned[name] != expected[name]]
        assert not wrong, f"{wrong} learned something else in the order {order}, {environment}"


@pytest.mark.parametrize("plain", ["0", "1"])
@pytest.mark.parametrize("order", [("double", "triple"), ("triple", "double")])
def test_kernels_from_the_cache_call_the_functions_they_were_compiled_with(order, plain, tmp_path):
    # Numba puts a set of options into the names of functions, in the order of their hashes.
    environment = {
        "FASTEM_PLAIN_NUMBA": plain, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONHASHSEED": "0"
    }  # fmt: skip

    def run(*names):
        printed = _run("colliding_kernels.py", names, **environment)
        return [float(word) for word in printed.split()]

    results = {"double": 2.0, "triple": 3.0}
    for name in order:
        assert run(name) == [results[name]]
    compiled = {path.name for path in tmp_path.glob("**/*.nbc")}
    assert len(compiled) == 2
    assert run(*order) == [results[name] for name in order]
    assert {path.name for path in tmp_path.glob("**/*.nbc")} == compiled


def _packed_families():
    """The kernels' form of every family, and of mixtures of it."""
    rng = np.random.default_rng(0)
    for case in COMPILED:
        parameters = case.pair(rng)[1]
        yield case.family.pack(parameters)
        if case.name != "product":
            stacked = {name: np.stack([array, array]) for name, array in parameters.items()}
            yield MixtureOf(case.family, 3).pack({"weights": np.full((2, 3), 1 / 3), **stacked})


def test_numba_tells_the_families_apart():
    # A call finds compiled code by the fingerprints of its arguments, not by their types. Numba
    # before 0.61 put what was in memory in the place of the first forty bytes of a long one.
    kinds = {}
    for packed in _packed_families():
        fingerprint = compute_fingerprint(packed)
        if hasattr(packed, "_fields"):
            assert fingerprint.startswith(type(packed).__name__.encode())
        kinds.setdefault(fingerprint, set()).add(typeof(packed))
    assert len(kinds) > 10
    assert all(len(types) == 1 for types in kinds.values())


def test_no_two_named_tuples_of_the_kernels_have_one_name():
    found = {}
    for module in pkgutil.walk_packages(fastem.kernels.__path__, "fastem.kernels."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):
                found.setdefault(value.__name__, set()).add(value)
    assert len(found) > 15
    assert {name: kinds for name, kinds in found.items() if len(kinds) > 1} == {}


def test_a_second_named_tuple_of_the_same_name_is_refused():
    impostor = namedtuple("Linear", "parameters")
    with pytest.raises(ValueError, match="Two named tuples are called Linear"):
        implements(refresh, impostor)
