"""One side of a comparison: how a library does a task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["Disagreement", "Problem", "Side", "difference"]


@dataclass
class Problem:
    """What all sides are given: the data, the start, the settings."""

    shape: Any
    X: Any
    #: The parameters to start from, or to use.
    start: dict[str, np.ndarray]
    lengths: np.ndarray | None = None
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass
class Side:
    """How a library does a task.

    ``run(n)`` makes n iterations from the start, or does the task if it has none; its result goes
    to ``answer``, which returns what all sides must agree on. ``answer`` is not timed.
    """

    run: Callable[[int | None], Any]
    answer: Callable[[Any], float | np.ndarray]
    iterates: bool = True
    #: After how many iterations the answers are compared.
    agrees_after: int = 2
    #: How far apart the answers may be, relative to their size.
    tolerance: float = 1e-8
    #: Whether the first call compiles, and must not count.
    compiles: bool = False
    #: Whether this side was stopped before it was done: then its answer may be less than ours.
    stopped: Callable[[Any], bool] | None = None
    #: What must be known to read the numbers.
    note: str = ""
    #: How many calls a run makes; times are those of one.
    n_calls: int = 1


class Disagreement(Exception):
    """Two sides do not give the same answer, so that their times cannot be compared."""


def difference(ours, theirs) -> float:
    """The largest difference of two answers, relative to the largest entry; infinite if NaN."""
    ours, theirs = np.asarray(ours, dtype=float), np.asarray(theirs, dtype=float)
    if ours.shape != theirs.shape:
        return np.inf
    gap = np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1e-300)
    return float(gap) if np.isfinite(gap) else np.inf
