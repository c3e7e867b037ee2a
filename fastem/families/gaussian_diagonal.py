"""Gaussian components with independent columns."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ..drawing import standard_normal
from ..kernels.families.gaussian_diagonal import (
    WIDE,
    DiagonalGaussian,
    DiagonalMoments,
    refresh_diagonal,
)
from ..kernels.families.gaussian_wide import WideGaussian
from .gaussian import (
    Gaussian,
    check_diagonals,
    contiguous,
    log_normalizer,
    not_positive_definite,
    rows_of_each,
    suits_single,
    to_each_row,
)


class _Diagonal(Gaussian, covariance_type="diag"):
    """A variance for each column of each component."""

    matrices = False
    row_by_row = True
    spherical = False

    @staticmethod
    def covariance_shape(n_components, n_columns):
        return n_components, n_columns

    def given(self, parameters):
        given = super().given(parameters)
        # Rows of one component each, so that the error can name it.
        variances = given["covariances"].reshape(len(given["means"]), -1)
        wrong = ~(variances > 0).all(axis=1)
        if wrong.any():
            k = int(np.argmax(wrong))
            raise ValueError(not_positive_definite(f"A variance of component {k}", False))
        return given

    def pack(self, parameters):
        given = self.given(parameters)
        means = contiguous(given["means"])
        kind = DiagonalGaussian if means.shape[1] <= WIDE else WideGaussian
        packed = kind(
            means,
            contiguous(self.variances(given)),
            np.zeros_like(means),
            np.zeros(len(means)),
            self.spherical,
            self.reg_covar,
        )
        self.refresh(packed)
        roots = given.get("precisions_cholesky")
        if roots is not None and not np.array_equal(self.precisions_cholesky(packed), roots):
            # They are not those that belong to the variances: somebody has set them.
            check_diagonals(roots, "precisions_cholesky")
            packed.scales[:] = (roots[:, None] if self.spherical else roots) * np.sqrt(0.5)
            for k, row in enumerate(packed.scales):
                packed.offsets[k] = log_normalizer(row * np.sqrt(2.0))
        return packed

    def refresh(self, packed):
        return refresh_diagonal(packed)

    def variances(self, parameters):
        """The variance of each column of each component."""
        return parameters["covariances"]

    def unpack(self, packed):
        return {"means": packed.means, "covariances": packed.variances}

    def precisions_cholesky(self, packed):
        """The inverse standard deviations, as scikit-learn has them."""
        return packed.scales * np.sqrt(2.0)

    def buffers(self, packed):
        return DiagonalMoments(np.zeros_like(packed.means), np.zeros_like(packed.means))

    # Less than a square of the columns: the recursions take most of the time for longer.
    single_columns: ClassVar[int] = 16

    def in_single(self, packed):
        if not suits_single(packed.means, packed.variances, 1.0):
            return None
        return packed._replace(scales=packed.scales.astype(np.float32))

    def shares_left(self, packed, mass, buffers):
        alive = mass > 0
        squares = buffers.second[alive]
        between = buffers.first[alive] ** 2 / mass[alive, None]
        return np.divide(squares - between, squares, out=np.zeros_like(squares), where=squares > 0)

    def centered(self, packed, buffers, shift):
        return self.scatter_of(buffers.second - buffers.first * shift)

    def uncenter(self, packed, buffers, scatter, shift):
        columns = self.columns_of(scatter, packed.means.shape[1])
        buffers.second[:] = columns + buffers.first * shift

    def scatter_of(self, columns):
        """The scatter that statistics carry, from that of each column."""
        return columns

    def columns_of(self, scatter, n_columns):
        """The inverse of :meth:`scatter_of`."""
        return scatter

    def draw(self, parameters, labels, rng, horizon=None):
        means = parameters["means"]
        X = standard_normal(rng, (len(labels), means.shape[1]))
        deviations = np.sqrt(parameters["covariances"]).reshape(len(means), -1)
        for k, chosen, _ in rows_of_each(labels):
            to_each_row(np.multiply, X, chosen, deviations[k])
            to_each_row(np.add, X, chosen, means[k])
        return X

    def expected_log_density(self, moments, k, packed):
        variances = self.columns_of(moments.scatter, packed.means.shape[1])[k] / moments.mass[k]
        squares = variances + (moments.mean[k] - packed.means[k]) ** 2
        return packed.offsets[k] - (squares * packed.scales[k] ** 2).sum(axis=-1)

    def expected_log_joint(self, moments, mass, packed):
        # Of all components at once: one by one took as long as the rest of a step.
        columns = self.columns_of(moments.scatter, packed.means.shape[1])
        alive = mass > 0
        share = np.divide(mass, moments.mass, out=np.zeros_like(mass), where=alive)
        squares = share[:, None] * columns + mass[:, None] * (moments.mean - packed.means) ** 2
        lost = (squares * packed.scales**2).sum(axis=1)
        return (mass * packed.offsets - lost)[alive].sum()

    def cross(self, packed, other, horizon=None):
        precisions = other.scales**2
        table = packed.variances @ precisions.T
        for k, precision in enumerate(precisions):
            table[:, k] += (packed.means - other.means[k]) ** 2 @ precision
        return other.offsets - table

    def _pooled_log_det(self, packed, h, other, shares):
        s = shares[:, None]
        variances = (1.0 - s) * packed.variances[h] + s * other.variances
        variances = variances + s * (1.0 - s) * (packed.means[h] - other.means) ** 2
        if self.spherical:
            variances = np.broadcast_to(variances.mean(axis=1, keepdims=True), variances.shape)
        return np.log(variances).sum(axis=1)


class _Spherical(_Diagonal, covariance_type="spherical"):
    """One variance for each component."""

    spherical = True

    @staticmethod
    def covariance_shape(n_components, n_columns):
        return (n_components,)

    def variances(self, parameters):
        n_columns = parameters["means"].shape[1]
        return np.repeat(np.asarray(parameters["covariances"])[:, None], n_columns, axis=1)

    def unpack(self, packed):
        return {"means": packed.means, "covariances": packed.variances[:, 0].copy()}

    def precisions_cholesky(self, packed):
        return packed.scales[:, 0] * np.sqrt(2.0)

    def scatter_of(self, columns):
        return columns.sum(axis=1)

    def columns_of(self, scatter, n_columns):
        return np.repeat(scatter[:, None] / n_columns, n_columns, axis=1)
