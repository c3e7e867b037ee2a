"""Mixtures: posterior of the component, expected statistics, likelihood.

``γ_k(x) ∝ w_k p(x|k)``, ``S(V|Θ) = Σ_x (γ_k, γ_k φ(x))``, one pass over the rows, a block at a time.
"""

import numpy as np

from . import simd
from .family import accumulate, log_density
from .options import inlined, kernel
from .rows import block_rows, block_width, read_block, whole_groups


@inlined
def normalise(log_p, n, log_total):
    """Turn ``log_p[k, i]`` into posteriors over ``k``; ``log_total[i]`` is what they summed to."""
    n_components = log_p.shape[0]
    for i in range(0, whole_groups(n), 4):
        # An impossible row (every term -inf) gets the total -inf and no posterior, never a NaN.
        top = simd.splat(-1.7976931348623157e308)
        for k in range(n_components):
            top = simd.maximum(simd.load(log_p[k], i), top)
        s = simd.splat(0.0)
        for k in range(n_components):
            p = simd.exp(simd.load(log_p[k], i) - top)
            simd.store(log_p[k], i, p)
            s = s + p
        simd.store(log_total, i, top + simd.log(s))
        s = simd.splat(1.0) / s
        for k in range(n_components):
            simd.store(log_p[k], i, simd.load(log_p[k], i) * s)


@kernel
def expect(rows, start, stop, row_weights, log_weights, family, mass, statistics):
    """Add the expected statistics of rows ``start .. stop - 1``; returns their log-likelihood.

    ``row_weights`` is empty when every row counts once.
    """
    n_components = log_weights.shape[0]
    n_columns = rows.offsets.shape[0]
    size = min(block_rows(n_columns), max(stop - start, 1))
    width = block_width(whole_groups(size))
    block = np.empty(n_columns * width)
    work = np.empty((n_columns + 4) * width)
    gamma = np.empty((n_components, width))
    log_total = np.empty(width)
    weighted = row_weights.shape[0] > 0
    log_likelihood = 0.0
    for first in range(start, stop, size):
        n = min(size, stop - first)
        read_block(rows, first, n, block, width)
        for k in range(n_components):
            gamma[k, :] = log_weights[k]
        log_density(family, block, width, n, gamma, work)
        normalise(gamma, n, log_total)
        if weighted:
            for i in range(n):
                log_total[i] *= row_weights[first + i]
            for k in range(n_components):
                for i in range(n):
                    gamma[k, i] *= row_weights[first + i]
        for i in range(n):
            log_likelihood += log_total[i]
        for k in range(n_components):
            s = 0.0
            for i in range(n):
                s += gamma[k, i]
            mass[k] += s
        accumulate(family, block, width, n, gamma, statistics, work)
    return log_likelihood
