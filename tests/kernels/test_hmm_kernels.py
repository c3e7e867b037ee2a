"""Forward, backward, Viterbi and usages: all paths, all logarithms, at the edges of the layouts."""

import numpy as np
import pytest

from fastem.data.sequences import Sequences
from fastem.families import Categorical, Gaussian
from fastem.hmm import long_sequences
from fastem.hmm import passes as hmm_passes
from fastem.hmm.few import are_few
from fastem.hmm.model import HMMModel
from fastem.kernels.hmm import forgetting
from fastem.kernels.hmm.layout import lay_out
from fastem.kernels.hmm.usages import absorbing_usages, fixed_length_usages

from cases.families import assert_same_statistics, assert_statistics
from cases.hmm import ALL, BY_NAME, Hidden, log_densities, smoothed
from oracles import hmm as hmm_oracles

every = pytest.mark.parametrize("case", ALL, ids=str)


def assert_smoothed(case, hidden, data, brute=False, model=None, **tolerances):
    """Likelihoods, posteriors, statistics and best paths are the oracles'."""
    model = case.model(hidden) if model is None else model
    X, lengths = np.asarray(data.X, dtype=float), data.lengths
    want = smoothed(case, hidden, X, lengths, data.sample_weight, data.cut_off, brute)
    scores, posteriors = model.infer(data, posteriors=True)
    np.testing.assert_allclose(scores, want.log_likelihoods, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(posteriors, want.posteriors, rtol=0, atol=1e-10)
    np.testing.assert_allclose(model.infer(data)[0], want.log_likelihoods, rtol=1e-11, atol=1e-11)
    got = model.expect(data)
    assert_statistics(
        got.statistics, want.statistics, **{"rtol": 1e-9, "atol": 1e-11, **tolerances}
    )
    weights = np.ones(len(data)) if data.sample_weight is None else data.sample_weight
    mean = weights @ want.log_likelihoods / weights.sum()
    assert got.log_likelihood == pytest.approx(mean, rel=1e-11)
    assert got.weight == pytest.approx(weights.sum(), rel=1e-14)
    assert_decoded(case, hidden, data, model, brute)
    is_few = data.cut_off is None and are_few(len(X), len(data), model.n_components)
    # Families that prepare their rows, or leave a part of the density out, go another way.
    if is_few and model.few.support is not None:
        assert_few(model, data, want)


def assert_few(model, data, want):
    """One call of a kernel for all of them gives the same."""
    few = model.few
    batch = few.batch(np.asarray(data.X), data.lengths)
    found = few.scores(batch), few.posteriors(batch)
    for scores, _ in found:
        np.testing.assert_allclose(scores, want.log_likelihoods, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(found[1][1], want.posteriors, rtol=0, atol=1e-10)
    for got, expected in zip(few.paths(batch), model.decode(data), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12)


def assert_decoded(case, hidden, data, model, brute=False):
    scores, states = model.decode(data)
    X = np.asarray(data.X, dtype=float)
    every_log_b = log_densities(case, hidden, X, data.lengths, data.cut_off)
    parts = np.split(states, np.cumsum(data.lengths)[:-1])
    for score, part, log_b in zip(scores, parts, every_log_b, strict=True):
        if brute:
            *_, path, best = hmm_oracles.brute_force(hidden.startprob, hidden.transmat, log_b)
        else:
            path, best = hmm_oracles.viterbi(hidden.startprob, hidden.transmat, log_b)
        assert score == pytest.approx(best, rel=1e-11)
        np.testing.assert_array_equal(part, path)


# Over all paths -------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("absorbing", [False, True])
def test_everything_is_what_summing_over_all_paths_gives(case, absorbing):
    rng = np.random.default_rng(1)
    for n_states in (2, 3):
        hidden = case.hidden(rng, n_states, absorbing, zeros=n_states == 3)
        # Eight or more side by side, a few, and one alone; absorption takes a second step.
        for lengths in ([6, 5, 4, 6, 3, 2, 6, 5, 2, 4], [6, 2, 2], [5]):
            labels = rng.integers(n_states, size=sum(lengths))
            X = case.oracle.sample(hidden.parameters, labels, rng)
            weights = rng.uniform(0.2, 2, len(lengths)) if len(lengths) > 1 else None
            assert_smoothed(case, hidden, Sequences(X, lengths, weights), brute=True)


@pytest.mark.parametrize("case", [BY_NAME["full"], BY_NAME["categorical"]], ids=str)
def test_cut_off_sequences_are_those_that_have_not_ended(case):
    rng = np.random.default_rng(2)
    hidden = case.hidden(rng, 3, absorbing=True)
    lengths = np.array([1, 4, 2, 5, 3, 3, 2, 4, 5, 6])
    X = case.oracle.sample(hidden.parameters, rng.integers(3, size=lengths.sum()), rng)
    cut_off = np.arange(10) % 2 == 0
    assert_smoothed(case, hidden, Sequences(X, lengths, None, cut_off), brute=True)
    # Ended or not yet, or ended before: the probabilities of all add to one.
    log_p = [case.model(hidden).infer(Sequences(X, lengths, None, np.full(10, cut)))[0]
             for cut in (True, False)]  # fmt: skip
    plain = HMMModel(case.family, hidden.startprob, hidden.transmat, hidden.parameters)
    first = lengths == 1
    np.testing.assert_allclose(
        np.logaddexp(*log_p)[first], plain.infer(Sequences(X, lengths))[0][first], rtol=1e-12
    )


# Against recursions in logarithms -------------------------------------------------------------

LAYOUTS = {
    "one step": [1],
    "single steps": [1] * 11,
    "one": [7],
    "few": [3, 4, 5],
    "equal": [9] * 21,
    "ragged": [*range(1, 40), 17, 3],
    "one long": [700, 2, 30, 1, 29, 31, 30, 28, 30, 27],
    "blocks": [255, 256, 257, 256, 255, 257, 254, 258, 31],
}


@pytest.mark.parametrize("n_states", [1, 2, 3, 4, 5, 8, 9])
@pytest.mark.parametrize("lengths", LAYOUTS.values(), ids=LAYOUTS)
def test_layouts_of_all_sizes(lengths, n_states):
    case = BY_NAME["diag"]
    rng = np.random.default_rng(3)
    hidden = case.hidden(rng, n_states)
    X = 2 * rng.normal(size=(sum(lengths), 2))
    weights = rng.uniform(0.1, 3, len(lengths)) if n_states % 2 else None
    assert_smoothed(case, hidden, Sequences(X, lengths, weights), rtol=1e-8)


def test_layouts_hold_every_sequence_once_and_both_kinds_occur():
    for lengths in LAYOUTS.values():
        layout = lay_out(lengths, 3)
        counts = np.maximum(layout.count, 1)
        assert sorted(layout.order) == list(range(len(lengths)))
        np.testing.assert_array_equal(layout.first, np.cumsum(counts) - counts)
        for first, count, steps in zip(layout.first, counts, layout.steps, strict=True):
            assert steps == max(lengths[s] for s in layout.order[first : first + count])
    kinds = {name: set(lay_out(lengths, 3).count > 0) for name, lengths in LAYOUTS.items()}
    assert kinds["equal"] == {True} and kinds["one long"] == {True, False}


@pytest.mark.parametrize("segment_entries", [2**7, 2**11, 2**23])
@pytest.mark.parametrize("name", ["full", "poisson", "mixture-diag"])
def test_long_sequences_and_segments_of_them(monkeypatch, name, segment_entries):
    monkeypatch.setattr(hmm_passes, "_LONG_ENTRIES", 2**9)
    monkeypatch.setattr(long_sequences, "_FORGET_STEPS", ())
    monkeypatch.setattr(long_sequences, "_SEGMENT_ENTRIES", segment_entries)
    case = BY_NAME[name]
    rng = np.random.default_rng(4)
    lengths, weights = [900, 3, 400, 150], np.array([1.0, 2.0, 0.5, 3.0])
    for n_states in (1, 3, 8):
        hidden = case.hidden(rng, n_states)
        X = case.oracle.sample(hidden.parameters, rng.integers(n_states, size=sum(lengths)), rng)
        data = Sequences(X, lengths, weights)
        assert any(piece.long for piece in hmm_passes.pieces_of(data, n_states))
        assert_smoothed(case, hidden, data, rtol=1e-8)


@pytest.fixture
def outcomes(monkeypatch):
    """Long sequences are cut into many short stretches; what became of each trial."""
    found = []

    def smooth(*args):
        score, outcome = smooth_runs(*args)
        found.append(outcome)
        return score, outcome

    smooth_runs = long_sequences._smooth_runs
    monkeypatch.setattr(long_sequences, "_smooth_runs", smooth)
    monkeypatch.setattr(hmm_passes, "_LONG_ENTRIES", 2**6)
    monkeypatch.setattr(long_sequences, "_STRETCH_ENTRIES", 2**6)
    monkeypatch.setattr(long_sequences, "_RUN_ENTRIES", 2**9)
    return found


@pytest.mark.parametrize("case", [c for c in ALL if c.name != "interleaved"], ids=str)
def test_long_sequences_in_stretches_that_forget(monkeypatch, outcomes, case):
    """Any cut into stretches gives the oracle's numbers, in chains that forget soon."""
    monkeypatch.setattr(long_sequences, "_FORGET_STEPS", (60,))
    rng = np.random.default_rng(40)
    for n_states in (1, 3, 8):
        hidden, X, lengths = case.problem(n_states, [1500, 2, 700], n_states=n_states)
        # Each state is reached soon from each.
        hidden = hidden._replace(transmat=0.5 * hidden.transmat + 0.5 / n_states)
        data = Sequences(X, lengths, rng.uniform(0.5, 2, 3))
        assert_smoothed(case, hidden, data, rtol=1e-8)
    assert set(outcomes) == {forgetting.FINE}


@pytest.mark.parametrize("stay", [0.5, 0.9, 0.99, 0.999, 1.0])
@pytest.mark.parametrize("apart", [0.01, 1.0, 5.0])
def test_a_chain_that_does_not_forget_in_time_is_noticed(outcomes, stay, apart):
    """However long the chain remembers: never a wrong number."""
    rng = np.random.default_rng(41)
    transmat = np.full((3, 3), (1 - stay) / 2) + np.eye(3) * (1.5 * stay - 0.5)
    hidden = diagonal(apart * rng.normal(size=(3, 2)), [0.7, 0.2, 0.1], transmat)
    X = apart * rng.normal(size=(2000, 2)) + rng.normal(size=(2000, 2))
    assert_smoothed(BY_NAME["diag"], hidden, Sequences(X, [2000]), rtol=1e-8)
    if stay == 1.0 and apart == 0.01:
        assert forgetting.DIFFERENT in outcomes
    if stay == 0.5:
        assert set(outcomes) == {forgetting.FINE}


def test_chains_in_order_and_in_turn_are_never_taken_for_forgetful(outcomes):
    """Left to right, and states that follow each other in a ring: zeros, and periods."""
    rng = np.random.default_rng(42)
    means = np.arange(4)[:, None] * np.ones((4, 2))
    forward = 0.95 * np.eye(4) + 0.05 * np.eye(4, k=1)
    forward[3] = [0, 0, 0, 1]
    ring = np.roll(np.eye(4), 1, axis=1)
    for transmat in (forward, ring, 0.999 * ring + 0.00025):
        hidden = diagonal(0.01 * means, [1.0, 0, 0, 0], transmat)
        X = rng.normal(size=(1200, 2))
        assert_smoothed(BY_NAME["diag"], hidden, Sequences(X, [1200]), rtol=1e-8)
    assert forgetting.DIFFERENT in outcomes


def test_what_is_rare_in_one_stretch_decides_in_another(outcomes):
    """State 2 is impossible to tell for long, then alone explains one step in the middle."""
    transmat = [[0.5, 0.5, 0], [0.5, 0.5, 0], [1e-3, 0, 1 - 1e-3]]
    hidden = diagonal([[0, 0], [0, 0], [3, 3]], [0.5, 0.5 - 1e-290, 1e-290], transmat)
    X = np.zeros((900, 2))
    X[640] = [60, 60]
    assert_smoothed(BY_NAME["diag"], hidden, Sequences(X, [900]), rtol=1e-8)


def test_distances_between_vectors_of_states_never_grow():
    """What lets the edges of stretches vouch for all that lies between."""
    rng = np.random.default_rng(43)
    for _ in range(300):
        n = rng.integers(2, 9)
        matrix = rng.exponential(size=(n, n)) ** rng.integers(1, 6)
        x = rng.exponential(size=n)
        y = x * np.exp(10.0 ** rng.integers(-12, 2) * rng.normal(size=n))
        assert hilbert(x @ matrix, y @ matrix) <= hilbert(x, y) * (1 + 1e-9) + 1e-14


def hilbert(x, y):
    return np.log((x / y).max() / (x / y).min())


def test_vectors_that_agree():
    x, rare = np.array([0.3, 0.0, 0.7]), np.array([0.3, 1e-300, 0.7])
    assert forgetting.agree(x, 5 * x, 3) and forgetting.agree(np.zeros(3), np.zeros(3), 3)
    assert forgetting.agree(x, x * [1, 1, 1 + 5e-13], 3)
    assert not forgetting.agree(x, x * [1, 1, 1 + 5e-12], 3)
    assert not forgetting.agree(x, rare, 3)
    assert not forgetting.agree(rare, x, 3)


def test_long_sequences_that_absorb(monkeypatch):
    monkeypatch.setattr(hmm_passes, "_LONG_ENTRIES", 2**6)
    monkeypatch.setattr(long_sequences, "_SEGMENT_ENTRIES", 2**8)
    case = BY_NAME["diag"]
    rng = np.random.default_rng(5)
    hidden = case.hidden(rng, 3, absorbing=True)
    data = Sequences(rng.normal(size=(400, 2)), [300, 100], None, np.array([False, True]))
    assert_smoothed(case, hidden, data)


@pytest.mark.parametrize("case", [c for c in ALL if c.name != "interleaved"], ids=str)
def test_any_number_of_threads_gives_the_same_bits(monkeypatch, case):
    monkeypatch.setattr(hmm_passes, "_LONG_ENTRIES", 2**10)
    monkeypatch.setattr(hmm_passes, "_MOST_ENTRIES", 2**10)
    rng = np.random.default_rng(6)
    lengths = [*rng.integers(1, 60, 60), 1500]
    hidden, X, lengths = case.problem(7, lengths)
    data = Sequences(X, lengths, rng.uniform(0, 2, len(lengths)))
    assert len(hmm_passes.pieces_of(data, 3)) > 4
    one, two = (case.model(hidden, n_jobs=n_jobs) for n_jobs in (1, 2))
    a, b = one.expect(data), two.expect(data)
    assert_same_statistics(a.statistics, b.statistics, rtol=0, atol=0)
    assert a.log_likelihood == b.log_likelihood
    for got, want in zip(
        (*one.infer(data, posteriors=True), *one.decode(data)),
        (*two.infer(data, posteriors=True), *two.decode(data)),
        strict=True,
    ):
        np.testing.assert_array_equal(got, want)


# Rows of every kind ---------------------------------------------------------------------------


def test_rows_are_read_as_they_lie(tmp_path):
    case = BY_NAME["poisson"]
    hidden, X, lengths = case.problem(8, [30, 2, 41, 17, 5, 5, 8, 9, 20])
    wide = np.zeros((2 * len(X), 5))
    wide[::2, 1::2] = X
    np.save(tmp_path / "rows.npy", X.astype(np.int32))
    forms = [
        X.astype(np.float32), X.astype(np.int16), X.astype(np.uint8), np.asfortranarray(X),
        wide[::2, 1::2], X[::-1].copy()[::-1], X.astype(">f8"),
        np.load(tmp_path / "rows.npy", mmap_mode="r"),
    ]  # fmt: skip
    want = case.model(hidden).expect(Sequences(X, lengths))
    for form in forms:
        got = case.model(hidden).expect(Sequences(form, lengths))
        assert_same_statistics(got.statistics, want.statistics, rtol=1e-14, atol=1e-15)
        assert got.log_likelihood == pytest.approx(want.log_likelihood, rel=1e-14)
    lists = np.split(X, np.cumsum(lengths)[:-1])
    got = case.model(hidden).expect(lists)
    assert_same_statistics(got.statistics, want.statistics, rtol=0, atol=0)


@every
def test_streams_and_shards_add_up_to_the_whole(case):
    lengths = [4] * 12 if "multinomial" in case.name else [5, 1, 9, 3, 4, 6, 2, 8, 1, 1, 7, 3]
    hidden, X, lengths = case.problem(9, lengths)
    weights = np.random.default_rng(10).uniform(0.1, 2, 12)
    model, data = case.model(hidden), Sequences(X, lengths, weights)
    whole = model.expect(data)
    parts = [data.part(0, 3), data.part(3, 4), data.part(4, 12)]
    for added in (sum(map(model.expect, parts)), model.expect(lambda: iter(parts))):
        assert_same_statistics(added.statistics, whole.statistics, rtol=1e-11, atol=1e-13)
        assert added.log_likelihood == pytest.approx(whole.log_likelihood, rel=1e-12)
        assert added.weight == pytest.approx(weights.sum(), rel=1e-14)
        np.testing.assert_allclose(
            added.horizon[0].survival(), whole.horizon[0].survival(), rtol=1e-13, atol=1e-16
        )


@every
def test_a_sequence_of_weight_two_is_two_sequences(case):
    hidden, X, lengths = case.problem(11, [4, 1, 6, 2, 5, 3])
    counts = np.array([2, 0, 1, 3, 1, 0])
    twice = [part for part, n in zip(np.split(X, np.cumsum(lengths)[:-1]), counts, strict=True)
             for _ in range(n)]  # fmt: skip
    weighted = case.model(hidden).expect(Sequences(X, lengths, counts.astype(float)))
    repeated = case.model(hidden).expect(twice)
    assert_same_statistics(weighted.statistics, repeated.statistics, rtol=1e-12, atol=1e-13)
    assert weighted.log_likelihood == pytest.approx(repeated.log_likelihood, rel=1e-13)
    assert weighted.weight == counts.sum()


# Exact where plain numbers end ----------------------------------------------------------------


def diagonal(means, startprob=None, transmat=None, scale=1.0):
    means = np.asarray(means, dtype=float)
    K = len(means)
    startprob = np.full(K, 1 / K) if startprob is None else np.array(startprob)
    transmat = np.full((K, K), 1 / K) if transmat is None else np.array(transmat)
    parameters = {"means": means, "covariances": np.full(means.shape, scale)}
    return Hidden(startprob, transmat, parameters)


def repeated(X, n):
    return Sequences(np.concatenate([X] * n), [len(X)] * n)


COPIES = pytest.mark.parametrize("n", [1, 2, 9], ids=["alone", "few", "side by side"])


@COPIES
def test_a_likelihood_of_one_in_e_to_the_hundred_thousand(n):
    rng = np.random.default_rng(12)
    hidden = diagonal(15 * rng.normal(size=(3, 2)), None, rng.dirichlet(np.ones(3), 3))
    X = 80 * rng.normal(size=(30, 2))
    scores, _ = BY_NAME["diag"].model(hidden).infer(repeated(X, n))
    assert (scores < -1e5).all()
    assert_smoothed(BY_NAME["diag"], hidden, repeated(X, n))


@COPIES
def test_transitions_of_probability_1e_300(n):
    rng = np.random.default_rng(13)
    transmat = [[1 - 1e-300, 1e-300, 0], [1e-300, 1, 0], [0.5, 0.25, 0.25]]
    hidden = diagonal([[0, 0], [50, 50], [5, 5]], [1.0, 0, 0], transmat)
    # There, back and there again: 1e-900 in all.
    X = rng.normal(size=(15, 2)) + 50 * np.repeat([0, 1, 0], 5)[:, None]
    X[-1] += 50
    assert_smoothed(BY_NAME["diag"], hidden, repeated(X, n))
    # And where the data leave it open: the transition is in doubt, of posterior 1e-300 or so.
    assert_smoothed(BY_NAME["diag"], hidden, repeated(0.1 * rng.normal(size=(8, 2)), n))


@COPIES
@pytest.mark.parametrize("p, q", [(1e-100, 1e-220), (1e-200, 1e-200), (1e-60, 1e-249)])
def test_two_unlikely_transitions_in_a_row(n, p, q):
    """Neither is lost by itself; their product is out of range."""
    # The last state is as unlikely from anywhere, so that the one before it is not in doubt.
    hidden = diagonal([[0, 0], [50, 50], [-50, 50]], [1.0, 0, 0], [[1, p, q], [1, 0, q], [1, 0, q]])
    X = np.array([[0, 0], [50, 50], [-50, 50]]) + np.random.default_rng(22).normal(size=(3, 2))
    assert_smoothed(BY_NAME["diag"], hidden, repeated(X, n))


@COPIES
def test_states_that_are_impossible_at_some_step(n):
    """Zeros in the start and in the matrix: a state can be met only at some steps."""
    rng = np.random.default_rng(14)
    transmat = [[0, 1, 0, 0], [0, 0, 0.5, 0.5], [1, 0, 0, 0], [1, 0, 0, 0]]
    hidden = diagonal(rng.normal(size=(4, 2)), [1.0, 0, 0, 0], transmat)
    assert_smoothed(BY_NAME["diag"], hidden, repeated(rng.normal(size=(14, 2)), n))


@COPIES
@pytest.mark.parametrize(
    "long_entries, segment_entries", [(2**18, 2**23), (2**5, 2**23), (2**5, 2**7)]
)
def test_mass_that_is_lost_slowly(monkeypatch, n, long_entries, segment_entries):
    """A state of 1e-310 at first that the data favor, e^9 a step, until it is the only one."""
    monkeypatch.setattr(hmm_passes, "_LONG_ENTRIES", long_entries)
    monkeypatch.setattr(long_sequences, "_SEGMENT_ENTRIES", segment_entries)
    transmat = [[0.5, 0.5, 0], [0, 1.0, 0], [0, 0, 1]]
    hidden = diagonal([[0, 0], [0, 0], [3, 3]], [0.5, 0.5 - 1e-310, 1e-310], transmat)
    X = np.full((200, 2), 3.0)
    assert_smoothed(BY_NAME["diag"], hidden, repeated(X, n))
    _, posteriors = BY_NAME["diag"].model(hidden).infer(repeated(X, n), posteriors=True)
    assert posteriors[-1, 2] > 1 - 1e-12
    # The other way round: what is likely at first is ruled out by the last step alone.
    X = np.concatenate([np.zeros((60, 2)), [[80.0, 80.0]]])
    hidden = diagonal([[0, 0], [0, 0], [3, 3]], [0.5, 0.4, 0.1], np.eye(3) * 0.7 + 0.1)
    assert_smoothed(BY_NAME["diag"], hidden, repeated(X, n))


def test_mass_that_is_lost_in_one_segment_and_needed_in_the_next(monkeypatch):
    """State 2 is lost to underflow, recovers in part, and alone explains the last step.

    In the last segment nothing looks lost: state 2 is reached, much less likely, through state 1.
    """
    a, b, c = np.exp(-9), 1e-300, 1e-200
    seen = 0.2 * np.array([[1, a, 1, c], [b, b, 1, 1], [a, 1, 1, 1]])
    probabilities = np.hstack([seen, 1 - seen.sum(axis=1, keepdims=True)])[:, None]
    transmat = np.array([[1, 1e-130, 0], [0, 0.5, 0.5], [0, 0, 1]])
    hidden = Hidden(np.array([0.5, 0, 0.5]), transmat, {"probabilities": probabilities})
    X = np.repeat([0, 1, 2, 3], [90, 60, 1, 1])[:, None]
    monkeypatch.setattr(hmm_passes, "_LONG_ENTRIES", 2**5)
    monkeypatch.setattr(long_sequences, "_SEGMENT_ENTRIES", 4 * (len(X) - 1))
    model = HMMModel(Categorical(5), hidden.startprob, transmat, hidden.parameters)
    log_b = np.log(probabilities[:, 0, X[:, 0]]).T
    want = hmm_oracles.log_likelihood(hidden.startprob, transmat, log_b)
    scores = [model.infer(X, posteriors=posteriors)[0][0] for posteriors in (False, True)]
    np.testing.assert_allclose(scores, want, rtol=1e-12)


def test_impossible_sequences_are_minus_infinity_and_never_nan(monkeypatch):
    """A chain that must alternate, read from emissions that tell the states apart."""
    hidden = diagonal([[0, 0], [1, 1]], [1.0, 0.0], [[0, 1.0], [0, 1.0]])
    hidden = hidden._replace(absorbing=(1,), transmat=np.array([[1.0, 0.0], [0.0, 1.0]]))
    case = BY_NAME["diag"]
    rng = np.random.default_rng(15)
    lengths = [3, 4, 2, 5, 1, 3, 3, 2, 20]
    cut = np.arange(9) % 3 == 0
    for long_entries in (2**18, 2):
        monkeypatch.setattr(hmm_passes, "_LONG_ENTRIES", long_entries)
        X = rng.normal(size=(sum(lengths), 2))
        weights = np.where(cut, rng.uniform(1, 2, 9), 0.0)
        data = Sequences(X, lengths, weights, cut)
        model = case.model(hidden)
        scores, posteriors = model.infer(data, posteriors=True)
        np.testing.assert_array_equal(scores == -np.inf, ~cut)
        np.testing.assert_array_equal(model.infer(data)[0] == -np.inf, ~cut)
        np.testing.assert_array_equal(model.decode(data)[0] == -np.inf, ~cut)
        assert np.isfinite(posteriors).all() and np.isfinite(scores[cut]).all()
        # Those of no weight are ignored, whatever they hold.
        kept = [
            part for part, c in zip(np.split(X, np.cumsum(lengths)[:-1]), cut, strict=True) if c
        ]
        lone = case.model(hidden).expect(
            Sequences(np.concatenate(kept), [len(k) for k in kept], weights[cut], cut[cut])
        )
        got = model.expect(data)
        assert_same_statistics(got.statistics, lone.statistics, rtol=1e-12, atol=1e-13)
        assert got.log_likelihood == pytest.approx(lone.log_likelihood, rel=1e-13)
        # Those that count make the likelihood zero, and nothing NaN.
        got = model.expect(Sequences(X, lengths, None, cut))
        assert got.log_likelihood == -np.inf
        for array in got.statistics.to_arrays().values():
            assert np.isfinite(array).all()


@COPIES
def test_emissions_of_probability_zero(n):
    """Categories that a state never shows."""
    probabilities = np.array([[[1.0, 0, 0]], [[0, 0.5, 0.5]]])
    model = HMMModel(
        Categorical(3), [1.0, 0], [[0.5, 0.5], [1.0, 0.0]], {"probabilities": probabilities}
    )
    possible, impossible = np.array([[0], [1], [0], [0]]), np.array([[0], [1], [2], [0]])
    scores, posteriors = model.infer(repeated(possible, n), posteriors=True)
    np.testing.assert_allclose(scores, np.log(0.5 * 0.5 * 0.5), rtol=1e-13)
    np.testing.assert_array_equal(posteriors[:, 0], np.tile([1.0, 0, 1, 1], n))
    assert (model.infer(repeated(impossible, n))[0] == -np.inf).all()
    assert (model.decode(repeated(impossible, n))[0] == -np.inf).all()
    assert model.expect(repeated(impossible, n)).log_likelihood == -np.inf


# Viterbi --------------------------------------------------------------------------------------


@COPIES
def test_of_equally_likely_paths_hmmlearns_is_taken(n):
    """From the end: of equal states the first, and before it always the last."""
    transmat = np.array([[0, 0.5, 0.5, 0], [0.5, 0, 0, 0.5], [0.5, 0, 0, 0.5], [0, 0.5, 0.5, 0]])
    model = HMMModel(Categorical(2), np.full(4, 0.25), transmat,
                     {"probabilities": np.full((4, 1, 2), 0.5)})  # fmt: skip
    for length in (1, 2, 5, 6):
        X = np.zeros((length, 1))
        scores, states = model.decode(repeated(X, n))
        # 0 and 3 take turns with 1 and 2, so ending in 0 it comes from 2, which comes from 3.
        want = [3 if (length - 1 - t) % 2 == 0 else 2 for t in range(length - 1)] + [0]
        np.testing.assert_array_equal(states.reshape(n, length), [want] * n)
        np.testing.assert_allclose(scores, -(2 * length + 1) * np.log(2), rtol=1e-13)


# Usages ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_states", [1, 2, 5])
def test_usages_of_a_fixed_length_are_sums_of_powers(n_states):
    rng = np.random.default_rng(16)
    pi, A = rng.dirichlet(np.ones(n_states)), rng.dirichlet(np.ones(n_states), n_states)
    emitted, left = np.empty(n_states), np.empty(n_states)
    for n_steps in (1, 2, 7, 50):
        visits = [pi @ np.linalg.matrix_power(A, t) for t in range(n_steps)]
        fixed_length_usages(pi, A, np.ones(n_steps), emitted, left)
        np.testing.assert_allclose(emitted, np.sum(visits, axis=0), rtol=1e-12)
        np.testing.assert_allclose(left, np.sum(visits[:-1], axis=0), rtol=1e-12, atol=1e-300)
        assert emitted.sum() == pytest.approx(n_steps) and left.sum() == pytest.approx(n_steps - 1)


@pytest.mark.parametrize("n_absorbing", [1, 2])
def test_usages_until_absorption_are_sums_of_powers(n_absorbing):
    rng = np.random.default_rng(17)
    n = 4 + n_absorbing
    absorbing = np.zeros(n, np.uint8)
    absorbing[rng.choice(n, n_absorbing, replace=False)] = 1
    pi, A = rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(n), n)
    A[absorbing == 1] = np.eye(n)[absorbing == 1]
    emitted, left = np.empty(n), np.empty(n)
    assert absorbing_usages(pi, A, absorbing, emitted, left)
    t = np.flatnonzero(absorbing == 0)
    Q, R, start = A[np.ix_(t, t)], A[t][:, absorbing == 1], pi[t]
    u = sum(start @ np.linalg.matrix_power(Q, k) for k in range(3000))
    np.testing.assert_allclose(left[t], u, rtol=1e-11)
    np.testing.assert_array_equal(left[absorbing == 1], 0.0)
    np.testing.assert_allclose(emitted[t], u, rtol=1e-11)
    np.testing.assert_allclose(emitted[absorbing == 1], pi[absorbing == 1] + u @ R, rtol=1e-11)
    assert emitted[absorbing == 1].sum() == pytest.approx(1.0, rel=1e-12)


def test_usages_near_the_limit_and_chains_that_are_never_absorbed():
    emitted, left = np.empty(2), np.empty(2)
    for leave in (1e-3, 1e-9, 1e-12):
        A = np.array([[1 - leave, leave], [0, 1.0]])
        leaves = 1 - A[0, 0]  # as it is rounded
        assert absorbing_usages(np.array([1.0, 0]), A, np.array([0, 1]), emitted, left)
        assert left[0] == pytest.approx(1 / leaves, rel=1e-12)
    # No way out of state 0; a way out of it, but none out of state 1.
    parameters = {"means": np.zeros((3, 1)), "covariances": np.ones((3, 1))}
    for matrix in (np.eye(3), [[0.5, 0.25, 0.25], [0, 1, 0], [0, 0, 1.0]]):
        model = HMMModel(Gaussian("diag"), [1.0, 0, 0], matrix, parameters, absorbing=[2])
        with pytest.raises(ValueError, match="need not ever be absorbed"):
            model.own()
