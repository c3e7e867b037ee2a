"""One step of the forward recursion as observations come in, kept in logarithms.

``log p_t(j) = log Σ_i p_{t-1}(i) A_ij + log p(v_t|j)``, normalized; what it is divided by is the
density of the observation given those before it.
"""

import numpy as np

from ..families.base import log_density, log_marginal
from ..options import kernel
from ..rows import GROUP
from .chain import padded_states
from .emissions import possible

# Below this a sum of plain products may have lost terms to underflow; it is done in logarithms.
_SMALL = 1e-280


@kernel
def predict(chain, log_p, out):
    """``out[j] = log Σ_i exp(log_p[i]) A_ij`` over the states that can be left."""
    n = chain.n_states
    size = padded_states(n)
    top = -np.inf
    for i in range(n):
        if chain.absorbing.shape[0] > 0 and chain.absorbing[i]:
            continue
        top = max(top, log_p[i])
    weights = np.zeros(n)
    if top > -np.inf:
        for i in range(n):
            if not (chain.absorbing.shape[0] > 0 and chain.absorbing[i]):
                weights[i] = np.exp(log_p[i] - top)
    for j in range(n):
        total = 0.0
        for i in range(n):
            total += weights[i] * chain.forward[i * size + j]
        if total > _SMALL:
            out[j] = top + np.log(total)
            continue
        best = -np.inf
        for i in range(n):
            if not (chain.absorbing.shape[0] > 0 and chain.absorbing[i]):
                best = max(best, log_p[i] + np.log(chain.forward[i * size + j]))
        out[j] = -np.inf
        if best > -np.inf:
            total = 0.0
            for i in range(n):
                if not (chain.absorbing.shape[0] > 0 and chain.absorbing[i]):
                    total += np.exp(log_p[i] + np.log(chain.forward[i * size + j]) - best)
            out[j] = best + np.log(total)


@kernel
def filter_step(chain, family, x, started, log_p, probabilities):
    """Take in the row ``x``, NaN where missing; returns ``log p(v_t | v_1 .. v_{t-1})``.

    ``log_p`` (K,) are the logarithms of the probabilities of the states, before and after.
    """
    n = chain.n_states
    n_columns = x.shape[0]
    predicted = np.empty(n)
    if started:
        predict(chain, log_p, predicted)
    else:
        for k in range(n):
            predicted[k] = np.log(chain.start[k])
    complete = True
    block = np.zeros(n_columns * GROUP)
    for c in range(n_columns):
        block[c * GROUP] = x[c]
        complete = complete and x[c] == x[c]
    if complete:
        out = np.zeros((n, GROUP))
        work = np.empty(2 * (n_columns + 4) * GROUP)
        log_density(family, block, GROUP, 1, out, work)
        for k in range(n):
            predicted[k] += out[k, 0]
    else:
        log_marginal(family, x, predicted)
    top = -np.inf
    for k in range(n):
        predicted[k] = possible(predicted[k])
        top = max(top, predicted[k])
    if top == -np.inf:
        return top
    for k in range(n):
        probabilities[k] = np.exp(predicted[k] - top)
    total = 0.0
    for k in range(n):
        total += probabilities[k]
    for k in range(n):
        probabilities[k] /= total
        log_p[k] = predicted[k] - top - np.log(total)
    return top + np.log(total)
