"""asv suite of the Kalman filter."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from fastem.bench import kalman
from fastem.bench.kalman import KalmanShape

from . import measuring

_BASE = KalmanShape(2000, 50, 5, 10)
_LONG, _SHORT = KalmanShape(1, 100_000, 5, 10), KalmanShape(1, 2000, 5, 10)
_MISSING = KalmanShape(200, 50, 5, 10, missing=0.1)
_MANY = [KalmanShape(20, 50, 5, 10), KalmanShape(20, 50, 10, 10)]


def _fitted(shape):
    problem = shape.problem()
    return kalman.em(problem).run(1), (problem.X,)


def _checked(X):
    from fastem.kalman.data import as_observations

    return as_observations(X)


_MAKER = measuring.Maker(_fitted, _checked)


class Iteration(measuring._Iterations):
    """One step of batch EM; where values are missing, covariances depend on which."""

    works = _MAKER.works("iteration", [_BASE, _LONG, _SHORT, _MISSING], "step")
    shapes: ClassVar = dict(zip(works, [_BASE, _LONG, _SHORT, _MISSING], strict=True))
    params = tuple(works)

    def setup_cache(self):
        return measuring.with_rate(measuring.seconds(self.works))


class Speed(measuring._Suite):
    """Inference, online EM, streams, and models that are merged and compared."""

    works = (
        _MAKER.works("using", [_BASE, _LONG, _SHORT], "score", "score")
        | _MAKER.works("using", [_BASE, _LONG, _SHORT, _MISSING], "smooth", "smooth")
        | _MAKER.works("online", [_BASE, _SHORT], "online, one by one", batch_size=1)
        | _MAKER.works("online", [_BASE], "online, batches of 20", batch_size=20)
        | _MAKER.works("combine", _MANY, "combine")
        | _MAKER.works("divergence", _MANY, "divergence")
        | _MAKER.works("stream", [_SHORT], "a thousand updates of a stream", "stream")
    )
    params = tuple(works)

    def setup_cache(self):
        return measuring.seconds(self.works)


class Memory(measuring._Peak):
    """Memory of one step of batch EM."""

    prepare = staticmethod(partial(_MAKER.iteration, _BASE))


class FirstCall(measuring._FirstCall):
    """The first fit of a Kalman filter."""

    estimator = "KalmanFilter"
    data = "X = rng.normal(size=(1000, 3))"
    fit = "KalmanFilter(n_dim_state=2, max_iter=5).fit(X)"
