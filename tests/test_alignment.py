"""Aligning is never worse than not aligning, and the least over all orders where that is said."""

from itertools import permutations, product

import numpy as np
import pytest

import fastem
from fastem import algebra
from fastem.families import (
    Bernoulli,
    Categorical,
    Gaussian,
    MixtureOf,
    Multinomial,
    Poisson,
    Product,
)
from fastem.hmm.model import HMMModel
from fastem.kalman.alignment import _Problem
from fastem.matching import best_matching
from fastem.mixture.model import MixtureModel

from cases.families import ALL, INTERLEAVED, assert_same_model
from cases.hmm import BY_NAME
from cases.hmm import Mixtures as MixturesByHand
from cases.kalman import model as kalman_model
from oracles import families as oracles
from oracles import kalman as kalman_oracles

every = pytest.mark.parametrize("case", [*ALL, INTERLEAVED], ids=str)
both = pytest.mark.parametrize("absorbing", [False, True], ids=["fixed length", "absorbing"])


def orders_of(model):
    """The model in all orders of its components that leave absorbing states where they are."""
    n = len(model.weights if isinstance(model, MixtureModel) else model.startprob)
    absorbing = getattr(model, "absorbing", np.zeros(n))
    for order in permutations(range(n)):
        if (absorbing[list(order)] == absorbing).all():
            yield model.reordered(np.array(order))


def orders_inside(model):
    """The model in all orders of the members of its components, by hand."""
    parameters = {
        name: np.array(value) for name, value in model.family.unpack(model.packed).items()
    }
    n, m = parameters[model.family.weights_name].shape
    for orders in product(permutations(range(m)), repeat=n):
        moved = {
            name: array
            if array.shape[:2] != (n, m) or name in model.family.kind.shared_parameters
            else np.stack([array[k][list(order)] for k, order in enumerate(orders)])
            for name, array in parameters.items()
        }
        packed = model.family.pack(moved)
        yield model._copied(packed=packed)


def least_divergence(model, other, variants):
    return min(algebra.divergence(moved, other) for moved in variants(model))


def total(models, weights=None):
    weights = np.full(len(models), 1 / len(models)) if weights is None else weights
    center = algebra.combine(models, weights)
    return sum(
        w * algebra.divergence(model, center) for w, model in zip(weights, models, strict=True)
    )


def assert_least(got, least):
    assert got == pytest.approx(least, rel=1e-9, abs=1e-11)


# Divergences: mixtures ------------------------------------------------------------------------


@every
@pytest.mark.parametrize("n_components", [1, 2, 4, 5])
def test_divergence_of_mixtures_is_the_least_over_all_orders(case, n_components):
    rng = np.random.default_rng(n_components)
    for _ in range(3):
        one, other = (case.model(case.pair(rng, n_components)) for _ in range(2))
        assert_least(fastem.divergence(one, other), least_divergence(one, other, orders_of))


def test_six_components_in_all_720_orders():
    rng = np.random.default_rng(1)
    case = next(case for case in ALL if case.name == "poisson")
    for _ in range(3):
        one, other = (case.model(case.pair(rng, 6)) for _ in range(2))
        assert_least(fastem.divergence(one, other), least_divergence(one, other, orders_of))


# Divergences: chains --------------------------------------------------------------------------


def random_chain(rng, n, kind, absorbing=False, horizon=7):
    """Chains that try to break aligning: emissions that say little, or nothing, of the state."""
    startprob, *rows = rng.dirichlet(np.full(n, 0.5), n + 1)
    transmat = np.array(rows)
    if kind == "zeros":
        mask = rng.random((n, n)) < 0.3
        np.fill_diagonal(mask, False)
        transmat = np.where(mask, 0.0, transmat) + 1e-3 * np.eye(n)
        transmat /= transmat.sum(axis=1, keepdims=True)
    means = {
        "far": rng.normal(size=(n, 1)) * 5,
        "near": rng.normal(size=(n, 1)) * 0.1,
        "equal": np.zeros((n, 1)),
        "zeros": rng.normal(size=(n, 1)),
    }[kind]
    ends = ()
    if absorbing and n > 1:
        transmat[:, -1] += 0.1
        transmat /= transmat.sum(axis=1, keepdims=True)
        ends = (n - 1,)
    parameters = {"means": means, "covariances": rng.uniform(0.8, 1.2, (n, 1)) ** (kind != "equal")}
    family = Gaussian("diag", reg_covar=0.0)
    return HMMModel(
        family, startprob, transmat, parameters, absorbing=ends, horizon=None if ends else horizon
    )


kinds = pytest.mark.parametrize("kind", ["far", "near", "equal", "zeros"])


@kinds
@both
@pytest.mark.parametrize("n_states", [1, 2, 3, 5])
def test_divergence_of_chains_is_the_least_over_all_orders(kind, absorbing, n_states):
    rng = np.random.default_rng(n_states)
    for _ in range(4):
        one, other = (random_chain(rng, n_states, kind, absorbing) for _ in range(2))
        least = least_divergence(one, other, orders_of)
        got = fastem.divergence(one, other)
        if np.isinf(least):
            assert got == np.inf
        else:
            assert_least(got, least)


@kinds
def test_six_states_in_all_720_orders(kind):
    rng = np.random.default_rng(2)
    for _ in range(2):
        one, other = (random_chain(rng, 6, kind) for _ in range(2))
        least = least_divergence(one, other, orders_of)
        got = fastem.divergence(one, other)
        assert got == least == np.inf or got == pytest.approx(least, rel=1e-9)


def test_states_whose_emissions_are_almost_equal_are_matched_by_their_chain():
    def chain(means):
        transmat = np.array([[0.8, 0.15, 0.05], [0.1, 0.85, 0.05], [0.3, 0.4, 0.3]])
        parameters = {"means": np.array(means)[:, None], "covariances": np.ones((3, 1))}
        family = Gaussian("diag", reg_covar=0.0)
        return HMMModel(family, [0.2, 0.5, 0.3], transmat, parameters, horizon=50)

    one, other = chain([0.0, 5.0, 5.001]), chain([0.0, 5.001, 5.0])
    plain = fastem.divergence(one, other, align=False)
    assert 0 < plain < 1e-4
    assert fastem.divergence(one, other) == plain


@pytest.mark.parametrize("name", ["full", "poisson", "categorical", "gamma"])
@both
def test_chains_of_every_kind_of_emission(name, absorbing):
    case = BY_NAME[name]
    rng = np.random.default_rng(3)
    for _ in range(3):
        one, other = (
            case.model(case.hidden(rng, 4, absorbing), **({} if absorbing else {"horizon": 6}))
            for _ in range(2)
        )
        assert_least(fastem.divergence(one, other), least_divergence(one, other, orders_of))


# Divergences: members inside components -------------------------------------------------------

GAUSSIANS = [("full", False), ("diag", False), ("tied", True)]


def mixture_of(rng, n, m, kind, chain):
    tied = kind == "tied"
    family = MixtureOf(Gaussian(kind, reg_covar=0.0), m)
    parameters = MixturesByHand(oracles.Gaussian(kind, 2), m, tied).random(rng, n)
    if not chain:
        parameters["member_weights"] = parameters.pop("weights")
        return MixtureModel(family, rng.dirichlet(np.ones(n)), parameters)
    startprob, *rows = rng.dirichlet(np.ones(n), n + 1)
    return HMMModel(family, startprob, np.array(rows), parameters, horizon=4)


def all_variants(model):
    for moved in orders_of(model):
        yield from orders_inside(moved)


@pytest.mark.parametrize("kind", ["full", "diag", "tied"])
@pytest.mark.parametrize("chain", [False, True], ids=["mixture", "chain"])
@pytest.mark.parametrize("n, m", [(1, 4), (2, 3), (3, 2)])
def test_members_are_matched_within_matched_components(kind, chain, n, m):
    rng = np.random.default_rng(10 * n + m)
    for _ in range(2):
        one, other = (mixture_of(rng, n, m, kind, chain) for _ in range(2))
        assert_least(fastem.divergence(one, other), least_divergence(one, other, all_variants))
        variants = list(all_variants(one))
        shuffled = variants[rng.integers(len(variants))]
        assert fastem.divergence(one, shuffled) == pytest.approx(0.0, abs=1e-9)
        merged = fastem.combine([one, shuffled])
        assert_same_model(merged, one, rtol=1e-7, atol=1e-9)


def test_members_are_matched_in_products_too():
    rng = np.random.default_rng(4)
    family = Product((MixtureOf(Gaussian("diag", reg_covar=0.0), 2), 1), (Poisson(), 1))
    weights = np.array([[0.2, 0.8], [0.6, 0.4]])
    means = rng.normal(size=(2, 2, 1)) * 4
    parameters = {
        "mixtureof_weights": weights,
        "mixtureof_means": means,
        "mixtureof_covariances": np.ones((2, 2, 1)),
        "poisson_rates": np.array([[1.0], [2.0]]),
    }
    one = MixtureModel(family, [0.5, 0.5], parameters)
    turned = {
        **parameters,
        "mixtureof_weights": weights[:, ::-1],
        "mixtureof_means": means[:, ::-1],
    }
    other = MixtureModel(family, [0.5, 0.5], turned).reordered(np.array([1, 0]))
    assert fastem.divergence(one, other, align=False) > 1
    assert fastem.divergence(one, other) == pytest.approx(0.0, abs=1e-12)
    assert_same_model(fastem.combine([one, other]), one, rtol=1e-9)


# Never worse ----------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("n_components", [3, 8, 12])
def test_aligning_mixtures_is_never_worse(case, n_components):
    rng = np.random.default_rng(n_components)
    for _ in range(2):
        models = [case.model(case.pair(rng, n_components)) for _ in range(3)]
        assert fastem.divergence(*models[:2]) <= algebra.divergence(*models[:2])
        weights = rng.dirichlet(np.ones(3))
        assert total(algebra.align(models, weights), weights) <= total(models, weights)


@kinds
@both
@pytest.mark.parametrize("n_states", [4, 7, 12])
def test_aligning_chains_is_never_worse(kind, absorbing, n_states):
    rng = np.random.default_rng(n_states)
    for _ in range(3):
        models = [random_chain(rng, n_states, kind, absorbing) for _ in range(3)]
        assert fastem.divergence(*models[:2]) <= algebra.divergence(*models[:2])
        aligned = algebra.align(models)
        assert aligned[0] is models[0]
        assert total(aligned) <= total(models)


def test_a_search_over_many_states_ends_where_no_exchange_helps_and_finds_copies():
    rng = np.random.default_rng(5)

    def value(pairs, counts, logs, partners):
        steps = counts * logs[np.ix_(partners, partners)]
        return pairs[np.arange(len(pairs)), partners].sum() + steps.sum()

    for n in (7, 9, 12):
        pairs, counts, logs = rng.normal(size=(n, n)), rng.random((n, n)), rng.normal(size=(n, n))
        partners = best_matching(pairs, counts, logs)
        at = value(pairs, counts, logs, partners)
        assert at >= value(pairs, counts, logs, np.arange(n))
        for i in range(n):
            for j in range(i):
                exchanged = partners.copy()
                exchanged[[i, j]] = partners[[j, i]]
                assert value(pairs, counts, logs, exchanged) <= at + 1e-9
        one = random_chain(rng, n, "near")
        copy = one.reordered(rng.permutation(n))
        assert fastem.divergence(copy, one) == pytest.approx(0.0, abs=1e-9)


# Combining ------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("fixed", [(), ("weights",), "all but one"], ids=str)
def test_two_mixtures_combine_in_the_best_of_all_orders(case, fixed):
    if fixed == "all but one":
        fixed = case.family.parameter_names[-1:]
    rng = np.random.default_rng(6)
    for n_components in (2, 4):
        weights = rng.dirichlet(np.ones(2))
        one, other = (case.model(case.pair(rng, n_components), fixed=fixed) for _ in range(2))
        least = min(total([one, moved], weights) for moved in orders_of(other))
        assert_least(total(algebra.align([one, other], weights), weights), least)


@kinds
@both
@pytest.mark.parametrize("fixed", [(), ("startprob",), ("transmat", "means"), ("covariances",)])
def test_two_chains_combine_in_the_best_of_all_orders(kind, absorbing, fixed):
    rng = np.random.default_rng(7)
    for n_states in (2, 4):
        one, other = (random_chain(rng, n_states, kind, absorbing) for _ in range(2))
        for model in (one, other):
            vars(model).update(fixed=frozenset(fixed))
        totals = [total([one, moved]) for moved in orders_of(other)]
        got = total(algebra.align([one, other]))
        assert got == min(totals) == np.inf or got == pytest.approx(min(totals), rel=1e-9)


def test_six_components_combine_in_the_best_of_all_720_orders():
    rng = np.random.default_rng(8)
    models = [random_chain(rng, 6, "near") for _ in range(2)]
    least = min(total([models[0], moved]) for moved in orders_of(models[1]))
    assert_least(total(algebra.align(models)), least)
    case = next(case for case in ALL if case.name == "tied")
    models = [case.model(case.pair(rng, 6)) for _ in range(2)]
    least = min(total([models[0], moved]) for moved in orders_of(models[1]))
    assert_least(total(algebra.align(models)), least)


@pytest.mark.parametrize("kind", ["full", "diag", "tied"])
@pytest.mark.parametrize("chain", [False, True], ids=["mixture", "chain"])
@pytest.mark.parametrize("fixed", [(), ("covariances",), ("means",)], ids=str)
def test_members_combine_in_the_best_of_all_orders(kind, chain, fixed):
    rng = np.random.default_rng(9)
    for n, m in ((2, 2), (1, 3)):
        one, other = (mixture_of(rng, n, m, kind, chain) for _ in range(2))
        for model in (one, other):
            vars(model).update(fixed=frozenset(fixed))
        least = min(total([one, moved]) for moved in all_variants(other))
        assert_least(total(algebra.align([one, other])), least)


@both
def test_no_one_of_several_models_can_be_brought_nearer(absorbing):
    rng = np.random.default_rng(11)
    for _ in range(3):
        models = algebra.align([random_chain(rng, 4, "near", absorbing) for _ in range(4)])
        center = algebra.combine(models)
        for model in models[1:]:
            here = algebra.divergence(model, center)
            assert here <= least_divergence(model, center, orders_of) * (1 + 1e-9) + 1e-11


# Nothing to do --------------------------------------------------------------------------------


@every
def test_models_in_order_are_not_touched(case):
    rng = np.random.default_rng(12)
    pair = case.pair(rng, 3)
    models = [case.model(pair), *(case.model(case.near(pair, rng, 0.02)) for _ in range(2))]
    for some in (models, models[:2]):
        aligned = algebra.align(some)
        assert all(one is other for one, other in zip(aligned, some, strict=True))
        for function in (fastem.combine, fastem.average):
            for weights in (None, rng.uniform(0.1, 9.0, len(some))):
                plain = function(some, weights, align=False)
                assert_same_model(function(some, weights), plain, rtol=0, atol=0)
    plain = fastem.divergence(models[0], models[1], align=False)
    assert fastem.divergence(models[0], models[1]) == plain


@both
def test_chains_in_order_are_not_touched(absorbing):
    case = BY_NAME["diag"]
    rng = np.random.default_rng(13)
    hidden = case.hidden(rng, 4, absorbing)
    models = [case.model(case.near(hidden, rng, 0.02), horizon=5) for _ in range(3)]
    for function in (fastem.combine, fastem.average):
        assert_same_model(function(models), function(models, align=False), rtol=0, atol=0)
    plain = fastem.divergence(*models[:2], align=False)
    assert fastem.divergence(*models[:2]) == plain


def test_models_trained_apart_combine_well_unless_told_otherwise():
    rng = np.random.default_rng(14)
    X = rng.normal(size=(600, 2)) + 6.0 * rng.integers(3, size=(600, 1))
    parts = [
        fastem.GaussianMixture(3, means_init=centers * np.ones((3, 2)), random_state=0).fit(X)
        for centers in (np.array([[0.0], [6.0], [12.0]]), np.array([[12.0], [0.0], [6.0]]))
    ]
    merged = fastem.combine(parts)
    assert merged.score(X) > parts[0].score(X) - 0.01
    assert fastem.combine(parts, align=False).score(X) < merged.score(X) - 0.5
    assert fastem.divergence(*parts) < 1e-3 < fastem.divergence(*parts, align=False)


# What cannot be -------------------------------------------------------------------------------

ZEROS = {
    "bernoulli": (Bernoulli(), "probabilities", [[0.5]], [[0.0]]),
    "bernoulli ones": (Bernoulli(), "probabilities", [[0.5]], [[1.0]]),
    "poisson": (Poisson(), "rates", [[3.0]], [[0.0]]),
    "multinomial": (Multinomial(3), "probabilities", [[0.2, 0.8]], [[0.0, 1.0]]),
    "categorical": (Categorical(2), "probabilities", [[[0.2, 0.8]]], [[[0.0, 1.0]]]),
}


def with_zeros(name, chain, inside):
    family, parameter, some, none = ZEROS[name]
    if inside == "product":
        n_columns = 2 if name == "multinomial" else 1
        family = Product((Gaussian("diag"), 1), (family, n_columns))
        extra = {"gaussian_means": [[0.0]], "gaussian_covariances": [[1.0]]}
        pairs = [{**extra, f"{name.split()[0]}_{parameter}": p} for p in (some, none)]
    elif inside == "members":
        family = MixtureOf(family, 1)
        weights = "weights" if chain else "member_weights"
        pairs = [{weights: [[1.0]], parameter: [p]} for p in (some, none)]
    else:
        pairs = [{parameter: p} for p in (some, none)]
    if chain:
        return [HMMModel(family, [1.0], [[1.0]], p, horizon=3) for p in pairs]
    return [MixtureModel(family, [1.0], p) for p in pairs]


PLACES = [(name, inside) for name in ZEROS for inside in (None, "product", "members")]


@pytest.mark.parametrize("name, inside", PLACES)
@pytest.mark.parametrize("chain", [False, True], ids=["mixture", "chain"])
@pytest.mark.parametrize("align", [False, True])
def test_what_happens_in_one_and_never_in_the_other_is_infinitely_far(name, inside, chain, align):
    some, none = with_zeros(name, chain, inside)
    assert fastem.divergence(some, none, align=align) == np.inf
    assert 0 < fastem.divergence(none, some, align=align) < np.inf
    # Zero against zero is nothing.
    assert fastem.divergence(none, none, align=align) == 0.0
    merged = fastem.combine([some, none], align=align)
    assert 0 < fastem.divergence(some, merged, align=align) < np.inf
    assert 0 < fastem.divergence(none, merged, align=align) < np.inf


def test_a_zero_counts_however_rare_the_state():
    emissions = {"rates": np.array([[1.0], [5.0]])}
    silent = {"rates": np.array([[1.0], [0.0]])}
    rare = [1.0 - 1e-12, 1e-12], np.array([[1.0 - 1e-12, 1e-12], [0.5, 0.5]])
    one, other = (HMMModel(Poisson(), *rare, p, horizon=3) for p in (emissions, silent))
    assert fastem.divergence(one, other, align=False) == np.inf
    one, other = (MixtureModel(Poisson(), rare[0], p) for p in (emissions, silent))
    assert fastem.divergence(one, other, align=False) == np.inf
    # A component of no weight has no outcomes.
    one, other = (MixtureModel(Poisson(), [1.0, 0.0], p) for p in (emissions, silent))
    assert fastem.divergence(one, other, align=False) == 0.0


@pytest.mark.parametrize("start, transmat", [
    ([1.0, 0.0], [[0.5, 0.5], [0.5, 0.5]]), ([0.5, 0.5], [[1.0, 0.0], [0.5, 0.5]]),
])  # fmt: skip
def test_zeros_of_a_chain_are_infinitely_far(start, transmat):
    emissions = {"rates": np.array([[1.0], [5.0]])}
    open_ = HMMModel(Poisson(), [0.5, 0.5], np.full((2, 2), 0.5), emissions, horizon=3)
    shut = HMMModel(Poisson(), start, transmat, emissions, horizon=3)
    for align in (False, True):
        assert fastem.divergence(open_, shut, align=align) == np.inf
        assert 0 < fastem.divergence(shut, open_, align=align) < np.inf
        assert np.isfinite(fastem.divergence(open_, fastem.combine([open_, shut], align=align)))


def test_a_pairing_that_is_possible_is_preferred():
    """Every order but one has some component that the other model rules out."""
    rates = np.array([[2.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 4.0]])
    one = MixtureModel(Poisson(), [0.2, 0.3, 0.5], {"rates": rates})
    other = MixtureModel(Poisson(), [0.3, 0.4, 0.3], {"rates": 2 * rates}).reordered(
        np.array([1, 2, 0])
    )
    assert fastem.divergence(one, other, align=False) == np.inf
    assert_least(fastem.divergence(one, other), least_divergence(one, other, orders_of))
    assert np.isfinite(fastem.divergence(one, other))
    # None is possible: the order stays, and merging works.
    silent = MixtureModel(Poisson(), [0.3, 0.4, 0.3], {"rates": np.zeros((3, 3))})
    assert fastem.divergence(one, silent) == np.inf
    assert np.isfinite(fastem.combine([one, silent]).parameters["rates"]).all()


def test_a_model_fitted_without_an_outcome_rules_it_out():
    rng = np.random.default_rng(15)
    X = rng.integers(0, 2, size=(200, 1))
    fitted = fastem.Mixture(Categorical(3), 1, random_state=0).fit(X)
    assert fitted.probabilities_[0, 0, 2] == 0.0
    wider = fastem.Mixture(Categorical(3), 1, random_state=0).fit(np.vstack([X, [[2]]]))
    assert fastem.divergence(wider, fitted) == np.inf
    assert np.isfinite(fastem.divergence(fitted, wider))
    # For learning the outcome is only almost impossible.
    assert np.isfinite(fitted.score([[2]]))


# Kalman filters -------------------------------------------------------------------------------


def kalman_pair(rng, d, p, weak, noise=0.02):
    """A model one direction of which is hardly observed, and a noisy copy."""
    lds = kalman_oracles.random_lds(d, p, rng)
    C, A = lds.C.copy(), np.diag(np.linspace(0.3, 0.9, d)) + 0.05 * rng.normal(size=(d, d))
    C[:, -1] *= weak
    lds = lds.with_(C=C, A=A)
    noisy = lds.with_(
        A=A + noise * rng.normal(size=A.shape), C=C + noise * rng.normal(size=C.shape)
    )
    return kalman_model(lds, horizon=12), kalman_model(noisy, horizon=12)


def test_the_divergence_as_a_function_of_the_basis_and_its_derivatives():
    rng = np.random.default_rng(16)
    one, other = (kalman_model(kalman_oracles.random_lds(3, 2, rng), horizon=6) for _ in range(2))
    problem = _Problem(one, other, None)
    bases = rng.normal(size=(4, 3, 3))
    values = np.array([problem.value(T.ravel())[0] for T in bases])
    true = np.array([algebra.divergence(one.transformed(T), other) for T in bases])
    np.testing.assert_allclose(values - values[0], true - true[0], rtol=1e-9)
    for T in bases:
        _, gradient = problem.value(T.ravel())
        numeric = oracles.gradient(lambda t: problem.value(t)[0], T.ravel())
        np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-5)
        step = 1e-5 * np.eye(9)
        numeric = [
            (problem.value(T.ravel() + e)[1] - problem.value(T.ravel() - e)[1]) / 2e-5 for e in step
        ]
        np.testing.assert_allclose(problem.hessian(T.ravel()), numeric, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("weak", [1.0, 1e-2, 1e-4, 0.0])
@pytest.mark.parametrize("d, p", [(1, 1), (2, 1), (3, 2), (5, 3)])
def test_noisy_copies_in_any_basis_come_as_near_as_in_their_own(d, p, weak):
    rng = np.random.default_rng(10 * d + p)
    for _ in range(2):
        one, noisy = kalman_pair(rng, d, p, weak)
        plain = algebra.divergence(noisy, one)
        assert fastem.divergence(noisy, one) <= plain
        moved = noisy.transformed(rng.normal(size=(d, d)) + np.eye(d))
        assert fastem.divergence(moved, one) <= plain * (1 + 1e-6)
        merged = fastem.combine([one, moved])
        assert sum(fastem.divergence(m, merged) for m in (one, moved)) <= 2 * total([one, noisy])


@pytest.mark.parametrize("weak", [1.0, 1e-3])
def test_aligning_kalman_filters_is_never_worse(weak):
    rng = np.random.default_rng(17)
    for _ in range(2):
        models = [kalman_pair(rng, 3, 2, weak)[0] for _ in range(3)]
        assert fastem.divergence(*models[:2]) <= algebra.divergence(*models[:2])
        aligned = algebra.align(models)
        assert aligned[0] is models[0]
        assert total(aligned) <= total(models)


def test_the_end_of_descent_is_a_minimum_over_bases():
    rng = np.random.default_rng(18)
    one, other = kalman_pair(rng, 3, 2, 0.1, noise=0.2)
    near = one.brought_to(other)
    least = algebra.divergence(near, other)
    assert least < algebra.divergence(one, other)
    for size in (1e-3, 1e-2, 0.1, 0.5):
        for _ in range(5):
            T = np.eye(3) + size * rng.normal(size=(3, 3))
            assert algebra.divergence(near.transformed(T), other) > least


def test_equal_kalman_filters_are_not_touched_and_singular_ones_are_told_of():
    rng = np.random.default_rng(19)
    lds = kalman_oracles.random_lds(2, 2, rng)
    one = kalman_model(lds, horizon=5)
    assert one.brought_to(one) is one
    for function in (fastem.combine, fastem.average):
        assert_same_model(function([one, one]), function([one, one], align=False), rtol=0, atol=0)
    fixed_start = kalman_model(lds.with_(V=np.zeros((2, 2))), horizon=5)
    with pytest.warns(RuntimeWarning, match="not aligned. initial_state_covariance is singular"):
        merged = fastem.combine([fixed_start, fixed_start])
    assert_same_model(merged, fixed_start, rtol=1e-8, atol=1e-9)
    with pytest.raises(ValueError, match="singular"):
        fastem.divergence(fixed_start, fixed_start)
