"""Documents to measure the compound Dirichlet on, and how fastem does it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .side import Problem, Side

__all__ = ["TOLERANCE", "DocumentsShape", "draw", "fit"]

#: No entry of the gradient of the mean log-likelihood by log α may be above, at the end.
TOLERANCE = 1e-8


class DocumentsShape(NamedTuple):
    """The size of a corpus."""

    n_documents: int
    n_words: int
    length: int
    is_sparse: bool = False
    #: The peer is stopped after so many evaluations, however far it has come.
    most_evaluations: int = 2000

    def __str__(self):
        kind = ", sparse" if self.is_sparse else ""
        return f"N={self.n_documents:,} D={self.n_words:,}, {self.length} words{kind}"

    @property
    def n_observations(self) -> int:
        return self.n_documents

    @property
    def useful_flops(self) -> None:
        """There is no product of matrices in it."""
        return None

    def problem(self, folder=None) -> Problem:
        """Documents, and the start that fastem takes from their moments."""
        from ..dirichlet.ascent import moments_match
        from ..dirichlet.count_tables import CountTables

        X = draw(self)
        alpha = moments_match(CountTables.of(X))
        seen = np.asarray(X.sum(axis=0)).ravel() > 0
        # A word that is never seen has no likeliest α above zero; L-BFGS would chase it for ever.
        if not seen.all():
            X, alpha = X[:, seen], alpha[seen]
        return Problem(self, X, {"alpha": alpha})


def draw(shape: DocumentsShape, seed=0):
    """Documents from a compound Dirichlet; the words of a corpus are as frequent as Zipf says."""
    from ..dirichlet.model import CompoundDirichletModel

    rng = np.random.default_rng(seed)
    if shape.is_sparse:
        share = 1.0 / (10.0 + np.arange(shape.n_words))
        alpha = 500.0 * share / share.sum()
    else:
        alpha = rng.gamma(1.0, 1.0, shape.n_words) + 0.05
    X = CompoundDirichletModel(alpha).draw(shape.n_documents, rng, shape.length)
    return X if shape.is_sparse else X.toarray()


def fit(problem: Problem) -> Side:
    """A whole fit by fastem."""
    import fastem

    def run(_):
        return fastem.CompoundDirichlet(tol=TOLERANCE).fit(problem.X)

    return Side(run, lambda model: model.lower_bound_, iterates=False, compiles=True)
