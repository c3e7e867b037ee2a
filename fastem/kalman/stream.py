"""The Kalman filter one observation at a time."""

from __future__ import annotations

import math

import numpy as np

from ..kernels.kalman.stream import forward
from ..kernels.kalman.system import Workspace
from .checks import check_constant
from .model import no_density
from .one_step import is_plain

__all__ = ["KalmanStream"]


class KalmanStream:
    """Filters observations as they come; a step takes microseconds.

    Made by :meth:`fastem.KalmanFilter.stream`.

    Attributes
    ----------
    mean : ndarray of shape (n_dim_state,)
        The mean of the present state given all observations so far.
    covariance : ndarray of shape (n_dim_state, n_dim_state)
        Its covariance.
    log_likelihood : float
        The log-likelihood of all observations so far.
    n_steps : int
        How many there were.

    Examples
    --------
    >>> import fastem
    >>> walk = fastem.KalmanFilter(transition_matrices=[[1.0]], observation_matrices=[[1.0]])
    >>> stream = walk.stream()
    >>> for x in [[1.0], [2.0], [1.5]]:
    ...     mean, covariance, log_likelihood = stream.update(x)
    >>> stream.n_steps, mean.round(2)
    (3, array([1.46]))
    """

    def __init__(self, model):
        check_constant(model.parameters)
        space = Workspace(model.packed, 1, model.direct)
        self._x, self._places = space.x, space.places
        self._d, self._p = len(model.m), len(model.c)
        self._of_row, self._of_covariance = (self._p,), (self._d, self._d)
        self._mean = np.zeros(self._d)
        self._covariance = np.zeros((self._d, self._d))
        self.log_likelihood = 0.0
        self.n_steps = 0

    @property
    def mean(self) -> np.ndarray:
        return self._mean.copy()

    @property
    def covariance(self) -> np.ndarray:
        return self._covariance.copy()

    def update(self, observation=None):
        """Take the next observation.

        Parameters
        ----------
        observation : array-like of shape (n_dim_obs,), optional
            NaN is a missing value; nothing, or None, is a missing step, and so is one with masked
            values.

        Returns
        -------
        mean, covariance : ndarray
            Of the state now.
        log_likelihood : float
            Of this observation given those before.

        Raises
        ------
        ValueError
            If it is not an observation of this model, or has no density. The stream is then as it
            was before.
        """
        row = observation if is_plain(observation, self._of_row) else self._row(observation)
        mean, covariance = np.empty(self._d), np.empty(self._of_covariance)
        gained = forward(self._x, self._places, row, self.n_steps > 0, mean, covariance)
        if math.isnan(gained):
            raise ValueError(
                "The numbers overflow: the observation is too large for its square to be a number, "
                "or the state has grown without bound."
            )
        if not gained < np.inf:
            if np.isinf(row).any():
                raise ValueError("The observation contains infinity; a missing value is NaN.")
            raise ValueError(no_density())
        self._mean, self._covariance = mean, covariance
        self.log_likelihood += gained
        self.n_steps += 1
        return mean, covariance, gained

    def _row(self, observation):
        """The observation as a kernel reads it."""
        is_masked = isinstance(observation, np.ma.MaskedArray)
        if observation is None or (is_masked and np.ma.getmaskarray(observation).any()):
            return np.full(self._p, np.nan)
        if np.iscomplexobj(observation):
            raise ValueError("The observation has complex numbers; observations must be real.")
        try:
            # A copy: the kernel is compiled for arrays that can be written to.
            row = np.array(observation, dtype=float).reshape(-1)
        except (TypeError, ValueError) as error:
            raise ValueError(f"The observation cannot be read as numbers: {error}.") from None
        if row.shape[0] != self._p:
            raise ValueError(
                f"The observation has {row.shape[0]} values, and the model observes {self._p}."
            )
        return row
