"""The algorithms, each written once, for any model.

A model is a value with four functions (see :mod:`fastem.model`): ``expect`` S(V|Θ), ``own`` S(Θ),
``maximize`` M and ``log_joint`` Q. Everything below consists of these, and of the fact that
statistics add and scale. There are three loops, :func:`fit`, :func:`incremental` and :func:`learn`,
and estimators on one machine or on many run these.
"""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import checks
from .data.batches import batch_of_weight
from .data.blocks import Blocks, blocks_of
from .data.remote import Remote
from .exceptions import AlignmentWarning, ImpossibleDataError, NoDivergence
from .learning_rate import Clock, batch_weights, rates, schedule, step_size
from .notices import unheard, warn
from .progress import SILENT
from .statistics import Expectation, Learned, Statistics
from .stopping import Limit, Slowing

if TYPE_CHECKING:
    from .model import Model
    from .stopping import StoppingRule

__all__ = ["BLOCK", "Average", "Fitted", "NoDivergence", "Progress", "align", "average", "batch",
           "block_size", "checked_steps", "combine", "combine_aligned", "divergence", "expect",
           "fit", "improved_on_sample", "incremental", "is_better", "learn",
           "natural_gradient", "online", "own_by_simulation", "singleton_divergences", "step",
           "step_loss", "take_steps", "upper_bound"]  # fmt: skip


# Batch EM --------------------------------------------------------------------------------------


def expect(model: Model, data) -> Expectation:
    """``S(V|Θ)`` of data on this machine, or of shards on others, whose expectations add."""
    if isinstance(data, Remote):
        return data.sum(model.with_n_jobs(data.n_jobs).expect)
    return model.expect(data)


def batch(model: Model, data) -> Model:
    """One step of batch EM: ``M(S(V|Θ))``."""
    return model.maximize(expect(model, data).statistics)


#: The largest number of steps that a kernel takes without Python, which can be interrupted.
_AT_ONCE = 256


class Fitted(NamedTuple):
    """What :func:`fit` returns."""

    model: Any
    #: The last expectation, which may be without statistics; None if there were no iterations.
    expectation: Expectation | None


def fit(
    model: Model, data, stopping: StoppingRule, maximize: Callable | None = None, prior=None
) -> Fitted:  # fmt: skip
    """Batch EM: ``Θ ← M(S(V|Θ))`` until a rule says stop.

    Parameters
    ----------
    model
        The initial model.
    data
        Anything that ``model.expect`` accepts, or :class:`~fastem.data.remote.Remote`.
    stopping : StoppingRule
        It also keeps the log-likelihood of each iteration.
    maximize : callable, optional
        Another M-step, with a prior for instance: a function of the model and its expectation. By
        default ``model.maximize(expectation.statistics)``.
    prior : optional
        What ``maximize`` knows besides the model and its expectation, for ``model.iterate``. If it
        is None, another M-step is called in each iteration.
    """
    expectation = None
    n_steps = 0
    # Data elsewhere are asked for a sum in each iteration, and an unknown M-step is called.
    at_once = not isinstance(data, Remote) and (maximize is None or prior is not None)
    while n_steps < stopping.max_iter:
        steps = _iterate(model, data, stopping, prior) if at_once else None
        if steps is not None:
            model, expectation, n_taken, is_last = steps
            n_steps += n_taken
            if is_last:
                break
            continue
        expectation = expect(model, data)
        if stopping.before_step(model, expectation):
            break
        if maximize is None:
            model = model.maximize(expectation.statistics)
        else:
            model = maximize(model, expectation)
        n_steps += 1
        if stopping.after_step(expectation):
            break
    if expectation is not None:
        model = model.with_horizon(expectation.horizon)
    return Fitted(model, expectation)


def _iterate(model, data, stopping, prior):
    """Several steps at once, if the model can: the model, its last E-step, how many, the end.

    The rule is told of each step, as if they had been taken one by one.
    """
    limit = stopping.limit()
    if limit is None:
        return None
    # Who watches sees each step. The numbers are the same, however many are taken at once.
    at_once = _AT_ONCE if stopping.display is SILENT else 1
    limit = limit._replace(n_steps=min(limit.n_steps, at_once))
    taken = model.iterate(data, limit, prior)
    if taken is None:
        return None
    n_steps = len(taken.log_likelihoods)
    for number, log_likelihood in enumerate(taken.log_likelihoods, 1):
        expectation = Expectation(Statistics(), log_likelihood, taken.weight, taken.horizon)
        if stopping.after_step(expectation):
            if number < n_steps:
                # The kernel, which rounds otherwise, did not stop here.
                taken = model.iterate(data, Limit(number), prior)
            return taken.model, expectation, number, True
    return taken.model, expectation, n_steps, False


# Incremental EM --------------------------------------------------------------------------------


def incremental(
    model: Model, data, stopping: StoppingRule, maximize: Callable | None = None, prior=None,
    n_blocks: int | None = None, *, keep_start: bool = True,
) -> Fitted:  # fmt: skip
    """Incremental EM (Neal and Hinton): ``S_b ← S(V_b|Θ)`` of one block, ``Θ ← M(Σ_b n_b S_b)``.

    An iteration is a pass over all blocks, with an M-step after each. The stopping rule is told the
    free energy at the last E-step of the pass,

    ``F = Σ_b n_b (log p(V_b|Θ_b) - Q(S_b, Θ_b) + Q(S_b, Θ)) / Σ_b n_b``,

    where ``Θ_b`` is the model of the last E-step of block b, and ``Θ`` the present one. It never
    falls, it is never more than the mean log-likelihood under ``Θ``, and equals it where the model
    stays as it is. With one block this is batch EM.

    Before the first pass the initial model is improved on a small part of the data, if there are
    enough: see :func:`improved_on_sample`.

    Parameters
    ----------
    model, data, stopping, maximize, prior
        As for :func:`fit`.
    n_blocks : int, optional
        The number of blocks; by default as :func:`fastem.data.blocks.number_of_blocks` says.
    keep_start : bool, default=True
        Whether a model that a sample could not improve is kept for the E-steps of the whole first
        pass, which is then a step of batch EM: the likelihood never falls below that of the model
        at its beginning. Otherwise the first pass has an M-step after each block too, in which
        blocks that have not been read yet count with that model's own statistics.
    """
    blocks = blocks_of(data, n_blocks)
    if len(blocks) <= 1:
        return fit(model, data, stopping, maximize, prior)
    stopping.ends_by_falls = False
    if stopping.max_iter > 0:
        better = improved_on_sample(model, blocks, maximize, clearly=keep_start)
        keep_start = keep_start and better is model
        model = better
    start, own = model, None
    whole: Any = None
    # Of each block the statistics, with the entropy of its hidden variables in place of the
    # log-likelihood: both add, and ``F`` is the sum of all entropies and ``Q`` of all statistics.
    kept: list[Any] = [None] * len(blocks)
    for n_passes in range(stopping.max_iter):
        if n_passes:
            # Sums are added up anew in each pass. To subtract the old statistics of a block from a
            # running sum would leave rounding errors behind, and scatter that is not positive.
            _sum_from_the_end(kept)
        done = None
        for number, block in enumerate(blocks):
            found = expect(model, block)
            if not np.isfinite(found.log_likelihood):
                stopping.before_step(model, found)
                raise ImpossibleDataError(model.impossible)
            is_last = number + 1 == len(blocks)
            entropy = found.log_likelihood - model.log_joint(found.statistics)
            kept[number] = found._replace(log_likelihood=float(entropy))
            done = kept[number] if done is None else done + kept[number]
            if is_last:
                bound = done.log_likelihood + model.log_joint(done.statistics)
                if np.isnan(bound) or bound == np.inf:
                    raise ImpossibleDataError(
                        f"The free energy is not finite at pass {n_passes + 1}: squares of the "
                        "data are beyond what a double can hold, or some component has collapsed "
                        "onto points that are too close together for one. Scale the columns to a "
                        "moderate range, or use fewer components."
                    )
                whole = done._replace(log_likelihood=float(bound))
                if stopping.before_step(model, whole):
                    return Fitted(model.with_horizon(whole.horizon), whole)
            elif n_passes:
                whole = done + kept[number + 1]
            elif keep_start:
                continue
            else:
                own = start.own(found.horizon) if own is None else own
                # Rounding may leave less than nothing for blocks of hardly any weight.
                missing = max(blocks.weight - done.weight, 1e-12 * blocks.weight)
                whole = done + Expectation(own, 0.0, missing, found.horizon)
            model = model.maximize(whole.statistics) if maximize is None else maximize(model, whole)
            if not is_last and stopping.after_block(model, found):
                return Fitted(model.with_horizon(whole.horizon), whole)
        if stopping.after_step(whole):
            break
    if whole is not None:
        model = model.with_horizon(whole.horizon)
    return Fitted(model, whole)


def _sum_from_the_end(expectations: list):
    """Replace each by the sum of itself and all that follow."""
    for number in reversed(range(len(expectations) - 1)):
        expectations[number] = expectations[number] + expectations[number + 1]


#: On a sample, EM takes at most so many steps.
_SAMPLE_STEPS = 40
#: By so many standard errors a model must be better than the one in whose place it is put.
_CLEARLY = 5.0
#: Standard errors are those of means of groups of neighbors: so many at most, so many at least.
_GROUPS, _LEAST_GROUPS = 64, 20


def improved_on_sample(
    model: Model, blocks: Blocks, maximize: Callable | None = None, *, clearly: bool = True
) -> Model:
    """``model`` after some steps of batch EM on a sample, if that is better; else itself.

    A few steps on a small part of the data cost about a pass, and bring a rough start to where
    batch EM on all data is after as many. A start that is better than what the sample can tell,
    from an earlier fit for instance, must stay: the two models are compared on a second sample,
    from other places than the first, and the new one has to be clearly better there. A start that
    was itself made from a few rows needs no such care.

    Parameters
    ----------
    model
        The initial model.
    blocks : Blocks
    maximize : callable, optional
        As for :func:`fit`. It is told the weight of all data, so that a prior counts as much beside
        the sample as it does beside all of them.
    clearly : bool, default=True
        Whether the gain has to be five standard errors or more; otherwise any gain will do.
    """
    n_parameters = sum(np.size(array) for array in model.parameters.values())
    samples = blocks.samples(n_parameters)
    if samples is None:
        return model
    sample, other = samples

    def step(model, expectation):
        if maximize is None:
            return model.maximize(expectation.statistics)
        return maximize(model, expectation._replace(weight=blocks.weight))

    # A copy, which remembers for itself of which deaths of components somebody was told.
    trial = copy.deepcopy(model)
    try:
        with unheard() as warned, np.errstate(divide="raise", over="raise", invalid="raise"):
            better = fit(trial, sample, Slowing(_SAMPLE_STEPS), step).model
    except (ValueError, FloatingPointError):
        # What is wrong with the data, or with this start, shows in the first pass.
        return model
    margin = _CLEARLY if clearly else 0.0
    is_doubtful = any(issubclass(category, RuntimeWarning) for category in warned)
    if is_doubtful or not is_better(better, model, other, margin):
        return model
    return model.with_parameters(better.parameters)


def is_better(model: Model, other: Model, data, margin: float = _CLEARLY) -> bool:
    """Whether the mean log-likelihood of observations is higher by ``margin`` standard errors.

    The standard error is that of the means of groups of neighbors, 64 at most, because neighbors
    may be alike. False if there are fewer than 20 groups, in effect, as with large weights of few,
    or if one of the log-likelihoods is not finite.
    """
    with np.errstate(invalid="ignore"):
        gains = model.log_likelihoods(data) - other.log_likelihoods(data)
    if not np.isfinite(gains).all():
        return False
    weights = np.ones(len(gains)) if data.sample_weight is None else data.sample_weight
    starts = np.linspace(0, len(gains), min(len(gains), _GROUPS), endpoint=False).astype(int)
    share = np.add.reduceat(weights, starts) / weights.sum()
    sums = np.add.reduceat(weights * gains, starts) / weights.sum()
    mean = sums.sum()
    error = np.sqrt(np.sum((sums - share * mean) ** 2))
    return bool(1.0 / np.sum(share**2) >= _LEAST_GROUPS and mean > margin * error)


# Online EM -------------------------------------------------------------------------------------


def online(model: Model, data, eta: float, memory: Statistics | None = None):
    """One step of online EM: ``M(ρ S(V|Θ) + (1 - ρ) s)`` with ``ρ = η / (1 + η)``.

    Parameters
    ----------
    model
        The present model Θ.
    data
        The new batch V.
    eta : float
        Learning rate, positive. Infinity is batch EM on the batch; near zero the model stays.
    memory : Statistics, optional
        The running statistics ``s`` of Cappé and Moulines. By default the memory is the model
        itself, ``s = S(Θ)``, as in the paper.

    Returns
    -------
    model, statistics
        The next model, and the statistics it maximizes, which are the next memory.
    """
    return step(model, expect(model, data), eta, memory)


def natural_gradient(model: Model, data, rho: float):
    """A step along the natural gradient of the log-likelihood: ``M(S(Θ) + ρ (S(V|Θ) - S(Θ)))``.

    In the natural parameters of the joint law the gradient of the mean log-likelihood is
    ``S(V|Θ) - S(Θ)`` (Fisher's identity), and the Fisher information F of the joint law is the
    derivative of its expectation parameters ``S(Θ)``. The natural gradient, ``F⁻¹`` times the
    gradient, therefore moves the expectation parameters by ``S(V|Θ) - S(Θ)`` itself: no matrix is
    needed. It is the step of :func:`online` at ``η = ρ/(1 - ρ)``, and in any other coordinates
    it is ``ρ F⁻¹ ∇`` to first order in ρ. Unlike a straight step in natural parameters it never
    leaves their domain, and it never lowers the likelihood of its batch, for any ``0 < ρ ≤ 1``.

    Parameters
    ----------
    model
        The present model Θ.
    data
        The batch V.
    rho : float
        The size of the step, above zero; one is a step of batch EM.

    Returns
    -------
    model
    """
    if not 0.0 < rho <= 1.0:
        raise ValueError(f"rho must be above 0, and 1 at most; got {rho!r}.")
    return online(model, data, np.inf if rho == 1.0 else rho / (1.0 - rho))[0]


def step(model: Model, expectation: Expectation, eta: float, memory: Statistics | None = None):
    """The step of :func:`online`, for a batch whose expectation is known."""
    rho = step_size(rates(eta, 1, 1)[0])
    if memory is None:
        memory = model.own(expectation.horizon)
    new, inertia = expectation.statistics * rho, memory * (1.0 - rho)
    # A component that returns from almost no weight gets a minimum of memory.
    inertia = model.revived(inertia, new, rho / expectation.weight, expectation.horizon)
    statistics = new + inertia
    return model.mixing(rho, expectation.weight).maximize(statistics), statistics


def take_steps(
    model: Model, table, etas, batch_size: int | None = None, memory: Statistics | None = None
) -> Learned:
    """A step of :func:`online` for each batch of a table: the default of ``model.learn``."""
    batch_size, etas = checked_steps(model, table, etas, batch_size, memory)
    score, weight = 0.0, 0.0
    for number, first in enumerate(range(0, len(table), batch_size)):
        part = table.part(first, first + batch_size)
        if part.sample_weight is not None and not part.sample_weight.any():
            continue
        expectation = model.expect(part)
        if not np.isfinite(expectation.log_likelihood):
            raise ImpossibleDataError(f"{model.impossible} (at online step {number + 1})")
        met = model
        model, statistics = step(model, expectation, etas[number], memory)
        memory = None if memory is None else statistics
        score += expectation.weight * met.mean_log_likelihood(expectation)
        weight += expectation.weight
    return Learned(model, memory, score / weight if weight > 0 else float("nan"))


def checked_steps(model: Model, table, etas, batch_size, memory):
    """The size of the batches and their rates, for online steps over a table, and checked."""
    batch_size = len(table) if batch_size is None else batch_size
    checks.check_batch_size(batch_size)
    etas = checks.check_rates(etas, -(-len(table) // batch_size))
    if memory is not None:
        model.check_statistics(memory)
    return batch_size, etas


class Average(NamedTuple):
    """The average over time of the models of online learning: ``M(Σ w_t S(Θ_t) / Σ w_t)``."""

    #: ``Σ w_t S(Θ_t) / Σ w_t``; empty before the first model.
    mean: Statistics = Statistics()
    #: ``Σ w_t``.
    weight: float = 0.0

    def including(self, model: Model, weight: float) -> Average:
        """The average with one more model."""
        if not weight > 0:
            return self
        total = self.weight + weight
        if not self.mean:
            return Average(model.own(), total)
        share = weight / total
        return Average(self.mean * (1.0 - share) + model.own() * share, total)


class Progress(NamedTuple):
    """How far online learning has come: what :func:`learn` returns, and can continue from."""

    model: Any
    #: Running statistics; None if the model is the memory.
    memory: Statistics | None
    clock: Clock
    #: None if models are not averaged, or none counts yet.
    average: Average | None = None

    @property
    def shown(self) -> Any:
        """The average of the models if there is one, the last model otherwise."""
        return self.model if self.average is None else self.model.maximize(self.average.mean)

    def averaged(self, average_from, weight: float) -> Progress:
        """The same, if the model counts in the average: see :func:`learn`."""
        n = self.clock.observations
        if average_from is None or (average_from != "auto" and n <= average_from):
            return self
        if average_from == "auto":
            weight *= n
        return self._replace(average=(self.average or Average()).including(self.model, weight))


def learn(
    progress: Progress, tables: Iterable, learning_rate, batch_size: int | None = None,
    *, largest_batch: int | None = None, keep_statistics: bool = False, average_from=None,
    report: Callable | None = None,
) -> Progress:  # fmt: skip
    """Online EM: ``Θ ← M(ρ S(Vₜ|Θ) + (1 - ρ) s)`` for every batch of every table, in order.

    Parameters
    ----------
    progress : Progress
        Where to begin.
    tables : iterable
        Tables of observations, each in memory.
    learning_rate : 'auto', float, callable or Decay
        See :func:`fastem.learning_rate.schedule`.
    batch_size : int, optional
        The number of observations of a batch; None: each table is one batch, or as many as
        ``largest_batch`` says.
    largest_batch : int, optional
        The number of observations of a batch where ``batch_size`` is None.
    keep_statistics : bool, default=False
        Whether to remember running statistics, and not the model alone. They begin as the model's
        own if ``progress`` has none.
    average_from : float or 'auto', optional
        Average the models after this number of observations, each with the weight of the
        observations it has just learned from; with ``'auto'`` all, with this weight times the
        number of observations so far. A model counts after each batch, or after several batches
        of :data:`BLOCK` observations together.
    report : callable, optional
        Called after each table, or part of a table where models are averaged, with the progress,
        the weight of its observations, and their mean log-likelihood before they were learned
        from; learning ends if it returns True.
    """
    model, memory, clock, average = progress
    memory = memory if keep_statistics else None
    if average_from is None:
        average = None
    for table, size in _with_sizes(tables, batch_size or largest_batch, average_from):
        weights = batch_weights(len(table), size, table.sample_weight)
        if not weights.any():
            continue
        etas, after = schedule(learning_rate, clock, weights, size, model.first_memory)
        if keep_statistics and memory is None:
            memory = model.own(model.horizon_of(batch_of_weight(table, size)))
        is_whole = batch_size is None and len(etas) == 1
        model, memory, log_likelihood = model.learn(
            table, etas, None if is_whole else min(size, len(table)), memory
        )
        model = model.after_learning_from(table, clock.observations)
        weight, clock = after.observations - clock.observations, after
        progress = Progress(model, memory, clock, average)
        if average_from is not None:
            progress = progress.averaged(average_from, weight)
            average = progress.average
        if report is not None and report(progress, weight, log_likelihood):
            break
    return Progress(model, memory, clock, average)


#: Models are averaged after so many observations where batches are smaller.
BLOCK = 100


def block_size(batch_size: int) -> int:
    """The number of observations after which a model counts in an average: whole batches."""
    return batch_size * -(-BLOCK // batch_size)


def _with_sizes(tables, size, average_from):
    """Tables, in parts if models are averaged, and the number of observations of their batches."""
    for table in tables:
        batch = size or len(table)
        block = len(table) if average_from is None else block_size(batch)
        if block >= len(table):
            yield table, batch
            continue
        for first in range(0, len(table), block):
            yield table.part(first, first + block), batch


# Combining -------------------------------------------------------------------------------------


def combine(models: Sequence[Model], weights=None, horizon=None, direction: str = "forward"):
    """The model of least total divergence to several models.

    In the direction ``"forward"`` it has the least ``Σ α_m Δ(Θ_m, Θ̃)``, and is ``M(Σ α_m S(Θ_m))``;
    in the direction ``"reverse"`` it has the least ``Σ α_m Δ(Θ̃, Θ_m)``, and its joint law is as
    near to proportional to ``Π p_m^α`` as that of such a model can be. The sizes of observations
    are then those of the first model unless ``horizon`` is given. Posteriors have a combination of
    their own, their product (``model.combined``).
    """
    given, weights = weights, _combining_weights(models, weights)
    if direction == "reverse":
        return models[0].log_linear(models, weights, horizon)
    if direction != "forward":
        raise ValueError(f"direction must be 'forward' or 'reverse'; got {direction!r}.")
    product = models[0].combined(models, given)
    if product is not None:
        return product
    own = (model.own(horizon) * alpha for model, alpha in zip(models, weights, strict=True))
    return models[0].pooled(models, weights).maximize(functools.reduce(operator.add, own))


def average(models: Sequence[Model], weights=None):
    """The mean of the parameters, a simpler alternative to :func:`combine`."""
    weights = _combining_weights(models, weights)
    parameters = [model.parameters for model in models]
    return (
        models[0]
        .pooled(models, weights)
        .with_parameters(
            {
                name: sum(alpha * p[name] for p, alpha in zip(parameters, weights, strict=True))
                for name in parameters[0]
            }
        )
    )


def divergence(model: Model, other: Model, horizon=None) -> float:
    """``Δ(Θ, Θ̃) = Q(S(Θ), Θ) - Q(S(Θ), Θ̃)``: the relative entropy of the joint laws.

    It is infinite if Θ̃ assigns probability zero to something that is possible under Θ. The floor
    that mixtures use for such probabilities while they learn is not used here.
    """
    model.check_same_kind(other)
    other = other.beside(model)
    statistics = model.own(horizon)
    if other.rules_out(statistics):
        return float("inf")
    return float(model.log_joint(statistics) - other.log_joint(statistics))


def upper_bound(model, other, data) -> float:
    """EM's bound at Θ on the loss of Θ̃, which it touches at ``Θ̃ = Θ``.

    ``U_Θ(Θ̃|V) = NLL(Θ|V) + Q(S₀(V|Θ), Θ) - Q(S(V|Θ), Θ̃)``, where S₀ are the statistics of the data
    as they are. They are S itself, and the loss is the mean negative log-likelihood of Θ̃, unless
    the family adds noise to the data (``reg_covar`` of Gaussians): then it is :func:`step_loss`,
    and the data are read twice.
    """
    expectation, plain = _with_and_without_noise(model, other, data)
    gap = model.log_joint(plain) - other.log_joint(expectation.statistics)
    return float(gap - expectation.log_likelihood)


def singleton_divergences(model, other, data) -> np.ndarray:
    """The divergence from each observation to Θ̃: :func:`upper_bound` is their weighted mean.

    With the hidden variables of ``v_n`` as Θ infers them, an observation is the joint law
    ``δ(v - v_n) p(h|v_n, Θ)``. Its relative entropy to that of Θ̃ is
    ``E[log p(h|v_n, Θ) - log p(v_n, h|Θ̃)] = U_Θ(Θ̃|v_n)``. It consists of two parts: the negative
    log-likelihood of ``v_n`` under Θ̃, and the relative entropy of ``p(h|v_n, Θ)`` to
    ``p(h|v_n, Θ̃)``. If observations are discrete, it is nonnegative and nothing is left out. If
    they are continuous, a single point has an infinite entropy relative to any density; this
    constant, the same for all models, is left out, so that results can be negative.

    Sample weights have no influence: there is one result for each observation, of any weight.
    """
    if isinstance(data, Remote):
        raise ValueError(
            "Divergences to single observations are computed where the observations are; these "
            "are on other machines. upper_bound, their mean, can be computed there."
        )
    bounds = [
        upper_bound(model, other, table.part(n, n + 1).reweighted(None))
        for table in model.tables(data)
        for n in range(len(table))
    ]
    return np.array(bounds)


def step_loss(model, other, data) -> float:
    """The loss of Θ̃ that no batch or online step from Θ on these data increases.

    ``NLL(Θ̃|V) + Q(S₀(V|Θ), Θ̃) - Q(S(V|Θ), Θ̃)``: the mean negative log-likelihood of Θ̃, and what the
    noise that the family adds to the data costs it. With ``reg_covar`` that is
    ``½ reg_covar Σ_k s_k tr Σ̃_k⁻¹``, where ``s_k`` is the mass of component k in the data under Θ.
    Without noise it is the mean negative log-likelihood.
    """
    expectation, plain = _with_and_without_noise(model, other, data)
    loss = -expect(other, data).log_likelihood
    if plain is expectation.statistics:
        return float(loss)
    return float(loss + other.log_joint(plain) - other.log_joint(expectation.statistics))


def _with_and_without_noise(model, other, data):
    """The expectation of the data, and ``S₀(V|Θ)``: its statistics if no noise is added."""
    model.check_same_kind(other)
    expectation, plain = expect(model, data), model.without_noise()
    if not np.isfinite(expectation.log_likelihood):
        raise ImpossibleDataError(
            f"{model.impossible} There are no hidden variables to infer from it."
        )
    return expectation, expectation.statistics if plain is model else expect(plain, data).statistics


def own_by_simulation(model, n_samples: int, random_state=None, horizon=None) -> Statistics:
    """``S(Θ)`` estimated from ``n_samples`` observations drawn from the model.

    By the tower rule the mean of ``S(v|Θ)`` over draws ``v`` from Θ is ``S(Θ)``. The error
    decreases with the square root of ``n_samples``.
    """
    rng = np.random.default_rng(random_state)
    return model.expect(model.draw(n_samples, rng, horizon)).statistics


def align(models: Sequence, weights=None, horizon=None, max_rounds: int = 20) -> list:
    """Align models that were trained separately, for least total divergence.

    The order of the components of a model, or the basis of its states, can be changed without
    changing the distribution of observations: ``model.brought_to(other)`` is an equivalent model
    that is nearest to another.

    The total is ``Σ α_m Δ(Θ_m, Θ̄)``, where ``Θ̄`` is the combination of the models. Each model is
    brought to the combination, and the combination is computed again, until nothing changes;
    neither can increase the total. This is done from the models as they are, and after all have
    been brought to the first, and the better result is returned. The first model never changes.

    The total is never more than that of the models as they are; if it is not less, the same model
    objects are returned. For two models of up to six components it is the least over all orders,
    unless two components have no maximum together, or more than six members of one share a
    covariance. In other cases, if the rounds end before ``max_rounds``, no single model except the
    first can be brought nearer to the combination: by any order for up to six components, by
    exchanging two for more. Models without a divergence are returned as they are, with a warning.
    """
    return _align(models, weights, horizon, max_rounds)[0]


def combine_aligned(models: Sequence, weights=None, horizon=None):
    """:func:`combine` of the models after :func:`align`, which may have it already."""
    aligned, center = _align(models, weights, horizon)
    return combine(aligned, weights, horizon) if center is None else center


def _align(models, weights, horizon, max_rounds=20):
    """The aligned models, and their combination if it has been computed."""
    models = list(models)
    alphas = _combining_weights(models, weights)
    if len(models) == 1:
        return models, None
    try:
        # Combine with the weights as given: normalizing them twice would round them twice.
        ends = _ends(models, weights, alphas, horizon, max_rounds)
        if len(ends) == 1:
            return ends[0]
        totals = [_total_divergence(*end, alphas, horizon) for end in ends]
    except NoDivergence as reason:
        warn(
            f"The models are not aligned. {reason} They are assumed to be in one order or basis "
            "already; pass align=False if they are.",
            AlignmentWarning,
        )
        return models, None
    best = int(np.argmin(totals))
    # A gain within rounding does not count.
    scale = sum(abs(model.log_joint(model.own(horizon))) for model in models)
    return ends[0] if totals[best] >= totals[0] - 1e-13 * scale else ends[best]


def _ends(models, weights, alphas, horizon, max_rounds):
    """Candidates for the aligned models, each with its combination; the given models first."""
    exact = None
    if len(models) == 2:
        exact = models[1].pooled_with(models[0], alphas, horizon)
    as_they_are = _in_one_order(models)
    if exact is not None:
        ends = [models] if as_they_are else []
        if not (as_they_are and exact is models[1]):
            ends.append([models[0], exact])
        return [(end, combine(end, weights, horizon)) for end in ends]
    brought = [models[0], *(model.brought_to(models[0], horizon) for model in models[1:])]
    ends = []
    if as_they_are:
        ends = [(models, combine(models, weights, horizon))]
        end = _settle(*ends[0], weights, horizon, max_rounds)
        if end[0] is not models:
            ends.append(end)
    if not (as_they_are and _same(brought, models)):
        center = combine(brought, weights, horizon)
        ends.append(_settle(brought, center, weights, horizon, max_rounds))
    return ends


def _same(models, others):
    return all(one is other for one, other in zip(models, others, strict=True))


def _in_one_order(models):
    """Whether the models can be combined as they are."""
    try:
        for model in models[1:]:
            models[0].check_same_order(model)
    except ValueError:
        return False
    return True


def _settle(models, center, weights, horizon, max_rounds):
    """Bring all models but the first to their combination until nothing changes."""
    for _ in range(max_rounds):
        nearer = [models[0], *(model.brought_to(center, horizon) for model in models[1:])]
        if _same(nearer, models):
            break
        models, center = nearer, combine(nearer, weights, horizon)
    return models, center


def _total_divergence(models, center, alphas, horizon):
    return sum(
        alpha * divergence(model, center, horizon)
        for model, alpha in zip(models, alphas, strict=True)
        if alpha > 0
    )


def _combining_weights(models, weights):
    if len(models) == 0:
        raise ValueError("There is nothing to combine: the list of models is empty.")
    for model in models[1:]:
        models[0].check_same_kind(model)
    if weights is None:
        return models[0].shares(models)
    weights = np.asarray(weights, dtype=float)
    if weights.shape != (len(models),):
        raise ValueError(
            f"One weight is needed for each of the {len(models)} models; "
            f"got weights of shape {weights.shape}."
        )
    if not np.isfinite(weights).all() or (weights < 0).any() or weights.sum() <= 0:
        raise ValueError(f"Weights must be nonnegative and not all zero; got {weights.tolist()}.")
    return weights / weights.sum()
