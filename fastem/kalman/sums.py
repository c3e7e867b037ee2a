"""Statistics of a Kalman filter as moments, which add, and as the sums that kernels compute."""

from __future__ import annotations

import numpy as np

from ..kernels.kalman.layout import Arena
from ..kernels.kalman.system import sums_arena
from ..statistics import Moments, Statistics

__all__ = ["moments_of_sums", "raw_moments", "sums_of_moments"]


def moments_of_sums(sums, center, rows=None) -> Statistics:
    """Moments about the means, from a kernel's sums about its reference and the center.

    Parameters
    ----------
    sums : Block
        The block ``sums`` of a kernel's array.
    center : array of shape (p,)
    rows : tuple, optional
        Weight, sum and products of observations that are not among the kernel's sums.
    """
    reference, first, last, seen = sums.reference, sums.first, sums.last, sums.seen
    states, states2 = seen + sums.unseen, sums.seen2 + sums.unseen2
    v, vv = sums.v, sums.vv
    if rows is not None:
        v, vv = v + rows[1], vv + rows[2]
    return Statistics(
        initial=_moments(sums.weight, first, sums.first2, reference),
        transition=_moments(
            sums.transitions,
            np.concatenate([states - first, states - last]),
            _joined(states2 - sums.first2, sums.lag, states2 - sums.last2),
            np.concatenate([reference, reference]),
        ),
        observation=_moments(
            sums.observed,
            np.concatenate([v, seen]),
            _joined(vv, sums.vh, sums.seen2),
            np.concatenate([center, reference]),
        ),
    )


def sums_of_moments(statistics, center) -> Arena:
    """A kernel's sums with these moments: the inverse of :func:`moments_of_sums`."""
    p = len(center)
    reference = statistics["observation"].mean[0][p:]
    d = len(reference)
    n, first, first2 = raw_moments(statistics["initial"], reference)
    transitions, pair, pair2 = raw_moments(
        statistics["transition"], np.concatenate([reference, reference])
    )
    observed, row, row2 = raw_moments(
        statistics["observation"], np.concatenate([center, reference])
    )
    states, states2 = pair[:d] + first, pair2[:d, :d] + first2
    arena = sums_arena(d, p)
    arena.sums.put(
        weight=n, transitions=transitions, observed=observed, rows=observed, reference=reference,
        first=first, first2=first2, last=states - pair[d:], last2=states2 - pair2[d:, d:],
        seen=row[p:], seen2=row2[p:, p:], unseen=states - row[p:], unseen2=states2 - row2[p:, p:],
        lag=pair2[:d, d:], vh=row2[:p, p:], v=row[:p], vv=row2[:p, :p],
    )  # fmt: skip
    return arena


def raw_moments(moments, about=0.0):
    """Count, sum and sum of products about a point of what has these moments."""
    n, mean = float(moments.mass[0]), moments.mean[0] - about
    return n, n * mean, moments.scatter[0] + n * np.outer(mean, mean)


def _moments(mass, first, second, reference):
    share = 1.0 / mass if mass > 0 else 0.0
    mean = first * share
    scatter = 0.5 * (second + second.T) - (mass * mean)[:, None] * mean
    return Moments(np.array([mass]), (reference + mean)[None], scatter[None])


def _joined(a, b, c):
    """``[[a, b], [bᵀ, c]]``; np.block takes its time."""
    n = len(a)
    out = np.empty((n + len(c), n + len(c)))
    out[:n, :n], out[:n, n:], out[n:, :n], out[n:, n:] = a, b, b.T, c
    return out
