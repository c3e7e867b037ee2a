"""What the asv suites of all models share. (asv passes over names with an underscore.)

asv starts a process for each value that it shows. To import, to make data and to load kernels would
take two seconds in each. So all times of a suite are measured in one process (``setup_cache``), and
the others only look them up: what is slow to import is imported where it is used.
"""

from __future__ import annotations

import copy
import gc
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path

import fastem
from fastem.bench.machine import matrix_product_rate
from fastem.bench.measured import Measured
from fastem.bench.side import Side

warnings.filterwarnings("ignore")

#: Seconds that calls are repeated for, after one that does not count.
_BUDGET = 0.3
#: Works by name: functions that prepare one, and return a call that does it.
Works = dict[str, Callable[[], Callable]]


def described(shape) -> str:
    """A shape, as asv shows it."""
    return f"{getattr(shape, 'covariance_type', '')} {shape}".strip()


def iteration(model, data):
    """One step of batch EM."""
    return model.maximize(model.expect(data).statistics)


def seconds(works: Works) -> dict[str, float]:
    """The least time of each work; NaN for what fails, so that the others are measured."""
    return {name: _seconds(prepare) for name, prepare in works.items()}


def _seconds(prepare):
    try:
        call = prepare()
        call()
        return Measured(Side(lambda _: call(), lambda _: None)).best(_BUDGET)
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
        return float("nan")
    finally:
        gc.collect()


class _Suite:
    """Times of works; a subclass has ``works`` and, so that asv tells suites apart, a
    ``setup_cache`` of its own that returns ``seconds(self.works)``.
    """

    param_names = ("work",)
    timeout = 600

    def track_seconds(self, measured, work):
        return measured[work]

    track_seconds.unit = "seconds"


def with_rate(measured: dict[str, float]) -> dict[str, float]:
    """The times, and the rate of a matrix product in the same process."""
    return {**measured, "rate": matrix_product_rate()}


class _Iterations(_Suite):
    """Steps of batch EM of models whose time goes into products; ``shapes`` by the name of a work.

    Its ``setup_cache`` returns ``with_rate(seconds(self.works))``.
    """

    def track_share_of_matrix_product(self, measured, work):
        return round(self.shapes[work].useful_flops / measured[work] / measured["rate"], 3)

    track_share_of_matrix_product.unit = "share of the matrix product"


class _Peak:
    """Memory of one step of batch EM: the work's, not the data's."""

    timeout = 600

    def setup(self):
        self.work = self.prepare()
        self.work()
        # Count from here on. Linux only.
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")

    def peakmem_iteration(self):
        self.work()


class Maker:
    """Works of a model on shapes; ``fitted(shape)`` is an estimator after one iteration, and its
    data as ``fit`` takes them.
    """

    def __init__(self, fitted, checked=lambda X: X):
        # Works of one shape follow each other.
        self.fitted = lru_cache(maxsize=1)(fitted)
        self._checked = checked

    def iteration(self, shape):
        """One step of batch EM."""
        estimator, data = self.fitted(shape)
        return partial(iteration, estimator._model(), self._checked(*data))

    def online(self, shape, **settings):
        """One pass of online EM."""
        estimator, data = self.fitted(shape)
        return partial(copy.deepcopy(estimator).set_params(**settings).partial_fit, *data)

    def using(self, shape, method):
        """A method of a fitted estimator, called on its data."""
        estimator, data = self.fitted(shape)
        return partial(getattr(estimator, method), *data)

    def combine(self, shape):
        """Combining twenty fitted models."""
        return partial(fastem.combine, [self.fitted(shape)[0]] * 20)

    def divergence(self, shape):
        """Comparing two fitted models."""
        estimator = self.fitted(shape)[0]
        return partial(fastem.divergence, estimator, estimator)

    def stream(self, shape, method):
        """A thousand observations, one at a time."""
        estimator, data = self.fitted(shape)
        rows = data[0].reshape(-1, data[0].shape[-1])[:1000]

        def update():
            stream = getattr(estimator, method)()
            for row in rows:
                stream.update(row)

        return update

    def works(self, kind, shapes, name, *arguments, **settings) -> Works:
        """The works of a kind on shapes, by ``name`` and shape."""
        method = getattr(self, kind)
        return {
            f"{name}, {described(shape)}": partial(method, shape, *arguments, **settings)
            for shape in shapes
        }


class _NewProcess:
    """Code that asv times in a new process, once."""

    timeout = 300
    rounds = 1
    number = 1
    warmup_time = 0.0
    repeat = 1
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
            fit, before = self.timeraw_fit(kernels)
            subprocess.run([sys.executable, "-c", f"{before}{fit}"], check=True)
            self.is_warm = True

    def timeraw_fit(self, kernels):
        before = "import os, tempfile, warnings; warnings.simplefilter('ignore')\n"
        if kernels == "cold":
            before += "empty = tempfile.TemporaryDirectory()\n"
            before += "os.environ['NUMBA_CACHE_DIR'] = empty.name\n"
        before += f"import numpy as np, fastem; fastem.{self.estimator}\n"
        before += f"rng = np.random.default_rng(0); {self.data}\n"
        return f"fastem.{self.fit}", before
