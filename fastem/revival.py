"""What a component remembers when it comes back from hardly any weight."""

from __future__ import annotations

import numpy as np

from .kernels.mixture.online import LEAST_MEMORY

__all__ = ["revival"]


def revival(inertia: np.ndarray, gained: np.ndarray, observation: float) -> np.ndarray:
    """How much more of its own memory each component is given when it comes back.

    A component of hardly any weight remembers hardly anything, and would be remade out of the
    first observation it is responsible for, as a spike. So one whose share grows remembers at
    least one observation, or, where all remember little, a tenth of an even share; but it is given
    no more than it gains.

    Parameters
    ----------
    inertia : ndarray of shape (K,)
        What each remembers.
    gained : ndarray of shape (K,)
        What each gains from the new batch, in the same units.
    observation : float
        What one observation weighs in these units.
    """
    remembered = inertia.sum()
    if not remembered > 0:
        return np.zeros_like(inertia)
    least = min(observation, LEAST_MEMORY * remembered / len(inertia))
    growth = gained - gained.sum() * (inertia / remembered)
    return np.where(inertia < least, np.clip(growth, 0.0, np.maximum(least - inertia, 0.0)), 0.0)
