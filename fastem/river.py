"""Learners as estimators of `river <https://riverml.xyz>`_, which must be installed.

River's observations are dicts of features, one at a time. An estimator of fastem that takes rows
becomes a clusterer or an anomaly detector, to be used alone or in river's pipelines.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from operator import itemgetter
from typing import Any

import numpy as np
from river import base
from sklearn.base import clone

from .estimator import Estimator, RowEstimator
from .exceptions import NotEnoughData
from .learner import Learner, PredictingLearner
from .waiting import MOST_ROWS

__all__ = ["AnomalyDetector", "Clusterer"]


class _Adapter:
    """What clusterers and anomaly detectors have in common."""

    def __init__(self, model: Estimator, n_first: int = 100):
        if not isinstance(model, RowEstimator):
            raise TypeError(
                f"River's observations are rows, and {type(model).__name__} is not an estimator of "
                "rows. Use its learner() for a stream of sequences."
            )
        if not isinstance(n_first, Integral) or n_first < 1:
            raise ValueError(f"n_first must be a whole number, 1 or more; got {n_first!r}.")
        self.model, self.n_first = model, n_first
        self._learner: Learner | None = model.learner() if model._has_learned() else None
        #: The first observations, until there are enough of them to fit the model to.
        self._first: list[np.ndarray] = []
        self._n_needed = max(n_first, 2, getattr(model, "n_components", 1))
        names = getattr(model, "feature_names_in_", None)
        self._names: list[Any] | None = None if names is None else list(names)
        self._select: itemgetter | None = None

    def learn_one(self, x: dict) -> None:
        """Learn from one observation, a dict of features."""
        if self._learner is not None:
            self._learner.learn_one(self._row(x))
            return
        names = self._names
        try:
            self._keep(self._row(x))
        except BaseException:
            # A wrong observation does not say what the features are.
            self._names = names
            self._select = None
            raise

    def _keep(self, row):
        """Keep one of the first observations, and fit the model when there are enough."""
        model = clone(self.model)
        model._check_data(model._one(row), reset=True, once=True)
        first = [*self._first, row]
        if len(first) < self._n_needed:
            self._first = first
            return
        try:
            self._learner = model.fit(np.array(first)).learner()
            self._first = []
        except NotEnoughData:
            if len(first) >= MOST_ROWS:
                raise
            # Fitting to all of them each time would take ever longer.
            self._first, self._n_needed = first, 2 * len(first)

    @property
    def learner(self) -> Learner | None:
        """The learner; None before the first observations are there."""
        return self._learner

    def _row(self, x):
        """The values of the features in an order that stays."""
        if type(x) is not dict and not isinstance(x, Mapping):
            raise TypeError(
                f"An observation of river is a dict of features; got {type(x).__name__}."
            )
        if self._select is None:
            if self._names is None:
                if not x:
                    raise ValueError("The observation has no features.")
                # However a dict is ordered, the columns are the same.
                self._names = sorted(x, key=str)
            self._select = itemgetter(*self._names)
        names: Any = self._names
        try:
            row = self._select(x)
        except KeyError as error:
            raise ValueError(
                f"The feature {error} is missing; the model has the features {names}."
            ) from None
        if len(x) != len(names):
            more = [name for name in x if name not in names]
            raise ValueError(f"The model does not know the features {more}.")
        return np.array(row if len(names) > 1 else [row])

    @classmethod
    def _unit_test_params(cls):
        from . import GaussianMixture

        yield {"model": GaussianMixture(2, covariance_type="diag", random_state=0), "n_first": 20}

    def _unit_test_skips(self):
        # A density of some of the features is not one of the others.
        return {
            "check_emerging_features",
            "check_disappearing_features",
            "check_radically_disappearing_features",
        }


class Clusterer(_Adapter, base.Clusterer):
    """A mixture as a clusterer of river: the cluster is the likeliest component.

    Parameters
    ----------
    model : estimator of rows
        A mixture. If it is fitted, learning goes on from it. It is not changed.
    n_first : int, default=100
        If the model is not fitted, it is fitted to this number of first observations, or to more
        if these are too few to fit it to; until then every observation belongs to cluster 0.

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> from fastem.river import Clusterer
    >>> X = np.random.default_rng(0).normal(size=(500, 2)) + 9.0 * (np.arange(500) % 2)[:, None]
    >>> clusterer = Clusterer(fastem.GaussianMixture(2, random_state=0), n_first=100)
    >>> for x in X:
    ...     clusterer.learn_one(dict(enumerate(x)))
    >>> clusterer.predict_one({0: 0.0, 1: 0.0}) == clusterer.predict_one({0: 9.0, 1: 9.0})
    False
    """

    def __init__(self, model: Estimator, n_first: int = 100):
        super().__init__(model, n_first)
        if not model._predicts_one:
            raise TypeError(f"{type(model).__name__} has no components to predict.")

    def predict_one(self, x: dict) -> int:
        """The likeliest component."""
        learner = self._learner
        return learner.predict_one(self._row(x)) if isinstance(learner, PredictingLearner) else 0

    def score_one(self, x: dict) -> float:
        """The log-likelihood; zero before there is a model."""
        return 0.0 if self._learner is None else self._learner.score_one(self._row(x))


class AnomalyDetector(_Adapter, base.AnomalyDetector):
    """A density as an anomaly detector of river: the score is the negative log-likelihood.

    Parameters
    ----------
    model : estimator of rows
        If it is fitted, learning goes on from it. It is not changed.
    n_first : int, default=100
        If the model is not fitted, it is fitted to this number of first observations, or to more
        if these are too few to fit it to; until then every score is zero.

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> from fastem.river import AnomalyDetector
    >>> detector = AnomalyDetector(fastem.GaussianMixture(1), n_first=100)
    >>> for x in np.random.default_rng(0).normal(size=(500, 2)):
    ...     detector.learn_one(dict(enumerate(x)))
    >>> detector.score_one({0: 9.0, 1: 9.0}) > detector.score_one({0: 0.0, 1: 0.0})
    True
    """

    def score_one(self, x: dict) -> float:
        """The negative log-likelihood: the higher, the more unusual."""
        return 0.0 if self._learner is None else -self._learner.score_one(self._row(x))
