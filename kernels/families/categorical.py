"""Columns of categories 0 .. C-1: ``log p(x) = Σ_c log p_c[x_c]``, looked up in tables."""

from collections import namedtuple

import numpy as np

from ..options import apart, implements, kernel
from . import base
from .linear import log_at_least

#: probabilities and their logarithms, (K, D, C); least, as in ``linear``.
Categorical = namedtuple("Categorical", "probabilities logarithms least", defaults=(1e-300,))

#: counts (K, D, C): Σ γ 1[x_c = j].
CategoricalCounts = namedtuple("CategoricalCounts", "counts")


@implements(base.columns_of, Categorical)
def _columns_of(family):
    return family.probabilities.shape[1]


implements(base.block_rows, Categorical)(base.usual_block_rows)


@implements(base.log_density, Categorical)
def _log_density(family, block, width, n, log_p, work):
    n_components, n_columns, _ = family.probabilities.shape
    for k in range(n_components):
        for c in range(n_columns):
            table = family.logarithms[k, c]
            for i in range(n):
                log_p[k, i] += table[np.int64(block[c * width + i])]


@implements(base.accumulate, Categorical)
def _accumulate(family, block, width, n, gamma, sums, work):
    n_components, n_columns, _ = family.probabilities.shape
    for k in range(n_components):
        for c in range(n_columns):
            counts = sums.counts[k, c]
            for i in range(n):
                counts[np.int64(block[c * width + i])] += gamma[k, i]


implements(base.horizon_of, Categorical)(base.unit_horizon)


@implements(base.add_own, Categorical)
def _add_own(family, mass, sums, horizon):
    for k in range(mass.shape[0]):
        sums.counts[k] += mass[k] * family.probabilities[k]


@implements(base.maximize, Categorical)
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
    apart()  # so that every kernel computes the same bits
    probabilities = family.probabilities.reshape(-1)
    logarithms = family.logarithms.reshape(-1)
    for j in range(probabilities.shape[0]):
        logarithms[j] = log_at_least(probabilities[j], family.least)


@implements(base.refresh, Categorical)
def _refresh(family):
    refresh_categorical(family)
    return True


@implements(base.log_marginal, Categorical)
def _log_marginal(family, x, log_p):
    n_components, n_columns, _ = family.probabilities.shape
    for k in range(n_components):
        for c in range(n_columns):
            if x[c] == x[c]:
                log_p[k] += family.logarithms[k, c, np.int64(x[c])]


@implements(base.accumulate_missing, Categorical)
def _accumulate_missing(family, x, gamma, sums):
    n_components, n_columns, n_categories = family.probabilities.shape
    for k in range(n_components):
        for c in range(n_columns):
            if x[c] == x[c]:
                sums.counts[k, c, np.int64(x[c])] += gamma[k]
            else:
                for j in range(n_categories):
                    sums.counts[k, c, j] += gamma[k] * family.probabilities[k, c, j]
