"""Densities, moments and the E-step of Gaussian mixtures as functions of arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .. import checks
from ..data.rows import Table, check_rows
from ..families import Gaussian
from ..kernels.mixture.densities import log_densities
from ..parallel import in_order
from .model import MixtureModel

__all__ = ["ExpectedComponents", "WeightedMoments", "gaussian_log_densities", "gmm_e_step",
           "weighted_moments"]  # fmt: skip

#: Responsibilities whose largest is a larger power of two, or the reciprocal of one, are scaled.
_FAR_FROM_ONE = 500


class ExpectedComponents(NamedTuple):
    """What :func:`gmm_e_step` returns."""

    #: ``log p(x)`` of each row, (n_rows,).
    log_likelihoods: np.ndarray
    #: ``P(k | x)``, (n_rows, n_components).
    responsibilities: np.ndarray


class WeightedMoments(NamedTuple):
    """What :func:`weighted_moments` returns."""

    #: The sum of the responsibilities of each component, (n_components,).
    mass: np.ndarray
    #: (n_components, n_columns); NaN for a component of no mass.
    means: np.ndarray
    #: In the shape of the covariance type, about the means; NaN for a component of no mass.
    covariances: np.ndarray


def gaussian_log_densities(
    X, means, covariances, covariance_type="full", *, n_jobs=None
) -> np.ndarray:
    """``log N(x; m_k, Σ_k)`` of each row under each component.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns)
    means : array-like of shape (n_components, n_columns)
    covariances : array-like
        By ``covariance_type``: (n_components, n_columns, n_columns) for ``'full'``, (n_columns,
        n_columns) for ``'tied'``, (n_components, n_columns) for ``'diag'``, (n_components,) for
        ``'spherical'``.
    covariance_type : {'full', 'tied', 'diag', 'spherical'}, default='full'
    n_jobs : int, optional
        Threads; None: as many as there are cores, one inside a worker. No influence on the result.

    Returns
    -------
    ndarray of shape (n_rows, n_components)

    Raises
    ------
    ValueError
        If sizes differ, values are NaN or infinite, or covariances are none.

    Examples
    --------
    >>> from fastem import functional
    >>> functional.gaussian_log_densities([[0.0]], [[0.0], [1.0]], [1.0, 1.0], "spherical").round(3)
    array([[-0.919, -1.419]])
    """
    X = _rows(X)
    model = _mixture(None, means, covariances, covariance_type, n_jobs)
    n_components = len(model.weights)
    out = np.empty((len(X), n_components))

    def one(chunk):
        start, stop = chunk
        rows, _, _, part = model.read(X, None, start, stop)
        log_densities(rows, len(part), n_components, model.packed, out[start:stop])

    for _ in in_order(one, model.chunks(*X.shape), n_jobs):
        pass
    return out


def gmm_e_step(
    X, weights, means, covariances, covariance_type="full", *, n_jobs=None
) -> ExpectedComponents:
    """The E-step of a Gaussian mixture: log-likelihoods of rows, and their responsibilities.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns)
    weights : array-like of shape (n_components,)
        They sum to one.
    means, covariances, covariance_type, n_jobs
        As for :func:`gaussian_log_densities`.

    Returns
    -------
    ExpectedComponents
        With ``log_likelihoods`` and ``responsibilities``.

    Raises
    ------
    ValueError
        As for :func:`gaussian_log_densities`.

    Examples
    --------
    >>> from fastem import functional
    >>> found = functional.gmm_e_step(
    ...     [[0.0], [0.5]], [0.5, 0.5], [[0.0], [1.0]], [1.0, 1.0], "spherical"
    ... )
    >>> found.responsibilities.round(3)
    array([[0.622, 0.378],
           [0.5  , 0.5  ]])
    """
    X = _rows(X)
    checks.check_probabilities("weights", checks.numbers("weights", weights))
    model = _mixture(weights, means, covariances, covariance_type, n_jobs)
    log_totals, posteriors, _ = model.infer(X, log_totals=True, posteriors=True)
    return ExpectedComponents(log_totals, posteriors)


def weighted_moments(
    X, responsibilities, covariance_type="full", *, reg_covar=0.0, n_jobs=None
) -> WeightedMoments:
    """Mass, mean and covariance of each component, for rows of given responsibilities.

    With the responsibilities of :func:`gmm_e_step` this is the M-step of a Gaussian mixture, whose
    weights are ``mass / mass.sum()``.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns)
    responsibilities : array-like of shape (n_rows, n_components)
        Not negative; rows need not sum to one.
    covariance_type : {'full', 'tied', 'diag', 'spherical'}, default='full'
    reg_covar : float, default=0.0
        Added to the variances.
    n_jobs : int, optional
        As for :func:`gaussian_log_densities`.

    Returns
    -------
    WeightedMoments
        With ``mass``, ``means`` and ``covariances``.

    Raises
    ------
    ValueError
        If sizes differ, or values are NaN, infinite or, of responsibilities, negative.

    Examples
    --------
    >>> from fastem import functional
    >>> found = functional.weighted_moments([[0.0], [1.0], [3.0]], [[1.0], [1.0], [2.0]], "diag")
    >>> found.mass, found.means, found.covariances
    (array([4.]), array([[1.75]]), array([[1.6875]]))
    """
    X = _rows(X)
    given = checks.numbers(
        "responsibilities", checks.unmasked("responsibilities", responsibilities)
    )
    if given.ndim != 2 or len(given) != len(X) or given.shape[1] == 0:
        raise ValueError(
            f"responsibilities must have the shape ({len(X)}, components), a row for each row of "
            f"X; got {given.shape}."
        )
    checks.finite("responsibilities", given)
    if (given < 0).any():
        row, column = np.argwhere(given < 0)[0].tolist()
        raise ValueError(
            f"responsibilities cannot be negative; row {row}, column {column} is "
            f"{given[row, column]}."
        )
    if not given.any():
        raise ValueError("The responsibilities are all zero: there is nothing to sum.")
    # Numbers whose reciprocals or sums overflow are brought near one, without a rounding.
    exponent = np.frexp(given.max())[1]
    exponent = exponent if abs(exponent) > _FAR_FROM_ONE else 0
    given = np.ldexp(given, -exponent) if exponent else given
    family = Gaussian(covariance_type, reg_covar)
    # Sums are taken about a point, which costs no digits if it is among the rows.
    centers = np.tile(np.asarray(X[: 2**16], dtype=float).mean(axis=0), (given.shape[1], 1))
    model = _of(family, None, family.start(centers), n_jobs)
    statistics = model.expect_given(Table(X), lambda start, stop: given[start:stop])
    total = given.sum()
    moments = statistics["moments"]
    mass = np.ldexp(moments.mass * total, exponent)
    with np.errstate(invalid="ignore", divide="ignore"):
        absent = np.where(mass > 0, 0.0, np.nan)
        means = moments.mean + absent[:, None]
        if covariance_type == "tied":
            return WeightedMoments(mass, means, moments.scatter / moments.mass.sum())
        shape = (-1,) + (1,) * (moments.scatter.ndim - 1)
        covariances = moments.scatter / moments.mass.reshape(shape)
        if covariance_type == "spherical":
            covariances = covariances / X.shape[1]
    return WeightedMoments(mass, means, covariances)


def _rows(X):
    """Rows whose values are finite numbers."""
    X = np.asarray(checks.unmasked("X", X))
    checks.check_table(X)
    if 0 in X.shape:
        raise ValueError(f"X must have one row and one column or more; its shape is {X.shape}.")
    check_rows(X, lambda rows: checks.finite("X", rows) if rows.dtype.kind == "f" else None)
    return X


def _mixture(weights, means, covariances, covariance_type, n_jobs):
    """A mixture of these components, checked; of equal weights if none are given."""
    family = Gaussian(covariance_type, 0.0)
    return _of(family, weights, {"means": means, "covariances": covariances}, n_jobs)


def _of(family, weights, parameters, n_jobs):
    if weights is None:
        means = checks.table_of("means", parameters["means"])
        weights = np.full(len(means), 1.0 / len(means))
    return MixtureModel(family, weights, parameters, n_jobs=n_jobs)
