"""
What is the distribution of one skewed column?
==============================================

The areas of cell nuclei are positive, and a few are very large. A single bell curve does not fit
them. Which mixture does?
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer

import fastem

area = load_breast_cancer(as_frame=True).data[["mean area"]]

# %%
# We fit one and two components of two families. A Gaussian gives some probability to areas below
# zero, a gamma distribution does not.

candidates = {
    "one Gaussian": fastem.Mixture("gaussian", 1, random_state=0),
    "two Gaussians": fastem.Mixture("gaussian", 2, n_init=5, random_state=0),
    "one gamma distribution": fastem.Mixture("gamma", 1, random_state=0),
    "two gamma distributions": fastem.Mixture("gamma", 2, n_init=5, random_state=0),
}

figure, axes = plt.subplots(
    2, 2, figsize=(7.6, 5.6), layout="constrained", sharex=True, sharey=True
)
for ax, (name, model) in zip(axes.flat, candidates.items(), strict=True):
    model.fit(area)
    fastem.plot.densities(model, area, ax=ax)
    ax.set_title(f"{name}: BIC {model.bic(area):.0f}")
    ax.label_outer()
plt.show()

# %%
# **What you see.** One Gaussian misses the peak and reaches below zero. Two gamma distributions
# follow both the sharp peak of small nuclei and the long tail of large ones, and have the lowest
# BIC. The component of large nuclei has 122 women in it, of whom 120 have a malignant tumor: the
# model has not seen the diagnoses.
#
# **What to choose.** Take the family by what values are possible: ``"gamma"`` for positive ones,
# ``"beta"`` for shares between 0 and 1, ``"poisson"`` for counts. Then let the BIC choose the
# number of components.
