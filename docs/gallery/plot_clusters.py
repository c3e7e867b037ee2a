"""
Which flowers belong together?
==============================

A botanist measured 150 iris flowers. We hide the names of their species. Can a mixture of
Gaussians find the species again, and how sure is it of each flower?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris
from sklearn.metrics import adjusted_rand_score

import fastem

iris = load_iris(as_frame=True)
X = iris.data
model = fastem.GaussianMixture(3, n_init=5, random_state=0).fit(X)

# %%
# Ellipses
# --------
#
# Each ellipse contains the flowers within two standard deviations of the mean of a component. Each
# flower has the color of its likeliest component.

figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
fastem.plot.components(model, X, columns=("petal length (cm)", "petal width (cm)"), ax=axes)
plt.show()

# %%
# How sure is the model?
# ----------------------
#
# The model gives each flower a probability of each component. One species stands apart, and the
# model has no doubt about it. The other two overlap, and the model says for which flowers it could
# be wrong. K-means gives labels alone, and cannot tell you that.

figure, axes = plt.subplots(figsize=(6.4, 2.6), layout="constrained")
fastem.plot.responsibilities(model, X, ax=axes)
plt.show()

# %%
# Do the clusters agree with the species?
# ---------------------------------------
#
# We look at the names only now. Each row is a species, each column a component.

labels = model.predict(X)
counts = np.zeros((3, 3), dtype=int)
np.add.at(counts, (iris.target, labels), 1)
print(counts)
print(f"agreement (adjusted Rand index): {adjusted_rand_score(iris.target, labels):.2f}")

# %%
# **What to choose.** Take ``n_init=5`` or more, because EM ends in a local optimum, and the best of
# several starts is kept. Give ``random_state`` a number, so that you get the same result tomorrow.
