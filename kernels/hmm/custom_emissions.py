"""Forward, backward, transitions and likeliest paths of one sequence whose emissions are given.

For emissions that are computed outside the kernels: ``log_b[t, k]`` is the log-density of step t in
state k, and ``b[t, k]`` the density. The recursions in logarithms,
``log α_t(j) = log b_t(j) + log Σ_i exp(log α_{t-1}(i)) A_ij``, take K exponentials and K logarithms
a step: all terms are divided by the largest. Where what underflows could matter, the sum is done
again term by term.
"""

import numpy as np

from ..log_space import log_sum
from ..options import inlined, kernel

#: Sums of terms of which the largest is one, below which the terms that underflow could matter.
_LEAST_SUM = 1e-280
#: The exponent of a common factor above which products that underflow could matter.
_LARGEST_FACTOR = 200.0
#: Scaled recursions give up where a sum of probabilities is smaller.
_LEAST_SCALE = 1e-300


@inlined
def _largest(x, n):
    top = -np.inf
    for i in range(n):
        top = max(top, x[i])
    return top


@kernel
def _log_product(x, matrix, log_matrix, n, terms, out):
    """``out_j = log Σ_i exp(x_i) M_ij``."""
    top = _largest(x, n)
    for j in range(n):
        out[j] = 0.0
    if top == -np.inf:
        for j in range(n):
            out[j] = -np.inf
        return
    for i in range(n):
        factor = np.exp(x[i] - top)
        if factor > 0.0:
            for j in range(n):
                out[j] += factor * matrix[i, j]
    for j in range(n):
        if out[j] > _LEAST_SUM:
            out[j] = top + np.log(out[j])
            continue
        for i in range(n):
            terms[i] = x[i] + log_matrix[i, j]
        highest = _largest(terms, n)
        total = 0.0
        if highest > -np.inf:
            for i in range(n):
                total += np.exp(terms[i] - highest)
            out[j] = highest + np.log(total)
        else:
            out[j] = -np.inf


@kernel
def given_forward(start, transitions, log_b, log_alpha):
    """``log α`` (T, K) of one sequence; returns its log-likelihood."""
    n_steps, n = log_b.shape
    log_transitions = np.log(transitions)
    terms = np.empty(n)
    ahead = np.empty(n)
    for k in range(n):
        log_alpha[0, k] = np.log(start[k]) + log_b[0, k]
    for t in range(1, n_steps):
        _log_product(log_alpha[t - 1], transitions, log_transitions, n, terms, ahead)
        for k in range(n):
            log_alpha[t, k] = ahead[k] + log_b[t, k]
    return log_sum(log_alpha[n_steps - 1], n)


@kernel
def given_backward(transitions, log_b, log_beta):
    """``log β`` (T, K) of one sequence, zero at its last step."""
    n_steps, n = log_b.shape
    backward = transitions.T.copy()
    log_backward = np.log(backward)
    terms = np.empty(n)
    ahead = np.empty(n)
    for k in range(n):
        log_beta[n_steps - 1, k] = 0.0
    for t in range(n_steps - 2, -1, -1):
        for k in range(n):
            ahead[k] = log_b[t + 1, k] + log_beta[t + 1, k]
        _log_product(ahead, backward, log_backward, n, terms, log_beta[t])


@kernel
def given_transitions(transitions, log_b, log_alpha, log_beta, log_likelihood, counts):
    """Add the expected number of transitions to ``counts`` (K, K)."""
    n_steps, n = log_b.shape
    log_transitions = np.log(transitions)
    before = np.empty(n)
    after = np.empty(n)
    for t in range(1, n_steps):
        for k in range(n):
            after[k] = log_b[t, k] + log_beta[t, k]
        top_before, top_after = _largest(log_alpha[t - 1], n), _largest(after, n)
        if top_before == -np.inf or top_after == -np.inf:
            continue
        exponent = top_before + top_after - log_likelihood
        if exponent < _LARGEST_FACTOR:
            factor = np.exp(exponent)
            for k in range(n):
                before[k] = np.exp(log_alpha[t - 1, k] - top_before) * factor
                after[k] = np.exp(after[k] - top_after)
            for i in range(n):
                for j in range(n):
                    counts[i, j] += before[i] * transitions[i, j] * after[j]
        else:
            for i in range(n):
                rest = log_alpha[t - 1, i] - log_likelihood
                for j in range(n):
                    counts[i, j] += np.exp(rest + log_transitions[i, j] + after[j])


@kernel
def given_scaled_forward(start, transitions, b, alpha, scales):
    """α (T, K) with rows that sum to one; ``scales`` (T,) are what they were multiplied by.

    Returns the log-likelihood; NaN if the sum of a row is lost to underflow.
    """
    n_steps, n = b.shape
    log_likelihood = 0.0
    for t in range(n_steps):
        for j in range(n):
            alpha[t, j] = start[j] if t == 0 else 0.0
        if t > 0:
            for i in range(n):
                for j in range(n):
                    alpha[t, j] += alpha[t - 1, i] * transitions[i, j]
        for j in range(n):
            alpha[t, j] *= b[t, j]
        total = 0.0
        for j in range(n):
            total += alpha[t, j]
        if total < _LEAST_SCALE:
            return np.nan
        scales[t] = 1.0 / total
        log_likelihood += np.log(total)
        for j in range(n):
            alpha[t, j] *= scales[t]
    return log_likelihood


@kernel
def given_scaled_backward(transitions, b, scales, beta):
    """β (T, K) times the scales of the forward recursion from step t on."""
    n_steps, n = b.shape
    for k in range(n):
        beta[n_steps - 1, k] = scales[n_steps - 1]
    for t in range(n_steps - 2, -1, -1):
        for i in range(n):
            total = 0.0
            for j in range(n):
                total += transitions[i, j] * b[t + 1, j] * beta[t + 1, j]
            beta[t, i] = total * scales[t]


@kernel
def given_scaled_transitions(transitions, b, alpha, beta, counts):
    """As :func:`given_transitions`, from scaled α and β."""
    n_steps, n = b.shape
    for t in range(1, n_steps):
        for i in range(n):
            for j in range(n):
                counts[i, j] += alpha[t - 1, i] * transitions[i, j] * b[t, j] * beta[t, j]


@kernel
def given_path(start, transitions, log_b, delta, states):
    """The likeliest path of one sequence, and its log-probability; as in :mod:`.viterbi`."""
    n_steps, n = log_b.shape
    log_transitions = np.log(transitions)
    for k in range(n):
        delta[0, k] = np.log(start[k]) + log_b[0, k]
    for t in range(1, n_steps):
        for j in range(n):
            top = -np.inf
            for i in range(n):
                top = max(top, delta[t - 1, i] + log_transitions[i, j])
            delta[t, j] = top + log_b[t, j]
    best = 0
    for k in range(n):
        if delta[n_steps - 1, k] > delta[n_steps - 1, best]:
            best = k
    states[n_steps - 1] = best
    for t in range(n_steps - 2, -1, -1):
        top, j = -np.inf, best
        for i in range(n):
            value = delta[t, i] + log_transitions[i, j]
            if value >= top:
                top = value
                best = i
        states[t] = best
    return delta[n_steps - 1, states[n_steps - 1]]
