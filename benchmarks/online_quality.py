"""How good one pass is: ``python -m benchmarks.online_quality``.

Observations come in random order, in calls of ``partial_fit`` with 1, 10, 100 or 1000 of them, or
in one, once each, and no setting is touched. Measured is the share of batch EM's gain that is kept:

    (score after one pass - score of one component) / (score of batch EM - score of one component)

on held-out observations, a fifth of all. Of a Kalman filter the model of one component is a
Gaussian: rows that do not depend on those before. Each start has another order and seed.

Batch EM takes 100 iterations, and ends at one of many optima: its score is the mean of three runs
from its own starts, of different seeds, on the same observations. A share may be above one. The
column "batch EM" is the same measure of batch EM itself, each run beside the mean of the other two:
what is due to chance in the measure.

Of sets of fewer than 100 observations, a fifth is too few to score with: all five fifths are held
out in turn, and the scores of all of them are added before the share is taken.

Data are in units that are usual for them: measurements in standard deviations, and variables that
are 0 or 1 as they are.

The rule of the automatic rate was chosen on digits, as rows and as sequences, and how starts are
made on the digits and the documents. ``--write`` puts the table into docs/rates.md, ``--starts``
takes fewer, ``--sets`` some.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import logging
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import CountVectorizer

import fastem
from fastem.experiments.datasets import load

from .generated import table, write

PAGE = "docs/rates.md"
#: Observations of a call; None: all of them.
CALLS = (1, 10, 100, 1000, None)
KINDS = ("full", "tied", "diag", "spherical")
#: Runs of batch EM on the same observations.
_N_BATCH = 3
#: Fewer observations are all held out in turn.
_FEW = 100


class Case(NamedTuple):
    """A data set, a model, and what it is compared with."""

    set: str
    model: str
    observations: Any
    #: Functions of a seed that return an estimator.
    online: Any
    batch: Any
    one: Any

    def __str__(self):
        return f"{self.set}, {self.model}"


# Data ------------------------------------------------------------------------------------------


def digits():
    """1,797 rows of 64 pixels; noise of a fifth of a gray level, so that none is constant."""
    images = load_digits().images
    return images + np.random.default_rng(0).normal(0.0, 0.2, images.shape)


def covtype(folder, n_rows=20_000):
    """Rows of Covtype: ten measurements in units of their deviations, 44 indicators of 0 or 1."""
    X = load("covtype", folder)
    X = X[np.random.default_rng(1).permutation(len(X))[:n_rows]].astype(float)
    X[:, :10] = (X[:, :10] - X[:, :10].mean(axis=0)) / X[:, :10].std(axis=0)
    return X


def fashion(folder, width=14, n_rows=12_000):
    """Images of 14 by 14 pixels, means of four, or of 7 by 7, means of sixteen."""
    X = load("fashion-mnist", folder)
    X = X[np.random.default_rng(1).permutation(len(X))[:n_rows]]
    X = X.reshape(-1, width, 28 // width, width, 28 // width)
    return X.mean(axis=(2, 4)).reshape(len(X), -1) / 64.0


def macro():
    """Growth of consumption, investment and income in the United States, by two years."""
    from statsmodels.datasets import macrodata

    data = macrodata.load_pandas().data[["realcons", "realinv", "realdpi"]]
    growth = 100.0 * np.diff(np.log(data.to_numpy()), axis=0)
    return (growth / growth.std(axis=0))[:200].reshape(-1, 8, 3)


def nile():
    """The flow of the Nile at Aswan, by ten years."""
    from statsmodels.datasets import nile as data

    flow = data.load_pandas().data["volume"].to_numpy()
    return ((flow - flow.mean()) / flow.std()).reshape(-1, 10, 1)


def documentation(n_words=300):
    """The documentation of functions of NumPy, SciPy and scikit-learn, as counts of words."""
    names = ("numpy", "numpy.linalg", "numpy.fft", "scipy.stats", "scipy.signal", "scipy.optimize",
             "scipy.special", "scipy.linalg", "scipy.ndimage", "sklearn.metrics",
             "sklearn.datasets", "sklearn.linear_model", "sklearn.preprocessing",
             "sklearn.cluster")  # fmt: skip
    texts = set()
    for name in names:
        module = importlib.import_module(name)
        for member in map(lambda key, m=module: getattr(m, key, None), dir(module)):
            text = inspect.getdoc(member) if callable(member) else None
            if text and len(text) > 400:
                texts.add(text)
    counts = CountVectorizer(stop_words="english", max_features=n_words)
    X = counts.fit_transform(sorted(texts)).toarray()
    return X[X.sum(axis=1) >= 20]


# Cases -----------------------------------------------------------------------------------------


def mixtures(name, X, n_components, kinds=KINDS):
    """Gaussian mixtures of rows."""
    for kind in kinds:

        def make(seed, n=n_components, kind=kind, **settings):
            return fastem.GaussianMixture(
                n, covariance_type=kind, reg_covar=1e-3, random_state=seed, **settings
            )

        yield Case(
            name, f"{kind}, K={n_components}", X, make,
            lambda seed, make=make: make(seed, max_iter=100, tol=0.0),
            lambda seed, make=make: make(seed, 1),
        )  # fmt: skip


def chains(name, X, n_states, kinds=("full", "diag")):
    """Hidden Markov models of sequences."""
    for kind in kinds:

        def make(seed, n=n_states, kind=kind, **settings):
            return fastem.GaussianHMM(n, kind, random_state=seed, **settings)

        yield Case(
            name, f"HMM, {kind}, K={n_states}", X, make,
            lambda seed, make=make: make(seed, n_iter=100, tol=-np.inf),
            lambda seed, make=make: make(seed, 1, n_iter=2),
        )  # fmt: skip


def filters(name, X, n_dim_state):
    """Kalman filters of sequences, beside rows that do not depend on each other."""

    def make(seed, **settings):
        return fastem.KalmanFilter(
            n_dim_state=n_dim_state, n_dim_obs=X.shape[2], random_state=seed, **settings
        )

    def constant(seed):
        # A state that is forgotten at once: a Gaussian of rows.
        return fastem.GaussianHMM(1, "full", n_iter=2, random_state=seed)

    yield Case(
        name, f"Kalman filter, d={n_dim_state}", X, make,
        lambda seed: make(seed, max_iter=100, tol=0.0), constant,
    )  # fmt: skip


def topics(name, X, n_components):
    """Mixtures of compound Dirichlet distributions of documents."""

    def make(seed, n=n_components, **settings):
        return fastem.Mixture("dirichletmultinomial", n, random_state=seed, **settings)

    yield Case(
        name, f"compound Dirichlet, K={n_components}", X, make,
        lambda seed: make(seed, max_iter=100, tol=0.0), lambda seed: make(seed, 1),
    )  # fmt: skip


def cases(folder):
    """All of them; the first two sets are those that the rule was chosen on."""
    images = digits()
    yield from mixtures("digits", images.reshape(len(images), -1) / 4.0, 10)
    yield from chains("digits as sequences", images / 4.0, 6)
    yield from mixtures("Covtype", covtype(folder), 7)
    # More than are kept to start from.
    yield from mixtures("Covtype, 100,000 rows", covtype(folder, 100_000), 7, ("full", "diag"))
    yield from mixtures("Fashion-MNIST, 14 × 14", fashion(folder), 10, ("diag", "spherical"))
    yield from mixtures("Fashion-MNIST, 7 × 7", fashion(folder, 7), 10)
    yield from filters("macroeconomic series", macro(), 2)
    yield from filters("Nile", nile(), 1)
    yield from topics("documentation", documentation(), 5)


# Measuring -------------------------------------------------------------------------------------


def score(estimator, X):
    """The mean log-likelihood of an observation."""
    if X.ndim == 2:
        return estimator.score(X)
    if isinstance(estimator, fastem.KalmanFilter):
        return estimator.score(X) * X.shape[1] if _per_step(estimator, X) else estimator.score(X)
    return estimator.score(X.reshape(-1, X.shape[2]), [X.shape[1]] * len(X)) / len(X)


def _per_step(estimator, X):
    total = sum(estimator.loglikelihood(x) for x in X) / len(X)
    return abs(estimator.score(X) - total) > 1e-6 * abs(total)


def fit(estimator, X):
    """Batch EM."""
    if X.ndim == 3 and not isinstance(estimator, fastem.KalmanFilter):
        return estimator.fit(X.reshape(-1, X.shape[2]), [X.shape[1]] * len(X))
    return estimator.fit(X)


def learn(estimator, X):
    """One call of ``partial_fit``."""
    if X.ndim == 3 and not isinstance(estimator, fastem.KalmanFilter):
        return estimator.partial_fit(X.reshape(-1, X.shape[2]), [X.shape[1]] * len(X))
    return estimator.partial_fit(X)


def splits(n, rng):
    """The numbers of the observations that are held out, and of the others, in random order."""
    order = rng.permutation(n)
    n_held_out = n // 5
    folds = range(5 if n < _FEW else 1)
    for fold in folds:
        # The last fifth has what is left over.
        last = n if fold == 4 else (fold + 1) * n_held_out
        held_out = slice(fold * n_held_out, last)
        yield order[held_out], np.delete(order, held_out)


def shares(case, seed):
    """The shares of the gain that batch EM keeps, and one pass for each size of the calls.

    NaN for sizes beyond the data.
    """
    totals = np.zeros(1 + _N_BATCH + len(CALLS))
    for held_out, others in splits(len(case.observations), np.random.default_rng(seed)):
        X, held_out = case.observations[others], case.observations[held_out]
        scores = [score(fit(case.one(seed), X), held_out)]
        # Seeds of other starts are other numbers.
        scores += [
            score(fit(case.batch(seed + 1000 * run), X), held_out) for run in range(_N_BATCH)
        ]
        for size in CALLS:
            if size is None:
                size = len(X)
            if size > 10 * len(X):
                scores.append(np.nan)
                continue
            estimator = case.online(seed)
            for first in range(0, len(X), size):
                learn(estimator, X[first : first + size])
            scores.append(score(estimator, held_out))
        totals += np.array(scores) * len(held_out)
    gains = totals[1:] - totals[0]
    batch = gains[:_N_BATCH]
    others = (batch.sum() - batch) / (_N_BATCH - 1)
    return batch / others, gains[_N_BATCH:] / batch.mean()


def measure(folder, starts, sets):
    """A row of the table for each case: the mean and the least share, by the size of calls."""
    for case in cases(folder):
        if sets and not any(word.lower() in str(case).lower() for word in sets):
            continue
        pairs = [shares(case, seed) for seed in range(starts)]
        batch, found = (np.array(part) for part in zip(*pairs, strict=True))
        columns = [batch.ravel(), *found.T]
        cells = [
            "–" if np.isnan(values).all() else f"{values.mean():.0%} ({values.min():.0%})"
            for values in columns
        ]
        yield [case.set, case.model, *cells], found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with covtype.npz and fashion-mnist/")
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--sets", nargs="+", default=[])
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE}")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.getLogger("fastem").setLevel(logging.ERROR)
    rows, everything = [], []
    for row, found in measure(arguments.data, arguments.starts, arguments.sets):
        print(" | ".join(row), flush=True)
        rows.append(row)
        everything.append(found[~np.isnan(found)])
    everything = np.concatenate(everything)
    means = f"mean of all {everything.mean():.1%}, least {everything.min():.0%}"
    print(f"{len(everything)} passes: {means}")
    if arguments.write:
        calls = ("one call" if size is None else f"calls of {size}" for size in CALLS)
        head = ["data", "model", "batch EM", *calls]
        write(PAGE, "online-quality", table(head, rows))


if __name__ == "__main__":
    main()
