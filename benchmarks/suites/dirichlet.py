"""asv suite of the compound Dirichlet."""

from __future__ import annotations

from functools import partial

from fastem.bench import documents
from fastem.bench.documents import DocumentsShape, draw

from . import measuring
from .measuring import described

_NARROW, _WIDE = DocumentsShape(100_000, 10, 100), DocumentsShape(20_000, 1000, 200)
_SPARSE = DocumentsShape(50_000, 30_000, 150, is_sparse=True)
_FEW = [shape._replace(n_documents=2000) for shape in (_NARROW, _WIDE)]


def _fitted(shape):
    problem = shape.problem()
    return documents.fit(problem).run(None), (problem.X,)


_MAKER = measuring.Maker(_fitted)


def _iteration(shape):
    """One step of batch EM, on tables that are made once."""
    from fastem.dirichlet.ascent import moments_match
    from fastem.dirichlet.count_tables import CountTables
    from fastem.dirichlet.model import CompoundDirichletModel

    tables = CountTables.of(draw(shape))
    return partial(measuring.iteration, CompoundDirichletModel(moments_match(tables)), tables)


def _fit(shape):
    """A whole fit to 1e-8, its tables included."""
    return partial(documents.fit(shape.problem()).run, None)


def _tables(shape):
    """Tables of counts, the one pass over the data."""
    from fastem.dirichlet.count_tables import CountTables

    X = draw(shape)
    return lambda: CountTables.of(X).finished()


def _draw(shape):
    """Drawing a thousand documents."""
    return partial(_MAKER.fitted(shape)[0].sample, 1000, shape.length)


def _mixture(shape):
    """One step of batch EM for a mixture of four."""
    import fastem
    from fastem.families import DirichletMultinomial

    X = draw(shape)
    family = DirichletMultinomial()
    estimator = fastem.Mixture(family, 4, max_iter=1, init_params="random", random_state=0)
    return partial(measuring.iteration, estimator.fit(X)._model(), X)


def _named(prepare, name, *shapes):
    return {f"{name}, {described(shape)}": partial(prepare, shape) for shape in shapes}


class Speed(measuring._Suite):
    """Fits, inference, online EM, and models that are merged and compared."""

    works = (
        _named(_iteration, "step", _NARROW, _WIDE, _SPARSE)
        | _named(_fit, "fit", _NARROW, _WIDE, _SPARSE)
        | _named(_tables, "tables", _NARROW, _WIDE, _SPARSE)
        | _MAKER.works("using", [_NARROW, _WIDE, _SPARSE], "score", "score")
        | _MAKER.works("online", _FEW, "online, one by one", batch_size=1)
        | _MAKER.works("online", _FEW, "online, batches of 100", batch_size=100)
        | _MAKER.works("online", _FEW[:1], "online, drawn documents", batch_size=100,
                       inertia="sampled", n_pseudo=2000, random_state=0)
        | _MAKER.works("combine", _FEW, "combine")
        | _MAKER.works("divergence", _FEW, "divergence")
        | _named(_draw, "draw", *_FEW)
        | _named(_mixture, "step of a mixture", DocumentsShape(20_000, 50, 100))
    )  # fmt: skip
    params = tuple(works)

    def setup_cache(self):
        return measuring.seconds(self.works)


class FirstCall(measuring._FirstCall):
    """The first fit of a compound Dirichlet."""

    estimator = "CompoundDirichlet"
    data = "X = rng.multinomial(20, np.ones(5) / 5, size=500)"
    fit = "CompoundDirichlet().fit(X)"
