"""The test of drift: its rate of false alarms, how soon it finds a shift, and in estimators."""

import itertools
import pickle

import numpy as np
import pytest
from scipy import stats

import fastem
from fastem import CompoundDirichlet, GaussianHMM, GaussianMixture, KalmanFilter, drift
from fastem.dirichlet.model import CompoundDirichletModel


def run(scores, alpha, weights=None):
    """The state after some scores, of batches of weight 1 unless given."""
    state, n = drift.beginning(), 0.0
    for score, weight in zip(scores, itertools.repeat(1.0) if weights is None else weights):  # noqa: B905
        n += weight
        state = drift.next_drift(state, alpha, n, weight, score)
        if state["at"] is not None:
            break
    return state


def rows(n, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) + 6.0 * rng.integers(2, size=(n, 1)) + shift


# The test itself ----------------------------------------------------------------------------------


def draw_normal(rng):
    return rng.normal(size=500), None


def draw_heavy_with_ties(rng):
    return np.round(rng.standard_cauchy(size=500)), None


def draw_exchangeable_pairs(rng):
    weights = rng.integers(1, 50, size=500).astype(float)
    return rng.normal(size=500) / np.sqrt(weights), weights


@pytest.mark.parametrize("draw", [draw_normal, draw_heavy_with_ties, draw_exchangeable_pairs])
def test_false_alarms_are_as_rare_as_said(draw):
    alpha, n_runs = 0.2, 400 if draw is draw_normal else 100
    rng = np.random.default_rng(3)
    alarms = sum(run(*_swap(draw(rng), alpha))["at"] is not None for _ in range(n_runs))
    assert alarms <= stats.binom.ppf(0.999, n_runs, alpha)


def _swap(drawn, alpha):
    scores, weights = drawn
    return scores, alpha, weights


@pytest.mark.parametrize("n", [1, 2, 7, 21, 1000])
def test_every_bet_is_fair(n):
    capital = np.array([0.4, 0.1, 0.2, 0.3])
    after = [sum(drift._after_bet(capital, rank, n, 30)) for rank in range(1, n + 1)]
    assert np.mean(after) <= 1.0 + 1e-12
    # Ranks are whole numbers, so that little is lost by rounding them up if there are many.
    assert np.mean(after) > (0.95 if n == 1000 else 0.2)


@pytest.mark.parametrize("equal", [False, True], ids=["distinct", "ties"])
def test_every_rank_is_as_likely_as_any_other(equal):
    # All orders of the same scores, ties in any order: as many of each rank.
    values = [1.0, 1.0, 2.0, 2.0] if equal else [1.0, 2.0, 3.0, 4.0]
    ranks = [
        drift._rank(np.array(order), np.ones(4), seed)
        for seed in range(100 if equal else 1)
        for order in itertools.permutations(values)
    ]
    counts = np.bincount(ranks, minlength=5)[1:] / len(ranks)
    np.testing.assert_allclose(counts, 0.25, atol=0.08 if equal else 0.0)


@pytest.mark.parametrize("n_before", [100, 600, 1490, 2005])
def test_a_shift_is_found_soon_even_where_a_reference_has_just_begun(n_before):
    delays = []
    for seed in range(20):
        rng = np.random.default_rng([seed, n_before])
        scores = np.append(rng.normal(size=n_before), rng.normal(-2.0, size=60))
        at = run(scores, 0.01)["at"]
        delays.append(np.inf if at is None else at - n_before)
    assert sum(0 < delay <= 40 for delay in delays) >= 19


def test_rising_scores_are_no_drift():
    scores = np.linspace(0.0, 5.0, 800) + np.random.default_rng(0).normal(size=800)
    assert run(scores, 0.2)["at"] is None


def test_the_means_of_small_batches_vary_more():
    rng = np.random.default_rng(0)
    # Large batches, then single rows with the same mean; and the same with a mean that is lower.
    weights = np.append(np.full(200, 100.0), np.ones(200))
    noise = rng.normal(size=400) / np.sqrt(weights)
    assert run(noise, 0.05, weights)["at"] is None
    assert run(noise - np.where(weights == 1, 2.0, 0.0), 0.05, weights)["at"] is not None


def test_impossible_data_are_the_lowest_of_all():
    scores = np.append(np.random.default_rng(0).normal(size=100), np.full(30, -np.inf))
    assert 100 < run(scores, 0.01)["at"] < 130


def test_memory_is_bounded_and_states_are_values():
    state = drift.beginning()
    for n, score in enumerate(np.random.default_rng(0).normal(size=3100)):
        before = pickle.dumps(state)
        after = drift.next_drift(state, 1e-9, n + 1.0, 1.0, score)
        if n % 100 == 0:
            assert pickle.dumps(state) == before
        assert len(after["scores"]) < drift.MEMORY
        assert drift.is_drift(after)
        state = after
    assert drift.shown(state).n_scores == 3100
    assert len(state["scores"]) >= drift.MEMORY // 2


@pytest.mark.parametrize(
    "change",
    [
        {"scores": np.zeros(3)},
        {"weights": np.array([1.0, -1.0])},
        {"scores": np.array([0.0, np.nan])},
        {"capitals": np.ones((2, 2))},
        {"n_scores": -1},
        {"n_scores": "many"},
        {"at": "now"},
        {"seen": None},
        {"more": 1},
    ],
)
def test_states_that_cannot_be_are_not(change):
    state = run([0.0, 1.0], 0.1)
    assert drift.is_drift(state)
    assert not drift.is_drift({**state, **change})
    assert not drift.is_drift(None)


# In estimators -----------------------------------------------------------------------------------


def test_an_alarm_when_data_shift_and_none_before():
    # Of so many rows no start is made again, which would begin the test again.
    model = GaussianMixture(2, random_state=0, drift_alarm=0.01).partial_fit(rows(5000))
    assert model.drift_ == drift.Drift(False, None, 0.5, 0)
    for part in np.split(rows(8000, seed=1), 160):
        model.partial_fit(part)
    assert not model.drift_.detected
    assert model.drift_.n_scores == 160
    for part in np.split(rows(2000, seed=2, shift=1.0), 40):
        model.partial_fit(part)
    found = model.drift_
    assert found.detected
    assert 13_000 < found.at <= 13_000 + 30 * 50
    assert found.evidence >= 100
    # The test has ended, until it is begun anew.
    assert model.partial_fit(rows(50)).drift_ == found
    del model.drift_
    assert not hasattr(model, "drift_")
    assert model.partial_fit(rows(50)).drift_ == drift.Drift(False, None, 0.5, 1)


def test_single_rows_of_a_stream():
    model = GaussianMixture(2, random_state=0, drift_alarm=0.01, batch_size=1)
    model.partial_fit(rows(500))
    # A start is made again when there are twice as many observations, which ends the test.
    n_before = model.partial_fit(rows(500, seed=3)).drift_.n_scores
    model.partial_fit(np.split(rows(700, seed=1), 700))
    assert (model.drift_.detected, model.drift_.n_scores) == (False, n_before + 700)
    model.partial_fit(np.split(rows(100, seed=2, shift=3.0), 100))
    assert 1700 < model.drift_.at < 1800


def test_what_the_first_model_was_made_of_does_not_test_it():
    model = GaussianMixture(2, random_state=0, drift_alarm=0.01, batch_size=100)
    model.partial_fit(iter(np.split(rows(12_000), 12)))
    # The first 10,000 rows of a stream make the start, and each of its arrays has a score.
    assert model.drift_.n_scores == 2


@pytest.mark.parametrize(
    ("estimator", "data"),
    [
        (GaussianMixture(2, random_state=0), rows(120)),
        (GaussianHMM(2, random_state=0), list(rows(480).reshape(120, 4, 2))),
        (KalmanFilter(n_dim_state=2, random_state=0), list(rows(480).reshape(120, 4, 2))),
    ],
    ids=["mixture", "hmm", "kalman"],
)
def test_the_test_goes_on_to_the_bit_after_files_and_pickles(estimator, data, tmp_path):
    model = with_alarm(estimator).partial_fit(data[:60])
    for i in range(60, 100):
        model.partial_fit(data[i : i + 1])
    fastem.save(model, tmp_path / "model")
    again = [fastem.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))]
    assert [other.drift_ for other in again] == [model.drift_] * 2
    for i in range(100, 120):
        for each in (model, *again):
            each.partial_fit(data[i : i + 1])
    # The start was made again from more of them.
    assert 20 < model.drift_.n_scores < 60
    assert model.drift_.evidence != 0.5
    assert [other.drift_ for other in again] == [model.drift_] * 2


def with_alarm(estimator):
    return pickle.loads(pickle.dumps(estimator)).set_params(drift_alarm=0.01)


def test_fit_and_turning_it_off_end_the_test():
    X = rows(300)
    model = GaussianMixture(2, random_state=0, drift_alarm=0.1).fit(X).partial_fit(X)
    assert model.drift_.n_scores == 1
    assert not hasattr(model.set_params(drift_alarm=None).partial_fit(X), "drift_")
    model.set_params(drift_alarm=0.1).partial_fit(X)
    assert model.drift_.n_scores == 1
    assert not hasattr(model.fit(X), "drift_")


def test_a_call_that_fails_leaves_the_test():
    model = GaussianMixture(2, random_state=0, drift_alarm=0.1).partial_fit(rows(300))
    model.partial_fit(rows(50))
    before = model.drift_

    def broken():
        yield rows(2000)
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        model.partial_fit(broken())
    assert model.drift_ == before


@pytest.mark.parametrize("alarm", [0.0, 1.0, -0.1, 2, "often", np.nan])
def test_bad_settings_are_refused(alarm):
    with pytest.raises(ValueError, match="drift_alarm"):
        GaussianMixture(2, drift_alarm=alarm).partial_fit(rows(50))
    model = GaussianMixture(2).partial_fit(rows(50)).set_params(drift_alarm=alarm)
    with pytest.raises(ValueError, match="drift_alarm"):
        model.partial_fit(rows(50))


def test_a_model_without_progressive_scores_says_so(monkeypatch):
    learn = CompoundDirichletModel.learn

    def silent(self, *arguments):
        # A model of one's own need not compute them.
        return learn(self, *arguments)._replace(log_likelihood=np.nan)

    monkeypatch.setattr(CompoundDirichletModel, "learn", silent)
    X = np.random.default_rng(0).poisson(3.0, size=(50, 4)) + 1
    assert not hasattr(CompoundDirichlet().partial_fit(X), "history_")
    model = CompoundDirichlet(drift_alarm=0.1)
    with pytest.raises(ValueError, match="progressive log-likelihood"):
        model.partial_fit(X)
    assert not hasattr(model, "alpha_")
