"""When batch EM of a hidden Markov model stops."""

from __future__ import annotations

import logging
import sys
from collections import deque

import numpy as np

__all__ = ["ConvergenceMonitor"]

_log = logging.getLogger(__name__)


class ConvergenceMonitor:
    """Watches the log-likelihood, and says when to stop.

    For a rule of your own, subclass it, redefine :attr:`converged`, and set an estimator's
    ``monitor_`` to an instance before fitting.

    Parameters
    ----------
    tol : float
        Stop when the log-likelihood rises by less.
    n_iter : int
        Stop after so many iterations.
    verbose : bool
        Whether each iteration is printed to standard error.

    Attributes
    ----------
    history : deque of float
        The log-likelihood of the data at each iteration.
    iter : int
        How many iterations there were.
    """

    def __init__(self, tol: float, n_iter: int, verbose: bool):
        self.tol = tol
        self.n_iter = n_iter
        self.verbose = verbose
        self.history = deque()
        self.iter = 0

    def __repr__(self):
        parts = {**vars(self), "history": list(self.history)}
        inside = ", ".join(f"{name}={value!r}" for name, value in sorted(parts.items()))
        return f"{type(self).__name__}({inside})"

    def _reset(self):
        self.iter = 0
        self.history.clear()

    def report(self, log_prob: float) -> None:
        """Take note of the log-likelihood of an iteration, and print it if ``verbose``."""
        change = log_prob - self.history[-1] if self.history else np.nan
        if self.verbose:
            print(f"{self.iter + 1:>10d} {log_prob:>16.8f} {change:>+16.8f}", file=sys.stderr)
        # Rounding may lower it a little.
        if change < -np.sqrt(np.finfo(float).eps):
            _log.warning(
                "The log-likelihood fell from %s to %s (by %s). With priors that can be right: EM "
                "then raises its sum with the prior's logarithm.",
                self.history[-1], log_prob, -change,
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
