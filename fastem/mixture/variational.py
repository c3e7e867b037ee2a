"""Posteriors of Gaussian mixtures: the mathematics of variational Bayes, and a model of it.

The parameters of a mixture have a conjugate prior: a Dirichlet distribution or the sticks of a
Dirichlet process for the weights, and for each component a Gaussian for the mean, given the
precision, and a Wishart distribution for the precision. The posterior is of the same kind, and its
natural parameters are those of the prior plus the statistics of the data: a posterior *is* a prior
and the statistics of ``count`` observations. So the four functions of a mixture carry over, with

- ``expect``: the E-step of Gaussians, with expected log-weights and log-determinants;
- ``own``: the statistics that were added to the prior, divided by their number;
- ``maximize``: the prior and ``size`` times the statistics;
- ``log_joint``: the expected log-likelihood minus ``KL(posterior, prior) / count``, whose greatest
  value is at ``maximize(S)``.

What takes the place of the log-likelihood is its lower bound, the evidence per observation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import betaln, digamma, gammaln

from .. import checks
from ..components import Gains
from ..exceptions import NotEnoughData
from ..families.base import copy_packed
from ..families.gaussian import square
from ..kernels.families.gaussian_full import HALF_LOG_2PI
from ..learning_rate import batch_weights
from ..model import Model
from ..statistics import Learned, SharedMoments, Statistics
from .model import MixtureModel

__all__ = ["Posterior", "Prior", "VariationalMixture"]

#: Fewer observations than this, beside those that the prior of a mean counts for, are none.
_NONE = 1e-12


class Prior(NamedTuple):
    """The prior of the parameters of a mixture."""

    #: Whether weights are the sticks of a Dirichlet process, and not a Dirichlet distribution.
    is_process: bool
    concentration: float
    mean_precision: float
    #: (D,)
    mean: np.ndarray
    degrees_of_freedom: float
    #: The scale of the Wishart distribution is its inverse; in the shape of one component's.
    covariance: np.ndarray


class Posterior(NamedTuple):
    """The parameters of a posterior, as scikit-learn has them."""

    #: (K,) of a Dirichlet distribution; (2, K) of the Beta distributions of sticks.
    concentration: np.ndarray
    #: (K,)
    mean_precision: np.ndarray
    #: (K, D)
    means: np.ndarray
    #: (K,), or () if the covariance is tied.
    degrees_of_freedom: np.ndarray
    #: The inverses of the expected precisions.
    covariances: np.ndarray


# From statistics to a posterior, and back --------------------------------------------------------


def updated(prior: Prior, moments) -> Posterior:
    """The posterior after the observations whose sums these moments are."""
    counts = moments.mass
    mean_precision = prior.mean_precision + counts
    shifts = moments.mean - prior.mean
    means = prior.mean + (counts / mean_precision)[:, None] * shifts
    spread = moments.spread(counts * prior.mean_precision / mean_precision, shifts)
    is_tied = isinstance(moments, SharedMoments)
    freedom = prior.degrees_of_freedom + (counts.mean() if is_tied else counts)
    covariances = prior.covariance + (moments.scatter + spread) / _n_sharing(moments)
    covariances = covariances / _beside(freedom, covariances)
    if is_tied or covariances.ndim == 3:
        covariances = 0.5 * (covariances + np.swapaxes(covariances, -1, -2))
    concentration = concentration_of(prior, counts)
    return Posterior(concentration, mean_precision, means, np.asarray(freedom), covariances)


def moments_of(prior: Prior, posterior: Posterior, kind):
    """The sums that :func:`updated` made a posterior of; ``kind`` is the class of moments."""
    counts = posterior.mean_precision - prior.mean_precision
    counts = np.where(counts > _NONE * prior.mean_precision, counts, 0.0)
    share = np.divide(posterior.mean_precision, counts, out=np.zeros_like(counts), where=counts > 0)
    shifts = share[:, None] * (posterior.means - prior.mean)
    covariances = posterior.covariances
    total = covariances * _beside(posterior.degrees_of_freedom, covariances) - prior.covariance
    nothing = kind(counts, prior.mean + shifts, np.zeros_like(covariances))
    spread = nothing.spread(counts * prior.mean_precision / posterior.mean_precision, shifts)
    scatter = total * _n_sharing(nothing) - spread
    if kind is not SharedMoments:
        scatter[counts == 0] = 0.0
    return kind(counts, nothing.mean, scatter)


def _n_sharing(moments):
    """Among how many a scatter is shared out: components with one covariance, or columns."""
    if isinstance(moments, SharedMoments):
        return len(moments.mass)
    return moments.mean.shape[1] if moments.scatter.ndim == 1 else 1


def _beside(freedom, covariances):
    """Degrees of freedom in a shape to multiply covariances by."""
    return np.reshape(freedom, np.shape(freedom) + (1,) * (covariances.ndim - np.ndim(freedom)))


def concentration_of(prior: Prior, counts) -> np.ndarray:
    """The parameters of the distribution of the weights, after these counts."""
    if not prior.is_process:
        return prior.concentration + counts
    later = np.append(np.cumsum(counts[:0:-1])[::-1], 0.0)
    return np.stack([1.0 + counts, prior.concentration + later])


# Expectations under a posterior ------------------------------------------------------------------


def mean_weights(concentration) -> np.ndarray:
    """The expected weights, made to sum to one."""
    if concentration.ndim == 1:
        return concentration / concentration.sum()
    taken, left = concentration / concentration.sum(axis=0)
    weights = taken * np.append(1.0, np.cumprod(left[:-1]))
    return weights / weights.sum()


def expected_log_weights(concentration) -> np.ndarray:
    """``E[log w_k]``."""
    if concentration.ndim == 1:
        return digamma(concentration) - digamma(concentration.sum())
    taken, left = digamma(concentration) - digamma(concentration.sum(axis=0))
    return taken + np.append(0.0, np.cumsum(left[:-1]))


def expected_log_offsets(posterior: Posterior) -> np.ndarray:
    """What ``E[log p(x|k)]`` has besides the log-density of a Gaussian with the expected precision.

    ``½ (E[log det Λ] - log det E[Λ] - D/κ)``.
    """
    n_columns = posterior.means.shape[1]
    freedom = posterior.degrees_of_freedom
    log_det = digamma(_halves(freedom, n_columns)).sum(axis=-1)
    log_det += n_columns * (np.log(2.0) - np.log(freedom))
    return 0.5 * (log_det - n_columns / posterior.mean_precision)


def log_normalizer(posterior: Posterior, log_det_factors) -> float:
    """The logarithm of what normalizes a posterior, up to a constant of the sizes.

    ``log_det_factors`` are ``½ log det`` of the expected precisions, one if they are tied.
    """
    n_components, n_columns = posterior.means.shape
    freedom, concentration = posterior.degrees_of_freedom, posterior.concentration
    log_scale = log_det_factors - 0.5 * n_columns * np.log(freedom)
    wishart = freedom * (log_scale + 0.5 * n_columns * np.log(2.0))
    wishart = wishart + gammaln(_halves(freedom, n_columns)).sum(axis=-1)
    wishart = wishart.sum() if np.ndim(freedom) else n_components * wishart
    if concentration.ndim == 1:
        weights = gammaln(concentration).sum() - gammaln(concentration.sum())
    else:
        weights = betaln(*concentration).sum()
    return float(wishart + weights - 0.5 * n_columns * np.log(posterior.mean_precision).sum())


def _halves(freedom, n_columns):
    """``(ν - i) / 2`` for each column ``i``, along the last axis."""
    return 0.5 * (freedom[..., None] - np.arange(n_columns))


# The model ---------------------------------------------------------------------------------------


class VariationalMixture(MixtureModel):
    """A posterior of Gaussian mixtures. The hidden variables are components and parameters.

    Its ``parameters`` are those of the mixture whose expected statistics were added to the prior,
    and its ``weights`` and packed family those that rows are compared with: the expected ones.

    Parameters
    ----------
    family : Gaussian
    prior : Prior
    posterior : Posterior
    precisions_cholesky : array, optional
        Factors of the expected precisions; by default from the covariances.
    total : float, optional
        The number of observations that online learning takes the data for; None: as many as it has
        seen, less what it has forgotten.
    seen : float, optional
        The number of observations that online learning has seen; by default, those that the
        posterior is made of.
    n_jobs : int, optional
        As for :class:`~fastem.mixture.model.MixtureModel`.
    """

    noun = "posterior of mixtures"

    def __init__(
        self, family, prior: Prior, posterior: Posterior, *, precisions_cholesky=None, total=None,
        seen=None, n_jobs=None,
    ):  # fmt: skip
        prior, posterior = _checked(family, prior, posterior)
        parameters = {"means": posterior.means, "covariances": posterior.covariances}
        if precisions_cholesky is not None:
            parameters["precisions_cholesky"] = precisions_cholesky
        super().__init__(family, mean_weights(posterior.concentration), parameters, n_jobs=n_jobs)
        sums = moments_of(prior, posterior, family.moments_kind)
        count = sums.mass.sum()
        vars(self).update(
            prior=prior,
            posterior=posterior,
            # Of a posterior that is the prior there is nothing to divide.
            moments=sums * (1.0 / count) if count > 0 else sums,
            count=float(count),
            size=float(count if total is None else total),
            total=None if total is None else float(total),
            seen=float(count if seen is None else seen),
            expected=expected_log_weights(posterior.concentration)
            + expected_log_offsets(posterior),
            prior_normalizer=_normalizer_of_prior(self, prior, len(posterior.means)),
        )

    @classmethod
    def made_of(cls, family, prior: Prior, statistics, count, *, total=None, n_jobs=None):
        """The posterior after ``count`` observations with these mean statistics."""
        moments = statistics["moments"] * (count / statistics["mass"].sum())
        posterior = updated(prior, moments)
        try:
            return cls(family, prior, posterior, total=total, n_jobs=n_jobs, seen=0.0)
        except ValueError:
            # What is wrong with covariances is what is wrong with the data.
            raise NotEnoughData(family.failure) from None

    @property
    def log_weights(self) -> np.ndarray:
        """What is added to the log-densities of the expected Gaussians."""
        return self.expected

    def standing_for(self, size) -> VariationalMixture:
        """The same posterior, with another number of observations for M-steps to come."""
        return self._copied(size=float(size))

    # The four functions ---------------------------------------------------------------------

    def expect(self, data):
        """``S(V|Θ)``, with the evidence per observation in place of the log-likelihood."""
        found = super().expect(data)
        return found._replace(log_likelihood=found.log_likelihood - self.complexity)

    def own(self, horizon=None) -> Statistics:
        """``S(Θ)``: the statistics that were added to the prior, divided by their number."""
        return Statistics(mass=self.moments.mass, moments=self.moments)

    def maximize(self, statistics: Statistics) -> VariationalMixture:
        """``M(S)``: the prior, and the statistics of ``size`` observations."""
        mass = self._mass(statistics)
        self.family.check_blocks(statistics, self.packed)
        total = mass.sum()
        if not total > 0:
            raise ValueError("The statistics have no mass: there is nothing to learn from.")
        given, kind = statistics["moments"], self.family.moments_kind
        moments = kind(mass / total, given.mean, given.scatter / total)
        posterior = updated(self.prior, moments * self.size)
        packed = copy_packed(self.packed)
        packed.means[:] = posterior.means
        _set_covariances(packed, posterior.covariances)
        if not (np.isfinite(posterior.means).all() and self.family.refresh(packed)):
            raise NotEnoughData(self.family.failure)
        return self._copied(
            weights=mean_weights(posterior.concentration),
            packed=packed,
            posterior=posterior,
            moments=moments,
            count=self.size,
            expected=expected_log_weights(posterior.concentration)
            + expected_log_offsets(posterior),
        )

    def log_joint(self, statistics: Statistics) -> float:
        """``Q(S, Θ)``: the expected log-likelihood, minus the complexity."""
        return self._fit_to(statistics) - float(self._mass(statistics).sum()) * self.complexity

    def _fit_to(self, statistics):
        """The expected log-likelihood of rows and components, without the prior."""
        mass = self._mass(statistics)
        choice = np.sum(mass[mass > 0] * self.expected[mass > 0])
        return float(choice + self.family.log_joint(statistics, mass, self.packed))

    @property
    def log_normalizer(self) -> float:
        """The logarithm of what normalizes the posterior, up to a constant of the sizes."""
        offsets = self.packed.offset[0] if self._is_tied else self.packed.offsets
        n_columns = self.posterior.means.shape[1]
        return log_normalizer(self.posterior, offsets + n_columns * HALF_LOG_2PI)

    @property
    def complexity(self) -> float:
        """``KL(posterior, prior)`` for each observation that the posterior is made of."""
        if not self.count > 0:
            return 0.0
        # In an exponential family it is (λ - λ₀)·E[T] - A(λ) + A(λ₀), and λ - λ₀ are the sums.
        n_columns = self.posterior.means.shape[1]
        gained = self._fit_to(self.own()) + n_columns * HALF_LOG_2PI
        return float(gained - (self.log_normalizer - self.prior_normalizer) / self.count)

    def evidence(self, before: VariationalMixture, expectation) -> float:
        """The lower bound of the evidence of all data after an M-step, without constants.

        It is the entropy of the components, as ``before`` inferred them, and what normalizes this
        posterior: the same number as scikit-learn's.
        """
        entropy = expectation.log_likelihood - before.log_joint(expectation.statistics)
        # The noise that was added to the data has no part in it.
        entropy -= before._cost_of_noise(expectation.statistics["mass"])
        return float(expectation.weight * entropy + self.log_normalizer)

    def _cost_of_noise(self, mass):
        """``½ reg_covar Σ_k s_k tr E[Λ_k]``."""
        if self.packed.blur == 0.0:
            return 0.0
        return 0.5 * self.packed.blur * float(np.sum(mass * self._precision_traces()))

    def _precision_traces(self):
        n_columns = self.packed.means.shape[1]
        if self._is_tied:
            return np.sum(square(self.packed.factor, n_columns) ** 2)
        if self.family.matrices:
            return np.sum(square(self.packed.factors, n_columns) ** 2, axis=(1, 2))
        return 2.0 * np.sum(self.packed.scales**2, axis=1)

    @property
    def _is_tied(self):
        return bool(self.family.shared_parameters)

    def mean_log_likelihood(self, expectation) -> float:
        """The mean of ``log p(x)``, from the expectation of this model."""
        return expectation.log_likelihood + self.complexity

    def log_likelihoods(self, data) -> np.ndarray:
        """The evidence of each row."""
        return super().log_likelihoods(data) - self.complexity

    # Parameters ---------------------------------------------------------------------------------

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """Those of the mixture whose statistics were added to the prior."""
        return {
            "weights": self.moments.mass,
            "means": self.moments.mean,
            "covariances": self._own_covariances(),
        }

    def _own_covariances(self):
        mass, scatter = self.moments.mass, self.moments.scatter
        if self._is_tied:
            return scatter
        each = np.where(mass > 0, mass, 1.0) * _n_sharing(self.moments)
        return scatter / each.reshape((-1,) + (1,) * (scatter.ndim - 1))

    def with_parameters(self, parameters) -> VariationalMixture:
        """The posterior after as many observations with these expected statistics."""
        names = ("weights", "means", "covariances")
        weights, means, covariances = (checks.numbers(name, parameters[name]) for name in names)
        mass = checks.shaped("weights", weights, self.moments.mass.shape)
        checks.shaped("means", means, self.moments.mean.shape)
        checks.shaped("covariances", covariances, self.moments.scatter.shape)
        mass = mass / mass.sum()
        if self._is_tied:
            scatter = covariances
        else:
            each = mass * _n_sharing(self.moments)
            scatter = covariances * each.reshape((-1,) + (1,) * (covariances.ndim - 1))
        moments = self.family.moments_kind(mass, means, scatter)
        return self.maximize(Statistics(mass=mass, moments=moments))

    def check_same_kind(self, other) -> None:
        """Raise ``ValueError`` unless ``other`` is a posterior of the same kind and size."""
        self._check_class(other, VariationalMixture)
        if self.prior.is_process != other.prior.is_process:
            raise ValueError(
                "Models of different kinds: the weights of one have a Dirichlet distribution as "
                "prior, and those of the other a Dirichlet process. Fit both with one "
                "weight_concentration_prior_type."
            )
        super().check_same_kind(other)

    def rules_out(self, statistics: Statistics) -> bool:
        """Never: a posterior gives everything some probability."""
        return False

    #: M-steps are taken in Python.
    iterate = Model.iterate

    # Online learning ----------------------------------------------------------------------------

    def learn(self, table, rates, batch_size=None, memory=None) -> Learned:
        """Online steps over batches of rows, one after another."""
        return Model.learn(self, table, rates, batch_size, memory)

    def mixing(self, rho, weight) -> VariationalMixture:
        """This model, to make a posterior of the observations that a mixture is worth.

        Statistics of ``n`` and ``b`` observations, mixed with the weights ``1 - ρ`` and ``ρ``, are
        worth ``1 / ((1 - ρ)²/n + ρ²/b)``: all ``n + b`` if each counts as much as any other, and
        ``b`` if the rest is forgotten. They are never worth more than were seen, as if a start that
        was made of the first rows, and learns from them again, counted them twice.
        """
        seen = self.seen + weight
        if self.total is not None:
            return self._copied(seen=seen)
        size = weight
        if self.count > 0:
            size = 1.0 / ((1.0 - rho) ** 2 / self.count + rho**2 / weight)
        return self._copied(seen=seen, size=min(size, seen))

    def after_learning_from(self, table, n_before) -> VariationalMixture:
        """The same model, made of no more observations than it has seen."""
        seen = n_before + batch_weights(len(table), len(table), table.sample_weight).sum()
        model = self._copied(seen=float(seen))
        if self.total is not None or self.count <= seen * (1.0 + 1e-9):
            return model
        return model._remade(self.own(), seen)

    def _remade(self, statistics, count):
        made = self.standing_for(count).maximize(statistics)
        return made if self.total is None else made.standing_for(self.total)

    #: There is no quicker way than :meth:`learn`.
    one_by_one = Model.one_by_one

    def revived(self, inertia, gained, observation, horizon=None):
        """``inertia``: the prior remembers components of no weight."""
        return inertia

    # Combining ----------------------------------------------------------------------------------

    def shares(self, models) -> np.ndarray:
        """Posteriors count with the observations they are made of: their statistics add."""
        counts = np.array([model.count for model in models])
        return counts / counts.sum() if counts.sum() > 0 else super().shares(models)

    def pooled(self, models, alphas) -> VariationalMixture:
        """This model, to make a posterior of the observations of all models of some weight."""
        counts = (model.count for model, a in zip(models, alphas, strict=True) if a > 0)
        return self.standing_for(sum(counts))

    def beside(self, other) -> VariationalMixture:
        """The posterior of as many observations as ``other`` is made of."""
        return self if self.count == other.count else self._remade(self.own(), other.count)

    def log_linear(self, models, alphas, horizon=None):
        """Posteriors have one combination, which is log-linear already."""
        raise ValueError(
            "Posteriors are combined by their product, which is the same in both directions. Leave "
            "out direction='reverse'."
        )

    def matching_gains(self, other, horizon=None) -> Gains:
        """``s_h E[log w̃_l + log p(x|l)]`` for the statistics of component h."""
        mass = self.moments.mass
        own = self.packed._replace(means=np.ascontiguousarray(self.moments.mean))
        own = _replace_covariances(own, self._own_covariances())
        pairs = mass[:, None] * (other.expected + self.family.cross(own, other.packed, horizon))
        return Gains(np.where(mass[:, None] > 0, pairs, 0.0))

    def pooling_gains(self, first, alphas, orders, horizon=None):
        """None: models are brought to their combination instead."""
        return None

    def reordered(self, order) -> VariationalMixture:
        """The posterior of the same observations, with components in another order."""
        given, kind = self.moments, self.family.moments_kind
        scatter = given.scatter if self._is_tied else given.scatter[order]
        moments = kind(given.mass[order], given.mean[order], scatter)
        return self._remade(Statistics(mass=moments.mass, moments=moments), self.count)


def _set_covariances(packed, covariances):
    """Write covariances into a packed family."""
    if hasattr(packed, "variances"):
        packed.variances[:] = covariances if covariances.ndim == 2 else covariances[:, None]
    elif hasattr(packed, "covariance"):
        packed.covariance[:] = covariances
    else:
        packed.covariances[:] = covariances


def _replace_covariances(packed, covariances):
    """A packed family with other covariances, and the factors it had."""
    if hasattr(packed, "variances"):
        shape = packed.means.shape
        columns = covariances if covariances.ndim == 2 else covariances[:, None]
        return packed._replace(variances=np.ascontiguousarray(np.broadcast_to(columns, shape)))
    name = "covariance" if hasattr(packed, "covariance") else "covariances"
    return packed._replace(**{name: covariances})


def _of_nothing(family, prior, n_components):
    """The prior of so many components, in the form of a posterior."""
    n_columns = len(prior.mean)
    shape = family.covariance_shape(n_components, n_columns)
    nothing = family.moments_kind(
        np.zeros(n_components), np.tile(prior.mean, (n_components, 1)), np.zeros(shape)
    )
    return updated(prior, nothing)


def _normalizer_of_prior(model, prior, n_components):
    family = model.family
    nothing = _of_nothing(family, prior, n_components)
    packed = copy_packed(model.packed)
    packed.means[:] = nothing.means
    _set_covariances(packed, nothing.covariances)
    # A prior without a density, as of a column that is constant, has no normalizer: all that is
    # computed from it would be infinite.
    if not family.refresh(packed):
        return 0.0
    return model._copied(posterior=nothing, packed=packed).log_normalizer


def _checked(family, prior, posterior):
    """Prior and posterior as doubles whose shapes and values agree."""
    means = checks.finite("means", checks.table_of("means", checks.numbers("means", posterior[2])))
    n_components, n_columns = means.shape
    is_tied = bool(family.shared_parameters)
    covariance = family.covariance_shape(n_components, n_columns)
    shapes = {
        "weight_concentration": (2, n_components) if prior.is_process else (n_components,),
        "mean_precision": (n_components,),
        "means": means.shape,
        "degrees_of_freedom": () if is_tied else (n_components,),
        "covariances": covariance,
    }
    arrays = []
    for (name, shape), values in zip(shapes.items(), posterior, strict=True):
        array = checks.finite(name, checks.shaped(name, checks.numbers(name, values), shape))
        least = n_columns - 1.0 if name == "degrees_of_freedom" else 0.0
        if name not in ("means", "covariances") and not (array > least).all():
            raise ValueError(f"{name} must be above {least:g}; got {array.min():g}.")
        arrays.append(array)
    settings = {
        "weight_concentration_prior": (prior.concentration, (), 0.0),
        "mean_precision_prior": (prior.mean_precision, (), 0.0),
        "mean_prior": (prior.mean, (n_columns,), -np.inf),
        "degrees_of_freedom_prior": (prior.degrees_of_freedom, (), n_columns - 1.0),
        "covariance_prior": (prior.covariance, covariance if is_tied else covariance[1:], -np.inf),
    }
    known = []
    for name, (values, shape, least) in settings.items():
        array = checks.finite(name, checks.shaped(name, checks.numbers(name, values), shape))
        if not (array > least).all():
            raise ValueError(f"{name} must be above {least:g}; got {array.min():g}.")
        known.append(array if shape else float(array))
    return Prior(prior.is_process, *known), Posterior(*arrays)
