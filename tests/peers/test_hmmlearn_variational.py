"""hmmlearn's own tests of its variational models, with fastem's classes in their place.

They are those of the hmmlearn that is installed, read from its package, and all of them pass. The
models that they draw from, and compare with, are hmmlearn's.
"""

from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import fastem

# The tests start models of several states from a few numbers.
pytestmark = pytest.mark.filterwarnings("ignore:Fitting a model with")

NAMES = ("VariationalGaussianHMM", "VariationalCategoricalHMM")
OURS = SimpleNamespace(**{name: getattr(fastem, name) for name in NAMES})


def _classes_of(name):
    """The test classes of a module of hmmlearn's tests, which see fastem's estimators."""
    folder = Path(find_spec("hmmlearn").submodule_search_locations[0])
    path = folder / "tests" / f"{name}.py"
    namespace = {"__name__": f"hmmlearn.tests.{name}", "__package__": "hmmlearn.tests"}
    # hmmlearn's package of tests changes how NumPy handles underflow.
    with np.errstate():
        exec(compile(path.read_text(encoding="utf-8"), path, "exec"), namespace)
    # The name by which they know the classes.
    assert all(hasattr(namespace["vhmm"], name) for name in NAMES)
    namespace["vhmm"] = OURS
    return {name: value for name, value in namespace.items() if name.startswith("Test")}


_TESTS = {
    **_classes_of("test_variational_gaussian"),
    **_classes_of("test_variational_categorical"),
}
globals().update(_TESTS)


def test_all_kinds_are_tested():
    assert _TESTS.keys() == {
        "TestFull", "TestTied", "TestDiagonal", "TestSpherical", "TestVariationalCategorical",
    }  # fmt: skip
