"""Expected statistics of sequences: sums over steps of products of states and observations.

States are taken about a reference (a smoothed state) and observations about the mean of the data,
so that nothing far from the origin loses digits; Python makes moments about the means of them.
"""

from collections import namedtuple

import numpy as np

from .kalman_filter import at, empty_path, empty_work, filter_covariances, filter_means, flat_system
from .kalman_observation import (
    COMPLETE,
    MISSING,
    PARTIAL,
    _padded,
    _reduced_size,
    empty_filled,
    empty_reduced,
    fill,
    reduce,
)
from .kalman_smoother import empty_covariances, smooth_covariances, smooth_means
from .options import kernel
from .small_matrices import add_outer

#: Weighted sums of states (padded to dd) and of their products (d × dd), of the first state, the
#: last, those with an observation and those without, of neighbours (later, earlier); of
#: observations with states vh (p × dd); of observations v and vv (p × pp).
#: ``numbers``: sum of the weights, log-likelihood, transitions, steps observed, rows in v and vv.
Sums = namedtuple(
    "Sums",
    "numbers reference first first2 last last2 seen seen2 unseen unseen2 lag vh v vv",
)


@kernel
def empty_sums(d, p):
    dd, pp = _padded(d), _padded(p)
    return Sums(
        np.zeros(5), np.zeros(dd), np.zeros(dd), np.zeros(d * dd), np.zeros(dd), np.zeros(d * dd),
        np.zeros(dd), np.zeros(d * dd), np.zeros(dd), np.zeros(d * dd), np.zeros(d * dd),
        np.zeros(p * dd), np.zeros(pp), np.zeros(p * pp),
    )  # fmt: skip


@kernel
def _add_vector(x, at, n, weight, out):
    for i in range(n):
        out[i] += weight * x[at + i]


@kernel
def _add_matrix(matrix, weight, stride, out):
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            out[i * stride + j] += weight * matrix[i, j]


@kernel
def add_means(
    system, X, kinds, start, n_steps, weight, centre, with_rows, states, filled, row_buffer, sums
):  # fmt: skip
    """Add the products of a sequence's smoothed means, which are centred in place."""
    d, p = system.A.shape[1], system.C.shape[1]
    dd, pp = _padded(d), _padded(p)
    if sums.numbers[0] == 0.0:
        for i in range(d):
            sums.reference[i] = states[(n_steps - 1) * dd + i]
    u, raw = row_buffer[0], row_buffer[1]
    for t in range(n_steps):
        here = t * dd
        kind = kinds[start + t]
        row = (start + t) * p
        if kind == PARTIAL:
            C, R = system.C[at(system.C, t)], system.R[at(system.R, t)]
            c = system.c[at(system.c, t)]
            fill(C, R, X, row, filled)
            for j in range(p):
                raw[j] = X[row + j] - c[j] if X[row + j] == X[row + j] else 0.0
            for j in range(p):
                if X[row + j] == X[row + j]:
                    u[j] = X[row + j] - centre[j]
                else:
                    s = c[j] - centre[j]
                    for k in range(d):
                        s += filled.D[j, k] * states[here + k]
                    for k in range(p):
                        s += filled.B[j, k] * raw[k]
                    u[j] = s
        elif kind == COMPLETE:
            for j in range(p):
                u[j] = X[row + j] - centre[j]
        for i in range(dd):
            states[here + i] -= sums.reference[i]
        if kind == MISSING:
            _add_vector(states, here, dd, weight, sums.unseen)
            add_outer(states, here, d, weight, states, here, dd, sums.unseen2)
        else:
            _add_vector(states, here, dd, weight, sums.seen)
            add_outer(states, here, d, weight, states, here, dd, sums.seen2)
            add_outer(u, 0, p, weight, states, here, dd, sums.vh)
            sums.numbers[3] += weight
            if kind == PARTIAL or with_rows:
                _add_vector(u, 0, p, weight, sums.v)
                add_outer(u, 0, p, weight, u, 0, pp, sums.vv)
                sums.numbers[4] += weight
        if t > 0:
            add_outer(states, here, d, weight, states, here - dd, dd, sums.lag)
    end = (n_steps - 1) * dd
    _add_vector(states, 0, dd, weight, sums.first)
    add_outer(states, 0, d, weight, states, 0, dd, sums.first2)
    _add_vector(states, end, dd, weight, sums.last)
    add_outer(states, end, d, weight, states, end, dd, sums.last2)


@kernel
def add_covariances(covariances, weight, dd, pp, sums):
    """Add the sums of a sequence's covariances."""
    _add_matrix(covariances.first, weight, dd, sums.first2)
    _add_matrix(covariances.last, weight, dd, sums.last2)
    _add_matrix(covariances.seen, weight, dd, sums.seen2)
    _add_matrix(covariances.unseen, weight, dd, sums.unseen2)
    _add_matrix(covariances.lag, weight, dd, sums.lag)
    _add_matrix(covariances.vh, weight, dd, sums.vh)
    _add_matrix(covariances.vv, weight, pp, sums.vv)


@kernel
def expect(
    system, X, kinds, starts, order, shares, weights, centre, with_rest, with_rows, sums,
    log_likelihoods,
):  # fmt: skip
    """Add the expected statistics of the sequences ``order`` to ``sums``.

    Sequence s has the rows ``starts[s]`` to ``starts[s + 1]``. ``shares[i]`` says that the i-th in
    order has the covariances of the one before, as far as it reaches. ``log_likelihoods``, unless
    empty, receives each one's, and no statistics are computed. Returns the sequence and the step
    where an observation has no density, or (-1, -1).
    """
    d, p = system.A.shape[1], system.C.shape[1]
    r = _reduced_size(d, p, system.direct)
    dd, pp, rr = _padded(d), _padded(p), _padded(r)
    whole, partial = empty_reduced(d, p, system.direct), empty_reduced(d, p, system.direct)
    if not reduce(system.C[0], system.R[0], system.direct, np.zeros(p), 0, whole):
        return 0, 0
    filled = empty_filled(d, p)
    work = empty_work(d, r)
    columns, offsets = flat_system(system)
    covariances = empty_covariances(d, p)
    longest = 1
    for i in range(order.shape[0]):
        longest = max(longest, starts[order[i] + 1] - starts[order[i]])
    predicted, states = np.zeros(longest * dd), np.zeros(longest * dd)
    buffer = np.zeros((4, max(pp, rr, dd)))
    path = empty_path(longest, d, r)
    none, no_steps = np.zeros((0, d, d)), np.zeros(0)
    only_scores = log_likelihoods.shape[0] > 0
    summed = -1
    for i in range(order.shape[0]):
        s = order[i]
        start = starts[s]
        n_steps = starts[s + 1] - start
        weight = weights[s] if weights.shape[0] > 0 else 1.0
        if i == 0 or not shares[i] or path.counts[1] < n_steps:
            path, failed = filter_covariances(
                system, X, kinds, start, n_steps, whole, partial, path, work
            )
            if failed >= 0:
                return s, failed
            summed = -1
        log_likelihood = filter_means(
            system, columns, offsets, X, kinds, start, n_steps, whole, partial, path, with_rest,
            predicted, states, no_steps, buffer,
        )  # fmt: skip
        if only_scores:
            log_likelihoods[s] = log_likelihood
            continue
        if weight == 0.0:
            continue
        if summed != n_steps:
            smooth_covariances(
                system, X, kinds, start, n_steps, r, path, covariances, none, none
            )
            summed = n_steps
        smooth_means(path, n_steps, d, r, predicted, states, buffer[0])
        add_means(
            system, X, kinds, start, n_steps, weight, centre, with_rows, states, filled, buffer,
            sums,
        )  # fmt: skip
        add_covariances(covariances, weight, dd, pp, sums)
        sums.numbers[0] += weight
        sums.numbers[1] += weight * log_likelihood
        sums.numbers[2] += weight * (n_steps - 1)
    return -1, -1


@kernel
def infer(
    system, X, kinds, start, n_steps, smooth, means, covariances, lags, each_log_likelihood
):
    """Filtered or smoothed means (T, d) and covariances (T, d, d) of one sequence.

    ``lags[t]``, if there is room, is the covariance of state t + 1 with state t. Returns the step
    where an observation has no density, or -1.
    """
    d, p = system.A.shape[1], system.C.shape[1]
    r = _reduced_size(d, p, system.direct)
    dd, pp, rr = _padded(d), _padded(p), _padded(r)
    whole, partial = empty_reduced(d, p, system.direct), empty_reduced(d, p, system.direct)
    if not reduce(system.C[0], system.R[0], system.direct, np.zeros(p), 0, whole):
        return 0
    work = empty_work(d, r)
    columns, offsets = flat_system(system)
    path, failed = filter_covariances(
        system, X, kinds, start, n_steps, whole, partial, empty_path(n_steps, d, r), work
    )
    if failed >= 0:
        return failed
    predicted, states = np.zeros(n_steps * dd), np.zeros(n_steps * dd)
    buffer = np.zeros((4, max(pp, rr, dd)))
    filter_means(
        system, columns, offsets, X, kinds, start, n_steps, whole, partial, path, True,
        predicted, states, each_log_likelihood, buffer,
    )  # fmt: skip
    if smooth:
        smooth_means(path, n_steps, d, r, predicted, states, buffer[0])
        smooth_covariances(
            system, X, kinds, start, n_steps, r, path, empty_covariances(d, p), covariances, lags
        )
    else:
        where = path.records.shape[1] - 1 - 2 * d * d
        for t in range(covariances.shape[0]):
            record = path.records[path.index[t]]
            for i in range(d):
                for j in range(d):
                    covariances[t, i, j] = record[where + i * d + j]
    for t in range(n_steps):
        for i in range(d):
            means[t, i] = states[t * dd + i]
    return -1
