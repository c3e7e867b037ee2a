"""The Kalman filter: covariances once for all sequences that share them, means for each.

Of each step a record is kept of what the means need, and the smoother:

    z = L⁻¹(y - C̃ h)      with  L Lᵀ = C̃ P C̃ᵀ + R̃, P the predicted covariance     (whiten)
    ĥ = h + K̄ z           with  K̄ = P C̃ᵀ L⁻ᵀ                                       (gain)
    h' = A ĥ + b                the prediction of the next step
    J = F Aᵀ P'⁻¹               the smoother's gain, F the filtered covariance
    B = F - J P' Jᵀ             what the next step does not tell of this one

F and B are computed as sums of squares (Joseph's form), so that they are symmetric and
semidefinite whatever is rounded. Where P' is so nearly singular that J would be rounding divided by
rounding, and where R is singular, all this is done with square roots of the covariances. When the
predicted covariance no longer changes, the last record
serves all further steps of the kind: the steady state.
"""

import numpy as np

from .. import simd
from ..options import apart, helper
from ..small_matrices import (
    SINGULAR,
    add_columns,
    add_congruence,
    clear,
    copy,
    factorize,
    half_log_determinant,
    invert_lower,
    largest_change,
    multiply,
    multiply_transposed,
    set_columns,
    solve,
    squares,
    store_columns,
    subtract_from_identity,
)
from .observation import COMPLETE, MISSING, PARTIAL, reduce
from .square_root import begin_roots, can_take_roots, correct_root, predict_root, skip_root
from .system import load_observation, load_transition

#: The filter is steady when its covariance changes by less than this in a step, or when what is
#: left of a geometric approach is less than ten times it.
STEADY = 1e-15

#: A pivot of the predicted covariance this small beside the variances that it is what is left of,
#: those of this step, with its noise and without, and the largest there were, has lost its digits,
#: and the smoother must not divide by it. Nor must it if its gain makes what is rounded of the next
#: state so much larger, in standard deviations of the two filtered states. See square_root.py.
LOST, LOST_BEFORE, LARGEST_GAIN = 1e-8, 1e-13, 1e3
#: What is returned then instead of a step.
TO_SQUARE_ROOTS = -2


@helper
def correct(x, w, step, record):
    """From the predicted P to the filtered covariance in ``new``; False if not definite."""
    apart()
    d, r, room = w.d, w.r, w.room
    where = w.record
    multiply_transposed(x, room.P, step.Ct, d, d, r, room.M)
    multiply(x, step.Ct, room.M, r, d, r, room.S)
    for i in range(r):
        for j in range(i + 1):
            s = 0.5 * (x[room.S + i * r + j] + x[room.S + j * r + i])
            x[room.S + i * r + j] = s + x[step.Rt + i * r + j]
    if factorize(x, room.S, r, 0.0, room.L) < r:
        return False
    x[record + where.log_det] = half_log_determinant(x, room.L, r)
    invert_lower(x, room.L, r, room.Li)
    store_columns(x, room.Li, r, r, 1.0, w.rr, record + where.whiten)
    multiply_transposed(x, room.M, room.Li, d, r, r, room.Kt)
    store_columns(x, room.Kt, d, r, 1.0, w.dd, record + where.gain)
    multiply(x, room.Kt, room.Li, d, r, r, room.K)
    multiply(x, room.K, step.Ct, d, r, d, room.keep)
    subtract_from_identity(x, room.keep, d)
    clear(x, room.new, d * d)
    add_congruence(x, room.keep, room.P, d, d, room.scratch, room.new)
    add_congruence(x, room.K, step.Rt, d, r, room.M, room.new)
    return True


@helper
def advance(x, w):
    """From the filtered covariance F in ``new``: AF, the next P, and its factor in ``lower``."""
    apart()
    d, room = w.d, w.room
    multiply(x, room.A, room.new, d, d, d, room.AF)
    copy(x, room.Q, d * d, room.P)
    for i in range(d):
        for j in range(i + 1):
            s = x[room.Q + i * d + j]
            for k in range(d):
                s += x[room.AF + i * d + k] * x[room.A + j * d + k]
            x[room.P + i * d + j] = s
            x[room.P + j * d + i] = s
    factorize(x, room.P, d, SINGULAR, room.lower)


@helper
def predict(x, w, record):
    """From the filtered covariance in ``new``: the next P, the smoother's gain J, and B."""
    apart()
    d, room = w.d, w.room
    where = w.record
    copy(x, room.new, d * d, record + where.F)
    advance(x, w)
    solve(x, room.lower, d, d, room.AF)
    for i in range(d):
        for j in range(d):
            x[room.gain + i * d + j] = x[room.AF + j * d + i]
    store_columns(x, room.gain, d, d, 1.0, w.dd, record + where.J)
    multiply(x, room.gain, room.A, d, d, d, room.keep)
    subtract_from_identity(x, room.keep, d)
    clear(x, record + where.B, d * d)
    add_congruence(x, room.keep, room.new, d, d, room.scratch, record + where.B)
    add_congruence(x, room.gain, room.Q, d, d, room.scratch, record + where.B)


@helper
def is_lost(x, w, before):
    """Whether the P that was just predicted is singular, or the gain of the step before large."""
    apart()
    d, dd, room, where = w.d, w.dd, w.room, w.record
    predicted, filtered = room.info, room.delta
    for j in range(d):
        x[predicted + j] = np.sqrt(abs(x[room.old + j * d + j]))
        x[filtered + j] = np.sqrt(abs(x[room.new + j * d + j]))
    lost = False
    for i in range(d):
        # The standard deviation of the next state if the step observed nothing.
        sd, gain = 0.0, 0.0
        for j in range(d):
            sd += abs(x[room.A + i * d + j]) * x[predicted + j]
        variance = x[room.P + i * d + i]
        largest = max(x[room.largest + i], sd * sd, variance)
        x[room.largest + i] = largest
        pivot = x[room.lower + i * d + i] ** 2
        least = max(LOST * max(sd * sd, variance), LOST_BEFORE * largest)
        if variance > 0.0 and pivot < least:
            lost = True
        if before >= 0:
            for j in range(d):
                gain += abs(x[before + where.J + j * dd + i]) * x[filtered + j]
            if gain * gain > LARGEST_GAIN * LARGEST_GAIN * x[before + where.F + i * d + i]:
                lost = True
    return lost


@helper
def grown(x, n):
    """A longer array that begins as ``x`` does."""
    apart()
    y = np.zeros(n)
    for i in range(x.shape[0]):
        y[i] = x[i]
    return y


@helper
def filter_covariances(x, w, X, kinds, start, n_steps, index, first):
    """Make the records of a sequence: ``index[t]`` is that of step t, ``first`` its first step.

    Returns the array, which may have grown, and the step at which an observation has no density,
    or -1; or ``TO_SQUARE_ROOTS`` if the kernel cannot take these.
    """
    apart()
    x[w.room.singular] = 1.0 if w.direct else 0.0
    x, failed = _filter_covariances(x, w, X, kinds, start, n_steps, index, first)
    if failed == TO_SQUARE_ROOTS and can_take_roots(x, w):
        x[w.room.singular] = 1.0
        x, failed = _filter_covariances(x, w, X, kinds, start, n_steps, index, first)
    return x, failed


@helper
def _filter_covariances(x, w, X, kinds, start, n_steps, index, first):
    apart()
    d, room, size = w.d, w.room, w.record.size
    roots = x[room.singular] > 0.0
    copy(x, w.system.V, d * d, room.P)
    clear(x, room.largest, d)
    if roots:
        begin_roots(x, w)
    previous = np.inf
    n = 0
    t = 0
    while t < n_steps:
        record = w.records + n * size
        if record + size > x.shape[0]:
            x = grown(x, w.records + min(2 * n, n_steps) * size)
        kind = kinds[start + t]
        copy(x, room.P, d * d, room.old)
        if w.varies:
            load_transition(x, w, min(t, max(n_steps - 2, 0)))
            load_observation(x, w, t)
        if kind == MISSING:
            clear(x, record, size)
            copy(x, room.P, d * d, room.new)
            if roots:
                skip_root(x, w, record)
        else:
            step = w.partial if kind == PARTIAL else w.whole
            if kind == PARTIAL or w.varies:
                if not reduce(x, w, X, (start + t) * w.p, step):
                    return x, t
            if not (correct_root(x, w, step, record) if roots else correct(x, w, step, record)):
                return x, t
        change = 0.0
        if roots:
            change = predict_root(x, w, record)
        else:
            predict(x, w, record)
            if is_lost(x, w, w.records + index[t - 1] * size if t > 0 else -1):
                return x, TO_SQUARE_ROOTS
        first[n] = t
        index[t] = n
        t += 1
        if kind != PARTIAL and not w.varies and t < n_steps and kinds[start + t] == kind:
            if not roots:
                change = largest_change(x, room.P, room.old, d)
            ratio = change / previous if previous > 0.0 else 0.0
            previous = change
            small = STEADY * max(1.0, 0.5 * d)
            if change <= small or (ratio < 0.9 and change <= 10.0 * small * (1.0 - ratio)):
                while t < n_steps and kinds[start + t] == kind:
                    index[t] = n
                    t += 1
                previous = np.inf
        else:
            previous = np.inf
        n += 1
    return x, -1


@helper
def filter_means(x, w, X, kinds, start, n_steps, index, with_rest, steps):
    """Predicted and filtered means of a sequence, each step padded; returns its log-likelihood.

    ``steps``, unless empty, receives the log-likelihood of each step. Without ``with_rest`` the
    log-likelihood lacks ``-½ |rest (v - c)|²`` of complete steps.
    """
    apart()
    d, p, r, dd, rr, pp, room, where = w.d, w.p, w.r, w.dd, w.rr, w.pp, w.room, w.record
    log_likelihood = 0.0
    copy(x, w.system.m, d, w.predicted)
    for t in range(n_steps):
        predicted, filtered = w.predicted + t * dd, w.states + t * dd
        for i in range(0, dd, simd.LANES):
            simd.store(x, filtered + i, simd.load(x, predicted + i))
        if w.varies:
            load_transition(x, w, min(t, max(n_steps - 2, 0)))
            load_observation(x, w, t)
        kind = kinds[start + t]
        gained = 0.0
        if kind != MISSING:
            row = (start + t) * p
            step = w.partial if kind == PARTIAL else w.whole
            if kind == PARTIAL or w.varies:
                reduce(x, w, X, row, step)
            if kind == COMPLETE:
                for j in range(p):
                    x[room.u + j] = X[row + j] - x[room.c + j]
            else:
                for j in range(p):
                    v = X[row + j]
                    x[room.u + j] = v - x[room.c + j] if v == v else 0.0
            record = w.records + index[t] * w.record.size
            set_columns(x, step.G, p, rr, room.u, room.e)
            add_columns(x, step.minus_C, d, rr, predicted, room.e)
            set_columns(x, record + where.whiten, r, rr, room.e, room.z)
            add_columns(x, record + where.gain, r, dd, room.z, filtered)
            gained = -0.5 * (squares(x, room.z, r) + x[step.n_seen] * np.log(2.0 * np.pi))
            gained -= x[record + where.log_det] + x[step.half]
            if (with_rest or kind == PARTIAL) and x[step.rest_rows] > 0.0:
                set_columns(x, step.rest, p, pp, room.u, room.noise)
                gained -= 0.5 * squares(x, room.noise, p)
            log_likelihood += gained
        if steps.shape[0] > 0:
            steps[t] = gained
        if t + 1 < n_steps:
            for i in range(0, dd, simd.LANES):
                simd.store(x, predicted + dd + i, simd.load(x, room.b + i))
            add_columns(x, room.columns, d, dd, filtered, predicted + dd)
    return log_likelihood
