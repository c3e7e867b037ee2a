"""Breaks what fastem is given, one thing at a time, in a process of its own.

Run as ``python sizes_driver.py name ...`` with names of subjects (or none, for all). Each case is
announced on standard output before it is tried, so that the last line tells what was running when
the process was killed; the very last line is ``done`` and what was found, as JSON.
"""

import copy
import json
import sys
import warnings

import numpy as np

import fastem
import fastem.distributed
from fastem.families import Categorical, DirichletMultinomial, Gaussian, MixtureOf, Poisson, Product

RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(24, 2)) + np.repeat([[0.0, 0.0], [6.0, 6.0], [-6.0, 6.0]], 8, axis=0)
COUNTS = RNG.poisson(np.repeat([2.0, 9.0, 20.0], 8)[:, None], size=(24, 2))
SYMBOLS = RNG.integers(0, 4, size=(24, 2))
MIXED = np.column_stack([POINTS[:, 0], SYMBOLS[:, 0]])
TOPICS = RNG.dirichlet([1.0, 2.0, 3.0], size=24)
DOCUMENTS = RNG.multinomial(12, TOPICS)


class Rayleigh(fastem.ExponentialFamily):
    def sufficient(self, X):
        return X**2

    def log_base(self, X):
        return np.log(X).sum(axis=1)

    def log_partition(self, natural):
        return -np.log(-2 * natural).sum(axis=1)

    def mean(self, natural):
        return -1 / natural

    def natural(self, mean):
        return -1 / mean

    def sample(self, natural, rng):
        return rng.rayleigh(np.sqrt(-0.5 / natural))


def mixture(family):
    return fastem.Mixture(family, 3, random_state=0, max_iter=2, n_jobs=1)


def gaussian_mixture(kind):
    return fastem.GaussianMixture(3, covariance_type=kind, random_state=0, max_iter=2, n_jobs=1)


SETTINGS = {"random_state": 0, "n_iter": 2, "n_jobs": 1}
MIXED_FAMILY = Product((Gaussian("diag"), 1), (Categorical(4), 1))

#: name: (estimator, its data, domains of its parameters: what values they can have)
SUBJECTS = {
    **{
        f"GaussianMixture {kind}": (gaussian_mixture(kind), POINTS)
        for kind in ("full", "tied", "diag", "spherical")
    },
    "Mixture poisson": (mixture("poisson"), COUNTS),
    "Mixture multinomial": (mixture("multinomial"), COUNTS),
    "Mixture gamma": (mixture("gamma"), np.abs(POINTS)),
    "Mixture categorical": (mixture(Categorical(4)), SYMBOLS),
    "Mixture compound": (mixture(DirichletMultinomial()), COUNTS),
    "Mixture product": (mixture(MIXED_FAMILY), MIXED),
    "Mixture own": (mixture(Rayleigh()), np.abs(POINTS)),
    "Mixture of mixtures": (mixture(MixtureOf(Poisson(), 2)), COUNTS),
    "GaussianHMM diag": (fastem.GaussianHMM(3, "diag", **SETTINGS), POINTS),
    "GaussianHMM full": (fastem.GaussianHMM(3, "full", **SETTINGS), POINTS),
    "GMMHMM": (fastem.GMMHMM(3, 2, **SETTINGS), POINTS),
    "PoissonHMM": (fastem.PoissonHMM(3, **SETTINGS), COUNTS),
    "CategoricalHMM": (fastem.CategoricalHMM(3, **SETTINGS), SYMBOLS[:, :1]),
    "MultinomialHMM": (fastem.MultinomialHMM(3, n_trials=12, **SETTINGS), DOCUMENTS),
    "HMM product": (fastem.HMM(MIXED_FAMILY, 3, **SETTINGS), MIXED),
    "HMM of mixtures": (fastem.HMM(MixtureOf(Gaussian("tied"), 2), 3, **SETTINGS), POINTS),
    "Dirichlet": (fastem.Dirichlet(n_jobs=1), TOPICS),
    "CompoundDirichlet": (fastem.CompoundDirichlet(max_iter=3, n_jobs=1), DOCUMENTS),
}

#: Attributes that nothing is computed from.
FOR_SHOW = {"precisions_"}
#: Parameters that can be any finite number.
FREE = {"means_", "gaussian_means_", "natural_"}


#: The axis of columns, where no other parameter tells how many there are.
WIDTHS = {
    "rates_": 1, "natural_": 1, "alphas_": 1, "probabilities_": 1, "lambdas_": 1, "alpha_": 0
}  # fmt: skip
HOW = ("short", "long", "huge")


def fitted(name):
    estimator, X = SUBJECTS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return copy.deepcopy(estimator).fit(X), X


# What can be wrong with an array -----------------------------------------------------------------


def wrong_sizes(array):
    """One too few and one too many along each axis, another number of axes, nothing at all."""
    for axis in range(array.ndim):
        yield f"short on axis {axis}", np.delete(array, 0, axis)
        yield f"long on axis {axis}", np.concatenate([array, array.take([0], axis)], axis)
        yield f"huge on axis {axis}", np.repeat(array, 200, axis)
    yield "one axis more", array[None]
    yield "one axis more at the end", array[..., None]
    if array.ndim > 1:
        yield "flat", array.ravel()
    if array.ndim:
        yield "scalar", float(array.flat[0])
        yield "empty", array[:0]
    yield "none at all", np.empty(0)


def wrong_kinds(array):
    yield "strings", np.full(array.shape, "a")
    yield "numbers in strings", array.astype(str)
    yield "objects", np.full(array.shape, None)
    yield "complex", array + 1j
    yield "None", None
    yield "a dict", {}
    if array.ndim:
        yield "ragged", [list(np.ravel(array)), [1.0]]


def wrong_values(name, array):
    for what, value in (("NaN", np.nan), ("inf", np.inf), ("-inf", -np.inf)):
        changed = np.array(array, dtype=float)
        changed.flat[-1] = value
        yield what, changed
    if name in FREE:
        return
    changed = np.array(array, dtype=float)
    changed.flat[0] = -changed.flat[0] if changed.flat[0] else -1.0
    yield "negative", changed
    square = array.ndim >= 2 and array.shape[-1] == array.shape[-2] and "cov" in name
    if square:
        changed = np.array(array, dtype=float)
        # Symmetric, with positive variances, and still no covariance.
        changed[..., 0, 1] = changed[..., 1, 0] = 3.0 * np.sqrt(
            changed[..., 0, 0] * changed[..., 1, 1]
        )
        yield "not definite", changed


def spoiled(name, array):
    yield from wrong_sizes(array)
    yield from wrong_kinds(array)
    yield from wrong_values(name, array)


# What is asked of an estimator -------------------------------------------------------------------


def methods(estimator, X):
    """Every public method that uses the model, by name."""
    asked = {
        "score": lambda e: e.score(X),
        "score_samples": lambda e: e.score_samples(X),
        "bic": lambda e: e.bic(X),
        "partial_fit": lambda e: e.partial_fit(X),
        "partial_fit by ones": lambda e: e.set_params(batch_size=1).partial_fit(X),
        "sample": lambda e: e.sample(4),
        "divergence": lambda e: fastem.divergence(e, e, **horizon(e)),
        "combine": lambda e: fastem.combine([e, e], **horizon(e)),
        "distributed.expect": lambda e: fastem.distributed.expect(e, X),
    }
    for name in ("predict", "predict_proba", "transform", "decode"):
        if hasattr(estimator, name):
            asked[name] = lambda e, name=name: getattr(e, name)(X)
    if hasattr(estimator, "filter"):
        asked["filter"] = lambda e: e.filter().update(np.asarray(X[0]))
    if hasattr(estimator, "get_stationary_distribution"):
        asked["get_stationary_distribution"] = lambda e: e.get_stationary_distribution()
    return asked


def horizon(estimator):
    return {"horizon": 5} if hasattr(estimator, "transmat_") else {}


def attempt(what, function, found, *, allowed=()):
    """Try a case; anything but an error that says something is a finding."""
    print(what, flush=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function()
    except (ValueError, TypeError) as error:
        inside = isinstance(error, np.linalg.LinAlgError) or len(str(error)) < 12
        if inside:
            found.append(f"{what}: {error!r}")
        return
    except Exception as error:
        found.append(f"{what}: {error!r}")
        return
    if not any(word in what for word in allowed):
        found.append(f"{what}: no error")


def try_attributes(name, found):
    """Every learned parameter, spoiled in every way, and every method called."""
    estimator, X = fitted(name)
    asked = methods(estimator, X)
    for method, call in asked.items():
        # As it is, everything works: so that an error means something.
        print(name, method, "as it is", flush=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call(copy.deepcopy(estimator))
    for attribute in estimator._parameter_attributes():
        if attribute in FOR_SHOW:
            continue
        right = np.asarray(getattr(estimator, attribute))
        for how, wrong in spoiled(attribute, right):
            for method, call in asked.items():
                broken = copy.deepcopy(estimator)
                vars(broken)[attribute] = wrong
                attempt(
                    f"{name}: {attribute} {how}, {method}",
                    lambda call=call, broken=broken: call(broken),
                    found,
                    allowed=still_right(name, attribute),
                )


def still_right(name, attribute):
    """Words of cases that have an answer, and not an error."""
    # The stationary distribution is that of the transitions alone, as in hmmlearn: no kernel.
    unused = () if attribute == "transmat_" else ("get_stationary_distribution",)
    return (*unused, *_still_right(name, attribute))


def _still_right(name, attribute):
    if attribute in WIDTHS or (attribute == "means_" and "spherical" in name):
        # A model of other columns is a model; only data of the old ones do not fit.
        axis = 2 if name == "Mixture of mixtures" else WIDTHS.get(attribute, 1)
        ends = ("sample", "divergence", "combine")
        return tuple(f"{attribute} {how} on axis {axis}, {end}" for how in HOW for end in ends)
    if name.startswith("GaussianMixture") and attribute == "covariances_":
        # scikit-learn's scores are those of precisions_cholesky_, whatever the covariances.
        return ("not definite",)
    if name == "GMMHMM" and attribute == "covars_":
        # Variances of states by members by columns: as many members as columns are no matrix.
        return ("not definite",)
    if name.startswith("GaussianMixture") and attribute == "precisions_cholesky_":
        # Draws are those of the covariances, and a matrix may be any square factor.
        return ("negative",) if "full" in name or "tied" in name else ("negative, sample",)
    return ()


def try_statistics(name, found):
    """The memory of online learning, with shapes that disagree and values that are none."""
    estimator, X = fitted(name)
    estimator.set_params(memory="statistics")
    estimator.partial_fit(X)
    right = estimator.statistics_.to_arrays()
    for part, array in right.items():
        cases = [*wrong_sizes(array), ("NaN", np.full(array.shape, np.nan))]
        for how, wrong in cases:
            for batch_size in (None, 1):
                broken = copy.deepcopy(estimator).set_params(batch_size=batch_size)
                spoiled_arrays = {**right, part: wrong}
                attempt(
                    f"{name}: statistics_ {part} {how}, batch_size={batch_size}",
                    lambda b=broken, s=spoiled_arrays: learn_from(b, s, X),
                    found,
                )
                attempt(
                    f"{name}: maximize({part} {how})",
                    lambda b=broken, s=spoiled_arrays: maximize(b, s),
                    found,
                    allowed=("NaN",),
                )
    for how, wrong in (("None", None), ("a dict", {}), ("of none", fastem.Statistics())):
        broken = copy.deepcopy(estimator)
        broken.statistics_ = wrong
        attempt(
            f"{name}: statistics_ {how}", lambda b=broken: b.partial_fit(X), found,
            allowed=("statistics_ None",),
        )  # fmt: skip


def learn_from(estimator, arrays, X):
    estimator.statistics_ = fastem.Statistics.from_arrays(arrays)
    estimator.partial_fit(X)


def maximize(estimator, arrays):
    statistics = fastem.Statistics.from_arrays(arrays)
    model = estimator._model()
    model.log_joint(statistics)
    model.maximize(statistics)


def main(names):
    found = []
    for name in names or SUBJECTS:
        try_attributes(name, found)
        try_statistics(name, found)
    print("done", json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
