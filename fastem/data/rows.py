"""Rows as models see them: one table, or a stream of tables, read without a copy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import sparse

from .. import checks, parallel
from ..kernels.rows import READABLE, rows_of
from .batches import Source, joined_values, yields_data

__all__ = ["Stream", "Table", "admit", "are_finite", "as_data", "check_rows", "is_stream",
           "read_rows", "readable"]  # fmt: skip

# Rows whose values are checked at a time.
_CHECKED_ROWS = 65_536
# Numbers that a thread adds in a millisecond: to start it takes a tenth of that.
_CHECKED_NUMBERS = 2**21


class Table:
    """Rows of one array, each with a weight if ``sample_weight`` is given."""

    #: Whether observations come one table after another.
    is_stream = False
    #: What an observation is called.
    observation_name = "row"

    def __init__(self, X, sample_weight=None, admitted_to=None):
        self.X = X
        self.sample_weight = sample_weight
        #: The family whose kernels can read these rows, once that has been checked.
        self.admitted_to = admitted_to

    def __len__(self):
        return self.X.shape[0]

    def tables(self) -> Iterator[Table]:
        """The tables of one pass: this one."""
        yield self

    def part(self, first: int, last: int) -> Table:
        """The rows ``first .. last - 1``, not copied if they are dense."""
        weights = None if self.sample_weight is None else self.sample_weight[first:last]
        return Table(self.X[first:last], weights, self.admitted_to)

    def count_for(self, n_rows: int) -> int:
        """The number of observations that have ``n_rows`` rows together; all if they have fewer."""
        return min(n_rows, len(self))

    def reweighted(self, sample_weight) -> Table:
        """The same rows with other weights."""
        return Table(self.X, sample_weight, self.admitted_to)

    @staticmethod
    def joined(tables: list[Table]) -> Table:
        """The rows of several tables, one after another."""
        arrays = [table.X for table in tables]
        stack = sparse.vstack if any(map(sparse.issparse, arrays)) else np.concatenate
        X = stack(arrays)
        return Table(X.tocsr() if sparse.issparse(X) else X, joined_values(tables))


class Stream(Source):
    """Tables that come one after another, for any number of passes.

    Parameters
    ----------
    source : callable or iterable
        A function that returns a new iterator over arrays, or an object that can be iterated over
        again and again. Each item is an array, or a pair of an array and its sample weights.
    check : callable, optional
        Called with each array and its weights; returns both, checked.
    once : bool, default=False
        Whether one pass is enough, so that an iterator is accepted.
    """

    def tables(self) -> Iterator[Table]:
        """The tables of one pass."""
        for number, item in self.items():
            X, sample_weight = item if isinstance(item, tuple) else (item, None)
            if self.check is not None:
                try:
                    X, sample_weight = self.check(X, sample_weight)
                except ValueError as error:
                    raise ValueError(f"In array {number} of the stream: {error}") from error
            yield Table(X, sample_weight)


def is_stream(X) -> bool:
    """Whether ``X`` is a stream of arrays and not an array."""
    if isinstance(X, (list, tuple)):
        return len(X) > 0 and all(_is_item(item) for item in X)
    return isinstance(X, Stream) or yields_data(X)


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
    """Check that kernels can read the rows of a table; this is done once for each table.

    Parameters
    ----------
    table : Table
    family : Family
        The family of the model. It checks that values are valid indices if kernels use them as
        indices; the number of columns is checked where rows are read.
    values : bool, default=False
        Whether all values must be checked, because nobody has done so before.
    """
    if table.admitted_to is not None and table.admitted_to == family:
        return table
    checks.check_table(table.X)
    if table.sample_weight is not None:
        checks.check_weights(table.sample_weight, len(table.X))
    if values:
        check_rows(table.X, _check_finite, family.check)
    elif family.indexes:
        family.check_indices(table.X)
    table.admitted_to = family
    return table


def check_rows(X, *row_checks) -> None:
    """Call functions that raise ``ValueError`` for wrong rows with a chunk of rows at a time.

    The functions then make no copy of all the data.
    """
    for start in range(0, len(X), _CHECKED_ROWS):
        try:
            for check in row_checks:
                check(X[start : start + _CHECKED_ROWS])
        except ValueError as error:
            where = f" (counting rows from {start})" if start else ""
            raise ValueError(f"{error}{where}") from None


def _check_finite(rows):
    if rows.dtype.kind == "f" and not np.isfinite(rows).all():
        row, column = (int(i) for i in np.argwhere(~np.isfinite(rows))[0])
        raise ValueError(
            f"The rows contain NaN or infinity: row {row}, column {column} is {rows[row, column]}."
        )


def are_finite(X: np.ndarray, n_jobs: int | None = None) -> bool:
    """Whether no number of an array of rows is NaN or infinite."""
    if X.dtype.kind != "f":
        return True
    if X.size < _CHECKED_NUMBERS:
        return bool(np.isfinite(X).all())

    def check(rows) -> bool:
        part = X[rows[0] : rows[1]]
        # A sum needs no room. It may overflow where all numbers are finite.
        with np.errstate(over="ignore", invalid="ignore"):
            return bool(np.isfinite(part.sum()) or np.isfinite(part).all())

    least = max(1, _CHECKED_NUMBERS // X.shape[1])
    return all(parallel.in_order(check, parallel.chunks(len(X), least, len(X)), n_jobs))


def readable(X: np.ndarray) -> bool:
    """Whether kernels read this array in place."""
    return X.dtype.type in READABLE and X.dtype.isnative


def read_rows(X: np.ndarray, start: int, stop: int):
    """The arguments with which a kernel reads these rows, and the array to keep alive meanwhile."""
    part = X[start:stop]
    if not readable(part):
        part = part.astype(np.float64)
    return rows_of(part), part
