"""Tables that commands write: all digits of all numbers."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np

from .errors import Failure, Usage, check_place
from .tables import format_of

__all__ = ["Output", "check_out", "write_number"]


def check_out(path: Path | None) -> None:
    """Raise before anything is computed if a table cannot be written there."""
    if path is None:
        return
    try:
        kind = format_of(str(path))
    except Failure:
        kind = None
    if kind is None or path.suffix == ".gz":
        raise Usage(f"--out: {path} must end with .csv, .tsv, .parquet, .npy or .npz.")
    check_place(path)
    if kind == "parquet":
        _pyarrow()


class Output:
    """Columns for a table, in order. Those of the data keep their names, and others make way."""

    def __init__(self):
        self._columns: list[tuple[str, Any]] = []
        self._are_of_data: list[bool] = []

    def add(self, name, values, *, of_data=False):
        """One more column; ``of_data`` if it has the name of a column of the data."""
        self._columns.append((name, values))
        self._are_of_data.append(of_data)

    def add_all(self, array, names, *, of_data=False):
        """The columns of an array."""
        for number, name in enumerate(names):
            self.add(name, array[:, number], of_data=of_data)

    def write(self, path: Path | None) -> None:
        """Write the table; a name that is taken is followed by underscores."""
        names = [name for name, _ in self._columns]
        taken = set()
        # Columns of the data come first.
        for number in sorted(range(len(names)), key=lambda n: not self._are_of_data[n]):
            while names[number] in taken:
                names[number] += "_"
            taken.add(names[number])
        _write({name: v for name, (_, v) in zip(names, self._columns, strict=True)}, path)


def write_number(name: str, number, path: Path | None) -> None:
    """Write a single number: alone to text, and as a column of a name to other files."""
    text = f"{float(number)!r}\n"
    if path is None:
        sys.stdout.write(text)
    elif format_of(str(path)) in ("csv", "tsv"):
        path.write_text(text, encoding="utf-8")
    else:
        _write({name: [float(number)]}, path)


def _write(columns: dict, path: Path | None) -> None:
    """Write columns of equal length, by name, to a file, or as CSV to standard output."""
    kind = "csv" if path is None else format_of(str(path))
    if kind in ("csv", "tsv"):
        separator = "\t" if kind == "tsv" else ","
        if path is None:
            _write_text(sys.stdout, columns, separator)
        else:
            with path.open("w", newline="", encoding="utf-8") as file:
                _write_text(file, columns, separator)
    elif kind == "parquet":
        pyarrow, parquet = _pyarrow()
        parquet.write_table(pyarrow.table({name: np.asarray(v) for name, v in columns.items()}),
                            path)  # fmt: skip
    elif kind == "npz":
        # Open files are written to under the name that they have.
        with path.open("wb") as file:
            np.savez(file, **{name: np.asarray(values) for name, values in columns.items()})
    else:
        arrays = [np.asarray(values) for values in columns.values()]
        numbers = [array for array in arrays if array.dtype.kind in "iuf"]
        with path.open("wb") as file:
            np.save(file, np.column_stack(numbers) if len(numbers) > 1 else numbers[0])


def _write_text(file, columns, separator):
    writer = csv.writer(file, delimiter=separator, lineterminator="\n")
    writer.writerow(columns)
    # Python's own numbers are written with the digits that it takes to read them back.
    writer.writerows(zip(*(np.asarray(v).tolist() for v in columns.values()), strict=True))


def _pyarrow():
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise Failure(
            'Parquet needs pyarrow, which is not installed: pip install "fastem[tables]".'
        ) from error
    return pyarrow, parquet
