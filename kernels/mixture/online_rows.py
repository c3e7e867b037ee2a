"""Online EM for mixtures, one observation at a time.

The loop of ``online`` recomputes every component at every step. Here only those components move
that the observation belongs to, by ``r = γ / (γ + w/η)``, which a family does in its own way.
"""

import numpy as np

from ..families.base import columns_of, finish_rows, move_to_row, row_log_density, row_workspace
from ..options import kernel
from ..rows import read_row
from .online import LEAST_MEMORY, LEAST_SHARE, settle


@kernel
def online_rows(rows, n_rows, rates, row_weights, weights, family):
    """As ``online`` with batches of one row; weights and family change in place."""
    n_components = weights.shape[0]
    workspace = row_workspace(family, n_rows)
    x = np.empty(columns_of(family))
    gamma = np.empty(n_components)
    log_likelihood = 0.0
    for i in range(n_rows):
        row_weight = row_weights[i] if row_weights.shape[0] > 0 else 1.0
        if row_weight <= 0.0:
            continue
        read_row(rows, i, x)
        top = -np.inf
        for k in range(n_components):
            gamma[k] = np.log(weights[k]) + row_log_density(family, x, workspace, k)
            top = max(top, gamma[k])
        if not top > -np.inf:
            log_likelihood = -np.inf  # no component allows this row: nothing to learn from it
            continue
        for k in range(n_components):
            gamma[k] = np.exp(gamma[k] - top)
        total = 0.0
        for k in range(n_components):
            total += gamma[k]
        log_likelihood += row_weight * (top + np.log(total))
        eta = rates[i]
        # In units of this row, as revival has it; hardly ever is there anything to revive.
        least = min(1.0 / row_weight, LEAST_MEMORY / (eta * n_components))
        for k in range(n_components):
            gamma[k] /= total
        revived = 0.0
        for k in range(n_components):
            if weights[k] < least * eta:
                revived += max(0.0, min(least - weights[k] / eta, gamma[k] - weights[k]))
        everything = 1.0 / eta + 1.0 + revived
        for k in range(n_components):
            g = gamma[k]
            inertia = weights[k] / eta
            if inertia < least:
                inertia += max(0.0, min(least - inertia, g - weights[k]))
            share = (inertia + g) / everything
            weights[k] = max(share, LEAST_SHARE)
            if g == 0.0 or share < LEAST_SHARE:
                continue
            if not move_to_row(family, workspace, k, g / (inertia + g)):
                return log_likelihood, i, 0
    for k in range(n_components):
        if not finish_rows(family, workspace, k):
            return log_likelihood, n_rows - 1, 0
    return log_likelihood, -1, settle(weights)
