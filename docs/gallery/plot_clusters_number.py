"""
How many clusters are there?
============================

A mixture needs the number of its components. The chemists who analyzed these 178 Italian wines
knew that they come from three growers. Would the data have told us so?
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

import fastem

X = StandardScaler().fit_transform(load_wine().data)
shapes = ["full", "tied", "diag", "spherical"]
sizes = range(1, 8)

# %%
# The likelihood rises with every component that we add, so it cannot decide. The Bayesian
# information criterion (BIC) charges for each parameter. The lowest BIC wins.

bic = {
    shape: [
        fastem.GaussianMixture(k, covariance_type=shape, reg_covar=1e-3, n_init=5, random_state=0)
        .fit(X)
        .bic(X)
        for k in sizes
    ]
    for shape in shapes
}

figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
for number, shape in enumerate(shapes):
    axes.plot(sizes, bic[shape], "o-", color=fastem.plot.color(number), label=shape)
best = min(
    (value, shape, k) for shape in shapes for k, value in zip(sizes, bic[shape], strict=True)
)
axes.plot(best[2], best[0], "o", markersize=14, fillstyle="none", color="black")
axes.set(xlabel="number of components", ylabel="BIC (lower is better)", ylim=(5400, 7000))
axes.legend(title="covariance_type", frameon=False)
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
print(f"{best[2]} components, covariances of type {best[1]!r}")

# %%
# **What you see.** Full matrices have 104 parameters for each component. 178 wines cannot pay for
# more than two of them. With fewer parameters, the curves fall until three components, and are
# nearly flat from there on. The lowest point says four, with one variance for each column; the
# fourth component shares the wines of two growers with the components next to it. A flat curve
# says: three or four, and the data do not tell which.
#
# **What to choose.** Compare numbers and shapes together, as here: a poor shape needs more
# components to describe the same data. If you do not want to compare,
# :class:`fastem.BayesianGaussianMixture` can leave components empty that the data do not need.
