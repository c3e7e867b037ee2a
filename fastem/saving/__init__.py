"""Fitted estimators in files: ``fastem.save`` and ``fastem.load``."""

from .estimators import load, save
from .files import FileError

__all__ = ["FileError", "load", "save"]
