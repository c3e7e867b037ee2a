"""Data as Dask has them: collections, and lists of delayed blocks or futures, as chunks.

A chunk is a block of observations (a chunk of an array, a partition of a bag or a data frame, a
delayed block) with the weights and flags that belong to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from dask.delayed import Delayed, delayed
from distributed import Future
from scipy import sparse

from ..data.rows import Stream, is_stream
from ..data.sequences import Sequences, as_column

__all__ = ["Chunk", "chunks_of", "join"]

#: Arguments with an entry for each observation, in the order of a tuple, and their defaults.
_DEFAULTS = {"sample_weight": 1.0, "cut_off": False}


@dataclass(frozen=True)
class Chunk:
    """Some of the observations, as they were given."""

    X: object
    #: Arguments of ``fit`` that have an entry for each observation, such as weights, by name.
    given: dict = field(default_factory=dict)

    def __len__(self):
        return self.X.shape[0] if hasattr(self.X, "shape") else len(self.X)

    def __sizeof__(self):
        # Dask asks for it, to know how much memory is in use.
        return _n_bytes(self.X)

    def part(self, index) -> Chunk:
        """The observations of a slice, or of a list of numbers."""
        given = {name: values[index] for name, values in self.given.items()}
        if isinstance(self.X, list) and not isinstance(index, slice):
            return Chunk([self.X[i] for i in index], given)
        X = self.X.iloc if hasattr(self.X, "iloc") else self.X
        return Chunk(X[index], given)

    @property
    def n_rows(self) -> int:
        """The number of rows, or of steps of all sequences."""
        if hasattr(self.X, "shape"):
            return int(np.prod(self.X.shape[:-1]))
        return sum(len(x) for x in self.X)

    @property
    def weight(self) -> float:
        """The sum of the weights; the number of observations if they have no weights."""
        weights = self.given.get("sample_weight")
        return float(len(self) if weights is None else np.sum(weights))


def join(chunks) -> Chunk:
    """Several chunks, one after another, as one."""
    given = {}
    for name, default in _DEFAULTS.items():
        if any(name in chunk.given for chunk in chunks):
            parts = [chunk.given.get(name, np.full(len(chunk), default)) for chunk in chunks]
            given[name] = np.concatenate(parts)
    Xs = [chunk.X for chunk in chunks]
    if len(Xs) == 1:
        return Chunk(Xs[0], given)
    if sparse.issparse(Xs[0]):
        return Chunk(sparse.vstack(Xs, format="csr"), given)
    if hasattr(Xs[0], "iloc"):
        import pandas as pd

        return Chunk(pd.concat(Xs), given)
    if all(hasattr(X, "shape") for X in Xs) and len({X.shape[1:-1] for X in Xs}) == 1:
        masked = any(np.ma.isMaskedArray(X) for X in Xs)
        return Chunk((np.ma if masked else np).concatenate(Xs), given)
    # Sequences in lists, or in arrays of different lengths.
    return Chunk([x for X in Xs for x in X], given)


# From collections to delayed chunks -------------------------------------------------------------


def chunks_of(data, of_sequences=False, client=None, **given) -> list[Delayed]:
    """A Dask collection, or a list of delayed blocks or futures, as delayed chunks.

    Parameters
    ----------
    data
        As for :func:`fastem.distributed.fit`.
    of_sequences : bool, default=False
        Whether an observation is a sequence, and not a row.
    client : Client, optional
        Needed if an argument is one array and the sizes of the blocks are not known.
    **given
        Arguments that belong to the observations: one array, Dask array or value for all of them,
        or a delayed array for each block.
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
    chunks = [delayed(_as_chunk, pure=False)(block, of_sequences) for block in blocks]
    parts = {}
    for name, values in given.items():
        parts[name] = _in_blocks(name, values, len(chunks))
        if parts[name] is None:
            if np.isnan(sizes).any():
                # Keep the computed chunks, so that nothing is loaded twice.
                chunks = client.compute(chunks, optimize_graph=False)
                counts = [delayed(len, pure=False)(chunk) for chunk in chunks]
                sizes = client.gather(client.compute(counts, optimize_graph=False))
            parts[name] = _cut(name, values, sizes)
    if not given:
        return chunks
    return [
        delayed(_with, pure=False)(chunk, **dict(zip(parts, here, strict=True)))
        for chunk, *here in zip(chunks, *parts.values(), strict=True)
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
        f"got {got}. Data on this machine go to model.fit, or into Dask first, for instance "
        "by dask.array.from_array(X, chunks=(100_000, -1))."
    )


def _delayed_blocks(collection):
    blocks = collection.to_delayed()
    return list(blocks.ravel() if hasattr(blocks, "ravel") else blocks)


def _in_blocks(name, values, n_blocks):
    """An argument for each block; None if it is one array for all, which has to be cut."""
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
            f"{name} has {len(blocks)} chunks, and the data have {n_blocks}: give one for each "
            "chunk of the data."
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


# Run on workers ---------------------------------------------------------------------------------


def _as_chunk(block, of_sequences):
    """A block whose observations can be cut apart, with the weights and flags it came with."""
    extras = {}
    if isinstance(block, tuple) and len(block) in (2, 3):
        extras = dict(zip(_DEFAULTS, block[1:], strict=False))
        block = block[0]
    if isinstance(block, Sequences):
        chunk = _with(Chunk(block.split()), **{n: getattr(block, n) for n in _DEFAULTS})
    elif sparse.issparse(block):
        chunk = Chunk(block.tocsr())
    elif not hasattr(block, "shape"):
        chunk = Chunk([_column(x) for x in block] if of_sequences else list(block))
        if not of_sequences and is_stream(chunk.X):
            # Rows in several arrays: one array can be cut anywhere.
            tables = Stream(chunk.X).tables()
            chunk = join([_with(Chunk(t.X), sample_weight=t.sample_weight) for t in tables])
    elif of_sequences and block.ndim < 3:
        chunk = Chunk([_column(block)])
    else:
        chunk = Chunk(block)
    return _with(chunk, **extras)


def _column(sequence):
    """A sequence; one of a single dimension as a column."""
    return as_column(sequence) if np.ndim(sequence) == 1 else sequence


def _with(chunk, **given):
    """A chunk with more arguments for its observations; a single value is for all of them."""
    new = {}
    for name, values in given.items():
        if values is None:
            continue
        if name in chunk.given:
            raise ValueError(f"Chunks of the data have their own {name}: give it once.")
        values = np.asarray(values)
        new[name] = values if values.ndim else np.full(len(chunk), values)
    return Chunk(chunk.X, {**chunk.given, **new})


def _n_bytes(X):
    if sparse.issparse(X):
        return X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    if hasattr(X, "iloc"):
        return int(X.memory_usage().sum())
    return X.nbytes if hasattr(X, "nbytes") else sum(_n_bytes(x) for x in X)
