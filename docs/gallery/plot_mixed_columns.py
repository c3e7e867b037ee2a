"""
How do I cluster columns of different kinds?
============================================

In 1996, American voters told their age, their education in seven steps, on how many days of the
week they watched the news, their party in seven steps, and for whom they voted. Age is a number,
the vote is yes or no, the others are categories. Which groups of voters are there?
"""

import matplotlib.pyplot as plt
from statsmodels.datasets import anes96

import fastem
from fastem.families import Bernoulli, Categorical, Gaussian, Product

voters = anes96.load_pandas().data[["age", "educ", "TVnews", "PID", "vote"]]

# %%
# A ``Product`` puts families side by side, each over its own columns.

kinds = Product(
    (Gaussian("diag"), 1),  # age
    (Categorical(8), 2),  # education, news
    (Categorical(7), 1),  # party
    (Bernoulli(), 1),  # vote
)
model = fastem.Mixture(kinds, 3, n_init=10, tol=1e-5, max_iter=500, random_state=0).fit(voters)

# %%
# The groups
# ----------

figure, axes = plt.subplots(2, 2, figsize=(8.0, 5.6), layout="constrained")
fastem.plot.densities(model, voters, column="age", ax=axes[0, 0])
party = model.categorical2_probabilities_[:, 0]
news = model.categorical_probabilities_[:, 1]
for k in range(3):
    color = fastem.plot.color(k)
    axes[0, 1].plot(range(8), news[k], "o-", color=color)
    axes[1, 0].plot(range(7), party[k], "o-", color=color)
axes[0, 1].set(xlabel="days of news in a week", ylabel="probability", ylim=0)
axes[1, 0].set(xlabel="party: 0 strong Democrat, 6 strong Republican", ylabel="probability", ylim=0)
axes[1, 1].bar(
    range(3), model.bernoulli_probabilities_[:, 0], color=[fastem.plot.color(k) for k in range(3)]
)
axes[1, 1].set(xlabel="component", ylabel="probability of voting for Dole", xticks=range(3))
for ax in axes.flat:
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# **What you see.** Component 0 consists of Republicans of all ages who voted for Dole. Components 1
# and 2 are Democrats: older ones, of whom most watch the news every day, and younger ones, who
# seldom do.
#
# **What to choose.** Give each column the family of its kind. Do not turn categories into
# numbers: a Gaussian would believe that category 6 is three times category 2. Compare numbers of
# components by ``bic``.
