"""
Clusters of iris flowers
========================

A mixture of three Gaussians, fitted to measurements of 150 flowers without their names.
"""

from sklearn.datasets import load_iris

import fastem

X = load_iris().data
model = fastem.GaussianMixture(3, n_init=5, random_state=0).fit(X)
axes = fastem.plot.components(model, X, columns=(2, 3))
axes.set(xlabel="length of petals in cm", ylabel="width of petals in cm")
