"""
What are these documents about?
===============================

SciPy documents its functions in its source code. We cut these texts into words and count them. Can
a mixture sort the texts by subject, when it knows nothing but the counts?
"""

import inspect

import matplotlib.pyplot as plt
import numpy as np
import scipy
from sklearn.feature_extraction.text import CountVectorizer

import fastem
from fastem.families import DirichletMultinomial

subjects = ["linalg", "ndimage", "optimize", "signal", "spatial", "stats"]
texts, sources = [], []
for number, subject in enumerate(subjects):
    module = getattr(scipy, subject)
    for name in sorted(module.__all__):
        text = inspect.getdoc(getattr(module, name)) or ""
        text = text.split("Array API")[0]  # the same sentences in many of them
        if len(text) > 500:
            texts.append(text)
            sources.append(number)
words = CountVectorizer(stop_words="english", token_pattern="[a-z]{4,}", min_df=20, max_df=0.4)
counts = words.fit_transform(texts)
print(f"{counts.shape[0]} documents, {counts.shape[1]} words")

# %%
# A word that occurs once in a text is likely to occur there again. The Dirichlet-multinomial
# distribution knows that; the multinomial does not, and becomes too sure of itself on long texts.

counts = counts.toarray()
model = fastem.Mixture(DirichletMultinomial(), 6, tol=0.01, max_iter=500, random_state=0).fit(
    counts
)

# %%
# Which words belong to which component? We list those that are most frequent in a component beside
# their frequency everywhere.

shares = model.alphas_ / model.alphas_.sum(axis=1, keepdims=True)
common = counts.sum(axis=0) / counts.sum()
vocabulary = words.get_feature_names_out()
typical = [vocabulary[(share * np.log(share / common)).argsort()[::-1][:4]] for share in shares]

table = np.zeros((6, 6))
np.add.at(table, (model.predict(counts), sources), 1)

figure, axes = plt.subplots(figsize=(7.6, 4.0), layout="constrained")
axes.imshow(table / table.sum(axis=0), cmap="Blues", aspect="auto")
for (k, subject), count in np.ndenumerate(table):
    if count:
        share = count / table[:, subject].sum()
        axes.text(subject, k, int(count), ha="center", va="center",
                  color="white" if share > 0.5 else "black")  # fmt: skip
axes.set_xticks(range(6), subjects)
axes.set_yticks(range(6), [", ".join(top) for top in typical])
axes.set(xlabel="module of SciPy", ylabel="component, by its typical words")
plt.show()

# %%
# **What you see.** Each number counts the texts of a module in a component. Linear algebra,
# images and signals have a component each; statistics has two, one for distributions and one for
# tests. The typical words say what a component is about. One component takes the rest, which are
# functions of all kinds.
#
# **What to choose.** ``DirichletMultinomial`` for words, clicks and other counts that come in
# bursts; ``"multinomial"`` if the words of a text do not depend on each other. Leave out words
# that are in nearly all texts, and those in very few.
