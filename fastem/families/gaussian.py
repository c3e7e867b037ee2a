"""Gaussian components: what all covariance types have in common."""

from __future__ import annotations

import contextlib
import math
from functools import lru_cache
from typing import ClassVar

import numpy as np

from .. import checks
from ..kernels.families.gaussian_full import HALF_LOG_2PI
from ..kernels.families.gaussian_full import padded as padded_kernel
from ..statistics import Moments
from .base import Family

__all__ = ["Gaussian"]

_LARGEST = np.finfo(float).max.item()

# Called from Python it need not be compiled.
padded = padded_kernel.py_func

# How many times the error of float32 may grow before float64 is used.
_MOST_INFLATION = 1e4
# Squares of differences as large as a model of these has them neither overflow in float32 nor
# leave the range of numbers that have all their digits.
_LARGEST_MEAN = 1e18
_SMALLEST_VARIANCE, _LARGEST_VARIANCE = 1e-24, 1e24


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

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> from fastem.families import Gaussian
    >>> X = np.random.default_rng(0).normal(size=(300, 2)) + 9.0 * (np.arange(300) < 100)[:, None]
    >>> model = fastem.Mixture(Gaussian("diag"), 2, random_state=0).fit(X)
    >>> np.sort(model.means_[:, 0]).round()
    array([-0.,  9.])
    """

    parameter_names = ("means", "covariances")
    separable = True
    takes_any_number = True
    moments_kind = Moments
    #: Whether covariances are matrices, and not variances.
    matrices = True
    #: The class of each covariance type.
    _kinds: ClassVar[dict[str, type[Gaussian]]] = {}
    failure = (
        "Fitting the mixture model failed because some components have ill-defined empirical "
        "covariance (for instance caused by singleton or collapsed samples). Try to decrease the "
        "number of components, increase reg_covar, or scale the input data."
    )

    def __new__(cls, covariance_type="full", reg_covar=1e-6):
        if covariance_type not in cls._kinds:
            raise ValueError(
                f"covariance_type must be one of {sorted(cls._kinds)}; got {covariance_type!r}."
            )
        return super().__new__(cls._kinds[covariance_type])

    def __init_subclass__(cls, covariance_type=None, **keywords):
        super().__init_subclass__(**keywords)
        if covariance_type is not None:
            cls._kinds[covariance_type] = cls

    def __init__(self, covariance_type="full", reg_covar=1e-6):
        if not reg_covar >= 0:
            raise ValueError(f"reg_covar must be zero or more; got {reg_covar!r}.")
        self.covariance_type = covariance_type
        self.reg_covar = float(reg_covar)

    def __reduce__(self):
        return Gaussian, (self.covariance_type, self.reg_covar)

    def __repr__(self):
        return f"Gaussian({self.covariance_type!r}, reg_covar={self.reg_covar!r})"

    @classmethod
    def public_name(cls):
        return "Gaussian"  # whichever class has this covariance type

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
            of = "" if self.shared_parameters else f"; that of component {at[0]} is not"
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

    def support(self):
        return -_LARGEST, _LARGEST, False

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

    def log_linear_parameters(self, parameters, alphas, held):
        """Precisions are averaged, and means with the precisions as weights."""
        first = parameters[0]
        inverses = [
            self._inverse(p["covariances"]) * a for p, a in zip(parameters, alphas, strict=True)
        ]
        covariances = self._inverse(sum(inverses))
        # Means far from the origin are taken about those of the first model.
        pulls = (
            self._applied(inverse, p["means"] - first["means"])
            for inverse, p in zip(inverses, parameters, strict=True)
        )
        means = first["means"] + self._applied(covariances, sum(pulls))
        made = {"means": means, "covariances": covariances}
        return {name: first[name] if name in held else array for name, array in made.items()}

    def _inverse(self, covariances):
        if not self.matrices:
            return 1.0 / covariances
        inverse = np.linalg.inv(covariances)
        return 0.5 * (inverse + np.swapaxes(inverse, -1, -2))

    def _applied(self, matrices, vectors):
        """Matrices, or variances, times the vector of each component."""
        if self.matrices:
            return (matrices @ vectors[..., None])[..., 0]
        return matrices.reshape(len(vectors), -1) * vectors

    def _pooled_log_det(self, packed, h, other, shares):
        """``log det`` of the covariance of ``h`` and each ``h'`` together, of shares 1-s and s."""
        raise NotImplementedError

    @staticmethod
    def covariance_shape(n_components, n_columns) -> tuple[int, ...]:
        """The shape of covariances, of factors of precisions and of the scatter."""
        raise NotImplementedError

    def check_blocks(self, blocks, packed):
        shape = packed.means.shape
        scatter = self.covariance_shape(*shape)
        checks.moments(blocks, "moments", self.moments_kind, shape, scatter)

    def collect(self, packed, mass, buffers):
        shift = buffers.first / np.where(mass > 0, mass, 1)[:, None]
        scatter = self.centered(packed, buffers, shift)
        return {"moments": self.moments_kind(mass, packed.means + shift, scatter)}

    def disperse(self, blocks, packed):
        self.check_blocks(blocks, packed)
        moments, buffers = blocks["moments"], self.buffers(packed)
        shift = moments.mean - packed.means
        buffers.first[:] = moments.mass[:, None] * shift
        self.uncenter(packed, buffers, moments.scatter, shift)
        return buffers

    def centered(self, packed, buffers, shift):
        """The scatter about the mean, from sums about a point that is ``shift`` away from it."""
        raise NotImplementedError

    def uncenter(self, packed, buffers, scatter, shift):
        """Set the second moments of ``buffers``: the inverse of :meth:`centered`."""
        raise NotImplementedError

    # In float32 the error of a sum of squares is 6e-8 of itself. What is left of the squares of a
    # column once its mean, and what other columns say of it, are taken away is less by its
    # inflation, and the error of that larger by it.

    def sums_are_precise(self, packed, mass, buffers):
        if not all(np.isfinite(array).all() for array in buffers):
            return False
        left = self.shares_left(packed, mass, buffers)
        return left is not None and bool((left >= 1.0 / _MOST_INFLATION).all())

    def shares_left(self, packed, mass, buffers) -> np.ndarray | None:
        """The share of squares that is left of each column, given the ones before; None if none."""
        raise NotImplementedError

    def start(self, centers):
        shape = self.covariance_shape(*np.shape(centers))
        unit = np.eye(shape[-1]) if self.matrices else 1.0
        return {"means": centers, "covariances": np.broadcast_to(unit, shape)}

    def n_parameters(self, parameters):
        means, covariances = parameters["means"], parameters["covariances"]
        n_columns = means.shape[1]
        if not self.matrices:
            return means.size + covariances.size
        # A symmetric matrix is its lower triangle.
        n_matrices = covariances.size // n_columns**2
        return means.size + n_matrices * (n_columns * (n_columns + 1) // 2)

    def log_joint(self, blocks, mass, packed):
        self.check_blocks(blocks, packed)
        return float(self.expected_log_joint(blocks["moments"], mass, packed))

    def expected_log_joint(self, moments, mass, packed):
        """``Σ_k s_k E_k[log p(x|k)]`` for moments whose components have the masses ``s``."""
        total = 0.0
        for h in range(len(mass)):
            if mass[h] > 0:
                total += mass[h] * self.expected_log_density(moments, h, packed)
        return total


def suits_single(means, variances, inflations) -> bool:
    """Whether a model can be computed with in float32: no square overflows or loses its digits.

    ``inflations`` are the variances of columns over those given the columns before.
    """
    return bool(
        (np.abs(means) <= _LARGEST_MEAN).all()
        and (variances >= _SMALLEST_VARIANCE).all()
        and (variances <= _LARGEST_VARIANCE).all()
        # Less than is asked of sums, lest a model at the limit is computed twice again and again.
        and np.all(inflations <= 0.5 * _MOST_INFLATION)
    )


def conditional_shares(scatters, squares):
    """The squared diagonals of the Cholesky factors of scatters in units of the squares.

    None if a scatter is not positive definite.
    """
    scale = 1.0 / np.sqrt(squares)
    try:
        lower = np.linalg.cholesky(scatters * scale[..., :, None] * scale[..., None, :])
    except np.linalg.LinAlgError:
        return None
    return np.diagonal(lower, axis1=-2, axis2=-1) ** 2


def square(flat, n_columns):
    """A view of padded matrices, as kernels have them, as (..., n_columns, n_columns)."""
    size = padded(n_columns)
    return flat.reshape(*flat.shape[:-1], size, size)[..., :n_columns, :n_columns]


def log_normalizer(diagonal):
    """``log det P - ½ D log 2π`` from the diagonal of ``P``."""
    return np.log(diagonal).sum() - len(diagonal) * HALF_LOG_2PI


def rows_of_each(labels):
    """Each component that has rows, where they are, and how many."""
    counts = np.bincount(labels)
    ends = np.cumsum(counts).tolist()
    # Labels in order, as estimators draw them, make slices of rows.
    order = None if (labels[1:] >= labels[:-1]).all() else np.argsort(labels, kind="stable")
    for k in np.flatnonzero(counts).tolist():
        rows = slice(ends[k] - int(counts[k]), ends[k])
        yield k, rows if order is None else order[rows], int(counts[k])


def to_each_row(operation, X, rows, row):
    """``X[rows] = operation(X[rows], row)`` in place, many rows at a time if they are a slice.

    A ``row`` may be one number for all columns.
    NumPy loops over the last axis, and with short rows that takes most of the time.
    """
    if not isinstance(rows, slice):
        X[rows] = operation(X[rows], row)
        return
    part = X[rows]
    n_rows, n_columns = part.shape
    many = max(256 // n_columns, 1)
    if n_rows < 8 * many or len(row) == 1:
        operation(part, row, out=part)
        return
    whole = n_rows - n_rows % many
    long = part[:whole].reshape(-1, many * n_columns)
    operation(long, np.tile(row, many), out=long)
    operation(part[whole:], row, out=part[whole:])


def contiguous(array):
    return np.array(array, dtype=float, order="C")


@lru_cache(maxsize=4)
def _below_diagonal(n_columns):
    """Which entries of a matrix are below the diagonal; to find them takes longer than to look."""
    return np.tri(n_columns, k=-1, dtype=bool)


def triangular(factor):
    """``U``, upper triangular, with the same ``U Uᵀ`` as a square factor of a precision.

    A factor that is upper triangular, as those that are learned, stays as it is.
    """
    if not factor[_below_diagonal(len(factor))].any():
        return factor
    # Aᵀ = QL gives A Aᵀ = Lᵀ L. The L of a matrix is the R of the one turned upside down.
    R = np.linalg.qr(factor.T[::-1, ::-1], mode="r")
    upper = R[::-1, ::-1].T
    return upper * np.where(np.diag(upper) < 0, -1.0, 1.0)


def check_diagonals(diagonals, what):
    """Raise ``ValueError`` unless diagonals, the entries along the last axis, are positive."""
    if not (diagonals > 0).all():
        at = tuple(int(i) for i in np.argwhere(~(diagonals > 0))[0])
        raise ValueError(f"{what} must be positive; that at {list(at)} is {diagonals[at]}.")


def is_symmetric(matrices) -> bool:
    """Whether matrices, of the last two axes, are symmetric up to rounding."""
    others = np.swapaxes(matrices, -1, -2)
    # Those that are learned are exactly symmetric, which takes less time to see.
    return bool((matrices == others).all()) or np.allclose(matrices, others)


def check_factors(covariances, factors):
    """Raise ``ValueError`` for matrices that cannot be covariances, or factors of precisions.

    Factors take the place of a decomposition, so that only what is quick is compared.
    """
    if not is_symmetric(covariances):
        raise ValueError("The covariances are not symmetric.")
    for what, matrices in (("covariances", covariances), ("precisions_cholesky", factors)):
        check_diagonals(np.diagonal(matrices, axis1=-2, axis2=-1), f"The diagonal of {what}")


def check_definite(covariances):
    """Raise ``ValueError`` for covariances from which nothing can be drawn."""
    with contextlib.suppress(np.linalg.LinAlgError):
        np.linalg.cholesky(covariances)
        return
    # There may be eigenvalues of zero.
    eigenvalues = np.linalg.eigvalsh(covariances)
    wrong = eigenvalues[:, 0] < -1e-8 * np.abs(eigenvalues).max(axis=1)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise ValueError(not_positive_definite(f"The covariance of component {k}"))


def not_positive_definite(what, matrix=True):
    if matrix:
        return f"{what} is not positive definite: its eigenvalues must all be above zero."
    return f"{what} is not positive and finite."
