"""One step of the Kalman filter, for observations that come one at a time."""

import numpy as np

from ..options import kernel
from ..small_matrices import add_columns, clear, copy, set_columns, squares
from .filter import correct, predict
from .observation import reduce
from .system import load_observation, load_transition


@kernel
def forward(x, places, row, begun, mean, covariance):
    """Filter one observation, NaN being missing; returns its log-likelihood.

    That is infinity if there is no density, and NaN if the numbers overflow: then nothing is
    changed. The mean and the covariance of the next state lie where those of the first step would.
    """
    w = places[0]
    d, p, r, dd, rr, pp, room, step = w.d, w.p, w.r, w.dd, w.rr, w.pp, w.room, w.partial
    if not begun:
        load_transition(x, w, 0)
        load_observation(x, w, 0)
        copy(x, w.system.V, d * d, room.P)
        clear(x, w.predicted, dd)
        copy(x, w.system.m, d, w.predicted)
    seen = 0
    for j in range(p):
        if not abs(row[j]) < np.inf and row[j] == row[j]:
            return np.inf
        if row[j] == row[j]:
            seen += 1
    record = w.records
    copy(x, w.predicted, dd, w.states)
    gained = 0.0
    if seen > 0:
        if not reduce(x, w, row, np.int64(0), step) or not correct(x, w, step, record):
            return np.inf
        for j in range(p):
            x[room.u + j] = row[j] - x[room.c + j] if row[j] == row[j] else 0.0
        set_columns(x, step.G, p, rr, room.u, room.e)
        add_columns(x, step.minus_C, d, rr, w.predicted, room.e)
        set_columns(x, record + w.record.whiten, r, rr, room.e, room.z)
        add_columns(x, record + w.record.gain, r, dd, room.z, w.states)
        set_columns(x, step.rest, p, pp, room.u, room.noise)
        gained = squares(x, room.z, r) + squares(x, room.noise, p) + seen * np.log(2.0 * np.pi)
        gained = -0.5 * gained - x[record + w.record.log_det] - x[step.half]
        if not abs(gained) < np.inf:
            return np.nan
    else:
        copy(x, room.P, d * d, room.new)
    for i in range(d):
        if not abs(x[w.states + i]) < np.inf or not abs(x[room.new + i * d + i]) < np.inf:
            return np.nan
    for i in range(d):
        mean[i] = x[w.states + i]
        for j in range(d):
            covariance[i, j] = x[room.new + i * d + j]
    predict(x, w, record)
    copy(x, room.b, dd, w.predicted)
    add_columns(x, room.columns, d, dd, w.states, w.predicted)
    return gained
