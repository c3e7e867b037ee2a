"""Matching of components: assignments, and orders of the states of chains.

A matching is an array ``partners``: component ``h`` of one model corresponds to ``partners[h]`` of
the other. Its value is ``Σ_h pairs[h, partners[h]]``, for chains plus
``Σ_hh' counts[h, h'] logs[partners[h], partners[h']]``. Greater is better; minus infinity means an
impossible pair or step.
"""

from __future__ import annotations

from functools import cache
from itertools import permutations

import numpy as np
from scipy.optimize import linear_sum_assignment

__all__ = ["MOST", "all_orders", "best_matching", "matched"]

#: Up to this many components, every order is tried where no assignment is exact.
MOST = 6


@cache
def all_orders(n: int) -> np.ndarray:
    """All orders of ``n``, the given one first; (n!, n)."""
    orders = np.array(list(permutations(range(n)))).reshape(-1, n)
    orders.flags.writeable = False
    return orders


def matched(gains) -> np.ndarray:
    """The partners of greatest total gain, for each table (n, n) of ``gains``."""
    gains = np.asarray(gains, dtype=float)
    n = gains.shape[-1]
    partners = np.empty(gains.shape[:-1], dtype=int)
    for index in np.ndindex(gains.shape[:-2]):
        partners[index] = _assignment(gains[index]) if n > 1 else 0
    return partners


def _assignment(gains):
    if not np.isneginf(gains).any():
        return linear_sum_assignment(gains, maximize=True)[1]
    try:
        return linear_sum_assignment(-gains)[1]
    except ValueError:
        # Every assignment has a pair that cannot be: as few of them as possible.
        return linear_sum_assignment(_finite(gains), maximize=True)[1]


def _finite(values, others=()):
    """The values with minus infinity replaced by what outweighs everything else."""
    scale = sum(np.abs(array[np.isfinite(array)]).sum() for array in (values, *others))
    return np.where(np.isneginf(values), -1e3 * (1.0 + scale), values)


def best_matching(pairs, counts=None, logs=None, allowed=None) -> np.ndarray:
    """The partners of greatest value.

    Parameters
    ----------
    pairs : array of shape (n, n)
        The value of matching ``h`` to ``l``.
    counts, logs : arrays of shape (n, n), optional
        The number of steps from ``h`` to ``h'``, and the value of a step from ``l`` to ``l'``.
        Without them the best matching is an assignment.
    allowed : array of bool of shape (n, n), optional
        Which pairs may be matched at all; some matching must be possible.

    Returns
    -------
    array of shape (n,)
        The best matching if there are no steps, or if ``n`` is at most ``MOST``. Otherwise one
        that no exchange of two improves, and that is not worse than the given order.
    """
    if counts is None:
        return matched(pairs)
    n = len(pairs)
    if allowed is None:
        allowed = np.ones((n, n), dtype=bool)
    if n <= MOST:
        partners = all_orders(n)
        partners = partners[allowed[np.arange(n), partners].all(axis=1)]
        values = _values(pairs, counts, logs, partners)
        if np.isneginf(values).all():
            finite = _finite(pairs, [counts]), counts, _finite(logs, [pairs, counts])
            values = _values(*finite, partners)
        return partners[np.argmax(values)]
    return _search(pairs, counts, logs, allowed)


def _values(pairs, counts, logs, partners):
    """The value of each row of ``partners``."""
    value = pairs[np.arange(len(pairs)), partners].sum(axis=1)
    moved = logs[partners[:, :, None], partners[:, None, :]]
    with np.errstate(invalid="ignore"):
        return value + np.where(counts > 0, counts * moved, 0.0).sum(axis=(1, 2))


def _search(pairs, counts, logs, allowed):
    """From several starts, assignments to the present order and exchanges while they help."""
    finite = _finite(np.where(allowed, pairs, -np.inf), [counts])
    finite_logs = _finite(logs, [pairs, counts])
    n = len(pairs)
    # How a state stays, and how it is left in general, whatever the names of the others.
    staying = np.diag(counts)[:, None] * np.diag(finite_logs)
    leaving = np.sort(counts, axis=1) @ np.sort(finite_logs, axis=1).T
    starts = [matched(table) for table in (finite, finite + staying, finite + leaving)]
    identity = np.arange(n)
    if allowed[identity, identity].all():
        starts.insert(0, identity)

    def value(partners):
        return _values(finite, counts, finite_logs, partners[None])[0]

    return max((_climb(start, finite, counts, finite_logs, value) for start in starts), key=value)


def _climb(partners, pairs, counts, logs, value):
    """Move to better neighbors until there are none."""
    better, at = partners, value(partners)
    while better is not None:
        partners, better = better, None
        for candidate in _neighbors(partners, pairs, counts, logs):
            there = value(candidate)
            if there > at + 1e-13 * abs(at):
                better, at = candidate, there
                break
    return partners


def _neighbors(partners, pairs, counts, logs):
    """The best exchanges of two, and the best assignment with all other partners unchanged."""
    n = len(partners)
    B = logs[np.ix_(partners, partners)]
    rows, columns = counts @ B.T, counts.T @ B
    # Σ_k (c_ik - c_jk)(b_jk - b_ik) for all i, j, and the same for columns.
    change = sum(T + T.T - np.diag(T)[:, None] - np.diag(T) for T in (rows, columns))
    # The steps between i and j themselves were counted as if only one of their ends moved.
    c, b = np.diag(counts), np.diag(B)
    C, D = counts, B
    counted = (c[:, None] - C.T) * (D.T - b[:, None]) + (C - c) * (b - D)
    counted = counted + (c[:, None] - C) * (D - b[:, None]) + (C.T - c) * (b - D.T)
    meant = (c[:, None] - c) * (b - b[:, None]) + (C - C.T) * (D.T - D)
    own = pairs[np.arange(n)[:, None], partners]
    change = change - counted + meant + own + own.T - np.diag(own)[:, None] - np.diag(own)
    upper = np.triu_indices(n, 1)
    order = np.argsort(change[upper])[::-1][:3]
    for i, j in zip(upper[0][order], upper[1][order], strict=True):
        exchanged = partners.copy()
        exchanged[[i, j]] = partners[[j, i]]
        yield exchanged
    around = counts @ logs[:, partners].T + counts.T @ logs[partners]
    yield matched(pairs + around)
