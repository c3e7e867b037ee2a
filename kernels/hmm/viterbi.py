"""The likeliest path of states: ``δ_t(j) = max_i (δ_{t-1}(i) + log A_ij) + log b_t(j)``.

Only the values are kept. The path is found from its end: the state before ``j`` at step t is the
``i`` that gives the maximum, which is looked for again, K sums a step, instead of storing K of
them at every step. Of equal ones the first is taken.
"""

import numpy as np

from .. import simd
from ..options import kernel
from ..rows import GROUP
from .chain import log_matrix, padded_states


@kernel
def _likeliest(delta, n_states, at, stride, log_transitions, size, j):
    """The state ``i`` of greatest ``δ(i) + log A_ij``; without a next state if ``j`` is -1."""
    best = 0
    top = -np.inf
    for i in range(n_states):
        value = delta[at + i * stride]
        if j >= 0:
            value = value + log_transitions[i * size + j]
        if value > top:
            top = value
            best = i
    return best


@kernel
def viterbi_lanes(chain, batch, layout, first_unit, last_unit, log_b, log_probabilities, states):
    """The likeliest paths of units side by side; ``log_b`` becomes δ."""
    n_states = chain.n_states
    size = padded_states(n_states)
    log_start, log_transitions = log_matrix(chain)
    lowest = simd.splat8(-np.inf)
    for unit in range(first_unit, last_unit):
        n_steps = layout.steps[unit]
        width = (n_steps + 1) * GROUP
        delta = log_b[layout.at[unit] - layout.at[first_unit] :]
        for k in range(n_states):
            for lane in range(GROUP):
                delta[k * width + lane] += log_start[k]
        for t in range(1, n_steps):
            at = t * GROUP
            for j in range(n_states):
                top = lowest
                for i in range(n_states):
                    a = simd.splat8(log_transitions[i * size + j])
                    top = simd.maximum(simd.load8(delta, i * width + at - GROUP) + a, top)
                to = j * width + at
                simd.store(delta, to, simd.load8(delta, to) + top)
        for lane in range(layout.count[unit]):
            s = layout.order[layout.first[unit] + lane]
            j = -1
            for t in range(batch.lengths[s] - 1, -1, -1):
                at = t * GROUP + lane
                j = _likeliest(delta, n_states, at, width, log_transitions, size, j)
                states[batch.starts[s] + t] = j
                if t == batch.lengths[s] - 1:
                    log_probabilities[s] = delta[at + j * width]


@kernel
def viterbi_alone(chain, n_steps, log_b, states):
    """The likeliest path of one sequence, and its log-probability; ``log_b`` becomes δ."""
    n_states = chain.n_states
    size = padded_states(n_states)
    log_start, log_transitions = log_matrix(chain)
    delta = log_b
    for k in range(n_states):
        delta[k] += log_start[k]
    for t in range(1, n_steps):
        at = t * size
        for j in range(0, size, 4):
            top = simd.splat(-np.inf)
            for i in range(n_states):
                a = simd.splat(delta[at - size + i])
                top = simd.maximum(simd.load(log_transitions, i * size + j) + a, top)
            simd.store(delta, at + j, simd.load(delta, at + j) + top)
    j = -1
    log_probability = -np.inf
    for t in range(n_steps - 1, -1, -1):
        j = _likeliest(delta, n_states, t * size, 1, log_transitions, size, j)
        states[t] = j
        if t == n_steps - 1:
            log_probability = delta[t * size + j]
    return log_probability
