"""The hidden Markov estimators: hmmlearn's classes, fast, online and mergeable, and ``HMM``."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np

from ..data.sequences import Sequences, is_sequence_stream
from ..families import Family
from ..learning_rate import DEFAULT_RATE
from ..sklearn_compat import Interval, StrOptions
from . import emissions, hooks
from .base import BaseHMM
from .covariances import as_matrices, of_kind
from .custom import overridden_hooks
from .exchange import Exchange

__all__ = ["GMMHMM", "HMM", "CategoricalHMM", "GaussianHMM", "MultinomialHMM", "PoissonHMM"]

_OF_GAUSSIANS = {
    "covariance_type": [StrOptions({"full", "tied", "diag", "spherical"})],
    "min_covar": [Interval(Real, 0.0, None, closed="left")],
    "means_prior": [Real, "array-like"],
    "means_weight": [Real, "array-like"],
    "covars_prior": [Real, "array-like"],
    "covars_weight": [Real, "array-like"],
}


class GaussianHMM(hooks.GaussianHooks, Exchange, BaseHMM):
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
        Added to the initial variances, and to covariances that come out not positive
        definite.
    startprob_prior : float or array-like of shape (n_components,), default=1.0
        Dirichlet prior of ``startprob_``; 1 means no prior. Priors act in :meth:`fit` alone:
        online, the present model plays their part.
    transmat_prior : float or array-like of shape (n_components, n_components), default=1.0
        Dirichlet prior of the rows of ``transmat_``.
    means_prior : float or array-like, default=0
        Mean of the normal prior of ``means_``.
    means_weight : float or array-like, default=0
        Precision of the normal prior of ``means_``, in rows that it counts for; 0 means no prior.
    covars_prior : float or array-like, default=1e-2
        Scale of the inverse gamma ('spherical', 'diag') or inverse Wishart ('full', 'tied') prior
        of the covariances. As in hmmlearn, a number is added to every entry of a matrix.
    covars_weight : float, default=1
        Shape of that prior, for the inverse Wishart its degrees of freedom.
    algorithm : {'viterbi', 'map'}, default='viterbi'
        How :meth:`decode` and :meth:`predict` choose states.
    random_state : int, RandomState instance or None, default=None
        The random numbers of the initialization and of :meth:`sample`. With an int, every call
        draws the same ones.
    n_iter : int, default=10
        The most iterations of EM.
    tol : float, default=1e-2
        EM stops when the log-likelihood of all sequences rises by less.
    verbose : int or bool, default=False
        How progress is shown: 0 not at all; 1 by a bar with the log-likelihood, on a terminal; 2 by
        a line for each iteration. Without a terminal, lines go to the logger ``fastem`` (INFO), or
        to standard error if logging is not configured. No number depends on it.
    params : str, default='stmc'
        What is learned: any of 's' for ``startprob_``, 't' for ``transmat_``, 'm' for ``means_``
        and 'c' for ``covars_``.
    init_params : str, default='stmc'
        What ``fit`` initializes, by the same letters; the rest starts from the attributes if they
        are set.
    implementation : {'log', 'scaling'}, default='log'
        Accepted for compatibility with hmmlearn. Both are the same here: as fast as scaling, and
        as exact as logarithms.
    absorbing : list of int, optional
        States in which a sequence ends: the step that enters one emits, and is the last.
    learning_rate : 'auto', float, callable or Decay, default='auto'
        The rate of online learning. ``'auto'`` counts observations: it goes on from those behind
        the model, and how data are cut into batches hardly matters. A number η, or a function of
        the step 1, 2, ..., is the rate of a whole batch; a smaller one takes its share of it.
    batch_size : int or None, default=None
        Sequences of a mini-batch in ``partial_fit``. None: 100 at most in a call or a stream with
        the automatic rate; with a rate of your own, the sequences of a call are one batch.
    memory : {'model', 'statistics'}, default='model'
        What online learning remembers: the model alone, or running statistics (Cappé, Moulines).
    forgetting : float or None, default=None
        For streams that drift, with ``learning_rate='auto'``: a half-life in observations. Steps do
        not fall below ``1 - 2^(-1/forgetting)``; None: they go on falling.
    average_from : float, 'auto' or None, default=None
        Whether the model shown is the average over time (Polyak, Ruppert) of those that online
        learning goes through: of those after this number of observations, or, with 'auto', of all,
        the later the more. Learning itself goes on from the last one.
    callback : callable or None, default=None
        Called after each iteration of ``fit``, and after each call or part of a stream that
        ``partial_fit`` learns from, with a :class:`fastem.monitoring.Report`. If it returns True,
        learning ends.
    drift_alarm : float or None, default=None
        The probability of a false alarm with which ``partial_fit`` tests whether the progressive
        log-likelihood has fallen; ``drift_`` is what it found. None: no test.
    fixed : iterable of str, default=()
        Which of ``"startprob"``, ``"transmat"``, ``"means"``, ``"covars"`` learning leaves alone.
    n_jobs : int or None, default=None
        Threads; None: as many as there are cores, one inside a worker. The result does not depend
        on it.
    solver : {'em', 'incremental'}, default='em'
        How ``fit`` maximizes the likelihood: by batch EM, one step for each pass over the data, or
        by incremental EM, one step for each block of them. See :doc:`/incremental`.
    n_blocks : int or None, default=None
        The number of blocks of incremental EM; None: 10, or fewer for few data.

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
        The log-likelihood at each iteration, or its bound with ``solver="incremental"``.
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

    _parameter_constraints = BaseHMM._parameter_constraints | _OF_GAUSSIANS

    def __init__(
        self, n_components=1, covariance_type="diag", min_covar=1e-3, startprob_prior=1.0,
        transmat_prior=1.0, means_prior=0, means_weight=0, covars_prior=1e-2, covars_weight=1,
        algorithm="viterbi", random_state=None, n_iter=10, tol=1e-2, verbose=False, params="stmc",
        init_params="stmc", implementation="log", *, absorbing=None, learning_rate=DEFAULT_RATE,
        batch_size=None, memory="model", fixed=(), n_jobs=None,
        forgetting=None, average_from=None, callback=None,
        drift_alarm=None, solver="em", n_blocks=None,
    ):  # fmt: skip
        super().__init__(
            n_components, startprob_prior, transmat_prior, algorithm, random_state, n_iter, tol,
            verbose, params, init_params, implementation, absorbing=absorbing,
            learning_rate=learning_rate, batch_size=batch_size, memory=memory, fixed=fixed,
            forgetting=forgetting, average_from=average_from, callback=callback,
            drift_alarm=drift_alarm,
            n_jobs=n_jobs, solver=solver, n_blocks=n_blocks,
        )  # fmt: skip
        self.covariance_type = covariance_type
        self.min_covar = min_covar
        self.means_prior = means_prior
        self.means_weight = means_weight
        self.covars_prior = covars_prior
        self.covars_weight = covars_weight

    def _emissions(self):
        return emissions.GaussianEmissions(
            self.n_components, self.covariance_type, self.min_covar, self.means_prior,
            self.means_weight, self.covars_prior, self.covars_weight,
        )  # fmt: skip

    @property
    def covars_(self) -> np.ndarray:
        """The covariance matrix of each state."""
        return as_matrices(self._covars_, self.covariance_type, self.n_components, self.n_features)

    @covars_.setter
    def covars_(self, covars):
        covars = of_kind(covars, self.covariance_type, self.n_components)
        is_spherical = self.covariance_type == "spherical"
        n_columns = 1 if is_spherical else covars.shape[-1]
        if hasattr(self, "means_"):
            n_columns = self.n_features
        # The family raises an error if these are not covariances.
        if is_spherical or covars.shape[-1:] == (n_columns,):
            means = np.zeros((self.n_components, n_columns))
            self._emissions().family.pack({"means": means, "covariances": covars})
        self._covars_ = covars


class GMMHMM(hooks.MixtureHooks, Exchange, BaseHMM):
    """A hidden Markov model whose states emit from Gaussian mixtures, as hmmlearn's class.

    Parameters
    ----------
    n_components : int, default=1
        The number of states.
    n_mix : int, default=1
        The number of Gaussians of each state.
    min_covar : float, default=1e-3
        Added to the initial variances, and to covariances that come out not positive
        definite.
    startprob_prior : float or array-like of shape (n_components,), default=1.0
        Dirichlet prior of ``startprob_``; 1 means no prior. Priors act in :meth:`fit` alone:
        online, the present model plays their part.
    transmat_prior : float or array-like of shape (n_components, n_components), default=1.0
        Dirichlet prior of the rows of ``transmat_``; 1 means no prior.
    weights_prior : float or array-like of shape (n_components, n_mix), default=1.0
        Dirichlet prior of the rows of ``weights_``.
    means_prior : float or array-like, default=0.0
        Mean of the normal prior of ``means_``.
    means_weight : float or array-like, default=0.0
        Precision of the normal prior of ``means_``, in rows that it counts for; 0 means no prior.
    covars_prior : float or array-like, optional
        Scale of the inverse gamma ('spherical', 'diag') or inverse Wishart ('full', 'tied') prior
        of the covariances; by default hmmlearn's.
    covars_weight : float or array-like, optional
        Shape of that prior, for the inverse Wishart its degrees of freedom; by default hmmlearn's.
    covariance_type : {'spherical', 'diag', 'full', 'tied'}, default='diag'
        'tied' is one matrix for all Gaussians of a state.
    params : str, default='stmcw'
        What is learned: any of 's' for ``startprob_``, 't' for ``transmat_``, 'm' for ``means_``,
        'c' for ``covars_`` and 'w' for ``weights_``.
    init_params : str, default='stmcw'
        What ``fit`` initializes, by the same letters; the rest starts from the attributes if they
        are set.
    algorithm : {'viterbi', 'map'}, default='viterbi'
        How :meth:`decode` and :meth:`predict` choose states: the likeliest path, or the likeliest
        state of each step.
    random_state : int, RandomState instance or None, default=None
        The random numbers of the initialization and of :meth:`sample`. With an int, every call
        draws the same ones.
    n_iter : int, default=10
        The most iterations of EM.
    tol : float, default=0.01
        EM stops when the log-likelihood of all sequences rises by less.
    verbose : int or bool, default=False
        How progress is shown: 0 not at all; 1 by a bar with the log-likelihood, on a terminal; 2 by
        a line for each iteration. Without a terminal, lines go to the logger ``fastem`` (INFO), or
        to standard error if logging is not configured. No number depends on it.
    implementation : {'log', 'scaling'}, default='log'
        Accepted for compatibility with hmmlearn. Both are the same here: as fast as scaling, and as
        exact as logarithms.
    absorbing : list of int, optional
        States in which a sequence ends: the step that enters one emits, and is the last.
    learning_rate : 'auto', float, callable or Decay, default='auto'
        The rate of online learning. ``'auto'`` counts the observations that the model has learned
        from, and how data are cut into batches hardly matters. A number η, or a function of the
        step 1, 2, ..., is the rate of a whole batch; it is reduced in proportion for a smaller one.
    batch_size : int or None, default=None
        Sequences of a mini-batch in ``partial_fit``. None: 100 at most in a call or a stream with
        the automatic rate; with a rate of your own, the sequences of a call are one batch.
    memory : {'model', 'statistics'}, default='model'
        What online learning remembers: the model alone, or running statistics (Cappé, Moulines).
    forgetting : float or None, default=None
        For streams that drift, with ``learning_rate='auto'``: a half-life in observations. Steps do
        not fall below ``1 - 2^(-1/forgetting)``; None: they go on falling.
    average_from : float, 'auto' or None, default=None
        Whether the model shown is the average over time (Polyak, Ruppert) of those that online
        learning goes through: of those after this number of observations, or, with 'auto', of all,
        the later the more. Learning itself goes on from the last one.
    callback : callable or None, default=None
        Called after each iteration of ``fit``, and after each call or part of a stream that
        ``partial_fit`` learns from, with a :class:`fastem.monitoring.Report`. If it returns True,
        learning ends.
    drift_alarm : float or None, default=None
        The probability of a false alarm with which ``partial_fit`` tests whether the progressive
        log-likelihood has fallen; ``drift_`` is what it found. None: no test.
    n_jobs : int or None, default=None
        Threads; None: as many as there are cores, one inside a worker. The result does not depend
        on it.
    solver : {'em', 'incremental'}, default='em'
        How ``fit`` maximizes the likelihood: by batch EM, one step for each pass over the data, or
        by incremental EM, one step for each block of them. See :doc:`/incremental`.
    n_blocks : int or None, default=None
        The number of blocks of incremental EM; None: 10, or fewer for few data.
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

    Examples
    --------
    A state whose rows are near 0 or near 10, and one whose rows are near 50:

    >>> import numpy as np
    >>> import fastem
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat([0.0, 50.0, 0.0], 100) + rng.normal(size=300)
    >>> X[:100] += 10.0 * rng.integers(2, size=100)
    >>> X[200:] += 10.0 * rng.integers(2, size=100)
    >>> model = fastem.GMMHMM(2, n_mix=2, random_state=0, n_iter=50).fit(X[:, None])
    >>> path = model.predict(X[:, None])
    >>> [bool((part == path[0]).all()) for part in (path[:100], path[100:200], path[200:])]
    [True, False, True]
    """

    _parameter_constraints = {  # noqa: RUF012
        **BaseHMM._parameter_constraints,
        **_OF_GAUSSIANS,
        "n_mix": [Interval(Integral, 1, None, closed="left")],
        "weights_prior": [Real, "array-like"],
        "covars_prior": [Real, "array-like", None],
        "covars_weight": [Real, "array-like", None],
    }

    def __init__(
        self, n_components=1, n_mix=1, min_covar=1e-3, startprob_prior=1.0, transmat_prior=1.0,
        weights_prior=1.0, means_prior=0.0, means_weight=0.0, covars_prior=None,
        covars_weight=None, algorithm="viterbi", covariance_type="diag", random_state=None,
        n_iter=10, tol=1e-2, verbose=False, params="stmcw", init_params="stmcw",
        implementation="log", *, absorbing=None, learning_rate=DEFAULT_RATE, batch_size=None,
        memory="model", fixed=(), n_jobs=None,
        forgetting=None, average_from=None, callback=None,
        drift_alarm=None, solver="em", n_blocks=None,
    ):  # fmt: skip
        super().__init__(
            n_components, startprob_prior, transmat_prior, algorithm, random_state, n_iter, tol,
            verbose, params, init_params, implementation, absorbing=absorbing,
            learning_rate=learning_rate, batch_size=batch_size, memory=memory, fixed=fixed,
            forgetting=forgetting, average_from=average_from, callback=callback,
            drift_alarm=drift_alarm,
            n_jobs=n_jobs, solver=solver, n_blocks=n_blocks,
        )  # fmt: skip
        self.n_mix = n_mix
        self.min_covar = min_covar
        self.weights_prior = weights_prior
        self.means_prior = means_prior
        self.means_weight = means_weight
        self.covars_prior = covars_prior
        self.covars_weight = covars_weight
        self.covariance_type = covariance_type

    def _emissions(self):
        return emissions.GaussianMixtureEmissions(
            self.n_components, self.covariance_type, self.min_covar, self.means_prior,
            self.means_weight, self.covars_prior, self.covars_weight, self.n_mix,
            self.weights_prior,
        )  # fmt: skip


class PoissonHMM(hooks.PoissonHooks, Exchange, BaseHMM):
    """A hidden Markov model with Poisson emissions, with the interface of hmmlearn's class.

    Parameters
    ----------
    n_components : int, default=1
        The number of states.
    startprob_prior : float or array-like of shape (n_components,), default=1.0
        Dirichlet prior of ``startprob_``; 1 means no prior. Priors act in :meth:`fit` alone:
        online, the present model plays their part.
    transmat_prior : float or array-like of shape (n_components, n_components), default=1.0
        Dirichlet prior of the rows of ``transmat_``; 1 means no prior.
    lambdas_prior : float or array-like, default=0.0
        The parameter α of the gamma prior of the rates. A batch step gives ``(α + n ȳ) / (β + n)``,
        with ȳ the mean of the state and, as in hmmlearn, n the number of steps of all states.
    lambdas_weight : float or array-like, default=0.0
        The parameter β of that prior.
    params : str, default='stl'
        What is learned: any of 's' for ``startprob_``, 't' for ``transmat_`` and 'l' for
        ``lambdas_``.
    init_params : str, default='stl'
        What ``fit`` initializes, by the same letters; the rest starts from the attributes if they
        are set.
    algorithm : {'viterbi', 'map'}, default='viterbi'
        How :meth:`decode` and :meth:`predict` choose states: the likeliest path, or the likeliest
        state of each step.
    random_state : int, RandomState instance or None, default=None
        The random numbers of the initialization and of :meth:`sample`. With an int, every call
        draws the same ones.
    n_iter : int, default=10
        The most iterations of EM.
    tol : float, default=0.01
        EM stops when the log-likelihood of all sequences rises by less.
    verbose : int or bool, default=False
        How progress is shown: 0 not at all; 1 by a bar with the log-likelihood, on a terminal; 2 by
        a line for each iteration. Without a terminal, lines go to the logger ``fastem`` (INFO), or
        to standard error if logging is not configured. No number depends on it.
    implementation : {'log', 'scaling'}, default='log'
        Accepted for compatibility with hmmlearn. Both are the same here: as fast as scaling, and as
        exact as logarithms.
    absorbing : list of int, optional
        States in which a sequence ends: the step that enters one emits, and is the last.
    learning_rate : 'auto', float, callable or Decay, default='auto'
        The rate of online learning. ``'auto'`` counts the observations that the model has learned
        from, and how data are cut into batches hardly matters. A number η, or a function of the
        step 1, 2, ..., is the rate of a whole batch; it is reduced in proportion for a smaller one.
    batch_size : int or None, default=None
        Sequences of a mini-batch in ``partial_fit``. None: 100 at most in a call or a stream with
        the automatic rate; with a rate of your own, the sequences of a call are one batch.
    memory : {'model', 'statistics'}, default='model'
        What online learning remembers: the model alone, or running statistics (Cappé, Moulines).
    forgetting : float or None, default=None
        For streams that drift, with ``learning_rate='auto'``: a half-life in observations. Steps do
        not fall below ``1 - 2^(-1/forgetting)``; None: they go on falling.
    average_from : float, 'auto' or None, default=None
        Whether the model shown is the average over time (Polyak, Ruppert) of those that online
        learning goes through: of those after this number of observations, or, with 'auto', of all,
        the later the more. Learning itself goes on from the last one.
    callback : callable or None, default=None
        Called after each iteration of ``fit``, and after each call or part of a stream that
        ``partial_fit`` learns from, with a :class:`fastem.monitoring.Report`. If it returns True,
        learning ends.
    drift_alarm : float or None, default=None
        The probability of a false alarm with which ``partial_fit`` tests whether the progressive
        log-likelihood has fallen; ``drift_`` is what it found. None: no test.
    n_jobs : int or None, default=None
        Threads; None: as many as there are cores, one inside a worker. The result does not depend
        on it.
    solver : {'em', 'incremental'}, default='em'
        How ``fit`` maximizes the likelihood: by batch EM, one step for each pass over the data, or
        by incremental EM, one step for each block of them. See :doc:`/incremental`.
    n_blocks : int or None, default=None
        The number of blocks of incremental EM; None: 10, or fewer for few data.
    fixed : iterable of str, default=()
        Which of ``"startprob"``, ``"transmat"``, ``"lambdas"`` learning leaves alone.

    Attributes
    ----------
    startprob_ : ndarray of shape (n_components,)
    transmat_ : ndarray of shape (n_components, n_components)
    lambdas_ : ndarray of shape (n_components, n_features)
        The rates.
    n_features, monitor_, converged_, n_iter_, lower_bounds_, n_steps_
        As for :class:`~fastem.GaussianHMM`.

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> counts = np.random.default_rng(0).poisson(np.repeat([2.0, 30.0], 60)).reshape(-1, 1)
    >>> model = fastem.PoissonHMM(2, random_state=3, n_iter=50).fit(counts)
    >>> np.sort(model.lambdas_.ravel()).round()
    array([ 2., 31.])
    """

    _parameter_constraints = {  # noqa: RUF012
        **BaseHMM._parameter_constraints,
        "lambdas_prior": [Real, "array-like"],
        "lambdas_weight": [Real, "array-like"],
    }

    def __init__(
        self, n_components=1, startprob_prior=1.0, transmat_prior=1.0, lambdas_prior=0.0,
        lambdas_weight=0.0, algorithm="viterbi", random_state=None, n_iter=10, tol=1e-2,
        verbose=False, params="stl", init_params="stl", implementation="log", *, absorbing=None,
        learning_rate=DEFAULT_RATE, batch_size=None, memory="model", fixed=(), n_jobs=None,
        forgetting=None, average_from=None, callback=None,
        drift_alarm=None, solver="em", n_blocks=None,
    ):  # fmt: skip
        super().__init__(
            n_components, startprob_prior, transmat_prior, algorithm, random_state, n_iter, tol,
            verbose, params, init_params, implementation, absorbing=absorbing,
            learning_rate=learning_rate, batch_size=batch_size, memory=memory, fixed=fixed,
            forgetting=forgetting, average_from=average_from, callback=callback,
            drift_alarm=drift_alarm,
            n_jobs=n_jobs, solver=solver, n_blocks=n_blocks,
        )  # fmt: skip
        self.lambdas_prior = lambdas_prior
        self.lambdas_weight = lambdas_weight

    def _emissions(self):
        return emissions.PoissonEmissions(
            self.n_components, self.lambdas_prior, self.lambdas_weight
        )


class CategoricalHMM(hooks.CategoricalHooks, Exchange, BaseHMM):
    """A hidden Markov model with categorical emissions, with the interface of hmmlearn's class.

    The data have one column, of whole numbers ``0 .. n_features - 1``.

    Parameters
    ----------
    n_components : int, default=1
        The number of states.
    startprob_prior : float or array-like of shape (n_components,), default=1.0
        Dirichlet prior of ``startprob_``; 1 means no prior. Priors act in :meth:`fit` alone:
        online, the present model plays their part.
    transmat_prior : float or array-like of shape (n_components, n_components), default=1.0
        Dirichlet prior of the rows of ``transmat_``; 1 means no prior.
    emissionprob_prior : float or array-like, default=1.0
        Dirichlet prior of the rows of ``emissionprob_``.
    n_features : int, optional
        The number of symbols; by default one more than the largest of the data. Give it for
        online learning, whose first sequences may lack some.
    params : str, default='ste'
        What is learned: any of 's' for ``startprob_``, 't' for ``transmat_`` and 'e' for
        ``emissionprob_``.
    init_params : str, default='ste'
        What ``fit`` initializes, by the same letters; the rest starts from the attributes if they
        are set.
    algorithm : {'viterbi', 'map'}, default='viterbi'
        How :meth:`decode` and :meth:`predict` choose states: the likeliest path, or the likeliest
        state of each step.
    random_state : int, RandomState instance or None, default=None
        The random numbers of the initialization and of :meth:`sample`. With an int, every call
        draws the same ones.
    n_iter : int, default=10
        The most iterations of EM.
    tol : float, default=0.01
        EM stops when the log-likelihood of all sequences rises by less.
    verbose : int or bool, default=False
        How progress is shown: 0 not at all; 1 by a bar with the log-likelihood, on a terminal; 2 by
        a line for each iteration. Without a terminal, lines go to the logger ``fastem`` (INFO), or
        to standard error if logging is not configured. No number depends on it.
    implementation : {'log', 'scaling'}, default='log'
        Accepted for compatibility with hmmlearn. Both are the same here: as fast as scaling, and as
        exact as logarithms.
    absorbing : list of int, optional
        States in which a sequence ends: the step that enters one emits, and is the last.
    learning_rate : 'auto', float, callable or Decay, default='auto'
        The rate of online learning. ``'auto'`` counts the observations that the model has learned
        from, and how data are cut into batches hardly matters. A number η, or a function of the
        step 1, 2, ..., is the rate of a whole batch; it is reduced in proportion for a smaller one.
    batch_size : int or None, default=None
        Sequences of a mini-batch in ``partial_fit``. None: 100 at most in a call or a stream with
        the automatic rate; with a rate of your own, the sequences of a call are one batch.
    memory : {'model', 'statistics'}, default='model'
        What online learning remembers: the model alone, or running statistics (Cappé, Moulines).
    forgetting : float or None, default=None
        For streams that drift, with ``learning_rate='auto'``: a half-life in observations. Steps do
        not fall below ``1 - 2^(-1/forgetting)``; None: they go on falling.
    average_from : float, 'auto' or None, default=None
        Whether the model shown is the average over time (Polyak, Ruppert) of those that online
        learning goes through: of those after this number of observations, or, with 'auto', of all,
        the later the more. Learning itself goes on from the last one.
    callback : callable or None, default=None
        Called after each iteration of ``fit``, and after each call or part of a stream that
        ``partial_fit`` learns from, with a :class:`fastem.monitoring.Report`. If it returns True,
        learning ends.
    drift_alarm : float or None, default=None
        The probability of a false alarm with which ``partial_fit`` tests whether the progressive
        log-likelihood has fallen; ``drift_`` is what it found. None: no test.
    n_jobs : int or None, default=None
        Threads; None: as many as there are cores, one inside a worker. The result does not depend
        on it.
    solver : {'em', 'incremental'}, default='em'
        How ``fit`` maximizes the likelihood: by batch EM, one step for each pass over the data, or
        by incremental EM, one step for each block of them. See :doc:`/incremental`.
    n_blocks : int or None, default=None
        The number of blocks of incremental EM; None: 10, or fewer for few data.
    fixed : iterable of str, default=()
        Which of ``"startprob"``, ``"transmat"``, ``"emissionprob"`` learning leaves alone.

    Attributes
    ----------
    startprob_ : ndarray of shape (n_components,)
    transmat_ : ndarray of shape (n_components, n_components)
    emissionprob_ : ndarray of shape (n_components, n_features)
    monitor_, converged_, n_iter_, lower_bounds_, n_steps_
        As for :class:`~fastem.GaussianHMM`.

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> symbols = np.repeat([0, 1, 0, 2], 25).reshape(-1, 1)
    >>> model = fastem.CategoricalHMM(2, random_state=1, n_iter=50).fit(symbols)
    >>> model.n_features
    3
    """

    _parameter_constraints = {  # noqa: RUF012
        **BaseHMM._parameter_constraints,
        "emissionprob_prior": [Real, "array-like"],
        "n_features": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self, n_components=1, startprob_prior=1.0, transmat_prior=1.0, *, emissionprob_prior=1.0,
        n_features=None, algorithm="viterbi", random_state=None, n_iter=10, tol=1e-2,
        verbose=False, params="ste", init_params="ste", implementation="log", absorbing=None,
        learning_rate=DEFAULT_RATE, batch_size=None, memory="model", fixed=(), n_jobs=None,
        forgetting=None, average_from=None, callback=None,
        drift_alarm=None, solver="em", n_blocks=None,
    ):  # fmt: skip
        super().__init__(
            n_components, startprob_prior, transmat_prior, algorithm, random_state, n_iter, tol,
            verbose, params, init_params, implementation, absorbing=absorbing,
            learning_rate=learning_rate, batch_size=batch_size, memory=memory, fixed=fixed,
            forgetting=forgetting, average_from=average_from, callback=callback,
            drift_alarm=drift_alarm,
            n_jobs=n_jobs, solver=solver, n_blocks=n_blocks,
        )  # fmt: skip
        self.emissionprob_prior = emissionprob_prior
        self.n_features = n_features

    def _emissions(self):
        table = getattr(self, "emissionprob_", None)
        n_found = None if table is None else np.shape(np.atleast_2d(table))[1]
        return emissions.CategoricalEmissions(
            self.n_components, self.emissionprob_prior, self._given_features, n_found
        )

    @property
    def n_features(self) -> int | None:
        """The number of symbols: as given, or else as found."""
        return self._emissions().n_symbols

    @n_features.setter
    def n_features(self, n_features):
        self._given_features = n_features

    def _as_read(self, X, lengths):
        # One array of several columns alone: streams and lists of sequences are not hmmlearn's.
        rows = X[0] if isinstance(X, (list, tuple)) and len(X) > 0 else X
        is_array = np.ndim(rows) == (2 if rows is X else 1) and not is_sequence_stream(X)
        if overridden_hooks(self) or isinstance(X, Sequences) or not is_array:
            return X, lengths
        n_columns = np.shape(X if rows is X else rows)[-1]
        if n_columns == 1:
            return X, lengths
        lengths = None if lengths is None else np.asarray(lengths) * n_columns
        return hooks.as_symbols(np.asarray(X)), lengths

    def _one(self, x):
        X = super()._one(x)
        if np.ndim(X) == 2 and np.shape(X)[1] != 1:
            raise ValueError(f"A sequence of symbols has one column; got {np.shape(X)[1]}.")
        return X

    def get_params(self, deep=True):
        """The settings as they were given, without a number of symbols found from the data."""
        return {**super().get_params(deep), "n_features": self._given_features}


class MultinomialHMM(hooks.MultinomialHooks, Exchange, BaseHMM):
    """A hidden Markov model with multinomial emissions, with the interface of hmmlearn's class.

    A row holds the counts of ``n_features`` outcomes in so many trials.

    Parameters
    ----------
    n_components : int, default=1
        The number of states.
    n_trials : int or array-like of int, optional
        The number of trials of every row, or of each. If given, the rows of the data must sum to
        it. A single number is needed for :meth:`sample`; if none is given, it is that of the
        data, if their rows agree.
    startprob_prior : float or array-like of shape (n_components,), default=1.0
        Dirichlet prior of ``startprob_``; 1 means no prior. Priors act in :meth:`fit` alone:
        online, the present model plays their part.
    transmat_prior : float or array-like of shape (n_components, n_components), default=1.0
        Dirichlet prior of the rows of ``transmat_``; 1 means no prior.
    params : str, default='ste'
        What is learned: any of 's' for ``startprob_``, 't' for ``transmat_`` and 'e' for
        ``emissionprob_``.
    init_params : str, default='ste'
        What ``fit`` initializes, by the same letters; the rest starts from the attributes if they
        are set.
    algorithm : {'viterbi', 'map'}, default='viterbi'
        How :meth:`decode` and :meth:`predict` choose states: the likeliest path, or the likeliest
        state of each step.
    random_state : int, RandomState instance or None, default=None
        The random numbers of the initialization and of :meth:`sample`. With an int, every call
        draws the same ones.
    n_iter : int, default=10
        The most iterations of EM.
    tol : float, default=0.01
        EM stops when the log-likelihood of all sequences rises by less.
    verbose : int or bool, default=False
        How progress is shown: 0 not at all; 1 by a bar with the log-likelihood, on a terminal; 2 by
        a line for each iteration. Without a terminal, lines go to the logger ``fastem`` (INFO), or
        to standard error if logging is not configured. No number depends on it.
    implementation : {'log', 'scaling'}, default='log'
        Accepted for compatibility with hmmlearn. Both are the same here: as fast as scaling, and as
        exact as logarithms.
    absorbing : list of int, optional
        States in which a sequence ends: the step that enters one emits, and is the last.
    learning_rate : 'auto', float, callable or Decay, default='auto'
        The rate of online learning. ``'auto'`` counts the observations that the model has learned
        from, and how data are cut into batches hardly matters. A number η, or a function of the
        step 1, 2, ..., is the rate of a whole batch; it is reduced in proportion for a smaller one.
    batch_size : int or None, default=None
        Sequences of a mini-batch in ``partial_fit``. None: 100 at most in a call or a stream with
        the automatic rate; with a rate of your own, the sequences of a call are one batch.
    memory : {'model', 'statistics'}, default='model'
        What online learning remembers: the model alone, or running statistics (Cappé, Moulines).
    forgetting : float or None, default=None
        For streams that drift, with ``learning_rate='auto'``: a half-life in observations. Steps do
        not fall below ``1 - 2^(-1/forgetting)``; None: they go on falling.
    average_from : float, 'auto' or None, default=None
        Whether the model shown is the average over time (Polyak, Ruppert) of those that online
        learning goes through: of those after this number of observations, or, with 'auto', of all,
        the later the more. Learning itself goes on from the last one.
    callback : callable or None, default=None
        Called after each iteration of ``fit``, and after each call or part of a stream that
        ``partial_fit`` learns from, with a :class:`fastem.monitoring.Report`. If it returns True,
        learning ends.
    drift_alarm : float or None, default=None
        The probability of a false alarm with which ``partial_fit`` tests whether the progressive
        log-likelihood has fallen; ``drift_`` is what it found. None: no test.
    n_jobs : int or None, default=None
        Threads; None: as many as there are cores, one inside a worker. The result does not depend
        on it.
    solver : {'em', 'incremental'}, default='em'
        How ``fit`` maximizes the likelihood: by batch EM, one step for each pass over the data, or
        by incremental EM, one step for each block of them. See :doc:`/incremental`.
    n_blocks : int or None, default=None
        The number of blocks of incremental EM; None: 10, or fewer for few data.
    fixed : iterable of str, default=()
        Which of ``"startprob"``, ``"transmat"``, ``"emissionprob"`` learning leaves alone.

    Attributes
    ----------
    startprob_ : ndarray of shape (n_components,)
    transmat_ : ndarray of shape (n_components, n_components)
    emissionprob_ : ndarray of shape (n_components, n_features)
    n_trials_ : int or None
        The number of trials of every row that was fitted, if they agree.
    n_features, monitor_, converged_, n_iter_, lower_bounds_, n_steps_
        As for :class:`~fastem.GaussianHMM`.

    Examples
    --------
    A die is thrown ten times in each step. From step 400 to 800 it shows mostly sixes:

    >>> import numpy as np
    >>> import fastem
    >>> rng = np.random.default_rng(0)
    >>> fair, loaded = np.full(6, 1 / 6), [0.02, 0.02, 0.02, 0.02, 0.02, 0.9]
    >>> X = np.concatenate([rng.multinomial(10, p, size=400) for p in (fair, loaded, fair)])
    >>> model = fastem.MultinomialHMM(2, random_state=0, n_iter=50).fit(X)
    >>> np.sort(model.emissionprob_[:, 5]).round(2)
    array([0.17, 0.9 ])
    """

    _parameter_constraints = {  # noqa: RUF012
        **BaseHMM._parameter_constraints,
        "n_trials": [Interval(Integral, 0, None, closed="left"), "array-like", None],
    }
    _learned_kinds = {  # noqa: RUF012
        **BaseHMM._learned_kinds,
        "n_trials_": lambda value: value is None or (isinstance(value, Integral) and value >= 0),
    }

    def __init__(
        self, n_components=1, n_trials=None, startprob_prior=1.0, transmat_prior=1.0,
        algorithm="viterbi", random_state=None, n_iter=10, tol=1e-2, verbose=False, params="ste",
        init_params="ste", implementation="log", *, absorbing=None, learning_rate=DEFAULT_RATE,
        batch_size=None, memory="model", fixed=(), n_jobs=None,
        forgetting=None, average_from=None, callback=None,
        drift_alarm=None, solver="em", n_blocks=None,
    ):  # fmt: skip
        super().__init__(
            n_components, startprob_prior, transmat_prior, algorithm, random_state, n_iter, tol,
            verbose, params, init_params, implementation, absorbing=absorbing,
            learning_rate=learning_rate, batch_size=batch_size, memory=memory, fixed=fixed,
            forgetting=forgetting, average_from=average_from, callback=callback,
            drift_alarm=drift_alarm,
            n_jobs=n_jobs, solver=solver, n_blocks=n_blocks,
        )  # fmt: skip
        self.n_trials = n_trials

    def _emissions(self):
        found = getattr(self, "n_trials_", None)
        return emissions.MultinomialEmissions(self.n_components, self.n_trials, found)


class HMM(hooks.FamilyHooks, BaseHMM):
    """A hidden Markov model with emissions of any family.

    Parameters
    ----------
    family : Family or str, default="gaussian"
        An instance from :mod:`fastem.families`, of a subclass of
        :class:`fastem.ExponentialFamily`, or a name such as ``"poisson"``.
    n_components : int, default=1
        The number of states.
    startprob_prior : float or array-like of shape (n_components,), default=1.0
        Dirichlet prior of ``startprob_``; 1 means no prior. Priors act in :meth:`fit` alone:
        online, the present model plays their part.
    transmat_prior : float or array-like of shape (n_components, n_components), default=1.0
        Dirichlet prior of the rows of ``transmat_``; 1 means no prior.
    params : str, default='ste'
        What is learned: any of 's' for ``startprob_``, 't' for ``transmat_`` and 'e' for all
        parameters of the emissions.
    init_params : str, default='ste'
        What ``fit`` initializes, by the same letters; the rest starts from the attributes if they
        are set. The start of the emissions is by k-means, that of the chain even.
    algorithm : {'viterbi', 'map'}, default='viterbi'
        How :meth:`decode` and :meth:`predict` choose states: the likeliest path, or the likeliest
        state of each step.
    random_state : int, RandomState instance or None, default=None
        The random numbers of the initialization and of :meth:`sample`. With an int, every call
        draws the same ones.
    n_iter : int, default=10
        The most iterations of EM.
    tol : float, default=0.01
        EM stops when the log-likelihood of all sequences rises by less.
    verbose : int or bool, default=False
        How progress is shown: 0 not at all; 1 by a bar with the log-likelihood, on a terminal; 2 by
        a line for each iteration. Without a terminal, lines go to the logger ``fastem`` (INFO), or
        to standard error if logging is not configured. No number depends on it.
    implementation : {'log', 'scaling'}, default='log'
        Accepted for compatibility with hmmlearn. Both are the same here: as fast as scaling, and as
        exact as logarithms.
    absorbing : list of int, optional
        States in which a sequence ends: the step that enters one emits, and is the last.
    learning_rate : 'auto', float, callable or Decay, default='auto'
        The rate of online learning. ``'auto'`` counts the observations that the model has learned
        from, and how data are cut into batches hardly matters. A number η, or a function of the
        step 1, 2, ..., is the rate of a whole batch; it is reduced in proportion for a smaller one.
    batch_size : int or None, default=None
        Sequences of a mini-batch in ``partial_fit``. None: 100 at most in a call or a stream with
        the automatic rate; with a rate of your own, the sequences of a call are one batch.
    memory : {'model', 'statistics'}, default='model'
        What online learning remembers: the model alone, or running statistics (Cappé, Moulines).
    forgetting : float or None, default=None
        For streams that drift, with ``learning_rate='auto'``: a half-life in observations. Steps do
        not fall below ``1 - 2^(-1/forgetting)``; None: they go on falling.
    average_from : float, 'auto' or None, default=None
        Whether the model shown is the average over time (Polyak, Ruppert) of those that online
        learning goes through: of those after this number of observations, or, with 'auto', of all,
        the later the more. Learning itself goes on from the last one.
    callback : callable or None, default=None
        Called after each iteration of ``fit``, and after each call or part of a stream that
        ``partial_fit`` learns from, with a :class:`fastem.monitoring.Report`. If it returns True,
        learning ends.
    drift_alarm : float or None, default=None
        The probability of a false alarm with which ``partial_fit`` tests whether the progressive
        log-likelihood has fallen; ``drift_`` is what it found. None: no test.
    n_jobs : int or None, default=None
        Threads; None: as many as there are cores, one inside a worker. The result does not depend
        on it.
    solver : {'em', 'incremental'}, default='em'
        How ``fit`` maximizes the likelihood: by batch EM, one step for each pass over the data, or
        by incremental EM, one step for each block of them. See :doc:`/incremental`.
    n_blocks : int or None, default=None
        The number of blocks of incremental EM; None: 10, or fewer for few data.
    fixed : iterable of str, default=()
        Names of parameters that learning leaves alone: ``"startprob"``, ``"transmat"``, and the
        family's.

    Attributes
    ----------
    startprob_ : ndarray of shape (n_components,)
    transmat_ : ndarray of shape (n_components, n_components)
    n_features, monitor_, converged_, n_iter_, lower_bounds_, n_steps_
        As for :class:`~fastem.GaussianHMM`.

    The family's parameters are attributes too, with an underscore: ``rates_``, ``means_``.

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> waits = np.random.default_rng(0).exponential(np.repeat([1.0, 50.0], 100)).reshape(-1, 1)
    >>> model = fastem.HMM("exponential", 2, random_state=0, n_iter=50).fit(waits)
    >>> model.scales_.shape
    (2, 1)
    """

    _parameter_constraints = {  # noqa: RUF012
        **BaseHMM._parameter_constraints,
        "family": [Family, str],
    }
    #: An even chain leaves it to the emissions to tell the states apart, and ends in fewer poor
    #: maxima than one that is drawn at random.
    _draws_chain = False
    _logs = False

    def __init__(
        self, family="gaussian", n_components=1, startprob_prior=1.0, transmat_prior=1.0,
        algorithm="viterbi", random_state=None, n_iter=10, tol=1e-2, verbose=False, params="ste",
        init_params="ste", implementation="log", *, absorbing=None, learning_rate=DEFAULT_RATE,
        batch_size=None, memory="model", fixed=(), n_jobs=None,
        forgetting=None, average_from=None, callback=None,
        drift_alarm=None, solver="em", n_blocks=None,
    ):  # fmt: skip
        super().__init__(
            n_components, startprob_prior, transmat_prior, algorithm, random_state, n_iter, tol,
            verbose, params, init_params, implementation, absorbing=absorbing,
            learning_rate=learning_rate, batch_size=batch_size, memory=memory, fixed=fixed,
            forgetting=forgetting, average_from=average_from, callback=callback,
            drift_alarm=drift_alarm,
            n_jobs=n_jobs, solver=solver, n_blocks=n_blocks,
        )  # fmt: skip
        self.family = family

    def _emissions(self):
        return emissions.FamilyEmissions(self.n_components, self.family, self.n_jobs)
