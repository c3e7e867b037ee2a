"""What all estimators share: settings of online learning, and changes that happen whole."""

from __future__ import annotations

import contextlib
import math
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints

from . import checks
from .data.rows import beginning, in_batches
from .learning_rate import Clock
from .statistics import Statistics

__all__ = ["Learned", "OnlineEstimator", "is_count", "is_number"]


def is_number(value) -> bool:
    """Whether this is a real number, infinite ones included."""
    return isinstance(value, Real) and not isinstance(value, bool) and not np.isnan(value)


def is_count(value) -> bool:
    """Whether this is a number that is finite and not negative."""
    return is_number(value) and 0 <= value < np.inf


def _are_numbers(values):
    return isinstance(values, list) and all(map(is_number, values))


def _are_names(values):
    return isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind == "O"


class Learned:
    """What an estimator can have learned: by this, files are written and read.

    The parameters are checked by the model that is made of them, all else by the tests here.
    """

    #: Besides the parameters, the attributes an estimator may have, with a test for each.
    _learned_kinds = {  # noqa: RUF012
        "converged_": lambda value: isinstance(value, (bool, np.bool_)),
        "n_iter_": lambda value: isinstance(value, Integral) and value >= 0,
        "lower_bound_": is_number,
        "lower_bounds_": _are_numbers,
        "n_steps_": is_count,
        "n_observations_": is_count,
        "n_features_in_": lambda value: isinstance(value, Integral) and value >= 1,
        "feature_names_in_": _are_names,
        "statistics_": lambda value: isinstance(value, Statistics),
    }

    def _parameter_attributes(self) -> tuple[str, ...]:
        """The attributes that hold parameters of the model."""
        raise AttributeError(f"{type(self).__name__} has no parameters.")

    def _learned_attributes(self) -> tuple[str, ...]:
        """All attributes that this estimator may have learned."""
        return (*self._parameter_attributes(), *self._learned_kinds)

    def _learned_model(self):
        """The model that the attributes describe, for no use in particular."""
        return self._model()

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
            n_columns = getattr(model, "n_columns", None)
            # A family of the user's own has features in place of columns.
            compiled = not hasattr(model, "family") or model.family.compiled
            if compiled and n_columns not in (None, getattr(self, "n_features_in_", n_columns)):
                raise ValueError(f"n_features_in_ must be {n_columns}; got {self.n_features_in_}.")
            if hasattr(self, "statistics_") and hasattr(model, "check_statistics"):
                model.check_statistics(self.statistics_)


class OnlineEstimator(Learned, BaseEstimator):
    """An estimator that can learn online."""

    #: Constraints on the settings of online learning, for scikit-learn to check.
    _online_constraints = {  # noqa: RUF012 (scikit-learn's convention)
        "learning_rate": [StrOptions({"auto"}), Real, callable],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
        "memory": [StrOptions({"model", "statistics"})],
        "fixed": ["array-like", str],
        "n_jobs": [
            Interval(Integral, 1, None, closed="left"),
            Interval(Integral, None, -1, closed="right"),
            None,
        ],
    }

    #: Observations of a mini-batch of a stream, where ``batch_size`` is None.
    _stream_batch = 1000

    def _online_tables(self, data, *, streamed: bool, started: bool):
        """The tables to learn from, the size of a whole batch, and a table to start from.

        Of a stream, batches go on from one table to the next, and the start is from its first
        rows: how it is cut makes no difference. The table to start from is None if ``started``.
        """
        if not hasattr(self, "n_iter_"):
            self.converged_ = False
            self.n_iter_ = 0
            self.lower_bound_ = -math.inf
            self.lower_bounds_ = []
        tables = iter(data.tables())
        if streamed:
            size = self.batch_size or self._stream_batch
            start, tables = (None, tables) if started else beginning(tables)
            return in_batches(tables, size), size, start
        (table,) = tables
        return [table], self.batch_size or len(table), None if started else table

    @property
    def _clock(self) -> Clock:
        # Models saved by version 0.1 have another name for it, or none.
        observations = getattr(self, "n_observations_", getattr(self, "n_sequences_", 0.0))
        return Clock(getattr(self, "n_steps_", 0.0), observations)

    def _set_clock(self, clock: Clock):
        self.n_steps_ = int(clock.steps) if clock.steps == int(clock.steps) else clock.steps
        self.n_observations_ = clock.observations

    def _check_settings(self, names):
        """Check some settings again: scikit-learn does so once, and they may have been changed."""
        validate_parameter_constraints(
            {name: self._parameter_constraints[name] for name in names},
            {name: getattr(self, name) for name in names},
            caller_name=type(self).__name__,
        )
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
        try:
            yield
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    def _keep_told(self, model):
        """Remember of which deaths of components the user was told, if there were any."""
        vars(self).pop("_told_dead", None)
        if getattr(model, "told_dead", None):
            self._told_dead = model.told_dead

    def _remembered(self, model):
        """What online learning remembers, if anything: statistics of such a model, checked."""
        statistics = getattr(self, "statistics_", None)
        if statistics is not None:
            model.check_statistics(statistics)
        return statistics

    def _forget(self):
        """Drop what online learning remembered."""
        if hasattr(self, "statistics_"):
            del self.statistics_
