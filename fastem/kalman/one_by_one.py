"""Kalman filters that learn from one sequence at a time, in place."""

from __future__ import annotations

import numpy as np

from ..kernels.kalman.entry import online
from ..kernels.kalman.observation import COMPLETE
from ..kernels.kalman.system import Workspace
from ..learner import OneByOne, are_finite
from ..learning_rate import step_size
from ..lengths import Lengths
from .checks import NAMES
from .data import as_table
from .model import has_no_factor

__all__ = ["KalmanOneByOne"]


class KalmanOneByOne(OneByOne):
    """A Kalman filter in the array that kernels work in.

    It is the kernel of ``KalmanModel.learn``, for sequences of which nothing is missing.
    """

    def __init__(self, model, modes):
        self._model, self._modes = model, modes
        self._p = len(model.c)
        self._nothing = np.empty(0)
        self._rhos, self._shares = np.empty(1), np.zeros(1, dtype=bool)
        self._n_steps = 1
        self._now = model
        self._make_room(model.system, 1, model.direct)

    def _make_room(self, system, longest, direct):
        """An array for sequences of up to ``longest`` steps."""
        self._longest, self._direct = longest, direct
        space = self._space = Workspace(system, longest, direct)
        # The system comes first in it.
        n = sum(value.size for value in system.values())
        self._system, self._work = space.x[:n], space.x[n:]
        self._saved = self._system.copy()
        self._kinds = np.full(longest, COMPLETE, np.uint8)

    def learn(self, x, eta, n_before):
        if type(x) is not np.ndarray or x.ndim != 2 or x.dtype.kind not in "fiu" or not len(x):
            return None
        X = np.ascontiguousarray(x, dtype=float)
        n_steps, n_columns = X.shape
        flat = X.reshape(-1)
        if n_columns != self._p or not are_finite(flat):
            return None
        direct = has_no_factor(self._space.system.R)
        if n_steps > self._longest or direct != self._direct:
            letters = {letter: getattr(self._space.system, letter) for letter in NAMES.values()}
            self._make_room(letters, max(n_steps, self._longest), direct)
        self._saved[:] = self._system
        self._work[:] = 0.0
        self._rhos[0] = step_size(eta)
        sequence, step, _, log_likelihood = online(
            self._space.x, self._space.places, flat, self._kinds[:n_steps],
            np.array([0, n_steps]), self._shares, self._nothing, X.sum(axis=0) / n_steps, 1,
            self._rhos, self._modes, self._nothing,
        )  # fmt: skip
        if sequence >= 0 or step == -2 or not are_finite(self._system):
            self._system[:] = self._saved
            return None
        self._n_steps = n_steps
        self._now = None
        return log_likelihood

    def score(self, x):
        sequence = self._sequence(x)
        return None if sequence is None else self._present().log_likelihoods(sequence)[0]

    def predict(self, x):
        sequence = self._sequence(x)
        return None if sequence is None else self._present().infer(sequence, True, scores=False)[0]

    def _sequence(self, x):
        """A sequence, if it looks like one."""
        if type(x) is not np.ndarray or x.ndim != 2 or x.dtype.kind not in "fiu" or not len(x):
            return None
        return as_table(x, n_columns=self._p) if x.shape[1] == self._p else None

    def _present(self):
        """The model as it is now, which is kept until the next step."""
        if self._now is None:
            self._now = self.model()
        return self._now

    def model(self):
        system = self._space.system
        letters = {letter: getattr(system, letter).copy() for letter in NAMES.values()}
        return self._model._copied(**letters, horizon=Lengths([self._n_steps]))
