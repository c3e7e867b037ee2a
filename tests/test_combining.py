"""Statistics add as their data do; models combine to the least total divergence."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

import fastem
from fastem import algebra
from fastem.families import Gaussian, Poisson, Product
from fastem.mixture.model import MixtureModel
from fastem.statistics import Expectation, Moments, SharedMoments, Statistics

from cases.families import (
    ALL,
    GAUSSIAN,
    INTERLEAVED,
    assert_same_model,
    assert_same_statistics,
    pair_of,
    raw_sums,
)
from oracles import families as oracles

every = pytest.mark.parametrize("case", [*ALL, INTERLEAVED], ids=str)


# Shards ---------------------------------------------------------------------------------------


def test_horizons_add_as_means_over_rows():
    rng = np.random.default_rng(33)
    case = next(case for case in ALL if case.name == "multinomial")
    pair = case.pair(rng)
    labels = rng.choice(3, size=90)
    X = case.oracle.sample(pair[1], labels, rng, trials=rng.integers(5, 40, size=90))
    model = case.model(pair)
    added = model.expect(X[:20]) + model.expect(X[20:])
    assert added.horizon == pytest.approx(X.sum() / 90, rel=1e-13)
    assert model.expect(X).horizon == pytest.approx(X.sum() / 90, rel=1e-13)


# Statistics -----------------------------------------------------------------------------------


def random_moments(rng, kind, K=3, D=2, offset=0.0):
    shape = {"full": (K, D, D), "tied": (D, D), "diag": (K, D), "spherical": (K,)}[kind]
    scatter = rng.uniform(1, 2, shape)
    if kind in ("full", "tied"):
        scatter = scatter + np.swapaxes(scatter, -1, -2)
    block = SharedMoments if kind == "tied" else Moments
    return block(rng.uniform(1, 2, K), offset + rng.normal(size=(K, D)), scatter)


KINDS = ("full", "tied", "diag", "spherical")


@pytest.mark.parametrize("kind", KINDS)
def test_statistics_survive_the_round_trip_through_arrays(kind):
    rng = np.random.default_rng(38)
    statistics = Statistics(mass=rng.uniform(size=3), gaussian_moments=random_moments(rng, kind))
    arrays = statistics.to_arrays()
    assert all(isinstance(array, np.ndarray) for array in arrays.values())
    back = Statistics.from_arrays(arrays)
    assert list(back) == list(statistics)
    assert type(back["gaussian_moments"]) is type(statistics["gaussian_moments"])
    assert_same_statistics(back, statistics, rtol=0, atol=0)
    assert_same_statistics(back + back, statistics * 2.0, rtol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_adding_is_commutative_and_associative_and_scaling_distributes(kind):
    rng = np.random.default_rng(39)
    a, b, c = (Statistics(moments=random_moments(rng, kind)) for _ in range(3))
    assert_same_statistics(a + b, b + a, rtol=1e-13)
    assert_same_statistics((a + b) + c, a + (b + c), rtol=1e-13)
    assert_same_statistics((a + b) * 3.0, a * 3.0 + 3.0 * b, rtol=1e-13)
    assert_same_statistics(sum([a, b, c]), a + b + c, rtol=0, atol=0)
    assert_same_statistics(a / 4.0, a * 0.25, rtol=0, atol=0)


def test_adding_leaves_its_terms_alone():
    rng = np.random.default_rng(40)
    a, b = (Statistics(moments=random_moments(rng, "full")) for _ in range(2))
    before = {name: array.copy() for name, array in a.to_arrays().items()}
    a + b
    a * 2.0
    for name, array in a.to_arrays().items():
        np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize("kind", KINDS)
def test_moments_far_from_the_origin_keep_their_digits(kind):
    """At 1e8 a double has steps of 1.5e-8; naive sums of squares have steps of 2."""
    rng = np.random.default_rng(41)
    X = 1e8 + rng.normal(size=(1000, 2))
    centerd = X - 1e8  # exact
    family = oracles.Gaussian(kind, 2)

    def moments(rows):
        mass, mean, scatter = family.statistics(np.ones((len(rows), 1)), rows)["moments"]
        block = SharedMoments if kind == "tied" else Moments
        return block(mass * len(rows), mean, scatter * len(rows))

    merged = sum((Statistics(m=moments(X[i : i + 10])) for i in range(0, 1000, 10)), start=0)
    exact = moments(centerd)
    # A mean is rounded by 1e-8, so a merge of ten rows at 0.3 from it is off by about 1e-7.
    np.testing.assert_allclose(merged["m"].scatter, exact.scatter, rtol=0, atol=1e-5)
    np.testing.assert_allclose(merged["m"].mean - 1e8, exact.mean, atol=1e-7)


def test_a_component_of_no_mass_adds_nothing():
    empty = Moments([0.0, 1.0], [[7.0], [2.0]], [[0.0], [1.0]])
    full = Moments([2.0, 1.0], [[5.0], [4.0]], [[3.0], [1.0]])
    for added in (empty + full, full + empty):
        np.testing.assert_allclose(added.mass, [2.0, 2.0])
        np.testing.assert_allclose(added.mean, [[5.0], [3.0]])
        np.testing.assert_allclose(added.scatter, [[3.0], [4.0]])
    both = empty + empty
    np.testing.assert_allclose(both.mean[0], [7.0])
    assert np.isfinite(both.scatter).all()


def test_statistics_of_different_kinds_do_not_add():
    rng = np.random.default_rng(42)
    blocks = {kind: random_moments(rng, kind, K=2, D=2) for kind in KINDS}
    for one in KINDS:
        for other in KINDS:
            if one != other:
                with pytest.raises(ValueError, match="different models"):
                    Statistics(m=blocks[one]) + Statistics(m=blocks[other])
    with pytest.raises(ValueError, match="different models"):
        Statistics(m=blocks["full"]) + Statistics(n=blocks["full"])
    with pytest.raises(ValueError, match="different models"):
        Statistics(m=blocks["full"]) + Statistics(m=np.ones(2))
    with pytest.raises(ValueError, match="different models"):
        Statistics(mass=np.ones(2)) + Statistics(mass=np.ones(1))
    with pytest.raises(TypeError):
        Statistics(mass=np.ones(2)) + 1.0
    with pytest.raises(TypeError):
        Statistics(mass=np.ones(2)) * np.ones(2)


@every
def test_a_dead_component_keeps_its_parameters_and_stays_finite(case):
    pair, X = case.problem(43)
    weights = np.array([0.5, 0.5 - 1e-30, 1e-30])
    model = case.model((weights, pair[1]))
    with pytest.warns(RuntimeWarning, match="no points left"):
        updated = algebra.batch(model, X)
    for name, array in updated.parameters.items():
        assert np.isfinite(array).all()
        # The tied covariance belongs to no component.
        if name != "weights" and not (case.name == "tied" and name == "covariances"):
            np.testing.assert_array_equal(array[2], model.parameters[name][2])
    assert 0 < updated.weights[2] < 1e-13
    # The others are as if it had not been there.
    others = case.model((np.array([0.5, 0.5]), case.family.reorder(pair[1], [0, 1])))
    without = algebra.batch(others, X)
    kept = case.family.reorder(case.family.unpack(updated.packed), [0, 1])
    for name, array in kept.items():
        np.testing.assert_allclose(array, without.parameters[name], rtol=1e-9)
    assert np.isfinite(updated.expect(X).log_likelihood)


# Combining ------------------------------------------------------------------------------------


@every
def test_combining_minimizes_the_summed_divergences(case):
    rng = np.random.default_rng(45)
    pairs = [case.pair(rng, 2) for _ in range(3)]
    alpha = np.array([0.2, 0.3, 0.5])
    combined = algebra.combine([case.model(pair) for pair in pairs], 10 * alpha)
    at, back = oracles.coordinates(case.oracle.domains, pair_of(combined))

    def total(vector):
        other = back(vector)
        terms = [oracles.divergence(case.oracle, pair, other) for pair in pairs]
        return alpha @ terms

    least = total(at)
    np.testing.assert_allclose(oracles.gradient(total, at), 0.0, atol=2e-8)
    found = minimize(total, at + 0.3 * rng.normal(size=len(at)), options={"gtol": 1e-7})
    assert least - 1e-11 < found.fun < least + 1e-9


@pytest.mark.parametrize("case", GAUSSIAN, ids=str)
def test_combining_keeps_the_spread_between_means_and_averaging_loses_it(case):
    pair = case.pair(np.random.default_rng(50), 1)
    apart = (pair[0], {**pair[1], "means": pair[1]["means"] + 4.0})
    models = [case.model(pair), case.model(apart)]
    combined, averaged = algebra.combine(models), algebra.average(models)
    np.testing.assert_allclose(combined.parameters["means"], averaged.parameters["means"])
    first = case.oracle.matrices(pair[1])[0]
    np.testing.assert_allclose(case.oracle.matrices(pair_of(averaged)[1])[0], first)
    between = 4.0 * np.ones((3, 3)) if case.name in ("full", "tied") else 4.0 * np.eye(3)
    np.testing.assert_allclose(case.oracle.matrices(pair_of(combined)[1])[0], first + between)


def test_models_of_different_kinds_do_not_combine():
    full = MixtureModel(
        Gaussian("full"), [1.0], {"means": np.zeros((1, 2)), "covariances": np.eye(2)[None]}
    )
    diag = MixtureModel(
        Gaussian("diag"), [1.0], {"means": np.zeros((1, 2)), "covariances": np.ones((1, 2))}
    )
    wide = MixtureModel(
        Gaussian("diag"), [1.0], {"means": np.zeros((1, 3)), "covariances": np.ones((1, 3))}
    )
    two = MixtureModel(
        Gaussian("diag"), [0.5, 0.5], {"means": np.zeros((2, 2)), "covariances": np.ones((2, 2))}
    )
    poisson = MixtureModel(Poisson(), [1.0], {"rates": np.ones((1, 2))})
    products = [
        MixtureModel(Product((Poisson(), 1), (Poisson(), 1)), [1.0],
                     {"poisson_rates": np.ones((1, 1)), "poisson2_rates": np.ones((1, 1))}),
        MixtureModel(Product((Poisson(), 2)), [1.0], {"poisson_rates": np.ones((1, 2))}),
    ]  # fmt: skip
    models = [full, diag, wide, two, poisson, *products]
    for one in models:
        for other in models:
            if one is not other:
                with pytest.raises(ValueError, match="Models of different"):
                    algebra.combine([one, other])
                with pytest.raises(ValueError, match="Models of different"):
                    algebra.divergence(one, other)


@pytest.mark.parametrize("weights", [[1.0], [1.0, -1.0], [0.0, 0.0], [np.nan, 1.0]])
def test_weights_that_make_no_sense_are_refused(weights):
    model = ALL[0].model(ALL[0].pair(np.random.default_rng(51)))
    with pytest.raises(ValueError, match="[Ww]eight"):
        algebra.combine([model, model], weights)


@every
def test_averaging_expectations_is_combining(case):
    """The expectation parameters ``S(Θ)`` of the result are the mean of those of the models."""
    rng = np.random.default_rng(52)
    models = [case.model(case.pair(rng, 2)) for _ in range(3)]
    alpha = np.array([0.2, 0.3, 0.5])
    averaged = fastem.average(models, alpha, of="expectations", align=False)
    mean = sum(model.own() * a for model, a in zip(models, alpha, strict=True))
    np.testing.assert_allclose(raw_sums(averaged.own()), raw_sums(mean), rtol=1e-9, atol=1e-11)
    combined = fastem.combine(models, alpha, align=False)
    assert_same_model(averaged, combined, rtol=0, atol=0)
    assert algebra.divergence(fastem.average(models, alpha, align=False), combined) > 1e-6
    with pytest.raises(ValueError, match="of must be"):
        fastem.average(models, of="means")


def test_nothing_cannot_be_combined():
    with pytest.raises(ValueError, match="empty"):
        algebra.combine([])


def test_expectations_add_only_to_expectations():
    expectation = Expectation(Statistics(mass=np.ones(2)), -1.0, 3.0)
    assert sum([expectation]) is expectation
    with pytest.raises(TypeError):
        expectation + 1.0


# Errors ---------------------------------------------------------------------------------------


def test_errors_call_models_by_plain_words():
    X = np.random.default_rng(47).normal(size=(80, 2))
    sequences, counts = list(X.reshape(8, 10, 2)), np.arange(1, 41).reshape(20, 2)
    one_state = fastem.GaussianHMM(1)
    models = {
        "mixture": fastem.GaussianMixture(2, random_state=0).fit(X),
        "posterior of mixtures": fastem.BayesianGaussianMixture(n_components=2).fit(X),
        "hidden Markov model": one_state.fit(sequences),
        "Kalman filter": fastem.KalmanFilter(n_dim_state=1).fit(sequences),
        "compound Dirichlet distribution": fastem.CompoundDirichlet().fit(counts),
        "mixture of models": fastem.MixtureOfModels(one_state, 2, random_state=0).fit(sequences),
    }
    for (one, model), (other, different) in itertools.permutations(models.items(), 2):
        for compare in (fastem.divergence, lambda *both: fastem.combine(both)):
            with pytest.raises(ValueError, match=f"different kinds: a {one} and a {other}"):
                compare(model, different)
