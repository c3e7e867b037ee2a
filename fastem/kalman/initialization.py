"""Initialization of a Kalman filter of which nothing is given: the data's subspaces."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

__all__ = ["initial_parameters"]

# The most rows of past and future that are regressed on each other.
_MOST_ROWS = 50_000
# Noise that is allowed for, as a share of the variance of the data.
_FLOOR = 1e-3
# A spread this small beside the values is rounding.
_ROUNDING = 1e-13
# Values from this to its reciprocal have squares that a double can hold.
_SMALLEST = 1e-153


def initial_parameters(sequences, n_states: int, rng) -> dict[str, np.ndarray]:
    """Parameters by name: states are what the past says of the future (canonical variates).

    The next few observations are regressed on the last few; the leading singular vectors of the
    fit, in units of the residuals' spread, are the states, and the matrices are regressions on
    them. Missing values are replaced by the column's mean. Sequences too short to have a past and
    a future are described by their principal components.
    """
    X, p = sequences.X, sequences.X.shape[1]
    mean = sequences.center
    rows = np.where(np.isnan(X), 0.0, X - mean)
    largest = np.abs(np.where(np.isnan(X), 0.0, X)).max(axis=0)
    _check_range(largest)
    scale = np.sqrt(np.maximum(rows.var(axis=0), 1e-12 * max(rows.var(), 1e-300)))
    # Of a column that does not vary only rounding of its mean is left.
    scale[rows.std(axis=0) <= _ROUNDING * largest] = 1.0
    rows = rows / scale
    # Two windows of this many rows, one after the other, fit into the longest sequence.
    span = max(1, min(-(-n_states // p) + 1, int(sequences.lengths.max()) // 2))
    now_at = _windows(sequences, span)
    if len(now_at) > n_states + span * p:
        states, at = _variates(rows, now_at, span, n_states)
    else:
        states, at = _components(rows, n_states), np.arange(len(rows))
    if states.shape[1] < n_states:
        more = rng.standard_normal((len(states), n_states - states.shape[1]))
        states = np.hstack([states, more])
    states = states / np.maximum(states.std(axis=0), 1e-12)

    # Regressions on the states: of the observations, and of the states one step later.
    C, R = _regress(rows[at], states)
    index = np.full(len(rows), -1)
    index[at] = np.arange(len(at))
    before = np.setdiff1d(at, sequences.bounds[1:] - 1)
    before = before[index[before + 1] >= 0]
    if len(before) > n_states:
        A, Q = _regress(states[index[before + 1]], states[index[before]])
        radius = np.abs(np.linalg.eigvals(A)).max()
        if radius > 0.99:
            A = A * (0.99 / radius)
    else:
        A, Q = 0.5 * np.eye(n_states), 0.5 * np.eye(n_states)
    at_starts = index[sequences.starts]
    first = states[at_starts] if (at_starts >= 0).all() else np.zeros((1, n_states))
    return {
        "initial_state_mean": first.mean(axis=0),
        "initial_state_covariance": np.eye(n_states),
        "transition_matrices": A,
        "transition_offsets": np.zeros(n_states),
        "transition_covariance": Q + _FLOOR * np.eye(n_states),
        "observation_matrices": C * scale[:, None],
        "observation_offsets": mean.copy(),
        "observation_covariance": (R + _FLOOR * np.eye(p)) * np.outer(scale, scale),
    }


def _check_range(largest):
    """Raise ``ValueError`` if squares of a column would overflow or vanish."""
    wrong = np.flatnonzero(((largest < _SMALLEST) & (largest > 0)) | (largest > 1.0 / _SMALLEST))
    if len(wrong):
        raise ValueError(
            f"The values of column {wrong[0]} are of the size {largest[wrong[0]]:.1g}, and their "
            "squares are beyond what a double can hold. Scale the columns to a moderate range."
        )


def _windows(sequences, span):
    """Where a past of ``span`` rows ends and a future of as many begins, within one sequence."""
    return np.concatenate(
        [
            np.arange(start + span, stop - span + 1)
            for start, stop in pairwise(sequences.bounds.tolist())
        ]
    )


def _variates(rows, now_at, span, n_states):
    past = np.hstack([rows[now_at - span + i] for i in range(span)])
    future = np.hstack([rows[now_at + i] for i in range(span)])
    few = slice(None, None, max(1, len(past) // _MOST_ROWS))
    some = past[few]
    fit, residual = _regress(future[few], some)
    unit = np.linalg.cholesky(residual + _FLOOR * np.eye(len(residual)))
    spread = np.linalg.cholesky(some.T @ some / len(some) + 1e-9 * np.eye(some.shape[1]))
    _, _, directions = np.linalg.svd(np.linalg.solve(unit, fit @ spread), full_matrices=False)
    weights = np.linalg.solve(spread.T, directions[:n_states].T)
    # A state is the past up to the row it belongs to.
    return past @ weights, now_at - 1


def _components(rows, n_states):
    _, _, directions = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    return rows @ directions[:n_states].T


def _regress(y, x):
    """The matrix of y on x, and the covariance of what is left."""
    # If x is zero throughout, so is the matrix.
    ridge = 1e-9 * np.trace(x.T @ x) / x.shape[1] * np.eye(x.shape[1])
    if not ridge.any():
        ridge = np.eye(x.shape[1])
    W = np.linalg.solve(x.T @ x + ridge, x.T @ y).T
    left = y - x @ W.T
    return W, left.T @ left / len(left)
