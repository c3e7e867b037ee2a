"""Inference for a few short sequences in one array: a kernel does everything in one call.

For a few rows the checks, the layout and the threads of :mod:`.passes` take longer than the
recursions. Here the kernel looks at the values too; what is not plain is left to the other way.
"""

from __future__ import annotations

import numpy as np

from ..data.rows import readable
from ..data.sequences import check_lengths
from ..kernels.hmm.chain import Batch, padded_states
from ..kernels.hmm.few import decode_few, smooth_few
from ..kernels.rows import rows_of

__all__ = ["Few", "are_few"]

#: States times steps of all sequences up to which they are few; one sequence may have more.
_FEW_ENTRIES = 2**13
_MOST_ENTRIES = 2**16

_NO_WEIGHTS = np.empty(0)
_NO_FLAGS = np.empty(0, dtype=np.uint8)
_FROM_THE_FIRST = np.zeros(1, dtype=np.int64)


def are_few(n_rows, n_sequences, n_states) -> bool:
    """Whether sequences are taken one after another by one call of a kernel.

    Several are done faster side by side, if they are long enough to outweigh what that takes.
    """
    n_entries = n_rows * padded_states.py_func(n_states)
    return n_entries <= (_MOST_ENTRIES if n_sequences == 1 else _FEW_ENTRIES)


class Few:
    """A model that is ready for a few short sequences.

    Each method returns None for values that are missing, or outside the support.

    Parameters
    ----------
    model : HMMModel
    """

    def __init__(self, model):
        self.chain, self.packed = model.kernel_chain, model.packed
        family = model.family
        self.n_states, self.n_columns = family.size(model.packed)
        self.support = None
        if family.compiled:
            # Families of the user's own have features, and a product may reorder its columns.
            zeros = np.zeros((1, self.n_columns))
            rows, log_base = family.prepare(zeros)
            if rows is zeros and log_base is None:
                self.support = family.support()

    def batch(self, X, lengths) -> Batch | None:
        """The sequences as kernels take them; None if they are many, or in another form."""
        if (
            self.support is None
            or X.ndim != 2
            or X.shape[1] != self.n_columns
            or not readable(X)
            or len(X) == 0
        ):
            return None
        starts = _FROM_THE_FIRST
        if lengths is None:
            lengths = np.array([len(X)], dtype=np.int64)
        else:
            lengths = check_lengths(lengths, len(X))
            starts = np.cumsum(lengths) - lengths
        if not are_few(len(X), len(lengths), self.n_states):
            return None
        return Batch(rows_of(X), starts, lengths, _NO_WEIGHTS, _NO_FLAGS, False)

    def scores(self, batch):
        """The log-likelihood of each sequence, and no rows."""
        return self._smoothed(batch, False, 0)

    def posteriors(self, batch):
        """The log-likelihood of each sequence, and the posterior of the state at each row."""
        return self._smoothed(batch, True, batch.rows.count)

    def _smoothed(self, batch, smoothing, n_rows):
        scores, rows = np.empty(len(batch.lengths)), np.empty((n_rows, self.n_states))
        done = smooth_few(self.chain, self.packed, batch, self.support, smoothing, scores, rows)
        return (scores, rows) if done else None

    def paths(self, batch):
        """The likeliest path of each sequence: its log-probability, and the state at each row."""
        scores = np.empty(len(batch.lengths))
        states = np.empty(batch.rows.count, dtype=np.int64)
        done = decode_few(self.chain, self.packed, batch, self.support, scores, states)
        return (scores, states) if done else None
