"""Paths of a chain, from uniform random numbers."""

import numpy as np

from ..options import kernel


@kernel
def _choose(probabilities, u):
    """The state whose stretch of the cumulative probabilities holds ``u``."""
    total = 0.0
    last = 0
    for k in range(probabilities.shape[0]):
        if probabilities[k] > 0.0:
            last = k
        total += probabilities[k]
        if u < total:
            return k
    return last  # rounding left the sum below u


@kernel
def sample_path(startprob, transmat, first, uniforms, states):
    """A path of as many steps as there are numbers; from state ``first`` unless that is -1."""
    n_steps = uniforms.shape[0]
    for t in range(n_steps):
        if t == 0:
            states[t] = first if first >= 0 else _choose(startprob, uniforms[t])
        else:
            states[t] = _choose(transmat[states[t - 1]], uniforms[t])


@kernel
def sample_until_absorbed(startprob, transmat, absorbing, uniforms, states):
    """As ``sample_path``; returns the steps until absorption, 0 if there were not enough."""
    for t in range(uniforms.shape[0]):
        if t == 0:
            states[t] = _choose(startprob, uniforms[t])
        else:
            states[t] = _choose(transmat[states[t - 1]], uniforms[t])
        if absorbing[states[t]]:
            return t + 1
    return 0


def draw_path(startprob, transmat, n_steps, rng, first=None):
    """``n_steps`` states of a chain."""
    states = np.empty(n_steps, dtype=np.int64)
    sample_path(startprob, transmat, -1 if first is None else first, rng.random(n_steps), states)
    return states
