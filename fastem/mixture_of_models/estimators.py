"""``fastem.MixtureOfModels``: clusters of sequences, documents or rows, each with its own model."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from .. import algebra
from ..data.remote import sample_of
from ..estimator import Estimator
from ..exceptions import NotEnoughData
from ..learning_rate import DEFAULT_RATE
from ..mixture.base import MixtureEstimator
from ..sklearn_compat import fit_context
from ..stopping import StoppingRule
from ..waiting import check_is_fitted
from .model import ModelMixture

__all__ = ["MixtureOfModels"]

# The numbers of observations that the initialization compares, for each member and in all.
_CANDIDATES = 10
_COMPARED = 500
# Iterations of EM for the model of all data, and for those of single observations.
_ITERATIONS = 10
# The learning rate of a single observation beside the model of all data.
_RATE = 4.0


class MixtureOfModels(MixtureEstimator):
    """A mixture whose components are models of any kind.

    It clusters whole observations: sequences by hidden Markov models or Kalman filters, documents
    by compound Dirichlet distributions, rows by mixtures.

    Parameters
    ----------
    estimator : estimator
        What each component is, with its settings: any estimator of fastem. It is not changed.
    n_components : int, default=2
        The number of components.
    tol : float, default=1e-3
        EM stops when the mean log-likelihood of an observation changes by less.
    max_iter : int, default=100
        The largest number of iterations of EM.
    n_init : int, default=1
        The number of initializations, of which the best is kept.
    random_state : int, RandomState instance or None, default=None
        For the initialization, that of the members too unless ``estimator`` has one of its own.
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
        Observations of a mini-batch in ``partial_fit``; None: as for ``estimator``.
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
        ``"weights"`` to keep the weights. What the members keep is a setting of ``estimator``.
    n_jobs : int or None, default=None
        Threads; None: as many as there are cores, one inside a worker. The result does not depend
        on it.
    solver : {'em', 'incremental'}, default='em'
        How ``fit`` maximizes the likelihood: by batch EM, one step for each pass over the data, or
        by incremental EM, one step for each block of them. See :doc:`/incremental`. That of
        ``estimator`` is not used.
    n_blocks : int or None, default=None
        The number of blocks of incremental EM; None: 10, or fewer for few data. That of
        ``estimator`` is not used.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
    members_ : list of estimators
        One for each component, fitted.
    converged_, n_iter_, lower_bound_, lower_bounds_, n_steps_, n_observations_, n_features_in_
        As for :class:`~fastem.GaussianMixture`.

    Notes
    -----
    Priors of the members have no influence here.

    Examples
    --------
    Sequences that stay in a state for long, and sequences that leave it soon:

    >>> import numpy as np
    >>> import fastem
    >>> rng = np.random.default_rng(0)
    >>> def draw(stay):
    ...     states = np.cumsum(rng.random((30, 60)) > stay, axis=1) % 2
    ...     return list((3.0 * states + rng.normal(size=states.shape))[:, :, None])
    >>> X = draw(0.95) + draw(0.5)
    >>> member = fastem.GaussianHMM(2, random_state=0)
    >>> model = fastem.MixtureOfModels(member, 2, random_state=0).fit(X)
    >>> labels = model.predict(X)
    >>> bool((labels[:30] == labels[0]).all() and (labels[30:] == 1 - labels[0]).all())
    True
    """

    _parameter_constraints = {  # noqa: RUF012 (scikit-learn's convention)
        **MixtureEstimator._parameter_constraints,
        "estimator": [Estimator],
    }
    _learned_kinds = {  # noqa: RUF012
        **Estimator._learned_kinds,
        "members_": lambda value: (
            isinstance(value, list) and all(isinstance(member, Estimator) for member in value)
        ),
    }

    def __init__(
        self, estimator, n_components=2, *, tol=1e-3, max_iter=100, n_init=1, random_state=None,
        warm_start=False, verbose=0, verbose_interval=10, learning_rate=DEFAULT_RATE,
        batch_size=None, memory="model", fixed=(), n_jobs=None,
        forgetting=None, average_from=None, callback=None,
        drift_alarm=None, solver="em", n_blocks=None,
    ):  # fmt: skip
        super().__init__(
            n_components=n_components, tol=tol, max_iter=max_iter, n_init=n_init,
            random_state=random_state, warm_start=warm_start, verbose=verbose,
            verbose_interval=verbose_interval, learning_rate=learning_rate,
            batch_size=batch_size, memory=memory, fixed=fixed, n_jobs=n_jobs,
            forgetting=forgetting, average_from=average_from, callback=callback,
            drift_alarm=drift_alarm,
            solver=solver, n_blocks=n_blocks,
        )  # fmt: skip
        self.estimator = estimator

    # The model and its data --------------------------------------------------------------------

    @property
    def _learns_sequences(self):
        return self.estimator._learns_sequences

    @property
    def _stream_batch(self):
        return self.estimator._stream_batch

    def _parameter_attributes(self):
        return ("weights_",)

    def _model(self):
        return self._make_model(self.weights_, [member._model() for member in self.members_])

    def _make_model(self, weights, members):
        return ModelMixture(
            weights, members, fixed=self._fixed_names(("weights",)), n_jobs=self.n_jobs
        )

    def _set_model(self, model):
        self.weights_ = np.array(model.weights)
        self.members_ = [self._member(member) for member in model.members]

    def _member(self, model=None) -> Any:
        """An estimator like the one given, with the columns of the data, and with a model."""
        member: Any = clone(self.estimator)
        _copy_columns(self, member)
        if model is not None:
            member._set_model(model)
        return member

    def _one(self, x):
        return self.estimator._one(x)

    def _check_data(self, X, *, reset, once=False, **given):
        given = {name: value for name, value in given.items() if value is not None}
        member: Any = clone(self.estimator) if reset else self._member(self.members_[0]._model())
        data = member._check_data(X, reset=reset, once=once, **given)
        if reset:
            _copy_columns(member, self)
        return data

    # Learning --------------------------------------------------------------------------------

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y=None, lengths=None, sample_weight=None, cut_off=None) -> Self:
        """Fit by batch EM, from ``n_init`` initializations, and keep the best.

        Parameters
        ----------
        X
            Data that the ``fit`` method of ``estimator`` accepts.
        y : ignored
        lengths, sample_weight, cut_off : optional
            As for the ``fit`` method of ``estimator``, if it has them.

        Returns
        -------
        self
        """
        self._fit(X, lengths=lengths, sample_weight=sample_weight, cut_off=cut_off)
        return self

    @fit_context(prefer_skip_nested_validation=False)
    def partial_fit(self, X, y=None, lengths=None, sample_weight=None, cut_off=None) -> Self:
        """Learn online from new observations; the parameters are those of :meth:`fit`."""
        return self._partial_fit(X, lengths=lengths, sample_weight=sample_weight, cut_off=cut_off)

    def _initial_models(self, data):
        random_state = check_random_state(self.random_state)
        tables = list(sample_of(data).tables())
        table = tables[0].joined(tables) if len(tables) > 1 else tables[0]
        for _ in range(self.n_init):
            yield self._initial_model(table, random_state)

    def _initial_model_online(self, table):
        return self._initial_model(table, check_random_state(self.random_state))

    def _initial_model(self, table, random_state):
        """Members near single observations that are unlike each other.

        A candidate minimizes the loss of one observation plus its divergence from the model of all
        data. Candidates are chosen one after another, each time the one under which the
        observations become likeliest.
        """
        # A stream shows its columns when it is read.
        self.n_features_in_ = table.X.shape[1]
        weights = table.sample_weight
        counted = np.arange(len(table)) if weights is None else np.flatnonzero(weights)
        if len(counted) < self.n_components:
            raise NotEnoughData(
                f"n_components is {self.n_components}, and there are only {len(counted)} "
                "observations."
            )
        compared = random_state.permutation(counted)[:_COMPARED]
        singles = [table.part(i, i + 1) for i in compared]
        shown = table.joined(singles)
        first = self._member()
        if getattr(first, "random_state", 0) is None:
            # A seed of the mixture is enough to have the same start again.
            first.random_state = random_state
        whole = first._initial_model_online(table)
        whole = algebra.fit(whole, shown, StoppingRule(_ITERATIONS)).model
        tried = singles[: _CANDIDATES * self.n_components]
        candidates = [_near(whole, single) for single in tried]
        scores = np.stack([model.log_likelihoods(shown) for model in candidates])
        scores = np.maximum(scores, -1e300)  # what is impossible can be compared, too
        chosen, best = [], np.full(len(shown), -np.inf)
        for _ in range(self.n_components):
            totals = np.maximum(scores, best).sum(axis=1)
            totals[chosen] = -np.inf
            chosen.append(int(np.argmax(totals)))
            best = np.maximum(best, scores[chosen[-1]])
        weights = np.full(self.n_components, 1.0 / self.n_components)
        return self._make_model(weights, [candidates[i] for i in chosen])

    # Using the model -------------------------------------------------------------------------

    def _tables(self, X, lengths, cut_off):
        check_is_fitted(self)
        data = self._check_data(X, lengths=lengths, cut_off=cut_off, reset=False, once=True)
        return self._model(), data.tables()

    def score_samples(self, X, lengths=None, *, cut_off=None) -> np.ndarray:
        """The log-likelihood of each observation."""
        model, tables = self._tables(X, lengths, cut_off)
        return np.concatenate([model.log_likelihoods(table) for table in tables])

    def score(self, X, y=None, lengths=None, sample_weight=None, *, cut_off=None) -> float:
        """The mean log-likelihood of an observation."""
        log_likelihoods = self.score_samples(X, lengths, cut_off=cut_off)
        return float(np.average(log_likelihoods, weights=sample_weight))

    def predict_proba(self, X, lengths=None, *, cut_off=None) -> np.ndarray:
        """The probability of each component for each observation."""
        model, tables = self._tables(X, lengths, cut_off)
        return np.concatenate([model.responsibilities(table) for table in tables])

    def predict(self, X, lengths=None, *, cut_off=None) -> np.ndarray:
        """The likeliest component of each observation."""
        return self.predict_proba(X, lengths, cut_off=cut_off).argmax(axis=1)

    def sample(self, n_samples=1, horizon=None):
        """Draw observations from the model, as a table of rows or of sequences.

        Parameters
        ----------
        n_samples : int, default=1
        horizon : optional
            The size of an observation, such as the length of a sequence; by default as learned.
        """
        rng = self._generator_to_draw(n_samples)
        return self._model().draw(n_samples, rng, horizon)


def _copy_columns(one, other):
    """Tell ``other`` the number and the names of the columns that ``one`` knows of."""
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(one, name):
            setattr(other, name, getattr(one, name))


def _near(whole, observation):
    """The model of one observation that remembers the model of all data."""
    model, memory = whole, whole.own(whole.horizon_of(observation))
    for _ in range(_ITERATIONS):
        model, _ = algebra.online(model, observation, _RATE, memory)
    return model
