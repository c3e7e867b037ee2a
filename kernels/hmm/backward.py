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
    tiny = simd.splat8(TINY)
    one = simd.splat8(1.0)
    lost = simd.splat8(LOST)
    small = simd.splat8(SMALL)
    worst = simd.splat8(0.0)
    weight = simd.load8(weights, 0)
    for i in range(size * GROUP):
        beta[i] = 0.0
    for t in range(n_steps - 1, -1, -1):
        # Until its end is reached a lane is all zero, and so is what follows from it.
        for lane in range(GROUP):
            if lengths[lane] == t + 1:
                for k in range(n_states):
                    beta[k * GROUP + lane] = 1.0
        at = t * GROUP
        g = simd.splat8(0.0)
        total = g
        for k in range(n_states):
            y = simd.load8(beta, k * GROUP)
            g = simd.fma(simd.load8(alpha, k * width + at), y, g)
            total = total + y
        worst = simd.maximum(lost * total - g, worst)
        # g c is divided by below; a lane that has not begun is all zero.
        product = g
        if t > 0:
            product = g * simd.load8(totals, at - GROUP)
        worst = simd.maximum(small * simd.is_positive(total) - product, worst)
        share = simd.is_positive(g) * weight / simd.maximum(g, tiny)
        step = one / simd.maximum(total, tiny)
        before = share
        if t > 0:
            before = share / simd.load8(totals, at - GROUP)
        for k in range(n_states):
            to = k * width + at
            y = simd.load8(beta, k * GROUP)
            simd.store(gamma, to, simd.load8(alpha, to) * y * share)
            y = simd.load8(b, to) * y
            simd.store(b, to, y * before)
            simd.store(beta, next_at + k * GROUP, y * step)
        if t > 0:
            for k in range(n_states, size):
                simd.store(beta, next_at + k * GROUP, simd.splat8(0.0))
            for i in range(0, size, 4):
                a, c, d, e = propagate_lanes(chain.backward, size, i, beta, GROUP, next_at)
                to = i * GROUP
                simd.store(beta, to, a)
                simd.store(beta, to + GROUP, c)
                simd.store(beta, to + 2 * GROUP, d)
                simd.store(beta, to + 3 * GROUP, e)
    simd.store(short, 0, worst)


@kernel
def backward_alone(chain, size, b, n_steps, last, beta):
    """Backward over steps of one sequence: β_t is ``beta[t * size :]``, scaled to sum to one.

    ``last`` is β of the last step, (size,), and comes back as that of the step before the first.
    """
    whole = size // 8 * 8
    now = np.empty(size)
    ahead = np.empty(size)
    for k in range(size):
        now[k] = last[k]
    total = 0.0
    for k in range(size):
        total += last[k]
    for t in range(n_steps - 1, -1, -1):
        at = t * size
        # Divided by in the next step, where it is off the chain of dependent operations.
        step = simd.splat(1.0 / max(total, TINY))
        for k in range(0, size, 4):
            y = simd.load(now, k)
            simd.store(ahead, k, simd.load(b, at + k) * y)
            simd.store(beta, at + k, y * step)
        total0 = simd.splat(0.0)
        total1 = total0
        for j in range(0, whole, 8):
            a, c = propagate_eight(chain.backward_panels, size, j, ahead, 0)
            a = a * step
            c = c * step
            simd.store(now, j, a)
            simd.store(now, j + 4, c)
            total0 = total0 + a
            total1 = total1 + c
        if whole < size:
            a = propagate_four(chain.backward_panels, size, whole, ahead, 0) * step
            simd.store(now, whole, a)
            total0 = total0 + a
        total = simd.total(total0 + total1)
    # Not ``last[:] = now``: its message about other shapes would take a second to compile.
    for k in range(size):
        last[k] = now[k]


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
