"""Sequences as models see them: rows that follow one another, in an array or a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from .. import checks
from ..lengths import Lengths
from .batches import Source, joined_values, yields_data

__all__ = ["Reader", "SequenceStream", "Sequences", "as_column", "as_sequences",
           "check_lengths", "is_sequence_stream"]  # fmt: skip

# Items of a stream, which may be short sequences, are joined until they have this many rows.
_JOINED_ROWS = 16_384


class Sequences:
    """Sequences whose rows follow one another in one array.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
    lengths : array-like of shape (n_sequences,), optional
        The number of rows of each; by default all rows are one sequence.
    sample_weight : array-like of shape (n_sequences,), optional
    cut_off : array-like of bool of shape (n_sequences,), optional
        For absorbing models: which sequences end before they are absorbed.
    missing : bool, optional
        Whether some entries are NaN; determined from the data by default.
    """

    #: Whether observations come one table after another.
    is_stream = False
    #: What an observation is called.
    observation_name = "sequence"

    # ``plans`` caches how models lay out sequences of these lengths.
    __slots__ = ("X", "_missing", "cut_off", "lengths", "plans", "sample_weight")

    def __init__(self, X, lengths=None, sample_weight=None, cut_off=None, missing=None):
        self.X = X
        self.lengths = check_lengths(lengths, len(X))
        n_sequences = len(self.lengths)
        self.sample_weight = _check_weights(sample_weight, n_sequences)
        self.cut_off = _check_cut_off(cut_off, n_sequences)
        self._missing = None if missing is None else bool(missing)
        self.plans = {}

    @property
    def missing(self) -> bool:
        """Whether some entries are NaN."""
        if self._missing is None:
            self._missing = has_nan(self.X)
        return self._missing

    @missing.setter
    def missing(self, missing):
        self._missing = missing

    @property
    def is_single(self) -> bool:
        """Whether the rows are float32, with which kernels can compute as they are."""
        return self.X.dtype == np.float32 and self.X.dtype.isnative

    def __len__(self):
        return len(self.lengths)

    def __repr__(self):
        return f"Sequences({len(self)} of {len(self.X)} rows and {self.X.shape[1]} columns in all)"

    @property
    def bounds(self) -> np.ndarray:
        """The first row of each sequence, and the number of all rows."""
        if "bounds" not in self.plans:
            self.plans["bounds"] = np.concatenate([[0], np.cumsum(self.lengths)])
        return self.plans["bounds"]

    @property
    def starts(self) -> np.ndarray:
        """The first row of each sequence."""
        return self.bounds[:-1]

    @property
    def horizon(self) -> Lengths:
        """The distribution of the lengths."""
        if "horizon" not in self.plans:
            self.plans["horizon"] = Lengths(self.lengths, self.sample_weight)
        return self.plans["horizon"]

    @property
    def total_weight(self) -> float:
        """The sum of the weights; the number of sequences if they have no weights."""
        return float(len(self) if self.sample_weight is None else self.sample_weight.sum())

    @property
    def row_weights(self) -> np.ndarray | None:
        """The weight of each row, if the sequences have weights."""
        return None if self.sample_weight is None else np.repeat(self.sample_weight, self.lengths)

    def tables(self) -> Iterator[Sequences]:
        """The tables of one pass: this one."""
        yield self

    def part(self, first: int, last: int) -> Sequences:
        """The sequences ``first .. last - 1``; their rows are not copied."""
        begin, end = self.bounds[[first, min(last, len(self))]]

        def cut(array):
            return None if array is None else array[first:last]

        part = object.__new__(type(self))
        part.X, part.lengths, part.missing = self.X[begin:end], cut(self.lengths), self._missing
        part.sample_weight, part.cut_off = cut(self.sample_weight), cut(self.cut_off)
        part.plans = {name: self.plans[name] for name in ("admitted_to",) if name in self.plans}
        return part

    def reweighted(self, sample_weight) -> Sequences:
        """The same sequences with other weights."""
        table = self.part(0, len(self))
        table.sample_weight = _check_weights(sample_weight, len(self))
        # How these lengths are laid out does not depend on weights.
        table.plans = {name: plan for name, plan in self.plans.items() if name != "horizon"}
        return table

    def count_for(self, n_rows: int) -> int:
        """The number of sequences that have ``n_rows`` rows together; all if they have fewer."""
        return min(int(np.searchsorted(self.bounds[1:], n_rows)) + 1, len(self))

    @staticmethod
    def joined(tables: list[Sequences]) -> Sequences:
        """The sequences of several tables, one after another."""
        return Sequences(
            np.concatenate([table.X for table in tables]),
            np.concatenate([table.lengths for table in tables]),
            joined_values(tables),
            joined_values(tables, "cut_off", False),
            missing=any(table.missing for table in tables),
        )

    def split(self) -> list[np.ndarray]:
        """The rows of each sequence."""
        return np.split(self.X, self.bounds[1:-1])


class Reader:
    """How a model reads sequences: which forms it accepts, and what it makes of them."""

    #: Items of a stream are joined until they have this many rows.
    joined_rows = _JOINED_ROWS

    def is_list(self, X, lengths) -> bool:
        """Whether the items of this list, which is not empty, are sequences, and not rows."""
        # NumPy reads a list of one-dimensional arrays as the rows of one array.
        return np.ndim(X[0]) >= 2

    def rows(self, X):
        """``X``, the rows of all sequences, as an array of two dimensions."""
        if not hasattr(X, "shape"):
            try:
                X = np.asarray(X)
            except ValueError:
                raise ValueError(
                    "A list of arrays of one dimension is read as the rows of one array, and these "
                    "have different lengths. If each is a sequence of one column, reshape it: "
                    "[x.reshape(-1, 1) for x in X]."
                ) from None
        if len(X.shape) != 2:
            raise ValueError(
                f"Expected 2D array, got {len(X.shape)}D array instead. One sequence is an array "
                "of steps by columns: reshape a single column with X.reshape(-1, 1). Several are "
                "a list of such arrays, or one array with their lengths."
            )
        return X

    def item(self, X, number):
        """The same for ``X``, which is one sequence of a list."""
        X = np.asarray(X)
        if X.ndim != 2:
            how = " Reshape a single column: x.reshape(-1, 1)." if X.ndim == 1 else ""
            raise ValueError(
                f"Sequence {number} has {X.ndim} dimension{'' if X.ndim == 1 else 's'}; a sequence "
                f"is an array of steps by columns.{how}"
            )
        return X

    def table(self, X, lengths, sample_weight, cut_off) -> Sequences:
        """Rows that were read, as sequences."""
        return Sequences(X, lengths, sample_weight, cut_off)

    def again(self, data: Sequences) -> Sequences:
        """Sequences that another reader made, as this model sees them."""
        return data


class SequenceStream(Source):
    """Sequences that come one after another, for any number of passes.

    Parameters
    ----------
    source : callable or iterable
        A function that returns a new iterator, or an object that can be iterated over again and
        again. Each item is one sequence (an array of rows, or of one dimension for a single
        column), a list of sequences, a :class:`Sequences`, or a pair of one of these and its
        weights.
    check : callable, optional
        Called with each :class:`Sequences` and the number of sequences before it.
    once : bool, default=False
        Whether one pass is enough, so that an iterator is accepted.
    cut_off : bool, optional
        For absorbing models: whether all sequences are cut off.
    reader : Reader, optional
        How items are read; by default as in hidden Markov models.
    """

    item_name = "sequence"

    def __init__(
        self, source, check: Callable | None = None, *, once=False, cut_off=None, reader=None
    ):  # fmt: skip
        super().__init__(source, check, once=once)
        if cut_off is not None and np.ndim(cut_off) > 0:
            raise ValueError(
                "For a stream, cut_off is True or False for all sequences; got an array. Let the "
                "stream yield fastem.sequences.Sequences, which carry their own."
            )
        self.cut_off = cut_off
        self.reader = Reader() if reader is None else reader

    def tables(self) -> Iterator[Sequences]:
        """The tables of one pass, of many short sequences each, or of a few long ones."""
        n_before = 0
        for tables in self._groups():
            table = tables[0] if len(tables) == 1 else tables[0].joined(tables)
            if self.check is not None:
                table = self.check(table, n_before)
            n_before += len(table)
            yield table

    def _groups(self):
        """Items that are joined to one table."""
        group, n_rows = [], 0
        for table in self._read():
            if group and not _joinable(group[-1], table):
                yield group
                group, n_rows = [], 0
            group.append(table)
            n_rows += len(table.X)
            if n_rows >= self.reader.joined_rows:
                yield group
                group, n_rows = [], 0
        if group:
            yield group

    def _read(self):
        """Each item as a table."""
        for number, item in self.items():
            data, weights = item if isinstance(item, tuple) and len(item) == 2 else (item, None)
            if getattr(data, "ndim", 2) == 1:
                # An item is a sequence, and so one column of it.
                data = as_column(data)
            try:
                if isinstance(data, Sequences) and weights is None:
                    table = self.reader.again(data)
                else:
                    table = as_sequences(data, None, weights, self.cut_off, reader=self.reader)
            except (TypeError, ValueError) as error:
                raise type(error)(f"In item {number} of the stream: {error}") from error
            yield table


def is_sequence_stream(X) -> bool:
    """Whether ``X`` is a stream of sequences, and not an array or a list of them."""
    return isinstance(X, SequenceStream) or (not isinstance(X, (list, tuple)) and yields_data(X))


def as_sequences(
    X, lengths=None, sample_weight=None, cut_off=None, *, once=False, reader=None
) -> Sequences | SequenceStream:
    """Data in any of the accepted forms as sequences; values are left as they are.

    Parameters
    ----------
    X : array, list of arrays, three-dimensional array, Sequences or stream
        Rows of all sequences one after another (with ``lengths``, or a single sequence without),
        also as a list of rows; a list of sequences, each (n_steps, n_columns); an array
        (n_sequences, n_steps, n_columns); or a stream of these.
    lengths, sample_weight, cut_off : optional
        As for :class:`Sequences`.
    once, reader
        As for :class:`SequenceStream`.
    """
    reader = Reader() if reader is None else reader
    if isinstance(X, (Sequences, SequenceStream)):
        if any(extra is not None for extra in (lengths, sample_weight, cut_off)):
            raise ValueError("These data carry their own lengths, weights and cut_off.")
        return reader.again(X) if isinstance(X, Sequences) else X
    if is_sequence_stream(X):
        for name, extra in (("lengths", lengths), ("sample_weight", sample_weight)):
            if extra is not None:
                raise ValueError(
                    f"{name} goes with an array or a list; a stream yields whole sequences, or "
                    "pairs (sequences, weights)."
                )
        return SequenceStream(X, once=once, cut_off=cut_off, reader=reader)
    if isinstance(X, (list, tuple)) and len(X) == 0:
        raise ValueError("There are no sequences: the list is empty.")
    if isinstance(X, (list, tuple)) and reader.is_list(X, lengths):
        if lengths is not None:
            raise ValueError(
                "lengths goes with one array; a list of sequences has the lengths of its items."
            )
        X, lengths = _stack(X, reader)
    elif not isinstance(X, (list, tuple)) and np.ndim(X) == 3:
        if lengths is not None:
            raise ValueError(
                "lengths goes with a two-dimensional array; in a three-dimensional one all "
                "sequences have one length."
            )
        X = X if np.ma.isMaskedArray(X) else np.asarray(X)
        n_sequences, n_steps, n_columns = X.shape
        if 0 in X.shape:
            raise ValueError(f"The array of sequences has no entries: its shape is {X.shape}.")
        X, lengths = reader.rows(X.reshape(-1, n_columns)), np.full(n_sequences, n_steps)
    else:
        X = reader.rows(X)
    return reader.table(X, lengths, sample_weight, cut_off)


def as_column(sequence) -> np.ndarray:
    """A sequence of one dimension as a column; a masked array keeps its mask."""
    return np.asanyarray(sequence)[:, None]


def has_nan(X) -> bool:
    """Whether a numeric array contains NaN, read in chunks."""
    if getattr(X, "dtype", np.dtype(object)).kind != "f":
        return False
    chunks = (X[start : start + _JOINED_ROWS] for start in range(0, len(X), _JOINED_ROWS))
    return any(np.isnan(np.min(chunk)) for chunk in chunks if chunk.size)


def _stack(X, reader):
    """The sequences of a list as one array, and their lengths."""
    parts = []
    for number, item in enumerate(X):
        part = reader.item(item, number)
        if len(part) == 0:
            raise ValueError(f"Sequence {number} is empty: every sequence needs at least one step.")
        if parts and part.shape[1] != parts[0].shape[1]:
            raise ValueError(
                f"Sequence {number} has {part.shape[1]} columns, and the first has "
                f"{parts[0].shape[1]}: all sequences need the same columns."
            )
        parts.append(part)
    lengths = np.array([len(part) for part in parts])
    return parts[0] if len(parts) == 1 else np.concatenate(parts), lengths


def _joinable(one, other):
    """Whether two tables can be put together; a wrong width is left for the check to name."""
    alike = one.X.shape[1] == other.X.shape[1] and one.X.dtype == other.X.dtype
    return alike and max(len(one.X), len(other.X)) < _JOINED_ROWS


def check_lengths(lengths, n_rows) -> np.ndarray:
    """The lengths of sequences that have ``n_rows`` rows together, checked; None: one sequence."""
    if n_rows == 0:
        raise ValueError("There are no rows: X is empty, and a sequence needs at least one step.")
    if lengths is None:
        return np.array([n_rows], dtype=np.int64)
    given = np.asarray(lengths)
    if given.ndim == 0 or (given.ndim == 2 and given.shape[1] == 1):
        # One number, or a column, as hmmlearn takes them.
        given = given.reshape(-1)
    if given.ndim != 1 or given.size == 0:
        raise ValueError(
            f"lengths must be a list of the numbers of rows of the sequences; got {lengths!r}."
        )
    if not checks.are_whole(given):
        raise ValueError(f"lengths must be whole numbers; got {lengths!r}.")
    if (given < 1).any():
        number = int(np.argmax(given < 1))
        raise ValueError(
            f"lengths[{number}] is {given[number]}: a sequence has whole steps, one or more."
        )
    # Each for itself too: the sum of numbers that are too large may be anything.
    if (given > n_rows).any() or given.sum() != n_rows:
        raise ValueError(
            f"The lengths sum to {sum(map(int, given.tolist()))}, and X has {n_rows} rows: they "
            "must be the same."
        )
    return given.astype(np.int64)


def _check_weights(sample_weight, n_sequences):
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.ndim == 0:
        weights = np.full(n_sequences, float(weights))
    checks.check_weights(weights, n_sequences, "sequence")
    return weights


def _check_cut_off(cut_off, n_sequences):
    if cut_off is None:
        return None
    cuts = np.asarray(cut_off)
    if cuts.dtype != bool:
        raise ValueError(f"cut_off must be True or False for each sequence; got {cut_off!r}.")
    if cuts.ndim == 0:
        return np.full(n_sequences, bool(cuts))
    if cuts.shape != (n_sequences,):
        raise ValueError(
            f"cut_off has the shape {cuts.shape}, and there are {n_sequences} sequences."
        )
    return cuts
