"""Growth of the American economy, with the regime of each quarter."""

import matplotlib.pyplot as plt
import numpy as np
from statsmodels.datasets import macrodata

import fastem

data = macrodata.load_pandas().data
growth = 400 * np.diff(np.log(data["realgdp"].to_numpy()))[:, None]
years = (data["year"] + (data["quarter"] - 1) / 4).to_numpy()[1:]
model = fastem.GaussianHMM(2, n_iter=200, tol=1e-4, random_state=0).fit(growth)

figure, axes = plt.subplots(figsize=(7.2, 3.4))
fastem.plot.states(model, growth, times=years, ax=axes)
axes.set(ylabel="growth, % a year")
