"""asv suite of the compound Dirichlet."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

import fastem
from fastem.bench.documents import TOLERANCE, DocumentsShape, draw
from fastem.bench.timing import best_of
from fastem.compound_dirichlet import start_from_moments
from fastem.count_tables import CountTables
from fastem.dirichlet_model import CompoundDirichletModel
from fastem.families import DirichletMultinomial

from . import measuring

_BASE = DocumentsShape(20_000, 1000, 200)
_SHAPES = measuring.with_doublings(
    [
        DocumentsShape(100_000, 10, 100),
        _BASE,
        DocumentsShape(50_000, 30_000, 150, is_sparse=True),
    ],
    _BASE,
    ("n_documents", "n_words", "length"),
)


class Iteration(measuring._Iteration):
    """One step of batch EM, on tables that are made once."""

    shapes = _SHAPES
    params: ClassVar = list(_SHAPES)

    def prepare(self, shape):
        tables = CountTables.of(draw(shape))
        return CompoundDirichletModel(start_from_moments(tables)), tables


class Fit:
    """A whole fit to 1e-8, its tables, and scoring."""

    params: ClassVar = list(_SHAPES)[:3]
    param_names = ("shape",)
    timeout = 600

    def setup(self, name):
        self.X = draw(_SHAPES[name])
        self.model = CompoundDirichletModel(start_from_moments(CountTables.of(self.X)))
        self.time_fit(name)

    def time_fit(self, name):
        fastem.CompoundDirichlet(tol=TOLERANCE).fit(self.X)

    def peakmem_fit(self, name):
        fastem.CompoundDirichlet(tol=TOLERANCE).fit(self.X)

    def track_documents_per_second(self, name):
        return _SHAPES[name].n_documents / best_of(lambda: self.time_fit(name), 3)

    track_documents_per_second.unit = "documents/s"

    def time_tables(self, name):
        CountTables.of(self.X).finished()

    def time_score_samples(self, name):
        self.model.log_likelihoods(self.X)


class Online:
    """One pass of online EM over 20,000 documents of 10 words or 100."""

    params: ClassVar = ([10, 100], [1, 100], ["exact", "sampled"])
    param_names = ("words", "batch_size", "inertia")
    timeout = 300

    def setup(self, n_words, batch_size, inertia):
        # One observation at a time with pseudo-documents is two thousand times the work.
        n_documents = 20_000 if inertia == "exact" else 20 * batch_size
        self.X = draw(DocumentsShape(n_documents, n_words, 100))
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
        self.X = draw(DocumentsShape(20_000, 50, 100))
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


class FirstCall(measuring._FirstCall):
    """The first fit of a compound Dirichlet."""

    estimator = "CompoundDirichlet"
    data = "X = rng.multinomial(20, np.ones(5) / 5, size=500)"
    fit = "CompoundDirichlet().fit(X)"
