"""Online EM on many machines, as in the paper: each learns from its own shard, then all combine."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import TypeVar

from dask.delayed import delayed
from distributed import as_completed

from ..learning_rate import Clock
from ..statistics import Statistics
from .halves import taken
from .shards import Shards, add_up, connected, everywhere, pieces_for

__all__ = ["fit_online"]

Estimator = TypeVar("Estimator")

# A step of this rate leaves the model where it starts.
_NO_STEP = 1e-300


def fit_online(
    model: Estimator,
    data,
    sync_every: int = 5000,
    mode: str = "sync",
    combine: str = "entropic",
    *,
    sample_weight=None,
    cut_off=None,
    n_shards: int | None = None,
    callback: Callable | None = None,
    client=None,
) -> Estimator:
    """Learn online on a Dask cluster, in one pass over the data.

    All workers start from the same model. Each learns by ``partial_fit`` from ``sync_every``
    observations of its own shard; then the models are combined, and the result goes back.

    Parameters
    ----------
    model : estimator
        Any of fastem's; its ``learning_rate``, ``batch_size`` and ``memory`` are used. It learns
        in place: one that is fitted goes on from where it is, another one starts as for
        :func:`fit`.
    data : Dask array, bag or data frame, or list of delayed blocks or futures
        As for :func:`fit`.
    sync_every : int, default=5000
        Observations (points, sequences, documents) that a worker learns from on its own.
    mode : {'sync', 'async'}, default='sync'
        Whether to wait for all workers and combine them, or to take each model as it arrives: it
        replaces the last one from the same shard, all are combined, and that shard goes on from
        the result without waiting for the others.
    combine : {'entropic', 'average'}, default='entropic'
        By least total divergence, or by averaging the parameters. The models count by the
        observations they have just learned from.
    sample_weight, cut_off : Dask array, array or list of delayed arrays, optional
        As for :func:`fit`.
    n_shards : int, optional
        Cut the data into as many shards, the same for any cluster, which may bring pieces from
        one worker to another at the beginning. By default each worker has one, of what it holds.
    callback : callable, optional
        Called as ``callback(model, n_observations)`` at the start and after each combination.
    client : distributed.Client, optional
        As for :func:`fit`.

    Returns
    -------
    estimator
        ``model``, after one pass.

    Notes
    -----
    The model of the last combination is here, and every task has the model it begins with: when a
    worker is lost, what it did since then is done again by another.
    """
    _check_choice("mode", mode, ("sync", "async"))
    _check_choice("combine", combine, ("entropic", "average"))
    for name, value in (("sync_every", sync_every), ("n_shards", n_shards or 1)):
        if not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name} must be a whole number, 1 or more; got {value!r}.")
    given = taken(model, sample_weight=sample_weight, cut_off=cut_off)
    with connected(client) as client, model._all_or_nothing():
        fitted = model._has_learned()
        shards = Shards(client, pieces_for(model, data, client, **given), n_shards=n_shards)
        shards.checked(model, reset=not fitted)
        if not fitted:
            _begin(model, shards.sample_piece())
        run = _Run(model, shards, sync_every, combine == "entropic", callback)
        (run.in_step if mode == "sync" else run.as_they_arrive)()
    return model


class _Run:
    """One pass over the shards."""

    def __init__(self, model, shards, sync_every, entropic, callback):
        self.model, self.shards, self.entropic = model, shards, entropic
        self.sync_every, self.callback = sync_every, callback
        self.done = 0
        # What a model is set into on the workers; it travels once.
        apprentice = copy.copy(model)
        apprentice.n_jobs = shards.n_jobs
        # A rate is that of a whole batch: without a size of its own, of what is learned between
        # two combinations. The last portion of a shard may be smaller, and moves the model less.
        apprentice.batch_size = model.batch_size or sync_every
        self.apprentice = shards.client.compute(everywhere(apprentice), optimize_graph=False)
        self.state = State(model._model(), model._clock, getattr(model, "statistics_", None))
        if callback is not None:
            callback(model, 0)

    def in_step(self):
        """Combine when all have learned their share."""
        begin = 0
        while begin < max(self.shards.sizes):
            busy = [i for i, size in enumerate(self.shards.sizes) if begin < size]
            state = everywhere(self.state)
            shares = [self._task(state, shard, begin) for shard in busy]
            (total,) = self.shards.gather([add_up(shares)])
            self._take(total, total)
            begin += self.sync_every

    def as_they_arrive(self):
        """Combine whenever one has learned its share.

        A shard counts from when it first arrives. One that has come to its end counts until every
        other has set out from a combination with it: then what it learned is in them.
        """
        sizes, client = self.shards.sizes, self.shards.client
        begins = [0] * len(sizes)
        running = set(range(len(sizes)))
        latest = {}
        unheard = {}  # by those who have not set out since a shard came to its end
        owners = {}
        arriving = as_completed()

        def send(shard):
            task = self._task(everywhere(self.state), shard, begins[shard])
            future = client.compute(task, optimize_graph=False)
            owners[future.key] = shard
            arriving.add(future)

        for shard in running:
            send(shard)
        for future in arriving:
            shard = owners.pop(future.key)
            latest[shard] = share = future.result()
            begins[shard] += self.sync_every
            self._take(sum(latest.values()), share)
            if begins[shard] < sizes[shard]:
                send(shard)
            else:
                running.discard(shard)
                unheard[shard] = set(running)
            for ended in list(unheard):
                unheard[ended].discard(shard)
                if running and not unheard[ended]:
                    del latest[ended], unheard[ended]

    def _task(self, state, shard, begin):
        end = min(begin + self.sync_every, self.shards.sizes[shard])
        future = self.shards.futures[shard]
        return delayed(_learn, pure=False)(
            self.apprentice, state, future, begin, end, self.entropic
        )

    def _take(self, total, new):
        """Make the combination the model; ``new`` is what has just come in of it."""
        self.done += new.count
        self.state = total.combined(self.state, new, self.entropic)
        self.model._set_model(self.state.model)
        self.model._set_clock(self.state.clock)
        if self.state.memory is not None:
            self.model.statistics_ = self.state.memory
        if self.callback is not None:
            self.callback(self.model, self.done)


@dataclass(frozen=True)
class State:
    """What a worker sets out with."""

    model: object
    clock: Clock
    memory: Statistics | None


@dataclass(frozen=True)
class Share:
    """What one or several workers bring back: they add, and are as large as the model."""

    weight: float
    count: int
    n_steps: float
    #: Weight times S(Θ) or, for averaging, times the parameters.
    part: Statistics
    #: Weight times the running statistics, if these are the memory.
    memory: Statistics | None

    def __add__(self, other):
        memory = None if self.memory is None else self.memory + other.memory
        return Share(
            self.weight + other.weight,
            self.count + other.count,
            max(self.n_steps, other.n_steps),
            self.part + other.part,
            memory,
        )

    def __radd__(self, other):
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def combined(self, state: State, new: Share, entropic: bool) -> State:
        """``M(Σ α S(Θ))``, or the mean of the parameters; ``new`` has not been counted yet."""
        if not self.weight > 0:
            return state
        mean = self.part / self.weight
        model = state.model.maximize(mean) if entropic else state.model.with_parameters(dict(mean))
        memory = None if self.memory is None else self.memory / self.weight
        return State(model, Clock(self.n_steps, state.clock.observations + new.weight), memory)


def _learn(apprentice, state, shard, begin, end, entropic):
    """Learn from observations ``begin .. end - 1`` of a shard; this runs on a worker."""
    # Tasks in other threads have the same one.
    estimator = copy.copy(apprentice)
    estimator._set_model(state.model)
    estimator._set_clock(state.clock)
    if state.memory is not None:
        estimator.statistics_ = state.memory
    piece = shard.part(begin, end)
    if piece.weight > 0:
        estimator.partial_fit(piece.X, **piece.given)
    return share_of(estimator, piece.weight, end - begin, entropic)


def share_of(estimator, weight, count, entropic) -> Share:
    """What an estimator contributes to a combination."""
    model = estimator._model()
    part = model.own() if entropic else Statistics(**model.parameters)
    memory = getattr(estimator, "statistics_", None)
    memory = None if memory is None else memory * weight
    return Share(weight, count, estimator.n_steps_, part * weight, memory)


def _begin(model, piece):
    """Start an estimator from some observations, with no step taken."""
    start = copy.copy(model).set_params(learning_rate=_NO_STEP, batch_size=None)
    start.partial_fit(piece.X, **piece.given)
    settings = model.get_params(deep=False)
    for name, value in vars(start).items():
        if name not in settings:
            setattr(model, name, value)
    model._set_clock(Clock())


def _check_choice(name, value, choices):
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}.")
