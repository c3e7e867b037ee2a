"""Data cut into blocks, for algorithms that keep something of each: see incremental EM."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .batches import in_batches
from .remote import Remote
from .rows import as_data

__all__ = ["Blocks", "Size", "blocks_of", "number_of_blocks", "spread"]

# So many blocks are enough: with 40, EM needs 5 to 10 % fewer passes, and four times the steps.
_MOST_BLOCKS = 10
# Small blocks cost more for their steps than for their data.
_LEAST_ROWS = 250
_LEAST_OBSERVATIONS = 4

# A sample is a 32nd of the data, or more, up to a 16th, if it would have fewer numbers than so many
# for each parameter, or fewer rows than a block must have. It comes from so many places.
_SAMPLED, _SAMPLED_MOST = 32, 16
_LEAST_NUMBERS = 10
_PLACES = 64
# Of a second sample a quarter is enough, if there are so many at each place.
_QUARTER, _ENOUGH = 4, 16
# A start is made of a few of so many times as many rows.
_SPREAD_FROM = 4


class Size(NamedTuple):
    """How many data there are."""

    observations: int
    #: Rows, or steps of all sequences.
    rows: int
    columns: int
    #: The sum of the weights of the observations.
    weight: float


class Blocks:
    """Blocks of observations, the same and in the same order for each pass.

    Parameters
    ----------
    tables : iterable
        The data of each block; it can be iterated over again and again.
    count : int
        How many blocks there are.
    weight : float
        The weight of all observations.
    """

    def __init__(self, tables: Iterable, count: int, weight: float):
        self.tables, self.count, self.weight = tables, count, weight

    def __len__(self):
        return self.count

    def __iter__(self) -> Iterator[Any]:
        number = -1
        for number, table in enumerate(self.tables):
            if number == self.count:
                raise ValueError(_changed(self.count, "more"))
            yield table
        if number + 1 < self.count:
            raise ValueError(_changed(self.count, f"only {number + 1}"))

    def samples(self, n_parameters: int) -> tuple[Any, Any] | None:
        """Two samples of the observations that have none in common, each as one table.

        Each is from up to 64 places, evenly spread, in case the data are sorted. Those of the
        second are halfway between those of the first: neighbors may be alike. Two models are
        only compared with it, and of a large one there is but a quarter. None if the data are read
        anew in each pass or lie on other machines, or if a sample that has ten numbers for each of
        ``n_parameters`` parameters would be more than a sixteenth of the data.
        """
        tables = self.tables
        if not isinstance(tables, list) or not all(hasattr(table, "joined") for table in tables):
            return None
        n_rows = sum(table.X.shape[0] for table in tables)
        n_columns = tables[0].X.shape[1]
        rows = max(n_rows / _SAMPLED, _LEAST_NUMBERS * n_parameters / n_columns, _LEAST_ROWS)
        if rows > n_rows / _SAMPLED_MOST:
            return None
        one, other = [], []
        for table in tables:
            wanted = round(rows / n_rows * len(table))
            places = max(1, min(_PLACES // len(tables), wanted))
            count = wanted // places
            fewer = max(min(count, _ENOUGH), count // _QUARTER)
            starts = np.linspace(0, len(table), 2 * places, endpoint=False).astype(int)
            for first, second in starts.reshape(-1, 2) if count else ():
                one.append(table.part(first, first + count))
                other.append(table.part(second, second + fewer))
        if not one:
            return None
        samples = one[0].joined(one), one[0].joined(other)
        for table in samples:
            if table.sample_weight is not None and not table.sample_weight.any():
                return None
        return samples


def _changed(count, now):
    return (
        f"There were {count} blocks of data in the first pass, and now there are {now}: a stream "
        "must have the same data each time."
    )


def blocks_of(data, n_blocks: int | None = None) -> Blocks:
    """``data`` in ``n_blocks`` blocks, or in as many as their size suggests.

    Blocks are consecutive observations, as many in each, except for the last. Those without any
    weight are left out. A stream is read once to count its observations; how it is cut into tables
    makes no difference to the blocks. Data on other machines have in each block a part of every
    shard, so that all machines work at the same time.
    """
    if isinstance(data, Remote) or hasattr(data, "blocks"):
        return data.blocks(n_blocks)
    data = data if hasattr(data, "tables") else as_data(data)
    size, counts = _size_of(data)
    per_block = -(-size.observations // number_of_blocks(size, n_blocks))
    if data.is_stream:
        starts = np.arange(0, size.observations, per_block)
        n_weighted = int(np.logical_or.reduceat(counts, starts).sum())
        return Blocks(_Cut(data, per_block), n_weighted, size.weight)
    # They are kept, because tables keep what models find out about them.
    tables = list(_Cut(data, per_block))
    tables = [data] if len(tables) == 1 else tables
    return Blocks(tables, len(tables), size.weight)


def spread(data, n_rows: int):
    """At least ``n_rows`` rows of a large table, from 64 places, in case the data are sorted.

    The first rows of the sample, any number of them, are from places all over the data too. The
    data themselves if they are not several times as many, if they are no table in memory, or if
    those rows have no weight.
    """
    if not hasattr(data, "joined") or data.X.shape[0] < _SPREAD_FROM * n_rows:
        return data
    count = math.ceil(len(data) * n_rows / data.X.shape[0] / _PLACES)
    # Numbers whose binary digits are reversed: halves, then quarters, then eighths.
    order = [int(f"{place:0{_PLACES.bit_length() - 1}b}"[::-1], 2) for place in range(_PLACES)]
    starts = np.linspace(0, len(data), _PLACES, endpoint=False).astype(int)[order]
    found = data.joined([data.part(first, first + count) for first in starts])
    weights = found.sample_weight
    return found if weights is None or weights.all() else data


def number_of_blocks(size: Size, n_blocks: int | None = None) -> int:
    """The number of blocks for so many data: ``n_blocks``, or 10 unless blocks were too small.

    A block has at least 250 rows, at least as many as there are columns, and at least four
    sequences.
    """
    if n_blocks is None:
        least_rows = max(_LEAST_ROWS, size.columns)
        n_blocks = min(
            _MOST_BLOCKS, size.rows // least_rows, size.observations // _LEAST_OBSERVATIONS
        )
    return max(1, min(n_blocks, size.observations))


class _Cut:
    """Tables of ``size`` observations, read anew in each pass."""

    def __init__(self, data, size: int):
        self.data, self.size = data, size

    def __iter__(self):
        for table in in_batches(self.data.tables(), self.size):
            for first in range(0, len(table), self.size):
                part = table.part(first, first + self.size)
                if part.sample_weight is None or part.sample_weight.any():
                    yield part


def _size_of(data) -> tuple[Size, np.ndarray]:
    """The size of data, read once, and which observations have some weight."""
    rows, columns, weight, counts = 0, 0, 0.0, []
    for table in data.tables():
        rows += table.X.shape[0]
        columns = table.X.shape[1]
        if table.sample_weight is None:
            weight += float(len(table))
            counts.append(np.ones(len(table), bool))
        else:
            weight += float(table.sample_weight.sum())
            counts.append(table.sample_weight > 0)
    found = np.concatenate(counts)
    return Size(len(found), rows, columns, weight), found
