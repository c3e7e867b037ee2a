"""Sequences with missing values, eight of them or eight chunks of one side by side in SIMD lanes.

What is missing decides the covariances, so that each lane has its own. Every number of the
recursions of filter.py and smoother.py is a vector here, one entry for each lane: a matrix of n
rows and m columns is ``n * m`` vectors in the array ``y``, and places in it count vectors. The
formulas are the same. Where they would lose digits, the lanes give up, and the sequences are left
to filter.py, which then works with square roots.

A chunk of a long sequence begins some steps too early, at any state, and ends some steps too late:
the warm-up. With P₁ and P₂ from different beginnings, and Φ = A (I - K C̃) of each step,

    P₁ - P₂ ← Φ₁ (P₁ - P₂) Φ₂ᵀ,    h₁ - h₂ ← Φ₁ (h₁ - h₂ + (P₁ - P₂) r),

where r is bounded by the observations and no product of the Φ₂ exceeds one in standard deviations
of the state. So the product of the Φ₁ says what is left of the beginning, and that of the gains J
of the smoother what is left of the end. Both are computed, and the chunks are refused if either is
more than a double could hold.
"""

import numpy as np

from .. import simd
from ..options import apart, helper, kernel
from ..small_matrices import SINGULAR, add_outer, add_vector, clear
from .chunks import FORGOTTEN
from .filter import LARGEST_GAIN, LOST, LOST_BEFORE
from .observation import COMPLETE, MISSING, PARTIAL, fill, reduce
from .statistics import impute
from .system import load_observation, load_transition

#: Lanes, and vectors of a step: J, which is C̃ before; B, which becomes V; y, h, f and a number.
WIDTH = 8
#: The reduced observations of so many numbers are kept for rows that miss the same values.
_KEPT = 2**18
_LEAST_KEPT, _MOST_KEPT = 8, 1024
#: Less than this is nothing.
_TINY = 1e-300
#: Where a lane begins: within a sequence, at its first step, or there and checked like the others.
#: And where it ends.
WITHIN, FIRST, FIRST_CHECKED, LAST = 0, 1, 2, 1
#: How it went: digits would be lost; done; or the chunks remember where they begin or end.
REFUSED, DONE, NOT_FORGOTTEN = 0, 1, 2


def step_size(d):
    """Vectors of one step."""
    return 2 * d * d + 3 * d + 1


def room_size(d, r):
    """Vectors besides those of the steps."""
    return 11 * d * d + 2 * d * r + 2 * r * r + 8 * d + 1


_step_size, _room_size = helper(step_size), helper(room_size)


@helper
def _product(y, a, a_row, a_column, b, b_row, b_column, n, k, m, fresh, lower, out):
    """``out = a b`` for a (n, k) and b (k, m) of the given strides, or ``out += a b``.

    With ``lower`` entries above the diagonal need not be right.
    """
    apart()
    zero = simd.splat8(0.0)
    for i in range(0, n, 2):
        second = min(i + 1, n - 1)
        a0, a1 = 8 * (a + i * a_row), 8 * (a + second * a_row)
        end = min(i + 2, m) if lower else m
        for j in range(0, end, 2):
            other = min(j + 1, m - 1)
            b0, b1 = 8 * (b + j * b_column), 8 * (b + other * b_column)
            o00, o01 = 8 * (out + i * m + j), 8 * (out + i * m + other)
            o10, o11 = 8 * (out + second * m + j), 8 * (out + second * m + other)
            s00, s01, s10, s11 = zero, zero, zero, zero
            if not fresh:
                s00, s01 = simd.load8(y, o00), simd.load8(y, o01)
                s10, s11 = simd.load8(y, o10), simd.load8(y, o11)
            for l in range(k):
                at, by = 8 * l * a_column, 8 * l * b_row
                f0, f1 = simd.load8(y, a0 + at), simd.load8(y, a1 + at)
                g0, g1 = simd.load8(y, b0 + by), simd.load8(y, b1 + by)
                s00, s01 = simd.fma(f0, g0, s00), simd.fma(f0, g1, s01)
                s10, s11 = simd.fma(f1, g0, s10), simd.fma(f1, g1, s11)
            simd.store(y, o00, s00)
            simd.store(y, o01, s01)
            simd.store(y, o10, s10)
            simd.store(y, o11, s11)


@helper
def _mirror(y, a, n):
    """What is below the diagonal above it too."""
    for i in range(n):
        for j in range(i):
            simd.store(y, 8 * (a + j * n + i), simd.load8(y, 8 * (a + i * n + j)))


@helper
def _from_identity(y, a, n):
    """``a ← 1 - a``."""
    zero, one = simd.splat8(0.0), simd.splat8(1.0)
    for i in range(n):
        for j in range(n):
            at = 8 * (a + i * n + j)
            simd.store(y, at, (one if i == j else zero) - simd.load8(y, at))


@helper
def _copy(y, a, n, out):
    for i in range(0, 8 * n, 8):
        simd.store(y, 8 * out + i, simd.load8(y, 8 * a + i))


@helper
def _factorize(y, a, n, tolerance, out):
    """The lower factor of a matrix as ``small_matrices.factorize``; its diagonal is inverted."""
    apart()
    zero, least, unit = simd.splat8(0.0), simd.splat8(_TINY), simd.splat8(0.0)
    for c in range(n):
        for r in range(c, n):
            s = zero
            for k in range(c):
                s = simd.fma(
                    simd.load8(y, 8 * (out + r * n + k)), simd.load8(y, 8 * (out + c * n + k)), s
                )
            s = simd.load8(y, 8 * (a + r * n + c)) - s
            if r == c:
                enough = simd.is_positive(
                    s - simd.splat8(tolerance) * simd.load8(y, 8 * (a + c * n + c))
                )
                unit = enough / simd.square_root(simd.maximum(s, least))
                simd.store(y, 8 * (out + c * n + c), unit)
            else:
                simd.store(y, 8 * (out + r * n + c), s * unit)


@helper
def _solve_rows(y, factor, n, m, rows):
    """``rows ← rows (L Lᵀ)⁻¹`` for m rows of length n; see :func:`_factorize`."""
    apart()
    zero = simd.splat8(0.0)
    for i in range(m):
        row = rows + i * n
        for j in range(n):
            s = zero
            for l in range(j):
                s = simd.fma(
                    simd.load8(y, 8 * (row + l)), simd.load8(y, 8 * (factor + j * n + l)), s
                )
            s = simd.load8(y, 8 * (row + j)) - s
            simd.store(y, 8 * (row + j), s * simd.load8(y, 8 * (factor + j * n + j)))
    for i in range(m):
        row = rows + i * n
        for back in range(n):
            j = n - 1 - back
            s = zero
            for l in range(j + 1, n):
                s = simd.fma(
                    simd.load8(y, 8 * (row + l)), simd.load8(y, 8 * (factor + l * n + j)), s
                )
            s = simd.load8(y, 8 * (row + j)) - s
            simd.store(y, 8 * (row + j), s * simd.load8(y, 8 * (factor + j * n + j)))


@helper
def _spread(x, a, n, y, out):
    """The same numbers in all lanes."""
    for i in range(n):
        simd.store(y, 8 * (out + i), simd.splat8(x[a + i]))


# Reading ------------------------------------------------------------------------------------------


@helper
def _same_gaps(X, row, other, p):
    for j in range(p):
        if (X[row + j] == X[row + j]) != (X[other + j] == X[other + j]):
            return False
    return True


@helper
def _slot(X, row, p, n_slots):
    """Where a row with these missing values is kept."""
    code = np.int64(1)
    for j in range(p):
        code = 3 * code + (1 if X[row + j] == X[row + j] else 2)
        code ^= code >> 29
    return (code ^ (code >> 13)) & (n_slots - 1)


@helper
def _read_step(x, w, X, kinds, row, kept, owners, with_scores, y, step, lane):
    """C̃, y and the part of the log-likelihood that is noise alone, of one row; False if R fails."""
    apart()
    d, p, r, rr, pp, room = w.d, w.p, w.r, w.rr, w.pp, w.room
    at = 8 * step + lane
    values = at + 16 * d * d
    kind = kinds[row]
    if kind == MISSING:
        for i in range(r * d):
            y[at + 8 * i] = 0.0
        for i in range(r):
            y[values + 8 * i] = 0.0
        y[values + 24 * d] = 0.0
        return True
    out = w.partial
    begin, size = out.G, out.half + 1 - out.G
    slot = 0
    if kind != COMPLETE:
        slot = 1 + _slot(X, row * p, p, owners.shape[0] - 1)
    base = slot * size
    owner = owners[slot]
    if owner < 0 or (slot > 0 and not _same_gaps(X, row * p, owner * p, p)):
        owners[slot] = row
        if not reduce(x, w, X, row * p if slot > 0 else np.int64(-1), out):
            return False
        for i in range(size):
            kept[base + i] = x[begin + i]
    for j in range(p):
        v = X[row * p + j]
        x[room.u + j] = v - x[room.c + j] if v == v else 0.0
    Ct, G = base + out.Ct - begin, base
    for i in range(r * d):
        y[at + 8 * i] = kept[Ct + i]
    for i in range(0, rr, 4):
        s = simd.splat(0.0)
        for j in range(p):
            s = simd.fma(simd.splat(x[room.u + j]), simd.load(kept, G + j * rr + i), s)
        simd.store(x, room.e + i, s)
    for i in range(r):
        y[values + 8 * i] = x[room.e + i]
    if with_scores:
        squares = simd.splat(0.0)
        rest = base + out.rest - begin
        if kept[base + out.rest_rows - begin] > 0.0:
            for i in range(0, pp, 4):
                s = simd.splat(0.0)
                for j in range(p):
                    s = simd.fma(simd.splat(x[room.u + j]), simd.load(kept, rest + j * pp + i), s)
                squares = simd.fma(s, s, squares)
        gained = kept[base + out.n_seen - begin] * np.log(2.0 * np.pi) + simd.total(squares)
        y[values + 24 * d] = -0.5 * gained - kept[base + out.half - begin]
    return True


# The recursions -----------------------------------------------------------------------------------


@helper
def _correct(y, d, r, P, step, M, S, L, K, keep, scratch, F):
    """From the predicted P to the filtered covariance F, with ``keep = 1 - K C̃``."""
    apart()
    C = step
    zero, one = simd.splat8(0.0), simd.splat8(1.0)
    _product(y, P, d, 1, C, 1, d, d, d, r, True, False, M)
    for i in range(r):
        for j in range(r):
            simd.store(y, 8 * (S + i * r + j), one if i == j else zero)
    _product(y, C, d, 1, M, r, 1, r, d, r, False, True, S)
    _factorize(y, S, r, 0.0, L)
    _copy(y, M, d * r, K)
    _solve_rows(y, L, r, d, K)
    _product(y, K, r, 1, C, d, 1, d, r, d, True, False, keep)
    _from_identity(y, keep, d)
    _product(y, keep, d, 1, P, d, 1, d, d, d, True, False, scratch)
    _product(y, scratch, d, 1, keep, 1, d, d, d, d, True, True, F)
    _product(y, K, r, 1, K, 1, r, d, r, d, False, True, F)
    _mirror(y, F, d)


@helper
def _predict(y, d, A, Q, F, AF, P, lower):
    """From the filtered covariance F to the next P and its factor."""
    apart()
    _product(y, A, d, 1, F, d, 1, d, d, d, True, False, AF)
    _copy(y, Q, d * d, P)
    _product(y, AF, d, 1, A, 1, d, d, d, d, False, True, P)
    _mirror(y, P, d)
    _factorize(y, P, d, SINGULAR, lower)


@helper
def _smoother_gain(y, d, A, Q, F, AF, lower, keep, scratch, step):
    """``J = F Aᵀ P'⁻¹`` in the place of C̃, and ``B = F - J P' Jᵀ`` after it."""
    apart()
    J, B = step, step + d * d
    for i in range(d):
        for j in range(d):
            simd.store(y, 8 * (J + i * d + j), simd.load8(y, 8 * (AF + j * d + i)))
    _solve_rows(y, lower, d, d, J)
    _product(y, J, d, 1, A, d, 1, d, d, d, True, False, keep)
    _from_identity(y, keep, d)
    _product(y, keep, d, 1, F, d, 1, d, d, d, True, False, scratch)
    _product(y, scratch, d, 1, keep, 1, d, d, d, d, True, True, B)
    _product(y, J, d, 1, Q, d, 1, d, d, d, True, False, scratch)
    _product(y, scratch, d, 1, J, 1, d, d, d, d, False, True, B)
    _mirror(y, B, d)


@helper
def _bound_variances(y, d, A, P, bound):
    """At least the variances of the next state if this step observed nothing."""
    for i in range(d):
        s = simd.splat8(0.0)
        for j in range(d):
            a = simd.load8(y, 8 * (A + i * d + j))
            s = simd.fma(a * a, simd.load8(y, 8 * (P + j * d + j)), s)
        simd.store(y, 8 * (bound + i), simd.splat8(float(d)) * s)


@helper
def _digits_left(y, d, P, lower, bound, largest):
    """One in each lane whose P is not lost, as ``filter.is_lost`` tells, or sooner."""
    good, one = simd.splat8(1.0), simd.splat8(1.0)
    for i in range(d):
        variance, sd2 = simd.load8(y, 8 * (P + i * d + i)), simd.load8(y, 8 * (bound + i))
        most = simd.maximum(simd.maximum(simd.load8(y, 8 * (largest + i)), sd2), variance)
        simd.store(y, 8 * (largest + i), most)
        unit = simd.load8(y, 8 * (lower + i * d + i))
        least = simd.maximum(
            simd.splat8(LOST) * simd.maximum(sd2, variance), simd.splat8(LOST_BEFORE) * most
        )
        left = simd.is_positive(unit) * simd.is_positive(one - least * unit * unit)
        good = good * simd.maximum(left, simd.is_positive(simd.splat8(_TINY) - variance))
    return good


@helper
def _gain_bounded(y, d, J, F, before):
    """One in each lane whose last J is not large, as ``filter.is_lost`` tells, or sooner."""
    good = simd.splat8(1.0)
    for i in range(d):
        s = simd.splat8(0.0)
        for j in range(d):
            gain = simd.load8(y, 8 * (J + i * d + j))
            s = simd.fma(gain * gain, simd.load8(y, 8 * (F + j * d + j)), s)
        most = simd.splat8(LARGEST_GAIN * LARGEST_GAIN) * simd.load8(y, 8 * (before + i))
        good = good * simd.is_positive(most - simd.splat8(float(d)) * s + simd.splat8(_TINY))
    return good


@helper
def _is_forgotten(y, d, product, units, lane):
    """Whether a product of matrices leaves nothing, in standard deviations before and after."""
    apart()
    for i in range(d):
        after = y[8 * (units + d + i) + lane]
        for j in range(d):
            change = abs(y[8 * (product + i * d + j) + lane])
            if change > 0.0:
                left = change * np.sqrt(y[8 * (units + j) + lane] / after)
                if not left * d <= FORGOTTEN:
                    return False
    return True


@helper
def _set_units(y, d, a, out):
    for i in range(d):
        simd.store(y, 8 * (out + i), simd.load8(y, 8 * (a + i * d + i)))


@helper
def _multiply_into(y, d, a, product, scratch):
    """``product ← a product``."""
    _product(y, a, d, 1, product, d, 1, d, d, d, True, False, scratch)
    _copy(y, scratch, d * d, product)


@helper
def _set_identity(y, d, a):
    for i in range(d * d):
        simd.store(y, 8 * (a + i), simd.splat8(0.0))
    _from_identity(y, a, d)


@helper
def smooth_gaps(
    x, w, X, kinds, lanes, n_steps, warm_up, begin, smooth, with_scores, y, kept, owners
):  # fmt: skip
    """Filter ``n_steps`` steps of eight lanes, and smooth them, in ``y``; returns how it went.

    ``lanes[l]`` are the first row of a lane, and where in its sequence it begins and ends.
    ``begin`` are a predicted mean and covariance, at which lanes begin that do so within one.
    Steps begin at ``room_size(d, r)``: lags in the place of J, V or F after it, then y, h, and the
    means; the last number is the log-likelihood.
    """
    apart()
    d, r = w.d, w.r
    n = d * d
    A = np.int64(0)
    Q, P, F, AF, lower, keep, scratch, other = n, 2 * n, 3 * n, 4 * n, 5 * n, 6 * n, 7 * n, 8 * n
    product, V = 9 * n, 10 * n
    M = 11 * n
    K = M + d * r
    S = K + d * r
    L = S + r * r
    b = L + r * r
    bound, largest, before, units, e = b + d, b + 2 * d, b + 3 * d, b + 4 * d, b + 6 * d
    good = b + 8 * d
    steps, size = _room_size(d, r), _step_size(d)
    _spread(x, w.room.A, n, y, A)
    _spread(x, w.room.Q, n, y, Q)
    _spread(x, w.room.b, d, y, b)
    zero = simd.splat8(0.0)
    for i in range(d):
        simd.store(y, 8 * (largest + i), zero)
        simd.store(y, 8 * (before + i), zero)
    simd.store(y, 8 * good, simd.splat8(1.0))
    for t in range(n_steps):
        for l in range(WIDTH):
            row = lanes[l, 0] + t
            if not _read_step(
                x, w, X, kinds, row, kept, owners, with_scores, y, steps + t * size, l
            ):
                return REFUSED
    for l in range(WIDTH):
        first = lanes[l, 1] != WITHIN
        for i in range(d):
            y[8 * (steps + 2 * n + d + i) + l] = x[w.system.m + i] if first else begin[i]
        for i in range(n):
            y[8 * (P + i) + l] = x[w.system.V + i] if first else begin[d + i]
    _set_identity(y, d, product)
    _set_units(y, d, P, units)
    for t in range(n_steps):
        step = steps + t * size
        values, h = step + 2 * n, step + 2 * n + d
        f = h + d
        if t == warm_up:
            _set_units(y, d, P, units + d)
            for l in range(WIDTH):
                if lanes[l, 1] != FIRST and not _is_forgotten(y, d, product, units, l):
                    return NOT_FORGOTTEN
        _bound_variances(y, d, A, P, bound)
        _correct(y, d, r, P, step, M, S, L, K, keep, scratch, F)
        ok = simd.load8(y, 8 * good)
        quadratic, log_det = zero, zero
        for i in range(r):
            s = simd.load8(y, 8 * (values + i))
            for j in range(d):
                s = s - simd.load8(y, 8 * (step + i * d + j)) * simd.load8(y, 8 * (h + j))
            simd.store(y, 8 * (values + i), s)
            ok = ok * simd.is_positive(simd.load8(y, 8 * (L + i * r + i)))
        _product(y, K, r, 1, values, 1, 1, d, r, 1, True, False, f)
        for i in range(d):
            simd.store(y, 8 * (f + i), simd.load8(y, 8 * (f + i)) + simd.load8(y, 8 * (h + i)))
        if with_scores:
            for i in range(r):
                s = simd.load8(y, 8 * (values + i))
                for j in range(i):
                    s = s - simd.load8(y, 8 * (L + i * r + j)) * simd.load8(y, 8 * (e + j))
                unit = simd.load8(y, 8 * (L + i * r + i))
                s = s * unit
                simd.store(y, 8 * (e + i), s)
                quadratic = simd.fma(s, s, quadratic)
                log_det = log_det + simd.log(simd.maximum(unit, simd.splat8(_TINY)))
            at = 8 * (step + size - 1)
            noise = simd.load8(y, at)
            simd.store(y, at, noise + log_det - simd.splat8(0.5) * quadratic)
        if t < warm_up:
            _product(y, A, d, 1, keep, d, 1, d, d, d, True, False, other)
            _multiply_into(y, d, other, product, scratch)
        if t > 0 and smooth:
            ok = ok * _gain_bounded(y, d, step - size, F, before)
        if t + 1 < n_steps:
            _predict(y, d, A, Q, F, AF, P, lower)
            ok = ok * _digits_left(y, d, P, lower, bound, largest)
            after = h + size
            _copy(y, b, d, after)
            _product(y, A, d, 1, f, 1, 1, d, d, 1, False, False, after)
            _set_units(y, d, F, before)
        simd.store(y, 8 * good, ok)
        if smooth and t + 1 < n_steps:
            _smoother_gain(y, d, A, Q, F, AF, lower, keep, scratch, step)
        else:
            _copy(y, F, n, step + n)
    for i in range(d):
        begin[i] = y[8 * (steps + (n_steps - 1) * size + 2 * n + d + i)]
    for i in range(n):
        begin[d + i] = y[8 * (P + i)]
    for l in range(WIDTH):
        if not y[8 * good + l] > 0.0:
            return REFUSED
    if smooth:
        _set_identity(y, d, product)
        _copy(y, F, n, V)
        _set_units(y, d, V, units)
        for back in range(1, n_steps):
            step = steps + (n_steps - 1 - back) * size
            after = step + size
            h, f = after + 2 * n + d, after + 2 * n + 2 * d
            for i in range(d):
                delta = simd.load8(y, 8 * (f + i)) - simd.load8(y, 8 * (h + i))
                simd.store(y, 8 * (e + i), delta)
            _product(y, step, d, 1, e, 1, 1, d, d, 1, False, False, f - size)
            _product(y, step, d, 1, V, d, 1, d, d, d, True, False, scratch)
            B = step + n
            _product(y, scratch, d, 1, step, 1, d, d, d, d, False, True, B)
            _mirror(y, B, d)
            _copy(y, B, n, V)
            if back <= warm_up:
                _multiply_into(y, d, step, product, other)
            for i in range(d):
                for j in range(d):
                    lag = simd.load8(y, 8 * (scratch + j * d + i))
                    simd.store(y, 8 * (step + i * d + j), lag)
            if back == warm_up:
                _set_units(y, d, V, units + d)
                for l in range(WIDTH):
                    if lanes[l, 2] != LAST and not _is_forgotten(y, d, product, units, l):
                        return NOT_FORGOTTEN
    return DONE


@helper
def _n_kept(w):
    """For how many kinds of rows the reduced observation is kept: a power of two."""
    size = w.partial.half + 1 - w.partial.G
    n = _LEAST_KEPT
    while n < _MOST_KEPT and 2 * n * size <= _KEPT:
        n *= 2
    return n


@helper
def _write_lane(w, lanes, lane, n_steps, y, means, covariances, lags, log_likelihoods):
    """Copy what was found of the steps that are wanted of a lane."""
    apart()
    d = w.d
    n = d * d
    steps, size = _room_size(d, w.r), _step_size(d)
    for t in range(lanes[lane, 3], lanes[lane, 4]):
        at, row = 8 * (steps + t * size) + lane, lanes[lane, 0] + t
        for i in range(d if means.shape[0] > 0 else 0):
            means[row, i] = y[at + 8 * (2 * n + 2 * d + i)]
            for j in range(d):
                covariances[row, i, j] = y[at + 8 * (n + i * d + j)]
        if log_likelihoods.shape[0] > 0:
            log_likelihoods[row] = y[at + 8 * (size - 1)]
        if lags.shape[0] > 0 and t + 1 < n_steps:
            for i in range(d):
                for j in range(d):
                    lags[row, i, j] = y[at + 8 * (i * d + j)]


@kernel
def infer_gaps(
    x, places, X, kinds, lanes, n_steps, warm_up, begin, smooth, y, means, covariances, lags,
    log_likelihoods,
):  # fmt: skip
    """As ``statistics.infer``, for lanes of ``n_steps`` steps, eight at a time; says how it went.

    ``lanes`` has a row for each: see :func:`smooth_gaps`; then the first and the last step whose
    results are wanted, one beyond it. ``begin`` is replaced by a last prediction.
    ``means`` and ``covariances``, ``lags``, and ``log_likelihoods`` may be empty.
    """
    w = places[0]
    with_scores = log_likelihoods.shape[0] > 0
    load_transition(x, w, 0)
    load_observation(x, w, 0)
    n_kept = 1 + _n_kept(w)
    kept = np.empty(n_kept * (w.partial.half + 1 - w.partial.G))
    owners = np.full(n_kept, -1, np.int64)
    for first in range(0, lanes.shape[0], WIDTH):
        some = lanes[first : first + WIDTH]
        result = smooth_gaps(
            x, w, X, kinds, some, n_steps, warm_up, begin, smooth, with_scores, y, kept, owners
        )
        if result != DONE:
            return result
        for l in range(WIDTH):
            _write_lane(w, some, l, n_steps, y, means, covariances, lags, log_likelihoods)
    return DONE


# Statistics ---------------------------------------------------------------------------------------


@helper
def _fill_size(w):
    """Numbers of D, B and Ω, which lie one after another."""
    return w.p * w.d + 2 * w.p * w.p


@helper
def _fill(x, w, X, row, kept, owners):
    """As ``observation.fill``; what it finds is kept for rows that miss the same values."""
    apart()
    p, begin, size = w.p, w.room.D, _fill_size(w)
    slot = _slot(X, row, p, owners.shape[0])
    base = slot * size
    if owners[slot] >= 0 and _same_gaps(X, row, owners[slot], p):
        for i in range(size):
            x[begin + i] = kept[base + i]
        return
    fill(x, w, X, row)
    owners[slot] = row
    for i in range(size):
        kept[base + i] = x[begin + i]


@helper
def _add_matrix(y, at, n, weight, x, stride, out):
    """Add the matrix of one lane that begins at ``y[at]``, to one whose rows are padded."""
    for i in range(n):
        for j in range(n):
            x[out + i * stride + j] += weight * y[at + 8 * (i * n + j)]


@helper
def _add_missing(x, w, X, row, weight, y, V):
    """Add the covariances of what is missing, with itself and with the state."""
    apart()
    d, p, dd, pp, room, sums = w.d, w.p, w.dd, w.pp, w.room, w.sums
    for m in range(p):
        if X[row + m] == X[row + m]:
            continue
        for j in range(d):
            s = 0.0
            for k in range(d):
                s += x[room.D + m * d + k] * y[V + 8 * (k * d + j)]
            x[room.wide + m * d + j] = s
            x[sums.vh + m * dd + j] += weight * s
    for m in range(p):
        for k in range(p):
            if X[row + m] == X[row + m] or X[row + k] == X[row + k]:
                continue
            s = x[room.Omega + m * p + k]
            for j in range(d):
                s += x[room.wide + m * d + j] * x[room.D + k * d + j]
            x[sums.vv + m * pp + k] += weight * s


@helper
def _add_lane(x, w, X, kinds, start, begin, end, weight, center, y, lane, kept, owners):
    """Add the statistics of steps ``begin .. end - 1`` of a lane; see ``statistics.add_means``.

    What the sums have of last states, and subtract from all to have the earlier ones of pairs, is
    here the state of step ``end - 1`` less that of step ``begin - 1``.
    """
    apart()
    d, p, dd, pp, room, sums = w.d, w.p, w.dd, w.pp, w.room, w.sums
    n = d * d
    steps, size = _room_size(d, w.r), _step_size(d)
    for t in range(begin - 1 if begin > 0 else 0, end):
        at = 8 * (steps + t * size) + lane
        here = w.states + t * dd
        for i in range(d):
            x[here + i] = y[at + 8 * (2 * n + 2 * d + i)]
        kind, row = kinds[start + t], (start + t) * p
        if t >= begin and kind != MISSING:
            if kind == PARTIAL:
                _fill(x, w, X, row, kept, owners)
                impute(x, w, X, row, t, center)
                _add_missing(x, w, X, row, weight, y, at + 8 * n)
            else:
                for j in range(p):
                    x[room.u + j] = X[row + j] - center[j]
        add_vector(x, sums.reference, -1.0, dd, here)
        if t == begin - 1:
            add_vector(x, here, -weight, dd, sums.last)
            add_outer(x, here, d, -weight, here, dd, sums.last2)
            _add_matrix(y, at + 8 * n, d, -weight, x, dd, sums.last2)
            continue
        if kind == MISSING:
            add_vector(x, here, weight, dd, sums.unseen)
            add_outer(x, here, d, weight, here, dd, sums.unseen2)
            _add_matrix(y, at + 8 * n, d, weight, x, dd, sums.unseen2)
        else:
            add_vector(x, here, weight, dd, sums.seen)
            add_outer(x, here, d, weight, here, dd, sums.seen2)
            _add_matrix(y, at + 8 * n, d, weight, x, dd, sums.seen2)
            add_outer(x, room.u, p, weight, here, dd, sums.vh)
            add_vector(x, room.u, weight, pp, sums.v)
            add_outer(x, room.u, p, weight, room.u, pp, sums.vv)
            x[sums.observed] += weight
            x[sums.rows] += weight
        if t > 0:
            add_outer(x, here, d, weight, here - dd, dd, sums.lag)
            _add_matrix(y, at - 8 * size, d, weight, x, dd, sums.lag)
            x[sums.transitions] += weight
        else:
            add_vector(x, here, weight, dd, sums.first)
            add_outer(x, here, d, weight, here, dd, sums.first2)
            _add_matrix(y, at + 8 * n, d, weight, x, dd, sums.first2)
            x[sums.weight] += weight
        if t == end - 1:
            add_vector(x, here, weight, dd, sums.last)
            add_outer(x, here, d, weight, here, dd, sums.last2)
            _add_matrix(y, at + 8 * n, d, weight, x, dd, sums.last2)
        x[sums.log_likelihood] += weight * y[at + 8 * (size - 1)]


@kernel
def expect_gaps(
    x, places, X, kinds, lanes, n_steps, warm_up, begin, weights, center, y
):  # fmt: skip
    """The expected statistics of lanes, eight at a time, in the sums; returns how it went.

    ``lanes``, ``n_steps``, ``warm_up`` and ``begin`` are as for :func:`infer_gaps`; each lane has a
    weight. The sums have the weight of a sequence if they have its first step.
    """
    w = places[0]
    d, sums = w.d, w.sums
    load_transition(x, w, 0)
    load_observation(x, w, 0)
    clear(x, sums.weight, sums.vv + w.p * w.pp - sums.weight)
    n_kept = _n_kept(w)
    kept = np.empty((1 + n_kept) * (w.partial.half + 1 - w.partial.G))
    owners = np.full(1 + n_kept, -1, np.int64)
    filled, fill_owners = np.empty(n_kept * _fill_size(w)), np.full(n_kept, -1, np.int64)
    for first in range(0, lanes.shape[0], WIDTH):
        some = lanes[first : first + WIDTH]
        result = smooth_gaps(
            x, w, X, kinds, some, n_steps, warm_up, begin, True, True, y, kept, owners
        )
        if result != DONE:
            return result
        if first == 0:
            # A smoothed state.
            step = max(some[0, 4] - 1, 0)
            at = 8 * (_room_size(d, w.r) + step * _step_size(d) + 2 * d * d + 2 * d)
            for i in range(d):
                x[sums.reference + i] = y[at + 8 * i]
        for l in range(WIDTH):
            weight = weights[first + l]
            if weight > 0.0 and some[l, 4] > some[l, 3]:
                _add_lane(
                    x, w, X, kinds, some[l, 0], some[l, 3], some[l, 4], weight, center, y, l,
                    filled, fill_owners,
                )  # fmt: skip
    return DONE
