"""Newton for the Dirichlet, and count tables, against mpmath, SciPy and plain sums."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import digamma, gammaln, polygamma

from fastem.data.rows import Table
from fastem.dirichlet.count_tables import CountTables, documents_of
from fastem.kernels.dirichlet import count_tables as tables_kernels
from fastem.kernels.dirichlet import newton as kernels

from oracles import dirichlet as oracles

# Sums over c = 0 .. n - 1 ---------------------------------------------------------------------


@pytest.mark.parametrize("a", [1e-10, 1e-3, 0.7, 3.0, 15.9, 16.1, 1e3, 1e6, 1e10])
@pytest.mark.parametrize("n", [0, 1, 2, 16, 17, 100, 12_345, 10**9])
def test_rises_are_differences_that_do_not_cancel(a, n):
    with mpmath.workdps(60):
        exact = mpmath.loggamma(mpmath.mpf(a) + n) - mpmath.loggamma(mpmath.mpf(a))
        slope = mpmath.digamma(mpmath.mpf(a) + n) - mpmath.digamma(mpmath.mpf(a))
    assert kernels.log_rise(a, float(n)) == pytest.approx(float(exact), rel=2e-14, abs=2e-14)
    assert kernels.digamma_rise(a, float(n)) == pytest.approx(float(slope), rel=2e-14)


# M --------------------------------------------------------------------------------------------


def maximum(mean_log, start):
    alpha = np.array(start, dtype=float)
    assert kernels.maximum(np.asarray(mean_log, dtype=float), alpha)
    return alpha


@settings(deadline=None, max_examples=200, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_words=st.integers(2, 40),
    scale=st.floats(-6, 6),
    spread=st.floats(0, 3),
    start=st.floats(-8, 8),
)
def test_maximum_inverts_the_own_statistics_from_any_start(seed, n_words, scale, spread, start):
    rng = np.random.default_rng(seed)
    alpha = 10.0 ** np.clip(scale + spread * rng.normal(size=n_words), -6, 6)
    mean_log = digamma(alpha) - digamma(alpha.sum())
    found = maximum(mean_log, np.full(n_words, 10.0**start))
    with mpmath.workdps(30):
        common = mpmath.digamma(mpmath.fsum(map(mpmath.mpf, found)))
        terms = [mpmath.digamma(mpmath.mpf(a)) for a in found]
        residuals = [float(t - common - s) for t, s in zip(terms, mean_log, strict=True)]
    # The equation holds to a few roundings of its terms; how well that settles α is another matter.
    sizes = np.abs([float(t) for t in terms]) + abs(float(common)) + 1.0
    assert (np.abs(residuals) < 5e-15 * sizes).all()
    if alpha.sum() < 1e3 and alpha.max() < 0.9 * alpha.sum():
        np.testing.assert_allclose(found, alpha, rtol=1e-10)


def test_maximum_is_that_of_a_general_optimizer():
    rng = np.random.default_rng(0)
    for _ in range(10):
        points = rng.dirichlet(rng.gamma(1.0, 2.0, 5) + 0.2, size=30)
        mean_log = np.log(points).mean(axis=0)
        found = maximum(mean_log, np.ones(5))
        np.testing.assert_allclose(found, oracles.maximum(mean_log, np.ones(5)), rtol=1e-6)
        best = oracles.log_joint(found, mean_log)
        for _ in range(20):
            other = found * np.exp(0.1 * rng.normal(size=5))
            assert oracles.log_joint(other, mean_log) < best


@pytest.mark.parametrize("mean_log", [np.log([0.5, 0.5]), np.log([0.2, 0.3, 0.5]), [-0.1, -0.1]])
def test_no_maximum_is_said_and_alpha_stays(mean_log):
    alpha = np.full(len(mean_log), 3.0)
    assert not kernels.maximum(np.asarray(mean_log), alpha)
    np.testing.assert_array_equal(alpha, 3.0)


def test_one_word_leaves_alpha_alone():
    np.testing.assert_array_equal(maximum([0.0], [2.5]), [2.5])


def test_hessian_solve_is_that_of_the_full_matrix():
    rng = np.random.default_rng(1)
    alpha = rng.gamma(1.0, 2.0, 12)
    q, z = polygamma(1, alpha), float(polygamma(1, alpha.sum()))
    gradient, step = rng.normal(size=12), np.empty(12)
    length = kernels.newton_step(gradient, q, z, step)
    expected = np.linalg.solve(np.diag(q) - z, gradient)
    np.testing.assert_allclose(step, expected, rtol=1e-10)
    assert length == pytest.approx(gradient @ expected, rel=1e-10)
    # Not positive definite: no direction is certain to rise.
    assert kernels.newton_step(gradient, q, 1e3, step) == 0.0


# Count tables ---------------------------------------------------------------------------------


def counts(seed, n_documents=700, n_words=6, top=8, far=0):
    """Counts of which a few, if ``far``, are too large for the tables."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(rng.gamma(0.6, top / 2, size=(n_documents, n_words)))
    X[::17] = 0
    if far:
        rows = rng.integers(n_documents, size=30)
        X[rows, rng.integers(n_words, size=30)] = rng.integers(250, far, size=30)
    return X


CASES = {
    "small": counts(2),
    "large": counts(3, top=60),
    "beyond the tables": counts(4, far=100_000),
    "wide": counts(5, 120, 9_000, top=1),
    "one word": counts(6, n_words=1),
}
each = pytest.mark.parametrize("X", CASES.values(), ids=CASES)
weighted = pytest.mark.parametrize("w", [False, True], ids=["plain", "weighted"])


def weights_of(X, w):
    if not w:
        return None
    return np.random.default_rng(7).uniform(0, 3, len(X)) * (np.arange(len(X)) % 5 > 0)


@each
@weighted
def test_tables_are_the_numbers_of_documents_above_each_count(X, w):
    w = weights_of(X, w)
    tables = CountTables.of(Table(X, w)).finished()
    each_weight = np.ones(len(X)) if w is None else w
    columns = np.column_stack([X, X.sum(axis=1)])
    for j in range(0, columns.shape[1], max(1, columns.shape[1] // 50)):
        table = tables.above[tables.starts[j] : tables.starts[j + 1]]
        for c in range(0, len(table), max(1, len(table) // 20)):
            expected = each_weight[columns[:, j] > c].sum()
            assert table[c] == pytest.approx(expected, rel=1e-12)
        far = slice(tables.far_starts[j], tables.far_starts[j + 1])
        beyond = columns[:, j] > len(table)
        values = np.unique(columns[beyond & (each_weight > 0), j])
        kept = tables.far_weights[far] > 0
        np.testing.assert_array_equal(tables.far_values[far][kept], values)
        assert tables.far_weights[far].sum() == pytest.approx(each_weight[beyond].sum(), rel=1e-12)


@each
@weighted
def test_sums_over_tables_are_the_plain_sums(X, w):
    w = weights_of(X, w)
    rng = np.random.default_rng(8)
    tables = CountTables.of(Table(X, w))
    for alpha in (rng.gamma(1.0, 1.0, X.shape[1]) + 1e-3, np.full(X.shape[1], 1e-6)):
        total, lengths = alpha.sum(), X.sum(axis=1)
        first, second = tables.derivatives(alpha)
        slopes = np.average(digamma(X + alpha) - digamma(alpha), axis=0, weights=w)
        curves = np.average(polygamma(1, alpha) - polygamma(1, X + alpha), axis=0, weights=w)
        np.testing.assert_allclose(first[:-1], slopes, rtol=1e-10, atol=1e-9)
        np.testing.assert_allclose(second[:-1], curves, rtol=1e-9, atol=1e-9)
        common = np.average(digamma(lengths + total) - digamma(total), weights=w)
        assert first[-1] == pytest.approx(common, rel=1e-10)
        log_likelihood = tables.log_likelihood(alpha)
        assert log_likelihood == pytest.approx(-oracles.nll(alpha, X, w), rel=1e-11, abs=1e-10)
    coefficients = gammaln(lengths + 1) - gammaln(X + 1).sum(axis=1)
    expected = np.average(coefficients, weights=w)
    assert tables.log_coefficient == pytest.approx(expected, rel=1e-11, abs=1e-12)


@each
def test_moments_of_tables_are_those_of_the_counts(X):
    first, second = CountTables.of(X).moments()
    columns = np.column_stack([X, X.sum(axis=1)]).astype(float)
    np.testing.assert_allclose(first, columns.sum(axis=0), rtol=1e-13)
    np.testing.assert_allclose(second, (columns * (columns - 1)).sum(axis=0), rtol=1e-13)


@each
def test_lengths_are_those_of_the_documents(X):
    values, shares = CountTables.of(X).lengths()
    expected, number = np.unique(X.sum(axis=1), return_counts=True)
    order = np.argsort(values)
    np.testing.assert_array_equal(values[order], expected)
    np.testing.assert_allclose(shares[order], number / len(X), rtol=1e-12)


@each
@weighted
@pytest.mark.parametrize("form", ["csr_array", "csc_array", "coo_array", "lil_matrix"])
def test_sparse_tables_are_those_of_the_array(X, w, form):
    w = weights_of(X, w)
    dense = CountTables.of(Table(X, w))
    if form == "csr_array":
        thin = CountTables.of(Table(sparse.csr_array(X), w))
    else:
        thin = CountTables.of(Table(getattr(sparse, form)(X).tocsr(), w))
    for one, other in zip(thin.finished(), dense.finished(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)


def test_entries_that_are_zero_or_twice_there():
    rows, columns = np.array([0, 0, 0, 1, 2]), np.array([1, 1, 2, 0, 2])
    X = sparse.coo_array((np.array([2, 3, 0, 4, 1]), (rows, columns)), shape=(3, 3))
    expected = CountTables.of(X.toarray())
    for one, other in zip(CountTables.of(X).finished(), expected.finished(), strict=True):
        np.testing.assert_array_equal(one, other)


DTYPES = [np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.uint64, np.int64,
          np.float32, np.float64]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
def test_any_type_in_any_layout(dtype):
    X = counts(9, top=12)
    expected = CountTables.of(X).finished()
    assert X.max() < 128
    padded = np.zeros((2 * len(X), 9), dtype)
    padded[::2, 2:8] = X
    layouts = [X.astype(dtype), np.asfortranarray(X.astype(dtype)), padded[::2, 2:8]]
    layouts += [sparse.csr_array(X.astype(dtype))]
    for layout in layouts:
        for one, other in zip(CountTables.of(layout).finished(), expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_tables_of_shards_add_up():
    X = counts(10, far=5000)
    whole = CountTables.of(X)
    added = CountTables.of([X[:13], X[13:400], sparse.csr_array(X[400:])])
    for one, other in zip(added.finished(), whole.finished(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert added.weight == whole.weight == len(X)


@pytest.mark.parametrize("thin", [False, True])
def test_any_number_of_threads_gives_the_same_bits(thin):
    rng = np.random.default_rng(11)
    X = np.tile(counts(12, 5000, 60, far=2000), (8, 1))
    w = rng.uniform(0, 2, len(X))
    data = Table(sparse.csr_array(X) if thin else X, w)
    results = [CountTables.of(data, n_jobs).finished() for n_jobs in (1, 2, 3, 7)]
    for result in results[1:]:
        for one, other in zip(result, results[0], strict=True):
            np.testing.assert_array_equal(one, other)


def test_rows_of_an_array_are_its_nonzero_entries():
    X = counts(13)
    expected = sparse.csr_array(X[20:500])
    indptr, indices, values = documents_of(X, 20, 500)
    np.testing.assert_array_equal(indptr, expected.indptr)
    np.testing.assert_array_equal(indices, expected.indices)
    np.testing.assert_array_equal(values, expected.data)


# Newton on the likelihood ---------------------------------------------------------------------


@settings(deadline=None, max_examples=60, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), start=st.floats(-6, 6), n_words=st.integers(2, 8))
def test_a_step_never_falls_from_anywhere(seed, start, n_words):
    rng = np.random.default_rng(seed)
    X = oracles.documents(rng.gamma(0.7, 1.0, n_words) + 0.01, rng.integers(1, 30, 40), rng)
    tables = CountTables.of(X)
    alpha = 10.0 ** (start + rng.normal(size=n_words))
    level = tables_kernels.log_likelihood(tables.finished(), alpha, alpha.sum())
    for _ in range(5):
        before = oracles.nll(alpha, X)
        first, second = tables.derivatives(alpha)
        level, _ = tables_kernels.ascend(tables.finished(), alpha, first, second, level)
        assert (alpha > 0).all()
        assert oracles.nll(alpha, X) <= before + 1e-10 * max(1.0, abs(before))
