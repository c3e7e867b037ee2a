"""The Dirichlet and the compound Dirichlet as four functions."""

from __future__ import annotations

import numpy as np

from .. import algebra, checks
from ..data.rows import read_rows
from ..drawing import MOST_WORDS, draw_documents, draw_topics
from ..kernels.dirichlet import documents as document_kernels
from ..kernels.dirichlet import newton
from ..kernels.dirichlet.topics import add_log_topics
from ..lengths import Lengths
from ..log_linear import weighted_sum
from ..model import Model
from ..parallel import chunks, in_order
from ..statistics import Expectation, Learned, Statistics
from .count_tables import CountTables, as_counts, as_documents, documents_of

__all__ = ["CompoundDirichletModel", "DirichletModel"]

_NONE = np.empty(0)
# Rows that online learning takes at a time, so that what is copied of them is bounded.
_ROWS_AT_A_TIME = 16_384


class DirichletModel(Model):
    """Points ``h`` on the simplex: ``p(h) ∝ Π h_j^(α_j - 1)``. Nothing is hidden.

    Parameters
    ----------
    alpha : array of shape (D,)
    fixed : iterable of str
        ``"alpha"`` if :meth:`maximize` should leave it alone.
    n_jobs : int, optional
        Threads; None: as many as there are cores, one inside a worker. No influence on the result.
    """

    noun = "Dirichlet distribution"

    def __init__(self, alpha, *, fixed=(), n_jobs=None):
        alpha = check_alpha(alpha)
        vars(self).update(alpha=alpha, fixed=frozenset(fixed), n_jobs=n_jobs)

    @property
    def n_columns(self) -> int:
        """The number of columns of the data."""
        return len(self.alpha)

    # The four functions ---------------------------------------------------------------------

    def expect(self, data) -> Expectation:
        """``S(V|Θ)``: the mean over the points of ``log h``, and of the log-density."""
        sums, total, weight = np.zeros(len(self.alpha)), 0.0, 0.0
        for table in self.tables(data):
            for part in self._read(table.X, table.sample_weight):
                sums += part[0]
                total += part[1]
                weight += part[2]
        if not weight > 0:
            raise ValueError("The sample weights sum to zero: there is nothing to learn from.")
        statistics = Statistics(mass=1.0, log_topics=sums / weight)
        return Expectation(statistics, float(total / weight), float(weight))

    def own(self, horizon=None) -> Statistics:
        """``S(Θ) = E[log h] = ψ(α) - ψ(α₀)``."""
        log_topics = np.empty(len(self.alpha))
        newton.own_statistics(self.alpha, log_topics)
        return Statistics(mass=1.0, log_topics=log_topics)

    def maximize(self, statistics: Statistics):
        """``M(S)``: the α where ``ψ(α) - ψ(α₀) = s``, by Newton."""
        mass, log_topics = self._blocks(statistics)
        if "alpha" in self.fixed:
            return self
        alpha = self.alpha.copy()
        mean_log = log_topics / mass
        if not np.isfinite(mean_log).all() or not newton.maximum(mean_log, alpha):
            raise ValueError(NO_MAXIMUM)
        return self._with(alpha)

    def log_joint(self, statistics: Statistics) -> float:
        """``Q(S, Θ) = log Γ(α₀) - Σ log Γ(α_j) + Σ α_j s_j``, without the base measure."""
        mass, log_topics = self._blocks(statistics)
        return mass * newton.height(self.alpha, log_topics / mass)

    def _blocks(self, statistics):
        """The mass, which must be positive, and the sums of ``log h``."""
        mass = float(checks.block(checks.statistics_of(statistics), "mass", ()))
        if not mass > 0:
            raise ValueError(f"The mass of statistics must be positive; it is {mass}.")
        return mass, checks.block(statistics, "log_topics", self.alpha.shape)

    def check_statistics(self, statistics: Statistics) -> None:
        """Raise ``ValueError`` unless these are finite statistics of such a model."""
        self._blocks(statistics)
        checks.finite_statistics(statistics)

    # What the algorithms ask besides --------------------------------------------------------

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """All parameters by name."""
        return {"alpha": self.alpha}

    def with_parameters(self, parameters):
        """The same kind of model with other parameters."""
        return self._with(parameters["alpha"])

    def _with(self, alpha):
        return type(self)(alpha, fixed=self.fixed, n_jobs=self.n_jobs)

    def check_same_kind(self, other) -> None:
        """Raise ``ValueError`` unless ``other`` is of the same kind and size."""
        self._check_class(other)
        checks.same_shapes(self.parameters, other.parameters)

    def draw(self, n_samples, rng, horizon=None) -> np.ndarray:
        """Points from the model."""
        return draw_topics(self.alpha, n_samples, rng)

    def log_linear(self, models, alphas, horizon=None):
        """The model of least ``Σ α_m Δ(Θ̃, Θ_m)``, whose α is the mean."""
        if "alpha" in self.fixed:
            return self
        return self._with(weighted_sum([model.alpha for model in models], alphas))

    # Passes over data ------------------------------------------------------------------------

    def _read(self, X, sample_weight=None, log_densities=None):
        """For each chunk: sums of log h, of the log-density, of the weights."""
        checks.check_table(X)
        self._check_width(X)
        if sample_weight is not None:
            checks.check_weights(sample_weight, len(X))

        def one(chunk):
            start, stop = chunk
            weights = _NONE
            if sample_weight is not None:
                weights = np.ascontiguousarray(sample_weight[start:stop], dtype=float)
            sums = np.zeros(len(self.alpha))
            densities = np.empty(stop - start)
            rows, part = read_rows(X, start, stop)
            wrong = add_log_topics(rows, len(part), weights, self.alpha, sums, densities)
            if wrong >= 0:
                row, column = divmod(start * X.shape[1] + wrong, X.shape[1])
                raise ValueError(
                    "Topics must be positive in every column, as their logarithms are taken; "
                    f"row {row}, column {column} is {X[row, column]}."
                )
            if log_densities is not None:
                log_densities[start:stop] = densities
            if sample_weight is None:
                return sums, densities.sum(), float(stop - start)
            return sums, densities @ weights, weights.sum()

        return in_order(one, chunks(len(X), least=max(256, 2**16 // X.shape[1])), self.n_jobs)

    def _check_width(self, X):
        if X.shape[1] != len(self.alpha):
            raise ValueError(
                f"The data have {X.shape[1]} columns, and alpha has {len(self.alpha)} entries."
            )

    def log_likelihoods(self, data) -> np.ndarray:
        """The log-likelihood of each row."""
        return np.concatenate([self._log_densities(table.X) for table in self.tables(data)])

    def _log_densities(self, X):
        out = np.empty(len(X))
        for _ in self._read(X, log_densities=out):
            pass
        return out

    def horizon_of(self, data) -> None:
        """None: points have no size."""
        return None


class CompoundDirichletModel(DirichletModel):
    """Documents ``v`` of words drawn from a topic ``h ~ Dirichlet(α)``, which is hidden.

    Data are arrays or sparse matrices of counts (n_documents, D), or the
    :class:`~fastem.dirichlet.count_tables.CountTables` of them, which are computed once and serve
    any number of iterations.

    Parameters
    ----------
    alpha, fixed, n_jobs
        As for :class:`DirichletModel`.
    n_pseudo : int, default=0
        The number of documents from which online steps estimate ``S(Θ)``; zero: its exact value.
    seed : int, default=0
        The seed of these documents.
    """

    noun = "compound Dirichlet distribution"

    def __init__(self, alpha, *, fixed=(), n_jobs=None, n_pseudo=0, seed=0):
        super().__init__(alpha, fixed=fixed, n_jobs=n_jobs)
        vars(self).update(n_pseudo=n_pseudo, seed=seed)

    def _with(self, alpha, n_steps=0):
        # Each step draws other documents.
        seed = (self.seed + 7919 * n_steps) % 2**31
        return CompoundDirichletModel(
            alpha, fixed=self.fixed, n_jobs=self.n_jobs, n_pseudo=self.n_pseudo, seed=seed
        )

    def expect(self, data) -> Expectation:
        """``S(V|Θ)``: the mean of ``E[log h | v] = ψ(v + α) - ψ(n + α₀)``, from the tables.

        It is ``S(Θ)`` plus the gradient of the mean log-likelihood.
        """
        tables = CountTables.of(data, self.n_jobs)
        if tables.n_words != len(self.alpha):
            raise ValueError(
                f"The documents have {tables.n_words} words, but the model has {len(self.alpha)}."
            )
        if not tables.weight > 0:
            raise ValueError("The sample weights sum to zero: there is nothing to learn from.")
        first, _ = tables.derivatives(self.alpha)
        log_topics = self.own()["log_topics"] + (first[:-1] - first[-1])
        return Expectation(
            Statistics(mass=1.0, log_topics=log_topics),
            float(tables.log_likelihood(self.alpha)),
            tables.weight,
            Lengths(*tables.lengths()),
        )

    def tables(self, data):
        return as_documents(data).tables()

    def draw(self, n_samples, rng, horizon=None):
        """Documents from the model, as a sparse matrix (n_samples, D).

        ``horizon`` is their length: a number, one for each, or
        :class:`~fastem.Lengths` to draw from.
        """
        if isinstance(horizon, Lengths):
            lengths = horizon.draw(n_samples, rng)
        else:
            lengths = np.broadcast_to(np.rint(1 if horizon is None else horizon), (n_samples,))
            if not ((lengths >= 0) & (lengths < np.inf)).all():
                raise ValueError(f"Documents have lengths of zero or more; got {horizon!r}.")
        return draw_documents(self.alpha, lengths, rng)

    def _log_densities(self, X):
        """``log p(v)`` of each document, given its length, coefficient included."""
        X = as_counts(X)
        self._check_width(X)
        out = np.empty(X.shape[0])

        def one(chunk):
            start, stop = chunk
            document_kernels.log_likelihoods(
                *documents_of(X, start, stop), self.alpha, out[start:stop]
            )

        for _ in in_order(one, chunks(X.shape[0], least=256, most=4096), self.n_jobs):
            pass
        return out

    def learn(self, table, rates, batch_size=None, memory=None) -> Learned:
        """Online steps over the documents in order, the loop in a kernel."""
        X, sample_weight = as_counts(table.X), table.sample_weight
        self._check_width(X)
        batch_size, rates = algebra.checked_steps(self, table, rates, batch_size, memory)
        if sample_weight is not None:
            checks.check_weights(sample_weight, X.shape[0])
        model, score, steps = self, 0.0, max(1, _ROWS_AT_A_TIME // batch_size)
        for first in range(0, len(rates), steps):
            part = slice(first * batch_size, (first + steps) * batch_size)
            weights = None if sample_weight is None else sample_weight[part]
            model, memory, gained = model._learn_in_kernel(
                X[part], weights, rates[first : first + steps], batch_size, memory
            )
            score += gained
        weight = X.shape[0] if sample_weight is None else sample_weight.sum()
        return Learned(model, memory, float(score / weight) if weight > 0 else np.nan)

    def _learn_in_kernel(self, X, sample_weight, rates, batch_size, memory):
        """The model, the memory, and the log-likelihood of all documents."""
        alpha = self.alpha.copy()
        keep = memory is not None
        remembered = memory["log_topics"] / memory["mass"] if keep else np.empty(0)
        weights = _NONE if sample_weight is None else np.ascontiguousarray(sample_weight, float)
        if self.n_pseudo > 0 and not keep:
            longest = float(np.max(X.sum(axis=1), initial=0.0))
            if longest > MOST_WORDS:
                raise ValueError(
                    f"A document has {longest:.6g} words, and inertia='sampled' draws documents as "
                    f"long word by word, of {MOST_WORDS} words at most. Use inertia='exact', which "
                    "needs none."
                )
        documents = documents_of(X, 0, X.shape[0])
        if "alpha" in self.fixed:
            scores = self._log_densities(X)
            log_likelihood = scores.sum() if sample_weight is None else scores @ weights
        else:
            failed, log_likelihood = document_kernels.online(
                *documents, batch_size, rates, weights, alpha, remembered, keep, self.n_pseudo,
                self.seed,
            )  # fmt: skip
            if failed >= 0:
                raise ValueError(f"{NO_MAXIMUM} (at online step {failed + 1})")
        if keep:
            memory = Statistics(mass=1.0, log_topics=remembered)
        return self._with(alpha, len(rates)), memory, log_likelihood


NO_MAXIMUM = (
    "The likeliest alpha does not exist: the topics do not vary, and the precision grows without "
    "end. Add data that vary."
)


def check_alpha(alpha) -> np.ndarray:
    """``alpha`` as an array of doubles; raises ``ValueError`` if it is not one of parameters."""
    alpha = checks.numbers("alpha", alpha)
    if alpha.ndim != 1 or alpha.size == 0:
        raise ValueError(f"alpha must have one entry for each word; got the shape {alpha.shape}.")
    wrong = ~((alpha > 0) & np.isfinite(alpha))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValueError(f"alpha must be positive and finite; alpha[{at}] is {alpha[at]}.")
    return np.ascontiguousarray(alpha)
