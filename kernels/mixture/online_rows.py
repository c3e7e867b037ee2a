"""Online EM for Gaussian mixtures, one observation at a time.

The plain loop of online_mixture rebuilds every component at every step. Here only those move that
the observation belongs to, from ``d = x - m`` and ``r = γ / (γ + w/η)``:

    m ← m + r d,   Σ ← (1-r) Σ + r (1-r) d dᵀ + r·blur·I

The loop is written once; a family has the three functions below it.
"""

from collections import namedtuple

import numpy as np

from .. import simd
from ..cholesky import covariance_from_factor, inverse_factor
from ..families.gaussian_diagonal import DiagonalGaussian, refresh_component
from ..families.gaussian_full import HALF_LOG_2PI, FullGaussian, padded
from ..options import implements, inlined, kernel, within
from ..rows import read_row
from .online import LEAST_MEMORY, LEAST_SHARE

#: The families that have them.
ROW_BY_ROW = (FullGaussian, DiagonalGaussian)


def room_of(family):
    """What the steps need besides the parameters."""


def distances(family, x, room, k):
    """``log p(x | k)``; ``room`` keeps what ``move`` needs again."""


def move(family, room, k, r):
    """Move component ``k`` by ``r`` to the row that ``distances`` was told last."""


def settle(family, room, k):
    """Put into the parameters what ``move`` has left for later."""


@kernel
def online_rows(rows, n_rows, rates, row_weights, weights, family):
    """As ``online`` with batches of one row; weights and family change in place."""
    n_components, n_columns = family.means.shape
    room = room_of(family)
    x = np.empty(n_columns)
    gamma = np.empty(n_components)
    log_likelihood = 0.0
    for i in range(n_rows):
        row_weight = row_weights[i] if row_weights.shape[0] > 0 else 1.0
        if row_weight <= 0.0:
            continue
        read_row(rows, i, x)
        top = -np.inf
        for k in range(n_components):
            gamma[k] = np.log(weights[k]) + distances(family, x, room, k)
            top = max(top, gamma[k])
        if not top > -np.inf:
            log_likelihood = -np.inf  # no component allows this row: nothing to learn from it
            continue
        total = 0.0
        for k in range(n_components):
            gamma[k] = np.exp(gamma[k] - top)
            total += gamma[k]
        log_likelihood += row_weight * (top + np.log(total))
        eta = rates[i]
        # In units of this row, as revival has it; hardly ever is there anything to revive.
        least = min(1.0 / row_weight, LEAST_MEMORY / (eta * n_components))
        revived = 0.0
        for k in range(n_components):
            gamma[k] /= total
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
            if not move(family, room, k, g / (inertia + g)):
                return log_likelihood, i
    for k in range(n_components):
        if not settle(family, room, k):
            return log_likelihood, n_rows - 1
    return log_likelihood, -1


# Independent columns -----------------------------------------------------------------------------

_DiagonalRoom = namedtuple("_DiagonalRoom", "differences")


@implements(room_of, DiagonalGaussian)
def _room_of_diagonal(family):
    within()
    return _DiagonalRoom(np.empty_like(family.means))


@implements(distances, DiagonalGaussian)
def _distances_diagonal(family, x, room, k):
    within()
    s = 0.0
    for c in range(x.shape[0]):
        d = x[c] - family.means[k, c]
        room.differences[k, c] = d
        y = family.scales[k, c] * d
        s += y * y
    return family.offsets[k] - s


@implements(move, DiagonalGaussian)
def _move_diagonal(family, room, k, r):
    within()
    n_columns = family.means.shape[1]
    total = 0.0
    for c in range(n_columns):
        d = room.differences[k, c]
        variance = (1.0 - r) * (family.variances[k, c] + r * d * d) + r * family.blur
        family.means[k, c] += r * d
        family.variances[k, c] = variance
        total += variance
    if family.spherical:
        for c in range(n_columns):
            family.variances[k, c] = total / n_columns
    return refresh_component(family, k)


@implements(settle, DiagonalGaussian)
def _settle_diagonal(family, room, k):
    return True


# Covariance matrices ------------------------------------------------------------------------------

# Σ changes by a matrix of rank one and with it its factor, in O(D²) instead of O(D³). The blur has
# full rank; it is set aside and put in when the factor is next computed anew, once in D steps,
# which costs O(D²) a step too. A large step is computed anew at once.
_LARGE = 0.2

#: differences, d, and images, P d, (K, D rounded up to 4); their norms ‖P d‖², blur pending,
#: steps since the last factor, (K,); sums.
_FullRoom = namedtuple("_FullRoom", "differences images norms pending age sums")


@implements(room_of, FullGaussian)
def _room_of_full(family):
    within()
    n_components, n_columns = family.means.shape
    size = padded(n_columns)
    return _FullRoom(
        np.zeros((n_components, size)),
        np.zeros((n_components, size)),
        np.empty(n_components),
        np.zeros(n_components),
        np.zeros(n_components, dtype=np.int64),
        np.empty(size),
    )


@implements(distances, FullGaussian)
def _distances_full(family, x, room, k):
    within()
    n_columns = x.shape[0]
    size = padded(n_columns)
    factor, d, z = family.factors[k], room.differences[k], room.images[k]
    for c in range(n_columns):
        d[c] = x[c] - family.means[k, c]
    # z = P d, four rows at a time; beyond its triangle P is zero, and so is d beyond its columns.
    norm = 0.0
    for r in range(0, size, 4):
        s0 = simd.splat(0.0)
        s1, s2, s3 = s0, s0, s0
        for c in range(0, r + 4, 4):
            y = simd.load(d, c)
            at = r * size + c
            s0 = simd.fma(simd.load(factor, at), y, s0)
            s1 = simd.fma(simd.load(factor, at + size), y, s1)
            s2 = simd.fma(simd.load(factor, at + 2 * size), y, s2)
            s3 = simd.fma(simd.load(factor, at + 3 * size), y, s3)
        z[r] = simd.total(s0)
        z[r + 1] = simd.total(s1)
        z[r + 2] = simd.total(s2)
        z[r + 3] = simd.total(s3)
        norm += z[r] * z[r] + z[r + 1] * z[r + 1] + z[r + 2] * z[r + 2] + z[r + 3] * z[r + 3]
    room.norms[k] = norm
    return family.offsets[k] - 0.5 * norm


@implements(move, FullGaussian)
def _move_full(family, room, k, r):
    within()
    n_columns = family.means.shape[1]
    size = padded(n_columns)
    for c in range(n_columns):
        family.means[k, c] += r * room.differences[k, c]
    room.pending[k] = (1.0 - r) * room.pending[k] + r * family.blur
    room.age[k] += 1
    if r < _LARGE:
        _rank_one(family.factors[k], size, room.images[k], r, room.sums)
        family.offsets[k] -= 0.5 * (np.log1p(r * room.norms[k]) + n_columns * np.log1p(-r))
        if room.age[k] < n_columns or family.blur == 0.0:
            return True
        covariance_from_factor(family.factors[k], size, family.covariances[k])
    else:
        d, covariance = room.differences[k], family.covariances[k]
        covariance_from_factor(family.factors[k], size, covariance)
        for a in range(n_columns):
            for b in range(n_columns):
                covariance[a, b] = (1.0 - r) * (covariance[a, b] + r * d[a] * d[b])
    return _renew(family, room, k)


@implements(settle, FullGaussian)
def _settle_full(family, room, k):
    covariance_from_factor(family.factors[k], padded(family.means.shape[1]), family.covariances[k])
    return _renew(family, room, k)


@inlined
def _rank_one(factor, size, z, r, sums):
    """Make ``P`` the inverse factor of ``(1-r) (Σ + r d dᵀ)``, given ``z = P d``.

    ``P' = C⁻¹ P / √(1-r)`` with ``C Cᵀ = I + r z zᵀ``, whose entries follow from the running sums
    ``t_j = 1 + r Σ_{i≤j} z_i²``: row by row, ``P'_i = (P_i - z_i w) √(t_{i-1}/t_i)``, where ``w``
    gathers ``r z_j P'_j / √(t_{j-1} t_j)``.
    """
    scale_all = simd.splat(1.0 / np.sqrt(1.0 - r))
    for i in range(size):
        sums[i] = 0.0
    before = 1.0
    for i in range(size):
        after = before + r * z[i] * z[i]
        own_scale = simd.splat(np.sqrt(before / after))
        gain = simd.splat(r * z[i] / np.sqrt(before * after))
        minus_z = simd.splat(-z[i])
        for c in range(0, i + 1, 4):
            at = i * size + c
            s = simd.load(sums, c)
            value = simd.fma(minus_z, s, simd.load(factor, at)) * own_scale
            simd.store(sums, c, simd.fma(gain, value, s))
            simd.store(factor, at, value * scale_all)
        before = after


@inlined
def _renew(family, room, k):
    """Put the pending blur into component ``k`` and factor it anew."""
    n_columns = family.means.shape[1]
    covariance = family.covariances[k]
    for c in range(n_columns):
        covariance[c, c] += room.pending[k]
    room.pending[k] = 0.0
    room.age[k] = 0
    log_determinant = inverse_factor(covariance, family.factors[k], padded(n_columns))
    family.offsets[k] = log_determinant - n_columns * HALF_LOG_2PI
    return log_determinant < np.inf
