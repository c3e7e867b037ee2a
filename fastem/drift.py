"""A sequential test of drift: have the scores of new data fallen?

Scores are the progressive log-likelihoods of online learning: of batches before they are learned
from. The test is a conformal martingale. Among the scores of a reference, all of the past that it
remembers, a new one has a rank; if the scores are exchangeable, every rank is as likely as any
other, whatever ranks came before. Capital that is bet on low ranks at fair odds is then not
expected to grow, and by Ville's inequality the probability that it ever is 1 / alpha times that
of the beginning is at most alpha. Nothing is assumed about the distribution of the scores.

The memory is bounded: a reference is forgotten when it has :data:`MEMORY` scores, and begins anew.
Ranks in separate references are independent, so that the bound stays exact, for streams of any
length. There are two references, half a period apart, so that one has at least half of
:data:`MEMORY` scores once there were so many; each has half of alpha.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

__all__ = ["MEMORY", "Drift", "beginning", "is_drift", "next_drift", "shown"]

#: Scores that are remembered, at most.
MEMORY = 1000
#: Ranks among fewer scores are not bet on.
_FEWEST = 20
#: The bets: a rank that is a share p of all pays κ p^(κ - 1), of which the integral is 1.
_KAPPAS = (0.25, 0.5, 0.75)
# Scores are cut off there, so that their differences are finite.
_LARGEST = 1e150
# Bets are cut off there, so that their sum is finite.
_LARGEST_BET = float(np.finfo(float).max) / 8


class Drift(NamedTuple):
    """What a test of drift has found."""

    #: Whether there was an alarm. The test has ended then.
    detected: bool
    #: ``n_observations_`` at the alarm; None if there was none.
    at: float | None
    #: What one half, bet on a drift, has become: an alarm is given at 1 / ``drift_alarm``.
    evidence: float
    #: The scores that were tested.
    n_scores: int


def beginning(seen: float = 0.0) -> dict[str, Any]:
    """The state of a test, in plain values and arrays.

    Parameters
    ----------
    seen : float, default=0.0
        The observations that the first model was made of: their scores are no test of it.
    """
    return {
        "seen": float(seen),
        "at": None,
        "n_scores": 0,
        "scores": np.empty(0),
        "weights": np.empty(0),
        # For each reference what is not bet yet, and what is bet in each way.
        "capitals": np.array([[1.0] + [0.0] * len(_KAPPAS)] * 2),
    }


def shown(state: dict[str, Any]) -> Drift:
    """The state for users."""
    return Drift(state["at"] is not None, state["at"], _evidence(state), state["n_scores"])


def next_drift(
    state: dict[str, Any], alpha: float, n_observations: float, weight: float, score: float
) -> dict[str, Any]:
    """The state after one more score: a new one; the one before is left as it is.

    Parameters
    ----------
    state : dict
    alpha : float
        The largest probability of an alarm, ever, while scores are exchangeable.
    n_observations : float
        The observations so far, those of this batch included.
    weight : float
        Their weight in this batch. The means of larger batches vary less, so that deviations from
        the median count times the square root of the weight.
    score : float
        The mean log-likelihood of the batch.
    """
    if state["at"] is not None or n_observations - weight < state["seen"]:
        return state
    m = state["n_scores"]
    scores = np.concatenate((state["scores"], (min(max(score, -_LARGEST), _LARGEST),)))
    weights = np.concatenate((state["weights"], (weight,)))
    # The second reference is half a period ahead, but for scores that do not exist.
    sizes = m % MEMORY, min(m, (m + MEMORY // 2) % MEMORY)
    capitals = np.array([
        _after_bet(capital, _rank(scores[-size - 1 :], weights[-size - 1 :], m), size + 1, m)
        if size >= _FEWEST
        else capital
        for capital, size in zip(state["capitals"], sizes, strict=True)
    ])  # fmt: skip
    # What is in neither reference is forgotten.
    kept = max((size + 1) % MEMORY for size in sizes)
    after = {
        **state,
        "n_scores": m + 1,
        "scores": scores[-kept:],
        "weights": weights[-kept:],
        "capitals": capitals,
    }
    if _evidence(after) >= 1.0 / alpha:
        after["at"] = float(n_observations)
    return after


def is_drift(value) -> bool:
    """Whether this can be the state of a test."""
    if not isinstance(value, dict) or value.keys() != beginning().keys():
        return False
    seen, at, n_scores, scores, weights, capitals = (value[name] for name in beginning())
    arrays = scores, weights, capitals
    sizes = (
        {(n_scores + offset) % MEMORY for offset in (0, MEMORY // 2)} if _is_whole(n_scores) else ()
    )
    return (
        _is_whole(n_scores)
        and _is_amount(seen)
        and (at is None or _is_amount(at))
        and all(isinstance(array, np.ndarray) and array.dtype == np.float64 for array in arrays)
        and scores.shape == weights.shape == (min(n_scores, max(sizes)),)
        and bool(np.isfinite(scores).all() and (weights > 0).all() and np.isfinite(weights).all())
        and capitals.shape == (2, 1 + len(_KAPPAS))
        and bool((capitals >= 0).all() and np.isfinite(capitals).all())
    )


def _is_whole(value):
    return type(value) is int and value >= 0


def _is_amount(value):
    return isinstance(value, float) and 0 <= value < math.inf


def _evidence(state):
    # Each reference has half of alpha.
    return max(map(sum, state["capitals"].tolist())) / 2.0


def _rank(scores, weights, seed):
    """The rank of the last score from below, 1 for the lowest; equal ones in random order."""
    if np.count_nonzero(weights != weights[-1]):
        # The same function for all, in which the order does not matter: ranks stay exchangeable.
        scores = np.sqrt(weights) * (scores - np.median(scores))
    last = scores[-1]
    below, equal = np.count_nonzero(scores < last), np.count_nonzero(scores == last)
    if equal == 1:
        return below + 1
    return below + int(np.random.default_rng(seed).integers(1, equal + 1))


def _after_bet(capital, rank, n, m):
    """The capital of a reference after a rank among ``n``."""
    waiting, *bets = capital.tolist()
    # Nobody knows when a drift begins: some of the capital is bet from each score on.
    new = waiting * 0.5 / (m + 1)
    share = rank / n
    bets = [
        min((bet + new / len(_KAPPAS)) * kappa * share ** (kappa - 1.0), _LARGEST_BET)
        for bet, kappa in zip(bets, _KAPPAS, strict=True)
    ]
    return waiting - new, *bets
