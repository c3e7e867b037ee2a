"""Online EM over sequences in order: ``Θ ← M(ρ S(V|Θ) + (1 - ρ) s)``, the loop over batches.

The system lies in the array that the kernels work in, and each step replaces it there.
"""

import numpy as np

from ..options import apart, helper, kernel
from ..small_matrices import clear, set_columns, squares
from .maximize import maximize, scratch_size
from .observation import COMPLETE, PARTIAL
from .own import add_own
from .statistics import expect


@helper
def _shift_second(x, first, second, n, d, dd, delta):
    """Sums of ``h hᵀ`` and of ``h`` about another point."""
    apart()
    for i in range(d):
        for j in range(d):
            s = x[first + i] * x[delta + j] + x[delta + i] * x[first + j]
            x[second + i * dd + j] += s + n * x[delta + i] * x[delta + j]
    for i in range(d):
        x[first + i] += n * x[delta + i]


@helper
def move_reference(x, w, memory):
    """Take the sums about the reference of ``memory``."""
    apart()
    d, p, dd, sums = w.d, w.p, w.dd, w.sums
    delta = w.room.delta
    for i in range(d):
        there = memory[sums.reference - sums.weight + i]
        x[delta + i] = x[sums.reference + i] - there
        x[sums.reference + i] = there
    n = x[sums.weight]
    observed, transitions = x[sums.observed], x[sums.transitions]
    for i in range(d):
        for j in range(d):
            # Of neighbors, the later have the sum of all but the first, the earlier of all but
            # the last.
            later = x[sums.seen + i] + x[sums.unseen + i] - x[sums.first + i]
            earlier = x[sums.seen + j] + x[sums.unseen + j] - x[sums.last + j]
            s = later * x[delta + j] + x[delta + i] * earlier
            x[sums.lag + i * dd + j] += s + transitions * x[delta + i] * x[delta + j]
    for i in range(p):
        for j in range(d):
            x[sums.vh + i * dd + j] += x[sums.v + i] * x[delta + j]
    _shift_second(x, sums.first, sums.first2, n, d, dd, delta)
    _shift_second(x, sums.last, sums.last2, n, d, dd, delta)
    _shift_second(x, sums.seen, sums.seen2, observed, d, dd, delta)
    _shift_second(x, sums.unseen, sums.unseen2, transitions + n - observed, d, dd, delta)


@helper
def _rest(x, w, X, kinds, starts, weights, center, low, high):
    """``Σ |rest (v - c)|²`` over the complete rows of some sequences, which ``expect`` omits."""
    apart()
    if not x[w.whole.rest_rows] > 0.0:
        return 0.0
    for t in range(starts[low], starts[high]):
        if kinds[t] == PARTIAL:
            return _rest_by_rows(x, w, X, kinds, starts, weights, low, high)
    return _rest_of_sums(x, w, center)


@helper
def _rest_of_sums(x, w, center):
    """The same from the sums, if no row misses only some of its values: much quicker."""
    apart()
    p, pp, sums = w.p, w.pp, w.sums
    total = 0.0
    for a in range(int(x[w.whole.rest_rows])):
        # With g the row a of the rest: g (v - c), of the center and of the sums about it.
        at = w.whole.rest + a
        along, first, second = 0.0, 0.0, 0.0
        for i in range(p):
            g = x[at + i * pp]
            along += g * (center[i] - x[w.room.c + i])
            first += g * x[sums.v + i]
            for j in range(p):
                second += g * x[at + j * pp] * x[sums.vv + i * pp + j]
        total += second + 2.0 * first * along + x[sums.rows] * along * along
    return total


@helper
def _rest_by_rows(x, w, X, kinds, starts, weights, low, high):
    """The same row by row."""
    apart()
    p, room = w.p, w.room
    total = 0.0
    for s in range(low, high):
        weight = weights[s] if weights.shape[0] > 0 else 1.0
        for t in range(starts[s], starts[s + 1]):
            if kinds[t] == COMPLETE:
                for j in range(p):
                    x[room.u + j] = X[t * p + j] - x[room.c + j]
                set_columns(x, w.whole.rest, p, w.pp, room.u, room.noise)
                total += weight * squares(x, room.noise, p)
    return total


@kernel
def online(
    x, places, X, kinds, starts, shares, weights, center, batch_size, rhos, modes, memory
):  # fmt: skip
    """Online steps over all sequences in order, ``batch_size`` at a time.

    ``memory`` are running sums, which are updated, or empty if the model is the memory. Returns
    the array, the sequence and step that have no density, or -1, the number of steps taken, and
    the sum of the sequences' log-likelihoods, each under the model of its step, times their
    weights. A step of -2 says that the model's own statistics are infinite.
    """
    w = places[0]
    sums = w.sums
    size = sums.vv + w.p * w.pp - sums.weight
    fixed = sums.reference - sums.weight
    n_sequences = starts.shape[0] - 1
    saved = np.empty(size)
    longest = 1
    for s in range(n_sequences):
        longest = max(longest, starts[s + 1] - starts[s])
    # At the end, where records would be, lies the room for the maximum.
    needed = w.records + scratch_size(w)
    if x.shape[0] < needed:
        y = np.zeros(needed)
        for i in range(x.shape[0]):
            y[i] = x[i]
        x = y
    none = np.empty(0)
    log_likelihood = 0.0
    for step in range(rhos.shape[0]):
        low = step * batch_size
        high = min(low + batch_size, n_sequences)
        clear(x, sums.weight, size)
        order = np.arange(low, high)
        x, sequence, failed = expect(
            x, places, X, kinds, starts, order, shares[low:high], weights, center, False, True, none
        )
        if sequence >= 0:
            return x, sequence, failed, step, log_likelihood
        total = x[sums.weight]
        if total == 0.0:
            continue
        rest = _rest(x, w, X, kinds, starts, weights, center, low, high)
        log_likelihood += x[sums.log_likelihood] - 0.5 * rest
        rho = rhos[step]
        if memory.shape[0] > 0:
            move_reference(x, w, memory)
            for i in range(size):
                if i < fixed or i >= fixed + w.dd:
                    s = rho * x[sums.weight + i] / total + (1.0 - rho) * memory[i]
                    x[sums.weight + i] = s
                    memory[i] = s
        else:
            for i in range(size):
                saved[i] = x[sums.weight + i]
            if rho < 1.0:
                lengths = starts[low + 1 : high + 1] - starts[low:high]
                ascending = np.argsort(lengths)
                share = np.empty(high - low)
                for i in range(high - low):
                    s = low + ascending[i]
                    share[i] = (weights[s] if weights.shape[0] > 0 else 1.0) / total
                if not add_own(x, w, lengths[ascending], share, center):
                    return x, low, -2, step, log_likelihood
                for i in range(size):
                    if i < fixed or i >= fixed + w.dd:
                        s = rho * saved[i] / total + (1.0 - rho) * x[sums.weight + i]
                        x[sums.weight + i] = s
        maximize(x, w, center, modes, w.records)
    return x, -1, -1, rhos.shape[0], log_likelihood
