"""Rows with missing values, marked by NaN: what is missing is integrated out.

Given the state and what was seen of the row, what was not seen has the conditional law of the
family; the statistics of the row are its expectation. Rows are few and handled one by one.
Families whose columns cannot be told apart (counts of one total, features of the user's own) take
a row with any missing value as wholly missing.
"""

import numpy as np

from ..families.base import _product, accumulate, add_own, columns_of, log_density
from ..families.categorical import Categorical
from ..families.compound_dirichlet import CompoundDirichlet
from ..families.gaussian_diagonal import DiagonalGaussian
from ..families.gaussian_full import HALF_LOG_2PI, FullGaussian, padded
from ..families.gaussian_tied import TiedGaussian
from ..families.linear import BERNOULLI, EXPONENTIAL, GAMMA, POISSON, Linear, Shaped
from ..options import implements, inlined, kernel
from ..rows import GROUP, check_rows, load_one
from ..special import log_factorial, log_gamma
from .chain import padded_states
from .emissions import LEAST, allow_alone, possible


def log_marginal(family, x, log_p):
    """``log_p[k] += log p(what is seen of x | k)``."""


def accumulate_missing(family, x, gamma, statistics):
    """``statistics += γ_k E[φ(x) | what is seen of x, k]``."""


@kernel
def _fill(x, mean, covariance, difference, conditional):
    """Complete a Gaussian row: ``E[x | seen] - mean`` and the covariance of what is not seen.

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


@implements(log_marginal, FullGaussian)
def _full_marginal(family, x, log_p):
    n = x.shape[0]
    difference, conditional = np.empty(n), np.empty((n, n))
    for k in range(family.means.shape[0]):
        log_p[k] += _fill(x, family.means[k], family.covariances[k], difference, conditional)


@implements(accumulate_missing, FullGaussian)
def _full_accumulate(family, x, gamma, moments):
    n = x.shape[0]
    size = padded(n)
    difference, conditional = np.empty(n), np.empty((n, n))
    for k in range(family.means.shape[0]):
        if gamma[k] > 0.0:
            _fill(x, family.means[k], family.covariances[k], difference, conditional)
            for r in range(n):
                moments.first[k, r] += gamma[k] * difference[r]
                for c in range(r + 1):
                    value = difference[r] * difference[c] + conditional[r, c]
                    moments.second[k, r * size + c] += gamma[k] * value
                if x[r] == x[r]:
                    moments.second[k, r * size + r] += gamma[k] * family.blur


@implements(log_marginal, TiedGaussian)
def _tied_marginal(family, x, log_p):
    n = x.shape[0]
    difference, conditional = np.empty(n), np.empty((n, n))
    for k in range(family.means.shape[0]):
        log_p[k] += _fill(x, family.means[k], family.covariance, difference, conditional)


@implements(accumulate_missing, TiedGaussian)
def _tied_accumulate(family, x, gamma, moments):
    n = x.shape[0]
    size = padded(n)
    difference, conditional = np.empty(n), np.empty((n, n))
    for k in range(family.means.shape[0]):
        if gamma[k] > 0.0:
            _fill(x, family.means[k], family.covariance, difference, conditional)
            for r in range(n):
                moments.first[k, r] += gamma[k] * difference[r]
                for c in range(r + 1):
                    value = difference[r] * difference[c] + conditional[r, c]
                    moments.residual[r * size + c] += gamma[k] * value
                if x[r] == x[r]:
                    moments.residual[r * size + r] += gamma[k] * family.blur


@implements(log_marginal, DiagonalGaussian)
def _diagonal_marginal(family, x, log_p):
    n_components, n_columns = family.means.shape
    for k in range(n_components):
        for c in range(n_columns):
            if x[c] == x[c]:
                d = x[c] - family.means[k, c]
                variance = family.variances[k, c]
                log_p[k] -= HALF_LOG_2PI + 0.5 * (np.log(variance) + d * d / variance)


@implements(accumulate_missing, DiagonalGaussian)
def _diagonal_accumulate(family, x, gamma, moments):
    n_components, n_columns = family.means.shape
    for k in range(n_components):
        for c in range(n_columns):
            if x[c] == x[c]:
                d = x[c] - family.means[k, c]
                moments.first[k, c] += gamma[k] * d
                moments.second[k, c] += gamma[k] * (d * d + family.blur)
            else:
                moments.second[k, c] += gamma[k] * family.variances[k, c]


@kernel
def _complete(x):
    """Whether nothing is missing."""
    for c in range(x.shape[0]):
        if x[c] != x[c]:
            return False
    return True


@inlined
def _whole_marginal(family, x, log_p):
    """``log_marginal`` of families whose columns cannot be told apart."""
    if _complete(x):
        block = np.zeros(x.shape[0] * GROUP)
        for c in range(x.shape[0]):
            block[c * GROUP] = x[c]
        work = np.empty(2 * (x.shape[0] + 4) * GROUP)
        out = np.zeros((log_p.shape[0], GROUP))
        log_density(family, block, GROUP, 1, out, work)
        for k in range(log_p.shape[0]):
            log_p[k] += out[k, 0]


@inlined
def _whole_accumulate(family, x, gamma, statistics):
    """``accumulate_missing`` of families whose columns cannot be told apart."""
    if _complete(x):
        block = np.zeros(x.shape[0] * GROUP)
        for c in range(x.shape[0]):
            block[c * GROUP] = x[c]
        work = np.empty(2 * (x.shape[0] + 4) * GROUP)
        weights = np.zeros((gamma.shape[0], GROUP))
        for k in range(gamma.shape[0]):
            weights[k, 0] = gamma[k]
        accumulate(family, block, GROUP, 1, weights, statistics, work)
    else:
        add_own(family, gamma, statistics, 1.0)


@implements(log_marginal, Linear)
def _linear_marginal(family, x, log_p):
    kind = family.kind
    if not (kind == POISSON or kind == BERNOULLI or kind == EXPONENTIAL):
        _whole_marginal(family, x, log_p)
        return
    n_components, n_columns = family.natural.shape
    for k in range(n_components):
        for c in range(n_columns):
            if x[c] == x[c]:
                value = family.parameters[k, c]
                log_p[k] += x[c] * family.natural[k, c]
                if kind == POISSON:
                    log_p[k] -= value + log_factorial(x[c])
                elif kind == BERNOULLI:
                    log_p[k] += np.log(max(1.0 - value, 1e-300))
                else:
                    log_p[k] -= np.log(value)


@implements(accumulate_missing, Linear)
def _linear_accumulate(family, x, gamma, sums):
    n_components, n_columns = family.natural.shape
    for k in range(n_components):
        for c in range(n_columns):
            value = x[c] if x[c] == x[c] else family.expected[k, c]
            sums.first[k, c] += gamma[k] * value


@implements(log_marginal, Shaped)
def _shaped_marginal(family, x, log_p):
    n_components, n_features = family.natural.shape
    half = n_features // 2
    for k in range(n_components):
        for c in range(half):
            if x[c] == x[c]:
                a, b = family.parameters[k, c], family.parameters[k, half + c]
                if family.kind == GAMMA:
                    log_p[k] += (a - 1.0) * np.log(x[c]) - x[c] / b
                    log_p[k] -= log_gamma(a) + a * np.log(b)
                else:
                    log_p[k] += (a - 1.0) * np.log(x[c]) + (b - 1.0) * np.log1p(-x[c])
                    log_p[k] += log_gamma(a + b) - log_gamma(a) - log_gamma(b)


@implements(accumulate_missing, Shaped)
def _shaped_accumulate(family, x, gamma, sums):
    n_components, n_features = family.natural.shape
    half = n_features // 2
    for k in range(n_components):
        for c in range(half):
            first, second = family.expected[k, c], family.expected[k, half + c]
            if x[c] == x[c]:
                if family.kind == GAMMA:
                    first, second = x[c], np.log(x[c])
                else:
                    first, second = np.log(x[c]), np.log1p(-x[c])
            sums.first[k, c] += gamma[k] * first
            sums.first[k, half + c] += gamma[k] * second


@implements(log_marginal, Categorical)
def _categorical_marginal(family, x, log_p):
    n_components, n_columns, _ = family.probabilities.shape
    for k in range(n_components):
        for c in range(n_columns):
            if x[c] == x[c]:
                log_p[k] += family.logarithms[k, c, np.int64(x[c])]


@implements(accumulate_missing, Categorical)
def _categorical_accumulate(family, x, gamma, sums):
    n_components, n_columns, n_categories = family.probabilities.shape
    for k in range(n_components):
        for c in range(n_columns):
            if x[c] == x[c]:
                sums.counts[k, c, np.int64(x[c])] += gamma[k]
            else:
                for j in range(n_categories):
                    sums.counts[k, c, j] += gamma[k] * family.probabilities[k, c, j]


@implements(log_marginal, CompoundDirichlet)
def _compound_marginal(family, x, log_p):
    _whole_marginal(family, x, log_p)


@implements(accumulate_missing, CompoundDirichlet)
def _compound_accumulate(family, x, gamma, sums):
    _whole_accumulate(family, x, gamma, sums)


def _one_marginal(family, x, log_p):
    log_marginal(family[0], x, log_p)


def _marginal(family, x, log_p):
    log_marginal(family[0], x[: columns_of(family[0])], log_p)
    log_marginal(family[1:], x[columns_of(family[0]) :], log_p)


_product(log_marginal, _one_marginal, _marginal)


def _one_accumulate(family, x, gamma, statistics):
    accumulate_missing(family[0], x, gamma, statistics[0])


def _accumulate(family, x, gamma, statistics):
    accumulate_missing(family[0], x[: columns_of(family[0])], gamma, statistics[0])
    accumulate_missing(family[1:], x[columns_of(family[0]) :], gamma, statistics[1:])


_product(accumulate_missing, _one_accumulate, _accumulate)


@kernel
def _read_row(rows, row, x):
    """Read one row; returns how many of its values are missing."""
    check_rows(rows, row, row)
    count = 0
    at = rows.address + row * rows.row_stride
    for c in range(x.shape[0]):
        x[c] = load_one(at + rows.offsets[c], rows.code)
        if x[c] != x[c]:
            count += 1
    return count


@kernel
def _log_row(chain, family, x, cut_off, length, t, log_p):
    """The log-density of a row with missing values, at step ``t``, in each state."""
    allowed = np.empty((padded_states(chain.n_states), 1))
    allow_alone(chain, cut_off, length, t, 1, allowed)
    for k in range(chain.n_states):
        log_p[k] = allowed[k, 0]
    log_marginal(family, x, log_p)


@kernel
def _emit_rows(chain, family, batch, s, start, stop, logarithms, b, at, stride, step, shifts):
    """``b[at + t * step + k * stride]`` and ``shifts[t * step]`` of rows with missing values."""
    n_states = chain.n_states
    x = np.empty(batch.rows.offsets.shape[0])
    log_p = np.empty(n_states)
    cut_off = batch.cut_off[s] if batch.cut_off.shape[0] > 0 else 0
    for t in range(start, stop):
        if _read_row(batch.rows, batch.starts[s] + t, x) == 0:
            continue
        _log_row(chain, family, x, cut_off, batch.lengths[s], t, log_p)
        top = LEAST
        for k in range(n_states):
            top = max(top, log_p[k])
        to = at + (t - start) * step
        for k in range(n_states):
            b[to + k * stride] = possible(log_p[k]) if logarithms else np.exp(log_p[k] - top)
        if not logarithms:
            # Side by side a step has a place for each lane, which is where state 0 is too.
            shifts[to if stride > 1 else t - start] = top


@kernel
def emit_missing_lanes(
    chain, family, batch, layout, first_unit, last_unit, logarithms, b, shifts
):  # fmt: skip
    """Do again what ``emissions.emit_lanes`` did, for the rows that have missing values."""
    for unit in range(first_unit, last_unit):
        at = layout.at[unit] - layout.at[first_unit]
        step_at = layout.step_at[unit] - layout.step_at[first_unit]
        width = (layout.steps[unit] + 1) * GROUP
        for lane in range(layout.count[unit]):
            s = layout.order[layout.first[unit] + lane]
            _emit_rows(
                chain, family, batch, s, 0, batch.lengths[s], logarithms, b[at:], lane, width,
                GROUP, shifts[step_at:],
            )  # fmt: skip


@kernel
def emit_missing_alone(chain, family, batch, s, start, stop, logarithms, b, shifts):
    """Do again what ``emissions.emit_alone`` did, for the rows that have missing values."""
    size = padded_states(chain.n_states)
    _emit_rows(chain, family, batch, s, start, stop, logarithms, b, 0, 1, size, shifts)


@kernel
def _absorb_rows(
    n_states, family, batch, s, start, stop, gamma, at, stride, step, mass, statistics
):  # fmt: skip
    """Add the statistics of the rows of which a part is missing.

    A row of which nothing was seen says nothing of the emissions.
    """
    x = np.empty(batch.rows.offsets.shape[0])
    weights = np.empty(n_states)
    for t in range(start, stop):
        n_missing = _read_row(batch.rows, batch.starts[s] + t, x)
        if n_missing == 0 or n_missing == x.shape[0]:
            continue
        for k in range(n_states):
            weights[k] = gamma[at + (t - start) * step + k * stride]
            mass[k] += weights[k]
        accumulate_missing(family, x, weights, statistics)


@kernel
def absorb_missing_lanes(
    n_states, family, batch, layout, first_unit, last_unit, gamma, mass, statistics
):  # fmt: skip
    """Do what ``emissions.absorb_lanes`` left out: the rows that have missing values."""
    for unit in range(first_unit, last_unit):
        at = layout.at[unit] - layout.at[first_unit]
        width = (layout.steps[unit] + 1) * GROUP
        for lane in range(layout.count[unit]):
            s = layout.order[layout.first[unit] + lane]
            _absorb_rows(
                n_states, family, batch, s, 0, batch.lengths[s], gamma, at + lane, width, GROUP,
                mass, statistics,
            )  # fmt: skip


@kernel
def absorb_missing_alone(n_states, family, batch, s, start, stop, gamma, mass, statistics):
    """Do what ``emissions.absorb_alone`` left out: the rows that have missing values."""
    size = padded_states(n_states)
    _absorb_rows(n_states, family, batch, s, start, stop, gamma, 0, 1, size, mass, statistics)
