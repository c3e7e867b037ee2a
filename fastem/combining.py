"""Combining, averaging and comparing fitted estimators, or models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone

from . import algebra
from .estimator import Estimator
from .learning_rate import Clock
from .model import Model
from .simulated import Simulated
from .waiting import check_is_fitted

__all__ = ["average", "combine", "divergence", "singleton_divergences", "upper_bound"]

AnyEstimator = TypeVar("AnyEstimator")


def combine(
    models: Sequence[AnyEstimator], weights=None, *, align: bool = True, horizon=None,
    direction: str = "forward", n_pseudo=None, random_state=None,
) -> AnyEstimator:  # fmt: skip
    """The model of least total divergence to several models.

    Parameters
    ----------
    models : sequence
        Fitted estimators of one kind and size.
    weights : array-like, optional
        The weight of each model, for instance the number of rows it has seen; equal by default.
    align : bool, default=True
        Whether to align the models first, for least total divergence. Models that were trained
        separately have their components in different orders, or their states in different bases,
        and the plain formula would mix unrelated components. Alignment never increases the total
        divergence, and models that are aligned already are not changed: the result is then the
        same to the last bit. For two models of up to six components the total is the least over
        all orders (see :func:`fastem.algebra.align` for larger models). False is the plain formula,
        for models that are known to share an order, and saves the search.
    horizon : optional
        The size of an observation, for models whose observations have one.
    direction : {'forward', 'reverse'}, default='forward'
        Which divergence is the least in total: that of the models to the combination,
        ``Σ α_m Δ(Θ_m, Θ̃)``, or that of the combination to the models, ``Σ α_m Δ(Θ̃, Θ_m)``. The
        first covers all that is likely under some of the models: moments are pooled. The second
        keeps to what is likely under all of them: natural parameters are averaged, and components
        that the models disagree about lose weight. Lengths of sequences are those of the first
        model unless ``horizon`` is given. Alignment is by the divergence of the direction
        'forward' in either case.
    n_pseudo : int, optional
        Estimate each model's statistics from this many observations drawn from it, instead of in
        closed form. The error decreases with the square root of this number.
    random_state : int or Generator, optional
        For these draws.

    Returns
    -------
    estimator
        A new one, with the settings of the first.

    Examples
    --------
    The combination is the model of all rows, and has seen none of them:

    >>> import fastem
    >>> one = fastem.GaussianMixture(1).fit([[0.0], [2.0]])
    >>> other = fastem.GaussianMixture(1).fit([[4.0], [6.0]])
    >>> both = fastem.combine([one, other])
    >>> both.means_.round(3).ravel(), both.covariances_.round(3).ravel()
    (array([3.]), array([5.]))
    >>> together = fastem.GaussianMixture(1).fit([[0.0], [2.0], [4.0], [6.0]])
    >>> together.means_.round(3).ravel(), together.covariances_.round(3).ravel()
    (array([3.]), array([5.]))
    """
    if n_pseudo is not None and n_pseudo < 1:
        raise ValueError(f"n_pseudo must be 1 or more; got {n_pseudo}.")
    if n_pseudo is not None and direction == "reverse":
        raise ValueError(
            "n_pseudo estimates expected statistics, which direction='reverse' does not use: "
            "natural parameters are averaged. Pass one or the other."
        )

    def merge(models):
        if align and n_pseudo is None and direction == "forward":
            return algebra.combine_aligned(models, weights, horizon)
        models = _brought_together(models, weights, align, horizon)
        if n_pseudo is None:
            return algebra.combine(models, weights, horizon, direction)
        rng = np.random.default_rng(random_state)
        simulated = [Simulated(model, n_pseudo, rng) for model in models]
        merged: Any = algebra.combine(simulated, weights, horizon)
        return merged.model

    return _merge(models, merge)


def average(
    models: Sequence[AnyEstimator], weights=None, *, align: bool = True, horizon=None,
    of: str = "parameters",
) -> AnyEstimator:  # fmt: skip
    """The mean of all parameters, a simpler alternative to :func:`combine`.

    Parameters
    ----------
    models, weights, align, horizon
        As for :func:`combine`.
    of : {'parameters', 'expectations'}, default='parameters'
        What is averaged: the parameters as they are shown, each by itself, or the expectation
        parameters of the joint laws, ``S(Θ)``. The second is :func:`combine` under another name. A
        component counts in it by how often a model uses it, and means that differ add to the
        variance; in the first, all models count alike for each component.

    Returns
    -------
    estimator
        A new one, with the settings of the first.

    Examples
    --------
    >>> import fastem
    >>> one = fastem.GaussianMixture(1).fit([[0.0], [2.0]])
    >>> other = fastem.GaussianMixture(1).fit([[4.0], [6.0]])
    >>> fastem.average([one, other]).covariances_.round(3).ravel()
    array([1.])

    :func:`combine` counts the distance of the means as spread:

    >>> fastem.combine([one, other]).covariances_.round(3).ravel()
    array([5.])
    """

    if of == "expectations":
        return combine(models, weights, align=align, horizon=horizon)
    if of != "parameters":
        raise ValueError(f"of must be 'parameters' or 'expectations'; got {of!r}.")

    def merge(models):
        models = _brought_together(models, weights, align, horizon)
        return algebra.average(models, weights)

    return _merge(models, merge)


def divergence(model, other, *, align: bool = True, horizon=None) -> float:
    """The relative entropy ``Δ(Θ, Θ̃)`` of the joint law of one model to that of another.

    It is nonnegative and not symmetric. It is infinite if the second model assigns probability zero
    to something that is possible under the first: a model that was fitted to data in which some
    outcome never occurred assigns it probability zero.

    Parameters
    ----------
    model, other
        Fitted estimators of one kind and size.
    align : bool, default=True
        Whether to align the first model with the second: components, states and the members inside
        them are put in the order of least divergence, states of a Kalman filter in the basis of
        least divergence. The numbering of components is arbitrary in models that were trained
        separately. Alignment never increases the result, which is the least over all orders for
        mixtures, and for hidden Markov models of up to six states. With False, component k is
        compared with component k, and the divergence is zero only for equal models.
    horizon : optional
        The size of an observation, for models whose observations have one.

    Returns
    -------
    float

    Examples
    --------
    >>> import fastem
    >>> one = fastem.GaussianMixture(1).fit([[0.0], [2.0]])
    >>> other = fastem.GaussianMixture(1).fit([[4.0], [6.0]])
    >>> fastem.divergence(one, one)
    0.0
    >>> round(fastem.divergence(one, other), 3)
    8.0
    """
    one, other = _model_of(model), _model_of(other)
    one.check_same_kind(other)
    if align:
        one = one.brought_to(other, horizon)
    return algebra.divergence(one, other, horizon)


def upper_bound(
    model, other, X, *, lengths=None, sample_weight=None, cut_off=None, align: bool = True
) -> float:
    """EM's upper bound ``U_Θ(Θ̃|V)`` on the mean negative log-likelihood of a second model.

    It is the negative log-likelihood of ``other`` if the hidden variables are inferred by
    ``model``, plus the mean divergence between the hidden variables as the two infer them. It is
    equal to the negative log-likelihood if both are the same model; no model is below its own.
    ``reg_covar`` is left out.

    Parameters
    ----------
    model, other
        Fitted estimators of one kind and size: Θ and Θ̃.
    X, lengths, sample_weight, cut_off
        The observations, as ``model.fit`` takes them.
    align : bool, default=True
        Whether to align the first model with the second, as :func:`divergence` does. The bound
        holds in any order of components; it is far above the loss if they do not correspond.

    Returns
    -------
    float

    Examples
    --------
    >>> import fastem
    >>> from sklearn.datasets import load_iris
    >>> X = load_iris().data
    >>> one = fastem.GaussianMixture(3, reg_covar=0, random_state=0).fit(X[::2])
    >>> other = fastem.GaussianMixture(3, reg_covar=0, random_state=1).fit(X)
    >>> bool(fastem.upper_bound(one, other, X) > -other.score(X))
    True
    >>> bool(abs(fastem.upper_bound(other, other, X) + other.score(X)) < 1e-9)
    True
    """
    given = {"lengths": lengths, "sample_weight": sample_weight, "cut_off": cut_off}
    return algebra.upper_bound(*_inferring(model, other, X, given, align))


def singleton_divergences(
    model, other, X, *, lengths=None, cut_off=None, align: bool = True
) -> np.ndarray:
    """The divergence from each observation to a model: :func:`upper_bound` is their mean.

    An observation, with its hidden variables as ``model`` infers them, is a joint law with a single
    value of the observed variables. EM minimizes the mean of the divergences from these laws to
    that of ``other``, in the same way as :func:`combine` minimizes the mean of the divergences from
    models: learning from data is combining observations.

    The divergence is the negative log-likelihood of the observation under ``other``, plus the
    divergence between the hidden variables as the two models infer them. For discrete observations
    that is the relative entropy, which is nonnegative. For continuous ones the relative entropy of
    a single point to a density is infinite; the infinite part, which is the same for all models, is
    left out, and results can be negative.

    Parameters
    ----------
    model, other, X, lengths, cut_off, align
        As for :func:`upper_bound`.

    Returns
    -------
    array of shape (n_observations,)

    Examples
    --------
    >>> import fastem
    >>> from sklearn.datasets import load_iris
    >>> X = load_iris().data
    >>> one = fastem.GaussianMixture(3, random_state=0).fit(X[::2])
    >>> other = fastem.GaussianMixture(3, random_state=1).fit(X)
    >>> each = fastem.singleton_divergences(one, other, X)
    >>> bool(abs(each.mean() - fastem.upper_bound(one, other, X)) < 1e-9)
    True
    """
    given = {"lengths": lengths, "cut_off": cut_off}
    return algebra.singleton_divergences(*_inferring(model, other, X, given, align))


def _inferring(model, other, X, given, align):
    """The two models without noise, and the observations as the first takes them."""
    one, two = _model_of(model), _model_of(other)
    one.check_same_kind(two)
    given = {name: value for name, value in given.items() if value is not None}
    if isinstance(model, Estimator):
        X = model._check_data(X, **given, reset=False)
    elif given:
        raise TypeError(f"A model takes data as tables, which have their own {sorted(given)}.")
    one, two = one.without_noise(), two.without_noise()
    return (one.brought_to(two) if align else one), two, X


def _brought_together(models, weights, align, horizon):
    if align:
        return algebra.align(models, weights, horizon)
    for model in models[1:]:
        models[0].check_same_kind(model)
        models[0].check_same_order(model)
    return models


def _merge(models, function) -> Any:
    if isinstance(models, (Estimator, Model)):
        raise TypeError("A list of models is needed; got a single one.")
    models = list(models)
    merged = function([_model_of(model) for model in models])
    if merged.__class__ is models[0].__class__:
        return merged
    result: Any = clone(models[0])
    result._set_model(merged)
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(models[0], name):
            setattr(result, name, getattr(models[0], name))
    result._set_iterations([], converged=False)
    # Online learning continues from the steps of the model that has taken the most, and from the
    # observations of all models.
    steps, observations = zip(*(model._clock for model in models), strict=True)
    result._set_clock(Clock(max(steps), sum(observations)))
    return result


def _model_of(estimator) -> Model:
    if isinstance(estimator, Estimator):
        check_is_fitted(estimator)
        return estimator._model()
    if isinstance(estimator, Model):
        return estimator
    raise TypeError(
        f"Not a fastem model: {type(estimator).__name__}. Pass fitted estimators of fastem."
    )
