"""Online EM on many machines, as in the paper: workers learn from their shards, then combine."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import TypeVar

from dask.delayed import delayed
from distributed import as_completed

from ..algebra import Progress
from ..learning_rate import Clock
from ..progress import display_of, silently
from ..statistics import Statistics
from ..waiting import KEPT, check_is_fitted
from .shards import add, broadcast, shards_of, tree_sum

__all__ = ["fit_online"]

Estimator = TypeVar("Estimator")

# A step of this rate leaves the model as it is initialized.
_NO_STEP = 1e-300


def fit_online(
    model: Estimator,
    data,
    sync_every: int | None = 5000,
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
    observations of its own shard; then the models are combined, and all continue from the result.

    Parameters
    ----------
    model : estimator
        Any estimator of fastem, whose settings of online learning are used. It is changed in place:
        a fitted estimator continues from its model, any other is initialized as in :func:`fit`.
    data : Dask array, bag or data frame, or list of delayed blocks or futures
        As for :func:`fit`.
    sync_every : int or None, default=5000
        The number of observations (rows, sequences, documents) that a worker learns from between
        two combinations. None: models are combined once, at the end, when each worker has learned
        from all of its shard. This needs the least communication; but workers that meet few
        observations of a component learn it from these alone.
    mode : {'sync', 'async'}, default='sync'
        ``'sync'`` waits for all workers and combines their models. ``'async'`` uses each model as
        it arrives: it replaces the last model of the same shard, the models of all shards are
        combined, and that shard continues from the result without waiting for the others.
    combine : {'entropic', 'average'}, default='entropic'
        By least total divergence, or by averaging the parameters. Each model is weighted by the
        observations that it has just learned from.
    sample_weight, cut_off : Dask array, array or list of delayed arrays, optional
        As for :func:`fit`.
    n_shards : int, optional
        The number of shards, which are then the same on any cluster; chunks may have to move from
        one worker to another at the beginning. By default each worker has one shard, made of the
        chunks it has.
    callback : callable, optional
        Called as ``callback(model, n_observations)`` at the beginning and after each combination.
        The estimator's own ``callback`` is called besides, with a report: see the notes.
    client : distributed.Client, optional
        As for :func:`fit`.

    Returns
    -------
    estimator
        ``model``, after one pass.

    Notes
    -----
    Every task contains the model that it begins with: when a worker is lost, another one repeats
    what it did since the last combination.

    After each combination, in this process, ``history_`` gets an entry, ``drift_alarm`` a score to
    test, and the estimator's ``callback`` a report: the mean log-likelihood of the observations
    that have just been learned from, each before its worker learned from it. Learning ends if the
    callback returns True. With ``average_from`` the combinations are averaged. ``forgetting``
    counts the observations of all workers, as if the parts of all had the same weight: each forgets
    as much sooner as there are workers that learn. In the mode ``'async'`` new
    models are combined with older ones, and half-lives are up to half as long again.

    Examples
    --------
    >>> import fastem
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from fastem.distributed import fit_online
    >>> X = da.random.default_rng(0).normal(size=(1000, 2), chunks=(250, 2))
    >>> model = fastem.GaussianMixture(2, random_state=0)
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     model = fit_online(model, X, sync_every=100, client=client)
    >>> model.n_observations_
    1000.0
    """
    _check_choice("mode", mode, ("sync", "async"))
    _check_choice("combine", combine, ("entropic", "average"))
    for name, value in (("sync_every", sync_every), ("n_shards", n_shards)):
        if value is not None and (not isinstance(value, Integral) or value < 1):
            raise ValueError(f"{name} must be a whole number, 1 or more; got {value!r}.")
    given = {"sample_weight": sample_weight, "cut_off": cut_off}
    with (
        shards_of(model, data, client, n_shards=n_shards, **given) as shards,
        model._all_or_nothing(),
    ):
        fitted = model._has_learned()
        shards.checked(model, reset=not fitted)
        if not fitted:
            _initialize(model, shards.sample_chunk())
        # Learning goes on from this model; no worker begins again.
        vars(model).pop(KEPT, None)
        with display_of(model, "fit_online", "observations") as display:
            one_pass = _OnlinePass(
                model, shards, sync_every, combine == "entropic", callback, display
            )
            (one_pass.synchronous if mode == "sync" else one_pass.asynchronous)()
            display.end("learned")
    return model


class _OnlinePass:
    """One pass over the shards."""

    def __init__(self, model, shards, sync_every, entropic, callback, display):
        self.model, self.shards, self.entropic = model, shards, entropic
        self.sync_every, self.callback = sync_every or max(*shards.sizes, 1), callback
        self.done, self.display = 0, display
        display.begin(sum(shards.sizes))
        # Workers set a model into a copy of this estimator, which is sent once.
        template = copy.copy(model)
        template.n_jobs = shards.n_jobs
        # Models are averaged where they are combined, and what workers report is collected there:
        # callbacks, histories and the test of drift are those of this process.
        template.average_from = template.callback = template.drift_alarm = None
        vars(template).pop("history_", None)
        vars(template).pop("_drift", None)
        # A learning rate is that of a whole batch. Without batch_size a batch is what a worker
        # learns from between two combinations, or as large as those of a stream; a smaller last
        # one moves the model less.
        template.batch_size = model.batch_size or sync_every or model._stream_batch
        self.template = shards.client.compute(broadcast(template), optimize_graph=False)
        present = model._model()
        self.progress = model._progress_of(present)
        if callback is not None:
            callback(model, 0)

    def synchronous(self):
        """Combine when all workers have finished."""
        for begin in range(0, max(self.shards.sizes), self.sync_every):
            busy = [i for i, size in enumerate(self.shards.sizes) if begin < size]
            progress = broadcast(self.progress._replace(average=None))
            contributions = [self._task(progress, shard, begin, len(busy)) for shard in busy]
            (total,) = self.shards.gather([tree_sum(contributions)])
            if self._update(total, total):
                break

    def asynchronous(self):
        """Combine whenever one worker has finished.

        A shard counts in combinations from its first result on. A shard whose data have ended
        counts until every other shard has started from a combination that includes it.
        """
        sizes, client = self.shards.sizes, self.shards.client
        begins = [0] * len(sizes)
        running = set(range(len(sizes)))
        latest = {}
        waiting_for = {}  # for each shard that has ended, those that have not started since
        owners = {}
        arriving = as_completed()

        def send(shard):
            progress = broadcast(self.progress._replace(average=None))
            task = self._task(progress, shard, begins[shard], len(running))
            future = client.compute(task, optimize_graph=False)
            owners[future.key] = shard
            arriving.add(future)

        for shard in running:
            send(shard)
        for future in arriving:
            shard = owners.pop(future.key)
            latest[shard] = contribution = future.result()
            begins[shard] += self.sync_every
            if self._update(add(*latest.values()), contribution):
                client.cancel(list(arriving.futures))
                break
            if begins[shard] < sizes[shard]:
                send(shard)
            else:
                running.discard(shard)
                waiting_for[shard] = set(running)
            for ended in list(waiting_for):
                waiting_for[ended].discard(shard)
                if running and not waiting_for[ended]:
                    del latest[ended], waiting_for[ended]

    def _task(self, progress, shard, begin, n_learning):
        end = min(begin + self.sync_every, self.shards.sizes[shard])
        future = self.shards.futures[shard]
        learn = delayed(_learn, pure=False)
        return learn(self.template, progress, future, begin, end, self.entropic, n_learning)

    def _update(self, total, new) -> bool:
        """Set the estimator to the combination; ``new`` is the part that has just arrived.

        Whether the estimator's callback says to stop.
        """
        self.done += new.count
        combined = total.combined(self.progress, new, self.entropic)
        self.progress = combined.averaged(self.model.average_from, new.weight)
        self.model._set_progress(self.progress)
        stops = False
        if new.weight > 0:
            score = new.score / new.weight
            self.display.step(self.done, score)
            stops = self.model._report_online(self.progress, new.weight, score)
        if self.callback is not None:
            self.callback(self.model, self.done)
        return stops


@dataclass(frozen=True)
class Contribution:
    """The result of one or several workers; contributions add, and are as large as the model."""

    weight: float
    count: int
    n_steps: float
    #: The sum of the log-likelihoods of its observations, times their weights, before they were
    #: learned from.
    score: float
    #: Weight times S(Θ) or, for averaging, times the parameters.
    part: Statistics
    #: Weight times the running statistics; empty if the model is the memory.
    memory: Statistics

    def __add__(self, other):
        # A worker whose observations had no weight may not have running statistics yet.
        has_both = self.memory and other.memory
        return Contribution(
            self.weight + other.weight,
            self.count + other.count,
            max(self.n_steps, other.n_steps),
            self.score + other.score,
            self.part + other.part,
            self.memory + other.memory if has_both else self.memory or other.memory,
        )

    def combined(self, progress: Progress, new: Contribution, entropic: bool) -> Progress:
        """``M(Σ α S(Θ))``, or the mean of the parameters; ``new`` has not been counted yet."""
        if not self.weight > 0:
            return progress
        model, mean = progress.model, self.part / self.weight
        model = model.maximize(mean) if entropic else model.with_parameters(dict(mean))
        clock = Clock(self.n_steps, progress.clock.observations + new.weight)
        return Progress(model, self.memory / self.weight or None, clock, progress.average)


def _learn(template, progress, shard, begin, end, entropic, n_learning):
    """Learn from observations ``begin .. end - 1`` of a shard; this runs on a worker.

    ``n_learning`` workers learn at the same time.
    """
    # Tasks in other threads have the same template.
    estimator = copy.copy(template)
    if estimator.forgetting is not None:
        # Then the mean of the models forgets as one model does that learns from all.
        estimator.forgetting = estimator.forgetting / n_learning
    estimator._set_progress(progress)
    chunk = shard.part(begin, end)
    weight, score = chunk.weight, 0.0
    if weight > 0:
        with silently():
            estimator.partial_fit(chunk.X, **chunk.given)
        # A model of one's own may have no scores.
        entries = vars(estimator).get("history_", [[0.0, weight, math.nan]])
        score = sum(part * mean for _, part, mean in entries)
    model = estimator._model()
    part = model.own() if entropic else Statistics(**model.parameters)
    memory = getattr(estimator, "statistics_", Statistics())
    return Contribution(
        weight, end - begin, estimator.n_steps_, score, part * weight, memory * weight
    )


def _initialize(model, chunk):
    """Initialize an estimator from some observations, without an online step."""
    initialized = copy.copy(model).set_params(
        learning_rate=_NO_STEP, forgetting=None, batch_size=None, average_from=None, callback=None,
        drift_alarm=None,
    )  # fmt: skip
    with silently():
        initialized.partial_fit(chunk.X, **chunk.given)
    check_is_fitted(initialized)
    # Nothing has been learned from these observations yet.
    vars(initialized).pop("history_", None)
    settings = model.get_params(deep=False)
    for name, value in vars(initialized).items():
        if name not in settings:
            setattr(model, name, value)
    model._set_clock(Clock())


def _check_choice(name, value, choices):
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}.")
