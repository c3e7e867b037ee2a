"""What all mixture estimators share: scikit-learn's conventions around the algebra."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from time import perf_counter

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from . import algebra
from .data import Stream, Table, is_stream
from .learning_rate import Decay, rates
from .mixture_model import MixtureModel

__all__ = ["BaseMixture"]

# Above this many rows, data that are not floats in memory are sampled for the start: k-means
# would make a copy of them in float64.
_SAMPLE_ROWS = 50_000


class BaseMixture(DensityMixin, BaseEstimator):
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
        "learning_rate": [Real, callable],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
        "memory": [StrOptions({"model", "statistics"})],
        "fixed": ["array-like", str],
        "n_jobs": [Integral, None],
    }

    # Supplied by each estimator --------------------------------------------------------------

    def _family(self):
        """The family of the components."""
        raise AttributeError(f"{type(self).__name__} has no family.")

    def _given_start(self, n_features):
        """Parameters that the user gave to start from, checked, by name."""
        return {}

    def _set_model(self, model):
        """Show a model's parameters as attributes."""
        self.weights_ = model.weights
        for name, array in model.parameters.items():
            setattr(self, f"{name}_", array)

    def _model(self) -> MixtureModel:
        """The model that the attributes describe."""
        family = self._family()
        parameters = {name: getattr(self, f"{name}_") for name in family.parameter_names}
        return self._make_model(self.weights_, parameters)

    def _make_model(self, weights, parameters):
        fixed = (self.fixed,) if isinstance(self.fixed, str) else tuple(self.fixed)
        family = self._family()
        names = ("weights", *family.parameter_names)
        for name in fixed:
            if name not in names:
                raise ValueError(f"fixed: {name!r} is not one of the parameters {names}.")
        return MixtureModel(family, weights, parameters, fixed=fixed, n_jobs=self.n_jobs)

    # Data ------------------------------------------------------------------------------------

    def _check_table(self, X, sample_weight=None, *, reset, min_samples=1):
        X = validate_data(self, X, reset=reset, dtype="numeric", ensure_min_samples=min_samples)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
        family = self._family()
        # A bounded piece at a time, so that the check makes no copy of the data.
        for start in range(0, len(X), 65536):
            family.check(X[start : start + 65536])
        return X, sample_weight

    def _check_data(self, X, sample_weight=None, *, reset, min_samples=1):
        """``X`` as a table or stream of checked arrays."""
        if not is_stream(X):
            return Table(*self._check_table(X, sample_weight, reset=reset, min_samples=min_samples))
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

        return Stream(X, check)

    # The start -------------------------------------------------------------------------------

    def _start(self, data, random_state):
        """The first model, from the data and what the user gave."""
        sample = self._sample(data, random_state)
        n_rows, n_features = sample.X.shape
        given = self._given_start(n_features)
        family = self._family()
        if {"weights", *family.parameter_names} <= given.keys():
            parameters = dict(given)
            return self._make_model(parameters.pop("weights"), parameters)
        if n_rows < self.n_components:
            raise ValueError(
                "Expected n_samples >= n_components but got n_components = "
                f"{self.n_components}, n_samples = {n_rows}"
            )
        responsibilities, centres = self._responsibilities(sample, random_state)
        uniform = np.full(self.n_components, 1.0 / self.n_components)
        # Nothing is held fixed yet: there is nothing to hold.
        rough = MixtureModel(family, uniform, family.start(centres), n_jobs=self.n_jobs)
        model = rough.maximize(rough.expect_given(sample, responsibilities))
        if given:
            model = model.with_parameters({**model.parameters, **given})
        parameters = model.parameters
        return self._make_model(parameters.pop("weights"), parameters)

    def _sample(self, data, random_state):
        """The rows from which to start: all of them when that needs no copy of a large array."""
        if isinstance(data, Table):
            X = data.X
            in_memory = X.dtype.kind == "f" and not isinstance(X.base, np.memmap)
            if in_memory or len(X) <= _SAMPLE_ROWS:
                return data
            chosen = np.sort(random_state.choice(len(X), _SAMPLE_ROWS, replace=False))
            weights = None if data.sample_weight is None else data.sample_weight[chosen]
            return Table(np.asarray(X[chosen], dtype=float), weights)
        rows, keys, weights = None, np.empty(0), None
        for table in data.tables():
            # Of all rows, those with the smallest random keys: a uniform sample in one pass.
            n = len(table.X)
            w = np.ones(n) if table.sample_weight is None else table.sample_weight
            new_keys = random_state.uniform(size=n)
            rows = table.X if rows is None else np.concatenate([rows, table.X])
            keys = np.concatenate([keys, new_keys])
            weights = w if weights is None else np.concatenate([weights, w])
            if len(keys) > _SAMPLE_ROWS:
                kept = np.sort(np.argpartition(keys, _SAMPLE_ROWS)[:_SAMPLE_ROWS])
                rows, keys, weights = rows[kept], keys[kept], weights[kept]
        return Table(np.asarray(rows, dtype=float), weights)

    def _responsibilities(self, sample, random_state):
        """A function of (start, stop) that gives the first responsibilities, and rough centres."""
        from sklearn.cluster import KMeans, kmeans_plusplus

        X, n_components = sample.X, self.n_components
        n_rows = len(X)
        middle = np.asarray(X[: min(n_rows, 65536)], dtype=float).mean(axis=0)
        centres = np.repeat(middle[None], n_components, axis=0)
        if self.init_params == "random":

            def uniform(start, stop):
                drawn = random_state.uniform(size=(stop - start, n_components))
                return drawn / drawn.sum(axis=1, keepdims=True)

            return uniform, centres
        if self.init_params == "kmeans":
            kmeans = KMeans(n_clusters=n_components, n_init=1, random_state=random_state)
            kmeans.fit(X, sample_weight=sample.sample_weight)
            labels = kmeans.labels_

            def one_hot(start, stop):
                return np.eye(n_components)[labels[start:stop]]

            return one_hot, np.asarray(kmeans.cluster_centers_, dtype=float)
        if self.init_params == "random_from_data":
            chosen = random_state.choice(n_rows, size=n_components, replace=False)
        else:
            _, chosen = kmeans_plusplus(
                X, n_components, sample_weight=sample.sample_weight, random_state=random_state
            )

        def single(start, stop):
            picked = np.zeros((stop - start, n_components))
            for k, row in enumerate(chosen):
                if start <= row < stop:
                    picked[row - start, k] = 1.0
            return picked

        return single, np.asarray(X[chosen], dtype=float)

    # Learning --------------------------------------------------------------------------------

    def fit(self, X, y=None, sample_weight=None):
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

    def fit_predict(self, X, y=None, sample_weight=None):
        """Fit and return the likeliest component of each row."""
        data = self._fit(X, sample_weight)
        if isinstance(data, Stream):
            return np.concatenate([self._labels(table.X) for table in data.tables()])
        return self._labels(data.X)

    def _labels(self, X):
        return self._model().infer(X, labels=True)[2]

    @_fit_context(prefer_skip_nested_validation=True)
    def _fit(self, X, sample_weight):
        data = self._check_data(X, sample_weight, reset=True, min_samples=2)
        if isinstance(data, Table) and len(data.X) < self.n_components:
            raise ValueError(
                "Expected n_samples >= n_components but got n_components = "
                f"{self.n_components}, n_samples = {len(data.X)}"
            )
        random_state = check_random_state(self.random_state)
        resumed = self.warm_start and hasattr(self, "converged_")
        best = None
        for attempt in range(1 if resumed else self.n_init):
            if self.verbose:
                print(f"Initialization {attempt}")
            if resumed:
                model, before = self._model(), self.lower_bound_
            else:
                model, before = self._start(data, random_state), -np.inf
            run = self._run(model, data, before)
            if best is None or run["lower_bound_"] > best["lower_bound_"]:
                best = run
        if not best["converged_"] and self.max_iter > 0:
            warnings.warn(
                "EM did not converge from the best of the starts. Try other init_params, a larger "
                "max_iter or tol, or look for degenerate data.",
                ConvergenceWarning,
                stacklevel=4,
            )
        self._set_model(best.pop("model"))
        for name, value in best.items():
            setattr(self, name, value)
        self.n_steps_ = 0
        self._forget()
        return data

    def _run(self, model, data, lower_bound):
        """EM from ``model`` until the mean log-likelihood changes by less than ``tol``."""
        lower_bounds, converged = [], False
        n_iter = 0
        begun = previous_time = perf_counter()
        for n_iter in range(1, self.max_iter + 1):
            expectation = model.expect(data)
            model = model.maximize(expectation.statistics)
            change = expectation.log_likelihood - lower_bound
            lower_bound = expectation.log_likelihood
            if np.isnan(lower_bound):
                raise ValueError("The log-likelihood is not a number: the data overflow.")
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
            "lower_bound_": lower_bound,
            "lower_bounds_": lower_bounds,
        }

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None, sample_weight=None):
        """Learn online from new rows.

        Each batch moves the model to the minimum of the batch's loss plus the divergence from the
        present model over the learning rate. The batches are mini-batches of ``batch_size`` rows,
        or all of ``X`` if that is None. The first call starts the model from its rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or iterable of such arrays
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        started = hasattr(self, "weights_")
        if is_stream(X):
            if sample_weight is not None:
                raise ValueError("A stream yields pairs (array, weights) instead of sample_weight.")
            for item in X() if callable(X) else X:
                pair = item if isinstance(item, tuple) else (item, None)
                self.partial_fit(pair[0], sample_weight=pair[1])
            return self
        X, sample_weight = self._check_table(X, sample_weight, reset=not started)
        if started:
            model = self._model()
        else:
            model = self._start(Table(X, sample_weight), check_random_state(self.random_state))
        done = getattr(self, "n_steps_", 0)
        memory = None
        if self.memory == "statistics":
            memory = getattr(self, "statistics_", None)
            if memory is None:
                memory = model.own(model.expect(Table(X, sample_weight)).horizon)
        batch_size = self.batch_size or len(X)
        n_steps = -(-len(X) // batch_size)
        etas = rates(self.learning_rate, done + 1, n_steps)
        if self.batch_size is not None and model.family.compiled:
            model, memory, _ = model.learn_online(X, sample_weight, etas, batch_size, memory)
        else:
            for step, start in enumerate(range(0, len(X), batch_size)):
                part = slice(start, start + batch_size)
                weights = None if sample_weight is None else sample_weight[part]
                if weights is not None and not weights.any():
                    continue
                model, statistics = algebra.online(
                    model, Table(X[part], weights), etas[step], memory
                )
                memory = None if memory is None else statistics
        self._set_model(model)
        self.n_steps_ = done + n_steps
        if memory is not None:
            self.statistics_ = memory
        if not started:
            self.converged_ = False
            self.n_iter_ = 0
            self.lower_bound_ = -np.inf
            self.lower_bounds_ = []
        return self

    def _forget(self):
        """Drop what online learning remembered."""
        if hasattr(self, "statistics_"):
            del self.statistics_

    # Using the model -------------------------------------------------------------------------

    def _checked(self, X):
        check_is_fitted(self, "weights_")
        return self._check_table(X, reset=False)[0]

    def score_samples(self, X):
        """The log-likelihood of each row."""
        X = self._checked(X)
        return self._model().infer(X, log_totals=True)[0]

    def score(self, X, y=None, sample_weight=None):
        """The mean log-likelihood of the rows."""
        X = self._checked(X)
        log_likelihoods = self._model().infer(X, log_totals=True)[0]
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        return float(np.average(log_likelihoods, weights=sample_weight))

    def predict(self, X):
        """The likeliest component of each row."""
        return self._labels(self._checked(X))

    def predict_proba(self, X):
        """The probability of each component for each row, (n_samples, n_components)."""
        X = self._checked(X)
        return self._model().infer(X, posteriors=True)[1]

    def _n_parameters(self):
        model = self._model()
        parameters = model.family.unpack(model.packed)
        return model.family.n_parameters(parameters) + len(model.weights) - 1

    def bic(self, X):
        """Bayesian information criterion on ``X``; the lower the better."""
        return -2 * self.score(X) * len(X) + self._n_parameters() * np.log(len(X))

    def aic(self, X):
        """Akaike information criterion on ``X``; the lower the better."""
        return -2 * self.score(X) * len(X) + 2 * self._n_parameters()

    def sample(self, n_samples=1):
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
        generator = np.random.default_rng(rng.randint(2**31))
        return model.family.draw(model.family.unpack(model.packed), y, generator), y

    def __sklearn_is_fitted__(self):
        return hasattr(self, "weights_")


#: The learning rate that estimators have unless told otherwise.
DEFAULT_RATE = Decay(1.0, 0.6)
