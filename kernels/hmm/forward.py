"""The forward recursion.

``α_1 = π b_1``, ``α_t = (α_{t-1} / c_{t-1}) A b_t``, ``c_t = Σ_k α_t(k)``.

``b_t(k)`` is the density of the observation at step t in state k over the largest of them, so the
recursion runs in plain numbers and ``log p(v) = Σ_t log c_t + log max_k p(v_t|k)``. The division by
``c_{t-1}`` is left to the next step, where it is off the chain of dependent operations.
"""

from .. import simd
from ..options import inlined, kernel
from ..rows import GROUP
from .chain import TINY, propagate_eight, propagate_four, propagate_lanes


@inlined
def _advance(b, alpha, to, scale, ahead):
    """``α = (α_{t-1} A) b / c_{t-1}`` of one state in eight lanes, stored at ``to``."""
    a = ahead * (simd.load8(b, to) * scale)
    simd.store(alpha, to, a)
    return a


@kernel
def forward_lanes(chain, size, b, width, n_steps, alpha, totals):
    """Forward over eight sequences side by side: alpha as ``b``, totals[8 t + lane]."""
    tiny = simd.splat8(TINY)
    one = simd.splat8(1.0)
    total = simd.splat8(0.0)
    for k in range(size):
        a = simd.splat8(chain.start[k]) * simd.load8(b, k * width)
        simd.store(alpha, k * width, a)
        total = total + a
    for t in range(1, n_steps):
        total = simd.maximum(total, tiny)
        at = t * GROUP
        simd.store(totals, at - GROUP, total)
        scale = one / total
        total = simd.splat8(0.0)
        for j in range(0, size, 4):
            a, c, d, e = propagate_lanes(chain.forward, size, j, alpha, width, at - GROUP)
            to = j * width + at
            a = _advance(b, alpha, to, scale, a)
            c = _advance(b, alpha, to + width, scale, c)
            d = _advance(b, alpha, to + 2 * width, scale, d)
            e = _advance(b, alpha, to + 3 * width, scale, e)
            total = total + ((a + c) + (d + e))
    simd.store(totals, (n_steps - 1) * GROUP, simd.maximum(total, tiny))


@kernel
def forward_alone(chain, size, b, n_steps, follows, alpha, totals):
    """Forward over steps of one sequence: α_t at ``alpha[(t + 1) * size]``, c_t ``totals[t + 1]``.

    With ``follows`` the steps follow others, whose last α and c are in the place before the first.
    """
    first = 0
    if not follows:
        for k in range(size):
            alpha[size + k] = chain.start[k] * b[k]
        total = 0.0
        for k in range(size):
            total += alpha[size + k]
        totals[1] = max(total, TINY)
        first = 1
    whole = size // 8 * 8
    for t in range(first, n_steps):
        at = t * size
        scale = simd.splat(1.0 / totals[t])
        total0 = simd.splat(0.0)
        total1 = total0
        for j in range(0, whole, 8):
            a, c = propagate_eight(chain.forward_panels, size, j, alpha, at)
            a = a * (simd.load(b, at + j) * scale)
            c = c * (simd.load(b, at + j + 4) * scale)
            simd.store(alpha, at + size + j, a)
            simd.store(alpha, at + size + j + 4, c)
            total0 = total0 + a
            total1 = total1 + c
        if whole < size:
            a = propagate_four(chain.forward_panels, size, whole, alpha, at)
            a = a * (simd.load(b, at + whole) * scale)
            simd.store(alpha, at + size + whole, a)
            total0 = total0 + a
        totals[t + 1] = max(simd.total(total0 + total1), TINY)
