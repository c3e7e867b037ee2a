"""asv suite of mixtures."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import numpy as np

import fastem
from fastem.bench import mixtures
from fastem.bench.mixtures import MixtureShape

from . import measuring
from .measuring import described

_BASE = MixtureShape("full", 200_000, 16, 16)
_DIAGONAL = _BASE._replace(covariance_type="diag")
_SHAPES = [
    MixtureShape("full", 200_000, 2, 8),
    _BASE,
    MixtureShape("full", 100_000, 64, 10),
    MixtureShape("full", 20_000, 784, 10, "Fashion-MNIST"),
    MixtureShape("diag", 500_000, 54, 7),
    MixtureShape("diag", 60_000, 784, 10, "Fashion-MNIST"),
    *(_BASE._replace(covariance_type=kind) for kind in ("diag", "tied", "spherical")),
]
_STREAMS = [
    shape._replace(n_samples=200 if shape.n_features > 500 else 20_000)
    for shape in (_SHAPES[0], _BASE, _DIAGONAL, _SHAPES[3], _SHAPES[5])
]
_SMALL = [MixtureShape(kind, 2000, D, 16) for kind in ("full", "diag") for D in (16, 64)]


def _fitted(shape):
    problem = shape.problem()
    problem.settings["reg_covar"] = 1e-6
    return mixtures.em(problem).run(1), (problem.X,)


_MAKER = measuring.Maker(_fitted)


def _family(family):
    """One step of batch EM for another family, 100,000 rows of ten columns, K = 8."""
    rng = np.random.default_rng(0)
    level = rng.random((8, 10))[rng.integers(8, size=100_000)]
    X = {
        "poisson": lambda: rng.poisson(10 * level),
        "bernoulli": lambda: (rng.random(level.shape) < level).astype(np.uint8),
        "multinomial": lambda: rng.poisson(10 * level),
        "exponential": lambda: rng.exponential(level),
        "gamma": lambda: rng.gamma(2.0, level),
        "beta": lambda: rng.beta(2.0, 1 + level).clip(1e-9, 1 - 1e-9),
    }[family]()
    estimator = fastem.Mixture(family, 8, random_state=0, max_iter=1, init_params="random")
    return partial(measuring.iteration, estimator.fit(X)._model(), X)


class Iteration(measuring._Iterations):
    """One step of batch EM."""

    works = _MAKER.works("iteration", _SHAPES, "step")
    shapes: ClassVar = dict(zip(works, _SHAPES, strict=True))
    params = tuple(works)

    def setup_cache(self):
        return measuring.with_rate(measuring.seconds(self.works))


class Speed(measuring._Suite):
    """Inference, online EM, other families, and models that are merged and compared."""

    works = (
        _MAKER.works("using", [*_SHAPES[:2], _DIAGONAL], "score", "score")
        | _MAKER.works("using", [_BASE, _DIAGONAL], "posteriors", "predict_proba")
        | _MAKER.works("online", _STREAMS, "online, one by one", batch_size=1)
        | _MAKER.works("online", _STREAMS[1:3], "online, batches of 100", batch_size=100)
        | _MAKER.works("combine", _SMALL, "combine")
        | _MAKER.works("divergence", _SMALL, "divergence")
        | {
            f"step, {family}": partial(_family, family)
            for family in ("poisson", "bernoulli", "multinomial", "exponential", "gamma", "beta")
        }
    )  # fmt: skip
    params = tuple(works)

    def setup_cache(self):
        return measuring.seconds(self.works)


class Memory(measuring._Peak):
    """Memory of one step of batch EM."""

    pretty_name = f"peak memory of a step, {described(_BASE)}"
    prepare = staticmethod(partial(_MAKER.iteration, _BASE))


class FirstCall(measuring._FirstCall):
    """The first fit of a Gaussian mixture."""

    estimator = "GaussianMixture"
    data = "X = rng.normal(size=(1000, 5))"
    fit = "GaussianMixture(2, max_iter=5).fit(X)"
