"""EM as pykalman has it: which parameters, and in which order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .. import algebra
from ..statistics import Expectation
from .checks import NAMES, at_times
from .data import Observations
from .model import KalmanModel

__all__ = ["pykalman_em"]


def pykalman_em(model, sequences, rule, free, entries) -> KalmanModel:
    """The model when a rule says stop, with the parameters named in ``free`` replaced.

    Matrices and covariances are the best given the present offsets; the offsets follow, given the
    new matrices. Parameters that are not free may change with time.

    Parameters
    ----------
    model : KalmanModel
    sequences : Observations
    rule : StoppingRule
        It sees a :class:`PykalmanSystem`.
    free : set of str
    entries : dict
        For some of the free parameters, which of their entries stay.
    """
    system = PykalmanSystem(model, free, entries)
    return algebra.fit(system, sequences, rule).model.model


class Smoothed(NamedTuple):
    """The states of sequences given all observations, as :meth:`KalmanModel.infer` gives them."""

    sequences: Observations
    means: np.ndarray
    covariances: np.ndarray
    lags: np.ndarray


class PykalmanSystem(NamedTuple):
    """A Kalman filter, constant or not, whose M-step is pykalman's.

    While some parameter changes with time, the statistics are the smoothed states themselves.
    """

    model: KalmanModel
    free: frozenset[str]
    entries: dict

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
        if self.model.varies:
            new = _varying_step(self.model, statistics, self.free)
        else:
            new = _constant_step(self.model, statistics, self.free, self.entries)
        return self._replace(model=self.model.with_parameters(new, trusted=True))

    def iterate(self, sequences, limit, prior=None) -> None:
        """No kernel takes such steps."""

    def with_horizon(self, horizon) -> PykalmanSystem:
        """The same system with ``horizon`` as the lengths of its sequences."""
        return self._replace(model=self.model.with_horizon(horizon))


def _constant_step(model, statistics, free, entries):
    """The new parameters of a system that is constant in time, by name."""
    held = {
        name: name not in free or name.endswith("offsets") or entries.get(name, False)
        for name in NAMES
    }
    new = model.with_held(held).maximize(statistics).parameters
    for block in ("transition", "observation"):
        name, matrix = f"{block}_offsets", new[f"{block}_matrices"]
        if name in free and statistics[block].mass[0] > 0:
            mean, k = statistics[block].mean[0], len(new[name])
            best = mean[:k] - matrix @ mean[k:]
            new[name] = np.where(entries.get(name, False), new[name], best)
    return new


def _varying_step(model, smoothed, free):
    """The same if some parameter changes with time: regressions on the smoothed states."""
    sequences, means, covariances, lags = smoothed
    X, starts = sequences.X, sequences.starts
    weights = sequences.row_weights
    weights = np.ones(len(X)) if weights is None else weights
    times = np.arange(len(X)) - np.repeat(starts, sequences.lengths)
    seen = np.flatnonzero(~np.isnan(X).any(axis=1) & (weights > 0))
    # Rows that have one after them in their sequence, and those rows.
    earlier = np.delete(np.arange(len(X)), sequences.bounds[1:] - 1)
    later = earlier + 1
    new = dict(model.parameters)

    def regress(block, y, rows, lags=None, noise=None):
        """Regress y on the states of rows; a hidden y has ``noise``, and ``lags`` with them."""
        matrix, offset, covariance = (
            f"{block}_{part}" for part in ("matrices", "offsets", "covariance")
        )
        h, P, w = means[rows], covariances[rows], weights[rows]
        if not w.sum() > 0:
            return
        before = at_times(offset, new[offset], times[rows])
        if matrix in free:
            pair = np.einsum("t,ti,tj->ij", w, y - before, h)
            if lags is not None:
                pair += np.einsum("t,tij->ij", w, lags)
            second = P + np.einsum("ti,tj->tij", h, h)
            new[matrix] = pair @ np.linalg.pinv(np.einsum("t,tij->ij", w, second), hermitian=True)
        W = at_times(matrix, new[matrix], times[rows])
        left = y - np.einsum("tij,tj->ti", W, h)
        if covariance in free:
            rest = left - before
            total = np.einsum("t,ti,tj->ij", w, rest, rest)
            if lags is not None:
                cross = np.einsum("t,tij,tkj->ik", w, lags, W, optimize=True)
                total = total - cross - cross.T
            total += np.einsum("t,tij,tjk,tlk->il", w, W, P, W, optimize=True)
            if noise is not None:
                total += np.einsum("t,tij->ij", w, noise)
            new[covariance] = total / w.sum()
        if offset in free:
            new[offset] = w @ left / w.sum()

    regress("observation", X[seen], seen)
    regress("transition", means[later], earlier, lags[earlier], covariances[later])
    if "transition_offsets" in free and not weights[earlier].sum() > 0:
        # As in pykalman, of sequences of one step.
        new["transition_offsets"] = np.zeros(means.shape[1])
    shares = weights[starts] / weights[starts].sum()
    if "initial_state_mean" in free:
        new["initial_state_mean"] = shares @ means[starts]
    if "initial_state_covariance" in free:
        shift = means[starts] - new["initial_state_mean"]
        spread = covariances[starts] + np.einsum("si,sj->sij", shift, shift)
        new["initial_state_covariance"] = np.einsum("s,sij->ij", shares, spread)
    return new
