"""
Can hidden Markov models read digits?
=====================================

A picture of a digit is a sequence of eight rows, from the top to the bottom. A left-to-right model
goes through its states in order, and each state is a typical row. Ten such models, one for each
digit, make a classifier.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import fastem

digits = load_digits()
images, labels = digits.images / 16.0, digits.target
train, test = slice(0, 900), slice(900, None)

# %%
# Some pixels are white in all examples of a digit, and a variance of zero would forbid anything
# else. A little noise, which we add to the examples, prevents that.
#
# The chain begins in the first state, and either stays or goes on to the next. Probabilities that
# are zero stay zero in EM, so that what we set here holds throughout.

n_states = 8
startprob = np.eye(n_states)[0]
transmat = 0.5 * (np.eye(n_states) + np.eye(n_states, k=1))
transmat[-1, -1] = 1.0


def fit_digit(digit):
    examples = images[train][labels[train] == digit]
    examples = examples + np.random.default_rng(0).normal(scale=0.2, size=examples.shape)
    model = fastem.GaussianHMM(n_states, covariance_type="full", init_params="c", n_iter=30)
    model.startprob_, model.transmat_ = startprob, transmat
    mean = examples.mean(axis=0)
    model.means_ = mean[np.linspace(0, 7, n_states).round().astype(int)]
    return model.fit(list(examples))


models = [fit_digit(digit) for digit in range(10)]

# %%
# The states as pictures
# ----------------------
#
# Each digit is the column of the means of its states.

figure, axes = plt.subplots(figsize=(7.6, 1.6), layout="constrained")
pictures = [np.pad(model.means_, [(0, 0), (1, 1)]) for model in models]
axes.imshow(np.concatenate(pictures, axis=1), cmap="gray_r", vmin=0)
axes.set_axis_off()
plt.show()

# %%
# Reading
# -------
#
# The digit whose model gives a picture the highest likelihood wins.

unseen = list(images[test])
scores = np.column_stack([model.score_sequences(unseen) for model in models])
read = scores.argmax(axis=1)
table = np.zeros((10, 10), dtype=int)
np.add.at(table, (labels[test], read), 1)
print(f"{(read == labels[test]).mean():.1%} of {len(read)} new digits are read correctly")

figure, axes = plt.subplots(figsize=(5.0, 4.6), layout="constrained")
axes.imshow(np.sqrt(table), cmap="Blues")
for (i, j), count in np.ndenumerate(table):
    if count:
        axes.text(j, i, count, ha="center", va="center", color="white" if i == j else "black")
axes.set(xlabel="read as", ylabel="digit", xticks=range(10), yticks=range(10))
plt.show()

# %%
# **What you see.** The likelihood of ten small models reads nine out of ten digits, although
# each model has seen only its own digit. The columns of states are digits again.
#
# **What to choose.** For sequences of different speed, such as strokes, words or gestures, states
# that are passed in order need few parameters. Covariances of type ``"full"`` know that
# neighboring pixels go together. ``covariance_type="diag"`` is enough for features that do not.
