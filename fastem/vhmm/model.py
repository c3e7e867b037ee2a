"""Posteriors of hidden Markov models, and the steps of variational EM.

The E-step is that of a hidden Markov model whose parameters are ``exp(E[log θ])``, which sum to
less than one. What the expected log-density of a state has besides a Gaussian's is a number for
each state; every step of a sequence emits once, so that this number goes into the probabilities of
entering the state. The M-step adds statistics to the prior's pseudo-counts.
"""

from __future__ import annotations

import numpy as np

from .. import algebra, checks
from ..exceptions import ImpossibleDataError
from ..hmm.model import HMMModel
from ..learning_rate import step_size
from ..statistics import Expectation, Learned, Statistics
from .posteriors import Posterior, dirichlet_divergence, expected_logs, summed

__all__ = ["VariationalHMM"]

_CHAIN = ("startprob", "transmat")


class VariationalHMM(HMMModel):
    """A posterior over hidden Markov models, and the model at its mean.

    It is the hidden Markov model at the mean of the posterior when it is used: for inference, for
    draws and in divergences. :meth:`expect` and :meth:`maximize` are the steps of variational EM.

    Parameters
    ----------
    family : Family
        Of the emissions.
    kind : Posterior
        Of the emissions.
    posterior, prior : dict of arrays
        The hyperparameters by name: ``startprob`` (K,) and ``transmat`` (K, K), pseudo-counts, and
        those of the emissions.
    evidence : float
        The weight of the sequences that the posterior has besides the prior. An online step forgets
        a part of it, and a start that is no posterior of anything has none.
    total : float, optional
        The number of sequences that the posterior stands for after an online step. By default as
        many as the learning rate remembers.
    plug_in : HMMModel, optional
        The model to use in place of that at the mean of the posterior.
    fixed, horizon, n_jobs, told_dead
        As for :class:`~fastem.hmm.model.HMMModel`.
    """

    noun = "posterior of hidden Markov models"

    def __init__(
        self, family, kind: Posterior, posterior, prior, *, evidence=0.0, total=None, plug_in=None,
        fixed=(), horizon=None, n_jobs=None, told_dead=None,
    ):  # fmt: skip
        shapes = self._shapes(kind, posterior)
        for values in (posterior, prior):
            for name, shape in shapes.items():
                checks.shaped(name, np.asarray(values[name]), shape)
        if plug_in is None:
            mean = _mean(kind, posterior)
            packed = family.pack(mean)
            startprob, transmat = mean["startprob"], mean["transmat"]
        else:
            startprob, transmat, packed = plug_in
        super().__init__(
            family, startprob, transmat, None, packed=packed, fixed=fixed, horizon=horizon,
            n_jobs=n_jobs, told_dead=told_dead,
        )  # fmt: skip
        vars(self).update(
            kind=kind, posterior=posterior, prior=prior, evidence=float(evidence), total=total
        )

    @staticmethod
    def _shapes(kind, values):
        n_states = len(values["startprob"])
        n_columns = np.shape(values[next(iter(kind.letters))])[-1]
        shapes = {"startprob": (n_states,), "transmat": (n_states, n_states)}
        return shapes | kind.shapes(n_states, n_columns)

    # Steps -----------------------------------------------------------------------------------

    def expect(self, data) -> Expectation:
        """Expected statistics, and the mean log-likelihood, both by ``exp(E[log θ])``.

        The bound on the logarithm of the evidence is this log-likelihood, of all sequences, less
        :meth:`divergence_from_prior`.
        """
        inner, top = self._inner()
        found = inner.expect(data)
        # As many steps as states are visited.
        log_likelihood = found.log_likelihood + top * found.statistics["mass"].sum()
        return found._replace(log_likelihood=float(log_likelihood))

    def expected_log_joint(self, statistics: Statistics) -> float:
        """``E[Q(S, Θ)]`` under the posterior of Θ.

        For statistics of sequences of the weight n, :meth:`after` makes n times this, less
        :meth:`divergence_from_prior`, as large as it can be.
        """
        inner, top = self._inner()
        return inner.log_joint(statistics) + float(top * statistics["mass"].sum())

    def _inner(self):
        """The hidden Markov model of ``exp(E[log θ])``, and what it lacks of each step's logarithm.

        What the expected log-density of a state has besides a Gaussian's is in the probabilities of
        entering it.
        """
        packed, shifts = self.kind.expected(self.family, self.posterior)
        top = shifts.max()
        entering = np.exp(shifts - top)
        start, transitions = (np.exp(expected_logs(self.posterior[name])) for name in _CHAIN)
        inner = HMMModel(
            self.family, start * entering, transitions * entering, None, packed=packed,
            horizon=self.horizon, n_jobs=self.n_jobs,
        )  # fmt: skip
        return inner, top

    def bounding(self) -> VariationalHMM:
        """The same posterior with ``E[Q]`` as its ``log_joint``, for learning from all data.

        The algorithms that compare ``Q`` with the log-likelihood of :meth:`expect` need that one;
        divergences are those of the model at the mean of the posterior.
        """
        return self._as(_BoundingHMM)

    def plain(self) -> VariationalHMM:
        """The inverse of :meth:`bounding`."""
        return self._as(VariationalHMM)

    def _as(self, kind):
        model = object.__new__(kind)
        vars(model).update(vars(self))
        return model

    def maximize(self, statistics: Statistics) -> VariationalHMM:
        """The posterior after mean statistics of as many sequences as are behind this one."""
        return self.after(statistics, self.evidence)

    def after(self, statistics: Statistics, weight: float) -> VariationalHMM:
        """The posterior after mean statistics of sequences of this weight, and nothing else."""
        return self._updated([(1.0, self.prior), (weight, self._of_data(statistics))], weight)

    def divergence_from_prior(self) -> float:
        """The relative entropy of the posterior to the prior."""
        chain = (dirichlet_divergence(self.posterior[n], self.prior[n]) for n in _CHAIN)
        return sum(chain) + self.kind.divergence(self.posterior, self.prior)

    def _of_data(self, statistics):
        start, transitions, _, blocks = self._parts(statistics)
        self.family.check_blocks(blocks, self.packed)
        chain = {"startprob": start, "transmat": transitions}
        return chain | self.kind.of_data(statistics)

    def _updated(self, parts, evidence):
        """The posterior whose natural parameters are the weighted sum of those of the parts."""
        old = self.posterior
        new = {name: old[name] if name in self.fixed else summed(parts, name) for name in _CHAIN}
        new |= self.kind.pooled(parts, self.fixed, {name: old[name] for name in self.kind.letters})
        return self._with(new, self.prior, evidence)

    def _with(self, posterior, prior, evidence):
        return type(self)(
            self.family, self.kind, posterior, prior, evidence=evidence, total=self.total,
            fixed=self.fixed, horizon=self.horizon, n_jobs=self.n_jobs, told_dead=self.told_dead,
        )  # fmt: skip

    def iterate(self, data, limit, prior=None):
        """No kernel takes several steps: the posterior changes in between."""
        return None

    def learn(self, table, rates, batch_size=None, memory=None) -> Learned:
        """Online steps over batches of sequences in order: stochastic variational inference.

        A batch of the weight b has the rate η beside a posterior of the evidence n. In proportion
        to their weights the rate would be b/n. With a larger one all of the batch counts, and
        ``b / (η n)`` of what is behind the posterior; with a smaller one all of that counts, and
        ``η n / b`` of the batch. With ``total`` the sum of both counts as so many sequences.
        """
        if memory is not None:
            raise ValueError("A posterior is its own memory: there are no running statistics.")
        batch_size, rates = algebra.checked_steps(self, table, rates, batch_size, None)
        model, score, weight = self, 0.0, 0.0
        for number, first in enumerate(range(0, len(table), batch_size)):
            part = table.part(first, first + batch_size)
            if part.sample_weight is not None and not part.sample_weight.any():
                continue
            found = model.expect(part)
            if not np.isfinite(found.log_likelihood):
                raise ImpossibleDataError(f"{self.impossible} (at online step {number + 1})")
            model = model._step(found, rates[number])
            score += found.weight * found.log_likelihood
            weight += found.weight
        return Learned(model, None, score / weight if weight > 0 else float("nan"))

    def _step(self, found, eta):
        n = self.evidence
        kept, counted = 0.0, 1.0
        if n > 0 and np.isfinite(eta):
            natural = found.weight / n
            kept, counted = min(1.0, natural / eta), min(1.0, eta / natural)
        if self.total is not None:
            rho = step_size(eta) if n > 0 else 1.0
            kept = self.total * (1.0 - rho) / n if n > 0 else 0.0
            counted = self.total * rho / found.weight
        weight = counted * found.weight
        parts = [(1.0 - kept, self.prior), (weight, self._of_data(found.statistics))]
        if kept > 0:
            parts.append((kept, self.posterior))
        return self._updated(parts, kept * n + weight)

    def one_by_one(self):
        """None: learners take :meth:`learn`."""
        return None

    # Combining -------------------------------------------------------------------------------

    def combined(self, models, weights=None) -> VariationalHMM:
        """The product of the posteriors over that of their priors, times the prior of this one.

        Each posterior counts once, or as often as its weight says.
        """
        weights = np.ones(len(models)) if weights is None else np.asarray(weights, dtype=float)
        parts, evidence = [(1.0, self.prior)], 0.0
        for model, weight in zip(models, weights.tolist(), strict=True):
            parts += [(weight, model.posterior), (-weight, model.prior)]
            evidence += weight * model.evidence
        return self._updated(parts, evidence)

    def log_linear(self, models, alphas, horizon=None):
        """Posteriors have one combination, which is log-linear already."""
        raise ValueError(
            "Posteriors are combined by their product, which is the same in both directions. Leave "
            "out direction='reverse'."
        )

    def check_same_kind(self, other) -> None:
        """Raise ``ValueError`` unless ``other`` is a posterior of the same kind and size."""
        self._check_class(other, VariationalHMM)
        super().check_same_kind(other)

    def reordered(self, order) -> VariationalHMM:
        """The same posterior with its states in another order."""
        order = np.asarray(order)
        moved = super().reordered(order)
        posterior, prior = (
            self._reordered(values, order) for values in (self.posterior, self.prior)
        )
        return moved._copied(posterior=posterior, prior=prior)

    def _reordered(self, values, order):
        emissions = self.kind.reordered({name: values[name] for name in self.kind.letters}, order)
        start, transitions = values["startprob"][order], values["transmat"][np.ix_(order, order)]
        return {"startprob": start, "transmat": transitions} | emissions

    def _with_packed(self, packed):
        # Nothing inside a state has an order, and no noise is added to the data.
        return self

    # Parameters ------------------------------------------------------------------------------

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """The hyperparameters of the posterior, by name."""
        return dict(self.posterior)

    def with_parameters(self, parameters) -> VariationalHMM:
        """The same prior with another posterior."""
        posterior = {name: np.asarray(parameters[name], dtype=float) for name in self.posterior}
        return self._with(posterior, self.prior, self.evidence)


class _BoundingHMM(VariationalHMM):
    """A posterior that is being fitted: see :meth:`VariationalHMM.bounding`."""

    def log_joint(self, statistics):
        return self.expected_log_joint(statistics)


def _mean(kind, posterior):
    """The parameters of the chain and the family at the mean of a posterior."""
    chain = {name: _normalized(posterior[name]) for name in _CHAIN}
    return chain | kind.plug_in(posterior)


def _normalized(counts):
    return counts / counts.sum(axis=-1, keepdims=True)
