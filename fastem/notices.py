"""Warnings that point at the line of the caller, not into fastem; and a word to who waits."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
import warnings

import numpy as np

from .exceptions import DeadComponentWarning, NoCacheWarning

__all__ = [
    "LOGGER",
    "REVIVED",
    "CompilingNotice",
    "beside_bars",
    "is_terminal",
    "is_turned_off",
    "keeps_no_kernels",
    "logged",
    "tell",
    "unheard",
    "warn",
    "warn_of_dead",
    "warn_of_no_cache",
]

#: Packages that a call to fastem passes through on its way here.
_BETWEEN = frozenset(
    {"fastem", "sklearn", "numba", "joblib", "dask", "distributed", "importlib", "contextlib",
     "functools", "concurrent", "threading"}
)  # fmt: skip

#: The factor by which a component must exceed the least share to count as alive again. Rounding and
#: distant rows sometimes lift a dead component slightly above it.
REVIVED = 100.0


#: In each thread, where its warnings go instead, if anywhere: a list of categories, or a logger.
_instead = threading.local()


@contextlib.contextmanager
def unheard():
    """Collect the categories of fastem's warnings in this thread, which nobody is to hear.

    Filters of warnings would not do: they are those of all threads.
    """
    before, categories = getattr(_instead, "categories", None), []
    _instead.categories = categories
    try:
        yield categories
    finally:
        _instead.categories = before


@contextlib.contextmanager
def logged(logger: logging.Logger | None):
    """Log what fastem would warn of in this thread, except deprecations; None: warn.

    For classes that stand in for those of a library that logs: a program that makes errors of
    warnings must not fail where it did not.
    """
    before = getattr(_instead, "logger", None)
    _instead.logger = logger
    try:
        yield
    finally:
        _instead.logger = before


def warn(message: str, category: type[Warning]) -> None:
    """Warn, at the innermost line outside fastem and the libraries that it is called through."""
    instead = getattr(_instead, "categories", None)
    if instead is not None:
        instead.append(category)
        return
    logger = getattr(_instead, "logger", None)
    if logger is not None and not issubclass(category, DeprecationWarning):
        with beside_bars():
            logger.warning(message)
        return
    frame = sys._getframe(1)
    # By the name of the module: the kernels may lie in another folder than the package.
    while _package(frame) in _BETWEEN and frame.f_back is not None:
        frame = frame.f_back
    with beside_bars():
        warnings.warn_explicit(
            message,
            category,
            filename=frame.f_code.co_filename,
            lineno=frame.f_lineno,
            module=frame.f_globals.get("__name__", "<unknown>"),
            registry=frame.f_globals.setdefault("__warningregistry__", {}),
        )


def warn_of_dead(dead, mass, least: float, told: set[int], message: str) -> None:
    """Warn of components that have died, once for each death.

    Parameters
    ----------
    dead : ndarray of bool, of shape (K,)
        Which components are dead.
    mass : ndarray of shape (K,)
        The mass of each component.
    least : float
        The least mass of a component that is alive.
    told : set of int
        The components whose death the user has been told of. It is updated: dead components are
        added, and components that are clearly alive again are removed.
    message : str
        With places for ``{count}``, ``{total}`` and ``{numbers}``.
    """
    if not told and not dead.any():
        return
    now = set(np.flatnonzero(dead).tolist())
    is_news = not now <= told
    told -= {k for k in told if mass[k] >= REVIVED * least}
    told |= now
    if is_news:
        text = message.format(count=len(now), total=len(dead), numbers=sorted(now))
        warn(text, DeadComponentWarning)


def warn_of_no_cache(error: Exception) -> None:
    """Warn, once in a process, that compiled kernels cannot be kept on disk."""
    global _told_of_no_cache
    if _told_of_no_cache:
        return
    _told_of_no_cache = True
    warn(
        f"Compiled kernels cannot be kept on disk ({error}): every process compiles them anew, "
        "which takes seconds to a minute. Set the environment variable NUMBA_CACHE_DIR to a "
        "folder that can be written, or make space.",
        NoCacheWarning,
    )


_told_of_no_cache = False


def keeps_no_kernels() -> bool:
    """Whether compiled kernels could not be kept on disk."""
    return _told_of_no_cache


def _package(frame):
    return frame.f_globals.get("__name__", "").partition(".")[0]


# Kernels that are being compiled ----------------------------------------------------------------

#: Where messages go, besides warnings.
LOGGER = logging.getLogger("fastem")

#: Seconds of compiling that nobody needs to be told of.
_PATIENCE = 0.5

#: What the folders of the kernels are for.
_SUBJECTS = {
    "mixture": "mixtures",
    "hmm": "hidden Markov models",
    "kalman": "Kalman filters",
    "dirichlet": "Dirichlet distributions",
}


class CompilingNotice:
    """One line for each call in which kernels are being compiled for a noticeable time.

    Numba compiles under a lock: ``begin`` and ``end`` take turns.
    """

    def __init__(self):
        self._told = set()
        self._waited = {}
        self._what = self._timer = None

    def begin(self, folder: str) -> None:
        """A kernel of this folder is about to be compiled."""
        from .parallel import in_worker

        self._what, self._began = None, time.monotonic()
        if _is_silent() or in_worker():
            return
        called = _what_was_called()
        if called is None and folder in self._told:
            # A thread of a call that has been told of: its frames do not show whose it is.
            return
        self._what = called or _SUBJECTS.get(folder, "its models")
        patience = _PATIENCE - self._waited.get(self._what, 0.0)
        if self._what in self._told:
            self._told.add(folder)
        elif patience <= 0:
            self._tell(self._what, folder)
        else:
            timer = threading.Timer(patience, self._tell, (self._what, folder))
            timer.daemon = True
            # When Python ends, threads can no longer be started.
            with contextlib.suppress(RuntimeError):
                timer.start()
                self._timer = timer

    def end(self) -> None:
        """The kernel is compiled."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._what is not None:
            seconds = time.monotonic() - self._began
            self._waited[self._what] = self._waited.get(self._what, 0.0) + seconds

    def _tell(self, what, folder):
        self._told |= {what, folder}
        tell(
            f"fastem is compiling kernels for {what}: this takes seconds, once ('fastem warmup' "
            "does it ahead of time)."
        )


def tell(message: str) -> None:
    """Log a message; without any logging configured, show it if there is a terminal."""
    with beside_bars():
        if LOGGER.hasHandlers():
            LOGGER.info(message)
        elif not _is_silent():
            print(message, file=sys.stderr, flush=True)


def beside_bars():
    """A context in which lines can be written to a terminal that may show bars of tqdm.

    Bars are taken away before, and come back below the lines.
    """
    tqdm = getattr(sys.modules.get("tqdm"), "tqdm", None)
    if tqdm is None or not getattr(tqdm, "_instances", ()):
        return contextlib.nullcontext()
    return tqdm.external_write_mode(file=sys.stderr)


def _is_silent():
    """Whether nobody would see a message."""
    if LOGGER.hasHandlers():
        return not LOGGER.isEnabledFor(logging.INFO)
    return is_turned_off() or not is_terminal()


def is_turned_off() -> bool:
    """Whether the user wants no messages, without handlers that could be asked."""
    return bool(
        LOGGER.disabled or LOGGER.level > logging.INFO or LOGGER.manager.disable >= logging.INFO
    )


def is_terminal() -> bool:
    """Whether standard error is a terminal."""
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # there is no such stream, or it is closed
        return False


def _what_was_called():
    """The outermost method of an estimator in the calls of this thread; None if there is none."""
    estimator = sys.modules.get(f"{__package__}.estimator")
    if estimator is None:
        return None
    found = None
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_varnames[:1] == ("self",) and not code.co_name.startswith("_"):
            owner = frame.f_locals.get("self")
            if isinstance(owner, estimator.Estimator):
                found = owner, code.co_name
        frame = frame.f_back
    if found is None:
        return None
    owner, method = found
    kind = getattr(owner, "covariance_type", None)
    setting = f"(covariance_type={kind!r})" if isinstance(kind, str) else ""
    return f"{type(owner).__name__}{setting}.{method}"
