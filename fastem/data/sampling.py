"""A bounded number of rows for the initialization of a model."""

from __future__ import annotations

import copy
import mmap

import numpy as np

from .rows import Table

__all__ = ["sample_rows"]

# Above this many rows, data that are not floats in memory are sampled for the initialization:
# k-means would copy them to float64.
_SAMPLE_ROWS = 50_000


def sample_rows(data, random_state) -> Table:
    """The rows for the initialization: all of them unless that needs a copy of a large array."""
    if isinstance(data, Table):
        X = data.X
        in_memory = X.dtype in (np.float64, np.float32) and not _in_file(X)
        if in_memory or len(X) <= _SAMPLE_ROWS:
            return data
        chosen = np.sort(random_state.choice(len(X), _SAMPLE_ROWS, replace=False))
        weights = None if data.sample_weight is None else data.sample_weight[chosen]
        return Table(np.asarray(X[chosen], dtype=float), weights)
    # Of all rows, those with the smallest random keys: a uniform sample in one pass. The keys
    # come from a copy of the state, so that a stream that fits starts as its array would.
    random_state = copy.deepcopy(random_state)
    rows, weights, keys = [], [], []
    n_kept, limit = 0, 1.0
    for table in data.tables():
        drawn = random_state.uniform(size=len(table.X))
        kept = drawn <= limit
        w = np.ones(len(drawn)) if table.sample_weight is None else table.sample_weight
        rows.append(np.asarray(table.X[kept], dtype=float))
        weights.append(w[kept])
        keys.append(drawn[kept])
        n_kept += len(keys[-1])
        if n_kept > 2 * _SAMPLE_ROWS:
            rows, weights, keys = _least(_SAMPLE_ROWS, rows, weights, keys)
            n_kept, limit = _SAMPLE_ROWS, keys[0].max()
    rows, weights, _ = _least(_SAMPLE_ROWS, rows, weights, keys)
    return Table(rows[0], None if (weights[0] == 1).all() else weights[0])


def _in_file(X):
    """Whether an array lies in a memory-mapped file: through any number of views."""
    while X is not None:
        if isinstance(X, (np.memmap, mmap.mmap)):
            return True
        X = X.obj if isinstance(X, memoryview) else getattr(X, "base", None)
    return False


def _least(count, rows, weights, keys):
    """The ``count`` rows of the smallest keys, in the order of the rows, each list as one array."""
    rows, weights, keys = (np.concatenate(parts) for parts in (rows, weights, keys))
    if len(keys) > count:
        kept = np.sort(np.argpartition(keys, count)[:count])
        rows, weights, keys = rows[kept], weights[kept], keys[kept]
    return [rows], [weights], [keys]
