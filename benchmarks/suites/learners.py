"""asv suite of learners: a hundred observations, one at a time."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import numpy as np

import fastem

from . import measuring

_N = 100


def _rows(rng):
    return list(rng.normal(size=(2 * _N, 8)) + 3.0 * rng.integers(2, size=(2 * _N, 1)))


def _sequences(n_columns):
    def drawn(rng):
        steps = rng.normal(size=(2 * _N, 20, n_columns))
        return list(0.1 * np.cumsum(steps, axis=1) + rng.normal(size=steps.shape))

    return drawn


_MODELS = {
    "GaussianMixture diag": ("GaussianMixture", {"n_components": 5, "covariance_type": "diag",
                                                 "max_iter": 3}, _rows),
    "GaussianMixture full": ("GaussianMixture", {"n_components": 5, "max_iter": 3}, _rows),
    "GaussianHMM": ("GaussianHMM", {"n_components": 4, "n_iter": 3}, _sequences(4)),
    "KalmanFilter": ("KalmanFilter", {"n_dim_state": 3, "max_iter": 3}, _sequences(6)),
}  # fmt: skip


def _one_by_one(name, method):
    kind, settings, data = _MODELS[name]
    estimator = getattr(fastem, kind)(random_state=0, **settings)
    stream = data(np.random.default_rng(0))
    first = np.array(stream[:_N]) if np.ndim(stream[0]) == 1 else stream[:_N]
    learner = estimator.fit(first).learner()
    learner.learn_one(stream[0])
    call = getattr(learner, method)

    def work():
        for x in stream[_N:]:
            call(x)

    return work


class Speed(measuring._Suite):
    """Learning from each, its log-likelihood, and its component or states."""

    works: ClassVar = {
        f"{method}, {name}": partial(_one_by_one, name, method)
        for method in ("learn_one", "score_one", "predict_one")
        for name in _MODELS
    }
    params = tuple(works)

    def setup_cache(self):
        return measuring.seconds(self.works)
