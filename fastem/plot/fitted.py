"""What pictures need to know of estimators and data, with errors that say what is wrong."""

from __future__ import annotations

import copy
from numbers import Integral
from typing import NamedTuple

import numpy as np

from ..estimator import Estimator
from ..families import Gaussian, MixtureOf
from ..hmm.custom import BaseHMM
from ..kalman import KalmanFilter
from ..learner import Learner
from ..mixture.base import BaseMixture
from ..mixture_of_models import MixtureOfModels
from ..waiting import check_is_fitted

__all__ = [
    "Gaussians", "Parts", "check_columns", "column_number", "column_numbers", "copied",
    "estimator_of", "gaussians", "is_series", "named_estimators", "names_of", "parts_of",
    "responsibilities_of", "state_shares",
]  # fmt: skip

MIXTURES = (BaseMixture,)
CHAINS = (BaseHMM,)
WITH_COMPONENTS = (*MIXTURES, *CHAINS)
WITH_RESPONSIBILITIES = (*WITH_COMPONENTS, MixtureOfModels)


class Parts(NamedTuple):
    """The components of a mixture, or the states of a chain, with the family they are of."""

    family: object
    parameters: dict
    #: Those of a mixture; None of a chain, whose states are visited as the data have it.
    weights: np.ndarray | None
    n_components: int
    n_columns: int
    model: object


def copied(model, kinds, what, function):
    """A copy of a fitted estimator, which methods may write to.

    Parameters
    ----------
    model
        What the user gave.
    kinds : tuple of types
        The estimators that the picture is of, in the words of ``what``.
    what, function : str
        For the error that says that ``model`` is none of these.
    """
    model = estimator_of(model, function)
    if not isinstance(model, kinds):
        raise TypeError(
            f"fastem.plot.{function} draws {what}; got {type(model).__name__}. "
            "The other functions of fastem.plot draw other models."
        )
    if not isinstance(model, KalmanFilter):
        check_is_fitted(model, None if isinstance(model, Estimator) else "startprob_")
    elif model._lacks_matrices():
        # With given matrices it can be used as it is.
        check_is_fitted(model, "transition_matrices_")
    return copy.copy(model)


def estimator_of(model, function):
    """The estimator that was given, or the one that a learner has made so far."""
    if isinstance(model, Learner):
        return model.model()
    if isinstance(model, type):
        raise TypeError(
            f"fastem.plot.{function} takes a fitted model; got the class {model.__name__} itself. "
            f"Make one and fit it first: {model.__name__}(...).fit(X)."
        )
    if not isinstance(model, (Estimator, BaseHMM)):
        # A class of another library may have the same name.
        home = type(model).__module__.partition(".")[0]
        name = type(model).__name__ if home == "builtins" else f"{home}'s {type(model).__name__}"
        raise TypeError(f"fastem.plot.{function} takes a fitted estimator of fastem; got {name}.")
    return model


def named_estimators(models, labels, function):
    """Estimators and their labels, from one estimator, a list of them, or a dict by label."""
    if isinstance(models, dict):
        if labels is not None:
            raise ValueError("The keys of a dict are its labels: leave out labels, or pass a list.")
        models, labels = list(models.values()), [str(label) for label in models]
    elif isinstance(models, (Estimator, BaseHMM, Learner)):
        models = [models]
    try:
        models = [estimator_of(model, function) for model in models]
    except TypeError as error:
        if "fastem.plot" in str(error):
            raise
        raise TypeError(
            f"fastem.plot.{function} takes fitted estimators, in a list or in a dict by label; "
            f"got {type(models).__name__}."
        ) from None
    if not models:
        raise ValueError(f"fastem.plot.{function} needs one model or more; got none.")
    if labels is None:
        return models, None
    if isinstance(labels, str):
        labels = [labels]
    labels = [str(label) for label in labels]
    if len(labels) != len(models):
        raise ValueError(
            f"There must be a label for each model: {len(models)} models, {len(labels)} labels."
        )
    return models, labels


# Components -------------------------------------------------------------------------------------


def parts_of(estimator, function) -> Parts:
    """The components of a fitted mixture, or the states of a fitted chain."""
    if not hasattr(estimator, "_learned_model"):
        raise TypeError(
            f"fastem.plot.{function} needs the family of the emissions, which a subclass of "
            f"fastem.hmm.BaseHMM does not name; got {type(estimator).__name__}. "
            "fastem.plot.states and fastem.plot.transitions draw it."
        )
    model = estimator._learned_model()
    parameters = model.family.unpack(model.packed)
    weights = getattr(model, "weights", None)
    n_components, n_columns = model.family.size(model.packed)
    if not model.family.compiled:
        # Of a family of the user's own the model knows the features, not the columns.
        n_columns = getattr(estimator, "n_features_in_", n_columns)
    if weights is not None:
        weights = np.asarray(weights) / np.sum(weights)
    return Parts(model.family, parameters, weights, int(n_components), int(n_columns), model)


class Gaussians(NamedTuple):
    """Gaussian members of components, all covariances as matrices."""

    #: The component that each of them belongs to.
    owners: np.ndarray
    #: Their weights within it, which sum to one.
    shares: np.ndarray
    means: np.ndarray
    covariances: np.ndarray


def gaussians(parts: Parts, function) -> Gaussians:
    """The Gaussians that components or states are made of."""
    family, parameters = parts.family, parts.parameters
    if isinstance(family, Gaussian):
        owners, shares = np.arange(parts.n_components), np.ones(parts.n_components)
        means, kind = parameters["means"], family.covariance_type
        covariances = _as_matrices(parameters["covariances"], kind, means.shape[1], len(means))
        return Gaussians(owners, shares, means, covariances)
    if isinstance(family, MixtureOf) and isinstance(family.kind, Gaussian):
        means, kind = parameters["means"], family.kind.covariance_type
        n_components, n_members, n_columns = means.shape
        each = [
            _as_matrices(covariances, kind, n_columns, n_members)
            for covariances in parameters["covariances"]
        ]
        return Gaussians(
            np.repeat(np.arange(n_components), n_members),
            parameters[family.weights_name].ravel(),
            means.reshape(-1, n_columns),
            np.concatenate(each),
        )
    raise TypeError(
        f"fastem.plot.{function} draws Gaussian components; these are of the family {family!r}. "
        "fastem.plot.densities draws the components of any family."
    )


def _as_matrices(covariances, kind, n_columns, n):
    """Covariances of any type as n matrices."""
    if kind == "full":
        return covariances
    if kind == "tied":
        return np.repeat(covariances[None], n, axis=0)
    if kind == "spherical":
        covariances = np.repeat(covariances[:, None], n_columns, axis=1)
    return covariances[:, :, None] * np.eye(n_columns)


# Columns ----------------------------------------------------------------------------------------


def names_of(estimator, X, n_columns) -> list[str]:
    """The names of the columns: of a table with names, or those that the model was fitted with."""
    names = getattr(X, "columns", None)
    if names is None and getattr(X, "name", None) is not None and is_series(X):
        names = [X.name]
    if names is None:
        names = getattr(estimator, "feature_names_in_", None)
    if names is not None and len(names) == n_columns:
        return [str(name) for name in names]
    return [f"column {c}" for c in range(n_columns)]


def is_series(X) -> bool:
    """Whether these are numbers one after another, in no table and no list."""
    return not isinstance(X, (list, tuple)) and np.ndim(X) == 1


def column_number(column, names, argument="column") -> int:
    """The number of a column, given by its number or its name."""
    n_columns = len(names)
    if isinstance(column, str):
        if column not in names:
            raise ValueError(f"{argument}: there is no column {column!r} among {names}.")
        return names.index(column)
    if not isinstance(column, Integral) or isinstance(column, bool):
        raise ValueError(f"{argument} must be the number or name of a column; got {column!r}.")
    if not -n_columns <= column < n_columns:
        raise ValueError(
            f"{argument} must be less than {n_columns}, the number of columns; got {column}. "
            "Columns are counted from 0."
        )
    return int(column) % n_columns


def column_numbers(columns, names, most=2) -> list[int]:
    """The numbers of one or two different columns."""
    if isinstance(columns, (str, Integral)):
        columns = (columns,)
    try:
        columns = list(columns)
    except TypeError:
        raise ValueError(f"columns must be numbers or names; got {columns!r}.") from None
    if not 1 <= len(columns) <= most:
        raise ValueError(f"columns must name one or {most} columns; got {len(columns)}.")
    numbers = [column_number(column, names, "columns") for column in columns]
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"columns must be different; got {tuple(columns)}.")
    return numbers


def check_columns(X, n_columns, function) -> np.ndarray:
    """Rows of numbers with as many columns as the model has; NaN is a missing value."""
    try:
        X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"fastem.plot.{function} takes X as an array of numbers.") from None
    if X.ndim == 1 and n_columns == 1:
        X = X[:, None]
    if X.ndim != 2 or X.shape[1] != n_columns:
        raise ValueError(
            f"X must have the shape (rows, {n_columns}), as the data of the model had; got the "
            f"shape {X.shape}."
        )
    return X


# States and responsibilities --------------------------------------------------------------------


def responsibilities_of(estimator, X, lengths=None) -> np.ndarray:
    """The probability of each component or state at each row."""
    if isinstance(estimator, (BaseHMM,)):
        return estimator.predict_proba(X, lengths)
    if isinstance(estimator, MixtureOfModels) and lengths is not None:
        return estimator.predict_proba(X, lengths=lengths)
    if lengths is not None:
        raise ValueError(
            f"lengths are those of sequences, which {type(estimator).__name__} does not have: "
            "leave them out."
        )
    return estimator.predict_proba(X)


def state_shares(startprob, transmat) -> np.ndarray:
    """The share of time that a chain spends in each state in the long run, from its start."""
    transmat = np.asarray(transmat, dtype=float)
    # A lazy chain has the same long run, and no periods; squares reach it fast.
    step = 0.5 * (transmat + np.eye(len(transmat)))
    for _ in range(60):
        step = step @ step
        step /= step.sum(axis=1, keepdims=True)
    return np.asarray(startprob, dtype=float) @ step
