"""``S(Θ)`` by simulation, for models that have no closed form, or to compare with one."""

from __future__ import annotations

import numpy as np

from . import algebra
from .model import Model
from .statistics import Expectation, Statistics

__all__ = ["Simulated"]


class Simulated(Model):
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

    model: Model
    n_pseudo: int
    rng: np.random.Generator

    def __init__(self, model: Model, n_pseudo: int, random_state=None):
        rng = np.random.default_rng(random_state)
        vars(self).update(model=model, n_pseudo=n_pseudo, rng=rng, n_jobs=model.n_jobs)

    def _with(self, model):
        return Simulated(model, self.n_pseudo, self.rng)

    def expect(self, data) -> Expectation:
        """The model's ``S(V|Θ)``."""
        return self.model.expect(data)

    def own(self, horizon=None) -> Statistics:
        """``S(Θ)`` from ``n_pseudo`` draws."""
        return algebra.own_by_simulation(self.model, self.n_pseudo, self.rng, horizon)

    def maximize(self, statistics: Statistics) -> Simulated:
        """The model's ``M(S)``."""
        return self._with(self.model.maximize(statistics))

    def log_joint(self, statistics: Statistics) -> float:
        """The model's ``Q(S, Θ)``."""
        return self.model.log_joint(statistics)

    def log_likelihoods(self, data) -> np.ndarray:
        """The log-likelihood of each observation."""
        return self.model.log_likelihoods(data)

    def draw(self, n_samples, rng, horizon=None):
        """Observations drawn from the model."""
        return self.model.draw(n_samples, rng, horizon)

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """All parameters by name."""
        return self.model.parameters

    def with_parameters(self, parameters) -> Simulated:
        """The same kind of model with other parameters."""
        return self._with(self.model.with_parameters(parameters))

    def rules_out(self, statistics: Statistics) -> bool:
        """Whether the statistics contain an outcome of probability zero under the model."""
        return self.model.rules_out(statistics)

    def check_statistics(self, statistics: Statistics) -> None:
        """Raise ``ValueError`` unless these are finite statistics of such a model."""
        self.model.check_statistics(statistics)

    def log_linear(self, models, alphas, horizon=None) -> Simulated:
        """The model of least ``Σ α_m Δ(Θ̃, Θ_m)``, in closed form as far as the model has it."""
        return self._with(self.model.log_linear([m.model for m in models], alphas, horizon))

    def check_same_kind(self, other) -> None:
        """Raise ``ValueError`` unless ``other`` is a model of the same kind and size."""
        self.model.check_same_kind(other.model)
