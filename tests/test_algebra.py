"""Batch and online steps, divergences and bounds, for every family, against brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastem import algebra
from fastem.data.rows import Table
from fastem.data.sequences import Sequences
from fastem.families import Categorical, Gaussian
from fastem.hmm.model import HMMModel
from fastem.mixture.model import MixtureModel

from cases.families import (
    ALL,
    GAUSSIAN,
    INTERLEAVED,
    UNEQUAL,
    assert_minimum,
    assert_same_model,
    assert_same_statistics,
    assert_statistics,
    pair_of,
)
from oracles import families as oracles

every = pytest.mark.parametrize("case", ALL, ids=str)
every_and_interleaved = pytest.mark.parametrize("case", [*ALL, INTERLEAVED], ids=str)
every_and_more = pytest.mark.parametrize("case", [*ALL, INTERLEAVED, UNEQUAL], ids=str)


# S(V|Θ) and the likelihood --------------------------------------------------------------------


@every_and_more
@pytest.mark.parametrize("weighted", [False, True])
def test_expected_statistics_are_those_of_brute_force(case, weighted):
    pair, X = case.problem(1, n_rows=301)
    w = np.random.default_rng(2).uniform(0, 3, len(X)) if weighted else None
    got = case.model(pair).expect(Table(X, w))
    assert_statistics(got.statistics, oracles.expect(case.oracle, *pair, X, w))
    # Base measures are in it: this is the log of a density that sums to one.
    assert got.log_likelihood == pytest.approx(-oracles.nll(case.oracle, *pair, X, w), rel=1e-12)
    assert got.weight == pytest.approx(len(X) if w is None else w.sum(), rel=1e-14)


@pytest.mark.parametrize("case", GAUSSIAN, ids=str)
def test_reg_covar_is_noise_that_every_row_carries(case):
    pair, X = case.problem(3)
    blurred = MixtureModel(Gaussian(case.name, reg_covar=0.25), *pair)
    plain = case.model(pair).expect(X).statistics["moments"]
    moments = blurred.expect(X).statistics["moments"]
    noise = {
        "full": 0.25 * plain.mass[:, None, None] * np.eye(3),
        "tied": 0.25 * np.eye(3),
        "diag": 0.25 * plain.mass[:, None] * np.ones(3),
        "spherical": 0.25 * plain.mass * 3,
    }[case.name]
    np.testing.assert_allclose(moments.scatter, plain.scatter + noise, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(moments.mean, plain.mean, rtol=1e-12)


# Every step minimizes its own objective -------------------------------------------------------


MULTINOMIAL = [UNEQUAL, *(case for case in ALL if case.name == "multinomial")]


def online_objective(case, pair, X, eta, fixed=()):
    """ρ U + (1 - ρ) Δ as a function of the free coordinates."""
    rho = eta / (1 + eta)
    trials = X.sum() / len(X) if case in MULTINOMIAL else None
    gamma = oracles.posteriors(case.oracle, *pair, X)
    _, back = oracles.coordinates(case.oracle.domains, pair, fixed)

    def objective(vector):
        other = back(vector)
        surprise = -(gamma * oracles.log_joint(case.oracle, *other, X)).sum() / len(X)
        inertia = oracles.divergence(case.oracle, pair, other, trials)
        return rho * surprise + (1 - rho) * inertia

    return objective


@every_and_more
@pytest.mark.parametrize("eta", [0.05, 3.0])
def test_online_step_minimizes_bound_plus_divergence(case, eta):
    pair, X = case.problem(4, n_rows=40, n_components=2)
    updated, _ = algebra.online(case.model(pair), X, eta)
    at, _ = oracles.coordinates(case.oracle.domains, pair_of(updated))
    assert_minimum(online_objective(case, pair, X, eta), at, np.random.default_rng(5))


@every_and_more
def test_batch_step_minimizes_the_bound(case):
    pair, X = case.problem(6, n_rows=80, n_components=2)
    updated = algebra.batch(case.model(pair), X)
    at, _ = oracles.coordinates(case.oracle.domains, pair_of(updated))
    objective = online_objective(case, pair, X, 1e300)
    assert_minimum(objective, at, np.random.default_rng(7), starts=0)


def each_fixed():
    for case in [*ALL, INTERLEAVED, UNEQUAL]:
        for name in ("weights", *case.family.parameter_names):
            yield pytest.param(case, (name,), id=f"{case}-{name}")


@pytest.mark.parametrize("case, fixed", list(each_fixed()))
def test_step_with_a_parameter_held_minimizes_over_the_others(case, fixed):
    pair, X = case.problem(8, n_rows=40, n_components=2)
    model = case.model(pair, fixed=fixed)
    updated, _ = algebra.online(model, X, 2.0)
    for name in fixed:
        np.testing.assert_array_equal(updated.parameters[name], model.parameters[name])
    at, _ = oracles.coordinates(case.oracle.domains, pair_of(updated), fixed)
    assert len(at) > 0
    objective = online_objective(case, pair, X, 2.0, fixed)
    assert_minimum(objective, at, np.random.default_rng(9), starts=0)


@every
def test_everything_held_changes_nothing(case):
    pair, X = case.problem(10)
    fixed = ("weights", *case.family.parameter_names)
    model = case.model(pair, fixed=fixed)
    updated, _ = algebra.online(model, X, 5.0)
    for name, array in model.parameters.items():
        np.testing.assert_array_equal(updated.parameters[name], array)


# One step never raises its own batch's loss ---------------------------------------------------


@every_and_more
@settings(deadline=None, max_examples=25, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    log_eta=st.floats(-6, 6),
    n_components=st.integers(1, 4),
    far=st.booleans(),
)
def test_online_step_never_raises_the_loss_of_its_batch(case, seed, log_eta, n_components, far):
    rng = np.random.default_rng(seed)
    pair = case.pair(rng, n_components)
    source = case.pair(rng, n_components) if far else case.near(pair, rng, 0.2)
    # Enough rows that no component is left with fewer than it has columns.
    X = case.data(source, rng, 150)
    model = case.model(pair)
    updated, _ = algebra.online(model, X, 10.0**log_eta)
    before = oracles.nll(case.oracle, *pair, X)
    after = oracles.nll(case.oracle, *pair_of(updated), X)
    # Rounding alone: a loss is a mean of terms of its own size.
    assert after <= before + 1e-12 * max(1.0, abs(before))


# Running statistics, and small steps ----------------------------------------------------------


@every
def test_running_statistics_are_the_model_as_memory(case):
    """For mixtures S(M(s)) = s, so Cappé and Moulines with ρ is η = ρ / (1 - ρ)."""
    rng = np.random.default_rng(13)
    pair = case.pair(rng)
    source = case.near(pair, rng, 0.3)
    model = plain = case.model(pair)
    memory = model.own()
    for t in range(1, 8):
        X = case.data(source, rng, 50)
        rho = 1.0 / (t + 1)
        # Cappé and Moulines as they write it.
        memory = plain.expect(X).statistics * rho + memory * (1 - rho)
        plain = plain.maximize(memory)
        model, statistics = algebra.online(model, X, rho / (1 - rho))
        assert_same_model(model, plain, rtol=1e-9)
        assert_same_statistics(statistics, memory, rtol=1e-9)


@every
def test_own_statistics_of_the_maximum_are_the_statistics(case):
    pair, X = case.problem(16)
    expectation = case.model(pair).expect(X)
    updated = case.model(pair).maximize(expectation.statistics)
    assert_same_statistics(updated.own(expectation.horizon), expectation.statistics, rtol=1e-9)
    assert_same_model(updated.maximize(expectation.statistics * 17.0), updated, rtol=1e-9)


@every
def test_small_steps_are_natural_gradient_steps(case):
    """Θ̃ = Θ - η I_F⁻¹ ∇NLL + O(η²) with the complete-data Fisher information."""
    pair, X = case.problem(17, n_rows=50, n_components=2)
    at, back = oracles.coordinates(case.oracle.domains, pair)
    slope = oracles.gradient(lambda u: oracles.nll(case.oracle, *back(u), X), at)
    information = oracles.hessian(lambda u: oracles.divergence(case.oracle, pair, back(u)), at)
    direction = np.linalg.solve(information, slope)
    assert np.abs(direction).max() > 0.05
    errors = []
    for eta in (4e-3, 2e-3, 1e-3):
        updated, _ = algebra.online(case.model(pair), X, eta)
        moved, _ = oracles.coordinates(case.oracle.domains, pair_of(updated))
        errors.append(np.linalg.norm(moved - (at - eta * direction)))
    # Second order: half the rate, a quarter of the error.
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.05)
    assert errors[1] / errors[2] == pytest.approx(4.0, rel=0.05)


# Divergences and bounds -----------------------------------------------------------------------


@every_and_interleaved
def test_divergence_is_the_closed_form(case):
    rng = np.random.default_rng(18)
    for _ in range(5):
        one, other = case.pair(rng), case.pair(rng)
        got = algebra.divergence(case.model(one), case.model(other))
        assert got > 0
        assert got == pytest.approx(oracles.divergence(case.oracle, one, other), rel=1e-10)
        assert algebra.divergence(case.model(one), case.model(one)) == 0.0


@every_and_interleaved
def test_divergence_is_that_of_the_joint_law(case):
    """The mean of log p(h, v|Θ) - log p(h, v|Θ̃) over draws of (h, v) from Θ."""
    rng = np.random.default_rng(19)
    one = case.pair(rng)
    other = case.near(one, rng, 0.3)
    labels = rng.choice(len(one[0]), size=4000, p=one[0])
    X = case.oracle.sample(one[1], labels, rng)
    gap = oracles.log_joint(case.oracle, *one, X) - oracles.log_joint(case.oracle, *other, X)
    terms = gap[np.arange(len(X)), labels]
    error = terms.std() / np.sqrt(len(X))
    got = algebra.divergence(case.model(one), case.model(other))
    assert abs(terms.mean() - got) < 4 * error
    assert got > 5 * error


@every_and_interleaved
def test_component_divergences_are_pairwise_and_sum_to_the_divergence(case):
    rng = np.random.default_rng(21)
    one, other = case.pair(rng, 3), case.pair(rng, 3)
    table = case.model(one).component_divergences(case.model(other))
    assert np.trace(table) == pytest.approx(oracles.divergence(case.oracle, one, other), rel=1e-10)
    for order in ([1, 2, 0], [2, 1, 0]):
        moved = case.model(other).reordered(order)
        expected = oracles.divergence(case.oracle, one, pair_of(moved))
        assert table[range(3), order].sum() == pytest.approx(expected, rel=1e-10)


@every
def test_upper_bound_lies_above_the_loss_and_touches_it(case):
    rng = np.random.default_rng(22)
    pair, X = case.problem(23)
    model = case.model(pair)
    loss = oracles.nll(case.oracle, *pair, X)
    assert algebra.upper_bound(model, model, X) == pytest.approx(loss, rel=1e-13)
    for distance in (1e-2, 0.1, 0.5):
        other = case.near(pair, rng, distance)
        bound = algebra.upper_bound(model, case.model(other), X)
        assert bound > oracles.nll(case.oracle, *other, X)
        expected = oracles.upper_bound(case.oracle, pair, other, X)
        assert bound == pytest.approx(expected, rel=1e-10)


def test_a_bound_needs_observations_that_are_possible():
    zeros = {"startprob": [1.0, 0.0], "transmat": np.eye(2)}
    family = Categorical(2)
    sure = {"probabilities": np.array([[[1.0, 0.0]], [[0.0, 1.0]]])}
    model = HMMModel(family, *zeros.values(), sure)
    other = HMMModel(family, [0.5, 0.5], np.full((2, 2), 0.5), sure)
    for bound in (algebra.upper_bound, algebra.singleton_divergences):
        with pytest.raises(ValueError, match="probability zero"):
            bound(model, other, Sequences(np.ones((2, 1))))
    assert algebra.upper_bound(other, model, Sequences(np.ones((2, 1)))) == np.inf


def test_divergences_of_discrete_observations_are_relative_entropies():
    """By the sum over the hidden component and its value, nothing left out."""
    rng = np.random.default_rng(3)
    w, v = rng.dirichlet(np.ones(2), 2)
    p, q = rng.dirichlet(np.ones(3), (2, 2, 1))
    one = MixtureModel(Categorical(3), w, {"probabilities": p})
    other = MixtureModel(Categorical(3), v, {"probabilities": q})
    got = algebra.singleton_divergences(one, other, np.arange(3.0)[:, None])
    for value in range(3):
        posterior = w * p[:, 0, value] / (w @ p[:, 0, value])
        want = posterior @ np.log(posterior / (v * q[:, 0, value]))
        assert got[value] == pytest.approx(want, rel=1e-12)
        assert want > 0
