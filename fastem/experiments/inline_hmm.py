"""The inline learner of Cappé (2011): online EM for hidden Markov models, after every step.

For each state ``k`` that the chain may now be in, ``rho[k]`` are the running statistics given that
it is there. A step carries them along by the probabilities ``came[j, k]`` that the chain came from
``j``, and adds the new row with the weight ``γ = 1 / t**β``:

    rho[k] ← (1 - γ) Σ_j came[j, k] rho[j] + γ T(row, k)

A new sequence continues the chain from the state in which the last one ended. The statistics are,
one after another: starts, transitions, steps, sums and squares.
"""

from __future__ import annotations

import numpy as np

from ..kernels.cholesky import inverse_factor
from ..kernels.options import kernel

__all__ = ["InlineHMM"]


class InlineHMM:
    """An absorbing hidden Markov model with Gaussian emissions that learns at every step.

    Parameters
    ----------
    start, transitions, means, covariances : arrays
        Where to begin; the last state is the absorbing one.
    beta : float
        The decay of the weight γ.
    patience : int
        Steps before the parameters move.
    reg_covar : float
        Added to the diagonals of the covariances.
    """

    def __init__(
        self, start, transitions, means, covariances, beta, patience=50, reg_covar=1e-3
    ):  # fmt: skip
        given = (start, transitions, means, covariances)
        self.parameters = tuple(np.array(array, dtype=float) for array in given)
        self.options = (float(beta), patience, reg_covar)
        K, D = means.shape
        self.rho = np.zeros((K, K + K * K + K + K * D + K * D * D))
        self.where = np.full(K, 1.0 / K)
        self.t = 0

    def learn(self, sequence) -> None:
        """Learn from one sequence, of which the last step is in the absorbing state."""
        rows = np.ascontiguousarray(sequence, dtype=float)
        learn(rows, *self.parameters, self.rho, self.where, self.t, *self.options)
        self.t += len(rows)


@kernel
def learn(rows, start, transitions, means, covariances, rho, where, t, beta, patience, reg_covar):
    """Learn from the rows of one sequence, after ``t`` steps."""
    K, D = means.shape
    factor = np.empty(D * D)
    log_density = np.empty(K)
    came, weights = np.empty((K, K)), np.empty(K)
    for n in range(len(rows)):
        t += 1
        last = n == len(rows) - 1
        highest = -np.inf
        for k in range(K):
            # It is seen whether a sequence goes on: the state is the absorbing one or it is not.
            log_density[k] = -np.inf
            if (k == K - 1) == last:
                log_density[k] = inverse_factor(covariances[k], factor, D)
                for i in range(D):
                    z = 0.0
                    for j in range(i + 1):
                        z += factor[i * D + j] * (rows[n, j] - means[k, j])
                    log_density[k] -= 0.5 * z * z
                highest = max(highest, log_density[k])
        total = 0.0
        for k in range(K):
            for j in range(K):
                came[j, k] = where[j] if n == 0 else where[j] * transitions[j, k]
            ahead = 0.0
            for j in range(K):
                ahead += came[j, k]
            for j in range(K):
                came[j, k] /= max(ahead, 1e-300)
            if n == 0:
                ahead = start[k]
            # No probability is quite zero, or one unlikely row would be the end.
            weights[k] = (ahead + 1e-12) * np.exp(log_density[k] - highest)
            total += weights[k]
        for k in range(K):
            where[k] = weights[k] / total
        carry(rows[n], n == 0, came, t**-beta, rho)
        if t > patience:
            maximize(rho, where, start, transitions, means, covariances, reg_covar)


@kernel
def carry(row, first, came, gamma, rho):
    """``rho[k] ← (1 - γ) Σ_j came[j, k] rho[j] + γ T(row, k)``."""
    K, D = len(came), len(row)
    before = rho.copy()
    for k in range(K):
        for s in range(rho.shape[1]):
            total = 0.0
            for j in range(K):
                total += came[j, k] * before[j, s]
            rho[k, s] = (1.0 - gamma) * total
        if first:
            rho[k, k] += gamma
        else:
            for j in range(K):
                rho[k, K + j * K + k] += gamma * came[j, k]
        steps = K + K * K
        rho[k, steps + k] += gamma
        sums = steps + K + k * D
        squares = steps + K + K * D + k * D * D
        for i in range(D):
            rho[k, sums + i] += gamma * row[i]
            for j in range(D):
                rho[k, squares + i * D + j] += gamma * row[i] * row[j]


@kernel
def maximize(rho, where, start, transitions, means, covariances, reg_covar):
    """The parameters of greatest likelihood under ``Σ_k where[k] rho[k]``."""
    K, D = means.shape
    s = np.zeros(rho.shape[1])
    for k in range(K):
        for i in range(len(s)):
            s[i] += where[k] * rho[k, i]
    total = 0.0
    for k in range(K):
        total += s[k]
    for k in range(K):
        if total > 0.0:
            start[k] = s[k] / total
    # The absorbing state is not left.
    for i in range(K - 1):
        total = 0.0
        for j in range(K):
            total += s[K + i * K + j]
        for j in range(K):
            if total > 1e-12:
                transitions[i, j] = s[K + i * K + j] / total
    steps = K + K * K
    for k in range(K):
        mass = s[steps + k]
        if mass > 1e-8:
            for i in range(D):
                means[k, i] = s[steps + K + k * D + i] / mass
            for i in range(D):
                for j in range(D):
                    second = s[steps + K + K * D + k * D * D + i * D + j] / mass
                    covariances[k, i, j] = second - means[k, i] * means[k, j]
                covariances[k, i, i] += reg_covar
