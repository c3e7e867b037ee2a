"""Gaussian components with a covariance matrix each.

``log N(x; m, Σ) = -½ ‖P (x - m)‖² + log det P - ½ D log 2π`` with ``P`` lower triangular and
``PᵀP = Σ⁻¹``. Statistics are kept about the present means, so nothing large is ever subtracted.
"""

from collections import namedtuple

import numpy as np

from .. import simd
from ..cholesky import inverse_factor
from ..options import implements, inlined, kernel
from ..products import PANEL, add_products, subtract_half_norms
from ..rows import BLOCK_ROWS, whole_groups
from .base import (
    accumulate,
    add_own,
    block_rows,
    columns_of,
    horizon_of,
    likely_log_density,
    log_density,
    maximize,
    refresh,
)
from .gaussian_plane import PLANE, add_moments_in_plane, subtract_half_norms_in_plane

#: means (K, D); covariances (K, D, D); factors (K, E·E), the rows of P, E = D rounded up to 4;
#: offsets (K,), log det P - ½ D log 2π; blur, the variance of the noise that every observation is
#: taken to carry in each direction, added to the scatter of the data (``reg_covar``).
FullGaussian = namedtuple("FullGaussian", "means covariances factors offsets blur")

#: Sums about the means of the model: first (K, D) of γ(x-m), second (K, E·E) of γ(x-m)(x-m)ᵀ,
#: of which only the lower triangle counts.
FullMoments = namedtuple("FullMoments", "first second")

SLICE = 256  # rows of data in one product for the scatter
WIDE = 128  # rows with more columns usually belong to one component alone
NEGLIGIBLE = 710.0  # a component whose log-density is lower by this has the posterior zero
# Posteriors up to this add nothing to a scatter. A component lives on 1e-14 of the mass, so that
# what they are left out of is larger by 1e46, and a row 1e15 deviations away would not show.
NOTHING = 1e-60
HALF_LOG_2PI = 0.9189385332046727


@inlined
def padded(n_columns):
    """``n_columns`` rounded up to whole tiles of four."""
    return (n_columns + 3) // 4 * 4


@kernel
def center(block, width, n, mean, difference):
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

    Rows of no weight are left out when they are the greater part: with many columns a point
    belongs to one component, and the others need not be told of it. Returns how many columns of
    ``rows`` are filled, in whole groups.
    """
    n_columns = mean.shape[0]
    count = simd.splat(0.0)
    nothing = simd.splat(NOTHING)
    for i in range(0, whole_groups(n), 4):
        count = count + simd.is_positive(simd.load(gamma, i) - nothing)
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
            if gamma[i] > NOTHING:
                chosen[j] = i
                root[j] = np.sqrt(gamma[i])
                j += 1
        for j in range(n_chosen, filled):
            chosen[j] = 0
            root[j] = 0.0
        for c in range(n_columns):
            m = simd.splat(mean[c])
            s = simd.splat(0.0)
            for j in range(0, filled, 4):
                g = simd.load(root, j)
                y = g * (simd.pick(block, c * width, chosen, j) - m)
                s = simd.fma(g, y, s)
                simd.store(rows, c * width + j, y)
            first[c] += simd.total(s)
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
    return BLOCK_ROWS if family.means.shape[1] <= WIDE else 4 * BLOCK_ROWS


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
        mean, factor = family.means[k], family.factors[k]
        if n_columns <= PLANE:
            subtract_half_norms_in_plane(block, width, filled, mean, factor, size, out)
        else:
            center(block, width, filled, mean, work)
            subtract_half_norms(factor, size, 0, size, work, width, filled, out)


@kernel
def gather_differences(block, width, mean, chosen, n_chosen, out):
    """``out[c, j] = block[c, chosen[j]] - mean[c]``, in whole groups; returns how many columns."""
    n_columns = mean.shape[0]
    filled = whole_groups(n_chosen)
    for j in range(n_chosen, filled):
        chosen[j] = chosen[0]
    for c in range(n_columns):
        m = simd.splat(mean[c])
        for j in range(0, filled, 4):
            simd.store(out, c * width + j, simd.pick(block, c * width, chosen, j) - m)
    for c in range(n_columns, padded(n_columns)):
        for j in range(filled):
            out[c * width + j] = 0.0
    return filled


@implements(likely_log_density, FullGaussian)
def _likely_log_density(family, block, width, n, log_p, work):
    """The density of wide rows, given up for a component as soon as another is sure to win.

    ``‖P (x - m)‖²`` is a sum over rows of ``P``, and a row costs as much as it is long: half of
    them cost a quarter. With these the likeliest component is guessed and its density completed;
    of the others only those are, whose posterior may still be more than zero.
    """
    n_components, n_columns = family.means.shape
    size = padded(n_columns)
    if n_columns <= WIDE or n_components == 1:
        log_density(family, block, width, n, log_p, work)
        return
    half = (size // 2 + PANEL - 1) // PANEL * PANEL
    filled = whole_groups(n)
    for k in range(n_components):
        out = log_p[k]
        offset = family.offsets[k]
        for i in range(filled):
            out[i] += offset
        center(block, width, filled, family.means[k, :half], work)
        subtract_half_norms(family.factors[k], size, 0, half, work, width, filled, out)
    guess = np.zeros(n, dtype=np.int64)
    least = np.empty(n)
    for i in range(n):
        for k in range(1, n_components):
            if log_p[k, i] > log_p[guess[i], i]:
                guess[i] = k
        least[i] = -np.inf
    chosen = np.empty(filled, dtype=np.int64)
    rest = np.empty(filled)
    for turn in range(2):
        for k in range(n_components):
            n_chosen = 0
            for i in range(n):
                if turn == 0:
                    wanted = guess[i] == k
                else:
                    wanted = guess[i] != k and log_p[k, i] > least[i] - NEGLIGIBLE
                if wanted:
                    chosen[n_chosen] = i
                    n_chosen += 1
            if n_chosen == 0:
                continue
            n_rows = gather_differences(block, width, family.means[k], chosen, n_chosen, work)
            for j in range(n_rows):
                rest[j] = 0.0
            for j in range(n_chosen):
                rest[j] = log_p[k, chosen[j]]
            subtract_half_norms(family.factors[k], size, half, size, work, width, n_rows, rest)
            for j in range(n_chosen):
                i = chosen[j]
                log_p[k, i] = rest[j]
                least[i] = max(least[i], rest[j])


@implements(accumulate, FullGaussian)
def _accumulate(family, block, width, n, gamma, moments, work):
    n_components, n_columns = family.means.shape
    size = padded(n_columns)
    for k in range(n_components):
        if n_columns <= PLANE:
            add_moments_in_plane(
                block, width, whole_groups(n), family.means[k], gamma[k], moments.first[k],
                moments.second[k], size,
            )  # fmt: skip
        for start in range(0, n if n_columns > PLANE else 0, SLICE):
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
