"""The likeliest α for documents: by Newton's method, or by EM until the gradient is small."""

from __future__ import annotations

import numpy as np

from ..kernels.dirichlet.count_tables import ascend as newton_step
from ..statistics import Expectation, Statistics
from ..stopping import StoppingRule

__all__ = ["Ascent", "SmallGradient", "SmallGradientOfPasses", "ascend", "moments_match"]

# Where the moments of the counts allow no precision, or any, the search for it starts here.
_LARGEST_START = 1e4


class Ascent(StoppingRule):
    """Stop when no entry of the gradient by ``log α`` is larger than ``tol``, or than rounding.

    Parameters
    ----------
    tables : CountTables
        The documents.
    max_iter, tol
        As for the estimator.

    Attributes
    ----------
    log_likelihoods : list of float
        The mean log-likelihood after each iteration.
    level : float
        The mean log-likelihood of the present model.
    steepest : float
        The largest entry of the gradient.
    """

    def __init__(self, tables, max_iter, tol):
        super().__init__(max_iter)
        self.tables, self.tol = tables, tol
        starts = tables.finished().starts
        # Which words occur in no document.
        self.never = starts[1:-1] == starts[:-2]
        self.level = self.steepest = np.nan

    def after_step(self, expectation):
        # What counts is the log-likelihood after an iteration: see `record`.
        return False

    def is_flat(self, alpha, first) -> bool:
        """Whether the gradient is small, from each word's part of it and the common part."""
        slope = alpha * (first[:-1] - first[-1])
        # The likelihood of a word that is never seen only falls with its α, which stays.
        slope[self.never] = 0.0
        self.steepest = np.abs(slope).max()
        # A slope is the difference of two sums; what rounding leaves of it says nothing.
        terms = alpha * (np.abs(first[:-1]) + abs(first[-1]))
        return bool(self.steepest <= max(self.tol, 4.0 * np.finfo(float).eps * terms.max()))

    def record(self, level):
        """Keep the log-likelihood after an iteration, and show it with the last gradient."""
        self.level = level
        self.note(level, "" if np.isnan(self.steepest) else f"gradient {self.steepest:.2g}")


class SmallGradient(Ascent):
    """The same rule for EM, which is told of a log-likelihood at the next E-step."""

    _alpha: np.ndarray | None = None

    def before_step(self, model, expectation):
        alpha, before = model.alpha, self._alpha
        self._alpha = alpha
        if before is None:
            self.level = expectation.log_likelihood
        else:
            self.record(expectation.log_likelihood)
        self.converged = bool(model.fixed) or self.is_flat(alpha, self.tables.derivatives(alpha)[0])
        # A step that changes nothing is at the maximum, up to rounding.
        return self.converged or (before is not None and np.array_equal(alpha, before))

    def finish(self, model) -> None:
        """Look at the model after the last iteration, if that was the largest number allowed."""
        if self._alpha is not model.alpha:
            self.before_step(model, model.expect(self.tables))


class SmallGradientOfPasses(Ascent):
    """The same rule for incremental EM, which is told of the free energy at the end of a pass."""

    def before_step(self, model, expectation):
        self.record(expectation.log_likelihood)
        first = self.tables.derivatives(model.alpha)[0]
        self.converged = bool(model.fixed) or self.is_flat(model.alpha, first)
        return self.converged

    def finish(self, model) -> None:
        """The log-likelihood of the last model."""
        self.level = float(self.tables.log_likelihood(model.alpha))


def ascend(model, rule: Ascent):
    """Newton's method on the mean log-likelihood of the documents.

    The rule is shown the model after each iteration, with its log-likelihood.
    """
    tables, alpha = rule.tables, model.alpha.copy()
    coefficient = tables.log_coefficient
    level = tables.log_likelihood(alpha) - coefficient
    rule.level = float(level + coefficient)
    rule.converged = bool(model.fixed)
    while not rule.converged:
        first, second = tables.derivatives(alpha)
        rule.converged = rule.is_flat(alpha, first)
        if rule.converged or rule.n_iter == rule.max_iter:
            break
        before = alpha.copy()
        level, _ = newton_step(tables.finished(), alpha, first, second, level)
        rule.record(float(level + coefficient))
        expectation = Expectation(Statistics(), rule.level, tables.weight)
        if rule.before_step(model._copied(alpha=alpha.copy()), expectation):
            break
        if rule.after_step(expectation) or np.array_equal(alpha, before):
            # The user says so; or this is the maximum, up to rounding.
            break
    return model.with_parameters({"alpha": alpha})


def moments_match(tables) -> np.ndarray:
    """α whose first and second moments are those of the counts, roughly.

    ``E[v_j (v_j - 1)] = n (n - 1) m_j (m_j α₀ + 1) / (α₀ + 1)`` with ``m_j = α_j / α₀``; summed
    over words, that gives α₀. Each word is granted half an occurrence more than it has.
    """
    first, second = tables.moments()
    n_words = tables.n_words
    means = (first[:-1] + 0.5) / (first[-1] + 0.5 * n_words)
    if not second[-1] > 0:
        # Documents of one word each say nothing of the precision.
        return means * n_words
    shares = first[:-1] / first[-1]
    same = second[:-1].sum() / second[-1]
    excess = same - shares @ shares
    precision = _LARGEST_START
    if excess > 0:
        precision = np.clip((1.0 - same) / excess, 1e-6, _LARGEST_START)
    return means * precision
