"""Data that lie on the workers of a Dask cluster, and sums over them.

Pieces (chunks of an array, partitions of a bag, delayed blocks) are held where Dask computed them,
one shard on each worker. A function goes to every shard, with all threads of the worker, and what
comes of it is added there and then up a tree, so that what moves, and what the scheduler has to
do, does not depend on the number of observations. The tree is fixed once: the sum is the same to
the bit if workers are lost and their shards are computed again elsewhere.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import operator
from dataclasses import dataclass, field

import dask
import numpy as np
from dask.delayed import Delayed, delayed
from distributed import Client, Future, LocalCluster, default_client, wait
from scipy import sparse
from sklearn.base import clone

from ..data.remote import Remote
from ..data.rows import Stream, is_stream
from ..data.sequences import Sequences
from ..parallel import n_threads
from .halves import taken
from .versions import check_versions

__all__ = ["Piece", "Shards", "add_up", "connected", "everywhere", "join", "pieces_for",
           "pieces_of"]  # fmt: skip

#: How many values are added at once on the way up the tree.
_FAN_IN = 4
#: Rows (or steps of sequences) that are brought together to start from.
_SAMPLE_ROWS = 50_000
#: What can be given with each observation, in the order of a tuple, and what it is if it is not.
_UNLESS_GIVEN = {"sample_weight": 1.0, "cut_off": False}


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


@dataclass(frozen=True)
class Piece:
    """Some of the observations, as they were given."""

    X: object
    #: Arguments of ``fit`` that have an entry for each observation, such as weights, by name.
    given: dict = field(default_factory=dict)

    def __len__(self):
        return self.X.shape[0] if hasattr(self.X, "shape") else len(self.X)

    def __sizeof__(self):
        # So that Dask knows how much memory is taken.
        return _n_bytes(self.X)

    def part(self, index) -> Piece:
        """The observations of a slice, or of a list of numbers."""
        given = {name: values[index] for name, values in self.given.items()}
        if isinstance(self.X, list) and not isinstance(index, slice):
            return Piece([self.X[i] for i in index], given)
        X = self.X.iloc if hasattr(self.X, "iloc") else self.X
        return Piece(X[index], given)

    @property
    def n_rows(self) -> int:
        """Rows, or steps of all sequences."""
        if hasattr(self.X, "shape"):
            return int(np.prod(self.X.shape[:-1]))
        return sum(len(x) for x in self.X)

    @property
    def weight(self) -> float:
        """The sum of the weights; the number of observations if they have none."""
        weights = self.given.get("sample_weight")
        return float(len(self) if weights is None else np.sum(weights))


class Shard:
    """Pieces that are held together, in order, and what an estimator made of them."""

    def __init__(self, numbers, pieces, data, attributes):
        self.numbers = numbers
        self.pieces = pieces
        self.data = data
        self.attributes = attributes

    def __len__(self):
        return sum(map(len, self.pieces))

    def __sizeof__(self):
        return sum(piece.__sizeof__() for piece in self.pieces)

    def part(self, begin, end) -> Piece:
        """The observations ``begin .. end - 1`` in the order of the pieces."""
        parts = []
        for piece in self.pieces:
            if begin < len(piece) and end > 0:
                parts.append(piece.part(slice(max(begin, 0), end)))
            begin, end = begin - len(piece), end - len(piece)
        return join(parts)


class Shards(Remote):
    """Observations on the workers of a cluster.

    Parameters
    ----------
    client : Client
    pieces : list of Delayed
        Each a :class:`Piece`.
    per_worker : int, default=1
        How many shards a worker's pieces make, if they are enough.
    n_shards : int, optional
        How many shards to make in all, of pieces that follow one another, wherever they are.
    """

    def __init__(self, client, pieces, per_worker: int = 1, n_shards: int | None = None):
        self.client = client
        self.pieces = pieces
        self.per_worker = per_worker
        self.n_shards = n_shards

    def checked(self, estimator, *, reset):
        """Hold the pieces, checked by ``estimator``, which gets the attributes this gives."""
        asked = clone(estimator) if reset else estimator
        # Shards keep what they need: pieces that went into others would be held for nothing.
        pieces, self.pieces = self.pieces, ()
        held = self.client.compute(pieces, optimize_graph=False)
        del pieces
        with self.client.as_current():
            wait(held)
        # Also of workers that were not there yet at the beginning.
        check_versions(self.client)
        groups = self._group(held)
        asked = everywhere(asked)
        hold = delayed(_hold, pure=False)
        self.futures = []
        for worker, numbers in groups:
            shard = hold(asked, reset, numbers, *[held[number] for number in numbers])
            self.futures += self.client.compute(
                [shard], workers=worker and [worker], allow_other_workers=True,
                optimize_graph=False,
            )  # fmt: skip
        describe = delayed(_describe, pure=False)
        notes = self.gather([describe(shard) for shard in self.futures])
        self._take_note(notes, estimator, reset)
        threads = self.client.nthreads().values()
        at_once = -(-len(self.futures) // max(1, len(threads)))
        self.n_jobs = max(1, max(threads, default=1) // at_once)
        return self

    def _group(self, held):
        """Which pieces make a shard, and the worker it should be on, in the order of the pieces."""
        threads = self.client.nthreads()
        if self.n_shards is not None:
            parts = np.array_split(np.arange(len(held)), min(self.n_shards, len(held)))
            return list(zip(itertools.cycle(sorted(threads)), (p.tolist() for p in parts)))
        holders = self.client.who_has(held)
        homes = {}
        for number, future in enumerate(held):
            workers = sorted(holders.get(future.key, ()))
            homes.setdefault(workers[0] if workers else None, []).append(number)
        groups = []
        for worker, numbers in homes.items():
            count = min(len(numbers), self.per_worker)
            groups += [(worker, p.tolist()) for p in np.array_split(np.array(numbers), count)]
        return sorted(groups, key=lambda group: group[1][0])

    def _take_note(self, notes, estimator, reset):
        counts, first = {}, None
        self.n_rows = 0
        kept, sizes = [], []
        for note, future in zip(notes, self.futures, strict=True):
            counts |= note["counts"]
            self.n_rows += note["n_rows"]
            if not note["counts"]:
                continue
            kept.append(future)
            sizes.append(sum(note["counts"].values()))
            first = first or note["attributes"]
            for name, value in note["attributes"].items():
                if not np.array_equal(first.get(name), value):
                    raise ValueError(
                        f"The pieces of the data are not alike: {name} is {first.get(name)} in "
                        f"one and {value} in another."
                    )
        if not kept:
            raise ValueError(
                "There is nothing to learn from: the data have no observations, or the weights "
                "are all zero."
            )
        self.futures = kept
        #: The number of observations of each shard.
        self.sizes = sizes
        #: The number of observations of each piece, by its number.
        self.counts = dict(sorted(counts.items()))
        self.estimator = estimator
        if reset:
            for name, value in first.items():
                setattr(estimator, name, value)

    @property
    def n_observations(self) -> int:
        """Points, sequences or documents."""
        return sum(self.counts.values())

    def sum(self, function):
        """The sum over the shards of ``function(data)``, in a tree."""
        envoy = everywhere(function)
        parts = [delayed(_sum_over, pure=False)(envoy, shard) for shard in self.futures]
        return self.gather([add_up(parts)])[0]

    def sample(self):
        piece = self.sample_piece()
        return self.estimator._check_data(piece.X, **piece.given, reset=False)

    def sample_piece(self) -> Piece:
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
        take = delayed(_take, pure=False)
        found = {}
        for part in self.gather([take(shard, wanted) for shard in self.futures]):
            found |= part
        return join([found[number] for number in sorted(found)])

    def gather(self, parts: list[Delayed]) -> list:
        """Compute delayed values, and bring them here."""
        # A large model in a graph is meant: it has to go to the workers somehow.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            return self.client.gather(self.client.compute(parts, optimize_graph=False))


def everywhere(value) -> Delayed:
    """A value for many tasks: through the scheduler once, then from worker to worker."""
    return delayed(_itself, pure=False)(delayed(value, traverse=False, pure=False))


def add_up(parts: list[Delayed]) -> Delayed:
    """The sum of delayed values, neighbors first, in a tree."""
    while len(parts) > 1:
        groups = [parts[i : i + _FAN_IN] for i in range(0, len(parts), _FAN_IN)]
        parts = [
            delayed(_add, pure=False)(*group) if len(group) > 1 else group[0] for group in groups
        ]
    return parts[0]


# From collections to pieces -------------------------------------------------------------------


def pieces_for(model, data, client, **given) -> list[Delayed]:
    """:func:`pieces_of`, with observations that are what the estimator learns from."""
    return pieces_of(data, model._learns_sequences, client, **given)


def pieces_of(data, of_sequences=False, client=None, **given) -> list[Delayed]:
    """A Dask collection, or a list of delayed blocks or futures, as delayed pieces.

    Parameters
    ----------
    data
        As for :func:`fastem.distributed.fit`.
    of_sequences : bool, default=False
        Whether an observation is a sequence, and not a row.
    client : Client, optional
        Needed if something is given as one array and the sizes of the blocks are not known.
    **given
        What goes with the observations: for all of them an array, a Dask array or one value, or
        for each block a delayed array.
    """
    if isinstance(data, (Delayed, Future)):
        data = [data]
    sizes = [np.nan]
    if hasattr(data, "chunks") and hasattr(data, "rechunk"):
        # A row or a sequence is in one chunk.
        data = data.rechunk(dict.fromkeys(range(1, data.ndim), -1))
        sizes = data.chunks[0]
    blocks = _blocks(data)
    if of_sequences and getattr(data, "ndim", 3) < 3:
        raise ValueError(
            "Rows in chunks do not say where sequences begin and end: give a 3-D array "
            "(n_sequences, n_steps, n_columns), a bag of sequences, or delayed lists of them."
        )
    pieces = [delayed(_as_piece, pure=False)(block, of_sequences) for block in blocks]
    parts = {}
    for name, values in given.items():
        parts[name] = _in_blocks(name, values, len(pieces))
        if parts[name] is None:
            if np.isnan(sizes).any():
                # They are held from here on, so that nothing is loaded twice.
                pieces = client.compute(pieces, optimize_graph=False)
                counts = [delayed(len, pure=False)(piece) for piece in pieces]
                sizes = client.gather(client.compute(counts, optimize_graph=False))
            parts[name] = _cut(name, values, sizes)
    if not given:
        return pieces
    return [
        delayed(_with, pure=False)(piece, **dict(zip(parts, here, strict=True)))
        for piece, *here in zip(pieces, *parts.values(), strict=True)
    ]


def _blocks(data):
    if hasattr(data, "to_delayed"):
        return _delayed_blocks(data)
    if isinstance(data, (list, tuple)) and data:
        if all(isinstance(item, (Delayed, Future)) for item in data):
            return list(data)
    got = f"a {type(data).__name__}"
    if isinstance(data, (list, tuple)):
        got += f" of {type(data[0]).__name__}" if data else " that is empty"
    raise TypeError(
        "data must be a Dask array, bag or data frame, or a list of delayed blocks or futures; "
        f"got {got}. What is on this machine goes to model.fit, or into Dask first, for instance "
        "by dask.array.from_array(X, chunks=(100_000, -1))."
    )


def _delayed_blocks(collection):
    blocks = collection.to_delayed()
    return list(blocks.ravel() if hasattr(blocks, "ravel") else blocks)


def _in_blocks(name, values, n_blocks):
    """What is given for each block; None if it is one array for all, which has yet to be cut."""
    if isinstance(values, (Delayed, Future)):
        blocks = [values]
    elif hasattr(values, "to_delayed"):
        if hasattr(values, "chunks") and not np.isnan(values.shape).any():
            return None
        blocks = _delayed_blocks(values)
    elif isinstance(values, (list, tuple)) and values and _is_block(values[0]):
        blocks = list(values)
    else:
        return None if np.ndim(values) else [values] * n_blocks
    if len(blocks) != n_blocks:
        raise ValueError(
            f"{name} has {len(blocks)} pieces, and the data have {n_blocks}: give each piece its "
            "own."
        )
    return blocks


def _is_block(item):
    return isinstance(item, (Delayed, Future)) or np.ndim(item) > 0


def _cut(name, values, sizes):
    """An array, or a Dask array, in blocks of these sizes."""
    if not hasattr(values, "to_delayed"):
        values = np.asarray(values)
    if values.shape != (sum(sizes),):
        raise ValueError(
            f"{name} has the shape {values.shape}, and there are {sum(sizes)} observations."
        )
    if isinstance(values, np.ndarray):
        return np.split(values, np.cumsum(sizes)[:-1])
    return _delayed_blocks(values.rechunk((tuple(sizes),)))


# What workers run -----------------------------------------------------------------------------


def _itself(value):
    return value


def _as_piece(block, of_sequences):
    """A block whose observations can be cut apart, and what it brought with it."""
    extras = {}
    if isinstance(block, tuple) and len(block) in (2, 3):
        extras = dict(zip(_UNLESS_GIVEN, block[1:], strict=False))
        block = block[0]
    if isinstance(block, Sequences):
        piece = _with(Piece(block.split()), **{n: getattr(block, n) for n in _UNLESS_GIVEN})
    elif sparse.issparse(block):
        piece = Piece(block.tocsr())
    elif not hasattr(block, "shape"):
        piece = Piece([_column(x) for x in block] if of_sequences else list(block))
        if not of_sequences and is_stream(piece.X):
            # Rows in several arrays: one array can be cut anywhere.
            tables = Stream(piece.X).tables()
            piece = join([_with(Piece(t.X), sample_weight=t.sample_weight) for t in tables])
    elif of_sequences and block.ndim < 3:
        piece = Piece([_column(block)])
    else:
        piece = Piece(block)
    return _with(piece, **extras)


def _column(sequence):
    """A sequence; one of a single dimension as a column."""
    if np.ndim(sequence) != 1:
        return sequence
    return (sequence if isinstance(sequence, np.ndarray) else np.asarray(sequence))[:, None]


def _with(piece, **given):
    """A piece, and what goes with its observations; one value is for all."""
    new = {}
    for name, values in given.items():
        if values is None:
            continue
        if name in piece.given:
            raise ValueError(f"Pieces of the data have their own {name}: give it once.")
        values = np.asarray(values)
        new[name] = values if values.ndim else np.full(len(piece), values)
    return Piece(piece.X, {**piece.given, **new})


def _hold(estimator, fresh, numbers, *pieces):
    """Pieces checked by the estimator; those of no observations or no weight are left out."""
    # Tasks in other threads have the same one.
    estimator = copy.copy(estimator)
    settings = estimator.get_params(deep=False)
    kept, data, attributes = [], [], {}
    for number, piece in zip(numbers, pieces, strict=True):
        if len(piece) == 0:
            continue
        taken(estimator, **piece.given)
        for name, values in piece.given.items():
            if values.shape != (len(piece),):
                raise ValueError(
                    f"In piece {number} of the data: {name} has the shape {values.shape}, and "
                    f"there are {len(piece)} observations."
                )
        if not np.any(piece.given.get("sample_weight", True)):
            continue
        try:
            checked = estimator._check_data(piece.X, **piece.given, reset=fresh)
        except ValueError as error:
            raise ValueError(f"In piece {number} of the data: {error}") from error
        if fresh:
            attributes = {
                name: value for name, value in vars(estimator).items()
                if name.endswith("_") and name not in settings
            }  # fmt: skip
            fresh = False
        kept.append((number, piece))
        data.append(checked)
    return Shard([number for number, _ in kept], [piece for _, piece in kept], data, attributes)


def _describe(shard):
    return {
        "counts": {n: len(piece) for n, piece in zip(shard.numbers, shard.pieces, strict=True)},
        "n_rows": sum(piece.n_rows for piece in shard.pieces),
        "attributes": shard.attributes,
    }


def _sum_over(function, shard):
    return functools.reduce(operator.add, map(function, shard.data))


def _add(*parts):
    return functools.reduce(operator.add, parts)


def _take(shard, wanted):
    pairs = zip(shard.numbers, shard.pieces, strict=True)
    return {number: piece.part(wanted[number]) for number, piece in pairs}


def join(pieces):
    """Pieces one after another as one."""
    given = {}
    for name, otherwise in _UNLESS_GIVEN.items():
        if any(name in piece.given for piece in pieces):
            parts = [piece.given.get(name, np.full(len(piece), otherwise)) for piece in pieces]
            given[name] = np.concatenate(parts)
    Xs = [piece.X for piece in pieces]
    if len(Xs) == 1:
        return Piece(Xs[0], given)
    if sparse.issparse(Xs[0]):
        return Piece(sparse.vstack(Xs, format="csr"), given)
    if hasattr(Xs[0], "iloc"):
        import pandas as pd

        return Piece(pd.concat(Xs), given)
    if all(hasattr(X, "shape") for X in Xs) and len({X.shape[1:-1] for X in Xs}) == 1:
        masked = any(np.ma.isMaskedArray(X) for X in Xs)
        return Piece((np.ma if masked else np).concatenate(Xs), given)
    # Sequences in lists, or in arrays of different lengths.
    return Piece([x for X in Xs for x in X], given)


def _n_bytes(X):
    if sparse.issparse(X):
        return X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    if hasattr(X, "iloc"):
        return int(X.memory_usage().sum())
    return X.nbytes if hasattr(X, "nbytes") else sum(_n_bytes(x) for x in X)
