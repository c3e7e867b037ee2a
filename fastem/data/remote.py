"""Data that are elsewhere, in shards: functions go to them, and sums come back."""

from __future__ import annotations

import functools
from collections.abc import Callable

__all__ = ["Remote", "map_tables", "sample_of"]


class Remote:
    """Data in shards on other machines.

    An estimator's ``fit`` takes them as it takes an array, so that there is one loop of EM for all
    data.
    """

    #: Threads that a function may use where the shards are.
    n_jobs: int | None = 1

    def checked(self, estimator, *, reset: bool) -> Remote:
        """Let ``estimator`` check every shard where it is; raises as for local data."""
        raise NotImplementedError

    def sum(self, function: Callable):
        """The sum over the shards of ``function(shard)``, whose values add."""
        raise NotImplementedError

    def sample(self):
        """Observations for the initialization, brought here: all of them if there are few."""
        raise NotImplementedError


def sample_of(data):
    """The data, or a sample of them if they are elsewhere."""
    return data.sample() if isinstance(data, Remote) else data


def map_tables(function, data) -> list:
    """``function(table)`` of every table, here or elsewhere."""
    if isinstance(data, Remote):
        # Lists add, too.
        return data.sum(functools.partial(map_tables, function))
    return [function(table) for table in data.tables()]
