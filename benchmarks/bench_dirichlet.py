"""asv suite of the compound Dirichlet: whole fits, tables, an iteration, online, use, mixtures."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import ClassVar

import numpy as np

import fastem
from fastem.compound_dirichlet import start_from_moments
from fastem.count_tables import CountTables
from fastem.dirichlet_model import CompoundDirichletModel
from fastem.families import DirichletMultinomial

from .dirichlet_shapes import SHAPES, Documents, lbfgs, load

SIZES = {f"{s.n_documents}x{s.n_words}": s for s in SHAPES}


class Fit:
    """A whole fit to 1e-8, and its parts."""

    params: ClassVar = list(SIZES)
    param_names = ("documents",)
    timeout = 600

    def setup(self, size):
        self.X = load(SIZES[size])
        self.tables = CountTables.of(self.X)
        self.model = CompoundDirichletModel(start_from_moments(self.tables))
        self.time_fit(size)

    def time_fit(self, size):
        fastem.CompoundDirichlet(tol=1e-8).fit(self.X)

    def peakmem_fit(self, size):
        fastem.CompoundDirichlet(tol=1e-8).fit(self.X)

    def time_tables(self, size):
        CountTables.of(self.X).finished()

    def time_em_iteration(self, size):
        self.model.maximize(self.model.expect(self.tables).statistics)

    def time_score_samples(self, size):
        self.model.log_likelihoods(self.X)


class Peer:
    """SciPy's L-BFGS on the smallest shape, for the ratio on the same machine."""

    timeout = 600

    def setup(self):
        self.X = load(SHAPES[0])
        self.start = start_from_moments(CountTables.of(self.X))

    def time_lbfgs(self):
        lbfgs(self.X, self.start)


class Growth:
    """A fit for twice the documents, and twice the words."""

    params: ClassVar = ["20000x200", "40000x200", "80000x200", "20000x400", "20000x800"]
    param_names = ("documents",)

    def setup(self, size):
        n_documents, n_words = map(int, size.split("x"))
        self.X = load(Documents("growth", n_documents, n_words, 200))
        self.time_fit(size)

    def time_fit(self, size):
        fastem.CompoundDirichlet(tol=1e-8).fit(self.X)


class Online:
    """One pass of online EM over 20,000 documents of 10 words or 100."""

    params: ClassVar = ([10, 100], [1, 100], ["exact", "sampled"])
    param_names = ("words", "batch_size", "inertia")
    timeout = 300

    def setup(self, n_words, batch_size, inertia):
        # One observation at a time with pseudo-documents is two thousand times the work.
        n_documents = 20_000 if inertia == "exact" else 20 * batch_size
        self.X = load(Documents("online", n_documents, n_words, 100))
        self.model = fastem.CompoundDirichlet(
            batch_size=batch_size, inertia=inertia, n_pseudo=2000, random_state=0
        ).partial_fit(self.X[:200])

    def time_pass(self, n_words, batch_size, inertia):
        self.model.partial_fit(self.X)


class Use:
    """Drawing, combining and comparing fitted models, and one iteration of a mixture."""

    def setup(self):
        rng = np.random.default_rng(0)
        self.model = CompoundDirichletModel(rng.gamma(1.0, 1.0, 1000) + 0.05)
        self.rng = rng
        self.X = load(Documents("mixture", 20_000, 50, 100))
        estimator = fastem.Mixture(
            DirichletMultinomial(), 4, max_iter=1, init_params="random", random_state=0
        )
        self.mixture = estimator.fit(self.X)._model()

    def time_draw(self):
        self.model.draw(1000, self.rng, 200)

    def time_combine_20(self):
        fastem.combine([self.model] * 20)

    def time_divergence(self):
        fastem.divergence(self.model, self.model)

    def time_mixture_iteration(self):
        self.mixture.maximize(self.mixture.expect(self.X).statistics)


class FirstCall:
    """The first fit in a new process, with and without compiled kernels at hand."""

    timeout = 300
    code = (
        "import time, numpy as np, fastem; "
        "X = np.random.default_rng(0).multinomial(20, np.ones(5) / 5, size=500); "
        "t = time.perf_counter(); fastem.CompoundDirichlet().fit(X); print(time.perf_counter() - t)"
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
        return float(printed)

    def track_first_fit_cold(self):
        return self._run()

    track_first_fit_cold.unit = "s"

    def track_first_fit_warm(self):
        self._run()
        return min(self._run() for _ in range(3))

    track_first_fit_warm.unit = "s"
