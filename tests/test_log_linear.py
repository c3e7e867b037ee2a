"""Combining in the direction 'reverse': against numerical minima of the divergences of oracles."""

import numpy as np
import pytest

import fastem
from fastem import Lengths, algebra
from fastem.dirichlet.model import CompoundDirichletModel, DirichletModel
from fastem.families import Bernoulli, Categorical, Gamma, Gaussian, Poisson
from fastem.hmm.model import HMMModel
from fastem.kalman.model import KalmanModel
from fastem.log_linear import NothingInCommon, chosen
from fastem.mixture.model import MixtureModel
from fastem.mixture_of_models.model import ModelMixture
from fastem.model import Model

from cases import hmm as hmm_cases
from cases.families import ALL, GAUSSIAN, INTERLEAVED, assert_minimum, assert_same_model, pair_of
from oracles import dirichlet as dirichlet_oracles
from oracles import families as oracles

ALPHAS = np.array([0.2, 0.3, 0.5])


def reverse(models, weights=None, horizon=None):
    return algebra.combine(models, weights, horizon, "reverse")


@pytest.mark.parametrize("case", [*ALL, INTERLEAVED], ids=str)
def test_mixtures_have_the_least_total_divergence(case):
    rng = np.random.default_rng(1)
    pairs = [case.pair(rng, 2) for _ in ALPHAS]
    combined = reverse([case.model(pair) for pair in pairs], 10 * ALPHAS)
    at, back = oracles.coordinates(case.oracle.domains, pair_of(combined))

    def total(vector):
        new = back(vector)
        return ALPHAS @ [oracles.divergence(case.oracle, new, pair) for pair in pairs]

    assert_minimum(total, at, rng)


@pytest.mark.parametrize("case", GAUSSIAN, ids=str)
@pytest.mark.parametrize("fixed", ["means", "covariances", "weights"])
def test_what_is_held_fixed_stays_and_the_rest_is_at_the_minimum(case, fixed):
    rng = np.random.default_rng(2)
    pairs = [case.pair(rng, 2) for _ in ALPHAS]
    models = [case.model(pair, fixed=[fixed]) for pair in pairs]
    combined = reverse(models, ALPHAS)
    np.testing.assert_array_equal(combined.parameters[fixed], models[0].parameters[fixed])
    at, back = oracles.coordinates(case.oracle.domains, pair_of(combined), [fixed])

    def total(vector):
        new = back(vector)
        return ALPHAS @ [oracles.divergence(case.oracle, new, pair) for pair in pairs]

    np.testing.assert_allclose(oracles.gradient(total, at), 0.0, atol=2e-8)


CHAINS = [c for c in hmm_cases.ALL if c.name in ("full", "poisson", "categorical", "mixture-diag")]


@pytest.mark.parametrize("case", CHAINS, ids=str)
@pytest.mark.parametrize(
    ("absorbing", "lengths", "fixed"),
    [(True, [1], ()), (False, [5], ()), (False, [1, 3, 8], ()), (False, [1], ()),
     (True, [1], ("transmat",)), (False, [2, 4], ("transmat",)), (False, [4], ("startprob",))],
    ids=str,
)  # fmt: skip
def test_chains_have_the_least_total_divergence(case, absorbing, lengths, fixed):
    rng = np.random.default_rng(3)
    first = case.hidden(rng, 2 + absorbing, absorbing)
    chains = [first, *(case.near(first, rng, 0.7) for _ in ALPHAS[1:])]
    models = [case.model(hidden, fixed=fixed) for hidden in chains]
    horizon = None if absorbing else Lengths(lengths)
    combined = hmm_cases.hidden_of(reverse(models, ALPHAS, horizon))
    if lengths == [1] and not absorbing:
        np.testing.assert_allclose(combined.transmat, first.transmat, rtol=1e-15)
        fixed = ("transmat",)
    at, back = hmm_cases.coordinates(case, combined, fixed)

    def total(vector):
        new = back(vector)
        return ALPHAS @ [hmm_cases.divergence(case, new, other, lengths) for other in chains]

    if case.name == "categorical":
        assert_minimum(total, at, rng)
        return
    np.testing.assert_allclose(oracles.gradient(total, at), 0.0, atol=2e-8)
    for distance in (1e-3, 0.1):
        assert total(at + distance * rng.normal(size=len(at))) > total(at)


def kalman_models(rng, **options):
    """Three filters of two states and three columns that are not far from one another."""

    def covariance(n):
        root = np.eye(n) + 0.3 * rng.normal(size=(n, n))
        return root @ root.T

    base = 0.5 * rng.normal(size=(2, 2)), rng.normal(size=(3, 2))
    return [
        KalmanModel(
            {
                "transition_matrices": base[0] + 0.1 * rng.normal(size=(2, 2)),
                "observation_matrices": base[1] + 0.2 * rng.normal(size=(3, 2)),
                "transition_covariance": covariance(2),
                "observation_covariance": covariance(3),
                "transition_offsets": 0.3 * rng.normal(size=2),
                "observation_offsets": 0.3 * rng.normal(size=3),
                "initial_state_mean": 0.3 * rng.normal(size=2),
                "initial_state_covariance": covariance(2),
            },
            **options,
        )
        for _ in ALPHAS
    ]


def kalman_coordinates(model, free):
    """The parameters of these names as one real vector, and the way back."""
    parameters = model.parameters
    domains = {n: "covariance" if n.endswith("covariance") else "real" for n in free}
    pieces = [oracles._to_real(parameters[name], domains[name]) for name in free]
    cuts = np.cumsum([len(piece) for piece in pieces])[:-1]

    def back(vector):
        parts = zip(free, np.split(vector, cuts), strict=True)
        new = {n: oracles._from_real(p, parameters[n].shape, domains[n]) for n, p in parts}
        return model.with_parameters({**parameters, **new})

    return np.concatenate(pieces), back


@pytest.mark.parametrize("horizon", [1, 4, Lengths([2, 3, 7])], ids=str)
@pytest.mark.parametrize(
    "held", [(), ("transition_offsets", "observation_offsets"), ("observation_matrices",),
             ("transition_covariance", "initial_state_mean")], ids=str,
)  # fmt: skip
def test_kalman_filters_have_the_least_total_divergence(horizon, held):
    rng = np.random.default_rng(4)
    models = kalman_models(rng, held=dict.fromkeys(held, True))
    combined = reverse(models, ALPHAS, horizon)
    for name in held:
        np.testing.assert_array_equal(combined.parameters[name], models[0].parameters[name])
    free = [name for name in combined.parameters if name not in held]
    if horizon == 1:
        free = [name for name in free if not name.startswith("transition")]
    at, back = kalman_coordinates(combined, free)

    def total(vector):
        new = back(vector)
        return ALPHAS @ [algebra.divergence(new, other, horizon) for other in models]

    np.testing.assert_allclose(oracles.gradient(total, at), 0.0, atol=3e-7)
    least = total(at)
    for distance in (1e-3, 0.1):
        assert total(at + distance * rng.normal(size=len(at))) > least
    if not held:
        R, C = ([getattr(m, letter) for m in models] for letter in "RC")
        precision = sum(a * np.linalg.inv(r) for a, r in zip(ALPHAS, R, strict=True))
        np.testing.assert_allclose(np.linalg.inv(combined.R), precision, rtol=1e-10)
        pull = sum(a * np.linalg.inv(r) @ c for a, r, c in zip(ALPHAS, R, C, strict=True))
        np.testing.assert_allclose(combined.C, combined.R @ pull, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kind", ["diag", "spherical"])
def test_covariances_of_kalman_filters_keep_their_kind(kind):
    models = kalman_models(np.random.default_rng(5), transition_shape=kind, observation_shape=kind)
    combined = reverse(models, ALPHAS, 4)
    for matrix in (combined.Q, combined.R):
        np.testing.assert_array_equal(matrix, np.diag(np.diag(matrix)))
        assert kind == "diag" or np.ptp(np.diag(matrix)) == 0.0
    total = ALPHAS @ [algebra.divergence(combined, other, 4) for other in models]
    for factor in (0.99, 1.01):
        for name in ("transition_covariance", "observation_covariance"):
            new = {**combined.parameters, name: combined.parameters[name] * factor}
            other = combined.with_parameters(new)
            assert ALPHAS @ [algebra.divergence(other, m, 4) for m in models] > total


def test_kalman_filters_without_densities_or_with_single_entries_held_are_refused():
    models = kalman_models(np.random.default_rng(6))
    singular = models[0].with_parameters(
        {**models[0].parameters, "observation_covariance": np.zeros((3, 3))}
    )
    with pytest.raises(algebra.NoDivergence, match="singular"):
        reverse([models[0], singular], None, 3)
    entries = {"transition_covariance": np.eye(2, dtype=bool)}
    with pytest.raises(ValueError, match="single entries"):
        reverse([models[0].with_held(entries), models[1]], None, 3)


@pytest.mark.parametrize("kind", [DirichletModel, CompoundDirichletModel])
def test_dirichlet_parameters_are_averaged(kind):
    rng = np.random.default_rng(7)
    alphas = rng.uniform(0.5, 4.0, (3, 4))
    combined = reverse([kind(alpha) for alpha in alphas], ALPHAS)
    np.testing.assert_allclose(combined.alpha, ALPHAS @ alphas)

    def total(vector):
        return ALPHAS @ [dirichlet_oracles.divergence(np.exp(vector), alpha) for alpha in alphas]

    assert_minimum(total, np.log(combined.alpha), rng)
    held = reverse([kind(alpha, fixed=["alpha"]) for alpha in alphas], ALPHAS)
    np.testing.assert_array_equal(held.alpha, alphas[0])


def test_what_one_model_rules_out_is_ruled_out():
    def model(weights, probabilities):
        return MixtureModel(Categorical(3), weights, {"probabilities": np.array(probabilities)})

    one = model([0.5, 0.5], [[[0.5, 0.5, 0.0]], [[0.1, 0.2, 0.7]]])
    other = model([0.2, 0.8], [[[0.0, 0.5, 0.5]], [[0.2, 0.2, 0.6]]])
    merged = reverse([one, other])
    np.testing.assert_allclose(merged.parameters["probabilities"][0, 0], [0.0, 1.0, 0.0])
    assert np.isfinite(algebra.divergence(merged, one) + algebra.divergence(merged, other))
    # The first components share no outcome: theirs is never chosen.
    apart = model([0.2, 0.8], [[[0.0, 0.0, 1.0]], [[0.2, 0.2, 0.6]]])
    merged = reverse([one, apart])
    np.testing.assert_array_equal(merged.weights, [0.0, 1.0])
    assert np.isfinite(algebra.divergence(merged, one))
    nothing = model([0.5, 0.5], [[[0.0, 0.0, 1.0]], [[0.0, 0.0, 1.0]]])
    sure = model([0.5, 0.5], [[[1.0, 0.0, 0.0]], [[1.0, 0.0, 0.0]]])
    with pytest.raises(NothingInCommon, match="infinitely far"):
        reverse([nothing, sure])
    # In a mixture of such mixtures, another member is chosen.
    pair = [ModelMixture([0.5, 0.5], [one, first]) for first in (nothing, sure)]
    np.testing.assert_array_equal(reverse(pair).weights, [1.0, 0.0])


@pytest.mark.parametrize("family", [Bernoulli(), Poisson()], ids=str)
def test_rates_and_probabilities_of_zero(family):
    name = family.parameter_names[0]
    zero, some = (MixtureModel(family, [1.0], {name: [[p, 0.3]]}) for p in (0.0, 0.5))
    merged = reverse([zero, some])
    np.testing.assert_allclose(merged.parameters[name], [[0.0, 0.3]])
    assert np.isfinite(algebra.divergence(merged, zero) + algebra.divergence(merged, some))


def chain(startprob, transmat, probabilities, absorbing=()):
    parameters = {"probabilities": np.array(probabilities)[:, None]}
    return HMMModel(Categorical(2), startprob, transmat, parameters, absorbing=absorbing)


def test_paths_that_one_chain_rules_out_are_ruled_out():
    emissions = [[0.5, 0.5], [0.2, 0.8], [0.9, 0.1]]
    right = chain([1, 0, 0], [[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0, 1]], emissions, [2])
    jumping = chain([0.5, 0.5, 0], [[0.2, 0.4, 0.4], [0.4, 0.2, 0.4], [0, 0, 1]], emissions, [2])
    merged = reverse([right, jumping])
    assert merged.transmat[0, 2] == merged.transmat[1, 0] == merged.startprob[1] == 0.0
    assert np.isfinite(algebra.divergence(merged, right) + algebra.divergence(merged, jumping))
    stuck = chain([1, 0, 0], [[0.5, 0.0, 0.5], [0.5, 0, 0.5], [0, 0, 1]], emissions, [2])
    with_none = chain([1, 0, 0], [[0.5, 0.5, 0.0], [0, 0.5, 0.5], [0, 0, 1]], emissions, [2])
    with pytest.raises(NothingInCommon, match="No path"):
        reverse([stuck, with_none])
    with pytest.raises(NothingInCommon, match="No path"):
        reverse(
            [chain([1, 0], np.eye(2), emissions[:2]), chain([0, 1], np.eye(2), emissions[:2])],
            None,
            4,
        )
    # States whose emissions have nothing in common are not entered.
    a = chain([0.5, 0.5], np.full((2, 2), 0.5), [[1.0, 0.0], [0.3, 0.7]])
    b = chain([0.5, 0.5], np.full((2, 2), 0.5), [[0.0, 1.0], [0.3, 0.7]])
    merged = reverse([a, b], None, 4)
    np.testing.assert_allclose(merged.startprob, [0.0, 1.0])
    np.testing.assert_allclose(merged.transmat[1], [0.0, 1.0])
    with pytest.raises(ValueError, match="absorbing"):
        reverse([right, chain([0, 0.5, 0.5], np.eye(3), emissions, [0])])


def test_paths_of_tiny_probability_do_not_underflow():
    def far(mean):
        parameters = {"means": [[mean], [0.0]], "covariances": [[1.0], [1.0]]}
        transmat = [[0.5, 0.5], [0.0, 1.0]]
        return HMMModel(Gaussian("diag"), [1, 0], transmat, parameters, absorbing=[1])

    # c = d²/8 is 1250 at each step: e^-c is zero in a double, and a second step too expensive.
    merged = reverse([far(0.0), far(100.0)])
    np.testing.assert_allclose(merged.transmat[0], [0.0, 1.0], atol=1e-300)
    np.testing.assert_allclose(merged.parameters["means"][0], 50.0)


def test_a_fixed_shape_alone_and_a_kind_without_the_function_are_refused():
    models = [
        MixtureModel(Gamma(), [1.0], {"shapes": [[2.0]], "scales": [[s]]}, fixed=["shapes"])
        for s in (1.0, 2.0)
    ]
    with pytest.raises(ValueError, match="held fixed"):
        reverse(models)
    model = MixtureModel(Poisson(), [1.0], {"rates": [[2.0]]})
    with pytest.raises(ValueError, match="log_linear"):
        Model.log_linear(model, [model], [1.0])


def test_choices_cost_what_they_are_said_to():
    rng = np.random.default_rng(8)
    arrays, costs = rng.dirichlet(np.ones(4), (3, 2)), rng.uniform(0, 2, 4)
    for fixed in (False, True):
        p, cost = chosen(arrays, ALPHAS, costs, fixed=fixed)
        logs = np.tensordot(ALPHAS, np.log(arrays), 1)
        np.testing.assert_allclose(cost, (p * (np.log(p) - logs + costs)).sum(axis=1), rtol=1e-13)


def test_forward_covers_and_reverse_keeps_to_what_is_common():
    """Of ``N(∓d, 1)``, forward has the variance ``1 + d²``, reverse 1."""
    models = [
        fastem.GaussianMixture(1, reg_covar=0.0).fit(rows)
        for rows in ([[-4.0], [-2.0]], [[2.0], [4.0]])
    ]
    forward, back = (fastem.combine(models, direction=d) for d in ("forward", "reverse"))
    np.testing.assert_allclose(forward.covariances_.ravel(), 10.0)
    np.testing.assert_allclose(back.covariances_.ravel(), 1.0)
    np.testing.assert_allclose(back.means_.ravel(), 0.0, atol=1e-14)


def test_means_far_from_the_origin_keep_their_digits():
    models = [
        MixtureModel(
            Gaussian("full"), [1.0], {"means": [[1e8 + m, 0.0]], "covariances": [v * np.eye(2)]}
        )
        for m, v in ((1.0, 1.0), (3.0, 0.5))
    ]
    merged = reverse(models)
    assert merged.parameters["means"][0, 0] - 1e8 == pytest.approx(7.0 / 3.0, abs=3e-8)
    assert_same_model(reverse(models[::-1]), merged, rtol=1e-15)
