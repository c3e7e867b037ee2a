"""The smoother of Rauch, Tung and Striebel, and the covariances of neighbouring states.

    ĥ_t = f_t + J (ĥ_{t+1} - h_{t+1}),   V_t = B + J V_{t+1} Jᵀ,   Cov(h_{t+1}, h_t) = V_{t+1} Jᵀ

with f filtered and h predicted. V is a sum of squares, and so semidefinite. Where the filter is
steady the smoothed covariance becomes so too, backwards, and the rest of the run is skipped.
"""

from collections import namedtuple

import numpy as np

from . import simd
from .kalman_filter import STEADY, at, layout
from .kalman_observation import MISSING, PARTIAL, _padded, empty_filled, fill
from .options import kernel
from .small_matrices import add_columns, add_congruence, largest_change, multiply_transposed

#: Sums over the steps of a sequence of the covariances of its states: of the first, the last,
#: those with an observation and those without, of neighbours (later, earlier); and of what is
#: missing in partial steps, vv (p, p) and vh (p, d).
Covariances = namedtuple("Covariances", "first last seen unseen lag vv vh")


@kernel
def empty_covariances(d, p):
    return Covariances(
        np.zeros((d, d)), np.zeros((d, d)), np.zeros((d, d)), np.zeros((d, d)), np.zeros((d, d)),
        np.zeros((p, p)), np.zeros((p, d)),
    )  # fmt: skip


@kernel
def _put(source, out):
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            out[i, j] = source[i, j]


@kernel
def _add(source, factor, out):
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            out[i, j] += factor * source[i, j]


@kernel
def smooth_covariances(system, X, kinds, start, n_steps, r, path, sums, each, each_lag):
    """Add up the smoothed covariances of a path's first ``n_steps`` steps.

    ``each`` and ``each_lag``, unless empty, receive those of every step.
    """
    d, p = system.A.shape[1], system.C.shape[1]
    where = layout(d, r)
    dd = _padded(d)
    filled = empty_filled(d, p)
    V, new, J = np.zeros((d, d)), np.zeros((d, d)), np.zeros((d, d))
    scratch, lag, wide = np.zeros((d, d)), np.zeros((d, d)), np.zeros((p, d))
    for block in sums:
        for i in range(block.shape[0]):
            for j in range(block.shape[1]):
                block[i, j] = 0.0
    t = n_steps - 1
    while t >= 0:
        n = path.index[t]
        record = path.records[n]
        if t == n_steps - 1:
            for i in range(d):
                for j in range(d):
                    V[i, j] = record[where.F + i * d + j]
            _put(V, sums.last)
            steady = False
        else:
            for i in range(d):
                for j in range(d):
                    J[i, j] = record[where.J + j * dd + i]
                    new[i, j] = record[where.B + i * d + j]
            multiply_transposed(V, J, lag)
            add_congruence(J, V, scratch, new)
            _add(lag, 1.0, sums.lag)
            if each_lag.shape[0] > 0:
                _put(lag, each_lag[t])
            change = largest_change(new, V)
            steady = path.first[n] < t and path.index[t + 1] == n
            steady = steady and change <= STEADY * max(1.0, 0.5 * d)
            _put(new, V)
        kind = kinds[start + t]
        count = 1
        if steady:
            count += t - path.first[n]
            multiply_transposed(V, J, lag)
            _add(lag, count - 1.0, sums.lag)
        _add(V, float(count), sums.unseen if kind == MISSING else sums.seen)
        if kind == PARTIAL:
            fill(
                system.C[at(system.C, t)], system.R[at(system.R, t)], X, (start + t) * p, filled
            )
            add_congruence(filled.D, V, wide, sums.vv)
            _add(filled.Omega, 1.0, sums.vv)
            _add(wide, 1.0, sums.vh)
        if each.shape[0] > 0:
            for s in range(count):
                _put(V, each[t - s])
        if each_lag.shape[0] > 0:
            for s in range(1, count):
                _put(lag, each_lag[t - s])
        t -= count
    _put(V, sums.first)


@kernel
def smooth_means(path, n_steps, d, r, predicted, filtered, scratch):
    """Turn filtered means into smoothed ones, in place."""
    dd = _padded(d)
    where = layout(d, r)
    for s in range(1, n_steps):
        t = n_steps - 1 - s
        here, after = t * dd, (t + 1) * dd
        for i in range(0, dd, simd.LANES):
            difference = simd.load(filtered, after + i) - simd.load(predicted, after + i)
            simd.store(scratch, i, difference)
        record = path.records[path.index[t]]
        add_columns(record, where.J, d, dd, scratch, 0, filtered, here)
