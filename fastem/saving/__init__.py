"""Fitted estimators in files: ``fastem.save`` and ``fastem.load``."""

from typing import TYPE_CHECKING

from .files import FileError

if TYPE_CHECKING:
    from .estimators import load, save

__all__ = ["FileError", "load", "save"]


def __getattr__(name):
    # Files alone need only NumPy.
    if name not in ("load", "save"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import estimators

    return getattr(estimators, name)
