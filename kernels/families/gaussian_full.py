"""Gaussian components with a covariance matrix each.

``log N(x; m, Σ) = -½ ‖P (x - m)‖² + log det P - ½ D log 2π`` with ``P`` lower triangular and
``PᵀP = Σ⁻¹``. Statistics are kept about the present means, so nothing large is ever subtracted.
"""

from collections import namedtuple

import numpy as np

from .. import simd
from ..cholesky import covariance_from_factor, inverse_factor
from ..options import apart, implements, inlined, kernel, within
from ..products import PANEL, add_products, subtract_half_norms
from ..rows import BLOCK_ROWS, GROUP, SPARE, on_a_line, whole_vectors
from . import base
from .base import NOTHING
from .gaussian_plane import PLANE, add_moments_in_plane, subtract_half_norms_in_plane

#: means (K, D); covariances (K, D, D); factors (K, E·E), the rows of P, E = D rounded up to 4, in
#: the type that rows are computed in; offsets (K,), log det P - ½ D log 2π; blur, the variance of
#: the noise that every observation is taken to carry in each direction, added to the scatter of
#: the data (``reg_covar``).
FullGaussian = namedtuple("FullGaussian", "means covariances factors offsets blur")

#: Sums about the means of the model: first (K, D) of γ(x-m), second (K, E·E) of γ(x-m)(x-m)ᵀ,
#: of which only the lower triangle counts.
FullMoments = namedtuple("FullMoments", "first second")

SLICE_GROUPS = 32  # groups of rows of data in one product for the scatter
WIDE = 128  # rows with more columns usually belong to one component alone
# In float32 a component whose log-density is lower by this has the posterior zero.
GAP_OF_FLOATS = 56.0
HALF_LOG_2PI = 0.9189385332046727


@inlined
def padded(n_columns):
    """``n_columns`` rounded up to whole tiles of four."""
    return (n_columns + 3) // 4 * 4


@kernel
def center(block, width, n, mean, difference):
    """``difference[c, i] = block[c, i] - mean[c]``; rows up to a whole tile are zero."""
    n_columns = mean.shape[0]
    for c in range(n_columns):
        for i in range(c * width, c * width + n, simd.count_register(block)):
            simd.store(difference, i, simd.centered(simd.load_register(block, i), mean[c]))
    zero = simd.splat_register(simd.number(0.0, block))
    for c in range(n_columns, padded(n_columns)):
        for i in range(c * width, c * width + n, simd.count_register(block)):
            simd.store(difference, i, zero)


@inlined
def slice_rows(block):
    """How many rows of data are in one product for the scatter."""
    return SLICE_GROUPS * simd.count8(block)


@kernel
def gather(block, width, n, mean, gamma, rows, first):
    """Collect ``√γ_i (x_i - m)`` of the rows that matter into ``rows``; add ``Σ γ_i (x_i - m)``.

    Rows of no weight are left out when they are the greater part: with many columns a point
    belongs to one component, and the others need not be told of it. Returns how many columns of
    ``rows`` are filled, in whole groups.
    """
    n_columns = mean.shape[0]
    zero = simd.splat_register(simd.number(0.0, block))
    count = zero
    nothing = simd.splat_register(simd.number(NOTHING, block))
    for i in range(0, whole_vectors(n, block), simd.count_register(block)):
        count = count + simd.is_positive(simd.load_register(gamma, i) - nothing)
    n_chosen = int(simd.total(count))
    if n_chosen == 0:
        return 0
    # One place more, for what is written and not kept.
    root = np.empty(slice_rows(block) + 1, dtype=block.dtype)
    if 2 * n_chosen > n:
        filled = whole_vectors(n, block)
        step = simd.count_register(block)
        for i in range(0, filled, step):
            simd.store(root, i, simd.square_root(simd.load_register(gamma, i)))
        for c in range(n_columns):
            s = zero
            for i in range(0, filled, step):
                g = simd.load_register(root, i)
                y = g * simd.centered(simd.load_register(block, c * width + i), mean[c])
                s = simd.fma(g, y, s)
                simd.store(rows, c * width + i, y)
            first[c] += simd.total(s)
    else:
        filled = whole_vectors(n_chosen, block)
        chosen = np.empty(slice_rows(block) + 1, dtype=np.int64)
        j = 0
        for i in range(n):
            # Without a jump, which nobody could foresee.
            chosen[j] = i
            root[j] = gamma[i]
            j += gamma[i] > NOTHING
        for j in range(n_chosen, filled):
            chosen[j] = 0
            root[j] = 0.0
        for j in range(0, filled, simd.count(block)):
            simd.store(root, j, simd.square_root(simd.load(root, j)))
        for c in range(n_columns):
            s = simd.splat(simd.number(0.0, block))
            for j in range(0, filled, simd.count(block)):
                g = simd.load(root, j)
                y = g * simd.centered(simd.pick(block, c * width, chosen, j), mean[c])
                s = simd.fma(g, y, s)
                simd.store(rows, c * width + j, y)
            first[c] += simd.total(s)
    for c in range(n_columns, padded(n_columns)):
        for i in range(filled):
            rows[c * width + i] = 0.0
    return filled


@implements(base.columns_of, FullGaussian)
def _columns_of(family):
    return family.means.shape[1]


@implements(base.block_rows, FullGaussian)
def _block_rows(family):
    # In wide rows most responsibilities are zero: a longer block leaves each component enough rows
    # to fill a matrix product.
    rows = BLOCK_ROWS if family.means.shape[1] <= WIDE else 4 * BLOCK_ROWS
    return rows // GROUP * simd.count8(family.factors)


@implements(base.numbers, FullGaussian)
def _numbers(family, n):
    return on_a_line(np.empty(n + SPARE, dtype=family.factors.dtype), n)


@implements(base.log_density, FullGaussian)
def _log_density(family, block, width, n, log_p, work):
    n_components, n_columns = family.means.shape
    size = padded(n_columns)
    filled = whole_vectors(n, block)
    for k in range(n_components):
        out = log_p[k]
        offset = simd.number(family.offsets[k], out)
        for i in range(filled):
            out[i] += offset
        mean, factor = family.means[k], family.factors[k]
        if n_columns <= PLANE:
            subtract_half_norms_in_plane(block, width, filled, mean, factor, size, out)
        else:
            center(block, width, filled, mean, work)
            subtract_half_norms(factor, size, 0, size, work, width, filled, out)


@kernel
def gather_differences(block, width, mean, chosen, n_chosen, out):
    """``out[c, j] = block[c, chosen[j]] - mean[c]``, in whole groups; returns how many columns."""
    n_columns = mean.shape[0]
    filled = whole_vectors(n_chosen, block)
    for j in range(n_chosen, filled):
        chosen[j] = chosen[0]
    for c in range(n_columns):
        for j in range(0, filled, simd.count(block)):
            x = simd.pick(block, c * width, chosen, j)
            simd.store(out, c * width + j, simd.centered(x, mean[c]))
    for c in range(n_columns, padded(n_columns)):
        for j in range(filled):
            out[c * width + j] = 0.0
    return filled


@implements(base.likely_log_density, FullGaussian)
def _likely_log_density(family, block, width, n, log_p, work, gap):
    """The density of wide rows, given up for a component as soon as another is sure to win.

    ``‖P (x - m)‖²`` is a sum over rows of ``P``, and a row costs as much as it is long: half of
    them cost a quarter. With these the likeliest component is guessed and its density completed;
    of the others only those are that may still be within ``gap`` of it.
    """
    n_components, n_columns = family.means.shape
    size = padded(n_columns)
    if n_columns <= WIDE or n_components == 1:
        base.log_density(family, block, width, n, log_p, work)
        return
    half = (size // 2 + PANEL - 1) // PANEL * PANEL
    filled = whole_vectors(n, block)
    for k in range(n_components):
        out = log_p[k]
        offset = simd.number(family.offsets[k], out)
        for i in range(filled):
            out[i] += offset
        center(block, width, filled, family.means[k, :half], work)
        subtract_half_norms(family.factors[k], size, 0, half, work, width, filled, out)
    guess = np.zeros(n, dtype=np.int64)
    least = np.empty(n)
    for i in range(n):
        for k in range(1, n_components):
            if log_p[k, i] > log_p[guess[i], i]:
                guess[i] = k
        least[i] = -np.inf
    chosen = np.empty(filled, dtype=np.int64)
    rest = np.empty(filled, dtype=log_p.dtype)
    if simd.count(block) > simd.LANES:
        gap = min(gap, GAP_OF_FLOATS)
    for turn in range(2):
        for k in range(n_components):
            n_chosen = 0
            for i in range(n):
                if turn == 0:
                    wanted = guess[i] == k
                else:
                    wanted = guess[i] != k and log_p[k, i] > least[i] - gap
                    if not wanted and guess[i] != k:
                        log_p[k, i] = -np.inf
                if wanted:
                    chosen[n_chosen] = i
                    n_chosen += 1
            if n_chosen == 0:
                continue
            n_rows = gather_differences(block, width, family.means[k], chosen, n_chosen, work)
            for j in range(n_rows):
                rest[j] = 0.0
            for j in range(n_chosen):
                rest[j] = log_p[k, chosen[j]]
            subtract_half_norms(family.factors[k], size, half, size, work, width, n_rows, rest)
            for j in range(n_chosen):
                i = chosen[j]
                log_p[k, i] = rest[j]
                least[i] = max(least[i], rest[j])


@implements(base.accumulate, FullGaussian)
def _accumulate(family, block, width, n, gamma, moments, work):
    n_components, n_columns = family.means.shape
    size = padded(n_columns)
    for k in range(n_components):
        if n_columns <= PLANE:
            add_moments_in_plane(
                block, width, whole_vectors(n, block), family.means[k], gamma[k],
                moments.first[k], moments.second[k], size,
            )  # fmt: skip
        for start in range(0, n if n_columns > PLANE else 0, slice_rows(block)):
            length = min(slice_rows(block), n - start)
            filled = gather(
                block[start:], width, length, family.means[k], gamma[k, start:], work,
                moments.first[k],
            )  # fmt: skip
            if filled > 0:
                add_products(work, size, width, filled, moments.second[k])
        total = 0.0
        for i in range(n):
            total += gamma[k, i]
        for c in range(n_columns):
            moments.second[k, c * size + c] += family.blur * total


implements(base.horizon_of, FullGaussian)(base.unit_horizon)


@implements(base.add_own, FullGaussian)
def _add_own(family, mass, moments, horizon):
    n_components, n_columns = family.means.shape
    size = padded(n_columns)
    for k in range(n_components):
        for r in range(n_columns):
            for c in range(r + 1):
                moments.second[k, r * size + c] += mass[k] * family.covariances[k, r, c]


@implements(base.maximize, FullGaussian)
def _maximize(family, mass, moments, fixed):
    """``m += s₁/s₀``, ``Σ = s₂/s₀ - δδᵀ``; the statistics are moved to the new means."""
    n_components, n_columns = family.means.shape
    size = padded(n_columns)
    for k in range(n_components):
        if mass[k] <= 0.0:
            continue
        first = moments.first[k]
        second = moments.second[k]
        if not fixed[0]:
            for r in range(n_columns):
                for c in range(r + 1):
                    second[r * size + c] -= first[r] * first[c] / mass[k]
            for c in range(n_columns):
                family.means[k, c] += first[c] / mass[k]
                first[c] = 0.0
        if not fixed[1]:
            for r in range(n_columns):
                for c in range(r + 1):
                    value = second[r * size + c] / mass[k]
                    family.covariances[k, r, c] = value
                    family.covariances[k, c, r] = value
    return True


@implements(base.share, FullGaussian)
def _share(family, counts, mass, fixed):
    """The covariance of a group is the mean of its components' covariances."""
    if fixed[1]:
        return
    n_groups, n_members = counts.shape
    covariances = family.covariances
    n = covariances.shape[1]
    shared = np.empty((n, n))
    for k in range(n_groups):
        total = 0.0
        for m in range(n_members):
            total += counts[k, m]
        if not (total > 0.0 and mass[k] > 0.0):
            continue
        for r in range(n):
            for c in range(n):
                shared[r, c] = 0.0
        for m in range(n_members):
            weight = counts[k, m] / total
            if weight > 0.0:
                for r in range(n):
                    for c in range(n):
                        shared[r, c] += weight * covariances[k * n_members + m, r, c]
        for m in range(n_members):
            for r in range(n):
                for c in range(n):
                    covariances[k * n_members + m, r, c] = shared[r, c]


@kernel
def factor_offset(factor, n_columns):
    """``log det P - ½ D log 2π`` from the diagonal of a factor.

    An estimator shows factors, and not what follows from them: a model that is made of what it
    shows must come out the same to the bit.
    """
    apart()
    size = padded(n_columns)
    total = 0.0
    for r in range(n_columns):
        total += np.log(factor[r * size + r])
    return total - n_columns * HALF_LOG_2PI


@kernel
def refresh_full(family, k):
    """Factor component ``k`` anew; False if its covariance is not positive definite."""
    n_columns = family.means.shape[1]
    factor = family.factors[k]
    log_determinant = inverse_factor(family.covariances[k], factor, padded(n_columns))
    family.offsets[k] = factor_offset(factor, n_columns)
    return log_determinant < np.inf


@implements(base.refresh, FullGaussian)
def _refresh(family):
    done = True
    for k in range(family.means.shape[0]):
        done = refresh_full(family, k) and done
    return done


# Rows with missing values -----------------------------------------------------------------------


@kernel
def complete_row(x, mean, covariance, difference, conditional):
    """Complete a row: ``E[x | seen] - mean`` and the covariance of what is not seen.

    Returns the log-density of what is seen, NaN if the covariance is not positive definite. The
    columns are eliminated one by one, those that were seen first: what remains of the covariance
    is then that of the others given them.
    """
    n = x.shape[0]
    for r in range(n):
        seen = x[r] == x[r]
        difference[r] = x[r] - mean[r] if seen else 0.0
        for c in range(n):
            conditional[r, c] = covariance[r, c]
    # The residual of a column given those eliminated so far; for one not seen, minus its estimate.
    log_p = 0.0
    column = np.empty(n)
    for p in range(n):
        if x[p] != x[p]:
            continue
        pivot = conditional[p, p]
        if not pivot > 0.0:
            return np.nan
        residual = difference[p]
        log_p -= 0.5 * (np.log(pivot) + residual * residual / pivot) + HALF_LOG_2PI
        for r in range(n):
            column[r] = conditional[r, p] / pivot
        for r in range(n):
            if r != p:
                difference[r] -= column[r] * residual
        for c in range(n):
            factor = conditional[p, c]
            for r in range(n):
                conditional[r, c] -= column[r] * factor
    for r in range(n):
        if x[r] == x[r]:
            difference[r] = x[r] - mean[r]
            for c in range(n):
                conditional[r, c] = 0.0
                conditional[c, r] = 0.0
        else:
            difference[r] = -difference[r]
    return log_p


@inlined
def add_completed(x, weight, mean, covariance, blur, difference, conditional, first, second):
    """Add ``E[x - m | seen]`` and ``E[(x - m)(x - m)ᵀ | seen]`` of a row, times its weight."""
    n = x.shape[0]
    size = padded(n)
    complete_row(x, mean, covariance, difference, conditional)
    for r in range(n):
        first[r] += weight * difference[r]
        for c in range(r + 1):
            value = difference[r] * difference[c] + conditional[r, c]
            second[r * size + c] += weight * value
        if x[r] == x[r]:
            second[r * size + r] += weight * blur


@implements(base.log_marginal, FullGaussian)
def _log_marginal(family, x, log_p):
    n = x.shape[0]
    difference, conditional = np.empty(n), np.empty((n, n))
    for k in range(family.means.shape[0]):
        log_p[k] += complete_row(x, family.means[k], family.covariances[k], difference, conditional)


@implements(base.accumulate_missing, FullGaussian)
def _accumulate_missing(family, x, gamma, moments):
    n = x.shape[0]
    difference, conditional = np.empty(n), np.empty((n, n))
    for k in range(family.means.shape[0]):
        if gamma[k] > 0.0:
            add_completed(
                x, gamma[k], family.means[k], family.covariances[k], family.blur, difference,
                conditional, moments.first[k], moments.second[k],
            )  # fmt: skip


# Row by row --------------------------------------------------------------------------------------

# Σ changes by a matrix of rank one and with it its factor, in O(D²) instead of O(D³). The blur has
# full rank; it is set aside and put in when the factor is next computed anew, once in D steps,
# which costs O(D²) a step too. A large step is computed anew at once, and so is a single one, after
# which the factor would be computed anew in any case.
_LARGE = 0.2

#: differences, d, and images, P d, (K, D rounded up to 4); their norms ‖P d‖², blur pending,
#: steps since the last factor, (K,); sums; whether there is a single step.
_FullWorkspace = namedtuple("_FullWorkspace", "differences images norms pending age sums single")


@implements(base.row_workspace, FullGaussian)
def _row_workspace(family, n_rows):
    within()
    n_components, n_columns = family.means.shape
    size = padded(n_columns)
    return _FullWorkspace(
        np.zeros((n_components, size)),
        np.zeros((n_components, size)),
        np.empty(n_components),
        np.zeros(n_components),
        np.zeros(n_components, dtype=np.int64),
        np.empty(size),
        n_rows == 1,
    )


@implements(base.row_log_density, FullGaussian)
def _row_log_density(family, x, workspace, k):
    within()
    n_columns = x.shape[0]
    size = padded(n_columns)
    factor, d, z = family.factors[k], workspace.differences[k], workspace.images[k]
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
    workspace.norms[k] = norm
    return family.offsets[k] - 0.5 * norm


@implements(base.move_to_row, FullGaussian)
def _move_to_row(family, workspace, k, r):
    within()
    n_columns = family.means.shape[1]
    size = padded(n_columns)
    for c in range(n_columns):
        family.means[k, c] += r * workspace.differences[k, c]
    workspace.pending[k] = (1.0 - r) * workspace.pending[k] + r * family.blur
    workspace.age[k] += 1
    if r < _LARGE and not workspace.single:
        _rank_one(family.factors[k], size, workspace.images[k], r, workspace.sums)
        family.offsets[k] -= 0.5 * (np.log1p(r * workspace.norms[k]) + n_columns * np.log1p(-r))
        if workspace.age[k] < n_columns or family.blur == 0.0:
            return True
        covariance_from_factor(family.factors[k], size, family.covariances[k])
    else:
        d, covariance = workspace.differences[k], family.covariances[k]
        if workspace.age[k] > 1:
            covariance_from_factor(family.factors[k], size, covariance)
        for a in range(n_columns):
            for b in range(n_columns):
                covariance[a, b] = (1.0 - r) * (covariance[a, b] + r * d[a] * d[b])
    return _renew(family, workspace, k)


@implements(base.finish_rows, FullGaussian)
def _finish_rows(family, workspace, k):
    if workspace.age[k] == 0:
        return True
    covariance_from_factor(family.factors[k], padded(family.means.shape[1]), family.covariances[k])
    return _renew(family, workspace, k)


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
def _renew(family, workspace, k):
    """Put the pending blur into component ``k`` and factor it anew."""
    n_columns = family.means.shape[1]
    covariance = family.covariances[k]
    for c in range(n_columns):
        covariance[c, c] += workspace.pending[k]
    workspace.pending[k] = 0.0
    workspace.age[k] = 0
    factor = family.factors[k]
    log_determinant = inverse_factor(covariance, factor, padded(n_columns))
    family.offsets[k] = factor_offset(factor, n_columns)
    return log_determinant < np.inf
