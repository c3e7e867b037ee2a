"""A process for each library, so that none disturbs the others.

Libraries bring pools of threads (OpenBLAS, OpenMP, PyTorch, JAX) whose threads go on for a while
after a call, waiting for the next one, and settings of memory and of numbers that hold for the
whole process. Here a library shares its process with nothing but what it imports itself, and its
turn ends when its process has come to rest.

``python -m fastem.bench.worker LIBRARY`` is such a process: requests come in as pickles, and
replies go out.
"""

from __future__ import annotations

import gc
import logging
import os
import pickle
import subprocess
import sys
import warnings
from time import perf_counter, process_time, sleep
from typing import Any, Protocol

from .measured import Measured
from .side import Side

__all__ = ["Elsewhere", "Task", "Worker", "WorkerError", "Workers", "come_to_rest"]


class Task(Protocol):
    """What can be sent to a process: something that has a side for each library."""

    def side(self, library: str) -> Side: ...


class WorkerError(Exception):
    """A library failed, or its process ended."""


class Worker:
    """The process of a library, as others see it."""

    def __init__(self, library: str):
        self.library = library
        self._process = subprocess.Popen(
            # Not the folder that this runs in: it may hold another fastem.
            [sys.executable, "-P", "-m", __name__, library],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def ask(self, what: str, *arguments) -> Any:
        """The result of a method of :class:`_Station`."""
        try:
            pickle.dump((what, arguments), self._process.stdin)
            self._process.stdin.flush()
            failed, reply = pickle.load(self._process.stdout)
        except (EOFError, OSError) as error:
            code = self._process.wait()
            raise WorkerError(f"the process of {self.library} ended with code {code}") from error
        if failed:
            raise WorkerError(reply)
        return reply

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the process."""
        if self.is_alive:
            self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


class Workers:
    """The processes of all libraries that were asked for; they end with the ``with`` block."""

    def __init__(self):
        self._workers: dict[str, Worker] = {}

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for worker in self._workers.values():
            worker.close()

    def __getitem__(self, library: str) -> Worker:
        worker = self._workers.get(library)
        if worker is None or not worker.is_alive:
            if worker is not None:
                worker.close()
            worker = self._workers[library] = Worker(library)
        return worker

    def side(self, library: str, task: Task) -> Elsewhere:
        """The side of a library, in its process."""
        return Elsewhere(self[library], task)

    def clear(self) -> None:
        """Let all processes forget what they were asked for last, and its data."""
        for worker in self._workers.values():
            if worker.is_alive:
                worker.ask("clear")


class Elsewhere:
    """A side in another process; the methods of :class:`~fastem.bench.measured.Measured`."""

    iterates: bool
    agrees_after: int
    tolerance: float
    compiles: bool
    note: str

    def __init__(self, worker: Worker, task: Task):
        self._worker = worker
        vars(self).update(worker.ask("prepare", task))

    def seconds(self, n_iter: int | None = None) -> float:
        return self._worker.ask("seconds", n_iter)

    def best(self, budget: float, most: int = 100_000) -> float:
        return self._worker.ask("best", budget, most)

    def answer(self, n_iter: int | None = None):
        return self._worker.ask("answer", n_iter)

    def stopped(self, n_iter: int | None = None) -> bool:
        return self._worker.ask("stopped", n_iter)


class _Station:
    """What the process of a library does on request."""

    def __init__(self, library):
        self._library = library
        self._measured: Measured | None = None

    def clear(self):
        self._measured = None
        gc.collect()

    def prepare(self, task):
        self.clear()
        self._measured = Measured(task.side(self._library))
        names = ("iterates", "agrees_after", "tolerance", "compiles", "note")
        return {name: getattr(self._measured, name) for name in names}

    def call(self, function, *arguments):
        return function(*arguments)

    def seconds(self, n_iter):
        return self._measured.seconds(n_iter)

    def best(self, budget, most):
        return self._measured.best(budget, most)

    def answer(self, n_iter):
        return self._measured.answer(n_iter)

    def stopped(self, n_iter):
        return self._measured.stopped(n_iter)


def come_to_rest(longest: float = 0.5) -> None:
    """Wait until the threads of this process sleep."""
    deadline = perf_counter() + longest
    while perf_counter() < deadline:
        used = process_time()
        sleep(0.002)
        if process_time() - used < 0.0004:
            return


def _first_line(error):
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"


def serve(library: str, requests, replies) -> None:
    """Answer requests until there are no more."""
    station = _Station(library)
    while True:
        try:
            what, arguments = pickle.load(requests)
        except EOFError:
            return
        try:
            reply = False, getattr(station, what)(*arguments)
        except Exception as error:
            # Libraries fail in their own ways; the other rows should not suffer from it.
            reply = True, f"{library} raised {_first_line(error)}"
        come_to_rest()
        pickle.dump(reply, replies)
        replies.flush()


def main() -> None:
    """Serve on the standard streams; what libraries print goes to standard error."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # Fits that are stopped on purpose say so, each in its own way.
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    serve(sys.argv[1], sys.stdin.buffer, replies)


if __name__ == "__main__":
    main()
