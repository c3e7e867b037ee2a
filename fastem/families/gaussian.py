"""Gaussian components, with full, tied, diagonal or spherical covariances."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf, dtrtri
from scipy.spatial.distance import cdist

from .. import checks
from ..kernels.families.gaussian_diagonal import DiagonalGaussian, DiagonalMoments, refresh_diagonal
from ..kernels.families.gaussian_full import HALF_LOG_2PI, FullGaussian, FullMoments, refresh_full
from ..kernels.families.gaussian_full import padded as padded_kernel
from ..kernels.families.gaussian_tied import TiedGaussian, TiedMoments, fold_overlap, refresh_tied
from ..statistics import Moments, SharedMoments
from .base import Family

__all__ = ["Gaussian"]

# Called from Python it need not be compiled.
padded = padded_kernel.py_func

# Wider matrices than this are factored by LAPACK instead of a kernel; measured, they break even.
_WIDE = 64


class Gaussian(Family):
    """Gaussian components.

    Parameters
    ----------
    covariance_type : {'full', 'tied', 'diag', 'spherical'}, default='full'
        A matrix for each component, one for all, a variance for each column, or one variance for
        each component.
    reg_covar : float, default=1e-6
        The variance of the noise that every observation is taken to carry in each direction. It
        is what scikit-learn's ``reg_covar`` does, as part of the data's statistics: so a batch
        step is scikit-learn's, and an online step does not add it again and again.
    """

    parameter_names = ("means", "covariances")
    separable = True
    moments_kind = Moments
    failure = (
        "Fitting the mixture model failed because some components have ill-defined empirical "
        "covariance (for instance caused by singleton or collapsed samples). Try to decrease the "
        "number of components, increase reg_covar, or scale the input data."
    )

    def __new__(cls, covariance_type="full", reg_covar=1e-6):
        kinds = {
            "full": _Full, "tied": _Tied, "diag": _Diagonal, "spherical": _Spherical
        }  # fmt: skip
        if covariance_type not in kinds:
            raise ValueError(
                f"covariance_type must be one of {sorted(kinds)}; got {covariance_type!r}."
            )
        return super().__new__(kinds[covariance_type])

    def __init__(self, covariance_type="full", reg_covar=1e-6):
        if not reg_covar >= 0:
            raise ValueError(f"reg_covar must be zero or more; got {reg_covar!r}.")
        self.covariance_type = covariance_type
        self.reg_covar = float(reg_covar)

    def __reduce__(self):
        return Gaussian, (self.covariance_type, self.reg_covar)

    def __repr__(self):
        return f"Gaussian({self.covariance_type!r}, reg_covar={self.reg_covar!r})"

    def settings(self):
        return {"covariance_type": self.covariance_type, "reg_covar": self.reg_covar}

    def given(self, parameters):
        """Means, covariances and, if they are given, factors of the precisions, all checked."""
        given = super().given(parameters)
        means = checks.table_of("means", given["means"])
        shape = self.covariance_shape(*means.shape)
        why = f" for {len(means)} components and {means.shape[1]} columns"
        covariances = checks.shaped("covariances", given["covariances"], shape, why)
        if not np.isfinite(covariances).all():
            at = np.argwhere(~np.isfinite(covariances))[0]
            of = "" if self.covariance_type == "tied" else f"; that of component {at[0]} is not"
            raise ValueError(f"covariances must be finite{of}.")
        if "precisions_cholesky" in parameters:
            factors = checks.numbers("precisions_cholesky", parameters["precisions_cholesky"])
            checks.finite(
                "precisions_cholesky", checks.shaped("precisions_cholesky", factors, shape, why)
            )
            given["precisions_cholesky"] = factors
        return given

    def entry_tests(self, n_columns):
        return [math.isfinite] * n_columns

    def without_noise(self, packed):
        return packed if packed.blur == 0.0 else packed._replace(blur=0.0)

    def pooled(self, packed, mass, other, other_mass, horizon=None, fixed=()):
        if not {"means", "covariances"}.isdisjoint(fixed):
            return super().pooled(packed, mass, other, other_mass, horizon, fixed)
        # The best Gaussian has the moments of the two together, and -½ (log det 2πΣ + D) of each.
        n_columns = packed.means.shape[1]
        total = mass[:, None] + other_mass
        share = np.divide(other_mass, total, out=np.zeros_like(total), where=total > 0)
        table = np.empty_like(total)
        for h in range(len(mass)):
            log_det = self._pooled_log_det(packed, h, other, share[h])
            table[h] = -0.5 * total[h] * (log_det + n_columns * (1.0 + 2.0 * HALF_LOG_2PI))
        return table

    def _pooled_log_det(self, packed, h, other, shares):
        """``log det`` of the covariance of ``h`` and each ``h'`` together, of shares 1-s and s."""
        raise NotImplementedError

    def check_blocks(self, blocks, packed):
        shape = packed.means.shape
        scatter = self.covariance_shape(*shape)
        checks.moments(blocks, "moments", self.moments_kind, shape, scatter)

    def log_joint(self, blocks, mass, packed):
        self.check_blocks(blocks, packed)
        moments = blocks["moments"]
        total = 0.0
        for h in range(len(mass)):
            if mass[h] > 0:
                total += mass[h] * self.expected_log_density(moments, h, packed)
        return float(total)


def _offset(diagonal):
    """``log det P - ½ D log 2π`` from the diagonal of ``P``."""
    return np.log(diagonal).sum() - len(diagonal) * HALF_LOG_2PI


def _contiguous(array):
    return np.array(array, dtype=float, order="C")


def _triangular(factor):
    """``U``, upper triangular, with the same ``U Uᵀ`` as a square factor of a precision.

    A factor that is upper triangular, as those that are learned, stays as it is.
    """
    if not np.tril(factor, -1).any():
        return factor
    # Aᵀ = QL gives A Aᵀ = Lᵀ L. The L of a matrix is the R of the one turned upside down.
    R = np.linalg.qr(factor.T[::-1, ::-1], mode="r")
    upper = R[::-1, ::-1].T
    return upper * np.where(np.diag(upper) < 0, -1.0, 1.0)


def _check_diagonals(diagonals, what):
    """Raise ``ValueError`` unless diagonals, the entries along the last axis, are positive."""
    if not (diagonals > 0).all():
        at = tuple(int(i) for i in np.argwhere(~(diagonals > 0))[0])
        raise ValueError(f"{what} must be positive; that at {list(at)} is {diagonals[at]}.")


def _check_factors(covariances, factors):
    """Raise ``ValueError`` for matrices that cannot be covariances, or factors of precisions.

    Factors take the place of a decomposition, so that only what is quick is compared.
    """
    if not np.allclose(covariances, np.swapaxes(covariances, -1, -2)):
        raise ValueError("The covariances are not symmetric.")
    for what, matrices in (("covariances", covariances), ("precisions_cholesky", factors)):
        _check_diagonals(np.diagonal(matrices, axis1=-2, axis2=-1), f"The diagonal of {what}")


def _check_definite(covariances):
    """Raise ``ValueError`` for covariances from which nothing can be drawn."""
    eigenvalues = np.linalg.eigvalsh(covariances)
    wrong = eigenvalues[:, 0] < -1e-8 * np.abs(eigenvalues).max(axis=1)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise ValueError(_not_positive_definite(f"The covariance of component {k}"))


class _Full(Gaussian):
    row_by_row = True

    @staticmethod
    def covariance_shape(n_components, n_columns):
        """The shape of covariances, of factors of precisions and of the scatter."""
        return n_components, n_columns, n_columns

    def pack(self, parameters):
        given = self.given(parameters)
        means = _contiguous(given["means"])
        n_components, n_columns = means.shape
        size = padded(n_columns)
        packed = FullGaussian(
            means,
            _contiguous(given["covariances"]),
            np.zeros((n_components, size * size)),
            np.zeros(n_components),
            self.reg_covar,
        )
        if "precisions_cholesky" in given:
            factors = given["precisions_cholesky"]
            _check_factors(packed.covariances, factors)
            for k, factor in enumerate(factors):
                upper = _triangular(factor)
                packed.factors[k].reshape(size, size)[:n_columns, :n_columns] = upper.T
                # As scikit-learn has it, which takes every factor for a triangular one.
                packed.offsets[k] = _offset(np.diag(factor))
            return packed
        for k in range(n_components):
            covariance = packed.covariances[k]
            if not np.allclose(covariance, covariance.T):
                raise ValueError(f"The covariance of component {k} is not symmetric.")
            if not self.refresh_one(packed, k):
                raise ValueError(_not_positive_definite(f"The covariance of component {k}"))
        return packed

    def refresh(self, packed):
        return all(self.refresh_one(packed, k) for k in range(len(packed.means)))

    def refresh_one(self, packed, k):
        """Factor component ``k`` anew; False if its covariance is not positive definite."""
        n_columns = packed.means.shape[1]
        if n_columns <= _WIDE:
            return refresh_full(packed, k)
        lower, failed = dpotrf(packed.covariances[k], lower=1, clean=1)
        if failed:
            return False
        if not np.isfinite(lower).all():
            return False
        inverse, _ = dtrtri(lower, lower=1)
        size = padded(n_columns)
        packed.factors[k].reshape(size, size)[:n_columns, :n_columns] = inverse
        packed.offsets[k] = _offset(np.diag(inverse))
        return True

    def unpack(self, packed):
        return {"means": packed.means, "covariances": packed.covariances}

    def precisions_cholesky(self, packed):
        """``U`` with ``Σ⁻¹ = U Uᵀ``, upper triangular, as scikit-learn has it."""
        n_components, n_columns = packed.means.shape
        size = padded(n_columns)
        factors = packed.factors.reshape(n_components, size, size)[:, :n_columns, :n_columns]
        return np.swapaxes(factors, 1, 2).copy()

    def buffers(self, packed):
        return FullMoments(np.zeros_like(packed.means), np.zeros_like(packed.factors))

    def collect(self, packed, mass, buffers):
        n_components, n_columns = packed.means.shape
        size = padded(n_columns)
        shift = buffers.first / np.where(mass > 0, mass, 1)[:, None]
        scatter = buffers.second.reshape(n_components, size, size)[:, :n_columns, :n_columns]
        scatter = scatter - buffers.first[:, :, None] * shift[:, None, :]
        upper = np.triu_indices(n_columns, 1)
        scatter[:, upper[0], upper[1]] = scatter[:, upper[1], upper[0]]
        return {"moments": Moments(mass, packed.means + shift, scatter)}

    def disperse(self, blocks, packed):
        self.check_blocks(blocks, packed)
        moments = blocks["moments"]
        buffers = self.buffers(packed)
        n_components, n_columns = packed.means.shape
        size = padded(n_columns)
        shift = moments.mean - packed.means
        buffers.first[:] = moments.mass[:, None] * shift
        second = buffers.second.reshape(n_components, size, size)
        second[:, :n_columns, :n_columns] = (
            moments.scatter + buffers.first[:, :, None] * shift[:, None, :]
        )
        return buffers

    def start(self, centers):
        n_components, n_columns = np.shape(centers)
        identity = np.broadcast_to(np.eye(n_columns), (n_components, n_columns, n_columns))
        return {"means": centers, "covariances": identity}

    def draw(self, parameters, labels, rng, horizon=None):
        means, covariances = parameters["means"], parameters["covariances"]
        X = np.empty((len(labels), means.shape[1]))
        _check_definite(covariances)
        for k in np.unique(labels):
            chosen = labels == k
            X[chosen] = rng.multivariate_normal(means[k], covariances[k], chosen.sum())
        return X

    def expected_log_density(self, moments, k, packed):
        n_columns = packed.means.shape[1]
        size = padded(n_columns)
        covariance = moments.scatter[k] / moments.mass[k]
        P = packed.factors[k].reshape(size, size)[:n_columns, :n_columns]
        d = P @ (moments.mean[k] - packed.means[k])
        return packed.offsets[k] - 0.5 * (d @ d + np.sum((P @ covariance) * P))

    def cross(self, packed, other, horizon=None):
        n_components, n_columns = packed.means.shape
        size = padded(n_columns)
        covariances = packed.covariances.reshape(n_components, -1)
        table = np.empty((n_components, len(other.means)))
        for k, offset in enumerate(other.offsets):
            P = other.factors[k].reshape(size, size)[:n_columns, :n_columns]
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

    def n_parameters(self, parameters):
        n_components, n_columns = parameters["means"].shape
        return n_components * (n_columns + n_columns * (n_columns + 1) // 2)


class _Tied(Gaussian):
    moments_kind = SharedMoments
    shared_parameters = ("covariances",)

    def as_members(self):
        return Gaussian("full", self.reg_covar)

    @staticmethod
    def covariance_shape(n_components, n_columns):
        """The shape of the covariance, of the factor of the precision and of the scatter."""
        return n_columns, n_columns

    def pack(self, parameters):
        given = self.given(parameters)
        means = _contiguous(given["means"])
        n_components, n_columns = means.shape
        size = padded(n_columns)
        packed = TiedGaussian(
            means,
            _contiguous(given["covariances"]),
            np.zeros(size * size),
            np.zeros(1),
            np.zeros((n_components, size)),
            np.full((n_components, size), np.sqrt(0.5)),
            self.reg_covar,
        )
        if "precisions_cholesky" in given:
            factor = given["precisions_cholesky"]
            _check_factors(packed.covariance, factor)
            upper = _triangular(factor)
            packed.factor.reshape(size, size)[:n_columns, :n_columns] = upper.T
            # As scikit-learn has it, which takes every factor for a triangular one.
            packed.offset[0] = _offset(np.diag(factor))
            packed.whitened[:, :n_columns] = (means - means[0]) @ upper
            return packed
        if not np.allclose(packed.covariance, packed.covariance.T):
            raise ValueError("The covariance is not symmetric.")
        if not self.refresh(packed):
            raise ValueError(_not_positive_definite("The covariance"))
        return packed

    def refresh(self, packed):
        return refresh_tied(packed)

    def unpack(self, packed):
        return {"means": packed.means, "covariances": packed.covariance}

    def precisions_cholesky(self, packed):
        """``U`` with ``Σ⁻¹ = U Uᵀ``, upper triangular, as scikit-learn has it."""
        n_columns = packed.means.shape[1]
        size = padded(n_columns)
        return packed.factor.reshape(size, size)[:n_columns, :n_columns].T.copy()

    def buffers(self, packed):
        n_components = len(packed.means)
        return TiedMoments(
            np.zeros_like(packed.means),
            np.zeros_like(packed.factor),
            np.zeros((n_components, n_components)),
        )

    def collect(self, packed, mass, buffers):
        n_columns = packed.means.shape[1]
        size = padded(n_columns)
        fold_overlap(packed.means, buffers)
        shift = buffers.first / np.where(mass > 0, mass, 1)[:, None]
        scatter = buffers.residual.reshape(size, size)[:n_columns, :n_columns]
        scatter = np.tril(scatter) + np.tril(scatter, -1).T - buffers.first.T @ shift
        return {"moments": SharedMoments(mass, packed.means + shift, scatter)}

    def disperse(self, blocks, packed):
        self.check_blocks(blocks, packed)
        moments = blocks["moments"]
        buffers = self.buffers(packed)
        n_columns = packed.means.shape[1]
        size = padded(n_columns)
        shift = moments.mean - packed.means
        buffers.first[:] = moments.mass[:, None] * shift
        residual = buffers.residual.reshape(size, size)
        residual[:n_columns, :n_columns] = moments.scatter + buffers.first.T @ shift
        return buffers

    def start(self, centers):
        return {"means": centers, "covariances": np.eye(np.shape(centers)[1])}

    def reorder(self, parameters, order):
        return {"means": parameters["means"][order], "covariances": parameters["covariances"]}

    def draw(self, parameters, labels, rng, horizon=None):
        means = parameters["means"]
        zero = np.zeros(means.shape[1])
        _check_definite(parameters["covariances"][None])
        noise = rng.multivariate_normal(zero, parameters["covariances"], len(labels))
        return means[labels] + noise

    def cross(self, packed, other, horizon=None):
        n_columns = packed.means.shape[1]
        size = padded(n_columns)
        P = other.factor.reshape(size, size)[:n_columns, :n_columns]
        ours, theirs = packed.means @ P.T, other.means @ P.T
        constant = other.offset[0] - 0.5 * np.sum((P @ packed.covariance) * P)
        return constant - 0.5 * cdist(ours, theirs, "sqeuclidean")

    def pooled(self, packed, mass, other, other_mass, horizon=None, fixed=()):
        # The components share what is pooled, so that there is no value of a pair.
        return None

    def pooled_orders(self, packed, mass, other, other_mass, orders, horizon=None, fixed=()):
        within = mass.sum() * packed.covariance + other_mass.sum() * other.covariance
        total = mass.sum() + other_mass.sum()
        weights, steps = pooled_spread(
            packed.means, mass, other.means, other_mass, "means" in fixed
        )
        if "covariances" not in fixed:
            return shared_pooling(weights, steps, within, total, orders)
        n_columns = packed.means.shape[1]
        size = padded(n_columns)
        P = packed.factor.reshape(size, size)[:n_columns, :n_columns]
        spread = weights * np.sum((steps @ P.T) ** 2, axis=2)
        constant = total * packed.offset[0] - 0.5 * np.sum((P @ within) * P)
        return constant - 0.5 * spread[np.arange(len(mass)), orders].sum(axis=1)

    def log_joint(self, blocks, mass, packed):
        self.check_blocks(blocks, packed)
        moments = blocks["moments"]
        n_columns = packed.means.shape[1]
        size = padded(n_columns)
        P = packed.factor.reshape(size, size)[:n_columns, :n_columns]
        d = (moments.mean - packed.means) @ P.T
        total = mass.sum() * packed.offset[0] - 0.5 * np.sum((P @ moments.scatter) * P)
        return float(total - 0.5 * np.sum(mass[:, None] * d**2))

    def n_parameters(self, parameters):
        n_components, n_columns = parameters["means"].shape
        return n_components * n_columns + n_columns * (n_columns + 1) // 2


def pooled_spread(means, mass, others, other_mass, means_fixed):
    """The scatter ``weight · step stepᵀ`` that pooling ``h`` with ``h'`` adds, for all pairs."""
    steps = means[:, None] - others
    if means_fixed:
        return np.broadcast_to(other_mass, (len(mass), len(other_mass))), steps
    total = mass[:, None] + other_mass
    product = mass[:, None] * other_mass
    return np.divide(product, total, out=np.zeros_like(total), where=total > 0), steps


def shared_pooling(weights, steps, within, total, orders):
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


class _Diagonal(Gaussian):
    row_by_row = True
    spherical = False

    @staticmethod
    def covariance_shape(n_components, n_columns):
        """The shape of variances, of their inverse roots and of the scatter."""
        return n_components, n_columns

    def given(self, parameters):
        given = super().given(parameters)
        # Rows of one component each, so that the error can name it.
        variances = given["covariances"].reshape(len(given["means"]), -1)
        wrong = ~(variances > 0).all(axis=1)
        if wrong.any():
            k = int(np.argmax(wrong))
            raise ValueError(_not_positive_definite(f"A variance of component {k}", False))
        return given

    def pack(self, parameters):
        given = self.given(parameters)
        means = _contiguous(given["means"])
        packed = DiagonalGaussian(
            means,
            _contiguous(self.variances(given)),
            np.zeros_like(means),
            np.zeros(len(means)),
            self.spherical,
            self.reg_covar,
        )
        if "precisions_cholesky" in given:
            roots = given["precisions_cholesky"]
            _check_diagonals(roots, "precisions_cholesky")
            packed.scales[:] = (roots[:, None] if self.spherical else roots) * np.sqrt(0.5)
            for k, row in enumerate(packed.scales):
                packed.offsets[k] = _offset(row * np.sqrt(2.0))
            return packed
        self.refresh(packed)
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

    def collect(self, packed, mass, buffers):
        shift = buffers.first / np.where(mass > 0, mass, 1)[:, None]
        scatter = buffers.second - buffers.first * shift
        return {"moments": Moments(mass, packed.means + shift, self.scatter_of(scatter))}

    def scatter_of(self, columns):
        """The scatter that statistics carry, from that of each column."""
        return columns

    def columns_of(self, scatter, n_columns):
        """The inverse of :meth:`scatter_of`."""
        return scatter

    def disperse(self, blocks, packed):
        self.check_blocks(blocks, packed)
        moments = blocks["moments"]
        shift = moments.mean - packed.means
        first = moments.mass[:, None] * shift
        scatter = self.columns_of(moments.scatter, packed.means.shape[1])
        return DiagonalMoments(first, scatter + first * shift)

    def start(self, centers):
        return {"means": centers, "covariances": np.ones(np.shape(centers))}

    def draw(self, parameters, labels, rng, horizon=None):
        means = parameters["means"]
        noise = rng.standard_normal((len(labels), means.shape[1]))
        return means[labels] + noise * np.sqrt(self.variances(parameters))[labels]

    def expected_log_density(self, moments, k, packed):
        variances = self.columns_of(moments.scatter, packed.means.shape[1])[k] / moments.mass[k]
        squares = variances + (moments.mean[k] - packed.means[k]) ** 2
        return packed.offsets[k] - (squares * packed.scales[k] ** 2).sum(axis=-1)

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


class _Spherical(_Diagonal):
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

    def start(self, centers):
        return {"means": centers, "covariances": np.ones(len(centers))}


def _not_positive_definite(what, matrix=True):
    if matrix:
        return f"{what} is not positive definite: its eigenvalues must all be above zero."
    return f"{what} is not positive and finite."
