"""SciPy: the compound Dirichlet by L-BFGS on the likelihood."""

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import digamma, gammaln

from ..documents import TOLERANCE
from ..side import Problem, Side


def dirichlet_fit(problem: Problem) -> Side:
    from ...dirichlet.count_tables import CountTables

    coefficient = CountTables.of(problem.X).log_coefficient
    most = problem.shape.most_evaluations

    def run(_):
        return lbfgs(problem.X, problem.start["alpha"], most)

    return Side(
        run, lambda found: coefficient - found.fun, iterates=False, tolerance=1e-9,
        stopped=lambda found: found.nfev >= most,
        note="L-BFGS over log α, with the gradient",
    )  # fmt: skip


def lbfgs(X, start, most_evaluations):
    """The likeliest α, whole arrays at a time.

    Over all entries of an array, or over those of a sparse matrix that are not zero. The objective
    is minus the mean log-likelihood without the multinomial coefficients.
    """
    n_documents, n_words = X.shape
    # Lengths are few: a careful user, too, would take each once.
    lengths, how_often = np.unique(np.asarray(X.sum(axis=1)).ravel(), return_counts=True)
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

    options = {"gtol": TOLERANCE, "ftol": 0.0, "maxiter": 1000, "maxfun": most_evaluations}
    return minimize(objective, np.log(start), jac=True, method="L-BFGS-B", options=options)
