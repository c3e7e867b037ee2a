"""``S(Θ)`` by simulation, for models that have no closed form, or to compare with one."""

from __future__ import annotations

import numpy as np

from . import algebra
from .statistics import Statistics

__all__ = ["Simulated"]


class Simulated:
    """A model whose own statistics are estimated from observations drawn from it.

    Everything else is the model's. Every algorithm of the algebra that asks for ``S(Θ)``, online
    learning, combining and divergences, is thereby in its sampled form.

    Parameters
    ----------
    model
        The model Θ.
    n_pseudo : int
        The number of observations to draw each time.
    random_state : int, Generator or None
        One generator serves all models that come from this one.
    """

    def __init__(self, model, n_pseudo: int, random_state=None):
        self.model = model
        self.n_pseudo = n_pseudo
        self.rng = np.random.default_rng(random_state)

    def expect(self, data):
        """The model's ``S(V|Θ)``."""
        return self.model.expect(data)

    def own(self, horizon=None) -> Statistics:
        """``S(Θ)`` from ``n_pseudo`` draws."""
        return algebra.own_by_simulation(self.model, self.n_pseudo, self.rng, horizon)

    def maximize(self, statistics: Statistics) -> Simulated:
        """The model's ``M(S)``."""
        return Simulated(self.model.maximize(statistics), self.n_pseudo, self.rng)

    def log_joint(self, statistics: Statistics) -> float:
        """The model's ``Q(S, Θ)``."""
        return self.model.log_joint(statistics)

    def rules_out(self, statistics: Statistics) -> bool:
        """Whether the statistics hold what has the probability zero under the model."""
        rules_out = getattr(self.model, "rules_out", None)
        return rules_out is not None and rules_out(statistics)

    def check_same_kind(self, other) -> None:
        """Raise ``ValueError`` unless ``other`` is a model of the same kind and size."""
        self.model.check_same_kind(other.model)
