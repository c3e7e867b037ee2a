"""The flow of the Nile: the smoothed level, and ten years ahead."""

import matplotlib.pyplot as plt
from statsmodels.datasets import nile

import fastem

data = nile.load_pandas().data
flow = data["volume"].to_numpy()[:, None]
given = {
    "transition_matrices": [[1.0]],
    "observation_matrices": [[1.0]],
    "initial_state_mean": [0.0],
    "initial_state_covariance": [[1e7]],
}
level = fastem.KalmanFilter(**given, fixed=tuple(given), tol=1e-8, max_iter=2000).fit(flow)

figure, axes = plt.subplots(figsize=(7.2, 3.4))
fastem.plot.bands(level, flow, steps=10, times=data["year"].to_numpy(), ax=axes)
axes.set(xlabel="year", ylabel="flow, 10⁸ m³")
