"""Learning rates of online EM, and how much a batch counts.

A rate η is that of a batch of a certain weight; a batch of less weight moves the model less.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple, cast

import numpy as np

from .exceptions import LearningRateError

__all__ = ["DEFAULT_RATE", "Clock", "Decay", "Forgetting", "batch_weights", "next_rate",
           "rate_is_automatic", "rates", "schedule", "step_size"]  # fmt: skip


@dataclass(frozen=True)
class Decay:
    """The learning rate ``eta0 / t**beta`` at step ``t = 1, 2, ...``.

    Parameters
    ----------
    eta0 : float, default=1.0
        The rate of the first step, above zero.
    beta : float, default=0.6
        How fast it decays, zero or more. Online EM converges for ``0.5 < beta <= 1``.

    Examples
    --------
    >>> from fastem import Decay
    >>> Decay(1.0, 0.5)(4)
    0.5
    """

    eta0: float = 1.0
    beta: float = 0.6

    def __post_init__(self):
        for name, value in (("eta0", self.eta0), ("beta", self.beta)):
            if not isinstance(value, Real) or isinstance(value, bool):
                raise TypeError(f"{name} of a Decay must be a number; got {value!r}.")
        if not 0.0 < self.eta0 < math.inf:
            raise LearningRateError(
                f"eta0 of a Decay, the first learning rate, must be positive and finite; got "
                f"{self.eta0!r}."
            )
        if not 0.0 <= self.beta < math.inf:
            raise LearningRateError(
                f"beta of a Decay must be finite, and zero or more: rates fall; got {self.beta!r}."
            )

    def __call__(self, t: int) -> float:
        try:
            return self.eta0 / t**self.beta
        except OverflowError:
            # Smaller than any number, which is said where a rate is used.
            return 0.0


#: The default learning rate of estimators, which counts observations.
DEFAULT_RATE = "auto"

# With the automatic rate, the observation after n others has the step size
# (2/m) (1 + n/m)^-0.8: the sum of the steps diverges and that of their squares converges, as
# stochastic approximation requires. The memory begins with m observations, as many as the model
# needs to be determined by them (``Model.first_memory``), and grows with their number: an estimate
# of P parameters from a memory of N observations costs P / 2N of the log-likelihood, so that fewer
# would undo the initialization.
_EXPONENT = 0.8
#: The least memory, with which an observation has the step size 0.1.
LEAST_MEMORY = 20.0
# Terms of log(1 - x) = -Σ x^j / j; x is 0.1 at most, so that the next term is below rounding.
_N_TERMS = 16
_TERMS = np.arange(1, _N_TERMS + 1)
#: For each term the power of n in its integral times the number of the term.
_DIVISORS = [(1.0 - _EXPONENT * j) * j for j in range(1, _N_TERMS + 1)]
#: A term below this share of the sum of those before changes no bit of it.
_NEGLIGIBLE = 1e-17
#: The smallest rate, that of the smallest double that has all its digits: the weight of what a
#: model has learned, divided by a smaller one, would be infinite.
_LEAST_RATE = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class Forgetting:
    """The automatic rate, with steps that do not fall below those of a half-life.

    After n others an observation has the step size ``ρ(n)``, the larger of the automatic one
    and ``1 - 2^(-1/h)``, so that it counts half after ``h`` more at the latest.

    Parameters
    ----------
    half_life : float
        ``h``, in observations.
    """

    half_life: float

    @property
    def decline(self) -> float:
        """``-log(1 - ρ)`` of the smallest step ρ."""
        return math.log(2.0) / self.half_life

    def begin(self, memory: float) -> float:
        """The number of observations after which the step is the smallest, if positive."""
        smallest = -math.expm1(-self.decline)
        try:
            return (_first_step(memory) / smallest) ** (1.0 / _EXPONENT) - memory
        except OverflowError:
            return math.inf


class Clock(NamedTuple):
    """How far online learning has come."""

    #: Batches learned from since the last ``fit``; a batch that weighs a half counts a half.
    steps: float = 0.0
    #: The weight of all observations behind the model.
    observations: float = 0.0


def rates(learning_rate: float | Callable[[int], float], first: int, count: int) -> np.ndarray:
    """The rates of steps ``first .. first + count - 1`` (the first step ever is 1), checked."""
    return _rates_at(learning_rate, np.arange(first, first + count))


def schedule(
    learning_rate, clock: Clock, weights: np.ndarray, size: float, memory: float = 100.0
) -> tuple[np.ndarray, Clock]:
    """The rates of batches of the given weights, and the clock after them.

    Parameters
    ----------
    learning_rate : 'auto', Forgetting, float, callable or Decay
        A rate η, or a function of the step, is that of a batch of weight ``size``; a batch of
        weight n has the rate η n / size and counts as n / size of a step. ``'auto'`` counts
        observations: after n others, an observation has the step size
        ``ρ(n) = (2/m) (1 + n/m)^-0.8`` with m the ``memory``, and a batch
        ``1 - exp(∫ log(1 - ρ(n)) dn)`` over its weight, as its observations would one after
        another. How data are cut into batches then does not change how much is forgotten.
    clock : Clock
    weights : ndarray of shape (n_batches,)
    size : float
        The weight of a whole batch.
    memory : float, default=100
        The observations that the automatic rate remembers at first: ``model.first_memory``.
    """
    weights = np.asarray(weights, dtype=float)
    if len(weights) == 1:
        eta, *after = next_rate(learning_rate, *clock, float(weights[0]), size, memory)
        return np.array([eta]), Clock(*after)
    shares = weights / size
    if isinstance(learning_rate, Forgetting):
        before = clock.observations + np.cumsum(weights) - weights
        etas = np.array(
            [
                _forgetting_rate(learning_rate, *pair, memory)
                for pair in zip(before, weights, strict=True)
            ]
        )
    elif isinstance(learning_rate, str) and learning_rate == "auto":
        before = clock.observations + np.cumsum(weights) - weights
        etas = _automatic(before, weights, memory)
    else:
        before = clock.steps + np.cumsum(shares) - shares
        # Shares that should sum to a whole step may miss it by rounding.
        etas = _rates_at(learning_rate, np.floor(before + 1e-9).astype(np.int64) + 1)
        # An infinite rate is batch EM on any batch that weighs something.
        etas = np.multiply(etas, shares, out=np.zeros_like(etas), where=shares > 0)
        etas = np.where(shares > 0, np.maximum(etas, _LEAST_RATE), 0.0)
    done = clock.steps + float(shares.sum())
    return etas, Clock(round(done, 9), clock.observations + float(weights.sum()))


def next_rate(
    learning_rate, steps: float, observations: float, weight: float, size: float,
    memory: float = 100.0,
) -> tuple[float, float, float]:  # fmt: skip
    """As :func:`schedule` for one batch, in plain numbers.

    The rate of the batch, and the steps and observations after it.
    """
    share = weight / size
    if isinstance(learning_rate, str) and learning_rate == "auto":
        eta = _automatic_rate(observations, weight, memory)
    elif isinstance(learning_rate, Forgetting):
        eta = _forgetting_rate(learning_rate, observations, weight, memory)
    else:
        # An infinite rate is batch EM on any batch that weighs something.
        eta = 0.0
        if share > 0:
            eta = _rate_at(learning_rate, math.floor(steps + 1e-9) + 1) * share
            eta = max(eta, _LEAST_RATE)
    steps += share
    # Whole steps need no rounding, which takes its time.
    return eta, steps if steps % 1.0 == 0.0 else round(steps, 9), observations + weight


def rate_is_automatic(learning_rate) -> bool:
    """Whether observations are counted, with a half-life or without."""
    return learning_rate == "auto" or isinstance(learning_rate, Forgetting)


def batch_weights(n: int, size: int, sample_weight: np.ndarray | None = None) -> np.ndarray:
    """The weight of each batch of ``size`` out of ``n`` observations; the last may be shorter."""
    starts = np.arange(0, n, size)
    if sample_weight is not None:
        return np.add.reduceat(sample_weight, starts)
    return np.minimum(float(size), n - starts)


def step_size(eta: float) -> float:
    """``ρ = η / (1 + η)``: the weight of the new batch when that of the model is ``1 - ρ``."""
    return 1.0 if math.isinf(eta) else eta / (1.0 + eta)


def _rates_at(learning_rate, steps):
    if isinstance(learning_rate, Decay) and len(steps) > 1:
        with np.errstate(over="ignore"):
            values = learning_rate.eta0 / steps.astype(float) ** learning_rate.beta
        if (values >= _LEAST_RATE).all():
            return values
    if callable(learning_rate):
        return np.array([_rate_at(learning_rate, int(t)) for t in steps], dtype=float)
    return np.full(len(steps), _rate_at(learning_rate, steps[0])) if len(steps) else np.empty(0)


def _rate_at(learning_rate, step):
    """The rate of a whole batch at a step, checked."""
    if callable(learning_rate):
        value = float(cast("Callable[[int], float]", learning_rate)(step))
    elif isinstance(learning_rate, Real) and not isinstance(learning_rate, bool):
        value = float(learning_rate)
    else:
        raise TypeError(
            "learning_rate must be 'auto', a number, a function of the step 1, 2, ..., or "
            f"fastem.Decay; got {learning_rate!r}."
        )
    if not value > 0:
        raise LearningRateError(
            f"The learning rate must be positive; at step {step} it is {value}. "
            "A rate near zero leaves the model alone; infinity is batch EM on each batch."
        )
    if value < _LEAST_RATE:
        raise LearningRateError(
            f"The learning rate is too small; at step {step} it is {value}, below the smallest "
            f"number that has all its digits, {_LEAST_RATE}."
        )
    return value


def _first_step(memory):
    """``ρ(0) mᵞ``, by which ``(n + m)⁻ᵞ`` is multiplied."""
    return 2.0 * memory ** (_EXPONENT - 1.0)


def _automatic_rate(before, weight, memory):
    """As ``_automatic`` for one batch."""
    return _rate_of_exponent(_automatic_exponent(before, weight, memory))


def _forgetting_rate(forgetting, before, weight, memory):
    """The automatic rate until its steps are the smallest, and theirs from then on."""
    slowing = min(max(forgetting.begin(memory) - before, 0.0), weight)
    exponent = _automatic_exponent(before, slowing, memory) if slowing > 0 else 0.0
    return _rate_of_exponent(exponent + (weight - slowing) * forgetting.decline)


def _rate_of_exponent(exponent):
    try:
        return math.expm1(exponent)
    except OverflowError:
        return math.inf


def _automatic_exponent(before, weight, memory):
    """``-∫ log(1 - ρ(n)) dn`` from ``before`` over ``weight``."""
    start = before + memory
    rho, growth = _first_step(memory) * start**-_EXPONENT, weight / start
    factor = math.expm1(-_EXPONENT * math.log1p(growth))
    power_of_start, exponent = start, 0.0
    for divisor in _DIVISORS:
        power_of_start *= rho
        # (1 + growth) is a power of (1 + weight / start), and (1 + factor) leads to the next one.
        growth += factor + growth * factor
        term = power_of_start * growth / divisor
        exponent += term
        if term < _NEGLIGIBLE * exponent:
            break
    return exponent


def _automatic(before, weights, memory):
    """``η = exp(L) - 1`` with ``L = -∫ log(1 - ρ(n)) dn`` from ``before`` over ``weights``."""
    start = before + memory
    powers = 1.0 - _EXPONENT * _TERMS[:, None]
    factors = _first_step(memory) ** _TERMS[:, None] / (powers * _TERMS[:, None])
    # The integral of Σ ρ^j / j: differences of powers, without their cancellation.
    growth = np.expm1(powers * np.log1p(weights / start))
    exponents = (factors * start**powers * growth).sum(axis=0)
    with np.errstate(over="ignore"):
        return np.expm1(exponents)
