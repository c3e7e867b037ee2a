"""Sequences as the Kalman filter sees them: what is missing in them, and which go together."""

from __future__ import annotations

from functools import cached_property, lru_cache
from numbers import Real
from typing import NamedTuple

import numpy as np

from ..data.batches import check_total, joined_values
from ..data.sequences import Reader, Sequences, as_sequences, is_sequence_stream
from ..kernels.kalman.chunks import LONG
from ..kernels.kalman.lanes import LEAST, LONGEST
from ..kernels.kalman.observation import COMPLETE, MISSING, PARTIAL
from ..lengths import Lengths
from ..parallel import chunks

__all__ = ["Observations", "as_observations", "as_series", "as_table", "is_one_row"]

# Rows whose products are added at a time.
_ROWS = 65_536
# Steps in a chunk, at least: of complete sequences, which are cheap, and of others.
_LEAST_COMPLETE, _LEAST_OTHERS = 49_152, 512


class Part(NamedTuple):
    """Sequences that one thread takes, in order, and what they have in common."""

    order: np.ndarray
    #: Whether each has the covariances of the one before.
    shares: np.ndarray
    #: Whether they are complete, and better cut into chunks than put side by side.
    is_long: bool


class Observations(Sequences):
    """Sequences of observations, NaN being missing.

    Parameters
    ----------
    X : array-like of shape (n_rows, p)
        The rows of all sequences, one after another.
    lengths : array-like of int, optional
    sample_weight : array-like, optional
        One for each sequence.
    """

    def __init__(self, X, lengths=None, sample_weight=None):
        X = np.ascontiguousarray(X, dtype=float)
        self.kinds = np.full(len(X), COMPLETE, np.uint8)
        are_missing = not np.isfinite(X).all()
        if are_missing:
            missing = np.isnan(X).sum(axis=1)
            self.kinds[missing > 0] = PARTIAL
            self.kinds[missing == X.shape[1]] = MISSING
            are_missing = missing.any()
        super().__init__(X, lengths, sample_weight, missing=are_missing)

    def part(self, first: int, last: int) -> Observations:
        """The sequences ``first .. last - 1``; their rows are not copied."""
        part = super().part(first, last)
        part.kinds = self.kinds[self.bounds[first] :][: len(part.X)]
        return part

    @staticmethod
    def joined(tables: list[Observations]) -> Observations:
        """The sequences of several tables, one after another."""
        return Observations(
            np.concatenate([table.X for table in tables]),
            np.concatenate([table.lengths for table in tables]),
            joined_values(tables),
        )

    @property
    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What kernels are given: values, what rows miss, and where sequences begin."""
        return self.X.reshape(-1), self.kinds, self.bounds

    @property
    def weights(self) -> np.ndarray:
        """What kernels are given: empty if all weights are one."""
        weights = self.sample_weight
        return np.empty(0) if weights is None else np.ascontiguousarray(weights)

    @property
    def horizon(self) -> Lengths:
        """The distribution of the lengths."""
        if len(self) == 1 and self.sample_weight is None:
            return _one_length(int(self.lengths[0]))
        return super().horizon

    @cached_property
    def center(self) -> np.ndarray:
        """The mean of all values seen; zero in a column that has none."""
        if not self.missing:
            return self.X.sum(axis=0) / len(self.X)
        seen = ~np.isnan(self.X)
        sums = np.where(seen, self.X, 0.0).sum(axis=0)
        return np.divide(sums, seen.sum(axis=0), out=np.zeros(len(sums)), where=seen.any(axis=0))

    @cached_property
    def complete(self) -> np.ndarray:
        """Which sequences miss nothing."""
        if not self.missing:
            return np.ones(len(self), dtype=bool)
        return np.add.reduceat(self.kinds != COMPLETE, self.starts) == 0

    def shares(self, order) -> np.ndarray:
        """Whether each has the covariances of the one before, as far as it reaches."""
        shares = np.zeros(len(order), dtype=bool)
        if len(order) == 1:
            return shares
        complete, lengths = self.complete, self.lengths
        for i in range(1, len(order)):
            s, before = order[i], order[i - 1]
            if complete[s] and complete[before]:
                shares[i] = True
            elif lengths[s] == lengths[before] and complete[s] == complete[before]:
                shares[i] = self._pattern(s) == self._pattern(before)
        return shares

    def _pattern(self, s):
        """What is missing in a sequence, as bytes."""
        return np.isnan(self.X[self.bounds[s] : self.bounds[s + 1]]).tobytes()

    @cached_property
    def parts(self) -> list[Part]:
        """How the sequences are cut for threads: a function of the data alone."""
        return self.complete_parts + self.parts_of(np.flatnonzero(~self.complete))

    @cached_property
    def complete_parts(self) -> list[Part]:
        """The same for the sequences that miss nothing."""
        order = np.flatnonzero(self.complete)
        # The longest first: the others' covariances are the beginning of its own.
        if len(order) > 1:
            order = order[np.argsort(-self.lengths[order], kind="stable")]
        return self._cut(order, _LEAST_COMPLETE, are_complete=True)

    def parts_without(self, done, left) -> list[Part]:
        """The same if some sequences are done otherwise, except for those that were left."""
        complete = [] if len(done) == len(self) else self.complete_parts
        return complete + self.parts_of(left)

    def parts_of(self, sequences) -> list[Part]:
        """The same for some that miss something."""
        others = sorted(sequences, key=lambda s: (self.lengths[s], self._pattern(s)))
        return self._cut(np.array(others, dtype=np.int64), _LEAST_OTHERS, are_complete=False)

    def _cut(self, order, least, *, are_complete):
        if len(order) == 1:
            is_long = are_complete and _are_long(self.lengths[order])
            return [Part(order, self.shares(order), is_long)]
        ends = np.cumsum(self.lengths[order])
        parts = []
        for start, stop in chunks(int(ends[-1]) if len(order) else 0, least, most=8 * _ROWS):
            chunk = order[(ends > start) & (ends <= stop)]
            if len(chunk):
                is_long = are_complete and _are_long(self.lengths[chunk])
                parts.append(Part(chunk, self.shares(chunk), is_long))
        return parts

    def rows_of(self, part: Part) -> tuple:
        """Weight, sum and products, about the center, of the rows of a part's complete steps."""
        key = part.order.tobytes()
        if key not in self._products:
            self._products[key] = self._rows(part.order)
        return self._products[key]

    @cached_property
    def _products(self) -> dict:
        return {}

    def _rows(self, order):
        p = self.X.shape[1]
        total, first, second = 0.0, np.zeros(p), np.zeros((p, p))
        for s in order:
            weight = 1.0 if self.sample_weight is None else self.sample_weight[s]
            for start in range(self.bounds[s], self.bounds[s + 1], _ROWS):
                stop = min(start + _ROWS, self.bounds[s + 1])
                kept = self.kinds[start:stop] == COMPLETE
                rows = self.X[start:stop] - self.center
                rows = rows if kept.all() else rows[kept]
                total += weight * len(rows)
                first += weight * rows.sum(axis=0)
                second += weight * (rows.T @ rows)
        return total, first, second


@lru_cache(maxsize=256)
def _one_length(n_steps):
    return Lengths([n_steps])


def _are_long(lengths):
    apart = len(lengths) < LEAST or lengths.min() > LONGEST
    return bool(apart and lengths.max() >= LONG)


class ObservationReader(Reader):
    """Reads observations as the Kalman filter takes them: numbers, NaN or masked where missing.

    Masked values take their whole step with them; NaN is one missing value. One array of one
    dimension is one sequence of one column, and a list of such the rows of one sequence.

    Parameters
    ----------
    n_columns : int, optional
        How many columns there must be; by default as many as in the first table.
    """

    # Each item of a stream is a table, and a mini-batch unless batch_size says otherwise.
    joined_rows = 0

    def __init__(self, n_columns=None):
        self.n_columns = n_columns

    def is_list(self, X, lengths):
        return np.ndim(X[0]) == 2

    def rows(self, X):
        return _rows(X, "X", self.n_columns)

    def item(self, X, number):
        return _rows(X, f"Sequence {number}", self.n_columns)

    def table(self, X, lengths, sample_weight, cut_off=None):
        if cut_off is not None:
            raise ValueError("cut_off is for hidden Markov models that have absorbing states.")
        table = Observations(X, lengths, sample_weight)
        check_total(table.sample_weight, table.observation_name)
        self.n_columns = X.shape[1]
        return table

    def again(self, data):
        if isinstance(data, Observations):
            return data
        return self.table(self.rows(data.X), data.lengths, data.sample_weight, data.cut_off)


def as_observations(X, lengths=None, sample_weight=None, n_columns=None, *, once=False):
    """:class:`Observations`, or a stream of them, from all that :func:`as_sequences` takes."""
    reader = ObservationReader(n_columns)
    if type(X) is np.ndarray and X.ndim == 2:
        # The most frequent case, without the questions that lead to it.
        return reader.table(reader.rows(X), lengths, sample_weight)
    return as_sequences(X, lengths, sample_weight, once=once, reader=reader)


def as_table(X, lengths=None, n_columns=None) -> Observations:
    """The same for methods that do not accept a stream."""
    if type(X) is not np.ndarray and is_sequence_stream(X):
        raise ValueError(
            "A stream is for learning and scoring; here, pass an array or a list of sequences."
        )
    return as_observations(X, lengths, n_columns=n_columns)


def as_series(X):
    """``X``, or if it is a number, masked or not, a series of it alone."""
    if isinstance(X, (Real, np.generic)) or (isinstance(X, np.ndarray) and X.ndim == 0):
        return np.ma.atleast_1d(X) if np.ma.isMaskedArray(X) else np.array([X])
    return X


def is_one_row(X) -> bool:
    """Whether this is a table of a single row, which may be a series written in a row."""
    if isinstance(X, (list, tuple)):
        return len(X) == 1 and np.ndim(X[0]) == 1
    return getattr(X, "ndim", 0) == 2 and len(X) == 1


def _rows(X, name, n_columns):
    masked = np.ma.isMaskedArray(X)
    if np.iscomplexobj(X):
        raise ValueError(f"{name} has complex numbers; observations must be real.")
    try:
        rows = np.array(X.data, dtype=float) if masked else np.asarray(X, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} cannot be read as numbers: {error}. A sequence is an array of shape "
            "(n_timesteps, n_dim_obs); several of unequal length are a list of such arrays."
        ) from None
    if rows.ndim == 1 or (rows.ndim == 2 and len(rows) == 1 and n_columns == 1):
        rows = rows.reshape(-1, 1)
    if rows.ndim != 2:
        raise ValueError(f"{name} must have the shape (n_timesteps, n_dim_obs); got {rows.shape}.")
    if rows.shape[1] == 0:
        raise ValueError(f"{name} has no columns: its shape is {rows.shape}.")
    if n_columns is not None and rows.shape[1] != n_columns:
        raise ValueError(f"{name} has {rows.shape[1]} columns, and the model observes {n_columns}.")
    if masked:
        rows[np.ma.getmaskarray(X).reshape(rows.shape).any(axis=1)] = np.nan
    if np.isfinite(rows).all():
        return rows
    wrong = np.isinf(rows)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise ValueError(
            f"{name} contains infinity at row {row}, column {column}. Missing values are NaN, or "
            "masked; anything else must be finite."
        )
    return rows
