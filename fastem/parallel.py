"""The one module that knows about threads.

Work is cut into chunks by the data's size alone. Threads compute the chunks' sums, which are added
in the order of the chunks: the result is the same to the bit for any number of threads.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import pairwise

import joblib
from joblib.parallel import get_active_backend

#: What joblib keeps for each thread.
_joblib_state = getattr(joblib.parallel, "_backend", None)

_pools: dict[int, ThreadPoolExecutor] = {}

# A pool's threads do not survive a fork; the child makes its own.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)


def n_threads(n_jobs: int | None) -> int:
    """The number of threads that ``n_jobs`` stands for.

    None means all cores, or one inside a worker of joblib, Dask or multiprocessing, because other
    workers use the other cores. -1 means all cores, -2 all but one, and so on.
    """
    if n_jobs is None:
        return 1 if in_worker() else _n_cores()
    if n_jobs == 0:
        raise ValueError("n_jobs=0 has no meaning; use None or -1 for all cores, or a number.")
    return n_jobs if n_jobs > 0 else max(1, _n_cores() + 1 + n_jobs)


def _n_cores() -> int:
    """The cores that this process may use, by its affinity and its container's quota."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return _n_cores_of(affinity)


@cache
def _n_cores_of(affinity):
    # Reading the quota takes a third of a millisecond. It is constant; the affinity may change.
    return joblib.cpu_count()


def in_worker() -> bool:
    """Whether this is a process or a thread that is one of several workers."""
    if multiprocessing.parent_process() is not None:
        return True
    # The main thread is never a worker, and need not make the slower tests below.
    if threading.get_ident() == threading.main_thread().ident:
        return False
    # Asking joblib takes ten microseconds, and only its own threads have some state.
    if (_joblib_state is None or vars(_joblib_state)) and get_active_backend()[0].nesting_level > 0:
        return True
    dask_worker = sys.modules.get("distributed.worker")
    if dask_worker is None:
        return False
    try:
        dask_worker.get_worker()
    except (ValueError, AttributeError):  # there is no worker, or its module is being imported
        return False
    return True


def chunks(n_rows: int, least: int, most: int = 65536) -> list[tuple[int, int]]:
    """Cut ``n_rows`` into a power of two of even chunks, of at least ``least`` rows each."""
    count = 1
    while n_rows >= 2 * count * least or n_rows > count * most:
        count *= 2
    edges = [n_rows * i // count for i in range(count + 1)]
    return [(a, b) for a, b in pairwise(edges) if b > a]


def in_order(function, items, n_jobs: int | None = None):
    """Yield ``function(item)`` in order, computed by threads, a bounded number ahead."""
    items = list(items)
    threads = min(n_threads(n_jobs), len(items))
    if threads <= 1:
        yield from map(function, items)
        return
    pool = _pools.get(threads)
    if pool is None:
        # The calling thread is one of them.
        pool = _pools[threads] = ThreadPoolExecutor(threads - 1, thread_name_prefix="fastem")
    waiting: deque[_Work] = deque()
    try:
        for item in items:
            waiting.append(_Work(pool, function, item))
            if len(waiting) > threads:
                yield _first(waiting)
        while waiting:
            yield _first(waiting)
    finally:
        for work in waiting:
            work.future.cancel()


class _Work:
    """A call that a thread of the pool makes, or this one if it comes first."""

    def __init__(self, pool, function, item):
        self.call = partial(function, item)
        self.future = pool.submit(self.call)
        self.is_here = False

    def take(self) -> bool:
        """Make the call here, unless it has begun elsewhere."""
        if self.is_here or not self.future.cancel():
            return False
        self.is_here = True
        self.value = self.call()
        return True

    def result(self):
        return self.value if self.is_here else self.future.result()


def _first(waiting):
    """The result of the first; until it is there, this thread works on what nobody has begun."""
    first = waiting[0]
    while not (first.is_here or first.future.done()):
        if not any(work.take() for work in waiting):
            break
    return waiting.popleft().result()


def add_into(one, other):
    """``one += other`` for arrays, and tuples of such; returns ``one``."""
    if isinstance(one, tuple):
        for a, b in zip(one, other, strict=True):
            add_into(a, b)
    else:
        one += other
    return one
