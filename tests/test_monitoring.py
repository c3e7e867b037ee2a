"""Progressive log-likelihoods, callbacks, and averages over time."""

import functools
import io
import operator
import pickle
import subprocess
import sys

import numpy as np
import pytest

import fastem
from fastem import (
    CompoundDirichlet,
    GaussianHMM,
    GaussianMixture,
    KalmanFilter,
    MixtureOfModels,
    VariationalCategoricalHMM,
    VariationalGaussianHMM,
    algebra,
)
from fastem.callbacks import EarlyStopping, ProgressBar
from fastem.monitoring import Report


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) + 6.0 * rng.integers(2, size=(n, 1))


def sequences(n, seed=0):
    return list(rows(4 * n, seed).reshape(n, 4, 2))


def symbols(n, seed=0):
    return list(np.random.default_rng(seed).integers(3, size=(n, 4, 1)))


def documents(n, seed=0):
    return np.random.default_rng(seed).poisson(3.0, size=(n, 4)) + 1


EVERY_KIND = [
    (GaussianMixture(2, random_state=0), rows),
    (GaussianHMM(2, random_state=0), sequences),
    (KalmanFilter(n_dim_state=2, random_state=0), sequences),
    (CompoundDirichlet(), documents),
    (MixtureOfModels(GaussianHMM(2, random_state=0), 2, random_state=0), sequences),
    (VariationalGaussianHMM(2, "diag", random_state=0), sequences),
    (VariationalCategoricalHMM(2, n_features=3, random_state=0), symbols),
]
every_kind = pytest.mark.parametrize(
    ("estimator", "data"), EVERY_KIND, ids=[type(kind).__name__ for kind, _ in EVERY_KIND]
)


def make(estimator, **settings):
    return pickle.loads(pickle.dumps(estimator)).set_params(**settings)


def same(one, other, rtol=0.0):
    ours, theirs = one._model().parameters, other._model().parameters
    return all(np.allclose(ours[name], theirs[name], rtol=rtol, atol=rtol) for name in ours)


# Averages -------------------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("average_from", [60, "auto"])
def test_the_average_is_the_combination_of_the_models(estimator, data, average_from):
    X = data(120)
    # With a rate of one's own, learning never begins again.
    raw = make(estimator, learning_rate=0.3)
    averaged = make(estimator, learning_rate=0.3, average_from=average_from)
    models, weights = [], []
    for first, last in ((0, 40), (40, 70), (70, 75), (75, 120)):
        raw.partial_fit(X[first:last])
        averaged.partial_fit(X[first:last])
        if average_from == "auto" or last > 60:
            models.append(raw._model())
            weights.append((last - first) * (last if average_from == "auto" else 1.0))
    sums = (model.own() * weight for model, weight in zip(models, weights, strict=True))
    total = functools.reduce(operator.add, sums) / sum(weights)
    expected, shown = models[-1].maximize(total).parameters, averaged._model().parameters
    for name, values in expected.items():
        np.testing.assert_allclose(shown[name], values, rtol=1e-6, atol=1e-8)
    assert not same(raw, averaged)


@every_kind
def test_learning_goes_on_to_the_bit_after_files_and_pickles(estimator, data, tmp_path):
    X = data(90)
    model = make(estimator, average_from=20, batch_size=10).partial_fit(X[:60])
    fastem.save(model, tmp_path / "model")
    again = [fastem.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))]
    model.partial_fit(X[60:])
    for other in again:
        assert same(other.partial_fit(X[60:]), model)
        assert getattr(other, "history_", None) == getattr(model, "history_", None)


@pytest.mark.parametrize("batch_size", [1, 30, 250])
def test_how_a_stream_is_cut_makes_no_difference_to_the_average(batch_size):
    X = rows(1000)
    make_one = functools.partial(
        GaussianMixture, 2, random_state=0, average_from=300, batch_size=batch_size, forgetting=90.0
    )
    whole = make_one().partial_fit(iter([X]))
    parts = make_one().partial_fit(iter(np.split(X, [3, 170, 171, 640])))
    assert same(whole, parts, rtol=1e-9)


def test_attributes_set_by_hand_are_what_learning_goes_on_from():
    X = rows(300)
    model = GaussianMixture(2, random_state=0, average_from=0).partial_fit(X[:200])
    model.means_ = model.means_ + 1.0
    other = GaussianMixture(2, random_state=0).partial_fit(X[:200])
    for name in ("weights_", "means_", "covariances_", "precisions_cholesky_"):
        setattr(other, name, getattr(model, name))
    raw = other.partial_fit(X[200:])._model()
    shown = model.partial_fit(X[200:])
    expected = raw.maximize(raw.own()).parameters["means"]
    np.testing.assert_allclose(shown.means_, expected, rtol=1e-9)


def test_fit_and_turning_it_off_end_an_average():
    X = rows(300)
    model = GaussianMixture(2, random_state=0, average_from=0).partial_fit(X[:200])
    shown = model.means_.copy()
    model.set_params(average_from=None)
    other = GaussianMixture(2, random_state=0).partial_fit(X[:200])
    for name in ("weights_", "means_", "covariances_", "precisions_cholesky_"):
        setattr(other, name, getattr(model, name))
    assert same(model.partial_fit(X[200:]), other.partial_fit(X[200:]))
    assert (model.means_ != shown).all()
    model.set_params(average_from=0).partial_fit(X).fit(X)
    assert not hasattr(model, "_averaging")
    assert not hasattr(model, "history_")


def test_a_learner_averages_as_partial_fit_does():
    X = rows(60)
    model = GaussianMixture(2, random_state=0, average_from=10).partial_fit(X[:30])
    learner = model.learner()
    for row in X[30:]:
        model.partial_fit(row[None])
        learner.learn_one(row)
    assert same(learner.model(), model)


# Histories and callbacks ------------------------------------------------------------------------


@every_kind
def test_the_history_is_the_log_likelihood_before_learning(estimator, data):
    X = data(60)
    model = make(estimator).partial_fit(X[:40])
    expected = model._model().expect(model._check_data(X[40:], reset=False)).log_likelihood
    model.partial_fit(X[40:])
    n_observations, weight, log_likelihood = model.history_[-1]
    assert (n_observations, weight) == (60, 20)
    assert log_likelihood == pytest.approx(expected, rel=1e-9)


def test_a_history_stays_short_and_adds_up():
    X = rows(700)
    model = GaussianMixture(2, random_state=0).partial_fit(X[:50])
    scores = []
    for row in X[50:]:
        scores.append(model.score_samples(row[None])[0])
        model.partial_fit(row[None])
    n, weights, means = np.array(model.history_).T
    assert 128 <= len(n) <= 256
    assert n[-1] == weights.sum() == 700
    inside = n > 50 + weights.max()
    first = int(n[inside][0] - weights[inside][0]) - 50
    total = (weights * means)[inside].sum()
    assert total == pytest.approx(np.sum(scores[first:]), rel=1e-9)


def test_a_callback_sees_each_batch_and_can_stop_a_stream():
    X, seen = rows(5000), []

    def watch(report):
        seen.append((report.n_observations, report.log_likelihood))
        assert np.isfinite(report.estimator.score(X[:10]))
        return len(seen) == 3

    read = []
    stream = (read.append(i) or X[i : i + 1000] for i in range(0, 5000, 1000))
    model = GaussianMixture(2, random_state=0, callback=watch)
    model.partial_fit(X[:1000])
    model.partial_fit(stream)
    assert [n for n, _ in seen] == [1000, 2000, 3000]
    assert model.n_observations_ == 3000
    assert [mean for *_, mean in model.history_] == [mean for _, mean in seen]


def test_a_callback_sees_each_iteration_and_can_stop_a_fit():
    X, seen = rows(500), []

    def watch(report):
        seen.append((report.n_iter, report.log_likelihood))
        return report.n_iter == 4

    model = GaussianMixture(3, random_state=0, tol=0.0, callback=watch).fit(X)
    assert [n for n, _ in seen] == [1, 2, 3, 4]
    assert model.n_iter_ == 4
    assert model.lower_bounds_ == [mean for _, mean in seen]


def test_a_callback_that_fails_leaves_the_estimator():
    X = rows(100)
    model = GaussianMixture(2, random_state=0).partial_fit(X)
    before = model.means_.tolist(), list(model.history_)

    def fail(report):
        raise KeyError("no")

    with pytest.raises(KeyError):
        model.set_params(callback=fail).partial_fit(X)
    assert (model.means_.tolist(), model.history_) == before


def test_files_leave_a_callback_out(tmp_path):
    model = GaussianMixture(2, random_state=0, callback=print).partial_fit(rows(50))
    fastem.save(model, tmp_path / "model")
    assert fastem.load(tmp_path / "model").callback is None


def test_blocks_are_whole_batches():
    assert [algebra.block_size(n) for n in (1, 30, 100, 250)] == [100, 120, 100, 250]


# Ready-made callbacks ---------------------------------------------------------------------------


def report(log_likelihood, n_iter=0):
    return Report(10.0, 10.0, log_likelihood, n_iter, None, None)


def test_early_stopping_waits_for_a_rise():
    stop = EarlyStopping(patience=2, min_delta=0.5)
    assert [stop(report(value)) for value in (0.0, 1.0, 1.4, 2.0, 1.0, 2.4)] == [
        False, False, False, False, False, True,
    ]  # fmt: skip
    assert (stop.best_, stop.n_waited_) == (2.0, 2)
    assert not any(EarlyStopping(patience=1)(report(float("nan"))) for _ in range(3))
    with pytest.raises(ValueError, match="patience"):
        EarlyStopping(patience=0)


def test_early_stopping_ends_a_fit():
    stop = EarlyStopping(patience=1, min_delta=1e-3)
    model = GaussianMixture(2, random_state=0, tol=0.0, max_iter=100, callback=stop).fit(rows(500))
    assert model.n_iter_ < 100
    rises = np.diff(model.lower_bounds_)
    assert rises[-1] <= 1e-3 < rises[:-1].min(initial=1.0)


def test_a_progress_bar_counts_observations():
    file = io.StringIO()
    bar = ProgressBar(total=300, file=file)
    model = GaussianMixture(2, random_state=0, callback=bar)
    for part in np.split(rows(300), 3):
        model.partial_fit(part)
    assert bar._bar.n == 300
    assert f"log-likelihood {model.history_[-1][2]:.6g}" in bar._bar.postfix
    assert "/300" in file.getvalue()
    again = pickle.loads(pickle.dumps(model)).callback
    assert (again.total, again._bar) == (300, None)


def test_a_progress_bar_counts_iterations():
    bar = ProgressBar(file=io.StringIO())
    model = GaussianMixture(3, random_state=0, callback=bar).fit(rows(300))
    assert bar._bar.n == model.n_iter_ > 1


def test_nobody_waits_for_the_progress_bar_who_shows_none():
    code = "import sys, fastem.callbacks; fastem.GaussianMixture; assert 'tqdm' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
