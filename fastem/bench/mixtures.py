"""Gaussian mixtures to measure: shapes, data, a start, and how fastem does it."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .side import Problem, Side

__all__ = ["MixtureShape", "draw", "em", "load", "start"]

#: Where a data folder has the real sets.
_FILES = {
    "Covtype": "covtype.npz",
    # So that no variance becomes zero, and no side must be kept from dividing by it.
    "Covtype with noise": "covtype.npz",
    "Fashion-MNIST": "fashion-mnist/train-images-idx3-ubyte.gz",
}


class MixtureShape(NamedTuple):
    """The size of a mixture and of its data."""

    covariance_type: str
    n_samples: int
    n_features: int
    n_components: int
    #: "synthetic", or a real data set where there is a folder that has it.
    data: str = "synthetic"
    #: The first mean of a component is the mean of so many rows.
    n_start_rows: int = 1

    def __str__(self):
        return f"N={self.n_samples:,} D={self.n_features} K={self.n_components}"

    @property
    def n_observations(self) -> int:
        return self.n_samples

    @property
    def useful_flops(self) -> float:
        """Operations of one iteration that no method can spare, triangular factors counted so."""
        per_row = self.n_components * self.n_features
        if self.covariance_type == "full":
            return 2.0 * self.n_samples * per_row * self.n_features
        return 8.0 * self.n_samples * per_row

    def data_name(self, folder=None) -> str:
        """What the data are: the real set where ``folder`` has it."""
        is_real = self.data in _FILES and folder and (Path(folder) / _FILES[self.data]).exists()
        name = self.data if is_real else "synthetic"
        return f"{name}, uint8" if self.data == "Fashion-MNIST" else name

    def problem(self, folder=None) -> Problem:
        """The data, the start and the settings."""
        X = load(self, folder)
        # Real columns may be all but constant.
        reg_covar = {"Fashion-MNIST, uint8": 1.0, "Covtype": 1e-3}.get(self.data_name(folder), 0.0)
        return Problem(self, X, start(X, self), settings={"reg_covar": reg_covar})


def draw(n_samples, n_features, n_components, seed=0) -> np.ndarray:
    """Points from overlapping Gaussians with correlated columns."""
    rng = np.random.default_rng(seed)
    X = np.empty((n_samples, n_features))
    labels = rng.integers(n_components, size=n_samples)
    for k in range(n_components):
        root = rng.normal(size=(n_features, n_features)) / np.sqrt(n_features)
        root += np.eye(n_features)
        center = rng.normal(size=n_features) * 2
        rows = labels == k
        X[rows] = rng.normal(size=(rows.sum(), n_features)) @ root.T + center
    return X


def load(shape: MixtureShape, folder=None, seed=0) -> np.ndarray:
    """The data of a shape."""
    name = shape.data_name(folder)
    if name.startswith("Covtype"):
        stored = np.load(Path(folder) / _FILES[name])
        one_hot = [np.eye(4)[stored["wilderness"]], np.eye(40)[stored["soil"]]]
        X = np.concatenate([stored["quantitative"].astype(float), *one_hot], axis=1)
        X = X[np.random.default_rng(seed).permutation(len(X))[: shape.n_samples]]
        # Columns in one unit: the meters of elevation would swamp the indicators.
        X = np.ascontiguousarray((X - X.mean(axis=0)) / X.std(axis=0).clip(1e-9))
        if name.endswith("noise"):
            X += np.random.default_rng(seed).normal(scale=0.05, size=X.shape)
        return X
    if name == "Fashion-MNIST, uint8":
        with gzip.open(Path(folder) / _FILES["Fashion-MNIST"]) as file:
            X = np.frombuffer(file.read(), dtype=np.uint8, offset=16).reshape(-1, 784)
        return X[: shape.n_samples]
    X = draw(shape.n_samples, shape.n_features, shape.n_components, seed)
    return np.clip(X * 20 + 128, 0, 255).astype(np.uint8) if name.endswith("uint8") else X


def start(X, shape: MixtureShape, seed=0) -> dict[str, np.ndarray]:
    """Parameters to start from: rows of the data, or means of some, and the data's variances."""
    rng = np.random.default_rng(seed)
    sample = np.asarray(X[rng.choice(len(X), min(len(X), 20_000), replace=False)], dtype=float)
    K, D = shape.n_components, shape.n_features
    precisions = 1.0 / (sample.var(axis=0) + max(1e-6, 1e-2 * sample.var()))
    return {
        "weights_init": np.full(K, 1.0 / K),
        "means_init": sample[: K * shape.n_start_rows].reshape(K, -1, D).mean(axis=1),
        "precisions_init": {
            "full": np.broadcast_to(np.diag(precisions), (K, D, D)).copy(),
            "tied": np.diag(precisions),
            "diag": np.broadcast_to(precisions, (K, D)).copy(),
            "spherical": np.full(K, 1.0 / (1.0 / precisions).mean()),
        }[shape.covariance_type],
    }


def em(problem: Problem) -> Side:
    """Batch EM by fastem."""
    import fastem

    shape = problem.shape

    def run(n_iter):
        model = fastem.GaussianMixture(
            shape.n_components, covariance_type=shape.covariance_type, max_iter=n_iter, tol=0.0,
            **problem.settings, **problem.start,
        )  # fmt: skip
        return model.fit(problem.X)

    return Side(run, lambda model: model.score(problem.X), compiles=True)
