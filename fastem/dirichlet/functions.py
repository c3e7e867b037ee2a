"""The likeliest Dirichlet and compound Dirichlet distributions as functions of arrays."""

from __future__ import annotations

import numpy as np

from .estimators import CompoundDirichlet, Dirichlet

__all__ = ["compound_dirichlet_mle", "dirichlet_mle"]


def dirichlet_mle(points, sample_weight=None, *, n_jobs=None) -> np.ndarray:
    """The likeliest parameters of a Dirichlet distribution, by Newton's method.

    Parameters
    ----------
    points : array-like of shape (n_points, n_dim)
        Points on the simplex: positive, and rows sum to one.
    sample_weight : array-like of shape (n_points,), optional
        A point of weight 2 counts as two.
    n_jobs : int, optional
        Threads; None: as many as there are cores, one inside a worker.

    Returns
    -------
    ndarray of shape (n_dim,)

    Raises
    ------
    ValueError
        If values are no points of the simplex, or the points do not vary.

    Examples
    --------
    >>> import numpy as np
    >>> from fastem import functional
    >>> points = np.random.default_rng(0).dirichlet([1.0, 2.0, 5.0], size=20_000)
    >>> functional.dirichlet_mle(points).round(1)
    array([1., 2., 5.])
    """
    return Dirichlet(n_jobs=n_jobs).fit(points, sample_weight=sample_weight).alpha_


def compound_dirichlet_mle(
    counts, sample_weight=None, *, tol=1e-6, max_iter=1000, n_jobs=None
) -> np.ndarray:
    """The likeliest parameters of a Dirichlet-multinomial distribution, by Newton's method.

    Parameters
    ----------
    counts : array-like or sparse matrix of shape (n_documents, n_words)
        Whole numbers.
    sample_weight : array-like of shape (n_documents,), optional
        A document of weight 2 counts as two.
    tol : float, default=1e-6
        Stop when no entry of the gradient of the mean log-likelihood by ``log α`` is larger.
    max_iter : int, default=1000
        The most iterations; a ``ConvergenceWarning`` says if they were not enough.
    n_jobs : int, optional
        Threads; None: as many as there are cores, one inside a worker.

    Returns
    -------
    ndarray of shape (n_words,)

    Raises
    ------
    ValueError
        If values are no counts.

    Notes
    -----
    Where counts vary no more than those of one multinomial, as in a single document, the likelihood
    rises with the precision ``Σ α`` without end, and what comes back is large. Empty documents say
    nothing about the parameters.

    Examples
    --------
    >>> import numpy as np
    >>> from fastem import functional
    >>> rng = np.random.default_rng(0)
    >>> topics = rng.dirichlet([1.0, 2.0, 5.0], size=5000)
    >>> functional.compound_dirichlet_mle(rng.multinomial(50, topics)).round(1)
    array([1., 2., 5.])
    """
    model = CompoundDirichlet(solver="newton", tol=tol, max_iter=max_iter, n_jobs=n_jobs)
    return model.fit(counts, sample_weight=sample_weight).alpha_
