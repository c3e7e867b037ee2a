"""The Kalman filter: covariances once for all sequences that share them, means for each.

Of each step a record is kept of what the means need, and the smoother:

    z = L⁻¹(y - C̃ h)      with  L Lᵀ = C̃ P C̃ᵀ + R̃, P the predicted covariance
    ĥ = h + K̄ z           with  K̄ = P C̃ᵀ L⁻ᵀ
    h' = A ĥ + b                the prediction of the next step
    J = F Aᵀ P'⁻¹               the smoother's gain, F the filtered covariance
    B = F - J P' Jᵀ             what the next step does not tell of this one

F and B are computed as sums of squares (Joseph's form), so that they are symmetric and
semidefinite whatever is rounded. When the predicted covariance no longer changes, the last record
serves all further steps of the kind: the steady state.
"""

from collections import namedtuple

import numpy as np

from . import simd
from .kalman_observation import COMPLETE, MISSING, PARTIAL, _padded, reduce
from .options import kernel
from .small_matrices import (
    SINGULAR,
    add_columns,
    add_congruence,
    factorize,
    invert_lower,
    largest_change,
    multiply,
    multiply_transposed,
    solve,
    store_columns,
)

#: The filter is steady when its covariance changes by less than this in a step, or when what is
#: left of a geometric approach is less.
STEADY = 1e-15
#: Records that room is made for at first.
FIRST_RECORDS = 128

#: Columns of K̄, L⁻¹ and J, matrices F and B, and log det L: where each begins in a record.
Layout = namedtuple("Layout", "gain whiten J F B half size")

#: ``records`` (n, size), ``index`` of the record of each step, ``first`` step of each record,
#: ``kinds`` of the steps; ``counts`` are the number of records and of steps.
Path = namedtuple("Path", "records index first counts")

Work = namedtuple("Work", "P old new M S lower inverse K gain F1 F2 F3 F4 J")


@kernel
def layout(d, r):
    dd, rr = _padded(d), _padded(r)
    gain = 0
    whiten = gain + r * dd
    J = whiten + r * rr
    F = J + d * dd
    B = F + d * d
    half = B + d * d
    return Layout(gain, whiten, J, F, B, half, half + 1)


@kernel
def empty_path(n_steps, d, r):
    size = layout(d, r).size
    return Path(
        np.empty((min(FIRST_RECORDS, n_steps), size)),
        np.empty(n_steps, np.int64),
        np.empty(n_steps, np.int64),
        np.zeros(2, np.int64),
    )


@kernel
def empty_work(d, r):
    return Work(
        np.zeros((d, d)), np.zeros((d, d)), np.zeros((d, d)), np.zeros((d, r)), np.zeros((r, r)),
        np.zeros((max(d, r), max(d, r))), np.zeros((r, r)), np.zeros((d, r)), np.zeros((d, r)),
        np.zeros((d, d)), np.zeros((d, d)), np.zeros((d, d)), np.zeros((d, d)), np.zeros((d, d)),
    )  # fmt: skip


@kernel
def at(array, t):
    """The index of step ``t`` in an array that may be constant."""
    return t if array.shape[0] > 1 else 0


@kernel
def is_constant(system):
    return (
        system.A.shape[0] == 1
        and system.Q.shape[0] == 1
        and system.C.shape[0] == 1
        and system.R.shape[0] == 1
    )


@kernel
def correct(P, C, R, record, where, work):
    """Filter one step: P is predicted, ``work.new`` becomes filtered. False if not definite."""
    d = P.shape[0]
    r = C.shape[0]
    M, S, K = work.M, work.S, work.K
    multiply_transposed(P, C, M)
    multiply(C, M, S)
    for i in range(r):
        for j in range(i + 1):
            S[i, j] = 0.5 * (S[i, j] + S[j, i]) + R[i, j]
    if factorize(S, r, 0.0, work.lower) < r:
        return False
    half = 0.0
    for i in range(r):
        half += np.log(work.lower[i, i])
    record[where.half] = half
    invert_lower(work.lower, r, work.inverse)
    store_columns(work.inverse, record, where.whiten, _padded(r))
    multiply_transposed(M, work.inverse, work.gain)
    store_columns(work.gain, record, where.gain, _padded(d))
    multiply(work.gain, work.inverse, K)
    keep = work.F1
    multiply(K, C, keep)
    for i in range(d):
        for j in range(d):
            keep[i, j] = (1.0 if i == j else 0.0) - keep[i, j]
            work.new[i, j] = 0.0
    add_congruence(keep, P, work.F2, work.new)
    add_congruence(K, R, M, work.new)
    return True


@kernel
def predict(A, Q, record, where, work):
    """From F in ``work.new``: the next P, the smoother's gain J and B, into the record."""
    d = A.shape[0]
    F, P, AF, J = work.new, work.P, work.F1, work.J
    multiply(A, F, AF)
    for i in range(d):
        for j in range(i + 1):
            s = Q[i, j]
            for k in range(d):
                s += AF[i, k] * A[j, k]
            P[i, j] = s
            P[j, i] = s
            record[where.F + i * d + j] = F[i, j]
            record[where.F + j * d + i] = F[i, j]
    factorize(P, d, SINGULAR, work.lower)
    solve(work.lower, d, AF)
    for i in range(d):
        for j in range(d):
            J[i, j] = AF[j, i]
    store_columns(J, record, where.J, _padded(d))
    keep, B = work.F2, work.F3
    multiply(J, A, keep)
    for i in range(d):
        for j in range(d):
            keep[i, j] = (1.0 if i == j else 0.0) - keep[i, j]
            B[i, j] = 0.0
    add_congruence(keep, F, work.F4, B)
    add_congruence(J, Q, work.F4, B)
    for i in range(d):
        for j in range(d):
            record[where.B + i * d + j] = B[i, j]


@kernel
def filter_covariances(system, X, kinds, start, n_steps, whole, partial, path, work):
    """Fill a path for the steps whose kinds begin at ``kinds[start]``, their rows in X.

    Returns the path, which may have grown, and the step at which an observation's covariance is
    not definite, or -1.
    """
    d, p = system.A.shape[1], system.C.shape[1]
    r = whole.C.shape[0]
    where = layout(d, r)
    records = path.records
    n = 0
    P = work.P
    for i in range(d):
        for j in range(d):
            P[i, j] = system.V[i, j]
    constant = is_constant(system)
    previous = np.inf
    t = 0
    while t < n_steps:
        if n == records.shape[0]:
            grown = np.empty((min(2 * n, n_steps), where.size))
            for i in range(n):
                for j in range(where.size):
                    grown[i, j] = records[i, j]
            records = grown
        record = records[n]
        kind = kinds[start + t]
        C, R = system.C[at(system.C, t)], system.R[at(system.R, t)]
        for i in range(d):
            for j in range(d):
                work.old[i, j] = P[i, j]
        if kind == MISSING:
            for i in range(where.J):
                record[i] = 0.0
            record[where.half] = 0.0
            for i in range(d):
                for j in range(d):
                    work.new[i, j] = P[i, j]
        else:
            fits = True
            if kind == PARTIAL:
                fits = reduce(C, R, system.direct, X, (start + t) * p, partial)
            elif not constant:
                fits = reduce(C, R, system.direct, X, (start + t) * p, whole)
            now = partial if kind == PARTIAL else whole
            if not fits or not correct(P, now.C, now.R, record, where, work):
                return Path(records, path.index, path.first, path.counts), t
        last = min(t, max(n_steps - 2, 0))
        predict(system.A[at(system.A, last)], system.Q[at(system.Q, last)], record, where, work)
        path.first[n] = t
        path.index[t] = n
        t += 1
        if constant and kind != PARTIAL and t < n_steps and kinds[start + t] == kind:
            change = largest_change(P, work.old)
            ratio = change / previous if previous > 0.0 else 0.0
            previous = change
            small = STEADY * max(1.0, 0.5 * d)
            if change <= small or (ratio < 0.9 and change <= 10 * small * (1.0 - ratio)):
                while t < n_steps and kinds[start + t] == kind:
                    path.index[t] = n
                    t += 1
                previous = np.inf
        else:
            previous = np.inf
        n += 1
    path.counts[0] = n
    path.counts[1] = n_steps
    return Path(records, path.index, path.first, path.counts), -1


@kernel
def flat_system(system):
    """The columns of A and the offsets b, padded."""
    n, d = system.A.shape[0], system.A.shape[1]
    dd = _padded(d)
    columns = np.zeros(n * d * dd)
    for t in range(n):
        store_columns(system.A[t], columns, t * d * dd, dd)
    offsets = np.zeros(system.b.shape[0] * dd)
    for t in range(system.b.shape[0]):
        for i in range(d):
            offsets[t * dd + i] = system.b[t, i]
    return columns, offsets


@kernel
def squares(x, n):
    s = 0.0
    for i in range(n):
        s += x[i] * x[i]
    return s


@kernel
def filter_means(
    system, columns, offsets, X, kinds, start, n_steps, whole, partial, path, with_rest,
    predicted, filtered, steps, scratch,
):  # fmt: skip
    """Predicted and filtered means of a sequence, each step padded; and its log-likelihood.

    ``steps``, unless empty, receives the log-likelihood of each step. Without ``with_rest`` the
    log-likelihood lacks ``-½ |rest (v - c)|²`` of complete steps.
    """
    d, p = system.A.shape[1], system.C.shape[1]
    r = whole.C.shape[0]
    dd, rr, pp = _padded(d), _padded(r), _padded(p)
    where = layout(d, r)
    constant = is_constant(system)
    log_likelihood = 0.0
    u, e, z, rest = scratch[0], scratch[1], scratch[2], scratch[3]
    for i in range(dd):
        predicted[i] = system.m[i] if i < d else 0.0
    for t in range(n_steps):
        here = t * dd
        for i in range(0, dd, simd.LANES):
            simd.store(filtered, here + i, simd.load(predicted, here + i))
        kind = kinds[start + t]
        gained = 0.0
        if kind != MISSING:
            row = (start + t) * p
            if kind == PARTIAL or not constant:
                C, R = system.C[at(system.C, t)], system.R[at(system.R, t)]
                reduce(C, R, system.direct, X, row, partial if kind == PARTIAL else whole)
            now = partial if kind == PARTIAL else whole
            c = system.c[at(system.c, t)]
            if kind == COMPLETE:
                for j in range(p):
                    u[j] = X[row + j] - c[j]
            else:
                for j in range(p):
                    u[j] = X[row + j] - c[j] if X[row + j] == X[row + j] else 0.0
            record = path.records[path.index[t]]
            for i in range(rr):
                e[i] = 0.0
                z[i] = 0.0
            add_columns(now.G, 0, p, rr, u, 0, e, 0)
            add_columns(now.minus_C, 0, d, rr, predicted, here, e, 0)
            add_columns(record, where.whiten, r, rr, e, 0, z, 0)
            add_columns(record, where.gain, r, dd, z, 0, filtered, here)
            gained = -0.5 * (squares(z, r) + now.numbers[1] * np.log(2.0 * np.pi))
            gained -= record[where.half] + now.numbers[2]
            if (with_rest or kind == PARTIAL) and now.numbers[0] > 0.0:
                for i in range(pp):
                    rest[i] = 0.0
                add_columns(now.rest, 0, p, pp, u, 0, rest, 0)
                gained -= 0.5 * squares(rest, p)
            log_likelihood += gained
        if steps.shape[0] > 0:
            steps[t] = gained
        if t + 1 < n_steps:
            after = here + dd
            a, b = at(system.A, t) * d * dd, at(system.b, t) * dd
            for i in range(0, dd, simd.LANES):
                simd.store(predicted, after + i, simd.load(offsets, b + i))
            add_columns(columns, a, d, dd, filtered, here, predicted, after)
    return log_likelihood
