"""``fastem reproduce``: claims from hand-made curves, data sets, and whole runs of tiny ones."""

import gzip
import json
import re
import sys
from importlib import import_module
from urllib.error import URLError

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fastem.cli.main import main
from fastem.experiments import (
    NAMES,
    Size,
    bars,
    datasets,
    dirichlet,
    hmm,
    kalman,
    report,
    reproduce,
)
from fastem.experiments.claims import above, never_above, overtakes, stable
from fastem.experiments.gradient_hmm import GradientHMM, gradient
from fastem.experiments.inline_hmm import InlineHMM
from fastem.experiments.learning import distance, places
from fastem.experiments.result import Claim, Curve, Figure, Level, Result

# Claims ---------------------------------------------------------------------------------------


def test_a_curve_overtakes_a_level_where_its_mean_first_does():
    curve = Curve("online", [0, 10, 20, 40, 80], [[9, 8, 6, 3, 2], [9, 8, 4, 3, 2]])
    claim = overtakes(curve, Level("one step", [4.0, 6.0]), about=20)
    assert claim.held
    assert (claim.measured, claim.rule) == ("after 20 sequences", "by 60 sequences")
    assert claim.paper == "after about 20 sequences"
    assert not overtakes(curve, Level("one step", [2.5]), about=20).held  # at 80, over 3 times 20
    assert overtakes(curve, Level("one step", [2.5]), about=30).held
    never = overtakes(curve, Level("one step", [1.0]), about=20)
    assert (never.held, never.measured) == (False, "never")


def test_how_far_the_end_is_above_a_level():
    curve = Curve("online", [0, 1], [[300.0, 103.0], [300.0, 101.0]])
    assert above(curve, Level("ten steps", [100.0]), 2.0, "close").held
    assert "2 % above 100.00" in above(curve, Level("ten steps", [100.0]), 2.0, "close").measured
    assert not above(curve, Level("ten steps", [100.0]), 1.9, "close").held
    # Losses may be negative: of the size, not of the value.
    low = Curve("online", [0, 1], [[0.0, -99.0]])
    assert "1 % above" in above(low, Level("ten steps", [-100.0]), 2.0, "close").measured
    assert "below" in above(low, Level("ten steps", [-90.0]), 0.0, "close").measured
    assert above(low, Level("ten steps", [-90.0]), 0.0, "close").held


def test_the_spread_over_learning_rates():
    curves = [Curve(f"η₀ = {i}", [0, 1], [[5.0, end]]) for i, end in enumerate((50.0, 51.0, 52.5))]
    assert stable(curves, 5.0, "there").held
    assert not stable(curves, 4.9, "there").held
    assert stable(curves, 5.0, "there").measured.startswith("5 % apart")
    far = [Curve(f"η₀ = {i}", [0, 1], [[5.0, end]]) for i, end in enumerate((50.0, 180.0))]
    assert stable(far, 5.0, "there").measured.startswith("260 % apart")


def test_entropic_at_or_below_averaging():
    one = Curve("entropic", [0, 1, 2], [[5, 3, 1], [5, 3, 3]])
    equal = Curve("averaging", [0, 1, 2], [[5, 3, 2], [5, 3, 2]])
    assert never_above(one, equal, "synchronization", "better").held
    better = Curve("averaging", [0, 1, 2], [[5, 2.9, 2], [5, 3, 2]])
    claim = never_above(one, better, "synchronization", "better")
    assert (claim.held, claim.measured) == (False, "at 1 of 2 synchronizations")


def test_places_are_from_nothing_to_all():
    at = places(2000)
    assert at[:4] == [0, 1, 2, 3]
    assert at[-1] == 2000
    assert at == sorted(set(at))


# The report -----------------------------------------------------------------------------------


def some_result(name="some", held=True, reading="", main=True):
    curve = Curve("online <η>", [0.0, 1.0, 2.0], [[3.0, 2.0, 1.0], [3.5, 2.5, 1.2]])
    figure = Figure("some", "A title", "steps", [curve], [Level("batch & co", [1.5, 1.7])])
    claims = [Claim("it <falls>", "by 2 & more", held, "it <plunges>", "by 1 or more")]
    return Result(
        name, "some", "An experiment", "quick", 2, {"data": "none"}, [figure], claims,
        reading=reading, main=main,
    )  # fmt: skip


def test_results_come_back_from_json():
    result = some_result()
    again = Result.from_json(result.to_json())
    assert again == result
    assert_allclose(again.figures[0].curves[0].mean, [3.25, 2.25, 1.1])
    assert_allclose(again.figures[0].curves[0].spread, [0.25, 0.25, 0.1])


def both_readings():
    """The other reading first, as no report shows them."""
    other = some_result("other", False, "another reading", False)
    return [other, some_result("main", True, "one reading")]


def test_the_page_shows_everything_and_needs_nothing_else(tmp_path):
    page = report.write_page(both_readings(), tmp_path).read_text()
    assert page.count("<svg") == 2
    assert "it &lt;falls&gt;" in page and "by 2 &amp; more" in page
    assert "it &lt;plunges&gt;" in page and "held if: by 1 or more" in page
    assert "1 of 1 claims held with main readings, 0 of 1 with other readings" in page
    assert '<span class="held">held</span>' in page
    assert '<span class="not">not held</span>' in page
    assert 0 < page.index("An experiment: one") < page.index("An experiment: another")
    assert not re.search(r"<(script|link|img|iframe)|url\(http|@import", page)
    for target in re.findall('href="#([^"]+)"', page):
        assert f'id="{target}"' in page


def test_the_end_says_what_was_claimed_and_found_before_it_counts():
    lines = report.summary(both_readings()).splitlines()
    start = lines.index("An experiment (2 starts)")
    assert lines[start + 1 :] == [
        "  * it <falls>",
        "    the paper                  it <plunges> [held here if: by 1 or more]",
        "    one reading      held      by 2 & more",
        "    another reading  NOT held  by 2 & more",
        "",
        "In all: 1 of 1 claims held with main readings, 0 of 1 with other readings.",
    ]
    assert "two readings" in " ".join(lines[:start])
    alone = report.summary([some_result(held=False)])
    assert "reading" not in alone
    assert "    found      NOT held  by 2 & more" in alone
    assert alone.endswith("In all: 0 of 1 claims held.")
    assert "small run" in alone
    large = some_result()
    large.size = "default"
    assert "small run" not in report.summary([large])
    assert report.tally(both_readings()[:1]) == "with other readings, 0 of 1 claims held"


def test_lines_on_the_screen_are_not_longer_than_wanted():
    result = some_result()
    result.claims[0].measured = ", ".join(f"{n} for η₀ = {n / 10}" for n in range(30))
    lines = report.summary([result], width=60).splitlines()
    assert max(map(len, lines[1:])) <= 60
    assert not any(line.endswith(("=", "η₀")) for line in lines)


# Runs -----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_runs(name, tmp_path, capsys):
    assert main(["reproduce", name, "--quick", "--out", str(tmp_path)]) == 0
    screen = capsys.readouterr().out
    wanted = import_module(f"fastem.experiments.{name.replace('-', '_')}").names(Size("quick", 1))
    assert {path.stem for path in tmp_path.glob("*.json")} == set(wanted)
    results = [Result.from_json((tmp_path / f"{one}.json").read_text()) for one in wanted]
    assert [result.main for result in results] == [True, False][: len(results)]
    assert len({tuple(c.text for c in result.claims) for result in results}) == 1
    for result in results:
        assert result.experiment == name
        assert (result.size, result.n_starts) == ("quick", 1)
        assert all(claim.paper and claim.rule for claim in result.claims)
        for claim in result.claims:
            assert ("held" if claim.held else "NOT held") in screen
        for figure in result.figures:
            assert (tmp_path / f"{figure.name}.png").read_bytes().startswith(b"\x89PNG")
            for curve in figure.curves:
                losses = np.array(curve.losses)
                assert losses.shape == (1, len(curve.x))
                assert np.isfinite(losses).all()
            shown = [curve for curve in figure.curves if curve.shown]
            assert all(curve.final < curve.mean[0] for curve in shown)  # something was learned
        assert result.title in (tmp_path / "report.html").read_text()
    assert screen.rindex("In all: ") > screen.rindex("the paper")
    if name == "dirichlet":
        path = tmp_path / f"{wanted[0]}.json"
        path.write_text(path.read_text().replace(results[0].title, "Kept as it was"))
        assert main(["reproduce", name, "--quick", "--resume", "--out", str(tmp_path)]) == 0
        assert capsys.readouterr().out.count("kept from before") == 2
        assert "Kept as it was" in (tmp_path / "report.html").read_text()


def test_a_result_of_another_size_is_not_kept(tmp_path):
    for name in ("dirichlet-moments", "dirichlet", "dirichlet-other"):
        (tmp_path / f"{name}.json").write_text(some_result(name).to_json())
    results = reproduce(["dirichlet"], Size("quick", 1), tmp_path, resume=True)
    assert [result.name for result in results] == ["dirichlet-moments", "dirichlet-drawn"]
    assert {result.title for result in results} == {"Compound Dirichlet distribution"}


def test_a_main_reading_was_chosen_by_the_numbers_that_the_paper_prints():
    """The rule of docs/reproduction.md, for one truth and one start."""
    for experiment in (kalman, dirichlet):
        distances = []
        for reading in experiment.READINGS:
            found = experiment.last_losses(reading, seed_of_truth=1, n_starts=1)
            assert found.keys() == experiment.PRINTED.keys()
            distances.append(distance(found, experiment.PRINTED))
        assert np.argmin(distances) == 0
    assert_allclose(distance({1: np.e, 2: 1.0}, {1: 1.0, 2: np.e**2}), 1.5)


def test_the_unit_reading_has_unit_covariances():
    unit, rows = hmm.READINGS
    X = unit.data(600, seed=3)
    model = unit.first_model(X, 0)
    assert_array_equal(model.covars_, np.repeat(np.eye(4)[None], 4, axis=0))
    assert not np.allclose(model.means_, unit.first_model(X, 1).means_)
    # The last row of each sequence is of the absorbing state alone.
    ends = np.array([x[-1] for x in X])
    assert_allclose(np.cov(ends, rowvar=False), np.eye(4), atol=0.25)
    other = rows.first_model(X, 0)
    assert_allclose(other.covars_[1], np.cov(np.concatenate(X), rowvar=False))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["nothing"], "no experiment 'nothing'; choose from hmm, kalman, dirichlet, mixture"),
        (["--starts", "0"], "--starts must be 1 or more"),
        (["--data", "/no/such/folder"], "there is no folder /no/such/folder"),
    ],
)
def test_bad_arguments(arguments, message, tmp_path, capsys):
    assert main(["reproduce", *arguments, "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


# Data sets ------------------------------------------------------------------------------------


def test_a_data_folder_without_the_data(tmp_path, capsys):
    arguments = ["mixture", "--full", "--data", str(tmp_path), "--out", str(tmp_path / "out")]
    assert main(["reproduce", *arguments]) == 2
    message = capsys.readouterr().err
    assert "fashion-mnist is not in the data folder" in message
    assert "train-images-idx3-ubyte.gz does not exist" in message


def test_no_network(monkeypatch, tmp_path, capsys):
    def fail(*_, **__):
        raise URLError("no route to host")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fail)
    assert main(["reproduce", "mixture", "--full", "--out", str(tmp_path)]) == 2
    message = capsys.readouterr().err
    assert "fashion-mnist could not be downloaded (URLError" in message
    assert "--data DIR" in message


def test_formats(tmp_path):
    rng = np.random.default_rng(0)
    quantitative = rng.integers(-500, 3000, size=(5, 10)).astype(np.int16)
    wilderness, soil = np.array([0, 1, 2, 3, 0]), np.array([39, 0, 7, 7, 1])
    np.savez(tmp_path / "covtype.npz", quantitative=quantitative, wilderness=wilderness,
             soil=soil, cover=np.ones(5))  # fmt: skip
    X = datasets.load("covtype", tmp_path)
    assert X.shape == (5, 54)
    assert_array_equal(X[:, :10], quantitative)
    assert_array_equal(X[:, 10:14].argmax(axis=1), wilderness)
    assert_array_equal(X[:, 14:].argmax(axis=1), soil)
    assert_array_equal(X[:, 10:].sum(axis=1), 2)

    images = rng.integers(256, size=(3, 28, 28)).astype(np.uint8)
    (tmp_path / "fashion-mnist").mkdir()
    path = tmp_path / "fashion-mnist/train-images-idx3-ubyte.gz"
    head = np.array([2051, 3, 28, 28], ">i4").tobytes()
    path.write_bytes(gzip.compress(head + images.tobytes()))
    assert_array_equal(datasets.load("fashion-mnist", tmp_path), images.reshape(3, -1))

    pixels = rng.integers(256, size=(4, 3072)).astype(np.uint8)
    np.save(tmp_path / "cifar-10.npy", pixels)
    assert_array_equal(datasets.load("cifar-10", tmp_path), pixels)


def test_files_that_are_cut_short(tmp_path):
    (tmp_path / "fashion-mnist").mkdir()
    path = tmp_path / "fashion-mnist/train-images-idx3-ubyte.gz"
    whole = gzip.compress(np.array([2051, 3, 28, 28], ">i4").tobytes() + bytes(3 * 784))
    for content in (whole[:-12], gzip.compress(b"\0" * 64), b"not gzip"):
        path.write_bytes(content)
        with pytest.raises(datasets.DataMissing, match="cannot be read as fashion-mnist"):
            datasets.load("fashion-mnist", tmp_path)
    np.save(tmp_path / "cifar-10.npy", np.zeros((4, 3071), np.uint8))
    with pytest.raises(datasets.DataMissing, match=r"shape is \(4, 3071\)"):
        datasets.load("cifar-10", tmp_path)
    (tmp_path / "covtype.npz").write_bytes(b"PK\x03\x04")
    with pytest.raises(datasets.DataMissing, match="cannot be read as covtype"):
        datasets.load("covtype", tmp_path)


# The inline learner ---------------------------------------------------------------------------


def naive_inline(sequences, start, transitions, means, covariances, beta, patience, reg_covar):
    """Cappé's recursion with the paths of all states written out, by plain sums."""
    K, D = means.shape
    where = np.full(K, 1.0 / K)
    rho = [_nothing(K, D) for _ in range(K)]
    t = 0
    for sequence in sequences:
        for n, row in enumerate(sequence):
            t += 1
            gamma = t**-beta
            last = n == len(sequence) - 1
            density = np.array([
                np.exp(-0.5 * (row - m) @ np.linalg.solve(c, row - m)) / np.sqrt(np.linalg.det(c))
                for m, c in zip(means, covariances, strict=True)
            ])  # fmt: skip
            density[np.arange(K) == K - 1] *= last
            density[np.arange(K) < K - 1] *= not last
            if n == 0:
                came = np.repeat(where[:, None], K, axis=1)
                filtered = start * density
            else:
                came = where[:, None] * transitions
                filtered = came.sum(axis=0) * density
                came = came / np.maximum(came.sum(axis=0), 1e-300)
            new = []
            for k in range(K):
                T = _nothing(K, D)
                if n == 0:
                    T["start"][k] = 1
                else:
                    T["transitions"][:, k] = came[:, k]
                T["steps"][k], T["sums"][k], T["squares"][k] = 1, row, np.outer(row, row)
                new.append({
                    name: (1 - gamma) * sum(came[j, k] * rho[j][name] for j in range(K))
                    + gamma * T[name]
                    for name in T
                })  # fmt: skip
            rho, where = new, filtered / filtered.sum()
            if t > patience:
                s = {name: sum(where[k] * rho[k][name] for k in range(K)) for name in rho[0]}
                start = s["start"] / s["start"].sum()
                transitions = np.vstack([
                    s["transitions"][:-1] / s["transitions"][:-1].sum(axis=1, keepdims=True),
                    transitions[-1:],
                ])  # fmt: skip
                means = s["sums"] / s["steps"][:, None]
                second = s["squares"] / s["steps"][:, None, None]
                outer = means[:, :, None] * means[:, None, :]
                covariances = second - outer + reg_covar * np.eye(D)
    return start, transitions, means, covariances


def _nothing(K, D):
    shapes = {"start": K, "transitions": (K, K), "steps": K, "sums": (K, D), "squares": (K, D, D)}
    return {name: np.zeros(shape) for name, shape in shapes.items()}


def test_the_inline_learner_is_cappes():
    rng = np.random.default_rng(0)
    means = 3 * rng.normal(size=(3, 2))
    sequences = [means[[*rng.integers(2, size=n), 2]] + rng.normal(size=(n + 1, 2))
                 for n in rng.integers(1, 6, size=40)]  # fmt: skip
    given = (
        np.array([0.5, 0.4, 0.1]),
        np.array([[0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.0, 0.0, 1.0]]),
        means + 0.5 * rng.normal(size=(3, 2)),
        np.repeat(2 * np.eye(2)[None], 3, axis=0),
    )
    learner = InlineHMM(*given, 0.7, patience=20, reg_covar=1e-2)
    for sequence in sequences:
        learner.learn(sequence)
    naive = naive_inline(sequences, *given, 0.7, 20, 1e-2)
    for mine, theirs in zip(learner.parameters, naive, strict=True):
        assert_allclose(mine, theirs, rtol=1e-6, atol=1e-8)
    assert np.linalg.norm(learner.parameters[2] - means) < np.linalg.norm(given[2] - means)


# Gradient ascent ------------------------------------------------------------------------------


def test_the_gradient_is_that_of_the_log_likelihood():
    unit, rows = hmm.READINGS
    X = unit.data(5, seed=1)
    start = rows.first_model(unit.data(50, seed=2), 0)
    data = start._check_data(X[:1], reset=False)
    first = start._model()
    factors = np.linalg.cholesky(start.covars_ + np.diag([0.1, 0.7, 0.3, 0.2]))
    values = {
        "start": np.log(np.maximum(start.startprob_, 1e-300)),
        "transitions": np.log(np.maximum(start.transmat_, 1e-300)),
        "means": start.means_,
        "factors": factors,
        "log_diagonals": np.log(np.einsum("kii->ki", factors)),
    }

    def model(values):
        found = np.tril(values["factors"], -1)
        np.einsum("kii->ki", found)[:] = np.exp(values["log_diagonals"])
        weights = {name: np.exp(values[name]) for name in ("start", "transitions")}
        return first.with_parameters({
            "startprob": weights["start"] / weights["start"].sum(),
            "transmat": weights["transitions"] / weights["transitions"].sum(axis=1)[:, None],
            "means": values["means"],
            "covariances": found @ found.transpose(0, 2, 1),
        })  # fmt: skip

    here = model(values)
    slopes = gradient(here, values["means"], factors, here.expect(data).statistics)
    rng = np.random.default_rng(0)
    for name, value in values.items():
        direction = rng.normal(size=value.shape)
        if name == "factors":
            direction = np.tril(direction, -1)
        ends = [
            float(model(values | {name: value + h * direction}).expect(data).log_likelihood)
            for h in (1e-5, -1e-5)
        ]
        assert_allclose((ends[0] - ends[1]) / 2e-5, (slopes[name] * direction).sum(), rtol=1e-5)


def test_small_steps_climb_and_large_ones_leave_a_model():
    unit, _ = hmm.READINGS
    X = unit.data(60, seed=1)
    start = unit.first_model(X, 0)
    data = start._check_data(X, reset=False)
    at = [0, 30, 60]
    small = hmm.gradient_losses(start, X, data, at, 0.01, 0.5)
    assert small[0] > small[1] > small[2]
    assert np.isfinite(hmm.gradient_losses(start, X, data, at, 1e3, 0.0)).all()
    # One step of no size is none.
    assert_allclose(hmm.gradient_losses(start, X, data, at, 0.0, 0.5), small[0])


def test_absorbing_states_and_impossible_starts_stay_what_they_are():
    unit, _ = hmm.READINGS
    X = unit.data(20, seed=1)
    start = unit.first_model(X, 0)
    learner = GradientHMM(start._model(), start.means_, start.covars_, 0.1, 0.5)
    for x in X:
        learner.learn(start._check_data([x], reset=False))
    assert learner.model.startprob[3] == 0.0
    assert_array_equal(learner.model.transmat[3], [0, 0, 0, 1])
    assert_allclose(learner.model.transmat.sum(axis=1), 1.0)
    assert not np.allclose(learner.model.transmat, start.transmat_)


def test_progress_bars_count_on_a_terminal_and_say_nothing_elsewhere(capsys, monkeypatch):
    for is_terminal in (True, False):
        monkeypatch.setattr(sys.stderr, "isatty", lambda told=is_terminal: told)
        with bars(2, "something") as bar:
            bar.update()
            bar.update()
            if is_terminal:
                assert bar.n == bar.total == 2
        assert ("something" in capsys.readouterr().err) == is_terminal


def test_curves_are_plain_json(tmp_path):
    report.write(some_result(), tmp_path)
    content = json.loads((tmp_path / "some.json").read_text())
    assert content["figures"][0]["curves"][0]["losses"] == [[3.0, 2.0, 1.0], [3.5, 2.5, 1.2]]
    assert content["claims"][0] == {
        "text": "it <falls>", "measured": "by 2 & more", "held": True,
        "paper": "it <plunges>", "rule": "by 1 or more",
    }  # fmt: skip
