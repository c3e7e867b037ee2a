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
        "work": row.work, "shape": str(row.shape), "missing": missing, "peers": {},
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
    """Agreement and times. Raises :class:`Disagreement` before anything is timed."""
    sides = {"fastem": ours, **theirs}
    warm_ups, states = {}, {}
    for name, side in sides.items():
        say(f"{name}: first run")
        n_iter = 2 if side.iterates else None
        if side.compiles:
            side.run(n_iter)
        warm_ups[name], states[name] = seconds(side.run, n_iter, clock=clock)
    agreement = {}
    for name, side in theirs.items():
        say(f"{name}: agreement")
        agreement[name] = agree(name, ours, side, states["fastem"], states[name])
    stopped = {
        name: bool(side.stopped and side.stopped(states[name])) for name, side in theirs.items()
    }
    states.clear()
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
        if plans[name].more == (2 if sides[name].iterates else None)
    }
    runs = {name: side.run for name, side in sides.items()}
    times = interleave(runs, plans, first, clock=clock)
    best = times["fastem"].best
    result = {"iterates": ours.iterates, "seconds": best, "each": times["fastem"].each, "peers": {}}
    for name, side in theirs.items():
        found = ratio(times["fastem"], times[name])
        result["peers"][name] = {
            "seconds": times[name].best,
            "each": times[name].each,
            "ratio": found.ratio,
            "spread": [found.least, found.most],
            "bar": bars[name].bar,
            "goal": bars[name].goal,
            "stopped": stopped[name],
            "note": side.note,
            **agreement[name],
        }
    return result


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
