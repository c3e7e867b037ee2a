"""Gaussian components that share one covariance matrix.

The density needs one product ``P x`` for all components. The scatter does too: with the posterior
mean ``x̂ = Σ_k γ_k m_k / ω`` of a row of weight ``ω = Σ_k γ_k``,

    Σ_k γ_k (x - m_k)(x - m_k)ᵀ = ω (x - x̂)(x - x̂)ᵀ + ½ Σ_kl (γ_k γ_l / ω)(m_k - m_l)(m_k - m_l)ᵀ,

so that rows need one product of residuals and a table of K × K overlaps, and nothing cancels.
"""

from collections import namedtuple

import numpy as np

from .. import simd
from ..cholesky import inverse_factor
from ..options import apart, implements, kernel
from ..products import add_cross_products, add_products, subtract_distances, whiten
from ..rows import BLOCK_ROWS, GROUP, SPARE, on_a_line, whole_vectors
from . import base
from .gaussian_full import add_completed, center, complete_row, factor_offset, padded

#: means (K, D); covariance (D, D); factor (E·E,), the rows of P, in the type that rows are computed
#: in; offset (1,), as for full ones; whitened (K, E), P (m_k - m_0); halves (K, E), all √½; blur as
#: for full covariances.
TiedGaussian = namedtuple("TiedGaussian", "means covariance factor offset whitened halves blur")

#: first (K, D), Σ γ_k (x - m_k); residual (E·E,), Σ ω (x - x̂)(x - x̂)ᵀ, lower triangle;
#: overlap (K, K), Σ γ_k γ_l / ω.
TiedMoments = namedtuple("TiedMoments", "first residual overlap")


@implements(base.columns_of, TiedGaussian)
def _columns_of(family):
    return family.means.shape[1]


@implements(base.block_rows, TiedGaussian)
def _block_rows(family):
    return BLOCK_ROWS // GROUP * simd.count8(family.factor)


@implements(base.numbers, TiedGaussian)
def _numbers(family, n):
    return on_a_line(np.empty(n + SPARE, dtype=family.factor.dtype), n)


@implements(base.log_density, TiedGaussian)
def _log_density(family, block, width, n, log_p, work):
    n_components, n_columns = family.means.shape
    size = padded(n_columns)
    filled = whole_vectors(n, block)
    images = work[size * width :]
    center(block, width, filled, family.means[0], work)
    whiten(family.factor, size, work, width, filled, images)
    offset = simd.number(family.offset[0], log_p)
    for k in range(n_components):
        for i in range(filled):
            log_p[k, i] += offset
    subtract_distances(images, width, filled, family.whitened, family.halves, log_p.reshape(-1))


@implements(base.accumulate, TiedGaussian)
def _accumulate(family, block, width, n, gamma, moments, work):
    n_components, n_columns = family.means.shape
    size = padded(n_columns)
    filled = whole_vectors(n, block)
    shares = np.empty((n_components, width), dtype=block.dtype)
    root = np.empty(width, dtype=block.dtype)
    total = 0.0
    for i in range(n, filled):
        root[i] = 0.0
    for i in range(n):
        s = 0.0
        for k in range(n_components):
            s += gamma[k, i]
        root[i] = np.sqrt(s)
        total += s
    for k in range(n_components):
        for i in range(filled):
            shares[k, i] = gamma[k, i] / root[i] if root[i] > 0.0 else 0.0
    flat = shares.reshape(-1)
    add_cross_products(
        flat, n_components, flat, n_components, width, filled, moments.overlap.reshape(-1)
    )
    # √ω (x - x̂) = √ω (x - m_0) - Σ_k (γ_k / √ω)(m_k - m_0)
    center(block, width, filled, family.means[0], work)
    add_cross_products(
        gamma.reshape(-1), n_components, work, n_columns, width, filled,
        moments.first.reshape(-1),
    )  # fmt: skip
    for k in range(n_components):
        mass = 0.0
        for i in range(n):
            mass += gamma[k, i]
        for c in range(n_columns):
            moments.first[k, c] -= mass * (family.means[k, c] - family.means[0, c])
    step = simd.count_register(block)
    for c in range(n_columns):
        for i in range(0, filled, step):
            at = c * width + i
            simd.store(work, at, simd.load_register(work, at) * simd.load_register(root, i))
        for k in range(1, n_components):
            shift = simd.splat_register(simd.number(family.means[0, c] - family.means[k, c], block))
            for i in range(0, filled, step):
                at = c * width + i
                share = simd.load_register(flat, k * width + i)
                simd.store(work, at, simd.fma(share, shift, simd.load_register(work, at)))
    add_products(work, size, width, filled, moments.residual)
    for c in range(n_columns):
        moments.residual[c * size + c] += family.blur * total


implements(base.horizon_of, TiedGaussian)(base.unit_horizon)


@implements(base.add_own, TiedGaussian)
def _add_own(family, mass, moments, horizon):
    n_columns = family.means.shape[1]
    size = padded(n_columns)
    total = mass.sum()
    for r in range(n_columns):
        for c in range(r + 1):
            moments.residual[r * size + c] += total * family.covariance[r, c]


@kernel
def fold_overlap(means, moments):
    """Turn the overlaps into scatter about ``means``, where they belong."""
    n_components, n_columns = means.shape
    size = padded(n_columns)
    for k in range(n_components):
        for l in range(k):
            weight = 0.5 * (moments.overlap[k, l] + moments.overlap[l, k])
            if weight == 0.0:
                continue
            for r in range(n_columns):
                between = weight * (means[k, r] - means[l, r])
                for c in range(r + 1):
                    moments.residual[r * size + c] += between * (means[k, c] - means[l, c])
    for k in range(n_components):
        for l in range(n_components):
            moments.overlap[k, l] = 0.0


@implements(base.maximize, TiedGaussian)
def _maximize(family, mass, moments, fixed):
    n_components, n_columns = family.means.shape
    size = padded(n_columns)
    fold_overlap(family.means, moments)
    total = mass.sum()
    if not fixed[0]:
        for k in range(n_components):
            if mass[k] <= 0.0:
                continue
            for r in range(n_columns):
                shift = moments.first[k, r] / mass[k]
                for c in range(r + 1):
                    moments.residual[r * size + c] -= shift * moments.first[k, c]
            for c in range(n_columns):
                family.means[k, c] += moments.first[k, c] / mass[k]
                moments.first[k, c] = 0.0
    if not fixed[1] and total > 0.0:
        for r in range(n_columns):
            for c in range(r + 1):
                value = moments.residual[r * size + c] / total
                family.covariance[r, c] = value
                family.covariance[c, r] = value
    return True


@kernel
def follow_factor(family):
    """Recompute what follows from the factor: the offset, and the means in its coordinates."""
    apart()  # to the same bits wherever it is called
    n_components, n_columns = family.means.shape
    size = padded(n_columns)
    family.offset[0] = factor_offset(family.factor, n_columns)
    for k in range(n_components):
        for r in range(size):
            s = 0.0
            for c in range(min(r + 1, n_columns)):
                s += family.factor[r * size + c] * (family.means[k, c] - family.means[0, c])
            family.whitened[k, r] = s


@kernel
def refresh_tied(family):
    """Factor the covariance anew; False if it is not positive definite."""
    size = padded(family.means.shape[1])
    log_determinant = inverse_factor(family.covariance, family.factor, size)
    follow_factor(family)
    return log_determinant < np.inf


@implements(base.refresh, TiedGaussian)
def _refresh(family):
    return refresh_tied(family)


@implements(base.log_marginal, TiedGaussian)
def _log_marginal(family, x, log_p):
    n = x.shape[0]
    difference, conditional = np.empty(n), np.empty((n, n))
    for k in range(family.means.shape[0]):
        log_p[k] += complete_row(x, family.means[k], family.covariance, difference, conditional)


@implements(base.accumulate_missing, TiedGaussian)
def _accumulate_missing(family, x, gamma, moments):
    n = x.shape[0]
    difference, conditional = np.empty(n), np.empty((n, n))
    for k in range(family.means.shape[0]):
        if gamma[k] > 0.0:
            add_completed(
                x, gamma[k], family.means[k], family.covariance, family.blur, difference,
                conditional, moments.first[k], moments.residual,
            )  # fmt: skip
