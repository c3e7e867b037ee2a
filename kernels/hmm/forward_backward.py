"""Expected statistics of sequences: forward, backward, and sums over their posteriors.

``S(V|Θ) = Σ (γ_1, Σ_t ξ_t, Σ_t γ_t, Σ_t γ_t φ(v_t))``.

The recursions run in plain numbers. What they lose to underflow is certified afterwards: by
``g_t = Σ_k α_t(k) β_t(k)``, with β scaled to sum to one, an amount ε lost at step t changes the
likelihood and every posterior by no more than ``ε / g_t`` relatively; underflow loses 1e-308 at
most, so while ``g_t`` stays above ``LOST`` = 1e-250 the answer is good to all digits. A sequence
where it does not is done again in logarithms, and so is one where ``g_t c_{t-1}`` is too small to
be divided by.
"""

import numpy as np

from .. import simd
from ..options import inlined, kernel
from ..products import add_cross_products
from ..rows import GROUP
from .backward import backward_alone, backward_lanes, posteriors_alone
from .chain import SMALL, add_logs, padded_states
from .forward import forward_alone, forward_lanes

_BLOCK_STEPS = 64  # steps of one sequence whose transitions are counted at a time


@kernel
def may_be_lost(a, n_states, width, step, n):
    """Whether some forward probability is so small that part of it may be lost to underflow.

    ``a[k * width + i * step]`` for ``i < n``. Zeros that the model means count too.
    """
    least = np.inf
    for k in range(n_states):
        for i in range(n):
            least = min(least, a[k * width + i * step])
    return least < SMALL


@kernel
def sum_steps(totals, n_steps, shifts):
    """The log-likelihood of a sequence alone: ``Σ_t log c_t`` and the shift of ``b_t``."""
    add_logs(totals[1:], n_steps // 4 * 4, shifts)
    total = 0.0
    for t in range(n_steps):
        total += shifts[t]
    for t in range(n_steps // 4 * 4, n_steps):
        total += np.log(totals[t + 1])
    return total


@inlined
def add_to(out, at, x):
    """``out[at : at + 4] += x``."""
    simd.store(out, at, simd.load(out, at) + x)


@kernel
def add_transitions_alone(alpha, u, size, start, stop, counts):
    """``counts[i, j] += Σ_t α_{t-1}(i) u_t(j)`` for steps ``t = start .. stop - 1``.

    ``alpha`` has a place before its first step: α_{t-1} is ``alpha[t * size :]``.
    """
    whole = size // 8 * 8
    for begin in range(start, stop, _BLOCK_STEPS):
        end = min(begin + _BLOCK_STEPS, stop)
        for i in range(0, size, 4):
            for j in range(0, whole, 8):
                a = simd.splat8(0.0)
                b = a
                c = a
                d = a
                for t in range(begin, end):
                    at = t * size + i
                    y = simd.load8(u, t * size + j)
                    a = simd.fma(simd.splat8(alpha[at]), y, a)
                    b = simd.fma(simd.splat8(alpha[at + 1]), y, b)
                    c = simd.fma(simd.splat8(alpha[at + 2]), y, c)
                    d = simd.fma(simd.splat8(alpha[at + 3]), y, d)
                to = i * size + j
                simd.store(counts, to, simd.load8(counts, to) + a)
                simd.store(counts, to + size, simd.load8(counts, to + size) + b)
                simd.store(counts, to + 2 * size, simd.load8(counts, to + 2 * size) + c)
                simd.store(counts, to + 3 * size, simd.load8(counts, to + 3 * size) + d)
            if whole < size:
                a0 = simd.splat(0.0)
                b0 = a0
                c0 = a0
                d0 = a0
                for t in range(begin, end):
                    at = t * size + i
                    y0 = simd.load(u, t * size + whole)
                    a0 = simd.fma(simd.splat(alpha[at]), y0, a0)
                    b0 = simd.fma(simd.splat(alpha[at + 1]), y0, b0)
                    c0 = simd.fma(simd.splat(alpha[at + 2]), y0, c0)
                    d0 = simd.fma(simd.splat(alpha[at + 3]), y0, d0)
                to = i * size + whole
                add_to(counts, to, a0)
                add_to(counts, to + size, b0)
                add_to(counts, to + 2 * size, c0)
                add_to(counts, to + 3 * size, d0)


@kernel
def smooth_lanes(
    chain, batch, layout, first_unit, last_unit, smoothing, b, shifts, alpha, gamma, totals, start,
    counts, log_likelihoods, lost,
):  # fmt: skip
    """Forward and backward over units ``first_unit .. last_unit - 1``, whose ``b`` is given.

    Each sequence's log-likelihood is set. With ``smoothing`` the posteriors come in ``gamma``,
    where ``b`` was, and are added to ``start`` (K,) and ``counts`` (size²), which are counts of
    transitions before they are multiplied by the matrix. ``lost[s]`` is set for a sequence that
    has to be done in logarithms; its posteriors are zero.
    """
    n_states = chain.n_states
    size = padded_states(n_states)
    weights = np.zeros(GROUP)
    lengths = np.zeros(GROUP, dtype=np.int64)
    short = np.zeros(GROUP)
    beta = np.zeros(2 * size * GROUP)
    dense = np.zeros(n_states * n_states)
    for unit in range(first_unit, last_unit):
        at = layout.at[unit] - layout.at[first_unit]
        step_at = layout.step_at[unit] - layout.step_at[first_unit]
        n_steps = layout.steps[unit]
        first = layout.first[unit]
        width = (n_steps + 1) * GROUP
        b_unit, alpha_unit, gamma_unit = b[at:], alpha[at:], gamma[at:]
        shifts_unit, totals_unit = shifts[step_at:], totals[step_at:]
        for lane in range(GROUP):
            filled = lane < layout.count[unit]
            s = layout.order[first + (lane if filled else 0)]
            lengths[lane] = batch.lengths[s] if filled else 0
            weights[lane] = 0.0
            short[lane] = 0.0
            if filled:
                weights[lane] = batch.weights[s] if batch.weights.shape[0] > 0 else 1.0
        forward_lanes(chain, size, b_unit, width, n_steps, alpha_unit, totals_unit)
        if smoothing or may_be_lost(alpha_unit, n_states, width, 1, n_steps * GROUP):
            backward_lanes(
                chain, size, b_unit, width, n_steps, lengths, weights, alpha_unit, totals_unit,
                gamma_unit, beta, short,
            )  # fmt: skip
        add_logs(totals_unit, n_steps * GROUP, shifts_unit)
        for lane in range(layout.count[unit]):
            s = layout.order[first + lane]
            total = 0.0
            for t in range(lengths[lane]):
                total += shifts_unit[t * GROUP + lane]
            log_likelihoods[s] = total
            lost[s] = short[lane] > 0.0
            if lost[s] and smoothing:
                for k in range(n_states):
                    for t in range(n_steps):
                        gamma_unit[k * width + t * GROUP + lane] = 0.0
                        b_unit[k * width + t * GROUP + lane] = 0.0
        if smoothing:
            if n_steps > 1:
                add_cross_products(
                    alpha_unit, n_states, b_unit[GROUP:], n_states, width, (n_steps - 1) * GROUP,
                    dense,
                )  # fmt: skip
            for k in range(n_states):
                for lane in range(GROUP):
                    start[k] += gamma_unit[k * width + lane]
    for i in range(n_states):
        for j in range(n_states):
            counts[i * size + j] += dense[i * n_states + j]


@kernel
def smooth_alone(chain, n_steps, weight, smoothing, b, shifts, alpha, gamma, totals, counts):
    """Forward and backward over one sequence, whose ``b`` is given, as ``smooth_lanes``.

    Returns its log-likelihood, and whether it has to be done in logarithms; then nothing is added.
    """
    size = padded_states(chain.n_states)
    forward_alone(chain, size, b, n_steps, False, alpha, totals)
    if smoothing or may_be_lost(alpha[size:], chain.n_states, 1, size, n_steps):
        last = np.zeros(size)
        for k in range(chain.n_states):
            last[k] = 1.0
        totals[0] = 1.0
        backward_alone(chain, size, b, n_steps, last, gamma)
        if posteriors_alone(size, b, alpha, totals, gamma, 0, n_steps, weight):
            return 0.0, True
        if smoothing:
            add_transitions_alone(alpha, b, size, 1, n_steps, counts)
    return sum_steps(totals, n_steps, shifts), False
