"""
Which countries have a similar history?
=======================================

The World Bank has the number of children for each woman in 200 countries, from 1960 to 2011. Each
country is a series, with gaps. Which countries went the same way?
"""

import matplotlib.pyplot as plt
import numpy as np
from statsmodels.datasets import fertility

import fastem

table = fertility.load_pandas().data.set_index("Country Name")
years = np.arange(1960, 2012)
rates = table[years.astype(str)].dropna(how="all")
series = [row[:, None] for row in rates.to_numpy(dtype=float)]

# %%
# Each component of this mixture is a hidden Markov model. It has its own levels, and its own time
# to stay in each. NaN is a missing value, so that gaps need no care.

member = fastem.GaussianHMM(3, random_state=0)
model = fastem.MixtureOfModels(member, 4, n_init=3, random_state=0).fit(series)
labels = model.predict(series)

order = np.argsort([rates[labels == k]["2000"].mean() for k in range(4)])
figure, axes = plt.subplots(
    1, 4, figsize=(9.6, 3.2), layout="constrained", sharex=True, sharey=True
)
for ax, k in zip(axes, order, strict=True):
    group = rates[labels == k]
    ax.plot(years, group.T, color=fastem.plot.color(k), alpha=0.35, linewidth=0.8)
    ax.plot(years, group.mean(), color="black", linewidth=1.5)
    ax.set_title(f"{len(group)} countries")
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("children for each woman")
plt.show()

# %%
# The first countries of each group:

for k in order:
    print(", ".join(rates.index[labels == k][:6]), "...")

# %%
# **What you see.** In one group women had few children from the beginning. In two others the
# number fell, early or late. In the last it has hardly begun to fall. The black line is the mean
# of a group.
#
# **What to choose.** ``MixtureOfModels`` clusters whole series, which may have different lengths.
# The member says what a series looks like: a hidden Markov model for levels and jumps, a
# :class:`fastem.KalmanFilter` for continuous movement.
