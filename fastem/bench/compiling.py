"""Kernels are compiled before they are measured, in processes side by side.

numba compiles one kernel after another, those of all models in most of a minute. Processes fill
its cache on disk instead, as many at a time as there are cores, and this one loads from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from multiprocessing import connection, get_context
from typing import Any

from numba.core.event import Listener, install_listener

from . import machine

__all__ = ["compiled"]


def compiled(function: Callable[[Any], Any], items: Sequence, bar) -> Iterator:
    """Yield ``function(item)`` in order, its kernels compiled on all cores beforehand.

    Parameters
    ----------
    function : callable
        Calls kernels, and returns something. Runs in other processes too, if some of its kernels
        are not in numba's cache.
    items : sequence
        Not to share kernels that they call with other types: two processes that write to the same
        index in numba's cache can spoil it.
    bar : tqdm
        Is told of what is compiled.
    """
    # What needs compiling gives up until the others are done, threads that it leaves behind too.
    with install_listener("numba:compile", _Refusal()):
        results = [_unless_it_compiles(function, item) for item in items]
        cold = [item for item, result in zip(items, results, strict=True) if result is None]
        if cold:
            bar.set_description("compiling kernels, once for this version")
            _side_by_side(function, cold, bar)
    for item, result in zip(items, results, strict=True):
        yield function(item) if result is None else result


class _NotCached(Exception):
    """A kernel is not in the cache."""


class _Refusal(Listener):
    """Lets nothing be compiled that could have been in the cache."""

    def on_start(self, event):
        if event.data["dispatcher"].stats.cache_path is not None:
            raise _NotCached

    def on_end(self, event):
        pass


def _unless_it_compiles(function, item):
    try:
        return function(item)
    except _NotCached:
        return None


def _side_by_side(function, items, bar):
    """Call ``function`` in processes; what fails there is left to this one."""
    n_processes = min(machine.cores(), len(items))
    if n_processes == 1:
        return
    waiting, running = list(items), []
    try:
        bar.total += len(items)
        while waiting or running:
            while waiting and len(running) < n_processes:
                running.append(_started(function, waiting.pop(0)))
            connection.wait([process.sentinel for process in running], timeout=1.0)
            running = [process for process in running if process.is_alive()]
            bar.n = len(items) - len(waiting) - len(running)
            bar.refresh()  # The clock goes on.
    except Exception:
        # Some systems let no process be started, each with an error of its own.
        bar.total -= len(items) - bar.n
    finally:
        for process in running:
            process.terminate()


def _started(function, item):
    # Not forked: there are threads by now.
    process = get_context("spawn").Process(target=function, args=(item,), daemon=True)
    process.start()
    return process
