"""asv suite of the compound Dirichlet."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import fastem
from fastem.bench import documents
from fastem.bench.documents import DocumentsShape, draw
from fastem.dirichlet.ascent import moments_match
from fastem.dirichlet.count_tables import CountTables
from fastem.dirichlet.model import CompoundDirichletModel
from fastem.families import DirichletMultinomial

from . import measuring
from .measuring import doublings, fewer, named

_BASE = DocumentsShape(20_000, 1000, 200)
_SHAPES = named(
    DocumentsShape(100_000, 10, 100),
    _BASE,
    *doublings(_BASE, "n_documents", "n_words", "length"),
)
_SPARSE = named(DocumentsShape(50_000, 30_000, 150, is_sparse=True))


class _Dirichlet:
    @staticmethod
    def fitted(shape):
        problem = shape.problem()
        return documents.fit(problem).run(None), (problem.X,)


class Iteration(measuring._Reading):
    """One step of batch EM, on tables that are made once."""

    params = _SHAPES + _SPARSE

    def prepare(self, name):
        tables = CountTables.of(draw(name.shape))
        model = CompoundDirichletModel(moments_match(tables))
        return partial(measuring.iteration, model, tables)


class Fit(measuring._Reading):
    """A whole fit to 1e-8, its tables included."""

    params = _SHAPES + _SPARSE

    def prepare(self, name):
        return partial(documents.fit(name.shape.problem()).run, None)


class Tables(measuring._Timed):
    """Tables of counts, the one pass over the data."""

    params = _SHAPES[:2] + _SPARSE

    def prepare(self, name):
        X = draw(name.shape)
        return lambda: CountTables.of(X).finished()


class Score(_Dirichlet, measuring._Using):
    """The log-likelihood."""

    params = _SHAPES + _SPARSE


class Online(_Dirichlet, measuring._Online):
    """One pass of online EM, one document at a time."""

    params = fewer(_SHAPES, "n_documents", 2000)


class MiniBatches(Online):
    """The same, a hundred documents at a time."""

    params = fewer(_SHAPES[:2] + _SPARSE, "n_documents", 2000)
    settings: ClassVar = {"batch_size": 100}


class PseudoDocuments(MiniBatches):
    """The same, the model's past drawn instead of computed."""

    params = fewer(_SHAPES[:1], "n_documents", 2000)
    settings: ClassVar = {
        "batch_size": 100, "inertia": "sampled", "n_pseudo": 2000, "random_state": 0,
    }  # fmt: skip


class Combine(_Dirichlet, measuring._Combine):
    """Combining twenty fitted models."""

    params = fewer(_SHAPES[:2], "n_documents", 2000)


class Divergence(_Dirichlet, measuring._Divergence):
    """Comparing two fitted models."""

    params = Combine.params


class Draw(_Dirichlet, measuring._Timed):
    """Drawing a thousand documents."""

    params = Combine.params

    def prepare(self, name):
        estimator, _ = self.fitted(name.shape)
        return partial(estimator.sample, 1000, name.shape.length)


class Mixture(measuring._Reading):
    """One step of batch EM for a mixture of four."""

    params = named(DocumentsShape(20_000, 50, 100))

    def prepare(self, name):
        X = draw(name.shape)
        estimator = fastem.Mixture(
            DirichletMultinomial(), 4, max_iter=1, init_params="random", random_state=0
        )
        return partial(measuring.iteration, estimator.fit(X)._model(), X)


class FirstCall(measuring._FirstCall):
    """The first fit of a compound Dirichlet."""

    estimator = "CompoundDirichlet"
    data = "X = rng.multinomial(20, np.ones(5) / 5, size=500)"
    fit = "CompoundDirichlet().fit(X)"
