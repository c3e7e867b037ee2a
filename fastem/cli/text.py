"""Values, names and headers in text."""

from __future__ import annotations

import csv

from .errors import Failure

__all__ = ["MISSING", "as_numbers", "is_header", "rows_of", "separator_of"]

#: What stands for a missing value.
MISSING = frozenset({"", "NA", "N/A", "n/a", "NaN", "nan", "NAN", "null", "NULL", "None", "<NA>"})
_TRUTH = {"true": 1.0, "false": 0.0}


def separator_of(line: str) -> str:
    """What is between the values of a line."""
    return next((mark for mark in ",\t;" if mark in line), ",")


def is_header(values: list[str]) -> bool:
    """Whether these are names of columns: one of them is neither a number nor missing."""
    return any(_number(value) is None for value in values)


def rows_of(lines, separator: str, n_columns: int, first_line: int) -> list[list[str]]:
    """Rows of values; raises :class:`Failure` for one that has more or fewer than the first."""
    rows = []
    reader = csv.reader(lines, delimiter=separator, strict=True)
    try:
        for row in reader:
            if not row and n_columns > 1:
                continue
            row = row or [""]  # in a single column, a missing value
            if len(row) != n_columns:
                raise Failure(
                    f"line {first_line + reader.line_num - 1} has {len(row)} values, and the first "
                    f"line has {n_columns}."
                )
            rows.append(row)
    except csv.Error as error:
        line = first_line + reader.line_num - 1
        raise Failure(f"line {line} is not CSV: {error}.") from error
    return rows


def as_numbers(values: list[str], name: str, first_row: int = 0):
    """Text as numbers; raises :class:`Failure` with the name of the column if it is none."""
    import numpy as np

    try:
        return np.array([float(value) for value in values])
    except ValueError:
        numbers = [_number(value) for value in values]
    if all(value.strip().lower() in _TRUTH for value in values):
        return np.array([_TRUTH[value.strip().lower()] for value in values])
    if None in numbers:
        row = numbers.index(None)
        raise Failure(
            f"column {name} holds text ({values[row]!r} in row {first_row + row + 1}): choose "
            "columns of numbers with --columns, or leave it out with --ignore."
        )
    return np.array(numbers)


def _number(value):
    """The number in a piece of text, NaN if it is missing; None if it is another text."""
    if value.strip() in MISSING:
        return float("nan")
    try:
        return float(value)
    except ValueError:
        return None
