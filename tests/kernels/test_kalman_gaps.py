"""Sequences with missing values side by side, against the textbook recursions."""

import numpy as np
import pytest

from fastem.kalman import gaps
from fastem.kalman.data import as_observations, as_table
from fastem.kalman.gaps import Lanes
from fastem.kernels.kalman.gaps import DONE, NOT_FORGOTTEN, REFUSED, WIDTH

from cases.kalman import assert_same_sums, model, sums, with_gaps
from oracles import kalman as oracles


def recursion(lds, v):
    """Filtered and smoothed means and covariances, lags, and log-likelihoods of steps."""
    m, P = lds.m, lds.V
    filtered, predicted, gains = [], [], []
    for row in v:
        predicted.append((m, P))
        seen = ~np.isnan(row)
        C, e = lds.C[seen], (row - lds.C @ m - lds.c)[seen]
        S = C @ P @ C.T + lds.R[np.ix_(seen, seen)]
        K = np.linalg.solve(S, C @ P).T if seen.any() else np.zeros((lds.d, 0))
        gains.append(
            -0.5 * (np.linalg.slogdet(2 * np.pi * S)[1] + e @ np.linalg.solve(S, e))
            if seen.any()
            else 0.0
        )
        keep = np.eye(lds.d) - K @ C
        m, P = m + K @ e, keep @ P @ keep.T + K @ lds.R[np.ix_(seen, seen)] @ K.T
        filtered.append((m, P))
        m, P = lds.A @ m + lds.b, lds.A @ P @ lds.A.T + lds.Q
    smoothed, lags = [filtered[-1]], [np.zeros((lds.d, lds.d))]
    for t in reversed(range(len(v) - 1)):
        (m, P), (n, N), (s, S) = filtered[t], predicted[t + 1], smoothed[0]
        J = np.linalg.solve(N, lds.A @ P).T
        smoothed.insert(0, (m + J @ (s - n), P + J @ (S - N) @ J.T))
        lags.insert(0, S @ J.T)
    arrays = [np.array(part) for pair in (filtered, smoothed) for part in zip(*pair, strict=True)]
    return *arrays, np.array(lags), np.array(gains)


def assert_infers(m, lds, v, tolerance=1e-9):
    means, covariances, smoothed, spreads, lags, gains = recursion(lds, v)
    found = m.infer(v, False)
    for got, expected in zip(found, (means, covariances), strict=False):
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)
    found = m.infer(v, True, lags=True)
    for got, expected in zip(found, (smoothed, spreads, lags, gains), strict=True):
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(m.log_likelihoods(v), gains.sum(), rtol=tolerance)


class Watched(Lanes):
    """Lanes that say how each batch went."""

    went: list = []  # noqa: RUF012

    def _result(self, batch, group=()):
        result = super()._result(batch, group)
        self.went.append((batch.warm_up, bool(group), result[0]))
        return result


@pytest.fixture
def went(monkeypatch):
    monkeypatch.setattr(gaps, "Lanes", Watched)
    monkeypatch.setattr(Watched, "went", [])
    return Watched.went


@pytest.mark.parametrize(
    ("d", "p", "share", "radius"),
    [(1, 1, 0.3, 0.9), (2, 3, 0.1, 0.98), (5, 10, 0.1, 0.9), (3, 20, 0.3, 0.5), (4, 2, 0.5, 0.9),
     (9, 4, 0.2, 0.7)],
)  # fmt: skip
def test_chunks_of_a_long_sequence(d, p, share, radius, went):
    rng = np.random.default_rng(d + p)
    lds = oracles.random_lds(d, p, rng, radius=radius)
    v = with_gaps(oracles.sample(lds, 1777, rng)[1], rng, share)
    v[300:310] = np.nan
    assert_infers(model(lds), lds, v)
    assert REFUSED not in [result for _, _, result in went]
    assert all(warm_up > 0 for warm_up, _, _ in went)


def test_several_rounds_of_chunks_and_threads(went):
    rng = np.random.default_rng(1)
    lds = oracles.random_lds(2, 4, rng, radius=0.5)
    v = with_gaps(oracles.sample(lds, 5000, rng)[1], rng, 0.2)
    assert_infers(model(lds), lds, v)
    assert sum(has_group for _, has_group, _ in went) > 3
    one, three = (model(lds, n_jobs=n) for n in (1, 3))
    for a, b in zip(one.infer(v, True, lags=True), three.infer(v, True, lags=True), strict=True):
        np.testing.assert_array_equal(a, b)
    a, b = one.expect(v), three.expect(v)
    assert a.log_likelihood == b.log_likelihood
    for name in a.statistics:
        np.testing.assert_array_equal(a.statistics[name].scatter, b.statistics[name].scatter)


def test_chunks_that_remember_their_beginning_are_not_used(went):
    # A random walk forgets nothing where nothing is observed.
    rng = np.random.default_rng(2)
    lds = oracles.random_lds(2, 2, rng)
    lds = lds.with_(A=np.eye(2), b=np.zeros(2), C=np.eye(2), Q=np.eye(2), R=np.eye(2))
    v = with_gaps(oracles.sample(lds, 1500, rng)[1], rng, 0.1)
    v[400:1300] = np.nan
    assert_infers(model(lds), lds, v, 1e-8)
    results = [result for _, has_group, result in went if has_group]
    assert NOT_FORGOTTEN in results and DONE in results


def test_what_forgets_too_slowly_stays_whole(went):
    rng = np.random.default_rng(3)
    lds = oracles.random_lds(2, 1, rng, radius=0.9999)
    lds = lds.with_(Q=1e-6 * lds.Q, R=10.0 * lds.R)
    v = with_gaps(oracles.sample(lds, 700, rng)[1], rng, 0.1)
    assert_infers(model(lds), lds, v, 1e-7)
    assert [warm_up for warm_up, has_group, _ in went if has_group] == [0, 0, 0]


@pytest.mark.parametrize("weighted", [False, True])
def test_statistics_of_long_and_short_sequences(weighted):
    rng = np.random.default_rng(4)
    lds = oracles.random_lds(3, 5, rng, radius=0.6)
    lds = lds.with_(c=lds.c + 100.0)
    lengths = [600, 7, 7, 7, 1, 30, 250, 2, *[12] * 9]
    sequences = [with_gaps(oracles.sample(lds, T, rng)[1], rng, 0.2) for T in lengths]
    sequences[5] = oracles.sample(lds, 30, rng)[1]
    sequences[2][:] = np.nan
    weights = rng.random(len(lengths)) if weighted else np.ones(len(lengths))
    weights[3] = 0.0 if weighted else 1.0
    m = model(lds)
    table = as_observations(sequences, sample_weight=weights if weighted else None)
    found = m.expect(table)
    expected, total = {}, 0.0
    for v, weight in zip(sequences, weights, strict=True):
        *_, means, spreads, lags, gains = recursion(lds, v)
        total += weight * gains.sum()
        for name, value in statistics_of(lds, v, means, spreads, lags).items():
            expected[name] = expected.get(name, 0.0) + weight * value
    expected = {name: value / weights.sum() for name, value in expected.items()}
    assert_same_sums(sums(found.statistics), expected, 1e-9)
    np.testing.assert_allclose(found.log_likelihood, total / weights.sum(), rtol=1e-10)
    each = [recursion(lds, v)[-1].sum() for v in sequences]
    np.testing.assert_allclose(m.log_likelihoods(table), each, rtol=1e-10, atol=1e-10)


def statistics_of(lds, v, means, spreads, lags):
    """The oracle's sums of one sequence, from its smoothed states."""
    d, p = lds.d, lds.p
    out = dict.fromkeys(("n", "transitions", "observed"), 0.0)
    second = spreads + np.einsum("ti,tj->tij", means, means)
    pairs = lags[:-1] + np.einsum("ti,tj->tij", means[1:], means[:-1])
    out.update(n=1.0, transitions=len(v) - 1.0, h1=means[0], P1=second[0])
    out.update(h_to=means[1:].sum(0), h_from=means[:-1].sum(0))
    out.update(S11=second[1:].sum(0), S00=second[:-1].sum(0), S10=pairs.sum(0))
    out.update(h=np.zeros(d), v=np.zeros(p), Shh=np.zeros((d, d)), Svh=np.zeros((p, d)),
               Svv=np.zeros((p, p)))  # fmt: skip
    for row, mean, spread in zip(v, means, spreads, strict=True):
        seen = ~np.isnan(row)
        if not seen.any():
            continue
        # What is missing, given the state h and what is seen: v = D h + B + noise of covariance N.
        D, B, N = np.zeros((p, d)), row.copy(), np.zeros((p, p))
        gone = ~seen
        G = np.linalg.solve(lds.R[np.ix_(seen, seen)], lds.R[np.ix_(seen, gone)]).T
        D[gone] = lds.C[gone] - G @ lds.C[seen]
        B[gone] = lds.c[gone] + G @ (row - lds.c)[seen]
        N[np.ix_(gone, gone)] = lds.R[np.ix_(gone, gone)] - G @ lds.R[np.ix_(seen, gone)]
        whole = D @ mean + B
        out["observed"] += 1.0
        out["h"] = out["h"] + mean
        out["v"] = out["v"] + whole
        out["Shh"] = out["Shh"] + spread + np.outer(mean, mean)
        out["Svh"] = out["Svh"] + np.outer(whole, mean) + D @ spread
        out["Svv"] = out["Svv"] + np.outer(whole, whole) + D @ spread @ D.T + N
    return out


@pytest.mark.parametrize("many_complete", [False, True])
def test_what_the_lanes_refuse_is_done_one_after_another(many_complete, went):
    # Observations with next to no noise of all there is: the predicted state is nearly known.
    rng = np.random.default_rng(5)
    lds = oracles.random_lds(2, 2, rng).with_(Q=np.diag([1.0, 1e-14]))
    lds = lds.with_(A=np.diag([0.9, 0.5]), R=1e-6 * np.eye(2), C=np.eye(2))
    sequences = [oracles.sample(lds, T, rng)[1] for T in (9, 9, 20, 9)]
    sequences[0][3, 1] = sequences[2][7] = np.nan
    if many_complete:
        sequences += [oracles.sample(lds, 30, rng)[1] for _ in range(2)]
    m = model(lds)
    means, covariances, lags, gains = m.infer(as_table(sequences), True, lags=True)
    assert REFUSED in [result for _, _, result in went]
    at = 0
    for v in sequences:
        alone = m.infer(v, True, lags=True)
        for got, expected in zip((means, covariances, lags, gains), alone, strict=True):
            np.testing.assert_allclose(got[at : at + len(v)], expected, rtol=1e-9, atol=1e-12)
        at += len(v)
    expectation = m.expect(as_observations(sequences))
    parts = [m.expect(as_observations([v])) for v in sequences]
    np.testing.assert_allclose(
        expectation.log_likelihood, np.mean([part.log_likelihood for part in parts])
    )


@pytest.mark.parametrize("d", [2, 12])
@pytest.mark.parametrize("share", [0.2, 0.9])
def test_one_after_another_and_side_by_side_are_the_same(d, share, monkeypatch):
    rng = np.random.default_rng(d)
    lds = oracles.random_lds(d, 3, rng)
    sequences = [with_gaps(oracles.sample(lds, T, rng)[1], rng, share) for T in [40] * 11 + [5]]
    m, table = model(lds), as_observations(sequences)
    side_by_side = m.expect(table), m.log_likelihoods(table), m.infer(table, True)
    monkeypatch.setattr(gaps, "chosen", lambda *_: np.empty(0, np.int64))
    alone = m.expect(table), m.log_likelihoods(table), m.infer(table, True)
    assert_same_sums(sums(side_by_side[0].statistics), sums(alone[0].statistics))
    np.testing.assert_allclose(side_by_side[0].log_likelihood, alone[0].log_likelihood, rtol=1e-12)
    np.testing.assert_allclose(side_by_side[1], alone[1], rtol=1e-10, atol=1e-10)
    for a, b in zip(side_by_side[2], alone[2], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("n_rows", [193, 256, 1000, 12_345])
@pytest.mark.parametrize("warm_up", [32, 64, 128])
def test_chunks_cover_a_sequence_exactly(n_rows, warm_up):
    m = model(oracles.random_lds(2, 2, np.random.default_rng(0)))
    lanes = Lanes(m, as_table(np.zeros((n_rows, 2))), None)
    batches = lanes._chunks(0, gaps.Start(warm_up, np.zeros(6)))
    if batches is None:
        assert 4 * warm_up > n_rows
        return
    counted = np.zeros(n_rows, int)
    rows = np.concatenate([batch.lanes for batch in batches])
    assert len(rows) % WIDTH == 0
    for first, begins, ends, start, stop in rows:
        assert first >= 0 and first + batches[0].n_steps <= n_rows
        assert start >= (0 if begins else warm_up)
        assert stop <= batches[0].n_steps - (0 if ends else warm_up)
        counted[first + start : first + stop] += 1
    assert (counted == 1).all()
