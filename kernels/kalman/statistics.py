"""Expected statistics of sequences: sums over steps of products of states and observations.

States are taken about a reference (a smoothed state) and observations about the mean of the data,
so that nothing far from the origin loses digits; Python makes moments about the means of them.
"""

import numpy as np

from ..options import apart, helper, kernel, only_with
from ..rows import SPARE, on_a_line
from ..small_matrices import add_outer, add_vector, copy
from .filter import filter_covariances, filter_means
from .lanes import LEAST, MOST, add_lanes, block_size, lanes_for, log_determinants, smooth_lanes
from .observation import COMPLETE, MISSING, PARTIAL, fill, reduce
from .smoother import smooth_covariances, smooth_means
from .system import LANES, load_observation, load_transition


@helper
def _add_padded(x, a, weight, n, m, stride, out):
    apart()
    for i in range(n):
        for j in range(m):
            x[out + i * stride + j] += weight * x[a + i * m + j]


@helper
def add_covariances(x, w, weight):
    """Add the sums of a sequence's covariances."""
    apart()
    d, p, dd, c, s = w.d, w.p, w.dd, w.covariances, w.sums
    _add_padded(x, c.first, weight, d, d, dd, s.first2)
    _add_padded(x, c.last, weight, d, d, dd, s.last2)
    _add_padded(x, c.seen, weight, d, d, dd, s.seen2)
    _add_padded(x, c.unseen, weight, d, d, dd, s.unseen2)
    _add_padded(x, c.lag, weight, d, d, dd, s.lag)
    _add_padded(x, c.vh, weight, p, d, dd, s.vh)
    _add_padded(x, c.vv, weight, p, p, w.pp, s.vv)


@helper
def read_row(x, w, X, kind, row, t, center):
    """The observation about ``center`` in ``u``; what is missing as the smoothed state has it."""
    apart()
    if kind == COMPLETE:
        for j in range(w.p):
            x[w.room.u + j] = X[row + j] - center[j]
        return
    if w.varies:
        load_observation(x, w, t)
    fill(x, w, X, row)
    impute(x, w, X, row, t, center)


@helper
def impute(x, w, X, row, t, center):
    """The same for a row with missing values, given how they depend on the others."""
    apart()
    d, p, room = w.d, w.p, w.room
    for j in range(p):
        v = X[row + j]
        x[room.raw + j] = v - x[room.c + j] if v == v else 0.0
    for j in range(p):
        s = X[row + j] - center[j]
        if s != s:
            s = x[room.c + j] - center[j]
            for k in range(d):
                s += x[room.D + j * d + k] * x[w.states + t * w.dd + k]
            for k in range(p):
                s += x[room.fill + j * p + k] * x[room.raw + k]
        x[room.u + j] = s


@helper
def add_means(x, w, X, kinds, start, n_steps, begin, end, weight, center, with_rows):
    """Add the products of a sequence's smoothed means, of steps ``begin .. end - 1``.

    The means become relative to the reference.
    """
    apart()
    d, p, dd, pp, room, sums = w.d, w.p, w.dd, w.pp, w.room, w.sums
    last = w.states + (n_steps - 1) * dd
    if begin == 0 and x[sums.weight] == 0.0:
        copy(x, last, dd, sums.reference)
    if begin > 0:
        add_vector(x, sums.reference, -1.0, dd, w.states + (begin - 1) * dd)
    for t in range(begin, end):
        here = w.states + t * dd
        kind = kinds[start + t]
        if kind != MISSING:
            read_row(x, w, X, kind, (start + t) * p, t, center)
        add_vector(x, sums.reference, -1.0, dd, here)
        if kind == MISSING:
            add_vector(x, here, weight, dd, sums.unseen)
            add_outer(x, here, d, weight, here, dd, sums.unseen2)
        else:
            add_vector(x, here, weight, dd, sums.seen)
            add_outer(x, here, d, weight, here, dd, sums.seen2)
            add_outer(x, room.u, p, weight, here, dd, sums.vh)
            x[sums.observed] += weight
            if with_rows or kind == PARTIAL:
                add_vector(x, room.u, weight, pp, sums.v)
                add_outer(x, room.u, p, weight, room.u, pp, sums.vv)
                x[sums.rows] += weight
        if t > 0:
            add_outer(x, here, d, weight, here - dd, dd, sums.lag)
    if begin == 0:
        add_vector(x, w.states, weight, dd, sums.first)
        add_outer(x, w.states, d, weight, w.states, dd, sums.first2)
    if end == n_steps:
        add_vector(x, last, weight, dd, sums.last)
        add_outer(x, last, d, weight, last, dd, sums.last2)


@only_with(LANES, 0)
def alike(x, w, kinds, starts, order, shares, i, n_steps, with_rest):
    """How many sequences from the i-th on go side by side: complete, and all of one length."""
    apart()
    most = lanes_for(w, n_steps)
    if w.varies or with_rest or x[w.room.singular] > 0.0:
        return 0
    count = 0
    while count < most and i + count < order.shape[0]:
        s = order[i + count]
        if starts[s + 1] - starts[s] != n_steps or (count > 0 and not shares[i + count]):
            break
        count += 1
    if count < LEAST:
        return 0
    for t in range(starts[order[i]], starts[order[i]] + n_steps):
        if kinds[t] != COMPLETE:
            return 0
    return count // 4 * 4


@kernel
def expect(
    x, places, X, kinds, starts, order, shares, weights, center, with_rest, with_rows,
    log_likelihoods,
):  # fmt: skip
    """Add the expected statistics of the sequences ``order`` to the sums.

    Sequence s has the rows ``starts[s]`` to ``starts[s + 1]``. ``shares[i]`` says that the i-th in
    order has the covariances of the one before, as far as it reaches. ``log_likelihoods``, unless
    empty, receives each one's, and no statistics are computed. Returns the array to work in, which
    may have grown, and the sequence and the step where an observation has no density, or -1, -1.
    """
    w = places[0]
    load_transition(x, w, 0)
    load_observation(x, w, 0)
    if not reduce(x, w, X, np.int64(-1), w.whole):
        return x, 0, 0
    longest = 1
    for s in order:
        longest = max(longest, starts[s + 1] - starts[s])
    index, first = np.empty(longest, np.int64), np.empty(longest, np.int64)
    none, no_steps = np.empty((0, 0, 0)), np.empty(0)
    reach, summed = 0, 0
    only_scores = log_likelihoods.shape[0] > 0
    y, lane_likelihoods = np.empty(0), np.empty(MOST)
    i = np.int64(0)
    while i < order.shape[0]:
        s = order[i]
        start = starts[s]
        n_steps = starts[s + 1] - start
        if not shares[i] or reach < n_steps:
            x, failed = filter_covariances(x, w, X, kinds, start, n_steps, index, first)
            if failed != -1:
                return x, s, failed
            reach, summed = n_steps, 0
        if not only_scores and summed != n_steps:
            smooth_covariances(x, w, X, kinds, start, n_steps, index, first, none, none)
            summed = n_steps
        width = alike(x, w, kinds, starts, order, shares, i, n_steps, with_rest)
        if width > 0:
            size = block_size(w, n_steps, width)
            if y.shape[0] < size:
                y = on_a_line(np.empty(size + SPARE), size)
            smooth_lanes(
                x, w, X, starts, order, i, width, n_steps, 0, n_steps, index, center, y,
                lane_likelihoods,
            )  # fmt: skip
            add_lanes(x, w, order, i, width, n_steps, weights, with_rows, y)
            constant = log_determinants(x, w, n_steps, index)
            total = 0.0
            for l in range(width):
                weight = weights[order[i + l]] if weights.shape[0] > 0 else 1.0
                x[w.sums.log_likelihood] += weight * (lane_likelihoods[l] + constant)
                x[w.sums.weight] += weight
                x[w.sums.transitions] += weight * (n_steps - 1)
                total += weight
            add_covariances(x, w, total)
            i += width
            continue
        i += 1
        log_likelihood = filter_means(x, w, X, kinds, start, n_steps, index, with_rest, no_steps)
        if only_scores:
            log_likelihoods[s] = log_likelihood
            continue
        weight = weights[s] if weights.shape[0] > 0 else 1.0
        if weight == 0.0:
            continue
        smooth_means(x, w, X, kinds, start, n_steps, index)
        add_means(x, w, X, kinds, start, n_steps, 0, n_steps, weight, center, with_rows)
        add_covariances(x, w, weight)
        x[w.sums.weight] += weight
        x[w.sums.log_likelihood] += weight * log_likelihood
        x[w.sums.transitions] += weight * (n_steps - 1)
    return x, -1, -1


@kernel
def infer(
    x, places, X, kinds, starts, shares, smooth, means, covariances, lags, log_likelihoods
):  # fmt: skip
    """Filtered or smoothed means (·, d) and covariances (·, d, d) of the rows of all sequences.

    ``shares`` is as for :func:`expect`, for sequences in order. ``lags[i]``, unless there is no
    room, is the covariance of the state of row i + 1 with that of row i, but for the last row of a
    sequence. ``log_likelihoods`` may have no room either. Returns the sequence and the step where
    an observation has no density, or -1, -1.
    """
    w = places[0]
    d = w.d
    with_scores = log_likelihoods.shape[0] > 0
    load_transition(x, w, 0)
    load_observation(x, w, 0)
    if not reduce(x, w, X, np.int64(-1), w.whole):
        return 0, 0
    longest = 1
    for s in range(starts.shape[0] - 1):
        longest = max(longest, starts[s + 1] - starts[s])
    index, first = np.empty(longest, np.int64), np.empty(longest, np.int64)
    reach = 0
    for s in range(starts.shape[0] - 1):
        start = starts[s]
        n_steps = starts[s + 1] - start
        again = shares[s] and reach == n_steps
        if not again:
            x, failed = filter_covariances(x, w, X, kinds, start, n_steps, index, first)
            if failed >= 0:
                return s, failed
            reach = n_steps
        gained = log_likelihoods[start : start + n_steps] if with_scores else log_likelihoods
        filter_means(x, w, X, kinds, start, n_steps, index, with_scores, gained)
        here = covariances[start : start + n_steps]
        lags_here = lags[start : start + n_steps] if lags.shape[0] > 0 else lags
        if again:
            for t in range(n_steps):
                for i in range(d):
                    for j in range(d):
                        here[t, i, j] = covariances[start - n_steps + t, i, j]
                        if lags.shape[0] > 0:
                            lags_here[t, i, j] = lags[start - n_steps + t, i, j]
        elif smooth:
            smooth_covariances(x, w, X, kinds, start, n_steps, index, first, here, lags_here)
        else:
            for t in range(n_steps):
                F = w.records + index[t] * w.record.size + w.record.F
                for i in range(d):
                    for j in range(d):
                        here[t, i, j] = x[F + i * d + j]
        if smooth:
            smooth_means(x, w, X, kinds, start, n_steps, index)
        for t in range(n_steps):
            for i in range(d):
                means[start + t, i] = x[w.states + t * w.dd + i]
    return -1, -1
