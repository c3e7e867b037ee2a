"""Families by themselves: parameters in and out, and what they refuse."""

import numpy as np
import pytest

from fastem.families import (
    Bernoulli,
    Beta,
    Categorical,
    Exponential,
    Gamma,
    Gaussian,
    Multinomial,
    Poisson,
    Product,
    as_family,
)
from fastem.saving.families import family_from_settings
from fastem.statistics import Statistics

from cases.families import ALL, GAUSSIAN, INTERLEAVED, assert_same_statistics
from oracles import families as oracles

every = pytest.mark.parametrize("case", [*ALL, INTERLEAVED], ids=str)


@every
def test_parameters_come_out_as_they_went_in(case):
    _, parameters = case.pair(np.random.default_rng(111))
    packed = case.family.pack(parameters)
    back = case.family.unpack(packed)
    assert tuple(back) == case.family.parameter_names
    for name, array in parameters.items():
        np.testing.assert_array_equal(back[name], array)


@every
def test_sums_go_to_blocks_and_back(case):
    pair, X = case.problem(112)
    model = case.model(pair)
    statistics = model.expect(X).statistics
    blocks = {name: block for name, block in statistics.items() if name != "mass"}
    sums = case.family.disperse(blocks, model.packed)
    again = case.family.collect(model.packed, statistics["mass"], sums)
    assert_same_statistics(Statistics(**again), Statistics(**blocks), rtol=1e-12)


@every
def test_log_joint_is_the_expected_log_density_without_base_measure(case):
    """Q(S(V|Θ), Θ̃) - Q(S(V|Θ), Θ) is the mean of Σ γ (log p̃ - log p): base measures cancel."""
    pair, X = case.problem(113)
    other = case.near(pair, np.random.default_rng(114), 0.4)
    statistics = case.model(pair).expect(X).statistics
    gamma = oracles.posteriors(case.oracle, *pair, X)
    gap = oracles.log_joint(case.oracle, *other, X) - oracles.log_joint(case.oracle, *pair, X)
    got = case.model(other).log_joint(statistics) - case.model(pair).log_joint(statistics)
    assert got == pytest.approx((gamma * gap).sum() / len(X), rel=1e-10)


@every
def test_cross_is_relative_entropy_for_all_pairs(case):
    rng = np.random.default_rng(115)
    one, other = case.pair(rng, 3)[1], case.pair(rng, 3)[1]
    packed = case.family.pack(one)
    table = case.family.cross(packed, case.family.pack(other))
    itself = np.diag(case.family.cross(packed, packed))
    for h in range(3):
        shifted = case.family.reorder(other, (np.arange(3) + h) % 3)
        expected = case.oracle.kl(one, shifted)
        got = itself - table[np.arange(3), (np.arange(3) + h) % 3]
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


@every
def test_draws_lie_in_the_support_and_look_like_their_component(case):
    rng = np.random.default_rng(116)
    parameters = case.pair(rng, 2)[1]
    labels = np.repeat([0, 1], 20_000)
    X = case.family.draw(parameters, labels, rng)
    case.family.check(X)
    assert X.shape == (40_000, case.oracle.n_columns)
    # Mean log-densities under both components against those of the oracle's own draws.
    Z = case.oracle.sample(parameters, np.repeat([0, 1], 4000), rng)
    a, b = case.oracle.log_density(parameters, X), case.oracle.log_density(parameters, Z)
    for k in (0, 1):
        one, two = a[20_000 * k : 20_000 * (k + 1)], b[4000 * k : 4000 * (k + 1)]
        error = np.sqrt(one.var(axis=0) / len(one) + two.var(axis=0) / len(two))
        assert (np.abs(one.mean(axis=0) - two.mean(axis=0)) < 4.5 * error).all()
        spread = one.std(axis=0) / two.std(axis=0)
        np.testing.assert_allclose(spread, 1.0, atol=0.1)


@every
def test_starts_are_possible_parameters(case):
    _, X = case.problem(117, n_rows=4)
    parameters = case.family.start(X[:3])
    packed = case.family.pack(parameters)
    for array in case.family.unpack(packed).values():
        assert np.isfinite(array).all()


@every
def test_components_are_reordered(case):
    pair, X = case.problem(118)
    model = case.model(pair)
    order = [2, 0, 1]
    moved = model.reordered(order)
    np.testing.assert_array_equal(moved.weights, model.weights[order])
    a = model.infer(X, posteriors=True)[1]
    b = moved.infer(X, posteriors=True)[1]
    np.testing.assert_allclose(b, a[:, order], rtol=1e-12, atol=1e-14)


@every
def test_free_parameters_are_counted(case):
    pair = case.pair(np.random.default_rng(119), 3)
    free, _ = oracles.coordinates(case.oracle.domains, pair, fixed=("weights",))
    assert case.family.n_parameters(pair[1]) == len(free)


@pytest.mark.parametrize("case", GAUSSIAN, ids=str)
def test_precisions_cholesky_are_factors_of_the_precisions(case):
    parameters = case.pair(np.random.default_rng(120))[1]
    packed = case.family.pack(parameters)
    factors = case.family.precisions_cholesky(packed)
    covariances = parameters["covariances"]
    if case.name in ("full", "tied"):
        precisions = factors @ np.swapaxes(factors, -1, -2)
        np.testing.assert_allclose(precisions, np.linalg.inv(covariances), rtol=1e-10)
        np.testing.assert_array_equal(factors, np.triu(factors))
    else:
        np.testing.assert_allclose(factors, covariances**-0.5, rtol=1e-13)
    # A model may be made from them, and is then the same.
    again = case.family.pack({**parameters, "precisions_cholesky": factors})
    for one, other in zip(packed, again, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


# Extremes -------------------------------------------------------------------------------------


def test_poisson_rates_of_zero_are_learned_and_stay_finite():
    case = next(case for case in ALL if case.name == "poisson")
    pair, X = case.problem(121)
    X[:, 1] = 0.0
    model = case.model(pair)
    updated = model.maximize(model.expect(X).statistics)
    np.testing.assert_array_equal(updated.parameters["rates"][:, 1], 0.0)
    assert np.isfinite(updated.expect(X).log_likelihood)
    # What was never seen is next to impossible, not NaN.
    X[0, 1] = 1.0
    assert -1e4 < updated.infer(X, log_totals=True)[0][0] < -500


@pytest.mark.parametrize("name", ["bernoulli", "categorical", "multinomial"])
def test_probabilities_of_zero_are_learned_and_stay_finite(name):
    case = next(case for case in ALL if case.name == name)
    pair, X = case.problem(122)
    X = np.where(X == X.max(), 0.0, X) if name == "categorical" else X * [1, 0, 1]
    model = case.model(pair)
    updated = model.maximize(model.expect(X).statistics)
    assert updated.parameters["probabilities"].min() == 0.0
    again = updated.expect(X)
    assert np.isfinite(again.log_likelihood)
    assert again.log_likelihood >= model.expect(X).log_likelihood
    assert np.isfinite(updated.maximize(again.statistics).parameters["probabilities"]).all()


@pytest.mark.parametrize("family, value", [(Gamma(), 2.5), (Beta(), 0.25)])
def test_weight_on_one_value_has_no_shape(family, value):
    packed = family.pack({name: np.ones((1, 1)) for name in family.parameter_names})
    features = [value, np.log(value)] if isinstance(family, Gamma) \
        else [np.log(value), np.log1p(-value)]  # fmt: skip
    with pytest.raises(ValueError, match="all its weight is on one value"):
        family.maximize({"sums": np.array([features])}, np.ones(1), packed)


@pytest.mark.parametrize("case", GAUSSIAN, ids=str)
def test_fewer_points_than_columns_have_no_covariance(case):
    """At one point, where the mean is too, the scatter is exactly zero."""
    pair, X = case.problem(123, n_rows=2, n_components=1)
    X[:] = pair[1]["means"]
    model = case.model(pair)
    with pytest.raises(ValueError, match="ill-defined empirical covariance"):
        model.maximize(model.expect(X).statistics)


# What is refused ------------------------------------------------------------------------------


ONES = np.ones((2, 3))


@pytest.mark.parametrize("family, parameters, message", [
    (Gaussian("full"), {"means": ONES, "covariances": [np.eye(3), -np.eye(3)]}, "component 1"),
    (Gaussian("full"), {"means": ONES, "covariances": np.full((2, 3, 3), np.nan)}, "component 0"),
    (Gaussian("full"), {"means": ONES, "covariances": [np.eye(3), np.diag([1, 1, np.inf])]},
     "component 1"),
    (Gaussian("tied"), {"means": ONES, "covariances": np.zeros((3, 3))}, "positive definite"),
    (Gaussian("diag"), {"means": ONES, "covariances": [[1, 1, 1], [1, 0, 1]]}, "component 1"),
    (Gaussian("diag"), {"means": ONES, "covariances": np.inf * ONES}, "finite"),
    (Gaussian("spherical"), {"means": ONES, "covariances": [1.0, -1.0]}, "component 1"),
    (Poisson(), {"rates": -ONES}, "zero or more"),
    (Poisson(), {"rates": np.inf * ONES}, "finite"),
    (Bernoulli(), {"probabilities": 1.5 * ONES}, "between 0 and 1"),
    (Bernoulli(), {"probabilities": np.nan * ONES}, "between 0 and 1"),
    (Categorical(3), {"probabilities": np.ones((1, 2, 3))}, "sum to one"),
    (Categorical(2), {"probabilities": np.array([[[1.5, -0.5]]])}, "negative"),
    (Multinomial(), {"probabilities": ONES}, "sum to one"),
    (Exponential(), {"scales": 0 * ONES}, "positive"),
    (Gamma(), {"shapes": ONES, "scales": -ONES}, "scales must be positive"),
    (Beta(), {"alphas": 0 * ONES, "betas": ONES}, "alphas must be positive"),
])  # fmt: skip
def test_impossible_parameters_are_refused(family, parameters, message):
    parameters = {name: np.asarray(array, dtype=float) for name, array in parameters.items()}
    with pytest.raises(ValueError, match=message):
        family.pack(parameters)


@pytest.mark.parametrize("family, wrong", [
    (Poisson(), -1.0), (Poisson(), 1.5), (Multinomial(), -1.0), (Multinomial(), 0.5),
    (Bernoulli(), 2.0), (Bernoulli(), 0.5), (Categorical(3), 3.0), (Categorical(3), -1.0),
    (Categorical(3), 0.5), (Exponential(), -0.1), (Gamma(), 0.0), (Gamma(), -1.0),
    (Beta(), 0.0), (Beta(), 1.0),
])  # fmt: skip
def test_rows_outside_the_support_are_named(family, wrong):
    X = np.full((4, 3), 0.5) if isinstance(family, Beta) else np.ones((4, 3))
    family.check(X)
    X[2, 1] = wrong
    with pytest.raises(ValueError, match="row 2, column 1"):
        family.check(X)


def test_settings_make_the_same_family():
    families = [
        Gaussian("tied", reg_covar=0.5), Gaussian(), Poisson(), Categorical(7), Multinomial(9),
        Product((Gaussian("diag"), 2), (Categorical(3), [3]), (Poisson(), [2])),
    ]  # fmt: skip
    for family in families:
        again = family_from_settings(family.to_settings())
        assert again == family
        assert hash(again) == hash(family)
        assert repr(again) == repr(family)
    assert Gaussian("full") != Gaussian("diag")
    assert Categorical(3) != Categorical(4)


def test_names_make_families():
    assert as_family("poisson") == Poisson()
    assert as_family(Categorical(3)) == Categorical(3)
    for wrong in ("normal", 3, Poisson):
        with pytest.raises(ValueError, match="family must be"):
            as_family(wrong)
    with pytest.raises(ValueError, match="n_categories"):
        as_family("categorical")


@pytest.mark.parametrize("members, message", [
    ((), "at least one"),
    (((Poisson(), 0),), "no columns"),
    (((Poisson(), [0, 1]), (Poisson(), [1, 2])), "each once"),
    (((Poisson(), [0, 2]),), "each once"),
    ((Poisson(),), "pair of a family"),
])  # fmt: skip
def test_products_that_make_no_sense_are_refused(members, message):
    with pytest.raises(ValueError, match=message):
        Product(*members)


@pytest.mark.parametrize("make", [lambda: Gaussian("round"), lambda: Gaussian(reg_covar=-1.0),
                                  lambda: Categorical(0), lambda: Categorical(2.5)])  # fmt: skip
def test_settings_that_make_no_sense_are_refused(make):
    with pytest.raises(ValueError, match="must be"):
        make()
