"""
Must I read the data a hundred times?
=====================================

EM reads all data in each iteration. Incremental EM updates the model after each block, and online
EM reads each row once. How good are the models after the same number of rows? The rows are the
68,000 pixels of a photograph.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image
from sklearn.exceptions import ConvergenceWarning

import fastem

pixels = load_sample_image("flower.jpg")[::2, ::2].reshape(-1, 3) / 255.0
X = np.random.default_rng(0).permutation(pixels)
start = {"init_params": "k-means++", "random_state": 0}

batch = fastem.GaussianMixture(8, max_iter=30, tol=0, **start)
incremental = fastem.GaussianMixture(8, solver="incremental", max_iter=10, tol=0, **start)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)  # we want to see all iterations
    batch.fit(X)
    incremental.fit(X)
online = fastem.GaussianMixture(8, random_state=0)
for part in np.array_split(X, len(X) // 1000):
    online.partial_fit(part)

# %%
# Each curve shows the mean log-likelihood of a row over the number of rows that were read. That of
# online learning is progressive: each batch is scored before the model learns from it.

figure, axes = plt.subplots(figsize=(7.2, 4.0), layout="constrained")
fastem.plot.learning_curves({"batch": batch, "incremental": incremental, "online": online}, ax=axes)
axes.set(xscale="log", ylim=(3.9, 5.2))
plt.show()

# %%
for name, model in (("batch", batch), ("incremental", incremental), ("online", online)):
    print(f"{name:12} log-likelihood of a row after learning: {model.score(X):.3f}")

# %%
# **What you see.** After one pass, online learning is ahead of batch EM after thirty, and
# incremental EM is nearly there after its first. Batch EM makes its first step when the others
# have learned nearly all. The curve of online learning is rough, since each of its points is the
# score of 1,000 new rows.
#
# **What to choose.** Take ``fit`` as it is if the data are small: it is exact, and fast. Take
# ``solver="incremental"`` if a pass is expensive. Take ``partial_fit`` if one pass is all you can
# afford, or if the data never end.
