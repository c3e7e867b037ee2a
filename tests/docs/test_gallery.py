"""Every example of the gallery asks a question, runs without a warning, and draws something."""

import re
import runpy
from pathlib import Path

import pytest

pyplot = pytest.importorskip("matplotlib.pyplot")
pytest.importorskip("statsmodels")
pytest.importorskip("PIL")

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "docs" / "gallery").glob("plot_*.py"))


def test_there_are_examples():
    assert len(EXAMPLES) >= 16


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_asks_a_question_and_says_what_to_choose(path):
    text = path.read_text()
    title = re.match(r'"""\n(.+\?)\n(=+)\n\n\w', text)
    assert title
    assert len(title[1]) == len(title[2])
    assert "# **What to choose.** " in text


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_data_come_with_packages(path):
    text = path.read_text()
    assert re.search(r"^from (sklearn|statsmodels)\.datasets import|^import scipy$", text, re.M)
    assert not re.search(r"fetch_|https?://|get_rdataset|urlopen", text)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_draws(path, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    shown = []
    monkeypatch.setattr(pyplot, "show", lambda: shown.append(len(pyplot.get_fignums())))
    pyplot.close("all")
    runpy.run_path(str(path))
    figures = [pyplot.figure(number) for number in pyplot.get_fignums()]
    pyplot.close("all")
    assert shown == list(range(1, len(figures) + 1))
    assert all(ax.has_data() or ax.texts for figure in figures for ax in figure.axes)
    assert list(tmp_path.iterdir()) == []
