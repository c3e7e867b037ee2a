"""The two halves of a step of exact EM, for any engine that can map and add."""

from __future__ import annotations

from typing import TypeVar

from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from ..statistics import Expectation

__all__ = ["expect", "maximize", "taken"]

Estimator = TypeVar("Estimator")


def expect(model, X, sample_weight=None, cut_off=None) -> Expectation:
    """What a fitted estimator expects of some of the data: its statistics, to be added up.

    Expectations add as their data would, in any order and in any tree, and are as large as the
    model, however many the observations.

    Parameters
    ----------
    model : estimator
        A fitted one: ``fit`` with ``max_iter=0``, on a sample, makes a start.
    X
        Observations as ``model.fit`` takes them.
    sample_weight : array-like, optional
        How much each counts.
    cut_off : bool or array-like of bool, optional
        For hidden Markov models with absorbing states: which sequences end before they are
        absorbed.

    Returns
    -------
    Expectation
        With the ``statistics``, the mean ``log_likelihood`` and the ``weight`` of the data.
    """
    check_is_fitted(model)
    given = taken(model, sample_weight=sample_weight, cut_off=cut_off)
    return model._model().expect(model._check_data(X, **given, reset=False))


def maximize(model: Estimator, expectation: Expectation) -> Estimator:
    """Move an estimator to the maximum of what was expected: a step of exact EM is done.

    Parameters
    ----------
    model : estimator
        The one that :func:`expect` was called with. It is changed.
    expectation : Expectation
        The sum over all of the data.

    Returns
    -------
    estimator
        ``model``. Its ``lower_bound_`` is the mean log-likelihood before the step.
    """
    check_is_fitted(model)
    present = model._model()
    present.check_statistics(expectation.statistics)
    step = model._maximize(present, expectation)
    model._set_model(step)
    model.lower_bound_ = expectation.log_likelihood
    model.n_iter_ = getattr(model, "n_iter_", 0) + 1
    return model


def taken(model, **given) -> dict:
    """The arguments that are not None; ``TypeError``, as from ``model.fit``, if it has no such."""
    given = {name: value for name, value in given.items() if value is not None}
    for name in given:
        if not has_fit_parameter(model, name):
            raise TypeError(
                f"{type(model).__name__}.fit() got an unexpected keyword argument {name!r}"
            )
    return given
