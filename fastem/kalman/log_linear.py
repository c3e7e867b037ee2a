"""The Kalman filter of least total divergence to several, with the new one in the first argument.

A state at time t, with a one appended, is ``x``. What the divergence adds at each step is a
quadratic function of it, and so is the sum of all that follows, ``½ xᵀ Π_t x``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..exceptions import NoDivergence
from .checks import NAMES

__all__ = ["log_linear_system"]

_MOST_ROUNDS = 1_000
_MATRICES = {
    "transition": ("transition_matrices", "transition_offsets", "transition_covariance"),
    "observation": ("observation_matrices", "observation_offsets", "observation_covariance"),
}


class _Regressions(NamedTuple):
    """``y ~ N(W x, N)`` of several models: ``Σ α`` of precisions, of their products with W, ….

    ``Σ α_m KL`` of another one at x is ``½ xᵀ cost(W) x + ½ (tr ΛN - log det N + constant)``.
    """

    precision: np.ndarray
    pull: np.ndarray
    square: np.ndarray
    constant: float

    @classmethod
    def of(cls, matrices, covariances, alphas, name):
        inverses, constant = [], 0.0
        for covariance, alpha in zip(covariances, alphas, strict=True):
            try:
                lower = np.linalg.cholesky(covariance)
            except np.linalg.LinAlgError:
                raise NoDivergence(
                    f"{name} is singular in one of the models, so that the states and "
                    "observations have no joint density, and a divergence does not exist."
                ) from None
            half = np.linalg.inv(lower)
            inverses.append(alpha * (half.T @ half))
            constant += alpha * (2.0 * np.log(np.diag(lower)).sum() - len(lower))
        pulls = [inverse @ W for inverse, W in zip(inverses, matrices, strict=True)]
        squares = [W.T @ pull for W, pull in zip(matrices, pulls, strict=True)]
        return cls(sum(inverses), sum(pulls), sum(squares), constant)

    def cost(self, W, N):
        """The matrix of the quadratic function of x."""
        cross = W.T @ self.pull
        cost = W.T @ self.precision @ W - cross - cross.T + self.square
        spread = np.sum(self.precision * N) - np.linalg.slogdet(N)[1] + self.constant
        cost[-1, -1] += spread
        return cost


class _Free(NamedTuple):
    """Which entries are learned: of ``[A b]``, ``[C c]`` and m, and which of Q, R and V."""

    transition: np.ndarray
    observation: np.ndarray
    mean: np.ndarray
    covariances: dict


def log_linear_system(systems, alphas, survival, held, shapes) -> dict[str, np.ndarray]:
    """The parameters, by letter, of least ``Σ α_m Δ(Θ̃, Θ_m)`` for lengths of ``P(length ≥ t)``.

    ``R̃⁻¹ = Σ α R_m⁻¹`` and ``C̃ = R̃ Σ α R_m⁻¹ C_m``, whatever the states are. The states are pulled
    to where the models agree; their start and their transitions are iterated: with the moments
    ``X_t = E[x xᵀ]``, and ``P`` and ``p`` the parts of ``Π`` that belong to the state,
    ``Σ_t (g Λ + P) M̃ X = Σ_t (g B X - p E[x]ᵀ)``, where ``M̃ = [Ã b̃]``, ``Λ = Σ α Q_m⁻¹``,
    ``B = Σ α Q_m⁻¹ M_m``, ``P`` and ``p`` those of the next step; and ``Q̃⁻¹`` is the mean of
    ``Λ + P/g``.
    """
    first, free = systems[0], _free(held, systems[0])
    stacked = {
        "A": [np.column_stack([s["A"], s["b"]]) for s in systems],
        "C": [np.column_stack([s["C"], s["c"]]) for s in systems],
        "m": [s["m"][:, None] for s in systems],
    }
    covariances = {letter: [s[letter] for s in systems] for letter in "QRV"}
    names = {letter: name for name, letter in NAMES.items()}
    steps, seen, start = (
        _Regressions.of(stacked[W], covariances[N], alphas, names[N]) for W, N in ("AQ", "CR", "mV")
    )
    problem = _Problem(first, free, shapes, survival, steps, seen, start)
    M = _free_solution(np.kron(steps.precision, np.eye(steps.pull.shape[1])),
                       steps.pull, stacked["A"][0], free.transition)  # fmt: skip
    Q = problem.covariance("Q", steps.precision)
    N = _free_solution(np.kron(seen.precision, np.eye(seen.pull.shape[1])),
                       seen.pull, stacked["C"][0], free.observation)  # fmt: skip
    state, step = problem.evaluated(M, Q, N), 1.0
    for _ in range(_MOST_ROUNDS):
        best_M, best_Q, best_N = problem.improved(state)
        new = problem.evaluated(
            state.M + step * (best_M - state.M),
            _between(state.Q, best_Q, step),
            state.N + step * (best_N - state.N),
        )
        if not new.total <= state.total + 1e-14 * abs(state.total) and step > 1e-6:
            step *= 0.5
            continue
        moved = max(
            np.abs(new.M - state.M).max(), np.abs(new.Q - state.Q).max(),
            np.abs(new.N - state.N).max(), np.abs(new.m - state.m).max(),
        )  # fmt: skip
        state, step = new, min(1.0, 2.0 * step)
        if moved <= 1e-13 * (1.0 + np.abs(state.M).max()):
            break
    d = len(first["m"])
    return {
        "m": state.m, "V": state.V, "Q": state.Q, "R": problem.R,
        "A": state.M[:, :d].copy(), "b": state.M[:, d].copy(),
        "C": state.N[:, :d].copy(), "c": state.N[:, d].copy(),
    }  # fmt: skip


class _State(NamedTuple):
    """Parameters, what follows from each step and the moments of each step, and the total."""

    M: np.ndarray
    Q: np.ndarray
    N: np.ndarray
    m: np.ndarray
    V: np.ndarray
    follows: np.ndarray
    moments: np.ndarray
    total: float


class _Problem:
    def __init__(self, first, free, shapes, survival, steps, seen, start):
        self.first, self.free, self.shapes, self.survival = first, free, shapes, survival
        self.steps, self.seen, self.start = steps, seen, start
        self.R = self.covariance("R", seen.precision)

    def covariance(self, letter, precision):
        """The best covariance of its kind for the mean precision of what it is compared with."""
        if not self.free.covariances[letter]:
            return self.first[letter]
        shape = self.shapes.get(letter, "full")
        if shape == "diag":
            return np.diag(1.0 / np.diag(precision))
        if shape == "spherical":
            return np.eye(len(precision)) * (len(precision) / np.trace(precision))
        inverse = np.linalg.inv(precision)
        return 0.5 * (inverse + inverse.T)

    def evaluated(self, M, Q, N) -> _State:
        g, d = self.survival, len(M)
        seen, left = self.seen.cost(N, self.R), self.steps.cost(M, Q)
        F = np.vstack([M, np.eye(d + 1)[-1]])
        follows = np.empty((len(g), d + 1, d + 1))
        follows[-1] = g[-1] * seen
        for t in range(len(g) - 2, -1, -1):
            follows[t] = g[t] * seen + g[t + 1] * left + F.T @ follows[t + 1] @ F
            follows[t, -1, -1] += np.sum(follows[t + 1, :d, :d] * Q)
        P, p = follows[0, :d, :d], follows[0, :d, d]
        precision = self.start.precision + P
        V = self.covariance("V", precision)
        m = _free_solution(
            precision, self.start.pull - p[:, None], self.first["m"][:, None], self.free.mean
        )[:, 0]
        x, spread = np.append(m, 1.0), np.zeros((d + 1, d + 1))
        spread[:d, :d] = V
        moments = np.empty_like(follows)
        moments[0] = spread + np.outer(x, x)
        spread[:d, :d] = Q
        for t in range(len(g) - 1):
            moments[t + 1] = F @ moments[t] @ F.T + spread
        start = self.start.cost(m[:, None], V)[0, 0]
        return _State(M, Q, N, m, V, follows, moments,
                      0.5 * float(start + np.sum(follows[0] * moments[0])))  # fmt: skip

    def improved(self, state):
        """The best ``[A b]``, Q and ``[C c]`` for these moments and what follows."""
        g, d = self.survival, len(state.M)
        M, Q, N = state.M, state.Q, state.N
        if len(g) > 1:
            X, after = state.moments[:-1], state.follows[1:]
            L = g[1:, None, None] * self.steps.precision + after[:, :d, :d]
            table = np.einsum("tik,tjl->ijkl", L, X).reshape(M.size, M.size)
            wanted = self.steps.pull @ np.tensordot(g[1:], X, 1) - after[:, :d, d].T @ X[:, -1]
            M = _free_solution(table, wanted, M, self.free.transition)
            Q = self.covariance("Q", L.sum(axis=0) / g[1:].sum())
        if not self.free.observation.all():
            X = np.tensordot(g, state.moments, 1)
            table, wanted = np.kron(self.seen.precision, X), self.seen.pull @ X
            N = _free_solution(table, wanted, N, self.free.observation)
        return M, Q, N


def _between(Q, other, step):
    """Between two covariances, on the line between their precisions."""
    if step == 1.0 or Q is other:
        return other
    inverse = np.linalg.inv((1.0 - step) * np.linalg.inv(Q) + step * np.linalg.inv(other))
    return 0.5 * (inverse + inverse.T)


def _free_solution(table, wanted, present, free):
    """``table @ W = wanted`` for the free entries of W, taken row by row; the others stay."""
    free, solution = free.ravel(), present.ravel().copy()
    if free.any():
        right = wanted.ravel()[free] - table[np.ix_(free, ~free)] @ solution[~free]
        part = table[np.ix_(free, free)]
        try:
            solution[free] = np.linalg.solve(part, right)
        except np.linalg.LinAlgError:
            solution[free] = np.linalg.lstsq(part, right)[0]
    return solution.reshape(present.shape)


def _free(held, first):
    masks = {}
    for block, (matrix, offset, _) in _MATRICES.items():
        parts = [
            ~np.broadcast_to(held[name], first[NAMES[name]].shape) for name in (matrix, offset)
        ]
        masks[block] = np.column_stack(parts)
    covariances = {}
    for name, letter in NAMES.items():
        if letter in "QRV":
            if not isinstance(held[name], bool):
                raise ValueError(
                    f"Kalman filters cannot be combined in the direction 'reverse' while single "
                    f"entries of {name} are held fixed. Hold all of it, or nothing."
                )
            covariances[letter] = not held[name]
    mean = ~np.broadcast_to(held["initial_state_mean"], first["m"].shape)
    return _Free(masks["transition"], masks["observation"], mean, covariances)
