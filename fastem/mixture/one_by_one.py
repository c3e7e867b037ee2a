"""Mixtures that learn from one row at a time, in place."""

from __future__ import annotations

import numpy as np

from ..data.rows import read_rows
from ..kernels.mixture.expectation import infer
from ..kernels.mixture.online import online
from ..kernels.mixture.online_rows import online_rows
from ..kernels.options import compiled_for
from ..learner import OneByOne, RowReader, in_one_array

__all__ = ["MixtureOneByOne"]

_INFINITY = float("inf")


class MixtureOneByOne(OneByOne):
    """A mixture of a compiled family, in arrays that kernels change.

    They are the kernels of ``MixtureModel.learn`` and ``MixtureModel.infer``.
    """

    def __init__(self, model):
        family, packed, weights = model.family, model.packed, model.weights
        self._model = model
        self._state, (self._weights, self._packed) = in_one_array((weights, packed))
        self._saved = self._state.copy()
        # Kernels read the observation here, and after it has been prepared by the family there.
        self._reader = RowReader(family, model.n_columns)
        rows, _ = read_rows(self._reader.prepared, 0, 1)
        self._has_fixed_weights = "weights" in model.fixed
        self._rates, no_weights = np.empty(1), np.empty(0)
        if family.row_by_row and not model.fixed:
            kernel = online_rows
            arguments = rows, 1, self._rates, no_weights, self._weights, self._packed
            self._sums = None
        else:
            kernel = online
            zeros = np.zeros(len(weights)), family.buffers(packed)
            self._sums, (mass, buffers) = in_one_array(zeros)
            arguments = (
                rows, 1, 1, self._rates, no_weights, self._weights, self._packed, mass, buffers,
                False, self._has_fixed_weights, family.flags(model.fixed),
            )  # fmt: skip
        self._step, self._step_arguments = compiled_for(kernel, *arguments), arguments
        self._total, self._label = np.empty(1), np.empty(1, dtype=np.int64)
        self._log_weights = model.log_weights.copy()
        self._has_log_weights = True
        no_posteriors = np.empty((0, len(weights)))
        self._infer, self._infer_arguments = None, (
            rows, 0, 1, self._log_weights, self._packed, self._total, no_posteriors, self._label,
        )  # fmt: skip

    def learn(self, x, eta, n_before):
        if not self._reader.takes(x):
            return None
        self._rates[0] = eta
        self._saved[:] = self._state
        if self._sums is not None:
            self._sums[:] = 0.0
        log_likelihood, failed, n_dead = self._step(*self._step_arguments)
        if failed >= 0 or not -_INFINITY < log_likelihood < _INFINITY:
            self._state[:] = self._saved
            return None
        self._has_log_weights = self._has_fixed_weights
        if n_dead or self._model.told_dead:
            self._tell(n_dead)
        return log_likelihood

    def _tell(self, n_dead):
        """Warn of components that have died; the step is undone if the warning is an error."""
        told = self._model.told_dead
        before = set(told)
        try:
            self._model.warn_of_dead(n_dead, self._weights)
        except BaseException:
            self._state[:] = self._saved
            told.clear()
            told.update(before)
            raise

    def score(self, x):
        return self._total.item() if self._infers(x) else None

    def predict(self, x):
        return self._label.item() if self._infers(x) else None

    def _infers(self, x):
        """Whether the log-likelihood and the component of an observation have been found."""
        if not self._reader.takes(x):
            return False
        if not self._has_log_weights:
            np.log(self._weights, out=self._log_weights)
            self._has_log_weights = True
        if self._infer is None:
            self._infer = compiled_for(infer, *self._infer_arguments)
        self._infer(*self._infer_arguments)
        return -_INFINITY < self._total[0] < _INFINITY

    def model(self):
        _, (weights, packed) = in_one_array((self._weights, self._packed))
        return self._model._copied(weights=weights, packed=packed)
