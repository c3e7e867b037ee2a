"""Kalman filters whose observations have no noise, or whose first state is hardly known."""

import itertools

import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov
from statsmodels.tsa.statespace.kalman_smoother import KalmanSmoother

import fastem

from cases.kalman import assert_same_sums, model, parameters, sums
from oracles import kalman as oracles


def coefficients(n, rng):
    """Of a polynomial whose roots lie within a circle of radius 0.95."""
    roots = []
    while len(roots) < n - 1:
        z = 0.95 * rng.uniform(0.3, 1) * np.exp(1j * rng.uniform(0, np.pi))
        roots += [z, z.conj()]
    if len(roots) < n:
        roots.append(0.95 * rng.uniform(-1, 1))
    return np.atleast_1d(np.real(np.poly(roots)))[1:]


def arma(n_ar, n_ma, kind, rng, R=0.0):
    """An ARMA model in Harvey's form: Q has rank one, and the first state is what is seen."""
    phi, theta = -coefficients(n_ar, rng), coefficients(n_ma, rng)
    d = max(n_ar, n_ma + 1)
    A = np.eye(d, k=1)
    A[:n_ar, 0] += phi
    g = np.concatenate([[1.0], theta, np.zeros(d - 1 - n_ma)])
    Q = np.outer(g, g)
    V = 100.0 * np.eye(d) if kind == "wide" else solve_discrete_lyapunov(A, Q)
    return oracles.LDS(
        m=np.zeros(d), V=0.5 * (V + V.T), A=A, b=np.zeros(d), Q=Q, C=np.eye(1, d), c=np.zeros(1),
        R=np.full((1, 1), R),
    )  # fmt: skip


def drawn(lds, T, gaps, rng):
    X = oracles.sample(lds, T, rng)[1]
    X[rng.random(T) < gaps] = np.nan
    return X


ORDERS = list(itertools.product(range(6), range(5)))


@pytest.mark.parametrize("kind", ["wide", "stationary"])
@pytest.mark.parametrize(("T", "gaps"), [(12, 0.0), (60, 0.0), (60, 0.15)])
def test_arma_models_without_noise_are_smoothed_as_statsmodels_does(kind, T, gaps):
    for number, (n_ar, n_ma) in enumerate(ORDERS):
        rng = np.random.default_rng(number)
        lds = arma(n_ar, n_ma, kind, rng)
        X = drawn(lds, T, gaps, rng)
        theirs = KalmanSmoother(k_endog=1, k_states=lds.d, k_posdef=lds.d)
        theirs.bind(X)
        theirs["design"], theirs["transition"] = lds.C, lds.A
        theirs["selection"], theirs["state_cov"], theirs["obs_cov"] = np.eye(lds.d), lds.Q, lds.R
        theirs.initialize_known(lds.m, lds.V)
        theirs.tolerance = 0
        theirs = theirs.smooth()
        kf = fastem.KalmanFilter(**parameters(lds))
        means, covariances = kf.smooth(X)
        name = f"ARMA({n_ar}, {n_ma})"
        np.testing.assert_allclose(
            means, theirs.smoothed_state.T, rtol=1e-9, atol=1e-9, err_msg=name
        )
        np.testing.assert_allclose(
            covariances, np.moveaxis(theirs.smoothed_state_cov, 2, 0), atol=1e-8, err_msg=name
        )
        assert kf.loglikelihood(X) == pytest.approx(theirs.llf, rel=1e-11), name
        assert np.linalg.eigvalsh(covariances).min() > -1e-13
        np.testing.assert_array_equal(covariances, covariances.transpose(0, 2, 1))


@pytest.mark.parametrize("gaps", [0.0, 0.2])
@pytest.mark.parametrize("R", [0.0, 1e-12, 1e-6])
def test_statistics_are_those_of_the_joint_gaussian(R, gaps):
    # Several of one length go through other code than one alone.
    for n_ar, n_ma in ((3, 2), (2, 4), (0, 3), (5, 0)):
        rng = np.random.default_rng(10 * n_ar + n_ma)
        lds = arma(n_ar, n_ma, "wide", rng, R)
        X = [drawn(lds, 9, gaps, rng) for _ in range(6)]
        exact = [oracles.exact_posterior(lds, v) for v in X]
        expected = oracles.mean_statistics(
            [oracles.statistics(lds, v, given) for v, given in zip(X, exact, strict=True)]
        )
        assert_same_sums(sums(model(lds).expect(X).statistics), expected, 1e-8)
        means, covariances, lags, _ = model(lds).infer(X, True, lags=True)
        for s, (mean, S) in enumerate(exact):
            for t in range(9):
                here = slice(t * lds.d, (t + 1) * lds.d)
                after = slice((t + 1) * lds.d, (t + 2) * lds.d)
                np.testing.assert_allclose(means[9 * s + t], mean[here], rtol=1e-8, atol=1e-8)
                np.testing.assert_allclose(covariances[9 * s + t], S[here, here], atol=1e-8)
                if t < 8:
                    np.testing.assert_allclose(lags[9 * s + t], S[after, here], atol=1e-8)


@pytest.mark.parametrize("variance", [1e4, 1e8])
@pytest.mark.parametrize("q", [1e-1, 1e-8])
@pytest.mark.parametrize("R", [1.0, 0.0])
def test_trends_of_which_nothing_is_known_at_first(variance, q, R):
    for d in (2, 3):
        rng = np.random.default_rng(d)
        Q = np.zeros((d, d))
        Q[-1, -1] = q
        if R == 0:
            Q[0, 0] = 1.0
        lds = oracles.LDS(
            m=np.zeros(d), V=variance * np.eye(d), A=np.eye(d) + np.eye(d, k=1), b=np.zeros(d),
            Q=Q, C=np.eye(1, d), c=np.zeros(1), R=np.full((1, 1), R),
        )  # fmt: skip
        X = rng.normal(size=(12, 1)).cumsum(axis=0)
        X[7] = np.nan
        _, S = oracles.exact_posterior(lds, X)
        covariances = fastem.KalmanFilter(**parameters(lds)).smooth(X)[1]
        for t in range(12):
            here = slice(t * d, (t + 1) * d)
            expected = S[here, here]
            # Beside standard deviations: a small variance is as exact as a large one.
            sd = np.sqrt(np.maximum(np.diag(expected), 0.0)) + 1e-8
            np.testing.assert_allclose(
                covariances[t] / np.outer(sd, sd), expected / np.outer(sd, sd), atol=1e-5
            )


def test_a_long_series_without_noise_stays_exact():
    rng = np.random.default_rng(0)
    lds = arma(2, 3, "wide", rng)
    X = drawn(lds, 4000, 0.0, rng)
    m = model(lds)
    means, covariances, _, _ = m.infer(X, True)
    # What is far away tells nothing: a piece of the series has the same middle.
    part, spread, _, _ = m.infer(X[:300], True)
    np.testing.assert_allclose(means[:200], part[:200], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(covariances[:200], spread[:200], atol=1e-9)
    assert np.abs(covariances[100:]).max() < 100.0
    statistics = m.expect(X).statistics
    S = statistics["observation"].scatter[0] + np.outer(
        statistics["observation"].mean[0], statistics["observation"].mean[0]
    ) * statistics["observation"].mass[0]  # fmt: skip
    np.testing.assert_allclose(S[1:, 1:], means.T @ means + covariances.sum(axis=0), rtol=1e-9)


def test_em_of_a_model_without_noise_climbs():
    rng = np.random.default_rng(3)
    lds = arma(2, 1, "stationary", rng)
    X = [drawn(lds, 40, 0.05, rng) for _ in range(5)]
    start = parameters(lds.with_(A=0.5 * lds.A, Q=2.0 * lds.Q))
    kf = fastem.KalmanFilter(
        **start, em_vars=["transition_matrices", "transition_covariance"], max_iter=20, tol=0.0
    ).fit(X)
    assert np.all(np.diff(kf.lower_bounds_) > -1e-7)
    assert kf.lower_bounds_[-1] > kf.lower_bounds_[0] + 1.0
