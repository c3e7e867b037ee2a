"""Batch EM for mixtures of few rows: ``Θ ← M(S(V|Θ))``, the loop over steps in the kernel."""

import numpy as np

from ..families.base import maximize, prepare, refresh, scale
from ..options import kernel
from .expectation import absorb, posterior, take_given, workspace
from .online import LEAST_SHARE


@kernel
def iterate(
    rows, n_rows, row_weights, given, log_base, limits, both_ways, told_dead, revived, weights,
    family, mass, statistics, fixed_weights, fixed, log_likelihoods,
):  # fmt: skip
    """One step of batch EM after another; weights and family change in place.

    ``limits`` are the total weight of the rows, the least change of the mean log-likelihood (of
    its size, if ``both_ways``), and the mean log-likelihood before the first step. ``log_base`` is
    the part of the log-likelihood of all rows that the family leaves out. Steps end with
    ``log_likelihoods``, into which their mean log-likelihoods go; or before a step whose
    log-likelihood is not finite or in which a component dies or comes back: one that was not
    ``told_dead``, or was, and has more than ``revived`` of the mass. Returns the number of steps,
    and whether another had no maximum: then weights and family are of no use.

    If posteriors are ``given``, (n_rows, K), no step is taken: mass and statistics become those
    of the rows. A fit begins with them, and a kernel of their own would take longer to compile.
    """
    n_components = weights.shape[0]
    total, least_change, before = limits
    space = workspace(family, n_components, rows.offsets.shape[0], n_rows)
    size = space[0]
    is_given = given.shape[0] > 0
    alive, log_weights = np.empty(n_components), np.empty(n_components)
    for step in range(1 if is_given else log_likelihoods.shape[0]):
        scale(statistics, 0.0)
        # Loops compile faster than what NumPy has for arrays.
        for k in range(n_components):
            mass[k] = 0.0
            log_weights[k] = np.log(weights[k])
        log_likelihood = log_base
        prepare(family, space[2])
        for first in range(0, n_rows, size):
            n = min(size, n_rows - first)
            if is_given:
                take_given(rows, first, n, given, family, space)
            else:
                posterior(rows, first, n, log_weights, family, space)
            log_likelihood += absorb(first, n, row_weights, family, mass, statistics, space)
        if is_given:
            return 0, False
        log_likelihood /= total
        everything = 0.0
        for k in range(n_components):
            everything += mass[k]
        if not (abs(log_likelihood) < np.inf and everything > 0.0):
            return step, False
        for k in range(n_components):
            is_dead = mass[k] < LEAST_SHARE * everything
            if told_dead[k]:
                if mass[k] >= revived * everything:
                    return step, False
            elif is_dead:
                return step, False
            alive[k] = 0.0 if is_dead else mass[k]
        if not (maximize(family, alive, statistics, fixed) and refresh(family)):
            return step, True
        if not fixed_weights:
            for k in range(n_components):
                weights[k] = max(mass[k] / everything, LEAST_SHARE)
            share = 0.0
            for k in range(n_components):
                share += weights[k]
            for k in range(n_components):
                weights[k] *= 1.0 / share
        log_likelihoods[step] = log_likelihood
        change = log_likelihood - before
        before = log_likelihood
        if (abs(change) if both_ways else change) < least_change:
            return step + 1, False
    return log_likelihoods.shape[0], False
