"""One suite for every model and estimator: what :mod:`fastem.algebra` and the base classes promise.

Adding a model means adding a case to ``CASES``. Comparisons with independent code, by brute force,
are in the tests of each model.
"""

import copy
import functools
import itertools
import pickle
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

import fastem
from fastem import Decay, Statistics, algebra, distributed, parallel
from fastem.distributed.shards import shards_of
from fastem.families import Categorical, Gaussian, Poisson, Product
from fastem.hmm import passes
from fastem.model import Model
from fastem.stopping import ConvergenceMonitor, Limit, StoppingRule, Tolerance

from cases.families import (
    INTERLEAVED,
    Rayleigh,
    assert_same_model,
    assert_same_statistics,
    raw_sums,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    # A model after few iterations is far from the data.
    pytest.mark.filterwarnings("ignore:.*is not converging"),
]

# Data: each function draws n observations -----------------------------------------------------


def points(rng, n):
    return rng.normal(size=(n, 2)) + 3.0 * rng.integers(2, size=(n, 1))


def counts(rng, n):
    return rng.poisson([2.0, 5.0, 3.0] * (1 + rng.integers(2, size=(n, 1))))


def binary(rng, n):
    return (rng.random((n, 3)) < 0.2 + 0.5 * rng.integers(2, size=(n, 1))).astype(int)


def categories(rng, n):
    return rng.integers(2, size=(n, 2)) + rng.integers(2, size=(n, 1))


def positive(rng, n):
    return rng.gamma(3.0, 1.0 + 2.0 * rng.integers(2, size=(n, 1)), size=(n, 2))


def fractions(rng, n):
    return rng.beta(2.0, 1.0 + 4.0 * rng.integers(2, size=(n, 1)), size=(n, 2))


def mixed(rng, n):
    return np.column_stack([points(rng, n), rng.poisson(4.0, size=n)])


def interleaved(rng, n):
    x, y, z = points(rng, n), positive(rng, n), rng.poisson(4.0, size=n)
    return np.column_stack([x[:, 0], y[:, 0], z, y[:, 1], x[:, 1]])


def topics(rng, n):
    return rng.dirichlet([1.0, 2.0, 4.0], size=n)


def documents(rng, n):
    return np.array([rng.multinomial(rng.integers(5, 15), h) for h in topics(rng, n)])


def sparse_documents(rng, n):
    return sparse.csr_array(documents(rng, n))


def sequences_of(rows):
    """Sequences of two to six of such rows."""
    return lambda rng, n: [rows(rng, T) for T in rng.integers(2, 7, n)]


def trials(rng, n):
    return rng.multinomial(6, [0.2, 0.3, 0.5], size=n)


def states(rng, n):
    """Sequences of points that stay where they are for a while."""
    walks = [np.cumsum(rng.random(T) < 0.3) % 2 for T in rng.integers(2, 7, n)]
    return [4.0 * walk[:, None] + rng.normal(size=(len(walk), 2)) for walk in walks]


def absorbed(rng, n):
    """The same, with a last point that is far away."""
    return [np.vstack([v, 12 + rng.normal(size=(1, 2))]) for v in states(rng, n)]


def walks(rng, n):
    """Sequences of points that go on from one to the next, in three columns."""
    mixing = np.random.default_rng(0).normal(size=(2, 3))
    steps = [np.cumsum(rng.normal(size=(T, 2)), axis=0) for T in rng.integers(3, 8, n)]
    return [h @ mixing + 0.5 * rng.normal(size=(len(h), 3)) for h in steps]


def with_gaps(sequences):
    """The same sequences, a tenth of whose entries are missing."""

    def drawn(rng, n):
        found = sequences(rng, n)
        for v in found:
            v[rng.random(v.shape) < 0.1] = np.nan
        return found

    return drawn


# Equivalent models: equal laws of the observations -------------------------------------------


def reordered(model, rng):
    return model.reordered(np.roll(np.arange(model.n_components), 1))


def other_basis(model, rng):
    return model.transformed(2.0 * np.eye(2) + 0.5 * rng.normal(size=(2, 2)))


# The cases ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """An estimator, and a function ``data(rng, n)`` that draws observations for it."""

    name: str
    estimator: Any
    data: Callable
    n: int = 60
    #: A function of the model and random numbers: another model with the same law.
    equivalent: Callable | None = field(default=reordered)
    #: Endings of the names of parameters that are not learned.
    held: tuple = ()
    #: Whether the models have no hidden variables.
    hides_nothing: bool = False
    #: Relative error of what should be equal to rounding.
    rtol: float = 1e-9
    #: Whether a model is a posterior: its law is an average over parameters, of which it has none.
    is_posterior: bool = False

    def __repr__(self):
        return self.name

    def make(self, n_iter=2, **settings):
        """The estimator, not fitted, which ``fit`` gives exactly ``n_iter`` iterations."""
        names = self.estimator.get_params()
        for name, value in (("n_iter", n_iter), ("max_iter", n_iter), ("tol", 0.0)):
            if name in names:
                settings = {name: value, **settings}
        return clone(self.estimator).set_params(**settings)

    def observations(self, seed, n=None):
        return self.data(np.random.default_rng(seed), n or self.n)

    @functools.cached_property
    def fitted(self):
        """An estimator after two iterations. It must not be changed."""
        return self.make().fit(self.observations(0))

    @functools.cached_property
    def model(self):
        """A model that is not at a maximum."""
        return moved(self.fitted._model().with_n_jobs(1), np.random.default_rng(1), 0.1)

    def table(self, X, **given):
        """Observations as the model takes them."""
        return self.fitted._check_data(X, reset=False, **given)

    @functools.cached_property
    def batch(self):
        return self.table(self.observations(2))

    @functools.cached_property
    def horizon(self):
        return self.model.expect(self.batch).horizon


def _cases():
    seeded = {"random_state": 0}
    for kind in ("full", "tied", "diag", "spherical"):
        # Row by row, a kernel adds the noise of full covariances once in a while.
        noise = 0.0 if kind == "full" else 0.05
        mixture = fastem.GaussianMixture(2, covariance_type=kind, reg_covar=noise, **seeded)
        yield Case(f"GaussianMixture-{kind}", mixture, points)
    for kind, weights in itertools.product(
        ("full", "tied", "diag", "spherical"), ("dirichlet_distribution", "dirichlet_process")
    ):
        mixture = fastem.BayesianGaussianMixture(
            n_components=2, covariance_type=kind, weight_concentration_prior_type=weights, **seeded
        )
        # The order of the sticks of a process makes a difference.
        equivalent = reordered if weights == "dirichlet_distribution" else None
        name = f"BayesianGaussianMixture-{kind}-{weights[10:]}"
        yield Case(name, mixture, points, equivalent=equivalent, is_posterior=True)
    for family, data in {
        "poisson": counts, "bernoulli": binary, "multinomial": documents, "exponential": positive,
        "gamma": positive, "beta": fractions, Categorical(3): categories,
        Product((Gaussian("diag"), 2), (Poisson(), 1)): mixed, Rayleigh(): positive,
        INTERLEAVED.family: interleaved,
    }.items():  # fmt: skip
        name = family if isinstance(family, str) else type(family).__name__
        name = "interleaved" if data is interleaved else name
        yield Case(f"Mixture-{name}", fastem.Mixture(family, 2, **seeded), data)
    yield Case("GaussianHMM-full", fastem.GaussianHMM(2, "full", **seeded), states)
    yield Case("GaussianHMM-tied", fastem.GaussianHMM(2, "tied", **seeded), states)
    ending = fastem.GaussianHMM(3, "diag", absorbing=[2], **seeded)
    yield Case("GaussianHMM-absorbing", ending, absorbed)
    yield Case("GaussianHMM-missing", fastem.GaussianHMM(2, "diag", **seeded), with_gaps(states))
    yield Case("GMMHMM", fastem.GMMHMM(2, 2, **seeded), states)
    yield Case("PoissonHMM", fastem.PoissonHMM(2, **seeded), sequences_of(counts))
    yield Case("CategoricalHMM", fastem.CategoricalHMM(2, **seeded),
               sequences_of(lambda rng, n: categories(rng, n)[:, :1]))  # fmt: skip
    yield Case("MultinomialHMM", fastem.MultinomialHMM(2, **seeded), sequences_of(trials))
    yield Case("HMM", fastem.HMM("gamma", 2, **seeded), sequences_of(positive))
    kalman = fastem.KalmanFilter(n_dim_state=2, **seeded)
    offsets = ("transition_offsets", "observation_offsets")
    for name, data in (("KalmanFilter", walks), ("KalmanFilter-missing", with_gaps(walks))):
        yield Case(name, kalman, data, equivalent=other_basis, held=offsets, rtol=1e-8)
    yield Case("Dirichlet", fastem.Dirichlet(), topics, equivalent=None, hides_nothing=True)
    polya = fastem.CompoundDirichlet(solver="em")
    yield Case("CompoundDirichlet", polya, sparse_documents, equivalent=None)
    for member, data in (
        (fastem.GaussianHMM(2, "diag", **seeded), states), (kalman, walks), (polya, documents),
        (fastem.GaussianMixture(2, **seeded), points),
    ):  # fmt: skip
        name = f"MixtureOfModels-{type(member).__name__}"
        mixture = fastem.MixtureOfModels(member, 2, **seeded)
        yield Case(name, mixture, data, held=offsets, rtol=1e-8)


CASES = list(_cases())
every = pytest.mark.parametrize("case", CASES, ids=str)
every_law = pytest.mark.parametrize(
    "case", [case for case in CASES if not case.is_posterior], ids=str
)
every_warm_start = pytest.mark.parametrize(
    "case", [case for case in CASES if "warm_start" in case.estimator.get_params()], ids=str
)
RATES = (1e-3, 0.1, 1.0, 30.0, np.inf)


#: Estimators of posteriors, whose steps are those of another bound: see ``tests/vhmm``.
POSTERIORS = {"VariationalGaussianHMM", "VariationalCategoricalHMM"}


def test_every_estimator_has_a_case():
    cases = {type(case.estimator).__name__ for case in CASES}
    assert cases == set(fastem.ESTIMATORS) - POSTERIORS


# Models moved within the domain of their parameters -------------------------------------------

SIMPLEX = ("weights", "startprob", "transmat")
POSITIVE = ("rates", "scales", "shapes", "alpha", "alphas", "betas", "natural")


def moved(model, rng, distance, names=None):
    """The model with all parameters, or those of these names, moved by about ``distance``."""
    parameters = model.parameters
    for name in parameters if names is None else names:
        parameters = {**parameters, name: moved_array(name, parameters[name], rng, distance)}
    return model.with_parameters(parameters)


def moved_array(name, array, rng, distance):
    noise = distance * rng.normal(size=np.shape(array))
    if name.endswith("probabilities"):
        is_simplex = np.allclose(array.sum(axis=-1), 1.0, atol=1e-9)
        odds = (array if is_simplex else array / (1.0 - array)) * np.exp(noise)
        return odds / (odds.sum(axis=-1, keepdims=True) if is_simplex else 1.0 + odds)
    if name.endswith(SIMPLEX):
        scaled = array * np.exp(noise)
        return scaled / scaled.sum(axis=-1, keepdims=True)
    if name.endswith(("covariance", "covariances")) and is_symmetric(array):
        factor = np.eye(array.shape[-1]) + noise
        product = factor @ array @ np.swapaxes(factor, -1, -2)
        return (product + np.swapaxes(product, -1, -2)) / 2
    if name.endswith(("covariances", *POSITIVE)):
        return array * np.exp(noise)
    return array + noise


def is_symmetric(array):
    is_square = array.ndim >= 2 and array.shape[-1] == array.shape[-2]
    return is_square and np.array_equal(array, np.swapaxes(array, -1, -2))


# Models: values -------------------------------------------------------------------------------


@every
def test_a_model_has_the_whole_interface(case):
    kind = type(case.model)
    assert Model in kind.__mro__
    assert not kind.__abstractmethods__


@every
def test_nothing_can_be_assigned_to_a_model(case):
    for name in (*vars(case.model), "something_new"):
        with pytest.raises(AttributeError, match="Models are values"):
            setattr(case.model, name, None)


@every
def test_parameters_make_the_same_model(case):
    again = case.model.with_parameters(case.model.parameters)
    assert type(again) is type(case.model)
    assert_same_model(again, case.model, rtol=1e-14, atol=0)
    again.check_same_kind(case.model)
    assert algebra.divergence(case.model, again, case.horizon) == pytest.approx(0.0, abs=1e-10)


@every
def test_steps_and_passes_leave_a_model_as_it_is(case):
    before = pickle.dumps(case.model.parameters)
    algebra.online(case.model, case.batch, 0.5)
    case.model.learn(case.batch, np.full(case.n, 0.1), 1)
    case.model.learn(case.batch, np.full(case.n, 0.1), 1, case.model.own(case.horizon))
    assert pickle.dumps(case.model.parameters) == before


# Models: expectations -------------------------------------------------------------------------


def take(X, indices):
    return [X[i] for i in indices] if isinstance(X, list) else X[indices]


def cut(X, *edges):
    n = len(X) if isinstance(X, list) else X.shape[0]
    return [X[a:b] for a, b in itertools.pairwise((0, *edges, n))]


def assert_same_expectation(case, one, other):
    assert one.weight == pytest.approx(other.weight, rel=1e-13)
    assert one.log_likelihood == pytest.approx(other.log_likelihood, rel=1e-11)
    assert_same_statistics(one.statistics, other.statistics, rtol=case.rtol, atol=1e-10)
    own = (case.model.own(e.horizon) for e in (one, other))
    assert_same_statistics(*own, rtol=case.rtol, atol=1e-10)


@every
def test_expectations_of_shards_add_to_that_of_the_whole(case):
    X = case.observations(3)
    shards = [case.model.expect(case.table(part)) for part in cut(X, 7, 30)]
    whole = case.model.expect(case.table(X))
    assert_same_expectation(case, sum(shards), whole)
    one, other = (case.model.maximize(e.statistics) for e in (sum(shards), whole))
    assert_same_model(one, other, rtol=1e3 * case.rtol, atol=1e-8)


@every
def test_weights_equal_repetition(case):
    X = case.observations(4)
    times = np.random.default_rng(5).integers(0, 4, case.n)
    weighted = case.model.expect(case.table(X, sample_weight=times.astype(float)))
    repeated = case.model.expect(case.table(take(X, np.repeat(np.arange(case.n), times))))
    assert_same_expectation(case, weighted, repeated)


@every
def test_log_likelihoods_average_to_that_of_the_expectation(case):
    X, w = case.observations(6), np.random.default_rng(7).uniform(0.1, 2.0, case.n)
    each = case.model.log_likelihoods(case.table(X))
    assert each.shape == (case.n,)
    assert np.ptp(each) > 0
    plain, weighted = case.table(X), case.table(X, sample_weight=w)
    assert case.model.expect(plain).log_likelihood == pytest.approx(each.mean(), rel=1e-11)
    assert case.model.expect(weighted).log_likelihood == pytest.approx(
        np.average(each, weights=w), rel=1e-11
    )


@every
def test_threads_make_no_difference_to_the_bit(case, monkeypatch):
    # Chunks that pay would need many more observations.
    original = parallel.chunks
    for module in list(sys.modules.values()):
        if module is not parallel and getattr(module, "chunks", None) is original:
            monkeypatch.setattr(
                module, "chunks", lambda n, least, most=65536: original(n, min(least, 8), most)
            )
    monkeypatch.setattr(passes, "_PIECE_ENTRIES", 16)
    monkeypatch.setattr(parallel, "_pools", {})
    X = case.observations(8, n=300)
    found = []
    for n_jobs in (1, 2, 3):
        model = case.model.with_n_jobs(n_jobs)
        expectation = model.expect(case.table(X))
        found.append((expectation.statistics, expectation.log_likelihood,
                      model.log_likelihoods(case.table(X))))  # fmt: skip
    assert set(parallel._pools) == {2, 3}, "nothing ran on several threads"
    assert same(found[0], found[1]) and same(found[0], found[2])


@every_law
def test_own_statistics_are_what_draws_tend_to(case):
    """Draws are data of the model; the same seed gives the same draws."""
    own = raw_sums(case.model.own(case.horizon))
    found = np.array(
        [
            raw_sums(algebra.own_by_simulation(case.model, 150, seed, case.horizon))
            for seed in range(40)
        ]
    )
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    assert (np.abs(found.mean(axis=0) - own) <= 5.0 * error + 1e-9).all()
    assert (error < 0.2 * (1.0 + np.abs(own))).all()
    again = raw_sums(algebra.own_by_simulation(case.model, 150, 7, case.horizon))
    np.testing.assert_array_equal(again, found[7])


# Models: divergence, steps and combinations ---------------------------------------------------


@every
def test_divergence_is_positive_and_zero_only_at_itself(case):
    rng = np.random.default_rng(9)
    assert algebra.divergence(case.model, case.model, case.horizon) == 0.0
    for name in case.model.parameters:
        other = moved(case.model, rng, 0.05, [name])
        assert algebra.divergence(case.model, other, case.horizon) > 1e-7, name
    for distance in (0.01, 0.1, 0.5):
        assert algebra.divergence(case.model, moved(case.model, rng, distance), case.horizon) > 0


@every
def test_the_bound_touches_the_loss_and_lies_above_it(case):
    rng = np.random.default_rng(10)
    loss = algebra.step_loss(case.model, case.model, case.batch)
    here = algebra.upper_bound(case.model, case.model, case.batch)
    assert here == pytest.approx(loss, rel=1e-11)
    for distance in (0.01, 0.1, 0.3):
        other = moved(case.model, rng, distance)
        bound = algebra.upper_bound(case.model, other, case.batch)
        gap = bound - algebra.step_loss(case.model, other, case.batch)
        # If nothing is hidden, the bound is the loss.
        assert gap > 0.0 or (case.hides_nothing and abs(gap) < 1e-12)


@every
def test_the_bound_is_the_mean_of_divergences_to_single_observations(case):
    X, w = case.observations(17, n=12), np.random.default_rng(18).uniform(0.2, 2.0, 12)
    w[3] = 0.0
    other = moved(case.model, np.random.default_rng(19), 0.2)
    each = algebra.singleton_divergences(case.model, other, case.table(X, sample_weight=w))
    assert each.shape == (12,)
    bound = algebra.upper_bound(case.model, other, case.table(X, sample_weight=w))
    assert bound == pytest.approx(np.average(each, weights=w), rel=1e-10)
    # Each is a bound by itself.
    one, two = case.model.without_noise(), other.without_noise()
    losses = -two.log_likelihoods(case.table(X))
    gaps = algebra.singleton_divergences(one, two, case.table(X)) - losses
    assert (gaps > -1e-10).all()
    assert gaps.max() > 1e-6 or case.hides_nothing
    here = algebra.singleton_divergences(two, two, case.table(X))
    np.testing.assert_allclose(here, losses, rtol=1e-9, atol=1e-10)


@every
def test_the_bound_of_estimators_touches_the_loss_and_lies_above_it(case):
    X = case.observations(17, n=12)
    one, other = case.fitted, case.make().fit(case.observations(18))
    losses = [-model._model().log_likelihoods(case.table(X)).mean() for model in (one, other)]
    assert fastem.upper_bound(one, one, X) == pytest.approx(losses[0], rel=1e-9)
    for align in (True, False):
        bound = fastem.upper_bound(one, other, X, align=align)
        assert bound > losses[1] or (case.hides_nothing and bound == pytest.approx(losses[1]))
        each = fastem.singleton_divergences(one, other, X, align=align)
        assert each.mean() == pytest.approx(bound, rel=1e-9)
    w = np.arange(12.0)
    assert fastem.upper_bound(one, other, X, sample_weight=w, align=False) == pytest.approx(
        np.average(each, weights=w), rel=1e-9
    )


@every
@pytest.mark.parametrize("eta", RATES)
def test_a_step_descends(case, eta):
    """``U + Δ/η`` and ``loss + Δ/η`` at the new model are no more than at the old."""
    new, _ = algebra.online(case.model, case.batch, eta)
    inertia = algebra.divergence(case.model, new, case.horizon) / eta
    before = algebra.step_loss(case.model, case.model, case.batch)
    rounding = 1e-11 * max(1.0, abs(before))
    assert algebra.upper_bound(case.model, new, case.batch) + inertia <= before + rounding
    after = algebra.step_loss(case.model, new, case.batch) + inertia
    assert after <= before + rounding
    if eta >= 0.1:
        assert after < before - 1e-5
    if eta == np.inf:
        assert_same_model(new, algebra.batch(case.model, case.batch), rtol=case.rtol, atol=1e-9)


def assert_maximum(case, model, statistics):
    """No model near or far has a greater ``Q(S, ·)``: each parameter that is learned is moved."""
    most = model.log_joint(statistics)
    rounding = 1e-12 * max(1.0, abs(most))
    free = [name for name in model.parameters if not name.endswith(case.held)]
    for names, distance in itertools.product((free, *([n] for n in free)), (1e-3, 1e-2, 0.2)):
        for seed, sign in itertools.product(range(2), (1, -1)):
            other = moved(model, np.random.default_rng(seed), sign * distance, names)
            assert other.log_joint(statistics) < most + rounding, (names, distance)


@every
@pytest.mark.parametrize("eta", [0.2, np.inf])
def test_a_step_is_the_minimum_of_its_objective(case, eta):
    """``U + Δ/η`` is ``-Q(S(V|Θ) + S(Θ)/η, ·)`` but for a constant, and a factor."""
    new, statistics = algebra.online(case.model, case.batch, eta)
    wanted = case.model.expect(case.batch).statistics + case.model.own(case.horizon) * (1 / eta)
    rho = 1.0 if eta == np.inf else eta / (1 + eta)
    assert_same_statistics(statistics, wanted * rho, rtol=case.rtol)
    assert_maximum(case, new, statistics)


@every
def test_a_combination_is_the_minimum_of_the_total_divergence(case):
    other = moved(case.model, np.random.default_rng(11), 0.2)
    models, alphas = [case.model, other], [0.3, 0.7]
    center = algebra.combine(models, alphas, case.horizon)
    total = case.model.own(case.horizon) * 0.3 + other.own(case.horizon) * 0.7
    assert_maximum(case, center, total)
    assert_same_model(
        algebra.combine(models, [3e6, 7e6], case.horizon), center, rtol=1e-9, atol=1e-10
    )
    for weights in (None, [1.0, 2.0, 0.5], [0.0, 1.0, 0.0]):
        itself = algebra.combine([case.model] * 3, weights, case.horizon)
        assert_same_model(itself, case.model, rtol=1e-7, atol=1e-8)
    averaged = algebra.average(models, [1.0, 3.0]).parameters
    for name, array in case.model.parameters.items():
        np.testing.assert_allclose(
            averaged[name], 0.25 * array + 0.75 * other.parameters[name], rtol=1e-12, atol=1e-13
        )


@every_law
def test_a_combination_in_reverse_is_the_minimum_of_the_other_total(case):
    """``Σ α_m Δ(Θ̃, Θ_m)``, with the new model in the first argument."""
    free = [n for n in case.model.parameters if not (case.held and n.endswith(case.held))]
    other = moved(case.model, np.random.default_rng(11), 0.2, free)
    models, alphas = [case.model, other], [0.3, 0.7]

    def combined(models, alphas):
        return algebra.combine(models, alphas, case.horizon, "reverse")

    def total(model):
        return sum(
            alpha * algebra.divergence(model, m, case.horizon)
            for m, alpha in zip(models, alphas, strict=True)
        )

    center = combined(models, alphas)
    least = total(center)
    assert least < total(algebra.combine(models, alphas, case.horizon)) - 1e-8
    for names, distance in itertools.product((free, *([n] for n in free)), (1e-3, 0.1)):
        ends = [
            total(moved(center, np.random.default_rng(20), sign * distance, names)) - least
            for sign in (1, -1)
        ]
        assert min(ends) > -1e-11 * max(1.0, least)
        # A minimum is flat: both ways rise alike.
        if distance == 1e-3:
            assert abs(ends[0] - ends[1]) < 0.05 * sum(ends) + 1e-11 * max(1.0, least), names
    for again in (
        combined(models[::-1], alphas[::-1]),
        combined(models, [3e6, 7e6]),
        combined([*models, other], [0.3, 0.5, 0.2]),
        combined([case.model, moved(other, np.random.default_rng(12), 0.5), other], [0.3, 0, 0.7]),
    ):  # fmt: skip
        assert_same_model(again, center, rtol=1e-7, atol=1e-8)
    for weights in (None, [1.0, 2.0, 0.5], [0.0, 1.0, 0.0]):
        itself = combined([case.model] * 3, weights)
        assert_same_model(itself, case.model, rtol=1e-9, atol=1e-9)


@every_law
def test_estimators_combine_in_reverse(case):
    one, other = case.fitted, case.make().fit(case.observations(18))
    merged = fastem.combine([one, other], [1, 2], direction="reverse")
    aligned = algebra.align([one._model(), other._model()], [1, 2])
    want = algebra.combine(aligned, [1, 2], direction="reverse")
    assert_same_model(merged._model(), want, rtol=1e-7, atol=1e-9)
    assert merged.n_observations_ == one.n_observations_ + other.n_observations_
    assert np.isfinite(merged._model().log_likelihoods(case.batch)).all()
    with pytest.raises(ValueError, match="direction"):
        fastem.combine([one, other], direction="backward")
    with pytest.raises(ValueError, match="n_pseudo"):
        fastem.combine([one, other], direction="reverse", n_pseudo=10)


@every
def test_a_vanishing_rate_leaves_the_model(case):
    far, near = (algebra.online(case.model, case.batch, eta)[0] for eta in (1e-4, 1e-5))
    assert_same_model(near, case.model, rtol=1e-2, atol=1e-2)
    divergences = [algebra.divergence(case.model, m, case.horizon) for m in (far, near)]
    # The divergence is of the second order in the rate.
    assert divergences[1] < 0.02 * divergences[0] + 1e-11


@every
def test_a_memory_takes_the_place_of_the_model_as_memory(case):
    other = moved(case.model, np.random.default_rng(16), 0.2)
    memory = other.own(case.horizon)
    new, statistics = algebra.online(case.model, case.batch, 0.5, memory)
    expected = case.model.expect(case.batch).statistics * (1 / 3) + memory * (2 / 3)
    assert_same_statistics(statistics, expected, rtol=1e-12)
    assert_same_model(new, case.model.maximize(expected), rtol=1e-9, atol=1e-11)
    # The scale of statistics makes no difference.
    assert_same_model(case.model.maximize(expected * 17.0), new, rtol=1e-8, atol=1e-10)


@every
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("keep", [False, True], ids=["model", "statistics"])
@pytest.mark.parametrize("batch_size", [1, 4, None])
def test_learning_is_one_step_after_another(case, batch_size, keep, weighted):
    """The loop of a kernel is the loop of the algebra."""
    given = {}
    if weighted:
        given["sample_weight"] = np.random.default_rng(12).uniform(0.2, 2.0, 12)
        given["sample_weight"][3] = 0.0
    table = case.table(case.observations(13, n=12), **given)
    rates = 0.3 / np.arange(1, 1 + (1 if batch_size is None else -(-12 // batch_size)))
    memory = case.model.own(case.horizon) if keep else None
    got = case.model.learn(table, rates, batch_size, memory)
    want = algebra.take_steps(case.model, table, rates, batch_size, memory)
    assert_same_model(got.model, want.model, rtol=1e-8, atol=1e-10)
    assert (got.memory is None) == (want.memory is None) == (not keep)
    if keep:
        assert_same_statistics(got.memory, want.memory, rtol=1e-8, atol=1e-10)
    assert got.log_likelihood == pytest.approx(want.log_likelihood, rel=1e-8)


def one_by_one(model, data, rule):
    """Batch EM by the four functions alone: ``algebra.fit`` without kernels that step."""
    for _ in range(rule.max_iter):
        expectation = model.expect(data)
        if rule.before_step(model, expectation):
            break
        model = model.maximize(expectation.statistics)
        if rule.after_step(expectation):
            break
    return algebra.Fitted(model.with_horizon(expectation.horizon), expectation)


def assert_same_fit(case, got, want, rules):
    assert_same_model(got.model, want.model, rtol=1e3 * case.rtol, atol=1e-8)
    one, other = rules
    assert one.n_iter == other.n_iter
    assert one.converged == other.converged
    np.testing.assert_allclose(one.log_likelihoods, other.log_likelihoods, rtol=1e-9)
    assert got.expectation.weight == pytest.approx(want.expectation.weight, rel=1e-13)
    own = (case.model.own(fitted.expectation.horizon) for fitted in (got, want))
    assert_same_statistics(*own, rtol=1e-9, atol=1e-10)


@every
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_fitting_is_one_step_after_another(case, weighted):
    """The steps that a kernel takes at once are those of the four functions."""
    given = {}
    if weighted:
        given["sample_weight"] = np.random.default_rng(12).uniform(0.2, 2.0, case.n)
        given["sample_weight"][3] = 0.0
    table = case.table(case.observations(13), **given)

    def make_rules():
        for n_steps in (1, 6):
            yield StoppingRule(n_steps), StoppingRule(n_steps)
        for tol in (0.0, 1e-3, 1e-1, np.inf):
            yield tuple(Tolerance(15, tol, before=-20.0) for _ in range(2))

    for rules in make_rules():
        got = algebra.fit(case.model, table, rules[0])
        assert_same_fit(case, got, one_by_one(case.model, table, rules[1]), rules)
    assert algebra.fit(case.model, table, StoppingRule(0)) == (case.model, None)


@every
def test_an_estimator_fits_one_step_after_another(case, monkeypatch):
    """Its own M-step and stopping rule included."""
    X = case.observations(14)
    estimators = [case.make(6), case.make(30)]
    if "tol" in case.estimator.get_params():
        estimators[1].set_params(tol=1e-2)
    want = [clone(estimator) for estimator in estimators]
    got = [estimator.fit(X) for estimator in estimators]
    monkeypatch.setattr(type(case.model), "iterate", Model.iterate)
    for one, other in zip(got, want, strict=True):
        other.fit(X)
        assert (one.n_iter_, one.converged_) == (other.n_iter_, other.converged_)
        assert_alike(one, other, rtol=1e3 * case.rtol)
        np.testing.assert_allclose(one.lower_bounds_, other.lower_bounds_, rtol=1e-9)
        assert one.n_observations_ == other.n_observations_


@every
def test_a_kernel_that_steps_ends_where_it_is_told(case):
    # Families of the user's own and missing values need Python in each step.
    needs_python = case.name in ("Mixture-Rayleigh", "Mixture-interleaved", "GaussianHMM-missing")
    if type(case.model).iterate is Model.iterate or needs_python:
        assert case.model.iterate(case.batch, Limit(3)) is None
        return
    for n_steps in (1, 2, 5):
        taken = case.model.iterate(case.batch, Limit(n_steps))
        assert len(taken.log_likelihoods) == n_steps
        again = case.model.iterate(case.batch, Limit(n_steps))
        assert same(taken.model.parameters, again.model.parameters)
    levels = taken.log_likelihoods
    first = abs(levels[1] - levels[0])
    # The first step after which the change is that small.
    limit = Limit(5, lambda weight, horizon: 1.5 * first)
    assert len(case.model.iterate(case.batch, limit).log_likelihoods) == 2
    limit = Limit(5, lambda weight, horizon: np.inf, before=levels[0])
    assert len(case.model.iterate(case.batch, limit).log_likelihoods) == 1
    # A fall is less than any rise, but may be a large change.
    falls = {"least_change": lambda weight, horizon: 1e-9, "before": levels[0] + 5.0}
    assert len(case.model.iterate(case.batch, Limit(2, **falls)).log_likelihoods) == 1
    assert len(case.model.iterate(case.batch, Limit(2, **falls, both_ways=True))[1]) == 2


# Models: alignment ----------------------------------------------------------------------------


# Models: incremental EM -----------------------------------------------------------------------


@every
@pytest.mark.parametrize("keep_start", [True, False], ids=["kept", "rough"])
def test_the_free_energy_of_incremental_em_never_falls(case, keep_start):
    model, weights = case.model.without_noise(), np.random.default_rng(30).uniform(0.5, 2, case.n)
    data, rule = case.table(case.observations(31), sample_weight=weights), StoppingRule(6)
    found = algebra.incremental(model, data, rule, n_blocks=7, keep_start=keep_start)
    bounds = np.array(rule.log_likelihoods)
    rounding = 1e-11 * np.abs(bounds).max()
    assert len(bounds) == 6
    assert (np.diff(bounds) >= -rounding).all()
    assert bounds[-1] > bounds[0] or case.hides_nothing
    # It is a bound of the log-likelihood.
    assert found.model.expect(data).log_likelihood >= bounds[-1] - rounding
    if keep_start:
        assert bounds[0] == pytest.approx(model.expect(data).log_likelihood, rel=1e-11)
    assert found.expectation.weight == pytest.approx(weights.sum())


@every
def test_incremental_em_ends_at_a_stationary_point_of_the_likelihood(case):
    data, rule = case.table(case.observations(32)), StoppingRule(100)
    start = case.model.without_noise()
    found = algebra.incremental(start, data, rule, n_blocks=7).model

    def gain(model):
        """What a step of batch EM gains."""
        return algebra.batch(model, data).expect(data)[1] - model.expect(data)[1]

    assert abs(gain(found)) < 3e-3 * gain(start)
    # The bound has become the log-likelihood.
    assert rule.log_likelihoods[-1] == pytest.approx(found.expect(data)[1], abs=1e-3)


@every
def test_incremental_em_of_one_block_is_batch_em_to_the_bit(case):
    X = case.observations(33)
    one = case.make(solver="em").fit(X)
    other = case.make(solver="incremental", n_blocks=1).fit(X)
    a, b = learned(one), learned(other)
    differing = {name for name in a if not name.startswith(("solver", "n_blocks"))
                 and name != "members_" and not same(a[name], b[name])}  # fmt: skip
    assert not differing
    assert same(one._model().parameters, other._model().parameters)


@every
def test_aligning_never_raises_the_divergence(case):
    rng = np.random.default_rng(14)
    other = moved(case.model, rng, 0.3)
    for model in (case.model, *equivalents(case.equivalent, case.model, rng)):
        before = algebra.divergence(model, other, case.horizon)
        nearer = model.brought_to(other, case.horizon)
        assert algebra.divergence(nearer, other, case.horizon) <= before * (1 + 1e-12)
    near = moved(case.model, rng, 0.02)
    apart = [case.model, *equivalents(case.equivalent, near, rng)]
    before = total_divergence(case, apart)
    after = total_divergence(case, algebra.align(apart, None, case.horizon, max_rounds=1))
    assert after <= before * (1 + 1e-12)
    assert after < 0.5 * before or case.equivalent is None


def total_divergence(case, models):
    center = algebra.combine(models, horizon=case.horizon)
    return sum(algebra.divergence(model, center, case.horizon) for model in models)


def equivalents(equivalent, model, rng):
    return [equivalent(model, rng)] if equivalent else []


@every
def test_aligning_undoes_what_makes_no_difference(case):
    for other in equivalents(case.equivalent, case.model, np.random.default_rng(15)):
        np.testing.assert_allclose(
            other.log_likelihoods(case.batch), case.model.log_likelihoods(case.batch), rtol=1e-9
        )
        assert algebra.divergence(other, case.model, case.horizon) > 0.1
        back = other.brought_to(case.model, case.horizon)
        assert_same_model(back, case.model, rtol=1e-6, atol=1e-7)
        merged = algebra.combine_aligned([case.model, other], [0.4, 0.6], case.horizon)
        assert_same_model(merged, case.model, rtol=1e-6, atol=1e-7)


# Estimators -----------------------------------------------------------------------------------


def same(one, other):
    """Equality of what estimators hold, to the bit."""
    if isinstance(one, np.ndarray):
        return (
            isinstance(other, np.ndarray)
            and (one.dtype, one.shape) == (other.dtype, other.shape)
            and one.tobytes() == other.tobytes()
        )
    if type(one) is not type(other):
        return False
    if isinstance(one, Statistics):
        return same(one.to_arrays(), other.to_arrays())
    if isinstance(one, (BaseEstimator, ConvergenceMonitor)):
        return same(vars(one), vars(other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, (list, tuple, deque)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def learned(estimator):
    """All that an estimator has learned, and its settings."""
    public = {name: value for name, value in vars(estimator).items() if name[-1] == "_"}
    return {**public, **estimator.get_params(deep=False)}


def assert_same_learned(one, other):
    a, b = learned(one), learned(other)
    assert a.keys() == b.keys()
    for name in a:
        if name == "members_":
            for pair in zip(a[name], b[name], strict=True):
                assert_same_learned(*pair)
        elif isinstance(a[name], BaseEstimator):
            assert_same_learned(a[name], b[name])
        else:
            assert same(a[name], b[name]), name


def assert_alike(one, other, rtol=1e-8):
    assert_same_model(one._model(), other._model(), rtol=rtol, atol=1e-9)


ONLINE = [
    {"batch_size": 7, "memory": "model", "learning_rate": Decay(0.5, 0.7)},
    {"batch_size": 7, "memory": "statistics"},
]
both_memories = pytest.mark.parametrize("online", ONLINE, ids=["model", "statistics"])


@every
@both_memories
def test_files_keep_every_bit_and_learning_continues(case, online, tmp_path):
    estimators = {
        "fitted": case.make(**online).fit(case.observations(20)),
        "online": case.make(**online).partial_fit(case.observations(20)),
        "new": case.make(**online),
    }
    for name, estimator in estimators.items():
        fastem.save(estimator, tmp_path / name)
        loaded = fastem.load(tmp_path / name, families=[Rayleigh])
        assert type(loaded) is type(estimator)
        assert_same_learned(loaded, estimator)
        for each in (loaded, estimator):
            each.partial_fit(case.observations(21))
        assert_same_learned(loaded, estimator)


@every
@both_memories
def test_pickles_keep_every_bit_and_learning_continues(case, online):
    estimator = case.make(**online).partial_fit(case.observations(20))
    loaded = pickle.loads(pickle.dumps(estimator))
    assert same(loaded, estimator)
    for each in (loaded, estimator):
        each.partial_fit(case.observations(21))
    assert same(loaded, estimator)


@every
def test_a_test_of_drift_changes_nothing_and_continues_in_files(case, tmp_path):
    plain = case.make(drift_alarm=None).fit(case.observations(20))
    tested = case.make(drift_alarm=0.1).fit(case.observations(20))
    for each in (plain, tested):
        each.partial_fit(case.observations(21))
    assert_alike(tested, plain, rtol=0)
    fastem.save(tested, tmp_path / "tested")
    loaded = fastem.load(tmp_path / "tested", families=[Rayleigh])
    for each in (loaded, tested):
        each.partial_fit(case.observations(22))
    assert loaded.drift_ == tested.drift_
    assert tested.drift_.n_scores == 2


@every
def test_the_history_is_the_log_likelihood_before_learning(case):
    estimator, X = case.make().fit(case.observations(20)), case.observations(21, n=9)
    expected = np.mean([score_of(estimator, data) for _, data in singles(X)])
    estimator.partial_fit(X)
    ((n_observations, weight, log_likelihood),) = estimator.history_
    assert (n_observations, weight) == (estimator.n_observations_, 9.0)
    assert log_likelihood == pytest.approx(expected, rel=1e-9)


@every
def test_a_callback_is_told_of_each_iteration_and_each_call(case):
    reports, X = [], case.observations(20)
    estimator = case.make(callback=reports.append).fit(X)
    assert [report.n_iter for report in reports] == list(range(1, len(reports) + 1))
    assert len(reports) == estimator.n_iter_ > 0
    data = estimator._check_data(X, reset=False)
    for report in (reports[0], reports[-1]):
        found = report.model.expect(data).log_likelihood
        assert report.log_likelihood == pytest.approx(found, rel=1e-9)
    del reports[:]
    estimator.partial_fit(case.observations(21))
    (report,) = reports
    assert [report.n_observations, report.weight, report.log_likelihood] == estimator.history_[-1]
    assert report.n_iter == 0
    assert_alike(report.estimator, estimator, rtol=0)


@every
def test_a_callback_ends_a_fit(case):
    X, ends = case.observations(20), []

    def end(report):
        ends.append(report.n_iter)
        return True

    estimator = case.make(callback=end).fit(X)
    assert ends == [1]
    assert estimator.n_iter_ == 1


@every
def test_a_clone_has_the_settings_and_has_learned_nothing(case):
    again = clone(case.fitted)
    assert not again.__sklearn_is_fitted__()
    assert case.fitted.__sklearn_is_fitted__()
    assert not [name for name in vars(again) if name[-1] == "_"]
    assert_alike(again.fit(case.observations(0)), case.fitted, rtol=0)


def wider(X):
    """The same observations, with one more column."""
    if isinstance(X, list):
        return [wider(v) for v in X]
    return X[:, [*range(X.shape[1]), 0]]


@every
@both_memories
def test_a_stream_that_fails_in_the_middle_changes_nothing(case, online):
    first, second, third = cut(case.observations(22), 20, 40)
    started = case.make(**online).partial_fit(case.observations(20))
    for estimator in (case.make(**online), started, copy.deepcopy(case.fitted)):
        before = copy.deepcopy(vars(estimator))
        for bad in ([first, second, wider(third)], [first, wider(second), third]):
            with pytest.raises(ValueError):
                estimator.partial_fit(iter(bad))
            assert same(vars(estimator), before)
            with pytest.raises(ValueError):
                estimator.fit(lambda bad=bad: iter(bad))
            assert same(vars(estimator), before)
        with pytest.raises(ValueError, match="zero"):
            estimator.partial_fit(first, sample_weight=np.zeros(20))
        assert same(vars(estimator), before)


@every
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("batch_size", [1, 7, None])
@both_memories
def test_how_a_stream_is_cut_makes_no_difference(case, online, batch_size, weighted):
    X, settings = case.observations(23, n=30), {**online, "batch_size": batch_size}
    w = np.random.default_rng(24).uniform(0.2, 2.0, 30) if weighted else np.ones(30)

    def learned_from(*edges):
        pairs = zip(cut(X, *edges), cut(list(w), *edges), strict=True)
        stream = ((part, np.array(u)) if weighted else part for part, u in pairs)
        return case.make(**settings).partial_fit(stream)

    whole = learned_from()
    assert whole.n_observations_ == pytest.approx(w.sum(), rel=1e-13)
    for edges in ((3, 7, 21), range(5, 30, 5)):
        other = learned_from(*edges)
        assert_alike(other, whole)
        assert other.n_steps_ == pytest.approx(whole.n_steps_)
        if settings["memory"] == "statistics":
            assert_same_statistics(other.statistics_, whole.statistics_, rtol=1e-8, atol=1e-9)


# Learners -------------------------------------------------------------------------------------


def falling_rate(t):
    return 0.2 / t


SETTINGS_OF_LEARNERS = {
    "auto": {},
    "forgetting": {"forgetting": 20.0},
    "averaging": {"average_from": 5.0},
    "drift": {"drift_alarm": 0.1},
    "number": {"batch_size": 1, "learning_rate": 0.03},
    "decay": {"batch_size": 7, "learning_rate": Decay(0.5, 0.7)},
    "statistics": {"memory": "statistics", "learning_rate": falling_rate},
}
every_setting = pytest.mark.parametrize(
    "settings", SETTINGS_OF_LEARNERS.values(), ids=SETTINGS_OF_LEARNERS.keys()
)


def singles(X):
    """The observations one by one: for a learner, and as the data of a call."""
    for i in range(len(X) if isinstance(X, list) else X.shape[0]):
        yield (X[i : i + 1] if sparse.issparse(X) else X[i]), take(X, [i])


def score_of(estimator, X):
    """The log-likelihood of a single observation, by the methods of the estimator."""
    if hasattr(estimator, "score_sequences"):
        return estimator.score_sequences(X)[0]
    return estimator.score_samples(X)[0]


@every
@every_setting
def test_a_learner_is_partial_fit_to_the_bit(case, settings):
    estimator = case.make(**settings).fit(case.observations(30))
    # Soon there are too many entries, and every two become one.
    estimator.history_ = [[float(n), 1.0, -0.1 * n] for n in range(1, 250)]
    learner, untouched = estimator.learner(), copy.deepcopy(estimator)
    for number, (x, data) in enumerate(singles(case.observations(31, n=25))):
        assert learner.learn_one(x) is None
        estimator.partial_fit(data)
        if number % 5 == 4:
            assert same(learner.score_one(x), float(score_of(estimator, data)))
            assert same(vars(learner.model()), vars(estimator))
        if number == 12:
            learner = pickle.loads(pickle.dumps(learner))
        if number == 17:
            learner = copy.deepcopy(learner)
    assert same(vars(learner.model()), vars(estimator))
    assert len(estimator.history_) < 150
    assert not same(vars(estimator), vars(untouched))


@every
def test_a_learner_calls_the_callback_as_partial_fit_does(case):
    reports = []
    estimator = case.make(callback=reports.append).fit(case.observations(30))
    learner = estimator.learner()
    for x, data in singles(case.observations(31, n=3)):
        del reports[:]
        learner.learn_one(x)
        estimator.partial_fit(data)
        one, other = reports
        assert one[:4] == other[:4]
        assert one.source is not estimator
    assert same(vars(learner.model()), vars(estimator))


@every
def test_a_learner_and_its_estimator_do_not_touch_each_other(case):
    estimator = case.make().fit(case.observations(30))
    before, learner = copy.deepcopy(estimator), estimator.learner()
    stream = [x for x, _ in singles(case.observations(31, n=6))]
    for x in stream[:3]:
        learner.learn_one(x)
    assert same(vars(estimator), vars(before))
    model = learner.model()
    kept = copy.deepcopy(model)
    for changed in (estimator, model):
        changed.partial_fit(case.observations(32))
        changed.set_params(learning_rate=0.9)
    assert same(vars(learner.model()), vars(kept))
    learner.learn_one(stream[3])
    kept.partial_fit(list(singles(case.observations(31, n=6)))[3][1])
    assert same(vars(learner.model()), vars(kept))


@every
def test_a_learner_predicts_what_the_estimator_does(case):
    learner = case.fitted.learner()
    if type(case.estimator).__name__ in ("Dirichlet", "CompoundDirichlet"):
        assert not hasattr(learner, "predict_one")
        return
    for x, data in singles(case.observations(31, n=8)):
        learner.learn_one(x)
        model = learner.model()
        expected = model.predict(data) if hasattr(model, "predict") else model.smooth(data)[0][0]
        found = learner.predict_one(x)
        if isinstance(found, int):
            assert [found] == expected.tolist()
        else:
            assert same(found, expected)


@every
@both_memories
def test_a_learner_that_fails_stays_as_it_was(case, online):
    learner = case.make(**online).fit(case.observations(30)).learner()
    stream = list(singles(case.observations(31, n=8)))
    learner.learn_one(stream[0][0])
    learner.learn_one(stream[1][0])
    x = stream[2][0]
    wrong = [None, "x", wider(stream[2][1])[0] if isinstance(stream[2][1], list) else None, [[[1]]]]
    if not sparse.issparse(x):
        wrong += [np.full_like(x, np.inf, dtype=float), np.asarray(x)[..., :0]]
        wrong += [np.asarray(x)[None, None], np.full(np.shape(x), "a"), np.repeat(x, 2, axis=-1)]
    before = learner.model()
    for bad in wrong:
        for call in (learner.learn_one, learner.score_one):
            with pytest.raises((ValueError, TypeError)):
                call(bad)
        assert same(vars(learner.model()), vars(before))
    learner.learn_one(x)
    before.partial_fit(stream[2][1])
    assert same(vars(learner.model()), vars(before))


@every
def test_a_learner_needs_a_model_to_begin_with(case):
    with pytest.raises(NotFittedError, match="first observations"):
        case.make().learner()


@every
def test_fit_reads_a_stream_as_an_array(case):
    X = case.observations(24)
    whole = case.make().fit(X)
    for edges in ((11, 40), range(4, case.n, 4)):
        streamed = case.make().fit(lambda edges=edges: iter(cut(X, *edges)))
        assert_alike(streamed, whole)
        assert streamed.n_iter_ == whole.n_iter_
        assert streamed.lower_bound_ == pytest.approx(whole.lower_bound_, rel=1e-10)


@every
def test_incremental_em_reads_a_stream_as_an_array(case):
    settings = {"solver": "incremental", "n_blocks": 4}
    X = case.observations(24)
    whole = case.make(**settings).fit(X)
    for edges in ((11, 40), range(4, case.n, 4)):
        streamed = case.make(**settings).fit(lambda edges=edges: iter(cut(X, *edges)))
        assert_alike(streamed, whole)
        np.testing.assert_allclose(streamed.lower_bounds_, whole.lower_bounds_, rtol=1e-10)
    assert whole.n_observations_ == case.n


@every
def test_files_and_clones_keep_the_solver(case, tmp_path):
    estimator = case.make(solver="incremental", n_blocks=4).fit(case.observations(34))
    fastem.save(estimator, tmp_path / "model")
    loaded = fastem.load(tmp_path / "model", families=[Rayleigh])
    assert_same_learned(loaded, estimator)
    settings = clone(loaded).get_params(deep=False)
    assert (settings["solver"], settings["n_blocks"]) == ("incremental", 4)


@every_warm_start
def test_a_warm_start_continues(case):
    X = case.observations(27)
    at_once = case.make(5).fit(X)
    resumed = case.make(2, warm_start=True).fit(X)
    (iterations,) = {"max_iter", "n_iter"} & resumed.get_params().keys()
    resumed.set_params(**{iterations: 3}).fit(X)
    assert_alike(resumed, at_once)
    assert resumed.lower_bound_ == pytest.approx(at_once.lower_bound_, rel=1e-10)


# On many machines -----------------------------------------------------------------------------


@every
def test_the_two_parts_of_a_distributed_step_are_an_iteration_of_fit(case):
    X = case.observations(28)
    one_more, estimator = case.make(3).fit(X), case.make(2).fit(X)
    total = sum(distributed.expect(estimator, part) for part in cut(X, 11, 40))
    assert total.weight == case.n
    distributed.maximize(estimator, total)
    assert_alike(estimator, one_more, rtol=1e-7)
    assert estimator.n_iter_ == one_more.n_iter_ or case.name == "Dirichlet"


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


ON_A_CLUSTER = ("GaussianMixture-full", "GaussianHMM-full", "CompoundDirichlet",
                "MixtureOfModels-GaussianHMM")  # fmt: skip


@pytest.mark.parametrize("case", [case for case in CASES if case.name in ON_A_CLUSTER], ids=str)
def test_a_cluster_learns_what_one_machine_learns(case, client):
    X = case.observations(29)
    shards = [dask.delayed(part) for part in cut(X, 11, 40)]
    here, there = case.make().fit(X), distributed.fit(case.make(), shards, client=client)
    assert_alike(there, here)
    assert there.n_iter_ == here.n_iter_
    assert there.n_observations_ == case.n
    incremental = {"solver": "incremental", "n_blocks": 4}
    with shards_of(case.make(), shards, client, n_shards=1) as one_shard:
        there = case.make(**incremental).fit(one_shard)
    assert_alike(there, case.make(**incremental).fit(X), rtol=1e-7)
    score = distributed.score(here, shards, client=client)
    assert score == pytest.approx(distributed.expect(here, X).log_likelihood, rel=1e-10)
    settings = {"batch_size": 5, "learning_rate": 0.2, "drift_alarm": 0.1}
    online = case.make(**settings).fit(X)
    before, reports = copy.deepcopy(online), []
    online.set_params(callback=reports.append)
    distributed.fit_online(online, shards, sync_every=15, n_shards=1, client=client)
    for part in cut(X, 15, 30, 45):
        before.partial_fit(part)
    assert_alike(online, before, rtol=1e-6)
    # What is watched is what one machine would have seen.
    np.testing.assert_allclose(online.history_, before.history_, rtol=1e-7)
    assert [list(report[:3]) for report in reports] == online.history_
    assert online.drift_.n_scores == before.drift_.n_scores == len(reports)
