"""Log-densities of rows under every component, and nothing summed."""

from ..families.base import log_density
from ..options import kernel
from ..rows import read_block
from .expectation import workspace


@kernel
def log_densities(rows, n_rows, n_components, family, out):
    """``out[i, k] = log p(x_i | k)``, (n_rows, K)."""
    size, block, work, log_p, _ = workspace(family, n_components, rows.offsets.shape[0], n_rows)
    width = log_p.shape[1]
    for first in range(0, n_rows, size):
        n = min(size, n_rows - first)
        read_block(rows, first, n, block, width)
        for k in range(n_components):
            for i in range(width):
                log_p[k, i] = 0.0
        log_density(family, block, width, n, log_p, work)
        for i in range(n):
            for k in range(n_components):
                out[first + i, k] = log_p[k, i]
