"""Online EM for mixtures: ``Θ ← M(S(V_t|Θ) + S(Θ)/η_t)``, the loop over batches in the kernel."""

import numpy as np

from ..families.base import add_own, horizon_of, maximize, prepare, refresh, scale
from ..options import apart, helper, kernel
from .expectation import absorb, posterior, workspace

#: A component with less than this share of the mass is dead: it keeps its parameters and this
#: weight, from which it can come back. Its own statistics would be all rounding error.
LEAST_SHARE = 1e-14

#: The least memory of a component that comes back: one observation, or this share of an even one.
LEAST_MEMORY = 0.1


@kernel
def revival(inertia, gained, observation, out):
    """How much more of its own memory a component is given when it comes back, for each.

    A component of hardly any weight remembers hardly anything, and would be remade out of the
    first observation it is responsible for, as a spike. So one whose share grows remembers at
    least one observation, of weight ``observation`` in these units (or, where all remember little,
    a tenth of an even share), but is given no more than it gains. Any amount of a model's own
    statistics of a component holds it where it is, so that a step still never raises the loss.
    """
    n_components = inertia.shape[0]
    for k in range(n_components):
        out[k] = 0.0
    remembered, new = 0.0, 0.0
    for k in range(n_components):
        remembered += inertia[k]
        new += gained[k]
    if remembered <= 0.0:
        return
    least = min(observation, LEAST_MEMORY * remembered / n_components)
    for k in range(n_components):
        if inertia[k] < least:
            growth = gained[k] - new * (inertia[k] / remembered)
            out[k] = max(0.0, min(least - inertia[k], growth))


@helper
def settle(weights):
    """Make the weights sum to one after online steps; returns how many components are dead."""
    apart()
    total = 0.0
    n_dead = 0
    for k in range(weights.shape[0]):
        total += weights[k]
        n_dead += weights[k] <= LEAST_SHARE
    for k in range(weights.shape[0]):
        weights[k] /= total
    return n_dead


@kernel
def online(
    rows, n_rows, batch_size, rates, row_weights, weights, family, mass, statistics,
    keep, fixed_weights, fixed,
):  # fmt: skip
    """One step for each batch of ``batch_size`` rows; weights and family change in place.

    ``rates[t]`` is η of step t. With ``keep`` the statistics (per observation, about the present
    means) are the memory and come back changed; without it the model alone is. Returns the
    log-likelihood of the batches, each under the model that met it, the number of the step that
    found no maximum, or -1, and how many components are dead.
    """
    n_components = weights.shape[0]
    space = workspace(family, n_components, rows.offsets.shape[0], batch_size)
    size = space[0]
    log_likelihood = 0.0
    step = 0
    inertia = np.empty(n_components)
    gained = np.empty(n_components)
    revived = np.empty(n_components)
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
        for k in range(n_components):
            inertia[k] = mass[k] if keep else weights[k] * (total / eta)
            gained[k] = -mass[k]
        log_weights = np.log(weights)
        prepare(family, space[2])
        for first in range(start, stop, size):
            n = min(size, stop - first)
            posterior(rows, first, n, log_weights, family, space)
            log_likelihood += absorb(first, n, row_weights, family, mass, statistics, space)
        horizon = horizon_of(family, mass.sum(), statistics)
        for k in range(n_components):
            gained[k] += mass[k]
        revival(inertia, gained, 1.0, revived)
        for k in range(n_components):
            if not keep:
                revived[k] += inertia[k]
            mass[k] += revived[k]
        add_own(family, revived, statistics, horizon)
        everything = mass.sum()
        for k in range(n_components):
            alive[k] = mass[k] if mass[k] >= LEAST_SHARE * everything else 0.0
        if not (maximize(family, alive, statistics, fixed) and refresh(family)):
            return log_likelihood, step - 1, 0
        if not fixed_weights:
            for k in range(n_components):
                weights[k] = max(mass[k] / everything, LEAST_SHARE)
        if keep:
            unit = 1.0 / (total + total / eta)
            scale(statistics, unit)
            scale(mass, unit)
    return log_likelihood, -1, 0 if fixed_weights else settle(weights)
