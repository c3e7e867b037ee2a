"""Documents as tables of how often each count occurs, which is all that learning needs of them."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from scipy import sparse

from .. import checks
from ..data.blocks import Blocks, blocks_of
from ..data.remote import Remote
from ..data.rows import Stream, Table, as_data, read_rows
from ..kernels.dirichlet import count_tables as kernels
from ..kernels.dirichlet.documents import sparse_rows
from ..parallel import chunks, in_order

__all__ = ["CountTables", "Documents", "as_documents", "documents_of"]

#: Lengths up to this are tabulated; longer ones are kept as values.
_LENGTH_WIDTH = 1024
# Numbers in the tables of a chunk: about what the second level of a core's cache holds.
_TABLE_SIZE = 2**17

_NONE = np.empty(0)


class CountTables:
    """How often each count of each word, and each length, occurs among documents.

    Tables add: those of two sets of documents are those of both together. A sum over documents of
    a function of their counts is a sum over the tables, however many documents there are.

    Parameters
    ----------
    n_words : int
        The size D of the vocabulary.
    """

    def __init__(self, n_words: int):
        self.n_words = n_words
        self.width = int(np.clip(_TABLE_SIZE // n_words, 16, 256))
        self.below = np.zeros(n_words * self.width)
        self.lengths_below = np.zeros(_LENGTH_WIDTH)
        self.far = [np.empty(0, np.int64), _NONE, _NONE]
        self.weight = 0.0
        self._finished = None
        self._parts = None

    @classmethod
    def of(cls, data, n_jobs=None) -> CountTables:
        """The tables of an array, a sparse matrix, a table or a stream of these."""
        if isinstance(data, CountTables):
            return data
        if isinstance(data, Remote):
            return data.sum(functools.partial(cls.of, n_jobs=data.n_jobs))
        total = None
        for table in as_documents(data).tables():
            X = table.X = as_counts(table.X)
            if table.sample_weight is not None:
                checks.check_weights(table.sample_weight, X.shape[0])
            if total is None:
                total = cls(X.shape[1])
            if X.shape[1] != total.n_words:
                raise ValueError(
                    f"All documents need the same words; some have {total.n_words} and others "
                    f"{X.shape[1]}."
                )
            for part in in_order(
                lambda chunk, t=table: cls._of_rows(t.X, t.sample_weight, *chunk),
                _chunks(X, total.width),
                n_jobs,
            ):
                total += part
        return total

    @classmethod
    def in_blocks(cls, data, n_blocks=None, n_jobs=None) -> CountTables:
        """The tables of all documents, which keep those of each block."""
        parts = [cls.of(block, n_jobs) for block in blocks_of(data, n_blocks)]
        total = cls(parts[0].n_words)
        for tables in parts:
            total += tables
        total._parts = parts
        return total

    def blocks(self, n_blocks=None) -> Blocks:
        """The blocks that these tables were made of; ``n_blocks`` was settled then."""
        parts = self._parts or [self]
        return Blocks(parts, len(parts), self.weight)

    @classmethod
    def _of_rows(cls, X, sample_weight, start, stop):
        tables = cls(X.shape[1])
        weights = _NONE
        if sample_weight is not None:
            weights = np.ascontiguousarray(sample_weight[start:stop], dtype=float)
        is_sparse = sparse.issparse(X)
        part = documents_of(X, start, stop) if is_sparse else X[start:stop]
        # There may be as many far values; memory that is never written to is never taken.
        room = (len(part.indices) if is_sparse else part.size) + stop - start
        rest = kernels.Far(np.empty(room, np.int64), np.empty(room), np.empty(room))
        arguments = (weights, tables.width, tables.below, _LENGTH_WIDTH, tables.lengths_below, rest)
        if is_sparse:
            n_far = kernels.count_sparse(*part, X.shape[1], *arguments)
        else:
            rows, kept_alive = read_rows(part, 0, stop - start)
            n_far, wrong = kernels.count_array(rows, len(kept_alive), *arguments)
            if wrong >= 0:
                raise ValueError(_not_a_count(X, start * X.shape[1] + wrong))
        tables.far = [array[:n_far].copy() for array in rest]
        tables.weight = float(stop - start) if sample_weight is None else float(weights.sum())
        return tables

    def __iadd__(self, other):
        self.below += other.below
        self.lengths_below += other.lengths_below
        self.far = [np.concatenate(pair) for pair in zip(self.far, other.far, strict=True)]
        self.weight += other.weight
        self._finished = None
        return self

    def __add__(self, other):
        total = CountTables(self.n_words)
        for tables in (self, other):
            total += tables
        # Values that recur are kept once, so that tables do not grow with the documents.
        total.far = _merge_equal(*total.far)
        return total

    def finished(self) -> kernels.Tables:
        """The tables as kernels take them."""
        if self._finished is None:
            self._finished = self._finish()
        return self._finished

    def _finish(self):
        words, values, weights = _merge_equal(*self.far)
        n_tables = self.n_words + 1
        far_starts = np.searchsorted(words, np.arange(n_tables + 1))
        sizes = np.zeros(n_tables, np.int64)
        parts = (
            (self.below, self.n_words, self.width, 0),
            (self.lengths_below, 1, _LENGTH_WIDTH, self.n_words),
        )
        for below, count, width, first in parts:
            kernels.table_sizes(below, count, width, far_starts, first, sizes)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        above = np.empty(starts[-1])
        for below, count, width, first in parts:
            kernels.fill_tables(below, count, width, far_starts, weights, first, starts, above)
        return kernels.Tables(starts, above, far_starts, values, weights, self.weight)

    # What learning asks of documents ----------------------------------------------------------

    def log_likelihood(self, alpha) -> float:
        """The mean over the documents of ``log p(v)``, coefficients included."""
        self._check(alpha)
        return kernels.log_likelihood(self.finished(), alpha, alpha.sum()) + self.log_coefficient

    @property
    def log_coefficient(self) -> float:
        """The mean over the documents of ``log(n! / Π v_j!)``."""
        return -kernels.log_likelihood(self.finished(), np.ones(self.n_words), 1.0)

    def derivatives(self, alpha):
        """Each word's own part, and last the common part, of the first and second derivatives.

        The gradient of the mean log-likelihood is ``first[:-1] - first[-1]``, and its Hessian
        ``second[-1] - diag(second[:-1])``.
        """
        self._check(alpha)
        first, second = np.empty(self.n_words + 1), np.empty(self.n_words + 1)
        kernels.derivatives(self.finished(), alpha, first, second)
        return first, second

    def _check(self, alpha):
        if np.shape(alpha) != (self.n_words,):
            raise ValueError(
                f"alpha must have one entry for each of the {self.n_words} words; got the shape "
                f"{np.shape(alpha)}."
            )

    def moments(self):
        """``Σ_n v_nj`` and ``Σ_n v_nj (v_nj - 1)`` for each word, and last for the lengths."""
        first, second = np.empty(self.n_words + 1), np.empty(self.n_words + 1)
        kernels.moments(self.finished(), first, second)
        return first, second

    def lengths(self):
        """The lengths that occur, and the share of the weight that has each."""
        tables = self.finished()
        far = slice(tables.far_starts[self.n_words], tables.far_starts[self.n_words + 1])
        lengths = np.concatenate([np.arange(_LENGTH_WIDTH + 1.0), tables.far_values[far]])
        shares = np.concatenate([[0.0], self.lengths_below, tables.far_weights[far]])
        empty = self.weight - shares.sum()
        shares[0] = empty if empty > 1e-12 * self.weight else 0.0  # or it is rounding
        kept = shares > 0
        return lengths[kept], shares[kept] / shares.sum()


def _merge_equal(words, values, weights):
    """Sorted by word and value; equal values of a word become one, their weights added."""
    if not len(words):
        return [words, values, weights]
    order = np.lexsort((values, words))
    words, values, weights = words[order], values[order], weights[order]
    new = np.flatnonzero(np.r_[True, (np.diff(words) != 0) | (np.diff(values) != 0)])
    return [words[new], values[new], np.add.reduceat(weights, new)]


class Documents(NamedTuple):
    """Documents as sparse rows."""

    indptr: np.ndarray
    #: The words of all documents, one document after another.
    indices: np.ndarray
    counts: np.ndarray


def as_documents(data) -> Table | Stream:
    """``data`` as a table or a stream, sparse matrices as rows."""
    if sparse.issparse(data):
        return Table(as_rows(data))
    return as_data(data)


def as_counts(X):
    """An array or a sparse matrix such that kernels can take its rows."""
    if sparse.issparse(X):
        return as_rows(X)
    X = np.asarray(X)
    checks.check_table(X)
    return X


def as_rows(X):
    """A sparse matrix by rows, each word once in a row."""
    X = X.tocsr()
    if not checks.is_numeric(X):
        raise TypeError(f"Counts are real numbers; got a sparse matrix of dtype {X.dtype}.")
    # Sparse matrices are trusted by SciPy, too, which is told by arrays where to read and write.
    X.check_format(full_check=True)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def documents_of(X, start, stop) -> Documents:
    """Some rows of what :func:`as_counts` gave, as kernels take documents."""
    if sparse.issparse(X):
        first, last = X.indptr[start], X.indptr[stop]
        counts = X.data[first:last]
        wrong = counts < 0
        if counts.dtype.kind == "f":
            wrong |= (counts != np.floor(counts)) | ~np.isfinite(counts)
        if wrong.any():
            at = int(first) + int(np.argmax(wrong))
            row = int(np.searchsorted(X.indptr, at, side="right")) - 1
            raise ValueError(_say(row, int(X.indices[at]), X.data[at]))
        if counts.dtype.type not in (np.int64, np.float64):
            counts = counts.astype(np.float64)
        indptr = X.indptr[start : stop + 1].astype(np.int64) - first
        return Documents(indptr, X.indices[first:last], counts)
    part = X[start:stop]
    indptr = np.empty(stop - start + 1, np.int64)
    # Words and counts of the nonzero entries; memory that is not written to is not taken.
    indices, counts = np.empty(part.size, np.int32), np.empty(part.size)
    rows, kept_alive = read_rows(part, 0, stop - start)
    wrong = sparse_rows(rows, len(kept_alive), indptr, indices, counts)
    if wrong >= 0:
        raise ValueError(_not_a_count(X, start * X.shape[1] + wrong))
    n = int(indptr[-1])
    return Documents(indptr, indices[:n], counts[:n])


def _not_a_count(X, at):
    row, column = divmod(at, X.shape[1])
    return _say(row, column, X[row, column])


def _say(row, column, value):
    what = "Documents are counts of words and must be whole numbers"
    if value < 0:
        # In the words that scikit-learn begins with.
        what = "Negative values in data: documents are counts of words"
    return f"{what}; row {row}, column {column} is {value}."


def _chunks(X, width):
    """How rows are cut for threads: a function of the sizes alone.

    A chunk should be much more work than to add its tables to the others.
    """
    n_rows, n_words = X.shape
    per_row = max(1, X.nnz // max(n_rows, 1)) if sparse.issparse(X) else n_words
    return chunks(n_rows, least=max(256, max(2**18, 16 * n_words * width) // per_row))
