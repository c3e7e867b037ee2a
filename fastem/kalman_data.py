"""Sequences as the Kalman filter sees them: all rows in one array, and which go together."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise

import numpy as np

from .data import Stream
from .kernels.kalman_observation import COMPLETE, MISSING, PARTIAL
from .lengths import Lengths
from .parallel import chunks

__all__ = ["SequenceStream", "Sequences", "as_sequences", "is_sequence_stream"]

# Rows whose products are added at a time.
_ROWS = 65_536
# Steps in a chunk, at least: of complete sequences, which are cheap, and of others.
_LEAST_COMPLETE, _LEAST_OTHERS = 16_384, 512


class Part:
    """Sequences that one thread takes, in order, and what they have in common."""

    def __init__(self, order, shares, rows):
        self.order = np.ascontiguousarray(order, dtype=np.int64)
        self.shares = np.ascontiguousarray(shares, dtype=bool)
        #: Weight, sum and products, about the centre, of the rows of complete steps.
        self.rows = rows


class Sequences:
    """Sequences of observations, NaN being missing.

    Parameters
    ----------
    X : ndarray of shape (n_rows, p)
        The rows of all sequences, one after another.
    lengths : ndarray of int
    sample_weight : ndarray, optional
        One for each sequence.
    """

    def __init__(self, X, lengths, sample_weight=None):
        self.X = np.ascontiguousarray(X, dtype=float)
        self.lengths = np.asarray(lengths, dtype=np.int64)
        self.starts = np.concatenate([[0], np.cumsum(self.lengths)])
        self.sample_weight = (
            None if sample_weight is None else np.ascontiguousarray(sample_weight, dtype=float)
        )
        missing = np.isnan(self.X).sum(axis=1)
        self.kinds = np.full(len(self.X), COMPLETE, np.uint8)
        self.kinds[missing > 0] = PARTIAL
        self.kinds[missing == self.X.shape[1]] = MISSING

    def tables(self) -> Iterator[Sequences]:
        """The pieces of one pass: this one."""
        yield self

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, piece: slice) -> Sequences:
        """Some of the sequences, neighbours."""
        first, last, _ = piece.indices(len(self))
        weights = None if self.sample_weight is None else self.sample_weight[first:last]
        rows = self.X[self.starts[first] : self.starts[last]]
        return Sequences(rows, self.lengths[first:last], weights)

    def split(self) -> list[np.ndarray]:
        """Each sequence as an array."""
        return [self.X[a:b] for a, b in pairwise(self.starts)]

    @property
    def weights(self) -> np.ndarray:
        """What kernels are given: empty if all weights are one."""
        return np.empty(0) if self.sample_weight is None else self.sample_weight

    @property
    def total_weight(self) -> float:
        return float(len(self) if self.sample_weight is None else self.sample_weight.sum())

    @cached_property
    def horizon(self) -> Lengths:
        """How long the sequences are."""
        return Lengths(self.lengths, self.sample_weight)

    @cached_property
    def centre(self) -> np.ndarray:
        """The mean of all values seen; zero in a column that has none."""
        seen = ~np.isnan(self.X)
        sums = np.where(seen, self.X, 0.0).sum(axis=0)
        return np.divide(sums, seen.sum(axis=0), out=np.zeros(len(sums)), where=seen.any(axis=0))

    @cached_property
    def complete(self) -> np.ndarray:
        """Which sequences miss nothing."""
        others = np.add.reduceat(self.kinds != COMPLETE, self.starts[:-1])
        return others == 0

    def shares(self, order) -> np.ndarray:
        """Whether each has the covariances of the one before, as far as it reaches."""
        shares = np.zeros(len(order), dtype=bool)
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
        return np.isnan(self.X[self.starts[s] : self.starts[s + 1]]).tobytes()

    @cached_property
    def parts(self) -> list[Part]:
        """How the sequences are cut for threads: a function of the data alone."""
        complete = np.flatnonzero(self.complete)
        # The longest first: the others' covariances are the beginning of its own.
        complete = complete[np.argsort(-self.lengths[complete], kind="stable")]
        others = sorted(
            np.flatnonzero(~self.complete), key=lambda s: (self.lengths[s], self._pattern(s))
        )
        parts = []
        for order, least in (
            (complete, _LEAST_COMPLETE),
            (np.array(others, dtype=np.int64), _LEAST_OTHERS),
        ):
            ends = np.cumsum(self.lengths[order])
            if len(order) == 0:
                continue
            for start, stop in chunks(int(ends[-1]), least, most=8 * _ROWS):
                piece = order[(ends > start) & (ends <= stop)]
                if len(piece):
                    parts.append(Part(piece, self.shares(piece), self._rows(piece)))
        return parts

    def _rows(self, order):
        p = self.X.shape[1]
        total, first, second = 0.0, np.zeros(p), np.zeros((p, p))
        for s in order:
            weight = 1.0 if self.sample_weight is None else self.sample_weight[s]
            for start in range(self.starts[s], self.starts[s + 1], _ROWS):
                stop = min(start + _ROWS, self.starts[s + 1])
                kept = self.kinds[start:stop] == COMPLETE
                rows = self.X[start:stop] - self.centre
                rows = rows if kept.all() else rows[kept]
                total += weight * len(rows)
                first += weight * rows.sum(axis=0)
                second += weight * (rows.T @ rows)
        return total, first, second


class SequenceStream:
    """Sequences that come piece by piece, as often as a pass is wanted.

    Parameters
    ----------
    source : callable or iterable
        A function that returns a new iterator, or an object that can be iterated over again. Each
        item is a sequence, a list of sequences or a 3-D array, or a pair of such and weights.
    n_columns : int, optional
        How many columns each must have; by default as many as the first.
    once : bool, default=False
        Whether one pass is all that is wanted, so that an iterator will do.
    """

    def __init__(self, source, n_columns=None, *, once=False):
        self._stream = Stream(source, self._check, once=once)
        self.n_columns = n_columns

    def _check(self, X, sample_weight):
        sequences = as_sequences(X, None, sample_weight, self.n_columns)
        self.n_columns = sequences.X.shape[1]
        return sequences, None

    def tables(self) -> Iterator[Sequences]:
        """The pieces of one pass."""
        for table in self._stream.tables():
            yield table.X


def is_sequence_stream(X) -> bool:
    """Whether ``X`` is a stream of pieces of data, and not data."""
    return callable(X) or isinstance(X, Iterator)


def as_sequences(X, lengths=None, sample_weight=None, n_columns=None) -> Sequences:
    """Sequences from an array of one, an array and lengths, a list of arrays or a 3-D array.

    Masked values take their whole step with them; NaN is one missing value.
    """
    if isinstance(X, Sequences):
        return X
    if isinstance(X, (list, tuple)) and len(X) == 0:
        raise ValueError("There are no observations: the list of sequences is empty.")
    if isinstance(X, (list, tuple)) and _ndim(X[0]) == 2:
        if lengths is not None:
            raise ValueError("lengths go with one array; a list of sequences has its own.")
        parts = [_rows(x, f"Sequence {i}", n_columns) for i, x in enumerate(X)]
        widths = {part.shape[1] for part in parts}
        if len(widths) > 1:
            raise ValueError(
                f"The sequences have different numbers of columns: {sorted(widths)}. All must "
                "observe the same coordinates; put NaN where one is missing."
            )
        for i, part in enumerate(parts):
            if len(part) == 0:
                raise ValueError(f"Sequence {i} is empty; leave it out.")
        rows = parts[0] if len(parts) == 1 else np.concatenate(parts)
        counts = np.array([len(part) for part in parts])
    elif _ndim(X) == 3:
        if lengths is not None:
            raise ValueError("lengths go with a two-dimensional array; this one has three axes.")
        X = np.ma.asanyarray(X) if np.ma.isMaskedArray(X) else np.asarray(X)
        n, T = X.shape[:2]
        rows = _rows(X.reshape(n * T, X.shape[2]), "X", n_columns)
        counts = np.full(n, T)
        if T == 0:
            raise ValueError(f"The sequences are empty: X has the shape {X.shape}.")
    else:
        rows = _rows(X, "X", n_columns)
        counts = np.array([len(rows)]) if lengths is None else _lengths(lengths, len(rows))
    if len(rows) == 0 or len(counts) == 0:
        raise ValueError("There are no observations: X is empty.")
    if sample_weight is not None:
        sample_weight = _weights(sample_weight, len(counts))
    return Sequences(rows, counts, sample_weight)


def _ndim(X):
    return getattr(X, "ndim", None) if hasattr(X, "ndim") else np.ndim(X)


def _rows(X, name, n_columns):
    masked = np.ma.isMaskedArray(X)
    values = np.ma.getdata(X) if masked else X
    try:
        rows = np.array(values, dtype=float) if masked else np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} cannot be read as numbers: {error}. A sequence is an array of shape "
            "(n_timesteps, n_dim_obs); several of unequal length are a list of such arrays."
        ) from None
    mask = np.ma.getmaskarray(X) if masked else None
    if rows.ndim == 1 or (rows.ndim == 2 and len(rows) == 1 and n_columns == 1):
        rows = rows.reshape(-1, 1)
        mask = None if mask is None else mask.reshape(-1, 1)
    if rows.ndim != 2:
        raise ValueError(f"{name} must have the shape (n_timesteps, n_dim_obs); got {rows.shape}.")
    if rows.shape[1] == 0:
        raise ValueError(f"{name} has no columns: its shape is {rows.shape}.")
    if n_columns is not None and rows.shape[1] != n_columns:
        raise ValueError(f"{name} has {rows.shape[1]} columns, and the model observes {n_columns}.")
    if mask is not None:
        rows[mask.any(axis=1)] = np.nan
    wrong = np.isinf(rows)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise ValueError(
            f"{name} contains infinity at row {row}, column {column}. Missing values are NaN, or "
            "masked; anything else must be finite."
        )
    return rows


def _lengths(lengths, n_rows):
    lengths = np.asarray(lengths)
    if lengths.ndim != 1 or lengths.size == 0:
        raise ValueError(f"lengths must be a list of numbers of rows; got {lengths!r}.")
    if (lengths % 1 != 0).any() or (lengths < 1).any():
        raise ValueError("lengths must be whole numbers, one or more.")
    if lengths.sum() != n_rows:
        raise ValueError(
            f"lengths add up to {int(lengths.sum())}, but X has {n_rows} rows: they must say how "
            "many rows each sequence has."
        )
    return lengths.astype(np.int64)


def _weights(sample_weight, n_sequences):
    weights = np.asarray(sample_weight, dtype=float)
    if weights.shape != (n_sequences,):
        raise ValueError(
            f"sample_weight must have one entry for each of the {n_sequences} sequences; got the "
            f"shape {weights.shape}."
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("sample_weight must be finite and not negative.")
    if not weights.any():
        raise ValueError(
            "The sample weights are all zero: there is nothing to learn from. Give at least one "
            "sequence a positive weight."
        )
    return weights
