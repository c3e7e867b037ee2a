"""The basis of the states in which one Kalman filter is nearest to another.

A change of basis ``h ← T h`` changes nothing that is observed, and the divergence to another model
is a function of T alone. The residuals of the first state, of each transition and of each
observation under the other model are linear in T, and each density of a state has a factor
``1/|det T|``. The divergence is therefore

    f(T) = ½⟨T, 𝓗T⟩ + ⟨G, T⟩ - n log|det T| + constant,

with 𝓗 positive semidefinite and n the number of states of a sequence.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.optimize import minimize

from .. import algebra
from .sums import raw_moments

__all__ = ["nearest_basis"]

# For more states than this there is no table of second derivatives: its size is their fourth power.
_WIDE = 12
_MOST_STEPS = 500
# The least share of the divergence that a change of basis should save.
_WORTH = 1e-6


def nearest_basis(model, other, horizon=None):
    """``model`` in the basis of least divergence to ``other`` that descent finds.

    Descent starts from the model as it is and from where the observability matrices of the two
    agree. The divergence is never more than the model's own; the model itself is returned unless a
    basis saves a millionth of it.
    """
    before = algebra.divergence(model, other, horizon)
    best, least = model, before
    to_white, back = np.linalg.inv(_state_root(model, horizon)), _state_root(other, horizon)
    white, white_other = model.transformed(to_white), other.transformed(np.linalg.inv(back))
    problem = _Problem(white, white_other, horizon)
    as_it_is = np.linalg.inv(to_white @ back)
    for start in (as_it_is, *_observability_starts(white, white_other, as_it_is)):
        T = back @ problem.descend(start) @ to_white
        if not (np.isfinite(T).all() and np.linalg.cond(T) < 1e12):
            continue
        moved = model.transformed(T)
        try:
            there = algebra.divergence(moved, other, horizon)
        except ValueError:
            # A basis so skew that rounding makes a covariance singular.
            continue
        if there < least:
            best, least = moved, there
    # A basis is changed only if that saves enough, and more than rounding.
    rounding = 1e-12 * (1.0 + abs(model.log_joint(model.own(horizon))))
    return best if least < (1.0 - _WORTH) * before - rounding else model


def _state_root(model, horizon):
    """A root of the mean of ``h hᵀ``: in its units states are white."""
    p = len(model.c)
    n, _, second = raw_moments(model.own(horizon)["observation"])
    return np.linalg.cholesky(second[p:, p:] / n)


def _observability_starts(model, other, as_it_is):
    """Matrices that bring ``(C, CA, CA², ...)`` of the models together, in units of the noise.

    They are the least-squares solution, and two orthogonal ones, which are right between white
    states of one model in two bases. Where a direction is hardly observed, its sign is unknown, so
    that both signs are tried.
    """
    unit = np.linalg.cholesky(other.R)
    mine, theirs = (_observability(m.A, m.C, unit) for m in (model, other))
    fitted, _, rank, _ = np.linalg.lstsq(theirs, mine, rcond=None)
    starts = [fitted] if rank == len(fitted) else []
    product = theirs.T @ mine
    product += 1e-6 * np.linalg.norm(product) * as_it_is / np.linalg.norm(as_it_is)
    left, _, right = np.linalg.svd(product)
    signs = np.ones(len(left))
    signs[-1] = -1.0
    return [*starts, left @ right, left * signs @ right]


def _observability(A, C, unit):
    """``(C, CA, CA², ...)`` in units of the noise."""
    rows, product = [], np.linalg.solve(unit, C)
    for _ in range(len(A)):
        rows.append(product)
        product = product @ A
    return np.concatenate(rows)


class _Problem:
    """``f(T)`` and its derivatives, without the constant."""

    def __init__(self, model, other, horizon):
        statistics = model.own(horizon)
        d, p = len(model.m), len(model.c)
        n, first, first2 = raw_moments(statistics["initial"])
        steps, pair, pair2 = raw_moments(statistics["transition"])
        _, row, row2 = raw_moments(statistics["observation"])
        self.n, self.A = n + steps, other.A
        self.V, self.Q = np.linalg.inv(other.V), np.linalg.inv(other.Q)
        seen = np.linalg.solve(other.R, other.C).T
        self.seen = seen @ other.C
        self.first2, self.states2 = first2, row2[p:, p:]
        self.to2, self.between2, self.from2 = pair2[:d, :d], pair2[:d, d:], pair2[d:, d:]
        drift = self.Q @ other.b
        self.G = (
            np.outer(other.A.T @ drift, pair[d:])
            - np.outer(drift, pair[:d])
            - np.outer(self.V @ other.m, first)
            - seen @ (row2[:p, p:] - np.outer(other.c, row[p:]))
        )

    def H(self, T):
        """``𝓗T``: the gradient of half the expected squared residuals under the other model."""
        ahead = self.Q @ (T @ self.to2 - self.A @ T @ self.between2.T)
        behind = self.A.T @ self.Q @ (T @ self.between2 - self.A @ T @ self.from2)
        return self.V @ T @ self.first2 + self.seen @ T @ self.states2 + ahead - behind

    def value(self, t):
        """``f`` and its gradient at the matrix with the entries ``t``."""
        T = t.reshape(self.A.shape)
        _, log_det = np.linalg.slogdet(T)
        if not np.isfinite(log_det):
            return np.inf, np.zeros_like(t)
        HT = self.H(T)
        f = 0.5 * np.sum(T * HT) + np.sum(self.G * T) - self.n * log_det
        return f, (HT + self.G - self.n * np.linalg.inv(T).T).ravel()

    def hessian(self, t):
        """``𝓗 + n (Z ↦ T⁻ᵀ Zᵀ T⁻ᵀ)`` as a matrix."""
        d = len(self.A)
        inverse = np.linalg.inv(t.reshape(d, d))
        curved = np.einsum("jk,li->ijkl", inverse, inverse).reshape(d * d, d * d)
        return self.table + self.n * curved

    @cached_property
    def table(self):
        """``𝓗`` as a matrix."""
        d = len(self.A)
        table = np.array([self.H(Z.reshape(d, d)).ravel() for Z in np.eye(d * d)])
        return 0.5 * (table + table.T)

    def descend(self, T):
        """Where descent from ``T`` ends."""
        if np.linalg.cond(T) > 1e12:
            return T
        with np.errstate(all="ignore"):
            if len(T) > _WIDE:
                options = {"maxiter": _MOST_STEPS}
                end = minimize(self.value, T.ravel(), jac=True, method="L-BFGS-B", options=options)
                return end.x.reshape(T.shape)
            return self._newton(T.ravel()).reshape(T.shape)

    def _newton(self, t):
        """Newton's steps, downward in directions of negative curvature too, halved until less."""
        f, gradient = self.value(t)
        for _ in range(_MOST_STEPS):
            curvatures, directions = np.linalg.eigh(self.hessian(t))
            curvatures = np.maximum(np.abs(curvatures), 1e-10 * np.abs(curvatures).max())
            step = -directions @ ((directions.T @ gradient) / curvatures)
            slope = gradient @ step
            # Newton's step saves half of this.
            if not -slope > 1e-12 * self.n:
                break
            size = 1.0
            there, new = self.value(t + step)
            while not there <= f + 1e-4 * size * slope and size > 1e-10:
                size *= 0.5
                there, new = self.value(t + size * step)
            if not there < f:
                break
            t, f, gradient = t + size * step, there, new
        return t
