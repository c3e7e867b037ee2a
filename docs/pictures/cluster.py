"""Wines by two measurements: components, and the five rows of least density."""

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

import fastem

wine = load_wine()
X = StandardScaler().fit_transform(wine.data)
model = fastem.GaussianMixture(3, covariance_type="diag", n_init=10, random_state=0).fit(X)
unusual = model.score_samples(X).argsort()[:5]

figure, axes = plt.subplots(figsize=(6.4, 3.8))
fastem.plot.components(model, X, columns=(0, 6), ax=axes)
axes.scatter(*X[unusual][:, [0, 6]].T, s=90, facecolors="none", edgecolors="black", label="unusual")
axes.set(xlabel="alcohol, standardized", ylabel="flavanoids, standardized")
axes.legend()
