"""asv suite of mixtures."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import numpy as np

import fastem
from fastem.bench import mixtures
from fastem.bench.mixtures import MixtureShape

from . import measuring
from .measuring import doublings, fewer, named

_BASE = MixtureShape("full", 200_000, 16, 16)
_SHAPES = named(
    MixtureShape("full", 200_000, 2, 8),
    _BASE,
    MixtureShape("full", 100_000, 64, 10),
    MixtureShape("full", 20_000, 784, 10, "Fashion-MNIST"),
    MixtureShape("full", 500_000, 54, 7),
    MixtureShape("diag", 500_000, 54, 7),
    MixtureShape("diag", 60_000, 784, 10, "Fashion-MNIST"),
    *doublings(_BASE, "n_samples", "n_features", "n_components"),
)
_OTHER_COVARIANCES = named(
    *(_BASE._replace(covariance_type=kind) for kind in ("diag", "tied", "spherical"))
)
_WIDE = [name for name in _SHAPES if name.shape.n_features > 500]
_NARROW = [name for name in _SHAPES if name not in _WIDE]
_SMALL = named(*(MixtureShape(kind, 2000, D, 16) for kind in ("full", "diag") for D in (16, 64)))


class _Mixture:
    @staticmethod
    def fitted(shape):
        problem = shape.problem()
        problem.settings["reg_covar"] = 1e-6
        return mixtures.em(problem).run(1), (problem.X,)

    @staticmethod
    def checked(X):
        return X


class Iteration(_Mixture, measuring._Iteration):
    """One step of batch EM."""

    params = _SHAPES + _OTHER_COVARIANCES


class Online(_Mixture, measuring._Online):
    """One pass of online EM, one observation at a time."""

    # A wide row takes milliseconds.
    params = fewer(_NARROW, "n_samples", 20_000) + fewer(_WIDE, "n_samples", 200)
    settings: ClassVar = {"batch_size": 1, "learning_rate": fastem.Decay(0.1, 0.6)}


class MiniBatches(Online):
    """The same, a hundred observations at a time."""

    params = fewer(named(_BASE, _BASE._replace(covariance_type="diag")), "n_samples", 20_000)
    settings: ClassVar = {"batch_size": 100}


class Score(_Mixture, measuring._Using):
    """The log-likelihood."""

    params = _SHAPES


class Posteriors(_Mixture, measuring._Using):
    """The probabilities of the components."""

    params = _SHAPES[:2] + _OTHER_COVARIANCES[:1]
    method = "predict_proba"


class Combine(_Mixture, measuring._Combine):
    """Combining twenty fitted models."""

    params = _SMALL


class Divergence(_Mixture, measuring._Divergence):
    """Comparing two fitted models."""

    params = _SMALL


class Families(measuring._Timed):
    """One step of batch EM for the other families, 100,000 rows of ten columns, K = 8."""

    params = ("poisson", "bernoulli", "multinomial", "exponential", "gamma", "beta")
    param_names = ("family",)

    def prepare(self, family):
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


class FirstCall(measuring._FirstCall):
    """The first fit of a Gaussian mixture."""

    estimator = "GaussianMixture"
    data = "X = rng.normal(size=(1000, 5))"
    fit = "GaussianMixture(2, max_iter=5).fit(X)"
