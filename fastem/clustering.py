"""K-means by scikit-learn, for starts: with one thread where more would only wait for one another.

scikit-learn's threads meet several times in every iteration and wait by spinning. With few rows
the work between two meetings takes microseconds, and on a machine that is busy, where a thread may
be off its core for a time slice, they wait for milliseconds.
"""

from __future__ import annotations

import contextlib
from functools import cache

__all__ = ["kmeans", "one_thread_if_small"]

#: Multiplications of an iteration below which one thread does them: a millisecond or two.
_SMALL = 2**21


def kmeans(X, n_clusters, *, n_init, random_state, sample_weight=None):
    """A fitted :class:`sklearn.cluster.KMeans`."""
    from sklearn.cluster import KMeans

    model = KMeans(n_clusters=n_clusters, n_init=n_init, random_state=random_state)
    with one_thread_if_small(X, n_clusters):
        return model.fit(X, sample_weight=sample_weight)


def one_thread_if_small(X, n_clusters):
    """A context in which scikit-learn's OpenMP has one thread, if there is little to do."""
    if X.shape[0] * X.shape[1] * n_clusters > _SMALL:
        return contextlib.nullcontext()
    return _controller().limit(limits=1, user_api="openmp")


@cache
def _controller():
    """What knows the libraries that are loaded; to find them takes milliseconds."""
    import sklearn.cluster  # noqa: F401 (loads its OpenMP)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
