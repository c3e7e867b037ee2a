"""Cholesky factors and their inverses, by 4 × 4 tiles.

Matrices are flat, row after row, of a size rounded up to whole fours; the padding is that of the
identity, so that no tile needs to know where the matrix ends.
"""

import numpy as np

from . import simd
from .options import kernel


@kernel
def _subtract_dots(lower, size, r, c, tile):
    """``tile[a, b] -= Σ_{j<c} lower[r + a, j] lower[c + b, j]`` for a tile of 4 × 4."""
    for b in range(0, 4, 2):
        s0 = (c + b) * size
        s1 = s0 + size
        r0 = r * size
        r1 = r0 + size
        r2 = r1 + size
        r3 = r2 + size
        a0 = simd.splat(0.0)
        a1 = a0
        b0 = a0
        b1 = a0
        c0 = a0
        c1 = a0
        d0 = a0
        d1 = a0
        for j in range(0, c, 4):
            x0 = simd.load(lower, s0 + j)
            x1 = simd.load(lower, s1 + j)
            y = simd.load(lower, r0 + j)
            a0 = simd.fma(y, x0, a0)
            a1 = simd.fma(y, x1, a1)
            y = simd.load(lower, r1 + j)
            b0 = simd.fma(y, x0, b0)
            b1 = simd.fma(y, x1, b1)
            y = simd.load(lower, r2 + j)
            c0 = simd.fma(y, x0, c0)
            c1 = simd.fma(y, x1, c1)
            y = simd.load(lower, r3 + j)
            d0 = simd.fma(y, x0, d0)
            d1 = simd.fma(y, x1, d1)
        tile[b] -= simd.total(a0)
        tile[b + 1] -= simd.total(a1)
        tile[4 + b] -= simd.total(b0)
        tile[4 + b + 1] -= simd.total(b1)
        tile[8 + b] -= simd.total(c0)
        tile[8 + b + 1] -= simd.total(c1)
        tile[12 + b] -= simd.total(d0)
        tile[12 + b + 1] -= simd.total(d1)


@kernel
def cholesky(matrix, lower, size):
    """``L Lᵀ = matrix`` from its lower triangle; False if it is not positive definite."""
    n = matrix.shape[0]
    tile = np.empty(16)
    for r in range(0, size, 4):
        for c in range(0, r + 4, 4):
            for a in range(4):
                for b in range(4):
                    inside = r + a < n and c + b < n
                    padding = 1.0 if r + a == c + b else 0.0
                    tile[4 * a + b] = matrix[r + a, c + b] if inside else padding
            _subtract_dots(lower, size, r, c, tile)
            for a in range(4):
                for b in range(4):
                    if c + b > r + a:
                        lower[(r + a) * size + c + b] = 0.0
                        continue
                    s = tile[4 * a + b]
                    for j in range(b):
                        s -= lower[(r + a) * size + c + j] * lower[(c + b) * size + c + j]
                    if c + b < r + a:
                        lower[(r + a) * size + c + b] = s / lower[(c + b) * size + c + b]
                    elif s > 0.0 and np.isfinite(s):
                        lower[(r + a) * size + c + b] = np.sqrt(s)
                    else:
                        return False
        for j in range((r + 4), size):
            for a in range(4):
                lower[(r + a) * size + j] = 0.0
    return True


@kernel
def invert_lower(lower, size, inverse):
    """``inverse = L⁻¹``: row by row, ``P_r = (e_r - Σ_{j<r} L_rj P_j) / L_rr``."""
    for r in range(0, size, 4):
        r0 = r * size
        r1 = r0 + size
        r2 = r1 + size
        r3 = r2 + size
        for c in range(r + 4, size):
            for a in range(4):
                inverse[(r + a) * size + c] = 0.0
        for c in range(0, r + 4, 4):
            a0 = simd.splat(0.0)
            b0 = a0
            c0 = a0
            d0 = a0
            a1 = a0
            b1 = a0
            c1 = a0
            d1 = a0
            for j in range(c, r, 2):
                x = simd.load(inverse, j * size + c)
                a0 = simd.fma(simd.splat(lower[r0 + j]), x, a0)
                b0 = simd.fma(simd.splat(lower[r1 + j]), x, b0)
                c0 = simd.fma(simd.splat(lower[r2 + j]), x, c0)
                d0 = simd.fma(simd.splat(lower[r3 + j]), x, d0)
                x = simd.load(inverse, (j + 1) * size + c)
                a1 = simd.fma(simd.splat(lower[r0 + j + 1]), x, a1)
                b1 = simd.fma(simd.splat(lower[r1 + j + 1]), x, b1)
                c1 = simd.fma(simd.splat(lower[r2 + j + 1]), x, c1)
                d1 = simd.fma(simd.splat(lower[r3 + j + 1]), x, d1)
            simd.store(inverse, r0 + c, a0 + a1)
            simd.store(inverse, r1 + c, b0 + b1)
            simd.store(inverse, r2 + c, c0 + c1)
            simd.store(inverse, r3 + c, d0 + d1)
            for a in range(4):
                row = (r + a) * size
                unit = 1.0 / lower[row + r + a]
                for b in range(4):
                    s = (1.0 if c + b == r + a else 0.0) - inverse[row + c + b]
                    for j in range(a):
                        s -= lower[row + r + j] * inverse[(r + j) * size + c + b]
                    inverse[row + c + b] = s * unit


@kernel
def inverse_factor(matrix, factor, size):
    """``factor = L⁻¹`` for ``L Lᵀ = matrix``; returns ``log det factor``, NaN if there is none.

    Padding is left zero in the factor, as products of padded blocks want it.
    """
    n = matrix.shape[0]
    lower = np.empty(size * size)
    if not cholesky(matrix, lower, size):
        return np.nan
    invert_lower(lower, size, factor)
    log_determinant = 0.0
    for r in range(n):
        log_determinant -= np.log(lower[r * size + r])
    for r in range(n, size):
        factor[r * size + r] = 0.0
    return log_determinant


@kernel
def covariance_from_factor(factor, size, out):
    """``out = (PᵀP)⁻¹`` for a factor ``P`` as :func:`inverse_factor` makes it."""
    n = out.shape[0]
    padded = factor.copy()
    for r in range(n, size):
        padded[r * size + r] = 1.0
    lower = np.empty(size * size)
    invert_lower(padded, size, lower)
    for r in range(n):
        for c in range(r + 1):
            s = 0.0
            for j in range(c + 1):
                s += lower[r * size + j] * lower[c * size + j]
            out[r, c] = s
            out[c, r] = s
