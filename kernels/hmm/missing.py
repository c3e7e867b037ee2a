"""Rows of sequences with missing values, marked by NaN: what is missing is integrated out.

Such rows are few: blocks leave them out, and they are handled here one by one.
"""

import numpy as np

from ..families.base import accumulate_missing, log_marginal
from ..options import kernel
from ..rows import GROUP, check_rows, load_one
from .chain import padded_states
from .emissions import LEAST, allow_alone, possible


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
