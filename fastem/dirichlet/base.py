"""What the Dirichlet estimators share: scikit-learn's conventions around the algebra."""

from __future__ import annotations

from typing import Self

import numpy as np
from scipy import sparse
from sklearn.base import DensityMixin, _fit_context
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ..data.rows import Remote, Stream, Table, is_stream
from ..estimator import OnlineEstimator
from ..learning_rate import batch_weights, schedule
from .count_tables import as_rows
from .model import check_alpha

__all__ = ["BaseDirichlet"]

# Rows that online learning takes at a time, so that what is copied of them is bounded.
_ROWS_AT_A_TIME = 16_384


class BaseDirichlet(DensityMixin, OnlineEstimator):
    """Common part of :class:`~fastem.Dirichlet` and :class:`~fastem.CompoundDirichlet`."""

    _parameter_constraints = {  # noqa: RUF012 (scikit-learn's convention)
        "alpha_init": ["array-like", None],
        "random_state": ["random_state"],
        **OnlineEstimator._online_constraints,
    }

    #: The kind of model.
    _kind: type
    #: Whether rows may come as a sparse matrix.
    _sparse = False

    # Supplied by each estimator --------------------------------------------------------------

    def _check_rows(self, X):
        """Raise ``ValueError`` if some row is not an observation, unless passes over them do."""

    def _first_alpha(self, table) -> np.ndarray:
        """Where online learning starts, from its first rows."""
        raise AttributeError(f"{type(self).__name__} has no start.")

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
        fixed = self._fixed_names(("alpha",))
        return self._kind(alpha, fixed=fixed, n_jobs=self.n_jobs)

    def _given_alpha(self, n_columns):
        """``alpha_init``, checked."""
        alpha = check_alpha(self.alpha_init)
        if len(alpha) != n_columns:
            raise ValueError(
                f"alpha_init should have {n_columns} entries, one for each column; got "
                f"{len(alpha)}."
            )
        return alpha

    # Data ------------------------------------------------------------------------------------

    def _check_table(self, X, sample_weight=None, *, reset):
        X = validate_data(
            self, X, reset=reset, dtype="numeric", accept_sparse=self._sparse and "csr"
        )
        if sparse.issparse(X):
            X = as_rows(X)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
            if not sample_weight.any():
                raise ValueError(
                    "The sample weights are all zero: there is nothing to learn from. Give at "
                    "least one row a positive weight."
                )
        self._check_rows(X)
        return X, sample_weight

    def _check_data(self, X, sample_weight=None, *, reset, once=False):
        """``X`` as a table or stream of checked arrays."""
        if isinstance(X, Remote):
            return X.checked(self, reset=reset)
        if not is_stream(X):
            return Table(*self._check_table(X, sample_weight, reset=reset))
        if sample_weight is not None:
            raise ValueError(
                "sample_weight goes with an array; a stream yields pairs (array, weights) instead."
            )
        first = reset

        def check(X, sample_weight):
            nonlocal first
            checked = self._check_table(X, sample_weight, reset=first)
            first = False
            return checked

        return Stream(X, check, once=once)

    def _checked(self, X):
        check_is_fitted(self, "alpha_")
        return self._check_table(X, reset=False)[0]

    # Learning --------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None, sample_weight=None) -> Self:
        """Learn online from new rows.

        Each batch moves the model to the minimum of the batch's loss plus the divergence from the
        present model over the learning rate. The batches are mini-batches of ``batch_size`` rows;
        if that is None, all of ``X``, or 1000 rows of a stream. A batch that weighs less than a
        whole one moves the model less, and batches go on from one array of a stream to the next:
        how a stream is cut makes no difference. The first call starts the model from its rows,
        of a stream from the first 10,000.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or iterable of such
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        self._check_settings(self._parameter_constraints)
        with self._all_or_nothing():
            started = hasattr(self, "alpha_")
            data = self._check_data(X, sample_weight, reset=not started, once=True)
            tables, size, start = self._online_tables(
                data, streamed=isinstance(data, Stream), started=started
            )
            model = None if start is None else self._begin_online(start)
            for table in tables:
                self._learn(table, size, model)
                model = None
        return self

    def _begin_online(self, table):
        """The first model of online learning, from its first rows."""
        if self.alpha_init is not None:
            return self._make_model(self._given_alpha(table.X.shape[1]))
        return self._make_model(self._first_alpha(table))

    def _learn(self, table, size, model=None):
        """Take online steps over the rows of a table, in batches of ``size``."""
        X, sample_weight = table.X, table.sample_weight
        model = self._model() if model is None else model
        memory = None
        if self.memory == "statistics":
            memory = self._remembered(model)
            if memory is None:
                memory = model.own()
        weights = batch_weights(len(table), size, sample_weight)
        clock = self._clock
        done = int(clock.steps)
        etas, clock = schedule(self.learning_rate, clock, weights, size)
        batch_size = min(size, len(table))
        steps = max(1, _ROWS_AT_A_TIME // batch_size)
        for first in range(0, len(etas), steps):
            part = slice(first * batch_size, (first + steps) * batch_size)
            weights = None if sample_weight is None else sample_weight[part]
            model, memory = model.learn_online(
                X[part], weights, etas[first : first + steps], batch_size, memory,
                **self._online_options(done + first),
            )  # fmt: skip
        self._set_model(model)
        self._set_clock(clock)
        if memory is None:
            self._forget()
        else:
            self.statistics_ = memory

    def _online_options(self, n_steps):
        """What online learning is told besides, after ``n_steps`` steps."""
        return {}

    # Using the model -------------------------------------------------------------------------

    def score_samples(self, X) -> np.ndarray:
        """The log-likelihood of each row."""
        X = self._checked(X)
        return self._model().log_likelihoods(X)

    def score(self, X, y=None, sample_weight=None) -> float:
        """The mean log-likelihood of the rows of an array, or of a stream of arrays."""
        check_is_fitted(self, "alpha_")
        data = self._check_data(X, sample_weight, reset=False, once=True)
        return self._model().expect(data).log_likelihood

    def bic(self, X) -> float:
        """Bayesian information criterion on ``X``; the lower the better."""
        n_rows = X.shape[0] if sparse.issparse(X) else len(X)
        return -2 * self.score(X) * n_rows + np.size(self.alpha_) * np.log(n_rows)

    def aic(self, X) -> float:
        """Akaike information criterion on ``X``; the lower the better."""
        n_rows = X.shape[0] if sparse.issparse(X) else len(X)
        return -2 * self.score(X) * n_rows + 2 * np.size(self.alpha_)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "alpha_")
