"""Rows of many columns, one after another: which components are near, and moments.

Here ``block[i * stride + c]`` is column ``c`` of row ``i``, as the user has it; behind the last
column are zeros up to whole vectors. A row is then left out wherever a component has no part in
it, which with many columns is nearly everywhere, and nothing needs to be transposed. Four rows at
a time share what is loaded of a component, and no addition waits for the one before.
"""

import numpy as np
from numba import types

from . import simd
from .options import apart, helper, inlined, kernel, overloaded
from .products import add_moved
from .rows import GROUP, check_rows, one_for, vector_for, whole_vectors

#: The numbers of a block, so that it stays in the cache near the core with what is done to it.
_BLOCK, _LEAST_ROWS, _MOST_ROWS = 262_144, 16, 256

#: Vectors of a row that are taken at a time.
_PANEL = 16


@inlined
def stride_of(n_columns, block):
    """The distance between rows: the columns in whole vectors."""
    vector = simd.count_register(block)
    return (n_columns + vector - 1) // vector * vector


@inlined
def rows_in_block(n_columns):
    """How many rows of so many columns a block should have."""
    rows = _BLOCK // n_columns // _LEAST_ROWS * _LEAST_ROWS
    return max(_LEAST_ROWS, min(_MOST_ROWS, rows))


@kernel
def read_wide_rows(rows, first, n, block, stride):
    """Copy rows ``first .. first + n - 1`` into ``block``; the last group is filled with zeros."""
    apart()
    check_rows(rows, first, first + n - 1)
    n_columns, code = rows.offsets.shape[0], rows.code
    vector = simd.count8(block)
    whole = n_columns // vector * vector if rows.contiguous else 0
    for i in range(n):
        row = rows.address + (first + i) * rows.row_stride
        to = i * stride
        for c in range(0, whole, vector):
            simd.store(block, to + c, vector_for(block, row + rows.offsets[c], code))
        for c in range(n_columns, stride):
            block[to + c] = 0.0
    # Where columns lie one after another, some rows of each are in one line of the cache.
    for start in range(0, n, GROUP):
        for c in range(whole, n_columns):
            column = rows.address + rows.offsets[c]
            for i in range(start, min(start + GROUP, n)):
                at = column + (first + i) * rows.row_stride
                block[i * stride + c] = one_for(block, at, code)
    for j in range(n * stride, whole_vectors(n, block) * stride):
        block[j] = 0.0


# Distances to components with independent columns -------------------------------------------


@inlined
def standards_size(n_components, stride):
    """How many numbers ``set_standards`` writes."""
    return 3 * n_components * stride


@kernel
def set_standards(means, scales, stride, out):
    """For each component the rows m, s and r with ``s (x - m) + r = scale (x - mean)``.

    The mean is that of the type of the rows, and r makes up for what it lacks of the double. There
    are four columns at least.
    """
    apart()
    n_components, n_columns = means.shape
    for at in range(standards_size(n_components, stride)):
        out[at] = 0.0
    for k in range(n_components):
        at = 3 * k * stride
        for column in range(0, n_columns, 4):
            # The last four columns overlap those before, rather than leave a rest.
            c = min(column, n_columns - 4)
            mean, scale = simd.load(means[k], c), simd.load_doubles(scales[k], c)
            simd.store_doubles(out, at + c, mean)
            simd.store_doubles(out, at + stride + c, scale)
            lack = simd.load_doubles(out, at + c) - mean
            simd.store_doubles(out, at + 2 * stride + c, scale * lack)


@helper
def _set_order(stride, order, ends):
    """The columns where vectors begin, part after part: each is spread over the whole row.

    Every eighth vector, the eighth between these, the quarter that is left, the half. Part p ends
    at ``ends[p + 1]``.
    """
    apart()
    vector = stride // order.shape[0]
    n = 0
    ends[0] = 0
    first, step = 0, 8
    for part in range(1, ends.shape[0]):
        for v in range(first, order.shape[0], step):
            order[n] = v * vector
            n += 1
        ends[part] = n
        step = step if part == 1 else step // 2
        first = step // 2


def _standardized(x, at, m, s, standards, r_at):
    """``s (x - m) + r`` of the vector of ``x`` there."""


@overloaded(_standardized, inline="always")
def _choose_standardized(x, at, m, s, standards, r_at):
    if x.dtype == types.float64:
        # A double lacks nothing of the mean, and r would only be loaded.
        return lambda x, at, m, s, standards, r_at: s * (simd.load_register(x, at) - m)
    return lambda x, at, m, s, standards, r_at: simd.fma(
        s, simd.load_register(x, at) - m, simd.load_register(standards, r_at)
    )


@helper
def _subtract_from_all(x, stride, n, n_components, standards, order, first, last, out, width):
    """``out[k * width + i] -= Σ (s_k (x_i - m_k) + r_k)²`` over vectors of the order.

    Eight rows at a time: a panel of them stays in the nearest cache for all components.
    """
    apart()
    for panel in range(first, last, _PANEL):
        end = min(panel + _PANEL, last)
        for i in range(0, n, 8):
            i0 = i * stride
            i1, i2, i3 = i0 + stride, i0 + 2 * stride, i0 + 3 * stride
            i4, i5, i6, i7 = i0 + 4 * stride, i1 + 4 * stride, i2 + 4 * stride, i3 + 4 * stride
            for k in range(n_components):
                m_at = 3 * k * stride
                s_at = m_at + stride
                r_at = s_at + stride
                a0 = simd.splat_register(simd.number(0.0, x))
                a1 = a0
                a2 = a0
                a3 = a0
                a4 = a0
                a5 = a0
                a6 = a0
                a7 = a0
                for v in range(panel, end):
                    c = order[v]
                    m = simd.load_register(standards, m_at + c)
                    s = simd.load_register(standards, s_at + c)
                    y = _standardized(x, i0 + c, m, s, standards, r_at + c)
                    a0 = simd.fma(y, y, a0)
                    y = _standardized(x, i1 + c, m, s, standards, r_at + c)
                    a1 = simd.fma(y, y, a1)
                    y = _standardized(x, i2 + c, m, s, standards, r_at + c)
                    a2 = simd.fma(y, y, a2)
                    y = _standardized(x, i3 + c, m, s, standards, r_at + c)
                    a3 = simd.fma(y, y, a3)
                    y = _standardized(x, i4 + c, m, s, standards, r_at + c)
                    a4 = simd.fma(y, y, a4)
                    y = _standardized(x, i5 + c, m, s, standards, r_at + c)
                    a5 = simd.fma(y, y, a5)
                    y = _standardized(x, i6 + c, m, s, standards, r_at + c)
                    a6 = simd.fma(y, y, a6)
                    y = _standardized(x, i7 + c, m, s, standards, r_at + c)
                    a7 = simd.fma(y, y, a7)
                distances = simd.totals(a0, a1, a2, a3, a4, a5, a6, a7)
                to = k * width + i
                simd.store(out, to, simd.load_eight(out, to) - distances)


@helper
def _subtract(x, stride, places, n, standards, k, order, first, last, out, width):
    """The same of component k alone, for the rows in ``places``; with the same sums."""
    apart()
    m_at = 3 * k * stride
    s_at = m_at + stride
    r_at = s_at + stride
    to = k * width
    distances = np.empty(8, dtype=x.dtype)
    for panel in range(first, last, _PANEL):
        end = min(panel + _PANEL, last)
        for j in range(0, n, 4):
            # Four rows that are fewer repeat the last one, and store the same number again.
            p0 = places[j]
            p1 = places[min(j + 1, n - 1)]
            p2 = places[min(j + 2, n - 1)]
            p3 = places[min(j + 3, n - 1)]
            i0, i1, i2, i3 = p0 * stride, p1 * stride, p2 * stride, p3 * stride
            a0 = simd.splat_register(simd.number(0.0, x))
            a1 = a0
            a2 = a0
            a3 = a0
            for v in range(panel, end):
                c = order[v]
                m = simd.load_register(standards, m_at + c)
                s = simd.load_register(standards, s_at + c)
                y = _standardized(x, i0 + c, m, s, standards, r_at + c)
                a0 = simd.fma(y, y, a0)
                y = _standardized(x, i1 + c, m, s, standards, r_at + c)
                a1 = simd.fma(y, y, a1)
                y = _standardized(x, i2 + c, m, s, standards, r_at + c)
                a2 = simd.fma(y, y, a2)
                y = _standardized(x, i3 + c, m, s, standards, r_at + c)
                a3 = simd.fma(y, y, a3)
            simd.store(distances, 0, simd.totals(a0, a1, a2, a3, a0, a1, a2, a3))
            q0 = out[to + p0] - distances[0]
            q1 = out[to + p1] - distances[1]
            q2 = out[to + p2] - distances[2]
            q3 = out[to + p3] - distances[3]
            out[to + p0] = q0
            out[to + p1] = q1
            out[to + p2] = q2
            out[to + p3] = q3


def _lowest(x):
    """The lowest number of the type of an array."""


@overloaded(_lowest)
def _choose_lowest(x):
    if x.dtype == types.float32:
        return lambda x: -3.4028234663852886e38
    return lambda x: -1.7976931348623157e308


@helper
def _places_within(x, at, n, gap, best, places):
    """Where ``x[at + i]`` is above -inf and not below ``best[i] - gap``; returns how many."""
    apart()
    lowest = simd.splat_register(simd.number(_lowest(x), x))
    gaps = simd.splat_register(simd.number(gap, x))
    zero = simd.splat_register(simd.number(0.0, x))
    half = simd.splat_register(simd.number(0.5, x))
    one = simd.splat_register(simd.number(1.0, x))
    j = 0
    for i in range(0, n, simd.count_register(x)):
        bound = simd.maximum(simd.load_register(best, i) - gaps, lowest)
        within = simd.where_above(bound, simd.load_register(x, at + i), zero, one)
        j = simd.store_places(places, j, i, within, half)
    return j


@helper
def _largest(x, n_components, width, n, out):
    """``out[i] = max_k x[k * width + i]``."""
    apart()
    for i in range(0, n, simd.count_register(x)):
        largest = simd.load_register(x, i)
        for k in range(1, n_components):
            largest = simd.maximum(simd.load_register(x, k * width + i), largest)
        simd.store(out, i, largest)


@helper
def _settle(log_p, to, places, n, done):
    """Put the sums of these rows, which are complete, aside."""
    apart()
    for j in range(n):
        i = to + places[j]
        done[i] = log_p[i]
        log_p[i] = -np.inf


@kernel
def subtract_likely_distances(x, stride, width, n, n_components, standards, gap, log_p):
    """``log_p[k, i] -= Σ_c (s_kc (x_ic - m_kc) + r_kc)²``, or -inf where that is too far away.

    The sum only grows: a component is given up once its ``log_p`` is below another's by ``gap``. A
    part of the columns is added for all, then the rest for the component that is likeliest by it,
    then part after part for those that are still possible. ``n`` is whole vectors.
    """
    order = np.empty(stride // simd.count_register(x), dtype=np.int64)
    ends = np.empty(5, dtype=np.int64)
    _set_order(stride, order, ends)
    first, last = ends[0], ends[1]
    _subtract_from_all(x, stride, n, n_components, standards, order, first, last, log_p, width)
    places = np.empty(n + 8, dtype=np.int32)
    best = np.empty(n, dtype=x.dtype)
    done = np.empty(n_components * width, dtype=x.dtype)
    for i in range(n_components * width):
        done[i] = -np.inf
    _largest(log_p, n_components, width, n, best)
    for k in range(n_components):
        m = _places_within(log_p, k * width, n, 0.0, best, places)
        _subtract(x, stride, places, m, standards, k, order, ends[1], ends[4], log_p, width)
        _settle(log_p, k * width, places, m, done)
    _largest(done, n_components, width, n, best)
    is_sparse = False
    for part in range(1, 4):
        first, last = ends[part], ends[part + 1]
        if not is_sparse:
            n_left = 0
            for k in range(n_components):
                n_left += _places_within(log_p, k * width, n, gap, best, places)
            is_sparse = 2 * n_left <= n * n_components
        if not is_sparse:
            # Rows that follow one another take less time than looking for them saves.
            _subtract_from_all(
                x, stride, n, n_components, standards, order, first, last, log_p, width
            )  # fmt: skip
            continue
        for k in range(n_components):
            m = _places_within(log_p, k * width, n, gap, best, places)
            _subtract(x, stride, places, m, standards, k, order, first, last, log_p, width)
            if part == 3:
                _settle(log_p, k * width, places, m, done)
    for k in range(n_components):
        for i in range(k * width, k * width + n):
            log_p[i] = done[i] if is_sparse else max(log_p[i], done[i])


# Moments ------------------------------------------------------------------------------------


@kernel
def add_wide_moments(
    x, stride, places, starts, weights, width, totals, standards, means, first, second
):  # fmt: skip
    """As ``products.add_moments``, for k of rows ``places[starts[k] : starts[k + 1]]`` alone."""
    apart()
    n_components, n_columns = means.shape
    sums = np.empty(2 * stride, dtype=x.dtype)
    zero = simd.splat_register(simd.number(0.0, x))
    for k in range(n_components):
        begin, end = starts[k], starts[k + 1]
        if begin == end:
            continue
        to = k * width
        for c in range(2 * stride):
            sums[c] = 0.0
        for j in range(begin, end, 4):
            # Four rows that are fewer repeat the last one, with no weight.
            i0 = places[j]
            i1 = places[min(j + 1, end - 1)]
            i2 = places[min(j + 2, end - 1)]
            i3 = places[min(j + 3, end - 1)]
            w0 = simd.splat_register(weights[to + i0])
            w1 = simd.splat_register(weights[to + i1]) if j + 1 < end else zero
            w2 = simd.splat_register(weights[to + i2]) if j + 2 < end else zero
            w3 = simd.splat_register(weights[to + i3]) if j + 3 < end else zero
            for c in range(0, stride, simd.count_register(x)):
                m = simd.load_register(standards, 3 * k * stride + c)
                d0 = simd.load_register(x, i0 * stride + c) - m
                d1 = simd.load_register(x, i1 * stride + c) - m
                d2 = simd.load_register(x, i2 * stride + c) - m
                d3 = simd.load_register(x, i3 * stride + c) - m
                y0 = w0 * d0
                y1 = w1 * d1
                y2 = w2 * d2
                y3 = w3 * d3
                f = simd.load_register(sums, c) + ((y0 + y1) + (y2 + y3))
                s = simd.fma(y0, d0, simd.fma(y1, d1, simd.load_register(sums, stride + c)))
                s = simd.fma(y2, d2, simd.fma(y3, d3, s))
                simd.store(sums, c, f)
                simd.store(sums, stride + c, s)
        for c in range(n_columns):
            add_moved(x, means, totals[k], k, c, sums[c], sums[stride + c], first, second)
