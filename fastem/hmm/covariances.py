"""Covariances of the four kinds, ``"full"``, ``"tied"``, ``"diag"`` and ``"spherical"``."""

from __future__ import annotations

import numpy as np

from .. import checks

__all__ = ["as_matrices", "check_kind", "covariance_shape", "initial_covariances",
           "normal_draws", "of_kind"]  # fmt: skip

_KINDS = ("spherical", "diag", "full", "tied")


def check_kind(kind) -> None:
    """``ValueError`` unless this is a kind of covariances."""
    if kind not in _KINDS:
        raise ValueError(f"covariance_type must be one of {_KINDS}; got {kind!r}.")


def covariance_shape(kind, parts, n_columns):
    """The shape of covariances of Gaussians in an array of the shape ``parts``.

    Tied covariances are shared along its last axis.
    """
    check_kind(kind)
    matrix = (n_columns, n_columns)
    return {
        "full": (*parts, *matrix),
        "tied": (*parts[:-1], *matrix),
        "diag": (*parts, n_columns),
        "spherical": parts,
    }[kind]


def as_matrices(covars, kind, n_components, n_columns):
    """Covariances of any kind as matrices (n_components, n_columns, n_columns)."""
    if kind == "full":
        return covars
    if kind == "tied":
        return np.repeat(covars[None], n_components, axis=0)
    columns = covars if kind == "diag" else np.repeat(covars[:, None], n_columns, axis=1)
    return columns[:, :, None] * np.eye(n_columns)


def of_kind(covars, kind, n_components):
    """Covariances in the shape of their kind, from that shape or from whole matrices."""
    check_kind(kind)
    covars = np.array(checks.numbers("covars_", covars))
    if kind == "spherical" and covars.size == n_components == len(covars):
        # One number for each state, along however many axes.
        return covars.reshape(n_components)
    if covars.size == 0 or (covars.ndim == 3 and covars.shape[1] != covars.shape[2]):
        raise ValueError(
            "covars_ must be covariance matrices, or variances, of every state; got the shape "
            f"{covars.shape}."
        )
    dimensions = {"full": 3, "tied": 2, "diag": 2, "spherical": 1}[kind]
    reduced = covars
    if kind == "spherical" and covars.ndim == 2:
        reduced = covars[:, 0]
        covars = covars[:, :, None] * np.eye(covars.shape[1])
    elif covars.ndim == 3 and kind != "full":
        diagonals = np.einsum("kaa->ka", covars)
        reduced = {"tied": covars[0], "diag": diagonals, "spherical": diagonals[:, 0]}[kind]
    if reduced.ndim != dimensions or (kind != "tied" and len(reduced) != n_components):
        raise ValueError(
            f"covars_ of the type {kind!r} must have {dimensions} dimensions"
            f"{'' if kind == 'tied' else f', the first of length {n_components}'}; got the shape "
            f"{covars.shape}."
        )
    if covars.ndim == 3:
        again = as_matrices(np.copy(reduced), kind, n_components, covars.shape[-1])
        if not np.array_equal(covars, again):
            raise ValueError(f"These covariances are not of the type {kind!r}.")
    return np.copy(reduced)


def initial_covariances(matrix, kind, shape):
    """Covariances of the given shape, all of them ``matrix`` reduced to the kind."""
    if kind == "spherical":
        # As in hmmlearn, the mean of all entries, unless correlations make it zero or negative.
        mean = matrix.mean()
        value = mean if mean > 0 else np.trace(matrix) / len(matrix)
    else:
        value = np.diag(matrix) if kind == "diag" else matrix
    return np.broadcast_to(value, shape).copy()


def normal_draws(means, covars, kind, random_state):
    """A function that draws a row from a state, by the same numbers as ``multivariate_normal``."""
    decomposed = [np.linalg.svd(matrix) for matrix in as_matrices(covars, kind, *means.shape)]
    roots = [np.sqrt(s)[:, None] * v for _, s, v in decomposed]

    def draw(state):
        return random_state.standard_normal(means.shape[1]) @ roots[state] + means[state]

    return draw
