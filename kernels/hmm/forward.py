"""The forward recursion.

``α_1 = π b_1``, ``α_t = (α_{t-1} / c_{t-1}) A b_t``, ``c_t = Σ_k α_t(k)``.

``b_t(k)`` is the density of the observation at step t in state k over the largest of them, so the
recursion runs in plain numbers and ``log p(v) = Σ_t log c_t + log max_k p(v_t|k)``. The division by
``c_{t-1}`` is left to the next step, where it is off the chain of dependent operations.
"""

from .. import simd
from ..options import kernel
from ..rows import GROUP
from .chain import TINY, propagate_eight, propagate_four, propagate_lanes


@kernel
def forward_lanes(chain, size, b, width, n_steps, alpha, totals):
    """Forward over eight sequences side by side: alpha as ``b``, totals[8 t + lane]."""
    tiny = simd.splat(TINY)
    one = simd.splat(1.0)
    sum0 = simd.splat(0.0)
    sum1 = sum0
    for k in range(size):
        p = simd.splat(chain.start[k])
        a0 = p * simd.load(b, k * width)
        a1 = p * simd.load(b, k * width + 4)
        simd.store(alpha, k * width, a0)
        simd.store(alpha, k * width + 4, a1)
        sum0 = sum0 + a0
        sum1 = sum1 + a1
    for t in range(1, n_steps):
        sum0 = simd.maximum(sum0, tiny)
        sum1 = simd.maximum(sum1, tiny)
        at = t * GROUP
        simd.store(totals, at - GROUP, sum0)
        simd.store(totals, at - 4, sum1)
        scale0 = one / sum0
        scale1 = one / sum1
        sum0 = simd.splat(0.0)
        sum1 = sum0
        for j in range(0, size, 4):
            a0, a1, b0, b1, c0, c1, d0, d1 = propagate_lanes(
                chain.forward, size, j, alpha, width, at - GROUP
            )
            to = j * width + at
            a0 = a0 * (simd.load(b, to) * scale0)
            a1 = a1 * (simd.load(b, to + 4) * scale1)
            simd.store(alpha, to, a0)
            simd.store(alpha, to + 4, a1)
            to += width
            b0 = b0 * (simd.load(b, to) * scale0)
            b1 = b1 * (simd.load(b, to + 4) * scale1)
            simd.store(alpha, to, b0)
            simd.store(alpha, to + 4, b1)
            to += width
            c0 = c0 * (simd.load(b, to) * scale0)
            c1 = c1 * (simd.load(b, to + 4) * scale1)
            simd.store(alpha, to, c0)
            simd.store(alpha, to + 4, c1)
            to += width
            d0 = d0 * (simd.load(b, to) * scale0)
            d1 = d1 * (simd.load(b, to + 4) * scale1)
            simd.store(alpha, to, d0)
            simd.store(alpha, to + 4, d1)
            sum0 = sum0 + ((a0 + b0) + (c0 + d0))
            sum1 = sum1 + ((a1 + b1) + (c1 + d1))
    at = (n_steps - 1) * GROUP
    simd.store(totals, at, simd.maximum(sum0, tiny))
    simd.store(totals, at + 4, simd.maximum(sum1, tiny))


@kernel
def forward_alone(chain, size, b, n_steps, follows, alpha, totals):
    """Forward over steps of one sequence: α_t at ``alpha[(t + 1) * size]``, c_t ``totals[t + 1]``.

    With ``follows`` the steps follow others, whose last α and c are in the place before the first.
    """
    first = 0
    if not follows:
        total = 0.0
        for k in range(size):
            alpha[size + k] = chain.start[k] * b[k]
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
