"""asv suite of the Kalman filter."""

from __future__ import annotations

from typing import ClassVar

from fastem.bench import kalman
from fastem.bench.kalman import KalmanShape
from fastem.kalman.data import as_observations

from . import measuring
from .measuring import doublings, named

_BASE = KalmanShape(2000, 50, 5, 10)
_SHAPES = named(
    _BASE,
    KalmanShape(1, 100_000, 5, 10),
    KalmanShape(1, 2000, 5, 10),
    *doublings(_BASE, "n_sequences", "n_steps", "n_states", "n_features"),
)


class _Kalman:
    @staticmethod
    def fitted(shape):
        problem = shape.problem()
        return kalman.em(problem).run(1), (problem.X,)

    checked = staticmethod(as_observations)


class Iteration(_Kalman, measuring._Iteration):
    """One step of batch EM; where values are missing, covariances depend on which."""

    params = _SHAPES + named(KalmanShape(200, 50, 5, 10, missing=0.1))


class Online(_Kalman, measuring._Online):
    """One pass of online EM, one sequence at a time."""

    params = _SHAPES


class MiniBatches(Online):
    """The same, twenty sequences at a time."""

    params = _SHAPES[:1]
    settings: ClassVar = {"batch_size": 20}


class Score(_Kalman, measuring._Using):
    """The log-likelihood."""

    params = _SHAPES


class Smooth(_Kalman, measuring._Using):
    """Means and covariances of the states, given all of a sequence."""

    params = _SHAPES
    method = "smooth"


class Combine(_Kalman, measuring._Combine):
    """Combining twenty fitted models."""

    params = named(KalmanShape(20, 50, 5, 10), KalmanShape(20, 50, 10, 10))


class Divergence(_Kalman, measuring._Divergence):
    """Comparing two fitted models."""

    params = Combine.params


class Stream(_Kalman, measuring._Stream):
    """A thousand observations, one at a time."""

    params = named(KalmanShape(1, 2000, 5, 10))
    method = "stream"


class FirstCall(measuring._FirstCall):
    """The first fit of a Kalman filter."""

    estimator = "KalmanFilter"
    data = "X = rng.normal(size=(1000, 3))"
    fit = "KalmanFilter(n_dim_state=2, max_iter=5).fit(X)"
