"""Linear algebra of small dense matrices that all lie in one flat array.

Every function is given that array, ``x``, and where in it each matrix begins; rows lie one after
another. A kernel with a dozen matrices then has one array among its arguments, which is what
decides how long it takes to compile, and short loops are all that small matrices need.

Vectors that are met in every step of a recursion are padded to whole SIMD vectors, and the
matrices that multiply them are kept as padded columns: see :func:`add_columns`.
"""

import numpy as np

from . import simd
from .options import apart, helper

#: A pivot this small beside the entry it came from is rounding, and the matrix singular there.
SINGULAR = 1e-14
#: What one operation rounds by.
ROUNDING = 2.0**-52


def pad(n):
    """``n`` rounded up to whole SIMD vectors."""
    return -(-n // simd.LANES) * simd.LANES


@helper
def clear(x, out, n):
    """``n`` zeros from ``out`` on."""
    apart()
    for i in range(n):
        x[out + i] = 0.0


@helper
def copy(x, a, n, out):
    """``n`` numbers from ``a`` to ``out``."""
    apart()
    for i in range(n):
        x[out + i] = x[a + i]


@helper
def add(x, a, factor, n, out):
    """``n`` numbers from ``a``, times a factor, onto those from ``out``."""
    apart()
    for i in range(n):
        x[out + i] += factor * x[a + i]


@helper
def multiply(x, a, b, n, k, m, out):
    """``out = a b`` for a (n, k) and b (k, m)."""
    apart()
    for i in range(n):
        for j in range(m):
            s = 0.0
            for l in range(k):
                s += x[a + i * k + l] * x[b + l * m + j]
            x[out + i * m + j] = s


@helper
def multiply_transposed(x, a, b, n, k, m, out):
    """``out = a bᵀ`` for a (n, k) and b (m, k)."""
    apart()
    for i in range(n):
        for j in range(m):
            s = 0.0
            for l in range(k):
                s += x[a + i * k + l] * x[b + j * k + l]
            x[out + i * m + j] = s


@helper
def add_congruence(x, f, p, n, k, scratch, out):
    """``out += f p fᵀ`` for f (n, k) and a symmetric p; exactly symmetric. Scratch is (n, k)."""
    apart()
    multiply(x, f, p, n, k, k, scratch)
    for i in range(n):
        for j in range(i + 1):
            s = 0.0
            for l in range(k):
                s += x[scratch + i * k + l] * x[f + j * k + l]
            x[out + i * n + j] += s
            if j < i:
                x[out + j * n + i] += s


@helper
def subtract_from_identity(x, a, n):
    """``a ← 1 - a``."""
    apart()
    for i in range(n):
        for j in range(n):
            x[a + i * n + j] = (1.0 if i == j else 0.0) - x[a + i * n + j]


@helper
def factorize(x, a, n, tolerance, out):
    """``out outᵀ = a``, read from its lower triangle, out being lower; returns the rank.

    A pivot below ``tolerance`` times its diagonal entry, or not positive, leaves a column of
    zeros: the factor of a singular matrix.
    """
    apart()
    rank = 0
    for c in range(n):
        for r in range(c):
            x[out + r * n + c] = 0.0
        for r in range(c, n):
            s = x[a + r * n + c]
            for k in range(c):
                s -= x[out + r * n + k] * x[out + c * n + k]
            x[out + r * n + c] = s
        pivot = x[out + c * n + c]
        unit = 0.0
        if pivot > tolerance * x[a + c * n + c] and 0.0 < pivot < np.inf:
            unit = 1.0 / np.sqrt(pivot)
            rank += 1
        for r in range(c, n):
            x[out + r * n + c] *= unit
    return rank


@helper
def root(x, a, n, scratch, out):
    """``out outᵀ = a`` for a semidefinite matrix, the largest variances first; out is square.

    What is left of a variance and is rounding, or negative, counts as nothing.
    """
    apart()
    copy(x, a, n * n, scratch)
    clear(x, out, n * n)
    for c in range(n):
        pivot = -1
        for i in range(n):
            left = x[scratch + i * n + i]
            if left > ROUNDING * n * x[a + i * n + i]:
                if pivot < 0 or left > x[scratch + pivot * n + pivot]:
                    pivot = i
        if pivot < 0:
            return
        unit = 1.0 / np.sqrt(x[scratch + pivot * n + pivot])
        for i in range(n):
            x[out + i * n + c] = x[scratch + i * n + pivot] * unit
        for i in range(n):
            for j in range(n):
                x[scratch + i * n + j] -= x[out + i * n + c] * x[out + j * n + c]
        for i in range(n):
            x[scratch + i * n + pivot] = 0.0
            x[scratch + pivot * n + i] = 0.0


@helper
def echelon(x, a, stride, n_rows, n_columns, leading, least, pivots):
    """Reflect rows so that the leading columns are in echelon form; returns their rank.

    ``pivots[k]`` is the column in which row k begins. A column of which no more is left than
    ``least``, one for each, begins none, and is zero in the rows after.
    """
    apart()
    k = 0
    for c in range(leading):
        norm = 0.0
        for r in range(k, n_rows):
            norm += x[a + r * stride + c] ** 2
        norm = np.sqrt(norm)
        if not norm > x[least + c] or k == n_rows:
            for r in range(k, n_rows):
                x[a + r * stride + c] = 0.0
            continue
        head = x[a + k * stride + c]
        end = -norm if head >= 0.0 else norm
        x[a + k * stride + c] = head - end
        scale = 1.0 / (norm * (norm + abs(head)))
        for j in range(c + 1, n_columns):
            s = 0.0
            for r in range(k, n_rows):
                s += x[a + r * stride + c] * x[a + r * stride + j]
            s *= scale
            for r in range(k, n_rows):
                x[a + r * stride + j] -= s * x[a + r * stride + c]
        x[a + k * stride + c] = end
        for r in range(k + 1, n_rows):
            x[a + r * stride + c] = 0.0
        x[pivots + k] = c
        k += 1
    return k


@helper
def half_log_determinant(x, lower, n):
    """The sum of the logarithms of a factor's diagonal."""
    apart()
    s = 0.0
    for i in range(n):
        s += np.log(x[lower + i * n + i])
    return s


@helper
def invert_lower(x, lower, n, out):
    """``out = lower⁻¹`` for a lower triangle without zeros on its diagonal."""
    apart()
    for r in range(n):
        unit = 1.0 / x[lower + r * n + r]
        for c in range(n):
            s = 0.0
            for k in range(c, r):
                s -= x[lower + r * n + k] * x[out + k * n + c]
            x[out + r * n + c] = s * unit if c < r else 0.0
        x[out + r * n + r] = unit


@helper
def solve(x, lower, n, m, rhs):
    """``rhs ← (lower lowerᵀ)⁻¹ rhs`` for rhs (n, m), with zero where a pivot is zero."""
    apart()
    for step in range(2 * n):
        back = step >= n
        r = 2 * n - 1 - step if back else step
        pivot = x[lower + r * n + r]
        unit = 1.0 / pivot if pivot != 0.0 else 0.0
        low, high = (r + 1, n) if back else (0, r)
        for j in range(m):
            s = x[rhs + r * m + j]
            for k in range(low, high):
                weight = x[lower + k * n + r] if back else x[lower + r * n + k]
                s -= weight * x[rhs + k * m + j]
            x[rhs + r * m + j] = s * unit


@helper
def triangularize(x, a, n_rows, width, n_columns):
    """Make the leading columns upper triangular by reflections of all ``width`` columns."""
    apart()
    for c in range(min(n_columns, n_rows)):
        norm = 0.0
        for r in range(c, n_rows):
            norm += x[a + r * width + c] ** 2
        norm = np.sqrt(norm)
        if norm == 0.0:
            continue
        # The reflection along u = y + sign(y₀)‖y‖e₀ sends the column y to a multiple of e₀.
        head = x[a + c * width + c]
        end = -norm if head >= 0.0 else norm
        x[a + c * width + c] = head - end
        scale = 1.0 / (norm * (norm + abs(head)))
        for j in range(c + 1, width):
            s = 0.0
            for r in range(c, n_rows):
                s += x[a + r * width + c] * x[a + r * width + j]
            s *= scale
            for r in range(c, n_rows):
                x[a + r * width + j] -= s * x[a + r * width + c]
        x[a + c * width + c] = end
        for r in range(c + 1, n_rows):
            x[a + r * width + c] = 0.0


@helper
def largest_change(x, new, old, n):
    """The largest change of an entry of a covariance, beside its two standard deviations."""
    apart()
    worst = 0.0
    for i in range(n):
        for j in range(i + 1):
            change = abs(x[new + i * n + j] - x[old + i * n + j])
            scale = np.sqrt(abs(x[new + i * n + i] * x[new + j * n + j]))
            if change > worst * scale:
                worst = change / scale if scale > 0.0 else np.inf
    return worst


@helper
def store_columns(x, a, n, m, sign, stride, out):
    """Write ``sign`` times a (n, m) as columns padded to ``stride``, for :func:`add_columns`."""
    apart()
    for j in range(m):
        for i in range(stride):
            x[out + j * stride + i] = sign * x[a + i * m + j] if i < n else 0.0


@helper
def add_columns(x, columns, n, stride, vector, out):
    """``out += M vector`` for the ``n`` columns of M, each padded to ``stride``."""
    for i in range(0, stride, simd.LANES):
        s = simd.load(x, out + i)
        for j in range(n):
            s = simd.fma(simd.splat(x[vector + j]), simd.load(x, columns + j * stride + i), s)
        simd.store(x, out + i, s)


@helper
def set_columns(x, columns, n, stride, vector, out):
    """``out = M vector``; see :func:`add_columns`."""
    for i in range(0, stride, simd.LANES):
        s = simd.splat(0.0)
        for j in range(n):
            s = simd.fma(simd.splat(x[vector + j]), simd.load(x, columns + j * stride + i), s)
        simd.store(x, out + i, s)


@helper
def add_vector(x, a, factor, stride, out):
    """``out += factor a`` for padded vectors."""
    f = simd.splat(factor)
    for i in range(0, stride, simd.LANES):
        simd.store(x, out + i, simd.fma(f, simd.load(x, a + i), simd.load(x, out + i)))


@helper
def add_outer(x, a, n, weight, b, stride, out):
    """``out += weight a bᵀ`` for a of length n; rows are padded to ``stride``, as b is."""
    for i in range(0, stride, simd.LANES):
        row = simd.load(x, b + i)
        for j in range(n):
            at = out + j * stride + i
            simd.store(x, at, simd.fma(simd.splat(weight * x[a + j]), row, simd.load(x, at)))


@helper
def squares(x, a, n):
    """The sum of the squares of ``n`` numbers."""
    s = 0.0
    for i in range(n):
        s += x[a + i] * x[a + i]
    return s
