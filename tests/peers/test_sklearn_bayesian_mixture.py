"""scikit-learn's own tests of its Bayesian mixture, with fastem's class in its place.

They are those of the scikit-learn that is installed, read from its package. All of them pass.
"""

from importlib.util import find_spec
from pathlib import Path
from unittest import mock

import pytest
import sklearn.mixture

import fastem


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


_TESTS = {**_tests_of("test_bayesian_mixture"), **_tests_of("test_mixture")}
globals().update(_TESTS)


def test_there_are_tests():
    assert len(_TESTS) > 12


@pytest.fixture
def global_random_seed():
    """scikit-learn's fixture of this name."""
    return 42
