"""Matrix products over a block of rows, by tiles that stay in registers.

A matrix here has one row per column of the data and the data's rows along it: ``a[r * width + i]``.
Tiles of 4 × 2 vectors keep both multiply-add pipes of a present-day core busy; measured on one
core they run at the rate of a tuned matrix product from 32 columns up, at half its operations
wherever a factor is triangular or a result symmetric.

The data are doubles or floats, and with them factors and weights; sums over rows are doubles.
"""

import numpy as np
from numba import types

from . import simd
from .options import inlined, kernel, overloaded

PANEL = 32  # rows of a factor, or columns of a result, that are kept in the cache at a time


@inlined
def _images(factor, size, r, x, width, i):
    """Rows ``r .. r + 3`` of ``P x`` for two vectors of columns of ``x`` from ``i``: 4 × 2."""
    a0 = simd.splat_register(simd.number(0.0, x))
    a1 = a0
    b0 = a0
    b1 = a0
    c0 = a0
    c1 = a0
    d0 = a0
    d1 = a0
    for j in range(r + 4):
        y0 = simd.load_register(x, j * width + i)
        y1 = simd.load_register(x, j * width + i + simd.count_register(x))
        at = r * size + j
        p = simd.splat_register(factor[at])
        a0 = simd.fma(p, y0, a0)
        a1 = simd.fma(p, y1, a1)
        p = simd.splat_register(factor[at + size])
        b0 = simd.fma(p, y0, b0)
        b1 = simd.fma(p, y1, b1)
        p = simd.splat_register(factor[at + 2 * size])
        c0 = simd.fma(p, y0, c0)
        c1 = simd.fma(p, y1, c1)
        p = simd.splat_register(factor[at + 3 * size])
        d0 = simd.fma(p, y0, d0)
        d1 = simd.fma(p, y1, d1)
    return a0, a1, b0, b1, c0, c1, d0, d1


@inlined
def _dots(a, r0, r1, r2, r3, b, s0, s1, n):
    """The products over lanes of four rows of ``a`` and two of ``b``, given where they start."""
    a0 = simd.splat_register(simd.number(0.0, a))
    a1 = a0
    b0 = a0
    b1 = a0
    c0 = a0
    c1 = a0
    d0 = a0
    d1 = a0
    for i in range(0, n, simd.count_register(a)):
        x0 = simd.load_register(b, s0 + i)
        x1 = simd.load_register(b, s1 + i)
        y = simd.load_register(a, r0 + i)
        a0 = simd.fma(y, x0, a0)
        a1 = simd.fma(y, x1, a1)
        y = simd.load_register(a, r1 + i)
        b0 = simd.fma(y, x0, b0)
        b1 = simd.fma(y, x1, b1)
        y = simd.load_register(a, r2 + i)
        c0 = simd.fma(y, x0, c0)
        c1 = simd.fma(y, x1, c1)
        y = simd.load_register(a, r3 + i)
        d0 = simd.fma(y, x0, d0)
        d1 = simd.fma(y, x1, d1)
    return a0, a1, b0, b1, c0, c1, d0, d1


@kernel
def subtract_half_norms(factor, size, first, last, x, width, n, out):
    """``out[i] -= ½ ‖P x_i‖²``, ``P`` rows ``first .. last - 1`` of a lower triangular matrix.

    Its ``size`` rows are flat. ``size`` and ``last`` are whole fours, ``first`` whole panels.
    ``n`` is whole groups, and one more may be read in each row of ``x``.
    """
    minus_half = simd.splat_register(simd.number(-0.5, x))
    count = simd.count_register(x)
    for panel in range(first, last, PANEL):
        for i in range(0, n, 2 * count):
            q0 = simd.splat_register(simd.number(0.0, x))
            q1 = q0
            for r in range(panel, min(panel + PANEL, last), 4):
                a0, a1, b0, b1, c0, c1, d0, d1 = _images(factor, size, r, x, width, i)
                q0 = simd.fma(a0, a0, simd.fma(b0, b0, q0))
                q1 = simd.fma(a1, a1, simd.fma(b1, b1, q1))
                q0 = simd.fma(c0, c0, simd.fma(d0, d0, q0))
                q1 = simd.fma(c1, c1, simd.fma(d1, d1, q1))
            simd.store(out, i, simd.fma(minus_half, q0, simd.load_register(out, i)))
            i += count
            if i < n:
                simd.store(out, i, simd.fma(minus_half, q1, simd.load_register(out, i)))


@kernel
def add_products(a, size, width, n, out):
    """``out += A Aᵀ``, its lower triangle, for ``size`` (whole fours) rows of length ``n``."""
    for panel in range(0, size, PANEL):
        for r in range(panel, size, 4):
            r0 = r * width
            r1 = r0 + width
            r2 = r1 + width
            r3 = r2 + width
            for c in range(panel, min(panel + PANEL, r + 4), 2):
                s0 = c * width
                s1 = s0 + width
                a0, a1, b0, b1, c0, c1, d0, d1 = _dots(a, r0, r1, r2, r3, a, s0, s1, n)
                simd.add_totals(out, r * size + c, size, a0, a1, b0, b1, c0, c1, d0, d1)


@kernel
def add_combinations(weights, n_out, n_in, x, width, n, out):
    """``out[k, i] += Σ_c weights[k, c] x[c, i]``."""
    for i in range(0, n, 8):
        k = 0
        while k < n_out:
            rows = min(4, n_out - k)
            # A tile short of rows repeats its last one and drops the copies.
            k1 = min(k + 1, n_out - 1)
            k2 = min(k + 2, n_out - 1)
            k3 = min(k + 3, n_out - 1)
            a = simd.load8(out, k * width + i)
            b = simd.load8(out, k1 * width + i)
            c = simd.load8(out, k2 * width + i)
            d = simd.load8(out, k3 * width + i)
            for j in range(n_in):
                y = simd.load8(x, j * width + i)
                a = simd.fma(simd.splat8(weights[k * n_in + j]), y, a)
                b = simd.fma(simd.splat8(weights[k1 * n_in + j]), y, b)
                c = simd.fma(simd.splat8(weights[k2 * n_in + j]), y, c)
                d = simd.fma(simd.splat8(weights[k3 * n_in + j]), y, d)
            simd.store(out, k * width + i, a)
            if rows > 1:
                simd.store(out, k1 * width + i, b)
            if rows > 2:
                simd.store(out, k2 * width + i, c)
            if rows > 3:
                simd.store(out, k3 * width + i, d)
            k += 4


@kernel
def add_cross_products(a, n_a, b, n_b, width, n, out):
    """``out[r, c] += Σ_i a[r, i] b[c, i]``."""
    for r in range(0, n_a, 4):
        rows = min(4, n_a - r)
        r0 = r * width
        r1 = min(r + 1, n_a - 1) * width
        r2 = min(r + 2, n_a - 1) * width
        r3 = min(r + 3, n_a - 1) * width
        for c in range(0, n_b, 2):
            columns = min(2, n_b - c)
            s0 = c * width
            s1 = min(c + 1, n_b - 1) * width
            a0, a1, b0, b1, c0, c1, d0, d1 = _dots(a, r0, r1, r2, r3, b, s0, s1, n)
            at = r * n_b + c
            if rows == 4 and columns == 2:
                simd.add_totals(out, at, n_b, a0, a1, b0, b1, c0, c1, d0, d1)
                continue
            out[at] += simd.total(a0)
            if rows > 1:
                out[at + n_b] += simd.total(b0)
            if rows > 2:
                out[at + 2 * n_b] += simd.total(c0)
            if rows > 3:
                out[at + 3 * n_b] += simd.total(d0)
            if columns > 1:
                out[at + 1] += simd.total(a1)
                if rows > 1:
                    out[at + n_b + 1] += simd.total(b1)
                if rows > 2:
                    out[at + 2 * n_b + 1] += simd.total(c1)
                if rows > 3:
                    out[at + 3 * n_b + 1] += simd.total(d1)


def _largest_offset(x):
    """The largest ``|scale · mean|`` for which ``scale (x - mean)`` may be one multiply-add."""


@overloaded(_largest_offset)
def _choose_largest_offset(x):
    # The rounding of ``scale · mean`` is an error of ``scale (x - mean)``: 1e-13 of a standard
    # deviation, and in float32 no more than that of a value a few deviations from its mean.
    largest = 8.0 if x.dtype == types.float32 else 1024.0
    return lambda x: largest


@kernel
def subtract_distances(x, width, n, means, scales, out):
    """``out[k, i] -= Σ_c (scales[k, c] (x[c, i] - means[k, c]))²``.

    Columns outside, components inside: a few columns stay in the nearest cache for all of them.
    """
    n_components, n_columns = means.shape
    whole = n_columns // 4 * 4
    for c in range(0, whole, 4):
        k = 0
        while k < n_components:
            if k + 1 < n_components and _are_near(means, scales, k, c, x):
                _subtract_two(x, c * width, width, n, means, scales, k, c, out)
                k += 2
                continue
            m0, m1, m2, m3 = means[k, c], means[k, c + 1], means[k, c + 2], means[k, c + 3]
            s0, s1, s2, s3 = scales[k, c], scales[k, c + 1], scales[k, c + 2], scales[k, c + 3]
            at, to = c * width, k * width
            for i in range(0, n, simd.count_register(x)):
                y0 = simd.standardized(simd.load_register(x, at + i), m0, s0)
                y1 = simd.standardized(simd.load_register(x, at + width + i), m1, s1)
                y2 = simd.standardized(simd.load_register(x, at + 2 * width + i), m2, s2)
                y3 = simd.standardized(simd.load_register(x, at + 3 * width + i), m3, s3)
                q = simd.fma(y0, y0, simd.fma(y1, y1, simd.fma(y2, y2, y3 * y3)))
                simd.store(out, to + i, simd.load_register(out, to + i) - q)
            k += 1
    for c in range(whole, n_columns):
        for k in range(n_components):
            m0, s0 = means[k, c], scales[k, c]
            to = k * width
            for i in range(0, n, simd.count_register(x)):
                y0 = simd.standardized(simd.load_register(x, c * width + i), m0, s0)
                simd.store(out, to + i, simd.load_register(out, to + i) - y0 * y0)


@kernel
def _are_near(means, scales, k, c, x):
    """Whether ``scale (x - mean)`` may be one multiply-add, of four columns of two components."""
    largest = 0.0
    for j in range(c, c + 4):
        largest = max(largest, abs(means[k, j] * scales[k, j]))
        largest = max(largest, abs(means[k + 1, j] * scales[k + 1, j]))
    return largest <= _largest_offset(x)


@inlined
def _subtract_two(x, at, width, n, means, scales, k, c, out):
    """The distances in four columns to two components, which what is loaded serves both."""
    f0, f1 = _factor(scales, k, c, x), _factor(scales, k, c + 1, x)
    f2, f3 = _factor(scales, k, c + 2, x), _factor(scales, k, c + 3, x)
    g0, g1 = _factor(scales, k + 1, c, x), _factor(scales, k + 1, c + 1, x)
    g2, g3 = _factor(scales, k + 1, c + 2, x), _factor(scales, k + 1, c + 3, x)
    a0, a1 = _offset(means, scales, k, c, x), _offset(means, scales, k, c + 1, x)
    a2, a3 = _offset(means, scales, k, c + 2, x), _offset(means, scales, k, c + 3, x)
    b0, b1 = _offset(means, scales, k + 1, c, x), _offset(means, scales, k + 1, c + 1, x)
    b2, b3 = _offset(means, scales, k + 1, c + 2, x), _offset(means, scales, k + 1, c + 3, x)
    to = k * width
    for i in range(0, n, simd.count_register(x)):
        x0, x1 = simd.load_register(x, at + i), simd.load_register(x, at + width + i)
        x2 = simd.load_register(x, at + 2 * width + i)
        x3 = simd.load_register(x, at + 3 * width + i)
        y0, y1 = simd.fma(f0, x0, a0), simd.fma(f1, x1, a1)
        y2, y3 = simd.fma(f2, x2, a2), simd.fma(f3, x3, a3)
        q = simd.fma(y0, y0, simd.fma(y1, y1, simd.fma(y2, y2, y3 * y3)))
        simd.store(out, to + i, simd.load_register(out, to + i) - q)
        y0, y1 = simd.fma(g0, x0, b0), simd.fma(g1, x1, b1)
        y2, y3 = simd.fma(g2, x2, b2), simd.fma(g3, x3, b3)
        q = simd.fma(y0, y0, simd.fma(y1, y1, simd.fma(y2, y2, y3 * y3)))
        simd.store(out, to + width + i, simd.load_register(out, to + width + i) - q)


@kernel
def _factor(scales, k, c, x):
    """The scale in every lane, in the precision of the rows."""
    return simd.splat_register(simd.number(scales[k, c], x))


@kernel
def _offset(means, scales, k, c, x):
    """``-scale · mean`` in every lane."""
    return simd.splat_register(simd.number(-(means[k, c] * scales[k, c]), x))


@kernel
def are_above(x, at, n, least):
    """Whether none of ``x[at : at + n]``, whole vectors, is below ``least``."""
    bound = simd.splat_register(simd.number(least, x))
    n_below = 0
    for i in range(at, at + n, simd.count_register(x)):
        n_below += simd.count_above(bound, simd.load_register(x, i))
    return n_below == 0


@kernel
def add_sums(weights, width, n, n_components, above, out):
    """``out[k] += Σ_i weights[k, i]``; returns how many of them are above a number.

    ``n`` is whole vectors.
    """
    least = simd.splat_register(simd.number(above, weights))
    step = simd.count_register(weights)
    pairs = n // (2 * step) * (2 * step)
    n_above = 0
    for k in range(n_components):
        # Two sums, so that an addition need not wait for the one before: twice as fast.
        total0 = simd.splat_register(simd.number(0.0, weights))
        total1 = total0
        at = k * width
        for i in range(at, at + pairs, 2 * step):
            w = simd.load_register(weights, i)
            total0 = total0 + w
            n_above += simd.count_above(w, least)
            w = simd.load_register(weights, i + step)
            total1 = total1 + w
            n_above += simd.count_above(w, least)
        for i in range(at + pairs, at + n, step):
            w = simd.load_register(weights, i)
            total0 = total0 + w
            n_above += simd.count_above(w, least)
        out[k] += simd.total(total0 + total1)
    return n_above


@kernel
def add_moments(x, width, n, weights, totals, means, first, second):
    """Add ``Σ_i w_ki d`` and ``Σ_i w_ki d²`` for ``d = x[c, i] - means[k, c]``.

    ``totals[k]`` is ``Σ_i w_ki``. The differences are taken from means of the type of ``x``, and
    the sums moved by what these lack.
    """
    n_components, n_columns = means.shape
    for c in range(0, n_columns, 2):
        # The last of an odd number of columns is taken twice, and counted once.
        other = min(c + 1, n_columns - 1)
        at0 = c * width
        at1 = other * width
        for k in range(n_components):
            m0 = simd.splat8(simd.number(means[k, c], x))
            m1 = simd.splat8(simd.number(means[k, other], x))
            f0 = simd.splat8(simd.number(0.0, x))
            f1 = f0
            s0 = f0
            s1 = f0
            to = k * width
            for i in range(0, n, simd.count8(x)):
                w = simd.load8(weights, to + i)
                d = simd.load8(x, at0 + i) - m0
                y = w * d
                f0 = f0 + y
                s0 = simd.fma(y, d, s0)
                d = simd.load8(x, at1 + i) - m1
                y = w * d
                f1 = f1 + y
                s1 = simd.fma(y, d, s1)
            add_moved(x, means, totals[k], k, c, simd.total(f0), simd.total(s0), first, second)
            if other > c:
                add_moved(
                    x, means, totals[k], k, other, simd.total(f1), simd.total(s1), first, second
                )


def add_moved(x, means, weight, k, c, sum_first, sum_second, first, second):
    """Add sums about the mean of component ``k``, taken about the mean in the type of ``x``."""


@overloaded(add_moved, inline="always")
def _add_moved(x, means, weight, k, c, sum_first, sum_second, first, second):
    if x.dtype == types.float64:

        def implementation(x, means, weight, k, c, sum_first, sum_second, first, second):
            first[k, c] += sum_first
            second[k, c] += sum_second

    else:

        def implementation(x, means, weight, k, c, sum_first, sum_second, first, second):
            # Σ w (d - ε) and Σ w (d - ε)².
            lack = means[k, c] - simd.number(means[k, c], x)
            first[k, c] += sum_first - lack * weight
            second[k, c] += sum_second - lack * (2.0 * sum_first - lack * weight)

    return implementation


@kernel
def choose(weights, width, n, n_components, above, places, starts):
    """Where ``weights[k, i]`` is above a number, ``i < n``, one component after another.

    Those of component k come in ``places[starts[k] : starts[k + 1]]``, and what is written and not
    kept in eight elements more. ``n`` is whole vectors.
    """
    least = simd.splat_register(simd.number(above, weights))
    j = 0
    for k in range(n_components):
        starts[k] = j
        for i in range(0, n, simd.count_register(weights)):
            w = simd.load_register(weights, k * width + i)
            j = simd.store_places(places, j, i, w, least)
    starts[n_components] = j


@kernel
def lay_rows(x, n_columns, width, n, out, stride):
    """``out[i * stride + c] = x[c * width + i]``, and zeros behind the last column.

    ``n`` is whole fours, ``stride`` the columns rounded up to whole vectors.
    """
    whole = n_columns if n_columns >= 4 else 0
    if n_columns < stride:
        zero = simd.splat_register(simd.number(0.0, x))
        for i in range(stride, n * stride + 1, stride):
            simd.store(out, i - simd.count_register(x), zero)
    for i in range(0, n, 4):
        for column in range(0, whole, 4):
            # The last four columns overlap those before, rather than leave a rest.
            c = min(column, n_columns - 4)
            at = c * width + i
            simd.store_transposed(
                out, i * stride + c, stride, simd.load_four(x, at), simd.load_four(x, at + width),
                simd.load_four(x, at + 2 * width), simd.load_four(x, at + 3 * width),
            )  # fmt: skip
    for c in range(whole, n_columns):
        for i in range(n):
            out[i * stride + c] = x[c * width + i]


@kernel
def add_chosen_moments(x, stride, places, starts, weights, width, totals, means, first, second):
    """As ``add_moments``, for k of the rows ``places[starts[k] : starts[k + 1]]`` alone.

    The rows are those of ``lay_rows``, ``stride`` whole vectors apart. Four rows at a time have
    sums of their own, so that no addition waits for the one before.
    """
    n_components, n_columns = means.shape
    near = np.zeros(stride, dtype=x.dtype)
    sums = np.empty(stride, dtype=x.dtype)
    squares = np.empty(stride, dtype=x.dtype)
    for k in range(n_components):
        begin, end = starts[k], starts[k + 1]
        if begin == end:
            continue
        whole = begin + (end - begin) // 4 * 4
        to = k * width
        for c in range(n_columns):
            near[c] = means[k, c]
        for c in range(0, stride, simd.count_register(x)):
            m = simd.load_register(near, c)
            f0 = simd.splat_register(simd.number(0.0, x))
            f1 = f0
            f2 = f0
            f3 = f0
            s0 = f0
            s1 = f0
            s2 = f0
            s3 = f0
            for j in range(begin, whole, 4):
                i = places[j]
                d = simd.load_register(x, i * stride + c) - m
                y = simd.splat_register(weights[to + i]) * d
                f0 = f0 + y
                s0 = simd.fma(y, d, s0)
                i = places[j + 1]
                d = simd.load_register(x, i * stride + c) - m
                y = simd.splat_register(weights[to + i]) * d
                f1 = f1 + y
                s1 = simd.fma(y, d, s1)
                i = places[j + 2]
                d = simd.load_register(x, i * stride + c) - m
                y = simd.splat_register(weights[to + i]) * d
                f2 = f2 + y
                s2 = simd.fma(y, d, s2)
                i = places[j + 3]
                d = simd.load_register(x, i * stride + c) - m
                y = simd.splat_register(weights[to + i]) * d
                f3 = f3 + y
                s3 = simd.fma(y, d, s3)
            for j in range(whole, end):
                i = places[j]
                d = simd.load_register(x, i * stride + c) - m
                y = simd.splat_register(weights[to + i]) * d
                f0 = f0 + y
                s0 = simd.fma(y, d, s0)
            simd.store(sums, c, (f0 + f1) + (f2 + f3))
            simd.store(squares, c, (s0 + s1) + (s2 + s3))
        for c in range(n_columns):
            add_moved(x, means, totals[k], k, c, sums[c], squares[c], first, second)


@kernel
def whiten(factor, size, x, width, n, out):
    """``out[r, i] = Σ_{c ≤ r} P[r, c] x[c, i]``, ``P`` lower triangular, its rows flat.

    ``n`` is whole groups, and one more may be read and written in each row.
    """
    count = simd.count_register(x)
    for i in range(0, n, 2 * count):
        for r in range(0, size, 4):
            a0, a1, b0, b1, c0, c1, d0, d1 = _images(factor, size, r, x, width, i)
            at = r * width + i
            simd.store(out, at, a0)
            simd.store(out, at + count, a1)
            at += width
            simd.store(out, at, b0)
            simd.store(out, at + count, b1)
            at += width
            simd.store(out, at, c0)
            simd.store(out, at + count, c1)
            at += width
            simd.store(out, at, d0)
            simd.store(out, at + count, d1)
