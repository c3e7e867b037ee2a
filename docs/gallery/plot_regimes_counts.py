"""
In which phase is the cycle of sunspots?
========================================

Since 1700, astronomers have counted the spots on the sun. Their number rises and falls in about
eleven years. Counts are not Gaussian: their spread grows with their mean. Which model fits?
"""

import matplotlib.pyplot as plt
from statsmodels.datasets import sunspots

import fastem

data = sunspots.load_pandas().data
counts = data[["SUNACTIVITY"]].round().astype(int)
model = fastem.PoissonHMM(5, n_iter=500, tol=1e-4, random_state=0).fit(counts)

figure, axes = plt.subplots(figsize=(8.4, 3.8), layout="constrained")
fastem.plot.states(model, counts, times=data.YEAR, ax=axes)
axes.set(ylabel="sunspots")
plt.show()

# %%
# The cycle
# ---------
#
# States are labeled by their mean count.

labels = [f"{rate:.0f}" for rate in model.lambdas_[:, 0]]
figure, axes = plt.subplots(figsize=(6.0, 5.0), layout="constrained")
fastem.plot.transitions(model, labels=labels, least=0.05, ax=axes)
plt.show()

# %%
# **What you see.** The chain goes around in a circle, and nobody told the model that there is
# one. The state of 89 spots lasts a single year and leads up to the maximum. The way down takes
# longer: from 125 by 66 and 34 to 9. Low cycles, such as those around 1810, do not reach the
# highest state.
#
# **What to choose.** :class:`fastem.PoissonHMM` for counts. If the counts of one state vary more
# than those of a Poisson distribution, more states help.
