"""What makes fastem's Gaussian mixtures those of scikit-learn: its private steps, and its models.

A subclass of scikit-learn's mixture may override one of the steps that ``fit`` is made of there,
such as ``_m_step``. The classes here have all of them: those of ``GaussianMixture`` are made of
kernels, those of ``BayesianGaussianMixture`` are scikit-learn's. If one of them is overridden,
scikit-learn's own ``fit`` calls them, in its order and with its arguments; otherwise batch EM is
that of :mod:`fastem.algebra`.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from sklearn.mixture import BayesianGaussianMixture as ScikitBayesianMixture
from sklearn.mixture import GaussianMixture as ScikitMixture

from ..data.remote import Remote
from ..data.rows import Table, is_stream
from ..exceptions import NotEnoughData
from ..learning_rate import Clock
from ..progress import SILENT, display_of
from ..sklearn_compat import check_sample_weight
from ..waiting import KEPT
from .base import BaseMixture
from .model import MixtureModel

__all__ = ["BayesianScikitSteps", "ScikitSteps"]

#: The steps that say what a model answers.
_OF_INFERENCE = (
    "_estimate_log_prob", "_estimate_log_weights", "_estimate_weighted_log_prob",
    "_estimate_log_prob_resp",
)  # fmt: skip
#: All steps that ``fit`` consists of.
_OF_LEARNING = (
    *_OF_INFERENCE, "_check_parameters", "_initialize_parameters", "_initialize", "_e_step",
    "_m_step", "_compute_lower_bound", "_get_parameters", "_set_parameters",
    "_print_verbose_msg_init_beg", "_print_verbose_msg_iter_end", "_print_verbose_msg_init_end",
)  # fmt: skip

#: What ``fit`` consists of besides, where there are priors.
_OF_BAYESIAN_LEARNING = (
    "_check_weights_parameters", "_check_means_parameters", "_check_precision_parameters",
    "_checkcovariance_prior_parameter", "_estimate_weights", "_estimate_means",
    "_estimate_precisions", "_estimate_wishart_full", "_estimate_wishart_tied",
    "_estimate_wishart_diag", "_estimate_wishart_spherical",
)  # fmt: skip
#: Public methods that others of scikit-learn call: ``fit`` and ``score``.
_CALLED_BY_OTHERS = ("fit_predict", "score_samples")

#: What both of scikit-learn's classes know of a fit.
_LEARNED = (
    "weights_", "means_", "covariances_", "precisions_cholesky_", "precisions_", "converged_",
    "n_iter_", "lower_bound_", "lower_bounds_", "n_features_in_", "feature_names_in_",
)  # fmt: skip
_LEARNED_OF_POSTERIOR = (
    "weight_concentration_", "mean_precision_", "degrees_of_freedom_",
    "weight_concentration_prior_", "mean_precision_prior_", "mean_prior_",
    "degrees_of_freedom_prior_", "covariance_prior_",
)  # fmt: skip

#: Where a fit fails, scikit-learn tries it with as many numbers at most: it makes copies of them.
_MOST_NUMBERS = 2**24


def _are_doubles(values):
    return isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype == np.float64


class _PeerSteps(BaseMixture):
    """What both classes with scikit-learn's steps share, and the way from one class to the other.

    scikit-learn's class comes last among the bases of a class with steps: what is used of it are
    its loop, and steps that only call others.
    """

    #: scikit-learn's class, which each class with steps names; what it knows of a fit; its steps.
    _peer: Any
    _learned_by_peer: tuple[str, ...] = _LEARNED
    _steps: tuple[str, ...] = _OF_LEARNING
    #: The steps, and other methods that scikit-learn's own ones call, as they are in this file.
    _plain_steps: dict[str, Any] = {}  # noqa: RUF012

    def __init_subclass__(cls, **keywords):
        super().__init_subclass__(**keywords)
        if "_peer" in vars(cls):
            names = (*cls._steps, *_CALLED_BY_OTHERS)
            cls._plain_steps = {name: getattr(cls, name) for name in names}

    def _overridden(self, names) -> list[str]:
        """Which of these steps are not those of this file."""
        # Looked for each time, because a class or an object can be given a step later on.
        kind, state, plain = type(self), vars(self), self._plain_steps
        # Not ``getattr``, which the type of a class that :func:`fastem.patch` made answers itself.
        return [n for n in names if n in state or type.__getattribute__(kind, n) is not plain[n]]

    def _answers_itself(self):
        """Whether a step of inference is overridden. It is asked before every answer."""
        return bool(self._overridden(_OF_INFERENCE))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # Kernels read arrays of NumPy.
        tags.array_api_support = False
        return tags

    # Learning ----------------------------------------------------------------------------------

    def fit(self, X, y=None, sample_weight=None) -> Self:
        # As scikit-learn's, where that is of one's own.
        if self._overridden(("fit_predict",)):
            given = {} if sample_weight is None else {"sample_weight": sample_weight}
            self.fit_predict(X, y, **given)
            return self
        return super().fit(X, y, sample_weight)

    fit.__doc__ = BaseMixture.fit.__doc__

    def _fit(self, X, **given):
        names = self._overridden(self._steps)
        if names:
            return self._fit_by_steps(X, names, **given)
        return super()._fit(X, **given)

    def _fit_by_steps(self, X, names, sample_weight=None, min_samples=2):
        """``fit`` as scikit-learn does it, step by step; returns the data, checked."""
        refused = {
            "sample_weight": sample_weight is not None,
            "a stream": is_stream(X) or isinstance(X, Remote),
            f"solver={self.solver!r}": self.solver != "em",
            "a callback": self.callback is not None,
        }
        for what, is_given in refused.items():
            if is_given:
                raise ValueError(
                    f"{type(self).__name__} overrides {', '.join(names)}: fit then goes step by "
                    f"step as in scikit-learn, and {what} has no place in it. Leave it out, or "
                    "override nothing."
                )
        with self._all_or_nothing():
            self._begin_fit()
            # scikit-learn's loop says by the steps below how it goes.
            with display_of(self, "fit") as self._display:
                self._peer.fit_predict(self, X)
            del self._display
            rows = self._check_table(X, reset=False, min_samples=min_samples)[0]
            self._set_clock(Clock(observations=float(len(rows))))
        return Table(rows)

    #: What shows a fit that goes step by step.
    _display = SILENT

    def _print_verbose_msg_init_beg(self, n_init):
        """A start begins."""
        self._display.begin(self.max_iter, n_init + 1, self.n_init)

    def _print_verbose_msg_iter_end(self, n_iter, diff_ll):
        """An iteration has changed the lower bound."""
        self._display.step(n_iter, math.nan, f"change {diff_ll:+.2g}")

    def _print_verbose_msg_init_end(self, lb, init_has_converged):
        """A start has ended."""
        how = "converged" if init_has_converged else "not converged"
        self._display.end(f"{how} at the log-likelihood {lb:.6g}")

    def _begin_fit(self):
        """Remove what is of no use after a fit; whether it continues an earlier one."""
        resumed = self._resumes()
        if not resumed:
            self._forget_fit()
        for name in (KEPT, "history_", "_drift", "_averaging", "statistics_"):
            vars(self).pop(name, None)
        return resumed

    def _partial_fit(self, X, **given):
        self._check_that_online_learning_sees_all()
        return super()._partial_fit(X, **given)

    def learner(self):
        self._check_that_online_learning_sees_all()
        return super().learner()

    learner.__doc__ = BaseMixture.learner.__doc__

    def _check_that_online_learning_sees_all(self):
        names = self._overridden(self._steps)
        if names:
            raise TypeError(
                f"{type(self).__name__} overrides {', '.join(names)}, which online learning does "
                "not call. Use fit, or a class that does not override it."
            )

    def _set_iterations(self, log_likelihoods, *, converged):
        super()._set_iterations(log_likelihoods, converged=converged)
        self._show_bounds()

    def _show_bounds(self):
        # NumPy numbers, as scikit-learn has them: programs call their methods.
        if "lower_bounds_" in vars(self):
            self.lower_bounds_ = [np.float64(bound) for bound in self.lower_bounds_]
            self.lower_bound_ = np.float64(self.lower_bound_)

    # Using the model ---------------------------------------------------------------------------

    def _labels(self, X):
        if self._answers_itself():
            return np.argmax(self._estimate_weighted_log_prob(X), axis=1)
        return super()._labels(X)

    def _posteriors(self, X):
        if self._answers_itself():
            return np.exp(self._estimate_log_prob_resp(X)[1])
        return self._rounded_as(X, super()._posteriors(X))

    def _log_likelihoods(self, X):
        if self._answers_itself():
            return self._estimate_log_prob_resp(X)[0]
        return self._rounded_as(X, super()._log_likelihoods(X))

    def _rounded_as(self, X, values):
        """Answers in the type that scikit-learn gives them for these rows."""
        return values

    def score(self, X, y=None, sample_weight=None) -> float:
        """The mean log-likelihood of the rows of an array, or of a stream of arrays."""
        if self._overridden(("score_samples",)) and not is_stream(X):
            log_likelihoods = self.score_samples(X)
            if sample_weight is not None:
                sample_weight = check_sample_weight(
                    sample_weight, log_likelihoods[:, None], ensure_non_negative=True
                )
            return float(np.average(log_likelihoods, weights=sample_weight))
        if self._answers_itself() and is_stream(X):
            raise ValueError(
                f"{type(self).__name__} overrides steps of scikit-learn's mixtures, which take "
                "arrays. Score the arrays of the stream one by one."
            )
        return super().score(X, y, sample_weight)

    # From one class to the other -----------------------------------------------------------------

    def to_sklearn(self):
        """This model as one of scikit-learn, for programs that ask for exactly that class.

        Its answers are the same. Settings that scikit-learn does not have are left out.

        Returns
        -------
        sklearn.mixture.GaussianMixture or sklearn.mixture.BayesianGaussianMixture

        Examples
        --------
        >>> import numpy as np
        >>> import fastem
        >>> X = np.random.default_rng(0).normal(size=(100, 2))
        >>> model = fastem.GaussianMixture(2, random_state=0).fit(X)
        >>> type(model.to_sklearn()).__module__.partition(".")[0]
        'sklearn'
        """
        names = self._overridden(_OF_INFERENCE)
        if names:
            raise TypeError(
                f"{type(self).__name__} overrides {', '.join(names)}: a model of scikit-learn "
                "with the same parameters would give other answers."
            )
        peer = self._peer(**{name: getattr(self, name) for name in self._peer().get_params()})
        if self.__sklearn_is_fitted__():
            shown = self._whole()
            for name in self._learned_by_peer:
                if name in shown:
                    setattr(peer, name, _copied(shown[name]))
            for name in self._parameter_attributes():
                # Lists that were set by hand are arrays there.
                if isinstance(getattr(peer, name), list):
                    setattr(peer, name, np.asarray(getattr(peer, name)))
        return peer

    def _whole(self) -> dict:
        """Attributes by name, with those that scikit-learn answers with."""
        return vars(self)

    @classmethod
    def from_sklearn(cls, model, *, n_observations=0, **settings) -> Self:
        """A model of scikit-learn as one of fastem, to go on with.

        Its answers are the same.

        Parameters
        ----------
        model : sklearn.mixture.GaussianMixture or sklearn.mixture.BayesianGaussianMixture
            Of the class of the same name; fitted or not.
        n_observations : float, default=0
            The number of rows that it was fitted to, which scikit-learn does not keep. Online
            learning goes on from there; after 0 rows it hardly remembers the model.
        **settings
            Those that only fastem has, or that should be others.

        Returns
        -------
        GaussianMixture or BayesianGaussianMixture

        Examples
        --------
        >>> import numpy as np
        >>> import sklearn.mixture
        >>> import fastem
        >>> X = np.random.default_rng(0).normal(size=(100, 2))
        >>> peer = sklearn.mixture.GaussianMixture(2, random_state=0).fit(X)
        >>> model = fastem.GaussianMixture.from_sklearn(peer, n_observations=len(X))
        >>> bool((model.predict(X) == peer.predict(X)).all())
        True
        """
        if not isinstance(model, cls._peer):
            raise TypeError(
                f"from_sklearn takes a sklearn.mixture.{cls._peer.__name__}; got a "
                f"{type(model).__name__}."
            )
        made = cls(**{**{name: getattr(model, name) for name in cls._peer().get_params()},
                      **settings})  # fmt: skip
        made._take(model)
        if made.__sklearn_is_fitted__():
            made._set_clock(Clock(observations=float(n_observations)))
            made._check_learned()
        return made

    def _take(self, peer):
        """What another estimator has learned, as this one's own."""
        vars(self).pop("_in_double", None)
        for name in self._learned_by_peer:
            if name in vars(peer):
                setattr(self, name, _copied(vars(peer)[name]))
        if "lower_bounds_" in vars(self):
            self.lower_bounds_ = [_number(bound) for bound in self.lower_bounds_]
            self.lower_bound_ = _number(self.lower_bound_)


class ScikitSteps(_PeerSteps, ScikitMixture):
    """The steps of scikit-learn's ``GaussianMixture``, made of kernels."""

    _peer = ScikitMixture

    # Learning ----------------------------------------------------------------------------------

    def _fit(self, X, **given):
        if self._overridden(self._steps):
            return super()._fit(X, **given)
        try:
            data = super()._fit(X, **given)
        except NotEnoughData as error:
            if self._family().failure not in str(error):
                raise
            data = self._fit_by_peer(X, error, **given)
        if isinstance(data, Table) and data.X.dtype == np.float32:
            self._show_in_single()
        return data

    def _fit_by_peer(self, X, error, sample_weight=None, min_samples=2):
        """A fit that failed with variances of zero, by scikit-learn.

        There, rounding may leave something of them, and the fit goes on with that.
        """
        has_no_peer = (
            sample_weight is not None or is_stream(X) or isinstance(X, Remote) or self.fixed
            or self.solver != "em" or self.callback is not None
        )  # fmt: skip
        if has_no_peer or np.size(X) > _MOST_NUMBERS:
            raise error
        with self._all_or_nothing():
            resumed = self._begin_fit()
            peer = self.to_sklearn().set_params(verbose=0)
            rows = self._check_table(X, reset=not resumed, min_samples=min_samples)[0]
            try:
                with display_of(self, "fit") as display, np.errstate(all="ignore"):
                    display.begin(self.max_iter)
                    peer.fit(rows)
                    display.step(peer.n_iter_, peer.lower_bound_)
                    display.end("converged" if peer.converged_ else "not converged")
            except ValueError:
                raise error from None
            if not all(np.isfinite(getattr(peer, name)).all() for name in self._rounded):
                raise error
            columns = {n: v for n, v in vars(self).items() if n.endswith("features_in_")}
            self._take(peer)
            vars(self).update(columns)
            self._set_clock(Clock(observations=float(len(rows))))
        return Table(rows)

    def _rounded_as(self, X, values):
        """Answers in float32 if that is the type of the rows and of the model."""
        if X.dtype.char == "f" and getattr(self.means_, "dtype", None) == np.float32:
            return _in_single(values)
        return values

    # Numbers in float32 ------------------------------------------------------------------------

    _learned_kinds = {**BaseMixture._learned_kinds, "_in_double": _are_doubles}  # noqa: RUF012

    def _forget_start(self):
        super()._forget_start()
        vars(self).pop("_in_double", None)

    #: What a model is made of, in this order; in ``_in_double`` as it was before it was rounded.
    _rounded = ("weights_", "means_", "covariances_", "precisions_cholesky_")

    def _show_in_single(self):
        """Show the parameters in float32, as scikit-learn does after a fit of such rows.

        The model keeps all their digits: online learning, for instance, goes on with them. Where
        squares of the data are outside the range of float32, it shows them, too.
        """
        exact = {name: getattr(self, name) for name in (*self._rounded, "precisions_")}
        rounded = {name: _in_single(array) for name, array in exact.items()}
        if any(array.dtype != np.float32 for array in rounded.values()):
            return
        for name in ("covariances_", "precisions_"):
            array = rounded[name]
            if self._family().matrices:
                array = np.diagonal(array, axis1=-2, axis2=-1)
            if (array < np.finfo(np.float32).tiny).any():
                return
        for name, array in rounded.items():
            setattr(self, name, array)
        self._in_double = np.concatenate([exact[name].ravel() for name in self._rounded])

    def _exact(self, name):
        """A parameter with all its digits, unless it was set by hand since."""
        shown = getattr(self, name)
        if "_in_double" not in vars(self) or getattr(shown, "dtype", None) != np.float32:
            return shown
        kept = self._in_double
        sizes = [np.size(getattr(self, other, ())) for other in self._rounded]
        if np.shape(kept) != (sum(sizes),):
            return shown
        place = self._rounded.index(name)
        first = sum(sizes[:place])
        exact = kept[first : first + sizes[place]].reshape(shown.shape)
        with np.errstate(over="ignore"):
            is_same = np.array_equal(exact.astype(np.float32), shown)
        return exact if is_same else shown

    # scikit-learn's steps ------------------------------------------------------------------------

    def _initialize_parameters(self, X, random_state, xp=None):
        """Set the parameters to start from."""
        given = (self.weights_init, self.means_init, self.precisions_init)
        if all(value is not None for value in given):
            self._initialize(X, None)
            return
        responsibilities = self._responsibilities(Table(np.asarray(X)), random_state)[0]
        self._initialize(X, responsibilities(0, len(X)))

    def _initialize(self, X, resp, xp=None):
        """Set the parameters to start from, given responsibilities; None if all others are given.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        resp : array of shape (n_samples, n_components) or None
        """
        X = np.asarray(X)
        n_components = self.n_components if resp is None else np.shape(resp)[1]
        given = self._given_parameters(n_components, X.shape[1])
        if resp is None:
            model = self._make_model(given.pop("weights"), given)
        else:
            model = self._model_of_responsibilities(X, resp, self._rough_model(X, n_components))
            share = float(np.sum(resp)) / len(X)
            # Random responsibilities sum to one but for rounding.
            share = 1.0 if abs(share - 1.0) < 1e-12 else share
            model = self._first_model(model, Table(X), share)
            if given:
                model = model.with_parameters({**model.parameters, **given})
        self._show(model, X)

    def _m_step(self, X, log_resp, xp=None):
        """Set the parameters to the maximum, given logarithms of responsibilities.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        log_resp : array of shape (n_samples, n_components)
        """
        X = np.asarray(X)
        resp = np.exp(log_resp)
        before = self._model() if self.fixed else self._rough_model(X, np.shape(resp)[1])
        try:
            model = self._model_of_responsibilities(X, resp, before)
        except NotEnoughData:
            if self.fixed:
                raise
            # Rounding may leave something of a variance there.
            ScikitMixture._m_step(self, X, log_resp)
            return
        self._show(model, X)

    def _estimate_log_prob(self, X, xp=None):
        """The logarithm of the density of each component at each row, without the weights.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        X = np.asarray(X)
        parameters, family = self._parameters(), self._family()
        shared = (*family.shared_parameters, "precisions_cholesky") * bool(family.shared_parameters)
        log_densities = np.empty((len(X), len(parameters["means"])))
        for k in range(log_densities.shape[1]):
            one = {n: p if n in shared else p[k : k + 1] for n, p in parameters.items()}
            # Of a mixture of one component, the log-likelihood.
            model = MixtureModel(family, np.ones(1), one, n_jobs=self.n_jobs)
            log_densities[:, k] = model.infer(X, log_totals=True)[0]
        return self._rounded_as(X, log_densities)

    def _estimate_log_weights(self, xp=None):
        """The logarithms of the weights."""
        with np.errstate(divide="ignore"):
            return np.log(np.asarray(self.weights_))

    def _rough_model(self, X, n_components):
        """A model whose means are near those of the data, which sums are taken about."""
        means = np.asarray(getattr(self, "means_", np.nan), dtype=float)
        if means.shape != (n_components, X.shape[1]) or not np.isfinite(means).all():
            means = np.repeat(np.asarray(X, dtype=float).mean(axis=0)[None], n_components, axis=0)
        family = self._family()
        weights = np.full(n_components, 1.0 / n_components)
        return MixtureModel(family, weights, family.start(means), n_jobs=self.n_jobs)

    def _model_of_responsibilities(self, X, resp, before):
        """The model of greatest likelihood, given responsibilities, from one of the same size."""
        resp = np.asarray(resp, dtype=float)
        if resp.shape != (len(X), len(before.weights)):
            raise ValueError(
                f"Responsibilities must have the shape {(len(X), len(before.weights))}, rows by "
                f"components; got {resp.shape}."
            )
        return before.maximize(before.expect_given(Table(X), lambda a, b: resp[a:b]))

    def _show(self, model, X):
        self._set_model(model)
        if X.dtype == np.float32:
            self._show_in_single()

    def _whole(self):
        shown = {name: vars(self)[name] for name in _LEARNED if name in vars(self)}
        if not {*self._rounded, "precisions_"} <= shown.keys():
            whole = type(self)(**self.get_params(deep=False))
            whole._set_model(self._model())
            shown = {**vars(whole), **shown}
        return shown


class BayesianScikitSteps(_PeerSteps, ScikitBayesianMixture):
    """The steps of scikit-learn's ``BayesianGaussianMixture``, which are scikit-learn's own."""

    _peer = ScikitBayesianMixture
    _learned_by_peer = (*_LEARNED, *_LEARNED_OF_POSTERIOR)
    _steps = (*_OF_LEARNING, *_OF_BAYESIAN_LEARNING)

    def _estimate_log_prob(self, X, xp=None):
        """The expected log-density of each component at each row, without the weights.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        X = np.asarray(X)
        # Of integers, scikit-learn makes log-densities that are integers.
        return super()._estimate_log_prob(X if X.dtype.char in "fd" else X.astype(float))

    def _compute_lower_bound(self, log_resp, log_prob_norm):
        """The lower bound of the evidence of all data, up to a constant."""
        # Tied covariances have a bound that is an array of one number in scikit-learn.
        return _number(super()._compute_lower_bound(log_resp, log_prob_norm))


def _in_single(values):
    """Numbers in float32, or as they are if one of them is too large for it."""
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float32)
    return rounded if np.array_equal(np.isfinite(rounded), np.isfinite(values)) else values


def _number(value):
    """A number, or the only one of an array."""
    return np.float64(np.ravel(value)[0])


def _copied(value):
    if isinstance(value, tuple):
        return tuple(_copied(part) for part in value)
    return value.copy() if isinstance(value, (np.ndarray, list)) else value
