"""One long complete sequence, cut into chunks that go side by side in SIMD lanes.

In the steady state filter and smoother are linear recursions with the matrices A (I - K C) and J.
Where these shrink, a mean forgets where its recursion began: after some steps, the warm-up, nothing
is left of it that a double could hold. So each chunk begins a warm-up too early and ends a warm-up
too late, at any state, and only what lies between is counted. The beginning of the sequence, where
the filter is not steady yet, and its end are done one step after another.
"""

import numpy as np

from .. import simd
from ..options import apart, helper, kernel
from ..rows import SPARE, on_a_line
from ..small_matrices import add_columns, clear, set_columns
from .filter import filter_covariances, filter_means
from .lanes import MOST, add_rows, block_size, lanes_outer, smooth_lanes
from .observation import reduce
from .smoother import smooth_covariances, smooth_means
from .statistics import add_covariances, add_means
from .system import load_observation, load_transition

#: What may be left of an error of the state, in standard deviations of the state. The state where
#: a chunk begins may be wrong by many.
FORGOTTEN = 1e-26
#: A warm-up is a whole multiple of this, up to so many.
_WARM_UP, _MOST_WARM_UPS = 16, 16
#: A chunk should be so many warm-ups long, and at least so many.
_WARM_UPS_IN_CHUNK, _LEAST_IN_CHUNK = 6, 2
#: The fewest chunks side by side.
_FEWEST = 8
#: Sequences of fewer steps are hardly worth cutting.
LONG = 512


@helper
def _filter_matrix(x, w, record, out):
    """``A (I - K C)``: what becomes of an error of the predicted state in one step."""
    apart()
    d, r, dd, rr, room, where = w.d, w.r, w.dd, w.rr, w.room, w.record
    for j in range(d):
        clear(x, w.predicted, dd)
        x[w.predicted + j] = 1.0
        set_columns(x, w.whole.minus_C, d, rr, w.predicted, room.e)
        set_columns(x, record + where.whiten, r, rr, room.e, room.z)
        add_columns(x, record + where.gain, r, dd, room.z, w.predicted)
        set_columns(x, room.columns, d, dd, w.predicted, room.delta)
        for i in range(d):
            out[i, j] = x[room.delta + i]


@helper
def _steps_to_forget(matrix, unit):
    """Steps after which a recursion with ``matrix`` has forgotten its beginning; 0 if too many."""
    apart()
    d = matrix.shape[0]
    step = np.empty((d, d))
    for i in range(d):
        for j in range(d):
            step[i, j] = matrix[i, j] * unit[j] / unit[i]
    count = 1
    while count < _WARM_UP:
        step = _product(step, step)
        count *= 2
    power = step
    for warm_ups in range(1, _MOST_WARM_UPS + 1):
        largest = 0.0
        for i in range(d):
            for j in range(d):
                largest = max(largest, abs(power[i, j]))
        if largest * d <= FORGOTTEN:
            return warm_ups * _WARM_UP
        power = _product(power, step)
    return 0


@helper
def _product(a, b):
    apart()
    d = a.shape[0]
    out = np.zeros((d, d))
    for i in range(d):
        for j in range(d):
            for k in range(d):
                out[i, j] += a[i, k] * b[k, j]
    return out


@helper
def warm_up_of(x, w, record):
    """Steps after which filter and smoother have both forgotten where they began, or 0."""
    apart()
    d, dd, where = w.d, w.dd, w.record
    unit = np.empty(d)
    for i in range(d):
        variance = x[record + where.F + i * d + i]
        if not variance > 0.0:
            return 0
        unit[i] = np.sqrt(variance)
    matrix = np.empty((d, d))
    _filter_matrix(x, w, record, matrix)
    forward = _steps_to_forget(matrix, unit)
    if forward == 0:
        return 0
    for i in range(d):
        for j in range(d):
            matrix[i, j] = x[record + where.J + j * dd + i]
    backward = _steps_to_forget(matrix, unit)
    return max(forward, backward) if backward > 0 else 0


@helper
def chunks_of(x, w, n_steps, index, first):
    """How a complete sequence is cut: steps of a warm-up and of a chunk, chunks in a row, and rows.

    All zero if it is too short, or forgets too slowly, or its covariances are singular.
    """
    apart()
    if x[w.room.singular] > 0.0:
        return 0, 0, 0, 0
    steady = first[index[n_steps - 1]]
    if n_steps - steady < 2 * _WARM_UP * _FEWEST:
        return 0, 0, 0, 0
    warm_up = warm_up_of(x, w, w.records + index[n_steps - 1] * w.record.size)
    middle = n_steps - steady - 2 * warm_up
    width = MOST
    while width > _FEWEST and middle < width * _WARM_UPS_IN_CHUNK * warm_up:
        width //= 2
    if warm_up == 0 or middle < width * _LEAST_IN_CHUNK * warm_up:
        return 0, 0, 0, 0
    rounds = max(1, middle // (width * _WARM_UPS_IN_CHUNK * warm_up))
    return warm_up, middle // (width * rounds), width, rounds


@helper
def add_chunks(x, w, width, n_steps, begin, end, weight, y):
    """Add the products of the smoothed means of steps ``begin .. end - 1`` of some chunks."""
    apart()
    d, p, dd, sums = w.d, w.p, w.dd, w.sums
    n_columns = n_steps * width
    states, weighted = (p + d) * n_columns, p * n_columns
    here, count = begin * width, (end - begin) * width
    factor = simd.splat(weight)
    for i in range(d):
        reference = simd.splat(x[sums.reference + i])
        for k in range(here - width, here + count, 4):
            row = i * n_columns + k
            state = simd.load(y, states + row) - reference
            simd.store(y, states + row, state)
            # The predictions are not needed any more.
            simd.store(y, weighted + row, factor * state)
    now, before = weighted + here, weighted + here - width
    lanes_outer(y, states + here, n_columns, d, now, n_columns, d, count, x, sums.seen2, dd)
    lanes_outer(y, here, n_columns, p, now, n_columns, d, count, x, sums.vh, dd)
    lanes_outer(y, states + here, n_columns, d, before, n_columns, d, count, x, sums.lag, dd)
    add_rows(y, now, n_columns, d, count, x, sums.seen)
    x[sums.observed] += weight * count


@helper
def smooth_range(x, w, X, kinds, start, index, t, n_steps, begin, end):
    """Smooth ``n_steps`` steps from step ``t`` on; the log-likelihood of ``begin .. end - 1``."""
    apart()
    gains = np.empty(n_steps)
    filter_means(x, w, X, kinds, start + t, n_steps, index[t:], False, gains)
    smooth_means(x, w, X, kinds, start + t, n_steps, index[t:])
    total = 0.0
    for s in range(begin, end):
        total += gains[s]
    return total


@helper
def smooth_chunks(x, w, X, start, first, index, warm_up, length, width, rounds, weight, center):
    """Add the statistics of the chunks from step ``first`` on; returns their log-likelihood."""
    apart()
    n_steps = length + 2 * warm_up
    size = block_size(w, n_steps, width)
    y = on_a_line(np.empty(size + SPARE), size)
    order = np.arange(width)
    starts = np.empty(width, np.int64)
    likelihoods = np.empty(width)
    steady = index[first:]
    total = 0.0
    for turn in range(rounds):
        for l in range(width):
            starts[l] = start + first - warm_up + (turn * width + l) * length
        smooth_lanes(
            x, w, X, starts, order, 0, width, n_steps, warm_up, warm_up + length, steady, center, y,
            likelihoods,
        )  # fmt: skip
        add_chunks(x, w, width, n_steps, warm_up, warm_up + length, weight, y)
        for l in range(width):
            total += likelihoods[l]
    record = w.records + index[first] * w.record.size
    each = 0.5 * w.p * np.log(2.0 * np.pi) + x[w.whole.half] + x[record + w.record.log_det]
    return total - rounds * width * length * each


@kernel
def expect_long(x, places, X, kinds, starts, order, weights, center):
    """As ``statistics.expect``, for a few complete sequences, long ones in chunks."""
    w = places[0]
    load_transition(x, w, 0)
    load_observation(x, w, 0)
    if not reduce(x, w, X, np.int64(-1), w.whole):
        return x, 0, 0
    longest = 1
    for s in order:
        longest = max(longest, starts[s + 1] - starts[s])
    index, first = np.empty(longest, np.int64), np.empty(longest, np.int64)
    none = np.empty((0, 0, 0))
    for s in order:
        start = starts[s]
        n_steps = starts[s + 1] - start
        x, failed = filter_covariances(x, w, X, kinds, start, n_steps, index, first)
        if failed >= 0:
            return x, s, failed
        weight = weights[s] if weights.shape[0] > 0 else 1.0
        if weight == 0.0:
            continue
        warm_up, length, width, rounds = chunks_of(x, w, n_steps, index, first)
        # The first steps by themselves, or all of them.
        middle = first[index[n_steps - 1]] + warm_up if warm_up > 0 else n_steps
        n = middle + warm_up
        total = smooth_range(x, w, X, kinds, start, index, 0, n, 0, middle)
        add_means(x, w, X, kinds, start, n, 0, middle, weight, center, False)
        if warm_up > 0:
            total += smooth_chunks(
                x, w, X, start, middle, index, warm_up, length, width, rounds, weight, center
            )
            left = middle + rounds * width * length - warm_up
            n = n_steps - left
            total += smooth_range(x, w, X, kinds, start, index, left, n, warm_up, n)
            add_means(x, w, X, kinds, start + left, n, warm_up, n, weight, center, False)
        smooth_covariances(x, w, X, kinds, start, n_steps, index, first, none, none)
        add_covariances(x, w, weight)
        x[w.sums.weight] += weight
        x[w.sums.log_likelihood] += weight * total
        x[w.sums.transitions] += weight * (n_steps - 1)
    return x, -1, -1
