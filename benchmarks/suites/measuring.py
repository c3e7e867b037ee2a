"""What the asv suites of all models share. (asv passes over names with an underscore.)"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import warnings
from typing import ClassVar

from fastem.bench.machine import matrix_product_rate
from fastem.bench.timing import best_of

warnings.filterwarnings("ignore")


def with_doublings(shapes, of, fields):
    """The shapes, and one of them with each of the fields doubled, by their descriptions."""
    doubled = [of._replace(**{field: 2 * getattr(of, field)}) for field in fields]
    return {_name(shape): shape for shape in (*shapes, *doubled)}


def _name(shape):
    # asv shows parameters in URLs: no commas, no spaces.
    kind = getattr(shape, "covariance_type", "")
    text = str(shape).replace(",", "").replace(" × ", "x").replace("–", "-").replace(" ", "-")
    return f"{kind}-{text}" if kind else text


class _Iteration:
    """One step of batch EM. ``prepare(shape)`` gives the model and its data."""

    shapes: ClassVar[dict] = {}
    param_names = ("shape",)
    timeout = 600

    def setup(self, name):
        self.shape = self.shapes[name]
        self.model, self.data = self.prepare(self.shape)
        self.time_iteration(name)

    def time_iteration(self, name):
        self.model.maximize(self.model.expect(self.data).statistics)

    def peakmem_iteration(self, name):
        self.model.maximize(self.model.expect(self.data).statistics)

    def track_observations_per_second(self, name):
        return self.shape.n_observations / best_of(lambda: self.time_iteration(name), 5)

    track_observations_per_second.unit = "observations/s"


class _IterationOfProducts(_Iteration):
    """The same, for models whose time goes into products."""

    def track_share_of_matrix_product(self, name):
        seconds = best_of(lambda: self.time_iteration(name), 5)
        return self.shape.useful_flops / seconds / matrix_product_rate()

    track_share_of_matrix_product.unit = "share"


class _FirstCall:
    """A new process: the first fit with and without compiled kernels at hand."""

    timeout = 300
    fit = "pass"

    def setup(self):
        self.cache = tempfile.TemporaryDirectory()
        self.environment = {**os.environ, "NUMBA_CACHE_DIR": self.cache.name}

    def teardown(self):
        self.cache.cleanup()

    def _run(self):
        code = (
            "import time, warnings; warnings.simplefilter('ignore')\n"
            "t = time.perf_counter(); import numpy as np, fastem\n"
            f"imported = time.perf_counter() - t; rng = np.random.default_rng(0)\n{self.data}\n"
            f"fastem.{self.estimator}; t = time.perf_counter(); fastem.{self.fit}\n"
            "print(imported, time.perf_counter() - t)"
        )
        command = [sys.executable, "-c", code]
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
