"""The common base of mixture estimators: scikit-learn's conventions around the algebra."""

from __future__ import annotations

from numbers import Integral
from typing import Self

import numpy as np
from sklearn.utils import check_random_state

from .. import checks
from ..clustering import kmeans, seeds
from ..data.batches import check_total
from ..data.remote import sample_of
from ..data.rows import Table, check_rows, is_stream
from ..data.sampling import sample_rows
from ..estimator import Estimator, RowEstimator
from ..exceptions import ConvergenceWarning, NotEnoughData
from ..families import Family
from ..notices import warn
from ..sklearn_compat import Interval, StrOptions, fit_context
from ..stopping import Tolerance
from ..waiting import MOST_ROWS, check_is_fitted
from .model import MixtureModel

__all__ = ["BaseMixture", "MixtureEstimator"]


def check_squares(table) -> None:
    """Raise ``ValueError`` if sums of squares of differences of rows would overflow.

    They are those of as many rows as a first model may be made of.
    """
    n_rows, n_columns = table.X.shape
    weight = n_rows if table.sample_weight is None else float(np.sum(table.sample_weight))
    largest = np.maximum(np.max(table.X, axis=0), -np.min(table.X, axis=0).astype(float))
    most = np.sqrt(np.finfo(float).max / (4.0 * n_columns * max(n_rows, weight, MOST_ROWS)))
    wrong = np.flatnonzero(largest > most)
    if len(wrong):
        raise ValueError(
            f"The values of column {wrong[0]} are of the size {largest[wrong[0]]:.1g}, and sums of "
            "their squares are beyond what a double can hold. Leave such rows out, or scale the "
            "columns to a moderate range."
        )


class MixtureEstimator(Estimator):
    """Settings of mixtures, of a family or of models, and when they stop."""

    _parameter_constraints = {  # noqa: RUF012 (scikit-learn's convention)
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        **Estimator._batch_constraints,
        **Estimator._online_constraints,
        **Estimator._solver_constraints,
    }
    _predicts_one = True
    #: The warning if EM did not converge.
    _not_converged = "EM did not converge. Try a larger max_iter or tol."

    def __init__(
        self, *, n_components, tol, max_iter, n_init, random_state, warm_start, verbose,
        verbose_interval, learning_rate, batch_size, memory, fixed, n_jobs,
        forgetting, average_from, callback, drift_alarm, solver, n_blocks,
    ):  # fmt: skip
        self.n_components = n_components
        self.tol = tol
        self.max_iter = max_iter
        self.n_init = n_init
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.verbose_interval = verbose_interval
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

    def _has_learned(self):
        return hasattr(self, "weights_")

    def _before_learning(self, model):
        if model is not None and len(model.weights) != self.n_components:
            raise ValueError(
                f"n_components is {self.n_components}, and the model has {len(model.weights)} "
                "components: partial_fit goes on from it. Set n_components back, or start again "
                "with a new estimator."
            )

    def _stopping_rule(self, data):
        before = -np.inf
        if self._resumes():
            # scikit-learn's bound of tied posteriors is an array of one number.
            before = float(np.ravel(checks.numbers("lower_bound_", self.lower_bound_))[0])
        return Tolerance(self.max_iter, self.tol, before=before)

    def _warn_of_end(self, rule):
        if not rule.converged and self.max_iter > 0:
            warn(self._not_converged, ConvergenceWarning)


class BaseMixture(MixtureEstimator, RowEstimator):
    """Common part of :class:`~fastem.GaussianMixture` and :class:`~fastem.Mixture`."""

    _parameter_constraints = {  # noqa: RUF012
        **MixtureEstimator._parameter_constraints,
        "init_params": [StrOptions({"kmeans", "random", "random_from_data", "k-means++"})],
    }
    # In the words of scikit-learn, which filters of warnings may look for.
    _not_converged = (
        "Best performing initialization did not converge. Try different init parameters, or "
        "increase max_iter, tol, or check for degenerate data."
    )

    # Supplied by each estimator --------------------------------------------------------------

    def _family(self) -> Family:
        """The family of the components."""
        raise AttributeError(f"{type(self).__name__} has no family.")

    def _given_start(self, row):
        """Initial parameters that the user gave, checked, by name; ``row`` is one of the data."""
        return {}

    def _first_model(self, model, sample, share):
        """The initial model of batch EM; ``share`` of the weight of the rows determined it."""
        return model

    def _set_model(self, model):
        """Show a model's parameters as attributes."""
        for name, array in model.parameters.items():
            # A copy, because the array may be shared with the model or the user's arguments.
            setattr(self, f"{name}_", np.array(array))
        self._keep_told(model.told_dead)

    def _parameter_attributes(self):
        return ("weights_", *(f"{name}_" for name in self._family().parameter_names))

    def _model(self) -> MixtureModel:
        """The model that the attributes describe."""
        family = self._family()
        parameters = {name: getattr(self, f"{name}_") for name in family.parameter_names}
        return self._make_model(self.weights_, parameters)

    def _make_model(self, weights, parameters):
        family = self._family()
        return MixtureModel(
            family, weights, parameters, fixed=self._fixed_parameters(family), n_jobs=self.n_jobs,
            told_dead=self._told(),
        )  # fmt: skip

    def _fixed_parameters(self, family):
        return self._fixed_names(("weights", *family.parameter_names))

    def _told(self):
        """The components whose death the user was told of, for a model to change."""
        return set(getattr(self, "_told_dead", ()))

    def _n_columns_of(self, model):
        # A family of the user's own has features in place of columns.
        return model.n_columns if model.family.compiled else None

    # Data ------------------------------------------------------------------------------------

    def _check_rows(self, X):
        check_rows(X, self._family().check)
        return X

    # The initialization ------------------------------------------------------------------------

    def _start(self, data, random_state, *, batch=False):
        """The first model, from the data and what the user gave."""
        family = self._family()
        data = sample_of(data)
        row = np.asarray(next(data.tables()).X[0], dtype=float)
        given = self._given_start(row)
        if {"weights", *family.parameter_names} <= given.keys():
            parameters = dict(given)
            return self._make_model(parameters.pop("weights"), parameters)
        sample = sample_rows(data, random_state)
        n_rows = len(sample.X)
        if n_rows < self.n_components:
            raise NotEnoughData(
                "Expected n_samples >= n_components but got n_components = "
                f"{self.n_components}, n_samples = {n_rows}. Start from more rows, or give all "
                "the parameters to start from."
            )
        check_total(sample.sample_weight)
        responsibilities, centers, share = self._responsibilities(sample, random_state)
        uniform = np.full(self.n_components, 1.0 / self.n_components)
        # Nothing is held fixed yet: there is nothing to hold.
        rough = MixtureModel(family, uniform, family.start(centers), n_jobs=self.n_jobs)
        model = rough.maximize(rough.expect_given(sample, responsibilities, before_steps=batch))
        if batch:
            model = self._first_model(model, sample, share)
        if given:
            model = model.with_parameters({**model.parameters, **given})
        return model.holding(self._fixed_parameters(family), self._told())

    def _responsibilities(self, sample, random_state):
        """Initial responsibilities, as a function of (start, stop), and rough centers.

        The third result is the share of the weight of the rows that have responsibilities.
        """
        X, n_components = sample.X, self.n_components
        n_rows = len(X)
        middle = np.asarray(X[: min(n_rows, 65536)], dtype=float).mean(axis=0)
        centers = np.repeat(middle[None], n_components, axis=0)
        if self.init_params == "random":

            def uniform(start, stop):
                drawn = random_state.uniform(size=(stop - start, n_components))
                return drawn / drawn.sum(axis=1, keepdims=True)

            return uniform, centers, 1.0
        if self.init_params == "kmeans":
            found = kmeans(
                X, n_components, n_init=1, random_state=random_state,
                sample_weight=sample.sample_weight,
            )  # fmt: skip
            labels = found.labels

            def one_hot(start, stop):
                return np.eye(n_components)[labels[start:stop]]

            return one_hot, np.asarray(found.centers, dtype=float), 1.0
        if self.init_params == "random_from_data":
            chosen = random_state.choice(n_rows, size=n_components, replace=False)
        else:
            chosen = seeds(
                X, n_components, random_state=random_state, sample_weight=sample.sample_weight
            )

        def single(start, stop):
            return (np.arange(start, stop)[:, None] == chosen).astype(float)

        weights = sample.sample_weight
        share = len(chosen) / n_rows if weights is None else weights[chosen].sum() / weights.sum()
        return single, np.asarray(X[chosen], dtype=float), share

    # Learning --------------------------------------------------------------------------------

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None) -> Self:
        """Fit by batch EM, from ``n_init`` initializations, and keep the best.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or stream of such arrays
            Floats of either precision, integers and memory maps are read in place. A stream is a
            function that returns a new iterator over arrays, or an object that can be iterated
            over again; items may be pairs ``(array, weights)``.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight 2 counts as two rows.

        Returns
        -------
        self
        """
        self._fit(X, sample_weight=sample_weight, min_samples=2)
        return self

    @fit_context(prefer_skip_nested_validation=True)
    def fit_predict(self, X, y=None, sample_weight=None) -> np.ndarray:
        """Fit and return the likeliest component of each row."""
        data = self._fit(X, sample_weight=sample_weight, min_samples=2)
        return np.concatenate([self._labels(table.X) for table in data.tables()])

    def _labels(self, X):
        return self._present_model().infer(X, labels=True)[2]

    def _resumes(self):
        return self.warm_start and hasattr(self, "converged_")

    def _check_fit(self, data):
        if isinstance(data, Table) and len(data) < self.n_components:
            raise ValueError(
                "Expected n_samples >= n_components but got n_components = "
                f"{self.n_components}, n_samples = {len(data)}"
            )

    def _initial_models(self, data):
        random_state = check_random_state(self.random_state)
        for _ in range(self.n_init):
            yield self._start(data, random_state, batch=True)

    def _start_is_given(self):
        names = ("weights_init", "means_init", "precisions_init", "parameters_init")
        return any(getattr(self, name, None) is not None for name in names)

    def _start_online(self, table, kept, *, few):
        # What is kept stays for thousands of rows, and no later ones would mend this.
        if any(name.endswith("covariances") for name in self._family().parameter_names):
            check_squares(table)
        return super()._start_online(table, kept, few=few)

    def _initial_model_online(self, table):
        return self._start(table, check_random_state(self.random_state))

    # Using the model -------------------------------------------------------------------------

    def score_samples(self, X) -> np.ndarray:
        """The log-likelihood of each row."""
        return self._log_likelihoods(self._checked(X))

    def _log_likelihoods(self, X):
        return self._present_model().infer(X, log_totals=True)[0]

    def score(self, X, y=None, sample_weight=None) -> float:
        """The mean log-likelihood of the rows of an array, or of a stream of arrays."""
        check_is_fitted(self, "weights_")
        if is_stream(X):
            model = self._present_model()
            found = model.expect(self._check_data(X, sample_weight, reset=False))
            return model.mean_log_likelihood(found)
        X, sample_weight = self._check_table(X, sample_weight, reset=False)
        check_total(sample_weight)
        return float(np.average(self._log_likelihoods(X), weights=sample_weight))

    def predict(self, X) -> np.ndarray:
        """The likeliest component of each row."""
        return self._labels(self._checked(X))

    def predict_proba(self, X) -> np.ndarray:
        """The probability of each component for each row, (n_samples, n_components)."""
        return self._posteriors(self._checked(X))

    def _posteriors(self, X):
        return self._present_model().infer(X, posteriors=True)[1]

    def _n_parameters(self):
        model = self._present_model()
        parameters = model.family.unpack(model.packed)
        return model.family.n_parameters(parameters) + len(model.weights) - 1

    def sample(self, n_samples=1) -> tuple[np.ndarray, np.ndarray]:
        """Draw rows from the model.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
        y : ndarray of shape (n_samples,)
            The component of each row; rows are ordered by it.
        """
        check_is_fitted(self, "weights_")
        if n_samples < 1:
            raise ValueError(
                f"Invalid value for 'n_samples': it must be 1 or more; got {n_samples}."
            )
        rng = check_random_state(self.random_state)
        family, weights, parameters = self._to_draw_from()
        counts = rng.multinomial(n_samples, weights / weights.sum())
        y = np.repeat(np.arange(len(counts)), counts)
        return family.draw(parameters, y, self._generator(rng)), y

    def _to_draw_from(self):
        """The family, the weights and the parameters of the components, all checked."""
        model = self._present_model()
        return model.family, model.weights, model.family.unpack(model.packed)

    def _generator(self, random_state):
        """The random numbers that the family draws with."""
        return np.random.default_rng(random_state.randint(2**31))
