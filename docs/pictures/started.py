"""Three components over the petals of iris flowers."""

import matplotlib.pyplot as plt
from sklearn.datasets import load_iris

import fastem

X = load_iris().data
model = fastem.GaussianMixture(n_components=3, n_init=5, random_state=0).fit(X)
figure, axes = plt.subplots(figsize=(6, 3.6))
fastem.plot.components(model, X, columns=(2, 3), ax=axes)
axes.set(xlabel="length of petals in cm", ylabel="width of petals in cm")
