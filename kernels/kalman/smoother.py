"""The smoother of Rauch, Tung and Striebel, and the covariances of neighboring states.

    ĥ_t = f_t + J (ĥ_{t+1} - h_{t+1}),   V_t = B + J V_{t+1} Jᵀ,   Cov(h_{t+1}, h_t) = V_{t+1} Jᵀ

with f filtered and h predicted. V is a sum of squares, and so semidefinite. Where the filter is
steady the smoothed covariance becomes so too, backwards, and the rest of the run is skipped.
Where the filter worked with square roots of the covariances, so does the smoother.
"""

from .. import simd
from ..options import apart, helper
from ..small_matrices import (
    add,
    add_columns,
    add_congruence,
    clear,
    copy,
    largest_change,
    multiply_transposed,
)
from .filter import STEADY
from .observation import MISSING, PARTIAL, fill
from .square_root import smooth_covariances_by_roots, smooth_means_by_roots
from .system import load_observation


@helper
def _write(x, a, n, out, t):
    apart()
    for i in range(n):
        for j in range(n):
            out[t, i, j] = x[a + i * n + j]


@helper
def smooth_covariances(x, w, X, kinds, start, n_steps, index, first, each, each_lag):
    """Add up the smoothed covariances of the states of a sequence, from its records.

    Those of the first and the last; the sums over steps with an observation and without, over
    neighbors (later, earlier); and, over partial steps, of what is missing with itself, vv, and
    with the state, vh. ``each`` and ``each_lag``, unless empty, receive those of every step.
    """
    apart()
    if x[w.room.singular] > 0.0:
        smooth_covariances_by_roots(x, w, X, kinds, start, n_steps, index, first, each, each_lag)
        return
    d, p, dd, room, where, sums = w.d, w.p, w.dd, w.room, w.record, w.covariances
    n = d * d
    clear(x, sums.first, sums.vh + p * d - sums.first)
    t = n_steps - 1
    while t >= 0:
        record = w.records + index[t] * where.size
        steady = False
        if t == n_steps - 1:
            copy(x, record + where.F, n, room.V)
            copy(x, room.V, n, sums.last)
        else:
            for i in range(d):
                for j in range(d):
                    x[room.gain + i * d + j] = x[record + where.J + j * dd + i]
            multiply_transposed(x, room.V, room.gain, d, d, d, room.lag)
            add(x, room.lag, 1.0, n, sums.lag)
            if each_lag.shape[0] > 0:
                _write(x, room.lag, d, each_lag, t)
            copy(x, record + where.B, n, room.new)
            add_congruence(x, room.gain, room.V, d, d, room.scratch, room.new)
            steady = first[index[t]] < t and index[t + 1] == index[t]
            if steady:
                steady = largest_change(x, room.new, room.V, d) <= STEADY * max(1.0, 0.5 * d)
            copy(x, room.new, n, room.V)
        count = 1
        if steady:
            count += t - first[index[t]]
            multiply_transposed(x, room.V, room.gain, d, d, d, room.lag)
            add(x, room.lag, count - 1.0, n, sums.lag)
        kind = kinds[start + t]
        add(x, room.V, float(count), n, sums.unseen if kind == MISSING else sums.seen)
        # Whoever asks for each state does not ask for what the observations miss.
        if kind == PARTIAL and each.shape[0] == 0:
            if w.varies:
                load_observation(x, w, t)
            fill(x, w, X, (start + t) * p)
            add_congruence(x, room.D, room.V, p, d, room.wide, sums.vv)
            add(x, room.Omega, 1.0, p * p, sums.vv)
            add(x, room.wide, 1.0, p * d, sums.vh)
        if each.shape[0] > 0:
            for s in range(count):
                _write(x, room.V, d, each, t - s)
        if each_lag.shape[0] > 0:
            for s in range(1, count):
                _write(x, room.lag, d, each_lag, t - s)
        t -= count
    copy(x, room.V, n, sums.first)


@helper
def smooth_means(x, w, X, kinds, start, n_steps, index):
    """Turn filtered means into smoothed ones, in place."""
    apart()
    if x[w.room.singular] > 0.0:
        smooth_means_by_roots(x, w, X, kinds, start, n_steps, index)
        return
    d, dd, room, where = w.d, w.dd, w.room, w.record
    for s in range(1, n_steps):
        t = n_steps - 1 - s
        after = (t + 1) * dd
        for i in range(0, dd, simd.LANES):
            simd.store(
                x,
                room.delta + i,
                simd.load(x, w.states + after + i) - simd.load(x, w.predicted + after + i),
            )
        record = w.records + index[t] * where.size
        add_columns(x, record + where.J, d, dd, room.delta, w.states + t * dd)
