"""Mixtures: posterior of the component, expected statistics, likelihood.

``γ_k(x) ∝ w_k p(x|k)``, ``S(V|Θ) = Σ_x (γ_k, γ_k φ(x))``, in one pass over the rows,
a block at a time.
"""

import numpy as np
from numba import types

from .. import simd
from ..families import base as families
from ..families.base import (
    GAP_OF_POSTERIORS,
    GAP_OF_SUMS,
    accumulate_likely,
    add_own,
    block_rows,
    likely_log_density,
    lowest,
    numbers,
    prepare,
    read_rows,
    work_size,
)
from ..options import inlined, kernel, overloaded
from ..products import add_sums, are_above
from ..rows import GROUP, whole_vectors, width_for


def _extremes(log_p):
    """The least number of a type, and one that is next to nothing beside one."""


@overloaded(_extremes)
def _choose_extremes(log_p):
    if log_p.dtype == types.float32:
        return lambda log_p: (-3.4028234663852886e38, 1e-30)
    return lambda log_p: (-1.7976931348623157e308, 1e-300)


@kernel
def normalize(log_p, n_components, width, n, log_total):
    """Turn ``log_p[k, i]`` into posteriors over ``k``; ``log_total[i]`` is what they summed to."""
    lowest, nearly_nothing = _extremes(log_p)
    least = simd.splat_register(simd.number(lowest, log_p))
    tiny = simd.splat_register(simd.number(nearly_nothing, log_p))
    one = simd.splat_register(simd.number(1.0, log_p))
    for i in range(0, whole_vectors(n, log_p), simd.count_register(log_p)):
        top = least
        for k in range(n_components):
            top = simd.maximum(simd.load_register(log_p, k * width + i), top)
        s = simd.splat_register(simd.number(0.0, log_p))
        for k in range(n_components):
            p = simd.exp(simd.load_register(log_p, k * width + i) - top)
            simd.store(log_p, k * width + i, p)
            s = s + p
        # A row that no component allows (its square overflows, say) has the total -inf and no
        # posterior, never NaN; twice the least number is -inf.
        impossible = one - simd.is_positive(s)
        s = simd.maximum(s, tiny)
        simd.store(log_total, i, simd.fma(impossible, least, top + simd.log(s)))
        s = one / s
        for k in range(n_components):
            simd.store(log_p, k * width + i, simd.load_register(log_p, k * width + i) * s)


@inlined
def workspace(family, n_components, n_columns, n_rows):
    """Buffers for blocks of at most ``n_rows``: rows of a block, block, work, gamma, log_total."""
    size = max(min(block_rows(family), n_rows), 1)
    width = width_for(size, numbers(family, 0))
    # A row of a block may end with a vector that is not full.
    block = numbers(family, (n_columns + simd.count8(numbers(family, 0))) * width)
    work = numbers(family, 2 * (n_columns + 4) * width + work_size(family))
    gamma = numbers(family, n_components * width).reshape(n_components, width)
    return size, block, work, gamma, numbers(family, width)


@inlined
def posterior(rows, first, n, log_weights, family, space, gap=GAP_OF_SUMS):
    """Fill gamma and log_total of the workspace for ``n`` rows.

    The workspace is prepared. A component that is less likely by ``gap`` than another has the
    posterior zero.
    """
    _, block, work, gamma, log_total = space
    n_components, width = gamma.shape
    read_rows(family, rows, first, n, block, width)
    for k in range(n_components):
        for i in range(whole_vectors(n, block)):
            gamma[k, i] = log_weights[k]
    likely_log_density(family, block, width, n, gamma, work, gap)
    normalize(gamma.reshape(-1), n_components, width, n, log_total)


@inlined
def absorb(first, n, row_weights, family, mass, statistics, space):
    """Add the statistics of a block whose posterior is known; returns its log-likelihood.

    It is NaN if the type of the block is not good enough for the density of some row.
    """
    _, block, work, gamma, log_total = space
    n_components, width = gamma.shape
    filled = whole_vectors(n, block)
    if row_weights.shape[0] > 0:
        for i in range(n):
            # A row of weight zero is left out, whatever it holds.
            if not row_weights[first + i] > 0.0:
                log_total[i] = 0.0
    for i in range(n, filled):
        log_total[i] = 0.0
    within = are_above(log_total, 0, filled, lowest(log_total))
    if row_weights.shape[0] > 0:
        for i in range(n):
            log_total[i] *= row_weights[first + i]
        for k in range(n_components):
            for i in range(n):
                gamma[k, i] *= row_weights[first + i]
    log_likelihood = simd.splat8(0.0)
    for i in range(0, filled, GROUP):
        log_likelihood = log_likelihood + simd.load_doubles8(log_total, i)
    for k in range(n_components):
        for i in range(n, filled):
            gamma[k, i] = 0.0
    add_sums(gamma.reshape(-1), width, filled, n_components, 0.0, mass)
    accumulate_likely(family, block, width, n, gamma, statistics, work)
    return simd.total(log_likelihood) if within else np.nan


@kernel
def expect(rows, start, stop, row_weights, log_weights, family, mass, statistics):
    """Add the expected statistics of rows ``start .. stop - 1``; returns their log-likelihood.

    That is NaN if float32 is not good enough for them. ``row_weights`` is empty when every row
    counts once.
    """
    space = workspace(family, log_weights.shape[0], rows.offsets.shape[0], stop - start)
    prepare(family, space[2])
    log_likelihood = 0.0
    for first in range(start, stop, space[0]):
        n = min(space[0], stop - first)
        posterior(rows, first, n, log_weights, family, space)
        log_likelihood += absorb(first, n, row_weights, family, mass, statistics, space)
        if log_likelihood != log_likelihood:
            break
    return log_likelihood


@inlined
def take_given(rows, first, n, given, family, space):
    """As ``posterior``, for posteriors that are given, (all rows, K), and no likelihood."""
    _, block, _, gamma, log_total = space
    read_rows(family, rows, first, n, block, gamma.shape[1])
    for i in range(n):
        log_total[i] = 0.0
        for k in range(gamma.shape[0]):
            gamma[k, i] = given[first + i, k]


@kernel
def expect_given(rows, n_rows, row_weights, given, family, mass, statistics):
    """Add the statistics of the first rows, whose posteriors are given, (n_rows, K)."""
    space = workspace(family, given.shape[1], rows.offsets.shape[0], n_rows)
    prepare(family, space[2])
    for first in range(0, n_rows, space[0]):
        n = min(space[0], n_rows - first)
        take_given(rows, first, n, given, family, space)
        absorb(first, n, row_weights, family, mass, statistics, space)


@kernel
def infer(rows, start, stop, log_weights, family, log_totals, posteriors, labels):
    """Per row: ``log p(x)``, the posterior over components, the likeliest one.

    Each of the last three arguments may be empty, and is then not wanted. Returns whether the
    type that the family computes in is good enough for the density of every row.
    """
    n_components = log_weights.shape[0]
    space = workspace(family, n_components, rows.offsets.shape[0], stop - start)
    _, _, work, gamma, log_total = space
    prepare(family, work)
    within = True
    for first in range(start, stop, space[0]):
        n = min(space[0], stop - first)
        posterior(rows, first, n, log_weights, family, space, GAP_OF_POSTERIORS)
        for i in range(n):
            within = within and log_total[i] >= lowest(log_total)
        if log_totals.shape[0] > 0:
            for i in range(n):
                log_totals[first + i] = log_total[i]
        if posteriors.shape[0] > 0:
            for i in range(n):
                for k in range(n_components):
                    posteriors[first + i, k] = gamma[k, i]
        if labels.shape[0] > 0:
            for i in range(n):
                best = 0
                for k in range(1, n_components):
                    if gamma[k, i] > gamma[best, i]:
                        best = k
                labels[first + i] = best
    return within


@kernel
def own(family, mass, statistics, horizon):
    """Add the family's own statistics (``family.add_own``)."""
    add_own(family, mass, statistics, horizon)


@kernel
def maximize(family, mass, statistics, fixed):
    """Set the family's parameters to the maximum of Q."""
    return families.maximize(family, mass, statistics, fixed)
