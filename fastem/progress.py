"""What ``verbose`` shows of a fit: a bar on a terminal, lines elsewhere.

0 is silent, 1 a bar, 2 a line for each iteration, in every estimator and every way of fitting.
Where standard error is no terminal, lines take the place of the bar: one every ``verbose_interval``
iterations, and one at the end. They go to the logger ``fastem`` (INFO) if logging is configured,
and to standard error otherwise.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
import time

from .notices import LOGGER, beside_bars, is_terminal, is_turned_off
from .parallel import in_worker

__all__ = ["SILENT", "Display", "advance", "display_of", "figures", "open_bar", "silently"]

#: The time comes last: it is what a narrow terminal cuts off. EM ends by a tolerance, so that
#: nobody knows what remains.
_BAR = "{desc} |{bar}| {n_fmt}/{total_fmt}{postfix} [{elapsed}]"
_COUNT = "{desc} {n_fmt} {unit}{postfix} [{elapsed}]"
#: The columns and lines of a terminal that does not say how many it has.
_WIDTH, _HEIGHT = 80, 24

#: In each thread, whether nothing is shown, whatever estimators say.
_thread = threading.local()


@contextlib.contextmanager
def silently():
    """Show nothing of what estimators learn in this thread: they are part of something else."""
    before = getattr(_thread, "is_silent", False)
    _thread.is_silent = True
    try:
        yield
    finally:
        _thread.is_silent = before


class Display:
    """How learning goes, for who watches: a context, which closes its bar however it is left.

    Parameters
    ----------
    what : str
        What is learning, as ``GaussianMixture.fit``.
    verbose : int
        1: a bar on a terminal; 2: a line for each step.
    every : int, optional
        Without a terminal, 1 is a line for so many steps; None: at the end alone.
    unit : {'iterations', 'observations'}, default='iterations'
        What is counted.
    """

    def __init__(self, what: str, verbose: int, every: int | None = None, unit="iterations"):
        self._what, self._unit = what, unit
        self._every = 1 if verbose > 1 else every
        self._on_terminal = is_terminal()
        # Bars of several workers would overwrite each other.
        self._shows_bar = verbose == 1 and self._on_terminal and not in_worker()
        self._bar = None
        self._begin_part()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._close()

    def begin(
        self, total: float | None = None, start: int = 1, n_starts: int = 1,
        measure: str = "log-likelihood",
    ) -> None:  # fmt: skip
        """A start of several begins; ``total`` is the number of steps at most, if it is known."""
        self._begin_part(f", start {start}/{n_starts}" if n_starts > 1 else "", measure)
        if self._shows_bar and total != 0:
            self._bar = open_bar(total, self._what + self._part, self._unit)

    def step(self, n: float, log_likelihood: float, about: str = "") -> None:
        """Step ``n`` was taken, or observation ``n`` learned from.

        The mean log-likelihood may be NaN: it is not known. ``about`` is what else there is to say.
        """
        change, self._last = log_likelihood - self._last, log_likelihood
        self._n, self._n_steps = n, self._n_steps + 1
        parts = figures(log_likelihood, change, self._measure), about
        self._figures = ", ".join(filter(None, parts))
        if self._bar is not None:
            advance(self._bar, n, self._figures)
        elif not self._shows_bar and self._every and self._n_steps % self._every == 0:
            here = f"iteration {n}" if self._unit == "iterations" else self._counted()
            self._write(f"{self._what}{self._part}, {here}: {self._figures or 'learned'}")

    def end(self, how: str) -> None:
        """A start has ended: ``how``."""
        if self._bar is not None:
            shown = f"{how}, {self._figures}" if self._figures else how
            self._bar.set_postfix_str(shown, refresh=False)
            self._close()
        elif not self._shows_bar:
            seconds = time.perf_counter() - self._begun
            which = "after" if self._unit == "iterations" else "from"
            parts = f"{how} {which} {self._counted()}", self._figures, f"{seconds:.3g} s"
            self._write(f"{self._what}{self._part}: {', '.join(filter(None, parts))}")

    def _begin_part(self, part="", measure="log-likelihood"):
        self._part, self._measure = part, measure
        self._figures, self._last = "", math.nan
        self._n = self._n_steps = 0
        self._begun = time.perf_counter()

    def _counted(self):
        one = self._unit.removesuffix("s")
        return f"{round(self._n)} {one if round(self._n) == 1 else self._unit}"

    def _close(self):
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.close()

    def _write(self, line):
        # Somebody who cannot be told is no reason for learning to fail.
        with beside_bars(), contextlib.suppress(OSError, ValueError):
            if LOGGER.hasHandlers() and not self._on_terminal:
                LOGGER.info(line)
            elif sys.stderr is not None and not is_turned_off():
                print(line, file=sys.stderr, flush=True)


class _Silent(Display):
    """Shows nothing."""

    def __init__(self):
        pass

    def __exit__(self, *error):
        pass

    def begin(self, total=None, start=1, n_starts=1, measure=""):
        pass

    def step(self, n, log_likelihood, about=""):
        pass

    def end(self, how):
        pass


#: Shows nothing.
SILENT = _Silent()


def display_of(estimator, method: str, unit="iterations") -> Display:
    """What shows a method of an estimator, as its setting ``verbose`` says."""
    verbose = getattr(estimator, "verbose", 0)
    if not verbose or getattr(_thread, "is_silent", False):
        return SILENT
    every = getattr(estimator, "verbose_interval", None)
    return Display(f"{type(estimator).__name__}.{method}", int(verbose), every, unit)


def figures(log_likelihood: float, change=math.nan, measure="log-likelihood") -> str:
    """A mean log-likelihood in words, and how it has changed; empty if it is not known."""
    if math.isnan(log_likelihood):
        return ""
    changed = "" if math.isnan(change) else f" ({change:+.2g})"
    return f"{measure} {log_likelihood:.6g}{changed}"


def open_bar(total, description: str, unit: str, file=None):
    """A bar of tqdm, on standard error or in a file."""
    # Imported here: those who show no bar need not wait for it.
    from tqdm import tqdm

    has_width = _has_width(sys.stderr if file is None else file)
    return tqdm(
        total=total if total is None else round(total), desc=description, unit=unit, file=file,
        bar_format=_COUNT if total is None else _BAR,
        ncols=None if has_width else _WIDTH, nrows=None if has_width else _HEIGHT,
        dynamic_ncols=has_width,
    )  # fmt: skip


def _has_width(file):
    """Whether a file is a terminal that says how wide it is, as some in containers do not."""
    try:
        return os.get_terminal_size(file.fileno()).columns > 0
    except (AttributeError, OSError, ValueError):
        return False


def advance(bar, n: float, text: str) -> None:
    """Move a bar to ``n``, with a text behind it."""
    bar.set_postfix_str(text, refresh=False)
    bar.update(round(n) - bar.n)
