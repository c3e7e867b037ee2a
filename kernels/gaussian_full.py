"""Gaussian components with a covariance matrix each.

``log N(x; m, Σ) = -½ ‖P (x - m)‖² + log det P - ½ D log 2π`` with ``P`` lower triangular and
``PᵀP = Σ⁻¹``. Statistics are kept about the present means, so nothing large is ever subtracted.
"""

from collections import namedtuple

import numpy as np

from . import simd
from .cholesky import inverse_factor
from .family import (
    accumulate,
    add_own,
    block_rows,
    columns_of,
    horizon_of,
    log_density,
    maximize,
    refresh,
)
from .options import implements, inlined, kernel
from .products import add_products, subtract_half_norms
from .rows import BLOCK_ROWS, whole_groups

#: means (K, D); covariances (K, D, D); factors (K, E·E), the rows of P, E = D rounded up to 4;
#: offsets (K,), log det P - ½ D log 2π; blur, the variance of the noise that every observation is
#: taken to carry in each direction, added to the scatter of the data (``reg_covar``).
FullGaussian = namedtuple("FullGaussian", "means covariances factors offsets blur")

#: Sums about the means of the model: first (K, D) of γ(x-m), second (K, E·E) of γ(x-m)(x-m)ᵀ,
#: of which only the lower triangle counts.
FullMoments = namedtuple("FullMoments", "first second")

SLICE = 256  # rows of data in one product for the scatter
HALF_LOG_2PI = 0.9189385332046727


@inlined
def padded(n_columns):
    """``n_columns`` rounded up to whole tiles of four."""
    return (n_columns + 3) // 4 * 4


@kernel
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


@kernel
def gather(block, width, n, mean, gamma, rows, first):
    """Collect ``√γ_i (x_i - m)`` of the rows that matter into ``rows``; add ``Σ γ_i (x_i - m)``.

    Rows of zero weight are left out when they are the greater part: with many columns a point
    belongs to one component, and the others need not be told of it. Returns how many columns of
    ``rows`` are filled, in whole groups.
    """
    n_columns = mean.shape[0]
    count = simd.splat(0.0)
    for i in range(0, whole_groups(n), 4):
        count = count + simd.is_positive(simd.load(gamma, i))
    n_chosen = int(simd.total(count))
    if n_chosen == 0:
        return 0
    root = np.empty(SLICE)
    if 2 * n_chosen > n:
        filled = whole_groups(n)
        for i in range(0, filled, 4):
            simd.store(root, i, simd.square_root(simd.load(gamma, i)))
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
        chosen = np.empty(SLICE, dtype=np.int64)
        j = 0
        for i in range(n):
            if gamma[i] > 0.0:
                chosen[j] = i
                root[j] = np.sqrt(gamma[i])
                j += 1
        for j in range(n_chosen, filled):
            chosen[j] = 0
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


@implements(columns_of, FullGaussian)
def _columns_of(family):
    return family.means.shape[1]


@implements(block_rows, FullGaussian)
def _block_rows(family):
    # In wide rows most responsibilities are zero: a longer block leaves each component enough rows
    # to fill a matrix product.
    return BLOCK_ROWS if family.means.shape[1] <= 128 else 4 * BLOCK_ROWS


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
        for start in range(0, n, SLICE):
            length = min(SLICE, n - start)
            filled = gather(
                block[start:], width, length, family.means[k], gamma[k, start:], work,
                moments.first[k],
            )  # fmt: skip
            if filled > 0:
                add_products(work, size, width, filled, moments.second[k])
        total = 0.0
        for i in range(n):
            total += gamma[k, i]
        for c in range(n_columns):
            moments.second[k, c * size + c] += family.blur * total


@implements(horizon_of, FullGaussian)
def _horizon_of(family, total, moments):
    return 1.0


@implements(add_own, FullGaussian)
def _add_own(family, mass, moments, horizon):
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
    return True


@kernel
def refresh_full(family, k):
    """Factor component ``k`` anew; False if its covariance is not positive definite."""
    n_columns = family.means.shape[1]
    log_determinant = inverse_factor(family.covariances[k], family.factors[k], padded(n_columns))
    family.offsets[k] = log_determinant - n_columns * HALF_LOG_2PI
    return log_determinant < np.inf


@implements(refresh, FullGaussian)
def _refresh(family):
    done = True
    for k in range(family.means.shape[0]):
        done = refresh_full(family, k) and done
    return done
