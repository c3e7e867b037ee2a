"""``verbose`` means the same in every estimator and every way of fitting."""

import logging
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fastem
from fastem import notices, progress
from fastem.callbacks import ProgressBar
from fastem.stopping import ConvergenceMonitor, StoppingRule

sys.path.insert(0, str(Path(__file__).parent))
from fits import KINDS, ROWS, SEQUENCES, WAYS, make, pieces

FIGURES = r"(log-likelihood|lower bound) -?\d\S*( \([+-]\S+\))?(, gradient \S+)?"
pytestmark = pytest.mark.filterwarnings("ignore")


class Lines(logging.Handler):
    """Keeps what the logger is told."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        assert (record.name, record.levelno) == ("fastem", logging.INFO)
        if "compiling" not in record.getMessage():
            self.lines.append(record.getMessage())


@pytest.fixture
def logged():
    """The lines of the logger, which is configured."""
    logger, handler = logging.getLogger("fastem"), Lines()
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    yield handler.lines
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.fixture
def unlogged(monkeypatch):
    """No logging is configured, whatever pytest has done."""
    monkeypatch.setattr(notices.LOGGER, "hasHandlers", lambda: False)
    monkeypatch.setattr(notices.LOGGER, "level", logging.NOTSET)


def numbers(model):
    return {name: np.asarray(value).tobytes() for name, value in model._model().parameters.items()}


def assert_same(one, other):
    assert numbers(one) == numbers(other)
    for name in ("lower_bounds_", "lower_bound_", "n_iter_", "converged_", "history_",
                 "n_observations_"):  # fmt: skip
        assert getattr(one, name, None) == getattr(other, name, None), name


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_fitting_says_the_same_and_changes_no_number(way, logged, capfd):
    name, method, act = WAYS[way]
    silent = act(name)
    assert logged == []
    brief, interval = act(name, verbose=1), list(logged)
    logged.clear()
    full, every = act(name, verbose=2), list(logged)
    logged.clear()
    assert act(name, verbose=False) and not logged
    assert capfd.readouterr() == ("", "")
    for told in (brief, full):
        assert_same(told, silent)
    what = f"{name}.{method}"
    if method == "partial_fit":
        steps, end = len(silent.history_), r"learned from \d+ observations"
        line = rf"{what}, \d+ observations: {FIGURES}"
    else:
        steps = 4 if method == "em" else silent.n_iter_
        state = "converged" if getattr(silent, "converged_", False) else "not converged"
        end = ("ended" if method == "em" else state) + r" after \d+ iterations?"
        line = rf"{what}, iteration \d+: {FIGURES}"
    end = rf"{what}: {end}, {FIGURES}, \S+ s"
    assert re.fullmatch(end, interval[-1])
    if steps < 10:
        assert len(interval) == 1
    assert re.fullmatch(end, every[-1])
    assert len(every) == steps + 1
    for said in every[:-1]:
        assert re.fullmatch(line, said)


def test_all_estimators_are_tested():
    assert {*KINDS} == {*fastem.ESTIMATORS}
    assert all("verbose" in make(name).get_params() for name in KINDS)


def test_the_interval_and_the_start_are_told(logged):
    settings = {"n_components": 2, "n_init": 2, "tol": 0.0, "max_iter": 7, "random_state": 0}
    model = fastem.GaussianMixture(**settings, verbose=1, verbose_interval=3).fit(ROWS)
    heads = [re.split(": | after", line)[0] for line in logged]
    one = "GaussianMixture.fit, start {}/2"
    assert heads == [
        head.format(start)
        for start in (1, 2)
        for head in (one + ", iteration 3", one + ", iteration 6", one)
    ]
    assert "not converged after 7 iterations" in logged[2]
    assert f"log-likelihood {model.lower_bound_:.6g}" in logged[2] + logged[5]
    # The change belongs to a start.
    logged.clear()
    fastem.GaussianMixture(**settings, verbose=2).fit(ROWS)
    firsts = [line for line in logged if "iteration 1:" in line]
    assert len(firsts) == 2 and not any("(" in line for line in firsts)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_long_fits_are_the_same_to_the_bit(kind, logged):
    mixture = {"n_components": 3, "covariance_type": kind, "random_state": 0, "tol": 1e-9}
    chain = {"n_components": 3, "covariance_type": kind, "random_state": 0, "n_iter": 40}
    for make_one, data in (
        (lambda v: fastem.GaussianMixture(**mixture, verbose=v, max_iter=300), ROWS),
        (lambda v: fastem.GaussianHMM(**chain, verbose=v), SEQUENCES),
    ):
        assert_same(make_one(0).fit(data), make_one(2).fit(data))
    assert len(logged) > 40


def test_warm_starts_and_streams_of_fit(logged):
    model = fastem.GaussianMixture(2, random_state=0, verbose=1, warm_start=True, n_init=3)
    model.fit(ROWS)
    assert len(logged) == 3
    model.fit(lambda: iter(pieces(ROWS)))
    assert len(logged) == 4
    assert logged[3].startswith("GaussianMixture.fit: converged after")


def test_without_logging_lines_go_to_standard_error(unlogged, capsys):
    fastem.GaussianMixture(2, random_state=0, verbose=2).fit(ROWS)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert lines[0].startswith("GaussianMixture.fit, iteration 1: log-likelihood ")
    assert lines[-1].startswith("GaussianMixture.fit: converged after ")


def test_who_turned_the_logger_off_sees_nothing(unlogged, capsys, monkeypatch):
    monkeypatch.setattr(notices.LOGGER, "level", logging.WARNING)
    fastem.GaussianMixture(2, random_state=0, verbose=2).fit(ROWS)
    assert capsys.readouterr() == ("", "")


def test_a_closed_standard_error_ends_no_fit(unlogged, monkeypatch):
    class Broken:
        def isatty(self):
            return False

        def write(self, text):
            raise OSError("closed")

    for stream in (Broken(), None):
        monkeypatch.setattr(sys, "stderr", stream)
        model = fastem.GaussianMixture(2, random_state=0, verbose=2).fit(ROWS)
        assert model.converged_


def test_a_silent_fit_is_not_looked_at_step_by_step(monkeypatch):
    monkeypatch.setattr(progress.Display, "__init__", None)
    calls, original = [], fastem.mixture.model.MixtureModel.iterate

    def iterate(self, data, limit, prior=None):
        calls.append(limit.n_steps)
        return original(self, data, limit, prior)

    monkeypatch.setattr(fastem.mixture.model.MixtureModel, "iterate", iterate)
    fastem.GaussianMixture(2, random_state=0, max_iter=50).fit(ROWS)
    assert calls == [50]
    assert StoppingRule(3).display is progress.SILENT


def test_too_few_rows_to_start_from(logged):
    model = fastem.GaussianMixture(5, random_state=0, verbose=1).partial_fit(ROWS[:3])
    assert not hasattr(model, "weights_")
    assert len(logged) == 1 and "too few to start" in logged[0]


def test_what_is_part_of_something_else_is_silent(logged):
    model = fastem.GaussianMixture(2, random_state=0, verbose=2).partial_fit(ROWS[:40])
    logged.clear()
    learner = model.learner()
    for row in ROWS[40:60]:
        learner.learn_one(row)
    assert logged == []
    member = fastem.GaussianHMM(1, verbose=2)
    fastem.MixtureOfModels(member, 2, random_state=0, max_iter=2).fit(SEQUENCES)
    assert logged == []


def test_monitors_of_the_user_are_told_and_print_as_they_do(logged, capsys):
    class Kept(ConvergenceMonitor):
        def report(self, log_prob):
            super().report(log_prob)
            self.told = [*vars(self).get("told", ()), log_prob]

    for kind in (Kept, ConvergenceMonitor):
        for verbose in (0, 1):
            logged.clear()
            model = fastem.GaussianHMM(2, random_state=0, n_iter=3, tol=-np.inf, verbose=verbose)
            model.monitor_ = monitor = kind(-np.inf, 3, True)
            model.fit(SEQUENCES)
            assert model.monitor_ is monitor and len(monitor.history) == 3
            assert getattr(monitor, "told", [*monitor.history]) == [*monitor.history]
            # One of both says how it goes.
            assert len(capsys.readouterr().err.splitlines()) == (0 if verbose else 3)
            assert len(logged) == verbose
            assert "_is_shown" not in vars(monitor)


class OwnHMM(fastem.hmm.BaseHMM):
    """A chain with hooks of its own."""

    def _compute_log_likelihood(self, X):
        return -0.5 * (X - np.arange(self.n_components)) ** 2

    def _get_n_fit_scalars_per_param(self):
        return None


class OwnGaussianHMM(fastem.GaussianHMM):
    """One of fastem's that is fitted by its hooks."""

    def _do_mstep(self, stats):
        super()._do_mstep(stats)


class OwnMixture(fastem.GaussianMixture):
    """One that is fitted by scikit-learn's steps."""

    def _m_step(self, X, log_resp, **given):
        super()._m_step(X, log_resp, **given)


@pytest.mark.parametrize("kind", [OwnHMM, OwnGaussianHMM])
def test_models_with_hooks(kind, logged, capfd):
    X = ROWS[:, :1] if kind is OwnHMM else ROWS
    silent = kind(2, random_state=0, n_iter=4, tol=-np.inf).fit(X)
    told = kind(2, random_state=0, n_iter=4, tol=-np.inf, verbose=2).fit(X)
    assert [*told.monitor_.history] == [*silent.monitor_.history]
    heads = [line.partition(": ")[0] for line in logged]
    name = kind.__name__
    assert heads == [*(f"{name}.fit, iteration {n}" for n in range(1, 5)), f"{name}.fit"]
    assert capfd.readouterr() == ("", "")


def test_scikit_learns_steps(logged, capfd):
    model = OwnMixture(2, n_init=2, max_iter=3, tol=0.0, random_state=0, verbose=2).fit(ROWS)
    heads = [line.partition(": ")[0] for line in logged]
    assert heads[:4] == [*(f"OwnMixture.fit, start 1/2, iteration {n}" for n in (1, 2, 3)),
                         "OwnMixture.fit, start 1/2"]  # fmt: skip
    assert len(heads) == 8
    assert "log-likelihood" in logged[3] and "_display" not in vars(model)
    assert capfd.readouterr() == ("", "")


def test_models_of_many_machines(logged):
    distributed = pytest.importorskip("distributed")
    da = pytest.importorskip("dask.array")
    from fastem.distributed import fit, fit_online

    data = da.from_array(ROWS, chunks=(60, 2))
    settings = {"n_components": 2, "random_state": 0}
    with distributed.Client(processes=False, n_workers=2, threads_per_worker=1,
                            dashboard_address=None) as client:  # fmt: skip
        logged.clear()
        fit(fastem.GaussianMixture(**settings, verbose=1), data, client=client)
        assert [line.partition(" after")[0] for line in logged] == [
            "GaussianMixture.fit: converged"
        ]
        logged.clear()
        model = fastem.GaussianMixture(**settings, verbose=2)
        fit_online(model, data, sync_every=40, client=client)
    assert re.match(r"GaussianMixture.fit_online, \d+ observations: log-likelihood", logged[0])
    assert logged[-1].startswith("GaussianMixture.fit_online: learned from 240 observations, log-")
    assert len(logged) == len(model.history_) + 1


# Bars -------------------------------------------------------------------------------------------

pty = pytest.importorskip("pty", reason="This system has no pseudo-terminals.")
from terminal import on_terminal, shown  # noqa: E402

#: What processes begin with.
BEGIN = f"""
import sys, warnings
sys.path.insert(0, {str(Path(__file__).parent)!r})
from fits import *
warnings.simplefilter("ignore")
"""


def test_every_way_shows_a_bar():
    code = BEGIN + (
        "import logging\nlogging.getLogger('fastem').setLevel(logging.WARNING)\n"
        "for name, method, act in WAYS.values():\n    act(name, verbose=1)\n"
    )
    text, status = on_terminal(code)
    assert status == 0, text
    lines = shown(text)
    assert len(lines) == len(WAYS)
    for line, (way, (name, method, _act)) in zip(lines, WAYS.items(), strict=True):
        if way.endswith("stream"):
            end = r"learned"
            counted = r" \d+ observations"
        else:
            end = r"(converged|not converged|ended|learned)"
            counted = r" \|.*\| \d+/\d+"
        pattern = rf"{name}\.{method}{counted}, {end}, {FIGURES} \[\d\d:\d\d\]"
        assert re.fullmatch(pattern, line), line


@pytest.mark.parametrize("columns", [0, 60, 200])
def test_a_bar_fits_a_terminal_and_says_which_start(columns):
    code = BEGIN + (
        "GaussianMixture = fastem.GaussianMixture\n"
        "GaussianMixture(2, n_init=2, max_iter=50, random_state=0, verbose=1).fit(ROWS)\n"
    )
    text, status = on_terminal(code, columns=columns)
    assert status == 0
    lines = [line for line in shown(text) if "compiling" not in line]
    assert len(lines) == 2
    for number, line in enumerate(lines, 1):
        assert line.startswith(f"GaussianMixture.fit, start {number}/2 |")
        assert re.search(r"\| \d+/50, converged", line)
        assert len(line) <= (columns or 80)


def test_lines_on_a_terminal_are_lines():
    code = BEGIN + "fastem.GaussianMixture(2, random_state=0, verbose=2).fit(ROWS)\n"
    text, _ = on_terminal(code)
    lines = [line for line in shown(text) if "compiling" not in line]
    assert lines[0].startswith("GaussianMixture.fit, iteration 1: log-likelihood")
    assert "converged after" in lines[-1]
    assert "|" not in text


SLOW = BEGIN + """
import time
def act(report):
    {act}
model = fastem.GaussianMixture(2, max_iter=500, tol=0.0, random_state=0, verbose=1, callback=act)
try:
    model.fit(ROWS)
except {error}:
    from tqdm import tqdm
    assert not tqdm._instances
    print("\\nclosed", file=sys.stderr)
"""  # fmt: skip


def test_an_error_closes_the_bar():
    code = SLOW.format(act="if report.n_iter == 7: 1 / 0", error="ZeroDivisionError")
    text, status = on_terminal(code)
    assert status == 0
    assert shown(text)[-1] == "closed"
    assert "7/500, log-likelihood" in text


def test_an_interrupt_closes_the_bar():
    code = SLOW.format(act="time.sleep(0.02)", error="KeyboardInterrupt")
    text, status = on_terminal(code, until="/500, log-likelihood", signal=signal.SIGINT)
    assert status == 0, text
    assert shown(text)[-1] == "closed"
    bar = [line for line in shown(text) if "500" in line]
    assert len(bar) == 1 and "converged" not in bar[0]


def test_messages_do_not_go_through_a_bar():
    act = (
        "if report.n_iter == 5: fastem.notices.tell('compiling kernels')\n"
        "    if report.n_iter == 9: fastem.notices.warn('warned', RuntimeWarning)\n"
        "    time.sleep(0.03)\n    return report.n_iter == 20"
    )
    code = SLOW.format(act=act, error="KeyboardInterrupt").replace('"ignore"', '"always"')
    for configured in ("", "import logging\nlogging.basicConfig(level=logging.INFO)\n"):
        text, status = on_terminal(configured + code)
        assert status == 0
        lines = shown(text)
        told = [line for line in lines if line.endswith("compiling kernels")]
        assert told == ["INFO:fastem:compiling kernels" if configured else "compiling kernels"]
        (warned,) = [line for line in lines if line.endswith("RuntimeWarning: warned")]
        assert "|" not in warned
        # The bar is below them, once, and above what is said of its end.
        (bar,) = [line for line in lines if "/500" in line]
        assert "20/500" in bar
        order = [lines.index(line) for line in (told[0], warned, bar)]
        assert order == sorted(order)
        assert not any("|" in line for line in lines if line != bar)


def test_compiling_beside_a_bar(tmp_path):
    code = BEGIN + (
        "notice = fastem.notices.CompilingNotice()\nfastem.notices._PATIENCE = 0.05\nimport time\n"
        "def act(report):\n    notice.begin('kalman')\n    time.sleep(0.15)\n    notice.end()\n"
        "    return report.n_iter == 3\n"
        "fastem.GaussianMixture(2, tol=0.0, random_state=0, verbose=1, callback=act).fit(ROWS)\n"
    )
    text, status = on_terminal(code)
    assert status == 0
    lines = shown(text)
    assert sum("fastem is compiling kernels for" in line for line in lines) >= 1
    assert not any("compiling" in line and "|" in line for line in lines)
    assert lines[-1].startswith("GaussianMixture.fit |")


def test_the_command_tells_of_compiling():
    code = BEGIN + (
        "from fastem.cli import fit, main\nimport time\nfastem.notices._PATIENCE = 0.05\n"
        "def batch(options):\n    notice = fastem.notices.CompilingNotice()\n"
        "    notice.begin('kalman')\n    time.sleep(0.15)\n    notice.end()\n"
        "fit._batch = batch\n"
        "raise SystemExit(main(['fit', 'kalman', 'none.csv', '-o', 'none.fastem']))\n"
    )
    text, status = on_terminal(code)
    assert status == 0
    (line,) = shown(text)
    assert line.startswith("fastem is compiling kernels for Kalman filters")


def test_logging_beside_a_terminal_leaves_the_bar():
    code = "import logging\nlogging.basicConfig(level=logging.INFO)\n" + BEGIN + (
        "fastem.GaussianMixture(2, random_state=0, verbose=1).fit(ROWS)\n"
    )  # fmt: skip
    text, _ = on_terminal(code)
    lines = [line for line in shown(text) if "compiling" not in line]
    assert len(lines) == 1 and lines[0].startswith("GaussianMixture.fit |")


def test_configured_logging_in_a_process_without_a_terminal():
    code = BEGIN + "fastem.GaussianMixture(2, random_state=0, verbose=1).fit(ROWS)\n"
    configured = "import logging\nlogging.basicConfig(level=logging.INFO)\n" + code
    for source, start in ((code, "GaussianMixture.fit: converged"),
                          (configured, "INFO:fastem:GaussianMixture.fit: converged")):  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", source], capture_output=True, text=True, check=True
        )
        lines = [line for line in done.stderr.splitlines() if "compiling" not in line]
        assert len(lines) == 1 and lines[0].startswith(start)
        assert done.stdout == ""


@pytest.mark.parametrize("verbose", [0, 1, 2])
def test_tqdm_is_imported_where_a_bar_is_shown(verbose):
    code = BEGIN + (
        f"fastem.GaussianMixture(2, random_state=0, verbose={verbose}).fit(ROWS)\n"
        "import fastem.callbacks, fastem.progress\n"
        "loaded = 'tqdm' in sys.modules\n"
        "sys.exit(3 if loaded else 0)\n"
    )
    assert on_terminal(code)[1] == (3 if verbose == 1 else 0)
    assert subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE).returncode == 0


def test_no_module_imports_tqdm_at_the_top():
    code = (
        "import sys, pkgutil, fastem, importlib\n"
        "for name in fastem.MODULES: importlib.import_module('fastem.' + name)\n"
        "for name in fastem.__all__: getattr(fastem, name)\n"
        "assert not any(name.partition('.')[0] == 'tqdm' for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ProgressBar ------------------------------------------------------------------------------------


def test_the_callback_shows_the_same_figures_and_can_be_closed():
    import io

    file = io.StringIO()
    with ProgressBar(total=4, file=file) as bar:
        model = make("GaussianMixture", n_init=2, tol=0.0, callback=bar).fit(ROWS)
        assert bar._bar.n == model.n_iter_ == 4
        last, before = model.lower_bounds_[-1], model.lower_bounds_[-2]
        assert progress.figures(last, last - before) in bar._bar.postfix
    assert bar._bar is None
    assert "GaussianMixture" in file.getvalue()
    bar.close()


def test_figures():
    assert progress.figures(-3.25) == "log-likelihood -3.25"
    assert progress.figures(-3.25, 0.5) == "log-likelihood -3.25 (+0.5)"
    assert progress.figures(-3.25, -0.5, "lower bound") == "lower bound -3.25 (-0.5)"
    assert progress.figures(float("nan"), 0.5) == ""


# Callbacks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_every_way_tells_the_callback_of_the_model_so_far(way):
    name, method, act = WAYS[way]
    seen = []

    def look(report):
        assert np.isfinite(report.log_likelihood) and report.weight > 0
        estimator = report.estimator
        assert type(estimator).__name__ == name
        score = estimator.score(KINDS[name][1])
        assert np.isfinite(score)
        if not report.within:
            seen.append((report.n_iter, report.n_observations))

    model = act(name, callback=look)
    if method == "partial_fit":
        assert [n for n, _ in seen] == [0] * len(model.history_)
        assert [n for _, n in seen] == [n for n, *_ in model.history_]
    else:
        n_iter = 4 if method == "em" else model.n_iter_
        assert [n for n, _ in seen] == list(range(1, n_iter + 1))


@pytest.mark.parametrize("way", WAYS)
def test_every_way_ends_when_the_callback_says_so(way, logged):
    name, _, act = WAYS[way]
    seen = []

    def stop(report):
        seen.append(report)
        return True

    model = act(name, callback=stop, verbose=1)
    assert len(seen) == 1
    assert len(logged) == 1
    assert model.__sklearn_is_fitted__()
