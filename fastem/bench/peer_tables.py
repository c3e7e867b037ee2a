"""``fastem bench --peers``: the rows, the small inputs and the sweep, one after another."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

from . import compare, machine, peers, quick, results, rows, small, sweep, table
from .side import Disagreement
from .worker import WorkerError, Workers

__all__ = ["Job", "chosen", "run"]

#: A curve of the sweep ends where a call takes longer: larger sizes would take minutes.
_LONGEST = 0.7


class Job(NamedTuple):
    """Something to measure: its part of the results, its name, its libraries, and how."""

    part: str
    name: str
    peers: tuple[str, ...]
    measure: Callable[[Workers, Any, Callable[[str], None]], dict[str, Any]]
    #: Of a curve of the sweep.
    sizes: tuple[int, ...] = ()

    def is_done(self, found: dict[str, Any]) -> bool:
        """Whether the results have all of it."""
        it = next((it for it in found[self.part] if it["name"] == self.name), None)
        if it is None or self.part != "sweep":
            return it is not None
        ends = [cell["size"] for cell in it["cells"] if _ends(cell)]
        measured = {cell["size"] for cell in it["cells"]}
        return all(size in measured or any(size > end for end in ends) for size in self.sizes)


def chosen(words: list[str], sizes: list[int] = ()) -> list[Job]:
    """All that can be measured, or what the words describe."""
    found = [
        *(Job("rows", str(row), tuple(row.peers), _row(row)) for row in rows.chosen(words)),
        *(
            Job("small", str(row), (row.peer,) if row.peer else (), _small(row))
            for row in small.chosen(words)
        ),
    ]
    for curve in sweep.chosen(words):
        wanted = curve.sizes(sizes or sweep.SIZES)
        if wanted:
            measure = _curve(curve, wanted)
            found.append(Job("sweep", str(curve), (curve.peer,), measure, tuple(wanted)))
    return found


def _ends(cell):
    """Whether larger sizes are left out."""
    return max(cell["seconds"], cell.get("peer seconds", 0.0)) > _LONGEST


def run(options) -> int:
    """Measure what the options ask for, and write it; returns the exit code."""
    from tqdm import tqdm

    everything = chosen([])
    order = {part: [job.name for job in everything if job.part == part] for part in results.PARTS}
    found = results.load(options.out) if options.out else results.empty()
    jobs = chosen(options.rows, options.sizes)
    if options.resume:
        jobs = [job for job in jobs if not job.is_done(found)]
    _describe(found, jobs)
    if jobs:
        found["machine"] = machine.describe()
    with Workers() as workers, tqdm(jobs, unit="row", disable=None) as bar:
        for job in bar:
            bar.set_description(job.name)
            begun = perf_counter()
            it = job.measure(workers, options, bar.set_postfix_str)
            it |= {"name": job.name, "took": perf_counter() - begun}
            results.put(found, job.part, it, order[job.part])
            for line in table.lines_of(job.part, it, found["machine"]):
                bar.write(line)
            if options.out:
                results.save(found, options.out)
    print(table.everything(found))
    if options.out:
        for path in table.write(found, options.out):
            print(f"wrote {path}")
    if options.checkout:
        for path in table.write_into_checkout(found, options.checkout):
            print(f"wrote {path}")
    asked = {job.name for job in jobs}
    now = {part: [it for it in found[part] if it["name"] in asked] for part in results.PARTS}
    return 1 if table.failures(now) else 0


def _describe(found, jobs):
    """Versions of the peers, and which are missing; what this run does not ask for stays."""
    there = peers.installed()
    wanted = [name for name in there if any(name in job.peers for job in jobs)]
    found["versions"] |= {name: there[name] for name in wanted if there[name]}
    missing = [name for name in wanted if there[name] is None]
    found["missing"] = [name for name in there if name in missing or (name in found["missing"]
                        and name not in wanted)]  # fmt: skip
    for name in missing:
        print(f"{name} is not installed: not measured ({peers.needs(name)}).")


def _row(row):
    def measure(workers, options, say):
        return compare.compare(row, workers, options.data, options.repeats, say)

    return measure


def _small(row):
    def measure(workers, options, say):
        found = {
            "work": row.work, "shape": row.shape, "peer": row.peer, "bar": row.bar.bar,
            "goal": row.bar.goal, "failures": [],
        }  # fmt: skip
        return found | _quick(workers, row.task, row.peer)

    return measure


def _curve(curve, sizes):
    def measure(workers, options, say):
        found = {
            "estimator": curve.estimator, "method": curve.method, "peer": curve.peer, "cells": [],
            "failures": [],
        }  # fmt: skip
        for size in sizes:
            say(f"{size:,}")
            cell = _quick(workers, sweep.Cell(curve, size), curve.peer)
            found["failures"] += [f"{size:,}: {message}" for message in cell.pop("failures", [])]
            if "seconds" in cell:
                found["cells"].append({"size": size, **cell})
                if _ends(cell):
                    break
        return found

    return measure


def _quick(workers, task, peer):
    """What :func:`fastem.bench.quick.measure` finds, or why not."""
    if peer is not None and peers.installed()[peer] is None:
        return {}
    try:
        ours = workers.side("fastem", task)
        return quick.measure(ours, workers.side(peer, task) if peer else None)
    except (Disagreement, WorkerError) as error:
        return {"failures": [str(error)]}
