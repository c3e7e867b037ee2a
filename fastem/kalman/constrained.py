"""Regressions with single entries held fixed, where there is no closed form.

The loss is that of ``y ~ N(W x + w, N)`` given moments of (y, x):
``n log det N + tr N⁻¹ Σ (y - W x - w)(y - W x - w)ᵀ``.
"""

from __future__ import annotations

import numpy as np

from .sums import raw_moments

__all__ = ["constrained_regression"]

_MOST_ROUNDS = 500
_TOLERANCE = 1e-13


def constrained_regression(moments, W, w, N, held_W, held_w, held_N, shape):
    """The best W, w and N given their held entries.

    The entries of (W, w) that are free solve a linear system, given N; N is the best given them.
    The two alternate until neither changes. Each lowers the loss, and where neither changes, all
    derivatives by free entries are zero. If all rows have the same held entries, or N is diagonal,
    the first does not depend on the second, and one round is enough.
    """
    k, l = W.shape
    # Raw moments of (y, x, 1), so that the offset is one more column.
    full = np.zeros((k + l + 1, k + l + 1))
    full[-1, -1], full[:-1, -1], full[:-1, :-1] = raw_moments(moments)
    full[-1, :-1] = full[:-1, -1]
    xx, yx = full[k:, k:], full[:k, k:]
    B = np.column_stack([W, w])
    held = np.column_stack([held_W, held_w])
    before = np.inf
    for _ in range(_MOST_ROUNDS):
        if not held.all():
            B = _free_entries(B, held, N, xx, yx)
        S = _residual(moments, B)
        if not held_N.all():
            N = _noise(S, N, held_N, shape)
        loss = _loss(S, N)
        if held_N.all() or held.all() or before - loss <= _TOLERANCE * (1.0 + abs(loss)):
            break
        before = loss
    return B[:, :-1], B[:, -1], N


def _free_entries(B, held, N, xx, yx):
    """The free entries of B that minimize tr N⁻¹(B xx Bᵀ - B xyᵀ - yx Bᵀ)."""
    precision = np.linalg.pinv(N, hermitian=True)
    free = ~held.ravel()
    # vec by rows: the quadratic form is precision ⊗ xx.
    quadratic = np.kron(precision, xx)
    fixed = np.where(held, B, 0.0).ravel()
    rhs = (precision @ yx).ravel() - quadratic @ fixed
    solved = np.linalg.lstsq(quadratic[np.ix_(free, free)], rhs[free], rcond=None)[0]
    B = B.copy()
    B[~held] = solved
    return B


def _residual(moments, B):
    """The mean of ``(y - W x - w)(y - W x - w)ᵀ``."""
    T = np.hstack([np.eye(len(B)), -B[:, :-1]])
    left = T @ moments.mean[0] - B[:, -1]
    return T @ moments.scatter[0] @ T.T / float(moments.mass[0]) + np.outer(left, left)


def _noise(S, N, held, shape):
    """The best N for residuals of covariance S."""
    if held.any():
        free = ~held if shape == "full" else ~held & np.eye(len(N), dtype=bool)
        return _constrained_covariance(S, N, free)
    if shape == "full":
        return S
    if shape == "diag":
        return np.diag(np.diag(S))
    return np.eye(len(S)) * np.trace(S) / len(S)


def _loss(S, N):
    sign, logdet = np.linalg.slogdet(N)
    return logdet + np.trace(np.linalg.solve(N, S)) if sign > 0 else -np.inf


def _constrained_covariance(S, N, free):
    """The N of least ``log det N + tr N⁻¹ S`` whose entries that are not free are those of N.

    Scoring: at N the expected second derivative by two free entries is
    ``½ tr N⁻¹E_a N⁻¹E_b``, positive definite; steps are halved until N is definite and the loss
    falls.
    """
    rows, columns = np.nonzero(np.tril(free | free.T))
    if len(rows) == 0:
        return N
    basis = np.zeros((len(rows), *N.shape))
    each = np.arange(len(rows))
    basis[each, rows, columns] = basis[each, columns, rows] = 1.0

    def loss(N):
        try:
            L = np.linalg.cholesky(N)
        except np.linalg.LinAlgError:
            return np.inf
        return 2 * np.log(np.diag(L)).sum() + np.trace(np.linalg.solve(N, S))

    value = loss(N)
    if not np.isfinite(value):
        raise ValueError(
            "Single entries of a covariance are held fixed, and it is not positive definite: start "
            "from one that is."
        )
    for _ in range(_MOST_ROUNDS):
        P = np.linalg.inv(N)
        gradient = np.einsum("aij,ji->a", basis, P - P @ S @ P)
        PE = P @ basis
        curvature = np.einsum("aij,bji->ab", PE, PE)
        step = np.linalg.lstsq(curvature, -gradient, rcond=None)[0]
        direction = np.einsum("a,aij->ij", step, basis)
        size = 1.0
        while size > 1e-12:
            trial = N + size * direction
            new = loss(trial)
            if new <= value:
                break
            size /= 2
        else:
            break
        N, gained, value = trial, value - new, new
        if -gradient @ step <= 1e-15 * (1.0 + abs(value)) or (gained == 0.0 and size < 1.0):
            break
    return N
