"""Points on the simplex that are observed: sums of their logarithms, and their densities."""

import numpy as np

from ..options import kernel
from ..rows import block_width, read_block
from ..special import log_gamma
from .documents import sparse_rows_of_block


@kernel
def add_log_topics(rows, n_rows, weights, alpha, sums, log_densities):
    """``sums_j += Σ_i w_i log h_ij``; ``log_densities[i] = log p(h_i)``, unless it is empty.

    ``weights`` is empty when every row counts once. Returns the number of the first entry (row by
    row) that is not positive, or -1.
    """
    n_columns = rows.offsets.shape[0]
    size = sparse_rows_of_block(n_columns)
    width = block_width(size)
    block = np.zeros(n_columns * width)
    constant = log_gamma(alpha.sum())
    for j in range(n_columns):
        constant -= log_gamma(alpha[j])
    for first in range(0, n_rows, size):
        n = min(size, n_rows - first)
        read_block(rows, first, n, block, width)
        if log_densities.shape[0] > 0:
            for i in range(n):
                log_densities[first + i] = constant
        for c in range(n_columns):
            for i in range(n):
                h = block[c * width + i]
                if not (h > 0.0 and h < np.inf):
                    return (first + i) * n_columns + c
                log_h = np.log(h)
                if log_densities.shape[0] > 0:
                    log_densities[first + i] += (alpha[c] - 1.0) * log_h
                if weights.shape[0] > 0:
                    log_h *= weights[first + i]
                sums[c] += log_h
    return -1
