"""
Where is the economy going?
===========================

Five series describe the economy of the United States. They rise and fall together, so that a few
hidden factors may explain them. What would a model have said in the middle of 2007, before the
crisis?
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from statsmodels.datasets import macrodata

import fastem

data = macrodata.load_pandas().data
quarters = pd.PeriodIndex.from_fields(year=data.year, quarter=data.quarter, freq="Q")
growth = 400 * np.log(data[["realgdp", "realcons", "realinv", "realdpi"]]).diff()
growth.columns = ["GDP", "consumption", "investment", "income"]
series = growth.assign(unemployment=data.unemp.diff()).set_index(quarters)[1:]
until = series[:"2007Q2"]
scaled = (until - until.mean()) / until.std()

# %%
# ``n_dim_state=2`` asks for two hidden factors. Everything else is learned from the data.

model = fastem.KalmanFilter(n_dim_state=2, max_iter=500, random_state=0).fit(scaled)

# %%
# A forecast of ten quarters
# --------------------------

future = ((series - until.mean()) / until.std())["2007Q3":]
times = series.index.to_timestamp()
figure, axes = plt.subplots(2, 1, figsize=(8.4, 6.0), layout="constrained", sharex=True)
for ax, name in zip(axes, ("GDP", "unemployment"), strict=True):
    fastem.plot.bands(
        model, scaled, kind="filtered", steps=len(future), column=name, times=times, ax=ax
    )
    ax.plot(times[-len(future) :], future[name], "x", color="black", label="what came")
    ax.legend(frameon=False, fontsize="small", ncols=2)
    ax.set(ylabel=f"{name}, standardized", xlim=(times[-80], None))
plt.show()

# %%
# **What you see.** The forecast returns to the mean, and its band says how large ordinary
# surprises are. The crisis of 2008 lies outside: a model that has learned from 48 milder years
# cannot know it. Unemployment is explained by the factors almost completely, and GDP is not; its
# band is wide.
#
# **What to choose.** Standardize series that have different units. Compare sizes of the hidden
# state by the log-likelihood of series that ``fit`` has not seen. The factors have no names and no
# fixed order: look at forecasts, not at single entries of matrices.
