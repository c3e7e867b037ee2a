"""Three sites with the components of their models, and the combination."""

import matplotlib.pyplot as plt
import numpy as np

import fastem

rng = np.random.default_rng(0)
centers = np.array([[0.0, 0.0], [6.0, 0.0], [3.0, 5.0]])
sizes = [300, 600, 900]
sites = [centers[rng.integers(3, size=n)] + rng.normal(size=(n, 2)) for n in sizes]
models = [fastem.GaussianMixture(3, n_init=3, random_state=s).fit(X) for s, X in enumerate(sites)]
merged = fastem.combine(models, weights=sizes)

figure, axes = plt.subplots(1, 4, figsize=(9.6, 2.8), sharex=True, sharey=True)
for site, (X, model) in enumerate(zip(sites, models, strict=True)):
    fastem.plot.components(model, X, ax=axes[site])
    axes[site].set_title(f"site {site + 1}: {len(X)} rows")
fastem.plot.components(merged, ax=axes[3])
axes[3].set_title("combined, without data")
for ax in axes:
    ax.set(xlabel="", ylabel="")
