"""``fastem.Dirichlet``, points on the simplex, and ``fastem.CompoundDirichlet``, documents."""

from __future__ import annotations

from numbers import Integral
from typing import Literal, Self, overload

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from .. import algebra
from ..data.remote import sample_of
from ..drawing import check_drawable
from ..estimator import RowEstimator, is_count
from ..exceptions import ConvergenceWarning
from ..learning_rate import DEFAULT_RATE, Clock
from ..lengths import Lengths
from ..notices import warn
from ..sklearn_compat import Interval, StrOptions, fit_context
from ..stopping import StoppingRule
from .ascent import Ascent, SmallGradient, SmallGradientOfPasses, ascend, moments_match
from .count_tables import CountTables, as_rows, documents_of
from .model import CompoundDirichletModel, DirichletModel, check_alpha

__all__ = ["CompoundDirichlet", "Dirichlet"]

# How far from one the sum of a row may be.
_ROUNDING = 1e-6
# The α of a word that is never seen, of which the likelihood would have zero.
_NEVER_SEEN = 1e-10


class BaseDirichlet(RowEstimator):
    """Common part of :class:`~fastem.Dirichlet` and :class:`~fastem.CompoundDirichlet`."""

    _parameter_constraints = {  # noqa: RUF012 (scikit-learn's convention)
        "alpha_init": ["array-like", None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        **RowEstimator._online_constraints,
        **RowEstimator._solver_constraints,
    }

    _more_online_settings = ("alpha_init", "random_state")
    #: The kind of model.
    _kind: type

    def __init__(
        self, *, alpha_init=None, random_state=None, learning_rate=DEFAULT_RATE, batch_size=None,
        memory="model", fixed=(), n_jobs=None, forgetting=None, average_from=None, callback=None,
        drift_alarm=None, solver="em", n_blocks=None, verbose=0,
    ):  # fmt: skip
        self.alpha_init = alpha_init
        self.random_state = random_state
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.memory = memory
        self.forgetting = forgetting
        self.average_from = average_from
        self.callback = callback
        self.drift_alarm = drift_alarm
        self.fixed = fixed
        self.n_jobs = n_jobs
        self.solver = solver
        self.n_blocks = n_blocks
        self.verbose = verbose

    # The model -------------------------------------------------------------------------------

    def _set_model(self, model):
        """Show a model's parameters as attributes."""
        # A copy, so that changing an attribute changes nothing that is shared.
        self.alpha_ = np.array(model.alpha)

    def _parameter_attributes(self):
        return ("alpha_",)

    def _model(self):
        """The model that the attributes describe."""
        return self._make_model(self.alpha_)

    def _make_model(self, alpha):
        return self._kind(
            alpha, fixed=self._fixed_names(("alpha",)), n_jobs=self.n_jobs, **self._inertia()
        )

    def _inertia(self):
        """How online learning computes the model's own statistics."""
        return {}

    def _n_columns_of(self, model):
        return model.n_columns

    def _default_alpha(self, data) -> np.ndarray:
        """Where to start unless ``alpha_init`` is given."""
        raise NotImplementedError

    def _initial_models(self, data):
        alpha = self._default_alpha(data)
        if self.alpha_init is not None:
            n_columns, alpha = len(alpha), check_alpha(self.alpha_init)
            if len(alpha) != n_columns:
                raise ValueError(
                    f"alpha_init should have {n_columns} entries, one for each column; got "
                    f"{len(alpha)}."
                )
        return [self._make_model(alpha)]

    def _is_given_start(self):
        return super()._is_given_start() or self.alpha_init is not None

    def _initial_model_online(self, table):
        return self._initial_models(self._prepared(table))[0]

    # Using the model -------------------------------------------------------------------------

    def score_samples(self, X) -> np.ndarray:
        """The log-likelihood of each row."""
        X = self._checked(X)
        return self._model().log_likelihoods(X)

    def _n_parameters(self):
        return np.size(self.alpha_)


class CompoundDirichlet(BaseDirichlet):
    """The compound Dirichlet (Dirichlet-multinomial, Pólya) distribution of counts.

    Each document has a topic ``h`` of its own, a point on the simplex drawn from a Dirichlet of
    parameters ``alpha``, from which its words are drawn. Documents, sequencing reads, clicks.

    Parameters
    ----------
    solver : {'newton', 'em', 'incremental'}, default='newton'
        How ``fit`` maximizes the likelihood: by EM, one step for each pass over the documents or
        for each block of them (:doc:`/incremental`), or by Newton's method on the likelihood
        itself, which takes some ten steps where EM may take thousands. All reach the same optimum.
    tol : float, default=1e-6
        ``fit`` stops when no entry of the gradient of the mean log-likelihood, by ``log alpha``,
        is larger than this, or than its rounding error.
    max_iter : int, default=1000
        The largest number of iterations.
    alpha_init : array-like of shape (n_features,), optional
        Where to start; by default from the moments of the counts.
    random_state : int, RandomState instance or None, default=None
        For ``sample`` and the sampled inertia.
    warm_start : bool, default=False
        Whether ``fit`` continues from the last fit.
    verbose : int or bool, default=0
        How progress is shown: 0 not at all; 1 by a bar with the log-likelihood, on a terminal; 2 by
        a line for each iteration. Without a terminal, lines go to the logger ``fastem`` (INFO), or
        to standard error if logging is not configured. No number depends on it.
    verbose_interval : int, default=10
        With ``verbose=1`` and without a terminal, a line is written for so many iterations.
    learning_rate : 'auto', float, callable or Decay, default='auto'
        The rate of online learning. ``'auto'`` counts the observations that the model has learned
        from, and how data are cut into batches hardly matters. A number η, or a function of the
        step 1, 2, ..., is the rate of a whole batch; it is reduced in proportion for a smaller one.
    batch_size : int or None, default=None
        Rows of a mini-batch in ``partial_fit``. None: 1000 at most in a call or a stream with the
        automatic rate; with a rate of your own, the rows of a call are one batch.
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
    inertia : {'exact', 'sampled'}, default='exact'
        How online learning computes the model's own statistics, if the model is the memory: in
        closed form, or from documents drawn from it, as long as those of the batch.
    n_pseudo : int, default=2000
        The number of those documents.
    fixed : iterable of str, default=()
        ``"alpha"`` to learn nothing.
    n_blocks : int or None, default=None
        The number of blocks of incremental EM; None: 10, or fewer for few documents.

    Attributes
    ----------
    alpha_ : ndarray of shape (n_features,)
    solver_ : str
        The solver that found it; absent if ``partial_fit`` did.
    n_iter_ : int
    converged_ : bool
    lower_bound_ : float
        The mean log-likelihood of the documents.
    lower_bounds_ : list of float
        The same after each iteration; the free energy with ``solver="incremental"``.
    mean_length_ : float
        The mean length of the documents last learned from.
    n_steps_, n_observations_, n_features_in_
        As for :class:`~fastem.GaussianMixture`.

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> rng = np.random.default_rng(0)
    >>> topics = rng.dirichlet([1.0, 2.0, 5.0], size=5000)
    >>> model = fastem.CompoundDirichlet().fit(rng.multinomial(50, topics))
    >>> model.alpha_.round(1)
    array([1., 2., 5.])
    """

    _parameter_constraints = {  # noqa: RUF012
        **BaseDirichlet._parameter_constraints,
        "solver": [StrOptions({"em", "incremental", "newton"})],
        **BaseDirichlet._batch_constraints,
        "inertia": [StrOptions({"exact", "sampled"})],
        "n_pseudo": [Interval(Integral, 1, None, closed="left")],
    }

    _learned_kinds = {  # noqa: RUF012
        **BaseDirichlet._learned_kinds,
        "mean_length_": is_count,
        "solver_": lambda value: value in ("em", "incremental", "newton"),
    }
    _kind = CompoundDirichletModel
    _accept_sparse = "csr"

    def __init__(
        self, *, solver="newton", tol=1e-6, max_iter=1000, alpha_init=None, random_state=None,
        warm_start=False, verbose=0, verbose_interval=10, learning_rate=DEFAULT_RATE,
        batch_size=None, memory="model", inertia="exact", n_pseudo=2000, fixed=(), n_jobs=None,
        forgetting=None, average_from=None, callback=None, drift_alarm=None, n_blocks=None,
    ):  # fmt: skip
        super().__init__(
            alpha_init=alpha_init, random_state=random_state, learning_rate=learning_rate,
            batch_size=batch_size, memory=memory, fixed=fixed, n_jobs=n_jobs, solver=solver,
            forgetting=forgetting, average_from=average_from, callback=callback,
            drift_alarm=drift_alarm, n_blocks=n_blocks, verbose=verbose,
        )  # fmt: skip
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.verbose_interval = verbose_interval
        self.inertia = inertia
        self.n_pseudo = n_pseudo

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags

    # Learning --------------------------------------------------------------------------------

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None) -> Self:
        """Fit to documents. They are read once, and iterations use tables of their counts.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_documents, n_words), or stream of such
            Counts: whole numbers, of any type. A stream is an iterable, or a function that
            returns one; items may be pairs ``(array, weights)``. It is read once, and twice with
            ``solver="incremental"``.
        y : ignored
        sample_weight : array-like of shape (n_documents,), optional
            A document of weight 2 counts as two.

        Returns
        -------
        self
        """
        self._fit(X, sample_weight=sample_weight, once=self.solver != "incremental")
        return self

    def _check_rows(self, X):
        return as_rows(X) if sparse.issparse(X) else X

    def _prepared(self, data):
        if self.solver == "incremental":
            return CountTables.in_blocks(data, self.n_blocks, self.n_jobs)
        return CountTables.of(data, self.n_jobs)

    def _check_fit(self, tables):
        if self._resumes():
            self._check_words(self._model(), tables.n_words)

    @staticmethod
    def _check_words(model, n_words):
        if len(model.alpha) != n_words:
            raise ValueError(
                f"The documents have {n_words} words, and alpha_ has {len(model.alpha)} entries."
            )

    def _default_alpha(self, tables):
        return moments_match(tables)

    def _stopping_rule(self, tables):
        kinds = {"em": SmallGradient, "incremental": SmallGradientOfPasses, "newton": Ascent}
        if len(tables.blocks()) == 1:
            # This is batch EM.
            kinds["incremental"] = SmallGradient
        rule = kinds[self.solver]
        return rule(tables, self.max_iter, self.tol)

    def _run(self, model, tables, rule):
        if not model.fixed:
            alpha, never = model.alpha.copy(), rule.never
            alpha[never] = np.minimum(alpha[never], _NEVER_SEEN * min(1.0, alpha.sum()))
            model = model.with_parameters({"alpha": alpha})
        if self.solver == "newton":
            return algebra.Fitted(ascend(model, rule), None)
        fitted = super()._run(model, tables, rule)
        rule.finish(fitted.model)
        return fitted

    def _warn_of_end(self, rule):
        if not rule.converged and self.max_iter > 0:
            others = "" if self.solver == "newton" else "solver='newton', "
            warn(
                f"The gradient is still {rule.steepest:.2g} after {rule.n_iter} iterations of "
                f"solver={self.solver!r}, more than tol={self.tol}. Try {others}a larger max_iter "
                "or tol.",
                ConvergenceWarning,
            )

    def _set_fitted(self, fitted, rule):
        super()._set_fitted(fitted, rule)
        self.lower_bound_ = rule.level
        self._set_clock(Clock(observations=rule.tables.weight))
        self.mean_length_ = Lengths(*rule.tables.lengths()).mean
        self.solver_ = self.solver

    def _inertia(self):
        if self.inertia == "exact":
            return {}
        # A seed that is given means the same documents every time, yet others at each step.
        seed = check_random_state(self.random_state).randint(2**31)
        n_steps = int(self._clock.steps)
        return {"n_pseudo": self.n_pseudo, "seed": (seed + 7919 * n_steps) % 2**31}

    def _after_learning(self, table):
        lengths = np.asarray(table.X.sum(axis=1)).ravel()
        self.mean_length_ = float(np.average(lengths, weights=table.sample_weight))
        vars(self).pop("solver_", None)

    # Using the model -------------------------------------------------------------------------

    def transform(self, X) -> np.ndarray:
        """The mean of each document's topic given its words, ``E[h|v] = (v + α) / (n + α₀)``.

        Returns
        -------
        topics : ndarray of shape (n_documents, n_words)
            Dense, as no entry is zero.
        """
        X = self._checked(X)
        for start in range(0, X.shape[0], 16_384):
            # Raises for what is not a count.
            documents_of(X, start, min(start + 16_384, X.shape[0]))
        topics = (X.toarray() if sparse.issparse(X) else X).astype(float)
        lengths = topics.sum(axis=1, keepdims=True)
        model = self._model()
        self._check_words(model, topics.shape[1])
        alpha = model.alpha
        topics += alpha
        topics /= lengths + alpha.sum()
        return topics

    def fit_transform(self, X, y=None, sample_weight=None) -> np.ndarray:
        """Fit, and return the mean of each document's topic."""
        return self.fit(X, sample_weight=sample_weight).transform(X)

    @overload
    def sample(
        self, n_samples=1, lengths=None, *, as_sparse: Literal[False] = False
    ) -> np.ndarray: ...

    @overload
    def sample(
        self, n_samples=1, lengths=None, *, as_sparse: Literal[True]
    ) -> sparse.csr_array: ...

    def sample(self, n_samples=1, lengths=None, *, as_sparse=False):
        """Draw documents from the model.

        Parameters
        ----------
        n_samples : int, default=1
        lengths : int or array-like of shape (n_samples,), optional
            The number of words of each; by default the mean of those learned from.
        as_sparse : bool, default=False
            Whether to return a sparse matrix.

        Returns
        -------
        X : ndarray or sparse array of shape (n_samples, n_words), of integers
        """
        rng = self._generator_to_draw(n_samples)
        if lengths is None:
            if not hasattr(self, "mean_length_"):
                raise ValueError("This model has seen no documents: give the lengths to draw.")
            lengths = np.rint(self.mean_length_)
        lengths = np.asarray(lengths)
        if lengths.dtype.kind == "O":  # of numbers too large for other types
            lengths = lengths.astype(float)
        if lengths.shape not in ((), (n_samples,)):
            raise ValueError(
                f"lengths must be one number, or one for each of the {n_samples} documents; got "
                f"the shape {lengths.shape}."
            )
        if not np.isfinite(lengths).all() or (lengths < 0).any() or (lengths % 1 != 0).any():
            raise ValueError("lengths must be whole numbers, zero or more.")
        check_drawable(lengths.max(initial=0))
        X = self._model().draw(n_samples, rng, lengths)
        return X if as_sparse else X.toarray()


class Dirichlet(BaseDirichlet):
    """The Dirichlet distribution of points on the simplex: topics that are observed.

    Parameters
    ----------
    alpha_init : array-like of shape (n_features,), optional
        Where to start; by default from the data. The optimum does not depend on it.
    random_state : int, RandomState instance or None, default=None
        For ``sample``.
    learning_rate : 'auto', float, callable or Decay, default='auto'
        The rate of online learning. ``'auto'`` counts the observations that the model has learned
        from, and how data are cut into batches hardly matters. A number η, or a function of the
        step 1, 2, ..., is the rate of a whole batch; it is reduced in proportion for a smaller one.
    batch_size : int or None, default=None
        Rows of a mini-batch in ``partial_fit``. None: 1000 at most in a call or a stream with the
        automatic rate; with a rate of your own, the rows of a call are one batch.
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
    fixed : iterable of str, default=()
        ``"alpha"`` to learn nothing.
    solver : {'em', 'incremental'}, default='em'
        How ``fit`` reads the data: at once, or in blocks (:doc:`/incremental`). Nothing is hidden
        here, and the result is the same.
    n_blocks : int or None, default=None
        The number of blocks of incremental EM; None: 10, or fewer for few data.
    verbose : int or bool, default=0
        How progress is shown: 0 not at all; 1 by a bar with the log-likelihood, on a terminal; 2 by
        a line for each iteration. Without a terminal, lines go to the logger ``fastem`` (INFO), or
        to standard error if logging is not configured. No number depends on it.

    Attributes
    ----------
    alpha_ : ndarray of shape (n_features,)
    converged_, n_iter_, lower_bound_, lower_bounds_
        As for :class:`fastem.CompoundDirichlet`; nothing is hidden, so one step is enough.
    n_steps_, n_observations_, n_features_in_
        As for :class:`~fastem.GaussianMixture`.

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> topics = np.random.default_rng(0).dirichlet([1.0, 2.0, 5.0], size=20_000)
    >>> fastem.Dirichlet().fit(topics).alpha_.round(1)
    array([1., 2., 5.])
    """

    _kind = DirichletModel

    def _check_rows(self, X):
        for start in range(0, len(X), 65_536):
            sums = np.sum(X[start : start + 65_536], axis=1, dtype=float)
            wrong = ~(np.abs(sums - 1.0) <= _ROUNDING)
            if wrong.any():
                at = int(np.argmax(wrong))
                raise ValueError(
                    f"Topics are points on the simplex and must sum to one; row {start + at} sums "
                    f"to {sums[at]:.9g}."
                )
        return X

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None) -> Self:
        """Fit to points on the simplex, by Newton's method.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or stream of such arrays
            Rows are positive and sum to one.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight 2 counts as two rows.

        Returns
        -------
        self
        """
        self._fit(X, sample_weight=sample_weight)
        return self

    def _default_alpha(self, data):
        return np.ones(next(iter(sample_of(data).tables())).X.shape[1])

    def _stopping_rule(self, data):
        return _OneStep(max_iter=2)

    def sample(self, n_samples=1) -> np.ndarray:
        """Draw points from the model, (n_samples, n_features)."""
        return self._model().draw(n_samples, self._generator_to_draw(n_samples))


class _OneStep(StoppingRule):
    """One step is enough, as nothing is hidden; what counts is the likelihood after it."""

    def before_step(self, model, expectation):
        self.converged = self.n_iter == 1
        if self.converged:
            self.log_likelihoods = []
            self.note(expectation.log_likelihood)
        return self.converged

    def after_step(self, expectation):
        # Shown is the likelihood after the step alone.
        self.log_likelihoods.append(expectation.log_likelihood)
        return False
