"""Linear algebra of small dense matrices as short loops: no allocation, quick to compile.

Matrices are two-dimensional arrays and results go into the last argument. Vectors that are met in
every step of a recursion are flat, padded to whole SIMD vectors, and the matrices that multiply
them are flat too, one padded column after another: see :func:`add_columns`.
"""

import numpy as np

from . import simd
from .options import kernel

#: A pivot this small beside the entry it came from is rounding, and the matrix singular there.
SINGULAR = 1e-14


def padded(n):
    """``n`` rounded up to whole SIMD vectors."""
    return -(-n // simd.LANES) * simd.LANES


@kernel
def multiply(a, b, out):
    """``out = a b``."""
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            out[i, j] = 0.0
        for k in range(a.shape[1]):
            x = a[i, k]
            for j in range(b.shape[1]):
                out[i, j] += x * b[k, j]


@kernel
def multiply_transposed(a, b, out):
    """``out = a bᵀ``."""
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[i, k] * b[j, k]
            out[i, j] = s


@kernel
def add_congruence(f, p, scratch, out):
    """``out += f p fᵀ`` for a symmetric ``p``; exactly symmetric. ``scratch`` is as large as f."""
    multiply(f, p, scratch)
    for i in range(f.shape[0]):
        for j in range(i + 1):
            s = 0.0
            for k in range(f.shape[1]):
                s += scratch[i, k] * f[j, k]
            out[i, j] += s
            if j < i:
                out[j, i] += s


@kernel
def factorize(matrix, n, tolerance, lower):
    """``lower lowerᵀ = matrix`` for the leading ``n`` rows; returns the rank.

    A pivot below ``tolerance`` times its diagonal entry, or not positive, leaves a column of
    zeros: the factor of a singular matrix. The matrix is read from its lower triangle.
    """
    rank = 0
    for c in range(n):
        s = matrix[c, c]
        for k in range(c):
            s -= lower[c, k] * lower[c, k]
        for r in range(c):
            lower[r, c] = 0.0
        if s > tolerance * matrix[c, c] and 0.0 < s < np.inf:
            pivot = np.sqrt(s)
            lower[c, c] = pivot
            rank += 1
            for r in range(c + 1, n):
                s = matrix[r, c]
                for k in range(c):
                    s -= lower[r, k] * lower[c, k]
                lower[r, c] = s / pivot
        else:
            for r in range(c, n):
                lower[r, c] = 0.0
    return rank


@kernel
def invert_lower(lower, n, out):
    """``out = lower⁻¹`` for a lower triangle; a zero pivot gives a row of zeros."""
    for r in range(n):
        for c in range(n):
            out[r, c] = 0.0
        if lower[r, r] != 0.0:
            unit = 1.0 / lower[r, r]
            out[r, r] = unit
            for c in range(r):
                s = 0.0
                for k in range(c, r):
                    s += lower[r, k] * out[k, c]
                out[r, c] = -s * unit


@kernel
def solve(lower, n, rhs):
    """``rhs ← (lower lowerᵀ)⁻¹ rhs``, in place, with zero where a pivot is zero."""
    width = rhs.shape[1]
    for r in range(n):
        for k in range(r):
            x = lower[r, k]
            for j in range(width):
                rhs[r, j] -= x * rhs[k, j]
        unit = 1.0 / lower[r, r] if lower[r, r] != 0.0 else 0.0
        for j in range(width):
            rhs[r, j] *= unit
    for i in range(n):
        r = n - 1 - i
        for k in range(r + 1, n):
            x = lower[k, r]
            for j in range(width):
                rhs[r, j] -= x * rhs[k, j]
        unit = 1.0 / lower[r, r] if lower[r, r] != 0.0 else 0.0
        for j in range(width):
            rhs[r, j] *= unit


@kernel
def triangularize(matrix, n_rows, n_columns):
    """Make the leading columns upper triangular by reflections of all columns, in place."""
    width = matrix.shape[1]
    for c in range(min(n_columns, n_rows)):
        norm = 0.0
        for r in range(c, n_rows):
            norm += matrix[r, c] * matrix[r, c]
        norm = np.sqrt(norm)
        if norm == 0.0:
            continue
        # The reflection along u = x + sign(x₀)‖x‖e₀ sends the column x to a multiple of e₀.
        head = matrix[c, c]
        sign = 1.0 if head >= 0.0 else -1.0
        first = head + sign * norm
        scale = 1.0 / (norm * (norm + abs(head)))
        for j in range(c + 1, width):
            s = first * matrix[c, j]
            for r in range(c + 1, n_rows):
                s += matrix[r, c] * matrix[r, j]
            s *= scale
            matrix[c, j] -= s * first
            for r in range(c + 1, n_rows):
                matrix[r, j] -= s * matrix[r, c]
        matrix[c, c] = -sign * norm
        for r in range(c + 1, n_rows):
            matrix[r, c] = 0.0


@kernel
def largest_change(new, old):
    """The largest change of an entry of a covariance, beside its two standard deviations."""
    worst = 0.0
    for i in range(new.shape[0]):
        for j in range(i + 1):
            change = abs(new[i, j] - old[i, j])
            scale = np.sqrt(abs(new[i, i] * new[j, j]))
            if change > worst * scale:
                worst = change / scale if scale > 0.0 else np.inf
    return worst


@kernel
def add_columns(columns, offset, n, stride, x, x_offset, out, out_offset):
    """``out += M x`` for ``n`` columns of M, each padded to ``stride``, from ``offset`` on."""
    for i in range(0, stride, simd.LANES):
        s = simd.load(out, out_offset + i)
        for j in range(n):
            s = simd.fma(
                simd.splat(x[x_offset + j]), simd.load(columns, offset + j * stride + i), s
            )
        simd.store(out, out_offset + i, s)


@kernel
def add_outer(a, a_offset, n, weight, b, b_offset, stride, out):
    """``out += weight a bᵀ``, its rows padded to ``stride`` as ``b`` is."""
    for i in range(0, stride, simd.LANES):
        row = simd.load(b, b_offset + i)
        for j in range(n):
            at = j * stride + i
            s = simd.fma(simd.splat(weight * a[a_offset + j]), row, simd.load(out, at))
            simd.store(out, at, s)


@kernel
def store_columns(matrix, out, offset, stride):
    """Write a matrix as padded columns, for :func:`add_columns`."""
    for j in range(matrix.shape[1]):
        for i in range(stride):
            out[offset + j * stride + i] = matrix[i, j] if i < matrix.shape[0] else 0.0
