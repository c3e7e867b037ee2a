"""Log-likelihoods of many sequences: emissions and the forward recursion, and nothing kept.

The recursion is that of ``forward_lanes``. It follows the emissions of a few hundred rows at once,
while these are in the cache, and remembers one step.
"""

import numpy as np

from .. import simd
from ..families.base import log_density
from ..options import inlined, kernel
from ..rows import GROUP
from .chain import SMALL, TINY, padded_states, propagate_lanes
from .emissions import (
    LEAST,
    allow_lanes,
    describe_lanes,
    emission_space,
    lane_buffers,
    read_lanes,
)


@inlined
def _density(log_p, at, top):
    """``b`` of one state in eight lanes."""
    return simd.exp(simd.load8(log_p, at) - top)


@kernel
def forward_block(chain, size, log_p, log_width, t, n_steps, alpha, carried):
    """Forward over steps ``t .. t + n_steps - 1`` of eight sequences, from log-densities.

    ``alpha`` (2 · size · 8) has α of the last step in one half or the other. ``carried`` has eight
    lanes of each of: lengths, totals of the last step, log-likelihoods, the least α.
    """
    tiny = simd.splat8(TINY)
    one = simd.splat8(1.0)
    lengths = simd.load8(carried, 0)
    total = simd.load8(carried, GROUP)
    score = simd.load8(carried, 2 * GROUP)
    least = simd.load8(carried, 3 * GROUP)
    for s in range(n_steps):
        at = s * GROUP
        top = simd.splat8(LEAST)
        for k in range(size):
            top = simd.maximum(simd.load8(log_p, k * log_width + at), top)
        before, after = size * GROUP, 0
        if (t + s) % 2 == 1:
            before, after = 0, size * GROUP
        if t + s == 0:
            total = simd.splat8(0.0)
            for k in range(size):
                a = simd.splat8(chain.start[k]) * _density(log_p, k * log_width, top)
                simd.store(alpha, after + k * GROUP, a)
                total = total + a
        else:
            scale = one / total
            total = simd.splat8(0.0)
            for j in range(0, size, 4):
                a, c, d, e = propagate_lanes(chain.forward, size, j, alpha, GROUP, before)
                of = j * log_width + at
                a = a * (_density(log_p, of, top) * scale)
                c = c * (_density(log_p, of + log_width, top) * scale)
                d = d * (_density(log_p, of + 2 * log_width, top) * scale)
                e = e * (_density(log_p, of + 3 * log_width, top) * scale)
                to = after + j * GROUP
                simd.store(alpha, to, a)
                simd.store(alpha, to + GROUP, c)
                simd.store(alpha, to + 2 * GROUP, d)
                simd.store(alpha, to + 3 * GROUP, e)
                total = total + ((a + c) + (d + e))
        for k in range(chain.n_states):
            a = simd.load8(alpha, after + k * GROUP)
            least = simd.where_above(least, a, a, least)
        total = simd.maximum(total, tiny)
        lasts = simd.is_positive(lengths - simd.splat8(float(t + s)))
        score = simd.fma(lasts, top + simd.log(total), score)
    simd.store(carried, GROUP, total)
    simd.store(carried, 2 * GROUP, score)
    simd.store(carried, 3 * GROUP, least)


@kernel
def score_lanes(chain, family, batch, layout, first_unit, last_unit, log_likelihoods, doubtful):
    """The log-likelihoods of sequences side by side, none of whose values is missing.

    ``doubtful[unit]`` is set where part of one may be lost to underflow, which the backward
    recursion has to find out. Zeros that the model means count too.
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
    alpha = np.zeros(2 * size * GROUP)
    carried = np.empty(4 * GROUP)
    for unit in range(first_unit, last_unit):
        n_steps = layout.steps[unit]
        describe_lanes(batch, layout, unit, lanes)
        for lane in range(GROUP):
            carried[lane] = lengths[lane]
            carried[GROUP + lane] = 1.0
            carried[2 * GROUP + lane] = 0.0
            carried[3 * GROUP + lane] = np.inf
        for t in range(0, n_steps, rows // GROUP):
            steps = min(rows // GROUP, n_steps - t)
            read_lanes(batch.rows, firsts, lasts, t, steps, block, log_width)
            allow_lanes(chain, cut_off, lengths, t, steps, log_p)
            log_density(family, block, log_width, steps * GROUP, log_p, work)
            forward_block(chain, size, flat, log_width, t, steps, alpha, carried)
        for lane in range(layout.count[unit]):
            log_likelihoods[layout.order[layout.first[unit] + lane]] = carried[2 * GROUP + lane]
        least = np.inf
        for lane in range(GROUP):
            least = min(least, carried[3 * GROUP + lane])
        doubtful[unit] = least < SMALL
