"""
Which colors does a photograph have?
====================================

A photograph has thousands of colors, of which most are shades of a few. A mixture of Gaussians in
the space of red, green and blue finds those few, and divides the picture into regions.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

import fastem

photo = load_sample_image("china.jpg")[::2, ::2]
pixels = photo.reshape(-1, 3) / 255.0
some = np.random.default_rng(0).choice(len(pixels), 5000, replace=False)
model = fastem.GaussianMixture(6, reg_covar=1e-4, n_init=2, random_state=0).fit(pixels[some])

# %%
# The model learns from 5,000 of the pixels and labels all of them. We paint each pixel in the mean
# color of its component.

labels = model.predict(pixels)
painted = model.means_[labels].reshape(photo.shape)

figure, axes = plt.subplots(1, 2, figsize=(8.0, 2.9), layout="constrained")
axes[0].imshow(photo)
axes[0].set_title("the photograph")
axes[1].imshow(painted)
axes[1].set_title("six colors")
for ax in axes:
    ax.set_axis_off()
plt.show()

# %%
# The components
# --------------
#
# Colors of one material lie on a line from dark to light. The ellipses are long and narrow along
# these lines.

figure, axes = plt.subplots(figsize=(5.4, 4.6), layout="constrained")
axes.scatter(pixels[some, 0], pixels[some, 2], s=3, c=pixels[some])
fastem.plot.components(model, columns=(0, 2), ax=axes)
axes.set(xlabel="red", ylabel="blue")
plt.show()

# %%
# **What you see.** The sky, the roofs, the wood and the trees become regions. Two components share
# the sky, one for haze and one for blue. The trees get two, one for light and one for shadow.
#
# **What to choose.** ``covariance_type="full"``, since red, green and blue rise and fall
# together. A sample of the pixels is enough to learn from.
