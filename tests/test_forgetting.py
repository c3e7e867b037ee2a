"""A half-life for streams that drift."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad

import fastem
from fastem import Decay, GaussianMixture
from fastem.learning_rate import Clock, Forgetting, schedule


def log_kept(half_life, first, weight):
    """The logarithm of what a batch leaves of the past, one observation's step after another."""
    floor = 1.0 - 2.0 ** (-1.0 / half_life)
    memory = 100.0
    crossing = memory * ((2.0 / (memory * floor)) ** (1 / 0.8) - 1.0)

    def decline(n):
        return math.log1p(-max(2.0 / memory * (1.0 + n / memory) ** -0.8, floor))

    last = first + weight
    edges = [first, *([crossing] if first < crossing < last else []), last]
    return sum(quad(decline, a, b, epsabs=1e-12)[0] for a, b in pairwise(edges))


@pytest.mark.parametrize("half_life", [2.0, 10.0, 100.0, 3000.0, 1e9])
@pytest.mark.parametrize("first", [0.0, 17.5, 5000.0])
def test_a_batch_forgets_as_its_observations_would(half_life, first):
    weights = np.array([1.0, 0.3, 0.0, 40.0, 700.0])
    etas, clock = schedule(Forgetting(half_life), Clock(0.0, first), weights, 1.0)
    n = first
    for eta, weight in zip(etas, weights, strict=True):
        assert -math.log1p(eta) == pytest.approx(
            log_kept(half_life, n, weight), rel=1e-9, abs=1e-15
        )
        n += weight
    assert clock.observations == n


def test_an_observation_counts_half_after_the_half_life():
    (eta,), _ = schedule(Forgetting(50.0), Clock(0.0, 1e6), np.array([50.0]), 50.0)
    assert 1.0 / (1.0 + eta) == pytest.approx(0.5)


@pytest.mark.parametrize("cut", [[1.0] * 60, [60.0], [0.5, 30.0, 29.5]])
def test_how_observations_are_cut_forgets_alike(cut):
    etas, _ = schedule(Forgetting(20.0), Clock(), np.array(cut), 1.0)
    whole, _ = schedule(Forgetting(20.0), Clock(), np.array([60.0]), 1.0)
    assert np.log1p(etas).sum() == pytest.approx(np.log1p(whole[0]), rel=1e-12)


def test_a_long_half_life_is_the_automatic_rate():
    weights = np.array([3.0, 100.0])
    etas, _ = schedule(Forgetting(1e12), Clock(), weights, 1.0)
    assert etas.tolist() == pytest.approx(schedule("auto", Clock(), weights, 1.0)[0].tolist())


def test_a_model_follows_data_that_move():
    rng = np.random.default_rng(0)
    before, after = rng.normal(size=(5000, 2)), rng.normal(size=(300, 2)) + 4.0
    errors = []
    for half_life in (None, 100.0):
        model = GaussianMixture(1, covariance_type="diag", forgetting=half_life).fit(before)
        for row in after:
            model.partial_fit(row[None])
        errors.append(np.abs(model.means_ - 4.0).max())
    assert errors[1] < 1.0 < errors[0]


@pytest.mark.parametrize("rate", [0.1, Decay(), lambda t: 1 / t])
def test_a_rate_given_by_hand_excludes_it(rate):
    model = GaussianMixture(2, learning_rate=rate, forgetting=10.0)
    with pytest.raises(ValueError, match="learning_rate='auto' or forgetting=None"):
        model.partial_fit(np.ones((1, 2)))


@pytest.mark.parametrize("half_life", [0, -1.0, "long"])
def test_a_half_life_is_positive(half_life):
    with pytest.raises(ValueError, match="forgetting"):
        GaussianMixture(2, forgetting=half_life).partial_fit(np.ones((30, 2)))


@pytest.mark.parametrize("half_life", [1e240, 1e250, 1e308])
def test_a_half_life_without_end_is_the_default_rate(half_life):
    X = np.random.default_rng(0).normal(size=(60, 2))
    for batch_size in (None, 7):
        settings = {"random_state": 0, "batch_size": batch_size}
        plain = GaussianMixture(2, **settings).partial_fit(X).partial_fit(X)
        model = GaussianMixture(2, forgetting=half_life, **settings).partial_fit(X).partial_fit(X)
        np.testing.assert_allclose(model.means_, plain.means_, rtol=1e-12)


def test_files_keep_it(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = GaussianMixture(2, forgetting=30, random_state=0).partial_fit(X)
    fastem.save(model, tmp_path / "model")
    again = fastem.load(tmp_path / "model")
    assert again.partial_fit(X).means_.tolist() == model.partial_fit(X).means_.tolist()
