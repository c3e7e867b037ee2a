"""Data as models see it: tables of rows, one or a stream of them, read in place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from .kernels.rows import READABLE, rows_of

__all__ = ["Stream", "Table", "as_data", "is_stream", "read_rows"]


class Table:
    """Rows that lie in one array, each with a weight if ``sample_weight`` is given."""

    def __init__(self, X, sample_weight=None):
        self.X = X
        self.sample_weight = sample_weight

    def tables(self) -> Iterator[Table]:
        """The tables of one pass: this one."""
        yield self


class Stream:
    """Tables that come one after another, as often as a pass is wanted.

    Parameters
    ----------
    source : callable or iterable
        A function that returns a new iterator over arrays, or an object that can be iterated over
        again and again. Each item is an array, or a pair of an array and its sample weights.
    check : callable, optional
        Called with each array and its weights; returns them as they are to be used.
    """

    def __init__(self, source, check: Callable | None = None):
        if isinstance(source, Iterator):
            raise TypeError(
                "This stream can be read only once, and EM reads the data once for each iteration. "
                "Pass a function that returns a new iterator, for example "
                "fit(lambda: map(numpy.load, files)), or learn in one pass with partial_fit."
            )
        self.source = source
        self.check = check

    def tables(self) -> Iterator[Table]:
        """The tables of one pass."""
        items = self.source() if callable(self.source) else self.source
        empty = True
        for item in items:
            X, sample_weight = item if isinstance(item, tuple) else (item, None)
            if self.check is not None:
                X, sample_weight = self.check(X, sample_weight)
            empty = False
            yield Table(X, sample_weight)
        if empty:
            raise ValueError("The stream has no data: it ended before its first array.")


def is_stream(X) -> bool:
    """Whether ``X`` is a stream of arrays and not an array."""
    if callable(X) or isinstance(X, (Iterator, Stream)):
        return True
    if isinstance(X, (list, tuple)):
        return len(X) > 0 and all(np.ndim(item) == 2 and hasattr(item, "dtype") for item in X)
    return isinstance(X, Iterable) and not hasattr(X, "__array__") and not hasattr(X, "__len__")


def as_data(data) -> Table | Stream:
    """``data`` as a table or a stream."""
    if isinstance(data, (Table, Stream)):
        return data
    return Stream(data) if is_stream(data) else Table(np.asarray(data))


def readable(X: np.ndarray) -> bool:
    """Whether kernels read this array in place."""
    return X.dtype.type in READABLE and X.dtype.isnative


def read_rows(X: np.ndarray, start: int, stop: int):
    """What a kernel needs to read these rows, and the array to keep alive while it does."""
    part = X[start:stop]
    if not readable(part):
        part = part.astype(np.float64)
    return rows_of(part), part
