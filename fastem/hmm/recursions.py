"""Forward, backward, transitions and paths of one sequence whose densities are given as an array.

Densities are (n_steps, n_states), in logarithms, or as they are for the scaled recursions. These
functions compare all sizes before a kernel sees an array.
"""

from __future__ import annotations

import numpy as np

from ..kernels.hmm.custom_emissions import (
    given_backward,
    given_forward,
    given_path,
    given_scaled_backward,
    given_scaled_forward,
    given_scaled_transitions,
    given_transitions,
)

__all__ = ["backward", "forward", "likeliest_path", "scaled_backward", "scaled_forward",
           "scaled_transitions", "transition_counts"]  # fmt: skip


def forward(startprob, transmat, log_b):
    """The log-likelihood of the sequence, and ``log α``."""
    startprob, transmat, log_b = _arrays(startprob, transmat, log_b)
    _check_values(log_b, log_b < np.inf, "log-densities", "numbers or minus infinity")
    log_alpha = np.empty(log_b.shape)
    return given_forward(startprob, transmat, log_b, log_alpha), log_alpha


def backward(startprob, transmat, log_b):
    """``log β``."""
    _, transmat, log_b = _arrays(startprob, transmat, log_b)
    log_beta = np.empty(log_b.shape)
    given_backward(transmat, log_b, log_beta)
    return log_beta


def transition_counts(log_alpha, transmat, log_beta, log_b):
    """The expected number of each transition, (n_states, n_states)."""
    _, transmat, log_b, log_alpha, log_beta = _arrays(None, transmat, log_b, log_alpha, log_beta)
    log_likelihood = np.logaddexp.reduce(log_alpha[-1])
    counts = np.zeros(transmat.shape)
    if log_likelihood > -np.inf:
        given_transitions(transmat, log_b, log_alpha, log_beta, log_likelihood, counts)
    return counts


def scaled_forward(startprob, transmat, b):
    """The log-likelihood, α with rows that sum to one, and what they were multiplied by."""
    startprob, transmat, b = _arrays(startprob, transmat, b)
    _check_values(b, (b >= 0) & (b < np.inf), "densities", "finite, and not negative")
    alpha, scales = np.empty(b.shape), np.empty(len(b))
    log_likelihood = given_scaled_forward(startprob, transmat, b, alpha, scales)
    if np.isnan(log_likelihood):
        raise ValueError(
            "The scaled forward recursion is lost to underflow, or the sequence is impossible. Use "
            "implementation='log'."
        )
    return log_likelihood, alpha, scales


def scaled_backward(startprob, transmat, b, scales):
    """β, multiplied by the scales of the forward recursion."""
    _, transmat, b = _arrays(startprob, transmat, b)
    scales = np.ascontiguousarray(scales, dtype=float)
    if scales.shape != b.shape[:1]:
        raise ValueError(f"There are {len(b)} steps, and the scales have the shape {scales.shape}.")
    beta = np.empty(b.shape)
    given_scaled_backward(transmat, b, scales, beta)
    return beta


def scaled_transitions(alpha, transmat, beta, b):
    """As :func:`transition_counts`, from what the scaled recursions return."""
    _, transmat, b, alpha, beta = _arrays(None, transmat, b, alpha, beta)
    counts = np.zeros(transmat.shape)
    given_scaled_transitions(transmat, b, alpha, beta, counts)
    return counts


def likeliest_path(startprob, transmat, log_b):
    """The log-probability of the likeliest path, and its states."""
    startprob, transmat, log_b = _arrays(startprob, transmat, log_b)
    _check_values(log_b, log_b < np.inf, "log-densities", "numbers or minus infinity")
    states = np.empty(len(log_b), dtype=np.int64)
    return given_path(startprob, transmat, log_b, np.empty(log_b.shape), states), states


def _arrays(startprob, transmat, densities, *others):
    """Arrays for kernels, all of sizes that agree."""
    transmat, densities, *others = (
        np.ascontiguousarray(array, dtype=float) for array in (transmat, densities, *others)
    )
    n_states = len(transmat)
    startprob = np.ones(n_states) if startprob is None else startprob
    startprob = np.ascontiguousarray(startprob, dtype=float)
    if transmat.shape != (n_states, n_states) or startprob.shape != (n_states,):
        raise ValueError(
            f"startprob has the shape {startprob.shape}, and transmat {transmat.shape}: they must "
            "be (n_states,) and (n_states, n_states)."
        )
    if densities.ndim != 2 or densities.shape[1] != n_states or len(densities) == 0:
        raise ValueError(
            f"The densities of the steps of a sequence must have the shape (n_steps, {n_states}), "
            f"with at least one step; got {densities.shape}."
        )
    for array in others:
        if array.shape != densities.shape:
            raise ValueError(f"Shapes differ: {array.shape} and {densities.shape}.")
    return startprob, transmat, densities, *others


def _check_values(densities, are_right, what, words):
    """Raise ``ValueError`` for values that no density has: a hook may have returned anything."""
    if not are_right.all():
        row, state = np.argwhere(~are_right)[0].tolist()
        raise ValueError(
            f"The {what} of the rows of a sequence must be {words}; of its row {row} in state "
            f"{state} it is {densities[row, state]}."
        )
