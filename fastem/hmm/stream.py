"""Inference as observations come in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..data.sequences import Sequences
from ..exceptions import ImpossibleDataError
from ..kernels.hmm.filtering import filter_step
from .checks import check_values
from .passes import prepared

__all__ = ["FilteredState", "StateFilter"]


class FilteredState(NamedTuple):
    """What is known after an observation."""

    #: The probability of each state, given all observations so far.
    probabilities: np.ndarray
    #: The logarithm of the density that was predicted for this observation, one step ahead. For
    #: an absorbing chain it includes the probability that the sequence continues.
    log_density: float
    #: The log-likelihood of all observations so far.
    log_likelihood: float


class StateFilter:
    """Filter a sequence one observation at a time: each gives the probabilities of the states.

    Parameters
    ----------
    model : HMMModel
        It is not learned from the observations.

    Examples
    --------
    >>> import fastem
    >>> hmm = fastem.GaussianHMM(2, "diag")
    >>> hmm.startprob_ = [0.5, 0.5]
    >>> hmm.transmat_ = [[0.9, 0.1], [0.1, 0.9]]
    >>> hmm.means_, hmm.covars_ = [[-1.0], [1.0]], [[1.0], [1.0]]
    >>> state = hmm.filter()
    >>> state.update([1.0]).probabilities.round(3)
    array([0.119, 0.881])
    """

    def __init__(self, model):
        self.model = model
        self._chain = model.kernel_chain
        self._n_columns = model.family.size(model.packed)[1]
        # Tests of single values, as NumPy takes longer over one row than a step of the filter.
        self._tests = model.family.entry_tests(self._n_columns) if model.family.compiled else None
        # Families of the user's own have features, and a product may take columns in any order.
        zeros = np.zeros((1, self._n_columns))
        self._as_it_is = model.family.compiled and model.family.prepare(zeros)[0] is zeros
        self.reset()

    def reset(self) -> None:
        """Forget all observations: the next one is the first of a sequence."""
        self._log_p = np.full(len(self.model.startprob), -np.inf)
        self.n_steps = 0
        self.log_likelihood = 0.0

    def update(self, x) -> FilteredState:
        """Take in one observation, an array of as many values as there are columns.

        NaN marks a value that is missing. An observation outside the family's support, or one that
        is impossible after those before it, raises ``ValueError`` and is ignored.
        """
        row, log_base = self._checked(np.asarray(x))
        probabilities = np.empty(len(self._log_p))
        log_density = filter_step(
            self._chain, self.model.packed, row, self.n_steps > 0,
            self._log_p, probabilities,
        )  # fmt: skip
        if log_density == -np.inf:
            raise ImpossibleDataError(
                f"Observation {self.n_steps} (counting from 0) is impossible after those before "
                "it: no state allows it. Call reset() to begin a new sequence."
            )
        if log_base is not None:
            log_density += log_base[0]
        self.n_steps += 1
        self.log_likelihood += log_density
        return FilteredState(probabilities, log_density, self.log_likelihood)

    def _checked(self, x):
        """The observation as what kernels read, and its base measure."""
        if x.dtype.kind not in "biuf":
            raise TypeError(f"An observation is an array of real numbers; got {x!r}.")
        if x.ndim != 1:
            if x.ndim > 1 and x.size != x.shape[-1]:
                raise ValueError(f"One observation is taken at a time; got the shape {x.shape}.")
            x = x.reshape(-1)
        row = np.ascontiguousarray(x, np.float64)
        tests = self._tests
        if tests is not None:
            if len(row) != len(tests):
                raise ValueError(f"An observation has {len(tests)} values; got {len(row)}.")
            for test, value in zip(tests, row.tolist(), strict=True):
                if not test(value):
                    break
            else:
                if self._as_it_is:
                    return row, None
        # Something is missing or wrong, or only the family itself can check it.
        family = self.model.family
        missing = check_values(Sequences(row[None], missing=False), family)
        rows, log_base = prepared(row[None], family, missing)
        if rows.shape[1] != self._n_columns:
            raise ValueError(
                f"The model has observations of {self._n_columns} features; this one has "
                f"{rows.shape[1]}."
            )
        return np.ascontiguousarray(rows[0]), log_base
