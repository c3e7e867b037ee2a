"""``fastem.GMMHMM``: hmmlearn's class, whose states emit from mixtures of Gaussians."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_random_state

from ..clustering import kmeans
from ..families import Gaussian, MixtureOf
from ..learning_rate import DEFAULT_RATE
from ..sklearn_compat import Interval, StrOptions
from .base import BaseHMM
from .gaussian import as_matrices, normal_draws
from .initialization import clusters, complete_rows, covariance
from .priors import mixture_covariances, mixture_means, mixture_weights

__all__ = ["GMMHMM"]


class GMMHMM(BaseHMM):
    """A hidden Markov model whose states emit from Gaussian mixtures, as hmmlearn's class.

    Parameters
    ----------
    n_components : int, default=1
        The number of states.
    n_mix : int, default=1
        The number of Gaussians of each state.
    min_covar : float, default=1e-3
        Added to the variances of the start, and to covariances that come out not positive
        definite.
    startprob_prior, transmat_prior : float or array-like, default=1.0
        Dirichlet priors of ``startprob_`` and of the rows of ``transmat_``; one is none. Priors
        act in :meth:`fit` alone: online, the present model plays their part.
    weights_prior : float or array-like of shape (n_components, n_mix), default=1.0
        Dirichlet prior of the rows of ``weights_``.
    means_prior, means_weight : float or array-like, default=0.0
        Mean and precision of the normal prior of ``means_``.
    covars_prior, covars_weight : float or array-like, optional
        Parameters of the inverse gamma ('spherical', 'diag') or inverse Wishart ('full', 'tied')
        prior of the covariances; by default hmmlearn's.
    algorithm : {'viterbi', 'map'}, default='viterbi'
        How :meth:`decode` and :meth:`predict` choose states.
    covariance_type : {'spherical', 'diag', 'full', 'tied'}, default='diag'
        'tied' is one matrix for all Gaussians of a state.
    random_state : int, RandomState instance or None, default=None
    n_iter : int, default=10
        The most iterations of EM.
    tol : float, default=1e-2
        EM stops when the log-likelihood of all sequences rises by less.
    verbose : bool, default=False
        Whether each iteration is printed to standard error.
    params, init_params : str, default='stmcw'
        What is learned, and what the start decides: any of 's' for ``startprob_``, 't' for
        ``transmat_``, 'm' for ``means_``, 'c' for ``covars_`` and 'w' for ``weights_``.
    implementation : {'log', 'scaling'}, default='log'
        Accepted for hmmlearn's sake: both are the same here, as fast as scaling and as exact as
        logarithms.
    absorbing, learning_rate, batch_size, memory, n_jobs
        As for :class:`~fastem.GaussianHMM`.
    fixed : iterable of str, default=()
        Which of ``"startprob"``, ``"transmat"``, ``"weights"``, ``"means"``, ``"covars"`` learning
        leaves alone.

    Attributes
    ----------
    startprob_ : ndarray of shape (n_components,)
    transmat_ : ndarray of shape (n_components, n_components)
    weights_ : ndarray of shape (n_components, n_mix)
    means_ : ndarray of shape (n_components, n_mix, n_features)
    covars_ : ndarray
        Of shape (n_components, n_mix) if spherical, (n_components, n_mix, n_features) if diag,
        (n_components, n_mix, n_features, n_features) if full, (n_components, n_features,
        n_features) if tied.
    n_features, monitor_, converged_, n_iter_, lower_bounds_, n_steps_
        As for :class:`~fastem.GaussianHMM`.

    Notes
    -----
    As in hmmlearn, a batch step takes the covariances about the means before the step. Each step
    still raises the likelihood, and ends where the exact one does.
    """

    _parameter_constraints = {  # noqa: RUF012
        **BaseHMM._parameter_constraints,
        "n_mix": [Interval(Integral, 1, None, closed="left")],
        "covariance_type": [StrOptions({"full", "tied", "diag", "spherical"})],
        "min_covar": [Interval(Real, 0.0, None, closed="left")],
        "weights_prior": [Real, "array-like"],
        "means_prior": [Real, "array-like"],
        "means_weight": [Real, "array-like"],
        "covars_prior": [Real, "array-like", None],
        "covars_weight": [Real, "array-like", None],
    }
    _letters = {  # noqa: RUF012
        "startprob": "s", "transmat": "t", "weights": "w", "means": "m", "covars": "c"
    }  # fmt: skip
    _family_names = {"covars": "covariances"}  # noqa: RUF012

    def __init__(
        self,
        n_components=1,
        n_mix=1,
        min_covar=1e-3,
        startprob_prior=1.0,
        transmat_prior=1.0,
        weights_prior=1.0,
        means_prior=0.0,
        means_weight=0.0,
        covars_prior=None,
        covars_weight=None,
        algorithm="viterbi",
        covariance_type="diag",
        random_state=None,
        n_iter=10,
        tol=1e-2,
        verbose=False,
        params="stmcw",
        init_params="stmcw",
        implementation="log",
        *,
        absorbing=None,
        learning_rate=DEFAULT_RATE,
        batch_size=None,
        memory="model",
        fixed=(),
        n_jobs=None,
    ):
        super().__init__(
            n_components, startprob_prior, transmat_prior, algorithm, random_state, n_iter, tol,
            verbose, params, init_params, implementation, absorbing=absorbing,
            learning_rate=learning_rate, batch_size=batch_size, memory=memory, fixed=fixed,
            n_jobs=n_jobs,
        )  # fmt: skip
        self.n_mix = n_mix
        self.min_covar = min_covar
        self.weights_prior = weights_prior
        self.means_prior = means_prior
        self.means_weight = means_weight
        self.covars_prior = covars_prior
        self.covars_weight = covars_weight
        self.covariance_type = covariance_type

    def _family(self):
        return MixtureOf(Gaussian(self.covariance_type, 0.0), self.n_mix)

    @property
    def n_features(self) -> int:
        """The number of columns."""
        if not hasattr(self, "means_"):
            return self.n_features_in_
        return self._n_columns({"means": self._emission("means")})

    @n_features.setter
    def n_features(self, n_features):
        self.n_features_in_ = int(n_features)

    def _n_columns(self, emissions):
        means = emissions["means"]
        if means.ndim != 3:
            raise ValueError(f"means_ must have three dimensions; got the shape {means.shape}.")
        return means.shape[2]

    def _emission_shapes(self, n_columns):
        parts = (self.n_components, self.n_mix)
        return {
            "weights": parts,
            "means": (*parts, n_columns),
            "covars": {
                "spherical": parts,
                "diag": (*parts, n_columns),
                "full": (*parts, n_columns, n_columns),
                "tied": (self.n_components, n_columns, n_columns),
            }[self.covariance_type],
        }

    def _n_emission_parameters(self, n_columns):
        n_parts, matrix = self.n_components * self.n_mix, n_columns * (n_columns + 1) // 2
        return {
            "weights": self.n_components * (self.n_mix - 1),
            "means": n_parts * n_columns,
            "covars": {
                "spherical": n_parts,
                "diag": n_parts * n_columns,
                "full": n_parts * matrix,
                "tied": self.n_components * matrix,
            }[self.covariance_type],
        }

    # The start -------------------------------------------------------------------------------

    def _start_emissions(self, data, wanted, n_columns):
        n_states, n_mix = self.n_components, self.n_mix
        random_state = check_random_state(self.random_state)
        started = {}
        matrix = None
        if "means" in wanted or "covars" in wanted:
            rows = complete_rows(data, random_state)
            matrix = covariance(rows) + self.min_covar * np.eye(n_columns)
        if "weights" in wanted:
            started["weights"] = np.full((n_states, n_mix), 1.0 / n_mix)
        if "means" in wanted:
            started["means"] = self._start_means(data, random_state, matrix)
        if "covars" in wanted:
            shape = self._emission_shapes(n_columns)["covars"]
            kind = self.covariance_type
            if kind == "spherical":
                # As in hmmlearn, the mean of all entries, unless that is no variance.
                mean = matrix.mean()
                value = mean if mean > 0 else np.trace(matrix) / n_columns
            else:
                value = np.diag(matrix) if kind == "diag" else matrix
            started["covars"] = np.broadcast_to(value, shape).copy()
        return started

    def _start_means(self, data, random_state, matrix):
        """The centers of the clusters of each state's rows."""
        n_mix, seed = self.n_mix, self.random_state
        found = clusters(data, self.n_components, random_state, seed, self._absorbing())
        middle = found.centers.mean(axis=0)
        means = []
        for state in range(self.n_components):
            mine = found.labels == state
            if mine.sum() >= n_mix:
                weights = None if found.sample_weight is None else found.sample_weight[mine]
                within = kmeans(
                    found.X[mine], n_mix, n_init=10, random_state=seed, sample_weight=weights
                )
                means.append(np.asarray(within.cluster_centers_, dtype=float))
            else:
                means.append(random_state.multivariate_normal(middle, matrix, size=n_mix))
        return np.stack(means)

    # Learning --------------------------------------------------------------------------------

    def _step_emissions(self, model, statistics, n_sequences):
        counts = statistics["counts"] * n_sequences
        moments = statistics["moments"] * n_sequences
        old = model.parameters
        means = old["means"]
        if "means" not in model.fixed:
            means = mixture_means(moments, self.means_prior, self.means_weight, means)
        new = {"weights": mixture_weights(counts, self.weights_prior, old["weights"]),
               "means": means}  # fmt: skip
        if "covariances" not in model.fixed:
            new["covariances"] = mixture_covariances(
                moments, means, old["means"], self.covariance_type, self.means_prior,
                self.means_weight, self.covars_prior, self.covars_weight, old["covariances"],
                self.min_covar,
            )  # fmt: skip
        return new

    def _emit(self, random_state):
        n_columns, kind = self.n_features, self.covariance_type
        draws = [
            normal_draws(means, as_matrices(covars, kind, self.n_mix, n_columns), random_state)
            for means, covars in zip(self._emission("means"), self._emission("covars"), strict=True)
        ]
        weights = self._emission("weights")

        def draw(state):
            return draws[state](random_state.choice(self.n_mix, p=weights[state]))

        return draw
