"""asv suite of mixtures."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

import fastem
from fastem.bench import mixtures
from fastem.bench.mixtures import MixtureShape
from fastem.bench.timing import best_of

from . import measuring

_BASE = MixtureShape("full", 200_000, 16, 16)
_SHAPES = measuring.with_doublings(
    [
        MixtureShape("full", 200_000, 2, 8),
        _BASE,
        MixtureShape("full", 100_000, 64, 10),
        MixtureShape("full", 20_000, 784, 10, "Fashion-MNIST"),
        MixtureShape("full", 500_000, 54, 7),
        MixtureShape("diag", 500_000, 54, 7),
        MixtureShape("diag", 60_000, 784, 10, "Fashion-MNIST"),
        MixtureShape("diag", 200_000, 16, 16),
        MixtureShape("tied", 200_000, 16, 16),
        MixtureShape("spherical", 200_000, 16, 16),
    ],
    _BASE,
    ("n_samples", "n_features", "n_components"),
)
_USED = (_BASE, MixtureShape("full", 200_000, 2, 8), MixtureShape("diag", 200_000, 16, 16))
_FEW = {
    f"{kind}-{n}x{d}x{k}": MixtureShape(kind, n, d, k)
    for n, d, k in [(20_000, 2, 8), (20_000, 16, 16)]
    for kind in ("full", "diag")
}


def _fitted(shape):
    problem = shape.problem()
    problem.settings["reg_covar"] = 1e-6
    return mixtures.em(problem).run(1), problem.X


class Iteration(measuring._IterationOfProducts):
    """One step of batch EM."""

    shapes = _SHAPES
    params: ClassVar = list(_SHAPES)

    def prepare(self, shape):
        model, X = _fitted(shape)
        return model._model(), X


class Online:
    """One pass of online EM, one observation at a time and in mini-batches."""

    params: ClassVar = [list(_FEW), [1, 100]]
    param_names = ("shape", "batch_size")
    timeout = 300

    def setup(self, name, batch_size):
        self.model, self.X = _fitted(_FEW[name])
        self.model.set_params(batch_size=batch_size, learning_rate=fastem.Decay(0.1, 0.6))
        self.model.partial_fit(self.X[:200])

    def time_epoch(self, name, batch_size):
        self.model.partial_fit(self.X)

    def track_observations_per_second(self, name, batch_size):
        return len(self.X) / best_of(lambda: self.time_epoch(name, batch_size), 3)

    track_observations_per_second.unit = "observations/s"


class Use:
    """Scoring and predicting."""

    params: ClassVar = [name for name, shape in _SHAPES.items() if shape in _USED]
    param_names = ("shape",)
    timeout = 300

    def setup(self, name):
        self.model, self.X = _fitted(_SHAPES[name])
        self.model.predict_proba(self.X[:10])

    def time_score(self, name):
        self.model.score(self.X)

    def time_predict_proba(self, name):
        self.model.predict_proba(self.X)

    def peakmem_score(self, name):
        self.model.score(self.X)


class Combine:
    """Combining twenty fitted models, and comparing two."""

    params: ClassVar = [["full", "diag"], [16, 64]]
    param_names = ("covariance", "columns")

    def setup(self, kind, n_columns):
        self.model, _ = _fitted(MixtureShape(kind, 2000, n_columns, 16))
        self.time_combine_20(kind, n_columns)

    def time_combine_20(self, kind, n_columns):
        fastem.combine([self.model] * 20)

    def time_divergence(self, kind, n_columns):
        fastem.divergence(self.model, self.model)


class Families:
    """One step of batch EM for the other families, 100,000 rows of ten columns, K = 8."""

    params: ClassVar = ["poisson", "bernoulli", "multinomial", "exponential", "gamma", "beta"]
    param_names = ("family",)
    timeout = 300

    def setup(self, family):
        rng = np.random.default_rng(0)
        level = rng.random((8, 10))[rng.integers(8, size=100_000)]
        self.X = {
            "poisson": lambda: rng.poisson(10 * level),
            "bernoulli": lambda: (rng.random(level.shape) < level).astype(np.uint8),
            "multinomial": lambda: rng.poisson(10 * level),
            "exponential": lambda: rng.exponential(level),
            "gamma": lambda: rng.gamma(2.0, level),
            "beta": lambda: rng.beta(2.0, 1 + level).clip(1e-9, 1 - 1e-9),
        }[family]()
        estimator = fastem.Mixture(family, 8, random_state=0, max_iter=1, init_params="random")
        self.model = estimator.fit(self.X)._model()

    def time_iteration(self, family):
        self.model.maximize(self.model.expect(self.X).statistics)


class FirstCall(measuring._FirstCall):
    """The import, and the first fit of a Gaussian mixture."""

    estimator = "GaussianMixture"
    data = "X = rng.normal(size=(1000, 5))"
    fit = "GaussianMixture(2, max_iter=5).fit(X)"
