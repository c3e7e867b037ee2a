"""One base for every estimator: batch and online learning, streams, settings, files.

An estimator supplies a check of its data, an initialization, a stopping rule, and the attributes
that show the parameters of its model. Changes to an estimator happen completely or not at all.
"""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from . import algebra, checks, drift
from .data.batches import beginning, check_total, in_batches
from .data.blocks import spread
from .data.remote import Remote
from .data.rows import Stream, Table, are_finite, is_stream, readable
from .data.sequences import Sequences
from .exceptions import DriftError, LearningRateError, NotEnoughData
from .learner import Learner, PredictingLearner
from .learning_rate import Clock, Forgetting, batch_weights, rate_is_automatic
from .model import Model
from .monitoring import Report, is_history, with_entry
from .notices import unheard
from .progress import display_of
from .remembering import Memory
from .sklearn_compat import (
    Interval,
    StrOptions,
    check_sample_weight,
    fit_context,
    validate_parameter_constraints,
)
from .statistics import Statistics
from .stopping import Slowing, StoppingRule
from .waiting import (
    KEPT,
    MOST_ROWS,
    MOST_STEPS,
    arrays_of,
    check_is_fitted,
    is_due,
    is_kept,
    joined_again,
    mark_of,
    more_needed,
    n_rows_of,
    postponed,
    settled,
    steps_due,
    with_kept,
    with_more,
)

__all__ = ["Estimator", "RowEstimator", "is_count", "is_number"]


#: The models of estimators that are used, and the settings of those that learn online.
_models, _checked_settings = Memory(), Memory()

#: For each class the names of its settings, and values of some of them that were found valid.
_valid_settings: dict[type, tuple[tuple[str, ...], set]] = {}
#: So many are kept.
_MANY = 1000
#: Values of these types do not change.
_PLAIN = frozenset({str, int, float, bool, type(None)})

#: With so many numbers a parameter, a first model is the best of so many starts after some steps of
#: batch EM, or else the model so far, and refined by some more. With fewer, the likelihood
#: misleads.
_REFINE_FROM = 10
_N_STARTS, _TRY_STEPS, _REFINE_STEPS = 4, 20, 30
#: With fewer it is made again, when there are more observations; more are not needed.
_START_AGAIN_BELOW = 200
#: Of many rows, starts are made of so many, and of so many for each component at least; so many
#: numbers a parameter tell which is the best.
_FIRST_ROWS, _FIRST_ROWS_PER_COMPONENT, _COMPARE_FROM = 2000, 100, 20
#: Steps that a kernel takes before it is asked whether they slow down.
_AT_ONCE = 5

#: Arrays of more numbers are checked by scikit-learn alone, which costs them little.
_FEW = 2**14


def is_number(value) -> bool:
    """Whether this is a real number, infinite ones included."""
    return isinstance(value, Real) and not isinstance(value, bool) and not math.isnan(value)


def is_count(value) -> bool:
    """Whether this is a number that is finite and not negative."""
    return is_number(value) and 0 <= value < np.inf


def _are_numbers(values):
    return isinstance(values, list) and all(map(is_number, values))


def _are_names(values):
    return isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind == "O"


def _after_steps(model, data, n_steps, *, stops=False):
    """A model after some steps of batch EM, and the log-likelihood before the last of them.

    With ``stops`` steps end when they slow down (:class:`~fastem.stopping.Slowing`), and this is
    looked at after every few of them, which a kernel takes at once. Where EM fails, with components
    that die or collapse, the model is as it was.
    """
    slowing = Slowing(n_steps)
    found = model
    with contextlib.suppress(ValueError), unheard(), np.errstate(all="ignore"):
        while slowing.n_iter < n_steps and not (stops and slowing.converged):
            rule = StoppingRule(min(_AT_ONCE, n_steps - slowing.n_iter) if stops else n_steps)
            found = algebra.fit(found, data, rule).model
            slowing.are_taken(rule.log_likelihoods)
        return found, slowing.log_likelihoods[-1]
    return model, -np.inf


def _with_rows(table, n_rows):
    """The first observations, with at least so many rows together if there are as many."""
    return table.part(0, table.count_for(math.ceil(n_rows)))


def _weight_of(data):
    """The weight of the observations of a table."""
    return len(data) if data.sample_weight is None else float(np.sum(data.sample_weight))


def _are_same(parameters, others):
    return all(np.array_equal(parameters[name], others[name]) for name in parameters)


def _in_doubles(X):
    """Data of single precision in double precision; any others as they are."""
    return X.astype(np.float64) if getattr(X, "dtype", None) == np.float32 else X


def _is_averaging(value):
    parts = ("iterate", "shown", "mean")
    return (
        isinstance(value, dict)
        and value.keys() == {*parts, "weight"}
        and all(isinstance(value[part], Statistics) for part in parts)
        and is_count(value["weight"])
        and value["weight"] > 0
    )


def _is_shown(state, model):
    """Whether a model is the average that was shown last."""
    parameters, shown = model.parameters, dict(state["shown"])
    return parameters.keys() == shown.keys() and _are_same(parameters, shown)


class _Start(NamedTuple):
    """A model to learn from ``data`` again, and whether another start should follow."""

    data: Any
    progress: algebra.Progress
    waits: bool


def _defaults(kind):
    """The settings that have defaults, by name, of the class of fastem that ``kind`` is."""
    package = __name__.partition(".")[0]
    ours = next(
        base for base in kind.__mro__
        if base.__module__.partition(".")[0] == package and "__init__" in vars(base)
    )  # fmt: skip
    settings = inspect.signature(ours.__init__).parameters.values()
    return {s.name: s.default for s in settings if s.default is not s.empty}


class Estimator(BaseEstimator):
    """Common part of all estimators."""

    # Settings that every estimator has, and attributes that learning sets.
    learning_rate: Any
    forgetting: float | None = None
    average_from: float | str | None = None
    callback: Callable | None = None
    drift_alarm: float | None = None
    batch_size: int | None
    memory: str
    fixed: Any
    n_jobs: int | None
    solver: str = "em"
    n_blocks: int | None = None
    random_state: Any
    converged_: bool
    n_iter_: int
    lower_bound_: float
    lower_bounds_: list[float]
    n_steps_: float
    n_observations_: float
    n_features_in_: int
    statistics_: Statistics
    _parameter_constraints: dict[str, Any]
    # Methods that most estimators have.
    score_samples: Any
    predict: Any

    #: Constraints on the settings of online learning, for scikit-learn to check.
    _online_constraints = {  # noqa: RUF012 (scikit-learn's convention)
        "learning_rate": [StrOptions({"auto"}), Real, callable],
        "average_from": [Interval(Real, 0.0, None, closed="left"), StrOptions({"auto"}), None],
        "callback": [callable, None],
        "drift_alarm": [Interval(Real, 0.0, 1.0, closed="neither"), None],
        "forgetting": [Interval(Real, 0.0, None, closed="neither"), None],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
        "memory": [StrOptions({"model", "statistics"})],
        "fixed": ["array-like", str],
        "n_jobs": [
            Interval(Integral, 1, None, closed="left"),
            Interval(Integral, None, -1, closed="right"),
            None,
        ],
    }
    #: Constraints on the settings of batch learning that several estimators have.
    _batch_constraints = {  # noqa: RUF012
        "tol": [Interval(Real, 0.0, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
        "verbose_interval": [Interval(Integral, 1, None, closed="left")],
    }
    #: Constraints on the settings that say which EM ``fit`` runs.
    _solver_constraints = {  # noqa: RUF012
        "solver": [StrOptions({"em", "incremental"})],
        "n_blocks": [Interval(Integral, 1, None, closed="left"), None],
    }
    #: What else ``partial_fit`` depends on.
    _more_online_settings: tuple[str, ...] = ()
    #: Observations of a mini-batch of a stream, where ``batch_size`` is None.
    _stream_batch = 1000
    #: Whether an observation is a sequence, and not a row.
    _learns_sequences = False

    def __setstate__(self, state):
        # A pickle of another library's class, read while fastem's has its place, has no setting
        # that is fastem's alone, and may hold as an attribute what is a property here.
        defaults, kind = _defaults(type(self)), type(self)
        shown = {n for n in {*defaults, *state} if isinstance(getattr(kind, n, None), property)}
        missing = {
            name: default for name, default in defaults.items()
            if name not in state and name not in shown
        }  # fmt: skip
        foreign = bool(missing) or not shown.isdisjoint(state)
        super().__setstate__(
            {**missing, **{name: value for name, value in state.items() if name not in shown}}
        )
        if foreign:
            for name in sorted(shown):
                if getattr(kind, name).fset is not None:
                    setattr(self, name, state[name] if name in state else defaults[name])
        vars(self).pop("_sklearn_version", None)

    # Supplied by each estimator --------------------------------------------------------------

    def _check_data(self, X, *, reset: bool, once: bool = False, **given) -> Any:
        """``X``, and arrays with an entry for each observation, as data whose values are checked.

        ``reset`` says to learn the columns from the data; ``once``, that one pass is enough.
        """
        raise AttributeError(f"{type(self).__name__} has no data.")

    def _initial_models(self, data) -> Iterable[Model]:
        """The models from which batch EM starts; the best result is kept."""
        raise AttributeError(f"{type(self).__name__} has no initialization.")

    def _initial_model_online(self, table) -> Model:
        """The first model of online learning, from the first observations."""
        raise AttributeError(f"{type(self).__name__} has no initialization.")

    def _stopping_rule(self, data) -> StoppingRule:
        """When batch EM stops."""
        raise AttributeError(f"{type(self).__name__} has no stopping rule.")

    def _model(self) -> Any:
        """The model that the attributes describe, including attributes set by hand."""
        raise AttributeError(f"{type(self).__name__} has no model.")

    def _set_model(self, model) -> None:
        """Show a model's parameters as attributes."""
        raise AttributeError(f"{type(self).__name__} has no model.")

    def _parameter_attributes(self) -> tuple[str, ...]:
        """The attributes that show the parameters of the model."""
        raise AttributeError(f"{type(self).__name__} has no parameters.")

    # Optional ----------------------------------------------------------------------------------

    def _has_learned(self) -> bool:
        """Whether there is a model from which learning can continue."""
        return all(hasattr(self, name) for name in self._parameter_attributes())

    #: Attributes that the model does not depend on when it is used, and not learned.
    _not_in_model: frozenset[str] = frozenset({
        "random_state", "verbose", "verbose_interval", "learning_rate", "batch_size", "memory",
        "forgetting", "solver", "n_blocks", "average_from", "callback", "history_", "_averaging",
        "drift_alarm", "_drift",
        "converged_", "n_iter_", "lower_bound_", "lower_bounds_", "n_steps_",
        "n_observations_", "statistics_", "feature_names_in_", "_told_dead",
        KEPT,
    })  # fmt: skip

    def _present_model(self) -> Any:
        """The model for inference; it is built anew only if an attribute has changed."""
        state = vars(self).copy()

        def build():
            # Other threads may set attributes of this estimator meanwhile.
            still = object.__new__(type(self))
            vars(still).update(state)
            model = still._model()
            self._after_building()
            # Lists that were set by hand have become arrays.
            for name, value in vars(still).items():
                if value is not state.get(name) and vars(self).get(name) is state.get(name):
                    setattr(self, name, value)
            return model

        return _models.recall(self, build, state, self._not_in_model)

    def _after_building(self) -> None:
        """Called when the attributes have made a model for inference."""

    def _learned_model(self) -> Any:
        """The model that the attributes describe, which need not be able to learn."""
        return self._model()

    def _resumes(self) -> bool:
        """Whether ``fit`` continues from the present model."""
        return getattr(self, "warm_start", False) and self._has_learned()

    def _is_given_start(self) -> bool:
        """Whether ``fit`` starts from an earlier fit or from given parameters, at least in part."""
        return self._resumes()

    #: Another M-step of batch EM, with a prior for instance: a function of a model and its
    #: expectation. None: the model's.
    _maximize: Callable | None = None

    def _maximize_until(self, rule: StoppingRule) -> Callable | None:
        """``_maximize`` of a fit that ends by this rule, which may have to see each step."""
        return self._maximize

    def _prior(self, model) -> Any:
        """What ``_maximize`` knows besides, in the form that ``model.iterate`` takes, if it can."""
        return None

    def _forget_fit(self) -> None:
        """Remove what an earlier fit left, before a new one starts from the beginning."""
        vars(self).pop("_told_dead", None)

    def _prepared(self, data) -> Any:
        """Data in the form that batch EM reads over and over."""
        return data

    def _check_fit(self, data) -> None:
        """Raise ``ValueError`` if ``fit`` cannot learn from these data."""

    def _warn_of_end(self, rule: StoppingRule) -> None:
        """Warn if batch EM did not converge."""

    def _before_learning(self, model: Model | None) -> None:
        """Called before ``partial_fit`` looks at its data; the model is None before the first."""

    def _after_learning(self, table) -> None:
        """Called after ``partial_fit`` with the last table that it learned from."""

    def __sklearn_is_fitted__(self):
        return self._has_learned()

    # Batch learning --------------------------------------------------------------------------

    def _fit(self, X, **given):
        """Batch EM; returns the data, checked."""
        with self._all_or_nothing():
            resumed = self._resumes()
            if not resumed:
                self._forget_fit()
            vars(self).pop(KEPT, None)
            vars(self).pop("history_", None)
            vars(self).pop("_drift", None)
            data = self._check_data(X, **given, reset=not resumed)
            if isinstance(data, (Table, Sequences)):
                check_total(data.sample_weight, data.observation_name)
            data = self._prepared(data)
            self._check_fit(data)
            models = [self._model()] if resumed else self._starts_of_fit(data)
            n_starts = 1 if resumed else getattr(self, "n_init", 1)
            best: Any = None
            with display_of(self, "fit") as display:
                for number, model in enumerate(models, 1):
                    rule = self._watched(self._stopping_rule(data))
                    rule.display = display
                    display.begin(rule.max_iter, number, n_starts, rule.measure)
                    fitted = self._run(model, data, rule)
                    display.end("converged" if rule.has_settled else "not converged")
                    # Without iterations there is nothing to compare, and the last start is kept.
                    last = rule.log_likelihoods[-1:]
                    if best is None or not last or last > best[1].log_likelihoods[-1:]:
                        best = fitted, rule
            self._warn_of_end(best[1])
            self._set_fitted(*best)
        return data

    def _starts_of_fit(self, data) -> Iterable[Model]:
        """The models from which ``fit`` starts.

        Clusters of many rows would take longer than all passes of incremental EM: its starts are
        those of online learning, from a sample.
        """
        sample = spread(data, MOST_ROWS) if self.solver == "incremental" else data
        if sample is data or self._start_is_given() or self._is_given_start():
            yield from self._initial_models(data)
            return
        for model in self._initial_models(self._first_of_many(sample)):
            yield self._refined(model, sample)[0]

    def _watched(self, rule: StoppingRule, shown: Callable | None = None) -> StoppingRule:
        """The rule, which tells the callback of each iteration if there is one.

        ``shown`` makes of what EM runs on the model that the callback is to see.
        """
        callback = self.callback
        if callback is None:
            return rule
        before_step, after_step = rule.before_step, rule.after_step
        present, n_iter = None, 0

        def remember(model, expectation):
            nonlocal present
            present = model if shown is None else shown(model)
            return before_step(model, expectation)

        def tell(expectation):
            nonlocal n_iter
            n_iter += 1
            ends = after_step(expectation)
            weight, log_likelihood = expectation.weight, expectation.log_likelihood
            report = Report(weight, weight, log_likelihood, n_iter, present, self)
            return (callback(report) is True) or ends

        def tell_of_block(model, expectation):
            weight, log_likelihood = expectation.weight, expectation.log_likelihood
            seen = model if shown is None else shown(model)
            report = Report(weight, weight, log_likelihood, n_iter, seen, self, within=True)
            return callback(report) is True

        rule.after_block = tell_of_block
        # Steps that a kernel takes at once are not seen one by one.
        rule.limit, rule.before_step, rule.after_step = lambda: None, remember, tell
        return rule

    def _run(self, model, data, rule) -> algebra.Fitted:
        """Batch or incremental EM from one initial model."""
        maximize = self._maximize_until(rule)
        prior = None if maximize is None else self._prior(model)
        if self.solver == "incremental":
            return algebra.incremental(
                model, data, rule, maximize, prior, self.n_blocks,
                keep_start=self._is_given_start(),
            )  # fmt: skip
        return algebra.fit(model, data, rule, maximize, prior)

    def _set_fitted(self, fitted: algebra.Fitted, rule: StoppingRule):
        weight = 0.0 if fitted.expectation is None else fitted.expectation.weight
        self._set_progress(algebra.Progress(fitted.model, None, Clock(observations=weight)))
        self._set_iterations(rule.log_likelihoods, converged=rule.converged)

    def _set_iterations(self, log_likelihoods: list[float], *, converged: bool):
        """Show the mean log-likelihood at each iteration of batch EM."""
        self.converged_ = converged
        self.n_iter_ = len(log_likelihoods)
        self.lower_bounds_ = log_likelihoods
        self.lower_bound_ = log_likelihoods[-1] if log_likelihoods else -np.inf

    def _show_bounds(self):
        """Show what EM has raised as the peer does, if it differs."""

    # Online learning -------------------------------------------------------------------------

    def _partial_fit(self, X, **given):
        """Online EM over the data of one call."""
        self._check_settings((*self._online_constraints, *self._more_online_settings))
        rate = self._rate
        display = display_of(self, "partial_fit", "observations")
        with self._all_or_nothing(), display:
            started = self._has_learned()
            model: Any = self._model() if started else None
            self._before_learning(model)
            data = self._check_data(X, **given, reset=not started, once=True)
            kept = vars(self).pop(KEPT, None)
            progressive, scored, again, n_steps = None, math.nan, None, 0
            if kept is not None and not started:
                data = with_kept(self, kept, data, given)
            elif kept is not None and self._goes_on(kept, model, rate, data):
                kept = with_more(kept, data)
                # Few observations made a poor start: with twice as many, it is made again.
                again = self._started_again(kept, model) if is_due(kept) else None
                if again is not None:
                    progressive, data = model.expect(data), again.data
                    scored = model.mean_log_likelihood(progressive)
                elif not is_due(kept) or (kept := postponed(kept)) is not None:
                    n_steps = steps_due(kept)
                    setattr(self, KEPT, settled(kept) if n_steps else kept)
            if not data.is_stream:
                check_total(data.sample_weight, data.observation_name)
            display.begin(None if data.is_stream else _weight_of(data))
            tables, first = self._online_tables(data, started and again is None)
            if again is not None:
                progress, waits = again.progress, again.waits
            elif started:
                progress, waits = self._progress_of(model), False
            else:
                refines = rate_is_automatic(rate) and not self._start_is_given()
                model, waits = self._start_online(first, kept or {}, few=refines), False
                if model is None:
                    display.end("too few to start with are kept; learned")
                    return self
                if refines:
                    model, waits = self._refined(model, first)
                progress = self._progress_of(model)
            if waits and not data.is_stream:
                kept = arrays_of(self, first, getattr(self, "n_components", 1), tried=True)
                setattr(self, KEPT, kept)
                n_steps = MOST_STEPS
            last, n_learned = None, 0.0

            def watched():
                nonlocal last
                for table in tables:
                    last = table
                    yield table

            def report(progress, weight, log_likelihood):
                nonlocal n_learned
                n_learned += weight
                display.step(n_learned, log_likelihood)
                return self._report_online(progress, weight, log_likelihood)

            progress = algebra.learn(
                progress,
                watched(),
                rate,
                self.batch_size,
                largest_batch=self._largest_batch(data, rate),
                keep_statistics=self.memory == "statistics",
                average_from=self.average_from,
                report=report if progressive is None else None,
            )
            if n_steps and kept is not None:
                everything = first if waits else joined_again(self, kept)
                progress = self._improved(progress, everything, n_steps, rate)
            self._set_progress(progress)
            if progressive is not None:
                report(progress, progressive.weight, scored)
            self._after_learning(last)
            display.end("learned")
            if KEPT in vars(self):
                setattr(self, KEPT, {**vars(self)[KEPT], "mark": mark_of(self._model())})
        return self

    def _largest_batch(self, data, rate) -> int | None:
        """The size of batches where ``batch_size`` is None; None: a call is one batch.

        A learning rate of the user's is that of a call. The automatic one counts observations, and
        a large batch would learn from them less than one after another.
        """
        if data.is_stream or (rate_is_automatic(rate) and len(data) > self._stream_batch):
            return self._stream_batch
        return None

    def _goes_on(self, kept, model, rate, data) -> bool:
        """Whether observations are kept, and learned from again, until they are enough.

        Not if the parameters were set by hand, or others are held fixed than before; if the
        learning rate is the user's; or if the first observations should count half by now.
        """
        if isinstance(rate, Forgetting) and self._clock.observations >= rate.half_life:
            return False
        is_own = kept.get("mark") in (None, mark_of(model))
        return is_own and rate_is_automatic(rate) and not data.is_stream

    def _started_again(self, kept, so_far) -> _Start | None:
        """A start from all that is kept; None if there is none, or one of other shapes.

        Until it has learned, this estimator stays as it is, for other threads too.
        """
        data, other = joined_again(self, kept), self._without_model()
        try:
            model = other._initial_model_online(data)
        except NotEnoughData:
            return None
        shapes, others = (
            {name: np.shape(values) for name, values in of.parameters.items()}
            for of in (model, so_far)
        )
        if shapes != others:
            return None
        vars(self).pop("_told_dead", None)
        # After an alarm, the test has ended.
        state = vars(self).get("_drift")
        if self.drift_alarm is not None and (state is None or state["at"] is None):
            self._drift = self._beginning_of_drift(data)
        model, waits = self._refined(model, data, so_far)
        return _Start(data, algebra.Progress(model, None, Clock()), waits)

    def _without_model(self):
        """A copy that has learned nothing."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        other._forget_start()
        return other

    def _beginning_of_drift(self, table):
        """The test of drift after a model was made of a table."""
        weight = batch_weights(len(table), len(table), table.sample_weight)
        return drift.beginning(seen=weight.sum())

    # One observation after another -------------------------------------------------------------

    def learner(self) -> Learner:
        """An object that learns from single observations, each in microseconds.

        It begins with the present model, and leaves this estimator as it is; ``learner.model()`` is
        the estimator that ``partial_fit`` would have made, called once for each observation.

        Returns
        -------
        Learner

        Raises
        ------
        NotFittedError
            If there is no model yet: call ``fit`` or ``partial_fit`` with the first observations.
        """
        return (PredictingLearner if self._predicts_one else Learner)(self)

    #: Whether there is something to predict of an observation: :meth:`_predict_one`.
    _predicts_one = False

    def _one(self, x) -> Any:
        """One observation as the data of a call."""
        if isinstance(x, (list, tuple)):
            x = np.asarray(x)
        if np.ndim(x) > 2:
            raise ValueError(
                f"One sequence is taken at a time, an array of steps by columns; got the shape "
                f"{np.shape(x)}."
            )
        return _in_doubles(x)

    def _score_one(self, X) -> float:
        """The log-likelihood of an observation, from :meth:`_one`."""
        return self.score_samples(X)[0]

    def _predict_one(self, X) -> Any:
        """The hidden variable of an observation, from :meth:`_one`."""
        return int(self.predict(X)[0])

    def _predict_quickly(self, quick, x) -> Any:
        """The same from a model that is changed in place; None if it leaves this to others."""
        return quick.predict(x)

    def _online_tables(self, data, started):
        """The tables to learn from, and a table for the initialization, None if ``started``.

        Batches of a stream continue from one table to the next, and the initialization takes its
        first rows: how the stream is cut makes no difference.
        """
        if not hasattr(self, "n_iter_"):
            self._set_iterations([], converged=False)
        tables = iter(data.tables())
        if data.is_stream:
            first, tables = (None, tables) if started else beginning(tables)
            size = self.batch_size or self._stream_batch
            if self.average_from is not None:
                size = algebra.block_size(size)
            return in_batches(tables, size), first
        (table,) = tables
        return [table], None if started else table

    def _start_is_given(self) -> bool:
        """Whether the user says, at least in part, where online learning begins."""
        return False

    def _forget_start(self):
        """Remove what online learning has learned, before it begins again."""
        self._forget_fit()
        state = vars(self)
        for name in (*self._parameter_attributes(), "n_steps_", "n_observations_", "statistics_",
                     "_averaging"):  # fmt: skip
            state.pop(name, None)

    def _start_online(self, table, kept, *, few: bool) -> Model | None:
        """The first model; None if the table has too few observations, which are then kept.

        ``few`` says to make it of the first of many, because more will refine it.
        """
        before, n_components = vars(self).copy(), getattr(self, "n_components", 1)
        tried = not more_needed(kept, table, n_components)
        try:
            if tried:
                first = self._first_of_many(table) if few else table
                model = self._initial_model_online(first)
                if self.drift_alarm is not None:
                    self._drift = self._beginning_of_drift(table)
                return model
            # Nothing is wrong with them, but few observations make a poor start.
            kept = arrays_of(self, table, n_components, tried=False)
        except NotEnoughData as error:
            try:
                kept = arrays_of(self, table, n_components, tried=True)
            except NotEnoughData:
                raise error from None
        vars(self).clear()
        vars(self).update(before)
        setattr(self, KEPT, kept)
        self.n_features_in_ = table.X.shape[1]
        return None

    def _first_of_many(self, table):
        """The first of many observations, if they are enough for a start that will be refined."""
        if n_rows_of(table) < MOST_ROWS:
            return table
        per_component = _FIRST_ROWS_PER_COMPONENT * getattr(self, "n_components", 1)
        part = _with_rows(table, max(_FIRST_ROWS, per_component))
        return part if n_rows_of(part) == part.X.shape[0] else table

    def _report_online(self, progress, weight, log_likelihood) -> bool:
        """Keep the progressive log-likelihood, and tell the callback; whether to stop."""
        n = progress.clock.observations
        # A model of one's own need not compute it.
        if not math.isnan(log_likelihood):
            self.history_ = with_entry(vars(self).get("history_", ()), n, weight, log_likelihood)
        self._test_drift(n, weight, log_likelihood)
        if self.callback is None:
            return False
        report = Report(n, weight, log_likelihood, 0, progress.shown, self)
        return self.callback(report) is True

    def _test_drift(self, n, weight, log_likelihood):
        """Go on with the test of drift, if there is one."""
        if self.drift_alarm is None:
            vars(self).pop("_drift", None)
            return
        if math.isnan(log_likelihood):
            raise DriftError(
                f"{type(self).__name__} does not compute the progressive log-likelihood, which a "
                "drift is seen by. Set drift_alarm=None."
            )
        state = vars(self).get("_drift") or drift.beginning()
        self._drift = drift.next_drift(state, self.drift_alarm, n, weight, log_likelihood)

    @property
    def drift_(self) -> drift.Drift:
        """What the test of drift has found; ``del model.drift_`` begins it anew."""
        if "_drift" not in vars(self):
            raise AttributeError(
                "There is no drift_ before partial_fit has learned with drift_alarm set."
            )
        return drift.shown(self._drift)

    @drift_.deleter
    def drift_(self):
        vars(self).pop("_drift", None)

    def _progress_of(self, model) -> algebra.Progress:
        """Where online learning goes on from, if ``model`` is the one that is shown."""
        average = None
        state = vars(self).get("_averaging")
        # Attributes that were set by hand are what learning goes on from.
        if state is not None and self.average_from is not None and _is_shown(state, model):
            average = algebra.Average(state["mean"], state["weight"])
            model.check_statistics(average.mean)
            model = model.with_parameters(dict(state["iterate"]))
        return algebra.Progress(model, self._memory_of(model), self._clock, average)

    def _refined(self, model, table, so_far=None):
        """A first model after some steps of batch EM, and whether another should follow it.

        One pass is not enough to leave a poor optimum, a rough initialization, or one from few
        observations. The model so far, if there is one, stays where it is clearly better: with few
        observations, a higher likelihood of those it grew up with is often chance.
        """
        n_rows = n_rows_of(table)
        n_parameters = sum(array.size for array in model.parameters.values())
        # The numbers that a row brings for each parameter.
        share = table.X.shape[1] / n_parameters
        each = n_rows * share
        if each >= _REFINE_FROM:
            part = table.part(0, table.count_for(MOST_ROWS))
            first, compared, is_many = part, part, n_rows >= MOST_ROWS
            if is_many:
                # More than is needed would only take its time.
                first = self._first_of_many(part)
                part = _with_rows(part, max(_START_AGAIN_BELOW / share, first.X.shape[0]))
                compared = _with_rows(part, max(_COMPARE_FROM / share, first.X.shape[0]))
            best, highest = model, -np.inf
            for start in self._starts(model, first):
                found, log_likelihood = _after_steps(start, compared, _TRY_STEPS, stops=is_many)
                if log_likelihood > highest:
                    best, highest = found, log_likelihood
            if so_far is not None:
                so_far, _ = _after_steps(so_far, part, _TRY_STEPS, stops=is_many)
                # Where EM fails from all starts, nothing is better.
                if highest == -np.inf or algebra.is_better(so_far, best, part):
                    best = so_far
            model, _ = _after_steps(best, part, _REFINE_STEPS, stops=is_many)
        return model, each < _START_AGAIN_BELOW and n_rows < MOST_ROWS

    def _starts(self, model, table):
        """A first model, and those that other random numbers lead to."""
        yield model
        seen = [model.parameters]
        for number in range(1, _N_STARTS):
            other = self._without_model()
            if isinstance(self.random_state, Integral):
                seeds = np.random.SeedSequence([int(self.random_state), number])
                other.random_state = int(seeds.generate_state(1)[0])
            try:
                with unheard(), np.errstate(all="ignore"):
                    start = other._initial_model_online(table)
            except (ValueError, Warning):
                continue
            # Not all models begin at random.
            if not any(_are_same(start.parameters, others) for others in seen):
                seen.append(start.parameters)
                yield start

    def _improved(self, progress, table, n_steps, rate) -> algebra.Progress:
        """Online learning after steps from all that it has learned from so far, as one batch.

        The batch has the step size that its observations would have one after another: while they
        are too few to determine the parameters, it is well below that of batch EM, 1.
        """
        model = progress.model
        # Where a step fails, with components that die or collapse, the model has to do.
        with contextlib.suppress(ValueError), unheard(), np.errstate(all="ignore"):
            for _ in range(n_steps):
                model = algebra.learn(algebra.Progress(model, None, Clock()), [table], rate).model
        memory = None if progress.memory is None else model.own(model.horizon_of(table))
        return progress._replace(model=model, memory=memory)

    def _set_progress(self, progress: algebra.Progress):
        shown = progress.shown
        self._set_model(shown)
        self._set_clock(progress.clock)
        vars(self).pop("_averaging", None)
        if progress.average is not None:
            self._averaging = {
                "iterate": Statistics(**progress.model.parameters),
                "shown": Statistics(**self._model().parameters),
                "mean": progress.average.mean,
                "weight": progress.average.weight,
            }
        if progress.memory is not None:
            self.statistics_ = progress.memory
        else:
            vars(self).pop("statistics_", None)

    @property
    def _clock(self) -> Clock:
        # Models saved by version 0.1 have another name for it, or none.
        observations = getattr(self, "n_observations_", getattr(self, "n_sequences_", 0.0))
        return Clock(getattr(self, "n_steps_", 0.0), observations)

    def _set_clock(self, clock: Clock):
        self.n_steps_ = int(clock.steps) if clock.steps == int(clock.steps) else clock.steps
        self.n_observations_ = clock.observations

    @property
    def _rate(self):
        """The learning rate as :func:`fastem.learning_rate.schedule` takes it."""
        if self.forgetting is None:
            return self.learning_rate
        if not (isinstance(self.learning_rate, str) and self.learning_rate == "auto"):
            raise LearningRateError(
                "forgetting says how the automatic learning rate ends, and learning_rate is "
                f"{self.learning_rate!r}. Set learning_rate='auto' or forgetting=None."
            )
        return Forgetting(float(self.forgetting))

    def _memory_of(self, model) -> Statistics | None:
        """The running statistics, checked; None if the model is the memory."""
        statistics = getattr(self, "statistics_", None) if self.memory == "statistics" else None
        if statistics is not None:
            model.check_statistics(statistics)
        return statistics

    # Data ------------------------------------------------------------------------------------

    def _are_plain_rows(self, X, min_samples=1, *, reset=False, most: float = _FEW) -> bool:
        """Whether ``X`` is an array that scikit-learn's checks would return as it is.

        They take longer than a prediction for a few rows, and use one thread for many. Values are
        not looked at; with ``reset`` the columns are not either.
        """
        is_plain = (
            type(X) is np.ndarray
            and X.ndim == 2
            and readable(X)
            and min_samples <= len(X)
            and 0 < X.size <= most
        )
        if reset or not is_plain:
            return is_plain
        state = vars(self)
        return X.shape[1] == state.get("n_features_in_") and "feature_names_in_" not in state

    def _set_columns(self, X):
        """Take the columns of an array without names for those of the data to come."""
        self.n_features_in_ = X.shape[1]
        vars(self).pop("feature_names_in_", None)

    # Settings --------------------------------------------------------------------------------

    def _validate_params(self):
        """Check all settings, which scikit-learn asks for before a fit.

        Plain values that were valid in another estimator of this class need no other look.
        """
        kind = type(self)
        if kind not in _valid_settings:
            _valid_settings[kind] = tuple(self._get_param_names()), set()
        names, known = _valid_settings[kind]
        settings = {name: getattr(self, name) for name in names}
        plain = {name: value for name, value in settings.items() if type(value) in _PLAIN}
        # A value of another type may be equal: 1 and True.
        key = tuple((name, type(value), value) for name, value in plain.items())
        if key in known:
            settings = {name: value for name, value in settings.items() if name not in plain}
        if settings:
            validate_parameter_constraints(
                self._parameter_constraints, settings, caller_name=kind.__name__
            )
        if len(known) < _MANY:
            known.add(key)

    def _check_settings(self, names):
        """Check some settings again: scikit-learn does so once, and they may have been changed."""
        settings = {name: getattr(self, name) for name in names}

        def check():
            constraints = {name: self._parameter_constraints[name] for name in names}
            validate_parameter_constraints(constraints, settings, caller_name=type(self).__name__)

        _checked_settings.recall(self, check, settings)
        for name in ("n_steps_", "n_observations_", "n_sequences_"):
            count = getattr(self, name, 0)
            if not is_count(count):
                raise ValueError(f"{name} must be a number, zero or more; got {count!r}.")

    def _fixed_names(self, names) -> tuple[str, ...]:
        """The names in ``fixed``, all of which must be among ``names``."""
        fixed = (self.fixed,) if isinstance(self.fixed, str) else tuple(self.fixed)
        for name in fixed:
            if name not in names:
                raise ValueError(f"fixed: {name!r} is not one of the parameters {tuple(names)}.")
        return fixed

    @contextlib.contextmanager
    def _all_or_nothing(self):
        """Undo what was set on this estimator if something goes wrong."""
        # Attributes are replaced and never written to, so that the old arrays are intact.
        before = vars(self).copy()
        # A generator is written to.
        generator = self.random_state
        state = generator.get_state() if isinstance(generator, np.random.RandomState) else None
        try:
            yield
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            if state is not None:
                generator.set_state(state)
            raise

    def _generator_to_draw(self, n_samples) -> np.random.Generator:
        """Random numbers to draw ``n_samples`` observations with, once there is a model."""
        check_is_fitted(self)
        if n_samples < 1:
            raise ValueError(f"n_samples must be 1 or more; got {n_samples}.")
        return np.random.default_rng(check_random_state(self.random_state).randint(2**31))

    def _keep_told(self, told: set[int]):
        """Remember of which deaths of components the user was told, if there were any."""
        vars(self).pop("_told_dead", None)
        if told:
            self._told_dead = told

    # Files: what an estimator can have learned ------------------------------------------------

    #: Besides the parameters, the attributes an estimator may have, with a test for each. The
    #: parameters are checked by the model that is made of them.
    _learned_kinds = {  # noqa: RUF012
        "converged_": lambda value: isinstance(value, (bool, np.bool_)),
        "n_iter_": lambda value: isinstance(value, Integral) and int(value) >= 0,
        "lower_bound_": is_number,
        "lower_bounds_": _are_numbers,
        "n_steps_": is_count,
        "n_observations_": is_count,
        "n_features_in_": lambda value: isinstance(value, Integral) and int(value) >= 1,
        "feature_names_in_": _are_names,
        "statistics_": lambda value: isinstance(value, Statistics),
        "history_": is_history,
        "_averaging": _is_averaging,
        "_drift": drift.is_drift,
        KEPT: is_kept,
    }

    def _learned_attributes(self) -> tuple[str, ...]:
        """All attributes that this estimator may have learned."""
        return (*self._parameter_attributes(), *self._learned_kinds)

    def _n_columns_of(self, model) -> int | None:
        """The number of columns of the data that go with a model, if it tells."""
        return None

    def _check_learned(self) -> None:
        """Raise ``ValueError`` or ``TypeError`` unless the attributes agree and make a model."""
        for name in self._parameter_attributes():
            if hasattr(self, name):
                checks.numbers(name, getattr(self, name))
        for name, is_one in self._learned_kinds.items():
            if name in vars(self) and not is_one(getattr(self, name)):
                raise ValueError(f"{name} cannot be {getattr(self, name)!r}.")
        names = getattr(self, "feature_names_in_", None)
        if names is not None and len(names) != getattr(self, "n_features_in_", len(names)):
            raise ValueError(f"{len(names)} names for {self.n_features_in_} columns.")
        if self.__sklearn_is_fitted__():
            model = self._learned_model()
            n_columns = self._n_columns_of(model)
            if n_columns not in (None, getattr(self, "n_features_in_", n_columns)):
                raise ValueError(f"n_features_in_ must be {n_columns}; got {self.n_features_in_}.")
            if hasattr(self, "statistics_"):
                model.check_statistics(self.statistics_)


class RowEstimator(DensityMixin, Estimator):
    """Common part of estimators whose observations are rows of an array."""

    #: What scikit-learn accepts as a sparse matrix.
    _accept_sparse: str | bool = False

    def _check_rows(self, X) -> Any:
        """``X``; raises ``ValueError`` if some row is outside the support."""
        return X

    def _check_table(self, X, sample_weight=None, *, reset, min_samples=1):
        if self._are_plain_rows(X, min_samples, reset=reset, most=np.inf) and are_finite(
            X, self.n_jobs
        ):
            if reset:
                self._set_columns(X)
        else:
            X = validate_data(
                self, X, reset=reset, dtype="numeric", accept_sparse=self._accept_sparse,
                ensure_min_samples=min_samples,
            )  # fmt: skip
        if sample_weight is not None:
            sample_weight = check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
        return self._check_rows(X), sample_weight

    def _check_data(self, X, sample_weight=None, *, reset, once=False, min_samples=1):
        if isinstance(X, Remote):
            return X.checked(self, reset=reset)
        if not is_stream(X):
            return Table(*self._check_table(X, sample_weight, reset=reset, min_samples=min_samples))
        if sample_weight is not None:
            raise ValueError(
                "sample_weight goes with an array; a stream yields pairs (array, weights) instead."
            )

        def check(X, sample_weight):
            nonlocal reset
            checked = self._check_table(X, sample_weight, reset=reset)
            # Only the first table says what the columns are.
            reset = False
            if once:
                check_total(checked[1])
            return checked

        return Stream(X, check, once=once)

    def _one(self, x):
        # A row of a sparse matrix has two dimensions.
        X = x if sparse.issparse(x) else np.asarray(x)[None]
        if X.ndim != 2 or X.shape[0] != 1:
            raise ValueError(f"One row is taken at a time; got the shape {np.shape(x)}.")
        return _in_doubles(X)

    def _checked(self, X):
        """The rows of an array for a model that is fitted."""
        check_is_fitted(self)
        return self._check_table(X, reset=False)[0]

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None, sample_weight=None) -> Self:
        """Learn online from new rows.

        Each batch moves the model to the minimum of the batch's loss plus the divergence from the
        present model over the learning rate. The batches are mini-batches of ``batch_size`` rows;
        if that is None, all of ``X``, or 1000 rows of a stream. A batch of less weight moves the
        model less, and batches continue from one array of a stream to the next: how a stream is
        cut makes no difference. The first call initializes the model from its rows, or from the
        first 10,000 of a stream. If these are too few to start from, they are kept, and the model
        starts with a later call, when there are ten rows for each component, as many as columns,
        and 20 in all; until then the estimator is not fitted.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or iterable of such arrays
            Sparse matrices, too, if ``fit`` accepts them.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        return self._partial_fit(X, sample_weight=sample_weight)

    def score(self, X, y=None, sample_weight=None) -> float:
        """The mean log-likelihood of the rows of an array, or of a stream of arrays."""
        check_is_fitted(self)
        data = self._check_data(X, sample_weight, reset=False, once=True)
        return self._model().expect(data).log_likelihood

    def _n_parameters(self) -> int:
        """The number of free parameters of the model."""
        raise AttributeError(f"{type(self).__name__} has no model.")

    def bic(self, X) -> float:
        """Bayesian information criterion on ``X``; the lower the better."""
        n_rows = np.shape(X)[0]
        return -2 * self.score(X) * n_rows + self._n_parameters() * math.log(n_rows)

    def aic(self, X) -> float:
        """Akaike information criterion on ``X``; the lower the better."""
        return -2 * self.score(X) * np.shape(X)[0] + 2 * self._n_parameters()
