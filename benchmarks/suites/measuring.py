"""What the asv suites of all models share. (asv passes over names with an underscore.)

asv starts a process for each measurement of each parameter, and imports, data and a first fit are
two seconds in each. So there is one round, and the samples end after a second.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import ClassVar

import fastem
from fastem.bench.machine import matrix_product_rate
from fastem.bench.timing import best_of

warnings.filterwarnings("ignore")


class _Named(str):
    """A shape's description, which is what asv shows of it, with the shape."""

    def __new__(cls, shape):
        kind = getattr(shape, "covariance_type", "")
        named = super().__new__(cls, f"{kind} {shape}".strip())
        named.shape = shape
        return named


def named(*shapes):
    """Shapes as parameters, each once."""
    return tuple(dict.fromkeys(map(_Named, shapes)))


def doublings(shape, *fields):
    """The shape with each of the fields doubled."""
    return [shape._replace(**{field: 2 * getattr(shape, field)}) for field in fields]


def fewer(names, field, most):
    """The shapes with a field cut to ``most``."""
    shapes = [name.shape for name in names]
    return named(*(s._replace(**{field: min(most, getattr(s, field))}) for s in shapes))


def iteration(model, data):
    """One step of batch EM."""
    return model.maximize(model.expect(data).statistics)


def _forget_peak():
    """Count memory from here on: the peak is to be the work's, not the data's. Linux only."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


class _Timed:
    """Some work: ``prepare(*parameters)`` gives a call that does it once.

    Suites of a model have ``fitted(shape)``: an estimator after one iteration, and its data as
    ``fit`` takes them.
    """

    param_names = ("shape",)
    timeout = 600
    rounds = 1
    warmup_time = 0.0
    repeat = (2, 20, 1.0)

    def setup(self, *parameters):
        # asv calls it again before every sample.
        if not hasattr(self, "work"):
            self.work = self.prepare(*parameters)
            self.work()

    def time_once(self, *parameters):
        self.work()


class _Work(_Timed):
    """Its memory too."""

    def peakmem_once(self, *parameters):
        _forget_peak()
        self.work()


class _Reading(_Work):
    """Work on all observations of a shape, the first parameter."""

    def track_observations_per_second(self, name, *others):
        return round(name.shape.n_observations / best_of(self.work, 3))

    track_observations_per_second.unit = "observations/s"


class _Iteration(_Reading):
    """One step of batch EM, of a model whose time goes into products."""

    def prepare(self, name):
        estimator, data = self.fitted(name.shape)
        return partial(iteration, estimator._model(), self.checked(*data))

    def track_share_of_matrix_product(self, name):
        rate = name.shape.useful_flops / best_of(self.work, 3)
        return round(rate / matrix_product_rate(), 3)

    track_share_of_matrix_product.unit = "share of the matrix product"


class _Online(_Reading):
    """One pass of online EM."""

    settings: ClassVar = {"batch_size": 1}

    def prepare(self, name):
        estimator, data = self.fitted(name.shape)
        return partial(estimator.set_params(**self.settings).partial_fit, *data)


class _Using(_Reading):
    """A method of a fitted estimator, called on its data."""

    method = "score"

    def prepare(self, name):
        estimator, data = self.fitted(name.shape)
        return partial(getattr(estimator, self.method), *data)


class _Combine(_Work):
    """Combining twenty fitted models."""

    def prepare(self, name):
        return partial(fastem.combine, [self.fitted(name.shape)[0]] * 20)


class _Divergence(_Timed):
    """Comparing two fitted models."""

    def prepare(self, name):
        estimator, _ = self.fitted(name.shape)
        return partial(fastem.divergence, estimator, estimator)


class _Stream(_Timed):
    """A thousand observations, one at a time."""

    method = "filter"

    def prepare(self, name):
        estimator, data = self.fitted(name.shape)
        rows = data[0].reshape(-1, data[0].shape[-1])[:1000]
        return partial(self._update, getattr(estimator, self.method), rows)

    @staticmethod
    def _update(begin, rows):
        stream = begin()
        for row in rows:
            stream.update(row)


class _NewProcess:
    """Code that asv times in a new process, once."""

    timeout = 300
    rounds = 1
    number = 1
    warmup_time = 0.0
    repeat = (1, 5, 5.0)
    min_run_count = 1


class _FirstCall(_NewProcess):
    """The first fit of a process, with and without compiled kernels at hand.

    ``estimator`` is its name, ``data`` and ``fit`` are code.
    """

    params = ("cold", "warm")
    param_names = ("kernels",)

    def setup(self, kernels):
        # asv calls it again before every sample.
        if kernels == "warm" and not hasattr(self, "is_warm"):
            self.track_peak_memory(kernels)
            self.is_warm = True

    def timeraw_fit(self, kernels):
        before = "import os, tempfile, warnings; warnings.simplefilter('ignore')\n"
        if kernels == "cold":
            before += "empty = tempfile.TemporaryDirectory()\n"
            before += "os.environ['NUMBA_CACHE_DIR'] = empty.name\n"
        before += f"import numpy as np, fastem; fastem.{self.estimator}\n"
        before += f"rng = np.random.default_rng(0); {self.data}\n"
        return f"fastem.{self.fit}", before

    def track_peak_memory(self, kernels):
        fit, before = self.timeraw_fit(kernels)
        peak = "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        command = [sys.executable, "-c", f"{before}{fit}\n{peak}"]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        # In kilobytes, on Linux.
        return 1024 * int(printed)

    track_peak_memory.unit = "bytes"
