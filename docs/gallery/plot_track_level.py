"""
Did the Nile really change?
===========================

The flow of the Nile was measured each year from 1871 to 1970. It varies much from one year to the
next. Is there a change behind the noise, and what is to be expected of the next ten years?
"""

import matplotlib.pyplot as plt
from statsmodels.datasets import nile

import fastem

data = nile.load_pandas().data
flow = data[["volume"]]

# %%
# The model is a level that wanders, plus noise. The transition and the observation are known: both
# are one. The level of the first year is unknown, so its variance is large. How much the level
# wanders, and how much noise there is, is learned.

known = {
    "transition_matrices": [[1.0]],
    "observation_matrices": [[1.0]],
    "initial_state_mean": [1000.0],
    "initial_state_covariance": [[1e6]],
}
model = fastem.KalmanFilter(**known, fixed=tuple(known), tol=1e-7, max_iter=2000).fit(flow)
print(f"variance of the steps of the level: {model.transition_covariance_[0, 0]:.0f}")
print(f"variance of the noise: {model.observation_covariance_[0, 0]:.0f}")

# %%
# The level
# ---------
#
# The filter knows the years so far; the smoother knows them all. The bands contain the level with a
# probability of 95 %.

figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.4), layout="constrained", sharey=True)
for ax, kind in zip(axes, ("filtered", "smoothed"), strict=True):
    fastem.plot.bands(model, flow, kind=kind, of="states", times=data.year, ax=ax)
    ax.plot(data.year, flow, "o", color="gray", markersize=2.5, zorder=0)
    ax.set(title=kind, ylabel="level, 10⁸ m³")
    ax.label_outer()
plt.show()

# %%
# A forecast
# ----------
#
# These bands are those of new measurements: they contain the noise.

figure, axes = plt.subplots(figsize=(8.0, 3.6), layout="constrained")
fastem.plot.bands(model, flow, times=data.year, steps=10, ax=axes)
axes.set(ylabel="flow, 10⁸ m³")
plt.show()

# %%
# **What you see.** The level falls around 1899, when work on the dam at Aswan began. The
# smoother sees the fall coming, because it knows the years after it. The forecast is the last
# level, and its band widens with every year, because the level may wander on.
#
# **What to choose.** Use ``filter`` for what you would have known at the time, ``smooth`` for
# what you know now, and ``forecast`` for what comes. If a series jumps between a few levels, take
# a hidden Markov model.
