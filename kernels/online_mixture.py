"""Online EM for mixtures: ``Θ ← M(S(V_t|Θ) + S(Θ)/η_t)``, the loop over batches in the kernel."""

import numpy as np

from .family import add_own, horizon_of, maximize, refresh, scale
from .mixture import absorb, posterior, workspace
from .options import kernel

#: A component with less than this share of the mass is dead: it keeps its parameters and this
#: weight, from which it can come back. Its own statistics would be all rounding error.
LEAST_SHARE = 1e-14


@kernel
def online(
    rows, n_rows, batch_size, rates, row_weights, weights, family, mass, statistics,
    keep, fixed_weights, fixed,
):  # fmt: skip
    """One step for each batch of ``batch_size`` rows; weights and family change in place.

    ``rates[t]`` is η of step t. With ``keep`` the statistics (per observation, about the present
    means) are the memory and come back changed; without it the model alone is. Returns the
    log-likelihood of the batches, each under the model that met it, and the number of the step
    that found no maximum, or -1.
    """
    n_components = weights.shape[0]
    space = workspace(family, n_components, rows.offsets.shape[0], batch_size)
    size = space[0]
    log_likelihood = 0.0
    step = 0
    inertia = np.empty(n_components)
    alive = np.empty(n_components)
    for start in range(0, n_rows, batch_size):
        stop = min(start + batch_size, n_rows)
        total = float(stop - start)
        if row_weights.shape[0] > 0:
            total = 0.0
            for i in range(start, stop):
                total += row_weights[i]
        eta = rates[step]
        step += 1
        if total <= 0.0:
            continue
        # M does not care about scale: sums over the batch, and the memory times total / η.
        remembered = total / eta if keep else 0.0
        scale(statistics, remembered)
        scale(mass, remembered)
        log_weights = np.log(weights)
        for first in range(start, stop, size):
            n = min(size, stop - first)
            posterior(rows, first, n, log_weights, family, space)
            log_likelihood += absorb(first, n, row_weights, family, mass, statistics, space)
        if not keep:
            horizon = horizon_of(family, total, statistics)
            for k in range(n_components):
                inertia[k] = weights[k] * (total / eta)
                mass[k] += inertia[k]
            add_own(family, inertia, statistics, horizon)
        everything = mass.sum()
        for k in range(n_components):
            alive[k] = mass[k] if mass[k] >= LEAST_SHARE * everything else 0.0
        if not (maximize(family, alive, statistics, fixed) and refresh(family)):
            return log_likelihood, step - 1
        if not fixed_weights:
            for k in range(n_components):
                weights[k] = max(mass[k] / everything, LEAST_SHARE)
        if keep:
            unit = 1.0 / (total + total / eta)
            scale(statistics, unit)
            scale(mass, unit)
    return log_likelihood, -1
