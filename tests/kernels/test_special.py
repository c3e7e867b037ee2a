"""Special functions and shapes, against mpmath in 40 digits wherever the answer is known there."""

import math

import mpmath
import numpy as np
import pytest
import scipy.special
from numba import njit

from fastem.kernels import special

DIGAMMA_ZERO = 1.4616321449683622

#: The greatest relative error of the three functions, beside their zeros too. They need 1e-13.
GOOD = 2e-15


@pytest.fixture(autouse=True)
def forty_digits():
    with mpmath.workdps(40):
        yield


def call(function, *arguments, n_out=1):
    """The outputs of an array kernel."""
    arguments = [np.asarray(argument, np.float64) for argument in arguments]
    outputs = [np.full(arguments[0].shape, np.nan) for _ in range(n_out)]
    function(*arguments, *outputs)
    return outputs[0] if n_out == 1 else outputs


def errors(values, exact):
    """Relative errors, as floats, of floats against numbers of mpmath; absolute at zero."""
    assert len(values) == len(exact)
    pairs = zip(map(mpmath.mpf, values), exact, strict=True)
    return np.array([float(abs(v - e) / (abs(e) if e != 0 else 1)) for v, e in pairs])


def around(*points):
    """Each point, its neighbors among the doubles, and others ever closer to it."""
    offsets = [sign * 0.3**k for k in range(1, 30) for sign in (-1, 1)]
    near = [point * (1 + offset) for point in points for offset in offsets]
    near += [np.nextafter(point, side) for point in points for side in (0, np.inf)]
    return np.array([*points, *near])


def changes(a, b):
    """``ψ(a) - ψ(a + b)``, rounded once."""
    a, b = mpmath.mpf(a), mpmath.mpf(b)
    return float(mpmath.digamma(a) - mpmath.digamma(a + b))


def digamma(x):
    return mpmath.digamma(mpmath.mpf(x))


def trigamma(x):
    return mpmath.psi(1, mpmath.mpf(x))


def log_gamma(x):
    return mpmath.loggamma(mpmath.mpf(x))


KERNELS = {
    "digamma": (special.digamma_array, digamma, scipy.special.digamma),
    "trigamma": (special.trigamma_array, trigamma, lambda x: scipy.special.polygamma(1, x)),
    "log_gamma": (special.log_gamma_array, log_gamma, scipy.special.gammaln),
}
each_function = pytest.mark.parametrize("name", KERNELS)


# The three functions


@each_function
def test_over_the_whole_range(name):
    kernel, exact, _ = KERNELS[name]
    x = np.concatenate([np.geomspace(1e-10, 1e10, 300), np.linspace(0.02, 12.0, 200)])
    assert errors(call(kernel, x), [exact(v) for v in x]).max() < GOOD


@each_function
def test_around_zeros_and_where_the_formula_changes(name):
    kernel, exact, _ = KERNELS[name]
    x = around(1.0, DIGAMMA_ZERO, 1.5, 2.0, 8.0)
    assert errors(call(kernel, x), [exact(v) for v in x]).max() < GOOD


@each_function
def test_like_scipy(name):
    kernel, _, other = KERNELS[name]
    x = np.random.default_rng(0).lognormal(1.0, 3.0, 20_000)
    np.testing.assert_allclose(call(kernel, x), other(x), rtol=1e-13, atol=1e-13)


@each_function
def test_recurrence(name):
    # f(x + 1) - f(x), over all x where the two sides use different formulas.
    step = {"digamma": lambda x: 1 / x, "trigamma": lambda x: -1 / x**2, "log_gamma": np.log}[name]
    kernel = KERNELS[name][0]
    x = np.linspace(7.0, 8.0, 1001)[:-1]
    np.testing.assert_allclose(call(kernel, x + 1) - call(kernel, x), step(x), rtol=0, atol=1e-14)


def test_ends_of_the_range():
    ends = np.array([0.0, np.inf, np.nan, 1e-300, 1e300])
    nan = np.nan
    expected = [-np.inf, np.inf, nan, -1e300, 300 * math.log(10)]
    np.testing.assert_allclose(call(special.digamma_array, ends), expected, rtol=1e-15)
    expected = [np.inf, 0.0, nan, np.inf, 1e-300]
    np.testing.assert_allclose(call(special.trigamma_array, ends), expected, rtol=1e-15)
    expected = [np.inf, np.inf, nan, 300 * math.log(10), 1e300 * (300 * math.log(10) - 1)]
    np.testing.assert_allclose(call(special.log_gamma_array, ends), expected, rtol=1e-15)


def test_other_kernels_can_call_them():
    @njit
    def combine(x):
        return special.digamma(x) + special.trigamma(x) + special.log_gamma(x)

    expected = scipy.special.digamma(3.5) + scipy.special.polygamma(1, 3.5) + math.lgamma(3.5)
    assert combine(3.5) == pytest.approx(expected, rel=1e-14)


# Factorials


def test_log_factorial():
    n = np.concatenate([np.arange(400.0), np.floor(np.geomspace(400, 1e15, 100))])
    value = call(special.log_factorial_array, n)
    assert value[0] == value[1] == 0.0
    assert errors(value[2:], [log_gamma(v + 1) for v in map(mpmath.mpf, n[2:])]).max() < 1e-15


def test_log_factorial_is_that_of_python():
    n = np.array([0, 1, 2, 10, 170, 255, 256, 257, 1000, 5000])
    expected = [math.log(math.factorial(v)) for v in n.tolist()]
    np.testing.assert_allclose(call(special.log_factorial_array, n), expected, rtol=1e-15)


# The inverse of digamma


def test_inverse_digamma_against_mpmath():
    y = np.concatenate([-np.geomspace(1e-8, 1e12, 100), np.geomspace(1e-8, 30.0, 50)])
    y = np.concatenate([y, np.linspace(-4.0, 20.0, 100), around(-2.22, 18.0), [0.0]])
    x = call(special.inverse_digamma_array, y)
    # The distance to the root, by one step of Newton in 40 digits.
    steps = [(digamma(v) - mpmath.mpf(w)) / trigamma(v) for v, w in zip(x, y, strict=True)]
    assert max(abs(step) / v for step, v in zip(steps, x, strict=True)) < 5e-15


def test_inverse_digamma_round_trip():
    x = np.geomspace(1e-10, 1e10, 5000)
    y = call(special.digamma_array, x)
    back = call(special.inverse_digamma_array, y)
    # What the rounding of y alone does to x.
    conditioning = np.abs(y / (x * call(special.trigamma_array, x)))
    assert np.all(np.abs(back / x - 1) < 1e-15 * (4 + conditioning))


def test_inverse_digamma_far_out():
    y = np.array([-1.7e308, -1e300, -1e9, 100.0, 700.0, 710.0, np.nan])
    expected = [1 / 1.7e308, 1e-300, 1e-9 * (1 + 0.5772156649e-9), *np.exp(y[3:5]), np.inf, np.nan]
    np.testing.assert_allclose(call(special.inverse_digamma_array, y), expected, rtol=1e-15)


# Gamma densities


def test_log_minus_digamma():
    a = np.concatenate([np.geomspace(1e-10, 1e15, 250), around(8.0)])
    exact = [mpmath.log(mpmath.mpf(v)) - digamma(v) for v in a]
    assert errors(call(special.log_minus_digamma_array, a), exact).max() < 2e-14


def test_gamma_shape_against_mpmath():
    gap = np.geomspace(1e-12, 1e3, 200)
    a = call(special.gamma_shape_array, gap)
    for shape, target in zip(map(mpmath.mpf, a), map(mpmath.mpf, gap), strict=True):
        miss = mpmath.log(shape) - digamma(shape) - target
        assert abs(miss / (1 / shape - trigamma(shape))) < 3e-14 * shape


def test_gamma_shape_round_trip():
    a = np.geomspace(1e-3, 5e11, 5000)
    gap = call(special.log_minus_digamma_array, a)
    np.testing.assert_allclose(call(special.gamma_shape_array, gap), a, rtol=2e-14)


def test_gamma_shape_far_out():
    gap = np.array([0.0, 1e-300, 1e20, 1e300, np.nan])
    expected = [np.inf, 5e299, 1e-20, 1e-300, np.nan]
    np.testing.assert_allclose(call(special.gamma_shape_array, gap), expected, rtol=1e-15)


def test_gamma_shape_is_the_likeliest():
    data = np.random.default_rng(3).gamma(2.7, 1.9, 500)
    gap = np.log(data.mean()) - np.log(data).mean()
    (a,) = call(special.gamma_shape_array, [gap])

    def likelihood(shape):
        # At the best scale, per datum, without what does not depend on the shape.
        shape = mpmath.mpf(shape)
        return shape * (mpmath.log(shape) - 1 - mpmath.mpf(gap)) - log_gamma(shape)

    assert likelihood(a) > max(likelihood(a * (1 + 1e-7)), likelihood(a * (1 - 1e-7)))
    assert a == pytest.approx(2.7, rel=0.1)


# Beta densities


def pairs(n=13, low=1e-3, high=1e6):
    grid = np.geomspace(low, high, n)
    a, b = (v.ravel() for v in np.meshgrid(grid, grid))
    return a, b


@pytest.fixture(scope="module")
def beta_problems():
    """True shapes, and the means of log x and log(1 - x) that belong to them."""
    a, b = pairs()
    with mpmath.workdps(40):
        mean_log = np.array([changes(*pair) for pair in zip(a, b, strict=True)])
        mean_log1m = np.array([changes(*pair) for pair in zip(b, a, strict=True)])
    return a, b, mean_log, mean_log1m


def height(a, b, mean_log, mean_log1m):
    """The mean log-likelihood in 40 digits."""
    a, b, mean_log, mean_log1m = map(mpmath.mpf, (a, b, mean_log, mean_log1m))
    inverse_beta = log_gamma(a + b) - log_gamma(a) - log_gamma(b)
    return inverse_beta + (a - 1) * mean_log + (b - 1) * mean_log1m


def test_polygamma_changes():
    a, b = pairs(16)
    first, second = call(special.polygamma_changes_array, a, b, n_out=2)
    exact = [(mpmath.mpf(v), mpmath.mpf(w)) for v, w in zip(a, b, strict=True)]
    assert errors(first, [digamma(v + w) - digamma(v) for v, w in exact]).max() < 1e-14
    assert errors(second, [trigamma(v) - trigamma(v + w) for v, w in exact]).max() < 1e-14


def test_beta_shapes_find_the_truth(beta_problems):
    a, b, mean_log, mean_log1m = beta_problems
    found_a, found_b = call(special.beta_shapes_array, mean_log, mean_log1m, n_out=2)
    # The rounding of the means alone moves a and b by this much.
    tolerance = 2e-14 * np.maximum(1.0, np.minimum(a, b))
    assert np.all(np.abs(found_a / a - 1) < tolerance)
    assert np.all(np.abs(found_b / b - 1) < tolerance)


def test_beta_shapes_are_stationary(beta_problems):
    _, _, mean_log, mean_log1m = beta_problems
    a, b = call(special.beta_shapes_array, mean_log, mean_log1m, n_out=2)
    for v, w, first, second in zip(a, b, mean_log, mean_log1m, strict=True):
        assert changes(v, w) == pytest.approx(first, rel=1e-14)
        assert changes(w, v) == pytest.approx(second, rel=1e-14)


def test_beta_shapes_of_data():
    data = np.random.default_rng(4).beta(0.7, 3.1, 2000)
    means = np.log(data).mean(), np.log1p(-data).mean()
    a, b = call(special.beta_shapes_array, [means[0]], [means[1]], n_out=2)
    best = height(a[0], b[0], *means)
    for da, db in [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, -1), (1, -1), (-1, 1)]:
        assert height(a[0] * (1 + 1e-6 * da), b[0] * (1 + 1e-6 * db), *means) < best
    assert (a[0], b[0]) == pytest.approx((0.7, 3.1), rel=0.1)


def test_beta_ascent_never_falls_and_arrives_from_anywhere():
    rng = np.random.default_rng(5)
    true_a, true_b, a, b = 10.0 ** rng.uniform(-3, 6, (4, 100))
    means = [
        np.array([changes(*pair) for pair in zip(true_a, true_b, strict=True)]),
        np.array([changes(*pair) for pair in zip(true_b, true_a, strict=True)]),
    ]
    heights = [height(*point) for point in zip(a, b, *means, strict=True)]
    for _ in range(40):
        special.beta_ascent_array(a, b, *means)
        assert np.all((a > 0) & (b > 0))
        new = [height(*point) for point in zip(a, b, *means, strict=True)]
        # At the top, a and b move in their last digits.
        assert min(after - before for before, after in zip(heights, new, strict=True)) > -1e-20
        heights = new
    tolerance = 2e-14 * np.maximum(1.0, np.minimum(true_a, true_b))
    assert np.all(np.abs(a / true_a - 1) < tolerance)
    assert np.all(np.abs(b / true_b - 1) < tolerance)


def test_beta_shapes_are_infinite_without_a_maximum():
    mean_log = np.array([math.log(0.5), -0.1, math.log(0.3)])
    mean_log1m = np.array([math.log(0.5) + 1e-15, -0.1, math.log(0.7) + 1e-12])
    a, b = call(special.beta_shapes_array, mean_log, mean_log1m, n_out=2)
    assert np.all(np.isposinf(a)) and np.all(np.isposinf(b))


def test_beta_shapes_almost_without_a_maximum():
    half = np.log(np.array([0.5])) - 1e-12
    a, b = call(special.beta_shapes_array, half, half, n_out=2)
    assert a[0] == b[0] == pytest.approx(0.25e12, rel=1e-3)


def test_beta_shapes_at_the_last_digit():
    # Whether there is a maximum is up to rounding here; what comes out must be usable.
    last = np.arange(-3, 20) * 2.0**-53
    mean_log, mean_log1m = (v.ravel() for v in np.meshgrid(np.log(0.3) + last, np.log(0.7) - last))
    a, b = call(special.beta_shapes_array, mean_log, mean_log1m, n_out=2)
    finite = np.isfinite(a)
    assert np.array_equal(finite, np.isfinite(b))
    assert 0 < finite.sum() < finite.size
    assert a[finite].min() > 1e13
    np.testing.assert_allclose(a[finite] / (a + b)[finite], 0.3, rtol=1e-14)


@pytest.mark.parametrize("mean_log1m", [-1000.0, -50.0])
def test_beta_shapes_of_data_close_to_one(mean_log1m):
    a, b = call(special.beta_shapes_array, [-1e-17], [mean_log1m], n_out=2)
    assert changes(a[0], b[0]) == pytest.approx(-1e-17, rel=1e-14)
    assert changes(b[0], a[0]) == pytest.approx(mean_log1m, rel=1e-14)
    swapped_b, swapped_a = call(special.beta_shapes_array, [mean_log1m], [-1e-17], n_out=2)
    assert (swapped_a, swapped_b) == (a, b)


def test_beta_ascent_is_not_led_astray_where_the_curvature_is_lost():
    start = np.geomspace(1e16, 1e30, 50)
    a, b = start.copy(), start.copy()
    means = np.full(50, -0.7)
    special.beta_ascent_array(a, b, means, means)
    # The maximum is below: each stays, or goes there.
    assert np.all((a > 0) & (a <= start))
    assert np.all((b > 0) & (b <= start))
    assert np.any(a == start)


def test_beta_first_finds_the_truth(beta_problems):
    a, b, mean_log, _ = beta_problems
    found = call(special.beta_first_array, mean_log, b)
    np.testing.assert_allclose(found, a, rtol=1e-14)


def test_beta_first_is_exact_where_it_can_be():
    # ψ(a) - ψ(a + 1) = -1 / a, and at b = 2 that and one more.
    a = np.geomspace(1e-6, 1e9, 300)
    found = call(special.beta_first_array, -1.0 / a, np.ones_like(a))
    np.testing.assert_allclose(found, a, rtol=1e-14)
    found = call(special.beta_first_array, -1.0 / a - 1.0 / (a + 1.0), np.full_like(a, 2.0))
    np.testing.assert_allclose(found, a, rtol=1e-14)


def test_beta_first_is_infinite_without_a_maximum():
    found = call(special.beta_first_array, [0.0, 1e-300, 1.0], [0.5, 1.0, 2.0])
    assert np.all(np.isposinf(found))


def test_not_a_number_stays_so():
    nan = np.array([np.nan])
    assert np.isnan(call(special.beta_first_array, nan, np.ones(1)))
    assert np.all(np.isnan(call(special.beta_shapes_array, nan, -np.ones(1), n_out=2)))
    assert np.all(np.isnan(call(special.beta_shapes_array, -np.ones(1), nan, n_out=2)))
