"""Every method that a peer's users call, over the size of the data, from one row up.

A curve is a method of an estimator over N or T; a cell is one point of it. fastem has the peers'
interfaces, so that both sides run the same lines, and must give the same answers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from .side import Side

__all__ = ["CURVES", "SIZES", "Cell", "Curve", "chosen"]

SIZES = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)

#: Where each library has its estimators.
_MODULES = {
    "fastem": "fastem",
    "scikit-learn": "sklearn.mixture",
    "hmmlearn": "hmmlearn.hmm",
    "pykalman": "pykalman",
}
#: Components, states and columns of all models here, and iterations of their fits.
_K, _D, _N_ITER = 3, 4, 10


class Curve(NamedTuple):
    """A method of an estimator."""

    #: The panel that it is drawn in, such as "GaussianMixture, full".
    estimator: str
    method: str
    peer: str
    #: A fit needs some data.
    least: int = 1
    most: int = SIZES[-1]

    def __str__(self):
        return f"sweep, {self.estimator}, {self.method}, {self.peer}"

    def sizes(self, wanted=SIZES) -> list[int]:
        """Those of the sizes that it is measured at."""
        return [size for size in wanted if self.least <= size <= self.most]


class Cell(NamedTuple):
    """One point of a curve, as a task for the process of a library."""

    curve: Curve
    size: int

    def side(self, library: str) -> Side:
        """How a library, or fastem, does it."""
        curve = self.curve
        return _MAKERS[_class_of(curve.estimator)](library, curve, self.size)


def _class_of(estimator):
    return estimator.split(",")[0]


def _kind_of(estimator):
    return estimator.partition(", ")[2] or "diag"


def _find(library, name):
    return getattr(import_module(_MODULES[library]), name)


@cache
def _rows() -> np.ndarray:
    """Rows that stay some steps in one state after another, of states that overlap."""
    rng = np.random.default_rng(0)
    states = np.repeat(rng.integers(_K, size=SIZES[-1] // 10), 10)
    X = 3.0 * states[:, None] + rng.normal(size=(len(states), _D))
    # All states are among the first few.
    X[:_K] = 3.0 * np.arange(_K)[:, None] + rng.normal(size=(_K, _D))
    return X


def _side(call: Callable[[], Any], answer: Callable[[Any], Any], **options) -> Side:
    return Side(lambda _: call(), answer, iterates=False, **options)


def _drawn(found):
    """Draws are random; they have the same shapes."""
    return np.concatenate([np.shape(part) for part in found])


# Mixtures ----------------------------------------------------------------------------------


@cache
def _mixture(library, kind):
    """After one iteration from the same start."""
    X = _rows()[:3000]
    eye = np.eye(_D)
    precisions = {
        "full": np.repeat(eye[None], _K, axis=0), "tied": eye, "diag": np.ones((_K, _D)),
        "spherical": np.ones(_K),
    }[kind]  # fmt: skip
    model = _find(library, "GaussianMixture")(
        _K, covariance_type=kind, max_iter=1, weights_init=np.full(_K, 1 / _K),
        means_init=X[:_K], precisions_init=precisions,
    )  # fmt: skip
    return model.fit(X)


def _mixture_side(library, curve, size):
    kind, X = _kind_of(curve.estimator), _rows()[:size]
    if curve.method in ("fit", "fit_predict"):
        make = _find(library, "GaussianMixture")

        def fit():
            model = make(_K, covariance_type=kind, random_state=0)
            return getattr(model, curve.method)(X)

        if curve.method == "fit_predict":
            return _side(fit, lambda labels: labels, tolerance=0.0)
        # EM from the same k-means, stopped by the same rule.
        return _side(fit, lambda model: model.lower_bound_, tolerance=1e-6)
    model = _mixture(library, kind)
    if curve.method == "sample":
        return _side(lambda: model.sample(size), _drawn)
    method = getattr(model, curve.method)
    return _side(lambda: method(X), lambda found: found)


# Hidden Markov models ----------------------------------------------------------------------


@cache
def _observations(name):
    """Rows as the emissions of a class are: real numbers, symbols or counts."""
    X = _rows()
    if name == "CategoricalHMM":
        return np.clip(np.round(X[:, :1] / 2), 0, 4).astype(int)
    if name == "PoissonHMM":
        return np.random.default_rng(1).poisson(np.clip(X, 0.5, None))
    return X


@cache
def _chain_model(library, estimator):
    name, kind = _class_of(estimator), _kind_of(estimator)
    centers = np.repeat(3.0 * np.arange(_K)[:, None], _D, axis=1)
    eye = np.repeat(np.eye(_D)[None], _K, axis=0)
    variances = {"full": eye, "diag": np.ones((_K, _D))}[kind]
    settings, parameters = {
        "GaussianHMM": ({"covariance_type": kind}, {"means": centers, "covars": variances}),
        "CategoricalHMM": (
            {},
            {"emissionprob": [[0.61, 0.29, 0.05, 0.03, 0.02], [0.11, 0.27, 0.41, 0.12, 0.09],
                              [0.02, 0.03, 0.06, 0.31, 0.58]]},
        ),
        "PoissonHMM": ({}, {"lambdas": 0.5 + centers}),
        "GMMHMM": (
            {"n_mix": 2},
            {"weights": np.full((_K, 2), 0.5), "covars": np.ones((_K, 2, _D)),
             "means": np.stack([centers - 0.5, centers + 0.5], axis=1)},
        ),
    }[name]  # fmt: skip
    model = _find(library, name)(_K, **settings)
    # No two paths are equally likely.
    model.startprob_ = np.array([0.35, 0.34, 0.31])
    model.transmat_ = np.array([[0.88, 0.07, 0.05], [0.06, 0.85, 0.09], [0.041, 0.082, 0.877]])
    for parameter, value in parameters.items():
        setattr(model, f"{parameter}_", np.asarray(value))
    model.n_features = 5 if name == "CategoricalHMM" else _D
    return model, settings


def _hmm_side(library, curve, size):
    name = _class_of(curve.estimator)
    model, settings = _chain_model(library, curve.estimator)
    X = _observations(name)[:size]
    if curve.method == "fit":
        make = _find(library, name)

        def fit():
            return make(_K, n_iter=_N_ITER, tol=-np.inf, random_state=0, **settings).fit(X)

        return _side(fit, lambda model: model.score(X), tolerance=1e-6)
    if curve.method == "sample":
        return _side(lambda: model.sample(size, random_state=0), _drawn)
    method = getattr(model, curve.method)
    answer = {"decode": lambda found: found[0], "score_samples": lambda found: found[1]}
    return _side(lambda: method(X), answer.get(curve.method, lambda found: found))


# Kalman filters ----------------------------------------------------------------------------


def _kalman_parameters():
    return {
        "transition_matrices": np.array([[1.0, 0.1], [0.0, 1.0]]),
        "observation_matrices": np.eye(2),
        "transition_covariance": 0.1 * np.eye(2),
        "observation_covariance": np.eye(2),
        "initial_state_mean": np.zeros(2),
        "initial_state_covariance": np.eye(2),
    }


def _kalman_side(library, curve, size):
    make = _find(library, "KalmanFilter")
    model, X = make(**_kalman_parameters()), _rows()[:size, :2]
    if curve.method == "em":
        # It changes the model.
        return _side(
            lambda: make(**_kalman_parameters()).em(X, n_iter=_N_ITER),
            lambda model: model.loglikelihood(X), tolerance=1e-6,
        )  # fmt: skip
    if curve.method == "sample":
        return _side(lambda: model.sample(size, random_state=0), _drawn)
    if curve.method == "filter_update":
        mean, covariance = np.zeros(2), np.eye(2)
        return _side(
            lambda: model.filter_update(mean, covariance, X[0]), lambda found: np.asarray(found[0])
        )
    method = getattr(model, curve.method)
    first = curve.method in ("filter", "smooth")
    return _side(lambda: method(X), lambda found: np.asarray(found[0] if first else found))


_MAKERS = {
    "GaussianMixture": _mixture_side,
    "GaussianHMM": _hmm_side,
    "CategoricalHMM": _hmm_side,
    "PoissonHMM": _hmm_side,
    "GMMHMM": _hmm_side,
    "KalmanFilter": _kalman_side,
}


def _curves():
    inference = ("predict", "predict_proba", "score_samples", "score", "bic", "aic", "sample")
    for kind in ("full", "diag", "tied", "spherical"):
        estimator = f"GaussianMixture, {kind}"
        for method in inference:
            yield Curve(estimator, method, "scikit-learn")
        for method in ("fit", "fit_predict"):
            yield Curve(estimator, method, "scikit-learn", least=_K)
    inference = ("predict", "decode", "score", "score_samples", "predict_proba", "sample")
    for estimator in (
        "GaussianHMM, diag", "GaussianHMM, full", "CategoricalHMM", "PoissonHMM", "GMMHMM",
    ):  # fmt: skip
        for method in inference:
            yield Curve(estimator, method, "hmmlearn")
        # With fewer rows covariances are singular, and hmmlearn's probabilities NaN.
        least = 100 if estimator == "GMMHMM" else 30
        yield Curve(estimator, "fit", "hmmlearn", least=least)
    for method in ("filter", "smooth", "loglikelihood"):
        # pykalman takes one step of two columns for two steps of one.
        yield Curve("KalmanFilter", method, "pykalman", least=3)
    yield Curve("KalmanFilter", "sample", "pykalman")
    yield Curve("KalmanFilter", "filter_update", "pykalman", most=1)
    yield Curve("KalmanFilter", "em", "pykalman", least=3)


CURVES = list(_curves())


def chosen(words: list[str]) -> list[Curve]:
    """The curves whose description contains one of the words, whatever their case; else all."""
    if not words:
        return CURVES
    return [it for it in CURVES if any(word.lower() in str(it).lower() for word in words)]
