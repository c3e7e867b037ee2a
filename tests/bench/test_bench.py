"""``fastem bench``: arithmetic of timings, agreement, tables. No time is asserted."""

import argparse
import importlib
import io
import json
import os
import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from tqdm import tqdm

from fastem.bench import command, compare, compiling, peers, rows, table, throughput
from fastem.bench.compare import agree, compare_sides
from fastem.bench.documents import DocumentsShape
from fastem.bench.hidden_markov import HMMShape, path_log_probability
from fastem.bench.kalman import KalmanShape
from fastem.bench.mixtures import MixtureShape
from fastem.bench.rows import OURS, ROWS, Bar, Row, chosen
from fastem.bench.side import Disagreement, Side, difference
from fastem.bench.timing import Plan, Times, best_of, interleave, plan, ratio, seconds
from fastem.cli.main import main


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
    run = clock.fit(0.01, once)
    how = plan(run, 0.5, clock=clock)
    times = interleave({"a": run}, {"a": how}, clock=clock)["a"]
    assert times.best == pytest.approx(0.01)
    assert all(each == pytest.approx(0.01) for each in times.each)


def test_plan_makes_quick_fits_longer_and_slow_ones_fewer():
    clock = Clock()
    quick = plan(clock.fit(0.001), 0.002, clock=clock)
    assert quick.few == 1
    assert quick.more == 61
    assert quick.repeats == 3
    middle = plan(clock.fit(0.1), 0.2, clock=clock)
    assert middle.more == 4
    before = clock.now
    slow = plan(clock.fit(30.0), 60.0, clock=clock)
    assert (slow.few, slow.more, slow.repeats) == (1, 2, 1)
    assert clock.now == before, "what is slow is not run again to make a plan"
    assert plan(None, 7.0, iterates=False, budget=15.0) == Plan(None, None, 2)


def test_sides_take_turns_and_the_slow_one_leaves_early():
    clock, log = Clock(), []
    runs = {name: clock.fit(1.0, log=log, name=name) for name in "ab"}
    plans = {"a": Plan(1, 3, 2), "b": Plan(None, None, 1)}
    times = interleave(runs, plans, clock=clock)
    assert log == [("a", 3), ("a", 1), ("b", None), ("a", 3), ("a", 1)]
    assert times["a"].best == 1.0
    log.clear()
    times = interleave(runs, plans, {"b": 9.0}, clock=clock)
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
    return Side(clock.fit(each), lambda state: value, **options)


def test_difference():
    assert difference(-2.0, -2.0 - 2e-6) == pytest.approx(1e-6, rel=1e-3)
    assert difference([1.0, 5.0], [1.0, 4.0]) == 0.25
    assert difference(np.nan, 1.0) == np.inf
    assert difference(1.0, np.nan) == np.inf
    assert difference([1.0], [1.0, 2.0]) == np.inf


def test_agreement_fails_when_it_should():
    clock = Clock()
    ours = _side(clock, 1.0, -3.0)
    assert agree("x", ours, _side(clock, 1.0, -3.0), 2, 2)["agreement"] == 0.0
    for wrong in (-3.0001, np.nan, np.inf):
        with pytest.raises(Disagreement, match="fastem and x differ"):
            agree("x", ours, _side(clock, 1.0, wrong), 2, 2)
    agree("x", ours, _side(clock, 1.0, -3.0001, tolerance=1e-3), 2, 2)


def test_a_side_that_was_stopped_may_be_behind_but_not_ahead():
    clock = Clock()
    ours = _side(clock, 1.0, -3.0, iterates=False)
    behind = _side(clock, 1.0, -4.0, iterates=False, stopped=lambda state: True)
    assert agree("x", ours, behind, 1, 1)["agrees"] == "in the end"
    ahead = _side(clock, 1.0, -2.0, iterates=False, stopped=lambda state: True)
    with pytest.raises(Disagreement):
        agree("x", ours, ahead, 1, 1)


def test_answers_are_compared_after_the_same_iterations():
    clock = Clock()
    ours = Side(clock.fit(1.0), lambda n_iter: -1.0 - n_iter)
    at_start = Side(clock.fit(1.0), lambda n_iter: -1.0 - 5 * n_iter, agrees_after=0)
    assert agree("x", ours, at_start, 2, 2)["agrees"] == "at the start"
    with pytest.raises(Disagreement, match="after 2 iterations"):
        agree("x", ours, Side(at_start.run, at_start.answer), 2, 2)


def test_what_disagrees_or_fails_is_named_and_not_timed():
    clock = Clock()

    def fails(n_iter):
        raise RuntimeError("no such thing\nat all")

    log = []
    wrong = Side(clock.fit(1.0, log=log, name="wrong"), lambda state: 7.0)
    sides = {
        "right": _side(clock, 0.4, -3.0, note="n"), "wrong": wrong,
        "broken": Side(fails, lambda state: -3.0),
    }  # fmt: skip
    bars = {"right": Bar(3, 5), "wrong": Bar(), "broken": Bar()}
    found = compare_sides(_side(clock, 0.1, -3.0), sides, bars, clock=clock)
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

    side = Side(run, lambda state: 1.0)
    found = compare_sides(side, {"x": side}, {"x": Bar()}, clock=clock)
    assert found["peers"] == {}
    assert "too busy" in found["failures"][0]


# Rows --------------------------------------------------------------------------------------


def test_rows_name_known_tasks_and_peers():
    assert {row.task for row in ROWS} <= OURS.keys()
    assert {name for row in ROWS for name in row.peers} == peers.DISTRIBUTIONS.keys()
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


@pytest.mark.parametrize("row", _SMALL, ids=str)
def test_a_small_row_is_measured_and_both_sides_agree(row):
    (peer,) = row.peers
    if peers.installed()[peer] is None:
        pytest.skip(f"{peer} is not installed")
    found = compare.compare(row, repeats=1)
    # On a busy machine a row so small may not be measurable; what is not is said.
    assert not [message for message in found["failures"] if "too busy" not in message]
    if found["peers"]:
        assert found["peers"][peer]["agreement"] <= 1e-8
        assert found["seconds"] > 0


# Missing peers -----------------------------------------------------------------------------


def test_missing_peers_are_named(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(
        peers, "installed", lambda: dict.fromkeys(peers.DISTRIBUTIONS, None) | {"SciPy": "1"}
    )
    names = {"scikit-learn": Bar(), "mlpack": Bar()}
    row = Row("GMM", "mixture_em", MixtureShape("full", 500, 3, 2), names)
    monkeypatch.setattr(rows, "ROWS", [row])
    monkeypatch.setattr("fastem.bench.machine.matrix_product_rate", lambda: 1e9)
    assert main(["bench", "--peers", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "scikit-learn is not installed: not measured" in printed
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
        "work": "GMM full", "shape": "N=3", "data": "synthetic", "seconds": 0.05, "iterates": True,
        "useful_flops": 1e9, "peers": {"scikit-learn": it}, "missing": [], "failures": [],
    }  # fmt: skip
    machine = {
        "cpu": "a processor", "cores": 2, "python": "3.12", "matrix_product_rate": 4e10,
        "versions": {"fastem": "0.1", "numpy": None},
    }  # fmt: skip
    return {
        "machine": machine, "rows": [row], "failures": [], "missing": [],
        "versions": {"scikit-learn": "1.6"},
    }  # fmt: skip


def _line(**changes):
    return table.markdown(_results(**changes)).splitlines()[2]


def test_table():
    text = table.markdown(_results())
    assert text.splitlines()[2] == (
        "| GMM full | N=3 | synthetic | scikit-learn | 1 | 0.05 | 20× (18.0–25.5) | 15× | 40× | "
        "2e-13 | 50% |"
    )
    assert len({line.count("|") for line in text.splitlines()[:3]}) == 1
    assert (
        "a processor, 2 cores, Python 3.12; fastem 0.1, scikit-learn 1.6; matrix product 40 GF/s"
        in text
    )


def test_rows_that_lose_stay_and_say_so():
    assert "**below bar** 14×" in _line(ratio=14.0)
    assert "**slower** 0.5×" in _line(ratio=0.5)
    assert "**" not in _line(ratio=15.0)
    assert "– | – |" in _line(bar=None, goal=None)


def test_notes_failures_and_stopped_peers_are_shown():
    text = table.markdown(_results(note="it does less", stopped=True))
    assert "scikit-learn (1)" in text
    assert "\n1. It does less.\n" in text
    assert "> 20×" in text
    assert "stopped before the end" in text
    text = table.markdown({**_results(), "failures": ["GMM: differs"], "missing": ["mlpack"]})
    assert "**Not measured:** GMM: differs" in text
    assert "Not installed, and so not measured: mlpack." in text
    assert "at the start" in _line(agrees="at the start")


def test_the_table_goes_between_the_marks(tmp_path):
    path = tmp_path / "README.md"
    path.write_text(f"above\n{table.BEGIN}\nold\n{table.END}\nbelow\n", encoding="utf-8")
    for text in ("| new ×|", "| newer |"):
        table.write_into(path, text)
        assert path.read_text(encoding="utf-8") == (
            f"above\n{table.BEGIN}\n{text}\n{table.END}\nbelow\n"
        )
    for wrong in ("no marks", f"{table.END} {table.BEGIN}", f"{table.BEGIN * 2} {table.END}"):
        path.write_text(wrong)
        with pytest.raises(ValueError, match="once each"):
            table.write_into(path, "x")
        assert path.read_text() == wrong


def test_this_repository_has_the_marks():
    from pathlib import Path

    readme = Path(__file__).parents[2] / "README.md"
    text = readme.read_text(encoding="utf-8")
    assert text.index(table.BEGIN) < text.index(table.END)


# The command -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--repeats", "0"], "--repeats must be 1 or more"),
        (["--peers", "--data", "no/such/folder"], "there is no no/such/folder"),
        (["--peers", "--rows", "nothing like it"], "no row contains"),
        (["--rows", "GMM"], "go with --peers"),
    ],
)
def test_bad_arguments_are_refused(arguments, said, capsys):
    assert main(["bench", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_failures_make_the_exit_code(monkeypatch, capsys):
    found = {**_results()["rows"][0], "failures": ["x differs"], "peers": {}}
    monkeypatch.setattr(compare, "compare", lambda *arguments: found)
    monkeypatch.setattr("fastem.bench.machine.matrix_product_rate", lambda: 1e9)
    options = SimpleNamespace(
        peers=True, rows=["tied"], repeats=1, out=None, readme=None, data=None
    )
    assert command.run(options) == 1
    assert "GMM tied, N=200,000 D=16 K=16: x differs" in capsys.readouterr().out


def test_the_command_is_added_with_its_options():
    parser = argparse.ArgumentParser()
    command.add_to(parser.add_subparsers())
    options = parser.parse_args(["bench", "--peers", "--rows", "HMM", "GMM"])
    assert options.run is command.run
    assert options.rows == ["HMM", "GMM"]


def test_throughput(monkeypatch, tmp_path):
    monkeypatch.setattr("fastem.bench.machine.matrix_product_rate", lambda: 1e9)
    tasks = [
        throughput.Task(
            "GaussianMixture", MixtureShape("diag", 2000, 3, 2),
            {"EM iteration": throughput.mixtures.em, "score": throughput._scored},
        )
    ]  # fmt: skip
    results = throughput.measure(1, tasks, progress=False)
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
