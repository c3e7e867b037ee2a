"""Gaussian components with a covariance matrix each.

``log N(x; m, Σ) = -½ ‖P (x - m)‖² + log det P - ½ D log 2π`` with ``P`` lower triangular and
``PᵀP = Σ⁻¹``. Statistics are kept about the present means, so nothing large is ever subtracted.
The factor is triangular and the scatter symmetric, so both products cost half of a matrix product;
tiles of 4 × 2 vectors stay in registers, which runs at the rate of a tuned BLAS from 32 columns up.
"""

from collections import namedtuple

import numpy as np

from . import simd
from .cholesky import inverse_factor
from .family import accumulate, add_own, log_density, maximize
from .options import implements, inlined
from .rows import whole_groups

#: means (K, D); covariances (K, D, D); factors (K, E·E), the rows of P, E = D rounded up to 4;
#: offsets (K,), log det P - ½ D log 2π.
FullGaussian = namedtuple("FullGaussian", "means covariances factors offsets")

#: Sums about the means of the model: first (K, D) of γ(x-m), second (K, E·E) of γ(x-m)(x-m)ᵀ,
#: of which only the lower triangle counts.
FullMoments = namedtuple("FullMoments", "first second")

_PANEL = 32  # rows of P, or columns of the scatter, that are kept in the cache at a time
_SLICE = 256  # rows of data in one product for the scatter
_HALF_LOG_2PI = 0.9189385332046727


@inlined
def padded(n_columns):
    """``n_columns`` rounded up to whole tiles of four."""
    return (n_columns + 3) // 4 * 4


@inlined
def centre(block, width, n, mean, difference):
    """``difference[c, i] = block[c, i] - mean[c]``; rows up to a whole tile are zero."""
    n_columns = mean.shape[0]
    for c in range(n_columns):
        m = simd.splat(mean[c])
        for i in range(c * width, c * width + n, 4):
            simd.store(difference, i, simd.load(block, i) - m)
    for c in range(n_columns, padded(n_columns)):
        for i in range(c * width, c * width + n, 4):
            simd.store(difference, i, simd.splat(0.0))


@inlined
def subtract_half_norms(factor, size, difference, width, n, out):
    """``out[i] -= ½ ‖P d_i‖²`` for the columns ``d_i`` of ``difference``."""
    minus_half = simd.splat(-0.5)
    for panel in range(0, size, _PANEL):
        for i in range(0, n, 8):
            q0 = simd.splat(0.0)
            q1 = simd.splat(0.0)
            for r in range(panel, min(panel + _PANEL, size), 4):
                a0 = simd.splat(0.0)
                a1 = a0
                b0 = a0
                b1 = a0
                c0 = a0
                c1 = a0
                d0 = a0
                d1 = a0
                row = r * size
                for c in range(r + 4):
                    x0 = simd.load(difference, c * width + i)
                    x1 = simd.load(difference, c * width + i + 4)
                    p = simd.splat(factor[row + c])
                    a0 = simd.fma(p, x0, a0)
                    a1 = simd.fma(p, x1, a1)
                    p = simd.splat(factor[row + size + c])
                    b0 = simd.fma(p, x0, b0)
                    b1 = simd.fma(p, x1, b1)
                    p = simd.splat(factor[row + 2 * size + c])
                    c0 = simd.fma(p, x0, c0)
                    c1 = simd.fma(p, x1, c1)
                    p = simd.splat(factor[row + 3 * size + c])
                    d0 = simd.fma(p, x0, d0)
                    d1 = simd.fma(p, x1, d1)
                q0 = simd.fma(a0, a0, simd.fma(b0, b0, q0))
                q1 = simd.fma(a1, a1, simd.fma(b1, b1, q1))
                q0 = simd.fma(c0, c0, simd.fma(d0, d0, q0))
                q1 = simd.fma(c1, c1, simd.fma(d1, d1, q1))
            simd.store(out, i, simd.fma(minus_half, q0, simd.load(out, i)))
            simd.store(out, i + 4, simd.fma(minus_half, q1, simd.load(out, i + 4)))


@inlined
def add_products(rows, size, width, n, second):
    """``second += R Rᵀ`` (lower triangle) for the ``size`` rows ``R`` of length ``n``."""
    for panel in range(0, size, _PANEL):
        for r in range(panel, size, 4):
            r0 = r * width
            r1 = r0 + width
            r2 = r1 + width
            r3 = r2 + width
            for c in range(panel, min(panel + _PANEL, r + 4), 2):
                s0 = c * width
                s1 = s0 + width
                a0 = simd.splat(0.0)
                a1 = a0
                b0 = a0
                b1 = a0
                c0 = a0
                c1 = a0
                d0 = a0
                d1 = a0
                for i in range(0, n, 4):
                    x0 = simd.load(rows, s0 + i)
                    x1 = simd.load(rows, s1 + i)
                    y = simd.load(rows, r0 + i)
                    a0 = simd.fma(y, x0, a0)
                    a1 = simd.fma(y, x1, a1)
                    y = simd.load(rows, r1 + i)
                    b0 = simd.fma(y, x0, b0)
                    b1 = simd.fma(y, x1, b1)
                    y = simd.load(rows, r2 + i)
                    c0 = simd.fma(y, x0, c0)
                    c1 = simd.fma(y, x1, c1)
                    y = simd.load(rows, r3 + i)
                    d0 = simd.fma(y, x0, d0)
                    d1 = simd.fma(y, x1, d1)
                at = r * size + c
                second[at] += simd.total(a0)
                second[at + 1] += simd.total(a1)
                at += size
                second[at] += simd.total(b0)
                second[at + 1] += simd.total(b1)
                at += size
                second[at] += simd.total(c0)
                second[at + 1] += simd.total(c1)
                at += size
                second[at] += simd.total(d0)
                second[at + 1] += simd.total(d1)


@inlined
def gather(block, width, n, mean, gamma, rows, first):
    """Collect ``√γ_i (x_i - m)`` of the rows that matter into ``rows``; add ``Σ γ_i (x_i - m)``.

    Rows of zero weight are left out when they are the greater part. Returns how many columns of
    ``rows`` are filled, in whole groups.
    """
    n_columns = mean.shape[0]
    chosen = np.empty(_SLICE, dtype=np.int64)
    root = np.empty(_SLICE)
    n_chosen = 0
    for i in range(n):
        chosen[n_chosen] = i
        root[n_chosen] = np.sqrt(gamma[i])
        n_chosen += gamma[i] > 0.0
    if n_chosen == 0:
        return 0
    if 2 * n_chosen > n:
        filled = whole_groups(n)
        for i in range(n):
            root[i] = np.sqrt(gamma[i])
        for i in range(n, filled):
            root[i] = 0.0
        for c in range(n_columns):
            m = simd.splat(mean[c])
            s = simd.splat(0.0)
            for i in range(0, filled, 4):
                g = simd.load(root, i)
                y = g * (simd.load(block, c * width + i) - m)
                s = simd.fma(g, y, s)
                simd.store(rows, c * width + i, y)
            first[c] += simd.total(s)
    else:
        filled = whole_groups(n_chosen)
        for j in range(n_chosen, filled):
            chosen[j] = chosen[0]
            root[j] = 0.0
        for c in range(n_columns):
            m = mean[c]
            s = 0.0
            for j in range(filled):
                y = root[j] * (block[c * width + chosen[j]] - m)
                s += root[j] * y
                rows[c * width + j] = y
            first[c] += s
    for c in range(n_columns, padded(n_columns)):
        for i in range(filled):
            rows[c * width + i] = 0.0
    return filled


@implements(log_density, FullGaussian)
def _log_density(family, block, width, n, log_p, work):
    n_components, n_columns = family.means.shape
    size = padded(n_columns)
    filled = whole_groups(n)
    for k in range(n_components):
        out = log_p[k]
        offset = family.offsets[k]
        for i in range(filled):
            out[i] += offset
        centre(block, width, filled, family.means[k], work)
        subtract_half_norms(family.factors[k], size, work, width, filled, out)


@implements(accumulate, FullGaussian)
def _accumulate(family, block, width, n, gamma, moments, work):
    n_components, n_columns = family.means.shape
    size = padded(n_columns)
    for k in range(n_components):
        for start in range(0, n, _SLICE):
            length = min(_SLICE, n - start)
            filled = gather(
                block[start:], width, length, family.means[k], gamma[k, start:], work,
                moments.first[k],
            )  # fmt: skip
            if filled > 0:
                add_products(work, size, width, filled, moments.second[k])


@implements(add_own, FullGaussian)
def _add_own(family, mass, moments):
    n_components, n_columns = family.means.shape
    size = padded(n_columns)
    for k in range(n_components):
        for r in range(n_columns):
            for c in range(r + 1):
                moments.second[k, r * size + c] += mass[k] * family.covariances[k, r, c]


@implements(maximize, FullGaussian)
def _maximize(family, mass, moments, fixed):
    """``m += s₁/s₀``, ``Σ = s₂/s₀ - δδᵀ``; the statistics are moved to the new means."""
    n_components, n_columns = family.means.shape
    size = padded(n_columns)
    for k in range(n_components):
        if mass[k] <= 0.0:
            continue
        first = moments.first[k]
        second = moments.second[k]
        if not fixed[0]:
            for r in range(n_columns):
                for c in range(r + 1):
                    second[r * size + c] -= first[r] * first[c] / mass[k]
            for c in range(n_columns):
                family.means[k, c] += first[c] / mass[k]
                first[c] = 0.0
        if not fixed[1]:
            for r in range(n_columns):
                for c in range(r + 1):
                    value = second[r * size + c] / mass[k]
                    family.covariances[k, r, c] = value
                    family.covariances[k, c, r] = value
            if not refresh(family, k):
                return False
    return True


@inlined
def refresh(family, k):
    """Recompute the factor and the offset of component ``k``; False if Σ is not positive definite."""
    n_columns = family.means.shape[1]
    log_determinant = inverse_factor(
        family.covariances[k], family.factors[k], padded(n_columns)
    )
    family.offsets[k] = log_determinant - n_columns * _HALF_LOG_2PI
    return np.isfinite(log_determinant)
