"""``fastem.GaussianHMM``: hmmlearn's class, fast, online and mergeable."""

from __future__ import annotations

from numbers import Real

import numpy as np
from sklearn.utils import check_random_state

from .. import checks
from ..families import Gaussian
from ..learning_rate import DEFAULT_RATE
from ..sklearn_compat import Interval, StrOptions
from .base import BaseHMM
from .initialization import clusters, complete_rows, covariance
from .priors import gaussian_covariances, gaussian_means

__all__ = ["GaussianHMM"]


class GaussianHMM(BaseHMM):
    """A hidden Markov model with Gaussian emissions, with the interface of hmmlearn's class.

    From the same start it gives hmmlearn's parameters, iteration by iteration. Beyond it:
    ``partial_fit``, ``sample_weight``, absorbing states, missing values, parameters held fixed,
    lists and streams of sequences, and a filter for streams of observations.

    Parameters
    ----------
    n_components : int, default=1
        The number of states.
    covariance_type : {'spherical', 'diag', 'full', 'tied'}, default='diag'
        One variance for each state, one for each column of each state, a matrix for each state,
        or one matrix for all.
    min_covar : float, default=1e-3
        Added to the variances of the start, and to covariances that come out not positive
        definite.
    startprob_prior : float or array-like of shape (n_components,), default=1.0
        Dirichlet prior of ``startprob_``; one is none. Priors act in :meth:`fit` alone: online,
        the present model plays their part.
    transmat_prior : float or array-like of shape (n_components, n_components), default=1.0
        Dirichlet prior of the rows of ``transmat_``.
    means_prior, means_weight : float or array-like, default=0
        Mean and precision of the normal prior of ``means_``.
    covars_prior : float or array-like, default=1e-2
    covars_weight : float, default=1
        Parameters of the inverse gamma ('spherical', 'diag') or inverse Wishart ('full', 'tied')
        prior of the covariances. As in hmmlearn, a number is added to every entry of a matrix.
    algorithm : {'viterbi', 'map'}, default='viterbi'
        How :meth:`decode` and :meth:`predict` choose states.
    random_state : int, RandomState instance or None, default=None
    n_iter : int, default=10
        The most iterations of EM.
    tol : float, default=1e-2
        EM stops when the log-likelihood of all sequences rises by less.
    verbose : bool, default=False
        Whether each iteration is printed to standard error.
    params, init_params : str, default='stmc'
        What is learned, and what the start decides: any of 's' for ``startprob_``, 't' for
        ``transmat_``, 'm' for ``means_`` and 'c' for ``covars_``.
    implementation : {'log', 'scaling'}, default='log'
        Accepted for hmmlearn's sake: both are the same here, as fast as scaling and as exact as
        logarithms.
    absorbing : list of int, optional
        States in which a sequence ends: the step that enters one emits, and is the last.
    learning_rate : 'auto', float, callable or Decay, default='auto'
        The rate of online learning. ``'auto'`` counts observations: it goes on from those behind
        the model, and how data are cut into batches hardly matters. A number η, or a function of
        the step 1, 2, ..., is the rate of a whole batch; a smaller one takes its share of it.
    batch_size : int or None, default=None
        Sequences of a mini-batch in ``partial_fit``; None takes each call's as one batch, and a
        stream in batches of 100.
    memory : {'model', 'statistics'}, default='model'
        What online learning remembers: the model alone, or running statistics (Cappé, Moulines).
    fixed : iterable of str, default=()
        Which of ``"startprob"``, ``"transmat"``, ``"means"``, ``"covars"`` learning leaves alone.
    n_jobs : int or None, default=None
        Threads; None: as many as there are cores, one inside a worker. The result does not depend
        on it.

    Attributes
    ----------
    startprob_ : ndarray of shape (n_components,)
    transmat_ : ndarray of shape (n_components, n_components)
        Zeros stay zero whatever is learned.
    means_ : ndarray of shape (n_components, n_features)
    covars_ : ndarray of shape (n_components, n_features, n_features)
        Always whole matrices; it can be set to those, or to what the ``covariance_type`` needs:
        (n_components,), (n_components, n_features), (n_components, n_features, n_features) or
        (n_features, n_features).
    n_features : int
    monitor_ : ConvergenceMonitor
        Its ``history`` has the log-likelihoods; another can be set before fitting.
    converged_ : bool
        Whether the last iteration of ``fit`` gained less than ``tol``.
    n_iter_ : int
    lower_bounds_ : list of float
        The log-likelihood at each iteration.
    n_steps_ : int or float
        Online steps since the last ``fit``; a batch of a half counts a half.
    n_observations_ : float
        The weight of the observations behind the model, of the last ``fit`` and since.

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (50, 1)), rng.normal(9, 1, (50, 1))])
    >>> model = fastem.GaussianHMM(2, random_state=0, n_iter=20).fit(X)
    >>> np.sort(model.means_.ravel()).round()
    array([0., 9.])
    """

    _parameter_constraints = {  # noqa: RUF012
        **BaseHMM._parameter_constraints,
        "covariance_type": [StrOptions({"full", "tied", "diag", "spherical"})],
        "min_covar": [Interval(Real, 0.0, None, closed="left")],
        "means_prior": [Real, "array-like"],
        "means_weight": [Real, "array-like"],
        "covars_prior": [Real, "array-like"],
        "covars_weight": [Real, "array-like"],
    }
    _letters = {"startprob": "s", "transmat": "t", "means": "m", "covars": "c"}  # noqa: RUF012
    _family_names = {"covars": "covariances"}  # noqa: RUF012

    def __init__(
        self,
        n_components=1,
        covariance_type="diag",
        min_covar=1e-3,
        startprob_prior=1.0,
        transmat_prior=1.0,
        means_prior=0,
        means_weight=0,
        covars_prior=1e-2,
        covars_weight=1,
        algorithm="viterbi",
        random_state=None,
        n_iter=10,
        tol=1e-2,
        verbose=False,
        params="stmc",
        init_params="stmc",
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
        self.covariance_type = covariance_type
        self.min_covar = min_covar
        self.means_prior = means_prior
        self.means_weight = means_weight
        self.covars_prior = covars_prior
        self.covars_weight = covars_weight

    def _family(self):
        return Gaussian(self.covariance_type, 0.0)

    # Attributes ------------------------------------------------------------------------------

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return self._width_of_means() if hasattr(self, "means_") else self.n_features_in_

    @n_features.setter
    def n_features(self, n_features):
        self.n_features_in_ = int(n_features)

    @property
    def covars_(self) -> np.ndarray:
        """The covariance matrix of each state."""
        return as_matrices(self._covars_, self.covariance_type, self.n_components, self.n_features)

    @covars_.setter
    def covars_(self, covars):
        covars = of_kind(covars, self.covariance_type, self.n_components)
        n_columns = self._width_of_means() if hasattr(self, "means_") else (
            1 if self.covariance_type == "spherical" else covars.shape[-1]
        )  # fmt: skip
        # The family says what is wrong with covariances that are none.
        means = np.zeros((self.n_components, n_columns))
        if covars.shape[-1:] == (n_columns,) or self.covariance_type == "spherical":
            self._family().pack({"means": means, "covariances": covars})
        self._covars_ = covars

    def _attribute(self, name):
        return "_covars_" if name == "covars" else f"{name}_"

    def _n_columns(self, emissions):
        means = emissions["means"]
        if means.ndim != 2:
            raise ValueError(f"means_ must have two dimensions; got the shape {means.shape}.")
        return means.shape[1]

    def _width_of_means(self):
        return self._n_columns({"means": self._emission("means")})

    def _emission_shapes(self, n_columns):
        n_states = self.n_components
        return {
            "means": (n_states, n_columns),
            "covars": {
                "full": (n_states, n_columns, n_columns),
                "tied": (n_columns, n_columns),
                "diag": (n_states, n_columns),
                "spherical": (n_states,),
            }[self.covariance_type],
        }

    def _n_emission_parameters(self, n_columns):
        n_states, matrix = self.n_components, n_columns * (n_columns + 1) // 2
        return {
            "means": n_states * n_columns,
            "covars": {
                "spherical": n_states,
                "diag": n_states * n_columns,
                "full": n_states * matrix,
                "tied": matrix,
            }[self.covariance_type],
        }

    # The start -------------------------------------------------------------------------------

    def _start_emissions(self, data, wanted, n_columns):
        random_state = check_random_state(self.random_state)
        started = {}
        if "means" in wanted:
            found = clusters(
                data, self.n_components, random_state, self.random_state, self._absorbing()
            )
            started["means"] = found.centers
        if "covars" in wanted:
            rows = complete_rows(data, random_state)
            matrix = covariance(rows) + self.min_covar * np.eye(n_columns)
            started["covars"] = start_covariances(matrix, self.covariance_type, self.n_components)
        return started

    # Learning --------------------------------------------------------------------------------

    def _step_emissions(self, model, statistics, n_sequences):
        moments = statistics["moments"] * n_sequences
        old = model.parameters
        means = old["means"]
        if "means" not in model.fixed:
            means = gaussian_means(moments, self.means_prior, self.means_weight, means)
        new = {"means": means}
        if "covariances" not in model.fixed:
            new["covariances"] = gaussian_covariances(
                moments, means, self.covariance_type, self.means_prior, self.means_weight,
                self.covars_prior, self.covars_weight, old["covariances"], self.min_covar,
            )  # fmt: skip
        return new

    def _emit(self, random_state):
        return normal_draws(self.means_, self.covars_, random_state)


def as_matrices(covars, kind, n_components, n_columns):
    """Covariances of any kind as matrices (n_components, n_columns, n_columns)."""
    if kind == "full":
        return covars
    if kind == "tied":
        return np.repeat(covars[None], n_components, axis=0)
    columns = covars if kind == "diag" else np.repeat(covars[:, None], n_columns, axis=1)
    return columns[:, :, None] * np.eye(n_columns)


def of_kind(covars, kind, n_components):
    """Covariances in the shape of their kind, from that shape or from whole matrices."""
    covars = np.array(checks.numbers("covars_", covars))
    if covars.size == 0 or (covars.ndim == 3 and covars.shape[1] != covars.shape[2]):
        raise ValueError(
            "covars_ must be covariance matrices, or variances, of every state; got the shape "
            f"{covars.shape}."
        )
    dimensions = {"full": 3, "tied": 2, "diag": 2, "spherical": 1}[kind]
    reduced = covars
    if kind == "spherical" and covars.ndim == 2:
        reduced = covars[:, 0]
        covars = covars[:, :, None] * np.eye(covars.shape[1])
    elif covars.ndim == 3 and kind != "full":
        diagonals = np.einsum("kaa->ka", covars)
        reduced = {"tied": covars[0], "diag": diagonals, "spherical": diagonals[:, 0]}[kind]
    if reduced.ndim != dimensions or (kind != "tied" and len(reduced) != n_components):
        raise ValueError(
            f"covars_ of the type {kind!r} must have {dimensions} dimensions"
            f"{'' if kind == 'tied' else f', the first of length {n_components}'}; got the shape "
            f"{covars.shape}."
        )
    if covars.ndim == 3:
        again = as_matrices(np.copy(reduced), kind, n_components, covars.shape[-1])
        if not np.array_equal(covars, again):
            raise ValueError(f"These covariances are not of the type {kind!r}.")
    return np.copy(reduced)


def start_covariances(matrix, kind, n_components):
    """A covariance matrix for all states, in the shape of the kind."""
    if kind == "tied":
        return matrix
    if kind == "full":
        return np.repeat(matrix[None], n_components, axis=0)
    if kind == "diag":
        return np.repeat(np.diag(matrix)[None], n_components, axis=0)
    # As in hmmlearn, the mean of all entries, unless correlations make that no variance.
    variance = matrix.mean() if matrix.mean() > 0 else np.trace(matrix) / len(matrix)
    return np.full(n_components, variance)


def normal_draws(means, matrices, random_state):
    """A function that draws a row from a state, by the same numbers as ``multivariate_normal``."""
    decomposed = [np.linalg.svd(matrix) for matrix in matrices]
    roots = [np.sqrt(s)[:, None] * v for _, s, v in decomposed]
    n_columns = np.shape(means)[1]

    def draw(state):
        return random_state.standard_normal(n_columns) @ roots[state] + means[state]

    return draw
