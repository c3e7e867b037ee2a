"""The flow of the Nile: the smoothed level, and ten years ahead."""

import matplotlib.pyplot as plt
from statsmodels.datasets import nile

import fastem

data = nile.load_pandas().data
flow = data["volume"].to_numpy()[:, None]
known = ("transition_matrices", "observation_matrices")
level = fastem.KalmanFilter([[1.0]], [[1.0]], fixed=known).fit(flow)

figure, axes = plt.subplots(figsize=(7.2, 3.4))
fastem.plot.bands(level, flow, steps=10, times=data["year"].to_numpy(), ax=axes)
axes.set(xlabel="year", ylabel="flow, 10⁸ m³")
