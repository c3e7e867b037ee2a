"""K-means for initializations: scikit-learn's, with one thread and less around it for small data.

scikit-learn's threads synchronize several times in every iteration and wait by spinning. With few
rows the work between two synchronizations takes microseconds; on a busy machine, where a thread may
lose its core for a time slice, waiting takes milliseconds. And what is around the iterations, such
as checks and limits on threads, takes longer than they do. So for small data the iterations are
called from here. The random numbers, and with them the clusters, are those of scikit-learn's
``KMeans`` and ``kmeans_plusplus``.
"""

from __future__ import annotations

import contextlib
from functools import cache
from typing import NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from .exceptions import ConvergenceWarning
from .notices import warn
from .sklearn_compat import lloyd_iteration

__all__ = ["Clusters", "kmeans", "seeds"]

#: Multiplications of an iteration below which one thread does them: a millisecond or two.
_SMALL = 2**21
#: Distances for seeds of several runs that are computed at a time.
_DISTANCES = 2**16
# The settings of scikit-learn's KMeans.
_MAX_ITER, _TOL = 300, 1e-4


class Clusters(NamedTuple):
    """Clusters of rows."""

    #: The cluster of each row, (n,).
    labels: np.ndarray
    #: The mean of each cluster, (n_clusters, n_columns).
    centers: np.ndarray


def kmeans(X, n_clusters, *, n_init, random_state, sample_weight=None) -> Clusters:
    """The clusters that :class:`sklearn.cluster.KMeans` finds, in ``n_init`` runs."""
    n_clusters = int(n_clusters)
    plain = _plain(X, sample_weight, n_clusters)
    step = None if plain is None else lloyd_iteration()
    if step is not None:
        return _best_run(*plain, n_clusters, n_init, check_random_state(random_state), step)
    from sklearn.cluster import KMeans

    model = KMeans(n_clusters=n_clusters, n_init=n_init, random_state=random_state)
    with _one_thread_if_small(X, n_clusters):
        model.fit(X, sample_weight=sample_weight)
    return Clusters(model.labels_, model.cluster_centers_)


def seeds(X, n_clusters, *, random_state, sample_weight=None) -> np.ndarray:
    """The numbers of the rows that :func:`sklearn.cluster.kmeans_plusplus` chooses."""
    n_clusters = int(n_clusters)
    plain = _plain(X, sample_weight, n_clusters)
    if plain is not None and X.dtype == np.float64:
        weights = plain[1]
        draws = _draws(check_random_state(random_state), 1, n_clusters)
        return _seeds(X, _square_norms(X), weights, draws)[0]
    from sklearn.cluster import kmeans_plusplus

    with _one_thread_if_small(X, n_clusters):
        _, chosen = kmeans_plusplus(
            X, n_clusters, sample_weight=sample_weight, random_state=random_state
        )
    return chosen


def _plain(X, sample_weight, n_clusters):
    """Rows and weights in the form that scikit-learn's checks would return; None if not small.

    None also if these checks have something to say, or if single precision is to be kept.
    """
    is_table = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "fiu"
    if not is_table or X.dtype in (np.float16, np.float32) or not _is_small(X, n_clusters):
        return None
    if not 1 <= n_clusters <= len(X) or X.shape[1] == 0:
        return None
    X = np.ascontiguousarray(X, dtype=np.float64)
    weights = np.ones(len(X))
    if sample_weight is not None:
        weights = np.ascontiguousarray(sample_weight, dtype=np.float64)
        if weights.shape != (len(X),) or not (weights >= 0).all():
            return None
    # Squares that overflow are left to scikit-learn.
    is_finite = np.isfinite(_square_norms(X).sum()) and 0 < weights.sum() < np.inf
    return (X, weights) if is_finite else None


def _is_small(X, n_clusters):
    return X.shape[0] * X.shape[1] * n_clusters <= _SMALL


def _square_norms(X):
    return np.einsum("ij,ij->i", X, X)


# Runs ------------------------------------------------------------------------------------------


def _best_run(X, weights, n_clusters, n_init, random_state, step):
    """The best of several runs."""
    middle = X.mean(axis=0)
    X = X - middle
    tol = np.mean(np.square(X).sum(axis=0) / len(X)) * _TOL
    draws = _draws(random_state, n_init, n_clusters)
    norms = _square_norms(X)
    n_at_once = max(1, _DISTANCES // (draws.shape[2] * len(X)))
    best = least = None
    for first in range(0, n_init, n_at_once):
        chosen = _seeds(X, norms, weights, draws[first : first + n_at_once])
        for rows in chosen:
            found = _run(X, weights, X[rows], tol, step)
            if n_init == 1:
                best = found
                break
            inertia = _square_norms(X - found.centers[found.labels]) @ weights
            # Rounding makes the same clusters in another order a little better or worse.
            if best is None or (inertia < least and not _is_same(found.labels, best.labels)):
                best, least = found, inertia
    n_distinct = np.count_nonzero(np.bincount(best.labels, minlength=n_clusters))
    if n_distinct < n_clusters:
        warn(
            f"Number of distinct clusters ({n_distinct}) found smaller than n_clusters "
            f"({n_clusters}). Possibly due to duplicate points in X.",
            ConvergenceWarning,
        )
    return Clusters(best.labels, best.centers + middle)


def _run(X, weights, centers, tol, step):
    """K-means from some centers, until no label changes or the centers hardly move."""
    n_clusters = len(centers)
    new, masses, shifts = np.zeros_like(centers), np.zeros(n_clusters), np.zeros(n_clusters)
    labels = np.full(len(X), -1, dtype=np.int32)
    before = labels.tobytes()
    for _ in range(_MAX_ITER):
        step(X, weights, centers, new, masses, labels, shifts, 1)
        centers, new = new, centers
        now = labels.tobytes()
        if now == before:
            return Clusters(labels, centers)
        if np.add.reduce(np.square(shifts)) <= tol:
            break
        before = now
    # Labels that go with the last centers.
    step(X, weights, centers, centers, masses, labels, shifts, 1, update_centers=False)
    return Clusters(labels, centers)


def _is_same(labels, others):
    """Whether two clusterings differ by the order of the clusters alone."""
    partner = np.zeros(labels.max() + 1, dtype=others.dtype)
    partner[labels] = others
    return np.array_equal(partner[labels], others)


# Seeds -----------------------------------------------------------------------------------------


def _draws(random_state, n_runs, n_clusters):
    """The random numbers of the seeds of all runs, (runs, seeds, candidates).

    scikit-learn draws one for the first seed of a run, and as many as there are candidates for
    each of the others. In the first row here only the first column counts.
    """
    n_candidates = 2 + int(np.log(n_clusters))
    numbers = random_state.random_sample((n_runs, 1 + (n_clusters - 1) * n_candidates))
    first = np.repeat(numbers[:, :1], n_candidates, axis=1)
    rest = numbers[:, 1:].reshape(n_runs, n_clusters - 1, n_candidates)
    return np.concatenate([first[:, None], rest], axis=1)


def _seeds(X, norms, weights, draws):
    """The rows with which runs begin, (runs, seeds): k-means++.

    A seed is the best of some candidates, which are drawn with probabilities in proportion to the
    squared distance to the seeds before it.
    """
    n_runs, n_clusters = len(draws), draws.shape[1]
    runs = np.arange(n_runs)
    chosen = np.empty((n_runs, n_clusters), dtype=np.int64)
    shares = np.cumsum(weights / weights.sum())
    shares /= shares[-1]
    chosen[:, 0] = np.searchsorted(shares, draws[:, 0, 0], side="right")
    nearest = _distances(X, norms, chosen[:, :1])[:, 0]
    totals = (nearest @ weights)[:, None]
    for number in range(1, n_clusters):
        sums = np.cumsum(weights * nearest, axis=1)
        values = draws[:, number] * totals
        candidates = np.empty(values.shape, dtype=np.int64)
        for run in range(n_runs):
            candidates[run] = sums[run].searchsorted(values[run])
        # Sums of different order may differ by rounding.
        np.minimum(candidates, len(X) - 1, out=candidates)
        distances = _distances(X, norms, candidates)
        np.minimum(distances, nearest[:, None], out=distances)
        all_totals = (distances @ weights[:, None])[:, :, 0]
        best = all_totals.argmin(axis=1)
        totals = all_totals[runs, best][:, None]
        nearest = distances[runs, best]
        chosen[:, number] = candidates[runs, best]
    return chosen


def _distances(X, norms, chosen):
    """The squared distances of all rows to some of them, (..., n)."""
    distances = X[chosen.ravel()] @ X.T
    distances *= -2.0
    distances += norms[chosen.ravel(), None]
    distances += norms
    return np.maximum(distances, 0.0, out=distances).reshape(*chosen.shape, len(X))


# Threads ---------------------------------------------------------------------------------------


def _one_thread_if_small(X, n_clusters):
    """A context in which scikit-learn's OpenMP has one thread, if there is little to do."""
    if not _is_small(X, n_clusters):
        return contextlib.nullcontext()
    return _controller().limit(limits=1, user_api="openmp")


@cache
def _controller():
    """The controller of the loaded libraries, which takes milliseconds to create."""
    import sklearn.cluster  # noqa: F401 (loads its OpenMP)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
