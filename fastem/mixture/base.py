"""What all mixture estimators share: scikit-learn's conventions around the algebra."""

from __future__ import annotations

from numbers import Integral, Real
from time import perf_counter
from typing import Self

import numpy as np
from sklearn.base import DensityMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from .. import algebra, checks
from ..clustering import kmeans, one_thread_if_small
from ..data.rows import Remote, Stream, Table, first_batch, is_stream, nearby, readable
from ..data.sampling import sample_rows
from ..estimator import OnlineEstimator
from ..families import Family
from ..learning_rate import batch_weights, schedule
from ..notices import warn
from .model import MixtureModel

__all__ = ["BaseMixture"]

_WEIGHTS_OF_STREAM = (
    "sample_weight goes with an array; a stream yields pairs (array, weights) instead."
)

# Rows whose values are checked at a time.
_CHECKED_ROWS = 65_536


class BaseMixture(DensityMixin, OnlineEstimator):
    """Common part of :class:`~fastem.GaussianMixture` and :class:`~fastem.Mixture`."""

    _parameter_constraints = {  # noqa: RUF012 (scikit-learn's convention)
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0.0, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "init_params": [StrOptions({"kmeans", "random", "random_from_data", "k-means++"})],
        "random_state": ["random_state"],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
        "verbose_interval": [Interval(Integral, 1, None, closed="left")],
        **OnlineEstimator._online_constraints,
    }

    # Supplied by each estimator --------------------------------------------------------------

    def _family(self) -> Family:
        """The family of the components."""
        raise AttributeError(f"{type(self).__name__} has no family.")

    def _given_start(self, row):
        """Parameters that the user gave to start from, checked, by name; ``row`` is of the data."""
        return {}

    def _first_model(self, model, sample, share):
        """The model to begin batch EM with; ``share`` of the weight of the rows is behind it."""
        return model

    def _set_model(self, model):
        """Show a model's parameters as attributes."""
        for name, array in model.parameters.items():
            # A copy, so that changing an attribute changes nothing that was given or is shared.
            setattr(self, f"{name}_", np.array(array))
        self._keep_told(model)

    def _parameter_attributes(self):
        return ("weights_", *(f"{name}_" for name in self._family().parameter_names))

    def _model(self) -> MixtureModel:
        """The model that the attributes describe."""
        family = self._family()
        parameters = {name: getattr(self, f"{name}_") for name in family.parameter_names}
        return self._make_model(self.weights_, parameters)

    def _make_model(self, weights, parameters):
        family = self._family()
        fixed = self._fixed_names(("weights", *family.parameter_names))
        model = MixtureModel(family, weights, parameters, fixed=fixed, n_jobs=self.n_jobs)
        model.told_dead = set(getattr(self, "_told_dead", ()))
        return model

    # Data ------------------------------------------------------------------------------------

    def _check_table(self, X, sample_weight=None, *, reset, min_samples=1):
        X = validate_data(self, X, reset=reset, dtype="numeric", ensure_min_samples=min_samples)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
        family = self._family()
        # A bounded piece at a time, so that the check makes no copy of the data.
        for start in range(0, len(X), _CHECKED_ROWS):
            try:
                family.check(X[start : start + _CHECKED_ROWS])
            except ValueError as error:
                where = f" (counting rows from {start})" if start else ""
                raise ValueError(f"{error}{where}") from None
        return X, sample_weight

    def _check_data(self, X, sample_weight=None, *, reset, min_samples=1):
        """``X`` as a table or stream of checked arrays."""
        if isinstance(X, Remote):
            return X.checked(self, reset=reset)
        if not is_stream(X):
            return Table(*self._check_table(X, sample_weight, reset=reset, min_samples=min_samples))
        if sample_weight is not None:
            raise ValueError(_WEIGHTS_OF_STREAM)
        first = reset

        def check(X, sample_weight):
            nonlocal first
            checked = self._check_table(X, sample_weight, reset=first)
            first = False
            return checked

        return Stream(X, check)

    # The start -------------------------------------------------------------------------------

    def _start(self, data, random_state, *, batch=False):
        """The first model, from the data and what the user gave."""
        family = self._family()
        data = nearby(data)
        row = np.asarray(next(data.tables()).X[0], dtype=float)
        given = self._given_start(row)
        if {"weights", *family.parameter_names} <= given.keys():
            parameters = dict(given)
            return self._make_model(parameters.pop("weights"), parameters)
        sample = self._sample(data, random_state)
        n_rows = len(sample.X)
        if n_rows < self.n_components:
            raise ValueError(
                "Expected n_samples >= n_components but got n_components = "
                f"{self.n_components}, n_samples = {n_rows}. Start from more rows, or give all "
                "the parameters to start from."
            )
        _check_total(sample.sample_weight)
        responsibilities, centers, share = self._responsibilities(sample, random_state)
        uniform = np.full(self.n_components, 1.0 / self.n_components)
        # Nothing is held fixed yet: there is nothing to hold.
        rough = MixtureModel(family, uniform, family.start(centers), n_jobs=self.n_jobs)
        model = rough.maximize(rough.expect_given(sample, responsibilities))
        if batch:
            model = self._first_model(model, sample, share)
        if given:
            model = model.with_parameters({**model.parameters, **given})
        parameters = model.parameters
        return self._make_model(parameters.pop("weights"), parameters)

    def _sample(self, data, random_state):
        """The rows from which to start."""
        return sample_rows(data, random_state)

    def _responsibilities(self, sample, random_state):
        """A function of (start, stop) that gives the first responsibilities, and rough centers.

        The third is the share of the weight of the rows that has responsibilities at all.
        """
        from sklearn.cluster import kmeans_plusplus

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
            labels = found.labels_

            def one_hot(start, stop):
                return np.eye(n_components)[labels[start:stop]]

            return one_hot, np.asarray(found.cluster_centers_, dtype=float), 1.0
        if self.init_params == "random_from_data":
            chosen = random_state.choice(n_rows, size=n_components, replace=False)
        else:
            with one_thread_if_small(X, n_components):
                _, chosen = kmeans_plusplus(
                    X, n_components, sample_weight=sample.sample_weight, random_state=random_state
                )

        def single(start, stop):
            picked = np.zeros((stop - start, n_components))
            for k, row in enumerate(chosen):
                if start <= row < stop:
                    picked[row - start, k] = 1.0
            return picked

        weights = sample.sample_weight
        share = len(chosen) / n_rows if weights is None else weights[chosen].sum() / weights.sum()
        return single, np.asarray(X[chosen], dtype=float), share

    # Learning --------------------------------------------------------------------------------

    def fit(self, X, y=None, sample_weight=None) -> Self:
        """Fit by batch EM, from ``n_init`` starts, and keep the best.

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
        self._fit(X, sample_weight)
        return self

    def fit_predict(self, X, y=None, sample_weight=None) -> np.ndarray:
        """Fit and return the likeliest component of each row."""
        data = self._fit(X, sample_weight)
        if isinstance(data, Stream):
            return np.concatenate([self._labels(table.X) for table in data.tables()])
        return self._labels(data.X)

    def _labels(self, X):
        return self._model().infer(X, labels=True)[2]

    @_fit_context(prefer_skip_nested_validation=True)
    def _fit(self, X, sample_weight):
        with self._all_or_nothing():
            resumed = self.warm_start and hasattr(self, "converged_")
            if not resumed:
                vars(self).pop("_told_dead", None)
            data = self._check_data(X, sample_weight, reset=not resumed, min_samples=2)
            if isinstance(data, Table):
                _check_total(data.sample_weight)
                if len(data.X) < self.n_components:
                    raise ValueError(
                        "Expected n_samples >= n_components but got n_components = "
                        f"{self.n_components}, n_samples = {len(data.X)}"
                    )
            best = self._best_run(data, resumed)
            if not best["converged_"] and self.max_iter > 0:
                warn(
                    "EM did not converge from the best of the starts. Try other init_params, a "
                    "larger max_iter or tol, or look for degenerate data.",
                    ConvergenceWarning,
                )
            self._set_model(best.pop("model"))
            for name, value in best.items():
                setattr(self, name, value)
            self._forget()
        return data

    def _best_run(self, data, resumed):
        random_state = check_random_state(self.random_state)
        best = None
        for attempt in range(1 if resumed else self.n_init):
            if self.verbose:
                print(f"Initialization {attempt}")
            if resumed:
                model, before = (
                    self._model(),
                    float(checks.numbers("lower_bound_", self.lower_bound_)),
                )
            else:
                model, before = self._start(data, random_state, batch=True), -np.inf
            run = self._run(model, data, before)
            # Without iterations there is nothing to compare, and the last start is kept.
            if (
                best is None
                or not best["lower_bounds_"]
                or run["lower_bound_"] > best["lower_bound_"]
            ):
                best = run
        return best

    def _run(self, model, data, lower_bound):
        """EM from ``model`` until the mean log-likelihood changes by less than ``tol``."""
        lower_bounds, converged = [], False
        n_iter, weight = 0, 0.0
        begun = previous_time = perf_counter()
        for n_iter in range(1, self.max_iter + 1):
            expectation = model.expect(data)
            weight = expectation.weight
            model = model.maximize(expectation.statistics)
            change = expectation.log_likelihood - lower_bound
            lower_bound = expectation.log_likelihood
            if not np.isfinite(lower_bound):
                raise ValueError(
                    f"The log-likelihood is not finite at iteration {n_iter}: squares of the "
                    "data overflow. Scale the columns to a moderate range."
                )
            lower_bounds.append(lower_bound)
            if self.verbose and n_iter % self.verbose_interval == 0:
                now = perf_counter()
                took = f"\t time lapse {now - previous_time:.5f}s\t ll change {change:.5f}"
                previous_time = now
                print(f"  Iteration {n_iter}{took if self.verbose >= 2 else ''}")
            if abs(change) < self.tol:
                converged = True
                break
        if self.verbose and self.max_iter > 0:
            end = "converged" if converged else "did not converge"
            took = f" time lapse {perf_counter() - begun:.5f}s\t lower bound {lower_bound:.5f}."
            print(f"Initialization {end}.{took if self.verbose >= 2 else ''}")
        return {
            "model": model,
            "converged_": converged,
            "n_iter_": n_iter,
            "lower_bound_": lower_bounds[-1] if lower_bounds else -np.inf,
            "lower_bounds_": lower_bounds,
            "n_steps_": 0,
            "n_observations_": weight,
        }

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
        X : array-like of shape (n_samples, n_features), or iterable of such arrays
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        self._check_settings(self._online_constraints)
        with self._all_or_nothing():
            streamed = is_stream(X)
            if streamed:
                if sample_weight is not None:
                    raise ValueError(_WEIGHTS_OF_STREAM)
                data = Stream(X, self._batch_check(), once=True)
            else:
                data = Table(*self._batch_check()(X, sample_weight))
            tables, size, start = self._online_tables(
                data, streamed=streamed, started=hasattr(self, "weights_")
            )
            model = None if start is None else self._begin_online(start)
            for table in tables:
                self._learn(table, size, model)
                model = None
        return self

    def _batch_check(self):
        """A function that checks the arrays to learn from, the first for its columns too."""
        first = not hasattr(self, "weights_")

        def check(X, sample_weight):
            nonlocal first
            X, sample_weight = self._check_table(X, sample_weight, reset=first)
            first = False
            _check_total(sample_weight)
            return X, sample_weight

        return check

    def _begin_online(self, table):
        """The first model of online learning, from its first rows."""
        return self._start(table, check_random_state(self.random_state))

    def _learn(self, table, size, model=None):
        """Take online steps over the rows of a table, in batches of ``size``."""
        X, sample_weight = table.X, table.sample_weight
        if model is None:
            model = self._model()
            # A start by single points may leave weights that do not sum to one.
            if abs(model.weights.sum() - 1) > 1e-6:
                parameters = model.parameters
                parameters["weights"] = model.weights / model.weights.sum()
                model = model.with_parameters(parameters)
        memory = None
        if self.memory == "statistics":
            memory = self._remembered(model)
            if memory is None:
                memory = model.own(model.expect(first_batch(table, size)).horizon)
        weights_of_batches = batch_weights(len(X), size, sample_weight)
        etas, clock = schedule(self.learning_rate, self._clock, weights_of_batches, size)
        batch_size = min(size, len(X))
        if model.family.compiled and (self.batch_size is not None or len(etas) > 1):
            # Rows that kernels cannot read in place are copied, so a bounded number at a time.
            steps = len(etas) if readable(X) else max(1, _CHECKED_ROWS // batch_size)
            for first in range(0, len(etas), steps):
                part = slice(first * batch_size, (first + steps) * batch_size)
                weights = None if sample_weight is None else sample_weight[part]
                model, memory, _ = model.learn_online(
                    X[part], weights, etas[first : first + steps], batch_size, memory
                )
        else:
            for step, start in enumerate(range(0, len(X), batch_size)):
                part = table.part(start, start + batch_size)
                if weights_of_batches[step] > 0:
                    model, statistics = algebra.online(model, part, etas[step], memory)
                    memory = None if memory is None else statistics
        self._set_model(model)
        self._set_clock(clock)
        if memory is None:
            self._forget()
        else:
            self.statistics_ = memory

    # Using the model -------------------------------------------------------------------------

    def _checked(self, X):
        check_is_fitted(self, "weights_")
        return self._check_table(X, reset=False)[0]

    def score_samples(self, X) -> np.ndarray:
        """The log-likelihood of each row."""
        X = self._checked(X)
        return self._model().infer(X, log_totals=True)[0]

    def score(self, X, y=None, sample_weight=None) -> float:
        """The mean log-likelihood of the rows of an array, or of a stream of arrays."""
        check_is_fitted(self, "weights_")
        if is_stream(X):
            return self._model().expect(self._check_data(X, sample_weight, reset=False))[1]
        X, sample_weight = self._check_table(X, sample_weight, reset=False)
        _check_total(sample_weight)
        log_likelihoods = self._model().infer(X, log_totals=True)[0]
        return float(np.average(log_likelihoods, weights=sample_weight))

    def predict(self, X) -> np.ndarray:
        """The likeliest component of each row."""
        return self._labels(self._checked(X))

    def predict_proba(self, X) -> np.ndarray:
        """The probability of each component for each row, (n_samples, n_components)."""
        X = self._checked(X)
        return self._model().infer(X, posteriors=True)[1]

    def _n_parameters(self):
        model = self._model()
        parameters = model.family.unpack(model.packed)
        return model.family.n_parameters(parameters) + len(model.weights) - 1

    def bic(self, X) -> float:
        """Bayesian information criterion on ``X``; the lower the better."""
        return -2 * self.score(X) * len(X) + self._n_parameters() * np.log(len(X))

    def aic(self, X) -> float:
        """Akaike information criterion on ``X``; the lower the better."""
        return -2 * self.score(X) * len(X) + 2 * self._n_parameters()

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
            raise ValueError(f"n_samples must be 1 or more; got {n_samples}.")
        rng = check_random_state(self.random_state)
        model = self._model()
        counts = rng.multinomial(n_samples, model.weights / model.weights.sum())
        y = np.repeat(np.arange(len(counts)), counts)
        return model.family.draw(model.family.unpack(model.packed), y, self._generator(rng)), y

    def _generator(self, random_state):
        """What the family draws with."""
        return np.random.default_rng(random_state.randint(2**31))

    def __sklearn_is_fitted__(self):
        return hasattr(self, "weights_")


def _check_total(sample_weight):
    if sample_weight is not None and not sample_weight.any():
        raise ValueError(
            "The sample weights are all zero: there is nothing to learn from. Give at least one "
            "row a positive weight."
        )
