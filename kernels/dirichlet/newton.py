"""The Dirichlet density, and its maximum by Newton's method.

A point ``h`` on the simplex has the statistics ``log h``. ``ψ(α_j) - ψ(α₀)`` is their expectation,
and the α where it equals a given mean is the maximum.
"""

import numpy as np

from ..options import inlined, kernel
from ..special import digamma, log_gamma, polygamma_changes, trigamma

# Up to this many terms, a sum over c = 0 .. n - 1 is quicker than the special functions. So many
# factors below the largest have a finite product.
FEW = 16
LARGEST_FACTOR = 1e18

# As in special.py: Newton's error after a step is about the square of the step; and below this
# square of the step in the norm of the curvature a full step is sure to rise.
_LAST_STEP = 1e-8
_MAX_STEPS = 200
_MAX_HALVINGS = 50
_SURE_RISE = 0.01

_STIRLING = (1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0)


@inlined
def _stirling_tail(x):
    """``log Γ(x)`` less Stirling's formula, for ``x`` from 16 on."""
    r = 1.0 / x
    s = r * r
    return r * (_STIRLING[0] + s * (_STIRLING[1] + s * (_STIRLING[2] + s * _STIRLING[3])))


@kernel
def log_rise(a, n):
    """``log Γ(a + n) - log Γ(a)``, the sum of ``log(a + c)`` over ``c = 0 .. n - 1``."""
    if n <= FEW and a < LARGEST_FACTOR:
        product = 1.0
        c = 0.0
        while c < n:
            product *= a + c
            c += 1.0
        return np.log(product)
    if a < FEW:
        return log_gamma(a + n) - log_gamma(a)
    # The two are close to each other for large a, and must not be subtracted.
    top = (a - 0.5) * np.log1p(n / a) + n * (np.log(a + n) - 1.0)
    return top + _stirling_tail(a + n) - _stirling_tail(a)


@kernel
def digamma_rise(a, n):
    """``ψ(a + n) - ψ(a)``, the sum of ``1 / (a + c)`` over ``c = 0 .. n - 1``."""
    if n <= FEW:
        total = 0.0
        c = 0.0
        while c < n:
            total += 1.0 / (a + c)
            c += 1.0
        return total
    first, _ = polygamma_changes(a, n)
    return first


@kernel
def own_statistics(alpha, out):
    """``out_j = E[log h_j] = ψ(α_j) - ψ(α₀)``."""
    common = digamma(alpha.sum())
    for j in range(alpha.shape[0]):
        out[j] = digamma(alpha[j]) - common


@kernel
def height(alpha, mean_log):
    """``log Γ(α₀) - Σ log Γ(α_j) + Σ α_j s_j``: Q without its base measure."""
    total = 0.0
    value = 0.0
    for j in range(alpha.shape[0]):
        total += alpha[j]
        value += alpha[j] * mean_log[j] - log_gamma(alpha[j])
    return value + log_gamma(total)


@kernel
def moved(alpha, step, scale, out):
    """``out``: α after ``scale`` of a step, positive whatever the step is.

    The step is taken in 1/α, in which ``ψ`` is closer to linear where α is small, and no further
    than to four times α.
    """
    for j in range(alpha.shape[0]):
        out[j] = alpha[j] / (1.0 - min(scale * step[j] / alpha[j], 0.75))


@inlined
def copy_into(source, target):
    """``target[:] = source``, which would take seconds to compile."""
    for j in range(target.shape[0]):
        target[j] = source[j]


@kernel
def newton_step(gradient, curvatures, common, step):
    """Solve ``(diag(q) - z 1 1ᵀ) step = gradient`` in O(D), by Sherman and Morrison.

    Returns the square of the step in the norm of the curvature, which is not positive if the
    matrix is not positive definite. An entry of no curvature stays where it is.
    """
    shift = 0.0
    room = 1.0 / common
    for j in range(gradient.shape[0]):
        r = 1.0 / curvatures[j] if curvatures[j] > 0.0 else 0.0
        shift += gradient[j] * r
        room -= r
    if not room > 0.0:
        return 0.0
    shift /= room
    for j in range(gradient.shape[0]):
        step[j] = (gradient[j] + shift) / curvatures[j] if curvatures[j] > 0.0 else 0.0
    length = 0.0
    for j in range(gradient.shape[0]):
        length += step[j] * gradient[j]
    return length


@kernel
def maximum(mean_log, alpha):
    """Set α to the top of the concave ``height(α, mean_log)``, which is where
    ``ψ(α_j) - ψ(α₀) = mean_log_j``; False, and α as it was, if there is none.

    There is one if and only if ``Σ exp(mean_log_j) < 1``. With one word only, h is one whatever
    α is, and α stays.
    """
    n_words = alpha.shape[0]
    if n_words == 1:
        return True
    filled = 0.0
    for j in range(n_words):
        filled += np.exp(mean_log[j])
    if not filled < 1.0:
        return False
    here = np.empty(n_words)
    # Where ψ(x) is taken for log(x - 1/2); or the present α, if that is better already.
    total = 0.5 * (n_words - filled) / (1.0 - filled)
    for j in range(n_words):
        here[j] = 0.5 + (total - 0.5) * np.exp(mean_log[j])
    if height(alpha, mean_log) >= height(here, mean_log):
        copy_into(alpha, here)
    gradient = np.empty(n_words)
    curvatures = np.empty(n_words)
    step = np.empty(n_words)
    new = np.empty(n_words)
    for _ in range(_MAX_STEPS):
        total = here.sum()
        common = digamma(total)
        for j in range(n_words):
            gradient[j] = mean_log[j] - (digamma(here[j]) - common)
            curvatures[j] = trigamma(here[j])
        expected = newton_step(gradient, curvatures, trigamma(total), step)
        if not expected > 0.0:  # at the top, or as near to it as rounding lets see
            break
        longest = 0.0
        for j in range(n_words):
            longest = max(longest, abs(step[j]) / here[j])
        # Statistics of rounded numbers settle α no better than this.
        last = longest < max(_LAST_STEP, 4e-16 * total)
        sure = last or expected < _SURE_RISE
        level = -np.inf if sure else height(here, mean_log)
        scale = 1.0
        risen = False
        for _ in range(_MAX_HALVINGS):
            moved(here, step, scale, new)
            if sure or height(new, mean_log) >= level:
                risen = True
                break
            scale *= 0.5
        if risen:
            copy_into(new, here)
        if last or not risen:
            break
    if not np.isfinite(here.sum()):
        return False
    copy_into(here, alpha)
    return True
