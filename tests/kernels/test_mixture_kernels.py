"""One pass over the rows: posteriors, likelihoods and sums, at the edges of blocks and types."""

import numpy as np
import pytest
from scipy.special import logsumexp

from fastem import algebra
from fastem.data.rows import Table
from fastem.families import Gaussian
from fastem.kernels.mixture.expectation import normalize

from cases.families import (
    ALL,
    GAUSSIAN,
    INTERLEAVED,
    Case,
    assert_same_model,
    assert_same_statistics,
    assert_statistics,
    pair_of,
)
from oracles import families as oracles

every = pytest.mark.parametrize("case", [*ALL, INTERLEAVED], ids=str)
BY_NAME = {case.name: case for case in ALL}


# Normalizing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 7, 8, 20])
@pytest.mark.parametrize("n_components", [1, 2, 3, 9])
@pytest.mark.parametrize("spread", [1.0, 300.0, 1e5, 1e300])
def test_normalize(n_components, n, spread):
    rng = np.random.default_rng(91)
    width = 32
    log_p = spread * rng.normal(size=(n_components, width))
    if n_components > 1:
        log_p[0, ::2] = -np.inf  # a component of weight zero
    expected_total = logsumexp(log_p, axis=0)
    with np.errstate(under="ignore"):
        expected = np.exp(log_p - expected_total)
    totals = np.zeros(width)
    normalize(log_p.reshape(-1), n_components, width, n, totals)
    np.testing.assert_allclose(totals[:n], expected_total[:n], rtol=1e-15, atol=1e-14)
    # exp of a difference d is good to the rounding of d, and is zero below -708.
    np.testing.assert_allclose(log_p[:, :n], expected[:, :n], rtol=3e-13, atol=1e-307)
    np.testing.assert_allclose(log_p[:, :n].sum(axis=0), 1.0, rtol=1e-14)


# Rows of every number -------------------------------------------------------------------------


@every
@pytest.mark.parametrize("n_rows", [1, 5, 8, 255, 256, 257, 530])
def test_infer_at_the_edges_of_blocks(case, n_rows):
    pair, X = case.problem(92, n_rows=n_rows)
    totals, posteriors, labels = case.model(pair).infer(
        X, log_totals=True, posteriors=True, labels=True
    )
    expected = oracles.posteriors(case.oracle, *pair, X)
    np.testing.assert_allclose(
        totals, oracles.log_likelihoods(case.oracle, *pair, X), rtol=1e-11, atol=1e-11
    )
    np.testing.assert_allclose(posteriors, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(labels, np.argmax(expected, axis=1))


@every
@pytest.mark.parametrize("n_rows", [2, 255, 257, 530])
def test_expect_at_the_edges_of_blocks(case, n_rows):
    pair, X = case.problem(93, n_rows=n_rows)
    got = case.model(pair).expect(X)
    expected = oracles.expect(case.oracle, *pair, X)
    assert_statistics(got.statistics, expected, rtol=1e-9, atol=1e-11)
    assert got.log_likelihood == pytest.approx(-oracles.nll(case.oracle, *pair, X), rel=1e-11)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize("n_columns", [1, 2, 4, 5, 9, 33, 130])
def test_gaussians_of_any_width(kind, n_columns):
    case = Case(kind, Gaussian(kind, reg_covar=0.0), oracles.Gaussian(kind, n_columns))
    pair, X = case.problem(94, n_rows=300 if n_columns < 100 else 1100)
    # Means far enough apart to tell, close enough that some rows are shared.
    pair[1]["means"] *= 2 / np.sqrt(n_columns)
    gamma = oracles.posteriors(case.oracle, *pair, X)
    got = case.model(pair).expect(X)
    assert_statistics(got.statistics, oracles.expect(case.oracle, *pair, X), rtol=1e-8, atol=1e-11)
    assert got.log_likelihood == pytest.approx(-oracles.nll(case.oracle, *pair, X), rel=1e-11)
    posteriors = case.model(pair).infer(X, posteriors=True)[1]
    np.testing.assert_allclose(posteriors, gamma, rtol=1e-8, atol=1e-11)
    # And the factors of new covariances, which wide ones get in another way.
    updated = case.model(pair).maximize(got.statistics)
    expected = -oracles.nll(case.oracle, *pair_of(updated), X)
    assert updated.expect(X).log_likelihood == pytest.approx(expected, rel=1e-9)
    assert expected > got.log_likelihood


@pytest.mark.parametrize("case", GAUSSIAN, ids=str)
def test_components_so_far_apart_that_posteriors_are_zero(case):
    pair, X = case.problem(95, n_rows=400, n_components=6)
    places = 1000.0 * np.arange(6)[:, None]
    labels = np.random.default_rng(96).integers(6, size=len(X))
    far = (pair[0], {**pair[1], "means": pair[1]["means"] + places})
    X = X + places[labels]
    got = case.model(far).expect(X)
    assert_statistics(got.statistics, oracles.expect(case.oracle, *far, X), rtol=1e-9, atol=1e-10)
    posteriors, found = case.model(far).infer(X, posteriors=True, labels=True)[1:]
    np.testing.assert_array_equal(found, labels)
    np.testing.assert_array_equal(posteriors, np.eye(6)[labels])


@pytest.mark.parametrize("columns", [slice(None), slice(0, 70), slice(70, 150)], ids=str)
@pytest.mark.parametrize("distance", [0.3, 3.0, 10.0, 40.0])
@pytest.mark.parametrize("kind", ["full", "diag"])
def test_wide_rows_whose_components_differ_in_some_columns(kind, distance, columns):
    """Hopeless components are given up half way; which they are must not depend on the half."""
    case = Case(kind, Gaussian(kind, reg_covar=0.0), oracles.Gaussian(kind, 150))
    (weights, parameters), _ = case.problem(99, n_rows=10, n_components=5)
    rng = np.random.default_rng(100)
    means = np.repeat(rng.normal(size=(1, 150)), 5, axis=0)
    means[:, columns] += distance * rng.normal(size=means[:, columns].shape)
    pair = (weights, {**parameters, "means": means})
    X = case.oracle.sample(pair[1], rng.integers(5, size=1100), rng)
    X[0] = 1e6  # far from all
    expected = oracles.posteriors(case.oracle, *pair, X)
    totals, posteriors, _ = case.model(pair).infer(X, log_totals=True, posteriors=True)
    np.testing.assert_allclose(posteriors[1:], expected[1:], rtol=1e-8, atol=1e-250)
    np.testing.assert_allclose(totals, oracles.log_likelihoods(case.oracle, *pair, X), rtol=1e-10)
    got = case.model(pair).expect(X[1:])
    wanted = oracles.expect(case.oracle, *pair, X[1:])
    assert_statistics(got.statistics, wanted, rtol=1e-8, atol=1e-9)


@every
@pytest.mark.parametrize("n_components", [1, 2, 9])
def test_any_number_of_components(case, n_components):
    pair, X = case.problem(97, n_rows=70, n_components=n_components)
    got = case.model(pair).expect(X)
    assert_statistics(got.statistics, oracles.expect(case.oracle, *pair, X), rtol=1e-8, atol=1e-11)


@every
def test_what_is_not_asked_for_is_not_given(case):
    pair, X = case.problem(98)
    model = case.model(pair)
    totals, posteriors, labels = model.infer(X, log_totals=True, posteriors=True, labels=True)
    alone = model.infer(X, log_totals=True)
    np.testing.assert_array_equal(alone[0], totals)
    assert alone[1].size == alone[2].size == 0
    alone = model.infer(X, posteriors=True)
    np.testing.assert_array_equal(alone[1], posteriors)
    assert alone[0].size == alone[2].size == 0
    alone = model.infer(X, labels=True)
    np.testing.assert_array_equal(alone[2], labels)
    assert alone[0].size == alone[1].size == 0


# Given responsibilities, and weights --------------------------------------------------------------


@every
@pytest.mark.parametrize("weighted", [False, True])
def test_statistics_of_given_responsibilities(case, weighted):
    pair, X = case.problem(99, n_rows=530)
    rng = np.random.default_rng(100)
    gamma = rng.dirichlet(np.ones(3), len(X))
    gamma[rng.uniform(size=gamma.shape) < 0.3] = 0.0
    w = rng.uniform(0.1, 3, len(X)) if weighted else None
    # They need not sum to one: the mean is over what they do sum to.
    got = case.model(pair).expect_given(Table(X, w), lambda start, stop: gamma[start:stop])
    weighed = gamma if w is None else gamma * w[:, None]
    weighed = weighed * len(X) / weighed.sum()
    expected = {"mass": weighed.mean(axis=0), **case.oracle.statistics(weighed, X)}
    assert_statistics(got, expected, rtol=1e-9, atol=1e-11)


@every
def test_rows_of_no_weight_are_not_there(case):
    pair, X = case.problem(101, n_rows=300)
    w = np.random.default_rng(102).uniform(0.5, 2, len(X))
    w[::3] = 0.0
    model = case.model(pair)
    got, expected = model.expect(Table(X, w)), model.expect(Table(X[w > 0], w[w > 0]))
    assert_same_statistics(got.statistics, expected.statistics, rtol=1e-11, atol=1e-13)
    assert got.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-12)


def test_no_weight_at_all_is_refused():
    case = BY_NAME["full"]
    pair, X = case.problem(103)
    with pytest.raises(ValueError, match="sum to zero"):
        case.model(pair).expect(Table(X, np.zeros(len(X))))


# Types and layouts ----------------------------------------------------------------------------


def views(X):
    yield np.asfortranarray(X)
    yield np.repeat(X, 2, axis=1)[:, ::2]
    yield np.repeat(X, 3, axis=0)[::3]
    yield X.astype(X.dtype.newbyteorder())
    yield np.ascontiguousarray(X[::-1])[::-1]


@every
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_floats_of_any_layout_are_read_as_they_are(case, dtype):
    pair, X = case.problem(104, n_rows=300)
    X = X.astype(dtype)
    model = case.model(pair)
    expected = model.expect(X.astype(float))
    for view in [X, *views(X)]:
        got = model.expect(view)
        assert_same_statistics(got.statistics, expected.statistics, rtol=1e-13, atol=1e-14)
        assert got.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-13)


@pytest.mark.parametrize("name", ["full", "tied", "diag", "poisson", "multinomial", "categorical"])
@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
)
def test_whole_numbers_of_any_type_are_read_as_they_are(name, dtype):
    case = BY_NAME[name]
    pair, X = case.problem(105, n_rows=300)
    X = np.abs(np.round(X))
    model = case.model(pair)
    expected = model.expect(X)
    got = model.expect(X.astype(dtype))
    assert_same_statistics(got.statistics, expected.statistics, rtol=0, atol=0)
    assert got.log_likelihood == expected.log_likelihood


def test_truth_values_are_zeros_and_ones():
    case = BY_NAME["bernoulli"]
    pair, X = case.problem(106)
    model = case.model(pair)
    assert_same_model(algebra.batch(model, X.astype(bool)), algebra.batch(model, X), rtol=0, atol=0)


def test_memory_maps_are_read_where_they_lie(tmp_path):
    case = BY_NAME["full"]
    pair, X = case.problem(107, n_rows=500)
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert_same_statistics(
        case.model(pair).expect(mapped).statistics, case.model(pair).expect(X).statistics,
        rtol=0, atol=0,
    )  # fmt: skip
