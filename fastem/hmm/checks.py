"""Checks of sequences: whether their values are valid, and possible under a model."""

from __future__ import annotations

import numpy as np

from .. import checks
from ..data.remote import Remote
from ..exceptions import ImpossibleDataError

__all__ = ["admit_sequences", "check_possible", "check_values"]

# Rows whose values are checked at a time.
_CHECKED_ROWS = 65_536

_WHERE_TO_LOOK = (
    "Look for zeros in startprob_, transmat_ and the emissions, start from other parameters, or "
    "leave the sequence out. If the model has absorbing states, every sequence must end in one, "
    "unless cut_off says that it was cut off."
)


def check_values(table, family, n_before=0, check=None) -> bool:
    """Raise ``ValueError`` for a row outside the support; return whether some entries are missing.

    Parameters
    ----------
    table : Sequences
    family : Family
    n_before : int, default=0
        How many sequences came before these: errors count from the first.
    check : callable, optional
        Called with rows instead of ``family.check``.
    """
    X, check = table.X, check or family.check
    missing = False
    for start in range(0, len(X), _CHECKED_ROWS):
        rows = X[start : start + _CHECKED_ROWS]
        if rows.dtype.kind == "f" and not np.isfinite(rows).all():
            wrong = np.argwhere(np.isinf(rows))
            if len(wrong):
                row, column = wrong[0].tolist()
                where = _place(table, start + row, n_before)
                raise ValueError(
                    f"Input X contains infinity: {where}, column {column} is {rows[row, column]}. "
                    "Mark missing values by NaN."
                )
            _check_missing(table, family, np.isnan(rows), start, n_before)
            missing = True
        try:
            check(_filled(rows, family) if missing else rows)
        except ValueError:
            _find(table, family, check, start, n_before)
            raise
    return missing


def admit_sequences(table, family) -> None:
    """Check that kernels can read the rows of a table; this is done once for each table.

    The values have been checked before. Symbols are checked again, because kernels use them as
    indices, and their number may have become known only after the first check. The number of
    columns is checked where rows are read.
    """
    if table.plans.get("admitted_to") == family:
        return
    checks.check_table(table.X)
    if family.indexes:
        family.check_indices(table.X, table.missing)
    table.plans["admitted_to"] = family


def _place(table, row, n_before):
    """Where a row is, in words."""
    if len(table) == 1 and n_before == 0:
        return f"row {row}"
    number = int(np.searchsorted(np.cumsum(table.lengths), row, side="right"))
    return f"sequence {n_before + number}, row {row - int(table.starts[number])} of it"


def _find(table, family, check, start, n_before):
    """Raise the family's error with the number of the sequence that is wrong."""
    if len(table) == 1 and n_before == 0:
        if start:
            try:
                check(_filled(table.X[start : start + _CHECKED_ROWS], family))
            except ValueError as error:
                raise ValueError(f"{error} (counting rows from {start})") from None
        return
    first = int(np.searchsorted(np.cumsum(table.lengths), start, side="right"))
    for number in range(first, len(table)):
        begin = int(table.starts[number])
        rows = table.X[begin : begin + int(table.lengths[number])]
        try:
            check(_filled(rows, family))
        except ValueError as error:
            raise ValueError(f"In sequence {n_before + number}: {error}") from None


def _filled(rows, family):
    """The rows with possible values in place of those that are missing."""
    absent = np.isnan(rows) if rows.dtype.kind == "f" else np.False_
    if not absent.any():
        return rows
    middle = np.full((1, rows.shape[1]), 0.5)
    possible = family.draw(family.start(middle), np.zeros(1, int), np.random.default_rng(0))
    return np.where(absent, np.asarray(possible, dtype=float), rows)


def _check_missing(table, family, absent, start, n_before):
    """Raise where a part of a row is missing, if the family needs whole rows."""
    for columns in family.columns_missing_together(absent.shape[1]):
        part = absent[:, columns]
        wrong = part.any(axis=1) & ~part.all(axis=1)
        if wrong.any():
            where = _place(table, start + int(np.argmax(wrong)), n_before)
            raise ValueError(
                f"A part of a row is missing (NaN): {where}. With this family ({family!r}) columns "
                "depend on one another, and a row can only be missing whole: make all of it NaN."
            )


def check_possible(model, data, log_likelihood=-np.inf):
    """Raise ``ValueError`` for a sequence that the model says is impossible."""
    if np.isfinite(log_likelihood):
        return
    if isinstance(data, Remote):
        # Data on other machines are not searched.
        raise ImpossibleDataError(
            "Some sequence has probability zero under the model, so that there is nothing to learn "
            f"from it. {_WHERE_TO_LOOK}"
        )
    n_before = 0
    for table in data.tables():
        log_likelihoods = model.log_likelihoods(table)
        counts = table.sample_weight is None or table.sample_weight > 0
        wrong = ~np.isfinite(log_likelihoods) & counts
        if wrong.any():
            number = int(np.argmax(wrong))
            if log_likelihoods[number] == -np.inf:
                raise ImpossibleDataError(
                    f"Sequence {n_before + number} has probability zero under the model, so that "
                    "there is nothing to learn from it: no path of states allows it. "
                    f"{_WHERE_TO_LOOK}"
                )
            raise ImpossibleDataError(
                f"The log-likelihood of sequence {n_before + number} is not finite: squares of the "
                "data overflow. Scale the columns to a moderate range."
            )
        n_before += len(table)
