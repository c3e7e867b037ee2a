"""EM as pykalman has it: which parameters, and in which order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .. import algebra
from ..statistics import Expectation
from ..stopping import StoppingRule
from .data import Observations
from .model import NAMES, KalmanModel

__all__ = ["pykalman_em"]


def pykalman_em(model, sequences, n_iter, free, entries) -> KalmanModel:
    """The model after ``n_iter`` iterations, with the parameters named in ``free`` replaced.

    Matrices and covariances are the best given the present offsets; the offsets follow, given the
    new matrices. Parameters that are not free may change with time.

    Parameters
    ----------
    model : KalmanModel
    sequences : Observations
    n_iter : int
    free : set of str
    entries : dict
        For some of the free parameters, which of their entries stay.
    """
    system = PykalmanSystem(model, free, entries)
    return algebra.fit(system, sequences, StoppingRule(n_iter)).model.model


class Smoothed(NamedTuple):
    """The states of sequences given all observations, as :meth:`KalmanModel.infer` gives them."""

    sequences: Observations
    means: np.ndarray
    covariances: np.ndarray
    lags: np.ndarray


class PykalmanSystem:
    """A Kalman filter, constant or not, whose M-step is pykalman's.

    While some parameter changes with time, the statistics are the smoothed states themselves.
    """

    def __init__(self, model, free, entries):
        self.model, self.free, self.entries = model, free, entries

    def expect(self, sequences) -> Expectation:
        """``S(V|Θ)``, or the smoothed states."""
        if not self.model.varies:
            return self.model.expect(sequences)
        if self.entries:
            raise ValueError(
                f"Single entries of {sorted(self.entries)} are held fixed, and the system changes "
                "with time: hold whole parameters, or let the system be constant."
            )
        means, covariances, lags, gains = self.model.infer(sequences, True, lags=True)
        each = np.add.reduceat(gains, sequences.starts)
        return Expectation(
            Smoothed(sequences, means, covariances, lags),
            float(np.average(each, weights=sequences.sample_weight)),
            sequences.total_weight,
            sequences.horizon,
        )

    def maximize(self, statistics) -> PykalmanSystem:
        """The next system."""
        step = _varying_step if self.model.varies else _constant_step
        new = step(self.model, statistics, self.free, self.entries)
        return PykalmanSystem(
            self.model.with_parameters(new, trusted=True), self.free, self.entries
        )

    def with_horizon(self, horizon) -> PykalmanSystem:
        """The same system with ``horizon`` as the lengths of its sequences."""
        return PykalmanSystem(self.model.with_horizon(horizon), self.free, self.entries)


def _constant_step(model, statistics, free, entries):
    """The new parameters of a system that is constant in time, by name."""
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
    return new


def _varying_step(model, smoothed, free, entries):
    """The same with matrices or offsets that change with time: sums over all sequences."""
    sequences, means, covariances, lags = smoothed
    X = sequences.X
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
    return new
