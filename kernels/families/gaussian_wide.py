"""Gaussian components with independent columns, of many columns: mixtures of them.

Blocks have one row after another (``wide_rows``). Components that are far from a row are left out
for it, which with many columns is nearly all of them.
"""

import numpy as np

from .. import simd, wide_rows
from ..options import implements, inlined
from ..products import add_sums, choose
from ..rows import GROUP, whole_vectors
from . import base
from .base import NOTHING
from .gaussian_diagonal import WideGaussian, add_blur, add_offsets
from .gaussian_full import GAP_OF_FLOATS


@inlined
def _stride(family, block):
    return wide_rows.stride_of(family.means.shape[1], block)


@implements(base.block_rows, WideGaussian)
def _block_rows(family):
    rows = wide_rows.rows_in_block(family.means.shape[1])
    return rows // GROUP * simd.count8(family.scales)


@implements(base.work_size, WideGaussian)
def _work_size(family):
    n_components = family.means.shape[0]
    return wide_rows.standards_size(n_components, _stride(family, family.scales))


@implements(base.prepare, WideGaussian)
def _prepare(family, work):
    wide_rows.set_standards(family.means, family.scales, _stride(family, work), work)


@implements(base.read_rows, WideGaussian)
def _read_rows(family, rows, first, n, block, width):
    wide_rows.read_wide_rows(rows, first, n, block, _stride(family, block))


@implements(base.likely_log_density, WideGaussian)
def _likely_log_density(family, block, width, n, log_p, work, gap):
    n_components = family.means.shape[0]
    filled = whole_vectors(n, block)
    add_offsets(family, filled, log_p)
    if simd.count(block) > simd.LANES:
        gap = min(gap, GAP_OF_FLOATS)
    wide_rows.subtract_likely_distances(
        block, _stride(family, block), width, filled, n_components, work, gap, log_p.reshape(-1)
    )


@implements(base.accumulate_likely, WideGaussian)
def _accumulate_likely(family, block, width, n, gamma, moments, work):
    n_components = family.means.shape[0]
    filled = whole_vectors(n, block)
    weights = gamma.reshape(-1)
    totals = np.zeros(n_components)
    n_chosen = add_sums(weights, width, filled, n_components, NOTHING, totals)
    places = np.empty(n_chosen + 8, dtype=np.int32)
    starts = np.empty(n_components + 1, dtype=np.int64)
    choose(weights, width, filled, n_components, NOTHING, places, starts)
    wide_rows.add_wide_moments(
        block, _stride(family, block), places, starts, weights, width, totals, work,
        family.means, moments.first, moments.second,
    )  # fmt: skip
    add_blur(family, totals, moments)
