"""Online EM for hidden Markov models: ``Θ ← M(S(V_t|Θ) + S(Θ)/η_t)``, the loop in the kernel.

A batch is a few sequences, one after another. Batches large enough to be worth laying out side by
side, and sequences with missing values, are left to the loop in Python.
"""

import numpy as np

from ..families.base import add_own, horizon_of, maximize, refresh, scale
from ..log_space import log_backward, log_forward
from ..mixture.online import LEAST_SHARE, revival
from ..options import kernel
from .chain import padded_states, set_chain
from .emissions import absorb_alone, emit_alone
from .forward_backward import smooth_alone
from .usages import absorbing_usages, fixed_length_usages

#: Why a step could not be taken.
NO_MAXIMUM, IMPOSSIBLE, NEVER_ABSORBED = 1, 2, 3


@kernel
def _normalize(x):
    """Divide by the sum."""
    total = 0.0
    for k in range(x.shape[0]):
        total += x[k]
    for k in range(x.shape[0]):
        x[k] /= total


@kernel
def _survival(batch, first, last, total):
    """``P(T ≥ t)`` over the sequences of a batch, by weight."""
    longest = 0
    for s in range(first, last):
        longest = max(longest, batch.lengths[s])
    survival = np.zeros(longest)
    for s in range(first, last):
        weight = batch.weights[s] if batch.weights.shape[0] > 0 else 1.0
        survival[batch.lengths[s] - 1] += weight / total
    for t in range(longest - 2, -1, -1):
        survival[t] += survival[t + 1]
    return survival


@kernel
def update_chain(start, transitions, absorbing, fixed_start, fixed_transmat, startprob, transmat):
    """``M`` of the chain: start and rows in proportion to their counts."""
    n = startprob.shape[0]
    everything = 0.0
    for i in range(n):
        for j in range(n):
            everything += transitions[i, j]
    if not fixed_start:
        for k in range(n):
            startprob[k] = start[k]
        _normalize(startprob)
    if not fixed_transmat:
        for i in range(n):
            if absorbing.shape[0] > 0 and absorbing[i]:
                continue
            row = 0.0
            for j in range(n):
                row += transitions[i, j]
            if row > LEAST_SHARE * everything:
                for j in range(n):
                    transmat[i, j] = transitions[i, j]
                _normalize(transmat[i])


@kernel
def online(
    chain, batch, batch_size, rates, startprob, transmat, family, start, transitions, mass,
    statistics, keep, fixed_start, fixed_transmat, fixed,
):  # fmt: skip
    """One step for each batch of ``batch_size`` sequences; the parameters change in place.

    ``rates[t]`` is η of step t. With ``keep`` the statistics (per sequence) are the memory and
    come back changed; without it the model alone is. Returns the log-likelihood of the batches,
    each under the model that met it, the number of the step that failed, or -1, and why.
    """
    n_states = chain.n_states
    size = padded_states(n_states)
    n_sequences = batch.lengths.shape[0]
    longest = 0
    for s in range(n_sequences):
        longest = max(longest, batch.lengths[s])
    entries = (longest + 16) * size
    b, alpha, gamma = np.empty(entries), np.empty(entries), np.empty(entries)
    shifts, totals = np.empty(longest + 16), np.empty(longest + 16)
    counts = np.empty(size * size)
    xi = np.empty(size * size)
    emissions, left = np.empty(n_states), np.empty(n_states)
    gained, followed = np.empty(n_states), np.empty(n_states)
    revived, continued = np.empty(n_states), np.empty(n_states)
    alive = np.empty(n_states)
    log_likelihood = 0.0
    step = -1
    for first in range(0, n_sequences, batch_size):
        last = min(first + batch_size, n_sequences)
        step += 1
        eta = rates[step]
        total = float(last - first)
        if batch.weights.shape[0] > 0:
            total = 0.0
            for s in range(first, last):
                total += batch.weights[s]
        if total <= 0.0:
            continue
        # M does not care about scale: sums over the batch, and the memory times total / η.
        remembered = total / eta if keep else 0.0
        scale(statistics, remembered)
        scale(mass, remembered)
        scale(start, remembered)
        scale(transitions, remembered)
        for i in range(size * size):
            counts[i] = 0.0
            xi[i] = 0.0
        for i in range(n_states):
            # What is remembered of each state, and of what follows it; what is gained comes after.
            emissions[i] = mass[i]
            left[i] = 0.0
            for j in range(n_states):
                left[i] += transitions[i, j]
            gained[i] = -emissions[i]
            followed[i] = -left[i]
        for s in range(first, last):
            length = batch.lengths[s]
            weight = batch.weights[s] if batch.weights.shape[0] > 0 else 1.0
            if weight <= 0.0:
                continue
            emit_alone(chain, family, batch, s, 0, length, False, b, shifts)
            score, lost = smooth_alone(
                chain, length, weight, True, b, shifts, alpha, gamma, totals, counts
            )
            if lost:
                emit_alone(chain, family, batch, s, 0, length, True, b, shifts)
                score = log_forward(chain, size, b, length, gamma)
                if not score > -np.inf:
                    return log_likelihood, step, IMPOSSIBLE
                log_backward(chain, size, b, length, weight, gamma, score, xi)
            for k in range(n_states):
                start[k] += gamma[k]
            absorb_alone(n_states, family, batch, s, 0, length, gamma, mass, statistics)
            log_likelihood += weight * score
        for i in range(n_states):
            for j in range(n_states):
                at = i * size + j
                transitions[i, j] += chain.forward[at] * counts[at] + xi[at]
        for i in range(n_states):
            gained[i] += mass[i]
            for j in range(n_states):
                followed[i] += transitions[i, j]
        horizon = horizon_of(family, mass.sum(), statistics)
        if not keep:
            if chain.absorbing.shape[0] > 0:
                if not absorbing_usages(startprob, transmat, chain.absorbing, emissions, left):
                    return log_likelihood, step, NEVER_ABSORBED
            else:
                survival = _survival(batch, first, last, total)
                fixed_length_usages(startprob, transmat, survival, emissions, left)
            inertia = total / eta
            for k in range(n_states):
                emissions[k] *= inertia
                left[k] *= inertia
                start[k] += inertia * startprob[k]
        revival(emissions, gained, 1.0, revived)
        revival(left, followed, 1.0, continued)
        for k in range(n_states):
            if not keep:
                revived[k] += emissions[k]
                continued[k] += left[k]
            mass[k] += revived[k]
            for j in range(n_states):
                transitions[k, j] += continued[k] * transmat[k, j]
        add_own(family, revived, statistics, horizon)
        everything = mass.sum()
        for k in range(n_states):
            alive[k] = mass[k] if mass[k] >= LEAST_SHARE * everything else 0.0
        if not (maximize(family, alive, statistics, fixed) and refresh(family)):
            return log_likelihood, step, NO_MAXIMUM
        update_chain(
            start, transitions, chain.absorbing, fixed_start, fixed_transmat, startprob, transmat
        )
        set_chain(chain, startprob, transmat)
        if keep:
            unit = 1.0 / (total + total / eta)
            scale(statistics, unit)
            scale(mass, unit)
            scale(start, unit)
            scale(transitions, unit)
    return log_likelihood, -1, 0
