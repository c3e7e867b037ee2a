"""asv suite of the Kalman filter."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

import fastem
from fastem.bench import kalman
from fastem.bench.kalman import KalmanShape
from fastem.bench.timing import best_of
from fastem.kalman_data import as_observations

from . import measuring

_BASE = KalmanShape(2000, 50, 5, 10)
_SHAPES = measuring.with_doublings(
    [_BASE, KalmanShape(1, 100_000, 5, 10), KalmanShape(1, 2000, 5, 10)],
    _BASE,
    ("n_sequences", "n_steps", "n_states", "n_features"),
)


def _fitted(shape):
    problem = shape.problem()
    return kalman.em(problem).run(1), problem.X


class Iteration(measuring._IterationOfProducts):
    """One step of batch EM."""

    shapes = _SHAPES
    params: ClassVar = list(_SHAPES)

    def prepare(self, shape):
        model, X = _fitted(shape)
        return model._model(), as_observations(X)


class Gaps:
    """One step of batch EM where values are missing: covariances depend on which."""

    params: ClassVar = [0.0, 0.1]
    param_names = ("missing",)
    timeout = 300

    def setup(self, missing):
        model, X = _fitted(KalmanShape(200, 50, 5, 10))
        X = np.where(np.random.default_rng(0).random(X.shape) < missing, np.nan, X)
        self.model, self.data = model._model(), as_observations(X)
        self.time_iteration(missing)

    def time_iteration(self, missing):
        self.model.maximize(self.model.expect(self.data).statistics)


class Online:
    """One pass of online EM over 200 sequences, one at a time and in mini-batches."""

    params: ClassVar = [1, 20]
    param_names = ("batch_size",)
    timeout = 300

    def setup(self, batch_size):
        self.model, self.X = _fitted(KalmanShape(200, 50, 5, 10))
        self.model.set_params(batch_size=batch_size)
        self.time_epoch(batch_size)

    def time_epoch(self, batch_size):
        self.model.partial_fit(self.X)

    def track_observations_per_second(self, batch_size):
        n_rows = self.X.shape[0] * self.X.shape[1]
        return n_rows / best_of(lambda: self.time_epoch(batch_size), 3)

    track_observations_per_second.unit = "observations/s"


class Use:
    """Scoring and smoothing."""

    params: ClassVar = list(_SHAPES)[:3]
    param_names = ("shape",)
    timeout = 300

    def setup(self, name):
        self.model, self.X = _fitted(_SHAPES[name])
        self.model.smooth(self.X[0])
        self.model.score(self.X)

    def time_score(self, name):
        self.model.score(self.X)

    def time_smooth(self, name):
        self.model.smooth(self.X)

    def peakmem_smooth(self, name):
        self.model.smooth(self.X)


class Combine:
    """Combining twenty fitted models, and comparing two."""

    def setup(self):
        self.model, _ = _fitted(KalmanShape(20, 50, 5, 10))
        self.time_combine_20()

    def time_combine_20(self):
        fastem.combine([self.model] * 20)

    def time_divergence(self):
        fastem.divergence(self.model, self.model)


class Streaming:
    """One observation at a time."""

    def setup(self):
        self.model, X = _fitted(KalmanShape(1, 1000, 5, 10))
        self.rows = X[0]
        self.model.stream().update(self.rows[0])

    def time_thousand_updates(self):
        stream = self.model.stream()
        for row in self.rows:
            stream.update(row)


class FirstCall(measuring._FirstCall):
    """The first fit of a Kalman filter."""

    estimator = "KalmanFilter"
    data = "X = rng.normal(size=(1000, 3))"
    fit = "KalmanFilter(n_dim_state=2, max_iter=5).fit(X)"
