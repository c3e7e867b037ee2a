"""Families whose statistics are plain sums: ``log p(x|θ) = log b(x) + θ·φ(x) - G(θ)``.

Poisson, Bernoulli, multinomial and exponential columns have ``φ(x) = x``; gamma columns have
``φ(x) = (x, log x)`` and beta columns ``(log x, log(1 - x))``. One kernel serves them all, and a
family of the user's own too, whose ``φ`` then comes ready-made as the data.
"""

from collections import namedtuple

import numpy as np

from ..options import apart, implements, inlined, kernel
from ..products import add_combinations, add_cross_products
from ..rows import whole_groups
from ..special import (
    beta_first,
    beta_shapes,
    digamma,
    gamma_shape,
    inverse_digamma,
    log_factorial,
    log_gamma,
)
from . import base

READY, POISSON, BERNOULLI, MULTINOMIAL, EXPONENTIAL, GAMMA, BETA = range(7)

#: kind, one of the above; parameters (K, R), as people write them; natural (K, P), θ;
#: offsets (K,), -G(θ); expected (K, P), E[φ].
#: parameters are rates, probabilities, or for gamma and beta two for each column: shapes then
#: scales, or first then second shapes. least is what a rate or probability is taken to be at least:
#: what was never seen stays almost impossible, or, if that is zero, impossible.
Linear = namedtuple("Linear", "kind parameters natural offsets expected least", defaults=(1e-300,))

#: The same for gamma and beta columns, whose features and maxima need more code than the others'
#: should wait for to be compiled.
Shaped = namedtuple("Shaped", Linear._fields, defaults=(1e-300,))

#: first (K, P), Σ γ φ(x).
LinearSums = namedtuple("LinearSums", "first")

_TINY = 1e-300

#: The logarithm of zero, which times zero is zero.
LOG_ZERO = -1e308


@implements(base.columns_of, Linear)
def _columns_of(family):
    return family.natural.shape[1]


@implements(base.columns_of, Shaped)
def _shaped_columns_of(family):
    return family.natural.shape[1] // 2


@kernel
def features(kind, block, n_columns, width, n, out):
    """φ of each row of a block, one feature after another; nothing to do when ``φ(x) = x``."""
    filled = whole_groups(n)
    for c in range(n_columns):
        for i in range(filled):
            x = block[c * width + i]
            if i >= n:
                out[c * width + i] = 0.0
                out[(n_columns + c) * width + i] = 0.0
            elif kind == GAMMA:
                out[c * width + i] = x
                out[(n_columns + c) * width + i] = np.log(x)
            else:
                out[c * width + i] = np.log(x)
                out[(n_columns + c) * width + i] = np.log1p(-x)


@kernel
def add_log_base(kind, block, n_columns, width, n, out):
    """``out[i] += log b(x_i)``."""
    if kind == POISSON or kind == MULTINOMIAL:
        for c in range(n_columns):
            for i in range(n):
                out[i] -= log_factorial(block[c * width + i])
    if kind == MULTINOMIAL:
        for i in range(n):
            trials = 0.0
            for c in range(n_columns):
                trials += block[c * width + i]
            out[i] += log_factorial(trials)


implements(base.block_rows, Linear)(base.usual_block_rows)
implements(base.block_rows, Shaped)(base.usual_block_rows)


@implements(base.log_density, Linear)
def _log_density(family, block, width, n, log_p, work):
    n_components, n_features = family.natural.shape
    filled = whole_groups(n)
    log_base = np.zeros(width)
    add_log_base(family.kind, block, n_features, width, n, log_base)
    for k in range(n_components):
        for i in range(filled):
            log_p[k, i] += family.offsets[k] + log_base[i]
    add_combinations(
        family.natural.reshape(-1), n_components, n_features, block, width, filled,
        log_p.reshape(-1),
    )  # fmt: skip


@implements(base.log_density, Shaped)
def _shaped_log_density(family, block, width, n, log_p, work):
    n_components, n_features = family.natural.shape
    filled = whole_groups(n)
    features(family.kind, block, n_features // 2, width, n, work)
    for k in range(n_components):
        for i in range(filled):
            log_p[k, i] += family.offsets[k]
    add_combinations(
        family.natural.reshape(-1), n_components, n_features, work, width, filled,
        log_p.reshape(-1),
    )  # fmt: skip


@implements(base.accumulate, Linear)
def _accumulate(family, block, width, n, gamma, sums, work):
    n_components, n_features = family.natural.shape
    add_cross_products(
        gamma.reshape(-1), n_components, block, n_features, width, whole_groups(n),
        sums.first.reshape(-1),
    )  # fmt: skip


@implements(base.accumulate, Shaped)
def _shaped_accumulate(family, block, width, n, gamma, sums, work):
    n_components, n_features = family.natural.shape
    features(family.kind, block, n_features // 2, width, n, work)
    add_cross_products(
        gamma.reshape(-1), n_components, work, n_features, width, whole_groups(n),
        sums.first.reshape(-1),
    )  # fmt: skip


@implements(base.horizon_of, Linear)
def _horizon_of(family, total, sums):
    if family.kind != MULTINOMIAL:
        return 1.0
    return sums.first.sum() / total if total > 0.0 else 0.0


implements(base.horizon_of, Shaped)(base.unit_horizon)


@implements(base.add_own, Shaped)
@implements(base.add_own, Linear)
def _add_own(family, mass, sums, horizon):
    n_components, n_features = family.natural.shape
    for k in range(n_components):
        for p in range(n_features):
            sums.first[k, p] += mass[k] * horizon * family.expected[k, p]


@implements(base.maximize, Linear)
def _maximize(family, mass, sums, fixed):
    n_components, n_features = family.natural.shape
    for k in range(n_components):
        # Multinomial rows are counted by their trials, all others by their mass.
        size = mass[k]
        if family.kind == MULTINOMIAL:
            size = sums.first[k].sum()
        if mass[k] <= 0.0 or size <= 0.0 or fixed[0]:
            continue
        for p in range(n_features):
            value = sums.first[k, p] / size
            if family.kind == BERNOULLI:
                value = min(max(value, 0.0), 1.0)
            family.parameters[k, p] = value
    return True


@implements(base.maximize, Shaped)
def _shaped_maximize(family, mass, sums, fixed):
    n_components, n_features = family.natural.shape
    half = n_features // 2
    done = True
    for k in range(n_components):
        if mass[k] <= 0.0:
            continue
        parameters = family.parameters[k]
        for c in range(half):
            s1 = sums.first[k, c] / mass[k]
            s2 = sums.first[k, half + c] / mass[k]
            a, b = parameters[c], parameters[half + c]
            if family.kind == GAMMA:
                a, b = _gamma_maximum(s1, s2, a, b, fixed[0], fixed[1])
            else:
                a, b = _beta_maximum(s1, s2, a, b, fixed[0], fixed[1])
            if 0.0 < a < np.inf and 0.0 < b < np.inf:
                parameters[c], parameters[half + c] = a, b
            else:
                done = False
    return done


@kernel
def _gamma_maximum(mean, mean_log, shape, scale, shape_fixed, scale_fixed):
    if not shape_fixed and not scale_fixed:
        shape = gamma_shape(np.log(mean) - mean_log)
        scale = mean / shape
    elif not shape_fixed:
        shape = inverse_digamma(mean_log - np.log(scale))
    elif not scale_fixed:
        scale = mean / shape
    return shape, scale


@kernel
def _beta_maximum(mean_log, mean_log1m, a, b, a_fixed, b_fixed):
    if not a_fixed and not b_fixed:
        a, b = beta_shapes(mean_log, mean_log1m)
    elif not a_fixed:
        a = beta_first(mean_log, b)
    elif not b_fixed:
        b = beta_first(mean_log1m, a)
    return a, b


@inlined
def _log(x):
    return np.log(max(x, _TINY))


@inlined
def log_at_least(x, least):
    """The logarithm of ``x``, or of ``least`` if that is more; ``LOG_ZERO`` if both are zero."""
    x = max(x, least)
    return np.log(x) if x > 0.0 else LOG_ZERO


@kernel
def refresh_linear(family):
    """Recompute θ, -G(θ) and E[φ] from the parameters."""
    apart()  # so that every kernel computes the same bits
    n_components, n_features = family.natural.shape
    for k in range(n_components):
        for p in range(n_features):
            x = family.parameters[k, p]
            family.expected[k, p] = x
            if family.kind == BERNOULLI:
                family.natural[k, p] = _log(x) - _log(1.0 - x)
            elif family.kind == EXPONENTIAL:
                family.natural[k, p] = -1.0 / max(x, _TINY)
            else:
                family.natural[k, p] = log_at_least(x, family.least)
        offset = 0.0
        for p in range(n_features):
            x = family.parameters[k, p]
            if family.kind == POISSON:
                offset -= x
            elif family.kind == BERNOULLI:
                offset += _log(1.0 - x)
            elif family.kind == EXPONENTIAL:
                offset -= _log(x)
        family.offsets[k] = offset


@kernel
def refresh_shaped(family):
    """Recompute θ, -G(θ) and E[φ] from the parameters of gamma or beta columns."""
    apart()
    n_components, n_features = family.natural.shape
    half = n_features // 2
    for k in range(n_components):
        natural = family.natural[k]
        expected = family.expected[k]
        offset = 0.0
        for c in range(half):
            a, b = family.parameters[k, c], family.parameters[k, half + c]
            if family.kind == GAMMA:
                natural[c] = -1.0 / b
                natural[half + c] = a - 1.0
                offset -= log_gamma(a) + a * np.log(b)
                expected[c] = a * b
                expected[half + c] = digamma(a) + np.log(b)
            else:
                natural[c] = a - 1.0
                natural[half + c] = b - 1.0
                offset += log_gamma(a + b) - log_gamma(a) - log_gamma(b)
                expected[c] = digamma(a) - digamma(a + b)
                expected[half + c] = digamma(b) - digamma(a + b)
        family.offsets[k] = offset


@implements(base.refresh, Linear)
def _refresh(family):
    # Features that come ready-made have parameters only their own family understands.
    if family.kind != READY:
        refresh_linear(family)
    return True


@implements(base.refresh, Shaped)
def _refresh_shaped(family):
    refresh_shaped(family)
    return True


@implements(base.log_marginal, Linear)
def _log_marginal(family, x, log_p):
    kind = family.kind
    if not (kind == POISSON or kind == BERNOULLI or kind == EXPONENTIAL):
        base.whole_marginal(family, x, log_p)
        return
    n_components, n_columns = family.natural.shape
    for k in range(n_components):
        for c in range(n_columns):
            if x[c] == x[c]:
                value = family.parameters[k, c]
                log_p[k] += x[c] * family.natural[k, c]
                if kind == POISSON:
                    log_p[k] -= value + log_factorial(x[c])
                elif kind == BERNOULLI:
                    log_p[k] += np.log(max(1.0 - value, 1e-300))
                else:
                    log_p[k] -= np.log(value)


@implements(base.accumulate_missing, Linear)
def _accumulate_missing(family, x, gamma, sums):
    n_components, n_columns = family.natural.shape
    for k in range(n_components):
        for c in range(n_columns):
            value = x[c] if x[c] == x[c] else family.expected[k, c]
            sums.first[k, c] += gamma[k] * value


@implements(base.log_marginal, Shaped)
def _shaped_log_marginal(family, x, log_p):
    n_components, n_features = family.natural.shape
    half = n_features // 2
    for k in range(n_components):
        for c in range(half):
            if x[c] == x[c]:
                a, b = family.parameters[k, c], family.parameters[k, half + c]
                if family.kind == GAMMA:
                    log_p[k] += (a - 1.0) * np.log(x[c]) - x[c] / b
                    log_p[k] -= log_gamma(a) + a * np.log(b)
                else:
                    log_p[k] += (a - 1.0) * np.log(x[c]) + (b - 1.0) * np.log1p(-x[c])
                    log_p[k] += log_gamma(a + b) - log_gamma(a) - log_gamma(b)


@implements(base.accumulate_missing, Shaped)
def _shaped_accumulate_missing(family, x, gamma, sums):
    n_components, n_features = family.natural.shape
    half = n_features // 2
    for k in range(n_components):
        for c in range(half):
            first, second = family.expected[k, c], family.expected[k, half + c]
            if x[c] == x[c]:
                if family.kind == GAMMA:
                    first, second = x[c], np.log(x[c])
                else:
                    first, second = np.log(x[c]), np.log1p(-x[c])
            sums.first[k, c] += gamma[k] * first
            sums.first[k, half + c] += gamma[k] * second
