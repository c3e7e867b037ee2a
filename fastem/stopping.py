"""When batch EM stops: scikit-learn's rule, hmmlearn's monitor, a number of iterations."""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .exceptions import ImpossibleDataError
from .notices import beside_bars
from .progress import SILENT, Display
from .statistics import Expectation, Statistics

__all__ = ["ConvergenceMonitor", "Limit", "Monitored", "Slowing", "StoppingRule",
           "Tolerance"]  # fmt: skip

_log = logging.getLogger(__name__)


def _never(weight, horizon):
    return -np.inf


class Limit(NamedTuple):
    """How far ``model.iterate`` goes: a stopping rule in numbers, which kernels can follow.

    The rule has the last word, so that it does no harm if a kernel rounds otherwise.
    """

    #: The largest number of steps.
    n_steps: int
    #: Stop after the step whose mean log-likelihood differs by less from the one before it. A
    #: function of the weight of the observations and of their horizon.
    least_change: Callable[[float, Any], float] = _never
    #: The mean log-likelihood before the first step; NaN if nothing is compared with it.
    before: float = np.nan
    #: Whether a fall is a change too; otherwise the log-likelihood has to rise.
    both_ways: bool = False

    def is_reached(self, change: float, least_change: float) -> bool:
        """Whether EM stops after a step that changed the mean log-likelihood by ``change``."""
        return (abs(change) if self.both_ways else change) < least_change


class StoppingRule:
    """Stop after a number of iterations.

    Parameters
    ----------
    max_iter : int
        The largest number of iterations.

    Attributes
    ----------
    log_likelihoods : list of float
        The mean log-likelihood at the E-step of each iteration.
    converged : bool
        Whether EM stopped for another reason than the number of iterations.
    """

    #: What shows each iteration.
    display: Display = SILENT
    #: What is kept of each iteration, in the words of who watches.
    measure = "log-likelihood"
    #: Whether a fall of what is kept, however large, may end EM: not where it is the free energy of
    #: incremental EM, which has then lost what its next passes gain again.
    ends_by_falls = True

    def __init__(self, max_iter: int):
        self.max_iter = max_iter
        self.log_likelihoods: list[float] = []
        self.converged = False

    @property
    def n_iter(self) -> int:
        """The number of iterations so far."""
        return len(self.log_likelihoods)

    @property
    def has_settled(self) -> bool:
        """Whether EM stopped because little changed."""
        return self.converged

    def note(self, log_likelihood: float, about: str = "") -> None:
        """Keep the mean log-likelihood of one more iteration, and show it to who watches."""
        self.log_likelihoods.append(log_likelihood)
        self.display.step(self.n_iter, log_likelihood, about)

    def limit(self) -> Limit | None:
        """The rule in numbers, from the present iteration on.

        None if :meth:`before_step` has to see each E-step, or :meth:`after_step` its time.
        """
        # Rules that are made of this one say themselves whether they can be put so.
        return Limit(self.max_iter - self.n_iter) if type(self) is StoppingRule else None

    def after_block(self, model, expectation: Expectation) -> bool:
        """Whether to stop within a pass of incremental EM, with the model after one of its blocks.

        ``expectation`` is that of the block, under the model before.
        """
        return False

    def before_step(self, model, expectation: Expectation) -> bool:
        """Whether to stop with the model of this E-step; raises if EM cannot continue."""
        return False

    def after_step(self, expectation: Expectation) -> bool:
        """Whether to stop with the model of the M-step that followed."""
        self.note(expectation.log_likelihood)
        return False


class Slowing(StoppingRule):
    """Stop when a step gains less than a five hundredth of what all steps have gained."""

    def after_step(self, expectation):
        self.are_taken([expectation.log_likelihood])
        return self.converged

    def are_taken(self, log_likelihoods: list[float]):
        """Steps were taken, with these mean log-likelihoods."""
        self.log_likelihoods += log_likelihoods
        if self.n_iter > 1:
            first, before, last = (self.log_likelihoods[number] for number in (0, -2, -1))
            self.converged = last - before < 0.002 * (last - first)


class Tolerance(StoppingRule):
    """Stop when the mean log-likelihood changes by less than ``tol``: scikit-learn's rule.

    Parameters
    ----------
    max_iter : int
    tol : float
    before : float, default=-inf
        The mean log-likelihood before the first iteration, if EM continues an earlier fit.
    """

    def __init__(self, max_iter, tol, *, before=-np.inf):
        super().__init__(max_iter)
        self.tol, self.before = tol, before

    def limit(self):
        def least_change(weight, horizon):
            return self.tol * self.scale(Expectation(Statistics(), np.nan, weight, horizon))

        return Limit(self.max_iter - self.n_iter, least_change, self.before, both_ways=True)

    def before_step(self, model, expectation):
        if not np.isfinite(expectation.log_likelihood):
            raise ImpossibleDataError(
                f"The log-likelihood is not finite at iteration {self.n_iter + 1}: squares of the "
                "data overflow. Scale the columns to a moderate range."
            )
        return False

    def after_step(self, expectation):
        super().after_step(expectation)
        change = expectation.log_likelihood - self.before
        self.before = expectation.log_likelihood
        self.converged = bool(abs(change) < self.tol * self.scale(expectation))
        return self.converged

    def scale(self, expectation: Expectation) -> float:
        """The number by which ``tol`` is multiplied."""
        return 1.0


class Monitored(StoppingRule):
    """Stop when a monitor says so: hmmlearn's rule.

    Parameters
    ----------
    monitor : ConvergenceMonitor
        It is told the log-likelihood of all data at each iteration.
    max_iter : int
    check : callable, optional
        Called with the model and the expectation of each E-step; raises if EM cannot continue.
    in_single : bool
        Whether densities may be computed in float32, so that log-likelihoods are rounded more.
    """

    def __init__(self, monitor, max_iter, check=None, in_single=False):
        super().__init__(max_iter)
        self.monitor, self.check = monitor, check
        if in_single and isinstance(monitor, ConvergenceMonitor):
            monitor._rounding = float(np.finfo(np.float32).eps)

    def limit(self):
        monitor = self.monitor
        if type(monitor) is not ConvergenceMonitor:
            return None

        def least_change(weight, horizon):
            return monitor.tol / weight

        before = self.log_likelihoods[-1] if self.log_likelihoods else np.nan
        # A monitor that prints is waited for.
        n_steps = 1 if monitor.verbose else self.max_iter - self.n_iter
        return Limit(n_steps, least_change, before)

    def before_step(self, model, expectation):
        if self.check is not None:
            self.check(model, expectation)
        return False

    def after_step(self, expectation):
        super().after_step(expectation)
        monitor = self.monitor
        is_ours = isinstance(monitor, ConvergenceMonitor)
        if is_ours:
            monitor._is_shown = self.display is not SILENT
        try:
            monitor.report(expectation.log_likelihood * expectation.weight)
        finally:
            if is_ours:
                del monitor._is_shown
        if self._has_fallen and monitor.iter < monitor.n_iter:
            return False
        return bool(monitor.converged)

    @property
    def has_settled(self) -> bool:
        """Whether the last iteration gained less than the ``tol`` of the monitor."""
        # The monitor may be a class of hmmlearn's.
        history = self.monitor.history
        gained_little = len(history) >= 2 and history[-1] - history[-2] < self.monitor.tol
        return bool(gained_little) and not self._has_fallen

    @property
    def _has_fallen(self):
        """Whether the last iteration lost more than ``tol`` and rounding, and EM is to go on."""
        history = self.monitor.history
        if self.ends_by_falls or len(history) < 2:
            return False
        rounding = getattr(self.monitor, "_rounding", ConvergenceMonitor._rounding)
        rounding *= abs(history[-1])
        return history[-2] - history[-1] > max(self.monitor.tol, rounding)


class ConvergenceMonitor:
    """Watches the log-likelihood, and says when to stop.

    For a rule of your own, subclass it, redefine :attr:`converged`, and set an estimator's
    ``monitor_`` to an instance before fitting.

    Parameters
    ----------
    tol : float
        Stop when the log-likelihood rises by less.
    n_iter : int
        Stop after this number of iterations.
    verbose : bool
        Whether each iteration is printed to standard error, unless an estimator that has been told
        to be verbose shows it.

    Attributes
    ----------
    history : deque of float
        The log-likelihood of the data at each iteration.
    iter : int
        The number of iterations.

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> class SevenIterations(fastem.hmm.ConvergenceMonitor):
    ...     @property
    ...     def converged(self):
    ...         return self.iter >= 7
    >>> X = np.random.default_rng(0).normal(size=(200, 1))
    >>> model = fastem.GaussianHMM(2, random_state=0)
    >>> model.monitor_ = SevenIterations(tol=0.0, n_iter=100, verbose=False)
    >>> model.fit(X).monitor_.iter
    7
    """

    _template = "{iter:>10d} {log_prob:>16.8f} {delta:>+16.8f}"

    # The part of a log-likelihood that may be rounded: sums of as many terms as there are rows.
    _rounding = 1e-13

    # Whether something else shows the iterations.
    _is_shown = False

    def __init__(self, tol: float, n_iter: int, verbose: bool):
        self.tol = tol
        self.n_iter = n_iter
        self.verbose = verbose
        self.history = deque()
        self.iter = 0

    def __repr__(self):
        parts = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        parts["history"] = list(self.history)
        lines = "".join(f"    {name}={value},\n" for name, value in sorted(parts.items()))
        return f"{type(self).__name__}(\n{lines})"

    def _reset(self):
        self.iter = 0
        self.history.clear()

    def report(self, log_prob: float) -> None:
        """Record the log-likelihood of an iteration, and print it if ``verbose``."""
        change = log_prob - self.history[-1] if self.history else np.nan
        if self.verbose and not self._is_shown:
            line = self._template.format(iter=self.iter + 1, log_prob=log_prob, delta=change)
            print(line, file=sys.stderr)
        # Rounding may lower it a little.
        if change < -max(np.sqrt(np.finfo(float).eps), self._rounding * abs(log_prob)):
            with beside_bars():
                _log.warning(
                    "Model is not converging.  Current: %s is not greater than %s. Delta is %s. "
                    "With priors that can be right: EM then raises the sum with the prior's "
                    "logarithm.", log_prob, self.history[-1], change,
                )  # fmt: skip
        self.history.append(log_prob)
        self.iter += 1

    @property
    def converged(self) -> bool:
        """Whether to stop."""
        return self.iter == self.n_iter or self._settled

    @property
    def _settled(self):
        """Whether the last iteration changed less than ``tol``."""
        return len(self.history) >= 2 and self.history[-1] - self.history[-2] < self.tol
