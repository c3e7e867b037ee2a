"""A Markov chain of hidden states and the sequences it emits, as kernels see them.

Vectors over states are padded with impossible states to whole vectors of four: ``size`` entries.
Two layouts are used. *Side by side*: eight sequences, one in each of eight lanes,
``a[k * width + 8 t + lane]``, so that no loop runs over states inside a vector. *Alone*: one
sequence, states within vectors, ``a[t * size + k]``. The recursions are the same.
"""

from collections import namedtuple

import numpy as np

from .. import simd
from ..options import inlined, kernel

#: n_states; start (size,); forward and backward (size²), the transition matrix and its transpose;
#: forward_panels and backward_panels, the same with eight columns at a time side by side, as one
#: vector meets them; absorbing (K,), one for each state that ends a sequence, or empty when there
#: is none.
Chain = namedtuple(
    "Chain", "n_states start forward backward forward_panels backward_panels absorbing"
)

#: rows of all sequences one after another; starts, lengths and weights of each; ``cut_off`` is one
#: for each that ends before absorption; ``missing`` says that NaN stand for missing values.
#: ``weights`` and ``cut_off`` may be empty.
Batch = namedtuple("Batch", "rows starts lengths weights cut_off missing")

#: Below this, products of probabilities are taken as lost to underflow, and the sequence is done
#: again in logarithms. See ``forward_backward``.
LOST = 1e-250

TINY = 1e-300

#: Below this, so is a number that others are divided by: the quotient may leave the range.
SMALL = 1e-290


@inlined
def padded_states(n_states):
    """The number of states rounded up to whole vectors."""
    return (n_states + simd.LANES - 1) // simd.LANES * simd.LANES


@inlined
def longest_of(lengths):
    """The largest length."""
    longest = 0
    for s in range(lengths.shape[0]):
        longest = max(longest, lengths[s])
    return longest


def make_chain(startprob, transmat, absorbing):
    """A chain from a start (K,), a transition matrix (K, K) and flags of the absorbing states."""
    n_states = len(startprob)
    size = padded_states.py_func(n_states)
    chain = Chain(
        n_states, np.zeros(size), *(np.zeros(size * size) for _ in range(4)),
        np.ascontiguousarray(absorbing, dtype=np.uint8),
    )  # fmt: skip
    set_chain(chain, startprob, transmat)
    return chain


@inlined
def panel_place(size, i, j):
    """Where row ``i``, column ``j`` of a matrix in panels is; the last panel may have four."""
    whole = size // 8 * 8
    if j < whole:
        return j // 8 * 8 * size + i * 8 + j % 8
    return whole * size + i * 4 + j - whole


@kernel
def set_chain(chain, startprob, transmat):
    """Give the chain other probabilities, in place."""
    n = chain.n_states
    size = padded_states(n)
    for i in range(n):
        chain.start[i] = startprob[i]
        for j in range(n):
            chain.forward[i * size + j] = transmat[i, j]
            chain.backward[j * size + i] = transmat[i, j]
            chain.forward_panels[panel_place(size, i, j)] = transmat[i, j]
            chain.backward_panels[panel_place(size, j, i)] = transmat[i, j]


@inlined
def propagate_lanes(matrix, size, j, x, width, at):
    """Rows ``j .. j + 3`` of ``Mᵀ x`` for eight lanes of ``x`` from ``at``."""
    a = simd.splat8(0.0)
    b = a
    c = a
    d = a
    for i in range(size):
        y = simd.load8(x, i * width + at)
        row = i * size + j
        a = simd.fma(simd.splat8(matrix[row]), y, a)
        b = simd.fma(simd.splat8(matrix[row + 1]), y, b)
        c = simd.fma(simd.splat8(matrix[row + 2]), y, c)
        d = simd.fma(simd.splat8(matrix[row + 3]), y, d)
    return a, b, c, d


@inlined
def propagate_eight(panels, size, j, x, at):
    """Entries ``j .. j + 7`` of ``Mᵀ x`` for one vector ``x`` from ``at``."""
    a0 = simd.splat(0.0)
    a1 = a0
    b0 = a0
    b1 = a0
    row = j * size
    # Two sums in turn: one would wait for itself.
    for i in range(0, size, 2):
        x0 = simd.splat(x[at + i])
        x1 = simd.splat(x[at + i + 1])
        a0 = simd.fma(x0, simd.load(panels, row), a0)
        b0 = simd.fma(x0, simd.load(panels, row + 4), b0)
        a1 = simd.fma(x1, simd.load(panels, row + 8), a1)
        b1 = simd.fma(x1, simd.load(panels, row + 12), b1)
        row += 16
    return a0 + a1, b0 + b1


@inlined
def propagate_four(panels, size, j, x, at):
    """Entries ``j .. j + 3``, the last four, of ``Mᵀ x`` for one vector ``x`` from ``at``."""
    a0 = simd.splat(0.0)
    a1 = a0
    row = j * size
    for i in range(0, size, 2):
        a0 = simd.fma(simd.splat(x[at + i]), simd.load(panels, row), a0)
        a1 = simd.fma(simd.splat(x[at + i + 1]), simd.load(panels, row + 4), a1)
        row += 8
    return a0 + a1


@kernel
def add_logs(totals, n, shifts):
    """``shifts[i] += log totals[i]``, for whole groups of rows."""
    for i in range(0, n, 4):
        simd.store(shifts, i, simd.load(shifts, i) + simd.log(simd.load(totals, i)))


@kernel
def log_matrix(chain):
    """Logarithms of the start and of the transition matrix, padded as they are."""
    log_start = np.empty(chain.start.shape[0])
    for k in range(chain.start.shape[0]):
        log_start[k] = np.log(chain.start[k])
    log_transitions = np.empty(chain.forward.shape[0])
    for i in range(chain.forward.shape[0]):
        log_transitions[i] = np.log(chain.forward[i])
    return log_start, log_transitions
