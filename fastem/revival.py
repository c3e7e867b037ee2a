"""Memory for components that return from almost no weight in online learning."""

from __future__ import annotations

import numpy as np

from .kernels.mixture.online import LEAST_MEMORY

__all__ = ["revival"]


def revival(inertia: np.ndarray, gained: np.ndarray, observation: float) -> np.ndarray:
    """The additional memory of each component that returns from almost no weight.

    A component of almost no weight has almost no memory, and the first observation it is
    responsible for would turn it into a spike. A component whose share grows therefore remembers
    at least one observation, or a tenth of an even share of the memory if that is less; but it is
    not given more than it gains.

    Parameters
    ----------
    inertia : ndarray of shape (K,)
        The memory of each component.
    gained : ndarray of shape (K,)
        The mass that each gains from the new batch, in the same units.
    observation : float
        The weight of one observation in these units.
    """
    remembered = inertia.sum()
    if not remembered > 0:
        return np.zeros_like(inertia)
    least = min(observation, LEAST_MEMORY * remembered / len(inertia))
    growth = gained - gained.sum() * (inertia / remembered)
    return np.where(inertia < least, np.clip(growth, 0.0, np.maximum(least - inertia, 0.0)), 0.0)
