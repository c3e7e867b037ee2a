"""
Can the model find the number of components itself?
===================================================

A Bayesian mixture begins with more components than anybody needs, and switches off those that the
data do not ask for. How many of ten does it keep for the flowers of the iris?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris

import fastem

X = load_iris(as_frame=True).data
settings = {"n_components": 10, "tol": 1e-5, "max_iter": 2000, "n_init": 3, "random_state": 0}
bayesian = fastem.BayesianGaussianMixture(weight_concentration_prior=1e-3, **settings).fit(X)
ordinary = fastem.GaussianMixture(**settings).fit(X)

figure, axes = plt.subplots(1, 2, figsize=(8.4, 4.0), layout="constrained", sharey=True)
for ax, model, title in zip(
    axes, (ordinary, bayesian), ("ordinary mixture", "Bayesian mixture"), strict=True
):
    fastem.plot.components(model, X, columns=("petal length (cm)", "petal width (cm)"), ax=ax)
    ax.set_title(title)
    ax.label_outer()
plt.show()

# %%
# The weights
# -----------

figure, axes = plt.subplots(figsize=(6.4, 2.8), layout="constrained")
places = np.arange(10)
axes.bar(places - 0.2, np.sort(ordinary.weights_)[::-1], 0.4, label="ordinary", color="lightgray")
axes.bar(
    places + 0.2, np.sort(bayesian.weights_)[::-1], 0.4, label="Bayesian",
    color=fastem.plot.color(0),
)  # fmt: skip
axes.set(xlabel="components, the largest first", ylabel="weight", xticks=places)
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# **What you see.** The ordinary mixture uses all ten components, and some of them describe a
# handful of flowers. The Bayesian mixture gives all weight to two; the dotted outline is where
# the others are, without any weight. There are three species, but two of them
# overlap, and the measurements alone do not ask for a third component.
#
# **What to choose.** ``weight_concentration_prior`` says how gladly components are used: a small
# value, such as 1e-3, keeps few. Let it run long enough (``max_iter``), because components die
# slowly.
