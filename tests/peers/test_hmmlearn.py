"""hmmlearn's own tests of its hidden Markov models, with fastem's classes in place of hmmlearn's.

The sources are those of the installed hmmlearn. Their imports of hmmlearn's classes, its module
``base`` and its compiled recursions lead to fastem instead; ``DIFFERENT`` lists the tests that
cannot pass, each with its reason, and one that is listed must fail.
"""

import contextlib
import importlib.util
import inspect
import sys
import types
import warnings

import hmmlearn
import numpy as np
import pytest

import fastem.base
import fastem.hmm
from fastem.hmm import recursions

# hmmlearn's tests change what NumPy does about underflow, for everybody.
with np.errstate():
    import hmmlearn.tests

FILES = (
    "test_base", "test_categorical_hmm", "test_gaussian_hmm", "test_gmm_hmm",
    "test_gmm_hmm_multisequence", "test_gmm_hmm_new", "test_multinomial_hmm", "test_poisson_hmm",
)  # fmt: skip

#: Tests that hmmlearn's own classes fail too, and hmmlearn expects to fail.
FAILING = {
    f"test_gmm_hmm::{kind}::{test}": "GMMHMM has no gmms_: its parameters are weights_, means_ ..."
    for kind in ("TestGMMHMMWithDiagCovars", "TestGMMHMMWithTiedCovars", "TestGMMHMMWithFullCovars")
    for test in ("test_fit[", "test_sample", "test_score_samples_and_decode")
}

#: Other tests that cannot pass, by the beginning of their names, and why.
DIFFERENT = {
    "test_gaussian_hmm::TestGaussianHMMWithSphericalCovars::test_underflow_from_scaling[scaling]": (
        "it asks for an error where scaling underflows; fastem goes on in logarithms"
    ),
}


def _stand_ins():
    """fastem in modules with hmmlearn's names."""
    compiled = types.ModuleType("hmmlearn._hmmc")
    compiled.forward_log = recursions.forward
    compiled.backward_log = recursions.backward
    compiled.forward_scaling = recursions.scaled_forward
    compiled.backward_scaling = recursions.scaled_backward
    compiled.viterbi = recursions.likeliest_path
    package = types.ModuleType("hmmlearn")
    package.__path__ = hmmlearn.__path__
    package.hmm, package.base, package._hmmc = fastem.hmm, fastem.base, compiled
    return {
        "hmmlearn": package, "hmmlearn.hmm": fastem.hmm, "hmmlearn.base": fastem.base,
        "hmmlearn._hmmc": compiled, "hmmlearn.tests": hmmlearn.tests,
    }  # fmt: skip


@contextlib.contextmanager
def _in_place_of_hmmlearn():
    stand_ins = _stand_ins()
    before = {name: sys.modules.get(name) for name in stand_ins}
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def _module(name):
    """A file of hmmlearn's tests, which imports fastem."""
    path = f"{hmmlearn.tests.__path__[0]}/{name}.py"
    spec = importlib.util.spec_from_file_location(f"hmmlearn.tests.{name}_of_fastem", path)
    module = importlib.util.module_from_spec(spec)
    with _in_place_of_hmmlearn():
        spec.loader.exec_module(module)
    return module


def _parameters(function):
    """The arguments of each case of a parametrized test."""
    cases = [{}]
    for mark in getattr(function, "pytestmark", []):
        if mark.name == "parametrize":
            names = [name.strip() for name in mark.args[0].split(",")]
            rows = [row if len(names) > 1 else (row,) for row in mark.args[1]]
            cases = [
                {**case, **dict(zip(names, row, strict=True))} for case in cases for row in rows
            ]
    return cases


def _tests_in(module):
    """Names of tests, their classes (None for functions), names of methods, and arguments."""
    for name, value in vars(module).items():
        if inspect.isclass(value) and name.startswith("Test"):
            for method in dir(value):
                if method.startswith("test"):
                    for case in _parameters(getattr(value, method)):
                        yield _id(module, name, method, case), value, method, case
        elif inspect.isfunction(value) and name.startswith("test"):
            for case in _parameters(value):
                yield _id(module, name, case), None, value, case


def _id(module, *names_and_case):
    *names, case = names_and_case
    file = module.__name__.rpartition(".")[2].removesuffix("_of_fastem")
    values = "-".join(map(str, case.values()))
    return "::".join([file, *names]) + (f"[{values}]" if values else "")


MODULES = [_module(name) for name in FILES]
CASES = {name: rest for module in MODULES for name, *rest in _tests_in(module)}


def _reason(name):
    listed = (FAILING | DIFFERENT).items()
    return next((why for start, why in listed if name.startswith(start)), None)


def _run(kind, test, case, fixtures):
    np.random.seed(0)  # noqa: NPY002 (their draws are from this one)
    if kind is None:
        function = test
    else:
        instance = kind()
        if hasattr(instance, "setup_method"):
            instance.setup_method(None)
        setup = getattr(kind, "setup", None)
        if setup is not None:
            # A fixture that is used in every test of the class.
            getattr(setup, "_fixture_function", getattr(setup, "__wrapped__", setup))(instance)
        function = getattr(instance, test)
    wanted = inspect.signature(function).parameters
    arguments = {name: value for name, value in fixtures.items() if name in wanted}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function(**case, **arguments)


@pytest.mark.parametrize("name", CASES)
def test_of_hmmlearn(name, capsys, caplog):
    kind, test, case = CASES[name]
    fixtures = {"capsys": capsys, "caplog": caplog}
    if _reason(name) is None:
        _run(kind, test, case, fixtures)
    else:
        # Whatever it is: an error, a failed assertion, or an error that was expected in vain.
        with pytest.raises((Exception, pytest.fail.Exception)):
            _run(kind, test, case, fixtures)


def test_the_list_names_tests():
    for start in FAILING | DIFFERENT:
        assert any(name.startswith(start) for name in CASES), start


def test_the_modules_import_fastem():
    for module in MODULES:
        for name in ("hmm", "GMMHMM", "BaseHMM", "ConvergenceMonitor"):
            value = getattr(module, name, fastem.hmm)
            assert value is fastem.hmm or value.__module__.startswith("fastem."), name
    assert len(CASES) > 250
