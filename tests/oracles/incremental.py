"""Incremental EM for a mixture of Gaussians with diagonal covariances, row by row and in the open.

Responsibilities of all rows are kept, and everything is computed from them each time.
"""

import numpy as np
from scipy import stats
from scipy.special import logsumexp, xlogy


def log_joint(X, weights, means, variances):
    """``log w_k N(x_n; m_k, v_k)`` for each row and component."""
    return (
        np.log(weights)
        + np.array(
            [
                stats.norm(m, np.sqrt(v)).logpdf(X).sum(axis=1)
                for m, v in zip(means, variances, strict=True)
            ]
        ).T
    )


def incremental_em(X, w, weights, means, variances, edges, n_passes, keep_start=True):
    """The parameters after ``n_passes``, and the free energy at the last E-step of each.

    ``edges`` are the first rows of the blocks after the first; ``w`` are the weights of the rows.
    """
    K = len(weights)
    r = np.full((len(X), K), np.nan)
    start = weights, means, variances
    free_energies = []
    for number in range(n_passes):
        for block in np.split(np.arange(len(X)), edges):
            log_p = log_joint(X[block], weights, means, variances)
            r[block] = np.exp(log_p - logsumexp(log_p, axis=1, keepdims=True))
            unread = number == 0 and np.isnan(r).any()
            if unread and keep_start:
                continue
            if not np.isnan(r).any() and block[-1] == len(X) - 1:
                terms = r * log_joint(X, weights, means, variances) - xlogy(r, r)
                free_energies.append(w @ terms.sum(axis=1) / w.sum())
            seen = ~np.isnan(r[:, 0])
            gamma = w[seen, None] * r[seen]
            mass, first, second = gamma.sum(axis=0), gamma.T @ X[seen], gamma.T @ X[seen] ** 2
            if unread:
                rest = w[~seen].sum() * start[0]
                mass = mass + rest
                first = first + rest[:, None] * start[1]
                second = second + rest[:, None] * (start[2] + start[1] ** 2)
            weights, means = mass / mass.sum(), first / mass[:, None]
            variances = second / mass[:, None] - means**2
    return weights, means, variances, free_energies
