"""Components that are mixtures themselves."""

from __future__ import annotations

import copy

import numpy as np
from scipy.special import xlogy

from .. import checks
from ..kernels.families import mixture_of as kernels
from ..log_linear import chosen, log_mean
from ..matching import MOST, all_orders, matched
from .base import Family

__all__ = ["MixtureOf"]

#: What those statistics of members are called whose own name is taken.
_INNER_NAMES = {"counts": "member_counts"}


class MixtureOf(Family):
    """Each component a mixture of members of another family, as the states of a GMM-HMM are.

    Parameters: ``weights`` (K, M), and those of the members with the axes (K, M) first. In a
    :class:`~fastem.Mixture`, which has weights of its own, they are ``member_weights``.

    Parameters
    ----------
    member : Family
        With tied Gaussians the members of a component share a covariance: ``covariances`` is then
        (K, D, D).
    n_members : int
        M, the number of members of each component.

    Examples
    --------
    Two clusters, each a ring of three ellipses:

    >>> import numpy as np
    >>> import fastem
    >>> from fastem.families import Gaussian, MixtureOf
    >>> angle = np.random.default_rng(0).uniform(0.0, 2.0 * np.pi, 600)
    >>> X = np.column_stack([np.cos(angle), np.sin(angle)]) + 9.0 * (np.arange(600) < 300)[:, None]
    >>> model = fastem.Mixture(MixtureOf(Gaussian(), 3), 2, random_state=0).fit(X)
    >>> model.means_.shape
    (2, 3, 2)
    """

    def __init__(self, member: Family, n_members: int):
        if not isinstance(member, Family):
            raise ValueError(f"member must be a family; got {member!r}.")
        if isinstance(member, MixtureOf):
            raise ValueError(
                "A mixture of mixtures is a mixture: give MixtureOf the family of the inner "
                f"members, and as many as there are of them in all; got the member {member!r}."
            )
        #: As it was given; ``member`` is the family of the members of all components together.
        self.kind = member
        self.member = member.as_members()
        if not (isinstance(n_members, (int, np.integer)) and n_members >= 1):
            raise ValueError(f"n_members must be a whole number >= 1; got {n_members!r}.")
        self.n_members = int(n_members)
        self.weights_name = "weights"
        for name in ("failure", "compiled", "nonnegative", "separable", "indexes"):
            setattr(self, name, getattr(member, name))

    @property
    def parameter_names(self):
        return (self.weights_name, *self.kind.parameter_names)

    def beside_weights(self):
        renamed = copy.copy(self)
        renamed.weights_name = "member_weights"
        return renamed

    def with_zeros(self):
        exact = super().with_zeros()
        exact.member = self.member.with_zeros()
        return exact

    def settings(self):
        return {"member": self.kind.to_settings(), "n_members": self.n_members}

    @classmethod
    def from_settings(cls, settings, make):
        return cls(make(settings["member"]), settings["n_members"])

    def __repr__(self):
        return f"MixtureOf({self.kind!r}, {self.n_members})"

    def check(self, X):
        self.member.check(X)

    def check_indices(self, X, missing=False):
        self.member.check_indices(X, missing)

    def entry_tests(self, n_columns):
        return self.member.entry_tests(n_columns)

    def steps_in_kernel(self, packed):
        return self.member.steps_in_kernel(packed.members)

    def support(self):
        return self.member.support()

    def prepare(self, X):
        return self.member.prepare(X)

    def _flat(self, parameters):
        """The parameters of the members, all components one after another."""
        n_components = len(parameters[self.weights_name])
        flat = {}
        for name in self.member.parameter_names:
            array = np.asarray(parameters[name], dtype=float)
            shared = name in self.kind.shared_parameters
            axes = (n_components,) if shared else (n_components, self.n_members)
            if array.shape[: len(axes)] != axes:
                raise ValueError(
                    f"{name} must have the shape {axes} and more, as {self.weights_name} are those "
                    f"of {n_components} components of {self.n_members} members; got {array.shape}."
                )
            if shared:
                array = np.repeat(array[:, None], self.n_members, axis=1)
            flat[name] = array.reshape(-1, *array.shape[2:])
        return flat

    def pack(self, parameters):
        given = self.given(parameters)
        weights = np.array(given[self.weights_name], order="C")
        if weights.ndim != 2 or weights.shape[1] != self.n_members or len(weights) == 0:
            raise ValueError(
                f"{self.weights_name} must have the shape (components, {self.n_members}); got "
                f"{weights.shape}."
            )
        if not (weights >= 0).all() or not np.allclose(weights.sum(axis=1), 1, rtol=0, atol=1e-6):
            raise ValueError("The weights of the members must not be negative, and sum to one.")
        kind = kernels.SharingMixtureOf if self.kind.shared_parameters else kernels.MixtureOf
        return kind(weights, _logarithms(weights), self.member.pack(self._flat(given)))

    def packs_exactly(self, packed):
        return False  # the logarithms are NumPy's here, and numba's in kernels

    def refresh(self, packed):
        packed.logarithms[:] = _logarithms(packed.weights)
        return self.member.refresh(packed.members)

    def unpack(self, packed):
        return self._grouped(packed.weights, self.member.unpack(packed.members))

    def size(self, packed):
        return len(packed.weights), self.member.size(packed.members)[1]

    def buffers(self, packed):
        return kernels.MixtureOfSums(
            np.zeros_like(packed.weights), self.member.buffers(packed.members)
        )

    def collect(self, packed, mass, buffers):
        inner = self.member.collect(packed.members, buffers.counts.ravel(), buffers.members)
        # Members may have counts of their own.
        inner = {_INNER_NAMES.get(name, name): block for name, block in inner.items()}
        return {"counts": buffers.counts, **inner}

    @staticmethod
    def _inner(blocks):
        """The statistics of the members, by their own names."""
        outer_names = {outer: name for name, outer in _INNER_NAMES.items()}
        return {
            outer_names.get(name, name): block for name, block in blocks.items() if name != "counts"
        }

    @staticmethod
    def _counts(blocks, packed):
        """How often each member was responsible, checked."""
        return checks.block(blocks, "counts", packed.weights.shape)

    def check_blocks(self, blocks, packed):
        self._counts(blocks, packed)
        self.member.check_blocks(self._inner(blocks), packed.members)

    def disperse(self, blocks, packed):
        counts = self._counts(blocks, packed).copy()
        members = self.member.disperse(self._inner(blocks), packed.members)
        return kernels.MixtureOfSums(counts, members)

    def flags(self, fixed):
        return np.array([self.weights_name in fixed]), self.member.flags(fixed)

    def horizon(self, packed, total, buffers):
        return self.member.horizon(packed.members, total, buffers.members)

    def kernel_horizon(self, horizon):
        return self.member.kernel_horizon(horizon)

    def maximize(self, blocks, mass, packed, fixed=()):
        if self.compiled:
            return super().maximize(blocks, mass, packed, fixed)
        # Kernels cannot maximize members of the user's own.
        counts = self._counts(blocks, packed)
        totals = counts.sum(axis=1)
        alive = (totals > 0) & (mass > 0)
        weights = packed.weights.copy()
        if self.weights_name not in fixed:
            weights[alive] = counts[alive] / totals[alive, None]
        members = self.member.maximize(self._inner(blocks), counts.ravel(), packed.members, fixed)
        return type(packed)(weights, _logarithms(weights), members)

    def start(self, centers):
        centers = np.asarray(centers, dtype=float)
        n_components, n_columns = centers.shape
        # Members that are all alike would stay so: they begin a little apart.
        spread = 0.1 * (centers.std(axis=0) + 1e-3 * (np.abs(centers).mean(axis=0) + 1))
        rng = np.random.default_rng(0)
        shifts = rng.standard_normal((n_components, self.n_members, n_columns))
        if self.n_members == 1:
            shifts[:] = 0.0
        apart = (centers[:, None] + spread * shifts).reshape(-1, n_columns)
        if self.nonnegative:
            apart = np.abs(apart)
        started = self.member.start(apart)
        if self.n_members > 1:
            started = self.member.stirred(started, rng)
        return self._grouped(np.full((n_components, self.n_members), 1.0 / self.n_members), started)

    def _grouped(self, weights, flat):
        """All parameters, those of the members with the axes (K, M) first."""
        parameters = {self.weights_name: weights}
        for name, array in flat.items():
            array = np.asarray(array)
            array = array.reshape(-1, self.n_members, *array.shape[1:])
            parameters[name] = array[:, 0] if name in self.kind.shared_parameters else array
        return parameters

    def draw(self, parameters, labels, rng, horizon=None):
        cumulative = np.cumsum(parameters[self.weights_name], axis=1)[labels]
        chosen = (rng.random(len(labels))[:, None] > cumulative[:, :-1]).sum(axis=1)
        members = np.asarray(labels) * self.n_members + chosen
        return self.member.draw(self._flat(parameters), members, rng, horizon)

    def cross(self, packed, other, horizon=None):
        # Of the joint law of member and row, with the members in the order that fits best.
        gains = self._member_gains(packed, other, horizon)
        partners = matched(gains.transpose(0, 2, 1, 3))
        return np.take_along_axis(gains.transpose(0, 2, 1, 3), partners[..., None], 3).sum((2, 3))

    def _member_gains(self, packed, other, horizon):
        """``w_hm (log w_lq + E_hm[log p(x|lq)])`` as (h, m, l, q)."""
        ours, theirs = packed.weights, other.weights
        inner = self.member.cross(packed.members, other.members, horizon)
        inner = inner.reshape(*ours.shape, *theirs.shape)
        weights = ours[:, :, None, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(weights > 0, weights * (np.log(theirs) + inner), 0.0)

    def rules_out(self, blocks, mass, packed):
        counts = blocks["counts"]
        if ((counts > 0) & (packed.weights == 0.0)).any():
            return True
        return self.member.rules_out(self._inner(blocks), counts.ravel(), packed.members)

    def without_noise(self, packed):
        members = self.member.without_noise(packed.members)
        return packed if members is packed.members else packed._replace(members=members)

    # What is inside: the members --------------------------------------------------------------

    def arranged(self, packed, other, horizon=None):
        gains = self._member_gains(packed, other, horizon)
        partners = matched(np.stack([gains[k, :, k] for k in range(len(gains))]))
        moved = self._with_members_ordered(packed, np.argsort(partners, axis=1))
        inside = self.member.arranged(moved.members, other.members, horizon)
        return moved if inside is moved.members else moved._replace(members=inside)

    def _with_members_ordered(self, packed, orders):
        """Members of component k in the order ``orders[k]``; ``packed`` itself if it is theirs."""
        if (orders == np.arange(self.n_members)).all():
            return packed
        flat = (orders + self.n_members * np.arange(len(orders))[:, None]).ravel()
        parameters = self.member.reorder(self.member.unpack(packed.members), flat)
        weights = np.take_along_axis(packed.weights, orders, axis=1)
        return type(packed)(weights, _logarithms(weights), self.member.pack(parameters))

    def pooled(self, packed, mass, other, other_mass, horizon=None, fixed=()):
        best = self._best_pooling(packed, mass, other, other_mass, horizon, fixed)
        return None if best is None else best[0]

    def arranged_to_pool(self, packed, mass, other, other_mass, horizon=None, fixed=()):
        _, orders = self._best_pooling(packed, mass, other, other_mass, horizon, fixed)
        orders = orders[np.arange(len(mass)), np.arange(len(mass))]
        moved = self._with_members_ordered(other, orders)
        counts = (mass[:, None] * packed.weights).ravel()
        other_counts = (other_mass[:, None] * moved.weights).ravel()
        inside = self.member.arranged_to_pool(
            packed.members, counts, moved.members, other_counts, horizon, self._inner_fixed(fixed)
        )
        return moved if inside is moved.members else moved._replace(members=inside)

    def _inner_fixed(self, fixed):
        return tuple(name for name in self.member.parameter_names if name in fixed)

    def _best_pooling(self, packed, mass, other, other_mass, horizon, fixed):
        """For all pairs of components the value of pooling them, and the second's best order."""
        n, m, M = len(mass), len(other_mass), self.n_members
        counts, other_counts = (
            w[:, None] * p.weights for w, p in ((mass, packed), (other_mass, other))
        )
        both = counts[:, None, :, None] + other_counts[None, :, None, :]
        if self.weights_name in fixed:
            with np.errstate(divide="ignore", invalid="ignore"):
                logs = np.log(packed.weights)[:, None, :, None]
                choice, whole = np.where(both > 0, both * logs, 0.0), 0.0
        else:
            total = mass[:, None] + other_mass
            choice, whole = xlogy(both, both), xlogy(total, total)
        if set(self.kind.shared_parameters) - set(fixed):
            if M > MOST:
                return None
            value, orders = self._best_shared(
                packed, counts, other, other_counts, choice, horizon, self._inner_fixed(fixed)
            )
            return value - whole, orders
        inner = self.member.pooled(
            packed.members, counts.ravel(), other.members, other_counts.ravel(), horizon,
            self._inner_fixed(fixed),
        )  # fmt: skip
        if inner is None:
            return None
        table = choice + inner.reshape(n, M, m, M).transpose(0, 2, 1, 3)
        partners = matched(table)
        value = np.take_along_axis(table, partners[..., None], 3).sum((2, 3))
        return value - whole, partners

    def _best_shared(self, packed, counts, other, other_counts, choice, horizon, fixed):
        """The same for members that share a parameter: every order is tried."""
        orders = all_orders(self.n_members)
        n, m = choice.shape[:2]
        value, best = np.empty((n, m)), np.empty((n, m, self.n_members), dtype=int)
        ours, theirs = self._each_packed(packed), self._each_packed(other)
        for h in range(n):
            for l in range(m):
                a, b = counts[h], other_counts[l]
                if not a.sum() + b.sum() > 0:
                    value[h, l], best[h, l] = 0.0, orders[0]
                    continue
                values = self.kind.pooled_orders(ours[h], a, theirs[l], b, orders, horizon, fixed)
                values = values + choice[h, l][np.arange(self.n_members), orders].sum(axis=1)
                value[h, l], best[h, l] = values.max(), orders[np.argmax(values)]
        return value, best

    def _each_packed(self, packed):
        """The members of each component, packed by themselves."""
        parameters = self.unpack(packed)
        return [
            self.kind.pack({name: parameters[name][k] for name in self.kind.parameter_names})
            for k in range(len(packed.weights))
        ]

    def log_linear(self, packs, alphas, horizon=None, fixed=()):
        members = self.member.log_linear(
            [packed.members for packed in packs], alphas, horizon, self._inner_fixed(fixed)
        )
        weights, _ = chosen(
            [packed.weights for packed in packs], alphas,
            self._member_costs(members, packs, alphas, horizon), fixed=self.weights_name in fixed,
        )  # fmt: skip
        parameters = self.unpack(packs[0]._replace(members=members))
        return self.pack({**parameters, self.weights_name: weights})

    def _member_costs(self, members, packs, alphas, horizon):
        inner = [packed.members for packed in packs]
        costs = self.member.log_linear_costs(members, inner, alphas, horizon)
        return costs.reshape(-1, self.n_members)

    def log_linear_costs(self, packed, packs, alphas, horizon=None):
        costs = self._member_costs(packed.members, packs, alphas, horizon)
        logs = log_mean([other.weights for other in packs], alphas)
        with np.errstate(invalid="ignore"):
            parts = packed.weights * (packed.logarithms - logs + costs)
        return np.where(packed.weights > 0, parts, 0.0).sum(axis=1)

    def log_joint(self, blocks, mass, packed):
        counts = self._counts(blocks, packed)
        counted = counts > 0
        choice = np.sum(counts[counted] * packed.logarithms[counted])
        inner = self.member.log_joint(self._inner(blocks), counts.ravel(), packed.members)
        return float(choice + inner)

    def n_parameters(self, parameters):
        weights = parameters[self.weights_name]
        one = {name: np.asarray(parameters[name])[0] for name in self.kind.parameter_names}
        return len(weights) * (self.kind.n_parameters(one) - 1) + weights.size


def _logarithms(weights):
    with np.errstate(divide="ignore"):
        return np.log(weights)
