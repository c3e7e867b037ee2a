"""Kalman filters whose observations have no noise, or whose first state is hardly known."""

import itertools

import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov
from statsmodels.tsa.statespace.kalman_smoother import KalmanSmoother

import fastem

from cases.kalman import assert_same_sums, model, parameters, sums
from oracles import kalman as oracles


def coefficients(n, rng, radius=0.95, at=None):
    """Of a polynomial whose roots lie within a circle; one of them, or a pair, is ``at`` a size."""
    roots = []
    while len(roots) < n - 1:
        z = radius * rng.uniform(0.3, 1) * np.exp(1j * rng.uniform(0, np.pi))
        roots += [z, z.conj()]
    if len(roots) < n:
        roots.append(radius * rng.uniform(-1, 1))
    if at is not None and n % 2:
        roots[-1] = at
    elif at is not None and n > 0:
        roots[:2] = at * np.exp(0.3j), at * np.exp(-0.3j)
    return np.atleast_1d(np.real(np.poly(roots)))[1:]


def arma(n_ar, n_ma, kind, rng, R=0.0, radius=0.95, at=None):
    """An ARMA model in Harvey's form: Q has rank one, and the first state is what is seen."""
    phi, theta = -coefficients(n_ar, rng, radius, at), coefficients(n_ma, rng, radius)
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


def smoothed_by_statsmodels(lds, X):
    theirs = KalmanSmoother(k_endog=lds.p, k_states=lds.d, k_posdef=lds.d)
    theirs.bind(X)
    theirs["design"], theirs["transition"] = lds.C, lds.A
    theirs["selection"], theirs["state_cov"], theirs["obs_cov"] = np.eye(lds.d), lds.Q, lds.R
    theirs.initialize_known(lds.m, lds.V)
    theirs.tolerance = 0
    return theirs.smooth()


ORDERS = list(itertools.product(range(6), range(5)))

# Three draws for each order: with the stationary state as the first one; with a first state of
# which little is known; and that with a root of the autoregression next to the unit circle, or on
# it if there is only one root.
MORE_ORDERS = list(itertools.product(range(6), range(7)))
DRAWS = [
    ("stationary", {"radius": 0.95}),
    ("wide", {"radius": 0.8}),
    ("wide", {"radius": 0.8, "at": 0.9995}),
]
MODELS = [(*order, *draw) for order in MORE_ORDERS for draw in DRAWS]


def test_there_are_as_many_models_as_the_tests_say():
    assert len(MODELS) == 126
    assert max(arma(*m[:3], np.random.default_rng(0), **m[3]).d for m in MODELS) == 7


@pytest.mark.parametrize(("T", "gaps"), [(15, 0.0), (80, 0.0), (80, 0.2)])
def test_126_arma_models_and_what_em_takes_of_them(T, gaps):
    for number, (n_ar, n_ma, kind, settings) in enumerate(MODELS):
        rng = np.random.default_rng(1000 + number)
        lds = arma(n_ar, n_ma, kind, rng, **settings)
        X = drawn(lds, T, gaps, rng)
        theirs = smoothed_by_statsmodels(lds, X)
        h, V = theirs.smoothed_state.T, np.moveaxis(theirs.smoothed_state_cov, 2, 0)
        lag = np.moveaxis(theirs.smoothed_state_autocov, 2, 0)[:-1]
        name = f"ARMA({n_ar}, {n_ma}), {kind}, {settings}"
        system = model(lds)
        means, covariances, lags, gained = system.infer(X, True, lags=True)
        size = max(1.0, np.abs(h).max())
        np.testing.assert_allclose(means / size, h / size, atol=1e-9, err_msg=name)
        np.testing.assert_allclose(covariances, V, atol=1e-8, err_msg=name)
        np.testing.assert_allclose(lags[:-1], lag, atol=1e-8, err_msg=name)
        assert gained.sum() == pytest.approx(theirs.llf, rel=1e-10), name
        assert np.linalg.eigvalsh(covariances).min() > -1e-12, name
        # Alone, and several side by side.
        for data in (X, [X] * 9):
            expectation = system.expect(data)
            assert expectation.log_likelihood == pytest.approx(theirs.llf, rel=1e-10), name
            found = sums(expectation.statistics)
            expected = {
                "h1": h[0],
                "P1": np.outer(h[0], h[0]) + V[0],
                "S11": h[1:].T @ h[1:] + V[1:].sum(axis=0),
                "S10": h[1:].T @ h[:-1] + lag.sum(axis=0),
                "S00": h[:-1].T @ h[:-1] + V[:-1].sum(axis=0),
            }
            for key, value in expected.items():
                unit = max(1.0, np.abs(value).max())
                np.testing.assert_allclose(
                    found[key] / unit, value / unit, atol=1e-9, err_msg=f"{name}: {key}"
                )


@pytest.mark.parametrize("R", [1e-12, 1e-10, 1e-8, 1e-6])
def test_arma_models_that_are_seen_with_little_noise(R):
    # The noise of the state hides that the predicted covariance is nearly singular.
    for n_ar, n_ma, seed in ((0, 1, 0), (0, 1, 1), (0, 2, 2), (1, 3, 3), (1, 3, 4), (3, 3, 5)):
        rng = np.random.default_rng(seed)
        lds = arma(n_ar, n_ma, "wide", rng, R, radius=0.5)
        X = drawn(lds, 12, 0.0 if seed % 2 else 0.2, rng)
        _, S = oracles.exact_posterior(lds, X)
        covariances, lags = model(lds).infer(X, True, lags=True)[1:3]
        for t in range(12):
            here = slice(t * lds.d, (t + 1) * lds.d)
            np.testing.assert_allclose(covariances[t], S[here, here], atol=1e-7)
            if t < 11:
                after = slice((t + 1) * lds.d, (t + 2) * lds.d)
                np.testing.assert_allclose(lags[t], S[after, here], atol=1e-7)


def rounded_otherwise(Q, rng):
    """Q with each entry a unit in the last place away, or as it was."""
    change = np.finfo(float).eps * np.abs(Q) * rng.choice([-1.0, 1.0], size=Q.shape)
    return Q + 0.5 * (change + change.T)


@pytest.mark.parametrize("R", [1e-14, 1e-12, 1e-10])
def test_log_likelihoods_of_several_columns_are_as_exact_as_the_system_is_given(R):
    # Q has rank one only up to rounding, and R is hardly more than that. Whoever rounds the entries
    # of Q otherwise has another log-likelihood: nearer than that to the exact one is all there is.
    for number, (n_ar, n_ma) in enumerate(((1, 2), (2, 3), (3, 2), (4, 4))):
        rng = np.random.default_rng(number)
        lds = arma(n_ar, n_ma, "stationary", rng)
        C = np.vstack([lds.C, rng.normal(size=(1, lds.d))])
        lds = lds.with_(C=C, c=np.zeros(2), R=R * np.eye(2))
        X = drawn(lds, 12, 0.0, rng)
        value, means = oracles.exact(lds, X)
        others = [lds.with_(Q=rounded_otherwise(lds.Q, rng)) for _ in range(3)]
        limit = max(abs(oracles.exact(other, X)[0] - value) for other in others)
        kf = fastem.KalmanFilter(**parameters(lds))
        assert abs(kf.loglikelihood(X) - value) < limit
        assert abs(model(lds).expect(X).log_likelihood - value) < limit
        size = np.abs(means).max()
        np.testing.assert_allclose(kf.smooth(X)[0] / size, means / size, atol=1e-8)


@pytest.mark.parametrize("kind", ["wide", "stationary"])
@pytest.mark.parametrize(("T", "gaps"), [(12, 0.0), (60, 0.0), (60, 0.15)])
def test_arma_models_without_noise_are_smoothed_as_statsmodels_does(kind, T, gaps):
    for number, (n_ar, n_ma) in enumerate(ORDERS):
        rng = np.random.default_rng(number)
        lds = arma(n_ar, n_ma, kind, rng)
        X = drawn(lds, T, gaps, rng)
        theirs = smoothed_by_statsmodels(lds, X)
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
