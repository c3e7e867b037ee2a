"""Products over blocks, factors and reading of rows, at sizes that fit no tile."""

import numpy as np
import pytest
from numba import njit

from fastem.families import Gaussian
from fastem.kernels import products, simd
from fastem.kernels.cholesky import covariance_from_factor, inverse_factor
from fastem.kernels.families import gaussian_plane
from fastem.kernels.families.gaussian_full import padded
from fastem.kernels.rows import GROUP, READABLE, read_block, read_row, rows_of

from oracles import families as oracles

COLUMNS = [1, 2, 3, 4, 5, 7, 8, 9, 31, 33, 66]
ROWS = [1, 3, 7, 8, 9, 255, 257, 300]

#: Sums of some hundred products of normal numbers.
CLOSE = {"rtol": 1e-11, "atol": 1e-11}


def whole(n):
    return -(-n // GROUP) * GROUP


def block_of(matrix, n_rows_of_block=None, filler=np.nan):
    """A matrix laid out as a block: rows ``width`` apart, zeros up to the group, then filler."""
    n_rows, n = matrix.shape
    width = whole(n) + GROUP
    block = np.full((n_rows_of_block or n_rows, width), filler)
    block[:, : whole(n)] = 0.0
    block[:n_rows, :n] = matrix
    return np.ascontiguousarray(block.ravel()), width


def lower_factor(rng, n_columns):
    """A lower triangle in rows of whole fours, zero outside."""
    size = padded(n_columns)
    factor = np.zeros((size, size))
    factor[:n_columns, :n_columns] = np.tril(rng.normal(size=(n_columns, n_columns)))
    return factor, size


@pytest.mark.parametrize("n", ROWS)
@pytest.mark.parametrize("n_columns", COLUMNS)
def test_triangular_products(n_columns, n):
    rng = np.random.default_rng(n_columns * 1000 + n)
    x = rng.normal(size=(n_columns, n))
    factor, size = lower_factor(rng, n_columns)
    block, width = block_of(x, size)
    images = factor[:n_columns, :n_columns] @ x

    start = rng.normal(size=width)
    out = start.copy()
    products.subtract_half_norms(factor.ravel(), size, 0, size, block, width, whole(n), out)
    np.testing.assert_allclose(out[:n], start[:n] - 0.5 * (images**2).sum(axis=0), **CLOSE)
    np.testing.assert_array_equal(out[whole(n) :], start[whole(n) :])

    out = np.full(size * width, np.nan)
    products.whiten(factor.ravel(), size, block, width, whole(n), out)
    np.testing.assert_allclose(out.reshape(size, width)[:n_columns, :n], images, **CLOSE)

    before = rng.normal(size=(size, size))
    out = before.copy().ravel()
    products.add_products(block, size, width, whole(n), out)
    lower = np.tril_indices(n_columns)
    np.testing.assert_allclose(
        out.reshape(size, size)[lower], before[lower] + (x @ x.T)[lower], **CLOSE
    )


@pytest.mark.parametrize("n", [1, 7, 8, 300])
@pytest.mark.parametrize("n_in", [1, 2, 5, 9])
@pytest.mark.parametrize("n_out", [1, 2, 3, 4, 5, 9])
def test_combinations_and_cross_products(n_out, n_in, n):
    rng = np.random.default_rng(n_out * 10_000 + n_in * 1000 + n)
    weights = rng.normal(size=(n_out, n_in))
    x, y = rng.normal(size=(n_in, n)), rng.normal(size=(n_out, n))
    x_block, width = block_of(x)
    y_block, _ = block_of(y)

    out = y_block.copy()
    products.add_combinations(weights.ravel(), n_out, n_in, x_block, width, whole(n), out)
    np.testing.assert_allclose(out.reshape(n_out, width)[:, :n], y + weights @ x, **CLOSE)
    assert np.isnan(out.reshape(n_out, width)[:, whole(n) :]).all()

    before = rng.normal(size=(n_out, n_in))
    out = before.copy().ravel()
    products.add_cross_products(y_block, n_out, x_block, n_in, width, whole(n), out)
    np.testing.assert_allclose(out.reshape(n_out, n_in), before + y @ x.T, **CLOSE)


@pytest.mark.parametrize("n", ROWS)
@pytest.mark.parametrize("n_columns", COLUMNS)
@pytest.mark.parametrize("n_components", [1, 3])
def test_distances_and_moments(n_components, n_columns, n):
    rng = np.random.default_rng(n_columns * 1000 + n + n_components)
    x = rng.normal(size=(n_columns, n))
    block, width = block_of(x)
    means = rng.normal(size=(n_components, n_columns))
    scales = rng.uniform(0.5, 2, (n_components, n_columns))
    d = x - means[:, :, None]

    start = rng.normal(size=(n_components, width))
    out = start.copy().reshape(-1)
    products.subtract_distances(block, width, whole(n), means, scales, out)
    out = out.reshape(n_components, width)
    expected = start[:, :n] - ((scales[:, :, None] * d) ** 2).sum(axis=1)
    np.testing.assert_allclose(out[:, :n], expected, **CLOSE)
    np.testing.assert_array_equal(out[:, whole(n) :], start[:, whole(n) :])

    w = rng.uniform(size=(n_components, n))
    w_block, _ = block_of(w)
    first, second = rng.normal(size=(2, n_components, n_columns))
    expected = (
        first + np.einsum("ki,kci->kc", w, d),
        second + np.einsum("ki,kci->kc", w, d**2),
    )
    products.add_moments(block, width, whole(n), w_block, w.sum(axis=1), means, first, second)
    np.testing.assert_allclose(first, expected[0], **CLOSE)
    np.testing.assert_allclose(second, expected[1], **CLOSE)


@njit
def lanes_of_register(x):
    return simd.count_register(x)


@pytest.mark.parametrize(
    "dtype, close", [(np.float64, CLOSE), (np.float32, {"rtol": 1e-5, "atol": 1e-4})]
)
@pytest.mark.parametrize("n", [1, 8, 300, 512])
@pytest.mark.parametrize("n_columns", [1, 2, 5, 16, 33])
@pytest.mark.parametrize("n_components", [1, 3])
def test_moments_of_chosen_rows(n_components, n_columns, n, dtype, close):
    rng = np.random.default_rng(n_columns * 1000 + n + n_components)
    filled = -(-n // 16) * 16
    width = filled + 16
    x = (100.0 + rng.normal(size=(n_columns, width))).astype(dtype)
    w = rng.uniform(size=(n_components, width)).astype(dtype)
    w[rng.uniform(size=w.shape) < 0.7] = 0.0
    w[:, n:] = 0.0
    means = 100.0 + rng.normal(size=(n_components, n_columns))
    d = x.astype(float)[:, :filled] - means[:, :, None]
    weights = w.ravel()

    totals = np.ones(n_components)
    n_chosen = products.add_sums(weights, width, filled, n_components, 0.0, totals)
    assert n_chosen == np.count_nonzero(w)
    np.testing.assert_allclose(totals - 1.0, w.astype(float).sum(axis=1), rtol=1e-6, atol=1e-12)
    totals -= 1.0

    places, starts = np.empty(n_chosen + 8, dtype=np.int32), np.empty(n_components + 1, dtype=int)
    products.choose(weights, width, filled, n_components, 0.0, places, starts)
    for k in range(n_components):
        np.testing.assert_array_equal(places[starts[k] : starts[k + 1]], np.flatnonzero(w[k]))

    lanes = lanes_of_register(weights)
    stride = -(-n_columns // lanes) * lanes
    rows = np.full(filled * stride, np.nan, dtype=dtype)
    products.lay_rows(x.ravel(), n_columns, width, filled, rows, stride)
    laid = rows.reshape(filled, stride)
    np.testing.assert_array_equal(laid[:, :n_columns], x[:, :filled].T)
    assert not laid[:, n_columns:].any()

    first, second = rng.normal(size=(2, n_components, n_columns))
    there = w.astype(float)[:, :filled]
    expected = (
        first + np.einsum("ki,kci->kc", there, d),
        second + np.einsum("ki,kci->kc", there, d**2),
    )
    products.add_chosen_moments(
        rows, stride, places, starts, weights, width, totals, means, first, second
    )
    np.testing.assert_allclose(first, expected[0], **close)
    np.testing.assert_allclose(second, expected[1], **close)


@pytest.mark.parametrize("n", [1, 8, 300])
@pytest.mark.parametrize("n_columns", [1, 2])
def test_one_and_two_columns(n_columns, n):
    rng = np.random.default_rng(n_columns * 1000 + n)
    x = rng.normal(size=(n_columns, n))
    block, width = block_of(x)
    factor, size = lower_factor(rng, n_columns)
    mean = rng.normal(size=n_columns)
    d = x - mean[:, None]

    start = rng.normal(size=width)
    out = start.copy()
    gaussian_plane.subtract_half_norms_in_plane(
        block, width, whole(n), mean, factor.ravel(), size, out
    )
    norms = ((factor[:n_columns, :n_columns] @ d) ** 2).sum(axis=0)
    np.testing.assert_allclose(out[:n], start[:n] - 0.5 * norms, **CLOSE)
    np.testing.assert_array_equal(out[whole(n) :], start[whole(n) :])

    w = rng.uniform(size=n)
    gamma, _ = block_of(w[None])
    first, before = rng.normal(size=n_columns), rng.normal(size=(size, size))
    expected = first + d @ w
    scatter = before.copy().ravel()
    gaussian_plane.add_moments_in_plane(block, width, whole(n), mean, gamma, first, scatter, size)
    np.testing.assert_allclose(first, expected, **CLOSE)
    wanted = before.copy()
    lower = np.tril_indices(n_columns)
    wanted[lower] += ((w * d) @ d.T)[lower]
    np.testing.assert_allclose(scatter.reshape(size, size), wanted, **CLOSE)


# Factors --------------------------------------------------------------------------------------


def positive(rng, n, condition=1.0):
    Q, _ = np.linalg.qr(rng.normal(size=(n, n)))
    values = np.geomspace(1.0, condition, n) if condition > 1 else rng.uniform(0.5, 2, n)
    matrix = (Q * values) @ Q.T
    return np.ascontiguousarray(0.5 * (matrix + matrix.T))


@pytest.mark.parametrize("n", [*range(1, 14), 32, 33, 65])
def test_inverse_factor(n):
    rng = np.random.default_rng(n)
    matrix = positive(rng, n)
    size = padded(n)
    factor = np.full(size * size, np.nan)
    log_determinant = inverse_factor(matrix, factor, size)
    square = factor.reshape(size, size)
    np.testing.assert_allclose(square[:n, :n], oracles.inverse_factor(matrix), **CLOSE)
    # Outside the triangle there are zeros and not what was there before.
    assert not np.triu(square, 1).any()
    assert not square[n:].any()
    assert not square[:, n:].any()
    assert log_determinant == pytest.approx(-0.5 * np.linalg.slogdet(matrix)[1], rel=1e-11)
    back = np.empty((n, n))
    covariance_from_factor(factor, size, back)
    np.testing.assert_allclose(back, matrix, **CLOSE)
    np.testing.assert_array_equal(back, back.T)


def test_inverse_factor_reads_the_lower_triangle_only():
    rng = np.random.default_rng(81)
    matrix = positive(rng, 6)
    spoilt = matrix + np.triu(rng.normal(size=(6, 6)), 1)
    factors = np.zeros((2, 64))
    for m, factor in zip((matrix, spoilt), factors, strict=True):
        inverse_factor(np.ascontiguousarray(m), factor, 8)
    np.testing.assert_array_equal(factors[0], factors[1])


def test_inverse_factor_of_an_ill_conditioned_matrix():
    """The residual P Σ Pᵀ - I of a stable method is of the order of condition × rounding."""
    matrix = positive(np.random.default_rng(82), 12, condition=1e8)
    factor = np.zeros(144)
    inverse_factor(matrix, factor, 12)
    P = factor.reshape(12, 12)
    np.testing.assert_allclose(P @ matrix @ P.T, np.eye(12), atol=1e8 * 2.2e-16 * 12)


@pytest.mark.parametrize("n", [1, 3, 4, 5, 9])
@pytest.mark.parametrize("spoil", ["zero", "negative", "nan", "infinite", "singular"])
def test_what_is_not_positive_definite_has_no_factor(n, spoil):
    matrix = positive(np.random.default_rng(83), n)
    last = n - 1
    if spoil == "zero":
        matrix[:] = 0.0
    elif spoil == "singular":
        # The square of a vector of whole numbers: the pivots after the first vanish exactly.
        v = np.arange(2.0, n + 2)
        matrix[:] = np.outer(v, v) if n > 1 else 0.0
    else:
        matrix[last, last] = {"negative": -1.0, "nan": np.nan, "infinite": np.inf}[spoil]
    factor = np.zeros(padded(n) ** 2)
    assert np.isnan(inverse_factor(matrix, factor, padded(n)))


@pytest.mark.parametrize("kind", ["full", "tied"])
@pytest.mark.parametrize("n_columns", [1, 2, 3, 4, 5, 9, 70])
def test_an_infinite_variance_is_refused(kind, n_columns):
    """In a kernel whose sums may be reassociated isfinite of a sum is no test: s - s becomes 0."""
    covariance = np.eye(n_columns)
    covariance[-1, -1] = np.inf
    parameters = {
        "means": np.zeros((1, n_columns)),
        "covariances": covariance if kind == "tied" else covariance[None],
    }
    with pytest.raises(ValueError, match="covariances must be finite"):
        Gaussian(kind).pack(parameters)
    assert (
        not inverse_factor(covariance, np.zeros(padded(n_columns) ** 2), padded(n_columns)) < np.inf
    )


# Reading --------------------------------------------------------------------------------------


def layouts(array):
    """The same entries in every order that NumPy can hold them in."""
    n_rows, n_columns = array.shape
    yield "C", np.ascontiguousarray(array)
    yield "F", np.asfortranarray(array)
    wide = np.zeros((n_rows, 3 * n_columns + 1), dtype=array.dtype)
    wide[:, 1::3] = array
    yield "every third column", wide[:, 1::3]
    tall = np.zeros((2 * n_rows, n_columns), dtype=array.dtype)
    tall[::2] = array
    yield "every second row", tall[::2]
    yield "backwards", np.ascontiguousarray(array[::-1, ::-1])[::-1, ::-1]
    margin = np.zeros((n_rows, n_columns + 5), dtype=array.dtype)
    margin[:, 2:-3] = array
    yield "inner columns", margin[:, 2:-3]
    buffer = np.zeros(array.nbytes + 1, dtype=np.uint8)
    unaligned = buffer[1:].view(array.dtype).reshape(array.shape)
    unaligned[:] = array
    yield "unaligned", unaligned
    yield "one row again and again", np.broadcast_to(array[:1], array.shape)


@pytest.mark.parametrize("dtype", READABLE, ids=lambda t: t.__name__)
@pytest.mark.parametrize("n_columns", [1, 3, 4, 5, 9])
def test_read_block_of_any_type_and_layout(dtype, n_columns):
    rng = np.random.default_rng(84)
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        # Doubles hold whole numbers to 2^53.
        low, high = max(info.min, -(2**53)), min(info.max, 2**53)
        array = rng.integers(low, high, size=(40, n_columns), endpoint=True).astype(dtype)
    else:
        array = rng.normal(size=(40, n_columns)).astype(dtype)
    for name, laid_out in layouts(array):
        for first, n in ((0, 40), (3, 1), (5, 8), (2, 13), (39, 1)):
            width = whole(n) + GROUP
            block = np.full(n_columns * width, np.nan)
            read_block(rows_of(laid_out), first, n, block, width)
            got = block.reshape(n_columns, width)
            np.testing.assert_array_equal(
                got[:, :n].T, laid_out[first : first + n].astype(float), err_msg=name
            )
            assert (got[:, n : whole(n)] == 0).all()
            assert np.isnan(got[:, whole(n) :]).all()
        row = np.full(n_columns, np.nan)
        read_row(rows_of(laid_out), 17, row)
        np.testing.assert_array_equal(row, laid_out[17].astype(float), err_msg=name)
