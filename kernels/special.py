"""The logarithm of the gamma function, its derivatives, and the shapes of gamma and beta densities.

Up to 8 each function is a ratio of two polynomials with positive coefficients, times what holds its
poles and zeros. Nothing cancels in it, so that the relative error stays at a few roundings even
beside a zero. From 8 on it is the asymptotic series. No step relies on the order of additions,
which these kernels may change.

Arguments are positive unless a function says otherwise; at others the result means nothing.
"""

import math
from fractions import Fraction

import numpy as np

from .options import inlined, kernel

_SERIES_FROM = 8

# B_2, B_4, ..., B_20: from 8 on, what is left out does not reach the last digit.
_BERNOULLI = [
    *[Fraction(1, 6), Fraction(-1, 30), Fraction(1, 42), Fraction(-1, 30), Fraction(5, 66)],
    *[Fraction(-691, 2730), Fraction(7, 6), Fraction(-3617, 510), Fraction(43867, 798)],
    Fraction(-174611, 330),
]


def _coefficients(values):
    """Of a polynomial, given from the constant up, in the order in which they are used."""
    return np.array([float(value) for value in values][::-1])


_DIGAMMA_SERIES = _coefficients(b / (2 * k) for k, b in enumerate(_BERNOULLI, 1))
_TRIGAMMA_SERIES = _coefficients(_BERNOULLI)
_LOG_GAMMA_SERIES = _coefficients(
    b / (2 * k * (2 * k - 1)) for k, b in enumerate(_BERNOULLI[:8], 1)
)
_STIRLING_CONSTANT = 0.5 * math.log(2.0 * math.pi)

# Each ratio was fitted in 80 digits for the least relative error over its range. The error is below
# 2e-17 for x (ψ(x) - ψ(z)) / (x - z) over 0 .. 8, where z is the double nearest to the zero of ψ,
_ZERO = 1.4616321449683622
_DIGAMMA_AT_ZERO = -9.241265521729427e-17
_DIGAMMA_TOP = _coefficients([
    0.6841666717870696, 2.4513561366579677, 2.8204597231614645, 1.4727731200552947,
    0.3896405085288581, 0.053128971488559565, 0.003547797667151487, 0.00010091626659766417,
    8.701902007352861e-07, 3.8804972823442373e-10,
])  # fmt: skip
_DIGAMMA_BOTTOM = _coefficients([
    1.0, 2.321598591416146, 1.9759894505726885, 0.8084404562167016, 0.1720954602130079,
    0.01905013617069388, 0.0010271584277055709, 2.3021890768482286e-05, 1.4499976247892172e-07,
])  # fmt: skip
# 7e-17 for x² ψ'(x) over 0 .. 8,
_TRIGAMMA_TOP = _coefficients([
    1.0, 4.318375630362227, 9.46950481147694, 12.450716003720414, 10.302662189445357,
    5.426492826863034, 1.777516808451108, 0.33322784105775066, 0.02765740758991359,
])  # fmt: skip
_TRIGAMMA_BOTTOM = _coefficients([
    1.0, 4.318375630362255, 7.824570744627102, 7.751386622246249, 4.566655985399848,
    1.6132076561641393, 0.3193991382141717, 0.027657407553851786, 6.397124338562368e-13,
])  # fmt: skip
# and 4e-17 for log Γ(1 + y) / (y (y - 1)) over 0 .. 7.
_LOG_GAMMA_TOP = _coefficients([
    0.5772156649015329, 1.7870752206833649, 2.1794022008541947, 1.3378451040053059,
    0.43973800015332914, 0.07651215873390946, 0.006577077811579642, 0.00024050734787888745,
    2.66126591651566e-06, 1.7168786328495446e-09,
])  # fmt: skip
_LOG_GAMMA_BOTTOM = _coefficients([
    1.0, 3.5209137810780535, 5.002422896375406, 3.6945845180047243, 1.5271138200871812,
    0.35573905248998994, 0.044967138069636876, 0.0028260377384779468, 7.435311350257905e-05,
    5.493568144012619e-07,
])  # fmt: skip

_EULER = 0.5772156649015329

_LOG_FACTORIALS = np.array([math.log(math.factorial(n)) for n in range(256)])

# Newton's error after a step is about the square of the step.
_LAST_STEP = 1e-8
_MAX_STEPS = 50

# The square of the step in the norm of the curvature; below, a full step is sure to rise, and the
# rise, of half that, may be too small to see beside the rounding of the likelihood.
_SURE_RISE = 0.01


@inlined
def _polynomial(coefficients, x):
    y = coefficients[0]
    for i in range(1, coefficients.size):
        y = y * x + coefficients[i]
    return y


@inlined
def _digamma_tail(r):
    """``log(x) - ψ(x)`` for ``r = 1 / x`` and ``x`` from 8 on."""
    return r * (0.5 + r * _polynomial(_DIGAMMA_SERIES, r * r))


@kernel
def digamma(x):
    """``ψ(x)``, the derivative of ``log Γ(x)``."""
    if x < _SERIES_FROM:
        ratio = _polynomial(_DIGAMMA_TOP, x) / (x * _polynomial(_DIGAMMA_BOTTOM, x))
        return (x - _ZERO) * ratio + _DIGAMMA_AT_ZERO
    return np.log(x) - _digamma_tail(1.0 / x)


@kernel
def trigamma(x):
    """``ψ'(x)``."""
    if x < _SERIES_FROM:
        return _polynomial(_TRIGAMMA_TOP, x) / (x * x * _polynomial(_TRIGAMMA_BOTTOM, x))
    r = 1.0 / x
    return r + r * r * (0.5 + r * _polynomial(_TRIGAMMA_SERIES, r * r))


@kernel
def log_gamma(x):
    """``log Γ(x)``."""
    if x < _SERIES_FROM:
        # Γ(x) = Γ(1 + x) / x only below 1.5: at 2, the two logarithms would cancel.
        low = x < 1.5
        y = x if low else x - 1.0
        ratio = _polynomial(_LOG_GAMMA_TOP, y) / _polynomial(_LOG_GAMMA_BOTTOM, y)
        above = y * (y - 1.0) * ratio
        return above - np.log(x) if low else above
    r = 1.0 / x
    tail = r * _polynomial(_LOG_GAMMA_SERIES, r * r)
    return (x - 0.5) * (np.log(x) - 1.0) + (_STIRLING_CONSTANT - 0.5 + tail)


@kernel
def log_factorial(n):
    """``log n!`` for a float64 ``n`` that is a whole number, zero or more."""
    if n < _LOG_FACTORIALS.size:
        return _LOG_FACTORIALS[int(n)]
    r = 1.0 / n
    tail = r * (1.0 / 12.0 - r * r * (1.0 / 360.0))
    return (n + 0.5) * (np.log(n) - 1.0) + (_STIRLING_CONSTANT + 0.5 + tail)


@kernel
def inverse_digamma(y):
    """The ``x > 0`` where ``ψ(x) = y``, for any finite ``y``; infinite where it overflows."""
    if y > 18.0:
        return np.exp(y) + 0.5  # to the last digit, where ψ(x) would have only those of log(x)
    x = -1.0 / (y + _EULER) if y < -2.22 else np.exp(y) + 0.5
    if y < -1e8:
        return x  # to the last digit again, and ψ' may overflow
    for _ in range(_MAX_STEPS):
        step = (y - digamma(x)) / trigamma(x)
        x += step
        if not abs(step) > _LAST_STEP * x:
            break
    return x


@kernel
def log_minus_digamma(a):
    """``log(a) - ψ(a)``, which falls from infinity to zero like ``1 / (2 a)``."""
    if a < _SERIES_FROM:
        return np.log(a) - digamma(a)
    return _digamma_tail(1.0 / a)


@kernel
def log_minus_digamma_slope(a):
    """The derivative of ``log_minus_digamma`` by ``1 / a``: from 1 at zero to 1/2 at infinity."""
    if a < _SERIES_FROM:
        return a * (a * trigamma(a) - 1.0)
    r = 1.0 / a
    return 0.5 + r * _polynomial(_TRIGAMMA_SERIES, r * r)


@kernel
def gamma_shape(gap):
    """The ``a`` where ``log(a) - ψ(a) = gap > 0``.

    It is the likeliest shape of a gamma density, if ``gap`` is the logarithm of the mean of the
    data less the mean of their logarithms.
    """
    # Newton on 1 / a, of which the left side is convex and almost linear: it cannot go astray.
    # The start is right to two terms for small gaps, and to one for large ones.
    r = gap * (1.0 + 1.0 / (1.0 + gap * (2.0 / 3.0)))
    for _ in range(_MAX_STEPS):
        a = 1.0 / r
        step = (gap - log_minus_digamma(a)) / log_minus_digamma_slope(a)
        r += step
        if not abs(step) > _LAST_STEP * r:
            break
    return 1.0 / r


@kernel
def polygamma_changes(a, b):
    """``ψ(a + b) - ψ(a)`` and ``ψ'(a) - ψ'(a + b)``, without cancellation for small ``b``."""
    first = 0.0
    second = 0.0
    for _ in range(_SERIES_FROM):
        if not a < _SERIES_FROM:
            break
        r, s = 1.0 / a, 1.0 / (a + b)
        change = b * r * s  # r - s
        first += change
        second += change * (r + s)
        a += 1.0
    r, s = 1.0 / a, 1.0 / (a + b)
    change = b * r * s
    rr, ss = r * r, s * s
    first += np.log1p(b * r) + 0.5 * change
    first += rr * _polynomial(_DIGAMMA_SERIES, rr)
    first -= ss * _polynomial(_DIGAMMA_SERIES, ss)
    second += change * (1.0 + 0.5 * (r + s))
    second += r * rr * _polynomial(_TRIGAMMA_SERIES, rr)
    second -= s * ss * _polynomial(_TRIGAMMA_SERIES, ss)
    return first, second


@kernel
def beta_first(mean_log, b):
    """The ``a`` where ``ψ(a) - ψ(a + b) = mean_log < 0``: the likeliest one for this ``b``.

    It is infinite if ``mean_log`` is zero or more.
    """
    if mean_log >= 0.0:
        return np.inf
    fall = -mean_log
    # Two bounds below a: ψ(a + b) - ψ(a) is more than log((a + b) / a) and than 1/a - 1/(a + b).
    a = max(b / np.expm1(fall), 2.0 / (fall * (1.0 + np.sqrt(1.0 + 4.0 / (b * fall)))))
    # Newton on 1 / (ψ(a + b) - ψ(a)), almost linear in a. It is concave for b > 1, and convex for
    # b < 1: from below the steps go up, but for one step beyond at most, and cannot go astray.
    for _ in range(_MAX_STEPS):
        change, slope = polygamma_changes(a, b)
        step = (change - fall) * change / (fall * slope)
        a += step
        if not abs(step) > _LAST_STEP * a:
            break
    return a


@kernel
def beta_log_likelihood(a, b, mean_log, mean_log1m):
    """The mean of the logarithm of the beta density."""
    inverse_beta = log_gamma(a + b) - log_gamma(a) - log_gamma(b)
    return inverse_beta + (a - 1.0) * mean_log + (b - 1.0) * mean_log1m


@kernel
def beta_ascent(a, b, mean_log, mean_log1m):
    """One Newton step up the concave beta likelihood: the new ``a`` and ``b``; True at the top."""
    change_a, curvature_a = polygamma_changes(a, b)
    change_b, curvature_b = polygamma_changes(b, a)
    common = trigamma(a + b)
    gradient_a = change_a + mean_log
    gradient_b = change_b + mean_log1m
    determinant = curvature_a * curvature_b - common * common
    if not determinant > 0.0:  # lost to rounding: a + b is about 1e15
        return a, b, True
    step_a = (curvature_b * gradient_a + common * gradient_b) / determinant
    step_b = (common * gradient_a + curvature_a * gradient_b) / determinant
    # The means settle a and b no better than to about 1e-16 min(a, b).
    length = max(abs(step_a) / a, abs(step_b) / b)
    last = length < max(_LAST_STEP, 1e-15 * min(a, b))
    expected = step_a * gradient_a + step_b * gradient_b
    sure = last or expected < _SURE_RISE
    height = -np.inf if sure else beta_log_likelihood(a, b, mean_log, mean_log1m)
    scale = 1.0
    for _ in range(_MAX_STEPS):
        # The step is taken in 1/a and 1/b, in which the equations are closer to linear, and no
        # further than to four times a or b.
        new_a = a / (1.0 - min(scale * step_a / a, 0.75))
        new_b = b / (1.0 - min(scale * step_b / b, 0.75))
        if sure or beta_log_likelihood(new_a, new_b, mean_log, mean_log1m) >= height:
            return new_a, new_b, last
        scale *= 0.5
    return a, b, True


@kernel
def beta_shapes(mean_log, mean_log1m):
    """The likeliest ``(a, b)`` of a beta density for data with these means of log x, log(1 - x).

    That is, ``ψ(a) - ψ(a + b) = mean_log`` and ``ψ(b) - ψ(a + b) = mean_log1m``. Both are infinite
    if there is no maximum, which is when ``exp(mean_log) + exp(mean_log1m) >= 1``, as for data that
    are all the same.
    """
    # 1 - exp(mean_log) - exp(mean_log1m); the larger of the two may be close to one.
    if mean_log > mean_log1m:
        room = -np.expm1(mean_log) - np.exp(mean_log1m)
    else:
        room = -np.expm1(mean_log1m) - np.exp(mean_log)
    if room <= 0.0:
        return np.inf, np.inf
    # Where ψ(x) is taken for log(x - 1/2).
    a = 0.5 + 0.5 * np.exp(mean_log) / room
    b = 0.5 + 0.5 * np.exp(mean_log1m) / room
    for _ in range(_MAX_STEPS):
        a, b, last = beta_ascent(a, b, mean_log, mean_log1m)
        if last:
            break
    return a, b


@kernel
def digamma_array(x, out):
    """``out[i] = digamma(x[i])``."""
    for i in range(out.size):
        out[i] = digamma(x[i])


@kernel
def trigamma_array(x, out):
    """``out[i] = trigamma(x[i])``."""
    for i in range(out.size):
        out[i] = trigamma(x[i])


@kernel
def log_gamma_array(x, out):
    """``out[i] = log_gamma(x[i])``."""
    for i in range(out.size):
        out[i] = log_gamma(x[i])


@kernel
def log_factorial_array(n, out):
    """``out[i] = log_factorial(n[i])``."""
    for i in range(out.size):
        out[i] = log_factorial(n[i])


@kernel
def inverse_digamma_array(y, out):
    """``out[i] = inverse_digamma(y[i])``."""
    for i in range(out.size):
        out[i] = inverse_digamma(y[i])


@kernel
def log_minus_digamma_array(a, out):
    """``out[i] = log_minus_digamma(a[i])``."""
    for i in range(out.size):
        out[i] = log_minus_digamma(a[i])


@kernel
def gamma_shape_array(gap, out):
    """``out[i] = gamma_shape(gap[i])``."""
    for i in range(out.size):
        out[i] = gamma_shape(gap[i])


@kernel
def beta_first_array(mean_log, b, out):
    """``out[i] = beta_first(mean_log[i], b[i])``."""
    for i in range(out.size):
        out[i] = beta_first(mean_log[i], b[i])


@kernel
def polygamma_changes_array(a, b, first, second):
    """``first[i], second[i] = polygamma_changes(a[i], b[i])``."""
    for i in range(a.size):
        first[i], second[i] = polygamma_changes(a[i], b[i])


@kernel
def beta_ascent_array(a, b, mean_log, mean_log1m):
    """One step of ``beta_ascent`` at each ``a[i]``, ``b[i]``, in place."""
    for i in range(a.size):
        a[i], b[i], _ = beta_ascent(a[i], b[i], mean_log[i], mean_log1m[i])


@kernel
def beta_shapes_array(mean_log, mean_log1m, a, b):
    """``a[i], b[i] = beta_shapes(mean_log[i], mean_log1m[i])``."""
    for i in range(a.size):
        a[i], b[i] = beta_shapes(mean_log[i], mean_log1m[i])
