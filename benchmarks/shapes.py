"""The shapes that are measured, and the data that fill them."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import NamedTuple

import numpy as np


class Shape(NamedTuple):
    """One row of the comparison."""

    name: str
    covariance_type: str
    n_samples: int
    n_features: int
    n_components: int
    data: str = "mixture"
    bar: float | None = None
    goal: float | None = None

    @property
    def useful_flops(self) -> float:
        """Operations of one iteration that no method can spare, triangular factors counted so."""
        per_row = self.n_components * self.n_features
        if self.covariance_type == "full":
            return 2.0 * self.n_samples * per_row * self.n_features
        return 8.0 * self.n_samples * per_row


SHAPES = [
    Shape("GMM full", "full", 200_000, 2, 8, bar=15, goal=40),
    Shape("GMM full", "full", 200_000, 16, 16, bar=10, goal=20),
    Shape("GMM full", "full", 100_000, 64, 10, bar=5, goal=10),
    Shape("GMM full", "full", 20_000, 784, 10, "fashion-mnist", bar=2, goal=3),
    Shape("GMM full", "full", 500_000, 54, 7, "covtype", bar=5, goal=10),
    Shape("GMM diag", "diag", 500_000, 54, 7, "covtype", bar=6, goal=15),
    Shape("GMM diag", "diag", 60_000, 784, 10, "fashion-mnist", bar=4, goal=10),
    Shape("GMM tied", "tied", 200_000, 16, 16),
    Shape("GMM spherical", "spherical", 200_000, 16, 16),
]


def mixture(n_samples, n_features, n_components, seed=0):
    """Points from overlapping Gaussians with correlated columns."""
    rng = np.random.default_rng(seed)
    X = np.empty((n_samples, n_features))
    labels = rng.integers(n_components, size=n_samples)
    for k in range(n_components):
        root = rng.normal(size=(n_features, n_features)) / np.sqrt(n_features)
        root += np.eye(n_features)
        centre = rng.normal(size=n_features) * 2
        rows = labels == k
        X[rows] = rng.normal(size=(rows.sum(), n_features)) @ root.T + centre
    return X


def load(shape: Shape, folder=None, seed=0):
    """The data of a shape, and what they are: the real set where ``folder`` has it."""
    folder = Path(folder) if folder else None
    if shape.data == "covtype" and folder and (folder / "covtype.npz").exists():
        stored = np.load(folder / "covtype.npz")
        one_hot = [np.eye(4)[stored["wilderness"]], np.eye(40)[stored["soil"]]]
        X = np.concatenate([stored["quantitative"].astype(float), *one_hot], axis=1)
        X = X[np.random.default_rng(seed).permutation(len(X))[: shape.n_samples]]
        # Columns in one unit: the metres of elevation would swamp the indicators.
        return np.ascontiguousarray((X - X.mean(axis=0)) / X.std(axis=0).clip(1e-9)), "Covtype"
    images = "fashion-mnist/train-images-idx3-ubyte.gz"
    if shape.data == "fashion-mnist" and folder and (folder / images).exists():
        with gzip.open(folder / images) as file:
            X = np.frombuffer(file.read(), dtype=np.uint8, offset=16).reshape(-1, 784)
        return X[: shape.n_samples], "Fashion-MNIST, uint8"
    X = mixture(shape.n_samples, shape.n_features, shape.n_components, seed)
    if shape.data == "fashion-mnist":
        X = np.clip(X * 20 + 128, 0, 255).astype(np.uint8)
        return X, "synthetic, uint8"
    return X, "synthetic"


def start(X, shape: Shape, reg_covar=1e-6, seed=0):
    """Parameters to start from: rows of the data, and the data's variances."""
    rng = np.random.default_rng(seed)
    sample = np.asarray(X[rng.choice(len(X), min(len(X), 20_000), replace=False)], dtype=float)
    means = sample[: shape.n_components]
    n_features = shape.n_features
    variances = sample.var(axis=0) + max(reg_covar, 1e-2 * sample.var())
    precisions = {
        "full": np.broadcast_to(
            np.diag(1 / variances), (shape.n_components, n_features, n_features)
        ).copy(),
        "tied": np.diag(1 / variances),
        "diag": np.broadcast_to(1 / variances, (shape.n_components, n_features)).copy(),
        "spherical": np.full(shape.n_components, 1 / variances.mean()),
    }[shape.covariance_type]
    return {
        "weights_init": np.full(shape.n_components, 1 / shape.n_components),
        "means_init": means,
        "precisions_init": precisions,
    }
