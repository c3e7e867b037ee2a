"""Tables cut into batches, and the beginning of a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np

__all__ = ["batch_of_weight", "beginning", "check_total", "in_batches", "joined_weights"]

# The number of rows at the beginning of a stream that initialize a model.
_BEGINNING_ROWS = 10_000


def joined_weights(tables) -> np.ndarray | None:
    """The weights of the observations of several tables; None if all are one."""
    weights = [table.sample_weight for table in tables]
    if all(w is None for w in weights):
        return None
    return np.concatenate(
        [np.ones(len(t)) if w is None else w for t, w in zip(tables, weights, strict=True)]
    )


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
