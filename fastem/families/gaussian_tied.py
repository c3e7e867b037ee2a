"""Gaussian components that share one covariance matrix."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.spatial.distance import cdist

from ..drawing import multivariate_normal
from ..kernels.families.gaussian_full import HALF_LOG_2PI
from ..kernels.families.gaussian_tied import (
    TiedGaussian,
    TiedMoments,
    fold_overlap,
    follow_factor,
    refresh_tied,
)
from ..statistics import SharedMoments
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


class _Tied(Gaussian, covariance_type="tied"):
    """One covariance matrix for all components."""

    moments_kind = SharedMoments
    shared_parameters = ("covariances",)

    def as_members(self):
        return Gaussian("full", self.reg_covar)

    @staticmethod
    def covariance_shape(n_components, n_columns):
        return n_columns, n_columns

    def pack(self, parameters):
        given = self.given(parameters)
        means = contiguous(given["means"])
        n_components, n_columns = means.shape
        size = padded(n_columns)
        packed = TiedGaussian(
            means,
            contiguous(given["covariances"]),
            np.zeros(size * size),
            np.zeros(1),
            np.zeros((n_components, size)),
            np.full((n_components, size), np.sqrt(0.5)),
            self.reg_covar,
        )
        if "precisions_cholesky" in given:
            factor = given["precisions_cholesky"]
            check_factors(packed.covariance, factor)
            upper = triangular(factor)
            square(packed.factor, n_columns)[:] = upper.T
            follow_factor(packed)
            if upper is not factor:
                # Scikit-learn takes every factor for a triangular one.
                packed.offset[0] = log_normalizer(np.diag(factor))
            return packed
        if not is_symmetric(packed.covariance):
            raise ValueError("The covariance is not symmetric.")
        if not self.refresh(packed):
            raise ValueError(not_positive_definite("The covariance"))
        return packed

    def refresh(self, packed):
        return refresh_tied(packed)

    def unpack(self, packed):
        return {"means": packed.means, "covariances": packed.covariance}

    def precisions_cholesky(self, packed):
        """``U`` with ``Σ⁻¹ = U Uᵀ``, upper triangular, as scikit-learn has it."""
        return square(packed.factor, packed.means.shape[1]).T.copy()

    def buffers(self, packed):
        n_components = len(packed.means)
        return TiedMoments(
            np.zeros_like(packed.means),
            np.zeros_like(packed.factor),
            np.zeros((n_components, n_components)),
        )

    def in_single(self, packed):
        means = packed.means
        # Rows are first taken about one mean for all, from which they are as far as the others.
        spread = np.max((means - means[0]) ** 2, axis=0)
        variances = np.diagonal(packed.covariance)
        roots = np.diagonal(square(packed.factor, means.shape[1]))
        if not suits_single(means, variances, roots**2 * (variances + spread)):
            return None
        return packed._replace(factor=packed.factor.astype(np.float32))

    def shares_left(self, packed, mass, buffers):
        shift = buffers.first / np.where(mass > 0, mass, 1)[:, None]
        buffers = TiedMoments(*(array.copy() for array in buffers))
        scatter = self.centered(packed, buffers, shift) / mass.sum()
        spread = np.max((packed.means - packed.means[0]) ** 2, axis=0)
        squares = np.diagonal(scatter) + spread + np.max(shift[mass > 0] ** 2, axis=0)
        return conditional_shares(scatter, squares)

    def centered(self, packed, buffers, shift):
        fold_overlap(packed.means, buffers)
        scatter = square(buffers.residual, packed.means.shape[1])
        return np.tril(scatter) + np.tril(scatter, -1).T - buffers.first.T @ shift

    def uncenter(self, packed, buffers, scatter, shift):
        scatter = scatter + buffers.first.T @ shift
        square(buffers.residual, packed.means.shape[1])[:] = scatter

    def reorder(self, parameters, order):
        return {"means": parameters["means"][order], "covariances": parameters["covariances"]}

    def draw(self, parameters, labels, rng, horizon=None):
        means = parameters["means"]
        check_definite(parameters["covariances"][None])
        X = multivariate_normal(rng, parameters["covariances"], len(labels))
        for k, chosen, _ in rows_of_each(labels):
            to_each_row(np.add, X, chosen, means[k])
        return X

    def cross(self, packed, other, horizon=None):
        P = square(other.factor, packed.means.shape[1])
        ours, theirs = packed.means @ P.T, other.means @ P.T
        constant = other.offset[0] - 0.5 * np.sum((P @ packed.covariance) * P)
        return constant - 0.5 * cdist(ours, theirs, "sqeuclidean")

    def pooled(self, packed, mass, other, other_mass, horizon=None, fixed=()):
        # The components share what is pooled, so that there is no value of a pair.
        return None

    def pooled_orders(self, packed, mass, other, other_mass, orders, horizon=None, fixed=()):
        within = mass.sum() * packed.covariance + other_mass.sum() * other.covariance
        total = mass.sum() + other_mass.sum()
        weights, steps = _pooled_spread(
            packed.means, mass, other.means, other_mass, "means" in fixed
        )
        if "covariances" not in fixed:
            return _shared_pooling(weights, steps, within, total, orders)
        P = square(packed.factor, packed.means.shape[1])
        spread = weights * np.sum((steps @ P.T) ** 2, axis=2)
        constant = total * packed.offset[0] - 0.5 * np.sum((P @ within) * P)
        return constant - 0.5 * spread[np.arange(len(mass)), orders].sum(axis=1)

    def log_joint(self, blocks, mass, packed):
        self.check_blocks(blocks, packed)
        moments = blocks["moments"]
        P = square(packed.factor, packed.means.shape[1])
        d = (moments.mean - packed.means) @ P.T
        total = mass.sum() * packed.offset[0] - 0.5 * np.sum((P @ moments.scatter) * P)
        return float(total - 0.5 * np.sum(mass[:, None] * d**2))


def _pooled_spread(means, mass, others, other_mass, means_fixed):
    """The scatter ``weight · step stepᵀ`` that pooling ``h`` with ``h'`` adds, for all pairs."""
    steps = means[:, None] - others
    if means_fixed:
        return np.broadcast_to(other_mass, (len(mass), len(other_mass))), steps
    total = mass[:, None] + other_mass
    product = mass[:, None] * other_mass
    return np.divide(product, total, out=np.zeros_like(total), where=total > 0), steps


def _shared_pooling(weights, steps, within, total, orders):
    """``max_Σ`` of Q of Gaussians with one covariance, for each order of the second ones.

    With the scatter ``W`` within all components and ``w dᵀd`` between those that are put together,
    the best covariance is ``(W + Σ w ddᵀ)/n``, and ``log det(W + Σ w ddᵀ)`` is ``log det W`` and
    that of a matrix as large as the number of components.
    """
    n, n_columns = len(weights), within.shape[0]
    lower = np.linalg.cholesky(within)
    scaled = (np.sqrt(weights)[:, :, None] * steps).reshape(-1, n_columns)
    whitened = solve_triangular(lower, scaled.T, lower=True)
    gram = whitened.T @ whitened
    chosen = np.arange(n) * weights.shape[1] + orders
    small = gram[chosen[:, :, None], chosen[:, None, :]] + np.eye(n)
    log_det = 2.0 * np.log(np.diag(lower)).sum() - n_columns * np.log(total)
    log_det = log_det + np.linalg.slogdet(small)[1]
    return -0.5 * total * (log_det + n_columns * (1.0 + 2.0 * HALF_LOG_2PI))
