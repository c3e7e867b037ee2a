"""Every function of fastem.plot has an example that runs as it is printed, and draws something."""

import doctest
import inspect
import re

import pytest
from matplotlib import pyplot

from fastem import plot


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", plot.__all__)
def test_an_example_runs(name):
    function = getattr(plot, name)
    (test,) = doctest.DocTestFinder(recurse=False).find(function, name, globs={})
    said = []
    results = doctest.DocTestRunner().run(test, out=said.append, clear_globs=False)
    assert results.attempted > 0
    assert results.failed == 0, "".join(said)
    if name != "color":
        assert test.globs["ax"] is pyplot.gca()


@pytest.mark.parametrize("name", sorted(set(plot.__all__) - {"color"}))
def test_every_function_takes_axes_and_describes_each_argument(name):
    function = getattr(plot, name)
    parameters = inspect.signature(function).parameters
    assert parameters["ax"].default is None
    assert parameters["ax"].kind is inspect.Parameter.KEYWORD_ONLY
    described = function.__doc__.split("Returns\n")[0]
    for parameter in parameters:
        assert re.search(rf"^    (\w+, )*{parameter}(, \w+)* : ", described, re.MULTILINE), (
            parameter
        )
