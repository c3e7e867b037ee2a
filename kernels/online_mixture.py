"""Online EM for mixtures: ``Θ ← M(S(V_t|Θ) + S(Θ)/η_t)``, the loop over batches in the kernel."""

import numpy as np

from .cholesky import covariance_from_factor, inverse_factor
from .family import add_own, horizon_of, maximize, refresh, scale
from .gaussian_full import HALF_LOG_2PI, padded
from .mixture import absorb, posterior, workspace
from .options import inlined, kernel
from .rows import read_block

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


# With one observation a batch, a full covariance changes by Σ ← (1-r)Σ + r(1-r) d dᵀ, a rank-one
# change of its factor: O(K D²) a row instead of O(K D³). The blur, r·blur·I a step, has full rank;
# it is set aside and put in when the factor is next computed anew, once in D steps, which costs
# O(D²) a step too. A large step is computed anew at once.
_LARGE = 0.2


@inlined
def _whitened_norm(factor, size, d, z):
    """``z = P d``; returns ``‖z‖²``."""
    norm = 0.0
    for r in range(d.shape[0]):
        s = 0.0
        for c in range(r + 1):
            s += factor[r * size + c] * d[c]
        z[r] = s
        norm += s * s
    return norm


@inlined
def _rank_one(factor, size, z, r, shrink, sums):
    """Make ``P`` the inverse factor of ``shrink (Σ + r d dᵀ)``, given ``z = P d``.

    ``P' = C⁻¹ P / √shrink`` with ``C Cᵀ = I + r z zᵀ``, whose entries follow from the running sums
    ``t_j = 1 + r Σ_{i≤j} z_i²``: row by row, ``P'_i = (P_i - z_i w) √(t_{i-1}/t_i)``, where ``w``
    gathers ``r z_j P'_j / √(t_{j-1} t_j)``.
    """
    n = z.shape[0]
    scale_all = 1.0 / np.sqrt(shrink)
    for i in range(n):
        sums[i] = 0.0
    before = 1.0
    for i in range(n):
        after = before + r * z[i] * z[i]
        own_scale = np.sqrt(before / after)
        gain = r * z[i] / np.sqrt(before * after)
        row = factor[i * size : i * size + i + 1]
        for c in range(i + 1):
            value = (row[c] - z[i] * sums[c]) * own_scale
            sums[c] += gain * value
            row[c] = value * scale_all
        before = after


@inlined
def _renew(family, k, size, pending):
    """Put the pending blur into component ``k`` and factor it anew."""
    n_columns = family.means.shape[1]
    covariance = family.covariances[k]
    for c in range(n_columns):
        covariance[c, c] += pending[k]
    pending[k] = 0.0
    log_determinant = inverse_factor(covariance, family.factors[k], size)
    family.offsets[k] = log_determinant - n_columns * HALF_LOG_2PI
    return log_determinant < np.inf


@kernel
def online_rank_one(rows, n_rows, rates, row_weights, weights, family):
    """As ``online`` with batches of one row and full covariances, by rank-one changes."""
    n_components, n_columns = family.means.shape
    size = padded(n_columns)
    space = workspace(family, n_components, n_columns, n_rows)
    block_size, block, _, gamma, _ = space
    width = gamma.shape[1]
    differences = np.empty((n_components, n_columns))
    images = np.empty((n_components, n_columns))
    norms = np.empty(n_components)
    log_p = np.empty(n_components)
    pending = np.zeros(n_components)
    age = np.zeros(n_components, dtype=np.int64)
    x = np.empty(n_columns)
    sums = np.empty(n_columns)
    log_likelihood = 0.0
    for start in range(0, n_rows, block_size):
        n = min(block_size, n_rows - start)
        read_block(rows, start, n, block, width)
        for i in range(n):
            row_weight = row_weights[start + i] if row_weights.shape[0] > 0 else 1.0
            if row_weight <= 0.0:
                continue
            for c in range(n_columns):
                x[c] = block[c * width + i]
            top = -np.inf
            for k in range(n_components):
                for c in range(n_columns):
                    differences[k, c] = x[c] - family.means[k, c]
                norms[k] = _whitened_norm(family.factors[k], size, differences[k], images[k])
                log_p[k] = np.log(weights[k]) + family.offsets[k] - 0.5 * norms[k]
                top = max(top, log_p[k])
            if not top > -np.inf:
                log_likelihood = -np.inf  # no component allows this row: nothing to learn from it
                continue
            total = 0.0
            for k in range(n_components):
                log_p[k] = np.exp(log_p[k] - top)
                total += log_p[k]
            log_likelihood += row_weight * (top + np.log(total))
            eta = rates[start + i]
            for k in range(n_components):
                g = log_p[k] / total
                inertia = weights[k] / eta
                share = (inertia + g) / (1.0 / eta + 1.0)
                weights[k] = max(share, LEAST_SHARE)
                if g == 0.0 or share < LEAST_SHARE:
                    continue
                r = g / (inertia + g)
                for c in range(n_columns):
                    family.means[k, c] += r * differences[k, c]
                pending[k] = (1.0 - r) * pending[k] + r * family.blur
                age[k] += 1
                if r < _LARGE:
                    _rank_one(family.factors[k], size, images[k], r, 1.0 - r, sums)
                    family.offsets[k] -= 0.5 * (np.log1p(r * norms[k]) + n_columns * np.log1p(-r))
                    if age[k] < n_columns or family.blur == 0.0:
                        continue
                    covariance_from_factor(family.factors[k], size, family.covariances[k])
                else:
                    covariance = family.covariances[k]
                    covariance_from_factor(family.factors[k], size, covariance)
                    for a in range(n_columns):
                        for b in range(n_columns):
                            product = differences[k, a] * differences[k, b]
                            covariance[a, b] = (1.0 - r) * (covariance[a, b] + r * product)
                age[k] = 0
                if not _renew(family, k, size, pending):
                    return log_likelihood, start + i
    for k in range(n_components):
        covariance_from_factor(family.factors[k], size, family.covariances[k])
        if not _renew(family, k, size, pending):
            return log_likelihood, n_rows - 1
    return log_likelihood, -1
