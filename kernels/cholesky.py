"""Cholesky factors and their inverses, rows contiguous so that every inner loop vectorises."""

import numpy as np

from .options import inlined


@inlined
def cholesky(matrix, lower):
    """``lower lowerᵀ = matrix``, from the lower triangle; False if it is not positive definite."""
    size = matrix.shape[0]
    for r in range(size):
        for c in range(r + 1):
            s = matrix[r, c]
            for j in range(c):
                s -= lower[r, j] * lower[c, j]
            if r > c:
                lower[r, c] = s / lower[c, c]
            elif s > 0.0 and np.isfinite(s):
                lower[r, r] = np.sqrt(s)
            else:
                return False
        for c in range(r + 1, size):
            lower[r, c] = 0.0
    return True


@inlined
def inverse_factor(matrix, factor, stride):
    """``factor = L⁻¹`` for ``L Lᵀ = matrix``; returns ``log det factor``, NaN if there is none.

    Row ``r`` of the flat ``factor`` starts at ``r * stride``; what lies outside the triangle is set
    to zero.
    """
    size = matrix.shape[0]
    lower = np.empty((size, size))
    factor[:] = 0.0
    if not cholesky(matrix, lower):
        return np.nan
    log_determinant = 0.0
    row = np.empty(size)
    for r in range(size):
        # P_r = (e_r - Σ_{j<r} L_rj P_j) / L_rr
        row[: r + 1] = 0.0
        for j in range(r):
            weight = lower[r, j]
            above = factor[j * stride : j * stride + r]
            for c in range(j + 1):
                row[c] -= weight * above[c]
        row[r] = 1.0
        scale = 1.0 / lower[r, r]
        for c in range(r + 1):
            factor[r * stride + c] = row[c] * scale
        log_determinant -= np.log(lower[r, r])
    return log_determinant
