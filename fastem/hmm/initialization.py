"""Clusters and moments of the data, for the initialization of hidden Markov models."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..clustering import kmeans
from ..data.rows import Stream, Table
from ..data.sampling import sample_rows
from ..data.sequences import Sequences
from ..exceptions import NotEnoughData

__all__ = ["Clusters", "clusters", "complete_rows", "covariance", "mean_and_variance"]


class Clusters(NamedTuple):
    """Rows, and the cluster of each: one cluster for each state."""

    X: np.ndarray
    sample_weight: np.ndarray | None
    labels: np.ndarray
    centers: np.ndarray


def complete_rows(data, random_state, which="all") -> Table:
    """Rows without missing values: all of them, or a bounded sample of a file or stream.

    ``which`` is ``"all"``, ``"last"`` (those at which a sequence is absorbed) or ``"before"``.
    """
    if isinstance(data, Sequences):
        rows = Table(*_rows(data, which))
    else:
        rows = Stream(lambda: (_rows(table, which) for table in data.tables()))
    sample = sample_rows(rows, random_state)
    X, weights = sample.X, sample.sample_weight
    if X.dtype.kind == "f":
        complete = ~np.isnan(X).any(axis=1)
        if not complete.all():
            if not complete.any():
                # No row is complete: missing values become the means of their columns.
                return Table(_fill(X), weights)
            X, weights = X[complete], None if weights is None else weights[complete]
    return Table(X, weights)


def clusters(data, n_states, random_state, seed, absorbing=(), n_init=10) -> Clusters:
    """K-means of the rows; absorbing states get clusters of the rows at which sequences end.

    ``seed`` is the random state that k-means is given, ``random_state`` draws the sample.
    """
    if not absorbing:
        return _cluster(complete_rows(data, random_state), n_states, seed, n_init)
    states = np.arange(n_states)
    last = np.isin(states, absorbing)
    parts = []
    for which, chosen in (("before", states[~last]), ("last", states[last])):
        table = complete_rows(data, random_state, which)
        if len(table.X) < len(chosen):
            table = complete_rows(data, random_state)
        found = _cluster(table, len(chosen), seed, n_init)
        parts.append(found._replace(labels=chosen[found.labels]))
    X, weights, labels, found = zip(*parts, strict=True)
    weights = None if weights[0] is None else np.concatenate(weights)
    centers = np.empty((n_states, X[0].shape[1]))
    centers[~last], centers[last] = found
    return Clusters(np.concatenate(X), weights, np.concatenate(labels), centers)


def covariance(table) -> np.ndarray:
    """The covariance of the rows, (D, D)."""
    n_columns = table.X.shape[1]
    weights = table.sample_weight
    n_rows = len(table.X) if weights is None else np.count_nonzero(weights)
    if n_rows < 2:
        return np.zeros((n_columns, n_columns))
    return np.reshape(np.cov(table.X.T, aweights=weights), (n_columns, n_columns))


def mean_and_variance(data) -> tuple[float, float]:
    """Of all entries of the data; sequences count by their weights."""
    if isinstance(data, Sequences) and not data.missing and data.sample_weight is None:
        return data.X.mean(), data.X.var()
    total, mean, scatter = 0.0, 0.0, 0.0
    for table in data.tables():
        X = np.asarray(table.X, dtype=float)
        weights = np.ones(len(X)) if table.row_weights is None else table.row_weights
        weights = np.where(np.isnan(X), 0.0, weights[:, None])
        weight = weights.sum()
        if weight > 0:
            X = np.nan_to_num(X)
            middle = (weights * X).sum() / weight
            shift = middle - mean
            scatter += (weights * (X - middle) ** 2).sum()
            scatter += shift**2 * total * weight / (total + weight)
            mean += shift * weight / (total + weight)
            total += weight
    if total == 0:
        raise ValueError("All values are missing: there is nothing to learn from.")
    return mean, scatter / total


def _cluster(table, n_clusters, seed, n_init):
    n_rows = len(table.X)
    if n_rows < n_clusters:
        count = "is 1 row" if n_rows == 1 else f"are {n_rows} rows"
        raise NotEnoughData(
            f"There {count} to start from, fewer than the {n_clusters} states. "
            "Start from more rows, use fewer states, or set the parameters to start from."
        )
    found = kmeans(
        table.X, n_clusters, n_init=n_init, random_state=seed, sample_weight=table.sample_weight
    )
    centers = np.asarray(found.centers, dtype=float)
    return Clusters(table.X, table.sample_weight, found.labels, centers)


def _rows(table, which):
    """Rows of a table, and their weights."""
    weights = table.row_weights
    if which == "all":
        return table.X, weights
    ends = table.starts + table.lengths - 1
    if table.cut_off is not None:
        ends = ends[~table.cut_off]
    chosen = np.zeros(len(table.X), bool)
    chosen[ends] = True
    if which == "before":
        chosen = ~chosen
    return table.X[chosen], None if weights is None else weights[chosen]


def _fill(X):
    """The rows with the means of the columns in place of what is missing."""
    absent = np.isnan(X)
    counts = np.maximum((~absent).sum(axis=0), 1)
    means = np.where(absent, 0.0, X).sum(axis=0) / counts
    return np.where(absent, means, X)
