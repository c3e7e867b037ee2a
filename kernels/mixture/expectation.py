"""Mixtures: posterior of the component, expected statistics, likelihood.

``γ_k(x) ∝ w_k p(x|k)``, ``S(V|Θ) = Σ_x (γ_k, γ_k φ(x))``, in one pass over the rows,
a block at a time.
"""

import numpy as np

from .. import simd
from ..families import base as families
from ..families.base import accumulate, add_own, block_rows, likely_log_density
from ..options import inlined, kernel
from ..rows import block_width, read_block, whole_groups

_LEAST = -1.7976931348623157e308
_TINY = 1e-300


@kernel
def normalize(log_p, n_components, width, n, log_total):
    """Turn ``log_p[k, i]`` into posteriors over ``k``; ``log_total[i]`` is what they summed to."""
    for i in range(0, whole_groups(n), 4):
        top = simd.splat(_LEAST)
        for k in range(n_components):
            top = simd.maximum(simd.load(log_p, k * width + i), top)
        s = simd.splat(0.0)
        for k in range(n_components):
            p = simd.exp(simd.load(log_p, k * width + i) - top)
            simd.store(log_p, k * width + i, p)
            s = s + p
        # A row that no component allows (its square overflows, say) has the total -inf and no
        # posterior, never NaN; twice the least number is -inf.
        impossible = simd.splat(1.0) - simd.is_positive(s)
        s = simd.maximum(s, simd.splat(_TINY))
        simd.store(log_total, i, simd.fma(impossible, simd.splat(_LEAST), top + simd.log(s)))
        s = simd.splat(1.0) / s
        for k in range(n_components):
            simd.store(log_p, k * width + i, simd.load(log_p, k * width + i) * s)


@inlined
def workspace(family, n_components, n_columns, n_rows):
    """Buffers for blocks of at most ``n_rows``: rows of a block, block, work, gamma, log_total."""
    size = max(min(block_rows(family), n_rows), 1)
    width = block_width(whole_groups(size))
    block = np.empty(n_columns * width)
    work = np.empty(2 * (n_columns + 4) * width)
    gamma = np.empty((n_components, width))
    return size, block, work, gamma, np.empty(width)


@inlined
def posterior(rows, first, n, log_weights, family, space):
    """Fill gamma and log_total of the workspace for ``n`` rows."""
    _, block, work, gamma, log_total = space
    n_components, width = gamma.shape
    read_block(rows, first, n, block, width)
    for k in range(n_components):
        for i in range(width):
            gamma[k, i] = log_weights[k]
    likely_log_density(family, block, width, n, gamma, work)
    normalize(gamma.reshape(-1), n_components, width, n, log_total)


@inlined
def absorb(first, n, row_weights, family, mass, statistics, space):
    """Add the statistics of a block whose posterior is known; returns its log-likelihood."""
    _, block, work, gamma, log_total = space
    n_components, width = gamma.shape
    if row_weights.shape[0] > 0:
        for i in range(n):
            # A row of weight zero is left out, whatever it holds.
            w = row_weights[first + i]
            log_total[i] = log_total[i] * w if w > 0.0 else 0.0
        for k in range(n_components):
            for i in range(n):
                gamma[k, i] *= row_weights[first + i]
    log_likelihood = 0.0
    for i in range(n):
        log_likelihood += log_total[i]
    for k in range(n_components):
        s = 0.0
        for i in range(n):
            s += gamma[k, i]
        mass[k] += s
        for i in range(n, whole_groups(n)):
            gamma[k, i] = 0.0
    accumulate(family, block, width, n, gamma, statistics, work)
    return log_likelihood


@kernel
def expect(rows, start, stop, row_weights, log_weights, family, mass, statistics):
    """Add the expected statistics of rows ``start .. stop - 1``; returns their log-likelihood.

    ``row_weights`` is empty when every row counts once.
    """
    space = workspace(family, log_weights.shape[0], rows.offsets.shape[0], stop - start)
    log_likelihood = 0.0
    for first in range(start, stop, space[0]):
        n = min(space[0], stop - first)
        posterior(rows, first, n, log_weights, family, space)
        log_likelihood += absorb(first, n, row_weights, family, mass, statistics, space)
    return log_likelihood


@inlined
def take_given(rows, first, n, given, space):
    """As ``posterior``, for posteriors that are given, (all rows, K), and no likelihood."""
    _, block, _, gamma, log_total = space
    read_block(rows, first, n, block, gamma.shape[1])
    for i in range(n):
        log_total[i] = 0.0
        for k in range(gamma.shape[0]):
            gamma[k, i] = given[first + i, k]


@kernel
def expect_given(rows, n_rows, row_weights, given, family, mass, statistics):
    """Add the statistics of the first rows, whose posteriors are given, (n_rows, K)."""
    space = workspace(family, given.shape[1], rows.offsets.shape[0], n_rows)
    for first in range(0, n_rows, space[0]):
        n = min(space[0], n_rows - first)
        take_given(rows, first, n, given, space)
        absorb(first, n, row_weights, family, mass, statistics, space)


@kernel
def infer(rows, start, stop, log_weights, family, log_totals, posteriors, labels):
    """Per row: ``log p(x)``, the posterior over components, the likeliest one.

    Each of the last three arguments may be empty, and is then not wanted.
    """
    n_components = log_weights.shape[0]
    space = workspace(family, n_components, rows.offsets.shape[0], stop - start)
    _, _, _, gamma, log_total = space
    for first in range(start, stop, space[0]):
        n = min(space[0], stop - first)
        posterior(rows, first, n, log_weights, family, space)
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


@kernel
def own(family, mass, statistics, horizon):
    """Add the family's own statistics (``family.add_own``)."""
    add_own(family, mass, statistics, horizon)


@kernel
def maximize(family, mass, statistics, fixed):
    """Set the family's parameters to the maximum of Q."""
    return families.maximize(family, mass, statistics, fixed)
