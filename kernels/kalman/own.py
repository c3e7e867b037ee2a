"""The model's own statistics ``S(Θ)``: what the sums of statistics.py are on average.

    μ₁ = m, U₁ = V;  μ' = A μ + b,  U' = A U Aᵀ + Q,  Cov(h', h) = A U

for sequences of several lengths at once: a step counts as much as the share of sequences that
reach it. When neither mean nor covariance changes any more, the remaining steps are all alike.
"""

import numpy as np

from ..options import apart, helper, kernel
from ..small_matrices import add, add_congruence, clear, copy, largest_change, multiply
from .filter import STEADY
from .system import load_observation, load_transition


@helper
def _add_second(x, w, covariance, a, b, weight, out):
    """``out += weight (covariance + a bᵀ)``, its rows padded."""
    apart()
    d, dd = w.d, w.dd
    for i in range(d):
        for j in range(d):
            s = x[covariance + i * d + j] + x[a + i] * x[b + j]
            x[out + i * dd + j] += weight * s


@helper
def _observe(x, w, center):
    """Sums of observations, from those of the states: ``v = C h + c + noise``."""
    apart()
    d, p, dd, pp, room, sums = w.d, w.p, w.dd, w.pp, w.room, w.sums
    n = x[sums.observed]
    # About the reference and the center, v' = C h' + γ.
    for i in range(p):
        gamma = x[room.c + i] - center[i]
        s = 0.0
        for k in range(d):
            gamma += x[room.C + i * d + k] * x[sums.reference + k]
            s += x[room.C + i * d + k] * x[sums.seen + k]
        x[room.u + i] = gamma
        x[room.raw + i] = s
        x[sums.v + i] += s + n * gamma
        for j in range(d):
            s = gamma * x[sums.seen + j]
            for k in range(d):
                s += x[room.C + i * d + k] * x[sums.seen2 + k * dd + j]
            x[sums.vh + i * dd + j] += s
            # C Σhhᵀ, without γ.
            x[room.wide + i * d + j] = s - gamma * x[sums.seen + j]
    for i in range(p):
        for j in range(i + 1):
            s = n * x[room.R + i * p + j]
            for k in range(d):
                s += x[room.wide + i * d + k] * x[room.C + j * d + k]
            s += x[room.raw + i] * x[room.u + j] + x[room.u + i] * x[room.raw + j]
            s += n * x[room.u + i] * x[room.u + j]
            x[sums.vv + i * pp + j] += s
            if j < i:
                x[sums.vv + j * pp + i] += s
    x[sums.rows] += n


@helper
def add_own(x, w, lengths, shares, center):
    """Set the sums to ``S(Θ)``, about their reference; lengths ascend. False if infinite."""
    apart()
    d, dd, room, sums = w.d, w.dd, w.room, w.sums
    n = d * d
    begin = sums.first
    clear(x, sums.weight, sums.reference - sums.weight)
    clear(x, begin, sums.vv + w.p * w.pp - begin)
    load_transition(x, w, 0)
    load_observation(x, w, 0)
    copy(x, w.system.V, n, room.V)
    # The mean about the reference: μ' ← A μ' + (A ref + b - ref).
    for i in range(d):
        x[room.P + i] = x[w.system.m + i] - x[sums.reference + i]
        s = x[room.b + i] - x[sums.reference + i]
        for k in range(d):
            s += x[room.A + i * d + k] * x[sums.reference + k]
        x[room.old + i] = s
    now, after, shift = room.P, room.keep, room.old
    total = 0.0
    for k in range(lengths.shape[0]):
        total += shares[k]
        x[sums.observed] += shares[k] * lengths[k]
        x[sums.transitions] += shares[k] * (lengths[k] - 1)
    x[sums.weight] = total
    add(x, now, total, d, sums.first)
    _add_second(x, w, room.V, now, now, total, sums.first2)
    left, reached = total, 0
    t = 1
    previous = np.inf
    while reached < lengths.shape[0]:
        ending = 0.0
        while reached < lengths.shape[0] and lengths[reached] == t:
            ending += shares[reached]
            reached += 1
        for i in range(d):
            s = x[shift + i]
            for k in range(d):
                s += x[room.A + i * d + k] * x[now + k]
            x[after + i] = s
        multiply(x, room.A, room.V, d, d, d, room.lag)
        copy(x, room.Q, n, room.new)
        add_congruence(x, room.A, room.V, d, d, room.scratch, room.new)
        change = largest_change(x, room.new, room.V, d)
        for i in range(d):
            scale = np.sqrt(x[room.new + i * d + i]) + abs(x[after + i] + x[sums.reference + i])
            moved = abs(x[after + i] - x[now + i])
            if moved > change * scale:
                change = moved / scale if scale > 0.0 else np.inf
        if not change < np.inf and x[room.new] > 1e300:
            return False
        seen, later = left, left - ending
        left -= ending
        ratio = change / previous if previous > 0.0 else 0.0
        previous = change
        small = STEADY * max(1.0, 0.5 * d)
        steady = change <= small or (ratio < 0.9 and change <= 10.0 * small * (1.0 - ratio))
        if steady:
            for k in range(reached, lengths.shape[0]):
                seen += shares[k] * (lengths[k] - t)
                later += shares[k] * (lengths[k] - t - 1)
                ending += shares[k]
            reached = lengths.shape[0]
        add(x, now, seen, d, sums.seen)
        _add_second(x, w, room.V, now, now, seen, sums.seen2)
        add(x, now, ending, d, sums.last)
        _add_second(x, w, room.V, now, now, ending, sums.last2)
        _add_second(x, w, room.lag, after, now, later, sums.lag)
        copy(x, room.new, n, room.V)
        copy(x, after, d, now)
        t += 1
    for i in range(d * dd):
        if not abs(x[sums.seen2 + i]) < np.inf:
            return False
    _observe(x, w, center)
    return True


@kernel
def own(x, places, lengths, shares, center):
    """See :func:`add_own`, about the mean of the first state."""
    w = places[0]
    copy(x, w.system.m, w.d, w.sums.reference)
    return add_own(x, w, lengths, shares, center)
