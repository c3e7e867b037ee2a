"""Every public class and function has an example that runs as it is printed."""

import doctest
from importlib import import_module

import pytest

import fastem

#: What has nothing to show: compiling, and taking a patch back.
SILENT = ("warmup", "unpatch")
HOMES = {**fastem.ESTIMATORS, **fastem.FUNCTIONS}
#: What else users make or call. ``Family`` is what families have in common.
BESIDES = [
    *(f"families.{name}" for name in fastem.families.__all__ if name not in {"Family", *HOMES}),
    *(f"distributed.{name}" for name in fastem.distributed.__all__),
    *(f"callbacks.{name}" for name in fastem.callbacks.__all__),
    *("learner.Learner", "learner.PredictingLearner", "river.Clusterer", "river.AnomalyDetector"),
    *("kalman.stream.KalmanStream", "hmm.stream.StateFilter", "hmm.ConvergenceMonitor"),
]
#: Nothing is shown by a bar.
SILENT += ("callbacks.ProgressBar",)


def public(name):
    """What has a name, from where it is defined: ``fastem.patch`` is a module too."""
    if name in HOMES:
        return getattr(import_module(f"fastem.{HOMES[name]}"), name)
    module, _, name = name.rpartition(".")
    return getattr(import_module(f"fastem.{module}"), name)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", [*HOMES, *BESIDES])
def test_an_example_runs(name):
    found = doctest.DocTestFinder(recurse=False).find(public(name), name, globs={})
    examples = [example for test in found for example in test.examples]
    assert examples, f"{name} has no example"
    if name not in SILENT:
        assert any(example.want for example in examples), f"The example of {name} shows nothing"
    said = []
    for test in found:
        doctest.DocTestRunner().run(test, out=said.append)
    assert said == []


@pytest.mark.parametrize("name", [*HOMES, *BESIDES])
def test_an_example_has_a_heading(name):
    lines = [line.strip() for line in public(name).__doc__.splitlines()]
    place = lines.index("Examples")
    assert lines[place + 1] == "-" * len("Examples")
    assert any(line.startswith(">>>") for line in lines[place:])
