"""Data on the workers of a Dask cluster, and sums over them.

Workers keep the chunks that Dask computed on them, as one shard each. A function is sent to every
shard and runs with all threads of the worker; its results are added on the worker, then across
workers in a tree. The traffic and the load of the scheduler therefore do not depend on the number
of observations. The tree is fixed at the beginning, so that the sum is the same to the bit if
workers are lost and their shards are computed again on others.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import operator
from dataclasses import dataclass

import dask
import numpy as np
from dask.delayed import Delayed, delayed
from distributed import Client, LocalCluster, default_client, wait
from sklearn.base import clone

from ..data.blocks import Blocks, Size, number_of_blocks
from ..data.remote import Remote
from ..parallel import n_threads
from .chunks import Chunk, chunks_of, join
from .em_step import fit_arguments
from .versions import check_versions

__all__ = ["Shards", "add", "broadcast", "connected", "shards_of", "tree_sum"]

#: The number of values that are added at each node of the tree.
_FAN_IN = 4
#: The largest number of rows (or steps of sequences) that the initialization uses.
_SAMPLE_ROWS = 50_000


@contextlib.contextmanager
def connected(client: Client | None):
    """The given client; else the current one; else one of a local cluster, closed at the end."""
    if client is None:
        with contextlib.suppress(ValueError):
            client = default_client()
    if client is not None:
        with client.as_current():
            check_versions(client)
            yield client
        return
    with (
        LocalCluster(
            n_workers=n_threads(None), threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
        client.as_current(),
    ):
        yield client


@dataclass
class Shard:
    """Chunks on one worker, in order, and the data that an estimator made of them."""

    #: By number.
    chunks: dict[int, Chunk]
    data: list
    #: What the estimator learned from the data when it checked them.
    attributes: dict

    def __sizeof__(self):
        return sum(chunk.__sizeof__() for chunk in self.chunks.values())

    def part(self, begin, end) -> Chunk:
        """The observations ``begin .. end - 1`` in the order of the chunks."""
        parts = []
        for chunk in self.chunks.values():
            if begin < len(chunk) and end > 0:
                parts.append(chunk.part(slice(max(begin, 0), end)))
            begin, end = begin - len(chunk), end - len(chunk)
        return join(parts)


@contextlib.contextmanager
def shards_of(model, data, client=None, *, n_shards: int | None = None, **given):
    """Observations for an estimator on a cluster, while there is a connection to it.

    Parameters are those of :func:`fastem.distributed.fit` and :class:`Shards`; ``given`` are the
    arguments that have an entry for each observation.
    """
    given = fit_arguments(model, **given)
    with connected(client) as client:
        chunks = chunks_of(data, model._learns_sequences, client, **given)
        yield Shards(client, chunks, n_shards=n_shards)


class Shards(Remote):
    """Observations on the workers of a cluster.

    Parameters
    ----------
    client : Client
    chunks : list of Delayed
        Each computes a :class:`~fastem.distributed.chunks.Chunk`.
    per_worker : int, default=1
        The number of shards of each worker, if it has enough chunks.
    n_shards : int, optional
        The number of shards in all. Each is made of consecutive chunks, on whichever worker they
        are.
    """

    def __init__(self, client, chunks, per_worker: int = 1, n_shards: int | None = None):
        self.client = client
        self.chunks = chunks
        self.per_worker = per_worker
        self.n_shards = n_shards

    def checked(self, estimator, *, reset):
        """Make shards that ``estimator`` has checked; with ``reset`` it gets their attributes."""
        # Callbacks are called here, and may be what cannot be sent.
        checker = copy.copy(estimator).set_params(callback=None)
        checker = clone(checker) if reset else checker
        # Shards keep what they need; chunks that were copied into other ones can be released.
        chunks, self.chunks = self.chunks, ()
        computed = self.client.compute(chunks, optimize_graph=False)
        del chunks
        with self.client.as_current():
            wait(computed)
        # Workers may have joined since the client was checked.
        check_versions(self.client)
        groups = self._group(computed)
        checker = broadcast(checker)
        make_shard = delayed(_make_shard, pure=False)
        self.futures = []
        for worker, numbers in groups:
            shard = make_shard(checker, reset, numbers, *[computed[number] for number in numbers])
            self.futures += self.client.compute(
                [shard], workers=worker and [worker], allow_other_workers=True,
                optimize_graph=False,
            )  # fmt: skip
        describe = delayed(_describe, pure=False)
        descriptions = self.gather([describe(shard) for shard in self.futures])
        self._read_descriptions(descriptions, estimator, reset)
        threads = self.client.nthreads().values()
        at_once = -(-len(self.futures) // max(1, len(threads)))
        self.n_jobs = max(1, max(threads, default=1) // at_once)
        return self

    def _group(self, computed):
        """The chunks of each shard and the worker it should be on, in the order of the chunks."""
        threads = self.client.nthreads()
        if self.n_shards is not None:
            parts = np.array_split(np.arange(len(computed)), min(self.n_shards, len(computed)))
            return list(zip(itertools.cycle(sorted(threads)), (p.tolist() for p in parts)))
        holders = self.client.who_has(computed)
        by_worker = {}
        for number, future in enumerate(computed):
            workers = sorted(holders.get(future.key, ()))
            by_worker.setdefault(workers[0] if workers else None, []).append(number)
        groups = []
        for worker, numbers in by_worker.items():
            count = min(len(numbers), self.per_worker)
            groups += [(worker, p.tolist()) for p in np.array_split(np.array(numbers), count)]
        return sorted(groups, key=lambda group: group[1][0])

    def _read_descriptions(self, descriptions, estimator, reset):
        pairs = zip(self.futures, descriptions, strict=True)
        kept = [(future, *described) for future, described in pairs if described[0]]
        if not kept:
            raise ValueError(
                "There is nothing to learn from: the data have no observations, or the weights "
                "are all zero."
            )
        self.futures, counts, n_rows, attributes = map(list, zip(*kept, strict=True))
        first = attributes[0]
        for name, value in itertools.chain.from_iterable(other.items() for other in attributes):
            if not np.array_equal(first.get(name), value):
                raise ValueError(
                    f"The chunks of the data are not alike: {name} is {first.get(name)} in "
                    f"one and {value} in another."
                )
        self.n_rows = sum(n_rows)
        #: The number of observations of each shard.
        self.sizes = [sum(shard.values()) for shard in counts]
        #: The number of observations of each chunk, by the number of the chunk.
        self.counts = dict(sorted(item for shard in counts for item in shard.items()))
        self.estimator = estimator
        if reset:
            for name, value in first.items():
                setattr(estimator, name, value)

    @property
    def n_observations(self) -> int:
        """The number of rows, sequences or documents."""
        return sum(self.counts.values())

    def sum(self, function):
        """The sum over the shards of ``function(data)``, in a tree."""
        sent = broadcast(function)
        parts = [delayed(_sum_over, pure=False)(sent, shard) for shard in self.futures]
        return self.gather([tree_sum(parts)])[0]

    def blocks(self, n_blocks=None):
        """Blocks of observations; they stay where their shards are."""
        columns = getattr(self.estimator, "n_features_in_", 1)
        size = Size(self.n_observations, self.n_rows, columns, np.nan)
        count = number_of_blocks(size, n_blocks)
        cut, weigh = delayed(_cut, pure=False), delayed(_weight, pure=False)
        parts = [
            self.client.compute([cut(shard, number, count) for shard in self.futures],
                                optimize_graph=False)
            for number in range(count)
        ]  # fmt: skip
        weights = self.gather([weigh(part) for block in parts for part in block])
        weights = np.reshape(weights, (count, len(self.futures)))
        blocks = []
        for block, found in zip(parts, weights, strict=True):
            if found.any():
                other = copy.copy(self)
                other.futures = [part for part, weight in zip(block, found, strict=True) if weight]
                blocks.append(other)
        return Blocks(blocks, len(blocks), float(weights.sum()))

    def sample(self):
        chunk = self.sample_chunk()
        return self.estimator._check_data(chunk.X, **chunk.given, reset=False)

    def sample_chunk(self) -> Chunk:
        """All observations in order, or a sample of them that is always the same."""
        limit = self.n_observations
        if self.n_rows > _SAMPLE_ROWS:
            limit = max(1, int(_SAMPLE_ROWS * self.n_observations / self.n_rows))
        chosen = np.arange(self.n_observations)
        if limit < len(chosen):
            rng = np.random.default_rng(0)
            chosen = np.sort(rng.choice(len(chosen), limit, replace=False))
        wanted, begin = {}, 0
        for number, count in self.counts.items():
            first, last = np.searchsorted(chosen, (begin, begin + count))
            wanted[number] = chosen[first:last] - begin
            begin += count
        select = delayed(_select, pure=False)
        found = {}
        for selected in self.gather([select(shard, wanted) for shard in self.futures]):
            found |= selected
        return join([found[number] for number in sorted(found)])

    def gather(self, values: list[Delayed]) -> list:
        """Compute delayed values on the workers, and bring them to this process."""
        # A model in the graph may be large, and has to be sent anyway.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            return self.client.gather(self.client.compute(values, optimize_graph=False))


def broadcast(value) -> Delayed:
    """A value for many tasks: sent through the scheduler once, then from worker to worker."""
    return delayed(_identity, pure=False)(delayed(value, traverse=False, pure=False))


def tree_sum(values: list[Delayed]) -> Delayed:
    """The sum of delayed values in a tree, neighbors first."""
    while len(values) > 1:
        groups = [values[i : i + _FAN_IN] for i in range(0, len(values), _FAN_IN)]
        values = [
            delayed(add, pure=False)(*group) if len(group) > 1 else group[0] for group in groups
        ]
    return values[0]


# Run on workers ---------------------------------------------------------------------------------


def _identity(value):
    return value


def _make_shard(estimator, reset, numbers, *chunks):
    """A shard of chunks that the estimator checks; without chunks that are empty or weightless."""
    # Tasks in other threads have the same estimator.
    estimator = copy.copy(estimator)
    settings = estimator.get_params(deep=False)
    kept, data, attributes = {}, [], {}
    for number, chunk in zip(numbers, chunks, strict=True):
        if len(chunk) == 0:
            continue
        fit_arguments(estimator, **chunk.given)
        for name, values in chunk.given.items():
            if values.shape != (len(chunk),):
                raise ValueError(
                    f"In chunk {number} of the data: {name} has the shape {values.shape}, and "
                    f"there are {len(chunk)} observations."
                )
        if not np.any(chunk.given.get("sample_weight", True)):
            continue
        try:
            checked = estimator._check_data(chunk.X, **chunk.given, reset=reset)
        except ValueError as error:
            raise ValueError(f"In chunk {number} of the data: {error}") from error
        if reset:
            attributes = {
                name: value for name, value in vars(estimator).items()
                if name.endswith("_") and name not in settings
            }  # fmt: skip
            reset = False
        kept[number] = chunk
        data.append(checked)
    return Shard(kept, data, attributes)


def _describe(shard):
    """The number of observations of each chunk, the number of rows, and the attributes."""
    counts = {number: len(chunk) for number, chunk in shard.chunks.items()}
    return counts, sum(chunk.n_rows for chunk in shard.chunks.values()), shard.attributes


def _sum_over(function, shard):
    return add(*map(function, shard.data))


def _cut(shard, number, count):
    """One of ``count`` parts of a shard, without tables that have no weight."""
    tables = [table for data in shard.data for table in data.tables()]
    n = sum(map(len, tables))
    begin, end = (i * -(-n // count) for i in (number, number + 1))
    parts = []
    for table in tables:
        if begin < len(table) and end > 0:
            part = table.part(max(begin, 0), min(end, len(table)))
            if part.sample_weight is None or part.sample_weight.any():
                parts.append(part)
        begin, end = begin - len(table), end - len(table)
    # The rows are those of the shard, and take no more memory.
    return Shard({}, parts, {})


def _weight(shard):
    """The sum of the weights of the observations."""
    weights = [
        len(table) if table.sample_weight is None else table.sample_weight.sum()
        for table in shard.data
    ]
    return float(sum(weights))


def _select(shard, wanted):
    return {number: chunk.part(wanted[number]) for number, chunk in shard.chunks.items()}


def add(*values):
    """The sum of values in order; this runs in this process, too."""
    return functools.reduce(operator.add, values)
