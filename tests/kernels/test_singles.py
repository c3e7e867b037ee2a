"""Kernels that compute in float32: vectors of floats, products, posteriors and sums of blocks."""

import numpy as np
import pytest
from numba import njit
from scipy.stats import multivariate_normal

from fastem.families import Gaussian
from fastem.kernels import products, simd
from fastem.kernels.families import gaussian_plane
from fastem.kernels.families.gaussian_full import padded
from fastem.kernels.mixture import expectation
from fastem.kernels.rows import read_block, rows_of

EPS = float(np.finfo(np.float32).eps)
GROUP = 16
COLUMNS = [1, 2, 3, 4, 5, 9, 16, 33, 66]
ROWS = [1, 7, 16, 17, 31, 300, 512]

#: Sums of some hundred products of normal numbers.
CLOSE = {"rtol": 1e-4, "atol": 3e-4}

WIDTHS = {
    8: (simd.load, simd.splat, simd.count),
    16: (simd.load8, simd.splat8, simd.count8),
}


def whole(n):
    return -(-n // GROUP) * GROUP


def block_of(matrix, n_rows_of_block=None):
    """A matrix laid out as a block of floats, with NaN beyond the group."""
    n_rows, n = matrix.shape
    width = whole(n) + GROUP
    block = np.full((n_rows_of_block or n_rows, width), np.nan, dtype=np.float32)
    block[:, : whole(n)] = 0.0
    block[:n_rows, :n] = matrix
    return block.ravel(), width


def floats(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


# Vectors -----------------------------------------------------------------------------------------


def test_exponentials_of_floats_as_doubles():
    @njit
    def exponentials(x, out):
        for i in range(0, len(x), 8):
            simd.store(out, i, simd.exp_doubles(simd.load_eight(x, i)))

    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-700, 0, 800), rng.uniform(-2, 2, 792), [0.0, -np.inf, np.nan]])
    x = np.append(x, [-709.0, -1e30, -708.0, 1.0, -55.5]).astype(np.float32)
    out = np.empty(len(x))
    exponentials(x, out)
    expected = np.exp(x.astype(float))
    expected[np.isnan(x) | (x < -708.0)] = 0.0
    np.testing.assert_allclose(out, expected, rtol=4 * EPS, atol=0)
    assert out[-1] > 0.0  # a float would be zero there


@pytest.mark.parametrize("count", WIDTHS)
def test_instructions_of_floats(count):
    load, splat, count_of = WIDTHS[count]

    @njit
    def arithmetic(a, b, c, out):
        x, y, z = load(a, 0), load(b, 0), load(c, 0)
        simd.store(out, 0, x + y)
        simd.store(out, count, x - y)
        simd.store(out, 2 * count, x * y)
        simd.store(out, 3 * count, x / y)
        simd.store(out, 4 * count, simd.fma(x, y, z))
        simd.store(out, 5 * count, simd.maximum(x, y))
        simd.store(out, 6 * count, simd.square_root(z))
        simd.store(out, 7 * count, splat(a[1]))
        simd.store(out, 8 * count, simd.is_positive(x - y))
        simd.store(out, 9 * count, splat(simd.number(0.1, a)))
        return simd.total(x), count_of(a)

    a, b, c = np.random.default_rng(0).uniform(0.5, 2, (3, count)).astype(np.float32)
    out = np.full(10 * count, np.nan, dtype=np.float32)
    total, lanes = arithmetic(a, b, c, out)
    out = out.reshape(10, count)
    np.testing.assert_array_equal(out[:4], [a + b, a - b, a * b, a / b])
    once = (a.astype(float) * b + c).astype(np.float32)
    np.testing.assert_array_equal(out[4], once)
    np.testing.assert_array_equal(out[5:7], [np.maximum(a, b), np.sqrt(c)])
    np.testing.assert_array_equal(out[7:9], [np.full(count, a[1]), a > b])
    np.testing.assert_array_equal(out[9], np.full(count, np.float32(0.1)))
    assert lanes == count
    assert total == pytest.approx(a.astype(float).sum(), rel=3 * EPS)


@njit
def exp_and_log(x, exps, logs):
    for i in range(0, x.shape[0], simd.count8(x)):
        value = simd.load8(x, i)
        simd.store(exps, i, simd.exp(value))
        simd.store(logs, i, simd.log(simd.maximum(value, simd.splat8(simd.number(1e-37, x)))))


def test_exp_and_log_of_floats():
    rng = np.random.default_rng(1)
    x = np.concatenate(
        [rng.uniform(-55, 88, 3000), rng.uniform(-1, 1, 997), [0.0, -55.0, 88.0]]
    ).astype(np.float32)
    exps, logs = np.empty_like(x), np.empty_like(x)
    exp_and_log(x, exps, logs)
    exact = np.exp(x.astype(float))
    assert (np.abs(exps - exact) <= 2 * np.spacing(exact.astype(np.float32))).all()
    assert exps[x == 0.0] == 1.0
    positive = (10.0 ** rng.uniform(-36, 38, 4000)).astype(np.float32)
    positive[:100] = 1 + np.linspace(-0.01, 0.01, 100)
    exp_and_log(positive, exps, logs)
    exact = np.log(positive.astype(float))
    assert (np.abs(logs - exact) <= 2 * np.spacing(np.abs(exact).astype(np.float32))).all()
    low = np.array([-55.01, -60, -1e4, -3e38, -np.inf] + [np.nan] * 11, dtype=np.float32)
    exp_and_log(low, exps, logs)
    np.testing.assert_array_equal(exps[:16], np.zeros(16))


@njit
def move(x, m, s, centered, standardized):
    for i in range(0, x.shape[0], simd.count8(x)):
        simd.store(centered, i, simd.centered(simd.load8(x, i), m))
        simd.store(standardized, i, simd.standardized(simd.load8(x, i), m, s))


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e4, -1e6])
def test_differences_from_a_double_lose_nothing(offset):
    rng = np.random.default_rng(2)
    x = (offset + rng.normal(size=1600)).astype(np.float32)
    m, s = offset + rng.normal(), 0.37
    centered, standardized = np.empty_like(x), np.empty_like(x)
    move(x, m, s, centered, standardized)
    exact = x.astype(float) - m
    # The rounding of what m is more than the float next to it, and that of the result.
    error = EPS * (np.abs(exact) + EPS * abs(m))
    assert (np.abs(centered - exact) <= error).all()
    assert (np.abs(standardized - s * exact) <= 3 * s * error).all()


def test_totals_of_eight_vectors():
    @njit
    def add(x, out, stride):
        simd.add_totals(
            out, 1, stride, simd.load8(x, 0), simd.load8(x, 16), simd.load8(x, 32),
            simd.load8(x, 48), simd.load8(x, 64), simd.load8(x, 80), simd.load8(x, 96),
            simd.load8(x, 112),
        )  # fmt: skip

    @njit
    def add_short(x, out, stride):
        simd.add_totals(
            out, 1, stride, simd.load(x, 0), simd.load(x, 16), simd.load(x, 32),
            simd.load(x, 48), simd.load(x, 64), simd.load(x, 80), simd.load(x, 96),
            simd.load(x, 112),
        )  # fmt: skip

    for function, lanes in ((add, 16), (add_short, 8)):
        x = floats(np.random.default_rng(3), 8, 16)
        out = np.arange(20.0)
        function(x.ravel(), out, 5)
        expected = np.arange(20.0)
        sums = x[:, :lanes].astype(float).sum(axis=1)
        for i in range(4):
            expected[1 + 5 * i : 3 + 5 * i] += sums[2 * i : 2 * i + 2]
        np.testing.assert_allclose(out, expected, atol=3e-6)


# Products ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", ROWS)
@pytest.mark.parametrize("n_columns", COLUMNS)
def test_products_of_floats(n_columns, n):
    rng = np.random.default_rng(n_columns * 1000 + n)
    x = floats(rng, n_columns, n)
    size = padded(n_columns)
    factor = np.zeros((size, size), dtype=np.float32)
    factor[:n_columns, :n_columns] = np.tril(rng.normal(size=(n_columns, n_columns)))
    block, width = block_of(x, size)
    exact = x.astype(float)
    images = factor[:n_columns, :n_columns].astype(float) @ exact

    start = floats(rng, width)
    out = start.copy()
    products.subtract_half_norms(factor.ravel(), size, 0, size, block, width, whole(n), out)
    np.testing.assert_allclose(out[:n], start[:n] - 0.5 * (images**2).sum(axis=0), **CLOSE)
    np.testing.assert_array_equal(out[whole(n) :], start[whole(n) :])

    out = np.full(size * width, np.nan, dtype=np.float32)
    products.whiten(factor.ravel(), size, block, width, whole(n), out)
    np.testing.assert_allclose(out.reshape(size, width)[:n_columns, :n], images, **CLOSE)

    before = rng.normal(size=(size, size))
    out = before.copy().ravel()
    products.add_products(block, size, width, whole(n), out)
    lower = np.tril_indices(n_columns)
    np.testing.assert_allclose(
        out.reshape(size, size)[lower], before[lower] + (exact @ exact.T)[lower], **CLOSE
    )

    n_other = n_columns % 5 + 1
    other, _ = block_of(floats(rng, n_other, n))
    before = rng.normal(size=(n_other, n_columns))
    out = before.copy().ravel()
    products.add_cross_products(other, n_other, block, n_columns, width, whole(n), out)
    there = other.reshape(n_other, width)[:, :n].astype(float)
    np.testing.assert_allclose(out.reshape(n_other, n_columns), before + there @ exact.T, **CLOSE)


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("n", ROWS)
@pytest.mark.parametrize("n_columns", [1, 2, 5, 16, 33])
def test_distances_and_moments_of_floats(n_columns, n, offset):
    n_components = 3
    rng = np.random.default_rng(n_columns * 1000 + n)
    x = (offset + rng.normal(size=(n_columns, n))).astype(np.float32)
    block, width = block_of(x)
    means = offset + rng.normal(size=(n_components, n_columns))
    scales = rng.uniform(0.5, 2, (n_components, n_columns)).astype(np.float32)
    d = x.astype(float) - means[:, :, None]

    start = floats(rng, n_components, width)
    out = start.copy().reshape(-1)
    products.subtract_distances(block, width, whole(n), means, scales, out)
    out = out.reshape(n_components, width)
    expected = start[:, :n] - ((scales[:, :, None] * d) ** 2).sum(axis=1)
    np.testing.assert_allclose(out[:, :n], expected, **CLOSE)
    np.testing.assert_array_equal(out[:, whole(n) :], start[:, whole(n) :])

    w = rng.uniform(size=(n_components, n)).astype(np.float32)
    w_block, _ = block_of(w)
    first, second = np.zeros((2, n_components, n_columns))
    expected = np.einsum("ki,kci->kc", w, d), np.einsum("ki,kci->kc", w, d**2)
    totals = w.astype(float).sum(axis=1)
    products.add_moments(block, width, whole(n), w_block, totals, means, first, second)
    np.testing.assert_allclose(first, expected[0], **CLOSE)
    np.testing.assert_allclose(second, expected[1], **CLOSE)


@pytest.mark.parametrize("n", [1, 16, 300])
@pytest.mark.parametrize("n_columns", [1, 2])
def test_one_and_two_columns_of_floats(n_columns, n):
    rng = np.random.default_rng(n_columns * 1000 + n)
    x = (1e3 + rng.normal(size=(n_columns, n))).astype(np.float32)
    block, width = block_of(x)
    factor = np.zeros((4, 4), dtype=np.float32)
    factor[:n_columns, :n_columns] = np.tril(rng.normal(size=(n_columns, n_columns)))
    mean = 1e3 + rng.normal(size=n_columns)
    d = x.astype(float) - mean[:, None]
    out = np.zeros(width, dtype=np.float32)
    gaussian_plane.subtract_half_norms_in_plane(
        block, width, whole(n), mean, factor.ravel(), 4, out
    )
    norms = ((factor[:n_columns, :n_columns].astype(float) @ d) ** 2).sum(axis=0)
    np.testing.assert_allclose(out[:n], -0.5 * norms, **CLOSE)
    w = rng.uniform(size=n).astype(np.float32)
    gamma, _ = block_of(w[None])
    first, second = np.zeros(n_columns), np.zeros(16)
    gaussian_plane.add_moments_in_plane(block, width, whole(n), mean, gamma, first, second, 4)
    np.testing.assert_allclose(first, d @ w, **CLOSE)
    lower = np.tril_indices(n_columns)
    np.testing.assert_allclose(
        second.reshape(4, 4)[:n_columns, :n_columns][lower], ((d * w) @ d.T)[lower], **CLOSE
    )


@pytest.mark.parametrize("n_columns", [1, 3, 4, 5, 9])
def test_blocks_of_floats_are_read_as_they_are(n_columns):
    rng = np.random.default_rng(84)
    array = floats(rng, 60, n_columns)
    margin = np.zeros((60, n_columns + 5), dtype=np.float32)
    margin[:, 2:-3] = array
    for laid_out in (array, np.asfortranarray(array), margin[:, 2:-3], array[::-1], array[::2]):
        for first, n in ((0, len(laid_out)), (3, 1), (2, 16), (1, 21)):
            width = whole(n) + GROUP
            block = np.full(n_columns * width, np.nan, dtype=np.float32)
            read_block(rows_of(laid_out), first, n, block, width)
            got = block.reshape(n_columns, width)
            np.testing.assert_array_equal(got[:, :n].T, laid_out[first : first + n])
            assert (got[:, n : whole(n)] == 0).all()
            assert np.isnan(got[:, whole(n) :]).all()


# Posteriors and sums -----------------------------------------------------------------------------


def parameters(rng, kind, n_components, n_columns):
    means = rng.normal(size=(n_components, n_columns))
    A = rng.normal(size=(n_components, n_columns, n_columns)) / np.sqrt(n_columns)
    matrices = A @ np.swapaxes(A, 1, 2) + np.eye(n_columns)
    covariances = {
        "full": matrices,
        "tied": matrices[0],
        "diag": rng.uniform(0.5, 2, (n_components, n_columns)),
        "spherical": rng.uniform(0.5, 2, n_components),
    }[kind]
    return {"means": means, "covariances": covariances}


def full_covariances(kind, covariances, n_components, n_columns):
    if kind == "full":
        return covariances
    if kind == "tied":
        return np.repeat(covariances[None], n_components, axis=0)
    columns = covariances if kind == "diag" else np.repeat(covariances[:, None], n_columns, axis=1)
    return np.stack([np.diag(row) for row in columns])


@pytest.mark.parametrize("separation", [0.3, 4.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_columns", [1, 2, 3, 16, 19, 140])
@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_sums_and_posteriors_of_floats(kind, n_columns, weighted, separation):
    n_components, n_rows = 4, 1100
    rng = np.random.default_rng(n_columns)
    given = parameters(rng, kind, n_components, n_columns)
    given["means"] *= separation
    labels = rng.integers(n_components, size=n_rows)
    X = (given["means"][labels] + rng.normal(size=(n_rows, n_columns))).astype(np.float32)
    row_weights = rng.uniform(0, 2, n_rows) if weighted else np.empty(0)
    if weighted:
        row_weights[::7] = 0.0
    w = rng.dirichlet(np.ones(n_components))
    family = Gaussian(kind, reg_covar=1e-3)
    packed = family.pack(given)
    single = family.in_single(packed)
    mass, buffers = np.zeros(n_components), family.buffers(packed)
    got = expectation.expect(rows_of(X), 0, n_rows, row_weights, np.log(w), single, mass, buffers)
    matrices = full_covariances(kind, given["covariances"], n_components, n_columns)
    exact = X.astype(float)
    log_p = np.log(w) + np.stack(
        [
            multivariate_normal.logpdf(exact, given["means"][k], matrices[k])
            for k in range(n_components)
        ],
        axis=1,
    )
    top = log_p.max(axis=1, keepdims=True)
    totals = top[:, 0] + np.log(np.exp(log_p - top).sum(axis=1))
    gamma = np.exp(log_p - totals[:, None])
    counts = row_weights if weighted else np.ones(n_rows)
    assert got == pytest.approx(totals @ counts, rel=1e-6)
    g = gamma * counts[:, None]
    np.testing.assert_allclose(mass, g.sum(axis=0), rtol=1e-5, atol=1e-4)
    moments = family.collect(packed, mass, buffers)["moments"]
    means = g.T @ exact / g.sum(axis=0)[:, None]
    np.testing.assert_allclose(moments.mean, means, atol=3e-6 * (1 + separation))
    scatter = np.stack(
        [
            ((exact - means[k]) * g[:, k : k + 1]).T @ (exact - means[k])
            + 1e-3 * g[:, k].sum() * np.eye(n_columns)
            for k in range(n_components)
        ]
    )
    expected = {
        "full": lambda: scatter,
        "tied": lambda: scatter.sum(axis=0),
        "diag": lambda: np.diagonal(scatter, axis1=1, axis2=2),
        "spherical": lambda: np.trace(scatter, axis1=1, axis2=2),
    }[kind]()
    np.testing.assert_allclose(moments.scatter, expected, rtol=2e-5, atol=2e-5 * counts.sum())

    posteriors = np.empty((n_rows, n_components))
    likeliest = np.empty(n_rows, dtype=np.int64)
    within = expectation.infer(
        rows_of(X), 0, n_rows, np.log(w), single, np.empty(0), posteriors, likeliest
    )
    assert within
    np.testing.assert_allclose(posteriors, gamma, atol=1e-6 * (4 + n_columns))
    sure = np.sort(gamma, axis=1)[:, -1] - np.sort(gamma, axis=1)[:, -2] > 1e-3
    np.testing.assert_array_equal(likeliest[sure], gamma.argmax(axis=1)[sure])


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_densities_beyond_the_range_of_floats_are_told(kind):
    rng = np.random.default_rng(5)
    given = parameters(rng, kind, 2, 3)
    family = Gaussian(kind)
    single = family.in_single(family.pack(given))
    X = floats(rng, 100, 3)
    arguments = (0, 100, np.log([0.5, 0.5]), single, np.empty(0), np.empty((0, 2)))
    labels = np.empty(100, dtype=np.int64)
    assert expectation.infer(rows_of(X), *arguments, labels)
    X[70, 1] = 1e25
    assert not expectation.infer(rows_of(X), *arguments, labels)
