"""A side that is timed, and whose answers are kept."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from .side import Side
from .timing import seconds

__all__ = ["Measured"]


class Measured:
    """A side in this process; :class:`~fastem.bench.worker.Elsewhere` is one in another."""

    def __init__(self, side: Side, clock=perf_counter):
        self._side = side
        self._clock = clock
        self._last: tuple[int | None, Any] | None = None
        self._answers: dict[int | None, Any] = {}
        self.iterates = side.iterates
        self.agrees_after = side.agrees_after
        self.tolerance = side.tolerance
        self.compiles = side.compiles
        self.note = side.note

    def seconds(self, n_iter: int | None = None) -> float:
        """How long a run, or one of its calls, takes."""
        # The result of the run before goes first: results may be large.
        self._last = None
        took, state = seconds(self._side.run, n_iter, clock=self._clock)
        self._last = n_iter, state
        return took / self._side.n_calls

    def best(self, budget: float, most: int = 100_000) -> float:
        """The least such time, of as many runs as a budget of seconds allows, and one at least."""
        run, clock = self._side.run, self._clock
        begun = before = clock()
        least = float("inf")
        for _ in range(most):
            run(None)
            now = clock()
            least = min(least, now - before)
            if now - begun >= budget:
                break
            # Not the time that the line above takes.
            before = clock()
        return least / self._side.n_calls

    def answer(self, n_iter: int | None = None):
        """What all sides must agree on, after ``n_iter`` iterations."""
        if n_iter not in self._answers:
            self._answers[n_iter] = self._side.answer(self._state(n_iter))
        return self._answers[n_iter]

    def stopped(self, n_iter: int | None = None) -> bool:
        """Whether the side was stopped before it was done."""
        return bool(self._side.stopped and self._side.stopped(self._state(n_iter)))

    def _state(self, n_iter):
        if self._last is None or self._last[0] != n_iter:
            self.seconds(n_iter)
        return self._last[1]
