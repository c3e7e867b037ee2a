"""Pictures are drawn without a screen, each in a figure of its own."""

import matplotlib
import pytest

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def no_figures_are_left():
    from matplotlib import pyplot

    pyplot.close("all")
    yield
    pyplot.close("all")
