"""Timing that a busy machine disturbs least: interleaved, best of several, differences of fits.

Runs are timed by whoever makes them, or by a clock that is an argument: arithmetic can be tested.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

__all__ = ["Plan", "Ratio", "Times", "best_of", "interleave", "plan", "ratio", "seconds"]

#: A fit and a shorter one should differ by so many seconds, by at most so many iterations.
_DIFFERENCE = 0.25
_MOST_ITERATIONS = 60
#: A warm-up longer than this is not repeated to find out how long an iteration takes.
_SLOW = 1.0


def seconds(function: Callable, *arguments, clock=perf_counter) -> tuple[float, Any]:
    """How long a call took, and what it returned."""
    begun = clock()
    result = function(*arguments)
    return clock() - begun, result


def best_of(function: Callable, repeats: int, *, clock=perf_counter) -> float:
    """The least time of several calls."""
    return min(seconds(function, clock=clock)[0] for _ in range(repeats))


class Plan(NamedTuple):
    """How a side is measured."""

    #: Iterations of the short fit and of the long one; the whole task is timed if both are None.
    few: int | None
    more: int | None
    #: How often.
    repeats: int


class Times(NamedTuple):
    """Seconds of the long and the short runs, in the order they were taken."""

    long: list[float]
    short: list[float]
    n_iterations: int = 1

    @property
    def best(self) -> float:
        """Seconds of one iteration: the best long run less the best short one."""
        short = min(self.short) if self.short else 0.0
        return (min(self.long) - short) / self.n_iterations

    @property
    def each(self) -> list[float]:
        """Seconds of one iteration in each repeat."""
        shorts = self.short or [0.0] * len(self.long)
        pairs = zip(self.long, shorts, strict=True)
        return [(long - short) / self.n_iterations for long, short in pairs]


def plan(
    timed: Callable[[int | None], float] | None, warm_up: float, *, iterates=True, repeats=3,
    budget=25.0,
) -> Plan:  # fmt: skip
    """How to measure a side within a budget of seconds.

    ``timed(n)`` makes a run of n iterations and returns its seconds; ``warm_up`` is how long a run,
    of two iterations if it iterates, took.
    """
    if not iterates:
        return Plan(None, None, _affordable(warm_up, repeats, budget))
    few, more, cost = 1, 2, 2.0 * warm_up
    if warm_up < _SLOW:
        short, long = timed(few), timed(5)
        each = max((long - short) / 4, 1e-6)
        extra = min(max(math.ceil(_DIFFERENCE / each), 1), _MOST_ITERATIONS)
        more = few + extra
        cost = 2.0 * short + extra * each
    return Plan(few, more, _affordable(cost, repeats, budget))


def _affordable(cost, repeats, budget):
    return max(1, min(repeats, int(budget / max(cost, 1e-9))))


def interleave(
    sides: dict[str, Callable[[int | None], float]],
    plans: dict[str, Plan],
    first: dict[str, float] | None = None,
) -> dict[str, Times]:
    """Times of all sides, taken in turns: what disturbs the machine disturbs all of them.

    ``sides`` has functions as :func:`plan` takes them, by name; ``first`` the seconds of the first
    long run of those sides that have made it already.
    """
    taken = dict(first or {})
    times = {
        name: Times([], [], 1 if p.few is None else p.more - p.few) for name, p in plans.items()
    }
    for turn in range(max(p.repeats for p in plans.values())):
        for name, timed in sides.items():
            how = plans[name]
            if turn >= how.repeats:
                continue
            long = taken.pop(name, None)
            if long is None:
                long = timed(how.more)
            times[name].long.append(long)
            if how.few is not None:
                times[name].short.append(timed(how.few))
    return times


class Ratio(NamedTuple):
    """How many times as fast, and the least and most over the repeats."""

    ratio: float
    least: float
    most: float


def ratio(ours: Times, peer: Times) -> Ratio:
    """The peer's seconds over ours."""
    best = peer.best / ours.best
    # A repeat in which a long run came out shorter than a short one says nothing.
    pairs = zip(peer.each, ours.each, strict=False)
    ratios = [p / o for p, o in pairs if p > 0 and o > 0]
    return Ratio(best, min(ratios, default=best), max(ratios, default=best))
