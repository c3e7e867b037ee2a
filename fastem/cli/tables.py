"""Tables in files: text, Parquet, and NumPy's and SciPy's arrays.

Each has ``names`` (None without a header), ``shape``, ``numbers(columns)`` and ``labels(column)``.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .arrivals import opened, standard_input, unpacking
from .errors import Failure, Usage
from .text import MISSING, as_numbers, is_header, records_of, rows_of, separator_of

__all__ = ["FirstLine", "format_of", "read_table", "separator_for", "title"]


def read_table(source: str, options):
    """The table in a file, or in standard input for ``-``."""
    kind = format_of(source, options.format)
    if kind == "parquet":
        return ParquetTable(_file_or_bytes(source))
    if kind == "npy":
        return ArrayTable(_loaded(source))
    if kind == "npz":
        return ArrayTable(_from_npz(source, options.key))
    return TextTable(_text(source), separator_for(kind, options), options.header)


def separator_for(kind: str, options) -> str | None:
    """What options say is between values; None leaves it to the first line."""
    if options.separator is None:
        return "\t" if kind == "tsv" else None
    if len(options.separator) != 1 or options.separator in '"\r\n':
        raise Usage(
            "--separator must be one character, and no quotation mark or line end; got "
            f"{options.separator!r}."
        )
    return options.separator


def format_of(source: str, given: str | None = None) -> str:
    """The format of a file, by its name unless it is given."""
    if given:
        return given
    if source == "-":
        return "csv"
    suffixes = [suffix.lower() for suffix in Path(source).suffixes]
    if suffixes[-1:] == [".gz"]:
        suffixes.pop()
    known = {".csv": "csv", ".txt": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet",
             ".pq": "parquet", ".npy": "npy", ".npz": "npz"}  # fmt: skip
    kind = known.get(suffixes[-1] if suffixes else "", None)
    if kind is None:
        raise Failure(
            f"{source}: the format of a file is known by its ending, .csv, .tsv, .parquet, .npy or "
            ".npz; give --format for others."
        )
    return kind


def title(names, column: int) -> str:
    """A column for messages."""
    return str(column) if names is None else repr(names[column])


def _file_or_bytes(source):
    if source == "-":
        return io.BytesIO(standard_input().read())
    with open(source, "rb"):  # what is missing is reported alike by all
        return source


def _text(source):
    if source == "-":
        content = standard_input().read()
    else:
        with unpacking(source), opened(source) as file:
            content = file.read()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Failure(f"{source} is not text in UTF-8: {error.reason}.") from error


class FirstLine(NamedTuple):
    """What the first line of text tells, or the first lines, if a name goes over several."""

    separator: str
    #: The names of the columns, if it is a header.
    names: list[str] | None
    n_columns: int
    #: How many lines it takes.
    n_lines: int

    @classmethod
    def of(cls, lines: Iterable[str], separator: str | None, header: str) -> FirstLine:
        """``separator`` and ``header`` are what options say."""
        lines = iter(lines)
        line = next(lines)
        separator = separator or separator_of(line)
        values, n_lines = next(records_of(chain([line], lines), separator, 1))
        named = header == "yes" or (header == "auto" and is_header(values))
        return cls(separator, _names(values) if named else None, len(values), n_lines)


class TextTable:
    """Comma-separated values and the like."""

    def __init__(self, text: str, separator: str | None, header: str):
        start = len(text) - len(text.lstrip("\r\n"))
        n_before, text = text[:start].count("\n"), text[start:]
        if not text.strip():
            raise Failure("there are no data: the input is empty.")
        first_line = FirstLine.of(_lines(text), separator, header)
        self.separator, self.names, self._n_columns, n_lines = first_line
        n_header = 0 if self.names is None else n_lines
        self._text = text[sum(map(len, islice(_lines(text), n_header))) :].rstrip("\r\n")
        self._first_line = 1 + n_before + n_header
        self._rows: list[list[str]] | None = None

    @property
    def shape(self):
        return None, self._n_columns

    def numbers(self, columns: list[int]) -> np.ndarray:
        quick = self._by_pandas(columns) if find_spec("pandas") else self._by_numpy(columns)
        if quick is not None:
            return quick
        rows = self._strictly()
        numbers = np.empty((len(rows), len(columns)))
        for place, column in enumerate(columns):
            values = [row[column] for row in rows]
            numbers[:, place] = as_numbers(values, title(self.names, column))
        return numbers

    def labels(self, column: int) -> list[str]:
        return [row[column].strip() for row in self._strictly()]

    def _strictly(self):
        """All rows as text, each with as many values as the first line."""
        if self._rows is None:
            lines = io.StringIO(self._text, newline="")
            self._rows = [*rows_of(lines, self.separator, self._n_columns, self._first_line)]
        return self._rows

    def _by_pandas(self, columns):
        """Numbers by pandas; None if a value is not a plain number, which it may take for one."""
        import pandas

        try:
            frame = pandas.read_csv(
                io.StringIO(self._text), sep=self.separator, header=None, keep_default_na=False,
                na_values=sorted(MISSING), skipinitialspace=True, low_memory=False,
                skip_blank_lines=self._n_columns > 1,
                **_exactly(pandas.__version__),
            )  # fmt: skip
        except (ValueError, OverflowError):  # pandas' own errors are among these
            return None
        if frame.shape[1] != self._n_columns or frame.iloc[:, -1].isna().any():
            # Rows that are too short end in missing values.
            return None
        if any(frame[column].dtype.kind not in "if" for column in columns):
            return None
        return frame[columns].to_numpy(dtype=np.float64)

    def _by_numpy(self, columns):
        if columns != list(range(self._n_columns)) or not self._text.strip():
            return None  # it does not look at the others, not even whether they are there
        if self._n_columns == 1 and re.search(r"^\s*$", self._text, re.MULTILINE):
            return None  # it leaves out what is missing
        try:
            return np.loadtxt(
                io.StringIO(self._text), delimiter=self.separator, ndmin=2, comments=None,
                quotechar='"',
            )  # fmt: skip
        except ValueError:
            return None


def _lines(text: str) -> Iterator[str]:
    """The lines of text with their ends, one after another: there may be very many."""
    return (found[0] for found in re.finditer(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+", text))


def _exactly(version: str) -> dict[str, str]:
    """What makes pandas read numbers exactly, which it does by itself since 3.1."""
    major, minor = (int(part) for part in version.split(".")[:2])
    return {} if (major, minor) >= (3, 1) else {"float_precision": "round_trip"}


def _names(values: list[str]) -> list[str]:
    """The names in a first line; raises :class:`Failure` if two are the same."""
    names = [value.strip() for value in values]
    names[0] = names[0].removeprefix("#").strip()  # as numpy.savetxt writes it
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Failure(f"two columns have the name {twice!r}; give --header no to use numbers.")
    return names


class ParquetTable:
    """A Parquet file, of which only the columns that are used are read."""

    def __init__(self, source):
        try:
            from pyarrow import ArrowException, parquet
        except ImportError as error:
            raise Failure(
                'Parquet needs pyarrow, which is not installed: pip install "fastem[tables]".'
            ) from error
        try:
            self._file = parquet.ParquetFile(source)
        except ArrowException as error:
            raise Failure(f"{source} is not a Parquet file: {error}") from error
        self.names = list(self._file.schema_arrow.names)
        self.shape = self._file.metadata.num_rows, len(self.names)

    def numbers(self, columns: list[int]) -> np.ndarray:
        import pyarrow

        numbers = np.empty((self.shape[0], len(columns)))
        for place, column in enumerate(columns):
            values = self._column(column)
            text = pyarrow.types.is_string(values.type) or pyarrow.types.is_large_string(
                values.type
            )
            try:
                if text:
                    raise pyarrow.ArrowInvalid("text")
                numbers[:, place] = values.cast(pyarrow.float64(), safe=False).to_numpy()
            except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
                raise Failure(
                    f"column {self.names[column]!r} holds {'text' if text else values.type}: "
                    "choose columns of numbers with --columns, or leave it out with --ignore."
                ) from error
        return numbers

    def labels(self, column: int) -> list[str]:
        return ["" if value is None else str(value) for value in self._column(column).to_pylist()]

    def _column(self, column):
        return self._file.read(columns=[self.names[column]]).column(0)


class ArrayTable:
    """An array of NumPy, which may have three dimensions, or a sparse matrix of SciPy."""

    names = None

    def __init__(self, array):
        if array.dtype.kind not in "iufb":
            raise Failure(f"the array holds {array.dtype}, and numbers are needed.")
        if array.ndim == 1:
            array = array[:, None]
        #: The number of rows of each sequence, if the array says so.
        self.lengths = None
        if array.ndim == 3:
            self.lengths = np.full(array.shape[0], array.shape[1])
            array = array.reshape(-1, array.shape[2])
        if array.ndim != 2:
            raise Failure(
                f"the array has {array.ndim} dimensions: rows and columns are needed, or "
                "sequences, rows and columns."
            )
        self.array = array
        self.shape = array.shape

    def numbers(self, columns: list[int]):
        array = self.array
        if columns != list(range(array.shape[1])):
            array = array[:, columns]
        return array.astype(np.float64) if array.dtype.kind == "b" else array

    def labels(self, column: int) -> list[str]:
        values = self.array[:, [column]]
        values = values.toarray() if hasattr(values, "toarray") else values
        return [_label(value) for value in values[:, 0].tolist()]


def _label(value: float) -> str:
    """A number as a label; a missing one is no label."""
    if isinstance(value, float) and not value.is_integer():
        return "" if math.isnan(value) else repr(value)
    return repr(int(value))


def _loaded(source, **options):
    file = _file_or_bytes(source)
    try:
        if isinstance(file, str) and not options:
            return np.load(file, mmap_mode="r")
        return np.load(file)
    except (ValueError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.filename:
            raise
        raise Failure(f"{source} is not a file of NumPy arrays without pickles.") from error


def _from_npz(source, key):
    import zipfile

    from scipy import sparse

    source = _file_or_bytes(source)
    try:
        file = np.load(source)
        if not hasattr(file, "files"):
            raise Failure(f"{source} holds one array: give --format npy.")
        with file:
            names = file.files
            if key is None and {"format", "shape", "data"} <= set(names):
                if hasattr(source, "seek"):
                    source.seek(0)
                return sparse.csr_array(sparse.load_npz(source))
            if key is None:
                key = names[0] if len(names) == 1 else "X" if "X" in names else None
            if not names:
                raise Failure("the file holds no arrays.")
            if key not in names:
                raise Failure(f"the file has the arrays {', '.join(names)}: choose with --key.")
            return file[key]
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise Failure(f"{source} is not a file of NumPy arrays without pickles.") from error
