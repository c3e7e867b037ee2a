"""scikit-learn's own tests of its Gaussian mixture, with fastem's class in its place.

They are those of the scikit-learn that is installed, read from its package. Arrays are NumPy's.
"""

import contextlib
import functools
import os
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import sklearn.mixture
import sklearn.utils._array_api

import fastem

#: Tests that cannot pass, and why. One of them that does is an error, too.
CANNOT_PASS = {
    "test_gaussian_mixture_all_init_does_not_estimate_gaussian_parameters": (
        "It counts calls of a private function of scikit-learn, in place of which there is a "
        "kernel."
    ),
    "test_gaussian_mixture_raises_where_array_api_not_implemented": (
        "It wants an error for k-means of NumPy arrays while scikit-learn dispatches to other "
        "libraries; here k-means of NumPy arrays goes on working."
    ),
}


def _tests_of(name):
    """The test functions of a module of scikit-learn's tests, which see fastem's class."""
    folder = Path(find_spec("sklearn.mixture").submodule_search_locations[0])
    path = folder / "tests" / f"{name}.py"
    namespace = {"__name__": f"{__name__}.{name}", "__file__": str(path)}
    with contextlib.ExitStack() as stack:
        change = stack.enter_context
        change(mock.patch.object(sklearn.mixture, "GaussianMixture", fastem.GaussianMixture))
        change(
            mock.patch.object(
                sklearn.utils._array_api, "yield_namespace_device_dtype_combinations", _of_numpy
            )
        )
        change(mock.patch.dict(os.environ, SCIPY_ARRAY_API="1"))
        exec(compile(path.read_text(encoding="utf-8"), path, "exec"), namespace)
    assert namespace["GaussianMixture"] is fastem.GaussianMixture
    return {name: value for name, value in namespace.items() if name.startswith("test_")}


def _of_numpy(include_numpy_namespaces=True):
    return [("numpy", None, dtype) for dtype in ("float64", "float32")]


def _is_seen_to_fail(test):
    @functools.wraps(test)
    def check(**arguments):
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            test(**arguments)

    # SciPy has read its settings long ago, which is no reason to leave these out.
    check.pytestmark = [mark for mark in getattr(check, "pytestmark", []) if mark.name != "skipif"]
    return check


_TESTS = {**_tests_of("test_gaussian_mixture"), **_tests_of("test_mixture")}
globals().update(
    {name: _is_seen_to_fail(test) if name in CANNOT_PASS else test for name, test in _TESTS.items()}
)


def test_the_list_names_tests():
    assert CANNOT_PASS.keys() <= _TESTS.keys()
    assert len(_TESTS) > 40


@pytest.fixture(autouse=True)
def arrays_of_other_libraries(monkeypatch):
    """Scikit-learn allows the tests that dispatch only with this setting."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")


# scikit-learn's fixtures --------------------------------------------------------------------------


@pytest.fixture(params=[np.float32, np.float64], ids=["float32", "float64"])
def global_dtype(request):
    return request.param


@pytest.fixture
def global_random_seed():
    return 42
