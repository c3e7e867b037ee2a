"""Slow and obvious twins of the Dirichlet models: NumPy and SciPy, sharing no code with fastem."""

import numpy as np
from scipy import stats
from scipy.optimize import minimize
from scipy.special import digamma, gammaln


def documents(alpha, lengths, rng):
    """Documents of the given lengths: a topic for each, then its words."""
    topics = rng.dirichlet(alpha, size=len(lengths))
    return rng.multinomial(lengths, topics)


def log_likelihoods(alpha, X):
    """scipy.stats' own; an empty document is certain."""
    lengths = X.sum(axis=1)
    out = np.zeros(len(X))
    some = lengths > 0
    out[some] = stats.dirichlet_multinomial.logpmf(X[some], alpha, lengths[some])
    return out


def nll(alpha, X, w=None):
    return -np.average(log_likelihoods(alpha, X), weights=w)


def expect(alpha, X, w=None):
    """The mean of ψ(v_j + α_j) - ψ(n + α₀)."""
    lengths = X.sum(axis=1, keepdims=True)
    return np.average(digamma(X + alpha) - digamma(lengths + alpha.sum()), axis=0, weights=w)


def own(alpha):
    return digamma(alpha) - digamma(alpha.sum())


def log_joint(alpha, mean_log):
    """Q, the base measure included."""
    return gammaln(alpha.sum()) - gammaln(alpha).sum() + (alpha - 1) @ mean_log


def divergence(a, b):
    """Of two Dirichlets, as textbooks have it."""
    return (
        gammaln(a.sum()) - gammaln(b.sum()) - (gammaln(a) - gammaln(b)).sum()
        + (a - b) @ (digamma(a) - digamma(a.sum()))
    )  # fmt: skip


def maximum(mean_log, start):
    """M by a general optimizer over log α."""

    def objective(u):
        alpha = np.exp(u)
        return -log_joint(alpha, mean_log), -alpha * (mean_log - own(alpha))

    found = minimize(
        objective, np.log(start), jac=True, method="BFGS", options={"gtol": 1e-11, "maxiter": 5000}
    )
    return np.exp(found.x)


def fit(X, start, w=None):
    """The likeliest α by L-BFGS over log α."""
    w = np.full(len(X), 1 / len(X)) if w is None else w / w.sum()
    lengths = X.sum(axis=1)

    def objective(u):
        alpha = np.exp(u)
        total = alpha.sum()
        value = w @ (gammaln(total) - gammaln(lengths + total)
                     + (gammaln(X + alpha) - gammaln(alpha)).sum(axis=1))  # fmt: skip
        slope = w @ (digamma(X + alpha) - digamma(alpha))
        common = w @ (digamma(lengths + total) - digamma(total))
        return -value, -alpha * (slope - common)

    options = {"ftol": 1e-16, "gtol": 1e-10, "maxiter": 5000, "maxfun": 20_000}
    found = minimize(objective, np.log(start), jac=True, method="L-BFGS-B", options=options)
    return np.exp(found.x)


def gradient(f, x, step=1e-5):
    """Central differences."""
    return np.array([(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(len(x))])
