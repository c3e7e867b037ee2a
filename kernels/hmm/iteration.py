"""Batch EM for a few short sequences: ``Θ ← M(S(V|Θ))``, the loop over steps in the kernel."""

import numpy as np

from ..families.base import refresh, scale
from ..options import kernel
from .chain import longest_of, padded_states, set_chain
from .emissions import absorb_alone, emit_alone
from .forward_backward import smooth_alone
from .priors import take_step


@kernel
def iterate(
    chain, batch, log_base, limits, both_ways, startprob, transmat, family, prior, mass, statistics,
    fixed_start, fixed_transmat, fixed, log_likelihoods,
):  # fmt: skip
    """One step of batch EM after another; the parameters change in place.

    ``limits`` are the total weight of the sequences, the least change of the mean log-likelihood
    (of its size, if ``both_ways``), and the mean log-likelihood before the first step.
    ``log_base`` is the part of the log-likelihood of all sequences that the family leaves out.
    Steps end with ``log_likelihoods``, into which their mean log-likelihoods go, or before a step
    that Python has to take. Returns the number of steps, and whether another was begun: then the
    parameters are of no use.
    """
    n_states = chain.n_states
    size = padded_states(n_states)
    total, least_change, before = limits
    n_steps = longest_of(batch.lengths) + 16
    b, alpha, gamma = np.empty(n_steps * size), np.empty(n_steps * size), np.empty(n_steps * size)
    shifts, totals = np.empty(n_steps), np.empty(n_steps)
    counts = np.empty(size * size)
    start, transitions = np.empty(n_states), np.empty((n_states, n_states))
    for step in range(log_likelihoods.shape[0]):
        scale(statistics, 0.0)
        scale(mass, 0.0)
        for i in range(size * size):
            counts[i] = 0.0
        for k in range(n_states):
            start[k] = 0.0
        log_likelihood = log_base
        for s in range(batch.lengths.shape[0]):
            weight = batch.weights[s] if batch.weights.shape[0] > 0 else 1.0
            if weight <= 0.0:
                continue
            length = batch.lengths[s]
            emit_alone(chain, family, batch, s, 0, length, False, b, shifts)
            score, lost = smooth_alone(
                chain, length, weight, True, b, shifts, alpha, gamma, totals, counts
            )
            if lost:
                # Logarithms are left to Python: their code would take a second to compile.
                return step, True
            log_likelihood += weight * score
            for k in range(n_states):
                start[k] += gamma[k]
            absorb_alone(n_states, family, batch, s, 0, length, gamma, mass, statistics)
        log_likelihood /= total
        if not abs(log_likelihood) < np.inf:
            return step, True
        for i in range(n_states):
            for j in range(n_states):
                at = i * size + j
                transitions[i, j] = chain.forward[at] * counts[at]
        if not take_step(
            prior, family, start, transitions, mass, statistics, chain.absorbing, startprob,
            transmat, fixed_start, fixed_transmat, fixed,
        ):  # fmt: skip
            return step, True
        if not refresh(family):
            return step, True
        set_chain(chain, startprob, transmat)
        log_likelihoods[step] = log_likelihood
        change = log_likelihood - before
        before = log_likelihood
        if (abs(change) if both_ways else change) < least_change:
            return step + 1, False
    return log_likelihoods.shape[0], False
