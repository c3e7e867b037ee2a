"""Hidden Markov models as four functions: own statistics, steps and divergences by brute force."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastem import algebra
from fastem.data.sequences import Sequences
from fastem.families import Categorical, Gaussian, Poisson
from fastem.hmm.model import HMMModel
from fastem.lengths import Lengths
from fastem.statistics import Moments, Statistics

from cases.families import assert_minimum, assert_same_statistics, raw_sums
from cases.hmm import (
    ALL,
    BY_NAME,
    GAUSSIAN,
    Case,
    blocks,
    coordinates,
    divergence,
    hidden_of,
    log_complete,
    log_densities,
    nll,
    path,
    usages,
)
from oracles import families as oracles
from oracles import hmm as hmm_oracles

every = pytest.mark.parametrize("case", ALL, ids=str)
both = pytest.mark.parametrize("absorbing", [False, True], ids=["fixed length", "absorbing"])
LENGTHS = [5, 2, 4, 1, 5, 3, 6]


# S(Θ) and Δ over all paths and observations ---------------------------------------------------

TINY = Case("tiny", Categorical(2), oracles.Categorical(1, 2))


def quick_to_absorb(rng):
    """A model that goes on with a probability of 0.01 at the most: 1e-14 is left after 7 steps."""
    hidden = TINY.hidden(rng, 3, absorbing=True)
    transmat = hidden.transmat.copy()
    transmat[:2] *= [1e-3, 1e-3, 1.0]
    return hidden._replace(transmat=transmat / transmat.sum(axis=1, keepdims=True))


def joint_law(hidden, n_steps):
    """Every (path, observations), of ``n_steps`` or until absorption, and its log-probability."""
    emissions = hidden.parameters["probabilities"][:, 0]
    lengths = range(1, 8) if hidden.absorbing else [n_steps]
    with np.errstate(divide="ignore"):
        start, matrix, emitted = map(np.log, (hidden.startprob, hidden.transmat, emissions))
    n_states = len(start)
    for length in lengths:
        for states in itertools.product(range(n_states), repeat=length):
            if hidden.absorbing and [s in hidden.absorbing for s in states] != [
                *[False] * (length - 1), True,
            ]:  # fmt: skip
                continue
            log_p = start[states[0]] + sum(matrix[i, j] for i, j in itertools.pairwise(states))
            for symbols in itertools.product(range(2), repeat=length):
                seen = sum(emitted[s, x] for s, x in zip(states, symbols, strict=True))
                yield states, symbols, log_p + seen


@pytest.mark.parametrize("n_steps", [1, 2, 4, None])
def test_own_statistics_and_divergence_are_sums_over_all_that_can_happen(n_steps):
    rng = np.random.default_rng(1)
    if n_steps is None:
        one, other = quick_to_absorb(rng), quick_to_absorb(rng)
    else:
        one, other = TINY.hidden(rng), TINY.hidden(rng)
    start, transitions = np.zeros(3), np.zeros((3, 3))
    mass, counts, gap = np.zeros(3), np.zeros((3, 1, 2)), 0.0
    for (states, symbols, log_p), (*_, log_q) in zip(
        joint_law(one, n_steps), joint_law(other, n_steps), strict=True
    ):
        p = np.exp(log_p)
        if p == 0:
            continue
        start[states[0]] += p
        for i, j in itertools.pairwise(states):
            transitions[i, j] += p
        for s, x in zip(states, symbols, strict=True):
            mass[s] += p
            counts[s, 0, x] += p
        gap += p * (log_p - log_q)
    assert start.sum() == pytest.approx(1.0, abs=1e-12)
    got = TINY.model(one).own(n_steps)
    want = Statistics(start=start, transitions=transitions, mass=mass, counts=counts)
    assert_same_statistics(got, want, rtol=1e-10, atol=1e-12)
    value = algebra.divergence(TINY.model(one), TINY.model(other), n_steps)
    assert value == pytest.approx(gap, rel=1e-10)
    assert value == pytest.approx(divergence(TINY, one, other, [n_steps]), rel=1e-10)
    assert algebra.divergence(TINY.model(one), TINY.model(one), n_steps) == 0.0


def test_unequal_lengths_are_the_mean_over_them():
    case = BY_NAME["full"]
    rng = np.random.default_rng(2)
    hidden, other = case.hidden(rng), case.hidden(rng)
    model = case.model(hidden)
    weights = rng.uniform(0.1, 2, len(LENGTHS))
    shares = weights / weights.sum()
    want = sum(share * raw_sums(model.own(n)) for n, share in zip(LENGTHS, shares, strict=True))
    for horizon in (Lengths(LENGTHS, weights), (Lengths(LENGTHS, weights), None)):
        np.testing.assert_allclose(raw_sums(model.own(horizon)), want, rtol=1e-12)
    np.testing.assert_allclose(raw_sums(model.with_horizon(4).own()), raw_sums(model.own(4)))
    X = rng.normal(size=(sum(LENGTHS), 2))
    horizon = model.expect(Sequences(X, LENGTHS, weights)).horizon
    np.testing.assert_allclose(raw_sums(model.own(horizon)), want, rtol=1e-12)
    got = algebra.divergence(model, case.model(other), Lengths(LENGTHS))
    assert got == pytest.approx(divergence(case, hidden, other, LENGTHS), rel=1e-10)
    with pytest.raises(ValueError, match="How long are the sequences"):
        model.own()


@every
@both
def test_own_statistics_are_what_simulation_tends_to(case, absorbing):
    """Simulated by hand, and by the model itself."""
    rng = np.random.default_rng(3)
    hidden = case.hidden(rng, absorbing=absorbing)
    model = case.model(hidden)
    horizon = None if absorbing else Lengths([1, 3, 5])
    own = raw_sums(model.own(horizon))

    def by_hand():
        X, lengths = case.draw(hidden, rng, [1, 3, 5] * 7)
        return model.expect(Sequences(X, lengths)).statistics

    for draw in (by_hand, lambda: algebra.own_by_simulation(model, 60, rng, horizon)):
        runs = np.array([raw_sums(draw()) for _ in range(60)])
        error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
        assert (np.abs(runs.mean(axis=0) - own) <= 5 * error + 1e-12).all()


@every
@both
def test_divergence_is_that_of_the_joint_law(case, absorbing):
    """The mean of log p(h, v|Θ) - log p(h, v|Θ̃) over draws of (h, v) from Θ."""
    rng = np.random.default_rng(4)
    one = case.hidden(rng, absorbing=absorbing)
    other = case.near(one, rng, 0.3)
    paths = [path(one, rng, 4) for _ in range(600)]
    states = np.concatenate(paths)
    X = case.oracle.sample(one.parameters, states, rng)
    rows = np.arange(len(X))
    terms = []
    for hidden in (one, other):
        with np.errstate(divide="ignore"):
            start, matrix = np.log(hidden.startprob), np.log(hidden.transmat)
        # What a component hides is integrated out given x under the first model.
        seen = log_complete(case.oracle, one.parameters, hidden.parameters, X)[rows, states]
        chain = [start[p[0]] + sum(matrix[i, j] for i, j in itertools.pairwise(p)) for p in paths]
        cuts = np.cumsum([len(p) for p in paths])[:-1]
        terms.append(chain + np.array([part.sum() for part in np.split(seen, cuts)]))
    gap = terms[0] - terms[1]
    error = gap.std() / np.sqrt(len(gap))
    got = algebra.divergence(case.model(one), case.model(other), 4)
    assert abs(gap.mean() - got) < 4.5 * error
    assert got > 4 * error
    assert got == pytest.approx(divergence(case, one, other, [4]), rel=1e-9)


# Every step minimizes its own objective -------------------------------------------------------


def expected_surprise(case, hidden, X, lengths, weights=None):
    """``-Q(S(V|Θ), Θ̃)`` as a function of Θ̃, from posteriors in logarithms."""
    pi, A = hidden.startprob, hidden.transmat
    w = np.ones(len(lengths)) if weights is None else np.asarray(weights)
    w = w / w.sum()
    log_bs = log_densities(case, hidden, X, lengths)
    gammas = [u * hmm_oracles.posteriors(pi, A, b) for u, b in zip(w, log_bs, strict=True)]
    xi = sum(u * hmm_oracles.transitions(pi, A, b) for u, b in zip(w, log_bs, strict=True))
    first, gamma = sum(g[0] for g in gammas), np.concatenate(gammas)

    def surprise(other):
        chain = dot_log(first, other.startprob) + dot_log(xi, other.transmat)
        seen = log_complete(case.oracle, hidden.parameters, other.parameters, X)
        return -chain - (gamma * seen).sum()

    return surprise


def dot_log(counts, probabilities):
    used = counts > 0
    return counts[used] @ np.log(probabilities[used])


def assert_least(case, objective, updated, rng, fixed=(), starts=0):
    at, back = coordinates(case, hidden_of(updated), fixed)
    assert_minimum(lambda vector: objective(back(vector)), at, rng, starts=starts)


@every
@both
def test_online_step_minimizes_bound_plus_divergence(case, absorbing):
    hidden, X, lengths = case.problem(5, LENGTHS * 4, n_states=2 + absorbing, absorbing=absorbing)
    weights = np.random.default_rng(6).uniform(0.5, 2, len(lengths)) if absorbing else None
    surprise = expected_surprise(case, hidden, X, lengths, weights)
    # From elsewhere too, for a few: it takes a while.
    starts = 1 if case.name in ("diag", "categorical") else 0
    for eta in (0.1, 4.0):
        updated, _ = algebra.online(case.model(hidden), Sequences(X, lengths, weights), eta)

        def objective(other, rho=eta / (1 + eta)):
            return rho * surprise(other) + (1 - rho) * divergence(case, hidden, other, lengths)

        assert_least(case, objective, updated, np.random.default_rng(7), starts=starts)


@every
@both
def test_batch_step_minimizes_the_bound(case, absorbing):
    hidden, X, lengths = case.problem(8, LENGTHS * 6, n_states=2 + absorbing, absorbing=absorbing)
    updated = algebra.batch(case.model(hidden), Sequences(X, lengths))
    surprise = expected_surprise(case, hidden, X, lengths)
    assert_least(case, surprise, updated, np.random.default_rng(9))


@every
@both
def test_combination_minimizes_the_total_divergence(case, absorbing):
    rng = np.random.default_rng(10)
    models = [case.hidden(rng, 2 + absorbing, absorbing) for _ in range(3)]
    weights = np.array([0.2, 0.5, 0.3])
    horizon = None if absorbing else Lengths(LENGTHS)
    combined = algebra.combine([case.model(m) for m in models], weights, horizon)

    def objective(other):
        gaps = [divergence(case, one, other, LENGTHS) for one in models]
        return weights @ gaps

    assert_least(case, objective, combined, rng, starts=0)


def each_fixed():
    for case in ALL:
        for name in ("startprob", "transmat", *case.family.parameter_names):
            yield pytest.param(case, (name,), id=f"{case}-{name}")


@pytest.mark.parametrize("case, fixed", list(each_fixed()))
def test_step_with_a_parameter_held_minimizes_over_the_others(case, fixed):
    hidden, X, lengths = case.problem(11, LENGTHS * 3, n_states=2)
    model = case.model(hidden, fixed=fixed)
    updated, _ = algebra.online(model, Sequences(X, lengths), 2.0)
    for name in fixed:
        np.testing.assert_array_equal(updated.parameters[name], model.parameters[name])
    surprise = expected_surprise(case, hidden, X, lengths)

    def objective(other):
        return (2 * surprise(other) + divergence(case, hidden, other, lengths)) / 3

    assert_least(case, objective, updated, np.random.default_rng(12), fixed)


# One step never raises its own batch's loss ---------------------------------------------------


@every
@settings(deadline=None, max_examples=12, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    log_eta=st.floats(-6, 6),
    n_states=st.integers(2, 4),
    absorbing=st.booleans(),
    zeros=st.booleans(),
)
def test_online_step_never_raises_the_loss_of_its_batch(
    case, seed, log_eta, n_states, absorbing, zeros
):
    rng = np.random.default_rng(seed)
    hidden = case.hidden(rng, n_states, absorbing, zeros)
    X, lengths = case.draw(case.near(hidden, rng, 0.3), rng, LENGTHS * 8)
    updated, _ = algebra.online(case.model(hidden), Sequences(X, lengths), 10.0**log_eta)
    before, after = nll(case, hidden, X, lengths), nll(case, hidden_of(updated), X, lengths)
    assert after <= before + 1e-12 * max(1.0, abs(before))
    for old, new in ((hidden.startprob, updated.startprob), (hidden.transmat, updated.transmat)):
        assert (np.abs(new.sum(axis=-1) - 1) <= n_states * np.finfo(float).eps / 2).all()
        assert (new[old == 0] == 0).all()


def test_bound_lies_above_the_loss_and_touches_it():
    case = BY_NAME["full"]
    hidden, X, lengths = case.problem(13, LENGTHS)
    model, data = case.model(hidden), Sequences(X, lengths)
    loss = nll(case, hidden, X, lengths)
    assert algebra.upper_bound(model, model, data) == pytest.approx(loss, rel=1e-12)
    surprise = expected_surprise(case, hidden, X, lengths)
    for distance in (1e-2, 0.1, 0.5):
        other = case.near(hidden, np.random.default_rng(14), distance)
        bound = algebra.upper_bound(model, case.model(other), data)
        assert bound > nll(case, other, X, lengths)
        assert bound == pytest.approx(loss + surprise(other) - surprise(hidden), rel=1e-10)


# Zeros, and states that die -------------------------------------------------------------------


@both
def test_zeros_of_the_chain_stay_zero_and_rows_sum_to_one(absorbing):
    case = BY_NAME["diag"]
    rng = np.random.default_rng(16)
    hidden = case.hidden(rng, 5, absorbing, zeros=True)
    X, lengths = case.draw(hidden, rng, [20] * 40)
    model = other = case.model(hidden, horizon=20)
    memory = model.own()
    for _ in range(20):
        model = algebra.batch(model, Sequences(X, lengths))
        other, memory = algebra.online(other, Sequences(X, lengths), 0.5, memory)
    models = [case.model(hidden, horizon=20), model, other]
    for one in (model, other, algebra.combine(models), algebra.average(models)):
        assert (one.startprob[hidden.startprob == 0] == 0).all()
        assert (one.transmat[hidden.transmat == 0] == 0).all()
        np.testing.assert_allclose(one.transmat.sum(axis=1), 1, rtol=0, atol=5 * 2**-53)
        assert abs(one.startprob.sum() - 1) <= 5 * 2**-53
        if absorbing:
            np.testing.assert_array_equal(one.transmat[-1], hidden.transmat[-1])


def test_states_that_are_never_visited_keep_their_parameters():
    case = BY_NAME["diag"]
    rng = np.random.default_rng(17)
    hidden = case.hidden(rng, 3)
    hidden.startprob[:] = [0.5, 0.5, 0.0]
    hidden.transmat[:2] = [[0.5, 0.5, 0], [0.25, 0.75, 0]]
    X, lengths = case.draw(hidden, rng, [6] * 40)
    data = Sequences(X, lengths)
    with pytest.warns(RuntimeWarning, match=r"1 of 3 states are never visited .*\[2\]"):
        updated = algebra.batch(case.model(hidden), data)
    learned, _, _ = case.model(hidden).learn(data, np.full(40, 0.5), 1)
    for model in (updated, learned):
        assert not np.array_equal(model.parameters["means"][:2], hidden.parameters["means"][:2])
        for name in ("means", "covariances", "transmat"):
            want = {"transmat": hidden.transmat, **hidden.parameters}[name]
            np.testing.assert_array_equal(model.parameters[name][2], want[2])


# Drawing --------------------------------------------------------------------------------------


@both
def test_paths_are_drawn_with_their_probabilities(absorbing):
    rng = np.random.default_rng(18)
    hidden = TINY.hidden(rng, absorbing=absorbing)
    model = TINY.model(hidden)
    data, states = model.draw_with_states(4000, rng, Lengths([2, 5]))
    left, emitted = usages(hidden, [2, 5])
    counts, pairs = np.zeros((2, 4000, 3)), np.zeros((3, 3))
    for n, one in enumerate(np.split(states, np.cumsum(data.lengths)[:-1])):
        np.add.at(counts[0, n], one, 1)
        np.add.at(counts[1, n], one[:-1], 1)
        np.add.at(pairs, (one[:-1], one[1:]), 1)
        assert not absorbing or list(one).index(2) == len(one) - 1
    for seen, want in zip(counts, (emitted, left), strict=True):
        error = seen.std(axis=0) / np.sqrt(4000)
        assert (np.abs(seen.mean(axis=0) - want) <= 4.5 * error + 1e-12).all()
    rows = pairs.sum(axis=1, keepdims=True)
    shares = pairs / np.maximum(rows, 1)
    spread = np.sqrt(hidden.transmat * (1 - hidden.transmat) / np.maximum(rows, 1))
    used = rows[:, 0] > 0
    assert (np.abs(shares - hidden.transmat) <= 4.5 * spread)[used].all()
    if not absorbing:
        assert set(data.lengths) == {2, 5}
    for state in range(3):
        shown = data.X[states == state, 0]
        p = hidden.parameters["probabilities"][state, 0, 1]
        assert abs(shown.mean() - p) <= 4.5 * np.sqrt(p * (1 - p) / len(shown))


def test_a_path_goes_on_from_a_state():
    model = HMMModel(Poisson(), [1.0, 0.0], [[0.0, 1.0], [1.0, 0.0]], {"rates": np.ones((2, 1))})
    rng = np.random.default_rng(19)
    np.testing.assert_array_equal(model.sample_path(4, rng), [0, 1, 0, 1])
    np.testing.assert_array_equal(model.sample_path(3, rng, first=1), [1, 0, 1])


# Mixtures as emissions ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize("fixed", [(), ("weights",), ("means",), ("covariances",)], ids=str)
def test_maximum_of_a_mixture_is_the_best_of_its_members(kind, fixed):
    case = BY_NAME[f"mixture-{kind}"]
    rng = np.random.default_rng(20)
    parameters = case.oracle.random(rng, 2)
    X = case.oracle.sample(parameters, rng.integers(2, size=80), rng)
    gamma = rng.dirichlet(np.ones(2), 80)
    packed = case.family.pack(case.oracle.random(rng, 2))
    old = {name: array.copy() for name, array in case.family.unpack(packed).items()}
    sums = blocks(case.oracle, old, gamma, X)
    sums["moments"] = Moments(*sums["moments"])
    updated = case.family.unpack(case.family.maximize(sums, gamma.sum(axis=0), packed, fixed))
    for name in fixed:
        np.testing.assert_array_equal(updated[name], old[name])
    names = [name for name in updated if name not in fixed]
    pieces = [oracles._to_real(updated[name], case.oracle.domains[name]) for name in names]
    cuts = np.cumsum([len(piece) for piece in pieces])[:-1]

    def objective(vector):
        free = {
            name: oracles._from_real(part, updated[name].shape, case.oracle.domains[name])
            for name, part in zip(names, np.split(vector, cuts), strict=True)
        }
        seen = case.oracle.log_complete(old, {**updated, **free}, X)
        return -(gamma * seen).sum() / len(X)

    assert_minimum(objective, np.concatenate(pieces), rng, starts=0)


@pytest.mark.parametrize("case", GAUSSIAN, ids=str)
def test_a_mixture_of_one_is_its_member(case):
    hidden, X, lengths = case.problem(21, LENGTHS * 3)
    one = BY_NAME[f"mixture-{case.name}"]
    family = type(one.family)(Gaussian(case.name, reg_covar=0.0), 1)
    if case.name == "tied":
        hidden.parameters["covariances"] = np.stack([hidden.parameters["covariances"]] * 3)
        case = BY_NAME["full"]
    wrapped = {"weights": np.ones((3, 1)), "means": hidden.parameters["means"][:, None]}
    covariances = hidden.parameters["covariances"]
    wrapped["covariances"] = covariances if one.oracle.tied else covariances[:, None]
    inner = HMMModel(family, hidden.startprob, hidden.transmat, wrapped)
    plain = case.model(hidden)
    data = Sequences(X, lengths)
    for _ in range(3):
        inner, plain = algebra.batch(inner, data), algebra.batch(plain, data)
    np.testing.assert_allclose(inner.transmat, plain.transmat, rtol=1e-9)
    means = inner.parameters["means"][:, 0]
    np.testing.assert_allclose(means, plain.parameters["means"], rtol=1e-9)
    a, b = inner.expect(data).log_likelihood, plain.expect(data).log_likelihood
    assert a == pytest.approx(b, rel=1e-11)
