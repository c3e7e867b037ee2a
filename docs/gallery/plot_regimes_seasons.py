"""
When was there an El Niño?
==========================

Every few years the Pacific Ocean off Peru becomes warmer than usual for some months. We have its
temperature in each month from 1950 to 2010. Which of these months were El Niño?
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from statsmodels.datasets import elnino

import fastem

table = elnino.load_pandas().data.set_index("YEAR")
table.index = table.index.astype(int)

# %%
# Summer is always warmer than winter. What matters is the difference from the mean of the same
# month.

unusual = (table - table.mean()).to_numpy().reshape(-1, 1)
months = pd.period_range(f"{table.index[0]}-01", periods=len(unusual), freq="M")
series = pd.DataFrame(unusual, index=months, columns=["°C above the mean of the month"])

fits = [
    fastem.GaussianHMM(3, n_iter=500, tol=1e-4, random_state=seed).fit(series) for seed in range(10)
]
model = max(fits, key=lambda fit: fit.score(series))
order = model.means_.ravel().argsort().argsort()
names = np.array(["cool", "mild", "El Niño"])[order]
for name, mean, stay in zip(names, model.means_[:, 0], model.transmat_.diagonal(), strict=True):
    print(f"{name:8} {mean:+.1f} °C, lasts {1 / (1 - stay):.0f} months on average")

# %%
# The months
# ----------

figure, axes = plt.subplots(figsize=(8.4, 3.8), layout="constrained")
fastem.plot.states(model, series, ax=axes)
plt.show()

# %%
# The three regimes
# -----------------

figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.4), layout="constrained")
fastem.plot.densities(model, series, ax=axes[0])
fastem.plot.transitions(model, labels=names, ax=axes[1])
plt.show()

# %%
# **What you see.** The model marks the strong El Niños of 1972, 1982 and 1997, and weaker ones
# between them. Nearly every way into El Niño leads through mild months; the ocean does not jump
# there from cool ones. The mixture of the three states has one long tail, to the warm side.
#
# **What to choose.** A mixture would judge each month by itself. A hidden Markov model knows that
# regimes last, and is not misled by a single warm month. Several starts are worth their time:
# the poor ones split the cool months in two.
