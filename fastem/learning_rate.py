"""Learning rates of online EM."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real

import numpy as np

__all__ = ["DEFAULT_RATE", "Decay", "rates"]


@dataclass(frozen=True)
class Decay:
    """The learning rate ``eta0 / t**beta`` at step ``t = 1, 2, ...``.

    Parameters
    ----------
    eta0 : float, default=1.0
        The rate of the first step.
    beta : float, default=0.6
        How fast it decays. Online EM converges for ``0.5 < beta <= 1``.

    Examples
    --------
    >>> Decay(1.0, 0.5)(4)
    0.5
    """

    eta0: float = 1.0
    beta: float = 0.6

    def __call__(self, t: int) -> float:
        return self.eta0 / t**self.beta


#: The learning rate that estimators have unless told otherwise; it suits mini-batches.
DEFAULT_RATE = Decay(1.0, 0.6)


def rates(learning_rate: float | Callable[[int], float], first: int, count: int) -> np.ndarray:
    """The rates of steps ``first .. first + count - 1`` (the first step ever is 1), checked."""
    if isinstance(learning_rate, Decay):
        t = np.arange(first, first + count, dtype=float)
        values = learning_rate.eta0 / t**learning_rate.beta
    elif callable(learning_rate):
        values = np.array([float(learning_rate(t)) for t in range(first, first + count)])
    elif isinstance(learning_rate, Real) and not isinstance(learning_rate, bool):
        values = np.full(count, float(learning_rate))
    else:
        raise TypeError(
            "learning_rate must be a number, a function of the step 1, 2, ..., or fastem.Decay; "
            f"got {learning_rate!r}."
        )
    wrong = ~(values > 0)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValueError(
            f"The learning rate must be positive; at step {first + at} it is {values[at]}. "
            "A rate near zero leaves the model alone; infinity is batch EM on each batch."
        )
    return values


def step_size(eta: float) -> float:
    """``ρ = η / (1 + η)``: the weight of the new batch when that of the model is ``1 - ρ``."""
    return 1.0 if math.isinf(eta) else eta / (1.0 + eta)
