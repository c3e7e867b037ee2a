"""
How do hospitals share a model, and not their patients?
=======================================================

Four hospitals have measured tumors. Each fits a model to its own patients, and sends it to the
others. Can they merge the models, and find out that one of their instruments is wrong?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

import fastem

columns = ["mean texture", "mean area", "mean smoothness", "mean concavity"]
data = load_breast_cancer(as_frame=True).data[columns]
X = ((data - data.mean()) / data.std()).to_numpy()
sites = np.array_split(np.random.default_rng(0).permutation(X), 4)

# %%
# The data are those of one hospital; we divide them at random. The instrument of the last one
# measures smoothness too high.

sites[3] = sites[3] + [0.0, 0.0, 1.5, 0.0]
names = ["Aarhus", "Basel", "Cork", "Delft"]
models = [
    fastem.GaussianMixture(2, n_init=5, random_state=seed).fit(rows)
    for seed, rows in enumerate(sites)
]

# %%
# Who is different?
# -----------------
#
# The divergence is zero for equal models and grows as they differ. Component 0 of one hospital
# may be component 1 of another; the models are aligned first.

figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.8), layout="constrained")
fastem.plot.divergences(models, labels=names, ax=axes[0])
fastem.plot.matches(models[0], models[1], labels=names[:2], ax=axes[1])
axes[0].set_title("divergences of the models")
axes[1].set_title("which component is which")
plt.show()

# %%
# Merging
# -------
#
# Delft is far from all others, so the first three merge without it. We compare with the model that
# all patients of the three together would have given.

sizes = [len(rows) for rows in sites[:3]]
together = np.concatenate(sites[:3])
combined = fastem.combine(models[:3], weights=sizes)
averaged = fastem.average(models[:3], weights=sizes)
pooled = fastem.GaussianMixture(2, n_init=5, random_state=0).fit(together)
for name, model in [("combine", combined), ("average", averaged), ("all patients", pooled)]:
    print(f"{name:12} log-likelihood of a patient: {model.score(together):.3f}")

figure, axes = plt.subplots(
    1, 4, figsize=(9.6, 2.8), layout="constrained", sharex=True, sharey=True
)
for ax, name, model, rows in zip(
    axes, [*names[:3], "combined"], [*models[:3], combined], [*sites[:3], None], strict=True
):
    fastem.plot.components(model, rows, columns=(1, 3), ax=ax)
    ax.set(title=name, xlabel="area", ylabel="concavity")
    ax.label_outer()
plt.show()

# %%
# **What you see.** Delft stands out in the matrix: all models are far from its model. The other
# three differ as small samples do. The combination, made without any patient, is nearly as good
# as the model of all patients. Component 0 of Basel corresponds to component 1 of the others;
# ``combine`` matches them first.
#
# **What to choose.** ``combine`` pools the moments, as if the sums of all sites had been added,
# and ``weights`` says how many rows each site has. ``average`` is the mean of each parameter, to
# compare with what others do. Look at the divergences before you merge.
