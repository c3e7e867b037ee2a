"""Rows of many columns: what is read, which components are given up, and when."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastem
from fastem import algebra
from fastem.data.rows import Table
from fastem.families import Gaussian
from fastem.kernels import wide_rows
from fastem.kernels.families.gaussian_diagonal import WIDE, WideGaussian
from fastem.kernels.rows import READABLE, SPARE, empty_on_a_line, on_a_line, rows_of

from cases.families import Case, assert_statistics
from oracles import families as oracles

DIAGONAL = ["diag", "spherical"]
TYPES = [np.float64, np.float32]


def stride_for(n_columns):
    """A distance between rows that is whole vectors of any machine and type."""
    return -(-n_columns // 16) * 16


def rows_block(X, dtype):
    """Rows one after another, zeros behind the last column and the last row."""
    n, n_columns = X.shape
    block = np.zeros((-(-n // 16) * 16, stride_for(n_columns)), dtype=dtype)
    block[:n, :n_columns] = X
    return block


# Reading ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_columns", [1, 7, 8, 17, 300])
@pytest.mark.parametrize("dtype", READABLE, ids=lambda dtype: dtype.__name__)
def test_rows_are_read_as_they_are(n_columns, dtype):
    rng = np.random.default_rng(n_columns)
    whole = (100 * rng.uniform(size=(60, 3 * n_columns))).astype(dtype)
    stride = stride_for(n_columns)
    views = [
        whole[:, :n_columns], whole[:, ::3], whole[::-2, n_columns - 1 :: -1],
        np.asfortranarray(whole)[:, :n_columns], whole[5:6, :n_columns],
    ]  # fmt: skip
    for block_type in TYPES if dtype == np.float32 else TYPES[:1]:
        for X in views:
            for first, n in [(0, len(X)), (len(X) // 2, len(X) - len(X) // 2)]:
                filled = -(-n // 16) * 16
                block = np.full(filled * stride + 3, np.nan, dtype=block_type)
                wide_rows.read_wide_rows(rows_of(X), first, n, block, stride)
                group = 8 if block_type == np.float64 else 16
                expected = rows_block(X[first : first + n], block_type)[: -(-n // group) * group]
                got = block[: expected.size].reshape(expected.shape)
                np.testing.assert_array_equal(got, expected)
                assert np.isnan(block[expected.size :]).all()


@pytest.mark.parametrize("n", [0, 1, 7, 100])
@pytest.mark.parametrize("dtype", TYPES)
def test_arrays_that_begin_a_line(n, dtype):
    room = np.arange(n + SPARE + 5, dtype=dtype)
    for skip in range(5):
        array = on_a_line(room[skip : skip + n + SPARE], n)
        assert len(array) == n
        assert array.ctypes.data % 64 == 0
        assert np.shares_memory(array, room) or n == 0
    assert empty_on_a_line(n).shape == (n,)
    # NumPy gives an empty slice no place of its own.
    assert n == 0 or empty_on_a_line(n).ctypes.data % 64 == 0


# Distances ----------------------------------------------------------------------------------------


def standards_of(means, scales, stride, dtype):
    standards = np.full(wide_rows.standards_size.py_func(len(means), stride), np.nan, dtype=dtype)
    wide_rows.set_standards(means, scales.astype(dtype), stride, standards)
    return standards


def likely(X, means, scales, start, gap, dtype=np.float64):
    """What the kernel makes of ``start`` (K, n)."""
    n, n_components = len(X), len(means)
    block = rows_block(X, dtype)
    filled, stride = block.shape
    width = filled + 16
    standards = standards_of(means, scales, stride, dtype)
    log_p = np.full((n_components, width), np.nan, dtype=dtype)
    log_p[:, :filled] = 0.0
    log_p[:, :n] = start
    wide_rows.subtract_likely_distances(
        block.reshape(-1), stride, width, filled, n_components, standards, gap, log_p.reshape(-1)
    )
    assert np.isnan(log_p[:, filled:]).all()
    return log_p[:, :n]


def assert_likely(X, means, scales, start, gap):
    got = likely(X, means, scales, start, gap)
    expected = start - ((scales[:, None] * (X - means[:, None])) ** 2).sum(axis=2)
    best = expected.max(axis=0)
    given_up = got == -np.inf
    # The likeliest is known, and so is all that comes near it; of the others each may be.
    slack = 1e-9 * (1.0 + np.abs(best))
    assert not (given_up & (expected >= best - gap + slack)).any()
    np.testing.assert_allclose(got[~given_up], expected[~given_up], rtol=1e-10, atol=1e-9)
    return given_up


@settings(max_examples=80, deadline=None)
@given(
    n_columns=st.integers(4, 400), n_components=st.integers(1, 12), n=st.integers(1, 70),
    distance=st.sampled_from([0.0, 0.01, 0.3, 1.0, 10.0]), gap=st.sampled_from([0.0, 5.0, 138.0]),
    share=st.sampled_from([0.0, 0.02, 0.5, 1.0]), seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_no_component_that_matters_is_given_up(
    n_columns, n_components, n, distance, gap, share, seed
):
    rng = np.random.default_rng(seed)
    differs = rng.uniform(size=n_columns) < share
    means = 3.0 + distance * rng.normal(size=(n_components, n_columns)) * differs
    scales = rng.uniform(0.2, 2.0, (n_components, n_columns))
    X = means[rng.integers(n_components, size=n)] + rng.normal(size=(n, n_columns))
    start = 20.0 * rng.normal(size=(n_components, n))
    assert_likely(X, means, scales, start, gap)


def test_what_can_be_given_up_is_given_up():
    rng = np.random.default_rng(1)
    means = np.repeat(10.0 * np.arange(8.0)[:, None], 300, axis=1)
    labels = rng.integers(8, size=100)
    X = means[labels] + rng.normal(size=(100, 300))
    given_up = assert_likely(X, means, np.ones((8, 300)), np.zeros((8, 100)), 138.0)
    np.testing.assert_array_equal(~given_up, labels == np.arange(8)[:, None])
    near = means / 1e4
    given_up = assert_likely(X / 1e4, near, np.ones((8, 300)), np.zeros((8, 100)), 138)
    assert not given_up.any()


@pytest.mark.parametrize("distance", [0.1, 30.0])
def test_rows_that_no_component_allows(distance):
    """Squares overflow in some columns: of all components, or of some, in any part of the row."""
    rng = np.random.default_rng(2)
    n_components, n_columns, n = 4, 330, 48
    means = distance * rng.normal(size=(n_components, n_columns))
    scales = np.ones((n_components, n_columns))
    X = means[rng.integers(n_components, size=n)] + rng.normal(size=(n, n_columns))
    places = rng.integers(n_columns, size=16)
    X[np.arange(16), places] = 1e200
    # Only the first component of the others is one that such a row is impossible for.
    scales[1:, places] = 1e-200
    start = np.zeros((n_components, n))
    for everything in [False, True]:
        if everything:
            X[:16, 5] = 1e250
        got = likely(X, means, scales, start, 138.0)
        with np.errstate(over="ignore"):
            expected = -((scales[:, None] * (X - means[:, None])) ** 2).sum(axis=2)
        assert not np.isnan(got).any()
        best = expected.max(axis=0)
        np.testing.assert_allclose(got.max(axis=0), best, rtol=1e-12)
        assert (best[:16] == -np.inf).all() == everything
        matters = expected >= best - 138.0
        np.testing.assert_allclose(got[matters], expected[matters], rtol=1e-12)


@pytest.mark.parametrize("n_columns", [300, 1100])
@pytest.mark.parametrize("dtype", TYPES)
def test_a_row_does_not_depend_on_others(n_columns, dtype):
    """Among rows that are shared most components are done for all rows, to the same bits."""
    rng = np.random.default_rng(3)
    means, scales = rng.normal(size=(6, n_columns)), rng.uniform(0.5, 2.0, (6, n_columns))
    shared = means.mean(axis=0) + 0.1 * rng.normal(size=(90, n_columns))
    own = means[rng.integers(6, size=10)] + rng.normal(size=(10, n_columns))
    start = rng.normal(size=(6, 100))
    mixed = likely(np.concatenate([own, shared]), means, scales, start, 20.0, dtype)
    alone = likely(own, means, scales, start[:, :10], 20.0, dtype)
    # What was given up alone was finished among others.
    assert (mixed[:, :10] > -np.inf).all()
    kept = alone > -np.inf
    assert not kept.all()
    np.testing.assert_array_equal(alone[kept], mixed[:, :10][kept])


def test_inference_of_a_row_does_not_depend_on_others():
    case, pair, X = problem("diag", 300, 0.3, 600)
    model = case.model(pair)
    totals, posteriors, _ = model.infer(X, log_totals=True, posteriors=True)
    for i in range(0, 600, 23):
        total, posterior, _ = model.infer(X[i : i + 1], log_totals=True, posteriors=True)
        np.testing.assert_array_equal(total[0], totals[i])
        np.testing.assert_array_equal(posterior[0], posteriors[i])


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_floats_lose_nothing_to_an_offset(offset):
    rng = np.random.default_rng(4)
    means = offset + rng.normal(size=(3, 320))
    scales = rng.uniform(0.5, 2.0, (3, 320))
    X = (means[rng.integers(3, size=50)] + rng.normal(size=(50, 320))).astype(np.float32)
    got = likely(X, means, scales, np.zeros((3, 50)), 1e6, np.float32)
    expected = -((scales[:, None] * (X.astype(float) - means[:, None])) ** 2).sum(axis=2)
    np.testing.assert_allclose(got, expected, rtol=2e-6)


# Moments ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [1, 3, 4, 5, 50])
@pytest.mark.parametrize("n_columns", [4, 8, 300])
def test_moments_of_rows(n_columns, n, dtype):
    rng = np.random.default_rng(n_columns + n)
    n_components = 3
    X = (100.0 + rng.normal(size=(n, n_columns))).astype(dtype)
    means = 100.0 + rng.normal(size=(n_components, n_columns))
    block = rows_block(X, dtype)
    width = len(block) + 16
    weights = np.zeros((n_components, width), dtype=dtype)
    # One component has no row at all.
    weights[[0, 2], :n] = rng.uniform(size=(2, n)) * (rng.uniform(size=(2, n)) < 0.7)
    found = [np.flatnonzero(row) for row in weights]
    places = np.concatenate([*found, np.full(8, -1)]).astype(np.int32)
    starts = np.cumsum([0, *map(len, found)])
    first, second = rng.normal(size=(2, n_components, n_columns))
    d = X.astype(float) - means[:, None]
    w = weights[:, :n].astype(float)
    expected = [before + np.einsum("ki,kic->kc", w, power)
                for before, power in [(first, d), (second, d**2)]]  # fmt: skip
    wide_rows.add_wide_moments(
        block.reshape(-1), block.shape[1], places, starts, weights.reshape(-1), width,
        w.sum(axis=1), standards_of(means, np.ones_like(means), block.shape[1], dtype), means,
        first, second,
    )  # fmt: skip
    close = {"rtol": 1e-11, "atol": 1e-11} if dtype == np.float64 else {"rtol": 1e-5, "atol": 1e-4}
    np.testing.assert_allclose(first, expected[0], **close)
    np.testing.assert_allclose(second, expected[1], **close)


# Mixtures -----------------------------------------------------------------------------------------


def problem(kind, n_columns, distance, n_rows, n_components=5, seed=5):
    case = Case(kind, Gaussian(kind, reg_covar=0.0), oracles.Gaussian(kind, n_columns))
    (weights, parameters), _ = case.problem(seed, n_rows=10, n_components=n_components)
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(1, n_columns)) + distance * rng.normal(size=(n_components, n_columns))
    pair = (weights, {**parameters, "means": means})
    return case, pair, case.oracle.sample(pair[1], rng.integers(n_components, size=n_rows), rng)


def test_which_are_wide():
    for n_columns in (WIDE, WIDE + 1):
        case, pair, _ = problem("diag", n_columns, 1.0, 10)
        packed = case.family.pack(pair[1])
        assert isinstance(packed, WideGaussian) == (n_columns > WIDE)


@pytest.mark.parametrize("n_columns", [WIDE, WIDE + 1, 307])
@pytest.mark.parametrize("distance", [0.001, 0.05, 0.4, 5.0])
@pytest.mark.parametrize("kind", DIAGONAL)
def test_a_pass_over_wide_rows(kind, distance, n_columns):
    case, pair, X = problem(kind, n_columns, distance, 700)
    model = case.model(pair)
    expected = oracles.posteriors(case.oracle, *pair, X)
    totals, posteriors, labels = model.infer(X, log_totals=True, posteriors=True, labels=True)
    np.testing.assert_allclose(posteriors, expected, rtol=1e-8, atol=1e-200)
    np.testing.assert_allclose(totals, oracles.log_likelihoods(case.oracle, *pair, X), rtol=1e-11)
    np.testing.assert_array_equal(labels, posteriors.argmax(axis=1))
    w = np.random.default_rng(6).integers(3, size=len(X)).astype(float)
    for weights in [None, w]:
        got = model.expect(Table(X, weights))
        wanted = oracles.expect(case.oracle, *pair, X, weights)
        assert_statistics(got.statistics, wanted, rtol=1e-8, atol=1e-9)
        nll = oracles.nll(case.oracle, *pair, X, weights)
        assert got.log_likelihood == pytest.approx(-nll, rel=1e-11)


@pytest.mark.parametrize("kind", DIAGONAL)
def test_rows_that_are_shared_before_and_after_rows_that_are_not(kind):
    """The order of a block follows the one before it; the sums do not depend on it."""
    case, pair, near = problem(kind, 300, 0.01, 600)
    rng = np.random.default_rng(7)
    means = np.concatenate([pair[1]["means"], 50.0 * rng.normal(size=(4, 300))])
    variances = pair[1]["covariances"]
    parameters = {"means": means, "covariances": np.concatenate([variances, variances[:4]])}
    both = (np.full(9, 1 / 9), parameters)
    far = case.oracle.sample(parameters, 5 + rng.integers(4, size=600), rng)
    for X in [np.concatenate([near, far]), np.concatenate([far, near]),
              rng.permutation(np.concatenate([near, far]))]:  # fmt: skip
        got = case.model(both).expect(X)
        wanted = oracles.expect(case.oracle, *both, X)
        assert_statistics(got.statistics, wanted, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("kind", DIAGONAL)
@pytest.mark.parametrize("distance", [0.01, 3.0])
def test_wide_rows_by_every_kernel(kind, distance):
    """Given posteriors, many steps of batch EM in one call, online steps."""
    case, pair, X = problem(kind, 290, distance, 300, n_components=3)
    model = case.model(pair)
    gamma = oracles.posteriors(case.oracle, *pair, X)
    got = model.expect_given(Table(X), lambda start, stop: gamma[start:stop])
    assert_statistics(got, oracles.expect(case.oracle, *pair, X), rtol=1e-8, atol=1e-9)

    fitted = model
    for _ in range(3):
        fitted = algebra.batch(fitted, Table(X))
    estimator = fastem.GaussianMixture(
        3, covariance_type=kind, max_iter=3, tol=0.0, reg_covar=0.0, weights_init=pair[0],
        means_init=pair[1]["means"], precisions_init=1.0 / pair[1]["covariances"],
    ).fit(X)  # fmt: skip
    np.testing.assert_allclose(estimator.means_, fitted.parameters["means"], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(estimator.covariances_, fitted.parameters["covariances"], rtol=1e-9)

    rates, stepped = np.array([0.5, 0.25, 0.2]), model
    for eta, first in zip(rates, range(0, 300, 100), strict=True):
        stepped = algebra.online(stepped, Table(X[first : first + 100]), eta)[0]
    learned = model.learn(Table(X), rates, batch_size=100).model
    for name in ("means", "covariances"):
        np.testing.assert_allclose(
            learned.parameters[name], stepped.parameters[name], rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize("kind", DIAGONAL)
@pytest.mark.parametrize("distance", [0.02, 2.0])
@pytest.mark.parametrize("dtype", TYPES)
def test_threads_change_no_bit(kind, distance, dtype):
    rng = np.random.default_rng(8)
    means = distance * rng.normal(size=(4, 280))
    X = (means[rng.integers(4, size=20_000)] + rng.normal(size=(20_000, 280))).astype(dtype)
    fits = [
        fastem.GaussianMixture(
            4, covariance_type=kind, means_init=means, weights_init=np.full(4, 0.25),
            precisions_init=np.ones((4, 280)) if kind == "diag" else np.ones(4),
            max_iter=2, tol=0.0, n_jobs=n_jobs,
        ).fit(X)
        for n_jobs in (1, 2, 3)
    ]  # fmt: skip
    for other in fits[1:]:
        np.testing.assert_array_equal(fits[0].means_, other.means_)
        np.testing.assert_array_equal(fits[0].covariances_, other.covariances_)
        assert fits[0].lower_bound_ == other.lower_bound_
