"""Every setting of every estimator is described, each in an entry of its own."""

import inspect

import pytest

import fastem

docscrape = pytest.importorskip("numpydoc.docscrape")


def kinds():
    return [*(getattr(fastem, name) for name in fastem.ESTIMATORS), fastem.hmm.BaseHMM]


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_every_setting_has_a_description_of_its_own(kind):
    described = {
        entry.name: entry for entry in docscrape.NumpyDocString(inspect.getdoc(kind))["Parameters"]
    }
    settings = inspect.signature(kind).parameters
    assert sorted(described) == sorted(settings)
    for name, entry in described.items():
        assert entry.type, f"{name} has no type"
        text = " ".join(entry.desc).strip()
        assert text, f"{name} has no description"
        assert not text.startswith("As for"), f"{name} is described elsewhere"


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_defaults_are_those_that_are_said(kind):
    described = docscrape.NumpyDocString(inspect.getdoc(kind))["Parameters"]
    settings = inspect.signature(kind).parameters
    said = 0
    for entry in described:
        _, found, default = entry.type.partition("default=")
        value = settings[entry.name].default
        if found and isinstance(value, (bool, int, float, str, type(None))):
            said += 1
            if entry.name in ("params", "init_params") and default == "all letters":
                continue
            text = repr(value)
            assert default.strip("'\"") == text.strip("'\"") or float(default) == value, entry.name
    assert said > 3
