"""``fastem bench``: arithmetic of timings, agreement, tables. No time is asserted."""

import argparse
import importlib
import io
import json
import logging
import os
import pickle
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from tqdm import tqdm

from fastem.bench import (
    command,
    compare,
    compiling,
    machine,
    peer_tables,
    peers,
    picture,
    quick,
    results,
    rows,
    small,
    sweep,
    table,
    throughput,
    worker,
)  # fmt: skip
from fastem.bench.compare import agree, compare_sides
from fastem.bench.documents import DocumentsShape
from fastem.bench.hidden_markov import HMMShape, path_log_probability
from fastem.bench.kalman import KalmanShape
from fastem.bench.measured import Measured
from fastem.bench.mixtures import MixtureShape
from fastem.bench.rows import OURS, ROWS, Bar, Row, chosen
from fastem.bench.side import Disagreement, Side, difference
from fastem.bench.timing import Plan, Times, best_of, interleave, plan, ratio, seconds
from fastem.bench.worker import WorkerError, Workers
from fastem.cli.main import main
from fastem.parallel import n_threads


class Clock:
    """A clock that work moves."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def fit(self, each, once=0.0, log=None, name=None):
        """A run whose iterations take ``each`` seconds, and the rest ``once``."""

        def run(n_iter):
            self.now += once + each * (1 if n_iter is None else n_iter)
            if log is not None:
                log.append((name, n_iter))
            return n_iter

        return run

    def timed(self, *arguments, **options):
        """The same, but it returns its seconds."""
        run = self.fit(*arguments, **options)
        return lambda n_iter: seconds(run, n_iter, clock=self)[0]


# Timing ------------------------------------------------------------------------------------


def test_seconds_and_best_of_use_the_clock():
    clock = Clock()
    took, result = seconds(clock.fit(2.0), 3, clock=clock)
    assert (took, result) == (6.0, 3)
    lengths = iter([5.0, 3.0, 4.0])

    def work():
        clock.now += next(lengths)

    assert best_of(work, 3, clock=clock) == 3.0


def test_an_iteration_is_the_best_long_run_less_the_best_short_one():
    times = Times([15.0, 11.0], [2.0, 3.0], 4)
    assert times.best == (11.0 - 2.0) / 4
    assert times.each == [13.0 / 4, 8.0 / 4]
    whole = Times([7.0, 5.0], [])
    assert whole.best == 5.0
    assert whole.each == [7.0, 5.0]


@pytest.mark.parametrize("once", [0.0, 2.5])
def test_what_happens_once_does_not_count(once):
    clock = Clock()
    timed = clock.timed(0.01, once)
    how = plan(timed, 0.5)
    times = interleave({"a": timed}, {"a": how})["a"]
    assert times.best == pytest.approx(0.01)
    assert all(each == pytest.approx(0.01) for each in times.each)


def test_plan_makes_quick_fits_longer_and_slow_ones_fewer():
    clock = Clock()
    short = plan(clock.timed(0.001), 0.002)
    assert short.few == 1
    assert short.more == 61
    assert short.repeats == 3
    middle = plan(clock.timed(0.1), 0.2)
    assert middle.more == 4
    before = clock.now
    slow = plan(clock.timed(30.0), 60.0)
    assert (slow.few, slow.more, slow.repeats) == (1, 2, 1)
    assert clock.now == before, "what is slow is not run again to make a plan"
    assert plan(None, 7.0, iterates=False, budget=15.0) == Plan(None, None, 2)


def test_sides_take_turns_and_the_slow_one_leaves_early():
    clock, log = Clock(), []
    runs = {name: clock.timed(1.0, log=log, name=name) for name in "ab"}
    plans = {"a": Plan(1, 3, 2), "b": Plan(None, None, 1)}
    times = interleave(runs, plans)
    assert log == [("a", 3), ("a", 1), ("b", None), ("a", 3), ("a", 1)]
    assert times["a"].best == 1.0
    log.clear()
    times = interleave(runs, plans, {"b": 9.0})
    assert [name for name, _ in log] == ["a"] * 4
    assert times["b"].long == [9.0]


def test_ratio_and_spread():
    ours, peer = Times([1.0, 2.0], []), Times([10.0, 12.0, 9.0], [])
    found = ratio(ours, peer)
    assert found.ratio == 9.0
    assert (found.least, found.most) == (6.0, 10.0)
    disturbed = ratio(Times([1.5, 3.0], [2.0, 1.0]), Times([9.0, 9.0], [1.0, 1.0]))
    assert (disturbed.least, disturbed.most) == (4.0, 4.0)


# Agreement ---------------------------------------------------------------------------------


def _side(clock, each, value, **options):
    return Measured(Side(clock.fit(each), lambda state: value, **options), clock)


def test_difference():
    assert difference(-2.0, -2.0 - 2e-6) == pytest.approx(1e-6, rel=1e-3)
    assert difference([1.0, 5.0], [1.0, 4.0]) == 0.25
    assert difference(np.nan, 1.0) == np.inf
    assert difference(1.0, np.nan) == np.inf
    assert difference([1.0], [1.0, 2.0]) == np.inf


def test_agreement_fails_when_it_should():
    clock = Clock()
    ours = _side(clock, 1.0, -3.0)
    assert agree("x", ours, _side(clock, 1.0, -3.0))["agreement"] == 0.0
    for wrong in (-3.0001, np.nan, np.inf):
        with pytest.raises(Disagreement, match="fastem and x differ"):
            agree("x", ours, _side(clock, 1.0, wrong))
    agree("x", ours, _side(clock, 1.0, -3.0001, tolerance=1e-3))


def test_a_side_that_was_stopped_may_be_behind_but_not_ahead():
    clock = Clock()
    ours = _side(clock, 1.0, -3.0, iterates=False)
    behind = _side(clock, 1.0, -4.0, iterates=False, stopped=lambda state: True)
    assert agree("x", ours, behind)["agrees"] == "in the end"
    ahead = _side(clock, 1.0, -2.0, iterates=False, stopped=lambda state: True)
    with pytest.raises(Disagreement):
        agree("x", ours, ahead)


def test_answers_are_compared_after_the_same_iterations():
    clock = Clock()
    ours = Measured(Side(clock.fit(1.0), lambda n_iter: -1.0 - n_iter))
    ours.seconds(5)
    at_start = Side(clock.fit(1.0), lambda n_iter: -1.0 - 5 * n_iter, agrees_after=0)
    assert agree("x", ours, Measured(at_start))["agrees"] == "at the start"
    with pytest.raises(Disagreement, match="after 2 iterations"):
        agree("x", ours, Measured(Side(at_start.run, at_start.answer)))


def test_what_disagrees_or_fails_is_named_and_not_timed():
    clock = Clock()

    def fails(n_iter):
        raise RuntimeError("no such thing\nat all")

    log = []
    wrong = Measured(Side(clock.fit(1.0, log=log, name="wrong"), lambda state: 7.0), clock)
    sides = {
        "right": _side(clock, 0.4, -3.0, note="n"), "wrong": wrong,
        "broken": Measured(Side(fails, lambda state: -3.0), clock),
    }  # fmt: skip
    bars = {"right": Bar(3, 5), "wrong": Bar(), "broken": Bar()}
    found = compare_sides(_side(clock, 0.1, -3.0), sides, bars)
    assert found["peers"].keys() == {"right"}
    right = found["peers"]["right"]
    assert right["ratio"] == pytest.approx(4.0)
    assert (right["bar"], right["goal"], right["note"]) == (3, 5, "n")
    assert len(found["failures"]) == 2
    assert "fastem and wrong differ" in found["failures"][0]
    assert found["failures"][1] == "broken raised RuntimeError: no such thing"
    assert log == [("wrong", 2)], "a side that disagrees is not timed"


def test_a_machine_too_busy_to_measure_on_is_said_so():
    clock = Clock()

    def run(n_iter):
        # Long fits come out shorter than short ones.
        clock.now += 10.0 / n_iter

    side = Measured(Side(run, lambda state: 1.0), clock)
    found = compare_sides(side, {"x": side}, {"x": Bar()})
    assert found["peers"] == {}
    assert "too busy" in found["failures"][0]


# Rows --------------------------------------------------------------------------------------


def test_rows_name_known_tasks_and_peers():
    assert {row.task for row in ROWS} <= OURS.keys()
    assert {name for row in ROWS for name in row.peers} == {*peers.DISTRIBUTIONS, "Armadillo"}
    assert len({str(row) for row in ROWS}) == len(ROWS)


def test_peers_can_do_what_rows_ask_of_them():
    there = peers.installed()
    asked = {(name, row.task) for row in ROWS for name in row.peers}
    for name, task in asked:
        if there[name] is not None and name in ("scikit-learn", "SciPy", "hmmlearn"):
            assert callable(getattr(peers.find(name), task))


def test_rows_are_chosen_by_any_word_of_their_description():
    assert chosen([]) == ROWS
    assert {row.task for row in chosen(["viterbi"])} == {"hmm_decode"}
    assert len(chosen(["Viterbi", "tied"])) == 3
    assert chosen(["nothing like it"]) == []


def test_useful_flops():
    assert MixtureShape("full", 10, 3, 2).useful_flops == 2 * 10 * 2 * 9
    assert MixtureShape("diag", 10, 3, 2).useful_flops == 8 * 10 * 2 * 3
    assert HMMShape(2, 5, 3, 4).useful_flops == 10 * (8 * 3 * 4 + 6 * 9)
    assert DocumentsShape(10, 3, 5).useful_flops is None


def test_shapes_give_problems_of_their_size():
    for shape in (
        MixtureShape("tied", 60, 3, 2), HMMShape(6, 5, 3, 2), HMMShape(40, 5, 3, 2, ragged=True),
        KalmanShape(4, 6, 2, 3), DocumentsShape(50, 8, 10),
    ):  # fmt: skip
        problem = shape.problem()
        n = np.prod(problem.X.shape[:-1]) if np.ndim(problem.X) == 3 else problem.X.shape[0]
        assert n == shape.n_observations
        if problem.lengths is not None:
            assert problem.lengths.sum() == shape.n_observations
            assert problem.lengths.min() >= 1


def test_log_probability_of_paths():
    problem = HMMShape(3, 4, 2, 2).problem()
    rng = np.random.default_rng(0)
    states = rng.integers(2, size=12)
    total = 0.0
    start = problem.start
    for n in range(3):
        for t in range(4):
            k, x = states[4 * n + t], problem.X[4 * n + t]
            if t == 0:
                total += np.log(start["startprob"][k])
            else:
                total += np.log(start["transmat"][states[4 * n + t - 1], k])
            for i in range(2):
                v = start["covars"][k, i]
                total -= 0.5 * (x[i] - start["means"][k, i]) ** 2 / v
                total -= 0.5 * np.log(2 * np.pi * v)
    assert path_log_probability(problem, states) == pytest.approx(total / 12)


_SMALL = [
    Row("GMM", "mixture_em", MixtureShape("full", 500, 3, 2), {"scikit-learn": Bar(1, 2)}),
    Row("GMM", "mixture_em", MixtureShape("tied", 500, 3, 2), {"scikit-learn": Bar()}),
    Row("HMM", "hmm_em", HMMShape(20, 6, 2, 2, "full"), {"hmmlearn": Bar()}),
    Row("HMM", "hmm_em", HMMShape(20, 6, 2, 2, ragged=True), {"hmmlearn": Bar()}),
    Row("HMM", "hmm_score", HMMShape(20, 6, 2, 2), {"hmmlearn": Bar()}),
    Row("HMM", "hmm_decode", HMMShape(20, 6, 2, 2), {"hmmlearn": Bar()}),
    Row("Kalman", "kalman_em", KalmanShape(1, 30, 2, 3), {"pykalman": Bar()}),
    Row("Kalman", "kalman_smooth", KalmanShape(1, 30, 2, 3), {"statsmodels": Bar()}),
    Row("Pólya", "dirichlet_fit", DocumentsShape(200, 4, 20), {"SciPy": Bar()}),
]


@pytest.fixture(scope="module")
def workers():
    with Workers() as workers:
        yield workers


@pytest.mark.parametrize("row", _SMALL, ids=str)
def test_a_small_row_is_measured_and_both_sides_agree(row, workers):
    (peer,) = row.peers
    if peers.installed()[peer] is None:
        pytest.skip(f"{peer} is not installed")
    found = compare.compare(row, workers, repeats=1)
    # On a busy machine a row so small may not be measurable; what is not is said.
    assert not [message for message in found["failures"] if "too busy" not in message]
    if found["peers"]:
        assert found["peers"][peer]["agreement"] <= 1e-8
        assert found["seconds"] > 0


# Missing peers -----------------------------------------------------------------------------


def test_missing_peers_are_named(monkeypatch, capsys, tmp_path):
    none = dict.fromkeys(peers.installed(), None)
    monkeypatch.setattr(peers, "installed", lambda: none)
    names = {"scikit-learn": Bar(), "mlpack": Bar()}
    row = Row("GMM", "mixture_em", MixtureShape("full", 500, 3, 2), names)
    monkeypatch.setattr(rows, "ROWS", [row])
    monkeypatch.setattr("fastem.bench.machine.matrix_product_rate", lambda: 1e9)
    assert main(["bench", "--peers", "--rows", "GMM, N=500", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "scikit-learn is not installed: not measured" in printed
    assert "Armadillo" not in printed, "no row that was asked for needs it"
    assert "Not installed, and so not measured: scikit-learn, mlpack." in printed
    assert "Not installed, and so not measured" in (tmp_path / "bench.md").read_text()
    assert json.loads((tmp_path / "bench.json").read_text())["missing"] == [
        "scikit-learn",
        "mlpack",
    ]


# Tables ------------------------------------------------------------------------------------


def _results(**changes):
    it = {
        "seconds": 1.0, "ratio": 20.0, "spread": [18.0, 25.5], "bar": 15, "goal": 40,
        "stopped": False, "note": "", "agreement": 2e-13, "agrees": "after 2 iterations",
        "our answer": -1.0, "answer": -1.0, **changes,
    }  # fmt: skip
    row = {
        "name": "GMM full, N=3, scikit-learn", "work": "GMM full", "shape": "N=3",
        "data": "synthetic", "seconds": 0.05, "iterates": True, "n_observations": 3,
        "useful_flops": 1e9, "peers": {"scikit-learn": it}, "missing": [], "failures": [],
    }  # fmt: skip
    machine = {
        "busy": 0.0, "cpu": "a processor", "cores": 2, "python": "3.12",
        "matrix_product_rate": 4e10,
        "versions": {"fastem": "0.1", "numpy": None},
    }  # fmt: skip
    return {
        "machine": machine, "rows": [row], "small": [], "sweep": [], "missing": [],
        "versions": {"scikit-learn": "1.6"},
    }  # fmt: skip


def _line(**changes):
    return table.markdown(_results(**changes)).splitlines()[2]


def test_table():
    text = table.everything(_results())
    assert text.splitlines()[2] == (
        "| GMM full | N=3 | synthetic | scikit-learn | 1 | 0.05 | 20× (18.0–25.5) | 15× | 40× | "
        "2e-13 | 50% |"
    )
    assert len({line.count("|") for line in text.splitlines()[:3]}) == 1
    assert (
        "a processor, 2 cores, Python 3.12; fastem 0.1, scikit-learn 1.6; matrix product 40 GF/s"
        in text
    )


def test_a_busy_machine_is_named():
    results = _results()
    results["machine"]["busy"] = 0.4
    assert "2 cores, while other programs used 40% of them" in table.everything(results)
    assert 0.0 <= machine.busy(0.01) <= 1.0


def test_rows_that_lose_stay_and_say_so():
    assert "**below bar** 14×" in _line(ratio=14.0)
    assert "**slower** 0.50×" in _line(ratio=0.5)
    assert "**" not in _line(ratio=15.0)
    assert "– | – |" in _line(bar=None, goal=None)


def test_notes_failures_and_stopped_peers_are_shown():
    text = table.everything(_results(note="it does less", stopped=True))
    assert "scikit-learn (1)" in text
    assert "\n1. It does less.\n" in text
    assert "> 20×" in text
    assert "stopped before the end" in text
    found = {**_results(), "missing": ["mlpack"]}
    found["rows"][0]["failures"] = ["it differs"]
    text = table.everything(found)
    assert "**Not measured:** GMM full, N=3, scikit-learn: it differs" in text
    assert "Not installed, and so not measured: mlpack." in text
    assert "at the start" in _line(agrees="at the start")


def _small_row(**changes):
    return {
        "name": "small, x", "work": "x", "shape": "1 row", "peer": "hmmlearn", "bar": 1.5,
        "goal": 4, "seconds": 2e-5, "peer seconds": 8.1e-5, "ratio": 4.04, "spread": [4.0, 4.2],
        "failures": [], **changes,
    }  # fmt: skip


def test_table_of_small_inputs():
    alone = {"peer": None, "bar": 1e-4, "goal": 5e-5, "seconds": 2e-3}
    found = {**_results(), "small": [_small_row(), _small_row(**alone)]}
    first, second = table.small_markdown(found).splitlines()[2:]
    assert first == "| x | 1 row | hmmlearn | 81 µs | 20 µs | 4× (4.0–4.2) | 1.5× | 4× |"
    assert second == "| x | 1 row | – | – | **above bar** 2 ms | – | 100 µs | 50 µs |"
    assert table.small_markdown(found) in table.everything(found)


def _curve(*ratios, method="fit", estimator="KalmanFilter"):
    cells = [
        {"size": 10**i, "seconds": 1e-3, "peer seconds": r * 1e-3, "ratio": r, "spread": [r, r]}
        for i, r in enumerate(ratios)
    ]
    return {
        "name": f"sweep, {estimator}, {method}", "estimator": estimator, "method": method,
        "peer": "pykalman", "cells": cells, "failures": [],
    }  # fmt: skip


def test_the_table_of_the_sweep_has_every_cell_that_loses():
    found = {**_results(), "sweep": [_curve(0.5, 20.0, 300.0), _curve(4.0, method="smooth")]}
    text = table.sweep_markdown(found)
    assert "| KalmanFilter | pykalman | 4 | 20× | 0.50×: `fit`, 1 | 1 |" in text
    assert "| KalmanFilter | `fit` | 1 | 500 µs | 1 ms | **slower** 0.50× (0.5–0.5) |" in text
    assert text.count("**slower**") == 1
    found["sweep"] = [_curve(2.0)]
    assert "No cell is slower" in table.sweep_markdown(found)


def test_readme_shows_few_rows_and_how_many_lose(monkeypatch):
    monkeypatch.setattr(
        table,
        "SHOWN",
        [("rows", "GMM full, N=3", "scikit-learn"), ("small", "small, x", "hmmlearn")],
    )
    found = {**_results(), "small": [_small_row()], "sweep": [_curve(0.5, 20.0)]}
    text = table.summary(found)
    assert "| GMM full | N=3 | scikit-learn | 1 s | 50 ms | **20×** |" in text
    assert "| x | 1 row | hmmlearn | 81 µs | 20 µs | **4×** |" in text
    assert "Of 4 comparisons, from one row to 10, " in text
    assert "1 came out slower: KalmanFilter `fit` at 1 (0.50×)." in text
    found["sweep"] = []
    assert "none came out slower." in table.summary(found)
    found["sweep"] = [_curve(0.5, *[0.7] * 8)]
    assert "9 came out slower, most of all KalmanFilter `fit` at 1 (0.50×)." in table.summary(found)


def test_readme_shows_rows_that_exist():
    names = {
        "rows": [str(row) for row in ROWS], "small": [str(row) for row in small.SMALL],
    }  # fmt: skip
    assert len(table.SHOWN) == 8
    for part, begins, peer in table.SHOWN:
        (name,) = [name for name in names[part] if name.startswith(begins)]
        assert peer in name


def test_tables_go_between_the_marks(tmp_path):
    path = tmp_path / "README.md"
    begin, end = "<!-- a: generated -->", "<!-- end of a -->"
    path.write_text(f"above\n{begin}\nold\n{end}\nbelow\n", encoding="utf-8")
    for text in ("| new ×|", "| newer |"):
        table.write_into(path, "a", text)
        assert path.read_text(encoding="utf-8") == f"above\n{begin}\n{text}\n{end}\nbelow\n"
    for wrong in ("no marks", f"{end} {begin}", f"{begin * 2} {end}"):
        path.write_text(wrong)
        with pytest.raises(ValueError, match="once each"):
            table.write_into(path, "a", "x")
        assert path.read_text() == wrong


def test_this_repository_has_places_for_all_that_is_written(tmp_path):
    (tmp_path / "docs").mkdir()
    for name in ("README.md", "docs/performance.md"):
        text = (Path(__file__).parents[2] / name).read_text(encoding="utf-8")
        assert "sizes.png" in text
        (tmp_path / name).write_text(text, encoding="utf-8")
    written = table.write_into_checkout({**_results(), "sweep": [_curve(2.0, 3.0)]}, tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in written] == [
        "README.md", "docs/performance.md", "docs/figures/sizes.png",
    ]  # fmt: skip
    assert "none came out slower" in (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "No cell is slower" in (tmp_path / "docs/performance.md").read_text(encoding="utf-8")


def test_every_method_has_a_color_in_the_picture():
    drawn = [method for group in picture.GROUPS for method in group.split(", ")]
    assert sorted(drawn) == sorted({curve.method for curve in sweep.CURVES})


# What is kept ------------------------------------------------------------------------------


def test_results_are_kept_in_order_and_replaced(tmp_path):
    assert results.load(tmp_path) == results.empty()
    found = results.empty()
    order = ["a", "b", "c"]
    for name, value in (("c", 1), ("a", 2), ("c", 3)):
        results.put(found, "rows", {"name": name, "value": value}, order)
        results.save(found, tmp_path)
    assert [(it["name"], it["value"]) for it in found["rows"]] == [("a", 2), ("c", 3)]
    assert results.load(tmp_path) == found
    results.put(found, "rows", {"name": "b"}, ["b", "c"])
    assert [it["name"] for it in found["rows"]] == ["b", "c"], "rows that are no more are forgotten"


def test_sizes_that_are_not_measured_again_stay():
    found = results.empty()
    for sizes in ([1, 10, 100], [3, 10]):
        cells = [{"size": size, "seconds": 1e-3, "of": len(sizes)} for size in sizes]
        results.put(found, "sweep", {"name": "a", "cells": cells}, ["a"])
    (curve,) = found["sweep"]
    assert [(cell["size"], cell["of"]) for cell in curve["cells"]] == [
        (1, 3), (3, 2), (10, 2), (100, 3),
    ]  # fmt: skip
    job = peer_tables.Job("sweep", "a", (), None, (1, 3))
    assert job.is_done(found)
    assert not job._replace(sizes=(1, 30)).is_done(found)
    curve["cells"][-1]["peer seconds"] = 5.0
    assert job._replace(sizes=(1, 1000)).is_done(found), "the curve has ended"
    assert not job._replace(sizes=(30, 1000)).is_done(found)
    assert not job._replace(name="b").is_done(found)


def test_a_run_is_resumed_and_writes_the_checkout(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("fastem.bench.machine.matrix_product_rate", lambda: 1e9)
    measured = []

    def measure(row, *arguments):
        measured.append(str(row))
        return {**_results()["rows"][0], "peers": {}}

    monkeypatch.setattr(compare, "compare", measure)
    for path in ("README.md", "docs/performance.md"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        marks = table.SUMMARY if path == "README.md" else table.TABLE
        (tmp_path / path).write_text(f"<!-- {marks}: generated -->\n<!-- end of {marks} -->\n")
    out = ["--peers", "--out", str(tmp_path / "out")]
    assert main(["bench", *out, "--rows", "GMM tied"]) == 0
    assert len(measured) == 1
    checkout = ["--checkout", str(tmp_path)]
    assert main(["bench", *out, "--rows", "tied", "GMM spherical", "--sizes", "0"]) == 2
    words = ["--rows", "GMM tied", "GMM spherical"]
    assert main(["bench", *out, *words, "--resume", *checkout]) == 0
    assert len(measured) == len(set(measured)) == 2, "what is there is not measured again"
    assert len(results.load(tmp_path / "out")["rows"]) == 2
    assert "Measured on" in (tmp_path / "README.md").read_text()


# Processes ---------------------------------------------------------------------------------


class Echo(NamedTuple):
    """A task that says where it runs."""

    fails: str = ""

    def side(self, library):
        if self.fails == "at once":
            raise RuntimeError("no such thing\nat all")
        if self.fails == "dies":
            os._exit(3)
        print("what is printed does not disturb")
        return Side(lambda n: n, lambda n: [n or 0, os.getpid()], tolerance=0.5, note=library)


@pytest.fixture
def here_too(monkeypatch):
    """Other processes find what is defined in this file."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


def test_each_library_has_a_process_of_its_own(here_too):
    with Workers() as workers:
        one, other = workers.side("a", Echo()), workers.side("b", Echo())
        assert (one.note, one.tolerance, one.iterates) == ("a", 0.5, True)
        assert one.seconds(2) >= 0.0
        assert one.best(0.0, 3) >= 0.0
        (n, here), (m, there) = one.answer(2), other.answer(3)
        assert (n, m) == (2, 3)
        assert len({here, there, os.getpid()}) == 3
        assert one.stopped(2) is False
        assert workers.side("a", Echo()).answer(4) == [4, here], "a process serves many tasks"


def test_a_process_that_fails_says_so_and_one_that_dies_is_replaced(here_too):
    with Workers() as workers:
        with pytest.raises(WorkerError, match=r"^x raised RuntimeError: no such thing$"):
            workers.side("x", Echo("at once"))
        with pytest.raises(WorkerError, match="process of x ended with code 3"):
            workers.side("x", Echo("dies"))
        assert workers.side("x", Echo()).answer(1)[0] == 1


def test_a_row_goes_on_without_the_side_that_fails(here_too):
    with Workers() as workers:
        sides, failures = compare.prepared(workers, ["x"], Echo("at once"))
    assert sides == {}
    assert failures == ["x raised RuntimeError: no such thing"]


def test_fastem_uses_all_cores_in_its_process():
    # It would use one in a process of multiprocessing.
    with Workers() as workers:
        assert workers["fastem"].ask("call", n_threads, None) == n_threads(-1)


def test_come_to_rest_ends():
    begun = time.perf_counter()
    worker.come_to_rest(0.01)
    assert time.perf_counter() - begun < 5.0


# Short calls -------------------------------------------------------------------------------


def test_measured_sides_time_calls_and_keep_answers():
    clock, log = Clock(), []
    run = clock.fit(2.0, log=log, name="run")
    side = Measured(Side(run, lambda state: state, n_calls=4), clock)
    assert side.seconds(3) == 1.5
    assert side.answer(3) == 3
    assert side.answer(5) == 5
    assert side.answer(3) == 3
    assert [n_iter for _, n_iter in log] == [3, 5], "answers are kept"
    log.clear()
    assert side.best(5.0) == 0.5
    assert len(log) == 3
    side.best(0.0)
    assert len(log) == 4
    side.best(100.0, most=2)
    assert len(log) == 6


def test_short_calls_take_turns_and_must_agree():
    clock, log = Clock(), []

    def side(name, each, value=1.0, **options):
        run = clock.fit(each, log=log, name=name)
        return Measured(Side(run, lambda state: value, iterates=False, **options), clock)

    found = quick.measure(side("ours", 0.001), side("peer", 0.004), turns=3, turn=0.0)
    assert found["seconds"] == pytest.approx(0.001)
    assert found["ratio"] == pytest.approx(4.0)
    assert found["spread"] == pytest.approx([4.0, 4.0])
    names = "".join(name[0] for name, _ in log)
    assert names.endswith("opopop")
    log.clear()
    quick.measure(side("ours", 0.001), side("peer", 1.0), turns=3, turn=0.0)
    assert sum(name == "peer" for name, _ in log) == 3, "first run, plan, and one turn"
    with pytest.raises(Disagreement, match="differ by 1"):
        quick.measure(side("ours", 1.0), side("peer", 1.0, 0.5))
    assert quick.measure(side("ours", 0.001)).keys() == {"seconds"}


# The sweep and small inputs ----------------------------------------------------------------


def _once_per_class():
    seen = {}
    for curve in sweep.CURVES:
        seen.setdefault((curve.estimator.split(",")[0], curve.method), curve)
    return list(seen.values())


@pytest.mark.parametrize("curve", _once_per_class(), ids=str)
def test_both_sides_of_a_curve_agree(curve, caplog):
    if peers.installed()[curve.peer] is None:
        pytest.skip(f"{curve.peer} is not installed")
    caplog.set_level(logging.ERROR, logger="hmmlearn")
    size = curve.sizes([1, 3, 30, 100])[-1]
    found = [Measured(sweep.Cell(curve, size).side(name)) for name in ("fastem", curve.peer)]
    assert difference(*(side.answer() for side in found)) <= found[1].tolerance


def test_curves_and_small_rows_are_named_once_and_can_be_sent():
    for known in (sweep.CURVES, small.SMALL):
        assert len({str(it) for it in known}) == len(known)
    for task in [sweep.Cell(sweep.CURVES[0], 3), *(row.task for row in small.SMALL)]:
        assert pickle.loads(pickle.dumps(task)) == task
    row = compare.Posed(ROWS[0])
    assert pickle.loads(pickle.dumps(row)) == row


def test_curves_cover_every_method_of_the_peers_from_the_least_size():
    sizes = {curve.method: curve.sizes() for curve in sweep.CURVES}
    assert sizes["predict"] == list(sweep.SIZES)
    assert sizes["filter_update"] == [1]
    assert sizes["fit_predict"][0] == 3
    estimators = {curve.estimator for curve in sweep.CURVES}
    assert len(estimators) == 10
    assert len(sweep.chosen(["GMMHMM"])) == 7
    assert {row.peer for row in small.chosen(["small"])} == {
        "scikit-learn", "hmmlearn", "pykalman", None,
    }  # fmt: skip


@pytest.mark.parametrize("row", [row for row in small.SMALL if row.peer is None], ids=str)
def test_what_fastem_does_alone_runs(row):
    assert Measured(row.task.side("fastem")).best(0.0) > 0.0


def test_a_curve_ends_where_calls_take_long(monkeypatch):
    monkeypatch.setattr(peers, "installed", lambda: {"hmmlearn": "1"})
    found = iter([0.1, 0.9, 0.1])
    monkeypatch.setattr(
        quick, "measure", lambda *sides: {"seconds": 0.1, "peer seconds": next(found), "ratio": 1}
    )
    workers = SimpleNamespace(side=lambda library, task: None)
    job = peer_tables.chosen(["sweep, GMMHMM, predict,"])[0]
    cells = job.measure(workers, None, lambda message: None)["cells"]
    assert [cell["size"] for cell in cells] == [1, 3]


def test_cells_that_disagree_are_failures(monkeypatch):
    monkeypatch.setattr(peers, "installed", lambda: {"hmmlearn": "1"})

    def disagree(*sides):
        raise Disagreement("the answers differ by 1")

    monkeypatch.setattr(quick, "measure", disagree)
    workers = SimpleNamespace(side=lambda library, task: None)
    job = peer_tables.chosen(["sweep, GMMHMM, predict,"], [1, 3])[0]
    found = job.measure(workers, None, lambda message: None)
    assert found["cells"] == []
    assert found["failures"] == ["1: the answers differ by 1", "3: the answers differ by 1"]


# Armadillo ---------------------------------------------------------------------------------


def test_armadillo_needs_a_compiler_and_its_headers(monkeypatch, tmp_path):
    armadillo = peers.find("Armadillo")
    monkeypatch.setenv("CXX", str(tmp_path / "none"))
    assert armadillo.version.__wrapped__() is None
    monkeypatch.setenv("CXX", "false")
    assert armadillo.version.__wrapped__() is None
    assert "libarmadillo-dev" in peers.needs("Armadillo")
    assert armadillo._SOURCE.exists(), "the program's source is part of the package"


@pytest.mark.parametrize("kind", ["full", "diag"])
def test_armadillo_agrees(kind, workers):
    if peers.installed()["Armadillo"] is None:
        pytest.skip("Armadillo is not installed")
    shape = MixtureShape(kind, 500, 3, 2, n_start_rows=50)
    found = compare.compare(Row("GMM", "mixture_em", shape, {"Armadillo": Bar()}), workers, None, 1)
    assert not [message for message in found["failures"] if "too busy" not in message]


# The command -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--repeats", "0"], "--repeats must be 1 or more"),
        (["--peers", "--data", "no/such/folder"], "there is no no/such/folder"),
        (["--peers", "--rows", "nothing like it"], "no row contains"),
        (["--rows", "GMM"], "go with --peers"),
        (["--resume"], "go with --peers"),
        (["--peers", "--sizes", "0"], "--sizes must be 1 or more"),
        (["--peers", "--resume"], "give both"),
        (["--peers", "--checkout", "."], "give both"),
    ],
)
def test_bad_arguments_are_refused(arguments, said, capsys):
    assert main(["bench", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_failures_make_the_exit_code(monkeypatch, capsys):
    found = {**_results()["rows"][0], "failures": ["x differs"], "peers": {}}
    monkeypatch.setattr(compare, "compare", lambda *arguments: found)
    monkeypatch.setattr("fastem.bench.machine.matrix_product_rate", lambda: 1e9)
    assert main(["bench", "--peers", "--rows", "GMM tied", "--repeats", "1"]) == 1
    assert "GMM tied, N=200,000 D=16 K=16, scikit-learn: x differs" in capsys.readouterr().out


def test_the_command_is_added_with_its_options():
    parser = argparse.ArgumentParser()
    command.add_to(parser.add_subparsers())
    options = parser.parse_args(["bench", "--peers", "--rows", "HMM", "GMM"])
    assert options.run is command.run
    assert options.rows == ["HMM", "GMM"]


def test_throughput(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("fastem.bench.machine.matrix_product_rate", lambda: 1e9)
    tasks = [
        throughput.Task(
            "GaussianMixture", MixtureShape("diag", 2000, 3, 2),
            {"EM iteration": throughput.mixtures.em, "score": throughput._scored},
        )
    ]  # fmt: skip
    results = throughput.measure(1, tasks)
    assert capsys.readouterr().err == ""  # no bar, as it is no terminal
    text = throughput.text(results)
    assert [row["work"] for row in results["rows"]] == ["EM iteration", "score"]
    assert text.count("GaussianMixture") == 2
    assert "matrix product 1 GF/s" in text
    assert json.loads(throughput.write(results, tmp_path).read_text()) == results


# Compiling ---------------------------------------------------------------------------------

_KERNELS = """
import os
from numba import njit

@njit(cache=True)
def twice(x):
    return 2 * x

@njit(cache=True)
def half(x):
    return 0.5 * x

@njit
def uncached(x):
    return x

def call(name):
    kernel = globals()[name]
    return kernel(4), os.getpid()
"""

_SAID = "compiling kernels, once for this version: "


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """A module of kernels that were never compiled."""
    name = f"kernels_of_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(_KERNELS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("numba.config.CACHE_DIR", "")
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr("fastem.bench.machine.cores", lambda: 2)
    yield importlib.import_module(name)
    del sys.modules[name]


def _compiled(module, *names):
    """What the kernels gave, and what the bar said."""
    with tqdm(total=0, file=io.StringIO()) as bar:
        results = list(compiling.compiled(module.call, names, bar))
        assert {process for _, process in results} == {os.getpid()}
        return [value for value, _ in results], bar.desc, (bar.n, bar.total)


def test_kernels_are_compiled_in_other_processes(kernels):
    assert _compiled(kernels, "twice", "half") == ([8, 2.0], _SAID, (2, 2))
    for kernel in (kernels.twice, kernels.half):
        assert sum(kernel.stats.cache_hits.values()) == 1, "this process loads, and compiles none"


def test_without_processes_kernels_are_compiled_one_after_another(kernels, monkeypatch):
    def refused(*arguments):
        raise PermissionError("no processes here")

    monkeypatch.setattr(compiling, "_started", refused)
    assert _compiled(kernels, "twice", "half") == ([8, 2.0], _SAID, (0, 0))
    assert not kernels.twice.stats.cache_hits


def test_what_fails_in_another_process_is_done_in_this_one(kernels, monkeypatch):
    # A process cannot be sent a function without a name.
    monkeypatch.setattr(kernels, "call", lambda name: (getattr(kernels, name)(4), os.getpid()))
    assert _compiled(kernels, "twice", "half") == ([8, 2.0], _SAID, (0, 0))


def test_no_process_is_started_for_kernels_that_are_compiled(kernels, monkeypatch):
    kernels.call("twice")
    monkeypatch.setattr(compiling, "_side_by_side", lambda *_: pytest.fail("nothing to compile"))
    # What no cache could hold is no reason to start one either.
    assert _compiled(kernels, "twice", "uncached") == ([8, 4], "", (0, 0))


def test_other_processes_can_be_sent_what_is_measured():
    assert pickle.loads(pickle.dumps(throughput.TASKS)) == throughput.TASKS
    assert pickle.loads(pickle.dumps(throughput._called)) is throughput._called
