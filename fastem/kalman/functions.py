"""The Kalman filter and the smoother as functions of arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .data import as_table
from .model import KalmanModel

__all__ = ["KalmanStates", "kalman_filter", "rts_smoother"]


class KalmanStates(NamedTuple):
    """What :func:`kalman_filter` and :func:`rts_smoother` return."""

    #: ``log p(x)``: a number, or one for each sequence if ``lengths`` were given.
    log_likelihood: float | np.ndarray
    #: Means of the states, (n_rows, n_dim_state).
    means: np.ndarray
    #: Their covariances, (n_rows, n_dim_state, n_dim_state).
    covariances: np.ndarray


def kalman_filter(
    observations, transition_matrices, observation_matrices, transition_covariance,
    observation_covariance, initial_state_mean, initial_state_covariance, *,
    transition_offsets=None, observation_offsets=None, lengths=None,
) -> KalmanStates:  # fmt: skip
    """Means and covariances of the states given the observations so far.

    ``h_1 ~ N(m, V)``, ``h_{t+1} = A h_t + b + N(0, Q)``, ``x_t = C h_t + c + N(0, R)``.

    Parameters
    ----------
    observations : array-like of shape (n_rows, n_dim_obs)
        Several sequences lie one after another. NaN is a missing value.
    transition_matrices, observation_matrices : array-like
        A of the shape (n_dim_state, n_dim_state), and C of the shape (n_dim_obs, n_dim_state). All
        parameters but those of the initial state may have time as one more axis before.
    transition_covariance, observation_covariance : array-like
        Q and R: symmetric, without negative eigenvalues.
    initial_state_mean, initial_state_covariance : array-like
        m and V.
    transition_offsets, observation_offsets : array-like, optional
        b of the shape (n_dim_state,) and c of the shape (n_dim_obs,); zero by default.
    lengths : array-like of int, optional
        The numbers of rows of the sequences; by default all rows are one.

    Returns
    -------
    KalmanStates
        With ``log_likelihood``, ``means`` and ``covariances``.

    Raises
    ------
    ValueError
        If sizes differ, a parameter has NaN or infinity, a covariance is none, or an observation
        has no density.

    Examples
    --------
    >>> from fastem import functional
    >>> system = [[1.0]], [[1.0]], [[0.1]], [[1.0]], [0.0], [[1.0]]
    >>> functional.kalman_filter([[1.0], [2.0], [3.0]], *system).means.round(3)
    array([[0.5  ],
           [1.062],
           [1.686]])
    """
    return _inferred(False, observations, lengths, locals())


def rts_smoother(
    observations, transition_matrices, observation_matrices, transition_covariance,
    observation_covariance, initial_state_mean, initial_state_covariance, *,
    transition_offsets=None, observation_offsets=None, lengths=None,
) -> KalmanStates:  # fmt: skip
    """Means and covariances of the states given all observations of their sequence.

    The smoother of Rauch, Tung and Striebel.

    Parameters
    ----------
    observations, transition_matrices, observation_matrices, transition_covariance
        As for :func:`kalman_filter`.
    observation_covariance, initial_state_mean, initial_state_covariance
        As for :func:`kalman_filter`.
    transition_offsets, observation_offsets, lengths
        As for :func:`kalman_filter`.

    Returns
    -------
    KalmanStates
        With ``log_likelihood``, ``means`` and ``covariances``.

    Raises
    ------
    ValueError
        As for :func:`kalman_filter`.

    Examples
    --------
    >>> from fastem import functional
    >>> system = [[1.0]], [[1.0]], [[0.1]], [[1.0]], [0.0], [[1.0]]
    >>> functional.rts_smoother([[1.0], [2.0], [3.0]], *system).means.round(3)
    array([[1.379],
           [1.555],
           [1.686]])
    """
    return _inferred(True, observations, lengths, locals())


def _inferred(smooth, observations, lengths, given):
    """Filter or smooth; ``given`` has the parameters by name, and other arguments."""
    parameters = {
        name: value for name, value in given.items() if name not in ("observations", "lengths")
    }
    for offsets, matrices in (
        ("transition_offsets", "transition_matrices"),
        ("observation_offsets", "observation_matrices"),
    ):
        if parameters[offsets] is None:
            # What is no matrix is refused with the others.
            parameters[offsets] = np.zeros((np.shape(parameters[matrices]) or (1,))[-2:][0])
    model = KalmanModel(parameters)
    table = as_table(observations, lengths, model.c.shape[-1])
    means, covariances, _, gains = model.infer(table, smooth)
    if lengths is None:
        return KalmanStates(float(gains.sum()), means, covariances)
    return KalmanStates(np.add.reduceat(gains, table.starts), means, covariances)
