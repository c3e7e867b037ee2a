"""
When was the economy in recession?
==================================

Growth and unemployment describe the economy of the United States in each quarter from 1959 to 2009.
A hidden Markov model finds its regimes, and says in which one it was, and for how long they last.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from statsmodels.datasets import macrodata

import fastem

data = macrodata.load_pandas().data
quarters = pd.PeriodIndex.from_fields(year=data.year, quarter=data.quarter, freq="Q")
series = pd.DataFrame({
    "growth of GDP, %": 400 * np.log(data.realgdp).diff(),
    "Δ unemployment, %": data.unemp.diff(),
}).set_index(quarters)[1:]  # fmt: skip

fits = [
    fastem.GaussianHMM(3, n_iter=500, tol=1e-4, random_state=seed).fit(series) for seed in range(5)
]
model = max(fits, key=lambda fit: fit.score(series))

# %%
# EM ends in a local optimum, so we take the best of five starts.

for k in model.means_[:, 0].argsort():
    growth, unemployment = model.means_[k]
    print(f"state {k}: growth {growth:4.1f} %, change of unemployment {unemployment:+.2f}")

# %%
# The regimes over time
# ---------------------

figure, axes = plt.subplots(2, 1, figsize=(8.0, 6.4), layout="constrained")
for column, ax in enumerate(axes):
    fastem.plot.states(model, series, column=column, ax=ax)
plt.show()

# %%
# How long do they last?
# ----------------------
#
# The graph shows the probability of each change from one quarter to the next.

order = model.means_[:, 0].argsort().argsort()
names = np.array(["slump", "normal", "boom"])[order]
figure, axes = plt.subplots(figsize=(5.6, 4.2), layout="constrained")
fastem.plot.transitions(model, labels=names, ax=axes)
plt.show()

# %%
# **What you see.** State 2 is the slump: the economy shrinks, and more people lose work. It
# marks the recessions of 1960, 1970, 1974, 1980, 1982, 1990, 2001 and 2008. Quarters of boom
# follow many of them, but there has been none since 1984.
#
# **What to choose.** Several columns together find regimes that no single column shows. Take two
# or three states and compare ``model.bic(series)``. To know the regime of *today*, use
# ``model.filter()``: the picture uses the future, which you do not have.
