"""Filter and smoother with square roots of the covariances, where these are nearly singular.

If observations have no noise, or next to none, they tell a part of the state exactly. Of the
covariances then remain small differences of large numbers, and the smoother's gain J = F Aᵀ P'⁻¹ is
rounding divided by rounding. A root has half as many digits to lose, and nothing need be divided by
it. With P = UᵀU and F = ΦᵀΦ the state, as predicted and as filtered, is

    h + Uᵀε   and   f + Φᵀy     for ε and y of unit covariance,

and each step reflects rows, that is, multiplies by an orthogonal matrix from the left, until what
stands left is triangular:

    [ R½  0  0 ]     [ Lᵀ  K̄ᵀ  Ezᵀ ]          [ ΦAᵀ  1 ]     [ U'  Dᵀ  ]
    [ UCᵀ U  1 ]  →  [ 0   Φ   Eyᵀ ]    and   [ Q½   0 ]  →  [ 0   D₂ᵀ ]

The reflections themselves say how the coordinates of one step depend on those of the next, with z
the whitened innovation: ε = Ez z + Ey y, and y = D ε' + D₂ (noise that no later step tells of).
So the smoother is, with Cov(y) = γᵀγ given all observations,

    y ← D (Ez' z' + Ey' y'),   γᵀγ ← (γ'Ey'ᵀDᵀ)ᵀ(γ'Ey'ᵀDᵀ) + D₂D₂ᵀ,
    ĥ = f + Φᵀy,   V = (γΦ)ᵀ(γΦ),   Cov(h', h) = (γ'Φ')ᵀ(γ'Ey'ᵀDᵀΦ)

Every factor of these products is at most one, so that nothing is magnified. Records are those of
filter.py, with D in the place of J and a root of D₂D₂ᵀ in that of B.
"""

import numpy as np

from ..options import apart, helper, only_with
from ..small_matrices import (
    ROUNDING,
    add,
    add_columns,
    add_congruence,
    clear,
    copy,
    echelon,
    half_log_determinant,
    invert_lower,
    largest_change,
    root,
    set_columns,
    store_columns,
)
from .observation import MISSING, PARTIAL, fill, reduce
from .system import ROOTS, load_observation


@only_with(ROOTS, False)
def can_take_roots(x, w):
    """Whether this kernel has the functions of this file."""
    return True


#: What is left of a standard deviation, beside the largest there was, is rounding below this.
_LEAST = 1e-14
#: The filter is steady when its roots change by less than this, beside standard deviations.
_STEADY = 1e-14


@helper
def _square(x, a, n, out):
    """``out = aᵀa``, exactly symmetric."""
    apart()
    for i in range(n):
        for j in range(i + 1):
            s = 0.0
            for k in range(n):
                s += x[a + k * n + i] * x[a + k * n + j]
            x[out + i * n + j] = s
            x[out + j * n + i] = s


@helper
def _times_transposed(x, a, b, n, stride, out):
    """``out = a bᵀ`` for square matrices; b is at the entries ``b + j * stride + i`` of bᵀ."""
    apart()
    for i in range(n):
        for j in range(n):
            s = 0.0
            for k in range(n):
                s += x[a + i * n + k] * x[b + k * stride + j]
            x[out + i * n + j] = s


@only_with(ROOTS, None)
def begin_roots(x, w):
    """The root of the first state's covariance, in U."""
    apart()
    d, room = w.d, w.room
    root(x, w.system.V, d, room.scratch, room.left)
    for i in range(d):
        for j in range(d):
            x[room.U + i * d + j] = x[room.left + j * d + i]


@only_with(ROOTS, None)
def skip_root(x, w, record):
    """The filtered root of a step that observes nothing."""
    apart()
    d, where = w.d, w.record
    copy(x, w.room.U, d * d, record + where.root)
    clear(x, record + where.Ez, d * w.r)
    clear(x, record + where.Ey, d * d)
    for i in range(d):
        x[record + where.Ey + i * d + i] = 1.0


@only_with(ROOTS, False)
def correct_root(x, w, step, record):
    """From the predicted U to the filtered root of the record; False if there is no density."""
    apart()
    d, r, room, where = w.d, w.r, w.room, w.record
    n, stride = r + d, r + 2 * d
    a = room.square
    clear(x, a, n * stride)
    root(x, step.Rt, r, room.S, room.Rroot)
    for i in range(r):
        for k in range(r):
            x[a + k * stride + i] = x[room.Rroot + i * r + k]
    for k in range(d):
        row = a + (r + k) * stride
        for i in range(r):
            s = 0.0
            for j in range(d):
                s += x[room.U + k * d + j] * x[step.Ct + i * d + j]
            x[row + i] = s
        copy(x, room.U + k * d, d, row + r)
        x[row + n + k] = 1.0
    # Of a coordinate that the others tell exactly nothing is left.
    for i in range(r):
        s = 0.0
        for k in range(n):
            s += x[a + k * stride + i] ** 2
        x[room.z + i] = _LEAST * np.sqrt(s)
    if echelon(x, a, stride, n, stride, r, room.z, room.e) < r:
        return False
    for k in range(r):
        row = a + k * stride
        sign = -1.0 if x[row + k] < 0.0 else 1.0
        for i in range(r):
            x[room.L + i * r + k] = sign * x[row + i]
        for i in range(d):
            x[room.Kt + i * r + k] = sign * x[row + r + i]
            x[record + where.Ez + i * r + k] = sign * x[row + n + i]
        if not x[room.L + k * r + k] < np.inf:
            return False
    x[record + where.log_det] = half_log_determinant(x, room.L, r)
    invert_lower(x, room.L, r, room.Li)
    store_columns(x, room.Li, r, r, 1.0, w.rr, record + where.whiten)
    store_columns(x, room.Kt, d, r, 1.0, w.dd, record + where.gain)
    for k in range(d):
        row = a + (r + k) * stride
        copy(x, row + r, d, record + where.root + k * d)
        for i in range(d):
            x[record + where.Ey + i * d + k] = x[row + n + i]
    return True


@only_with(ROOTS, 0.0)
def predict_root(x, w, record):
    """From the record's filtered root: F, the next U and P, D, and the root of D₂D₂ᵀ.

    Returns how much U has changed, beside standard deviations.
    """
    apart()
    d, room, where = w.d, w.room, w.record
    n = 2 * d
    a, half = room.stack, record + where.root
    _square(x, half, d, record + where.F)
    clear(x, a, n * n)
    root(x, room.Q, d, room.scratch, room.left)
    for k in range(d):
        for i in range(d):
            s = 0.0
            for j in range(d):
                s += x[half + k * d + j] * x[room.A + i * d + j]
            x[a + k * n + i] = s
            x[a + (d + k) * n + i] = x[room.left + i * d + k]
        x[a + k * n + d + k] = 1.0
    for i in range(d):
        s, variance = 0.0, 0.0
        for j in range(d):
            s += abs(x[room.A + i * d + j]) * np.sqrt(abs(x[room.old + j * d + j]))
        for k in range(n):
            variance += x[a + k * n + i] ** 2
        x[room.largest + i] = max(x[room.largest + i], s * s, variance)
        x[room.delta + i] = _LEAST * np.sqrt(x[room.largest + i])
        x[room.info + i] = np.sqrt(variance)
    rank = echelon(x, a, n, n, n, d, room.delta, room.pivots)
    clear(x, record + where.J, d * w.dd)
    change = 0.0
    for k in range(d):
        row = a + k * n
        sign = -1.0 if k < rank and x[row + int(x[room.pivots + k])] < 0.0 else 1.0
        for i in range(d):
            value = sign * x[row + i] if k < rank else 0.0
            moved = abs(value - x[room.U + k * d + i])
            if moved > 4.0 * ROUNDING * np.sqrt(x[room.largest + i]):
                change = max(change, moved / x[room.info + i])
            x[room.U + k * d + i] = value
            if k < rank:
                x[record + where.J + k * w.dd + i] = sign * x[row + d + i]
    _square(x, room.U, d, room.P)
    rest = a + rank * n + d
    clear(x, room.delta, d)
    rank = echelon(x, rest, n, n - rank, d, d, room.delta, room.pivots)
    clear(x, record + where.B, d * d)
    for k in range(rank):
        copy(x, rest + k * n, d, record + where.B + k * d)
    return change


@helper
def _pass_back(x, w, after, record):
    """``γ'Ey'ᵀDᵀ`` of a step and the next one's record, from γ' in its place, in ``AF``."""
    apart()
    d, room, where = w.d, w.room, w.record
    for i in range(d):
        for j in range(d):
            s = 0.0
            for k in range(d):
                s += x[room.left_root + i * d + k] * x[after + where.Ey + j * d + k]
            x[room.keep + i * d + j] = s
    # D has its columns where J has them: Dᵀ by rows.
    _times_transposed(x, room.keep, record + where.J, d, w.dd, room.AF)


@helper
def _product(x, a, b, n, out):
    apart()
    _times_transposed(x, a, b, n, n, out)


@helper
def _smooth_one(x, w, after, record):
    """V in ``new``, the covariance with the next state in ``lag``, γ in its place."""
    apart()
    d, room, where = w.d, w.room, w.record
    n = d * d
    _product(x, room.left_root, after + where.root, d, room.gain)
    _pass_back(x, w, after, record)
    _product(x, room.AF, record + where.root, d, room.scratch)
    for i in range(d):
        for j in range(d):
            s = 0.0
            for k in range(d):
                s += x[room.gain + k * d + i] * x[room.scratch + k * d + j]
            x[room.lag + i * d + j] = s
    a = room.stack
    copy(x, record + where.B, n, a)
    copy(x, room.AF, n, a + n)
    clear(x, room.delta, d)
    rank = echelon(x, a, d, 2 * d, d, d, room.delta, room.pivots)
    clear(x, room.left_root, n)
    copy(x, a, rank * d, room.left_root)
    _product(x, room.left_root, record + where.root, d, room.scratch)
    _square(x, room.scratch, d, room.new)


@helper
def _write(x, a, n, out, t):
    apart()
    for i in range(n):
        for j in range(n):
            out[t, i, j] = x[a + i * n + j]


@only_with(ROOTS, None)
def smooth_covariances_by_roots(x, w, X, kinds, start, n_steps, index, first, each, each_lag):
    """As ``smoother.smooth_covariances``."""
    apart()
    d, p, room, where, sums = w.d, w.p, w.room, w.record, w.covariances
    n = d * d
    clear(x, sums.first, sums.vh + p * d - sums.first)
    t = n_steps - 1
    record = w.records + index[t] * where.size
    copy(x, record + where.F, n, room.V)
    copy(x, room.V, n, sums.last)
    clear(x, room.left_root, n)
    for i in range(d):
        x[room.left_root + i * d + i] = 1.0
    while t >= 0:
        count = 1
        if t < n_steps - 1:
            after = w.records + index[t + 1] * where.size
            record = w.records + index[t] * where.size
            steady = first[index[t]] < t and after == record
            if steady:
                _square(x, room.left_root, d, room.old)
            _smooth_one(x, w, after, record)
            copy(x, room.new, n, room.V)
            if steady:
                _square(x, room.left_root, d, room.P)
                if largest_change(x, room.P, room.old, d) <= _STEADY:
                    count += t - first[index[t]]
            add(x, room.lag, float(count), n, sums.lag)
        kind = kinds[start + t]
        add(x, room.V, float(count), n, sums.unseen if kind == MISSING else sums.seen)
        if kind == PARTIAL and each.shape[0] == 0:
            if w.varies:
                load_observation(x, w, t)
            fill(x, w, X, (start + t) * p)
            add_congruence(x, room.D, room.V, p, d, room.wide, sums.vv)
            add(x, room.Omega, 1.0, p * p, sums.vv)
            add(x, room.wide, 1.0, p * d, sums.vh)
        for s in range(count):
            if each.shape[0] > 0:
                _write(x, room.V, d, each, t - s)
            if each_lag.shape[0] > 0 and t < n_steps - 1:
                _write(x, room.lag, d, each_lag, t - s)
        t -= count
    copy(x, room.V, n, sums.first)


@helper
def _innovation(x, w, X, kinds, start, t, record):
    """The whitened innovation of a step that observes something, in ``z``."""
    apart()
    d, p, r, rr, room = w.d, w.p, w.r, w.rr, w.room
    kind = kinds[start + t]
    row = (start + t) * p
    step = w.partial if kind == PARTIAL else w.whole
    if w.varies:
        load_observation(x, w, t)
    if kind == PARTIAL or w.varies:
        reduce(x, w, X, row, step)
    for j in range(p):
        v = X[row + j]
        x[room.u + j] = v - x[room.c + j] if v == v else 0.0
    set_columns(x, step.G, p, rr, room.u, room.e)
    add_columns(x, step.minus_C, d, rr, w.predicted + t * w.dd, room.e)
    set_columns(x, record + w.record.whiten, r, rr, room.e, room.z)


@only_with(ROOTS, None)
def smooth_means_by_roots(x, w, X, kinds, start, n_steps, index):
    """Turn filtered means into smoothed ones, in place."""
    apart()
    d, r, dd, room, where = w.d, w.r, w.dd, w.room, w.record
    y, epsilon = room.delta, room.info
    clear(x, y, dd)
    for back in range(1, n_steps):
        t = n_steps - 1 - back
        after = w.records + index[t + 1] * where.size
        record = w.records + index[t] * where.size
        for i in range(d):
            s = 0.0
            for j in range(d):
                s += x[after + where.Ey + i * d + j] * x[y + j]
            x[epsilon + i] = s
        if kinds[start + t + 1] != MISSING:
            _innovation(x, w, X, kinds, start, t + 1, after)
            for i in range(d):
                for k in range(r):
                    x[epsilon + i] += x[after + where.Ez + i * r + k] * x[room.z + k]
        for i in range(d):
            s = 0.0
            for k in range(d):
                s += x[record + where.J + k * dd + i] * x[epsilon + k]
            x[y + i] = s
        for k in range(d):
            for i in range(d):
                x[w.states + t * dd + i] += x[record + where.root + k * d + i] * x[y + k]
