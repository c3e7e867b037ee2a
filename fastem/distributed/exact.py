"""Exact EM on a Dask cluster: the estimator's own ``fit``, its sums taken where the data are."""

from __future__ import annotations

from typing import TypeVar

from sklearn.utils.validation import check_is_fitted

from .. import algebra
from .halves import taken
from .shards import Shards, connected, pieces_for

__all__ = ["fit", "score"]

Estimator = TypeVar("Estimator")


def fit(model: Estimator, data, sample_weight=None, cut_off=None, client=None) -> Estimator:
    """Fit an estimator to data on a Dask cluster by exact batch EM.

    The estimator's ``fit`` runs as it does on one machine, with the same start, stopping rule and
    attributes. Only sums over the data are taken elsewhere: the model goes to the workers, and
    statistics come back, added in a tree. The answer is that of one machine to rounding, and a
    worker that is lost in the middle changes nothing in it: what it held is computed again.

    Parameters
    ----------
    model : estimator
        Any of fastem's. It is fitted in place.
    data : Dask array, bag or data frame, or list of delayed blocks or futures
        An array of points (2-D) or of sequences of one length (3-D), in chunks of any number of
        them; a bag of sequences; delayed blocks of anything that ``model.fit`` takes, sparse
        counts or a list of sequences for instance, or tuples of it, its weights (or None) and
        its ``cut_off``.
    sample_weight : Dask array, array or list of delayed arrays, optional
        How much each observation counts. A list has one array for each piece of the data.
    cut_off : Dask array, array or list of delayed arrays, or bool, optional
        For hidden Markov models with absorbing states: which sequences end before they are
        absorbed.
    client : distributed.Client, optional
        The cluster; by default the current client's, or else a local one with a process for each
        core, which is closed at the end.

    Returns
    -------
    estimator
        ``model``, fitted.

    Notes
    -----
    The start is made here from the observations themselves if they are at most 50,000 rows, and
    is then that of ``model.fit``; from a sample of as many, always the same, if they are more.
    A start that is given in the settings is used as it is.
    """
    given = taken(model, sample_weight=sample_weight, cut_off=cut_off)
    with connected(client) as client:
        return model.fit(Shards(client, pieces_for(model, data, client, **given)))


def score(model, data, sample_weight=None, cut_off=None, client=None) -> float:
    """The mean log-likelihood of the observations under a fitted estimator.

    Parameters
    ----------
    model, data, sample_weight, cut_off, client
        As for :func:`fit`.
    """
    check_is_fitted(model)
    given = taken(model, sample_weight=sample_weight, cut_off=cut_off)
    with connected(client) as client:
        shards = Shards(client, pieces_for(model, data, client, **given))
        shards = model._check_data(shards, reset=False)
        return float(algebra.expect(model._model(), shards).log_likelihood)
