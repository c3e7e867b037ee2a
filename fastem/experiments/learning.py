"""Batch EM and online EM from the same start, with the loss on all of the data along the way."""

from __future__ import annotations

import copy
from itertools import pairwise

import numpy as np

from .result import Level

__all__ = ["batch_levels", "batch_losses", "distance", "online_losses", "places"]


def places(n: int, count: int = 50) -> list[int]:
    """0 and about ``count`` whole numbers up to ``n``, evenly spaced in the logarithm."""
    return [0, *np.unique(np.rint(np.geomspace(1, n, count)).astype(int)).tolist()]


def loss(model, data) -> float:
    """The mean negative log-likelihood of an observation."""
    return -float(model.expect(data).log_likelihood)


def batch_losses(estimator, data, n_steps: int) -> list[float]:
    """The loss before and after each step of batch EM."""
    model, losses = estimator._model(), []
    for _ in range(n_steps):
        expectation = model.expect(data)
        losses.append(-float(expectation.log_likelihood))
        model = model.maximize(expectation.statistics)
    return [*losses, loss(model, data)]


def batch_levels(batch: list[list[float]], *steps: int) -> list[Level]:
    """The losses after so many steps of batch EM; ``batch`` has those of each start."""
    return [
        Level(f"batch EM after {k} step{'s' if k > 1 else ''}", [losses[k] for losses in batch])
        for k in steps
    ]


def online_losses(estimator, X, data, at: list[int], **settings) -> list[float]:
    """The loss after so many observations of ``X``, learned from in order, on all of ``data``."""
    estimator = copy.deepcopy(estimator).set_params(**settings)
    losses = [loss(estimator._model(), data)]
    for begin, end in pairwise(at):
        estimator.partial_fit(X[begin:end])
        losses.append(loss(estimator._model(), data))
    return losses


def distance(found: dict[float, float], printed: dict[float, float]) -> float:
    """How far last losses are from printed ones: the mean of ``|ln(found/printed)|``."""
    return float(np.mean([abs(np.log(found[eta] / loss)) for eta, loss in printed.items()]))
