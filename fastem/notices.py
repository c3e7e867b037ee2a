"""Warnings that point at the line of the caller, not into fastem."""

from __future__ import annotations

import sys
import warnings

import numpy as np

__all__ = ["REVIVED", "warn", "warn_of_dead", "warn_of_no_cache"]

#: Packages that a call to fastem passes through on its way here.
_BETWEEN = frozenset(
    {"fastem", "sklearn", "numba", "joblib", "dask", "distributed", "importlib", "contextlib",
     "functools", "concurrent", "threading"}
)  # fmt: skip

#: The factor by which a component must exceed the least share to count as alive again. Rounding and
#: distant rows sometimes lift a dead component slightly above it.
REVIVED = 100.0


def warn(message: str, category: type[Warning]) -> None:
    """Warn, at the innermost line outside fastem and the libraries that it is called through."""
    frame = sys._getframe(1)
    # By the name of the module: the kernels may lie in another folder than the package.
    while _package(frame) in _BETWEEN and frame.f_back is not None:
        frame = frame.f_back
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
        warn(text, RuntimeWarning)


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
        RuntimeWarning,
    )


_told_of_no_cache = False


def _package(frame):
    return frame.f_globals.get("__name__", "").partition(".")[0]
