"""Values, names and headers in text."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator

from .errors import Failure

__all__ = ["MISSING", "Unfinished", "article", "as_numbers", "is_header", "records_of", "rows_of",
           "separator_of"]  # fmt: skip

#: What stands for a missing value.
MISSING = frozenset({"", "NA", "N/A", "n/a", "NaN", "nan", "NAN", "null", "NULL", "None", "<NA>"})
_TRUTH = {"true": 1.0, "false": 0.0}


def article(name: str) -> str:
    """The name of a class with its article."""
    return f"{'an' if name.startswith('HMM') else 'a'} {name}"


def separator_of(line: str) -> str:
    """What is between the values of a line; what stands in quotation marks does not count."""
    bare = re.sub(r'"[^"]*(?:"|$)', "", line)
    return next((mark for mark in ",\t;" if mark in bare), ",")


def is_header(values: list[str]) -> bool:
    """Whether these are names of columns: one of them is neither a number nor missing."""
    return any(_number(value) is None for value in values)


class Unfinished(Failure):
    """Lines end within quotation marks."""

    def __init__(self, message, n_lines):
        super().__init__(message)
        #: How many lines there are before the row that has no end.
        self.n_lines = n_lines


def records_of(lines: Iterable[str], separator: str, first_line: int):
    """The values of each row, whatever their number, and how many lines have been read."""
    reader = csv.reader(lines, delimiter=separator, strict=True)
    n_lines = 0
    try:
        for row in reader:
            n_lines = reader.line_num
            yield row, n_lines
    except csv.Error as error:
        why = str(error)
        if why.startswith("new-line character"):
            why = "a carriage return is not followed by a line feed"
        message = f"line {first_line + reader.line_num - 1} is not CSV: {why}."
        if why == "unexpected end of data":
            raise Unfinished(message, n_lines) from error
        raise Failure(message) from error


def rows_of(
    lines: Iterable[str], separator: str, n_columns: int, first_line: int
) -> Iterator[list[str]]:
    """Rows of values; raises :class:`Failure` at one that has more or fewer than the first."""
    for row, n_lines in records_of(lines, separator, first_line):
        if not row and n_columns > 1:
            continue
        row = row or [""]  # in a single column, a missing value
        if len(row) != n_columns:
            values = "1 value" if len(row) == 1 else f"{len(row)} values"
            raise Failure(
                f"line {first_line + n_lines - 1} has {values}, and the first line has {n_columns}."
            )
        yield row


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
            f"column {name} holds text ({values[row]!r} in row {first_row + row + 1}): "
            f"{_advice(values[row])}."
        )
    return np.array(numbers)


def _advice(value):
    """What to do about text in the place of a number."""
    for mark in ";\t| ":
        if mark in value and all(part and _number(part) is not None for part in value.split(mark)):
            return f"if these are several numbers, name what separates them: --separator {mark!r}"
    if value.count(",") == 1 and _number(value.replace(",", ".")) is not None:
        return "decimals begin with a point, not with a comma"
    return "choose columns of numbers with --columns, or leave it out with --ignore"


def _number(value):
    """The number in a piece of text, NaN if it is missing; None if it is another text."""
    if value.strip() in MISSING:
        return float("nan")
    try:
        return float(value)
    except ValueError:
        return None
