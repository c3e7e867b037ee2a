"""A mixture whose components are models of any kind, as four functions.

It uses the :class:`~fastem.model.Model` interface of its members and nothing else.
"""

from __future__ import annotations

import operator

import numpy as np
from scipy.special import logsumexp

from .. import algebra, checks
from ..components import Gains, WeightedComponents
from ..exceptions import NothingInCommon
from ..kernels.mixture.online import LEAST_SHARE
from ..log_linear import weighted_sum
from ..model import Model
from ..statistics import Expectation, Statistics, join, mix_horizons, split

__all__ = ["Horizons", "ModelMixture"]

# The largest weight of a member's observations is at least this: its inverse is finite.
_LEAST_WEIGHT = 1e-290


class Horizons(tuple):
    """The horizon of each member; with their shares of the observations, ``mass``, if they mix."""

    def __new__(cls, horizons, mass=None):
        new = super().__new__(cls, horizons)
        new.mass = mass
        return new

    def mixed(self, other, a, b) -> Horizons:
        """Horizons of observations with shares ``a`` and ``b``: each member has its own share."""
        mass = a * self.mass + b * other.mass
        share = np.divide(b * other.mass, mass, out=np.zeros_like(mass), where=mass > 0)
        triples = zip(self, other, share, strict=True)
        return Horizons((mix_horizons(x, y, 1.0 - s, s) for x, y, s in triples), mass)


class ModelMixture(WeightedComponents, Model):
    """A mixture ``p(v) = Σ_k w_k p_k(v)``. The member, and what it hides, are hidden.

    Parameters
    ----------
    weights : array of shape (K,)
    members : sequence of Model
        All of one kind and size.
    fixed : iterable of str
        ``"weights"`` if :meth:`maximize` should leave them alone.
    n_jobs : int, optional
        Threads of the members.
    """

    noun = "mixture of models"

    members: tuple[Model, ...]
    fixed: frozenset[str]

    def __init__(self, weights, members, *, fixed=(), n_jobs=None):
        weights, members = checks.numbers("weights", weights), tuple(members)
        checks.shaped("weights", weights, (len(members),), f" for {len(members)} members")
        checks.check_probabilities("weights", weights)
        for member in members[1:]:
            members[0].check_same_kind(member)
        members = tuple(member.with_n_jobs(n_jobs) for member in members)
        vars(self).update(weights=weights, members=members, fixed=frozenset(fixed), n_jobs=n_jobs)

    @property
    def first_memory(self) -> float:
        return len(self.members) * self.members[0].first_memory

    # The four functions ---------------------------------------------------------------------

    def expect(self, data) -> Expectation:
        """``S(V|Θ)``: responsibilities ``γ_k``, and statistics of the members weighted by them."""
        parts = [
            self._expect_table(table)
            for table in self.tables(data)
            if table.sample_weight is None or table.sample_weight.any()
        ]
        if not parts:
            raise ValueError("The sample weights sum to zero: there is nothing to learn from.")
        return sum(parts[1:], parts[0])

    def own_of(self, mass, horizon=None) -> Statistics:
        """``(s_k, s_k S(Θ_k))`` for the masses ``s``; for the weights it is ``S(Θ)``."""
        return self._joined(mass, self._each("own", self._horizons(horizon)))

    def maximize(self, statistics: Statistics) -> ModelMixture:
        """``M(S)``: ``w_k ∝ s_k``, and each member at the maximum of its own statistics."""
        mass, parts = self._split(statistics)
        least = LEAST_SHARE * mass.sum()
        members = [
            member.maximize(part) if m > least else member
            for member, part, m in zip(self.members, parts, mass, strict=True)
        ]
        weights = np.maximum(mass, least)
        weights = self.weights if "weights" in self.fixed else weights / weights.sum()
        return self._with(weights, members)

    def log_joint(self, statistics: Statistics) -> float:
        """``Q(S, Θ) = Σ_k s_k log w_k + Q(S_k, Θ_k)``."""
        mass, parts = self._split(statistics)
        seen = np.flatnonzero(mass > 0)
        choice = float(mass[seen] @ self.log_weights[seen])
        return choice + sum(self.members[k].log_joint(parts[k]) for k in seen)

    # Inference --------------------------------------------------------------------------------

    def tables(self, data):
        return self.members[0].tables(data)

    def log_joints(self, data) -> np.ndarray:
        """``log w_k + log p_k(v)`` for each member and observation."""
        log_likelihoods = [member.log_likelihoods(data) for member in self.members]
        return self.log_weights[:, None] + np.stack(log_likelihoods)

    def log_likelihoods(self, data) -> np.ndarray:
        """The log-likelihood of each observation."""
        return logsumexp(self.log_joints(data), axis=0)

    def responsibilities(self, data) -> np.ndarray:
        """The probability of each member for each observation, (n_observations, K)."""
        return self._posteriors(data)[0].T

    def _posteriors(self, data):
        """The probability of each member for each observation, and the log-likelihoods."""
        log_joints = self.log_joints(data)
        totals = logsumexp(log_joints, axis=0)
        # Where no member allows an observation, its probabilities are zero, and not NaN.
        return np.exp(log_joints - np.where(np.isfinite(totals), totals, 0.0)), totals

    def draw(self, n_samples, rng, horizon=None):
        """Observations from the model, those of the first member first."""
        counts = rng.multinomial(n_samples, self.weights / self.weights.sum())
        members = zip(self.members, counts, self._horizons(horizon), strict=True)
        drawn = [m.draw(int(n), rng, h) for m, n, h in members if n > 0]
        tables = [table for data in drawn for table in self.tables(data)]
        return tables[0].joined(tables)

    def _expect_table(self, table):
        """The expectation over one table, some of whose weights are positive."""
        posteriors, totals = self._posteriors(table)
        w = np.ones(len(table)) if table.sample_weight is None else table.sample_weight
        weight = float(w.sum())
        # An observation of no weight is left out, whatever it is.
        score = float(totals[w > 0] @ w[w > 0]) / weight
        gamma = posteriors * w
        mass = gamma.sum(axis=1) / weight
        # A member that is responsible for nothing has statistics of no mass, in the right shapes.
        expectations = [
            m.expect(table.reweighted(_usable(g)) if g.any() else table)
            for m, g in zip(self.members, gamma, strict=True)
        ]
        statistics = self._joined(mass, (e.statistics for e in expectations))
        horizons = Horizons((e.horizon for e in expectations), mass)
        return Expectation(statistics, score, weight, horizons)

    # Parameters and statistics ------------------------------------------------------------------

    @property
    def _prefixes(self):
        return [f"member{k}_" for k in range(len(self.members))]

    def _each(self, method, *arguments):
        """What ``method`` of each member returns for the member's item of each argument."""
        items = zip(self.members, *arguments, strict=True)
        return [getattr(member, method)(*its_own) for member, *its_own in items]

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """All parameters by name: ``weights``, and ``member0_...`` and so on."""
        members = join((member.parameters for member in self.members), self._prefixes)
        return {"weights": self.weights, **members}

    def with_parameters(self, parameters) -> ModelMixture:
        """The same kind of model with other parameters."""
        members = self._each("with_parameters", split(parameters, self._prefixes))
        return self._with(parameters["weights"], members)

    def _with(self, weights, members):
        return ModelMixture(weights, members, fixed=self.fixed, n_jobs=self.n_jobs)

    def _with_members(self, members):
        """The same weights; the model itself if these are its members."""
        same = all(map(operator.is_, members, self.members))
        return self if same else self._with(self.weights, members)

    def with_n_jobs(self, n_jobs):
        return ModelMixture(self.weights, self.members, fixed=self.fixed, n_jobs=n_jobs)

    def _joined(self, mass, parts):
        """Statistics of the mixture, from masses and the members' for a mass of one."""
        weighted = (part * m for part, m in zip(parts, mass, strict=True))
        return Statistics(mass=mass, **join(weighted, self._prefixes))

    def _split(self, statistics):
        """The masses, and the statistics of each member."""
        mass = self._mass(statistics)
        return mass, [Statistics(**part) for part in split(statistics, self._prefixes)]

    def check_statistics(self, statistics: Statistics) -> None:
        """Raise ``ValueError`` unless these are finite statistics of such a model."""
        mass, parts = self._split(statistics)
        checks.finite("The statistics 'mass'", mass)
        self._each("check_statistics", parts)

    def check_same_kind(self, other) -> None:
        """Raise ``ValueError`` unless ``other`` is a mixture of as many models of the same kind."""
        self._check_class(other, ModelMixture)
        if len(self.members) != len(other.members):
            raise ValueError(
                f"Models of different sizes: {len(self.members)} members in one and "
                f"{len(other.members)} in the other."
            )
        self.members[0].check_same_kind(other.members[0])

    def _horizons(self, horizon):
        return horizon if isinstance(horizon, Horizons) else Horizons([horizon] * len(self.members))

    def with_horizon(self, horizon) -> ModelMixture:
        return self._with_members(self._each("with_horizon", self._horizons(horizon)))

    def after_learning_from(self, table, n_before) -> ModelMixture:
        members = [member.after_learning_from(table, n_before) for member in self.members]
        return self._with_members(members)

    def rules_out(self, statistics) -> bool:
        mass, parts = self._split(statistics)
        return any(
            self.weights[k] == 0 or self.members[k].rules_out(parts[k])
            for k in np.flatnonzero(mass > 0)
        )

    def without_noise(self) -> ModelMixture:
        return self._with_members(self._each("without_noise"))

    def log_linear(self, models, alphas, horizon=None) -> ModelMixture:
        """The model of least ``Σ α_m Δ(Θ̃, Θ_m)``: each member is that of the members."""
        horizons, partners = self._horizons(horizon), zip(*(m.members for m in models), strict=True)
        members, costs = [], []
        for own, theirs, size in zip(self.members, partners, horizons, strict=True):
            try:
                member = own.log_linear(theirs, alphas, size)
            except NothingInCommon:
                members.append(own)
                costs.append(np.inf)
                continue
            members.append(member)
            each = [algebra.divergence(member, other, size) for other in theirs]
            costs.append(weighted_sum(each, alphas))
        return self._with(self._log_linear_weights(models, alphas, np.array(costs)), members)

    # Alignment: see Components ------------------------------------------------------------------

    def matching_gains(self, other, horizon=None) -> Gains:
        """``w_h (log w̃_l + Q(S(Θ_h), Θ̃_l))``, each member brought to the other first."""
        gains = np.zeros((len(self.members), len(other.members)))
        horizons, log_weights = self._horizons(horizon), other.log_weights
        for h in np.flatnonzero(self.weights):
            for l, partner in enumerate(other.members):
                own = self.members[h].brought_to(partner, horizons[h]).own(horizons[h])
                value = -np.inf if partner.rules_out(own) else partner.log_joint(own)
                gains[h, l] = self.weights[h] * (log_weights[l] + value)
        return Gains(gains)

    def reordered(self, order) -> ModelMixture:
        return self._with(self.weights[order], [self.members[k] for k in order])

    def arranged(self, other, horizon=None) -> ModelMixture:
        return self._with_members(self._each("brought_to", other.members, self._horizons(horizon)))


def _usable(weights):
    """Weights in the same proportions, which a mean can be divided by.

    One over a total that is all but nothing would be infinite.
    """
    largest = weights.max()
    return weights if largest >= _LEAST_WEIGHT else weights / largest
