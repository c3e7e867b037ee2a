"""Gaussian components with a covariance matrix each, of one or two columns.

Tiles of four columns would be half empty. Here the formulas are written out, with the one or two
columns of a vector of rows in registers; of one column, the second is the first again, and not
counted.
"""

from .. import simd
from ..options import kernel

#: The most columns.
PLANE = 2


@kernel
def subtract_half_norms_in_plane(block, width, n, mean, factor, size, out):
    """``out[i] -= ½ ‖P (x_i - m)‖²``."""
    second = mean.shape[0] - 1
    m0, m1 = mean[0], mean[second]
    # Outside its triangle, and beyond its columns, P is zero.
    p00, p10, p11 = simd.splat(factor[0]), simd.splat(factor[size]), simd.splat(factor[size + 1])
    minus_half = simd.splat(simd.number(-0.5, block))
    for i in range(0, n, simd.count(block)):
        d0 = simd.centered(simd.load(block, i), m0)
        d1 = simd.centered(simd.load(block, second * width + i), m1)
        z0 = p00 * d0
        z1 = simd.fma(p10, d0, p11 * d1)
        norm = simd.fma(z0, z0, z1 * z1)
        simd.store(out, i, simd.fma(minus_half, norm, simd.load(out, i)))


@kernel
def add_moments_in_plane(block, width, n, mean, gamma, first, products, size):
    """Add ``Σ γ_i (x_i - m)`` and the lower triangle of ``Σ γ_i (x_i - m)(x_i - m)ᵀ``."""
    second = mean.shape[0] - 1
    m0, m1 = mean[0], mean[second]
    step = simd.count(block)
    f0 = simd.splat(simd.number(0.0, block))
    f1, s00, s10, s11 = f0, f0, f0, f0
    g0, g1, t00, t10, t11 = f0, f0, f0, f0, f0
    for i in range(0, n, 2 * step):
        w = simd.load(gamma, i)
        d0 = simd.centered(simd.load(block, i), m0)
        d1 = simd.centered(simd.load(block, second * width + i), m1)
        y0, y1 = w * d0, w * d1
        f0, f1 = f0 + y0, f1 + y1
        s00, s10, s11 = simd.fma(y0, d0, s00), simd.fma(y1, d0, s10), simd.fma(y1, d1, s11)
        w = simd.load(gamma, i + step)
        d0 = simd.centered(simd.load(block, i + step), m0)
        d1 = simd.centered(simd.load(block, second * width + i + step), m1)
        y0, y1 = w * d0, w * d1
        g0, g1 = g0 + y0, g1 + y1
        t00, t10, t11 = simd.fma(y0, d0, t00), simd.fma(y1, d0, t10), simd.fma(y1, d1, t11)
    first[0] += simd.total(f0 + g0)
    products[0] += simd.total(s00 + t00)
    if second == 1:
        first[1] += simd.total(f1 + g1)
        products[size] += simd.total(s10 + t10)
        products[size + 1] += simd.total(s11 + t11)
