"""The likeliest path of states: ``δ_t(j) = max_i (δ_{t-1}(i) + log A_ij) + log b_t(j)``.

The path is found from its end: the state before ``j`` at step t is the ``i`` that gives the
maximum. Of one sequence only the values are kept, and ``i`` is looked for again, K sums a step,
instead of storing K of them at every step. Among equal paths hmmlearn's is taken: the first of
equal states at the end, and the last of those that may come before a state.
"""

import numpy as np

from .. import simd
from ..families.base import log_density
from ..options import inlined, kernel
from ..rows import GROUP
from .chain import log_matrix, padded_states
from .emissions import (
    LEAST,
    allow_lanes,
    describe_lanes,
    emission_space,
    lane_buffers,
    read_lanes,
)


@kernel
def _likeliest(delta, n_states, at, stride, log_transitions, size, j):
    """The state ``i`` of greatest ``δ(i) + log A_ij``; without a next state if ``j`` is -1."""
    best = 0
    top = -np.inf
    for i in range(n_states):
        value = delta[at + i * stride]
        if j >= 0:
            value = value + log_transitions[i * size + j]
        if value > top or (j >= 0 and value == top):
            top = value
            best = i
    return best


@kernel
def advance_paths(chain, size, log_b, width, t, n_steps, logarithms, delta, before):
    """δ over steps ``t .. t + n_steps - 1`` of eight sequences, ``log_b[k * width + 8 s + lane]``.

    ``delta`` (2 · size · 8) has δ of the last step in the half that ``half_of`` says. The states
    that give the maxima come in ``before[(t * size + j) * 8 + lane]``: looking for them again would
    be done for one lane after another.
    """
    n_states = chain.n_states
    log_start, log_transitions = logarithms
    lowest = simd.splat8(-np.inf)
    least = simd.splat8(LEAST)
    zero = simd.splat8(0.0)
    for s in range(n_steps):
        here, last = half_of(t + s, size), half_of(t + s + 1, size)
        for j in range(0, size, 4):
            a, c, d, e = lowest, lowest, lowest, lowest
            from_a, from_c, from_d, from_e = zero, zero, zero, zero
            if t + s == 0:
                a, c = simd.splat8(log_start[j]), simd.splat8(log_start[j + 1])
                d, e = simd.splat8(log_start[j + 2]), simd.splat8(log_start[j + 3])
            else:
                # Of equal states the last stays.
                for i in range(n_states):
                    x = simd.load8(delta, last + i * GROUP)
                    number = simd.splat8(float(i))
                    row = i * size + j
                    y = x + simd.splat8(log_transitions[row])
                    from_a = simd.where_above(a, y, from_a, number)
                    a = simd.maximum(y, a)
                    y = x + simd.splat8(log_transitions[row + 1])
                    from_c = simd.where_above(c, y, from_c, number)
                    c = simd.maximum(y, c)
                    y = x + simd.splat8(log_transitions[row + 2])
                    from_d = simd.where_above(d, y, from_d, number)
                    d = simd.maximum(y, d)
                    y = x + simd.splat8(log_transitions[row + 3])
                    from_e = simd.where_above(e, y, from_e, number)
                    e = simd.maximum(y, e)
            at = j * width + s * GROUP
            to = here + j * GROUP
            simd.store(delta, to, _possible(log_b, at, least, lowest) + a)
            simd.store(delta, to + GROUP, _possible(log_b, at + width, least, lowest) + c)
            simd.store(delta, to + 2 * GROUP, _possible(log_b, at + 2 * width, least, lowest) + d)
            simd.store(delta, to + 3 * GROUP, _possible(log_b, at + 3 * width, least, lowest) + e)
            to = ((t + s) * size + j) * GROUP
            simd.store(before, to, from_a)
            simd.store(before, to + GROUP, from_c)
            simd.store(before, to + 2 * GROUP, from_d)
            simd.store(before, to + 3 * GROUP, from_e)


@inlined
def half_of(t, size):
    """Where δ of step ``t`` is: even steps are in the first half."""
    return (t % 2) * size * GROUP


@inlined
def _possible(log_b, at, least, lowest):
    """As ``emissions.possible``, for eight lanes."""
    x = simd.load8(log_b, at)
    return simd.where_above(x, least, x, lowest)


@kernel
def end_paths(batch, layout, unit, n_states, size, t, delta, ends, log_probabilities):
    """The likeliest state of the sequences whose last step is ``t``, and their log-probability."""
    for lane in range(layout.count[unit]):
        s = layout.order[layout.first[unit] + lane]
        if batch.lengths[s] == t + 1:
            at = half_of(t, size) + lane
            ends[lane] = _likeliest(delta, n_states, at, GROUP, delta, size, -1)
            log_probabilities[s] = delta[at + ends[lane] * GROUP]


@kernel
def trace_paths(batch, layout, unit, size, ends, before, states):
    """The paths of a unit, from their ends. Lanes take turns: each waits for its own step only."""
    count = layout.count[unit]
    starts = np.empty(GROUP, dtype=np.int64)
    lasts = np.empty(GROUP, dtype=np.int64)
    for lane in range(count):
        s = layout.order[layout.first[unit] + lane]
        starts[lane] = batch.starts[s]
        lasts[lane] = batch.lengths[s] - 1
    for t in range(layout.steps[unit] - 1, -1, -1):
        for lane in range(count):
            if t > lasts[lane]:
                continue
            if t < lasts[lane]:
                ends[lane] = np.int64(before[((t + 1) * size + ends[lane]) * GROUP + lane])
            states[starts[lane] + t] = ends[lane]


@kernel
def decode_lanes(
    chain, family, batch, layout, first_unit, last_unit, given, log_b, before, log_probabilities,
    states,
):  # fmt: skip
    """The likeliest paths of units side by side.

    With ``given`` the log-densities are in ``log_b``, which ``emit_lanes`` has filled; otherwise
    they are computed here, a few hundred rows at a time. ``before`` has room for the first unit,
    the longest.
    """
    n_states = chain.n_states
    size = padded_states(n_states)
    n_columns = batch.rows.offsets.shape[0]
    logarithms = log_matrix(chain)
    lanes = lane_buffers()
    firsts, lasts, lengths, cut_off = lanes
    rows, block, work, log_p = emission_space(
        family, size, n_columns, layout.steps[first_unit] * GROUP
    )
    delta = np.empty(2 * size * GROUP)
    ends = np.zeros(GROUP, dtype=np.int64)
    for unit in range(first_unit, last_unit):
        n_steps = layout.steps[unit]
        describe_lanes(batch, layout, unit, lanes)
        shortest = n_steps
        for lane in range(layout.count[unit]):
            shortest = min(shortest, lengths[lane])
        if given:
            densities = log_b[layout.at[unit] - layout.at[first_unit] :]
            width = (n_steps + 1) * GROUP
        else:
            densities = log_p.reshape(-1)
            width = log_p.shape[1]
        t = 0
        while t < n_steps:
            # Steps at which sequences end are taken one by one, to see their δ.
            steps = 1 if t + 1 >= shortest else shortest - 1 - t
            at = t * GROUP
            if not given:
                at = t % (rows // GROUP) * GROUP
                steps = min(steps, rows // GROUP - t % (rows // GROUP))
                if at == 0:
                    n = min(rows // GROUP, n_steps - t)
                    read_lanes(batch.rows, firsts, lasts, t, n, block, width)
                    allow_lanes(chain, cut_off, lengths, t, n, log_p)
                    log_density(family, block, width, n * GROUP, log_p, work)
            advance_paths(chain, size, densities[at:], width, t, steps, logarithms, delta, before)
            t += steps
            if t >= shortest:
                end_paths(
                    batch, layout, unit, n_states, size, t - 1, delta, ends, log_probabilities
                )
        trace_paths(batch, layout, unit, size, ends, before, states)


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
