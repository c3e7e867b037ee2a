"""EM as pykalman has it: which parameters, and in which order."""

from __future__ import annotations

import numpy as np

from .model import NAMES

__all__ = ["em_step"]


def em_step(model, sequences, free, entries=None):
    """One iteration: the next model, with the parameters named in ``free`` replaced.

    Matrices and covariances are the best given the present offsets; the offsets follow, given the
    new matrices. Parameters that are not free may change with time.

    Parameters
    ----------
    model : KalmanModel
    sequences : Observations
    free : set of str
    entries : dict, optional
        For some of the free parameters, which of their entries stay.
    """
    entries = {} if entries is None else entries
    if model.varies:
        if entries:
            raise ValueError(
                f"Single entries of {sorted(entries)} are held fixed, and the system changes with "
                "time: hold whole parameters, or let the system be constant."
            )
        return _varying_step(model, sequences, free)
    statistics = model.expect(sequences).statistics
    held = {
        name: name not in free or name.endswith("offsets") or entries.get(name, False)
        for name in NAMES
    }
    new = model.with_held(held).maximize(statistics).parameters
    for name, block, matrix in (
        ("transition_offsets", "transition", "transition_matrices"),
        ("observation_offsets", "observation", "observation_matrices"),
    ):
        if name in free and statistics[block].mass[0] > 0:
            mean, k = statistics[block].mean[0], len(new[name])
            best = mean[:k] - new[matrix] @ mean[k:]
            new[name] = np.where(entries.get(name, False), new[name], best)
    return model.with_parameters(new, trusted=True)


def _varying_step(model, sequences, free):
    """The same with matrices or offsets that change with time: sums over all sequences."""
    X = sequences.X
    means, covariances, lags, _ = model.infer(sequences, True, lags=True)
    new = dict(model.parameters)
    weights = sequences.row_weights
    weights = np.ones(len(X)) if weights is None else weights
    starts = sequences.starts
    times = np.arange(len(X)) - np.repeat(starts, sequences.lengths)
    # Rows that have one after them in their sequence, and those rows.
    is_last = np.zeros(len(X), dtype=bool)
    is_last[sequences.bounds[1:] - 1] = True
    earlier = np.flatnonzero(~is_last)
    later = earlier + 1
    seen = np.flatnonzero(~np.isnan(X).any(axis=1) & (weights > 0))

    def at(value, axes, rows):
        if value.ndim == axes:
            return np.broadcast_to(value, (len(rows), *value.shape))
        return value[times[rows]]

    second = covariances + np.einsum("ti,tj->tij", means, means)
    h, v, w = means[seen], X[seen], weights[seen]
    c = at(model.c, 1, seen)
    if "observation_matrices" in free and len(seen):
        pair = np.einsum("t,ti,tj->ij", w, v - c, h)
        new["observation_matrices"] = pair @ np.linalg.pinv(
            np.einsum("t,tij->ij", w, second[seen]), hermitian=True
        )
    C = at(new["observation_matrices"], 2, seen)
    if "observation_covariance" in free and len(seen):
        left = v - np.einsum("tij,tj->ti", C, h) - c
        total = np.einsum("t,ti,tj->ij", w, left, left)
        total += np.einsum("t,tij,tjk,tlk->il", w, C, covariances[seen], C, optimize=True)
        new["observation_covariance"] = total / w.sum()
    w = weights[earlier]
    moves = w.sum() > 0
    b = at(model.b, 1, earlier)
    if "transition_matrices" in free and moves:
        pair = np.einsum("t,tij->ij", w, lags[earlier])
        pair += np.einsum("t,ti,tj->ij", w, means[later] - b, means[earlier])
        new["transition_matrices"] = pair @ np.linalg.pinv(
            np.einsum("t,tij->ij", w, second[earlier]), hermitian=True
        )
    A = at(new["transition_matrices"], 2, earlier)
    if "transition_covariance" in free and moves:
        left = means[later] - np.einsum("tij,tj->ti", A, means[earlier]) - b
        cross = np.einsum("t,tij,tkj->ik", w, lags[earlier], A, optimize=True)
        total = np.einsum("t,ti,tj->ij", w, left, left) - cross - cross.T
        total += np.einsum("t,tij,tjk,tlk->il", w, A, covariances[earlier], A, optimize=True)
        total += np.einsum("t,tij->ij", w, covariances[later])
        new["transition_covariance"] = total / w.sum()
    shares = weights[starts] / weights[starts].sum()
    if "initial_state_mean" in free:
        new["initial_state_mean"] = shares @ means[starts]
    if "initial_state_covariance" in free:
        shift = means[starts] - new["initial_state_mean"]
        spread = covariances[starts] + np.einsum("si,sj->sij", shift, shift)
        new["initial_state_covariance"] = np.einsum("s,sij->ij", shares, spread)
    if "transition_offsets" in free:
        left = means[later] - np.einsum("tij,tj->ti", A, means[earlier])
        new["transition_offsets"] = w @ left / w.sum() if moves else np.zeros(means.shape[1])
    if "observation_offsets" in free and len(seen):
        w = weights[seen]
        new["observation_offsets"] = w @ (v - np.einsum("tij,tj->ti", C, h)) / w.sum()
    return model.with_parameters(new, trusted=True)
