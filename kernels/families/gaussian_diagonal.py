"""Gaussian components with independent columns: a variance per column, or one for all columns.

``log N(x; m, v) = -½ Σ_c (x_c - m_c)² / v_c - ½ Σ_c log 2πv_c``, about the present means.
"""

from collections import namedtuple

import numpy as np

from .. import simd
from ..options import apart, implements, kernel, within
from ..products import (
    add_chosen_moments,
    add_moments,
    add_sums,
    choose,
    lay_rows,
    subtract_distances,
)
from ..rows import BLOCK_ROWS, GROUP, SPARE, on_a_line, whole_vectors
from . import base
from .base import NOTHING
from .gaussian_full import HALF_LOG_2PI

#: means, variances (K, D); scales (K, D), 1/√(2 v), in the type that rows are computed in; offsets
#: (K,); spherical, whether a component has one variance for all columns; blur as for full ones.
DiagonalGaussian = namedtuple("DiagonalGaussian", "means variances scales offsets spherical blur")

#: The same of more columns than ``WIDE``, of which gaussian_wide.py makes mixtures in another way.
WideGaussian = namedtuple("WideGaussian", DiagonalGaussian._fields)
WIDE = 256

#: first, second (K, D): Σ γ (x - m) and Σ γ (x - m)².
DiagonalMoments = namedtuple("DiagonalMoments", "first second")


def implements_both(generic):
    """Decorate what wide components do as others."""

    def register(function):
        return implements(generic, WideGaussian)(implements(generic, DiagonalGaussian)(function))

    return register


#: No variance is smaller: the smallest number that has all its digits.
_TINY = 2.2250738585072014e-308


@implements_both(base.columns_of)
def _columns_of(family):
    return family.means.shape[1]


@implements(base.block_rows, DiagonalGaussian)
def _block_rows(family):
    return 2 * BLOCK_ROWS // GROUP * simd.count8(family.scales)


@implements_both(base.numbers)
def _numbers(family, n):
    return on_a_line(np.empty(n + SPARE, dtype=family.scales.dtype), n)


@kernel
def add_offsets(family, n, log_p):
    for k in range(family.means.shape[0]):
        offset = simd.number(family.offsets[k], log_p)
        for i in range(n):
            log_p[k, i] += offset


@implements_both(base.log_density)
def _log_density(family, block, width, n, log_p, work):
    filled = whole_vectors(n, block)
    add_offsets(family, filled, log_p)
    subtract_distances(block, width, filled, family.means, family.scales, log_p.reshape(-1))


@implements_both(base.accumulate)
def _accumulate(family, block, width, n, gamma, moments, work):
    n_components, n_columns = family.means.shape
    filled = whole_vectors(n, block)
    weights = gamma.reshape(-1)
    totals = np.zeros(n_components)
    n_chosen = add_sums(weights, width, filled, n_components, NOTHING, totals)
    vector = simd.count_register(block)
    stride = (n_columns + vector - 1) // vector * vector
    # In units of a multiply-add of all rows: a number of a row by itself takes two, as many as to
    # lay rows one after another, and to look for them among the weights. Measured with 2 to 64
    # columns and 4 to 64 components; of both types.
    of_all = n * n_components * n_columns
    of_chosen = 2 * (stride * (n_chosen + n) + n * n_components)
    if of_chosen < of_all and filled * stride <= work.shape[0]:
        places = np.empty(n_chosen + 8, dtype=np.int32)
        starts = np.empty(n_components + 1, dtype=np.int64)
        choose(weights, width, filled, n_components, NOTHING, places, starts)
        lay_rows(block, n_columns, width, filled, work, stride)
        add_chosen_moments(
            work, stride, places, starts, weights, width, totals, family.means,
            moments.first, moments.second,
        )  # fmt: skip
    else:
        add_moments(
            block, width, filled, weights, totals, family.means, moments.first, moments.second
        )
    add_blur(family, totals, moments)


@kernel
def add_blur(family, totals, moments):
    """The second moments of the noise that each row is taken to carry."""
    n_components, n_columns = family.means.shape
    for k in range(n_components):
        for c in range(n_columns):
            moments.second[k, c] += family.blur * totals[k]


implements_both(base.horizon_of)(base.unit_horizon)


@implements_both(base.add_own)
def _add_own(family, mass, moments, horizon):
    n_components, n_columns = family.means.shape
    for k in range(n_components):
        for c in range(n_columns):
            moments.second[k, c] += mass[k] * family.variances[k, c]


@implements_both(base.maximize)
def _maximize(family, mass, moments, fixed):
    n_components, n_columns = family.means.shape
    for k in range(n_components):
        if mass[k] <= 0.0:
            continue
        if not fixed[0]:
            for c in range(n_columns):
                shift = moments.first[k, c] / mass[k]
                moments.second[k, c] -= shift * moments.first[k, c]
                family.means[k, c] += shift
                moments.first[k, c] = 0.0
        if not fixed[1]:
            for c in range(n_columns):
                family.variances[k, c] = moments.second[k, c] / mass[k]
            if family.spherical:
                mean_variance = 0.0
                for c in range(n_columns):
                    mean_variance += family.variances[k, c] / n_columns
                for c in range(n_columns):
                    family.variances[k, c] = mean_variance
    return True


@kernel
def refresh_component(family, k):
    """Recompute the scales and the offset of component ``k``; False if that is impossible."""
    apart()  # so that every kernel computes the same bits
    variances, scales = family.variances[k], family.scales[k]
    n_columns = variances.shape[0]
    n_possible = 0
    for c in range(n_columns):
        variance = variances[c]
        n_possible += _TINY <= variance < np.inf
        scales[c] = 1.0 / np.sqrt(2.0 * variance)
    if n_possible < n_columns:
        return False
    whole = n_columns // 4 * 4
    logs = simd.splat(0.0)
    for c in range(0, whole, 4):
        logs = logs + simd.log(simd.load(variances, c))
    total = simd.total(logs)
    for c in range(whole, n_columns):
        total += np.log(variances[c])
    family.offsets[k] = -0.5 * total - n_columns * HALF_LOG_2PI
    return True


@kernel
def refresh_diagonal(family):
    """Recompute scales and offsets; False if a variance is not positive and finite."""
    done = True
    for k in range(family.means.shape[0]):
        done = refresh_component(family, k) and done
    return done


@implements_both(base.refresh)
def _refresh(family):
    return refresh_diagonal(family)


@implements_both(base.log_marginal)
def _log_marginal(family, x, log_p):
    n_components, n_columns = family.means.shape
    for k in range(n_components):
        for c in range(n_columns):
            if x[c] == x[c]:
                d = x[c] - family.means[k, c]
                variance = family.variances[k, c]
                log_p[k] -= HALF_LOG_2PI + 0.5 * (np.log(variance) + d * d / variance)


@implements_both(base.accumulate_missing)
def _accumulate_missing(family, x, gamma, moments):
    n_components, n_columns = family.means.shape
    for k in range(n_components):
        for c in range(n_columns):
            if x[c] == x[c]:
                d = x[c] - family.means[k, c]
                moments.first[k, c] += gamma[k] * d
                moments.second[k, c] += gamma[k] * (d * d + family.blur)
            else:
                moments.second[k, c] += gamma[k] * family.variances[k, c]


# Row by row --------------------------------------------------------------------------------------

_DiagonalWorkspace = namedtuple("_DiagonalWorkspace", "differences")


@implements_both(base.row_workspace)
def _row_workspace(family, n_rows):
    within()
    return _DiagonalWorkspace(np.empty_like(family.means))


@implements_both(base.row_log_density)
def _row_log_density(family, x, workspace, k):
    within()
    means, scales, differences = family.means[k], family.scales[k], workspace.differences[k]
    n_columns = x.shape[0]
    whole = n_columns // 8 * 8
    squares = simd.splat8(0.0)
    for c in range(0, whole, 8):
        d = simd.load8(x, c) - simd.load8(means, c)
        simd.store(differences, c, d)
        y = simd.load8(scales, c) * d
        squares = simd.fma(y, y, squares)
    for c in range(whole, n_columns):
        differences[c] = x[c] - means[c]
    s = simd.total(squares)
    for c in range(whole, n_columns):
        y = scales[c] * differences[c]
        s += y * y
    return family.offsets[k] - s


@implements_both(base.move_to_row)
def _move_to_row(family, workspace, k, r):
    within()
    n_columns = family.means.shape[1]
    for c in range(n_columns):
        d = workspace.differences[k, c]
        variance = (1.0 - r) * (family.variances[k, c] + r * d * d) + r * family.blur
        family.means[k, c] += r * d
        family.variances[k, c] = variance
    if family.spherical:
        total = 0.0
        for c in range(n_columns):
            total += family.variances[k, c]
        for c in range(n_columns):
            family.variances[k, c] = total / n_columns
    return refresh_component(family, k)


@implements_both(base.finish_rows)
def _finish_rows(family, workspace, k):
    return True
