"""K-means by scikit-learn for initializations, with one thread if the data are small.

scikit-learn's threads synchronize several times in every iteration and wait by spinning. With few
rows the work between two synchronizations takes microseconds; on a busy machine, where a thread may
lose its core for a time slice, waiting takes milliseconds.
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
    """The controller of the loaded libraries, which takes milliseconds to create."""
    import sklearn.cluster  # noqa: F401 (loads its OpenMP)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
