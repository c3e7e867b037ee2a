"""Cholesky factors and their inverses: short loops, quick to compile, for matrices of modest size.

Wide matrices are left to LAPACK, outside the kernels; see ``fastem/families/gaussian.py``.
"""

import numpy as np

from .options import apart, kernel

#: Below this part of the diagonal, for each row above it, a pivot is rounding and nothing else: of
#: a column that depends on others it would be above zero or not by chance.
EPSILON = np.finfo(np.float64).eps


@kernel
def inverse_factor(matrix, factor, size):
    """``factor = L⁻¹`` for ``L Lᵀ = matrix``; returns ``log det factor``, NaN if there is none.

    The matrix is read from its lower triangle. The factor is flat, its rows ``size`` long; what
    lies outside the triangle is set to zero.
    """
    apart()  # so that every kernel computes the same bits
    n = matrix.shape[0]
    lower = np.empty((n, n))
    row = np.empty(n)
    for i in range(size * size):
        factor[i] = 0.0
    log_determinant = 0.0
    for r in range(n):
        for c in range(r + 1):
            s = matrix[r, c]
            for j in range(c):
                s -= lower[r, j] * lower[c, j]
            if c < r:
                lower[r, c] = s / lower[c, c]
            elif (r + 1) * EPSILON * matrix[r, r] < s < np.inf:
                lower[r, r] = np.sqrt(s)
            else:
                return np.nan
        # P_r = (e_r - Σ_{j<r} L_rj P_j) / L_rr
        for c in range(r):
            row[c] = 0.0
        for j in range(r):
            weight = lower[r, j]
            for c in range(j + 1):
                row[c] += weight * factor[j * size + c]
        unit = 1.0 / lower[r, r]
        for c in range(r):
            factor[r * size + c] = -row[c] * unit
        factor[r * size + r] = unit
        log_determinant -= np.log(lower[r, r])
    return log_determinant


@kernel
def covariance_from_factor(factor, size, out):
    """``out = (PᵀP)⁻¹`` for a factor ``P`` as :func:`inverse_factor` makes it."""
    n = out.shape[0]
    lower = np.empty((n, n))
    row = np.empty(n)
    for r in range(n):
        for c in range(r):
            row[c] = 0.0
        for j in range(r):
            weight = factor[r * size + j]
            for c in range(j + 1):
                row[c] += weight * lower[j, c]
        unit = 1.0 / factor[r * size + r]
        for c in range(r):
            lower[r, c] = -row[c] * unit
        lower[r, r] = unit
        for c in range(r + 1):
            s = 0.0
            for j in range(c + 1):
                s += lower[r, j] * lower[c, j]
            out[r, c] = s
            out[c, r] = s
