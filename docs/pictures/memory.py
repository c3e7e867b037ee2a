"""Passes over the data, and what batch, incremental and online learning reach in them."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

import fastem

X = load_digits().data.reshape(-1, 8, 8)[:, ::2, 1:7:2].reshape(-1, 12)
X = np.tile(X, (6, 1)) + np.random.default_rng(0).normal(size=(6 * len(X), 12))
start = {"means_init": X[:: len(X) // 10][:10], "random_state": 0}
kinds = {"batch": "em", "incremental": "incremental"}

figure, axes = plt.subplots(figsize=(6.8, 3.4))
for label, solver in kinds.items():
    model = fastem.GaussianMixture(10, solver=solver, max_iter=40, tol=0, **start)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # all 40 passes are wanted
        model.fit(X)
    bounds = np.asarray(model.lower_bounds_)
    axes.plot(np.arange(1, len(bounds) + 1), bounds, ".-", label=f"{label} EM", linewidth=1.2)
online = fastem.GaussianMixture(10, random_state=0).partial_fit(X)
axes.plot([1], [online.score(X)], "*", markersize=12, label="online EM")
axes.set(xlabel="passes over the data", ylabel="log-likelihood of a row", ylim=(-33.2, -31))
axes.legend(loc="lower right")
