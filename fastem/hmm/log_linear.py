"""The chain of least total divergence to several, with the new one in the first argument."""

from __future__ import annotations

import numpy as np

from ..exceptions import NothingInCommon
from ..log_linear import chosen, log_mean

__all__ = ["absorbing_chain", "chain_of_lengths"]

# Infinite costs as numbers, which can be multiplied by a probability of zero.
_NEVER = 1e200
# Values of paths below this are computed in logarithms.
_LEAST_VALUE = 1e-250
_MOST_ROUNDS = 2_000


def absorbing_chain(startprobs, transmats, alphas, costs, absorbing, fixed=()):
    """Start and transitions of a chain that ends by absorption.

    With geometric means barred, the least is at ``ã ∝ ā z`` and ``π̃ ∝ π̄ z``: ``z_h`` is
    ``e^(-c_h) Σ ā_hh' z_h'`` for transient states and ``e^(-c_h)`` for absorbing ones, one linear
    system. ``-log z_h`` is the cost of all that follows from being in state h.
    """
    still_fixed = "transmat" in fixed
    values = (_values_fixed if still_fixed else _values)(transmats, alphas, costs, absorbing)
    transmat, _ = chosen(transmats, alphas, values, fixed=still_fixed)
    transmat = np.where(absorbing[:, None], transmats[0], transmat)
    return _start(startprobs, alphas, values, fixed)[0], transmat


def _values(transmats, alphas, costs, absorbing):
    """``-log z``, infinite for states from which no absorption is possible under all models."""
    logs, inside = log_mean(transmats, alphas), ~absorbing
    weights = np.exp(logs - np.where(np.isfinite(costs), costs, 0.0)[:, None])
    weights[~np.isfinite(costs)] = 0.0
    z = np.where(absorbing, np.exp(-costs), 0.0)
    ends = weights[np.ix_(inside, absorbing)] @ z[absorbing]
    steps = weights[np.ix_(inside, inside)]
    # States that cannot be absorbed would make the system singular if nothing is lost among them.
    can = _reaches(steps > 0, ends > 0)
    z[np.flatnonzero(inside)[can]] = np.linalg.solve(
        np.eye(can.sum()) - steps[np.ix_(can, can)], ends[can]
    )
    if (z[z > 0] > _LEAST_VALUE).all() and (z > 0).all():
        return -np.log(z)
    values = np.where(absorbing, costs, np.inf)
    for _ in range(_MOST_ROUNDS):
        following = costs + chosen(transmats, alphas, values)[1]
        new = np.where(absorbing, costs, following)
        with np.errstate(invalid="ignore"):
            same = (new == values) | (np.abs(new - values) <= 1e-14 * np.abs(new))
        values = new
        if same.all():
            break
    return values


def _reaches(steps, ends):
    """The states from which an end can be reached."""
    can = ends.copy()
    for _ in range(len(ends)):
        can = can | (steps & can).any(axis=1)
    return can


def _values_fixed(transmats, alphas, costs, absorbing):
    """The cost of what follows from each state if the transitions are those of the first model."""
    inside = ~absorbing
    own = chosen(transmats, alphas, np.zeros(len(costs)), fixed=True)[1] + costs
    values = np.minimum(np.where(absorbing, costs, own), _NEVER)
    A = transmats[0]
    steps = np.eye(inside.sum()) - A[np.ix_(inside, inside)]
    values[inside] = np.linalg.solve(
        steps, values[inside] + A[np.ix_(inside, absorbing)] @ values[absorbing]
    )
    return np.where(values > np.sqrt(_NEVER), np.inf, values)


def chain_of_lengths(startprobs, transmats, alphas, costs, survival, fixed=()):
    """Start and transitions of a chain for sequences of given lengths, ``P(length ≥ t)``.

    The cost of what follows from state h at step t is
    ``V_t = g_t c + g_(t+1) k + Ã V_(t+1)``, where ``k_h = Σ ã log ã/ā``. At the least total, with
    the visits ``δ_t``, ``ã_hh' ∝ ā_hh' exp(-Σ_t δ_th V_(t+1)h' / Σ_t δ_th g_(t+1))`` and
    ``π̃ ∝ π̄ e^(-V_1)``. This is iterated, with shorter steps where the total would rise.
    """
    # A state that costs too much is one that is never entered.
    out = ~np.isfinite(costs)
    if out.any():
        startprobs, transmats = (
            [np.where(out, 0.0, array) for array in arrays] for arrays in (startprobs, transmats)
        )
        costs = np.where(out, 0.0, costs)
    if len(survival) > 1 and "transmat" not in fixed:
        slopes = np.zeros((len(costs), len(costs)))
        found = _Chain(startprobs, transmats, alphas, costs, survival, slopes, fixed)
        step = 1.0
        for _ in range(_MOST_ROUNDS):
            direction = found.slopes - slopes
            tried = slopes + step * direction
            new = _Chain(startprobs, transmats, alphas, costs, survival, tried, fixed)
            if new.total > found.total + 1e-15 * abs(found.total) and step > 1e-6:
                step *= 0.5
                continue
            moved = np.abs(new.transmat - found.transmat).max()
            slopes, found, step = tried, new, min(1.0, 2.0 * step)
            if moved <= 1e-14:
                break
    else:
        found = _Chain(startprobs, transmats, alphas, costs, survival, None, fixed)
    if not found.total < np.sqrt(_NEVER):
        raise NothingInCommon(_NOTHING)
    never_left = found.left == 0.0
    return found.startprob, np.where(never_left[:, None], transmats[0], found.transmat)


class _Chain:
    """A chain whose transitions cost ``slopes``, and the best slopes for its visits."""

    def __init__(self, startprobs, transmats, alphas, costs, survival, slopes, fixed):
        if slopes is None:
            self.transmat, own = chosen(transmats, alphas, np.zeros(len(costs)), fixed=True)
        else:
            self.transmat, own = chosen(transmats, alphas, slopes)
            # Without what the slopes put in: Σ ã log ã/ā.
            own = own - (self.transmat * slopes).sum(axis=1)
        own = np.minimum(own, _NEVER)
        n_steps = len(survival)
        following = np.append(survival[1:], 0.0)
        values = np.empty((n_steps, len(costs)))
        values[-1] = survival[-1] * costs
        for t in range(n_steps - 2, -1, -1):
            values[t] = survival[t] * costs + following[t] * own + self.transmat @ values[t + 1]
        self.startprob, self.total = _start(startprobs, alphas, values[0], fixed)
        visits = np.empty_like(values)
        visits[0] = self.startprob
        for t in range(n_steps - 1):
            visits[t + 1] = visits[t] @ self.transmat
        self.left = following @ visits
        if slopes is not None:
            # A state that is not visited is taken to be visited at all times alike.
            visited = np.where(self.left > 0, visits, 1.0)[:-1]
            shares = survival[1:] @ visited
            self.slopes = (visited.T @ values[1:]) / shares[:, None]


def _start(startprobs, alphas, values, fixed):
    """The start, and the total divergence of the chain."""
    startprob, total = chosen(startprobs, alphas, values, fixed="startprob" in fixed)
    if not total < np.inf:
        raise NothingInCommon(_NOTHING)
    return startprob, float(total)


_NOTHING = (
    "No path of states is possible under all of the models: every combination is infinitely far "
    "from some of them. Use direction='forward'."
)
