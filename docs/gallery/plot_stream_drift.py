"""
How do I notice that the world has changed?
===========================================

A camera sends pixels, and a model learns their colors online. In the middle of the stream the
camera turns from a temple to a flower. Does the model notice, and how does it adapt?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_images

import fastem

rng = np.random.default_rng(0)
temple, flower = (
    rng.permutation(photo.reshape(-1, 3) / 255.0)[:30_000] for photo in load_sample_images().images
)
stream = np.split(np.concatenate([temple, flower]), 300)

# %%
# An alarm
# --------
#
# ``drift_alarm=0.01`` tests whether new data have become less likely. However long the stream is,
# the probability of a false alarm is at most 0.01.

settings = {"n_components": 5, "reg_covar": 1e-4, "random_state": 0}
guarded = fastem.GaussianMixture(drift_alarm=0.01, **settings)
for batch in stream:
    guarded.partial_fit(batch)

figure, axes = plt.subplots(figsize=(7.6, 3.4), layout="constrained")
fastem.plot.drift(guarded, ax=axes)
axes.axvline(30_000, color="gray", linestyle=":")
plt.show()

# %%
# Forgetting
# ----------
#
# By default all observations count alike, so that the temple fades slowly. With
# ``forgetting=3000`` an observation counts half after 3,000 others.

models = {
    "all count alike": guarded,
    "forgetting=3000": fastem.GaussianMixture(forgetting=3000, **settings),
}
for batch in stream:
    models["forgetting=3000"].partial_fit(batch)

figure, axes = plt.subplots(figsize=(7.6, 3.4), layout="constrained")
fastem.plot.learning_curves(models, ax=axes)
plt.show()

# %%
# **What you see.** The dotted line is where the camera turns. The alarm comes after 1,800 pixels
# of the flower. Both models recover; the one that forgets is faster and stays ahead.
#
# **What to choose.** Set ``drift_alarm`` if a change should be looked at by somebody. Set
# ``forgetting`` if the world changes all the time: the longest half-life that still follows,
# because shorter ones are noisier. You can set both.
