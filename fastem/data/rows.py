"""Data as models see it: tables of rows, one or a stream of them, read in place."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import numpy as np
from scipy import sparse

from .. import checks
from ..kernels.rows import READABLE, rows_of

__all__ = ["Remote", "Stream", "Table", "admit", "as_data", "beginning", "first_batch",
           "in_batches", "is_stream", "joined_weights", "nearby", "of_tables", "read_rows",
           "readable", "wherever"]  # fmt: skip

# A model that learns from a stream starts from the first so many rows of it, however it is cut.
_BEGINNING_ROWS = 10_000
# Rows whose values are checked at a time.
_CHECKED_ROWS = 65_536


class Table:
    """Rows that lie in one array, each with a weight if ``sample_weight`` is given."""

    def __init__(self, X, sample_weight=None):
        self.X = X
        self.sample_weight = sample_weight
        #: The family whose kernels can take these rows as they are, if that has been found out.
        self.admitted_to = None

    def __len__(self):
        return self.X.shape[0]

    def tables(self) -> Iterator[Table]:
        """The tables of one pass: this one."""
        yield self

    def part(self, first: int, last: int) -> Table:
        """The rows ``first .. last - 1``, not copied if they are dense."""
        weights = None if self.sample_weight is None else self.sample_weight[first:last]
        part = Table(self.X[first:last], weights)
        part.admitted_to = self.admitted_to
        return part

    def count_for(self, n_rows: int) -> int:
        """How many observations have ``n_rows`` rows or more; all if they have fewer."""
        return min(n_rows, len(self))

    @staticmethod
    def joined(tables: list[Table]) -> Table:
        """The rows of several tables, one after another."""
        arrays = [table.X for table in tables]
        stack = sparse.vstack if any(map(sparse.issparse, arrays)) else np.concatenate
        X = stack(arrays)
        return Table(X.tocsr() if sparse.issparse(X) else X, joined_weights(tables))


class Stream:
    """Tables that come one after another, as often as a pass is wanted.

    Parameters
    ----------
    source : callable or iterable
        A function that returns a new iterator over arrays, or an object that can be iterated over
        again and again. Each item is an array, or a pair of an array and its sample weights.
    check : callable, optional
        Called with each array and its weights; returns them as they are to be used.
    once : bool, default=False
        Whether one pass is all that is wanted, so that an iterator will do.
    """

    def __init__(self, source, check: Callable | None = None, *, once: bool = False):
        if isinstance(source, Iterator) and not once:
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
        number = -1
        for number, item in enumerate(items):
            X, sample_weight = item if isinstance(item, tuple) else (item, None)
            if self.check is not None:
                try:
                    X, sample_weight = self.check(X, sample_weight)
                except ValueError as error:
                    raise ValueError(f"In array {number} of the stream: {error}") from error
            yield Table(X, sample_weight)
        if number < 0:
            raise ValueError(
                "The stream has no data: it ended before its first array. A function that is "
                "passed as a stream must return a new iterator each time it is called."
            )


class Remote:
    """Data that lie elsewhere, in pieces: functions go to them, and sums come back.

    An estimator's ``fit`` takes them as it takes an array, so that there is one loop of EM
    whatever the data and wherever they are.
    """

    #: Threads that a function may use where the pieces are.
    n_jobs: int | None = 1

    def checked(self, estimator, *, reset: bool) -> Remote:
        """Let ``estimator`` check every piece where it is; raises as for data that are here."""
        raise NotImplementedError

    def sum(self, function: Callable):
        """The sum over the pieces of ``function(piece)``, whose values add."""
        raise NotImplementedError

    def sample(self):
        """Observations to start from, brought here: all of them if they are not many."""
        raise NotImplementedError


def wherever(expect):
    """Make a model's ``expect`` go to data that are elsewhere."""

    @functools.wraps(expect)
    def everywhere(self, data):
        if not isinstance(data, Remote):
            return expect(self, data)
        envoy = copy.copy(self)
        envoy.n_jobs = data.n_jobs
        return data.sum(envoy.expect)

    return everywhere


def nearby(data):
    """The data themselves, or a sample of data that are elsewhere."""
    return data.sample() if isinstance(data, Remote) else data


def of_tables(function, data) -> list:
    """``function(table)`` of all tables, wherever they are."""
    if isinstance(data, Remote):
        # Lists add, too.
        return data.sum(functools.partial(of_tables, function))
    return [function(table) for table in data.tables()]


def is_stream(X) -> bool:
    """Whether ``X`` is a stream of arrays and not an array."""
    if callable(X) or isinstance(X, (Iterator, Stream)):
        return True
    if isinstance(X, (list, tuple)):
        return len(X) > 0 and all(_is_item(item) for item in X)
    looks_like_array = any(hasattr(X, name) for name in ("__array__", "__getitem__", "shape"))
    return isinstance(X, Iterable) and not looks_like_array


def _is_item(item) -> bool:
    """Whether this is a two-dimensional array, or a pair of one and its weights."""
    if isinstance(item, tuple) and len(item) == 2:
        item = item[0]
    return len(getattr(item, "shape", ())) == 2


def as_data(data) -> Table | Stream:
    """``data`` as a table or a stream."""
    if isinstance(data, (Table, Stream)):
        return data
    return Stream(data) if is_stream(data) else Table(np.asarray(data))


def admit(table: Table, family, *, values=False) -> Table:
    """See that kernels can take the rows of a table as they are; once for each table.

    Parameters
    ----------
    table : Table
    family : Family
        Of the model whose kernels are meant. Its own part is that values are indices if kernels
        take them for such; the width is compared where rows are read.
    values : bool, default=False
        Whether nobody has looked at the values yet, so that all must be checked.
    """
    if table.admitted_to is not None and table.admitted_to == family:
        return table
    checks.check_table(table.X)
    if table.sample_weight is not None:
        checks.check_row_weights(table.sample_weight, len(table.X))
    if values:
        # A bounded piece at a time, so that the check makes no copy of the data.
        for start in range(0, len(table.X), _CHECKED_ROWS):
            rows = table.X[start : start + _CHECKED_ROWS]
            if rows.dtype.kind == "f" and not np.isfinite(rows).all():
                row, column = (int(i) for i in np.argwhere(~np.isfinite(rows))[0])
                raise ValueError(
                    f"The rows contain NaN or infinity: row {start + row}, column {column} is "
                    f"{rows[row, column]}."
                )
            family.check(rows)
    elif family.indexes:
        family.check_indices(table.X)
    table.admitted_to = family
    return table


def joined_weights(tables) -> np.ndarray | None:
    """The weights of the observations of several tables; None if all are one."""
    weights = [table.sample_weight for table in tables]
    if all(w is None for w in weights):
        return None
    return np.concatenate(
        [np.ones(len(t)) if w is None else w for t, w in zip(tables, weights, strict=True)]
    )


def in_batches(tables: Iterable, size: int) -> Iterator:
    """The observations of ``tables`` in tables of whole batches of ``size``, but for the last.

    What is left of a table waits for the next, so that how a stream is cut makes no difference.
    """
    waiting, n_waiting = [], 0
    for table in tables:
        if n_waiting:
            missing = min(size - n_waiting, len(table))
            waiting.append(table.part(0, missing))
            n_waiting += missing
            if n_waiting < size:
                continue
            yield table.joined(waiting)
            table = table.part(missing, len(table))
        whole = len(table) // size * size
        if whole:
            yield table if whole == len(table) else table.part(0, whole)
        n_waiting = len(table) - whole
        waiting = [table.part(whole, len(table))] if n_waiting else []
    if waiting:
        yield waiting[0].joined(waiting)


def first_batch(table, size: int):
    """The first batch of a table that weighs something: its observations are those to come."""
    for first in range(0, len(table), size):
        batch = table.part(first, first + size)
        if batch.sample_weight is None or batch.sample_weight.any():
            return batch
    return table


def beginning(tables: Iterator):
    """A table of the first rows of a stream, from which to start, and all tables of the stream.

    It has 10,000 rows, or whole sequences of as many, however the stream is cut.
    """
    taken, parts, n_rows = [], [], 0
    for table in tables:
        taken.append(table)
        count = table.count_for(_BEGINNING_ROWS - n_rows)
        parts.append(table.part(0, count))
        n_rows += parts[-1].X.shape[0]
        if n_rows >= _BEGINNING_ROWS:
            break
    start = parts[0] if len(parts) == 1 else parts[0].joined(parts)
    return start, chain(taken, tables)


def readable(X: np.ndarray) -> bool:
    """Whether kernels read this array in place."""
    return X.dtype.type in READABLE and X.dtype.isnative


def read_rows(X: np.ndarray, start: int, stop: int):
    """What a kernel needs to read these rows, and the array to keep alive while it does."""
    part = X[start:stop]
    if not readable(part):
        part = part.astype(np.float64)
    return rows_of(part), part
