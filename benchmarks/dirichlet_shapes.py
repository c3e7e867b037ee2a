"""Documents to measure the compound Dirichlet on, and the peer: SciPy's L-BFGS."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import digamma, gammaln

from fastem.dirichlet_model import CompoundDirichletModel


class Documents(NamedTuple):
    """One row of the comparison."""

    name: str
    n_documents: int
    n_words: int
    length: int
    is_sparse: bool = False
    bar: float | None = None
    goal: float | None = None
    #: The peer is stopped here, however far it has come.
    most_evaluations: int = 2000


SHAPES = [
    Documents("counts", 100_000, 10, 100, bar=10, goal=50),
    Documents("counts", 20_000, 1000, 200, bar=50, goal=300),
    Documents("corpus", 50_000, 30_000, 150, is_sparse=True, most_evaluations=60),
]


def load(shape: Documents, seed=0):
    """Documents from a compound Dirichlet; the words of a corpus are as frequent as Zipf says."""
    rng = np.random.default_rng(seed)
    if shape.is_sparse:
        share = 1.0 / (10.0 + np.arange(shape.n_words))
        alpha = 500.0 * share / share.sum()
    else:
        alpha = rng.gamma(1.0, 1.0, shape.n_words) + 0.05
    X = CompoundDirichletModel(alpha).draw(shape.n_documents, rng, shape.length)
    return X if shape.is_sparse else X.toarray()


def lbfgs(X, start, tol=1e-8, most_evaluations=2000):
    """The likeliest α by L-BFGS on the likelihood, over log α, with its gradient.

    Whole arrays at a time: over all entries of an array, or over those of a sparse matrix that are
    not zero. Returns α, the mean log-likelihood without the multinomial coefficients, the number of
    evaluations, and the largest entry of the gradient.
    """
    n_documents, n_words = X.shape
    lengths = np.asarray(X.sum(axis=1)).ravel()
    # Lengths are few: a careful user, too, would take each once.
    lengths, how_often = np.unique(lengths, return_counts=True)
    if sparse.issparse(X):
        words, counts = X.indices, X.data.astype(float)
        occurrences = np.bincount(words, minlength=n_words)

        def own_parts(alpha):
            a = alpha[words]
            value = gammaln(counts + a).sum() - occurrences @ gammaln(alpha)
            slope = np.bincount(words, digamma(counts + a) - digamma(alpha)[words], n_words)
            return value, slope

    else:
        counts = X.astype(float)

        def own_parts(alpha):
            shifted = counts + alpha
            value = gammaln(shifted).sum() - n_documents * gammaln(alpha).sum()
            return value, digamma(shifted).sum(axis=0) - n_documents * digamma(alpha)

    def objective(u):
        alpha = np.exp(u)
        total = alpha.sum()
        value, slope = own_parts(alpha)
        value += how_often @ (gammaln(total) - gammaln(lengths + total))
        slope -= how_often @ (digamma(lengths + total) - digamma(total))
        return -value / n_documents, -alpha * slope / n_documents

    options = {"gtol": tol, "ftol": 0.0, "maxiter": 1000, "maxfun": most_evaluations}
    found = minimize(objective, np.log(start), jac=True, method="L-BFGS-B", options=options)
    return np.exp(found.x), -found.fun, found.nfev, np.abs(found.jac).max()
