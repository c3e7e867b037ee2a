"""Columns of categories 0 .. C-1: ``log p(x) = Σ_c log p_c[x_c]``, looked up in tables."""

from collections import namedtuple

import numpy as np

from ..options import implements, kernel
from ..rows import BLOCK_ROWS
from .base import (
    accumulate,
    add_own,
    block_rows,
    columns_of,
    horizon_of,
    log_density,
    maximize,
    refresh,
)
from .linear import log_at_least

#: probabilities and their logarithms, (K, D, C); least, as in ``linear``.
Categorical = namedtuple("Categorical", "probabilities logarithms least", defaults=(1e-300,))

#: counts (K, D, C): Σ γ 1[x_c = j].
CategoricalCounts = namedtuple("CategoricalCounts", "counts")


@implements(columns_of, Categorical)
def _columns_of(family):
    return family.probabilities.shape[1]


@implements(block_rows, Categorical)
def _block_rows(family):
    return BLOCK_ROWS


@implements(log_density, Categorical)
def _log_density(family, block, width, n, log_p, work):
    n_components, n_columns, _ = family.probabilities.shape
    for k in range(n_components):
        for c in range(n_columns):
            table = family.logarithms[k, c]
            for i in range(n):
                log_p[k, i] += table[np.int64(block[c * width + i])]


@implements(accumulate, Categorical)
def _accumulate(family, block, width, n, gamma, sums, work):
    n_components, n_columns, _ = family.probabilities.shape
    for k in range(n_components):
        for c in range(n_columns):
            counts = sums.counts[k, c]
            for i in range(n):
                counts[np.int64(block[c * width + i])] += gamma[k, i]


@implements(horizon_of, Categorical)
def _horizon_of(family, total, sums):
    return 1.0


@implements(add_own, Categorical)
def _add_own(family, mass, sums, horizon):
    for k in range(mass.shape[0]):
        sums.counts[k] += mass[k] * family.probabilities[k]


@implements(maximize, Categorical)
def _maximize(family, mass, sums, fixed):
    n_components, n_columns, n_categories = family.probabilities.shape
    for k in range(n_components):
        if mass[k] <= 0.0 or fixed[0]:
            continue
        for c in range(n_columns):
            total = sums.counts[k, c].sum()
            for j in range(n_categories):
                family.probabilities[k, c, j] = sums.counts[k, c, j] / total
    return True


@kernel
def refresh_categorical(family):
    """Recompute the logarithms."""
    probabilities = family.probabilities.reshape(-1)
    logarithms = family.logarithms.reshape(-1)
    for j in range(probabilities.shape[0]):
        logarithms[j] = log_at_least(probabilities[j], family.least)


@implements(refresh, Categorical)
def _refresh(family):
    refresh_categorical(family)
    return True
