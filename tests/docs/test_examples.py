"""Every public class and function has an example that runs as it is printed."""

import doctest

import pytest

import fastem

#: What has nothing to show: compiling, and taking a patch back.
SILENT = ("warmup", "unpatch")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", [*fastem.ESTIMATORS, *fastem.FUNCTIONS])
def test_an_example_runs(name):
    found = doctest.DocTestFinder(recurse=False).find(getattr(fastem, name), name, globs={})
    examples = [example for test in found for example in test.examples]
    assert examples, f"{name} has no example"
    if name not in SILENT:
        assert any(example.want for example in examples), f"The example of {name} shows nothing"
    said = []
    for test in found:
        doctest.DocTestRunner().run(test, out=said.append)
    assert said == []


@pytest.mark.parametrize("name", [*fastem.ESTIMATORS, *fastem.FUNCTIONS])
def test_an_example_has_a_heading(name):
    lines = [line.strip() for line in getattr(fastem, name).__doc__.splitlines()]
    place = lines.index("Examples")
    assert lines[place + 1] == "-" * len("Examples")
    assert any(line.startswith(">>>") for line in lines[place:])
