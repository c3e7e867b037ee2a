"""New data under two models that learn from a stream, which shifts in the middle."""

import matplotlib.pyplot as plt
import numpy as np

import fastem

rng = np.random.default_rng(0)
models = {
    'the default, `learning_rate="auto"`': fastem.GaussianMixture(2, random_state=0),
    "`forgetting=2000`": fastem.GaussianMixture(2, forgetting=2000, random_state=0),
}
scores = {label: [] for label in models}
for n in range(300):
    X = rng.normal(size=(500, 2)) + 5.0 * rng.integers(2, size=(500, 1)) + 3.0 * (n >= 150)
    for label, model in models.items():
        if n > 1:
            scores[label].append(model.score(X))
        model.partial_fit(X)

figure, axes = plt.subplots(figsize=(7.2, 3.2))
for label, values in scores.items():
    axes.plot(500 * np.arange(2, 300), values, label=label.replace("`", ""), linewidth=1.2)
axes.axvline(75_000, color="gray", linestyle=":")
axes.annotate(
    "the data shift", (75_000, -4.85), xytext=(-6, 0), ha="right", textcoords="offset points"
)
axes.set(xlabel="observations", ylabel="log-likelihood of new rows", ylim=(-5, -3.3))
axes.legend(loc="lower right")
