"""EM as pykalman has it: which parameters, and in which order."""

from __future__ import annotations

import numpy as np

from .kalman_model import NAMES

__all__ = ["em_step"]

_AXES = {"m": 1, "V": 2, "A": 2, "b": 1, "Q": 2, "C": 2, "c": 1, "R": 2}


def em_step(model, sequences, free):
    """One iteration: the next model, with the parameters named in ``free`` replaced.

    Matrices and covariances are the best given the present offsets; the offsets follow, given the
    new matrices. Parameters that are not free may change with time.
    """
    varies = any(getattr(model, letter).ndim > _AXES[letter] for letter in NAMES.values())
    if varies:
        return _varying_step(model, sequences.X, free)
    statistics = model.expect(sequences).statistics
    held = {name: name not in free or name.endswith("offsets") for name in NAMES}
    model.held = held
    new = model.maximize(statistics).parameters
    for name, block, matrix in (
        ("transition_offsets", "transition", "transition_matrices"),
        ("observation_offsets", "observation", "observation_matrices"),
    ):
        if name in free and statistics[block].mass[0] > 0:
            mean, k = statistics[block].mean[0], len(new[name])
            new[name] = mean[:k] - new[matrix] @ mean[k:]
    return model.with_parameters(new)


def _varying_step(model, X, free):
    """The same with matrices or offsets that change with time."""
    means, covariances, lags, _ = model.infer(X, True, lags=True)
    seen = ~np.isnan(X).any(axis=1)
    steps = len(means) - 1
    new = dict(model.parameters)

    def each(value, axes, n):
        return np.broadcast_to(value, (n, *value.shape)) if value.ndim == axes else value[:n]

    second = covariances + np.einsum("ti,tj->tij", means, means)
    h, v = means[seen], X[seen]
    c = each(model.c, 1, len(X))[seen]
    if "observation_matrices" in free:
        new["observation_matrices"] = np.einsum("ti,tj->ij", v - c, h) @ np.linalg.pinv(
            second[seen].sum(axis=0)
        )
    C = each(new["observation_matrices"], 2, len(X))[seen]
    if "observation_covariance" in free and seen.any():
        left = v - np.einsum("tij,tj->ti", C, h) - c
        spread = np.einsum("tij,tjk,tlk->il", C, covariances[seen], C)
        new["observation_covariance"] = (left.T @ left + spread) / seen.sum()
    b = each(model.b, 1, steps)
    if "transition_matrices" in free:
        pair = lags.sum(axis=0) + np.einsum("ti,tj->ij", means[1:] - b, means[:-1])
        new["transition_matrices"] = pair @ np.linalg.pinv(second[:-1].sum(axis=0))
    A = each(new["transition_matrices"], 2, steps)
    if "transition_covariance" in free and steps:
        left = means[1:] - np.einsum("tij,tj->ti", A, means[:-1]) - b
        cross = np.einsum("tij,tkj->ik", lags, A)
        spread = np.einsum("tij,tjk,tlk->il", A, covariances[:-1], A)
        spread += covariances[1:].sum(axis=0) - cross - cross.T
        new["transition_covariance"] = (left.T @ left + spread) / steps
    if "initial_state_mean" in free:
        new["initial_state_mean"] = means[0]
    if "initial_state_covariance" in free:
        shift = means[0] - new["initial_state_mean"]
        new["initial_state_covariance"] = covariances[0] + np.outer(shift, shift)
    if "transition_offsets" in free:
        left = means[1:] - np.einsum("tij,tj->ti", A, means[:-1])
        new["transition_offsets"] = left.mean(axis=0) if steps else np.zeros(means.shape[1])
    if "observation_offsets" in free and seen.any():
        new["observation_offsets"] = (v - np.einsum("tij,tj->ti", C, h)).mean(axis=0)
    return model.with_parameters(new)
