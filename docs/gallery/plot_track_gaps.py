"""
What happened in the gaps?
==========================

The observatory on Mauna Loa has measured carbon dioxide in the air since 1958. In the first years
some months are missing. What was the concentration then, and how sure can we be?
"""

import matplotlib.pyplot as plt
import numpy as np
from statsmodels.datasets import co2

import fastem

monthly = co2.load_pandas().data.resample("MS").mean()[:"1969"]
print(f"{len(monthly)} months, {int(monthly.co2.isna().sum())} of them missing")

# %%
# We know how carbon dioxide moves: it has a level, the level has a slope, and plants breathe in a
# rhythm of twelve months. The rhythm is two waves, of twelve and of six months; each turns by a
# fixed angle from month to month. Together the state has six numbers, of which the first, third
# and fifth are seen.


def wave(months):
    angle = 2 * np.pi / months
    return [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]


A = np.eye(6)
A[0, 1] = 1.0
A[2:4, 2:4], A[4:, 4:] = wave(12), wave(6)

known = {
    "transition_matrices": A,
    "observation_matrices": [[1.0, 0.0, 1.0, 0.0, 1.0, 0.0]],
    "observation_offsets": [0.0],
    "initial_state_mean": [315.0, 0.1, 0.0, 0.0, 0.0, 0.0],
    "initial_state_covariance": np.diag([10.0, 0.1, 10.0, 10.0, 10.0, 10.0]),
}
model = fastem.KalmanFilter(
    **known, fixed=tuple(known), transition_covariance_type="diag", tol=1e-5, max_iter=1000
).fit(monthly)

# %%
# NaN is a missing value. Nothing is filled in before: the filter predicts through the gap, and the
# smoother uses what came after it.

figure, axes = plt.subplots(figsize=(8.4, 3.8), layout="constrained")
fastem.plot.bands(model, monthly, steps=12, ax=axes)
for month in monthly.index[monthly.co2.isna()]:
    axes.axvspan(month, month + np.timedelta64(30, "D"), color="gold", alpha=0.5, linewidth=0)
axes.set(ylabel="CO₂, parts in a million")
plt.show()

# %%
# What is behind it
# -----------------
#
# The states of the model are the trend and the rhythm, each with its own uncertainty.

figure, axes = plt.subplots(2, 1, figsize=(8.0, 5.0), layout="constrained", sharex=True)
for ax, column, name in zip(axes, (0, 2), ("level", "wave of 12 months"), strict=True):
    fastem.plot.bands(model, monthly, of="states", column=column, ax=ax)
    ax.set_ylabel(name)
axes[1].get_legend().remove()
plt.show()

# %%
# **What you see.** The smoother draws the missing months as the other years had them, and its band
# is only a little wider there. The forecast of 1970 continues both trend and rhythm.
#
# **What to choose.** Write down what you know of the movement, and let ``fit`` learn how much
# it varies. ``transition_covariance_type="diag"`` lets each part of the state vary by itself.
