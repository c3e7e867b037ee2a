"""The recursions with what they leave at every step given out, or taken in, as whole lattices.

``log α_t(k)``, ``log β_t(k)`` and ``log Σ_t ξ_t``, or the same scaled by the totals of the steps:
the forms in which hmmlearn's recursions exchange them.
"""

import numpy as np

from .. import simd
from ..options import inlined, kernel
from .chain import SMALL, TINY, log_matrix, padded_states, propagate_eight, propagate_four
from .forward import forward_alone
from .forward_backward import add_transitions_alone
from .given import (
    are_numbers,
    block_steps,
    chain_of,
    emit,
    forward_one,
    log_sum,
    propagate_logarithms,
    room_for_blocks,
)

# Exponents above this could overflow in a sum.
_LARGEST_EXPONENT = 600.0


@inlined
def _propagate(panels, size, x, y):
    """``y = Mᵀ x``; returns the sum of ``y``."""
    whole = size // 8 * 8
    total = simd.splat(0.0)
    for j in range(0, whole, 8):
        a, c = propagate_eight(panels, size, j, x, 0)
        simd.store(y, j, a)
        simd.store(y, j + 4, c)
        total = total + (a + c)
    if whole < size:
        a = propagate_four(panels, size, whole, x, 0)
        simd.store(y, whole, a)
        total = total + a
    return simd.total(total)


@kernel
def are_nonnegative(x):
    """Whether all entries are finite, and not negative."""
    flat = x.reshape(-1)
    n_wrong = 0
    for i in range(flat.shape[0]):
        n_wrong += 0 if 0.0 <= flat[i] < np.inf else 1
    return n_wrong == 0


# Logarithms ------------------------------------------------------------------------------------


@kernel
def forward_lattice(startprob, transmat, log_b, log_alpha):
    """``log α`` (T, K); the log-likelihood and True, or False where some number is none."""
    if not (are_nonnegative(startprob) and are_nonnegative(transmat) and are_numbers(log_b)):
        return 0.0, False
    chain = chain_of(startprob, transmat)
    n_steps = log_b.shape[0]
    room = room_for_blocks(padded_states(chain.n_states), n_steps)
    return forward_one(chain, log_b, 0, n_steps, True, log_alpha, np.empty(0), room), True


@kernel
def _backward_plainly(chain, log_b, log_beta):
    """``log β``; whether nothing was lost."""
    n_states = chain.n_states
    size = padded_states(n_states)
    n_steps = log_b.shape[0]
    b, beta, _, shifts, _ = room_for_blocks(size, n_steps)
    per_block = block_steps(size, n_steps)
    now, ahead = np.zeros(size), np.zeros(size)
    levels = np.empty(per_block)
    for k in range(n_states):
        now[k] = 1.0
    level = 0.0
    n_blocks = (n_steps + per_block - 1) // per_block
    for number in range(n_blocks - 1, -1, -1):
        begin = number * per_block
        n = min(per_block, n_steps - begin)
        emit(log_b, begin, n, size, b, shifts)
        for i in range(n - 1, -1, -1):
            at = i * size
            levels[i] = level
            for k in range(0, size, 4):
                y = simd.load(now, k)
                simd.store(beta, at + k, y)
                simd.store(ahead, k, simd.load(b, at + k) * y)
            total = max(_propagate(chain.backward_panels, size, ahead, now), TINY)
            scale = simd.splat(1.0 / total)
            for k in range(0, size, 4):
                simd.store(now, k, simd.load(now, k) * scale)
            level += shifts[i] + np.log(total)
        least = np.inf
        for i in range(n):
            for k in range(n_states):
                least = min(least, beta[i * size + k])
        if least < SMALL:
            return False
        for at in range(0, n * size, 4):
            floor = simd.splat(SMALL)  # of padded states
            simd.store(b, at, simd.log(simd.maximum(simd.load(beta, at), floor)))
        for i in range(n):
            for k in range(n_states):
                log_beta[begin + i, k] = b[i * size + k] + levels[i]
    return True


@kernel
def backward_lattice(startprob, transmat, log_b, log_beta):
    """``log β`` (T, K); False where some number is none."""
    if not (are_nonnegative(startprob) and are_nonnegative(transmat) and are_numbers(log_b)):
        return False
    chain = chain_of(startprob, transmat)
    if _backward_plainly(chain, log_b, log_beta):
        return True
    n_states = chain.n_states
    size = padded_states(n_states)
    _, log_transitions = log_matrix(chain)
    log_reversed = np.empty(size * size)
    for i in range(size):
        for j in range(size):
            log_reversed[j * size + i] = log_transitions[i * size + j]
    now, ahead, weights = np.zeros(n_states), np.empty(n_states), np.empty(n_states)
    for t in range(log_b.shape[0] - 1, -1, -1):
        for k in range(n_states):
            log_beta[t, k] = now[k]
            ahead[k] = now[k] + log_b[t, k]
        if t > 0:
            propagate_logarithms(chain.backward, log_reversed, size, ahead, weights, now)
    return True


@kernel
def _log_transition(log_alpha, log_beta, log_b, i, j, log_p, log_a):
    """``log Σ_t ξ_t(i, j)``, in logarithms."""
    top = -np.inf
    for t in range(1, log_b.shape[0]):
        top = max(top, log_alpha[t - 1, i] + log_beta[t, j] + log_b[t, j])
    if top == -np.inf:
        return top
    total = 0.0
    for t in range(1, log_b.shape[0]):
        total += np.exp(log_alpha[t - 1, i] + log_beta[t, j] + log_b[t, j] - top)
    return top + np.log(total) + log_a - log_p


@kernel
def transition_lattice(log_alpha, transmat, log_beta, log_b, out):
    """``out = log Σ_t ξ_t`` (K, K); False where some number is none, or nothing is possible."""
    fine = are_nonnegative(transmat) and are_numbers(log_b)
    n_steps, n_states = log_b.shape
    if not (fine and are_numbers(log_alpha) and are_numbers(log_beta)):
        return False
    log_p = log_sum(log_alpha[n_steps - 1])
    if log_p == -np.inf:
        return False
    size = padded_states(n_states)
    u, alpha, _, _, _ = room_for_blocks(size, n_steps)
    per_block = block_steps(size, n_steps)
    counts = np.zeros(size * size)
    plain = True
    for begin in range(1, n_steps, per_block):
        n = min(per_block, n_steps - begin)
        largest = -np.inf
        for i in range(n):
            t = begin + i
            top = -np.inf
            for k in range(n_states):
                top = max(top, log_alpha[t - 1, k])
            for k in range(n_states):
                alpha[i * size + k] = log_alpha[t - 1, k] - top
                x = log_beta[t, k] + log_b[t, k] + (top - log_p)
                u[i * size + k] = x
                largest = max(largest, x)
            for k in range(n_states, size):
                alpha[i * size + k] = -np.inf
                u[i * size + k] = -np.inf
        if not largest < _LARGEST_EXPONENT:
            plain = False
            break
        for at in range(0, n * size, 4):
            simd.store(alpha, at, simd.exp(simd.load(alpha, at)))
            simd.store(u, at, simd.exp(simd.load(u, at)))
        add_transitions_alone(alpha, u, size, 0, n, counts)
    for i in range(n_states):
        for j in range(n_states):
            log_a = np.log(transmat[i, j])
            x = counts[i * size + j]
            if log_a == -np.inf:
                out[i, j] = log_a
            elif plain and x > SMALL:
                out[i, j] = np.log(x) + log_a
            else:
                out[i, j] = _log_transition(log_alpha, log_beta, log_b, i, j, log_p, log_a)
    return True


# Scaled ----------------------------------------------------------------------------------------


@inlined
def _copy_rows(x, first, n, size, out):
    """Rows with states padded by zeros."""
    n_states = x.shape[1]
    for i in range(n):
        for k in range(n_states):
            out[i * size + k] = x[first + i, k]
        for k in range(n_states, size):
            out[i * size + k] = 0.0


@kernel
def forward_scaled(startprob, transmat, p, alpha_out, scaling):
    """α that sum to one (T, K), and 1 / totals (T,), for densities ``p``.

    Returns the log-likelihood, whether no total is next to nothing, and whether numbers are plain.
    """
    if not (are_nonnegative(startprob) and are_nonnegative(transmat) and are_nonnegative(p)):
        return 0.0, False, False
    chain = chain_of(startprob, transmat)
    n_steps, n_states = p.shape
    size = padded_states(n_states)
    b, alpha, _, _, totals = room_for_blocks(size, n_steps)
    per_block = block_steps(size, n_steps)
    score = 0.0
    for begin in range(0, n_steps, per_block):
        n = min(per_block, n_steps - begin)
        _copy_rows(p, begin, n, size, b)
        if begin > 0:
            totals[0] = totals[per_block]
            for k in range(size):
                alpha[k] = alpha[per_block * size + k]
        forward_alone(chain, size, b, n, begin > 0, alpha, totals)
        for i in range(n):
            total = totals[i + 1]
            if not total > TINY:
                return 0.0, False, True
            share = 1.0 / total
            scaling[begin + i] = share
            score += np.log(total)
            for k in range(n_states):
                alpha_out[begin + i, k] = alpha[(i + 1) * size + k] * share
    return score, True, True


@kernel
def backward_scaled(startprob, transmat, p, scaling, beta):
    """β scaled by the same numbers (T, K); False where some number is none."""
    if not (are_nonnegative(transmat) and are_nonnegative(p) and are_nonnegative(scaling)):
        return False
    chain = chain_of(startprob, transmat)
    n_steps, n_states = p.shape
    size = padded_states(n_states)
    now, ahead = np.zeros(size), np.zeros(size)
    for k in range(n_states):
        now[k] = 1.0
    for t in range(n_steps - 1, -1, -1):
        for k in range(n_states):
            x = now[k] * scaling[t]
            beta[t, k] = x
            ahead[k] = x * p[t, k]
        if t > 0:
            _propagate(chain.backward_panels, size, ahead, now)
    return True


@kernel
def transitions_scaled(alpha_in, transmat, beta, p, out):
    """``out = Σ_t ξ_t`` (K, K); False where some number is none."""
    fine = are_nonnegative(transmat) and are_nonnegative(p)
    if not (fine and are_nonnegative(alpha_in) and are_nonnegative(beta)):
        return False
    n_steps, n_states = p.shape
    size = padded_states(n_states)
    u, alpha, _, _, _ = room_for_blocks(size, n_steps)
    per_block = block_steps(size, n_steps)
    counts = np.zeros(size * size)
    for begin in range(1, n_steps, per_block):
        n = min(per_block, n_steps - begin)
        _copy_rows(alpha_in, begin - 1, n, size, alpha)
        for i in range(n):
            for k in range(n_states):
                u[i * size + k] = p[begin + i, k] * beta[begin + i, k]
            for k in range(n_states, size):
                u[i * size + k] = 0.0
        add_transitions_alone(alpha, u, size, 0, n, counts)
    for i in range(n_states):
        for j in range(n_states):
            out[i, j] = counts[i * size + j] * transmat[i, j]
    return True
