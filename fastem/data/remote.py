"""Data in shards on other machines: functions are sent to them, and sums come back."""

from __future__ import annotations

import functools
from collections.abc import Callable

__all__ = ["Remote", "map_tables", "sample_of"]


class Remote:
    """Data in shards on other machines.

    An estimator's ``fit`` accepts them like an array, so that one loop of EM serves all data.
    """

    #: The number of threads that a function may use on a worker.
    n_jobs: int | None = 1

    def checked(self, estimator, *, reset: bool) -> Remote:
        """The same data after ``estimator`` has checked every shard on its worker."""
        raise NotImplementedError

    def sum(self, function: Callable):
        """The sum over the shards of ``function(shard)``, whose values add."""
        raise NotImplementedError

    def blocks(self, n_blocks: int | None = None):
        """The same data in blocks, each with a part of every shard: see ``data.blocks``."""
        raise NotImplementedError

    def sample(self):
        """Observations for the initialization, in this process: all of them if there are few."""
        raise NotImplementedError


def sample_of(data):
    """The data, or a sample of them if they are on other machines."""
    return data.sample() if isinstance(data, Remote) else data


def map_tables(function, data) -> list:
    """``function(table)`` of every table, in this process or on workers."""
    if isinstance(data, Remote):
        # Lists add, too.
        return data.sum(functools.partial(map_tables, function))
    return [function(table) for table in data.tables()]
