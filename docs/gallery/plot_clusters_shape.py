"""
Full, tied, diagonal or spherical?
==================================

The components of a mixture can be ellipses of any shape, the same ellipse everywhere, ellipses
along the axes, or balls. What does each choice do to the same data?
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_iris

import fastem

X = load_iris(as_frame=True).data[["sepal length (cm)", "petal length (cm)"]]

figure, axes = plt.subplots(
    2, 2, figsize=(7.6, 6.4), layout="constrained", sharex=True, sharey=True
)
for ax, shape in zip(axes.flat, ["full", "tied", "diag", "spherical"], strict=True):
    model = fastem.GaussianMixture(3, covariance_type=shape, n_init=5, random_state=0).fit(X)
    fastem.plot.components(model, X, columns=(0, 1), ax=ax)
    ax.set_title(f"{shape}: BIC {model.bic(X):.0f}")
    ax.label_outer()
plt.show()

# %%
# **What you see.** Flowers with long sepals have long petals, so the groups are tilted. Only
# ``full`` and ``tied`` can follow the tilt. ``diag`` makes boxes of the groups, and ``spherical``
# pretends that both columns have the same spread.
#
# **What to choose.** Take ``full`` if there are many rows: some ten for each parameter. Take
# ``tied`` if the groups differ in place and not in shape. Take ``diag`` if there are many columns,
# or few rows. Take ``spherical`` if all columns have the same unit and you want k-means with
# probabilities. If you are in doubt, the lowest BIC decides.
