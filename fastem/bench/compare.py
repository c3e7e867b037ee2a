"""One row: first that all sides agree, then how long each takes."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from . import peers
from .rows import OURS, Bar, Row
from .side import Disagreement, Side, difference
from .timing import interleave, plan, ratio, seconds

__all__ = ["agree", "compare", "compare_sides"]


def compare(
    row: Row, folder=None, repeats: int = 3, say: Callable[[str], None] = lambda message: None
) -> dict[str, Any]:
    """One row of the table, against those of its peers that are installed."""
    there = peers.installed()
    names = [name for name in row.peers if there[name] is not None]
    missing = [name for name in row.peers if there[name] is None]
    result = {
        "work": row.work, "shape": str(row.shape), "missing": missing, "failures": [], "peers": {},
        "n_observations": row.shape.n_observations, "useful_flops": row.shape.useful_flops,
    }  # fmt: skip
    if not names:
        return result
    with warnings.catch_warnings():
        # Fits that are stopped on purpose say so, each in its own way.
        warnings.simplefilter("ignore")
        problem = row.shape.problem(folder)
        if row.start_from is not None:
            problem.start = getattr(peers.find(row.start_from), row.task.replace("_em", "_start"))(
                problem
            )
        ours = OURS[row.task](problem)
        theirs = {name: getattr(peers.find(name), row.task)(problem) for name in names}
        bars = {name: row.peers[name] for name in names}
        result |= {"data": problem.data, **compare_sides(ours, theirs, bars, repeats, say)}
    gc.collect()
    return result


def compare_sides(
    ours: Side, theirs: dict[str, Side], bars: dict[str, Bar], repeats=3,
    say: Callable[[str], None] = lambda message: None, clock=perf_counter,
) -> dict[str, Any]:  # fmt: skip
    """Agreement and times of all sides; a side that does not agree is not timed, and named."""
    failures = []
    say("fastem: first run")
    warm_ups, our_state = {}, None
    warm_ups["fastem"], our_state = _first_run(ours, clock)
    sides, agreement, stopped = {"fastem": ours}, {}, {}
    for name, side in theirs.items():
        say(f"{name}: first run, agreement")
        try:
            warm_ups[name], state = _first_run(side, clock)
            agreement[name] = agree(name, ours, side, our_state, state)
        except Exception as error:
            # Other libraries fail in their own ways; the other rows should not suffer from it.
            failures.append(_failure(name, error))
            continue
        sides[name] = side
        stopped[name] = bool(side.stopped and side.stopped(state))
    result = {"iterates": ours.iterates, "failures": failures, "peers": {}}
    if len(sides) == 1:
        return result
    plans = {}
    for name, side in sides.items():
        say(f"{name}: plan")
        plans[name] = plan(
            side.run, warm_ups[name], iterates=side.iterates, repeats=repeats, clock=clock
        )
    say("times")
    # The first run counts where it did what the long runs do.
    first = {
        name: seconds
        for name, seconds in warm_ups.items()
        if name in plans and plans[name].more == (2 if sides[name].iterates else None)
    }
    runs = {name: side.run for name, side in sides.items()}
    times = interleave(runs, plans, first, clock=clock)
    disturbed = [name for name in sides if not times[name].best > 0]
    if disturbed:
        failures.append(
            f"the long fits of {', '.join(disturbed)} took no longer than the short ones: this "
            "machine is too busy to measure on."
        )
        return result
    result |= {"seconds": times["fastem"].best, "each": times["fastem"].each}
    for name in agreement:
        found = ratio(times["fastem"], times[name])
        result["peers"][name] = {
            "seconds": times[name].best,
            "each": times[name].each,
            "ratio": found.ratio,
            "spread": [found.least, found.most],
            "bar": bars[name].bar,
            "goal": bars[name].goal,
            "stopped": stopped[name],
            "note": theirs[name].note,
            **agreement[name],
        }
    return result


def _first_run(side, clock):
    """How long the first run took that counts, and its result."""
    n_iter = 2 if side.iterates else None
    if side.compiles:
        side.run(n_iter)
    return seconds(side.run, n_iter, clock=clock)


def _failure(name, error):
    if isinstance(error, Disagreement):
        return str(error)
    return f"{name} raised {type(error).__name__}: {str(error).strip().splitlines()[0]}"


def agree(name: str, ours: Side, side: Side, our_state, state) -> dict[str, Any]:
    """Both answers and their difference; raises :class:`Disagreement` if that is too large."""
    if side.iterates and side.agrees_after != 2:
        our_state, state = ours.run(side.agrees_after), side.run(side.agrees_after)
    mine, other = ours.answer(our_state), side.answer(state)
    gap = difference(mine, other)
    unfinished = bool(side.stopped and side.stopped(state)) and np.all(mine > other)
    when = "in the end"
    if side.iterates:
        count = side.agrees_after
        when = f"after {count} iterations" if count else "at the start"
    if not gap <= side.tolerance and not unfinished:
        raise Disagreement(
            f"fastem and {name} differ by {gap:.2g} (relative; {side.tolerance:.0e} is allowed) "
            f"{when}: {_short(mine)} and {_short(other)}."
        )
    return {
        "agreement": gap, "agrees": when, "our answer": _short(mine), "answer": _short(other),
    }  # fmt: skip


def _short(answer):
    """A number, or the mean of an array, which says enough."""
    return float(np.mean(answer))
