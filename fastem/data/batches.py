"""What tables of rows and of sequences have in common: streams, joining, batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import numpy as np

__all__ = ["Source", "batch_of_weight", "beginning", "check_total", "in_batches", "joined_values",
           "yields_data"]  # fmt: skip

# The number of rows at the beginning of a stream that initialize a model.
_BEGINNING_ROWS = 10_000


class Source:
    """Data that come in items, one after another, for any number of passes.

    Parameters
    ----------
    source : callable or iterable
        A function that returns a new iterator, or an object that can be iterated over again and
        again.
    check : callable, optional
        Checks what is made of the items.
    once : bool, default=False
        Whether one pass is enough, so that an iterator is accepted.
    """

    #: Observations come one table after another.
    is_stream = True
    #: What an item is called.
    item_name = "array"

    def __init__(self, source, check: Callable | None = None, *, once: bool = False):
        if isinstance(source, Iterator) and not once:
            raise TypeError(
                "This stream can be read only once, and EM reads the data once for each iteration. "
                f"Pass a function that returns a new iterator over {self.item_name}s, for example "
                "fit(lambda: map(numpy.load, files)), or learn in one pass with partial_fit."
            )
        self.source = source
        self.check = check

    def items(self) -> Iterator[tuple[int, object]]:
        """The items of one pass, with their numbers."""
        number = -1
        for number, item in enumerate(self.source() if callable(self.source) else self.source):
            yield number, item
        if number < 0:
            raise ValueError(
                f"The stream has no data: it ended before its first {self.item_name}. A function "
                "that is passed as a stream must return a new iterator each time it is called."
            )


def yields_data(X) -> bool:
    """Whether ``X``, which is not a list, is something to iterate over, and not an array."""
    if callable(X) or isinstance(X, Iterator):
        return True
    looks_like_array = any(hasattr(X, name) for name in ("__array__", "__getitem__", "shape"))
    return isinstance(X, Iterable) and not looks_like_array


def joined_values(tables, name="sample_weight", default=1.0) -> np.ndarray | None:
    """The values of an optional attribute with an entry for each observation of several tables.

    None if no table has it; ``default`` for the observations of tables without it.
    """
    values = [getattr(table, name) for table in tables]
    if all(array is None for array in values):
        return None
    pairs = zip(tables, values, strict=True)
    return np.concatenate([np.full(len(t), default) if v is None else v for t, v in pairs])


def in_batches(tables: Iterable, size: int) -> Iterator:
    """The observations of ``tables`` in tables of whole batches of ``size``, but for the last.

    The rest of a table is joined with the next table, so that how a stream is cut makes no
    difference.
    """
    waiting, n_waiting = [], 0
    for table in tables:
        if n_waiting:
            missing = min(size - n_waiting, len(table))
            waiting.append(table.part(0, missing))
            n_waiting += missing
            if n_waiting < size:
                continue
            yield table.joined(waiting)
            table = table.part(missing, len(table))
        whole = len(table) // size * size
        if whole:
            yield table if whole == len(table) else table.part(0, whole)
        n_waiting = len(table) - whole
        waiting = [table.part(whole, len(table))] if n_waiting else []
    if waiting:
        yield waiting[0].joined(waiting)


def batch_of_weight(table, size: int):
    """The first batch of a table that has some weight."""
    for first in range(0, len(table), size):
        batch = table.part(first, first + size)
        if batch.sample_weight is None or batch.sample_weight.any():
            return batch
    return table


def beginning(tables: Iterator):
    """A table of the first rows of a stream, for the initialization, and all of its tables.

    It has 10,000 rows, or whole sequences of as many, however the stream is cut.
    """
    taken, parts, n_rows = [], [], 0
    for table in tables:
        taken.append(table)
        count = table.count_for(_BEGINNING_ROWS - n_rows)
        parts.append(table.part(0, count))
        n_rows += parts[-1].X.shape[0]
        if n_rows >= _BEGINNING_ROWS:
            break
    start = parts[0] if len(parts) == 1 else parts[0].joined(parts)
    return start, chain(taken, tables)


def check_total(sample_weight: np.ndarray | None, name: str = "row") -> None:
    """Raise ``ValueError`` if all weights are zero; ``name`` is what has a weight."""
    if sample_weight is not None and not sample_weight.any():
        raise ValueError(
            "The sample weights are all zero: there is nothing to learn from. Give at least one "
            f"{name} a positive weight."
        )
