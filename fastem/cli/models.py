"""Models in files, as commands use them."""

from __future__ import annotations

import fastem

from .errors import Failure
from .text import article

__all__ = [
    "check_alike",
    "described",
    "kind_of",
    "load",
    "named",
    "names_of",
    "save",
    "without_names",
]


def load(path):
    """The estimator in a file, which has learned something."""
    with open(path, "rb"):  # what is missing is reported as for data
        model = fastem.load(path)
    if not model.__sklearn_is_fitted__():
        kept = getattr(model, "_first_observations", None)
        why = f": it has kept {kept['n_rows']} rows and needs {kept['n_needed']}" if kept else ""
        raise Failure(f"{path} holds {described(model)} without a model{why}.")
    return model


def described(model) -> str:
    """An estimator in messages."""
    return article(type(model).__name__)


def kind_of(model) -> str:
    """The kind of an estimator: mixture, hmm, vhmm, kalman, dirichlet or mixture_of_models."""
    return fastem.ESTIMATORS[type(model).__name__]


def names_of(model) -> list[str] | None:
    """The names of the columns that an estimator has learned from, if it has seen some."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def without_names(model):
    """The same estimator, for arrays: columns were matched with their names before."""
    vars(model).pop("feature_names_in_", None)
    return model


def named(model, names):
    """The same estimator, which knows the names of its columns."""
    import numpy as np

    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    return model


def check_alike(models, paths) -> None:
    """Raise if models differ in kind, or in the names of columns where they have names."""
    first = names_of(models[0])
    for path, model in zip(paths, models, strict=True):
        if kind_of(model) != kind_of(models[0]):
            raise Failure(
                f"{path} holds {described(model)}, and {paths[0]} {described(models[0])}: models "
                "must be of one kind."
            )
        names = names_of(model)
        if names is not None and first is not None and names != first:
            raise Failure(
                f"{path} has the columns {', '.join(names)}, and {paths[0]} has "
                f"{', '.join(first)}: they must be the same, in one order."
            )


def save(model, names, path) -> None:
    """Write an estimator; how much it said here is no setting that later fits should have."""
    import inspect

    parameter = inspect.signature(type(model)).parameters.get("verbose")
    if parameter is None:
        fastem.save(named(model, names), path)
        return
    verbose = model.verbose
    try:
        model.set_params(verbose=parameter.default)
        fastem.save(named(model, names), path)
    finally:
        model.set_params(verbose=verbose)
