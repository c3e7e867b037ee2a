"""The E-step and the M-step of exact EM, for any engine that can map and add."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from sklearn.utils.validation import has_fit_parameter

from ..statistics import Expectation
from ..waiting import check_is_fitted

if TYPE_CHECKING:
    from .. import estimator

__all__ = ["expect", "fit_arguments", "maximize"]

Estimator = TypeVar("Estimator", bound="estimator.Estimator")


def expect(model, X, sample_weight=None, cut_off=None) -> Expectation:
    """The E-step for some of the data: expected statistics, which can be added.

    The sum of the expectations of several portions of the data is the expectation of all of them,
    in whatever order they are added. Its size is that of the model, for any number of observations.

    Parameters
    ----------
    model : estimator
        A fitted estimator. To initialize one, fit it to a sample with ``max_iter=0``.
    X
        Observations in any form that ``model.fit`` accepts.
    sample_weight : array-like, optional
        The weight of each observation.
    cut_off : bool or array-like of bool, optional
        For hidden Markov models with absorbing states: which sequences end before they are
        absorbed.

    Returns
    -------
    Expectation
        The ``statistics``, the mean ``log_likelihood`` and the ``weight`` of the data.

    Examples
    --------
    An iteration over two parts, which may be on two machines:

    >>> import numpy as np
    >>> import fastem
    >>> from fastem.distributed import expect, maximize
    >>> X = np.random.default_rng(0).normal(size=(400, 2)) + 9.0 * (np.arange(400) % 2)[:, None]
    >>> model = fastem.GaussianMixture(2, max_iter=0, random_state=0).fit(X[:100])
    >>> total = expect(model, X[:200]) + expect(model, X[200:])
    >>> model = maximize(model, total)
    >>> total.weight
    400.0
    """
    check_is_fitted(model)
    given = fit_arguments(model, sample_weight=sample_weight, cut_off=cut_off)
    return model._model().expect(model._check_data(X, **given, reset=False))


def maximize(model: Estimator, expectation: Expectation) -> Estimator:
    """The M-step: set an estimator to the maximum of the expected log-likelihood.

    Parameters
    ----------
    model : estimator
        The estimator that :func:`expect` was called with. It is changed.
    expectation : Expectation
        The sum over all of the data.

    Returns
    -------
    estimator
        ``model``. Its ``lower_bound_`` is the mean log-likelihood before the step.

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> from fastem.distributed import expect, maximize
    >>> X = np.random.default_rng(0).normal(size=(400, 2)) + 9.0 * (np.arange(400) % 2)[:, None]
    >>> model = fastem.GaussianMixture(2, max_iter=0, random_state=0).fit(X[:100])
    >>> before = model.score(X)
    >>> for _ in range(3):
    ...     model = maximize(model, expect(model, X[:200]) + expect(model, X[200:]))
    >>> model.score(X) > before
    True
    """
    check_is_fitted(model)
    present = model._model()
    present.check_statistics(expectation.statistics)
    if model._maximize is None:
        step = present.maximize(expectation.statistics)
    else:
        step = model._maximize(present, expectation)
    model._set_model(step)
    model.lower_bound_ = expectation.log_likelihood
    model.n_iter_ = getattr(model, "n_iter_", 0) + 1
    return model


def fit_arguments(model, **given) -> dict:
    """The arguments that are not None; raises ``TypeError`` if ``model.fit`` does not have them."""
    given = {name: value for name, value in given.items() if value is not None}
    for name in given:
        if not has_fit_parameter(model, name):
            raise TypeError(
                f"{type(model).__name__}.fit() got an unexpected keyword argument {name!r}"
            )
    return given
