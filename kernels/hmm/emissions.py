"""Densities of the observations in every state, read and scaled for the recursions.

``b_t(k) = p(v_t|k) / max_k p(v_t|k)``; the logarithm of the largest is kept as the shift of the
step. An absorbing state can be met in the last step only, and a sequence that ended by absorption
meets nothing else there: what cannot be has the density zero.
"""

import numpy as np
from numba import types

from .. import simd
from ..families.base import accumulate, block_rows, log_density, lowest, numbers
from ..options import inlined, kernel, overloaded
from ..products import add_sums, are_above
from ..rows import (
    GROUP,
    check_rows,
    four_for,
    one_for,
    read_block,
    whole_groups,
    whole_vectors,
    width_for,
)
from .chain import padded_states

#: Log-densities below this are those of what cannot be.
LEAST = -1e300

#: What a missing value is replaced by in a block; any value that every family allows will do.
ANY_VALUE = 0.5


@inlined
def emission_space(family, size, n_columns, n_rows):
    """Buffers for blocks of at most ``n_rows``: rows of a block, block, work, log_p."""
    rows = max(min(block_rows(family), whole_groups(n_rows)), GROUP)
    width = width_for(rows, numbers(family, 0))
    block = numbers(family, n_columns * width)
    work = numbers(family, 2 * (n_columns + 4) * width)
    log_p = numbers(family, size * width).reshape(size, width)
    return rows, block, work, log_p


@kernel
def describe_lanes(batch, layout, unit, lanes):
    """First and last row, length and cut-off flag of the eight sequences of a unit."""
    firsts, lasts, lengths, cut_off = lanes
    for lane in range(GROUP):
        filled = lane < layout.count[unit]
        # A lane without a sequence reads the first one, and counts for nothing.
        s = layout.order[layout.first[unit] + (lane if filled else 0)]
        firsts[lane] = batch.starts[s]
        lasts[lane] = batch.starts[s] + batch.lengths[s] - 1
        lengths[lane] = batch.lengths[s] if filled else 0
        cut_off[lane] = batch.cut_off[s] if batch.cut_off.shape[0] > 0 else 0


@inlined
def lane_buffers():
    """Room for what ``describe_lanes`` says."""
    return (
        np.zeros(GROUP, dtype=np.int64),
        np.zeros(GROUP, dtype=np.int64),
        np.zeros(GROUP, dtype=np.int64),
        np.zeros(GROUP, dtype=np.uint8),
    )


@kernel
def read_lanes(rows, firsts, lasts, t, n_steps, block, width):
    """Copy steps ``t .. t + n_steps - 1`` of eight sequences into ``block``, side by side.

    A sequence lies in rows ``firsts[lane] .. lasts[lane]``; beyond its end the last is repeated.
    What is left of the last vector is filled with zeros.
    """
    n_columns = rows.offsets.shape[0]
    code, stride = rows.code, rows.row_stride
    whole_columns = n_columns // 4 * 4 if rows.contiguous else 0
    at = np.empty(GROUP, dtype=np.int64)
    for s in range(n_steps):
        for lane in range(GROUP):
            i = min(firsts[lane] + t + s, lasts[lane])
            check_rows(rows, i, i)
            at[lane] = rows.address + i * stride
        for c in range(0, whole_columns, 4):
            offset = rows.offsets[c]
            to = c * width + s * GROUP
            x0 = four_for(block, at[0] + offset, code)
            x1 = four_for(block, at[1] + offset, code)
            x2 = four_for(block, at[2] + offset, code)
            x3 = four_for(block, at[3] + offset, code)
            simd.store_transposed(block, to, width, x0, x1, x2, x3)
            x0 = four_for(block, at[4] + offset, code)
            x1 = four_for(block, at[5] + offset, code)
            x2 = four_for(block, at[6] + offset, code)
            x3 = four_for(block, at[7] + offset, code)
            simd.store_transposed(block, to + 4, width, x0, x1, x2, x3)
        for c in range(whole_columns, n_columns):
            for lane in range(GROUP):
                place = c * width + s * GROUP + lane
                block[place] = one_for(block, at[lane] + rows.offsets[c], code)
    n = n_steps * GROUP
    for c in range(n_columns):
        for i in range(n, whole_vectors(n, block)):
            block[c * width + i] = 0.0


@kernel
def hide_missing(block, n_columns, width, n, weights, size):
    """Put other values for missing ones, and zero for the weights of their rows, (size, width)."""
    for i in range(n):
        hidden = False
        for c in range(n_columns):
            x = block[c * width + i]
            if x != x:
                hidden = True
                block[c * width + i] = ANY_VALUE
        if hidden:
            for k in range(size):
                weights[k * width + i] = 0.0


@kernel
def allow_lanes(chain, cut_off, lengths, t, n_steps, log_p):
    """Fill log_p with 0 where a state can be at steps ``t ..`` of eight sequences, -inf elsewhere.

    ``cut_off[lane]`` is one if the sequence ends without absorption.
    """
    size, width = log_p.shape
    for k in range(size):
        usual = 0.0 if k < chain.n_states else -np.inf
        if chain.absorbing.shape[0] > 0 and k < chain.n_states and chain.absorbing[k]:
            usual = -np.inf
        for i in range(width):
            log_p[k, i] = usual
    if chain.absorbing.shape[0] > 0:
        for lane in range(GROUP):
            s = lengths[lane] - 1 - t
            if 0 <= s < n_steps and not cut_off[lane]:
                for k in range(chain.n_states):
                    log_p[k, s * GROUP + lane] = 0.0 if chain.absorbing[k] else -np.inf


@kernel
def allow_alone(chain, cut_off, length, t, n, log_p):
    """As ``allow_lanes`` for steps ``t .. t + n - 1`` of one sequence."""
    size, width = log_p.shape
    for k in range(size):
        usual = 0.0 if k < chain.n_states else -np.inf
        if chain.absorbing.shape[0] > 0 and k < chain.n_states and chain.absorbing[k]:
            usual = -np.inf
        for i in range(width):
            log_p[k, i] = usual
    if chain.absorbing.shape[0] > 0:
        s = length - 1 - t
        if 0 <= s < n and not cut_off:
            for k in range(chain.n_states):
                log_p[k, s] = 0.0 if chain.absorbing[k] else -np.inf


@inlined
def possible(log_p):
    """A log-density, minus infinity if it is that of what cannot be."""
    return log_p if log_p > LEAST else -np.inf


def least_eight(log_p):
    """Eight times ``LEAST``, or what is as little in the type of ``log_p``."""


@overloaded(least_eight, inline="always")
def _least_eight(log_p):
    if log_p.dtype == types.float32:
        return lambda log_p: simd.splat(np.float32(-3e38))
    return lambda log_p: simd.splat8(LEAST)


@kernel
def scale_lanes(log_p, size, log_width, n, b, width, at, shifts):
    """``b[k, at + i] = exp(log_p[k, i] - shifts[at + i])``, the shift being the largest over k."""
    for i in range(0, n, GROUP):
        top = least_eight(log_p)
        for k in range(size):
            top = simd.maximum(simd.load_eight(log_p, k * log_width + i), top)
        simd.store(shifts, at + i, simd.doubles(top))
        for k in range(size):
            x = simd.exp_doubles(simd.load_eight(log_p, k * log_width + i) - top)
            simd.store(b, k * width + at + i, x)


@kernel
def scale_alone(log_p, size, log_width, n, b, t, shifts):
    """As ``scale_lanes``, with the states of a step side by side: ``b[(t + i) * size + k]``."""
    for i in range(0, n, 4):
        top = simd.splat(LEAST)
        for k in range(size):
            top = simd.maximum(simd.load_doubles(log_p, k * log_width + i), top)
        simd.store(shifts, t + i, top)
        for k in range(0, size, 4):
            at = k * log_width + i
            x0 = simd.exp(simd.load_doubles(log_p, at) - top)
            x1 = simd.exp(simd.load_doubles(log_p, at + log_width) - top)
            x2 = simd.exp(simd.load_doubles(log_p, at + 2 * log_width) - top)
            x3 = simd.exp(simd.load_doubles(log_p, at + 3 * log_width) - top)
            simd.store_transposed(b, (t + i) * size + k, size, x0, x1, x2, x3)


def without_least(x, weights):
    """Posteriors, zero for those that are nothing in the type of ``weights``."""


@overloaded(without_least, inline="always")
def _without_least(x, weights):
    if weights.dtype == types.float64:
        return lambda x, weights: x
    # As posteriors of mixtures: smaller ones are numbers that lack digits, or make such, with
    # which the statistics took up to twice as long.
    return lambda x, weights: simd.where_above(x, simd.splat(1e-24), x, simd.splat(0.0))


@kernel
def transpose(a, n_rows, size, out, width):
    """``out[k * width + i] = a[i * size + k]`` for ``n_rows`` rounded up to fours."""
    for i in range(0, n_rows, 4):
        for k in range(0, size, 4):
            at = i * size + k
            x0 = without_least(simd.load(a, at), out)
            x1 = without_least(simd.load(a, at + size), out)
            x2 = without_least(simd.load(a, at + 2 * size), out)
            x3 = without_least(simd.load(a, at + 3 * size), out)
            simd.store_transposed(out, k * width + i, width, x0, x1, x2, x3)


@kernel
def emit_lanes(chain, family, batch, layout, first_unit, last_unit, logarithms, b, shifts):
    """Fill ``b`` and ``shifts`` for units ``first_unit .. last_unit - 1``, side by side.

    With ``logarithms`` the log-densities come in ``b`` as they are; without, returns whether the
    type that the family computes in is good enough for them.
    """
    size = padded_states(chain.n_states)
    n_columns = batch.rows.offsets.shape[0]
    lanes = lane_buffers()
    firsts, lasts, lengths, cut_off = lanes
    rows, block, work, log_p = emission_space(
        family, size, n_columns, layout.steps[first_unit] * GROUP
    )
    log_width = log_p.shape[1]
    flat = log_p.reshape(-1)
    within = True
    for unit in range(first_unit, last_unit):
        at = layout.at[unit] - layout.at[first_unit]
        step_at = layout.step_at[unit] - layout.step_at[first_unit]
        n_steps = layout.steps[unit]
        width = (n_steps + 1) * GROUP
        describe_lanes(batch, layout, unit, lanes)
        for t in range(0, n_steps, rows // GROUP):
            steps = min(rows // GROUP, n_steps - t)
            n = steps * GROUP
            read_lanes(batch.rows, firsts, lasts, t, steps, block, log_width)
            allow_lanes(chain, cut_off, lengths, t, steps, log_p)
            if batch.missing:
                hide_missing(block, n_columns, log_width, n, flat, 0)
            log_density(family, block, log_width, n, log_p, work)
            if logarithms:
                for k in range(size):
                    for i in range(n):
                        b[at + k * width + t * GROUP + i] = possible(log_p[k, i])
            else:
                scale_lanes(flat, size, log_width, n, b[at:], width, t * GROUP, shifts[step_at:])
                above = are_above(shifts, step_at + t * GROUP, n, lowest(log_p))
                within = within and above
    return within


@kernel
def emit_alone(chain, family, batch, s, start, stop, logarithms, b, shifts):
    """Fill ``b`` and ``shifts``, from their beginning, for steps of sequence ``s``.

    With ``logarithms`` the log-densities come in ``b`` as they are; without, returns whether the
    type that the family computes in is good enough for them.
    """
    size = padded_states(chain.n_states)
    n_columns = batch.rows.offsets.shape[0]
    length = batch.lengths[s]
    cut_off = batch.cut_off[s] if batch.cut_off.shape[0] > 0 else 0
    rows, block, work, log_p = emission_space(family, size, n_columns, stop - start)
    log_width = log_p.shape[1]
    flat = log_p.reshape(-1)
    within = True
    for t in range(start, stop, rows):
        n = min(rows, stop - t)
        read_block(batch.rows, batch.starts[s] + t, n, block, log_width)
        allow_alone(chain, cut_off, length, t, n, log_p)
        if batch.missing:
            hide_missing(block, n_columns, log_width, n, flat, 0)
        log_density(family, block, log_width, n, log_p, work)
        if logarithms:
            for i in range(n):
                for k in range(size):
                    b[(t - start + i) * size + k] = possible(log_p[k, i])
        else:
            scale_alone(flat, size, log_width, n, b, t - start, shifts)
            for i in range(t - start, t - start + n):
                within = within and shifts[i] >= lowest(log_p)
    return within


@kernel
def add_mass(weights, n_states, n, mass):
    """``mass[k] += Σ_i weights[k, i]``; weights up to a whole group of rows are set to zero."""
    filled = whole_vectors(n, weights)
    for k in range(n_states):
        for i in range(n, filled):
            weights[k, i] = 0.0
    add_sums(weights.reshape(-1), weights.shape[1], filled, n_states, 0.0, mass)


@kernel
def absorb_lanes(
    n_states, family, batch, layout, first_unit, last_unit, gamma, mass, statistics
):  # fmt: skip
    """Add ``Σ γ (1, φ(v))`` over the steps of units, γ where ``emit_lanes`` had ``b``.

    Rows with missing values are left to ``missing.absorb_missing_lanes``.
    """
    size = padded_states(n_states)
    n_columns = batch.rows.offsets.shape[0]
    lanes = lane_buffers()
    firsts, lasts, _, _ = lanes
    rows, block, work, weights = emission_space(
        family, size, n_columns, layout.steps[first_unit] * GROUP
    )
    block_length = weights.shape[1]
    flat = weights.reshape(-1)
    for unit in range(first_unit, last_unit):
        at = layout.at[unit] - layout.at[first_unit]
        n_steps = layout.steps[unit]
        width = (n_steps + 1) * GROUP
        describe_lanes(batch, layout, unit, lanes)
        for t in range(0, n_steps, rows // GROUP):
            steps = min(rows // GROUP, n_steps - t)
            n = steps * GROUP
            read_lanes(batch.rows, firsts, lasts, t, steps, block, block_length)
            for k in range(n_states):
                for i in range(0, n, 4):
                    x = without_least(simd.load(gamma, at + k * width + t * GROUP + i), flat)
                    simd.store_doubles(flat, k * block_length + i, x)
            if batch.missing:
                hide_missing(block, n_columns, block_length, n, flat, size)
            add_mass(weights, n_states, n, mass)
            accumulate(family, block, block_length, n, weights, statistics, work)


@kernel
def absorb_alone(n_states, family, batch, s, start, stop, gamma, mass, statistics):
    """As ``absorb_lanes`` for steps of sequence ``s``, γ where ``emit_alone`` had ``b``."""
    size = padded_states(n_states)
    n_columns = batch.rows.offsets.shape[0]
    rows, block, work, weights = emission_space(family, size, n_columns, stop - start)
    block_length = weights.shape[1]
    for t in range(start, stop, rows):
        n = min(rows, stop - t)
        read_block(batch.rows, batch.starts[s] + t, n, block, block_length)
        transpose(gamma[(t - start) * size :], n, size, weights.reshape(-1), block_length)
        if batch.missing:
            hide_missing(block, n_columns, block_length, n, weights.reshape(-1), size)
        add_mass(weights, n_states, n, mass)
        accumulate(family, block, block_length, n, weights, statistics, work)
