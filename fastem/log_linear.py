"""The log-linear pool of probabilities: what the other direction of the divergence combines to.

The model of least ``Σ α_m Δ(Θ̃, Θ_m)``, with the new model in the first argument, is proportional to
``Π p_m^α``: geometric means take the place of means.
"""

from __future__ import annotations

import numpy as np
from scipy.special import softmax, xlogy

from .exceptions import NothingInCommon

__all__ = ["NothingInCommon", "chosen", "geometric_mean", "log_mean", "weighted_sum"]


def weighted_sum(arrays, alphas) -> np.ndarray:
    """``Σ α_m a_m`` over the arrays of positive weight."""
    pairs = zip(arrays, alphas, strict=True)
    return sum(alpha * np.asarray(array) for array, alpha in pairs if alpha > 0)


def log_mean(arrays, alphas) -> np.ndarray:
    """``Σ α_m log a_m``; minus infinity where some are zero."""
    with np.errstate(divide="ignore"):
        return weighted_sum([np.log(array) for array in arrays], alphas)


def geometric_mean(arrays, alphas) -> np.ndarray:
    """Geometric means over the models, made to sum to one along the last axis.

    Where nothing is possible under all models, what the first one has.
    """
    logs = log_mean(arrays, alphas)
    some = np.isfinite(logs).any(axis=-1, keepdims=True)
    return np.where(some, softmax(np.where(some, logs, 0.0), axis=-1), arrays[0])


def chosen(arrays, alphas, costs, *, fixed=False) -> tuple[np.ndarray, np.ndarray]:
    """The probabilities of a choice, made along the last axis, and what the choice costs.

    ``p_h ∝ Π p_mh^α e^(-c_h)`` minimizes ``Σ_h p_h (log p_h - Σ α_m log p_mh + c_h)``, where
    ``c_h`` is the cost of what follows from choosing ``h``. If they are ``fixed``, they are those
    of the first model. The cost is infinite if no choice is possible.
    """
    scores = log_mean(arrays, alphas) - costs
    if not fixed:
        best = scores.max(axis=-1, keepdims=True)
        best = np.where(np.isfinite(best), best, 0.0)
        with np.errstate(divide="ignore"):
            totals = np.log(np.exp(scores - best).sum(axis=-1)) + best[..., 0]
        some = np.isfinite(scores).any(axis=-1, keepdims=True)
        return np.where(some, softmax(np.where(some, scores, 0.0), axis=-1), arrays[0]), -totals
    first = np.asarray(arrays[0])
    with np.errstate(invalid="ignore"):
        gains = np.where(first > 0, first * scores, 0.0)
    return first, (xlogy(first, first) - gains).sum(axis=-1)
