"""What is kept of the course of learning, and shown to callbacks."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

__all__ = ["MOST_ENTRIES", "Report", "halved", "is_history", "with_entry"]

#: Entries of a history, at most; when there are more, every two become one.
MOST_ENTRIES = 256


class Report(NamedTuple):
    """What a callback is told."""

    #: The weight of all observations behind the model.
    n_observations: float
    #: The weight of the observations that it has just learned from.
    weight: float
    #: Their mean log-likelihood. In ``partial_fit`` under the model before it learned from them,
    #: so that this is a test on new data (progressive validation); in ``fit``, of all data under
    #: :attr:`model`.
    log_likelihood: float
    #: Iterations so far; 0 in ``partial_fit``.
    n_iter: int
    #: The present model.
    model: Any
    #: The estimator, which has its new attributes only when learning ends.
    source: Any
    #: Whether this is within an iteration: incremental EM tells of each block of its data. Then
    #: :attr:`log_likelihood` is that of the block under the model before, and :attr:`weight` the
    #: block's.
    within: bool = False

    @property
    def estimator(self):
        """A fitted estimator with the present model, which later steps do not change."""
        estimator = copy.copy(self.source)
        estimator._set_model(self.model)
        return estimator


def with_entry(history, n_observations: float, weight: float, log_likelihood: float) -> list:
    """A history with one more entry: a new list, of at most 256 entries.

    Each is ``[n_observations, weight, log_likelihood]``: the observations after it, the weight of
    its own, and their mean log-likelihood before they were learned from. When there are more,
    every two become one.
    """
    entries = [*history, [n_observations, weight, log_likelihood]]
    return entries if len(entries) <= MOST_ENTRIES else halved(entries)


def halved(entries: list) -> list:
    """A new list in which every two entries are one; the last is kept if their number is odd."""
    last = entries[len(entries) // 2 * 2 :]
    pairs = zip(entries[::2], entries[1::2], strict=False)
    return [*(_joined(*pair) for pair in pairs), *last]


def _joined(one, other):
    weight = one[1] + other[1]
    return [other[0], weight, (one[1] * one[2] + other[1] * other[2]) / weight]


def is_history(value) -> bool:
    """Whether this can be a history."""
    return isinstance(value, list) and all(
        isinstance(entry, list)
        and len(entry) == 3
        and all(isinstance(part, (int, float)) for part in entry)
        for entry in value
    )
