"""The Kalman filter's four functions: maxima, descent, divergences, combining, aligning."""

from itertools import chain, combinations

import numpy as np
import pytest
from scipy.optimize import minimize

from fastem import algebra
from fastem.kalman.data import as_observations
from fastem.kalman.model import NAMES

from cases.kalman import assert_same_sums, lds_of, model, sums
from oracles import kalman as oracles

SIX = [name for name in NAMES if not name.endswith("offsets")]
SUBSETS = list(chain.from_iterable(combinations(SIX, n) for n in range(len(SIX) + 1)))
OFF_DIAGONAL = ~np.eye(3, dtype=bool)
FIRST_AND_CORNER = [[True, False, False], [False, False, True], [False, True, True]]
CORNER = [[True, False], [False, False]]
OFFSETS = ("transition_offsets", "observation_offsets")


def setting(seed=0, d=2, p=3, n=12, T=(3, 6)):
    rng = np.random.default_rng(seed)
    truth, lds = oracles.random_lds(d, p, rng), oracles.random_lds(d, p, rng)
    data = [oracles.sample(truth, int(t), rng)[1] for t in rng.integers(*T, size=n)]
    return lds, data, rng


def loss(lds, s):
    """J of a model but for a constant: minus Q(S, Θ), from the oracle's sums."""
    for name in ("V", "Q", "R"):
        matrix = getattr(lds, name)
        if np.linalg.eigvalsh((matrix + matrix.T) / 2).min() <= 0:
            return np.inf
    return -oracles.log_joint(lds, s)


def mixed_statistics(lds, data, eta):
    """S(V|Θ) + S(Θ)/η from the oracle, for the lengths of the data."""
    seen = oracles.mean_statistics([oracles.statistics(lds, v) for v in data])
    own = oracles.mean_statistics([oracles.own(lds, len(v)) for v in data])
    return {name: seen[name] + own[name] / eta for name in seen}


def free_gradient(lds, s, free):
    """Derivatives of the loss by the free entries, covariances moved symmetrically."""
    worst = 0.0
    for name, mask in free.items():
        letter = NAMES[name]
        value = getattr(lds, letter)
        for entry in zip(*np.nonzero(mask), strict=True):
            step = np.zeros_like(value)
            step[entry] = 1e-5
            if letter in "VQR":
                step = np.maximum(step, step.T)
            up, down = (loss(lds.with_(**{letter: value + k * step}), s) for k in (1, -1))
            worst = max(worst, abs(up - down) / 2e-5)
    return worst


@pytest.mark.parametrize("held", SUBSETS, ids=lambda names: "-".join(names) or "none")
def test_every_subset_held_fixed_minimizes_j(held):
    lds, data, rng = setting()
    eta = 0.7
    m = model(lds, held=dict.fromkeys((*held, *OFFSETS), True))
    new, _ = algebra.online(m, as_observations(data), eta)
    s = mixed_statistics(lds, data, eta)
    free = {name: np.ones_like(new.parameters[name], bool) for name in SIX if name not in held}
    for name in (*held, *OFFSETS):
        np.testing.assert_array_equal(new.parameters[name], m.parameters[name])
    got = lds_of(new)
    assert free_gradient(got, s, free) < 1e-5 * (1 + abs(loss(got, s)))
    for _ in range(10):
        moved = {
            NAMES[name]: new.parameters[name] + 0.05 * _symmetric(name, rng, new) for name in free
        }
        assert loss(got.with_(**moved), s) >= loss(got, s) - 1e-9


def _symmetric(name, rng, model):
    step = rng.normal(size=model.parameters[name].shape)
    return (step + step.T) / 2 if name.endswith("covariance") else step


@pytest.mark.parametrize("letter", list("mVACQR"))
def test_each_update_is_found_by_numerical_minimization(letter):
    lds, data, _ = setting(1)
    eta = 1.3
    name = next(n for n, a in NAMES.items() if a == letter)
    m = model(lds, held={n: n != name for n in NAMES})
    new, _ = algebra.online(m, as_observations(data), eta)
    s = mixed_statistics(lds, data, eta)
    start = getattr(lds, letter)
    square = letter in "VQR"

    def unpack(x):
        if not square:
            return x.reshape(start.shape)
        L = np.zeros_like(start)
        L[np.tril_indices(len(start))] = x
        return L @ L.T

    first = np.linalg.cholesky(start)[np.tril_indices(len(start))] if square else start.ravel()
    found = minimize(
        lambda x: loss(lds.with_(**{letter: unpack(x)}), s), first, method="BFGS",
        options={"gtol": 1e-9},
    )  # fmt: skip
    np.testing.assert_allclose(getattr(new, letter), unpack(found.x), rtol=1e-4, atol=1e-4)


def test_offsets_are_learned_too():
    lds, data, _ = setting(2)
    new, _ = algebra.online(model(lds), as_observations(data), 0.5)
    s = mixed_statistics(lds, data, 0.5)
    free = {name: np.ones_like(value, bool) for name, value in new.parameters.items()}
    assert free_gradient(lds_of(new), s, free) < 1e-5 * (1 + abs(loss(lds_of(new), s)))


@pytest.mark.parametrize(
    "held",
    [
        {"transition_matrices": [[True, False], [False, False]]},
        {"transition_matrices": [[True, False], [True, True]], "transition_covariance": True},
        {"observation_matrices": [[True, True], [False, False], [False, True]]},
        {"transition_covariance": [[False, True], [True, False]]},
        {"observation_covariance": FIRST_AND_CORNER},
        {
            "observation_matrices": [[True, False], [False, True], [False, False]],
            "observation_covariance": OFF_DIAGONAL,
        },
        {"initial_state_mean": [True, False], "initial_state_covariance": CORNER},
        {"observation_offsets": [True, False, False]},
    ],
)  # fmt: skip
def test_single_entries_held_fixed_minimize_j(held):
    lds, data, _ = setting(3)
    eta = 0.9
    full = {
        name: np.asarray(held.get(name, name in OFFSETS and name not in held)) for name in NAMES
    }
    m = model(lds, held=full)
    new, _ = algebra.online(m, as_observations(data), eta)
    s = mixed_statistics(lds, data, eta)
    free = {}
    for name in NAMES:
        mask = np.broadcast_to(full[name], m.parameters[name].shape)
        np.testing.assert_array_equal(new.parameters[name][mask], m.parameters[name][mask])
        free[name] = ~mask
    assert free_gradient(lds_of(new), s, free) < 2e-5 * (1 + abs(loss(lds_of(new), s)))
    assert loss(lds_of(new), s) < loss(lds, s)


@pytest.mark.parametrize("shape", ["diag", "spherical"])
def test_diagonal_and_scalar_noise(shape):
    lds, data, _ = setting(4)
    start = lds.with_(Q=np.eye(2) * 0.5, R=np.eye(3) * 0.7)
    m = model(start, transition_shape=shape, observation_shape=shape)
    new, _ = algebra.online(m, as_observations(data), 1.0)
    s = mixed_statistics(start, data, 1.0)
    got = lds_of(new)
    for letter in "QR":
        matrix = getattr(got, letter)
        np.testing.assert_array_equal(matrix, np.diag(np.diag(matrix)))
        if shape == "spherical":
            assert np.ptp(np.diag(matrix)) == 0
        for factor in (0.95, 1.05):
            if shape == "spherical":
                assert loss(got.with_(**{letter: factor * matrix}), s) > loss(got, s)
            else:
                for i in range(len(matrix)):
                    moved = matrix.copy()
                    moved[i, i] *= factor
                    assert loss(got.with_(**{letter: moved}), s) > loss(got, s)


@pytest.mark.parametrize("T", [1, 2, 7])
@pytest.mark.parametrize(("d", "p"), [(1, 1), (2, 3), (3, 2)])
def test_own_statistics_are_those_of_the_joint_law(d, p, T):
    lds = oracles.random_lds(d, p, np.random.default_rng(d + p + T))
    assert_same_sums(sums(model(lds).own(T)), oracles.own(lds, T))


def test_own_statistics_of_several_lengths_are_a_mean():
    lds = oracles.random_lds(2, 3, np.random.default_rng(0))
    lengths = [2, 5, 5, 9, 1]
    expected = oracles.mean_statistics([oracles.own(lds, T) for T in lengths])
    assert_same_sums(sums(model(lds).own(lengths)), expected)


def test_own_statistics_of_a_long_sequence_stop_at_the_stationary_law():
    lds = oracles.random_lds(2, 3, np.random.default_rng(1), radius=0.8)
    got = sums(model(lds).own(5000))
    mu, U = lds.m, lds.V
    S, total = np.zeros((2, 2)), np.zeros(2)
    for _ in range(5000):
        S += U + np.outer(mu, mu)
        total += mu
        mu, U = lds.A @ mu + lds.b, lds.A @ U @ lds.A.T + lds.Q
    np.testing.assert_allclose(got["Shh"], S, rtol=1e-10)
    np.testing.assert_allclose(got["h"], total, rtol=1e-10)


def test_own_statistics_that_are_infinite_are_refused():
    lds = oracles.random_lds(2, 3, np.random.default_rng(1), radius=2.0)
    with pytest.raises(ValueError, match="grows without bound"):
        model(lds).own(100_000)


@pytest.mark.parametrize("T", [1, 2, 5])
def test_divergence_is_that_of_the_joint_gaussians(T):
    rng = np.random.default_rng(T)
    one, other = oracles.random_lds(2, 3, rng), oracles.random_lds(2, 3, rng)
    got = algebra.divergence(model(one), model(other), T)
    assert got == pytest.approx(oracles.joint_divergence(one, other, T), rel=1e-10)
    assert algebra.divergence(model(one), model(one), T) == pytest.approx(0, abs=1e-10)


def test_divergence_is_three_log_determinants_and_traces():
    rng = np.random.default_rng(8)
    one, other = (oracles.random_lds(2, 3, rng, offsets=False) for _ in range(2))
    T = 4

    def ld(X, Y):
        return np.trace(X @ np.linalg.inv(Y)) - np.linalg.slogdet(X @ np.linalg.inv(Y))[1] - len(X)

    U, total = one.V + np.outer(one.m, one.m), []
    for _ in range(T):
        total.append(U)
        U = one.Q + one.A @ U @ one.A.T
    shift, dA, dC = one.m - other.m, one.A - other.A, one.C - other.C
    twice = (
        shift @ np.linalg.solve(other.V, shift) + ld(one.V, other.V)
        + np.trace(np.linalg.solve(other.Q, dA @ sum(total[:-1]) @ dA.T))
        + (T - 1) * ld(one.Q, other.Q)
        + np.trace(np.linalg.solve(other.R, dC @ sum(total) @ dC.T)) + T * ld(one.R, other.R)
    )  # fmt: skip
    assert 2 * algebra.divergence(model(one), model(other), T) == pytest.approx(twice, rel=1e-10)


def test_divergence_by_monte_carlo():
    rng = np.random.default_rng(9)
    one = oracles.random_lds(2, 2, rng)
    other = one.with_(A=one.A * 0.8, R=one.R * 1.2, m=one.m + 0.3)
    T, n = 4, 40_000
    m1, S1 = oracles.joint(one, T)
    m2, S2 = oracles.joint(other, T)
    x = rng.multivariate_normal(m1, S1, size=n)
    from scipy.stats import multivariate_normal

    ratios = multivariate_normal(m1, S1).logpdf(x) - multivariate_normal(m2, S2).logpdf(x)
    got = algebra.divergence(model(one), model(other), T)
    assert abs(ratios.mean() - got) < 5 * ratios.std() / np.sqrt(n)


def test_combining_minimizes_the_total_divergence():
    rng = np.random.default_rng(10)
    models = [model(oracles.random_lds(2, 3, rng, radius=0.6)) for _ in range(3)]
    weights = np.array([0.5, 0.2, 0.3])
    center = algebra.combine(models, weights, horizon=6)

    def total(lds):
        return sum(
            a * oracles.joint_divergence(lds_of(m), lds, 6)
            for a, m in zip(weights, models, strict=True)
        )

    best = lds_of(center)
    least = total(best)
    for name in NAMES:
        for _ in range(5):
            moved = center.parameters[name] + 0.03 * _symmetric(name, rng, center)
            assert total(best.with_(**{NAMES[name]: moved})) > least
    same = algebra.combine([models[0]] * 3, horizon=6)
    for name, value in same.parameters.items():
        np.testing.assert_allclose(value, models[0].parameters[name], rtol=1e-9, atol=1e-9)
    plain = algebra.average(models, weights)
    np.testing.assert_allclose(plain.A, sum(a * m.A for a, m in zip(weights, models, strict=True)))


def test_a_change_of_basis_changes_nothing_observed_and_align_undoes_it():
    lds, data, rng = setting(11)
    m, other = model(lds, horizon=5), model(oracles.random_lds(2, 3, rng), horizon=5)
    T = rng.normal(size=(2, 2)) + 2 * np.eye(2)
    moved = m.transformed(T)
    batch = as_observations(data)
    assert moved.expect(batch).log_likelihood == pytest.approx(
        m.expect(batch).log_likelihood, rel=1e-11
    )
    assert algebra.divergence(moved, other.transformed(T)) == pytest.approx(
        algebra.divergence(m, other), rel=1e-9
    )
    back = moved.brought_to(m)
    for name, value in back.parameters.items():
        np.testing.assert_allclose(value, m.parameters[name], rtol=1e-7, atol=1e-8)
    bases = [rng.normal(size=(2, 2)) + 2 * np.eye(2) for _ in range(3)]
    aligned = algebra.align([m, *(m.transformed(B) for B in bases)])
    for one in aligned:
        for name, value in one.parameters.items():
            np.testing.assert_allclose(value, m.parameters[name], rtol=1e-6, atol=1e-7)


def test_states_that_are_not_observed_are_aligned_by_their_dynamics():
    rng = np.random.default_rng(12)
    lds = oracles.random_lds(2, 1, rng)
    blind = model(lds.with_(A=np.diag([0.5, 0.8]), C=np.array([[1.0, 0.0]])), horizon=6)
    moved = blind.transformed(np.array([[1.0, 0.0], [0.3, -2.0]]))
    assert algebra.divergence(moved, blind) > 1
    assert algebra.divergence(moved.brought_to(blind), blind) == pytest.approx(0.0, abs=1e-8)


def test_sequences_without_weight_are_refused():
    one = model(oracles.random_lds(2, 3, np.random.default_rng(13)))
    nothing = as_observations(np.zeros((4, 3))).reweighted([0.0])
    with pytest.raises(ValueError, match="all zero"):
        one.expect(nothing)


def test_weights_may_lie_apart_in_memory():
    rng = np.random.default_rng(13)
    one, data = model(oracles.random_lds(2, 3, rng)), as_observations(rng.normal(size=(4, 5, 3)))
    weights = rng.random((4, 2))
    apart, together = (data.reweighted(w) for w in (weights[:, 0], weights[:, 0].copy()))
    assert one.expect(apart).log_likelihood == one.expect(together).log_likelihood


def test_models_of_different_kinds_and_sizes_do_not_mix():
    rng = np.random.default_rng(13)
    one = model(oracles.random_lds(2, 3, rng))
    with pytest.raises(ValueError, match="different sizes"):
        one.check_same_kind(model(oracles.random_lds(3, 3, rng)))
    with pytest.raises(ValueError, match="different kinds"):
        one.check_same_kind(object())
    with pytest.raises(ValueError, match="horizon"):
        one.own()
    with pytest.raises(ValueError, match="singular"):
        model(oracles.random_lds(2, 3, rng).with_(Q=np.zeros((2, 2)))).log_joint(one.own(3))


@pytest.mark.parametrize("held", [(), ("transition_covariance", "observation_covariance")])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("batch_size", [1, 5])
def test_the_online_kernel_takes_the_steps_of_the_algebra(held, keep, batch_size):
    lds, data, rng = setting(14, n=13, T=(2, 7))
    data[2][1] = np.nan
    data[4][0, 1] = np.nan
    data[5][:] = np.nan
    weights = rng.random(13)
    weights[:1] = 0.0
    sequences = as_observations(data, sample_weight=weights)
    m = model(lds, held=dict.fromkeys(held, True), observation_shape="diag")
    etas = 0.8 / np.arange(1, 14) ** 0.7
    memory = m.own([4, 5]) if keep else None
    got, kept, score = m.learn(sequences, etas, batch_size, memory)
    expected, remembered, mean = algebra.take_steps(m, sequences, etas, batch_size, memory)
    np.testing.assert_allclose(score, mean, rtol=1e-9)
    for name, value in got.parameters.items():
        np.testing.assert_allclose(value, expected.parameters[name], rtol=1e-9, atol=1e-10)
    if keep:
        assert_same_sums(sums(kept), sums(remembered), 1e-9)
    else:
        assert kept is None


def test_the_two_memories_differ():
    lds, data, _ = setting(15)
    m = model(lds)
    memory = m.own([3, 4, 5])
    etas = np.full(len(data), 0.5)
    one, _, _ = m.learn(as_observations(data), etas, 1)
    two, _, _ = m.learn(as_observations(data), etas, 1, memory)
    assert np.abs(one.A - two.A).max() > 1e-4


@pytest.mark.parametrize(("d", "p"), [(1, 4), (3, 5), (4, 2)])
def test_the_log_likelihood_of_online_steps_counts_all_of_an_observation(d, p):
    rng = np.random.default_rng(16)
    lds = oracles.random_lds(d, p, rng)
    data = [oracles.sample(lds, 9, rng)[1] for _ in range(12)]
    data[3][2] = np.nan
    for missing in (False, True):
        if missing:
            data[4][1, 0] = np.nan
        sequences = as_observations(data)
        learned = model(lds).learn(sequences, [0.3] * 3, 5)
        expected = algebra.take_steps(model(lds), sequences, [0.3] * 3, 5)
        assert learned.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-10)
