"""One step of the filter from any state: :meth:`fastem.KalmanFilter.filter_update`."""

from __future__ import annotations

import numpy as np

from ..kernels.kalman.one_step import LOADED, SOUND, UNCHECKED, update
from ..kernels.kalman.system import Workspace
from .checks import NAMES, as_numbers, promoted

__all__ = ["OneStep", "as_peer", "as_state", "is_plain"]

_DOUBLE = np.dtype(float)


class OneStep:
    """A system laid out for single steps.

    Parameters
    ----------
    model : KalmanModel
    """

    def __init__(self, model):
        self.d, self.p = model.A.shape[-1], model.C.shape[-2]
        self._of_mean, self._of_covariance, self._of_row = (self.d,), (self.d, self.d), (self.p,)
        self._nothing = np.full(self.p, np.nan)
        #: Whether the kernel can take steps: R can be factored, and nothing changes with time.
        self.is_simple = not model.varies and not model.direct
        if not self.is_simple:
            return
        space = Workspace(model.packed, 1)
        self._places, self._system = space.places, space.places_of("system")
        self._unloaded = space.x.copy()
        mean, covariance = np.zeros(self.d), np.zeros(self._of_covariance)
        # A step that observes nothing puts the system where it is used.
        update(space.x, self._places, SOUND, mean, covariance, self._nothing, mean, covariance)
        self._loaded = space.x

    def after(self, mean, covariance, observation):
        """Mean and covariance of the next filtered state; None if it takes more than this."""
        if not self.is_simple:
            return None
        # A copy to work in: other threads may do so too.
        return self._take(self._loaded.copy(), LOADED, mean, covariance, observation)

    def after_with(self, given, mean, covariance, observation):
        """The same with other parameters for this step, by name."""
        if not self.is_simple:
            return None
        x = self._unloaded.copy()
        for name, value in given.items():
            where, shape = self._system[NAMES[name]]
            value = promoted(name, value)
            if value.shape != shape:
                return None
            x[where] = value.reshape(-1)
        return self._take(x, UNCHECKED, mean, covariance, observation)

    def _take(self, x, state, mean, covariance, observation):
        if not is_plain(mean, self._of_mean):
            mean = as_state("filtered_state_mean", mean, self._of_mean)
        if not is_plain(covariance, self._of_covariance):
            covariance = as_state("filtered_state_covariance", covariance, self._of_covariance)
        if not is_plain(observation, self._of_row):
            observation = self._row(observation)
            if observation is None:
                return None
        new_mean, new_covariance = np.empty(self._of_mean), np.empty(self._of_covariance)
        done = update(
            x, self._places, state, mean, covariance, observation, new_mean, new_covariance
        )
        return (new_mean, new_covariance) if done else None

    def _row(self, observation):
        """An observation as the kernel reads it; None if it is something else."""
        if observation is None:
            return self._nothing
        if np.ma.isMaskedArray(observation):
            if np.ma.getmaskarray(observation).any():
                return self._nothing
            observation = observation.data
        if np.iscomplexobj(observation):
            return None
        try:
            row = np.array(observation, dtype=float).reshape(-1)
        except (TypeError, ValueError):
            return None
        return row if row.shape == self._of_row else None


def is_plain(array, shape):
    """Whether a kernel can be given this as it is: it was compiled for arrays like this."""
    return (
        type(array) is np.ndarray
        and array.dtype is _DOUBLE
        and array.shape == shape
        and array.flags.carray
    )


def as_state(name, value, shape):
    """A mean or covariance of a state that is passed as an argument, as an array of its own."""
    array = as_numbers(name, value)
    if array.size == 1:
        array = array.reshape((1,) * len(shape))
    if array.shape != shape:
        raise ValueError(f"{name} should have the shape {shape}; got {array.shape}.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} contains NaN or infinity.")
    return np.array(array)


def as_peer(found, mean):
    """A next state in the shape that pykalman gives it: its mean has two axes after a number.

    There the product of a matrix and a number is a matrix, and stays one in further steps.
    """
    if (type(mean) is np.ndarray and mean.ndim == 1) or np.ndim(mean) == 1:
        return found
    return found[0].reshape(1, 1), found[1]
