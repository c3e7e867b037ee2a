"""What all estimators share: settings of online learning, and changes that happen whole."""

from __future__ import annotations

import contextlib
import math
from numbers import Integral, Real

from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints

from .data import beginning, in_batches
from .learning_rate import Clock

__all__ = ["OnlineEstimator"]


class OnlineEstimator(BaseEstimator):
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

    def _forget(self):
        """Drop what online learning remembered."""
        if hasattr(self, "statistics_"):
            del self.statistics_
