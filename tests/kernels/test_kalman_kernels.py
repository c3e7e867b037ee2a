"""Filter, smoother and statistics against the joint Gaussian of the whole sequence."""

import itertools

import numba
import numpy as np
import pytest

from fastem.kalman.data import Observations, as_observations
from fastem.kernels.kalman.chunks import chunks_of
from fastem.kernels.kalman.filter import filter_covariances
from fastem.kernels.kalman.observation import reduce
from fastem.kernels.kalman.system import (
    LANES,
    ROOTS,
    Workspace,
    load_observation,
    load_transition,
)
from fastem.kernels.options import kernel

from cases.kalman import assert_same_sums, model, sums, with_gaps
from oracles import kalman as oracles

SIZES = [(1, 1), (2, 3), (3, 2), (4, 4), (5, 10)]


def check_inference(lds, v, tolerance=1e-10):
    m = model(lds)
    means, covariances, _, gains = m.infer(v, False)
    expected = oracles.filtered(lds, v)
    np.testing.assert_allclose(means, expected[0], rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(covariances, expected[1], rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(gains.sum(), oracles.log_likelihood(lds, v), rtol=tolerance)
    means, covariances, lags, _ = m.infer(v, True, lags=True)
    # After the last row there is none.
    np.testing.assert_array_equal(lags[-1], 0.0)
    got = means, covariances, lags[:-1]
    for part, truth in zip(got, oracles.smoothed(lds, v), strict=True):
        np.testing.assert_allclose(part, truth, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("d", "p"), SIZES)
@pytest.mark.parametrize("gaps", ["none", "steps", "coordinates"])
def test_filter_and_smoother_are_the_joint_gaussian_conditioned(d, p, gaps):
    rng = np.random.default_rng(d * 10 + p)
    lds = oracles.random_lds(d, p, rng)
    _, v = oracles.sample(lds, 8, rng)
    if gaps != "none":
        v[[2, 3, 7]] = np.nan
    if gaps == "coordinates":
        v = with_gaps(v, rng, 0.3)
    check_inference(lds, v)


@pytest.mark.parametrize(("d", "p"), SIZES)
def test_matrices_that_change_with_time(d, p):
    rng = np.random.default_rng(d * 10 + p)
    T = 6
    lds = oracles.random_lds(d, p, rng)
    lds = lds.with_(
        A=lds.A + 0.1 * rng.normal(size=(T - 1, d, d)),
        b=rng.normal(size=(T - 1, d)),
        Q=np.array([oracles.wishart(d, rng) for _ in range(T - 1)]),
        C=rng.normal(size=(T, p, d)),
        c=rng.normal(size=(T, p)),
        R=np.array([oracles.wishart(p, rng) for _ in range(T)]),
    )
    _, v = oracles.sample(lds, T, rng)
    v[1, 0] = np.nan
    check_inference(lds, v)


def test_only_some_matrices_change_with_time():
    rng = np.random.default_rng(0)
    lds = oracles.random_lds(2, 3, rng)
    for changes in (
        {"A": lds.A + 0.1 * rng.normal(size=(4, 2, 2))},
        {"b": rng.normal(size=(4, 2))},
        {"c": rng.normal(size=(5, 3))},
        {"C": rng.normal(size=(5, 3, 2))},
    ):
        changed = lds.with_(**changes)
        check_inference(changed, oracles.sample(changed, 5, rng)[1])


@pytest.mark.parametrize(("d", "p"), SIZES)
@pytest.mark.parametrize("gaps", [0.0, 0.25])
@pytest.mark.parametrize("weighted", [False, True])
def test_statistics_are_those_of_the_joint_gaussian(d, p, gaps, weighted):
    rng = np.random.default_rng(d * 10 + p)
    lds = oracles.random_lds(d, p, rng)
    # Enough of one length to fill SIMD lanes, and some of others.
    sequences = [oracles.sample(lds, T, rng)[1] for T in [4] * 11 + [3, 1, 5, 2, 4]]
    if gaps:
        sequences = [with_gaps(v, rng, gaps) for v in sequences]
        sequences[3][:] = np.nan
    weights = rng.random(len(sequences)) if weighted else None
    if weighted:
        weights[5] = 0.0
    expectation = model(lds).expect(as_observations(sequences, sample_weight=weights))
    parts = [oracles.statistics(lds, v) for v in sequences]
    assert_same_sums(sums(expectation.statistics), oracles.mean_statistics(parts, weights))
    each = np.array([oracles.log_likelihood(lds, v) for v in sequences])
    np.testing.assert_allclose(
        expectation.log_likelihood, np.average(each, weights=weights), rtol=1e-10
    )
    np.testing.assert_allclose(
        model(lds).log_likelihoods(as_observations(sequences)), each, rtol=1e-10, atol=1e-10
    )
    lengths = np.array([len(v) for v in sequences])
    horizon = expectation.horizon
    shares = [np.average(lengths == value, weights=weights) for value in horizon.lengths]
    np.testing.assert_allclose(horizon.shares, shares)


def full_recursion(lds, v):
    """Textbook filter and smoother, every step computed: no steady state."""
    T = len(v)
    m, P = lds.m, lds.V
    filtered, predicted, log_likelihood = [], [], 0.0
    for t in range(T):
        predicted.append((m, P))
        S = lds.C @ P @ lds.C.T + lds.R
        e = v[t] - lds.C @ m - lds.c
        K = np.linalg.solve(S, lds.C @ P).T
        log_likelihood -= 0.5 * (np.linalg.slogdet(2 * np.pi * S)[1] + e @ np.linalg.solve(S, e))
        m, P = m + K @ e, P - K @ S @ K.T
        filtered.append((m, P))
        m, P = lds.A @ m + lds.b, lds.A @ P @ lds.A.T + lds.Q
    smoothed = [filtered[-1]]
    for t in reversed(range(T - 1)):
        (m, P), (n, N), (s, S) = filtered[t], predicted[t + 1], smoothed[0]
        J = np.linalg.solve(N, lds.A @ P).T
        smoothed.insert(0, (m + J @ (s - n), P + J @ (S - N) @ J.T))
    return filtered, smoothed, log_likelihood


@pytest.mark.parametrize("radius", [0.5, 0.98, 1.0])
@pytest.mark.parametrize("gap", [False, True])
def test_the_steady_state_equals_the_full_recursion(radius, gap):
    rng = np.random.default_rng(3)
    lds = oracles.random_lds(3, 4, rng, radius=radius, offsets=False)
    _, v = oracles.sample(lds, 1500, rng)
    m = model(lds)
    filtered, smoothed, log_likelihood = full_recursion(lds, v)
    for smooth, expected in ((False, filtered), (True, smoothed)):
        means, covariances, _, gains = m.infer(v, smooth)
        scale = np.abs(means).max()
        np.testing.assert_allclose(means / scale, np.array([e[0] for e in expected]) / scale,
                                   atol=1e-10)  # fmt: skip
        np.testing.assert_allclose(covariances, np.array([e[1] for e in expected]), rtol=1e-10,
                                   atol=1e-12)  # fmt: skip
    np.testing.assert_allclose(gains.sum(), log_likelihood, rtol=1e-10)
    if gap:
        # After a gap the filter is steady again: all steps are those of the steps before and
        # after, which the covariances forget.
        w = v.copy()
        w[700:703] = np.nan
        _, covariances, _, _ = m.infer(w, False)
        np.testing.assert_allclose(covariances[1400], filtered[1400][1], rtol=1e-10, atol=1e-12)
        assert covariances[702].trace() > filtered[702][1].trace()


def test_statistics_of_a_long_sequence_are_sums_over_its_smoothed_states():
    rng = np.random.default_rng(4)
    lds = oracles.random_lds(2, 5, rng)
    _, v = oracles.sample(lds, 800, rng)
    m = model(lds)
    means, covariances, lags, _ = m.infer(v, True, lags=True)
    got = sums(m.expect(v).statistics)
    second = covariances + np.einsum("ti,tj->tij", means, means)
    np.testing.assert_allclose(got["Shh"], second.sum(0), rtol=1e-10)
    np.testing.assert_allclose(got["S00"], second[:-1].sum(0), rtol=1e-10)
    np.testing.assert_allclose(got["S11"], second[1:].sum(0), rtol=1e-10)
    np.testing.assert_allclose(got["S10"], lags.sum(0) + means[1:].T @ means[:-1], rtol=1e-10)
    np.testing.assert_allclose(got["Svh"], v.T @ means, rtol=1e-10)
    np.testing.assert_allclose(got["Svv"], v.T @ v, rtol=1e-10)


def textbook_sums(lds, v):
    """Statistics and log-likelihood by the full recursion."""
    filtered, smoothed, log_likelihood = full_recursion(lds, v)
    means = np.array([m for m, _ in smoothed])
    second = np.array([P for _, P in smoothed]) + np.einsum("ti,tj->tij", means, means)
    lag = means[1:].T @ means[:-1]
    for (_, P), (_, after) in zip(filtered[:-1], smoothed[1:], strict=True):
        J = np.linalg.solve(lds.A @ P @ lds.A.T + lds.Q, lds.A @ P).T
        lag = lag + after @ J.T
    T = len(v)
    found = {
        "n": 1.0, "transitions": T - 1.0, "observed": float(T),
        "h1": means[0], "P1": second[0], "h_to": means[1:].sum(0), "h_from": means[:-1].sum(0),
        "S11": second[1:].sum(0), "S00": second[:-1].sum(0), "S10": lag,
        "h": means.sum(0), "v": v.sum(0), "Shh": second.sum(0), "Svh": v.T @ means, "Svv": v.T @ v,
    }  # fmt: skip
    return found, log_likelihood


@kernel
def cut(x, places, X, kinds, index, first):
    """How the kernels cut a sequence: warm-up, steps of a chunk, chunks side by side, how often."""
    w = places[0]
    load_transition(x, w, 0)
    load_observation(x, w, 0)
    reduce(x, w, X, np.int64(-1), w.whole)
    x, _ = filter_covariances(x, w, X, kinds, 0, len(kinds), index, first)
    return chunks_of(x, w, len(kinds), index, first)


def cut_of(lds, v):
    m = model(lds)
    space = Workspace(m.system, len(v), m.direct)
    kinds = as_observations(v).kinds
    index, first = np.empty((2, len(v)), dtype=np.int64)
    return cut(space.x, space.places, v.reshape(-1), kinds, index, first)


@pytest.mark.parametrize(("d", "p"), [(1, 1), (2, 5), (5, 10), (4, 2)])
@pytest.mark.parametrize("n_steps", [1200, 1201, 6007])
@pytest.mark.parametrize("radius", [0.5, 0.95, 1.0])
def test_chunks_of_a_long_sequence_are_the_full_recursion(d, p, n_steps, radius):
    rng = np.random.default_rng(10 * d + p)
    lds = oracles.random_lds(d, p, rng, radius=radius)
    _, v = oracles.sample(lds, n_steps, rng)
    warm_up, length, width, rounds = cut_of(lds, v)
    if n_steps > 6000:
        assert warm_up > 0
    assert 0 <= 2 * warm_up + width * length * rounds <= n_steps
    expected, log_likelihood = textbook_sums(lds, v)
    got = model(lds).expect(v)
    for name, value in sums(got.statistics).items():
        # Sums of states far from zero: as many digits as the largest of them has.
        scale = np.abs(expected[name]).max()
        np.testing.assert_allclose(value / scale, expected[name] / scale, atol=1e-11, err_msg=name)
    assert got.log_likelihood == pytest.approx(log_likelihood, rel=1e-11)


def test_chunks_of_weighted_sequences():
    rng = np.random.default_rng(6)
    lds = oracles.random_lds(2, 3, rng)
    sequences = [oracles.sample(lds, T, rng)[1] for T in (2500, 1500, 900)]
    assert cut_of(lds, sequences[2])[0] > 0
    weights = np.array([0.5, 2.0, 0.0])
    got = model(lds).expect(as_observations(sequences, sample_weight=weights))
    parts, each = zip(*(textbook_sums(lds, v) for v in sequences), strict=True)
    assert_same_sums(sums(got.statistics), oracles.mean_statistics(parts, weights))
    assert got.log_likelihood == pytest.approx(np.average(each, weights=weights), rel=1e-11)


@pytest.mark.parametrize("case", ["slow", "short", "no noise"])
def test_what_is_not_cut_into_chunks(case):
    rng = np.random.default_rng(7)
    lds = oracles.random_lds(2, 3, rng)
    _, v = oracles.sample(lds, 200 if case == "short" else 3000, rng)
    if case == "slow":
        lds = lds.with_(A=0.9999 * np.eye(2), Q=1e-10 * np.eye(2))
    if case == "no noise":
        lds = lds.with_(Q=np.zeros((2, 2)), V=np.zeros((2, 2)))
    assert cut_of(lds, v) == (0, 0, 0, 0)
    got = model(lds).expect(v)
    means = model(lds).infer(v, True)[0]
    np.testing.assert_allclose(sums(got.statistics)["Svh"], v.T @ means, rtol=1e-9, atol=1e-9)
    log_likelihood = model(lds).log_likelihoods(v)[0]
    assert got.log_likelihood == pytest.approx(log_likelihood, rel=1e-11)


def test_missing_values_keep_a_long_sequence_whole():
    rng = np.random.default_rng(8)
    lds = oracles.random_lds(2, 3, rng)
    _, v = oracles.sample(lds, 3000, rng)
    (part,) = as_observations(v).parts
    assert part.is_long
    v[1500, 1] = np.nan
    (part,) = as_observations(v).parts
    assert not part.is_long


def hard_systems():
    rng = np.random.default_rng(5)
    base = oracles.random_lds(3, 4, rng, offsets=False)
    q = np.outer([1.0, 0.5, -0.5], [1.0, 0.5, -0.5])
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    unstable = base.A * 1.05 / np.abs(np.linalg.eigvals(base.A)).max()
    return {
        "Q singular": base.with_(Q=q),
        "Q zero": base.with_(Q=np.zeros((3, 3))),
        "V zero": base.with_(V=np.zeros((3, 3)), Q=q),
        "R small": base.with_(R=1e-10 * np.eye(4)),
        "R nearly singular": base.with_(R=turn @ np.diag([1.0, 1.0, 1.0, 1e-13]) @ turn.T),
        "A unstable": base.with_(A=unstable),
        "A zero": base.with_(A=np.zeros((3, 3))),
    }


@pytest.mark.parametrize("name", list(hard_systems()))
def test_covariances_stay_semidefinite_and_right(name):
    lds = hard_systems()[name]
    rng = np.random.default_rng(6)
    _, v = oracles.sample(lds, 300, rng)
    v[100:103] = np.nan
    for smooth in (False, True):
        means, covariances, _, gains = model(lds).infer(v, smooth)
        assert np.isfinite(means).all() and np.isfinite(gains).all()
        np.testing.assert_array_equal(covariances, covariances.transpose(0, 2, 1))
        least = np.linalg.eigvalsh(covariances).min(axis=1)
        assert (least >= -1e-14 * np.trace(covariances, axis1=1, axis2=2)).all()
    # Where the joint covariance is too ill-conditioned for doubles, fifty digits are the judge.
    short = v[:6]
    log_likelihood, means = oracles.exact(lds, short)
    tolerance = 1e-5 if name == "R nearly singular" else 1e-9
    np.testing.assert_allclose(
        model(lds).log_likelihoods(as_observations(short))[0], log_likelihood, rtol=tolerance
    )
    np.testing.assert_allclose(
        model(lds).expect(short).log_likelihood, log_likelihood, rtol=tolerance
    )
    np.testing.assert_allclose(
        model(lds).infer(short, True)[0], means, rtol=tolerance, atol=tolerance
    )


def test_a_million_steps():
    rng = np.random.default_rng(7)
    lds = oracles.random_lds(2, 2, rng, radius=0.95, offsets=False)
    n = 1_000_000
    noise = rng.standard_normal((n, 2)) @ np.linalg.cholesky(lds.Q).T
    h = np.empty((n, 2))
    h[0] = lds.m
    for t in range(1, n):
        h[t] = lds.A @ h[t - 1] + noise[t]
    v = h @ lds.C.T + rng.standard_normal((n, 2)) @ np.linalg.cholesky(lds.R).T
    expectation = model(lds).expect(v)
    assert np.isfinite(expectation.log_likelihood)
    # Every quantity is near its own mean under the model: they are averages over a long sequence.
    own = sums(model(lds).own(n))
    got = sums(expectation.statistics)
    for name in ("Shh", "S10", "Svh", "Svv"):
        np.testing.assert_allclose(
            got[name] / n, own[name] / n, atol=0.05 * np.abs(own[name]).max() / n
        )
    learned = model(lds).maximize(expectation.statistics)
    np.testing.assert_allclose(learned.R, lds.R, atol=0.02)
    assert (np.linalg.eigvalsh(learned.Q) > 0).all()


def test_far_from_the_origin_nothing_is_lost():
    rng = np.random.default_rng(8)
    lds = oracles.random_lds(2, 3, rng, offsets=False)
    _, v = oracles.sample(lds, 400, rng)
    near = model(lds).maximize(model(lds).expect(v).statistics)
    moved = lds.with_(c=lds.c + 1e8)
    far = model(moved).maximize(model(moved).expect(v + 1e8).statistics)
    np.testing.assert_allclose(far.R, near.R, rtol=1e-6)
    np.testing.assert_allclose(far.Q, near.Q, rtol=1e-6)
    np.testing.assert_allclose(far.A, near.A, rtol=1e-5, atol=1e-6)


def test_the_number_of_threads_changes_no_bit():
    rng = np.random.default_rng(9)
    lds = oracles.random_lds(3, 4, rng)
    h = oracles.sample(lds, 40_000, rng)[1].reshape(800, 50, 4)
    h[::7, 3, 1] = np.nan
    results = []
    for n_jobs in (1, 2, 5):
        e = model(lds, n_jobs=n_jobs).expect(as_observations(h))
        results.append((e.log_likelihood, e.statistics.to_arrays()))
    for log_likelihood, arrays in results[1:]:
        assert log_likelihood == results[0][0]
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, results[0][1][name])


def test_side_by_side_or_one_at_a_time_is_the_same():
    rng = np.random.default_rng(10)
    for d, p in ((2, 3), (5, 10), (3, 1)):
        lds = oracles.random_lds(d, p, rng)
        data = np.array([oracles.sample(lds, 7, rng)[1] for _ in range(21)])
        together = sums(model(lds).expect(data).statistics)
        alone = oracles.mean_statistics([sums(model(lds).expect(v).statistics) for v in data])
        assert_same_sums(together, alone, 1e-11)


def test_sequences_that_miss_the_same_share_their_covariances():
    data = np.random.default_rng(0).normal(size=(6, 5, 2))
    data[1:4, 2, 0] = np.nan
    data[4, 2] = np.nan
    sequences = as_observations(data)
    order = np.concatenate([part.order for part in sequences.parts])
    shares = np.concatenate([part.shares for part in sequences.parts])
    alike = {frozenset(order[i - 1 : i + 1].tolist()) for i in np.flatnonzero(shares)}
    assert frozenset({0, 5}) in alike and frozenset({1, 2}) in alike and frozenset({2, 3}) in alike
    assert shares.sum() == 3
    part = sequences.part(1, 3)
    assert isinstance(part, Observations) and len(part) == 2
    assert part.kinds.tolist() == Observations(part.X, part.lengths).kinds.tolist()


def test_an_observation_without_density_is_refused():
    rng = np.random.default_rng(11)
    lds = oracles.random_lds(2, 3, rng).with_(R=np.zeros((3, 3)))
    with pytest.raises(ValueError, match="no density"):
        model(lds).infer(np.zeros((4, 3)), False)
    with pytest.raises(ValueError, match="no density"):
        model(lds).expect(np.zeros((4, 3)))


def test_named_views_lie_where_kernels_look():
    m = model(oracles.random_lds(3, 5, np.random.default_rng(12)))
    space = Workspace(m.system, 4)
    begins = space.places[0]
    for letter, value in m.system.items():
        np.testing.assert_array_equal(getattr(space.system, letter), value)
        assert space.x[begins["system"][letter]] == value.flat[0]
    space.sums.put(vh=np.full((5, 3), 2.0), weight=7.0)
    begin = begins["sums"]["vh"]
    rows = space.x[begin : begin + 5 * begins["dd"]].reshape(5, -1)
    # What pads the rows is neither shown nor written.
    np.testing.assert_array_equal(rows, np.pad(space.sums.vh, ((0, 0), (0, begins["dd"] - 3))))
    assert space.x[begins["sums"]["weight"]] == 7.0
    with pytest.raises(AttributeError, match="nothing"):
        _ = space.nothing


def test_kernels_of_one_ability_are_not_taken_for_those_of_another():
    # Numba converts records to those with fewer fields.
    system = {
        "m": np.zeros(1), "V": np.eye(1), "A": np.eye(1), "b": np.zeros(1), "Q": np.eye(1),
        "C": np.eye(1), "c": np.zeros(1), "R": np.eye(1),
    }  # fmt: skip
    kinds = [
        numba.typeof(Workspace(system, 3, abilities=abilities).places[0])
        for abilities in ((), (ROOTS,), (LANES,), (ROOTS, LANES))
    ]
    for one, other in itertools.permutations(kinds, 2):
        assert one.can_convert_to(None, other) is None


def test_places_of_all_sizes_are_of_one_type():
    """Numba compares types that are not the same object field by field, in each call."""
    rng = np.random.default_rng(0)
    kinds = {
        id(Workspace(model(oracles.random_lds(d, p, rng)).system, longest).places.dtype)
        for d, p, longest in ((1, 1, 1), (2, 3, 1), (5, 4, 300))
    }
    assert len(kinds) == 1
