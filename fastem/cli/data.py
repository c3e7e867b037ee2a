"""What a model takes of a table: columns, sequences, weights."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .errors import Failure, Usage
from .models import described
from .tables import read_table, title

__all__ = ["Columns", "Data", "check_columns", "check_cuts", "no_group", "read"]


@dataclass
class Columns:
    """The numbers of the columns that are used."""

    values: list[int]
    group: int | None
    weight: int | None
    #: The names of the values; None without a header.
    names: list[str] | None

    @classmethod
    def chosen(cls, options, names, n_columns, known=None) -> Columns:
        """Those that options name; ``known`` are the names of the columns of the model."""

        def number(word, option):
            return _number(word, names, n_columns, option)

        group = None if options.group is None else number(options.group, "--group")
        weight = None if options.weight is None else number(options.weight, "--weight")
        ignored = _numbers(options.ignore, names, n_columns, "--ignore")
        if options.columns is not None:
            if ignored:
                raise Usage("--columns and --ignore cannot both be given.")
            values = _numbers(options.columns, names, n_columns, "--columns")
        elif known is not None and names is not None:
            missing = [name for name in known if name not in names]
            if missing:
                raise Failure(
                    f"there is no column {missing[0]!r}, which the model has learned from: the "
                    f"columns are {_listed(names)}. Name those that take its place with --columns."
                )
            values = [names.index(name) for name in known]
        else:
            values = [n for n in range(n_columns) if n not in {group, weight, *ignored}]
        if not values:
            raise Failure("no columns are left.")
        return cls(values, group, weight, None if names is None else [names[n] for n in values])


@dataclass
class Data:
    """Rows for a model."""

    X: Any
    names: list[str] | None
    #: The number of rows of each sequence, and its label; None if rows are no sequences.
    lengths: np.ndarray | None = None
    labels: list[str] | None = None
    weights: np.ndarray | None = None
    #: Where each row was in the file; None if they are in its order.
    places: np.ndarray | None = field(default=None, repr=False)

    def in_order(self, values):
        """Values of all rows in the order of the file."""
        if self.places is None:
            return values
        ordered = np.empty_like(values)
        ordered[self.places] = values
        return ordered

    @property
    def row_labels(self) -> list[str] | None:
        """The label of the sequence of each row, in the order of the file."""
        if self.labels is None:
            return None
        numbers = np.repeat(np.arange(len(self.lengths)), self.lengths)
        return [self.labels[number] for number in self.in_order(numbers)]

    def sequences(self) -> list:
        """The rows of each sequence."""
        if self.lengths is None:
            return [self.X]
        return np.split(self.X, np.cumsum(self.lengths)[:-1])

    def given(self, *, weights=True) -> dict[str, Any]:
        """What methods of estimators take besides rows."""
        given = {"lengths": self.lengths, "sample_weight": self.weights if weights else None}
        return {name: value for name, value in given.items() if value is not None}


def read(source: str, options, model, *, known=None, drop_missing=False) -> Data:
    """The data of a command.

    Parameters
    ----------
    source : str
        The name of a file, or ``-``.
    options : Namespace
        As :func:`fastem.cli.parser.add_data` makes them.
    model : estimator
        What they are for: rows, or sequences of rows.
    known : sequence of str, optional
        The names of the columns that the model has learned from.
    drop_missing : bool, default=False
        Whether rows with missing values are left out.
    """
    check_cuts(options, model)
    sequences = model._learns_sequences
    if options.group is not None and options.lengths is not None:
        raise Usage("--group and --lengths cannot both be given.")
    table = read_table(source, options)
    columns = Columns.chosen(options, table.names, table.shape[1], known)
    check_columns(model, len(columns.values))
    X = table.numbers(columns.values)
    of_rows = getattr(model, "estimator", model)  # that of a mixture of models
    if hasattr(X, "tocsr") and not getattr(of_rows, "_accept_sparse", False):
        raise Failure(
            f"{source} holds a sparse matrix, which {described(model)} does not take: write "
            "it as a dense array."
        )
    if X.shape[0] == 0:
        raise Failure("there are no rows.")
    data = Data(X, columns.names)
    if columns.weight is not None:
        weights = table.numbers([columns.weight])
        weights = weights.toarray() if hasattr(weights, "tocsr") else weights
        data.weights = np.ravel(weights).astype(float)
    if sequences:
        labels = None if columns.group is None else table.labels(columns.group)
        _cut(data, labels, options, getattr(table, "lengths", None))
    if drop_missing:
        _drop_missing(data)
    elif not sequences:
        check_complete(data.X, data.names)
    if data.lengths is not None and data.weights is not None:
        data.weights = weights_of_sequences(data.weights, data.lengths)
    return data


def check_cuts(options, model) -> None:
    """Raise if rows are to be cut into sequences for a model that has none."""
    if not model._learns_sequences and (options.group is not None or options.lengths is not None):
        raise Usage("--group and --lengths are for models of sequences: hmm and kalman.")


def check_columns(model, n_columns: int) -> None:
    """Raise if a model of symbols is given several columns."""
    if type(model).__name__ in ("CategoricalHMM", "VariationalCategoricalHMM") and n_columns > 1:
        raise Failure(
            f"{described(model)} takes one column of symbols, and there are {n_columns}: "
            "choose one with --columns."
        )


def check_complete(X, names, first_row: int = 0) -> None:
    """Raise :class:`Failure` for a missing value, with its place."""
    dense = X.data if hasattr(X, "tocsr") else X
    if dense.dtype.kind != "f" or not np.isnan(np.sum(dense)):
        return
    missing = np.argwhere(np.isnan(X.toarray() if hasattr(X, "tocsr") else X))
    if len(missing):  # a sum of infinities is no number either
        row, column = missing[0]
        raise Failure(
            f"a value is missing in column {title(names, column)}, row {first_row + row + 1}, and "
            "this model needs all: leave such rows out before, or fit with --drop-missing."
        )


def _drop_missing(data):
    """Leave out rows with missing values, and sequences of nothing else."""
    complete = _are_complete(data.X)
    data.X = data.X[complete]
    if data.X.shape[0] == 0:
        raise Failure("there are no rows without missing values.")
    if data.weights is not None:
        data.weights = data.weights[complete]
    if data.lengths is not None:
        lengths = np.add.reduceat(complete, np.cumsum(data.lengths) - data.lengths, dtype=np.int64)
        if data.labels is not None:
            data.labels = [label for label, n in zip(data.labels, lengths, strict=True) if n]
        data.lengths = lengths[lengths > 0]


def _are_complete(X):
    """Whether each row has all values."""
    if not hasattr(X, "tocsr"):
        return ~np.isnan(X).any(axis=1)
    complete = np.ones(X.shape[0], dtype=bool)
    complete[np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))[np.isnan(X.data)]] = False
    return complete


def no_group(row: int) -> Failure:
    """The error for a row, counted from 0, that has no label."""
    return Failure(f"row {row + 1} has no value in the column of --group.")


def _cut(data, labels, options, lengths):
    """Cut rows into sequences."""
    n_rows = data.X.shape[0]
    if labels is not None:
        numbers: dict[str, int] = {}
        of_rows = np.array([numbers.setdefault(label, len(numbers)) for label in labels])
        if "" in numbers:
            raise no_group(labels.index(""))
        lengths = np.bincount(of_rows)
        data.labels = list(numbers)
        if (np.diff(of_rows) < 0).any():
            data.places = np.argsort(of_rows, kind="stable")
            data.X = data.X[data.places]
            data.weights = None if data.weights is None else data.weights[data.places]
    elif options.lengths is not None:
        lengths = _read_lengths(options)
        if lengths.sum() != n_rows:
            raise Failure(
                f"the lengths in {options.lengths} sum to {lengths.sum()}, and there are {n_rows} "
                "rows: they must be the same."
            )
    data.lengths = np.array([n_rows]) if lengths is None else lengths


def weights_of_sequences(weights, lengths):
    """One weight for each sequence, whose rows all have it."""
    firsts = weights[np.cumsum(lengths) - lengths]
    if not np.array_equal(np.repeat(firsts, lengths), weights):
        raise Failure("the weight is that of a sequence: all of its rows must have the same.")
    return firsts


def _read_lengths(options):
    import argparse

    plain = argparse.Namespace(format=None, key=None, separator=None, header="auto")
    table = read_table(options.lengths, plain)
    if table.shape[1] != 1:
        raise Failure(f"{options.lengths} has {table.shape[1]} columns, and one is needed.")
    try:
        lengths = np.ravel(table.numbers([0]))
    except Failure:  # of text, with advice on other columns
        lengths = np.array([np.nan])
    if not (np.isfinite(lengths) & (lengths >= 1) & (lengths == np.floor(lengths))).all():
        raise Failure(f"{options.lengths}: a length is a whole number, 1 or more.")
    return lengths.astype(np.int64)


def _numbers(words, names, n_columns, option) -> list[int]:
    """The columns of a list such as ``a,3,5-7``."""
    chosen: list[int] = []
    for word in [] if words is None else next(csv.reader([words], skipinitialspace=True)):
        bounds = re.fullmatch(r"(\d+)-(\d+)", word)
        if bounds and word not in (names or ()):
            first, last = (_number(bound, names, n_columns, option) for bound in bounds.groups())
            if first > last:
                raise Usage(f"{option}: the range {word} is empty.")
            chosen += range(first, last + 1)
        else:
            chosen.append(_number(word, names, n_columns, option))
    if len(set(chosen)) < len(chosen):
        raise Usage(f"{option}: {words} names a column twice.")
    return chosen


def _number(word, names, n_columns, option) -> int:
    word = word.strip()
    if names is not None and word in names:
        return names.index(word)
    if word.isdecimal():
        if int(word) < n_columns:
            return int(word)
        raise Failure(f"{option}: there is no column {word}; they are 0 to {n_columns - 1}.")
    if names is None:
        raise Failure(
            f"{option}: there is no column {word!r}, as the data have no names of columns: give "
            f"numbers, 0 to {n_columns - 1}."
        )
    raise Failure(f"{option}: there is no column {word!r}; the columns are {_listed(names)}.")


def _listed(names, most=20):
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
