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
    "GaussianMixture diag": (fastem.GaussianMixture(5, covariance_type="diag", max_iter=3), _rows),
    "GaussianMixture full": (fastem.GaussianMixture(5, covariance_type="full", max_iter=3), _rows),
    "GaussianHMM": (fastem.GaussianHMM(4, "diag", n_iter=3), _sequences(4)),
    "KalmanFilter": (fastem.KalmanFilter(n_dim_state=3, max_iter=3), _sequences(6)),
}


def _one_by_one(name, method):
    estimator, data = _MODELS[name]
    stream = data(np.random.default_rng(0))
    first = np.array(stream[:_N]) if np.ndim(stream[0]) == 1 else stream[:_N]
    learner = estimator.set_params(random_state=0).fit(first).learner()
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
