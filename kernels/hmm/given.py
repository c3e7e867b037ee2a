"""The recursions over log-likelihoods that somebody else has computed, (rows, K).

Sequences lie one after another in the rows, and are taken one after another, in blocks of steps
that stay in the cache. Plain numbers are used as in ``forward_backward``; what is, or may be, lost
to underflow is done again in logarithms.
"""

import numpy as np

from .. import simd
from ..log_space import log_backward, log_forward
from ..options import brief_kernel, inlined, kernel
from .backward import backward_alone, posteriors_alone
from .chain import SMALL, Chain, log_matrix, longest_of, padded_states, set_chain
from .emissions import LEAST
from .forward import forward_alone
from .forward_backward import add_transitions_alone
from .viterbi import viterbi_alone

#: What ``check_given`` found.
FINE, WRONG_VALUES, WRONG_START, WRONG_TRANSITIONS = 0, 1, 2, 3

#: What is returned in place of a log-likelihood if something is wrong, or left to other kernels.
NOT_DONE = np.nan

# As ``numpy.isclose`` of a sum with one.
_NEAR_ONE = 1e-5 + 1e-8

# States times steps of a block, and the least steps.
_BLOCK_ENTRIES = 4096
_BLOCK_STEPS = 64

# Up to so many entries nothing is allocated: it would take longer than the recursion.
_FEW_ENTRIES = 1024
# Up to so many are looked at as they lie: another shape would take longer.
_FEWEST_ENTRIES = 128
# Up to so many a path is found in microseconds.
_MANY_ENTRIES = 8192
# Paths: of more states vectors are faster, but for a few steps.
_MANY_STATES = 8
_FEW_STEPS = 64
# Of so many states, and fewer, the likeliest predecessors of each are kept.
_KEPT_STATES = 16


@kernel
def are_numbers(log_likelihoods):
    """Whether no entry is NaN or plus infinity."""
    n_wrong = 0
    if log_likelihoods.size <= _FEWEST_ENTRIES:
        for t in range(log_likelihoods.shape[0]):
            for k in range(log_likelihoods.shape[1]):
                n_wrong += 0 if log_likelihoods[t, k] < np.inf else 1
        return n_wrong == 0
    flat = log_likelihoods.reshape(-1)
    for i in range(flat.shape[0]):
        n_wrong += 0 if flat[i] < np.inf else 1
    return n_wrong == 0


@inlined
def are_probabilities(total, least):
    """Whether numbers of this sum and this least one are probabilities; NaN makes the sum NaN."""
    return least >= 0.0 and abs(total - 1.0) <= _NEAR_ONE


@kernel
def check_given(log_likelihoods, startprob, transmat):
    """``FINE``, or what is not: a value, the start, or a row of the transition matrix."""
    n_states = startprob.shape[0]
    total = 0.0
    least = np.inf
    for k in range(n_states):
        total += startprob[k]
        least = min(least, startprob[k])
    if not are_probabilities(total, least):
        return WRONG_START
    for i in range(n_states):
        total = 0.0
        least = np.inf
        for j in range(n_states):
            total += transmat[i, j]
            least = min(least, transmat[i, j])
        if not are_probabilities(total, least):
            return WRONG_TRANSITIONS
    return FINE if are_numbers(log_likelihoods) else WRONG_VALUES


@inlined
def fit_together(log_likelihoods, startprob, transmat, n_rows):
    """Whether there is something, and sizes agree with each other and with rows for results."""
    n_steps, n_states = log_likelihoods.shape
    return (
        n_steps > 0
        and n_states > 0
        and n_rows == n_steps
        and startprob.shape[0] == n_states
        and transmat.shape[0] == n_states
        and transmat.shape[1] == n_states
    )


@kernel
def chain_of(startprob, transmat):
    """A chain whose states never end a sequence."""
    n_states = startprob.shape[0]
    size = padded_states(n_states)
    chain = Chain(
        n_states, np.zeros(size), np.zeros(size * size), np.zeros(size * size),
        np.zeros(size * size), np.zeros(size * size), np.empty(0, dtype=np.uint8),
    )  # fmt: skip
    set_chain(chain, startprob, transmat)
    return chain


@inlined
def block_steps(size, n_steps):
    """Steps of a block."""
    return min(max(_BLOCK_ENTRIES // size, _BLOCK_STEPS), n_steps)


@kernel
def emit(log_likelihoods, first, n, size, b, shifts):
    """``b[i * size + k] = exp(x - shifts[i])`` of ``n`` rows, the shift being the largest x."""
    n_states = log_likelihoods.shape[1]
    for i in range(n):
        top = LEAST
        for k in range(n_states):
            top = max(top, log_likelihoods[first + i, k])
        shifts[i] = top
        at = i * size
        for k in range(n_states):
            b[at + k] = log_likelihoods[first + i, k] - top
        for k in range(n_states, size):
            b[at + k] = -np.inf
    for at in range(0, n * size, 4):
        simd.store(b, at, simd.exp(simd.load(b, at)))


@kernel
def pad(log_likelihoods, first, n, size, log_b):
    """Rows with states padded by impossible ones."""
    n_states = log_likelihoods.shape[1]
    for i in range(n):
        for k in range(n_states):
            log_b[i * size + k] = log_likelihoods[first + i, k]
        for k in range(n_states, size):
            log_b[i * size + k] = -np.inf


# Forward ---------------------------------------------------------------------------------------


@kernel
def propagate_logarithms(matrix, log_matrix, size, log_x, weights, out):
    """``out[j] = log Σ_i exp(log_x[i]) M_ij``, for any numbers. ``weights`` is work space."""
    n = log_x.shape[0]
    top = -np.inf
    for i in range(n):
        top = max(top, log_x[i])
    if top == -np.inf:
        for j in range(n):
            out[j] = top
        return
    for i in range(n):
        weights[i] = np.exp(log_x[i] - top)
    for j in range(n):
        total = 0.0
        for i in range(n):
            total += weights[i] * matrix[i * size + j]
        if total > SMALL:
            out[j] = top + np.log(total)
            continue
        # Terms may be lost to underflow, or there are none.
        best = -np.inf
        for i in range(n):
            best = max(best, log_x[i] + log_matrix[i * size + j])
        out[j] = best
        if best > -np.inf:
            total = 0.0
            for i in range(n):
                total += np.exp(log_x[i] + log_matrix[i * size + j] - best)
            out[j] = best + np.log(total)


@kernel
def forward_by_logarithms(chain, log_likelihoods, first, n_steps, log_alpha):
    """``log α`` of rows from ``first`` into rows of the same numbers; returns the likelihood's."""
    n_states = chain.n_states
    log_start, log_transitions = log_matrix(chain)
    now, before, weights = np.empty(n_states), np.empty(n_states), np.empty(n_states)
    for t in range(first, first + n_steps):
        if t == first:
            for k in range(n_states):
                now[k] = log_start[k]
        else:
            propagate_logarithms(
                chain.forward, log_transitions, padded_states(n_states), before, weights, now
            )
        for k in range(n_states):
            now[k] += log_likelihoods[t, k]
            before[k] = now[k]
            log_alpha[t, k] = now[k]
    return log_sum(before)


@kernel
def log_sum(x):
    """``log Σ exp x``."""
    top = -np.inf
    for k in range(x.shape[0]):
        top = max(top, x[k])
    if top == -np.inf:
        return top
    total = 0.0
    for k in range(x.shape[0]):
        total += np.exp(x[k] - top)
    return top + np.log(total)


@kernel
def forward_plainly(
    chain, log_likelihoods, first, n_steps, logarithms, out, log_scales, b, alpha, shifts, totals
):  # fmt: skip
    """Forward over a sequence from row ``first``: its log-likelihood, and whether it is certain.

    ``out`` are the probabilities of states given what came so far, or with ``logarithms``
    ``log α``; ``log_scales`` are the log-densities of rows given those before, if there is room.
    """
    n_states = chain.n_states
    size = padded_states(n_states)
    per_block = block_steps(size, n_steps)
    score = 0.0
    for begin in range(0, n_steps, per_block):
        n = min(per_block, n_steps - begin)
        row = first + begin
        emit(log_likelihoods, row, n, size, b, shifts)
        if begin > 0:
            totals[0] = totals[per_block]
            for k in range(size):
                alpha[k] = alpha[per_block * size + k]
        forward_alone(chain, size, b, n, begin > 0, alpha, totals)
        least = np.inf
        for i in range(1, n + 1):
            for k in range(n_states):
                least = min(least, alpha[i * size + k])
        if least < SMALL:
            return score, False
        if logarithms:
            # ``b`` is not needed any more.
            for at in range(0, n * size, 4):
                floor = simd.splat(SMALL)  # of padded states
                simd.store(b, at, simd.log(simd.maximum(simd.load(alpha, at + size), floor)))
        for i in range(n):
            at = (i + 1) * size
            if logarithms:
                # log c of the step before was left out of this α.
                here = score + shifts[i]
                for k in range(n_states):
                    out[row + i, k] = b[i * size + k] + here
            else:
                share = 1.0 / totals[i + 1]
                for k in range(n_states):
                    out[row + i, k] = alpha[at + k] * share
            gained = np.log(totals[i + 1]) + shifts[i]
            if log_scales.shape[0] > 0:
                log_scales[row + i] = gained
            score += gained
    return score, True


@kernel
def room_for_blocks(size, n_steps):
    """``b``, ``alpha`` and one array more of a block, shifts and totals."""
    n = block_steps(size, n_steps) + 16
    return (
        np.empty(n * size),
        np.empty(n * size),
        np.empty(n * size),
        np.empty(n),
        np.empty(n),
    )


@kernel
def forward_one(chain, log_likelihoods, first, n_steps, logarithms, out, log_scales, room):
    """As ``forward_plainly``, certainly; returns the log-likelihood."""
    b, alpha, _, shifts, totals = room
    score, certain = forward_plainly(
        chain, log_likelihoods, first, n_steps, logarithms, out, log_scales, b, alpha, shifts,
        totals,
    )  # fmt: skip
    if certain:
        return score
    score = forward_by_logarithms(chain, log_likelihoods, first, n_steps, out)
    if not logarithms:
        before = 0.0
        for t in range(first, first + n_steps):
            total = log_sum(out[t])
            for k in range(chain.n_states):
                out[t, k] = np.exp(out[t, k] - total) if total > -np.inf else 0.0
            if log_scales.shape[0] > 0:
                log_scales[t] = total - before if before > -np.inf else -np.inf
            before = total
    return score


@kernel
def forward_few(log_likelihoods, first, n_steps, startprob, transmat, filtered, log_scales):
    """As ``forward_plainly`` without ``logarithms``, for a few rows: in place."""
    n_states = startprob.shape[0]
    score = 0.0
    for t in range(first, first + n_steps):
        top = LEAST
        for k in range(n_states):
            top = max(top, log_likelihoods[t, k])
        total = 0.0
        least = np.inf
        for k in range(n_states):
            a = startprob[k]
            if t > first:
                a = 0.0
                for i in range(n_states):
                    a += filtered[t - 1, i] * transmat[i, k]
            a *= np.exp(log_likelihoods[t, k] - top)
            filtered[t, k] = a
            total += a
            least = min(least, a)
        if not (least > SMALL and total > SMALL):
            return score, False
        share = 1.0 / total
        for k in range(n_states):
            filtered[t, k] *= share
        log_scales[t] = top + np.log(total)
        score += log_scales[t]
    return score, True


@kernel
def forward_given(
    log_likelihoods, lengths, startprob, transmat, logarithms, out, log_scales, scores
):  # fmt: skip
    """Forward over all sequences; ``out`` and ``log_scales`` as for ``forward_plainly``.

    Of an impossible sequence the log-likelihood is minus infinity, and so are ``log_scales`` from
    the step on that cannot be; the probabilities are zero there.
    """
    problem = check_given(log_likelihoods, startprob, transmat)
    if problem != FINE:
        return problem
    if log_likelihoods.size <= _FEW_ENTRIES and not logarithms:
        certain = True
        first = 0
        for s in range(lengths.shape[0]):
            if certain:
                scores[s], certain = forward_few(
                    log_likelihoods, first, lengths[s], startprob, transmat, out, log_scales
                )
            first += lengths[s]
        if certain:
            return FINE
    chain = chain_of(startprob, transmat)
    room = room_for_blocks(padded_states(chain.n_states), longest_of(lengths))
    first = 0
    for s in range(lengths.shape[0]):
        scores[s] = forward_one(
            chain, log_likelihoods, first, lengths[s], logarithms, out, log_scales, room
        )
        first += lengths[s]
    return FINE


@brief_kernel
def forward_at_once(log_likelihoods, startprob, transmat, filtered, log_scales):
    """As ``forward_given`` for one sequence of a few rows, whose sizes are compared here.

    Returns the log-likelihood, or ``NOT_DONE``. Each argument that Python passes takes as long as
    a few steps do.
    """
    n_steps, n_states = log_likelihoods.shape
    if not (
        fit_together(log_likelihoods, startprob, transmat, filtered.shape[0])
        and filtered.shape[1] == n_states
        and log_scales.shape[0] == n_steps
        and n_steps * n_states <= _FEW_ENTRIES
        and check_given(log_likelihoods, startprob, transmat) == FINE
    ):
        return NOT_DONE
    score, certain = forward_few(
        log_likelihoods, 0, n_steps, startprob, transmat, filtered, log_scales
    )
    return score if certain else NOT_DONE


# Forward and backward --------------------------------------------------------------------------


@kernel
def smooth_plainly(chain, log_likelihoods, first, n_steps, gamma, totals, counts, room):
    """Posteriors of a sequence into rows of ``gamma``, its log-likelihood, and whether certain.

    ``totals`` has room for the rows. Transitions are added to ``counts``, (size²), before they are
    multiplied by the matrix.
    """
    n_states = chain.n_states
    size = padded_states(n_states)
    b, alpha, beta, shifts, block_totals = room
    per_block = block_steps(size, n_steps)
    score = 0.0
    # Forward: α is kept where γ will be.
    for begin in range(0, n_steps, per_block):
        n = min(per_block, n_steps - begin)
        row = first + begin
        emit(log_likelihoods, row, n, size, b, shifts)
        if begin > 0:
            block_totals[0] = block_totals[per_block]
            for k in range(size):
                alpha[k] = alpha[per_block * size + k]
        forward_alone(chain, size, b, n, begin > 0, alpha, block_totals)
        for i in range(n):
            for k in range(n_states):
                gamma[row + i, k] = alpha[(i + 1) * size + k]
            totals[row + i] = block_totals[i + 1]
            score += np.log(block_totals[i + 1]) + shifts[i]
    last = np.zeros(size)
    for k in range(n_states):
        last[k] = 1.0
    for i in range(alpha.shape[0]):
        alpha[i] = 0.0  # padded states
    n_blocks = (n_steps + per_block - 1) // per_block
    for number in range(n_blocks - 1, -1, -1):
        begin = number * per_block
        n = min(per_block, n_steps - begin)
        row = first + begin
        if n_blocks > 1:
            emit(log_likelihoods, row, n, size, b, shifts)
        for i in range(-1 if begin > 0 else 0, n):
            for k in range(n_states):
                alpha[(i + 1) * size + k] = gamma[row + i, k]
            block_totals[i + 1] = totals[row + i]
        if begin == 0:
            block_totals[0] = 1.0
            for k in range(size):
                alpha[k] = 0.0
        backward_alone(chain, size, b, n, last, beta)
        if posteriors_alone(size, b, alpha, block_totals, beta, 0, n, 1.0):
            return score, False
        add_transitions_alone(alpha, b, size, 1 if begin == 0 else 0, n, counts)
        for i in range(n):
            for k in range(n_states):
                gamma[row + i, k] = beta[i * size + k]
    return score, True


@kernel
def smooth_by_logarithms(chain, log_likelihoods, first, n_steps, gamma, transitions):
    """As ``smooth_plainly``, in logarithms; transitions as they are, (size²)."""
    n_states = chain.n_states
    size = padded_states(n_states)
    log_b, log_alpha = np.empty(n_steps * size), np.empty(n_steps * size)
    pad(log_likelihoods, first, n_steps, size, log_b)
    score = log_forward(chain, size, log_b, n_steps, log_alpha)
    if score > -np.inf:
        log_backward(chain, size, log_b, n_steps, 1.0, log_alpha, score, transitions)
    for t in range(n_steps):
        for k in range(n_states):
            gamma[first + t, k] = log_alpha[t * size + k] if score > -np.inf else 0.0
    return score


@kernel
def smooth_given(
    log_likelihoods, lengths, startprob, transmat, gamma, totals, start, transitions, scores
):  # fmt: skip
    """Posteriors (rows, K), sums of those of the first steps and of transitions, log-likelihoods.

    An impossible sequence has the log-likelihood minus infinity, and posteriors of zero.
    """
    problem = check_given(log_likelihoods, startprob, transmat)
    if problem != FINE:
        return problem
    chain = chain_of(startprob, transmat)
    n_states = chain.n_states
    size = padded_states(n_states)
    room = room_for_blocks(size, longest_of(lengths))
    counts, here, exact = np.zeros(size * size), np.zeros(size * size), np.zeros(size * size)
    first = 0
    for s in range(lengths.shape[0]):
        for i in range(size * size):
            here[i] = 0.0
        scores[s], certain = smooth_plainly(
            chain, log_likelihoods, first, lengths[s], gamma, totals, here, room
        )
        if certain:
            for i in range(size * size):
                counts[i] += here[i]
        else:
            scores[s] = smooth_by_logarithms(
                chain, log_likelihoods, first, lengths[s], gamma, exact
            )
        for k in range(n_states):
            start[k] += gamma[first, k]
        first += lengths[s]
    for i in range(n_states):
        for j in range(n_states):
            at = i * size + j
            transitions[i, j] += counts[at] * chain.forward[at] + exact[at]
    return FINE


@brief_kernel
def smooth_at_once(log_likelihoods, startprob, transmat, gamma, start, transitions):
    """As ``smooth_given`` for one sequence of a few rows, whose sizes are compared here.

    Returns the log-likelihood, or ``NOT_DONE``. All of ``start`` and ``transitions`` is set.
    """
    n_steps, n_states = log_likelihoods.shape
    if not (
        fit_together(log_likelihoods, startprob, transmat, gamma.shape[0])
        and gamma.shape[1] == n_states
        and start.shape[0] == n_states
        and transitions.shape[0] == n_states
        and transitions.shape[1] == n_states
        and n_steps * n_states <= _FEW_ENTRIES
    ):
        return NOT_DONE
    for i in range(n_states):
        start[i] = 0.0
        for j in range(n_states):
            transitions[i, j] = 0.0
    score = np.empty(1)
    problem = smooth_given(
        log_likelihoods, np.array([n_steps]), startprob, transmat, gamma, np.empty(n_steps), start,
        transitions, score,
    )  # fmt: skip
    return score[0] if problem == FINE else NOT_DONE


# Paths -----------------------------------------------------------------------------------------


@inlined
def _later(top, best, value, i):
    """The larger of two values and its index, the later one if they are equal."""
    if value >= top:
        return value, i
    return top, best


@inlined
def _best_of_four(d0, d1, d2, d3, log_a, at):
    """The largest ``δ(i) + log A_ij`` and its i, the last of equal ones; ``log_a[at + i]``."""
    a, i = _later(d0 + log_a[at], 0, d1 + log_a[at + 1], 1)
    b, j = _later(d2 + log_a[at + 2], 2, d3 + log_a[at + 3], 3)
    return _later(a, i, b, j)


@kernel
def _decode_two(log_start, log_a, log_b, first, n_steps, states, before):
    """As ``decode_directly`` for two states, in registers; ``log_a[4 j + i]``."""
    d0, d1 = log_start[0] + log_b[first, 0], log_start[1] + log_b[first, 1]
    a00, a10, a01, a11 = log_a[0], log_a[1], log_a[4], log_a[5]
    for t in range(1, n_steps):
        top0, from0 = _later(d0 + a00, 0, d1 + a10, 1)
        top1, from1 = _later(d0 + a01, 0, d1 + a11, 1)
        d0 = top0 + log_b[first + t, 0]
        d1 = top1 + log_b[first + t, 1]
        before[t] = from0 + 2 * from1
    top = max(d0, d1)
    j = 0 if d0 >= d1 else 1
    for t in range(n_steps - 1, 0, -1):
        came = before[t]  # which may lie where the state is put
        states[first + t] = j
        j = (came >> j) & 1
    states[first] = j
    return top


@kernel
def _decode_four(log_start, log_a, log_b, first, n_steps, states, before):
    """As ``decode_directly`` for three or four states, in registers; ``log_a[4 j + i]``."""
    n_states = log_b.shape[1]
    last = n_states - 1
    d0, d1 = log_start[0] + log_b[first, 0], log_start[1] + log_b[first, 1]
    d2, d3 = log_start[2] + log_b[first, 2], -np.inf
    if n_states == 4:
        d3 = log_start[3] + log_b[first, 3]
    for t in range(1, n_steps):
        x, from0 = _best_of_four(d0, d1, d2, d3, log_a, 0)
        y, from1 = _best_of_four(d0, d1, d2, d3, log_a, 4)
        z, from2 = _best_of_four(d0, d1, d2, d3, log_a, 8)
        from3 = 0
        if n_states == 4:
            u, from3 = _best_of_four(d0, d1, d2, d3, log_a, 12)
            d3 = u + log_b[first + t, 3]
        d0 = x + log_b[first + t, 0]
        d1 = y + log_b[first + t, 1]
        d2 = z + log_b[first + t, 2]
        before[t] = from0 + 4 * from1 + 16 * from2 + 64 * from3
    top, j = d0, 0
    if d1 > top:
        top, j = d1, 1
    if d2 > top:
        top, j = d2, 2
    if d3 > top:
        top, j = d3, 3
    for t in range(n_steps - 1, 0, -1):
        # If nothing is possible, a state that there is not may be equal to the others.
        j = min(j, last)
        came = before[t]
        states[first + t] = j
        j = (came >> (2 * j)) & 3
    states[first] = min(j, last)
    return top


@kernel
def _decode_few(log_start, log_a, log_b, first, n_steps, states, before):
    """As ``decode_directly`` for any number of states; ``log_a[j * n_states + i]``."""
    n_states = log_b.shape[1]
    delta = np.empty(2 * n_states)
    for k in range(n_states):
        delta[k] = log_start[k] + log_b[first, k]
    old, new = 0, n_states
    for t in range(1, n_steps):
        for j in range(n_states):
            top, best = -np.inf, 0
            for i in range(n_states):
                value = delta[old + i] + log_a[j * n_states + i]
                is_later = value >= top
                best = i if is_later else best
                top = value if is_later else top
            delta[new + j] = top + log_b[first + t, j]
            before[t * n_states + j] = best
        old, new = new, old
    top, j = delta[old], 0
    for k in range(1, n_states):
        if delta[old + k] > top:
            top, j = delta[old + k], k
    for t in range(n_steps - 1, -1, -1):
        states[first + t] = j
        j = before[t * n_states + j]
    return top


@inlined
def is_direct(n_states, longest):
    """Whether paths are found by ``decode_directly``."""
    return n_states < _MANY_STATES or (n_states < 256 and longest < _FEW_STEPS)


@kernel
def logarithms_of(startprob, transmat):
    """Logarithms as ``decode_one`` reads them, and whether these are probabilities."""
    n_states = startprob.shape[0]
    stride = n_states if n_states == 1 or n_states > 4 else 4
    logarithms = np.empty(stride * (stride + 1))
    fine = True
    start, least_start = 0.0, np.inf
    for i in range(n_states):
        start += startprob[i]
        least_start = min(least_start, startprob[i])
        logarithms[i] = np.log(startprob[i])
        total, least = 0.0, np.inf
        for j in range(n_states):
            total += transmat[i, j]
            least = min(least, transmat[i, j])
            logarithms[(j + 1) * stride + i] = np.log(transmat[i, j])
        fine = fine and are_probabilities(total, least)
    for i in range(n_states, stride):
        for j in range(stride):
            logarithms[(j + 1) * stride + i] = -np.inf
    fine = fine and are_probabilities(start, least_start)
    return logarithms[:n_states], logarithms[stride:], fine


@inlined
def room_for_predecessors(n_states, longest):
    """An array for the predecessors of each step's states."""
    each = 1 if 1 < n_states <= 4 else n_states
    return np.empty(longest * each, dtype=np.uint8)


@kernel
def decode_one(log_start, log_a, log_likelihoods, first, n_steps, states, before):
    """The likeliest path of one sequence; returns its log-probability."""
    n_states = log_start.shape[0]
    if n_states == 2:
        return _decode_two(log_start, log_a, log_likelihoods, first, n_steps, states, before)
    if 2 < n_states <= 4:
        return _decode_four(log_start, log_a, log_likelihoods, first, n_steps, states, before)
    return _decode_few(log_start, log_a, log_likelihoods, first, n_steps, states, before)


@kernel
def decode_directly(log_likelihoods, lengths, startprob, transmat, states, scores):
    """Likeliest paths of few states, or of few steps: log-likelihoods are read where they are.

    Of equal predecessors the last is taken, and of equal ends the first.
    """
    log_start, log_a, _ = logarithms_of(startprob, transmat)
    before = room_for_predecessors(startprob.shape[0], longest_of(lengths))
    first = 0
    for s in range(lengths.shape[0]):
        scores[s] = decode_one(log_start, log_a, log_likelihoods, first, lengths[s], states, before)
        first += lengths[s]


@kernel
def decode_by_vectors(chain, log_likelihoods, first, n_steps, states):
    """The likeliest path of one sequence of many states; returns its log-probability.

    Of up to sixteen states, those before each one are kept, as bytes: of a million steps and eight
    states δ itself would be 64 MB, and the first use of that memory took longer than all sums. Of
    64 states, finding one of them again takes less time than keeping all.
    """
    n_states = chain.n_states
    size = padded_states(n_states)
    if n_states > _KEPT_STATES:
        log_b = np.empty((n_steps + 16) * size)
        pad(log_likelihoods, first, n_steps, size, log_b)
        return viterbi_alone(chain, n_steps, log_b, states[first : first + n_steps])
    log_start, log_a = log_matrix(chain)
    block = block_steps(size, n_steps)
    # δ of a block of steps, after that of the step before.
    delta = np.empty((block + 17) * size)
    ways = np.zeros((block + 16) * size)
    before = np.empty(n_steps * size, dtype=np.uint8)
    for begin in range(0, n_steps, block):
        n = min(block, n_steps - begin)
        pad(log_likelihoods, first + begin, n, size, delta[size:])
        if begin == 0:
            for k in range(n_states):
                delta[size + k] += log_start[k]
        _advance_block(n_states, size, log_a, 1 if begin == 0 else 0, n, delta, ways)
        for at in range(n * size):
            before[begin * size + at] = np.uint8(ways[at])
        for k in range(size):
            delta[k] = delta[n * size + k]
    last = 0
    for k in range(n_states):
        if delta[k] > delta[last]:
            last = k
    j = last
    for t in range(n_steps - 1, -1, -1):
        states[first + t] = j
        j = np.int64(before[t * size + j])
    return delta[last]


@kernel
def _advance_block(n_states, size, log_a, begin, n_steps, delta, ways):
    """δ of steps ``begin .. n_steps - 1`` from row ``t + 1`` of ``delta``, which has log b there.

    ``ways[t * size + j]`` becomes the state before state j of step t; of equal ones the last.
    """
    for t in range(begin, n_steps):
        at = (t + 1) * size
        for j in range(0, size, 4):
            top = simd.splat(-np.inf)
            way = simd.splat(0.0)
            for i in range(n_states):
                value = simd.load(log_a, i * size + j) + simd.splat(delta[at - size + i])
                way = simd.where_above(top, value, way, simd.splat(float(i)))
                top = simd.maximum(value, top)
            simd.store(delta, at + j, simd.load(delta, at + j) + top)
            simd.store(ways, t * size + j, way)


@kernel
def _decode_few_steps(log_likelihoods, startprob, transmat, states):
    """The likeliest path of a few steps; returns its log-probability, or ``NOT_DONE``.

    Values are looked at where they are read anyway, and all that is kept is in one array: of ten
    steps, another pass over the arrays takes as long as a few steps.
    """
    n_steps, n_states = log_likelihoods.shape
    size = padded_states(n_states)
    # The logarithms of the transition matrix, δ, and the states before each.
    delta = size * size
    ways = delta + n_steps * size
    room = np.empty(ways + n_steps * size)
    for i in range(n_states):
        total, least = 0.0, np.inf
        for j in range(n_states):
            share = transmat[i, j]
            total += share
            least = min(least, share)
            room[i * size + j] = np.log(share)
        for j in range(n_states, size):
            room[i * size + j] = -np.inf
        if not are_probabilities(total, least):
            return NOT_DONE
    n_wrong = 0
    for t in range(n_steps):
        at = delta + t * size
        for k in range(n_states):
            value = log_likelihoods[t, k]
            n_wrong += 0 if value < np.inf else 1
            room[at + k] = value
        for k in range(n_states, size):
            room[at + k] = -np.inf
    total, least = 0.0, np.inf
    for k in range(n_states):
        total += startprob[k]
        least = min(least, startprob[k])
        room[delta + k] += np.log(startprob[k])
    if n_wrong > 0 or not are_probabilities(total, least):
        return NOT_DONE
    for t in range(1, n_steps):
        at = delta + t * size
        for j in range(0, size, 4):
            top = simd.splat(-np.inf)
            way = simd.splat(0.0)
            # Of equal ones the last.
            for i in range(n_states):
                value = simd.load(room, i * size + j) + simd.splat(room[at - size + i])
                way = simd.where_above(top, value, way, simd.splat(float(i)))
                top = simd.maximum(value, top)
            simd.store(room, at + j, simd.load(room, at + j) + top)
            simd.store(room, ways + t * size + j, way)
    at = delta + (n_steps - 1) * size
    top, j = room[at], 0
    for k in range(1, n_states):
        if room[at + k] > top:
            top, j = room[at + k], k
    for t in range(n_steps - 1, 0, -1):
        states[t] = j
        j = np.int64(room[ways + t * size + j])
    states[0] = j
    return top


@brief_kernel
def decode_at_once(log_likelihoods, startprob, transmat, states):
    """As ``decode_given`` for one sequence that is not long, whose sizes are compared here.

    Returns the log-probability, or ``NOT_DONE``.
    """
    n_steps, n_states = log_likelihoods.shape
    if not (
        fit_together(log_likelihoods, startprob, transmat, states.shape[0])
        and n_steps * n_states <= _MANY_ENTRIES
    ):
        return NOT_DONE
    if n_steps <= _FEW_STEPS and not 2 <= n_states <= 4:
        return _decode_few_steps(log_likelihoods, startprob, transmat, states)
    if not is_direct(n_states, n_steps):
        if check_given(log_likelihoods, startprob, transmat) != FINE:
            return NOT_DONE
        return decode_by_vectors(chain_of(startprob, transmat), log_likelihoods, 0, n_steps, states)
    log_start, log_a, are_fine = logarithms_of(startprob, transmat)
    if not (are_fine and are_numbers(log_likelihoods)):
        return NOT_DONE
    if n_steps <= _FEW_STEPS and 1 < n_states <= 4:
        # Where states will be, there is room for the predecessors.
        return decode_one(log_start, log_a, log_likelihoods, 0, n_steps, states, states)
    before = room_for_predecessors(n_states, n_steps)
    return decode_one(log_start, log_a, log_likelihoods, 0, n_steps, states, before)


@kernel
def decode_given(log_likelihoods, lengths, startprob, transmat, states, scores):
    """The likeliest path of each sequence, and its log-probability."""
    problem = check_given(log_likelihoods, startprob, transmat)
    if problem != FINE:
        return problem
    n_states = startprob.shape[0]
    if is_direct(n_states, longest_of(lengths)):
        decode_directly(log_likelihoods, lengths, startprob, transmat, states, scores)
        return FINE
    chain = chain_of(startprob, transmat)
    first = 0
    for s in range(lengths.shape[0]):
        scores[s] = decode_by_vectors(chain, log_likelihoods, first, lengths[s], states)
        first += lengths[s]
    return FINE


@inlined
def chosen(weights, n, total, u):
    """The first index at which the running sum of ``weights`` is above ``u · total``."""
    running = 0.0
    last = 0
    for i in range(n):
        if weights[i] > 0.0:
            last = i
        running += weights[i]
        if u * total < running:
            return i
    return last


@kernel
def sample_given(
    log_likelihoods, lengths, startprob, transmat, uniforms, log_alpha, states, scores
):
    """Paths from the posterior: ``states[:, row]``, by ``uniforms`` (rows, samples).

    ``P(i | next state j, what came so far) ∝ α_t(i) A_ij``, from the last step to the first.
    """
    nothing = np.empty(0)
    problem = forward_given(
        log_likelihoods, lengths, startprob, transmat, True, log_alpha, nothing, scores
    )
    if problem != FINE:
        return problem
    n_states = startprob.shape[0]
    n_samples = uniforms.shape[1]
    backward = np.empty((n_states, n_states))
    for i in range(n_states):
        for j in range(n_states):
            backward[j, i] = transmat[i, j]
    p, weights = np.empty(n_states), np.empty(n_states)
    first = 0
    for s in range(lengths.shape[0]):
        last = first + lengths[s] - 1
        if scores[s] == -np.inf:
            first = last + 1
            continue
        for t in range(last, first - 1, -1):
            top = -np.inf
            for k in range(n_states):
                top = max(top, log_alpha[t, k])
            for k in range(n_states):
                p[k] = np.exp(log_alpha[t, k] - top)
            for m in range(n_samples):
                for i in range(n_states):
                    weights[i] = p[i] if t == last else p[i] * backward[states[m, t + 1], i]
                total = 0.0
                for i in range(n_states):
                    total += weights[i]
                if total < SMALL:
                    # What can be followed by that state is very unlikely so far.
                    j = states[m, t + 1]
                    best = -np.inf
                    for i in range(n_states):
                        weights[i] = log_alpha[t, i] + np.log(backward[j, i])
                        best = max(best, weights[i])
                    for i in range(n_states):
                        weights[i] = np.exp(weights[i] - best)
                    total = 0.0
                    for i in range(n_states):
                        total += weights[i]
                states[m, t] = chosen(weights, n_states, total, uniforms[t, m])
        first = last + 1
    return FINE
