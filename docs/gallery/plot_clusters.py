"""
Clusters of iris flowers
========================

A mixture of three Gaussians, fitted to measurements of 150 flowers without their names.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_iris

import fastem

X = load_iris().data
model = fastem.GaussianMixture(3, n_init=5, random_state=0).fit(X)
plt.scatter(X[:, 2], X[:, 3], c=model.predict(X))
plt.xlabel("length of petals in cm")
plt.ylabel("width of petals in cm")
