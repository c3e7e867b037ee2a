"""One row: first that all sides agree, then how long each takes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from . import peers
from .rows import Bar, Posed, Row
from .side import Disagreement, difference
from .timing import interleave, plan, ratio
from .worker import WorkerError, Workers

__all__ = ["agree", "compare", "compare_sides", "prepared"]

#: Seconds of a turn of what has no iterations; a longer task is done once.
_WHILE = 0.2


def compare(
    row: Row, workers: Workers, folder=None, repeats: int = 3,
    say: Callable[[str], None] = lambda message: None,
) -> dict[str, Any]:  # fmt: skip
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
    start = None
    if row.start_from is not None:
        say(f"{row.start_from}: start")
        start = workers[row.start_from].ask("call", row.start_of, folder)
    task = Posed(row, folder, start)
    sides, failures = prepared(workers, ["fastem", *names], task, say)
    result["failures"] = failures
    ours = sides.pop("fastem", None)
    if ours is not None and sides:
        bars = {name: row.peers[name] for name in sides}
        try:
            found = compare_sides(ours, sides, bars, repeats, say)
        except WorkerError as error:
            found = {"failures": [str(error)]}
        found["failures"] = failures + found["failures"]
        result |= {"data": row.data_name(folder), **found}
    workers.clear()
    return result


def prepared(workers: Workers, libraries, task, say=lambda message: None):
    """The sides of libraries in their processes, by name, and what failed."""
    say("data")
    sides, failures = {}, []
    # Each process makes its data, which takes a second or two and is not timed: all at once.
    with ThreadPoolExecutor() as threads:
        started = {name: threads.submit(workers.side, name, task) for name in libraries}
    for name, side in started.items():
        try:
            sides[name] = side.result()
        except WorkerError as error:
            failures.append(str(error))
    return sides, failures


def compare_sides(
    ours, theirs: dict[str, Any], bars: dict[str, Bar], repeats=3,
    say: Callable[[str], None] = lambda message: None,
) -> dict[str, Any]:  # fmt: skip
    """Agreement and times of all sides; a side that does not agree is not timed, and named."""
    failures = []
    result = {"iterates": ours.iterates, "failures": failures, "peers": {}}
    say("fastem: first run")
    warm_ups = {"fastem": _first_run(ours)}
    sides, agreement, stopped = {"fastem": ours}, {}, {}
    for name, side in theirs.items():
        say(f"{name}: first run, agreement")
        try:
            warm_ups[name] = _first_run(side)
            agreement[name] = agree(name, ours, side)
            stopped[name] = side.stopped(_first_n_iter(side))
        except Exception as error:
            # Other libraries fail in their own ways; the other rows should not suffer from it.
            failures.append(_failure(name, error))
            continue
        sides[name] = side
    if len(sides) == 1:
        return result
    plans = {}
    for name, side in sides.items():
        say(f"{name}: plan")
        plans[name] = plan(side.seconds, warm_ups[name], iterates=side.iterates, repeats=repeats)
    say("times")
    # The first run counts where it did what the long runs do.
    first = {
        name: warm_ups[name]
        for name, side in sides.items()
        if plans[name].more == _first_n_iter(side)
    }
    times = interleave({name: _timed(side) for name, side in sides.items()}, plans, first)
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


def _timed(side):
    """What takes a turn: a fit, or a task as often as it can be done in a short while."""
    # The first call after a rest is up to half as slow again, of a task of milliseconds.
    return side.seconds if side.iterates else lambda _: side.best(_WHILE)


def _first_n_iter(side):
    return 2 if side.iterates else None


def _first_run(side):
    """How long the first run took that counts."""
    if side.compiles:
        side.seconds(_first_n_iter(side))
    return side.seconds(_first_n_iter(side))


def _failure(name, error):
    if isinstance(error, (Disagreement, WorkerError)):
        return str(error)
    return f"{name} raised {type(error).__name__}: {str(error).strip().splitlines()[0]}"


def agree(name: str, ours, side) -> dict[str, Any]:
    """Both answers and their difference; raises :class:`Disagreement` if that is too large."""
    n_iter = side.agrees_after if side.iterates else None
    mine, other = ours.answer(n_iter), side.answer(n_iter)
    gap = difference(mine, other)
    unfinished = side.stopped(n_iter) and np.all(np.greater(mine, other))
    when = "in the end"
    if side.iterates:
        when = f"after {n_iter} iterations" if n_iter else "at the start"
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
