"""fastem.functional: against all paths, NumPy, SciPy and hmmlearn's compiled recursions."""

import doctest
from itertools import product

import numpy as np
import pytest
from hmmlearn import _hmmc
from scipy import sparse, stats
from scipy.special import logsumexp

import fastem
from fastem import functional
from fastem.hmm import functions as hmm_functions
from fastem.kernels.hmm import given

from oracles import dirichlet as dirichlet_oracle
from oracles import hmm as oracle
from oracles import kalman as kalman_oracle


def problem(n_steps, n_states, seed=0, spread=2.0):
    rng = np.random.default_rng(seed)
    start, matrix = rng.dirichlet(np.ones(n_states)), rng.dirichlet(np.ones(n_states), n_states)
    return rng.normal(size=(n_steps, n_states)) * spread, start, matrix


def with_zeros(n_steps, n_states, seed=0):
    """Zeros in the start, in the matrix and among the likelihoods, and some path is possible."""
    x, start, matrix = problem(n_steps, n_states, seed)
    rng = np.random.default_rng(seed + 100)
    start[1:] = 0.0
    start[0] = 1.0
    matrix[rng.random(matrix.shape) < 0.3] = 0.0
    matrix[:, 0] += 0.1
    matrix /= matrix.sum(axis=1, keepdims=True)
    x[1:, 1:][rng.random((n_steps - 1, n_states - 1)) < 0.3] = -np.inf
    return x, start, matrix


TINY = [
    pytest.param(make(T, K, seed), id=f"{make.__name__} {T} {K} {seed}")
    for make, (T, K), seed in product(
        (problem, with_zeros), [(1, 2), (2, 1), (3, 2), (6, 2), (5, 3), (4, 4), (4, 5)], (0, 1)
    )
]


# Hidden Markov models ----------------------------------------------------------------------------


@pytest.mark.parametrize("given_problem", TINY)
def test_recursions_agree_with_all_paths(given_problem):
    x, start, matrix = given_problem
    total, posteriors, transitions, best, best_log_p = oracle.brute_force(start, matrix, x)
    found = functional.forward(x, start, matrix)
    assert isinstance(found.log_likelihood, float)
    assert found.log_likelihood == pytest.approx(total, rel=1e-12)
    assert found.log_scales.sum() == pytest.approx(total, rel=1e-12)
    for t in range(len(x)):
        # Filtered probabilities are posteriors of the last step of what came so far.
        so_far = oracle.brute_force(start, matrix, x[: t + 1])[1][-1]
        np.testing.assert_allclose(found.filtered[t], so_far, rtol=1e-10, atol=1e-14)
    found = functional.forward_backward(x, start, matrix)
    assert found.log_likelihood == pytest.approx(total, rel=1e-12)
    np.testing.assert_allclose(found.posteriors, posteriors, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(found.transitions, transitions, rtol=1e-10, atol=1e-14)
    found = functional.expected_transitions(x, start, matrix)
    np.testing.assert_allclose(found.transitions, transitions, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(found.start, posteriors[0], rtol=1e-10, atol=1e-14)
    found = functional.viterbi(x, start, matrix)
    assert found.log_probability == pytest.approx(best_log_p, rel=1e-12)
    assert found.states.tolist() == best.tolist()


@pytest.mark.parametrize("n_states", [1, 2, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("n_steps", [1, 2, 63, 64, 65, 1025, 5000])
def test_recursions_agree_with_hmmlearn(n_steps, n_states):
    x, start, matrix = problem(n_steps, n_states, n_steps)
    log_p, log_alpha = _hmmc.forward_log(start, matrix, x)
    log_beta = _hmmc.backward_log(start, matrix, x)
    found = functional.forward(x, start, matrix)
    assert found.log_likelihood == pytest.approx(log_p, rel=1e-11)
    filtered = np.exp(log_alpha - logsumexp(log_alpha, axis=1, keepdims=True))
    np.testing.assert_allclose(found.filtered, filtered, rtol=1e-8, atol=1e-13)
    found = functional.forward_backward(x, start, matrix)
    assert found.log_likelihood == pytest.approx(log_p, rel=1e-11)
    gamma = np.exp(log_alpha + log_beta - log_p)
    np.testing.assert_allclose(found.posteriors, gamma, rtol=1e-7, atol=1e-11)
    if n_steps > 1:
        xi = np.exp(_hmmc.compute_log_xi_sum(log_alpha, matrix, log_beta, x))
        np.testing.assert_allclose(found.transitions, xi, rtol=1e-7, atol=1e-10)
    best_log_p, states = _hmmc.viterbi(start, matrix, x)
    found = functional.viterbi(x, start, matrix)
    assert found.log_probability == pytest.approx(best_log_p, rel=1e-12)
    assert found.states.tolist() == states.tolist()


@pytest.mark.parametrize("n_states", [8, 13, 16, 17])
@pytest.mark.parametrize("around", [-1, 0, 1, 300])
def test_long_paths_go_on_from_block_to_block(n_states, around):
    # Up to sixteen states predecessors are kept, in blocks of steps; of more they are found again.
    steps = given.block_steps(4 * -(-n_states // 4), 10**6)
    rng = np.random.default_rng(n_states)
    x = rng.normal(size=(2 * steps + around, n_states))
    x[rng.random(x.shape) < 0.3] = -np.inf
    x[:, 0] = np.where(np.isinf(x).all(axis=1), 0.0, x[:, 0])
    start, matrix = rng.dirichlet(np.ones(n_states)), rng.dirichlet(np.ones(n_states), n_states)
    path, best = oracle.viterbi(start, matrix, x)
    found = functional.viterbi(x, start, matrix)
    assert np.isfinite(best)
    assert found.log_probability == pytest.approx(best, rel=1e-12)
    assert found.states.tolist() == path.tolist()
    several = functional.viterbi(x, start, matrix, [steps, 1, len(x) - steps - 1])
    assert several.states[:steps].tolist() == oracle.viterbi(start, matrix, x[:steps])[0].tolist()


@pytest.mark.parametrize("n_states", [2, 3, 4, 6, 9])
def test_equally_likely_paths_have_the_best_score(n_states):
    # Which of them is returned is not compared: whole numbers tie at almost every step.
    rng = np.random.default_rng(0)
    x = rng.integers(-1, 1, size=(300, n_states)).astype(float)
    start, matrix = np.full(n_states, 1 / n_states), np.full((n_states, n_states), 1 / n_states)
    found = functional.viterbi(x, start, matrix)
    assert found.log_probability == pytest.approx(_hmmc.viterbi(start, matrix, x)[0], rel=1e-12)
    path = found.states
    own = np.log(start[path[0]]) + np.log(matrix[path[:-1], path[1:]]).sum()
    own += x[np.arange(len(x)), path].sum()
    assert own == pytest.approx(found.log_probability, rel=1e-12)


@pytest.mark.parametrize("n_states", [1, 2, 3, 4, 5, 8, 9, 17])
@pytest.mark.parametrize("n_steps", [1, 2, 10, 64, 65])
def test_of_equal_predecessors_the_last_and_of_equal_ends_the_first(n_steps, n_states):
    start, matrix = np.full(n_states, 1 / n_states), np.full((n_states, n_states), 1 / n_states)
    expected = [n_states - 1] * (n_steps - 1) + [0]
    x = np.zeros((n_steps, n_states))
    assert functional.viterbi(x, start, matrix).states.tolist() == expected
    assert _hmmc.viterbi(start, matrix, x)[1].tolist() == expected


@pytest.mark.parametrize("n_states", [2, 3, 4, 5, 9])
@pytest.mark.parametrize("n_steps", [40, 700])
def test_nothing_is_lost_to_underflow(n_steps, n_states):
    # States that are all but impossible at one step become the only possible ones later.
    x, start, matrix = problem(n_steps, n_states, 3)
    x[5] = -1000.0 * np.arange(n_states)
    x[6] = -1000.0 * np.arange(n_states)[::-1] - 500.0
    x[20] = -2000.0
    x[20, -1] = 0.0
    matrix[:, -1] = 1e-280
    matrix /= matrix.sum(axis=1, keepdims=True)
    total = oracle.log_likelihood(start, matrix, x)
    found = functional.forward(x, start, matrix)
    assert found.log_likelihood == pytest.approx(total, rel=1e-11)
    np.testing.assert_allclose(
        found.filtered, oracle.filtered(start, matrix, x)[0], rtol=1e-8, atol=1e-13
    )
    smoothed = functional.forward_backward(x, start, matrix)
    assert smoothed.log_likelihood == pytest.approx(total, rel=1e-11)
    np.testing.assert_allclose(
        smoothed.posteriors, oracle.posteriors(start, matrix, x), rtol=1e-7, atol=1e-11
    )
    np.testing.assert_allclose(
        smoothed.transitions, oracle.transitions(start, matrix, x), rtol=1e-7, atol=1e-10
    )
    paths = functional.sample_states(x, start, matrix, n_samples=5, random_state=0)
    assert (paths[:, 20] == n_states - 1).all()


def test_a_left_to_right_chain():
    rng = np.random.default_rng(1)
    n_steps, n_states = 500, 6
    matrix = 0.98 * np.eye(n_states) + 0.02 * np.eye(n_states, k=1)
    matrix[-1, -1] = 1.0
    start = np.eye(n_states)[0]
    x = rng.normal(size=(n_steps, n_states))
    total = oracle.log_likelihood(start, matrix, x)
    assert functional.forward(x, start, matrix).log_likelihood == pytest.approx(total, rel=1e-12)
    found = functional.forward_backward(x, start, matrix)
    np.testing.assert_allclose(
        found.posteriors, oracle.posteriors(start, matrix, x), rtol=1e-8, atol=1e-12
    )
    paths = functional.sample_states(x, start, matrix, n_samples=20, random_state=0)
    assert set(np.diff(paths).ravel().tolist()) <= {0, 1} and (paths[:, 0] == 0).all()


def test_an_impossible_sequence():
    x, start, matrix = problem(6, 3)
    x[2] = -np.inf
    found = functional.forward(x, start, matrix)
    assert found.log_likelihood == -np.inf
    np.testing.assert_allclose(found.filtered[:2].sum(axis=1), 1.0)
    assert not found.filtered[2:].any()
    assert np.isfinite(found.log_scales[:2]).all() and (found.log_scales[2:] == -np.inf).all()
    found = functional.forward_backward(x, start, matrix)
    assert found.log_likelihood == -np.inf
    assert not found.posteriors.any() and not found.transitions.any()
    found = functional.viterbi(x, start, matrix)
    assert found.log_probability == -np.inf
    assert ((found.states >= 0) & (found.states < 3)).all()
    with pytest.raises(ValueError, match="Sequence 0 has probability zero"):
        functional.sample_states(x, start, matrix)
    # Others are not changed by it.
    y = problem(5, 3, 1)[0]
    both = functional.forward_backward(np.vstack([x, y]), start, matrix, [6, 5])
    alone = functional.forward_backward(y, start, matrix)
    assert both.log_likelihood.tolist() == [-np.inf, alone.log_likelihood]
    np.testing.assert_allclose(both.transitions, alone.transitions, rtol=1e-12)
    with pytest.raises(ValueError, match="Sequence 0 has probability zero"):
        functional.sample_states(np.vstack([x, y]), start, matrix, [6, 5])


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_several_sequences_are_those_one_by_one(n_jobs, monkeypatch):
    monkeypatch.setattr(hmm_functions, "_RUN_ENTRIES", 100)
    lengths = np.random.default_rng(0).integers(1, 60, size=25)
    x, start, matrix = problem(int(lengths.sum()), 3, 5)
    cuts = np.split(x, np.cumsum(lengths)[:-1])
    found = functional.forward(x, start, matrix, lengths, n_jobs=n_jobs)
    each = [functional.forward(part, start, matrix) for part in cuts]
    np.testing.assert_allclose(found.log_likelihood, [one.log_likelihood for one in each])
    np.testing.assert_allclose(found.filtered, np.vstack([one.filtered for one in each]))
    np.testing.assert_allclose(found.log_scales, np.hstack([one.log_scales for one in each]))
    found = functional.forward_backward(x, start, matrix, lengths, n_jobs=n_jobs)
    each = [functional.forward_backward(part, start, matrix) for part in cuts]
    np.testing.assert_allclose(found.log_likelihood, [one.log_likelihood for one in each])
    np.testing.assert_allclose(found.posteriors, np.vstack([one.posteriors for one in each]))
    np.testing.assert_allclose(found.transitions, sum(one.transitions for one in each))
    found = functional.expected_transitions(x, start, matrix, lengths, n_jobs=n_jobs)
    np.testing.assert_allclose(found.start, sum(one.posteriors[0] for one in each))
    found = functional.viterbi(x, start, matrix, lengths, n_jobs=n_jobs)
    each = [functional.viterbi(part, start, matrix) for part in cuts]
    np.testing.assert_allclose(found.log_probability, [one.log_probability for one in each])
    assert found.states.tolist() == np.hstack([one.states for one in each]).tolist()


@pytest.mark.parametrize("n_states", [1, 2, 3, 4, 5, 8, 9, 256])
@pytest.mark.parametrize("n_steps", [1, 2, 63, 64, 65, 200, 2800])
def test_one_sequence_is_that_of_its_length(n_steps, n_states):
    # Without lengths, one call of another kernel checks and computes.
    x, start, matrix = problem(n_steps, n_states, n_steps)
    x[np.random.default_rng(0).random(x.shape) < 0.05] = -np.inf
    x[:, 0] = 0.0
    for recursion in RECURSIONS[:4]:
        one, several = recursion(x, start, matrix), recursion(x, start, matrix, [n_steps])
        assert type(one) is type(several) and type(one[0]) is float
        assert one[0] == several[0][0]
        for a, b in zip(one[1:], several[1:], strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


def kinds_of(array):
    """The same numbers in arrays of other kinds."""
    read_only, strided = array.copy(), np.zeros(tuple(2 * n for n in array.shape))
    read_only.flags.writeable = False
    strided[(slice(None, None, 2),) * array.ndim] = array
    as_bytes = np.frombuffer(b"." + array.tobytes(), dtype=np.uint8)
    return {
        "list": array.tolist(),
        "read-only": read_only,
        "strided": strided[(slice(None, None, 2),) * array.ndim],
        "columns": np.asfortranarray(array),
        "backward": array[::-1].copy()[::-1],
        "other bytes": array.astype(array.dtype.newbyteorder()),
        "unaligned": as_bytes[1:].view(float).reshape(array.shape),
        "masked": np.ma.array(array),
        "long": array.astype(np.longdouble),
    }


@pytest.mark.parametrize("n_steps", [10, 3000])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_the_kind_of_an_array_does_not_matter(which, n_steps):
    arrays = problem(n_steps, 3)
    for recursion in RECURSIONS[:4]:
        expected = recursion(*arrays)
        for name, other in kinds_of(arrays[which]).items():
            given_arrays = [*arrays]
            given_arrays[which] = other
            found = recursion(*given_arrays)
            assert type(found) is type(expected)
            for a, b in zip(found, expected, strict=True):
                assert type(a) is type(b), name
                np.testing.assert_allclose(a, b, rtol=1e-12, err_msg=name)


def test_kernels_that_compute_at_once_compare_sizes():
    x, start, matrix = problem(10, 3)
    rows, flat, states = np.empty((10, 3)), np.empty(10), np.empty(10, dtype=np.int64)
    good = x, start, matrix
    at_once = hmm_functions._at_once
    assert np.isfinite(at_once.forward(*good, rows, flat))
    assert np.isfinite(at_once.decode(*good, states))
    sums = rows, np.empty(3), np.empty((3, 3))
    assert np.isfinite(at_once.smooth(*good, *sums))
    wrong = [
        (x[:, :2].copy(), start, matrix), (x, start[:2], matrix), (x, start, matrix[:2]),
        (x, start, matrix[:, :2].copy()), (x[:0], start, matrix), (x[:9], start, matrix),
        (x[:, :0].copy(), start[:0], matrix[:0, :0].copy()),
    ]  # fmt: skip
    for arrays in wrong:
        assert np.isnan(at_once.forward(*arrays, rows, flat))
        assert np.isnan(at_once.decode(*arrays, states))
        assert np.isnan(at_once.smooth(*arrays, *sums))
    for i, part in enumerate((rows[:9], np.empty(2), np.empty((3, 2)))):
        assert np.isnan(at_once.smooth(*good, *sums[:i], part, *sums[i + 1 :]))
    for out in ((rows[:9], flat), (rows[:, :2].copy(), flat), (rows, flat[:9])):
        assert np.isnan(at_once.forward(*good, *out))
    assert np.isnan(at_once.decode(*good, states[:9]))
    for arrays in ((x.T, start, matrix), (x, start.astype(int), matrix), (x, start, matrix[None])):
        with pytest.raises(TypeError):
            at_once.forward(*arrays, rows, flat)
        with pytest.raises(TypeError):
            at_once.decode(*arrays, states)


def test_one_length_is_an_array_of_one_log_likelihood():
    x, start, matrix = problem(7, 2)
    found = functional.forward(x, start, matrix, [7])
    assert found.log_likelihood.shape == (1,)
    assert functional.viterbi(x, start, matrix, [3, 4]).log_probability.shape == (2,)


def test_the_number_of_threads_has_no_influence():
    lengths = np.full(400, 300)
    x, start, matrix = problem(int(lengths.sum()), 4)
    one, two = (
        functional.forward_backward(x, start, matrix, lengths, n_jobs=n_jobs) for n_jobs in (1, 2)
    )
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("make", [problem, with_zeros])
def test_sampled_paths_have_the_posterior(make):
    x, start, matrix = make(5, 3, 2)
    n_samples = 40_000
    paths = functional.sample_states(x, start, matrix, n_samples=n_samples, random_state=0)
    assert paths.shape == (n_samples, 5) and paths.dtype == np.int64
    all_paths = np.array(list(product(range(3), repeat=5)))
    log_p = oracle.log(start)[all_paths[:, 0]] + x[np.arange(5), all_paths].sum(axis=1)
    log_p += oracle.log(matrix)[all_paths[:, :-1], all_paths[:, 1:]].sum(axis=1)
    expected = np.exp(log_p - logsumexp(log_p)) * n_samples
    numbers = paths @ 3 ** np.arange(4, -1, -1)
    counts = np.bincount(numbers, minlength=len(all_paths))
    assert not counts[expected == 0].any()
    often = expected > 5
    pooled = np.append(counts[often], counts[~often].sum())
    p_value = stats.chisquare(pooled, np.append(expected[often], expected[~often].sum())).pvalue
    assert p_value > 1e-3


def test_sampling_repeats_with_its_seed_and_takes_sequences():
    x, start, matrix = problem(30, 3)
    one, two = (
        functional.sample_states(x, start, matrix, [10, 20], n_samples=4, random_state=7)
        for _ in range(2)
    )
    assert one.tolist() == two.tolist()
    rng = np.random.default_rng(7)
    assert one.tolist() == functional.sample_states(
        x, start, matrix, [10, 20], n_samples=4, random_state=rng
    ).tolist()  # fmt: skip
    # The two sequences are independent: the second is as if alone, with its own numbers.
    posteriors = functional.forward_backward(x, start, matrix, [10, 20]).posteriors
    paths = functional.sample_states(x, start, matrix, [10, 20], n_samples=20_000, random_state=0)
    for k in range(3):
        np.testing.assert_allclose((paths == k).mean(axis=0), posteriors[:, k], atol=0.02)


def test_usages():
    x, start, matrix = problem(1, 4, 3)
    del x
    visits, departures = functional.occupancies(start, matrix, n_steps=5)
    powers = [start @ np.linalg.matrix_power(matrix, t) for t in range(5)]
    np.testing.assert_allclose(visits, sum(powers), rtol=1e-12)
    np.testing.assert_allclose(departures, sum(powers[:-1]), rtol=1e-12)
    mixed = functional.occupancies(start, matrix, n_steps=fastem.Lengths([2, 5]))
    np.testing.assert_allclose(mixed.visits, 0.5 * (sum(powers) + sum(powers[:2])), rtol=1e-12)
    np.testing.assert_allclose(
        functional.occupancies(start, matrix, n_steps=[2, 5]).visits, mixed.visits, rtol=1e-12
    )


@pytest.mark.parametrize("absorbing", [[3], [1, 3], [False, True, False, True]])
def test_usages_of_absorbing_chains(absorbing):
    _, start, matrix = problem(1, 4, 3)
    flags = np.array(absorbing) if len(absorbing) == 4 else np.isin(np.arange(4), absorbing)
    visits, departures = functional.occupancies(start, matrix, absorbing=absorbing)
    Q = matrix[~flags][:, ~flags]
    u = start[~flags] @ np.linalg.inv(np.eye(len(Q)) - Q)
    np.testing.assert_allclose(visits[~flags], u, rtol=1e-12)
    np.testing.assert_allclose(departures[~flags], u, rtol=1e-12)
    np.testing.assert_allclose(visits[flags], start[flags] + u @ matrix[~flags][:, flags])
    assert not departures[flags].any() and visits[flags].sum() == pytest.approx(1.0)


def test_bad_usages():
    _, start, matrix = problem(1, 3)
    for arguments in ({}, {"n_steps": 3, "absorbing": [0]}):
        with pytest.raises(ValueError, match="either n_steps"):
            functional.occupancies(start, matrix, **arguments)
    with pytest.raises(ValueError, match=r"transmat must have the shape \(3, 3\)"):
        functional.occupancies(start, matrix[:2], n_steps=3)
    with pytest.raises(ValueError, match="0 .. 2"):
        functional.occupancies(start, matrix, absorbing=[3])
    with pytest.raises(ValueError, match="list of states"):
        functional.occupancies(start, matrix, absorbing=[0.5])
    with pytest.raises(ValueError, match="absorbing must have the shape"):
        functional.occupancies(start, matrix, absorbing=[True, False])
    with pytest.raises(ValueError, match="need not ever be absorbed"):
        functional.occupancies(start, np.eye(3), absorbing=[2])
    with pytest.raises(ValueError, match="startprob must sum to 1"):
        functional.occupancies(2 * start, matrix, n_steps=3)


RECURSIONS = [
    functional.forward, functional.forward_backward, functional.expected_transitions,
    functional.viterbi, functional.sample_states,
]  # fmt: skip


@pytest.mark.parametrize("recursion", RECURSIONS)
@pytest.mark.parametrize("lengths", [None, [4, 6]])
def test_bad_input_is_refused(recursion, lengths):
    x, start, matrix = problem(10, 3)

    def refuses(match, *arrays, error=ValueError, lengths=lengths):
        with pytest.raises(error, match=match):
            recursion(*arrays, lengths)

    refuses(r"startprob must have the shape \(3,\).*got \(2,\)", x, start[:2], matrix)
    refuses(
        r"startprob must be an array of 1 dimension; got the shape \(1, 3\)", x, start[None], matrix
    )
    refuses(r"transmat must have the shape \(3, 3\).*got \(2, 3\)", x, start, matrix[:2])
    refuses(r"transmat must have the shape \(3, 3\).*got \(3, 2\)", x, start, matrix[:, :2])
    refuses("transmat must be an array of 2 dimensions", x, start, matrix[0])
    refuses("log_likelihoods must be an array of 2 dimensions", x[0], start, matrix)
    refuses(r"startprob must have the shape \(2,\)", x[:, :2], start, matrix)
    refuses("with one or more of each", x[:0], start, matrix)
    refuses("with one or more of each", x[:, :0], start[:0], matrix[:0, :0])
    refuses("array of real numbers", x.astype(str), start, matrix, error=TypeError)
    refuses("array of real numbers", x + 1j, start, matrix, error=TypeError)
    for value in (np.nan, np.inf):
        wrong = x.copy()
        wrong[7, 1] = value
        refuses(f"row 7, column 1 is {value}|row 3, column 1 is {value}", wrong, start, matrix)
        wrong = matrix.copy()
        wrong[1, 2] = value
        refuses("transmat", x, start, wrong)
        wrong = start.copy()
        wrong[1] = value
        refuses("startprob", x, wrong, matrix)
    refuses(r"startprob must sum to 1; it sums to 0.[45]", x, start * 0.5, matrix)
    refuses(r"transmat\[0\] must sum to 1; it sums to 0.[45]", x, start, matrix * 0.5)
    wrong = matrix.copy()
    wrong[2] = [-0.5, 0.5, 1.0]
    refuses("cannot be negative", x, start, wrong)
    refuses("cannot be negative", x, np.array([-0.5, 0.5, 1.0]), matrix)
    refuses("The lengths sum to 9", x, start, matrix, lengths=[4, 5])
    refuses(r"lengths\[1\] is 0", x, start, matrix, lengths=[10, 0])
    refuses(r"lengths\[0\] is -1", x, start, matrix, lengths=[-1, 11])
    refuses("whole numbers", x, start, matrix, lengths=[4.5, 5.5])
    refuses("list of the numbers of rows", x, start, matrix, lengths=[[4, 6]])


def test_what_is_under_a_mask_is_not_used():
    x, start, matrix = problem(10, 3)
    masked = np.ma.masked_less(x, 0.0)
    for recursion in RECURSIONS:
        with pytest.raises(ValueError, match="log_likelihoods has masked values"):
            recursion(masked, start, matrix)
    with pytest.raises(ValueError, match="X has masked values"):
        functional.gaussian_log_densities(masked, np.zeros((1, 3)), np.eye(3)[None])
    with pytest.raises(ValueError, match="X has masked values"):
        functional.weighted_moments(masked, np.ones((10, 1)))
    with pytest.raises(ValueError, match="responsibilities has masked values"):
        functional.weighted_moments(x, np.ma.masked_equal(np.ones((10, 1)), 1.0))


@pytest.mark.parametrize("n_states", [1, 2, 4, 5, 8, 9, 17])
@pytest.mark.parametrize("n_steps", [1, 10, 100])
def test_every_value_is_looked_at(n_steps, n_states):
    arrays = problem(n_steps, n_states)
    for recursion in RECURSIONS[:4]:
        recursion(*arrays)
        for number, name in enumerate(["log_likelihoods", "startprob", "transmat"]):
            places = list(np.ndindex(arrays[number].shape))
            for place in {places[0], places[len(places) // 2], places[-1]}:
                for value in (np.nan, np.inf, *((-0.5, 1.5) if number else ())):
                    wrong = [array.copy() for array in arrays]
                    wrong[number][place] = value
                    with pytest.raises(ValueError, match=name):
                        recursion(*wrong)


def test_bad_numbers_of_samples():
    for n_samples in (0, -1, 1.5, "2"):
        with pytest.raises(ValueError, match="n_samples must be a whole number"):
            functional.sample_states(*problem(3, 2), n_samples=n_samples)


@pytest.mark.parametrize("recursion", RECURSIONS)
def test_arrays_of_any_kind_are_read_and_left_alone(recursion):
    x, start, matrix = problem(50, 3)
    options = {"random_state": 0} if recursion is functional.sample_states else {}
    x = x.astype(np.float32).astype(float)
    start, matrix = start.round(3), np.full((3, 3), 1 / 3)
    start[-1] = 1 - start[:-1].sum()
    kept = x.copy(), start.copy(), matrix.copy()
    expected = recursion(x, start, matrix, **options)
    frozen = x.copy()
    frozen.flags.writeable = False
    big_endian, wide = x.astype(">f8"), np.repeat(x, 2, axis=1)[:, ::2]
    for other in (x.tolist(), x.astype(np.float32), np.asfortranarray(x), frozen, big_endian, wide):
        found = recursion(other, start.tolist(), np.asfortranarray(matrix), **options)
        for a, b in (
            zip(np.atleast_1d(found), np.atleast_1d(expected), strict=True)
            if (isinstance(found, np.ndarray))
            else zip(found, expected, strict=True)
        ):
            np.testing.assert_array_equal(a, b)
    for before, after in zip(kept, (x, start, matrix), strict=True):
        np.testing.assert_array_equal(before, after)


def test_a_problem_that_no_check_of_python_finds_is_still_an_error():
    x, start, matrix = problem(3, 2)
    with pytest.raises(ValueError, match="probabilities that sum to 1"):
        hmm_functions._explain(given.WRONG_START, x, start, matrix)


# Kalman filters ----------------------------------------------------------------------------------


def system(d=2, p=3, seed=0):
    lds = kalman_oracle.random_lds(d, p, np.random.default_rng(seed))
    x = kalman_oracle.sample(lds, 8, np.random.default_rng(seed + 1))
    return lds, x[-1] if isinstance(x, tuple) else x


def arguments(lds):
    names = (
        "transition_matrices", "observation_matrices", "transition_covariance",
        "observation_covariance", "initial_state_mean", "initial_state_covariance",
    )  # fmt: skip
    letters = dict(zip(names, "ACQRmV", strict=True))
    offsets = {"transition_offsets": "b", "observation_offsets": "c"}

    def get(letter):
        return lds[letter] if isinstance(lds, dict) else getattr(lds, letter)

    return [get(letters[n]) for n in names], {n: get(letter) for n, letter in offsets.items()}


@pytest.mark.parametrize("missing", [False, True])
def test_kalman_agrees_with_conditioning_one_gaussian(missing):
    lds, x = system()
    if missing:
        x[2], x[4, 1] = np.nan, np.nan
    positional, offsets = arguments(lds)
    filtered = functional.kalman_filter(x, *positional, **offsets)
    smoothed = functional.rts_smoother(x, *positional, **offsets)
    total = kalman_oracle.log_likelihood(lds, x)
    assert filtered.log_likelihood == pytest.approx(total, rel=1e-9)
    assert smoothed.log_likelihood == pytest.approx(total, rel=1e-9)
    for found, (means, covariances) in (
        (filtered, kalman_oracle.filtered(lds, x)[:2]),
        (smoothed, kalman_oracle.smoothed(lds, x)[:2]),
    ):
        np.testing.assert_allclose(found.means, means, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(found.covariances, covariances, rtol=1e-7, atol=1e-9)


def test_kalman_takes_several_sequences_and_no_offsets():
    lds, x = system()
    positional, _ = arguments(lds)
    both = functional.rts_smoother(np.vstack([x, x[:5]]), *positional, lengths=[len(x), 5])
    one, two = functional.rts_smoother(x, *positional), functional.rts_smoother(x[:5], *positional)
    np.testing.assert_allclose(both.log_likelihood, [one.log_likelihood, two.log_likelihood])
    np.testing.assert_allclose(both.means, np.vstack([one.means, two.means]), atol=1e-12)
    np.testing.assert_allclose(
        both.covariances, np.concatenate([one.covariances, two.covariances]), atol=1e-12
    )
    zeros = {"transition_offsets": np.zeros(2), "observation_offsets": np.zeros(3)}
    np.testing.assert_allclose(
        functional.kalman_filter(x, *positional).means,
        functional.kalman_filter(x, *positional, **zeros).means,
    )


@pytest.mark.parametrize("function", [functional.kalman_filter, functional.rts_smoother])
def test_bad_systems_are_refused(function):
    lds, x = system()
    good, _ = arguments(lds)
    for i in range(6):
        for change in (lambda a: a[:-1], lambda a: a * np.nan):
            wrong = list(good)
            wrong[i] = change(np.array(good[i]))
            with pytest.raises(ValueError, match="shape|NaN or infinity"):
                function(x, *wrong)
    for wrong in (x[:, :2], np.full_like(x, np.inf), x[:0], "x"):
        with pytest.raises((ValueError, TypeError)):
            function(wrong, *good)
    with pytest.raises(ValueError, match="lengths sum to"):
        function(x, *good, lengths=[3])
    with pytest.raises(ValueError, match="should be a matrix"):
        function(x, 1.0, *good[1:])
    with pytest.raises(ValueError, match="transition_offsets should have the shape"):
        function(x, *good, transition_offsets=np.zeros(3))


# Mixtures ----------------------------------------------------------------------------------------


def components(covariance_type, n=500, K=3, D=4, seed=0):
    rng = np.random.default_rng(seed)
    X, means = rng.normal(size=(n, D)) * 2 + 5, rng.normal(size=(K, D)) + 5
    roots = rng.normal(size=(K, D, D))
    full = roots @ roots.transpose(0, 2, 1) + 0.5 * np.eye(D)
    covariances = {
        "full": full, "tied": full[0], "diag": full.diagonal(axis1=1, axis2=2).copy(),
        "spherical": full[:, 0, 0].copy(),
    }[covariance_type]  # fmt: skip
    matrices = {
        "full": full, "tied": np.stack([full[0]] * K),
        "diag": np.array([np.diag(row) for row in full.diagonal(axis1=1, axis2=2)]),
        "spherical": full[:, 0, 0, None, None] * np.eye(D),
    }[covariance_type]  # fmt: skip
    return X, rng.dirichlet(np.ones(K)), means, covariances, matrices


TYPES = ["full", "tied", "diag", "spherical"]


@pytest.mark.parametrize("covariance_type", TYPES)
@pytest.mark.parametrize("n", [1, 500, 6000])
def test_densities_and_responsibilities_agree_with_scipy(covariance_type, n):
    X, weights, means, covariances, matrices = components(covariance_type, n)
    found = functional.gaussian_log_densities(X, means, covariances, covariance_type)
    expected = np.column_stack([
        np.atleast_1d(stats.multivariate_normal(m, S).logpdf(X))
        for m, S in zip(means, matrices, strict=True)
    ])  # fmt: skip
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    step = functional.gmm_e_step(X, weights, means, covariances, covariance_type)
    joint = expected + np.log(weights)
    np.testing.assert_allclose(step.log_likelihoods, logsumexp(joint, axis=1), rtol=1e-9)
    np.testing.assert_allclose(
        step.responsibilities, np.exp(joint - logsumexp(joint, axis=1, keepdims=True)), atol=1e-10
    )


@pytest.mark.parametrize("reg_covar", [0.0, 0.1])
@pytest.mark.parametrize("covariance_type", TYPES)
def test_weighted_moments_agree_with_numpy(covariance_type, reg_covar):
    X, *_ = components(covariance_type)
    R = np.random.default_rng(1).gamma(1.0, size=(len(X), 3))
    found = functional.weighted_moments(X, R, covariance_type, reg_covar=reg_covar)
    mass = R.sum(axis=0)
    means = (R.T @ X) / mass[:, None]
    full = np.array([np.cov(X.T, aweights=r, bias=True) for r in R.T])
    diagonals = full.diagonal(axis1=1, axis2=2)
    expected = {
        "full": full + reg_covar * np.eye(4),
        "tied": np.einsum("k,kij->ij", mass / mass.sum(), full) + reg_covar * np.eye(4),
        "diag": diagonals + reg_covar,
        "spherical": diagonals.mean(axis=1) + reg_covar,
    }[covariance_type]
    np.testing.assert_allclose(found.mass, mass, rtol=1e-12)
    np.testing.assert_allclose(found.means, means, rtol=1e-12)
    np.testing.assert_allclose(found.covariances, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_a_component_of_no_mass_has_no_moments(covariance_type):
    X, *_ = components(covariance_type)
    R = np.ones((len(X), 2))
    R[:, 1] = 0.0
    mass, means, covariances = functional.weighted_moments(X, R, covariance_type)
    assert mass.tolist() == [len(X), 0.0]
    np.testing.assert_allclose(means[0], X.mean(axis=0))
    assert np.isnan(means[1]).all()
    assert np.isfinite(covariances if covariance_type == "tied" else covariances[0]).all()
    assert covariance_type == "tied" or np.isnan(covariances[1]).all()


@pytest.mark.parametrize("covariance_type", TYPES)
def test_steps_of_em_from_functions_are_those_of_the_estimator(covariance_type):
    X, weights, means, covariances, _ = components(covariance_type)
    for _ in range(3):
        step = functional.gmm_e_step(X, weights, means, covariances, covariance_type)
        mass, means, covariances = functional.weighted_moments(
            X, step.responsibilities, covariance_type, reg_covar=1e-6
        )
        weights = mass / mass.sum()
    X, weights_init, means_init, start, _ = components(covariance_type)
    precisions = np.linalg.inv(start) if start.ndim > 1 and covariance_type != "diag" else 1 / start
    model = fastem.GaussianMixture(
        3, covariance_type=covariance_type, weights_init=weights_init, means_init=means_init,
        precisions_init=precisions, max_iter=3, tol=0.0,
    )  # fmt: skip
    with pytest.warns(Warning, match="converge"):
        model.fit(X)
    np.testing.assert_allclose(model.means_, means, rtol=1e-8)
    np.testing.assert_allclose(model.covariances_, covariances, rtol=1e-7, atol=1e-10)


def test_bad_components_are_refused():
    X, weights, means, covariances, _ = components("full")
    densities, step = functional.gaussian_log_densities, functional.gmm_e_step
    with pytest.raises(ValueError, match="covariances must have the shape"):
        densities(X, means, covariances[:2])
    with pytest.raises(ValueError, match="covariances must have the shape"):
        densities(X, means, covariances, "diag")
    with pytest.raises(ValueError, match="covariance_type must be one of"):
        densities(X, means, covariances, "round")
    with pytest.raises(ValueError, match="The data have 3 columns"):
        densities(X[:, :3], means, covariances)
    with pytest.raises(ValueError, match="The data have 3 columns"):
        step(X[:, :3], weights, means, covariances)
    with pytest.raises(ValueError, match="weights"):
        step(X, weights[:2], means, covariances)
    with pytest.raises(ValueError, match="weights"):
        step(X, 2 * weights, means, covariances)
    with pytest.raises(ValueError, match="positive definite|positive-definite"):
        densities(X, means, -covariances)
    for function, more in ((densities, ()), (step, (weights,))):
        wrong = X.copy()
        wrong[3, 1] = np.nan
        with pytest.raises(ValueError, match=r"X contains NaN or infinity: X\[3, 1\] is nan"):
            function(wrong, *more, means, covariances)
        with pytest.raises(ValueError, match="two dimensions"):
            function(X[0], *more, means, covariances)
        with pytest.raises(ValueError, match="one row and one column"):
            function(X[:0], *more, means, covariances)


def test_bad_responsibilities_are_refused():
    X = np.random.default_rng(0).normal(size=(10, 2))
    R = np.ones((10, 3))
    for wrong in (R[:9], R[0], R[:, :0]):
        with pytest.raises(ValueError, match=r"responsibilities must have the shape \(10, comp"):
            functional.weighted_moments(X, wrong)
    with pytest.raises(ValueError, match="cannot be negative; row 4, column 1 is -1.0"):
        functional.weighted_moments(X, np.where(np.arange(30).reshape(10, 3) == 13, -1.0, R))
    with pytest.raises(ValueError, match="NaN or infinity"):
        functional.weighted_moments(X, R * np.nan)
    with pytest.raises(ValueError, match="all zero"):
        functional.weighted_moments(X, 0 * R)
    with pytest.raises(ValueError, match="covariance_type must be one of"):
        functional.weighted_moments(X, R, "round")


# Dirichlet distributions -------------------------------------------------------------------------


def test_dirichlet_maxima_agree_with_an_optimizer():
    rng = np.random.default_rng(0)
    topics = rng.dirichlet([0.5, 1.0, 4.0], size=400)
    weights = rng.gamma(1.0, size=400)
    for w in (None, weights):
        mean_log = np.average(np.log(topics), axis=0, weights=w)
        expected = dirichlet_oracle.maximum(mean_log, np.ones(3))
        np.testing.assert_allclose(functional.dirichlet_mle(topics, w), expected, rtol=1e-4)
    counts = rng.multinomial(30, topics)
    for w in (None, weights):
        expected = dirichlet_oracle.fit(counts, np.ones(3), w)
        np.testing.assert_allclose(
            functional.compound_dirichlet_mle(counts, w), expected, rtol=1e-3
        )
    np.testing.assert_allclose(
        functional.compound_dirichlet_mle(sparse.csr_matrix(counts)),
        functional.compound_dirichlet_mle(counts),
    )


def test_bad_points_and_counts_are_refused():
    topics = np.random.default_rng(0).dirichlet([1.0, 2.0], size=10)
    for wrong in (topics[0], -topics, np.where(topics == topics[0, 0], np.nan, topics)):
        with pytest.raises(ValueError):
            functional.dirichlet_mle(wrong)
    for wrong in ([[0.5, 1.0]], [[-1, 2]], [1, 2]):
        with pytest.raises(ValueError):
            functional.compound_dirichlet_mle(wrong)
    for function in (functional.dirichlet_mle, functional.compound_dirichlet_mle):
        with pytest.raises(ValueError, match="sample_weight"):
            function(np.ones((4, 2), dtype=int), np.ones(3))


# Documentation -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in functional.__all__ if n[0].islower()])
def test_the_examples_of_the_documentation(name):
    function = getattr(functional, name)
    for section in ("Parameters", "Returns", "Raises", "Examples"):
        assert f"{section}\n    ---" in function.__doc__
    tests = doctest.DocTestFinder(recurse=False).find(function, name)
    assert sum(len(test.examples) for test in tests) > 0
    said = []
    for test in tests:
        assert doctest.DocTestRunner().run(test, out=said.append).failed == 0, "".join(said)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize("exponent", [-1000, -600, 600, 1015])
def test_moments_of_responsibilities_of_any_size(kind, exponent):
    rng = np.random.default_rng(0)
    X, responsibilities = rng.normal(size=(20, 2)), rng.integers(1, 9, size=(20, 3)) / 8.0
    plain = functional.weighted_moments(X, responsibilities, kind)
    scaled = functional.weighted_moments(X, np.ldexp(responsibilities, exponent), kind)
    np.testing.assert_array_equal(scaled.mass, np.ldexp(plain.mass, exponent))
    for found, expected in zip(scaled[1:], plain[1:], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-14)
