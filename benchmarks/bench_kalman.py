"""asv suite of the Kalman filter: EM iterations, smoothing, online learning, streaming."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

import fastem
from fastem.kalman_data import as_observations

from .kalman_shapes import Shape, load

SHAPES = {
    "2000x50": Shape(2000, 50),
    "1x100000": Shape(1, 100_000),
    "1x2000": Shape(1, 2000),
    "200x50 gaps": Shape(200, 50, gaps=0.1),
    "200x50 d=20 p=40": Shape(200, 50, 20, 40),
}


class Iteration:
    """One EM iteration, and its parts."""

    params: ClassVar = list(SHAPES)
    param_names = ("shape",)
    timeout = 300

    def setup(self, name):
        self.model, X = load(SHAPES[name])
        self.X = X
        self.sequences = as_observations(X)
        self.statistics = self.model.expect(self.sequences).statistics
        self.kf = fastem.KalmanFilter(**self.model.parameters)
        self.kf.smooth(X[:1])

    def time_iteration(self, name):
        self.model.maximize(self.model.expect(self.sequences).statistics)

    def time_expect(self, name):
        self.model.expect(self.sequences)

    def time_maximize(self, name):
        self.model.maximize(self.statistics)

    def time_score(self, name):
        self.model.log_likelihoods(self.sequences)

    def time_smooth(self, name):
        self.kf.smooth(self.X)

    def peakmem_iteration(self, name):
        self.model.maximize(self.model.expect(self.sequences).statistics)


class Online:
    """200 sequences of 50 steps, one at a time and in mini-batches."""

    params: ClassVar = [1, 20]
    param_names = ("batch_size",)
    timeout = 300

    def setup(self, batch_size):
        model, self.X = load(Shape(200, 50))
        self.kf = fastem.KalmanFilter(**model.parameters, batch_size=batch_size)
        self.time_partial_fit(batch_size)

    def time_partial_fit(self, batch_size):
        self.kf.partial_fit(self.X)


class Streaming:
    """One observation at a time."""

    def setup(self):
        model, X = load(Shape(1, 1000))
        self.rows = X[0]
        self.kf = fastem.KalmanFilter(**model.parameters)
        self.kf.stream().update(self.rows[0])

    def time_thousand_updates(self):
        stream = self.kf.stream()
        for row in self.rows:
            stream.update(row)


class Combining:
    """The model's own statistics, and two models combined."""

    def setup(self):
        self.models = [load(Shape(2, 10))[0] for _ in range(2)]
        self.time_combine()

    def time_own(self):
        self.models[0].own(1000)

    def time_combine(self):
        fastem.combine(self.models, align=True, horizon=np.int64(50))
