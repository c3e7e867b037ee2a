"""Small inputs: calls whose time is mostly Python's, from one row or one observation up."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle, islice
from typing import Any, NamedTuple

import numpy as np

from .rows import Bar
from .side import Side
from .sweep import Cell, Curve

__all__ = ["SMALL", "Alone", "Iris", "SmallRow", "chosen"]

#: Observations of a stream that are timed at once, one call each.
_AT_ONCE = 50


class SmallRow(NamedTuple):
    """One comparison; without a peer, the bar and the goal are seconds."""

    work: str
    shape: str
    task: Any
    peer: str | None
    bar: Bar

    def __str__(self):
        return f"small, {self.work}, {self.shape}, {self.peer or 'alone'}"


class Iris(NamedTuple):
    """A mixture of three, fitted to the 150 rows of iris, as a task."""

    covariance_type: str
    #: From a start that is given; None for k-means and the default tolerance.
    n_iter: int | None = None

    def side(self, library: str) -> Side:
        """How a library, or fastem, does it."""
        from sklearn.datasets import load_iris

        if library == "fastem":
            from fastem import GaussianMixture
        else:
            from sklearn.mixture import GaussianMixture
        X = load_iris().data
        settings: dict[str, Any] = {"covariance_type": self.covariance_type, "random_state": 0}
        if self.n_iter is not None:
            settings |= {
                "max_iter": self.n_iter, "tol": 0.0, "means_init": X[[0, 60, 120]],
                "weights_init": np.full(3, 1 / 3), "precisions_init": np.array([np.eye(4)] * 3),
            }  # fmt: skip
        return Side(
            lambda _: GaussianMixture(3, **settings).fit(X), lambda model: model.lower_bound_,
            iterates=False, tolerance=1e-6,
        )  # fmt: skip


class Alone(NamedTuple):
    """What fastem alone does: a function that prepares it, and returns a call and its arguments.

    The call is made with each of the arguments in turn.
    """

    prepare: Callable[..., tuple[Callable[[Any], Any], list]]
    settings: tuple = ()

    def side(self, library: str) -> Side:
        """The side of fastem."""
        call, observations = self.prepare(*self.settings)
        stream = cycle(observations)

        def run(_):
            for observation in islice(stream, _AT_ONCE):
                call(observation)

        return Side(run, lambda _: 0.0, iterates=False, n_calls=_AT_ONCE)


def _mixture(batch_size=None):
    import fastem

    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 8)) + 4.0 * rng.integers(5, size=(5000, 1))
    settings = {} if batch_size is None else {"batch_size": batch_size}
    model = fastem.GaussianMixture(5, covariance_type="diag", random_state=0, **settings)
    return model.fit(X), X


def _hmm():
    import fastem

    rng = np.random.default_rng(0)
    sequences = rng.normal(size=(50, 20, 4)) + 3.0 * rng.integers(4, size=(50, 20, 1))
    model = fastem.GaussianHMM(4, random_state=0, n_iter=3)
    return model.fit(sequences.reshape(-1, 4), [20] * 50), sequences


def _kalman():
    import fastem

    rng = np.random.default_rng(0)
    sequences = rng.normal(size=(50, 20, 6)).cumsum(axis=1)
    return fastem.KalmanFilter(n_dim_state=3, n_dim_obs=6, random_state=0).fit(sequences), sequences


def rows(batch_size=None):
    """``partial_fit`` with one row."""
    model, X = _mixture(batch_size)
    return model.partial_fit, [X[i : i + 1] for i in range(1000)]


def hmm_sequences():
    """``partial_fit`` with one sequence."""
    model, sequences = _hmm()
    return model.partial_fit, list(sequences)


def kalman_sequences():
    """``partial_fit`` with one sequence."""
    model, sequences = _kalman()
    return model.partial_fit, [sequence[None] for sequence in sequences]


def one_row(method):
    """A learner of a mixture."""
    model, X = _mixture(1)
    learner = model.learner()
    # Settings are checked by the first observation.
    learner.learn_one(X[0])
    return getattr(learner, method), list(X[:1000])


def one_sequence_of_chain(method):
    """A learner of a hidden Markov model."""
    model, sequences = _hmm()
    return getattr(model.learner(), method), list(sequences)


def one_sequence_of_system(method):
    """A learner of a Kalman filter."""
    model, sequences = _kalman()
    return getattr(model.learner(), method), list(sequences)


def states_of_chain():
    """A filter of the states of a chain, one observation at a time."""
    model, sequences = _hmm()
    return model.filter().update, list(sequences.reshape(-1, 4))


def states_of_system():
    """A Kalman filter, one observation at a time."""
    model, sequences = _kalman()
    return model.stream().update, list(sequences.reshape(-1, 6))


def _peer(work, estimator, method, peer, size, shape, bar, goal):
    cell = Cell(Curve(estimator, method, peer), size)
    return SmallRow(work, shape, cell, peer, Bar(bar, goal))


def _hmm_fit(estimator):
    name = estimator.replace(", ", " ")
    shape = "T=300 K=3, 10 iterations"
    return _peer(f"{name} fit", estimator, "fit", "hmmlearn", 300, shape, 3, 10)


def _alone(work, shape, bar, goal, prepare, *settings):
    """A row without a peer; its bar and goal in microseconds, or None."""
    seconds = [None if it is None else it * 1e-6 for it in (bar, goal)]
    return SmallRow(work, shape, Alone(prepare, settings), None, Bar(*seconds))


_MIXTURE = "GaussianMixture, full"
_CHAIN = "GaussianHMM, diag"

SMALL = [
    _peer("GaussianMixture.predict", _MIXTURE, "predict", "scikit-learn", 1, "1 row D=4 K=3",
          1.5, 4),
    _peer("GaussianMixture.score_samples", _MIXTURE, "score_samples", "scikit-learn", 150,
          "150 rows D=4 K=3", 1.5, 4),
    _peer("GaussianMixture.predict_proba", _MIXTURE, "predict_proba", "scikit-learn", 150,
          "150 rows D=4 K=3", 1.5, 4),
    *(
        SmallRow(f"GaussianMixture {kind} fit", "iris K=3, from k-means", Iris(kind),
                 "scikit-learn", Bar(bar))
        for kind, bar in (("spherical", 1.5), ("diag", 2), ("tied", 3), ("full", 5))
    ),
    SmallRow("GaussianMixture full fit", "iris K=3, 100 iterations", Iris("full", 100),
             "scikit-learn", Bar(8, 20)),
    _peer("GaussianHMM.predict", _CHAIN, "predict", "hmmlearn", 300, "T=300 K=3", 1.5, 4),
    _peer("GaussianHMM.score", _CHAIN, "score", "hmmlearn", 300, "T=300 K=3", 1.5, 4),
    _peer("GaussianHMM.predict", _CHAIN, "predict", "hmmlearn", 1, "T=1 K=3", 1.5, 4),
    _hmm_fit("GaussianHMM, diag"),
    _hmm_fit("GaussianHMM, full"),
    _hmm_fit("CategoricalHMM"),
    _hmm_fit("PoissonHMM"),
    _hmm_fit("GMMHMM"),
    _peer("KalmanFilter.filter_update", "KalmanFilter", "filter_update", "pykalman", 1,
          "a step d=2 p=2", 20, 50),
    _alone("GaussianMixture.partial_fit, batch_size=1", "1 row D=8 K=5, diag", 100, 50, rows, 1),
    _alone("GaussianMixture.partial_fit", "1 row D=8 K=5, diag", 100, 50, rows),
    _alone("GaussianHMM.partial_fit", "T=20 D=4 K=4", 250, 120, hmm_sequences),
    _alone("KalmanFilter.partial_fit", "T=20 d=3 p=6", 200, 120, kalman_sequences),
    _alone("learner.learn_one, mixture", "1 row D=8 K=5, diag", 8, 3, one_row, "learn_one"),
    _alone("learner.score_one, mixture", "1 row D=8 K=5, diag", None, None, one_row, "score_one"),
    _alone("learner.predict_one, mixture", "1 row D=8 K=5, diag", None, None, one_row,
           "predict_one"),
    _alone("learner.learn_one, HMM", "T=20 D=4 K=4", 40, None, one_sequence_of_chain, "learn_one"),
    _alone("learner.learn_one, Kalman filter", "T=20 d=3 p=6", 60, None, one_sequence_of_system,
           "learn_one"),
    _alone("KalmanStream.update", "a step d=3 p=6", 4, 2, states_of_system),
    _alone("StateFilter.update", "a step D=4 K=4", 5, 2, states_of_chain),
]  # fmt: skip


def chosen(words: list[str]) -> list[SmallRow]:
    """The rows whose description contains one of the words, whatever their case; else all."""
    if not words:
        return SMALL
    return [row for row in SMALL if any(word.lower() in str(row).lower() for word in words)]
