"""hmmlearn's hooks of the estimators: what ``super()`` does in a subclass that overrides some.

The statistics have hmmlearn's names and meaning, because subclasses read and change them; the
M-steps are those of :mod:`.priors`. Without an override kernels do all of this, and nothing here is
called.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp
from sklearn.utils import check_random_state

from ..data.sequences import Sequences
from ..exceptions import SymbolColumnsWarning
from ..families import Gaussian
from ..notices import warn
from ..statistics import Moments
from . import priors
from .custom import BaseHMM, overridden_hooks
from .passes import Pass

__all__ = ["CategoricalHooks", "FamilyHooks", "GaussianHooks", "MixtureHooks", "MultinomialHooks",
           "PoissonHooks"]  # fmt: skip


class EmissionHooks(BaseHMM):
    """The hooks that depend on the emissions in the same way for all of them."""

    def _init(self, X, lengths=None):
        super()._init(X, lengths)
        emissions = self._emissions()
        wanted = [s.name for s in emissions.shown if self._needs_init(s.letter, f"{s.name}_")]
        if wanted:
            rows = Sequences(self._as_emitted(X), missing=False)
            emissions = self._fitted_emissions(rows, wanted)
            values = emissions.initialize(rows, wanted, rows.X.shape[1], self.random_state, ())
            for shown in emissions.shown:
                if shown.name in wanted:
                    setattr(self, shown.attribute, np.array(values[shown.name]))

    def _as_emitted(self, X):
        """Rows as the states emit them."""
        return X

    def _check(self):
        super()._check()
        emissions = self._emissions()
        family = emissions.family.with_zeros()
        values = self._values(emissions)
        n_columns = emissions.n_columns(values)
        if n_columns is not None:
            self._check_shapes(emissions, values, n_columns)
        family.pack(emissions.to_parameters(values))
        for shown in emissions.shown:
            setattr(self, shown.attribute, values[shown.name])

    def _compute_log_likelihood(self, X):
        table = Sequences(self._as_emitted(X))
        model = self._plain_model()
        return Pass(model.kernel_chain, model.family, model.packed, table, 1).log_densities()

    def _compute_likelihood(self, X):
        if "_compute_log_likelihood" in overridden_hooks(self):
            return super()._compute_likelihood(X)
        with np.errstate(under="ignore"):
            return np.exp(EmissionHooks._compute_log_likelihood(self, X))

    def _generate_sample_from_state(self, state, random_state=None):
        random_state = check_random_state(random_state)
        return self._emissions().draw(self._plain_model(), [state], random_state)[0]

    def _of_chain(self):
        """The number of free parameters of the chain, by their letters."""
        return self._chain().n_free()


class GaussianHooks(EmissionHooks):
    """Statistics ``post``, ``obs``, ``obs**2`` and ``obs*obs.T``: sums about the origin."""

    def _get_n_fit_scalars_per_param(self):
        n_states, n_columns = self.n_components, self.n_features
        n_matrix = n_columns * (n_columns + 1) // 2
        n_covars = {"spherical": n_states, "diag": n_states * n_columns,
                    "full": n_states * n_matrix, "tied": n_matrix}  # fmt: skip
        return {
            **self._of_chain(),
            "m": n_states * n_columns,
            "c": _of_covariance_type(self.covariance_type, n_covars),
        }

    def _needs_sufficient_statistics_for_mean(self):
        return "m" in self.params

    def _needs_sufficient_statistics_for_covars(self):
        return "c" in self.params

    def _initialize_sufficient_statistics(self):
        shape = self.n_components, self.n_features
        stats = super()._initialize_sufficient_statistics()
        stats |= {"post": np.zeros(shape[0]), "obs": np.zeros(shape), "obs**2": np.zeros(shape)}
        if self.covariance_type in ("tied", "full"):
            stats["obs*obs.T"] = np.zeros((*shape, shape[1]))
        return stats

    def _accumulate_sufficient_statistics(
        self, stats, X, lattice, posteriors, fwdlattice, bwdlattice
    ):
        super()._accumulate_sufficient_statistics(
            stats, X, lattice, posteriors, fwdlattice, bwdlattice
        )
        for_means = self._needs_sufficient_statistics_for_mean()
        for_covars = self._needs_sufficient_statistics_for_covars()
        # Covariances need them too: hmmlearn's come out wrong without the means.
        if for_means or for_covars:
            stats["post"] += posteriors.sum(axis=0)
            stats["obs"] += posteriors.T @ X
        if for_covars and self.covariance_type in ("tied", "full"):
            for state, weights in enumerate(posteriors.T):
                stats["obs*obs.T"][state] += (weights[:, None] * X).T @ X
        elif for_covars:
            stats["obs**2"] += posteriors.T @ X**2

    def _do_mstep(self, stats):
        super()._do_mstep(stats)
        settings = self._emissions()
        moments = _moments(stats, self.covariance_type)
        if "m" in self.params:
            self.means_ = priors.gaussian_means(settings, moments, np.asarray(self.means_, float))
        if "c" in self.params:
            old = {"covariances": self._values(settings)["covars"]}
            self._covars_ = priors.gaussian_covariances(settings, moments, self.means_, old)


def _of_covariance_type(kind, values):
    if kind not in values:
        raise ValueError(f"covariance_type must be one of {sorted(values)}; got {kind!r}.")
    return values[kind]


def _moments(stats, kind):
    """Mass, mean and scatter about the mean, from sums about the origin."""
    mass, sums = stats["post"], stats["obs"]
    mean = sums / np.where(mass > 0, mass, 1.0)[:, None]
    if kind in ("diag", "spherical"):
        scatter = stats["obs**2"] - mean * sums
        return Moments(mass, mean, scatter.sum(axis=1) if kind == "spherical" else scatter)
    scatter = stats["obs*obs.T"] - mean[:, :, None] * sums[:, None, :]
    return Moments(mass, mean, scatter.sum(axis=0) if kind == "tied" else scatter)


class MixtureHooks(EmissionHooks):
    """Statistics ``post_mix_sum``, ``post_sum``, ``m_n`` with the prior, and ``c_n``.

    ``c_n`` are squares about the means before the step.
    """

    def _get_n_fit_scalars_per_param(self):
        n_states, n_columns, n_mix = self.n_components, self.n_features, self.n_mix
        n_matrix, n_parts = n_columns * (n_columns + 1) // 2, n_states * n_mix
        n_covars = {"spherical": n_parts, "diag": n_parts * n_columns,
                    "full": n_parts * n_matrix, "tied": n_states * n_matrix}  # fmt: skip
        return {
            **self._of_chain(),
            "m": n_parts * n_columns,
            "c": _of_covariance_type(self.covariance_type, n_covars),
            "w": n_states * (n_mix - 1),
        }

    def _compute_log_weighted_gaussian_densities(self, X, i_comp):
        """The log-density of each row in each part of a state, with the weight of the part."""
        values = self._values(self._emissions())
        weights, means, covars = (values[n][i_comp] for n in ("weights", "means", "covars"))
        family = Gaussian(self.covariance_type, 0.0).with_zeros()
        n_mix = len(means)
        # A chain whose states are the parts.
        parts = self._model_class(
            family, np.full(n_mix, 1.0 / n_mix), np.full((n_mix, n_mix), 1.0 / n_mix),
            {"means": means, "covariances": covars},
        )  # fmt: skip
        with np.errstate(divide="ignore"):
            log_weights = np.log(weights)
        table = Sequences(X)
        densities = Pass(parts.kernel_chain, parts.family, parts.packed, table, 1).log_densities()
        return densities + log_weights

    def _compute_log_likelihood(self, X):
        if "_compute_log_weighted_gaussian_densities" not in overridden_hooks(self):
            return super()._compute_log_likelihood(X)
        states = range(self.n_components)
        parts = [self._compute_log_weighted_gaussian_densities(X, state) for state in states]
        with np.errstate(under="ignore"):
            return np.transpose([logsumexp(part, axis=1) for part in parts])

    def _initialize_sufficient_statistics(self):
        stats = super()._initialize_sufficient_statistics()
        values = self._values(self._emissions())
        parts, means = (self.n_components, self.n_mix), values["means"]
        stats |= {"post_mix_sum": np.zeros(parts), "post_sum": np.zeros(parts[0])}
        if "m" in self.params:
            pull = priors.shaped_prior(self, "means_weight", parts)
            stats["m_n"] = pull[:, :, None] * priors.shaped_prior(self, "means_prior", means.shape)
        if "c" in self.params:
            stats["c_n"] = np.zeros(values["covars"].shape)
        return stats

    def _accumulate_sufficient_statistics(
        self, stats, X, lattice, post_comp, fwdlattice, bwdlattice
    ):
        super()._accumulate_sufficient_statistics(
            stats, X, lattice, post_comp, fwdlattice, bwdlattice
        )
        stats["post_sum"] += post_comp.sum(axis=0)
        for state in range(self.n_components):
            log_parts = self._compute_log_weighted_gaussian_densities(X, state)
            total = logsumexp(log_parts, axis=1, keepdims=True)
            with np.errstate(under="ignore"):
                shares = np.exp(log_parts - np.where(total > -np.inf, total, 0.0))
                shares = shares * post_comp[:, state, None]
            stats["post_mix_sum"][state] += shares.sum(axis=0)
            if "m" in self.params:
                stats["m_n"][state] += shares.T @ X
            if "c" in self.params:
                self._add_squares(stats["c_n"][state : state + 1], X, state, shares)

    def _add_squares(self, to, X, state, shares):
        """Add squares about the means of the parts of a state to ``to[0]``."""
        for part, weights in enumerate(shares.T):
            centered = X - np.asarray(self.means_)[state, part]
            weighted = weights[:, None] * centered
            if self.covariance_type == "tied":
                to[0] += weighted.T @ centered
            elif self.covariance_type == "full":
                to[0, part] += weighted.T @ centered
            elif self.covariance_type == "diag":
                to[0, part] += (weighted * centered).sum(axis=0)
            else:
                to[0, part] += (weighted * centered).sum()

    def _do_mstep(self, stats):
        super()._do_mstep(stats)
        settings = self._emissions()
        old = self._values(settings)
        mass = stats["post_mix_sum"]
        if "w" in self.params:
            prior = priors.shaped_prior(self, "weights_prior", mass.shape)
            self.weights_ = priors.dirichlet_mode(mass, prior, old["weights"], keep_zeros=False)
        if "m" in self.params:
            total = (mass + priors.shaped_prior(self, "means_weight", mass.shape))[:, :, None]
            new = stats["m_n"] / np.where(total > 0, total, 1.0)
            self.means_ = np.where(total > 0, new, old["means"])
        if "c" in self.params:
            squares = stats["c_n"]
            if self.covariance_type == "tied":
                # The M-step adds up those of the parts of a state.
                apart = np.zeros((*mass.shape, *squares.shape[1:]))
                apart[:, 0] = squares
                squares = apart
            flat = squares.reshape(-1, *squares.shape[2:])
            moments = Moments(mass.reshape(-1), old["means"].reshape(mass.size, -1), flat)
            old = {"means": old["means"], "covariances": old["covars"]}
            self.covars_ = priors.mixture_covariances(
                settings, moments, np.asarray(self.means_), old
            )


class _CountHooks(EmissionHooks):
    """Statistics ``obs``, the sums of the rows of each state."""

    #: The letter of the only parameter.
    _letter = "e"

    def _initialize_sufficient_statistics(self):
        stats = super()._initialize_sufficient_statistics()
        return stats | {"obs": np.zeros((self.n_components, self.n_features))}

    def _accumulate_sufficient_statistics(
        self, stats, X, lattice, posteriors, fwdlattice, bwdlattice
    ):
        super()._accumulate_sufficient_statistics(
            stats, X, lattice, posteriors, fwdlattice, bwdlattice
        )
        if self._letter in self.params:
            self._add_rows(stats, X, posteriors)

    def _add_rows(self, stats, X, posteriors):
        stats["obs"] += posteriors.T @ X


class PoissonHooks(_CountHooks):
    """Statistics ``post`` and ``obs``: the mass, and the sums of the rows, of each state."""

    _letter = "l"

    def _get_n_fit_scalars_per_param(self):
        return {**self._of_chain(), "l": self.n_components * self.n_features}

    def _initialize_sufficient_statistics(self):
        stats = super()._initialize_sufficient_statistics()
        return stats | {"post": np.zeros(self.n_components)}

    def _add_rows(self, stats, X, posteriors):
        super()._add_rows(stats, X, posteriors)
        stats["post"] += posteriors.sum(axis=0)

    def _do_mstep(self, stats):
        super()._do_mstep(stats)
        if "l" in self.params:
            old = np.asarray(self.lambdas_, dtype=float)
            self.lambdas_ = priors.poisson_rates(
                self._emissions(), stats["post"], stats["obs"], old
            )


class _ProbabilityHooks(_CountHooks):
    def _get_n_fit_scalars_per_param(self):
        return {**self._of_chain(), "e": self.n_components * (self.n_features - 1)}

    def _do_mstep(self, stats):
        super()._do_mstep(stats)
        if "e" in self.params:
            old = np.asarray(self.emissionprob_, dtype=float)
            prior = getattr(self, "emissionprob_prior", 1.0)
            self.emissionprob_ = priors.dirichlet_mode(stats["obs"], prior, old, keep_zeros=False)


class CategoricalHooks(_ProbabilityHooks):
    """Statistics ``obs``: how often each state emitted each symbol."""

    def _check_and_set_n_features(self, X):
        """Set the number of symbols, or compare the symbols with it."""
        if not np.issubdtype(X.dtype, np.integer) or X.min() < 0:
            raise ValueError("Symbols must be whole numbers, zero or more.")
        n_given = self._given_features
        if n_given is None:
            self.n_features = int(X.max()) + 1
        elif X.max() >= n_given:
            raise ValueError(
                f"The largest symbol is {X.max()}, and the model has the symbols 0 .. "
                f"{n_given - 1}."
            )

    def _as_emitted(self, X):
        return as_symbols(X)

    # In hmmlearn densities come first here, and logarithms are made of them; elsewhere it is the
    # other way round. It matters to a subclass that overrides one and calls the other by ``super``.

    def _compute_log_likelihood(self, X):
        if "_compute_likelihood" not in overridden_hooks(self):
            return super()._compute_log_likelihood(X)
        with np.errstate(divide="ignore"):
            return np.log(self._compute_likelihood(X))

    def _compute_likelihood(self, X):
        if "_compute_likelihood" not in overridden_hooks(self):
            return super()._compute_likelihood(X)
        with np.errstate(under="ignore"):
            return np.exp(super()._compute_log_likelihood(X))

    def _add_rows(self, stats, X, posteriors):
        np.add.at(stats["obs"].T, as_symbols(X)[:, 0], posteriors)


def as_symbols(X):
    """Symbols in one column; several columns are read row by row, as in hmmlearn."""
    if X.ndim == 2 and X.shape[1] != 1:
        warn(
            f"Symbols in {X.shape[1]} columns are read row by row, as one sequence of symbols. "
            "This is deprecated: give one column, X.reshape(-1, 1). For several columns of symbols "
            "use fastem.HMM(fastem.families.Categorical(n_categories), n_components).",
            SymbolColumnsWarning,
        )
        X = X.reshape(-1, 1)
    return X


class MultinomialHooks(_ProbabilityHooks):
    """Statistics ``obs``: how often each state emitted each outcome."""

    def _check_and_set_n_features(self, X):
        """Set or compare the number of outcomes, and that of trials."""
        super()._check_and_set_n_features(X)
        if not np.issubdtype(X.dtype, np.integer) or X.min() < 0:
            raise ValueError("Counts must be whole numbers, zero or more.")
        totals = X.sum(axis=1)
        if self.n_trials is None:
            self.n_trials = totals
        elif not np.array_equal(totals, np.broadcast_to(self.n_trials, totals.shape)):
            raise ValueError("The counts of each row must sum to n_trials.")


class FamilyHooks(EmissionHooks):
    """Statistics ``rows`` and ``posteriors``, in lists: families differ in what they sum."""

    def _get_n_fit_scalars_per_param(self):
        emissions = self._emissions()
        if not all(hasattr(self, shown.attribute) for shown in emissions.shown):
            # The number is known with the parameters.
            return None
        parameters = emissions.to_parameters(self._values(emissions))
        return {**self._of_chain(), "e": emissions.family.n_parameters(parameters)}

    def _initialize_sufficient_statistics(self):
        return {**super()._initialize_sufficient_statistics(), "rows": [], "posteriors": []}

    def _accumulate_sufficient_statistics(
        self, stats, X, lattice, posteriors, fwdlattice, bwdlattice
    ):
        super()._accumulate_sufficient_statistics(
            stats, X, lattice, posteriors, fwdlattice, bwdlattice
        )
        if "e" in self.params:
            stats["rows"].append(X)
            stats["posteriors"].append(posteriors)

    def _do_mstep(self, stats):
        super()._do_mstep(stats)
        if "e" not in self.params:
            return
        emissions = self._emissions()
        old = emissions.to_parameters(self._values(emissions))
        rows, posteriors = (np.concatenate(stats[name]) for name in ("rows", "posteriors"))
        new = emissions.maximize_given(rows, posteriors, old)
        for shown in emissions.shown:
            setattr(self, shown.attribute, np.array(new[shown.parameter]))
