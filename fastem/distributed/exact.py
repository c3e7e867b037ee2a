"""Exact EM on a Dask cluster: the estimator's own ``fit``, with sums computed by the workers."""

from __future__ import annotations

from typing import TypeVar

from .. import algebra
from ..waiting import check_is_fitted
from .shards import shards_of

__all__ = ["fit", "score"]

Estimator = TypeVar("Estimator")


def fit(model: Estimator, data, sample_weight=None, cut_off=None, client=None) -> Estimator:
    """Fit an estimator to data on a Dask cluster by exact batch EM, or by incremental EM.

    The estimator's ``fit`` runs as it does on one machine, with the same initialization, stopping
    rule and attributes. Only the sums over the data are computed elsewhere: the model is sent to
    the workers, and their statistics are added in a tree. The result is that of one machine up to
    rounding. A lost worker does not change it: its shard is computed again. With
    ``solver="incremental"`` each block has a part of every shard, so that blocks are those of one
    machine only if there is one shard.

    Parameters
    ----------
    model : estimator
        Any estimator of fastem. It is fitted in place.
    data : Dask array, bag or data frame, or list of delayed blocks or futures
        An array of rows (2-D) or of sequences of one length (3-D), in chunks of any size; a bag of
        sequences; delayed blocks of anything that ``model.fit`` accepts, such as sparse counts or a
        list of sequences, or tuples of such a block, its weights (or None) and its ``cut_off``.
    sample_weight : Dask array, array or list of delayed arrays, optional
        The weight of each observation. A list has one array for each chunk of the data.
    cut_off : Dask array, array or list of delayed arrays, or bool, optional
        For hidden Markov models with absorbing states: which sequences end before they are
        absorbed.
    client : distributed.Client, optional
        The cluster. By default that of the current client; if there is no client, a local cluster
        with a process for each core is started, and closed at the end.

    Returns
    -------
    estimator
        ``model``, fitted.

    Notes
    -----
    The initialization runs in this process. Up to 50,000 rows it uses all observations, and is then
    the same as in ``model.fit``; for more rows it uses a sample of 50,000, which is always the
    same. Initial parameters given in the settings are used as they are.

    Examples
    --------
    >>> import fastem
    >>> import dask.array as da
    >>> from distributed import Client
    >>> X = da.random.default_rng(0).normal(size=(1000, 2), chunks=(250, 2))
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     model = fastem.distributed.fit(fastem.GaussianMixture(2), X, client=client)
    >>> model.n_observations_
    1000.0
    """
    with shards_of(model, data, client, sample_weight=sample_weight, cut_off=cut_off) as shards:
        return model.fit(shards)


def score(model, data, sample_weight=None, cut_off=None, client=None) -> float:
    """The mean log-likelihood of the observations under a fitted estimator.

    Parameters
    ----------
    model, data, sample_weight, cut_off, client
        As for :func:`fit`.

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> import dask.array as da
    >>> from distributed import Client
    >>> X = da.random.default_rng(0).normal(size=(1000, 2), chunks=(250, 2))
    >>> model = fastem.GaussianMixture(2, random_state=0).fit(X.compute())
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     total = fastem.distributed.score(model, X, client=client)
    >>> bool(np.isclose(total, model.score(X.compute())))
    True
    """
    check_is_fitted(model)
    with shards_of(model, data, client, sample_weight=sample_weight, cut_off=cut_off) as shards:
        shards = model._check_data(shards, reset=False)
        present = model._model()
        return float(present.mean_log_likelihood(algebra.expect(present, shards)))
