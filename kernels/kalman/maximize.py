"""The maximum ``M(S)``: two regressions and one Gaussian, from moments.

Transitions are a regression of ``y = h'`` on ``x = h`` and observations one of ``y = v`` on
``x = h``, each with a matrix W, an offset w and a noise of covariance N:

    W = Σyx Σxx⁻¹,  w = ȳ - W x̄,  N = mean of (y - W x - w)(y - W x - w)ᵀ

Whatever is held fixed, the others are the best given it. N is got from a factor of the joint
scatter, and so is semidefinite whatever is rounded.
"""

from functools import lru_cache

from ..options import apart, helper, kernel
from ..small_matrices import SINGULAR, factorize, solve
from .layout import Arena, Layout

#: What is done with a covariance.
FIXED, FULL, DIAGONAL, SCALAR = 0, 1, 2, 3


@helper
def regress(x, scatter, mean, n, k, l, free_matrix, free_offset, mode, W, w, N, scratch):
    """Regress y (k) on x (l) in place: W (k, l), w (k), N (k, k).

    ``scatter`` (k + l)² and ``mean`` are of (y, x) about its mean, ``n`` is the weight. Scratch has
    room for 2 (k + l)² + k numbers.
    """
    apart()
    m = k + l
    if not n > 0.0:
        return
    factor, rhs = scratch, scratch + m * m
    left = rhs + m * m
    if free_matrix:
        # About the means if the offset follows them; about the offset and the origin if not.
        for a in range(l):
            for b in range(l):
                s = x[scatter + (k + a) * m + k + b]
                if not free_offset:
                    s += n * x[mean + k + a] * x[mean + k + b]
                x[rhs + a * l + b] = s
        factorize(x, rhs, l, SINGULAR, factor)
        for a in range(l):
            for i in range(k):
                s = x[scatter + i * m + k + a]
                if not free_offset:
                    s += n * (x[mean + i] - x[w + i]) * x[mean + k + a]
                x[rhs + a * k + i] = s
        solve(x, factor, l, k, rhs)
        for i in range(k):
            for a in range(l):
                x[W + i * l + a] = x[rhs + a * k + i]
    for i in range(k):
        s = x[mean + i]
        for a in range(l):
            s -= x[W + i * l + a] * x[mean + k + a]
        if free_offset:
            x[w + i] = s
        # What the offset leaves of the mean.
        x[left + i] = s - x[w + i]
    if mode == FIXED:
        return
    factorize(x, scatter, m, SINGULAR, factor)
    for i in range(k):
        for c in range(m):
            s = x[factor + i * m + c]
            for a in range(l):
                s -= x[W + i * l + a] * x[factor + (k + a) * m + c]
            x[rhs + i * m + c] = s
    for i in range(k):
        for j in range(i + 1):
            s = n * x[left + i] * x[left + j]
            for c in range(m):
                s += x[rhs + i * m + c] * x[rhs + j * m + c]
            x[N + i * k + j] = s / n
            x[N + j * k + i] = s / n
    if mode == DIAGONAL or mode == SCALAR:
        s = 0.0
        for i in range(k):
            s += x[N + i * k + i]
        for i in range(k):
            for j in range(k):
                if i != j:
                    x[N + i * k + j] = 0.0
                elif mode == SCALAR:
                    x[N + i * k + i] = s / k


def regression_arena(k, l) -> Arena:
    """Arrays for :func:`maximum`, in the block ``regression``, and room to work in."""
    return Arena(_regression_layout(k, l))


@lru_cache(maxsize=64)
def _regression_layout(k, l):
    layout = Layout({"k": k, "l": l, "m": k + l})
    layout.add(
        "regression",
        (("scatter", ("m", "m")), ("mean", ("m",)), ("W", ("k", "l")), ("w", ("k",)),
         ("N", ("k", "k"))),
    )  # fmt: skip
    layout.add("scratch", (("matrices", (2, "m", "m")), ("left", ("k",))))
    return layout


@kernel
def maximum(x, k, l, n, free_matrix, free_offset, mode):
    """:func:`regress` on an array that is laid out as :func:`regression_arena`."""
    m = k + l
    mean = m * m
    W = mean + m
    w = W + k * l
    N = w + k
    regress(x, 0, mean, n, k, l, free_matrix, free_offset, mode, W, w, N, N + k * k)


@helper
def moments(x, a, b, aa, ab, bb, n, k, l, aa_stride, ab_stride, bb_stride, out_scatter, out_mean):
    """The mean of (y, x), about their references, and their scatter about it, from sums."""
    apart()
    m = k + l
    for i in range(m):
        s = x[a + i] if i < k else x[b + i - k]
        x[out_mean + i] = s / n
    for i in range(m):
        for j in range(i + 1):
            if i < k:
                s = x[aa + i * aa_stride + j]
            elif j < k:
                s = x[ab + j * ab_stride + i - k]
            else:
                s = x[bb + (i - k) * bb_stride + j - k]
            s -= n * x[out_mean + i] * x[out_mean + j]
            x[out_scatter + i * m + j] = s
            x[out_scatter + j * m + i] = s


@helper
def maximize(x, w, center, modes, scratch):
    """Put the maximum of the sums in the place of the system.

    ``modes`` says of each of m, V, A, b, Q, C, c, R what is done with it: FIXED or not, and for the
    covariances how. Scratch has room for :func:`scratch_size` numbers.
    """
    apart()
    d, p, dd, pp, sums, system, room = w.d, w.p, w.dd, w.pp, w.sums, w.system, w.room
    weight, transitions, observed = x[sums.weight], x[sums.transitions], x[sums.observed]
    # The first state: a regression on nothing.
    mean = scratch
    scatter = mean + d + max(d, p)
    work = scatter + (d + max(d, p)) ** 2
    moments(x, sums.first, 0, sums.first2, 0, 0, weight, d, 0, dd, 0, 0, scatter, mean)
    for i in range(d):
        x[mean + i] += x[sums.reference + i]
    regress(
        x, scatter, mean, weight, d, 0, False, modes[0] != FIXED, modes[1], room.lag, system.m,
        system.V, work,
    )  # fmt: skip
    if transitions > 0.0:
        # Of the later and of the earlier states: all but the first, and all but the last.
        for i in range(dd):
            total = x[sums.seen + i] + x[sums.unseen + i]
            x[sums.first + i] = total - x[sums.first + i]
            x[sums.last + i] = total - x[sums.last + i]
        for i in range(d * dd):
            total = x[sums.seen2 + i] + x[sums.unseen2 + i]
            x[sums.first2 + i] = total - x[sums.first2 + i]
            x[sums.last2 + i] = total - x[sums.last2 + i]
        moments(
            x, sums.first, sums.last, sums.first2, sums.lag, sums.last2, transitions, d, d, dd,
            dd, dd, scatter, mean,
        )  # fmt: skip
        for i in range(d):
            x[mean + i] += x[sums.reference + i]
            x[mean + d + i] += x[sums.reference + i]
        regress(
            x, scatter, mean, transitions, d, d, modes[2] != FIXED, modes[3] != FIXED, modes[4],
            system.A, system.b, system.Q, work,
        )  # fmt: skip
    if observed > 0.0:
        moments(
            x, sums.v, sums.seen, sums.vv, sums.vh, sums.seen2, observed, p, d, pp, dd, dd,
            scatter, mean,
        )  # fmt: skip
        for i in range(p):
            x[mean + i] += center[i]
        for i in range(d):
            x[mean + p + i] += x[sums.reference + i]
        regress(
            x, scatter, mean, observed, p, d, modes[5] != FIXED, modes[6] != FIXED, modes[7],
            system.C, system.c, system.R, work,
        )  # fmt: skip


@helper
def scratch_size(w):
    apart()
    m = w.d + max(w.d, w.p)
    return 2 * m + 3 * m * m
