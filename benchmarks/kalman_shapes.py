"""The shapes that the Kalman filter is measured on, and data for them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fastem.kalman_model import NAMES, KalmanModel


class Shape(NamedTuple):
    """``n`` sequences of ``T`` steps, ``d`` states, ``p`` observed, ``gaps`` of them missing."""

    n: int
    T: int
    d: int = 5
    p: int = 10
    gaps: float = 0.0

    def __str__(self):
        gaps = f", {self.gaps:.0%} missing" if self.gaps else ""
        return f"{self.n} × T={self.T}, d={self.d} p={self.p}{gaps}"


#: Shape, peer, and the bar and the goal of the ratio.
ROWS = [
    (Shape(2000, 50), "dynamax E-step", 20, 40),
    (Shape(2000, 50), "simdkalman", 200, 400),
    (Shape(1, 100_000), "dynamax", 30, 100),
    (Shape(1, 2000), "pykalman", 500, 2000),
]


def system(d, p, seed=0, radius=0.9) -> KalmanModel:
    """A stable system."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(d, d))
    A *= radius / np.abs(np.linalg.eigvals(A)).max()

    def covariance(n):
        X = rng.normal(size=(n, n + 2))
        return X @ X.T / (n + 2) + 0.2 * np.eye(n)

    letters = {
        "m": np.zeros(d), "V": np.eye(d), "A": A, "b": np.zeros(d), "Q": covariance(d),
        "C": rng.normal(size=(p, d)), "c": np.zeros(p), "R": covariance(p),
    }  # fmt: skip
    return KalmanModel({name: letters[letter] for name, letter in NAMES.items()})


def load(shape: Shape):
    """A model to start from, and an array (n, T, p) drawn from another."""
    truth = system(shape.d, shape.p)
    rng = np.random.default_rng(1)
    X = truth.draw(shape.n, rng, shape.T).X.reshape(shape.n, shape.T, shape.p)
    if shape.gaps:
        X[rng.random(X.shape) < shape.gaps] = np.nan
    start = system(shape.d, shape.p, seed=2)
    return start.with_parameters({**truth.parameters, "transition_matrices": start.A}), X
