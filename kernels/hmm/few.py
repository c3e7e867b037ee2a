"""Inference for a few short sequences in one call: a look at their values, emissions, recursions.

A call from Python takes as long as hundreds of steps of a recursion, so that everything is done in
one. Sequences are taken one after another, states within vectors.
"""

import numpy as np

from ..log_space import log_backward, log_forward
from ..options import kernel
from ..rows import load_one
from .chain import longest_of, padded_states
from .emissions import emit_alone
from .forward_backward import smooth_alone
from .viterbi import viterbi_alone


@kernel
def are_within(rows, support):
    """Whether all values are from ``support[0]`` to ``support[1]``, and whole if ``support[2]``.

    NaN is not.
    """
    least, most, whole = support
    n_columns = rows.offsets.shape[0]
    for i in range(rows.count):
        at = rows.address + i * rows.row_stride
        for c in range(n_columns):
            x = load_one(at + rows.offsets[c], rows.code)
            if not least <= x <= most or (whole and x != np.floor(x)):
                return False
    return True


@kernel
def decode_few(chain, family, batch, support, log_probabilities, states):
    """The likeliest path of each sequence; False, and nothing done, if a value is not plain."""
    if not are_within(batch.rows, support):
        return False
    log_b = np.empty((longest_of(batch.lengths) + 16) * padded_states(chain.n_states))
    nothing = np.empty(0)
    for s in range(batch.lengths.shape[0]):
        begin, length = batch.starts[s], batch.lengths[s]
        emit_alone(chain, family, batch, s, 0, length, True, log_b, nothing)
        log_probabilities[s] = viterbi_alone(chain, length, log_b, states[begin : begin + length])
    return True


@kernel
def smooth_few(chain, family, batch, support, smoothing, log_likelihoods, posteriors):
    """The log-likelihood of each sequence, and with ``smoothing`` posteriors, (rows, K).

    False, and nothing done, if a value is not plain.
    """
    if not are_within(batch.rows, support):
        return False
    n_states = chain.n_states
    size = padded_states(n_states)
    n_steps = longest_of(batch.lengths) + 16
    b, alpha, gamma = np.empty(n_steps * size), np.empty(n_steps * size), np.empty(n_steps * size)
    shifts, totals = np.empty(n_steps), np.empty(n_steps)
    counts = np.zeros(size * size)
    for s in range(batch.lengths.shape[0]):
        begin, length = batch.starts[s], batch.lengths[s]
        log_likelihoods[s] = _smooth_one(
            chain, family, batch, s, smoothing, b, shifts, alpha, gamma, totals, counts
        )
        if smoothing:
            for t in range(length):
                for k in range(n_states):
                    posteriors[begin + t, k] = gamma[t * size + k]
    return True


@kernel
def _smooth_one(chain, family, batch, s, smoothing, b, shifts, alpha, gamma, totals, counts):
    """Emissions, forward and backward of one sequence; returns its log-likelihood.

    As ``smooth_alone``; where that is lost to underflow, logarithms take its place. The posteriors
    of an impossible sequence are zero.
    """
    size = padded_states(chain.n_states)
    length = batch.lengths[s]
    in_logarithms = False
    while True:
        emit_alone(chain, family, batch, s, 0, length, in_logarithms, b, shifts)
        if in_logarithms:
            break
        score, in_logarithms = smooth_alone(
            chain, length, 1.0, smoothing, b, shifts, alpha, gamma, totals, counts
        )
        if not in_logarithms:
            return score
    score = log_forward(chain, size, b, length, gamma)
    if smoothing:
        if score > -np.inf:
            log_backward(chain, size, b, length, 1.0, gamma, score, counts)
        else:
            for i in range(length * size):
                gamma[i] = 0.0
    return score
