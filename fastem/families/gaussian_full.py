"""Gaussian components with a covariance matrix each."""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from ..drawing import multivariate_normal
from ..kernels.families.gaussian_full import FullGaussian, FullMoments, factor_offset, refresh_full
from .gaussian import (
    Gaussian,
    check_definite,
    check_factors,
    conditional_shares,
    contiguous,
    is_symmetric,
    log_normalizer,
    not_positive_definite,
    padded,
    rows_of_each,
    square,
    suits_single,
    to_each_row,
    triangular,
)

# Wider matrices than this are factored by LAPACK instead of a kernel; measured, they break even.
_WIDE = 64


class _Full(Gaussian, covariance_type="full"):
    """A covariance matrix for each component."""

    row_by_row = True

    @staticmethod
    def covariance_shape(n_components, n_columns):
        return n_components, n_columns, n_columns

    def pack(self, parameters):
        given = self.given(parameters)
        means = contiguous(given["means"])
        n_components, n_columns = means.shape
        size = padded(n_columns)
        packed = FullGaussian(
            means,
            contiguous(given["covariances"]),
            np.zeros((n_components, size * size)),
            np.zeros(n_components),
            self.reg_covar,
        )
        if "precisions_cholesky" in given:
            factors = given["precisions_cholesky"]
            check_factors(packed.covariances, factors)
            for k, factor in enumerate(factors):
                upper = triangular(factor)
                square(packed.factors[k], n_columns)[:] = upper.T
                # Scikit-learn takes every factor for a triangular one.
                packed.offsets[k] = (
                    factor_offset(packed.factors[k], n_columns)
                    if upper is factor
                    else log_normalizer(np.diag(factor))
                )
            return packed
        for k in range(n_components):
            if not is_symmetric(packed.covariances[k]):
                raise ValueError(f"The covariance of component {k} is not symmetric.")
            if not self.refresh_one(packed, k):
                raise ValueError(not_positive_definite(f"The covariance of component {k}"))
        return packed

    def refresh(self, packed):
        return all(self.refresh_one(packed, k) for k in range(len(packed.means)))

    def steps_in_kernel(self, packed):
        return packed.means.shape[1] <= _WIDE

    def packs_exactly(self, packed):
        return packed.means.shape[1] <= _WIDE

    def refresh_one(self, packed, k):
        """Factor component ``k`` anew; False if its covariance is not positive definite."""
        n_columns = packed.means.shape[1]
        if n_columns <= _WIDE:
            return refresh_full(packed, k)
        lower, failed = dpotrf(packed.covariances[k], lower=1, clean=1)
        if failed or not np.isfinite(lower).all():
            return False
        inverse, _ = dtrtri(lower, lower=1)
        square(packed.factors[k], n_columns)[:] = inverse
        packed.offsets[k] = log_normalizer(np.diag(inverse))
        return True

    def unpack(self, packed):
        return {"means": packed.means, "covariances": packed.covariances}

    def precisions_cholesky(self, packed):
        """``U`` with ``Σ⁻¹ = U Uᵀ``, upper triangular, as scikit-learn has it."""
        return np.swapaxes(square(packed.factors, packed.means.shape[1]), 1, 2).copy()

    def buffers(self, packed):
        return FullMoments(np.zeros_like(packed.means), np.zeros_like(packed.factors))

    def in_single(self, packed):
        variances = np.diagonal(packed.covariances, axis1=1, axis2=2)
        roots = np.diagonal(square(packed.factors, packed.means.shape[1]), axis1=1, axis2=2)
        if not suits_single(packed.means, variances, roots**2 * variances):
            return None
        return packed._replace(factors=packed.factors.astype(np.float32))

    def shares_left(self, packed, mass, buffers):
        alive = mass > 0
        shift = buffers.first[alive] / mass[alive, None]
        squares = square(buffers.second[alive], packed.means.shape[1]) / mass[alive, None, None]
        scatters = squares - shift[:, :, None] * shift[:, None, :]
        return conditional_shares(scatters, np.diagonal(squares, axis1=1, axis2=2))

    def centered(self, packed, buffers, shift):
        n_columns = packed.means.shape[1]
        between = buffers.first[:, :, None] * shift[:, None, :]
        scatter = square(buffers.second, n_columns) - between
        upper = np.triu_indices(n_columns, 1)
        scatter[:, upper[0], upper[1]] = scatter[:, upper[1], upper[0]]
        return scatter

    def uncenter(self, packed, buffers, scatter, shift):
        between = buffers.first[:, :, None] * shift[:, None, :]
        square(buffers.second, packed.means.shape[1])[:] = scatter + between

    def draw(self, parameters, labels, rng, horizon=None):
        means, covariances = parameters["means"], parameters["covariances"]
        X = np.empty((len(labels), means.shape[1]))
        check_definite(covariances)
        for k, chosen, n_rows in rows_of_each(labels):
            X[chosen] = multivariate_normal(rng, covariances[k], n_rows)
            to_each_row(np.add, X, chosen, means[k])
        return X

    def expected_log_density(self, moments, k, packed):
        covariance = moments.scatter[k] / moments.mass[k]
        P = square(packed.factors[k], packed.means.shape[1])
        d = P @ (moments.mean[k] - packed.means[k])
        return packed.offsets[k] - 0.5 * (d @ d + np.sum((P @ covariance) * P))

    def cross(self, packed, other, horizon=None):
        n_components, n_columns = packed.means.shape
        covariances = packed.covariances.reshape(n_components, -1)
        table = np.empty((n_components, len(other.means)))
        for k, offset in enumerate(other.offsets):
            P = square(other.factors[k], n_columns)
            d = (packed.means - other.means[k]) @ P.T
            # tr P Σ Pᵀ for all Σ by one product with the precision.
            traces = covariances @ (P.T @ P).ravel()
            table[:, k] = offset - 0.5 * (np.sum(d**2, axis=1) + traces)
        return table

    def _pooled_log_det(self, packed, h, other, shares):
        logs = np.empty(len(shares))
        for k, s in enumerate(shares):
            d = packed.means[h] - other.means[k]
            pooled = (1.0 - s) * packed.covariances[h] + s * other.covariances[k]
            lower, _ = dpotrf(pooled + s * (1.0 - s) * np.outer(d, d), lower=1, clean=0)
            logs[k] = 2.0 * np.log(np.diag(lower)).sum()
        return logs
