"""Forward and backward in logarithms: slower, and right whatever the probabilities are.

``log α_t(j) = log b_t(j) + log Σ_i exp(log α_{t-1}(i) + log A_ij)``, and the same backward. Used
for the few sequences whose probabilities leave the range of plain numbers.
"""

import numpy as np

from .options import inlined, kernel


@inlined
def log_sum(x, n):
    """``log Σ_i exp x_i`` of the first ``n`` entries; -inf if all are."""
    top = -np.inf
    for i in range(n):
        top = max(top, x[i])
    if top == -np.inf:
        return top
    total = 0.0
    for i in range(n):
        total += np.exp(x[i] - top)
    return top + np.log(total)


@kernel
def _logarithms(x):
    out = np.empty(x.shape[0])
    for i in range(x.shape[0]):
        out[i] = np.log(x[i])
    return out


@kernel
def log_forward(chain, size, log_b, n_steps, log_alpha):
    """Forward over one sequence, ``log_b[t * size + k]``; returns the log-likelihood."""
    n = chain.n_states
    log_transitions = _logarithms(chain.backward)
    terms = np.empty(n)
    for k in range(n):
        log_alpha[k] = np.log(chain.start[k]) + log_b[k]
    for t in range(1, n_steps):
        for j in range(n):
            for i in range(n):
                terms[i] = log_alpha[(t - 1) * size + i] + log_transitions[j * size + i]
            log_alpha[t * size + j] = log_b[t * size + j] + log_sum(terms, n)
    for k in range(n):
        terms[k] = log_alpha[(n_steps - 1) * size + k]
    return log_sum(terms, n)


@kernel
def log_backward(chain, size, log_b, n_steps, weight, log_alpha, log_likelihood, transitions):
    """Backward over one sequence, which must be possible.

    ``log_alpha`` becomes ``weight · γ``, and ``weight · ξ`` is added to ``transitions``, (size²).
    """
    n = chain.n_states
    log_transitions = _logarithms(chain.forward)
    terms = np.empty(n)
    beta = np.zeros(n)
    ahead = np.empty(n)
    for t in range(n_steps - 1, -1, -1):
        at = t * size
        for k in range(n):
            ahead[k] = log_b[at + k] + beta[k]
            log_alpha[at + k] = weight * np.exp(log_alpha[at + k] + beta[k] - log_likelihood)
        if t > 0:
            for i in range(n):
                before = log_alpha[at - size + i] - log_likelihood
                for j in range(n):
                    terms[j] = log_transitions[i * size + j] + ahead[j]
                    transitions[i * size + j] += weight * np.exp(before + terms[j])
                beta[i] = log_sum(terms, n)
