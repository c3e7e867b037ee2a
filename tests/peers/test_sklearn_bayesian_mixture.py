"""scikit-learn's own tests of its Bayesian mixture, with fastem's class in its place.

They are those of the scikit-learn that is installed, read from its package.
"""

import functools
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

import pytest
import sklearn.mixture

import fastem

#: Tests that cannot pass, why, and the error that they end with. One that passes is an error, too.
CANNOT_PASS = {
    "test_compare_covar_type": (
        "It calls the private methods _check_parameters and _initialize_parameters in place of "
        "fit. test_starts_of_all_covariance_types_agree asserts the same by max_iter=0.",
        AttributeError,
    ),
}


def _tests_of(name):
    """The test functions of a module of scikit-learn's tests, which see fastem's class."""
    (folder,) = find_spec("sklearn.mixture").submodule_search_locations
    path = Path(folder) / "tests" / f"{name}.py"
    seen = {"__name__": f"{__name__}.{name}", "__file__": str(path)}
    ours = fastem.BayesianGaussianMixture
    with mock.patch.object(sklearn.mixture, "BayesianGaussianMixture", ours):
        exec(compile(path.read_text(encoding="utf-8"), path, "exec"), seen)
    assert seen["BayesianGaussianMixture"] is ours
    return {name: value for name, value in seen.items() if name.startswith("test_")}


def _fails(test, error):
    @functools.wraps(test)
    def check(**arguments):
        with pytest.raises(error):
            test(**arguments)

    return check


_TESTS = {**_tests_of("test_bayesian_mixture"), **_tests_of("test_mixture")}
globals().update(
    {
        name: _fails(test, CANNOT_PASS[name][1]) if name in CANNOT_PASS else test
        for name, test in _TESTS.items()
    }
)


def test_the_list_names_tests():
    assert CANNOT_PASS.keys() <= _TESTS.keys()
    assert len(_TESTS) > 12


@pytest.fixture
def global_random_seed():
    """scikit-learn's fixture of this name."""
    return 42
