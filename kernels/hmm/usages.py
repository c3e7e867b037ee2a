"""How often a chain uses its states: the expected number of visits in a sequence of its own.

``δ¹ = π``, ``δᵗ⁺¹ = δᵗ A``. In T steps emissions use ``Σ_{t≤T} δᵗ`` and transitions
``Σ_{t<T} δᵗ``: two vectors. With absorbing states transient ones are used ``u``, which solves
``(I - Qᵀ) u = π``, for both, and an absorbing state emits with the probability that it ends the
sequence, ``π + Rᵀ u``, and makes no transition.
"""

import numpy as np

from ..options import kernel


@kernel
def fixed_length_usages(startprob, transmat, survival, emissions, transitions):
    """Usages for a length T at random, ``survival[t - 1] = P(T ≥ t)``: mean over the lengths."""
    n = startprob.shape[0]
    delta = startprob.copy()
    following = np.empty(n)
    n_steps = survival.shape[0]
    for k in range(n):
        emissions[k] = 0.0
        transitions[k] = 0.0
    for t in range(n_steps):
        ahead = survival[t + 1] if t + 1 < n_steps else 0.0
        for k in range(n):
            emissions[k] += survival[t] * delta[k]
            transitions[k] += ahead * delta[k]
            following[k] = 0.0
        if ahead > 0.0:
            for i in range(n):
                for j in range(n):
                    following[j] += delta[i] * transmat[i, j]
            for k in range(n):
                delta[k] = following[k]


@kernel
def absorbing_usages(startprob, transmat, absorbing, emissions, transitions):
    """Usages of an absorbing chain; False if it need not ever be absorbed."""
    n = startprob.shape[0]
    # (I - Qᵀ) u = π over the transient states; rows and columns of the others are the identity.
    system = np.empty((n, n))
    u = np.empty(n)
    for i in range(n):
        u[i] = 0.0 if absorbing[i] else startprob[i]
        for j in range(n):
            system[i, j] = 1.0 if i == j else 0.0
            if not absorbing[i] and not absorbing[j]:
                system[i, j] -= transmat[j, i]
    for p in range(n):
        best = p
        for i in range(p + 1, n):
            if abs(system[i, p]) > abs(system[best, p]):
                best = i
        if not abs(system[best, p]) > 1e-14:
            return False
        if best != p:
            for j in range(n):
                system[p, j], system[best, j] = system[best, j], system[p, j]
            u[p], u[best] = u[best], u[p]
        for i in range(p + 1, n):
            factor = system[i, p] / system[p, p]
            if factor != 0.0:
                for j in range(p, n):
                    system[i, j] -= factor * system[p, j]
                u[i] -= factor * u[p]
    for p in range(n - 1, -1, -1):
        s = u[p]
        for j in range(p + 1, n):
            s -= system[p, j] * u[j]
        u[p] = s / system[p, p]
    for k in range(n):
        transitions[k] = 0.0 if absorbing[k] else u[k]
    for k in range(n):
        emissions[k] = transitions[k]
        if absorbing[k]:
            emissions[k] = startprob[k]
            for i in range(n):
                emissions[k] += transitions[i] * transmat[i, k]
    return True
