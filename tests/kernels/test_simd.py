"""Vectors of four and eight: exp and log over their range, and the rest of the instructions."""

import operator

import mpmath
import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from fastem.kernels import simd


class Width:
    """Functions of arrays by vectors of ``count`` lanes."""

    def __init__(self, count, load, splat):
        @njit
        def exp_of(x, out):
            for i in range(0, x.shape[0], count):
                simd.store(out, i, simd.exp(load(x, i)))

        @njit
        def log_of(x, out):
            for i in range(0, x.shape[0], count):
                simd.store(out, i, simd.log(load(x, i)))

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
            out[9 * count] = simd.total(x)

        self.count, self.exp, self.log, self.arithmetic = count, exp_of, log_of, arithmetic


WIDTHS = [Width(4, simd.load, simd.splat), Width(8, simd.load8, simd.splat8)]


@pytest.fixture(params=WIDTHS, ids=lambda width: str(width.count))
def width(request):
    return request.param


def apply(function, x):
    """The function of every entry, whose number is filled up to whole vectors with ones."""
    x = np.asarray(x, dtype=float)
    padded = np.append(x, np.ones(-len(x) % 8))
    out = np.full(len(padded), np.nan)
    function(padded, out)
    return out[: len(x)]


def errors_in_ulp(got, x, exact):
    with mpmath.workdps(40):
        values = [(mpmath.mpf(g), exact(mpmath.mpf(v))) for g, v in zip(got, x, strict=True)]
        return np.array([float(abs(g - e) / np.spacing(abs(float(e)))) for g, e in values])


def test_exp_is_within_two_ulp(width):
    rng = np.random.default_rng(71)
    x = np.concatenate([
        rng.uniform(-708, 709, 3000), rng.uniform(-1, 1, 1000), 10.0 ** rng.uniform(-20, 0, 300),
        -(10.0 ** rng.uniform(-20, 0, 300)), np.arange(-1000, 1001) * np.log(2) / 2,
        [0.0, -0.0, -708.0, 709.0, 1.0, -1.0],
    ])  # fmt: skip
    assert errors_in_ulp(apply(width.exp, x), x, mpmath.exp).max() < 2
    assert apply(width.exp, [0.0])[0] == 1.0


def test_exp_is_zero_below_and_stays_there(width):
    x = [-np.nextafter(708.0, 709.0), -709.0, -745.0, -1e4, -1e300, -1.8e308, -np.inf]
    np.testing.assert_array_equal(apply(width.exp, x), np.zeros(len(x)))


def test_exp_of_lanes_do_not_mix(width):
    x = np.array([-800.0, 1.0, 700.0, 0.0, -np.inf, -5.0, 2.0, -709.0])
    expected = np.where(x < -708, 0.0, np.exp(x))
    np.testing.assert_allclose(apply(width.exp, x), expected, rtol=5e-16)


def test_log_is_within_two_ulp(width):
    rng = np.random.default_rng(72)
    near_one = 1 + rng.uniform(-1, 1, 500) * 10.0 ** -rng.uniform(0, 16, 500)
    x = np.concatenate([
        10.0 ** rng.uniform(-307, 308, 3000), rng.uniform(0.5, 2, 2000), near_one,
        2.0 ** np.arange(-1022, 1024), np.sqrt(0.5) * np.array([1 - 1e-16, 1, 1 + 3e-16]),
        [1.0, 2.0, 1.7976931348623157e308, 2.2250738585072014e-308],
    ])  # fmt: skip
    x = x[x != 1.0]
    assert errors_in_ulp(apply(width.log, x), x, mpmath.log).max() < 2
    assert apply(width.log, [1.0])[0] == 0.0


def results(width, a, b, c):
    """What ``arithmetic`` gives, a row for each instruction, and the sum of ``a``."""
    out = np.full(9 * width.count + 1, np.nan)
    width.arithmetic(a, b, c, out)
    return out[:-1].reshape(9, width.count), out[-1]


def test_instructions(width):
    a, b, c = np.random.default_rng(73).uniform(0.5, 2, (3, width.count))
    out, total = results(width, a, b, c)
    np.testing.assert_array_equal(out[:4], [a + b, a - b, a * b, a / b])
    np.testing.assert_allclose(out[4], a * b + c, rtol=3e-16)
    np.testing.assert_array_equal(out[5:7], [np.maximum(a, b), np.sqrt(c)])
    np.testing.assert_array_equal(out[7:], [np.full(width.count, a[1]), a > b])
    assert total == pytest.approx(a.sum(), rel=1e-15)


def test_fma_rounds_once(width):
    a = np.full(width.count, 1 + 2.0**-30)
    out, _ = results(width, a, a, np.full(width.count, -(1 + 2.0**-29)))
    np.testing.assert_array_equal(out[4], np.full(width.count, 2.0**-60))


@pytest.mark.parametrize("operation", [operator.add, simd.maximum], ids=["add", "maximum"])
def test_widths_do_not_mix(operation):
    @njit
    def mixed(a):
        return simd.total(operation(simd.load(a, 0), simd.load8(a, 0)))

    with pytest.raises(TypingError):
        mixed(np.ones(8))
