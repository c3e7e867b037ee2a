"""The ``fastem`` command."""

from .main import main

__all__ = ["main"]
