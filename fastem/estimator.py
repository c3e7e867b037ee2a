"""What all estimators share: settings of online learning, and changes that happen whole."""

from __future__ import annotations

import contextlib
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints

__all__ = ["OnlineEstimator"]


class OnlineEstimator(BaseEstimator):
    """An estimator that can learn online."""

    #: Constraints on the settings of online learning, for scikit-learn to check.
    _online_constraints = {  # noqa: RUF012 (scikit-learn's convention)
        "learning_rate": [Real, callable],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
        "memory": [StrOptions({"model", "statistics"})],
        "fixed": ["array-like", str],
        "n_jobs": [
            Interval(Integral, 1, None, closed="left"),
            Interval(Integral, None, -1, closed="right"),
            None,
        ],
    }

    def _check_settings(self, names):
        """Check some settings again: scikit-learn does so once, and they may have been changed."""
        validate_parameter_constraints(
            {name: self._parameter_constraints[name] for name in names},
            {name: getattr(self, name) for name in names},
            caller_name=type(self).__name__,
        )
        for name in ("n_steps_", "n_sequences_"):
            count = getattr(self, name, 0)
            if not (isinstance(count, Real) and 0 <= count < np.inf):
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

    def _forget(self):
        """Drop what online learning remembered."""
        if hasattr(self, "statistics_"):
            del self.statistics_
