"""``fastem.Dirichlet``: points on the simplex."""

from __future__ import annotations

from typing import Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..data.rows import nearby
from ..learning_rate import DEFAULT_RATE, Clock
from .base import BaseDirichlet
from .model import DirichletModel

__all__ = ["Dirichlet"]

# How far from one the sum of a row may be.
_ROUNDING = 1e-6


class Dirichlet(BaseDirichlet):
    """The Dirichlet distribution of points on the simplex: topics that are observed.

    Parameters
    ----------
    alpha_init : array-like of shape (n_features,), optional
        Where to start; by default from the data. The optimum does not depend on it.
    random_state : int, RandomState instance or None, default=None
        For ``sample``.
    learning_rate : 'auto', float, callable or Decay, default='auto'
        The rate of online learning. ``'auto'`` counts observations: it goes on from those behind
        the model, and how data are cut into batches hardly matters. A number η, or a function of
        the step 1, 2, ..., is the rate of a whole batch; a smaller one takes its share of it.
    batch_size : int or None, default=None
        Rows of a mini-batch in ``partial_fit``; None takes each call's rows as one
        batch, and a stream in batches of 1000.
    memory : {'model', 'statistics'}, default='model'
        What online learning remembers: the model alone, or running statistics (Cappé, Moulines).
    fixed : iterable of str, default=()
        ``"alpha"`` to learn nothing.
    n_jobs : int or None, default=None
        Threads; None: as many as there are cores, one inside a worker. The result does not depend
        on it.

    Attributes
    ----------
    alpha_ : ndarray of shape (n_features,)
    converged_, n_iter_, lower_bound_, lower_bounds_
        As for :class:`fastem.CompoundDirichlet`; nothing is hidden, so one step is enough.
    n_steps_ : int or float
        Online steps since the last ``fit``; a batch of a half counts a half.
    n_observations_ : float
        The weight of the observations behind the model, of the last ``fit`` and since.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> topics = np.random.default_rng(0).dirichlet([1.0, 2.0, 5.0], size=20_000)
    >>> fastem.Dirichlet().fit(topics).alpha_.round(1)
    array([1., 2., 5.])
    """

    _kind = DirichletModel

    def __init__(
        self,
        *,
        alpha_init=None,
        random_state=None,
        learning_rate=DEFAULT_RATE,
        batch_size=None,
        memory="model",
        fixed=(),
        n_jobs=None,
    ):
        self.alpha_init = alpha_init
        self.random_state = random_state
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.memory = memory
        self.fixed = fixed
        self.n_jobs = n_jobs

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

    @_fit_context(prefer_skip_nested_validation=True)
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
        with self._all_or_nothing():
            data = self._check_data(X, sample_weight, reset=True)
            n_columns = next(iter(nearby(data).tables())).X.shape[1]
            given = self.alpha_init is not None
            start = self._given_alpha(n_columns) if given else np.ones(n_columns)
            model = self._make_model(start)
            expectation = model.expect(data)
            model = model.maximize(expectation.statistics)
            self._set_model(model)
            self.converged_ = True
            self.n_iter_ = 1
            self.lower_bound_ = model.expect(data).log_likelihood
            self.lower_bounds_ = [self.lower_bound_]
            self._set_clock(Clock(observations=expectation.weight))
            self._forget()
        return self

    def _first_alpha(self, table):
        return np.ones(table.X.shape[1])

    def sample(self, n_samples=1) -> np.ndarray:
        """Draw points from the model, (n_samples, n_features)."""
        check_is_fitted(self, "alpha_")
        if n_samples < 1:
            raise ValueError(f"n_samples must be 1 or more; got {n_samples}.")
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        return self._model().draw(n_samples, rng)
