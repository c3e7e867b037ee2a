"""
Which rows are unusual?
=======================

Seven numbers describe each American state: crime, schooling, poverty, families, population. Which
states fit the picture least, even if none of their numbers is extreme by itself?
"""

import matplotlib.pyplot as plt
from statsmodels.datasets import statecrime

import fastem

states = statecrime.load_pandas().data
model = fastem.GaussianMixture(1).fit(states)
surprise = -model.score_samples(states)

# %%
# A mixture gives each row its log-likelihood. Rows of low log-likelihood are unusual. For 51 rows
# one component is enough: it knows how the columns depend on each other.

worst = surprise.argsort()[::-1][:10]

figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
axes.plot(surprise, [0] * len(states), "|", color="gray")
axes.plot(surprise[worst], range(1, 11), "o", color=fastem.plot.color(0))
axes.set_yticks(range(11), ["all states", *states.index[worst]])
axes.grid(axis="y", alpha=0.4)
axes.invert_yaxis()
axes.set(xlabel="negative log-likelihood")
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Why are they unusual?
# ---------------------
#
# Two of the seven columns show the reason for some of them.

figure, axes = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
fastem.plot.components(model, states, columns=("white", "single"), ax=axes)
for state in states.index[worst[:3]]:
    place = states.loc[state, ["white", "single"]]
    axes.annotate(state, place, xytext=(6, 4), textcoords="offset points", fontsize=9)
plt.show()

# %%
# **What you see.** The District of Columbia is a city and not a state, and its numbers show it.
# Most people in Hawaii are neither white nor poor, which is rare elsewhere. Mississippi lies inside
# the ellipse of this plane: it is unusual in a combination of columns that this picture does not
# show.
#
# **What to choose.** Rank the rows by ``score_samples`` and look at the first few. With thousands
# of rows in several groups, take several components. For a stream, ``learner().score_one`` does
# the same for one row at a time.
