"""Kalman filters to measure: shapes, sequences, a start, and how fastem does it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .side import Problem, Side

__all__ = ["KalmanShape", "em", "estimator", "smooth"]


class KalmanShape(NamedTuple):
    """The size of a linear dynamical system and of its data."""

    n_sequences: int
    n_steps: int
    n_states: int
    n_features: int
    #: The share of values that are missing.
    missing: float = 0.0

    def __str__(self):
        gaps = f", {self.missing:.0%} missing" if self.missing else ""
        sizes = f"{self.n_sequences:,} × T={self.n_steps:,}"
        return f"{sizes} d={self.n_states} p={self.n_features}{gaps}"

    @property
    def n_observations(self) -> int:
        return self.n_sequences * self.n_steps

    @property
    def useful_flops(self) -> float:
        """Products of the means alone; covariances do not depend on the data.

        A step predicts (d²) and corrects (2dp), smooths (d²), and adds up three products (2d² for
        the states, dp with the observations), a multiplication and an addition each.
        """
        d, p = self.n_states, self.n_features
        return self.n_observations * 2.0 * (4.0 * d * d + 3.0 * d * p)

    def problem(self, folder=None) -> Problem:
        """Sequences from a system, and a start at some distance from it."""
        rng = np.random.default_rng(0)
        d, p, n = self.n_states, self.n_features, self.n_sequences
        A = 0.95 * np.linalg.qr(rng.normal(size=(d, d)))[0]
        C = rng.normal(size=(p, d))
        h = rng.normal(size=(n, d))
        X = np.empty((n, self.n_steps, p))
        for t in range(self.n_steps):
            X[:, t] = h @ C.T + rng.normal(size=(n, p))
            h = h @ A.T + 0.5 * rng.normal(size=(n, d))
        X[rng.random(X.shape) < self.missing] = np.nan
        start = {
            "transition_matrices": A + 0.05 * rng.normal(size=A.shape),
            "observation_matrices": C + 0.2 * rng.normal(size=C.shape),
            "transition_covariance": 0.5 * np.eye(d),
            "observation_covariance": 2.0 * np.eye(p),
            "initial_state_mean": np.zeros(d),
            "initial_state_covariance": np.eye(d),
        }
        return Problem(self, X, start)


def estimator(problem: Problem, **settings):
    """fastem's filter that starts from the problem's parameters, and learns all of them."""
    import fastem

    return fastem.KalmanFilter(**problem.start, em_vars=tuple(problem.start), **settings)


def em(problem: Problem) -> Side:
    """Batch EM by fastem: all parameters but the offsets."""
    X = problem.X

    def run(n_iter):
        return estimator(problem, max_iter=n_iter, tol=0.0).fit(X)

    return Side(run, lambda model: model.score(X) / X.shape[1], compiles=True)


def smooth(problem: Problem) -> Side:
    """Means and covariances of the states of one sequence, given all of it, by fastem."""
    model = estimator(problem)
    X = problem.X[0]
    return Side(lambda _: model.smooth(X), lambda found: found[0], iterates=False, compiles=True)
