"""Hidden Markov models that learn from one sequence at a time, in place."""

from __future__ import annotations

import numpy as np

from ..data.rows import read_rows
from ..kernels.hmm.chain import Batch
from ..kernels.hmm.online import online
from ..kernels.options import compiled_for
from ..learner import OneByOne, SequenceReader, in_one_array
from ..lengths import RunningLengths
from .few import Few

__all__ = ["HMMOneByOne"]

_INFINITY = float("inf")


class HMMOneByOne(OneByOne):
    """A hidden Markov model of a compiled family, in arrays that a kernel changes.

    It is the kernel of ``HMMModel.learn``.
    """

    def __init__(self, model):
        self._model = model
        family, packed = model.family, model.packed
        state = model.startprob, model.transmat, packed, model.kernel_chain
        self._state, self._parts = in_one_array(state)
        self._saved = self._state.copy()
        zeros = map(np.zeros_like, (model.startprob, model.transmat, model.startprob))
        self._sums, self._sum_parts = in_one_array((*zeros, family.buffers(packed)))
        self._flags = (
            False, "startprob" in model.fixed, "transmat" in model.fixed,
            family.flags(model.fixed),
        )  # fmt: skip
        self._most_steps = model.most_steps_in_kernel
        self._reader = SequenceReader(family, family.size(packed)[1])
        self._rates, self._length = np.empty(1), np.empty(1, dtype=np.int64)
        # It looks at the arrays that are changed.
        self._few = Few(model)
        self._few.packed, self._few.chain = self._parts[2:]
        self._set_arguments()
        self._step = compiled_for(online, *self._arguments)
        self._lengths = None if model.absorbing.any() else RunningLengths(model.lengths)

    def _set_arguments(self):
        """What the kernel is called with; it knows where the rows are."""
        room = self._reader.prepared
        rows, _ = read_rows(room, 0, len(room))
        first, nothing = np.zeros(1, dtype=np.int64), np.empty(0)
        batch = Batch(rows, first, self._length, nothing, np.empty(0, dtype=np.uint8), False)
        startprob, transmat, packed, chain = self._parts
        self._room = room
        self._arguments = (
            chain, batch, 1, self._rates, startprob, transmat, packed, *self._sum_parts,
            *self._flags,
        )  # fmt: skip

    def learn(self, x, eta, n_before):
        n_steps = self._reader.takes(x)
        if not 0 < n_steps < self._most_steps:
            return None
        if self._reader.prepared is not self._room:
            self._set_arguments()
        self._length[0] = n_steps
        self._rates[0] = eta
        self._saved[:] = self._state
        self._sums[:] = 0.0
        log_likelihood, failed, _ = self._step(*self._arguments)
        if failed >= 0 or not -_INFINITY < log_likelihood < _INFINITY:
            self._state[:] = self._saved
            return None
        if self._lengths is not None:
            self._lengths.add(n_steps, 1.0 / (n_before + 1.0))
        return log_likelihood

    def score(self, x):
        found = self._found("scores", x)
        return None if found is None else found[0].item()

    def predict(self, x):
        """The likeliest path."""
        found = self._found("paths", x)
        return None if found is None else found[1]

    def predict_each(self, x):
        """The likeliest state of each row."""
        found = self._found("posteriors", x)
        return None if found is None else found[1].argmax(axis=1)

    def _found(self, what, x):
        """What a method of ``Few`` finds for a sequence; None for what it leaves to others."""
        batch = self._few.batch(x, None) if type(x) is np.ndarray else None
        return None if batch is None else getattr(self._few, what)(batch)

    def model(self):
        _, (startprob, transmat, packed, _) = in_one_array(self._parts)
        model = self._model._copied(startprob=startprob, transmat=transmat, packed=packed)
        return model if self._lengths is None else model.with_horizon(self._lengths.now())
