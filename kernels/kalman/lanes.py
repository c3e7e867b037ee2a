"""Many complete sequences of one length, side by side in SIMD lanes.

They share all covariances, so that each step of the recursions is a product of one small matrix
with as many vectors as there are sequences. A block ``y`` holds one row for each coordinate; the
column of step t and lane l is ``t * width + l``. The recursions are those of filter.py and
smoother.py, the sums those of statistics.py.
"""

import numpy as np

from .. import simd
from ..options import apart, helper, only_with
from .system import LANES

#: Numbers in a block, so that it stays in the cache near the core.
BLOCK = 32_768
#: The most sequences side by side, and the fewest.
MOST, LEAST = 32, 4
#: Longer sequences are taken one at a time.
LONGEST = 8192


@helper
def lanes_product(x, M, column, n, m, y, a, a_stride, width, out, out_stride):
    """``out += M a`` for a (m, width) and out (n, width) in ``y``; M by columns, so far apart."""
    apart()
    i = 0
    while i < n:
        # Three rows of M at a time, or two, so that what is loaded of a serves all of them.
        rest, to = n - i, out + i * out_stride
        if rest == 3 or rest > 4:
            _three_rows(x, M + i, column, m, y, a, a_stride, width, to, out_stride)
            i += 3
        else:
            # A single row is taken twice.
            step = min(rest - 1, 1)
            _two_rows(x, M + i, step, column, m, y, a, a_stride, width, to, step * out_stride)
            i += 2


@helper
def _three_rows(x, M, column, m, y, a, a_stride, width, out, out_stride):
    """The same for three rows."""
    apart()
    lanes = simd.count_register(y)
    to, to2, to3 = out, out + out_stride, out + 2 * out_stride
    k = 0
    # As many sums as there are registers for, or multiply-adds wait for each other.
    while k + 4 * lanes <= width:
        k1, k2, k3 = k + lanes, k + 2 * lanes, k + 3 * lanes
        r0, r1 = simd.load_register(y, to + k), simd.load_register(y, to + k1)
        r2, r3 = simd.load_register(y, to + k2), simd.load_register(y, to + k3)
        s0, s1 = simd.load_register(y, to2 + k), simd.load_register(y, to2 + k1)
        s2, s3 = simd.load_register(y, to2 + k2), simd.load_register(y, to2 + k3)
        t0, t1 = simd.load_register(y, to3 + k), simd.load_register(y, to3 + k1)
        t2, t3 = simd.load_register(y, to3 + k2), simd.load_register(y, to3 + k3)
        for j in range(m):
            at, entry = a + j * a_stride, M + j * column
            f, g = simd.splat_register(x[entry]), simd.splat_register(x[entry + 1])
            h = simd.splat_register(x[entry + 2])
            v = simd.load_register(y, at + k)
            r0, s0, t0 = simd.fma(f, v, r0), simd.fma(g, v, s0), simd.fma(h, v, t0)
            v = simd.load_register(y, at + k1)
            r1, s1, t1 = simd.fma(f, v, r1), simd.fma(g, v, s1), simd.fma(h, v, t1)
            v = simd.load_register(y, at + k2)
            r2, s2, t2 = simd.fma(f, v, r2), simd.fma(g, v, s2), simd.fma(h, v, t2)
            v = simd.load_register(y, at + k3)
            r3, s3, t3 = simd.fma(f, v, r3), simd.fma(g, v, s3), simd.fma(h, v, t3)
        _store_four(y, to + k, lanes, r0, r1, r2, r3)
        _store_four(y, to2 + k, lanes, s0, s1, s2, s3)
        _store_four(y, to3 + k, lanes, t0, t1, t2, t3)
        k += 4 * lanes
    while k < width:
        r, s, t = simd.load(y, to + k), simd.load(y, to2 + k), simd.load(y, to3 + k)
        for j in range(m):
            v, entry = simd.load(y, a + j * a_stride + k), M + j * column
            r = simd.fma(simd.splat(x[entry]), v, r)
            s = simd.fma(simd.splat(x[entry + 1]), v, s)
            t = simd.fma(simd.splat(x[entry + 2]), v, t)
        simd.store(y, to + k, r)
        simd.store(y, to2 + k, s)
        simd.store(y, to3 + k, t)
        k += 4


@helper
def _two_rows(x, M, row, column, m, y, a, a_stride, width, out, out_stride):
    """The same for two rows, which are ``row`` apart in M."""
    apart()
    lanes = simd.count_register(y)
    to, to2 = out, out + out_stride
    k = 0
    while k + 4 * lanes <= width:
        k1, k2, k3 = k + lanes, k + 2 * lanes, k + 3 * lanes
        s0, s1 = simd.load_register(y, to + k), simd.load_register(y, to + k1)
        s2, s3 = simd.load_register(y, to + k2), simd.load_register(y, to + k3)
        t0, t1 = simd.load_register(y, to2 + k), simd.load_register(y, to2 + k1)
        t2, t3 = simd.load_register(y, to2 + k2), simd.load_register(y, to2 + k3)
        for j in range(m):
            at, entry = a + j * a_stride, M + j * column
            f, g = simd.splat_register(x[entry]), simd.splat_register(x[entry + row])
            v = simd.load_register(y, at + k)
            s0, t0 = simd.fma(f, v, s0), simd.fma(g, v, t0)
            v = simd.load_register(y, at + k1)
            s1, t1 = simd.fma(f, v, s1), simd.fma(g, v, t1)
            v = simd.load_register(y, at + k2)
            s2, t2 = simd.fma(f, v, s2), simd.fma(g, v, t2)
            v = simd.load_register(y, at + k3)
            s3, t3 = simd.fma(f, v, s3), simd.fma(g, v, t3)
        _store_four(y, to + k, lanes, s0, s1, s2, s3)
        _store_four(y, to2 + k, lanes, t0, t1, t2, t3)
        k += 4 * lanes
    while k < width:
        s, t = simd.load(y, to + k), simd.load(y, to2 + k)
        for j in range(m):
            v, entry = simd.load(y, a + j * a_stride + k), M + j * column
            s = simd.fma(simd.splat(x[entry]), v, s)
            t = simd.fma(simd.splat(x[entry + row]), v, t)
        simd.store(y, to + k, s)
        simd.store(y, to2 + k, t)
        k += 4


@helper
def _store_four(y, to, lanes, a, b, c, d):
    """Four vectors one after another."""
    simd.store(y, to, a)
    simd.store(y, to + lanes, b)
    simd.store(y, to + 2 * lanes, c)
    simd.store(y, to + 3 * lanes, d)


@helper
def lanes_outer(y, a, a_stride, n, b, b_stride, m, n_columns, x, out, stride):
    """``out += a bᵀ`` for a (n, n_columns) and b (m, n_columns) in ``y``, out in ``x``."""
    apart()
    i = 0
    while i + 4 <= n:
        _outer_of_four(y, a + i * a_stride, a_stride, b, b_stride, m, n_columns, x, out, stride)
        out += 4 * stride
        i += 4
    while i < n:
        _outer_of_one(y, a + i * a_stride, b, b_stride, m, n_columns, x, out)
        out += stride
        i += 1


@helper
def _outer_of_four(y, a, a_stride, b, b_stride, m, n_columns, x, out, stride):
    """The same for four rows of a."""
    apart()
    lanes = simd.count_register(y)
    zero = simd.splat_register(simd.number(0.0, y))
    whole = n_columns // lanes * lanes
    a0, a1, a2, a3 = a, a + a_stride, a + 2 * a_stride, a + 3 * a_stride
    for j in range(0, m, 2):
        # The last row of an odd number is taken twice, and stored once.
        b0, b1 = b + j * b_stride, b + min(j + 1, m - 1) * b_stride
        s00, s01, s10, s11 = zero, zero, zero, zero
        s20, s21, s30, s31 = zero, zero, zero, zero
        for k in range(0, whole, lanes):
            f0, f1 = simd.load_register(y, b0 + k), simd.load_register(y, b1 + k)
            g = simd.load_register(y, a0 + k)
            s00, s01 = simd.fma(g, f0, s00), simd.fma(g, f1, s01)
            g = simd.load_register(y, a1 + k)
            s10, s11 = simd.fma(g, f0, s10), simd.fma(g, f1, s11)
            g = simd.load_register(y, a2 + k)
            s20, s21 = simd.fma(g, f0, s20), simd.fma(g, f1, s21)
            g = simd.load_register(y, a3 + k)
            s30, s31 = simd.fma(g, f0, s30), simd.fma(g, f1, s31)
        to = out + j
        x[to] += simd.total(s00)
        x[to + stride] += simd.total(s10)
        x[to + 2 * stride] += simd.total(s20)
        x[to + 3 * stride] += simd.total(s30)
        if j + 1 < m:
            x[to + 1] += simd.total(s01)
            x[to + stride + 1] += simd.total(s11)
            x[to + 2 * stride + 1] += simd.total(s21)
            x[to + 3 * stride + 1] += simd.total(s31)
        # Registers may hold eight columns, and lanes come by fours.
        for k in range(whole, n_columns):
            for row in range(4):
                v = y[a + row * a_stride + k]
                x[to + row * stride] += v * y[b0 + k]
                if j + 1 < m:
                    x[to + row * stride + 1] += v * y[b1 + k]


@helper
def _outer_of_one(y, a, b, b_stride, m, n_columns, x, out):
    """The same for one row of a."""
    apart()
    lanes = simd.count_register(y)
    zero = simd.splat_register(simd.number(0.0, y))
    whole = n_columns // lanes * lanes
    for j in range(0, m, 2):
        b0, b1 = b + j * b_stride, b + min(j + 1, m - 1) * b_stride
        s0, s1 = zero, zero
        for k in range(0, whole, lanes):
            g = simd.load_register(y, a + k)
            s0 = simd.fma(g, simd.load_register(y, b0 + k), s0)
            s1 = simd.fma(g, simd.load_register(y, b1 + k), s1)
        t0, t1 = simd.total(s0), simd.total(s1)
        for k in range(whole, n_columns):
            t0 += y[a + k] * y[b0 + k]
            t1 += y[a + k] * y[b1 + k]
        x[out + j] += t0
        if j + 1 < m:
            x[out + j + 1] += t1


@helper
def add_rows(y, a, stride, n, n_columns, x, out):
    """Add the sums of ``n`` rows."""
    apart()
    for i in range(n):
        s = simd.splat(0.0)
        for k in range(0, n_columns, 4):
            s = s + simd.load(y, a + i * stride + k)
        x[out + i] += simd.total(s)


@helper
def read_lanes(X, starts, order, at, width, p, n_steps, center, y, V, stride):
    """Rows of some sequences about ``center``, one coordinate after another."""
    apart()
    for l in range(0, width, 4):
        r0, r1 = starts[order[at + l]] * p, starts[order[at + l + 1]] * p
        r2, r3 = starts[order[at + l + 2]] * p, starts[order[at + l + 3]] * p
        for t in range(n_steps):
            to = V + t * width + l
            o = t * p
            if p >= 4:
                j = 0
                while j < p:
                    # The last four coordinates overlap those before, rather than leave a rest.
                    j = min(j, p - 4)
                    c = simd.load(center, j)
                    simd.store_transposed(
                        y, to + j * stride, stride,
                        simd.load(X, r0 + o + j) - c, simd.load(X, r1 + o + j) - c,
                        simd.load(X, r2 + o + j) - c, simd.load(X, r3 + o + j) - c,
                    )  # fmt: skip
                    j += 4
            else:
                for j in range(p):
                    y[to + j * stride] = X[r0 + o + j] - center[j]
                    y[to + j * stride + 1] = X[r1 + o + j] - center[j]
                    y[to + j * stride + 2] = X[r2 + o + j] - center[j]
                    y[to + j * stride + 3] = X[r3 + o + j] - center[j]


@helper
def fill_lanes(x, values, n, y, out, stride, width):
    """Each of ``n`` values in all lanes of its row."""
    for i in range(n):
        s = simd.splat(x[values + i])
        for k in range(0, width, 4):
            simd.store(y, out + i * stride + k, s)


@only_with(LANES, None)
def smooth_lanes(
    x, w, X, starts, order, at, width, n_steps, begin, end, index, center, y, likelihoods
):  # fmt: skip
    """Smoothed states of some sequences, in rows of ``y`` after those of the observations.

    ``likelihoods`` receives ``-½ Σ|z|²`` of each, over steps ``begin .. end - 1``.
    """
    apart()
    d, p, r, rr, dd, room, where = w.d, w.p, w.r, w.rr, w.dd, w.room, w.record
    n_columns = n_steps * width
    predicted, states = p * n_columns, (p + d) * n_columns
    e = (p + 2 * d) * n_columns
    z = e + r * width
    delta = e
    read_lanes(X, starts, order, at, width, p, n_steps, center, y, 0, n_columns)
    for j in range(p):
        x[room.u + j] = center[j] - x[room.c + j]
    for i in range(r):
        s = 0.0
        for j in range(p):
            s += x[w.whole.G + j * rr + i] * x[room.u + j]
        x[room.e + i] = s
    fill_lanes(x, w.system.m, d, y, predicted, n_columns, width)
    for k in range(width):
        likelihoods[k] = 0.0
    for t in range(n_steps):
        now = t * width
        record = w.records + index[t] * where.size
        fill_lanes(x, room.e, r, y, e, width, width)
        # The columns of -C follow those of G, and predictions follow observations.
        lanes_product(x, w.whole.G, rr, r, p + d, y, now, n_columns, width, e, width)
        for i in range(r * width):
            y[z + i] = 0.0
        lanes_product(x, record + where.whiten, rr, r, r, y, e, width, width, z, width)
        for i in range(r if begin <= t < end else 0):
            for k in range(0, width, 4):
                f = simd.load(y, z + i * width + k)
                simd.store(likelihoods, k, simd.fma(f, f, simd.load(likelihoods, k)))
        for i in range(d):
            for k in range(0, width, 4):
                row = i * n_columns + now + k
                simd.store(y, states + row, simd.load(y, predicted + row))
        lanes_product(x, record + where.gain, dd, d, r, y, z, width, width, states + now, n_columns)
        if t + 1 < n_steps:
            after = predicted + now + width
            fill_lanes(x, room.b, d, y, after, n_columns, width)
            lanes_product(
                x, room.columns, dd, d, d, y, states + now, n_columns, width, after, n_columns
            )
    for k in range(width):
        likelihoods[k] *= -0.5
    for s in range(1, n_steps):
        now = (n_steps - 1 - s) * width
        record = w.records + index[n_steps - 1 - s] * where.size
        for i in range(d):
            for k in range(0, width, 4):
                row = i * n_columns + now + width + k
                simd.store(
                    y,
                    delta + i * width + k,
                    simd.load(y, states + row) - simd.load(y, predicted + row),
                )
        lanes_product(
            x, record + where.J, dd, d, d, y, delta, width, width, states + now, n_columns
        )


@only_with(LANES, None)
def add_lanes(x, w, order, at, width, n_steps, weights, with_rows, y):
    """Add the products of the smoothed means of some sequences; see statistics.py."""
    apart()
    d, p, dd, pp, sums = w.d, w.p, w.dd, w.pp, w.sums
    n_columns = n_steps * width
    states = (p + d) * n_columns
    end = n_columns - width
    if x[sums.weight] == 0.0:
        for i in range(d):
            x[sums.reference + i] = y[states + i * n_columns + end]
    for i in range(d):
        reference = simd.splat(x[sums.reference + i])
        for k in range(0, n_columns, 4):
            row = states + i * n_columns + k
            simd.store(y, row, simd.load(y, row) - reference)
    # Of each product one side is weighted. The predictions are not needed any more.
    weighted, rows = states, 0
    total = float(width)
    if weights.shape[0] > 0:
        weighted = p * n_columns
        total = 0.0
        for l in range(width):
            weight = weights[order[at + l]]
            total += weight
            for i in range(d):
                for t in range(n_steps):
                    row = i * n_columns + t * width + l
                    y[weighted + row] = weight * y[states + row]
    lanes_outer(y, states, n_columns, d, weighted, n_columns, d, n_columns, x, sums.seen2, dd)
    lanes_outer(y, 0, n_columns, p, weighted, n_columns, d, n_columns, x, sums.vh, dd)
    lanes_outer(y, states + width, n_columns, d, weighted, n_columns, d, end, x, sums.lag, dd)
    lanes_outer(y, states, n_columns, d, weighted, n_columns, d, width, x, sums.first2, dd)
    lanes_outer(
        y, states + end, n_columns, d, weighted + end, n_columns, d, width, x, sums.last2, dd
    )
    add_rows(y, weighted, n_columns, d, n_columns, x, sums.seen)
    add_rows(y, weighted, n_columns, d, width, x, sums.first)
    add_rows(y, weighted + end, n_columns, d, width, x, sums.last)
    x[sums.observed] += total * n_steps
    if with_rows:
        if weights.shape[0] > 0:
            rows = (p + 2 * d) * n_columns
            for l in range(width):
                for j in range(p):
                    for t in range(n_steps):
                        row = j * n_columns + t * width + l
                        y[rows + row] = weights[order[at + l]] * y[row]
        lanes_outer(y, 0, n_columns, p, rows, n_columns, p, n_columns, x, sums.vv, pp)
        add_rows(y, rows, n_columns, p, n_columns, x, sums.v)
        x[sums.rows] += total * n_steps


@helper
def block_size(w, n_steps, width):
    """Numbers in a block, weighted rows included."""
    return (2 * w.p + 2 * w.d) * n_steps * width + (2 * w.r + w.d) * width


@helper
def lanes_for(w, n_steps):
    """How many sequences of this length go side by side; none if they are too long."""
    apart()
    if n_steps > LONGEST:
        return 0
    width = BLOCK // ((w.p + 2 * w.d) * n_steps) // 4 * 4
    return max(LEAST, min(MOST, width))


@helper
def log_determinants(x, w, n_steps, index):
    """What the log-likelihood of a complete sequence has besides squares."""
    apart()
    s = -n_steps * (0.5 * w.p * np.log(2.0 * np.pi) + x[w.whole.half])
    for t in range(n_steps):
        s -= x[w.records + index[t] * w.record.size + w.record.log_det]
    return s
