"""
What do handwritten digits have in common?
==========================================

Each picture of a digit has 64 pixels, which are black or white. A mixture of Bernoulli
distributions finds typical ways of writing, without being told which digit is which. Can it write
digits itself?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import fastem

X = (load_digits().data > 7).astype(float)
model = fastem.Mixture("bernoulli", 24, n_init=3, random_state=0).fit(X)


def show(images, title):
    with_margins = np.pad(images.reshape(3, 8, 8, 8), [(0, 0), (0, 0), (1, 1), (1, 1)])
    _, axes = plt.subplots(figsize=(6.4, 2.9), layout="constrained")
    axes.imshow(with_margins.swapaxes(1, 2).reshape(30, 80), cmap="gray_r")
    axes.set_axis_off()
    axes.set_title(title)
    plt.show()


# %%
# The probabilities of a component are a picture: the darker a pixel, the more often it is black.

order = model.weights_.argsort()[::-1]
show(model.probabilities_[order], "24 components, the most frequent first")

# %%
# A mixture is a distribution, so we can draw new pictures from it.

samples, _ = model.sample(24)
show(samples, "24 new digits, drawn from the mixture")

# %%
# **What you see.** Components are styles rather than digits: there are several kinds of ones and
# of sevens. Most of the new digits can be read, but their edges are rough, because within a
# component the pixels do not depend on each other.
#
# **What to choose.** More components follow finer styles and have fewer pictures each. For pixels
# with shades of gray, take :class:`fastem.GaussianMixture` with ``covariance_type="diag"``.
