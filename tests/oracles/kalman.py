"""Slow and obvious twins of the Kalman filter: the joint Gaussian of a whole short sequence.

Every state and observation of a sequence is one Gaussian vector. Its mean and covariance are
written down from the definition, and everything asked is got by conditioning it: no recursion is
shared with fastem.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import multivariate_normal


@dataclass
class LDS:
    """h₁ ~ N(m, V), h' = A h + b + N(0, Q), v = C h + c + N(0, R)."""

    m: np.ndarray
    V: np.ndarray
    A: np.ndarray
    b: np.ndarray
    Q: np.ndarray
    C: np.ndarray
    c: np.ndarray
    R: np.ndarray

    @property
    def d(self):
        return self.A.shape[-1]

    @property
    def p(self):
        return self.C.shape[-2]

    def with_(self, **changes):
        return replace(self, **changes)


def at(x, t, ndim):
    return x[t] if x.ndim > ndim else x


def wishart(n, rng, floor=0.2):
    X = rng.normal(size=(n, n + 2))
    return X @ X.T / (n + 2) + floor * np.eye(n)


def random_lds(d, p, rng, radius=0.9, offsets=True):
    A = rng.normal(size=(d, d))
    A *= radius / np.abs(np.linalg.eigvals(A)).max()
    return LDS(
        m=rng.normal(size=d),
        V=wishart(d, rng),
        A=A,
        b=rng.normal(size=d) * offsets,
        Q=wishart(d, rng),
        C=rng.normal(size=(p, d)),
        c=rng.normal(size=p) * offsets,
        R=wishart(p, rng),
    )


def sample(lds, T, rng):
    h = np.zeros((T, lds.d))
    v = np.zeros((T, lds.p))
    for t in range(T):
        if t == 0:
            h[0] = rng.multivariate_normal(lds.m, lds.V)
        else:
            A, b, Q = at(lds.A, t - 1, 2), at(lds.b, t - 1, 1), at(lds.Q, t - 1, 2)
            h[t] = A @ h[t - 1] + b + rng.multivariate_normal(np.zeros(lds.d), Q)
        C, c, R = at(lds.C, t, 2), at(lds.c, t, 1), at(lds.R, t, 2)
        v[t] = C @ h[t] + c + rng.multivariate_normal(np.zeros(lds.p), R)
    return h, v


def joint(lds, T):
    """Mean and covariance of (h₁ … h_T, v₁ … v_T), as a linear map of independent noises."""
    d, p = lds.d, lds.p
    n_h, n_v = T * d, T * p
    # Every variable is a constant plus a matrix times the noises (h₁ noise, ρ's, ε's).
    noise = np.zeros((n_h + n_v, n_h + n_v))
    mean = np.zeros(n_h + n_v)
    to_noise = np.zeros((n_h + n_v, n_h + n_v))
    for t in range(T):
        rows = slice(t * d, (t + 1) * d)
        if t == 0:
            mean[rows] = lds.m
            noise[rows, rows] = lds.V
        else:
            before = slice((t - 1) * d, t * d)
            A = at(lds.A, t - 1, 2)
            mean[rows] = A @ mean[before] + at(lds.b, t - 1, 1)
            to_noise[rows] = A @ to_noise[before]
            noise[rows, rows] = at(lds.Q, t - 1, 2)
        to_noise[rows, rows] += np.eye(d)
    for t in range(T):
        rows = slice(n_h + t * p, n_h + (t + 1) * p)
        state = slice(t * d, (t + 1) * d)
        C = at(lds.C, t, 2)
        mean[rows] = C @ mean[state] + at(lds.c, t, 1)
        to_noise[rows] = C @ to_noise[state]
        to_noise[rows, rows] += np.eye(p)
        noise[rows, rows] = at(lds.R, t, 2)
    return mean, to_noise @ noise @ to_noise.T


def condition(mean, covariance, known, values):
    """Mean and covariance of all variables given some of them."""
    S = covariance[np.ix_(known, known)]
    cross = covariance[:, known]
    weights = np.linalg.solve(S, cross.T).T
    return mean + weights @ (values - mean[known]), covariance - weights @ cross.T


def posterior(lds, v, upto=None):
    """Given ``v[:upto]``, NaN being unknown: mean and covariance of all h and all v."""
    T = len(v)
    mean, covariance = joint(lds, T)
    flat = v.ravel()
    known = np.flatnonzero(~np.isnan(flat))
    if upto is not None:
        known = known[known < upto * lds.p]
    return condition(mean, covariance, known + T * lds.d, flat[known])


def log_likelihood(lds, v):
    T = len(v)
    mean, covariance = joint(lds, T)
    flat = v.ravel()
    known = np.flatnonzero(~np.isnan(flat))
    if len(known) == 0:
        return 0.0
    at_ = known + T * lds.d
    return multivariate_normal(
        mean[at_], covariance[np.ix_(at_, at_)], allow_singular=False
    ).logpdf(flat[known])


def filtered(lds, v):
    d = lds.d
    means, covariances = [], []
    for t in range(len(v)):
        m, S = posterior(lds, v, t + 1)
        means.append(m[t * d : (t + 1) * d])
        covariances.append(S[t * d : (t + 1) * d, t * d : (t + 1) * d])
    return np.array(means), np.array(covariances)


def smoothed(lds, v):
    """Means, covariances, and covariances of h_{t+1} with h_t."""
    d, T = lds.d, len(v)
    m, S = posterior(lds, v)
    block = lambda s, t: S[s * d : (s + 1) * d, t * d : (t + 1) * d]  # noqa: E731
    return (
        m[: T * d].reshape(T, d),
        np.array([block(t, t) for t in range(T)]),
        np.array([block(t + 1, t) for t in range(T - 1)]),
    )


def statistics(lds, v, given=None):
    """Sums of E[T(h, v)|v] of one sequence, whole missing steps without an observation.

    ``given`` is the posterior, if it is known more exactly than doubles have it.
    """
    T, d, p = len(v), lds.d, lds.p
    m, S = posterior(lds, v) if given is None else given
    second = S + np.outer(m, m)
    h = [slice(t * d, (t + 1) * d) for t in range(T)]
    o = [slice(T * d + t * p, T * d + (t + 1) * p) for t in range(T)]
    seen = [t for t in range(T) if not np.isnan(v[t]).all()]
    total = lambda pairs, shape: sum((second[a, b] for a, b in pairs), np.zeros(shape))  # noqa: E731
    vector = lambda slices, n: sum((m[a] for a in slices), np.zeros(n))  # noqa: E731
    return {
        "n": 1.0,
        "transitions": T - 1.0,
        "observed": float(len(seen)),
        "h1": m[h[0]],
        "P1": second[h[0], h[0]],
        "h_to": vector(h[1:], d),
        "h_from": vector(h[:-1], d),
        "S11": total([(h[t], h[t]) for t in range(1, T)], (d, d)),
        "S00": total([(h[t], h[t]) for t in range(T - 1)], (d, d)),
        "S10": total([(h[t], h[t - 1]) for t in range(1, T)], (d, d)),
        "h": vector([h[t] for t in seen], d),
        "v": vector([o[t] for t in seen], p),
        "Shh": total([(h[t], h[t]) for t in seen], (d, d)),
        "Svh": total([(o[t], h[t]) for t in seen], (p, d)),
        "Svv": total([(o[t], o[t]) for t in seen], (p, p)),
    }


def own(lds, T):
    """E[T(h, v)] under the model itself, from the joint law."""
    nothing = np.full((T, lds.p), np.nan)
    s = statistics(lds, nothing)
    d, p = lds.d, lds.p
    m, S = joint(lds, T)
    second = S + np.outer(m, m)
    h = [slice(t * d, (t + 1) * d) for t in range(T)]
    o = [slice(T * d + t * p, T * d + (t + 1) * p) for t in range(T)]
    s["observed"] = float(T)
    s["h"] = sum(m[a] for a in h)
    s["v"] = sum(m[a] for a in o)
    s["Shh"] = sum(second[a, a] for a in h)
    s["Svh"] = sum(second[a, b] for a, b in zip(o, h, strict=True))
    s["Svv"] = sum(second[a, a] for a in o)
    return s


def mean_statistics(parts, weights=None):
    weights = np.ones(len(parts)) if weights is None else np.asarray(weights, float)
    return {
        name: sum(w * s[name] for w, s in zip(weights, parts, strict=True)) / weights.sum()
        for name in parts[0]
    }


def _gaussian_terms(count, yy, yx, xx, y, x, W, w, S):
    """Expected Σ log N(y; W x + w, S) from raw sums."""
    residual = (
        yy - W @ yx.T - yx @ W.T + W @ xx @ W.T
        - np.outer(w, y - W @ x) - np.outer(y - W @ x, w) + count * np.outer(w, w)
    )  # fmt: skip
    _, logdet = np.linalg.slogdet(2 * np.pi * S)
    return -0.5 * (count * logdet + np.trace(np.linalg.solve(S, residual)))


def log_joint(lds, s):
    """Q(S, Θ): the expected complete-data log-likelihood."""
    d = lds.d
    zero, none = np.zeros((d, 0)), np.zeros((0, 0))
    return (
        _gaussian_terms(s["n"], s["P1"], zero, none, s["h1"], np.zeros(0), zero, lds.m, lds.V)
        + _gaussian_terms(
            s["transitions"], s["S11"], s["S10"], s["S00"], s["h_to"], s["h_from"],
            lds.A, lds.b, lds.Q,
        )
        + _gaussian_terms(
            s["observed"], s["Svv"], s["Svh"], s["Shh"], s["v"], s["h"], lds.C, lds.c, lds.R
        )
    )  # fmt: skip


def joint_divergence(one, other, T):
    """Relative entropy of the joint laws of all h and v, in closed form."""
    m1, S1 = joint(one, T)
    m2, S2 = joint(other, T)
    k = len(m1)
    solved = np.linalg.solve(S2, S1)
    shift = m2 - m1
    return 0.5 * (
        np.trace(solved)
        - k
        + shift @ np.linalg.solve(S2, shift)
        + np.linalg.slogdet(S2)[1]
        - np.linalg.slogdet(S1)[1]
    )


def exact(lds, v):
    """Log-likelihood and smoothed means of a complete sequence, in fifty digits."""
    import mpmath

    with mpmath.workdps(50):
        T, d, p = len(v), lds.d, lds.p
        A, C = mpmath.matrix(lds.A), mpmath.matrix(lds.C)
        U = [mpmath.matrix(lds.V)]
        mu = [mpmath.matrix(lds.m)]
        for _ in range(T - 1):
            U.append(A * U[-1] * A.T + mpmath.matrix(lds.Q))
            mu.append(A * mu[-1] + mpmath.matrix(lds.b))
        power = [mpmath.eye(d)]
        for _ in range(T - 1):
            power.append(A * power[-1])
        S, cross, e = mpmath.zeros(T * p), mpmath.zeros(T * d, T * p), mpmath.zeros(T * p, 1)
        for s in range(T):
            left = mpmath.matrix(v[s]) - C * mu[s] - mpmath.matrix(lds.c)
            for i in range(p):
                e[s * p + i] = left[i]
            for t in range(T):
                # Cov(h_s, h_t) is A^(s-t) U_t for s ≥ t.
                H = power[s - t] * U[t] if s >= t else (power[t - s] * U[s]).T
                block, to = C * H * C.T, H * C.T
                if s == t:
                    block += mpmath.matrix(lds.R)
                for j in range(p):
                    for i in range(p):
                        S[s * p + i, t * p + j] = block[i, j]
                    for i in range(d):
                        cross[s * d + i, t * p + j] = to[i, j]
        L = mpmath.cholesky(S)
        solved = mpmath.cholesky_solve(S, e)
        logdet = 2 * sum(mpmath.log(L[i, i]) for i in range(T * p))
        value = -(logdet + (e.T * solved)[0] + T * p * mpmath.log(2 * mpmath.pi)) / 2
        means = cross * solved
        smoothed_means = [[float(mu[t][i] + means[t * d + i]) for i in range(d)] for t in range(T)]
        return float(value), np.array(smoothed_means)


def exact_posterior(lds, v):
    """As :func:`posterior` for a system that is constant in time, in eighty digits."""
    import mpmath

    with mpmath.workdps(80):
        T, d, p = len(v), lds.d, lds.p
        A, C = mpmath.matrix(lds.A), mpmath.matrix(lds.C)
        mean, U = [mpmath.matrix(lds.m)], [mpmath.matrix(lds.V)]
        power = [mpmath.eye(d)]
        for _ in range(T - 1):
            mean.append(A * mean[-1] + mpmath.matrix(lds.b))
            U.append(A * U[-1] * A.T + mpmath.matrix(lds.Q))
            power.append(A * power[-1])
        n = T * (d + p)
        S, mu = mpmath.zeros(n), mpmath.zeros(n, 1)

        def put(block, row, column):
            for i in range(block.rows):
                for j in range(block.cols):
                    S[row + i, column + j] = block[i, j]
                    S[column + j, row + i] = block[i, j]

        for s in range(T):
            seen = C * mean[s] + mpmath.matrix(lds.c)
            for i in range(d):
                mu[s * d + i] = mean[s][i]
            for i in range(p):
                mu[T * d + s * p + i] = seen[i]
            for t in range(s + 1):
                H = power[s - t] * U[t]
                put(H, s * d, t * d)
                put(C * H, T * d + s * p, t * d)
                put(C * H.T, T * d + t * p, s * d)
                block = C * H * C.T
                if s == t:
                    block += mpmath.matrix(lds.R)
                put(block, T * d + s * p, T * d + t * p)
        known = [int(i) for i in np.flatnonzero(~np.isnan(v.ravel()))]
        at_ = [T * d + i for i in known]
        K = mpmath.matrix(len(known))
        cross, e = mpmath.matrix(n, len(known)), mpmath.matrix(len(known), 1)
        for b, j in enumerate(at_):
            e[b] = mpmath.mpf(float(v.ravel()[known[b]])) - mu[j]
            for a, i in enumerate(at_):
                K[a, b] = S[i, j]
            for i in range(n):
                cross[i, b] = S[i, j]
        inverse = K**-1
        mean_given = mu + cross * (inverse * e)
        covariance = S - cross * inverse * cross.T
        return (
            np.array([float(mean_given[i]) for i in range(n)]),
            np.array([[float(covariance[i, j]) for j in range(n)] for i in range(n)]),
        )
