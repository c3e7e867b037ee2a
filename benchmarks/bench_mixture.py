"""asv suite of mixtures: one EM iteration, one online epoch, scoring, combining, the first call."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np

import fastem

from .shapes import Shape, mixture, start

warnings.filterwarnings("ignore")

SIZES = ["200000x2x8", "200000x16x16", "100000x64x10", "50000x54x7"]
KINDS = ["full", "tied", "diag", "spherical"]


def _shape(size, kind):
    n_samples, n_features, n_components = map(int, size.split("x"))
    return Shape(f"GMM {kind}", kind, n_samples, n_features, n_components)


def _fitted(size, kind, n_iter=1):
    shape = _shape(size, kind)
    X = mixture(shape.n_samples, shape.n_features, shape.n_components)
    model = fastem.GaussianMixture(
        shape.n_components, covariance_type=kind, tol=0.0, max_iter=n_iter, warm_start=True,
        **start(X, shape),
    )  # fmt: skip
    return shape, X, model.fit(X)


class Iteration:
    """One step of batch EM."""

    params = (SIZES, KINDS)
    param_names = ("NxDxK", "covariance")
    timeout = 300

    def setup(self, size, kind):
        self.shape, self.X, estimator = _fitted(size, kind)
        self.model = estimator._model()

    def time_iteration(self, size, kind):
        self.model.maximize(self.model.expect(self.X).statistics)

    def peakmem_iteration(self, size, kind):
        self.model.maximize(self.model.expect(self.X).statistics)

    def track_rows_per_second(self, size, kind):
        return self.shape.n_samples / _best(self.time_iteration, size, kind)

    track_rows_per_second.unit = "rows/s"

    def track_share_of_matrix_product(self, size, kind):
        a = np.random.default_rng(0).normal(size=(1500, 1500))
        rate = 2 * 1500**3 / _best(lambda: a @ a)
        return self.shape.useful_flops / _best(self.time_iteration, size, kind) / rate

    track_share_of_matrix_product.unit = "share"


class Online:
    """One pass of online EM, one observation at a time and in mini-batches."""

    params = (["20000x2x8", "20000x16x16", "5000x64x10"], KINDS, [1, 100])
    param_names = ("NxDxK", "covariance", "batch_size")
    timeout = 300

    def setup(self, size, kind, batch_size):
        self.shape, self.X, self.model = _fitted(size, kind)
        self.model.set_params(batch_size=batch_size, learning_rate=fastem.Decay(0.1, 0.6))
        self.model.partial_fit(self.X[:200])

    def time_epoch(self, size, kind, batch_size):
        self.model.partial_fit(self.X)

    def track_rows_per_second(self, size, kind, batch_size):
        return self.shape.n_samples / _best(self.time_epoch, size, kind, batch_size)

    track_rows_per_second.unit = "rows/s"


class Use:
    """Scoring, predicting, combining and comparing fitted models."""

    params = (SIZES, KINDS)
    param_names = ("NxDxK", "covariance")
    timeout = 300

    def setup(self, size, kind):
        _, self.X, self.model = _fitted(size, kind)
        self.others = [self.model] * 20

    def time_score(self, size, kind):
        self.model.score(self.X)

    def time_predict_proba(self, size, kind):
        self.model.predict_proba(self.X)

    def peakmem_score(self, size, kind):
        self.model.score(self.X)

    def time_combine_20(self, size, kind):
        fastem.combine(self.others)

    def time_divergence(self, size, kind):
        fastem.divergence(self.model, self.model)


class Families:
    """One step of batch EM for the other families, 100,000 rows of ten columns, K = 8."""

    params = ("poisson", "bernoulli", "multinomial", "exponential", "gamma", "beta")
    param_names = ("family",)
    timeout = 300

    def setup(self, family):
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
        self.X = X
        estimator = fastem.Mixture(family, 8, random_state=0, max_iter=1, init_params="random")
        self.model = estimator.fit(X)._model()

    def time_iteration(self, family):
        self.model.maximize(self.model.expect(self.X).statistics)


class FirstCall:
    """A new process: the import, and the first fit with and without compiled kernels at hand."""

    timeout = 300
    code = (
        "import time; t = time.perf_counter(); import numpy as np, fastem; "
        "a = time.perf_counter() - t; X = np.random.default_rng(0).normal(size=(1000, 5)); "
        "t = time.perf_counter(); fastem.GaussianMixture(2, max_iter=5).fit(X); "
        "print(a, time.perf_counter() - t)"
    )

    def setup(self):
        self.cache = tempfile.TemporaryDirectory()
        self.environment = {**os.environ, "NUMBA_CACHE_DIR": self.cache.name}

    def teardown(self):
        self.cache.cleanup()

    def _run(self):
        command = [sys.executable, "-W", "ignore", "-c", self.code]
        printed = subprocess.run(
            command, env=self.environment, check=True, capture_output=True, text=True
        ).stdout
        return [float(part) for part in printed.split()]

    def track_import(self):
        return min(self._run()[0] for _ in range(3))

    track_import.unit = "s"

    def track_first_fit_cold(self):
        return self._run()[1]

    track_first_fit_cold.unit = "s"

    def track_first_fit_warm(self):
        self._run()
        return min(self._run()[1] for _ in range(3))

    track_first_fit_warm.unit = "s"


def _best(function, *arguments, repeats=5):
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        function(*arguments)
        times.append(time.perf_counter() - begun)
    return min(times)
