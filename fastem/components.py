"""Alignment of models with components, by the order of their components."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import xlogy

from . import algebra, checks
from .exceptions import NothingInCommon
from .log_linear import chosen
from .matching import MOST, all_orders, best_matching
from .revival import revival
from .statistics import Statistics

__all__ = ["Components", "Gains", "WeightedComponents", "pooled_choice"]


class Gains(NamedTuple):
    """The contribution to ``Q(S(Θ), Θ̃)`` of matching component ``h`` of Θ to ``l`` of Θ̃.

    These are the arguments of :func:`~fastem.matching.best_matching`: ``pairs``, and for chains
    the expected ``counts`` of steps, their ``logs``, and which pairs are ``allowed``.
    """

    pairs: np.ndarray
    counts: np.ndarray | None = None
    logs: np.ndarray | None = None
    allowed: np.ndarray | None = None


class Components:
    """Alignment for models whose hidden variables are components or states.

    The model supplies ``matching_gains`` and ``pooling_gains``, the tables in which the divergence
    to another model, or to the combination with another, is a sum over pairs or over steps;
    ``reordered``; and ``arranged`` and ``arranged_to_pool`` to reorder what is inside components.
    """

    def brought_to(self, other, horizon=None):
        """This model in the order of components in which it is nearest to ``other``.

        The divergence to ``other`` is the least over all orders for mixtures, and for chains of up
        to six states. It never increases; if it does not decrease, the model itself is returned.
        Members inside components are put in their best order as well.
        """
        partners = best_matching(*self.matching_gains(other, horizon))
        order = np.argsort(partners)
        moved = self if _given(order) else self.reordered(order)
        moved = moved.arranged(other, horizon)
        return self if moved is self or not self._nearer(moved, other, horizon) else moved

    def pooled_with(self, first, alphas, horizon=None):
        """This model in the order of least total divergence to its combination with ``first``.

        It is the least over all orders, for up to six components; None if there are more, or if
        not all orders can be tried.
        """
        n = self.n_components
        if n > MOST:
            return None
        orders = all_orders(n)
        orders = orders[self.may_order(first, orders)]
        try:
            gains = self.pooling_gains(first, alphas, orders, horizon)
            if gains is None:
                return None
            order = orders[np.argmax(gains)]
            moved = self if _given(order) else self.reordered(order)
            return moved.arranged_to_pool(first, alphas, horizon)
        except ValueError:
            # Some two components have no maximum together; they need not be together.
            return None

    def pooling_gains(self, first, alphas, orders, horizon=None) -> np.ndarray | None:
        """``Q`` of the combination with ``first`` for each order; None if it is not known."""
        return None

    def may_order(self, first, orders):
        """Which orders of this model's components can correspond to that of ``first``."""
        return np.ones(len(orders), dtype=bool)

    def _nearer(self, moved, other, horizon):
        """Whether ``moved`` is nearer to ``other``, by more than rounding."""
        try:
            self.check_same_order(other)
        except ValueError:
            return True
        statistics = self.own(horizon)
        scale = abs(self.log_joint(statistics))
        before = algebra.divergence(self, other, horizon)
        after = algebra.divergence(moved, other, horizon)
        return after < before - 1e-13 * scale if np.isfinite(before) else after < before


class WeightedComponents(Components):
    """The common part of mixtures: components that are chosen by their weights.

    The model supplies ``own_of(mass, horizon)``: its own statistics with masses in place of the
    weights. Its statistics have the block ``mass``.
    """

    weights: np.ndarray
    fixed: frozenset[str]

    @property
    def n_components(self) -> int:
        """The number of components."""
        return len(self.weights)

    @property
    def log_weights(self) -> np.ndarray:
        """The logarithms of the weights, minus infinity for zero."""
        with np.errstate(divide="ignore"):
            return np.log(self.weights)

    def own(self, horizon=None) -> Statistics:
        """``S(Θ)``: the model's own expected statistics of one observation."""
        return self.own_of(self.weights, horizon)

    def revived(self, inertia: Statistics, gained: Statistics, observation, horizon=None):
        """``inertia``, increased for components that return from almost no weight."""
        more = revival(inertia["mass"], gained["mass"], observation)
        return inertia + self.own_of(more, horizon) if more.any() else inertia

    def _log_linear_weights(self, models, alphas, costs):
        """``w_k ∝ Π w_mk^α e^(-c_k)``, where component k costs ``c_k``."""
        weights = [model.weights / model.weights.sum() for model in models]
        weights, cost = chosen(weights, alphas, costs, fixed="weights" in self.fixed)
        if not np.isfinite(cost):
            raise NothingInCommon(
                "No component is possible under all of the models: every combination is infinitely "
                "far from some of them. Use direction='forward'."
            )
        return weights

    def _mass(self, statistics) -> np.ndarray:
        """The mass of each component, checked."""
        return checks.block(checks.statistics_of(statistics), "mass", self.weights.shape)


def pooled_choice(counts, probabilities, fixed):
    """``Σ counts log p`` over the last axis at its greatest, or at ``probabilities`` if fixed."""
    if fixed:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(counts > 0, counts * np.log(probabilities), 0.0).sum(axis=-1)
    totals = counts.sum(axis=-1)
    return xlogy(counts, counts).sum(axis=-1) - xlogy(totals, totals)


def _given(order):
    return bool((order == np.arange(len(order))).all())
