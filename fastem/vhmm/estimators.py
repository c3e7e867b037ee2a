"""The variational hidden Markov estimators: hmmlearn's classes, fast, online and mergeable."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_random_state

from ..hmm import emissions
from ..hmm.covariances import initial_covariances
from ..hmm.estimators import CategoricalHMM, GaussianHMM
from ..hmm.initialization import clusters, complete_rows, covariance
from ..learning_rate import DEFAULT_RATE
from ..sklearn_compat import Interval, StrOptions
from .base import _LEAST_COUNT, BaseVariationalHMM
from .posteriors import CategoricalPosterior, GaussianPosterior

__all__ = ["VariationalCategoricalHMM", "VariationalGaussianHMM"]


class VariationalGaussianHMM(BaseVariationalHMM, GaussianHMM):
    """A posterior over Gaussian hidden Markov models, with the interface of hmmlearn's class.

    Start and transitions have Dirichlet distributions, means and precisions Normal-Wishart ones.
    From the same start it gives hmmlearn's numbers, iteration by iteration. Beyond it:
    ``partial_fit``, ``sample_weight``, lists and streams of sequences, and :func:`fastem.combine`,
    which multiplies posteriors.

    Parameters
    ----------
    n_components : int, default=1
        The number of states.
    covariance_type : {'spherical', 'diag', 'full', 'tied'}, default='full'
        One variance for each state, one for each column of each state, a matrix for each state,
        or one matrix for all.
    startprob_prior : float or array-like of shape (n_components,), optional
        Pseudo-counts of the Dirichlet prior of the start; ``1 / n_components`` by default.
    transmat_prior : float or array-like of shape (n_components, n_components), optional
        Pseudo-counts of the transitions; ``1 / n_components`` by default.
    means_prior : float or array-like of shape (n_components, n_features), optional
        The means of the prior; those of the columns by default.
    beta_prior : float or array-like of shape (n_components,), optional
        So many observations the prior of a mean counts as; 1 by default.
    dof_prior : float or array-like of shape (n_components,), optional
        The degrees of freedom of the Wishart prior of the precisions, above ``n_features - 1``; a
        single number if tied. By default the number of columns.
    scale_prior : array-like, optional
        The inverse scale of the Wishart prior, in the shape of ``scale_posterior_``; by default
        0.001 on the diagonal.
    algorithm : {'viterbi', 'map'}, default='viterbi'
        How :meth:`decode` and :meth:`predict` choose states.
    random_state : int, RandomState instance or None, default=None
        The random numbers of the initialization and of :meth:`sample`. With an int, every call
        draws the same ones.
    n_iter : int, default=100
        The most iterations.
    tol : float, default=1e-6
        Learning stops when the bound of all sequences rises by less.
    verbose : int or bool, default=False
        How progress is shown: 0 not at all; 1 by a bar with the log-likelihood, on a terminal; 2 by
        a line for each iteration. Without a terminal, lines go to the logger ``fastem`` (INFO), or
        to standard error if logging is not configured. No number depends on it.
    params : str, default='stmc'
        What is learned: any of 's' for the start, 't' for the transitions, 'm' for ``means`` and
        ``beta``, 'c' for ``dof`` and ``scale``.
    init_params : str, default='stmc'
        What ``fit`` initializes, by the same letters; the rest starts from the attributes if they
        are set.
    implementation : {'log', 'scaling'}, default='log'
        Accepted for compatibility with hmmlearn; both are the same here.
    learning_rate : 'auto', float, callable or Decay, default='auto'
        The rate of online learning, as for :class:`~fastem.GaussianHMM`.
    batch_size : int or None, default=None
        Sequences of a mini-batch in ``partial_fit``, as for :class:`~fastem.GaussianHMM`.
    forgetting : float or None, default=None
        A half-life in sequences, as for :class:`~fastem.GaussianHMM`.
    average_from : float, 'auto' or None, default=None
        Whether the posterior shown is the average over time (Polyak, Ruppert) of those that online
        learning goes through: of those after this number of sequences, or, with 'auto', of all, the
        later the more. Learning itself goes on from the last one.
    total_sequences : float or None, default=None
        The number of sequences that the posterior of ``partial_fit`` stands for: the size of the
        whole data, if batches are parts of them. None: as many as the learning rate remembers.
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
        What ``fit`` runs: a step for all data, or a step after each of ``n_blocks`` blocks of them
        (incremental EM), which needs fewer passes.
    n_blocks : int or None, default=None
        The number of blocks of incremental EM; by default ten, or fewer for few data.

    Attributes
    ----------
    startprob_prior_, startprob_posterior_ : ndarray of shape (n_components,)
    transmat_prior_, transmat_posterior_ : ndarray of shape (n_components, n_components)
    means_prior_, means_posterior_ : ndarray of shape (n_components, n_features)
    beta_prior_, beta_posterior_ : ndarray of shape (n_components,)
    dof_prior_, dof_posterior_ : ndarray of shape (n_components,), or float if tied
    scale_prior_, scale_posterior_ : ndarray
        Of shape (n_components,) if spherical, (n_components, n_features) if diag, (n_components,
        n_features, n_features) if full, (n_features, n_features) if tied.
    startprob_, transmat_, means_, covars_ : ndarray
        The model at the mean of the posterior, which :meth:`score`, :meth:`predict`,
        :meth:`sample` and others use. ``covars_`` are whole matrices, ``scale / dof``.
    evidence_ : float
        The number of sequences behind the posterior; online learning forgets a part of them.
    monitor_ : ConvergenceMonitor
        Its ``history`` has the bound at each iteration.
    lower_bound_ : float
    lower_bounds_ : list of float
        The bound on the logarithm of the evidence, at the last and at each iteration.
    n_features, converged_, n_iter_, n_steps_, n_observations_
        As for :class:`~fastem.GaussianHMM`.

    Notes
    -----
    As in hmmlearn, the bound leaves out ``½ log 2π`` of each number. If ``params`` contains 'c' and
    not 'm', scatter is taken about the means that are held; hmmlearn's update depends on the origin
    there, and may lower the bound.

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (50, 1)), rng.normal(9, 1, (50, 1))])
    >>> model = fastem.VariationalGaussianHMM(2, random_state=0).fit(X)
    >>> np.sort(model.means_posterior_.ravel()).round()
    array([0., 9.])
    """

    _parameter_constraints = {  # noqa: RUF012
        **BaseVariationalHMM._parameter_constraints,
        "covariance_type": [StrOptions({"full", "tied", "diag", "spherical"})],
        "means_prior": [Real, "array-like", None],
        "beta_prior": [Real, "array-like", None],
        "dof_prior": [Real, "array-like", None],
        "scale_prior": [Real, "array-like", None],
    }

    def __init__(
        self, n_components=1, covariance_type="full", startprob_prior=None, transmat_prior=None,
        means_prior=None, beta_prior=None, dof_prior=None, scale_prior=None, algorithm="viterbi",
        random_state=None, n_iter=100, tol=1e-6, verbose=False, params="stmc", init_params="stmc",
        implementation="log", *, learning_rate=DEFAULT_RATE, batch_size=None, forgetting=None,
        average_from=None, total_sequences=None, callback=None, drift_alarm=None, n_jobs=None,
        solver="em", n_blocks=None,
    ):  # fmt: skip
        BaseVariationalHMM.__init__(
            self, n_components, startprob_prior, transmat_prior, algorithm, random_state, n_iter,
            tol, verbose, params, init_params, implementation, learning_rate=learning_rate,
            batch_size=batch_size, forgetting=forgetting, average_from=average_from,
            total_sequences=total_sequences, callback=callback, drift_alarm=drift_alarm,
            n_jobs=n_jobs, solver=solver, n_blocks=n_blocks,
        )  # fmt: skip
        self.covariance_type = covariance_type
        self.means_prior = means_prior
        self.beta_prior = beta_prior
        self.dof_prior = dof_prior
        self.scale_prior = scale_prior

    @property
    def means_(self) -> np.ndarray:
        """The means of the posterior."""
        return self.means_posterior_

    def _emissions(self):
        return emissions.GaussianEmissions(
            self.n_components, self.covariance_type, 1e-3, None, None, None, None
        )

    def _posterior_kind(self):
        return GaussianPosterior(self.covariance_type)

    def _emission_priors(self, shapes, wanted, sample):
        n_columns = shapes["means"][1]
        priors = {}
        if "m" in wanted:
            rows = complete_rows(sample, check_random_state(self.random_state))
            middle = np.average(rows.X, axis=0, weights=rows.sample_weight)
            priors["means"] = self._setting("means_prior", middle, shapes["means"])
            priors["beta"] = self._setting("beta_prior", 1.0, shapes["beta"])
        if "c" in wanted:
            small = 1e-3
            if self.covariance_type in ("full", "tied"):
                small = small * np.eye(n_columns)
            priors["dof"] = self._setting("dof_prior", n_columns, shapes["dof"])
            priors["scale"] = self._setting("scale_prior", small, shapes["scale"])
        return priors

    def _emission_starts(self, priors, wanted, sample, n_rows):
        random_state = check_random_state(self.random_state)
        found = clusters(sample, self.n_components, random_state, self.random_state)
        n_states, n_columns = found.centers.shape
        counts = np.bincount(found.labels, found.sample_weight, minlength=n_states)
        # A sample stands for all rows.
        counts = np.maximum(counts * (n_rows / counts.sum()), _LEAST_COUNT)
        starts = {}
        if "m" in wanted:
            starts |= {"means": found.centers, "beta": counts}
        if "c" in wanted:
            # Clusters of a few rows would not make a Wishart distribution.
            dof = np.maximum(counts.sum() if self.covariance_type == "tied" else counts, n_columns)
            matrix = covariance(complete_rows(sample, random_state)) + 1e-3 * np.eye(n_columns)
            shape = self._posterior_kind().shapes(n_states, n_columns)["scale"]
            scale = initial_covariances(matrix, self.covariance_type, shape)
            times = np.reshape(dof, np.shape(dof) + (1,) * (scale.ndim - np.ndim(dof)))
            starts |= {"dof": np.asarray(dof, dtype=float), "scale": scale * times}
        return starts

    def _n_free(self, model):
        counts = super()._n_free(model)
        n_dof = 1 if self.covariance_type == "tied" else self.n_components
        return counts | {"m": counts["m"] + self.n_components, "c": counts["c"] + n_dof}


class VariationalCategoricalHMM(BaseVariationalHMM, CategoricalHMM):
    """A posterior over categorical hidden Markov models, with the interface of hmmlearn's class.

    Start, transitions and emissions have Dirichlet distributions. The data have one column, of
    whole numbers ``0 .. n_features - 1``.

    Parameters
    ----------
    n_components : int, default=1
        The number of states.
    startprob_prior : float or array-like of shape (n_components,), optional
        Pseudo-counts of the Dirichlet prior of the start; ``1 / n_components`` by default.
    transmat_prior : float or array-like of shape (n_components, n_components), optional
        Pseudo-counts of the Dirichlet priors of the rows of the transitions; ``1 / n_components``
        by default.
    emissionprob_prior : float or array-like of shape (n_components, n_features), optional
        Pseudo-counts of the Dirichlet prior of the emissions; ``1 / n_features`` by default.
    n_features : int, optional
        The number of symbols; by default one more than the largest of the data. Give it for
        online learning, whose first sequences may lack some.
    params : str, default='ste'
        What is learned: any of 's' for the start, 't' for the transitions and 'e' for the
        emissions.
    init_params : str, default='ste'
        What ``fit`` initializes, by the same letters; the rest starts from the attributes if they
        are set.
    algorithm : {'viterbi', 'map'}, default='viterbi'
        How :meth:`decode` and :meth:`predict` choose states: the likeliest path, or the likeliest
        state of each step.
    random_state : int, RandomState instance or None, default=None
        The random numbers of the initialization and of :meth:`sample`. With an int, every call
        draws the same ones.
    n_iter : int, default=100
        The most iterations of ``fit``.
    tol : float, default=1e-06
        ``fit`` stops when the bound on the log-evidence of all sequences rises by less.
    verbose : int or bool, default=False
        How progress is shown: 0 not at all; 1 by a bar with the log-likelihood, on a terminal; 2 by
        a line for each iteration. Without a terminal, lines go to the logger ``fastem`` (INFO), or
        to standard error if logging is not configured. No number depends on it.
    implementation : {'log', 'scaling'}, default='log'
        Accepted for compatibility with hmmlearn. Both are the same here: as fast as scaling, and as
        exact as logarithms.
    learning_rate : 'auto', float, callable or Decay, default='auto'
        The rate of online learning. ``'auto'`` counts the observations that the model has learned
        from, and how data are cut into batches hardly matters. A number η, or a function of the
        step 1, 2, ..., is the rate of a whole batch; it is reduced in proportion for a smaller one.
    batch_size : int or None, default=None
        Sequences of a mini-batch in ``partial_fit``. None: 100 at most in a call or a stream with
        the automatic rate; with a rate of your own, the sequences of a call are one batch.
    forgetting : float or None, default=None
        For streams that drift, with ``learning_rate='auto'``: a half-life in observations. Steps do
        not fall below ``1 - 2^(-1/forgetting)``; None: they go on falling.
    average_from : float, 'auto' or None, default=None
        Whether the posterior shown is the average over time (Polyak, Ruppert) of those that online
        learning goes through: of those after this number of sequences, or, with 'auto', of all, the
        later the more. Learning itself goes on from the last one.
    total_sequences : float or None, default=None
        The number of sequences that the posterior of ``partial_fit`` stands for: the size of the
        whole data, if batches are parts of them. None: as many as the learning rate remembers.
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
        What ``fit`` runs: a step for all data, or a step after each of ``n_blocks`` blocks of them
        (incremental EM), which needs fewer passes.
    n_blocks : int or None, default=None
        The number of blocks of incremental EM; by default ten, or fewer for few data.

    Attributes
    ----------
    startprob_prior_, startprob_posterior_ : ndarray of shape (n_components,)
    transmat_prior_, transmat_posterior_ : ndarray of shape (n_components, n_components)
    emissionprob_prior_, emissionprob_posterior_ : ndarray of shape (n_components, n_features)
    startprob_, transmat_, emissionprob_ : ndarray
        The model at the mean of the posterior, which :meth:`score`, :meth:`predict`,
        :meth:`sample` and others use.
    evidence_, monitor_, lower_bound_, lower_bounds_, converged_, n_iter_, n_steps_
        As for :class:`~fastem.VariationalGaussianHMM`.

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> symbols = np.repeat([0, 1, 0, 2], 25).reshape(-1, 1)
    >>> model = fastem.VariationalCategoricalHMM(3, random_state=1).fit(symbols)
    >>> model.emissionprob_posterior_.sum().round(6)  # one hundred symbols, and the prior's three
    np.float64(103.0)
    """

    _parameter_constraints = {  # noqa: RUF012
        **BaseVariationalHMM._parameter_constraints,
        "emissionprob_prior": [Real, "array-like", None],
        "n_features": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self, n_components=1, startprob_prior=None, transmat_prior=None, emissionprob_prior=None,
        n_features=None, algorithm="viterbi", random_state=None, n_iter=100, tol=1e-6,
        verbose=False, params="ste", init_params="ste", implementation="log", *,
        learning_rate=DEFAULT_RATE, batch_size=None, forgetting=None, average_from=None,
        total_sequences=None, callback=None, drift_alarm=None, n_jobs=None, solver="em",
        n_blocks=None,
    ):  # fmt: skip
        BaseVariationalHMM.__init__(
            self, n_components, startprob_prior, transmat_prior, algorithm, random_state, n_iter,
            tol, verbose, params, init_params, implementation, learning_rate=learning_rate,
            batch_size=batch_size, forgetting=forgetting, average_from=average_from,
            total_sequences=total_sequences, callback=callback, drift_alarm=drift_alarm,
            n_jobs=n_jobs, solver=solver, n_blocks=n_blocks,
        )  # fmt: skip
        self.emissionprob_prior = emissionprob_prior
        self.n_features = n_features

    def _emissions(self):
        table = getattr(self, "emissionprob_posterior_", None)
        n_found = None if table is None else np.shape(np.atleast_2d(table))[-1]
        return emissions.CategoricalEmissions(
            self.n_components, None, self._given_features, n_found
        )

    def _emissions_of(self, model):
        n_symbols = model.posterior["emissionprob"].shape[1]
        return replace(self._emissions(), n_given=None, n_found=n_symbols)

    def _posterior_kind(self):
        return CategoricalPosterior()

    def _width(self, emissions):
        return emissions.n_symbols

    def _fitted_emissions(self, data, wanted):
        made = self._emissions()
        if "emissionprob" in wanted or made.n_given is not None or hasattr(self, "n_iter_"):
            return made.fitted_to(data, wanted)
        # As in hmmlearn, the posterior that was set has the number of symbols of the data.
        found = made.fitted_to(data, ["emissionprob"]).n_symbols
        if found != made.n_symbols:
            raise ValueError(
                f"emissionprob_posterior_ has {made.n_symbols} columns, and the data have "
                f"{found} symbols. If the others do not occur, say n_features={made.n_symbols}."
            )
        return made

    def _emission_priors(self, shapes, wanted, sample):
        shape = shapes["emissionprob"]
        return {"emissionprob": self._setting("emissionprob_prior", 1.0 / shape[1], shape)}

    def _emission_starts(self, priors, wanted, sample, n_rows):
        random_state, rows = check_random_state(self.random_state), priors["emissionprob"]
        if (rows == rows[0]).all():
            drawn = random_state.dirichlet(rows[0], size=len(rows))
        else:
            drawn = np.stack([random_state.dirichlet(row) for row in rows])
        counts = np.where(np.isfinite(drawn), drawn, 1.0 / rows.shape[1]) * n_rows / len(rows)
        return {"emissionprob": np.maximum(counts, _LEAST_COUNT)}
