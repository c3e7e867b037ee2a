"""Whether data are in the support of a family."""

from __future__ import annotations

import numpy as np

__all__ = ["check_counts", "first_wrong", "is_count", "no_negatives"]


def is_count(value) -> bool:
    """Whether a number is whole and not negative."""
    return 0.0 <= value < np.inf and value.is_integer()


def first_wrong(X, wrong, what):
    """Raise for the first entry of ``X`` that is ``wrong``."""
    if wrong.any():
        row, column = (int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(f"{what}; row {row}, column {column} is {X[row, column]}.")


def no_negatives(X, what):
    """Raise for the first negative entry of ``X``, in the words that scikit-learn begins with."""
    if X.dtype.kind not in "bu":
        first_wrong(X, X < 0, f"Negative values in data: {what}")


def check_counts(X, name):
    """Raise for the first entry of ``X`` that is not a whole number, zero or more."""
    no_negatives(X, f"{name} data are counts and cannot be negative")
    if X.dtype.kind == "f":
        first_wrong(X, X != np.floor(X), f"{name} data are counts and must be whole numbers")
