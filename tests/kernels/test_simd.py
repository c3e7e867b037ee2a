"""Vectors of four: exp and log over their range, and the rest of the instructions."""

import mpmath
import numpy as np
import pytest
from numba import njit

from fastem.kernels import simd


@njit
def exp_of(x, out):
    for i in range(0, x.shape[0], 4):
        simd.store(out, i, simd.exp(simd.load(x, i)))


@njit
def log_of(x, out):
    for i in range(0, x.shape[0], 4):
        simd.store(out, i, simd.log(simd.load(x, i)))


def apply(function, x):
    """The function of every entry, whose number is filled up to whole vectors with ones."""
    x = np.asarray(x, dtype=float)
    padded = np.append(x, np.ones(-len(x) % 4))
    out = np.full(len(padded), np.nan)
    function(padded, out)
    return out[: len(x)]


def errors_in_ulp(got, x, exact):
    with mpmath.workdps(40):
        values = [(mpmath.mpf(g), exact(mpmath.mpf(v))) for g, v in zip(got, x, strict=True)]
        return np.array([float(abs(g - e) / np.spacing(abs(float(e)))) for g, e in values])


def test_exp_is_within_two_ulp():
    rng = np.random.default_rng(71)
    x = np.concatenate([
        rng.uniform(-708, 709, 3000), rng.uniform(-1, 1, 1000), 10.0 ** rng.uniform(-20, 0, 300),
        -(10.0 ** rng.uniform(-20, 0, 300)), np.arange(-1000, 1001) * np.log(2) / 2,
        [0.0, -0.0, -708.0, 709.0, 1.0, -1.0],
    ])  # fmt: skip
    assert errors_in_ulp(apply(exp_of, x), x, mpmath.exp).max() < 2
    assert apply(exp_of, [0.0])[0] == 1.0


def test_exp_is_zero_below_and_stays_there():
    x = [-np.nextafter(708.0, 709.0), -709.0, -745.0, -1e4, -1e300, -1.8e308, -np.inf]
    np.testing.assert_array_equal(apply(exp_of, x), np.zeros(len(x)))


def test_exp_of_lanes_do_not_mix():
    x = np.array([-800.0, 1.0, 700.0, 0.0, -np.inf, -5.0, 2.0, -709.0])
    expected = np.where(x < -708, 0.0, np.exp(x))
    np.testing.assert_allclose(apply(exp_of, x), expected, rtol=5e-16)


def test_log_is_within_two_ulp():
    rng = np.random.default_rng(72)
    near_one = 1 + rng.uniform(-1, 1, 500) * 10.0 ** -rng.uniform(0, 16, 500)
    x = np.concatenate([
        10.0 ** rng.uniform(-307, 308, 3000), rng.uniform(0.5, 2, 2000), near_one,
        2.0 ** np.arange(-1022, 1024), np.sqrt(0.5) * np.array([1 - 1e-16, 1, 1 + 3e-16]),
        [1.0, 2.0, 1.7976931348623157e308, 2.2250738585072014e-308],
    ])  # fmt: skip
    x = x[x != 1.0]
    assert errors_in_ulp(apply(log_of, x), x, mpmath.log).max() < 2
    assert apply(log_of, [1.0])[0] == 0.0


@njit
def arithmetic(a, b, c, out):
    x, y, z = simd.load(a, 0), simd.load(b, 0), simd.load(c, 0)
    simd.store(out, 0, x + y)
    simd.store(out, 4, x - y)
    simd.store(out, 8, x * y)
    simd.store(out, 12, x / y)
    simd.store(out, 16, simd.fma(x, y, z))
    simd.store(out, 20, simd.maximum(x, y))
    simd.store(out, 24, simd.square_root(z))
    simd.store(out, 28, simd.splat(a[1]))
    out[32] = simd.total(x)


def test_instructions():
    a, b, c = np.random.default_rng(73).uniform(0.5, 2, (3, 4))
    out = np.zeros(33)
    arithmetic(a, b, c, out)
    exact = [a + b, a - b, a * b, a / b]
    np.testing.assert_array_equal(out[:16], np.concatenate(exact))
    np.testing.assert_allclose(out[16:20], a * b + c, rtol=3e-16)
    np.testing.assert_array_equal(out[20:24], np.maximum(a, b))
    np.testing.assert_array_equal(out[24:28], np.sqrt(c))
    np.testing.assert_array_equal(out[28:32], np.full(4, a[1]))
    assert out[32] == pytest.approx(a.sum(), rel=1e-15)


def test_fma_rounds_once():
    a = np.full(4, 1 + 2.0**-30)
    out = np.zeros(33)
    arithmetic(a, a, -(1 + 2.0**-29) * np.ones(4), out)
    np.testing.assert_array_equal(out[16:20], np.full(4, 2.0**-60))
