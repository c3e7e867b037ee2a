"""The backward recursion, and the posteriors that it makes with the forward one.

``β_T = 1``, ``β_{t-1} = A (b_t β_t) / Σ β_t``. Each recursion has a scale of its own, so posteriors
are divided by ``g_t = Σ_k α_t(k) β_t(k)``:

- ``γ_t = α_t β_t / g_t``, the posterior of the state;
- ``u_t = b_t β_t / (g_t c_{t-1})``, with which ``α_{t-1}(i) A_ij u_t(j)`` is that of a transition.
"""

import numpy as np

from .. import simd
from ..options import kernel
from ..rows import GROUP
from .chain import LOST, SMALL, TINY, propagate_eight, propagate_four, propagate_lanes


@kernel
def backward_lanes(
    chain, size, b, width, n_steps, lengths, weights, alpha, totals, gamma, beta, short
):
    """Backward over eight sequences side by side, of ``lengths[lane]`` steps.

    ``b`` becomes ``u`` and ``gamma`` is filled, both times ``weights[lane]``; both are zero beyond
    the end of a sequence. ``short[lane]`` comes back positive where a posterior may be lost to
    underflow. ``beta`` is (2 · size · 8) of work space.
    """
    n_states = chain.n_states
    next_at = size * GROUP
    tiny = simd.splat(TINY)
    one = simd.splat(1.0)
    lost = simd.splat(LOST)
    small = simd.splat(SMALL)
    short0 = simd.splat(0.0)
    short1 = short0
    weight0 = simd.load(weights, 0)
    weight1 = simd.load(weights, 4)
    for i in range(size * GROUP):
        beta[i] = 0.0
    for t in range(n_steps - 1, -1, -1):
        # Until its end is reached a lane is all zero, and so is what follows from it.
        for lane in range(GROUP):
            if lengths[lane] == t + 1:
                for k in range(n_states):
                    beta[k * GROUP + lane] = 1.0
        at = t * GROUP
        g0 = simd.splat(0.0)
        g1 = g0
        sum0 = g0
        sum1 = g0
        for k in range(n_states):
            y0 = simd.load(beta, k * GROUP)
            y1 = simd.load(beta, k * GROUP + 4)
            g0 = simd.fma(simd.load(alpha, k * width + at), y0, g0)
            g1 = simd.fma(simd.load(alpha, k * width + at + 4), y1, g1)
            sum0 = sum0 + y0
            sum1 = sum1 + y1
        short0 = simd.maximum(lost * sum0 - g0, short0)
        short1 = simd.maximum(lost * sum1 - g1, short1)
        # g c is divided by below; a lane that has not begun is all zero.
        product0 = g0
        product1 = g1
        if t > 0:
            product0 = g0 * simd.load(totals, at - GROUP)
            product1 = g1 * simd.load(totals, at - 4)
        short0 = simd.maximum(small * simd.is_positive(sum0) - product0, short0)
        short1 = simd.maximum(small * simd.is_positive(sum1) - product1, short1)
        share0 = simd.is_positive(g0) * weight0 / simd.maximum(g0, tiny)
        share1 = simd.is_positive(g1) * weight1 / simd.maximum(g1, tiny)
        step0 = one / simd.maximum(sum0, tiny)
        step1 = one / simd.maximum(sum1, tiny)
        before0 = share0
        before1 = share1
        if t > 0:
            before0 = share0 / simd.load(totals, at - GROUP)
            before1 = share1 / simd.load(totals, at - 4)
        for k in range(n_states):
            to = k * width + at
            y0 = simd.load(beta, k * GROUP)
            y1 = simd.load(beta, k * GROUP + 4)
            simd.store(gamma, to, simd.load(alpha, to) * y0 * share0)
            simd.store(gamma, to + 4, simd.load(alpha, to + 4) * y1 * share1)
            y0 = simd.load(b, to) * y0
            y1 = simd.load(b, to + 4) * y1
            simd.store(b, to, y0 * before0)
            simd.store(b, to + 4, y1 * before1)
            simd.store(beta, next_at + k * GROUP, y0 * step0)
            simd.store(beta, next_at + k * GROUP + 4, y1 * step1)
        if t > 0:
            for k in range(n_states, size):
                simd.store(beta, next_at + k * GROUP, simd.splat(0.0))
                simd.store(beta, next_at + k * GROUP + 4, simd.splat(0.0))
            for i in range(0, size, 4):
                a0, a1, b0, b1, c0, c1, d0, d1 = propagate_lanes(
                    chain.backward, size, i, beta, GROUP, next_at
                )
                to = i * GROUP
                simd.store(beta, to, a0)
                simd.store(beta, to + 4, a1)
                simd.store(beta, to + 8, b0)
                simd.store(beta, to + 12, b1)
                simd.store(beta, to + 16, c0)
                simd.store(beta, to + 20, c1)
                simd.store(beta, to + 24, d0)
                simd.store(beta, to + 28, d1)
    simd.store(short, 0, short0)
    simd.store(short, 4, short1)


@kernel
def backward_alone(chain, size, b, n_steps, last, beta):
    """Backward over steps of one sequence: β_t is ``beta[t * size :]``, scaled to sum to one.

    ``last`` is β of the last step, (size,), and comes back as that of the step before the first.
    """
    whole = size // 8 * 8
    ahead = np.empty(size)
    total = 0.0
    for k in range(size):
        beta[(n_steps - 1) * size + k] = last[k]
        total += last[k]
    for t in range(n_steps - 1, -1, -1):
        at = t * size
        step = simd.splat(1.0 / max(total, TINY))
        for k in range(0, size, 4):
            y = simd.load(beta, at + k) * step
            simd.store(beta, at + k, y)
            simd.store(ahead, k, simd.load(b, at + k) * y)
        out = beta if t > 0 else last
        to = at - size if t > 0 else 0
        total0 = simd.splat(0.0)
        total1 = total0
        for j in range(0, whole, 8):
            a, c = propagate_eight(chain.backward_panels, size, j, ahead, 0)
            simd.store(out, to + j, a)
            simd.store(out, to + j + 4, c)
            total0 = total0 + a
            total1 = total1 + c
        if whole < size:
            a = propagate_four(chain.backward_panels, size, whole, ahead, 0)
            simd.store(out, to + whole, a)
            total0 = total0 + a
        total = simd.total(total0 + total1)


@kernel
def posteriors_alone(size, b, alpha, totals, beta, start, stop, weight):
    """γ and ``u`` of steps ``start .. stop - 1``: ``beta`` becomes γ and ``b`` becomes ``u``.

    Returns whether a posterior may be lost to underflow.
    """
    least = np.inf
    least_step = np.inf
    for t in range(start, stop):
        at = t * size
        dots = simd.splat(0.0)
        for k in range(0, size, 4):
            dots = simd.fma(simd.load(alpha, at + size + k), simd.load(beta, at + k), dots)
        g = simd.total(dots)
        least = min(least, g)
        least_step = min(least_step, g * totals[t])
        share = weight / g if g > 0.0 else 0.0
        shares = simd.splat(share)
        before = simd.splat(share / totals[t])
        for k in range(0, size, 4):
            y = simd.load(beta, at + k)
            simd.store(beta, at + k, simd.load(alpha, at + size + k) * y * shares)
            simd.store(b, at + k, simd.load(b, at + k) * y * before)
    return least < LOST or least_step < SMALL
