"""From the filtered state at one step to that at the next, for any state that a caller has."""

import numpy as np

from ..options import apart, brief_kernel, helper, kernel
from ..small_matrices import add_columns, copy, factorize, set_columns
from .filter import advance, correct, is_lost
from .observation import reduce
from .system import load_observation, load_transition

#: R is factored if no pivot is smaller beside its diagonal entry; else the observations' own
#: covariance is, which includes the state's.
LEAST_PIVOT = 1e-8
#: What a covariance may be asymmetric by, and how negative an eigenvalue, beside its largest entry.
ASYMMETRY, LEAST_EIGENVALUE = 1e-8, -1e-10

#: Whether the system lies in the array as a step needs it; if not, whether it needs a check.
LOADED, SOUND, UNCHECKED = 0, 1, 2

#: What ``soundness`` finds: that others have to look; that all numbers are finite, and covariances
#: are covariances; that R besides can be factored.
UNKNOWN, VALID, SAFE = 0, 1, 2


@helper
def _is_covariance(x, a, n, scratch, factor):
    """Whether a matrix is finite, symmetric and semidefinite, up to rounding."""
    apart()
    largest = 0.0
    for i in range(n * n):
        if not abs(x[a + i]) < np.inf:
            return False
        largest = max(largest, abs(x[a + i]))
    for i in range(n):
        for j in range(n):
            if abs(x[a + i * n + j] - x[a + j * n + i]) > ASYMMETRY * largest:
                return False
            x[scratch + i * n + j] = x[a + i * n + j]
        # Definite with this is semidefinite without it.
        x[scratch + i * n + i] -= 0.5 * LEAST_EIGENVALUE * largest
    return largest == 0.0 or factorize(x, scratch, n, 0.0, factor) == n


@helper
def _has_safe_factor(x, a, n, factor):
    apart()
    if factorize(x, a, n, 0.0, factor) < n:
        return False
    for i in range(n):
        if x[factor + i * n + i] ** 2 < LEAST_PIVOT * x[a + i * n + i]:
            return False
    return True


@helper
def _is_sound(x, w):
    """Whether a system is finite, with covariances of which R can be factored."""
    apart()
    room, system = w.room, w.system
    # The parameters lie one after another.
    for i in range(system.m, system.R + w.p * w.p):
        if not abs(x[i]) < np.inf:
            return False
    return (
        _is_covariance(x, system.Q, w.d, room.scratch, room.lower)
        and _is_covariance(x, system.R, w.p, room.inverse, room.factor)
        and _has_safe_factor(x, system.R, w.p, room.factor)
    )


@brief_kernel
def soundness(x, d, p):
    """What a system that is constant in time is known to be: see ``UNKNOWN``.

    ``x`` has its parameters one after another, as ``system.pack`` puts them, and room for two
    matrices.
    """
    n = max(d, p)
    V = d
    Q = V + d * d + d * d + d
    R = Q + d * d + p * d + p
    end = R + p * p
    if d < 1 or p < 1 or x.shape[0] < end + 2 * n * n:
        return UNKNOWN
    for i in range(end):
        if not abs(x[i]) < np.inf:
            return UNKNOWN
    scratch, factor = end, end + n * n
    if not (
        _is_covariance(x, V, d, scratch, factor)
        and _is_covariance(x, Q, d, scratch, factor)
        and _is_covariance(x, R, p, scratch, factor)
    ):
        return UNKNOWN
    return SAFE if _has_safe_factor(x, R, p, factor) else VALID


@kernel
def update(x, places, state, mean, covariance, row, new_mean, new_covariance):
    """Filter one observation, NaN being missing, after a filtered state; returns whether it did.

    It does not if something is not finite or no covariance, or so nearly singular that square roots
    of the covariances are needed: that is left to others. ``state`` says whether an earlier call
    has left the system in ``x`` as this one needs it; it stays there.
    """
    w = places[0]
    d, p, r, dd, rr, room = w.d, w.p, w.r, w.dd, w.rr, w.room
    if state == UNCHECKED and not _is_sound(x, w):
        return False
    if state != LOADED:
        load_transition(x, w, 0)
        load_observation(x, w, 0)
        if not reduce(x, w, row, np.int64(-1), w.whole):
            return False
    seen = 0
    for j in range(p):
        if row[j] == row[j]:
            seen += 1
            if not abs(row[j]) < np.inf:
                return False
    for i in range(d):
        if not abs(mean[i]) < np.inf:
            return False
        x[room.delta + i] = mean[i]
        for j in range(d):
            x[room.scratch + i * d + j] = covariance[i, j]
    if not _is_covariance(x, room.scratch, d, room.keep, room.lower):
        return False
    for i in range(d):
        for j in range(d):
            s = x[room.scratch + i * d + j] + x[room.scratch + j * d + i]
            x[room.new + i * d + j] = 0.5 * s
        x[room.largest + i] = 0.0
    predicted, filtered, record = w.predicted, w.states, w.records
    copy(x, room.b, dd, predicted)
    add_columns(x, room.columns, d, dd, room.delta, predicted)
    advance(x, w)
    copy(x, predicted, dd, filtered)
    copy(x, room.P, d * d, room.old)
    if seen == 0:
        copy(x, room.P, d * d, room.new)
    else:
        step = w.whole
        if seen < p:
            step = w.partial
            if not reduce(x, w, row, np.int64(0), step):
                return False
        if not correct(x, w, step, record):
            return False
        for j in range(p):
            x[room.u + j] = row[j] - x[room.c + j] if row[j] == row[j] else 0.0
        set_columns(x, step.G, p, rr, room.u, room.e)
        add_columns(x, step.minus_C, d, rr, predicted, room.e)
        set_columns(x, record + w.record.whiten, r, rr, room.e, room.z)
        add_columns(x, record + w.record.gain, r, dd, room.z, filtered)
    advance(x, w)
    if is_lost(x, w, -1):
        return False
    for i in range(d):
        if not abs(x[filtered + i]) < np.inf:
            return False
        new_mean[i] = x[filtered + i]
        for j in range(d):
            value = x[room.new + i * d + j]
            if not abs(value) < np.inf:
                return False
            new_covariance[i, j] = value
    return True
