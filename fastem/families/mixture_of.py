"""Components that are mixtures themselves."""

from __future__ import annotations

import numpy as np

from ..kernels import mixture_of as kernels
from .base import Family
from .gaussian import Gaussian

__all__ = ["MixtureOf"]


class MixtureOf(Family):
    """Each component a mixture of members of another family, as the states of a GMM-HMM are.

    Parameters: ``weights`` (K, M), and those of the members with the axes (K, M) first.

    Parameters
    ----------
    member : Family
        With tied Gaussians the members of a component share a covariance: ``covariances`` is then
        (K, D, D).
    n_members : int
        M, the number of members of each component.
    """

    def __init__(self, member: Family, n_members: int):
        if not isinstance(member, Family):
            raise ValueError(f"member must be a family; got {member!r}.")
        if not (isinstance(n_members, (int, np.integer)) and n_members >= 1):
            raise ValueError(f"n_members must be a whole number >= 1; got {n_members!r}.")
        #: As it was given; ``member`` is what is computed with.
        self.kind = member
        self.tied = getattr(member, "covariance_type", None) == "tied"
        self.member = Gaussian("full", member.reg_covar) if self.tied else member
        self.n_members = int(n_members)
        self.parameter_names = ("weights", *member.parameter_names)
        self.failure = member.failure
        self.compiled = member.compiled
        self.nonnegative = member.nonnegative
        self.separable = member.separable

    def with_zeros(self):
        exact = super().with_zeros()
        exact.member = self.member.with_zeros()
        return exact

    def settings(self):
        from . import family_to_settings

        return {"member": family_to_settings(self.kind), "n_members": self.n_members}

    def __repr__(self):
        return f"MixtureOf({self.kind!r}, {self.n_members})"

    def check(self, X):
        self.member.check(X)

    def prepare(self, X):
        return self.member.prepare(X)

    def _flat(self, parameters):
        """The parameters of the members, all components one after another."""
        flat = {}
        for name in self.member.parameter_names:
            array = np.asarray(parameters[name], dtype=float)
            if self.tied and name == "covariances":
                array = np.repeat(array[:, None], self.n_members, axis=1)
            flat[name] = array.reshape(-1, *array.shape[2:])
        return flat

    def pack(self, parameters):
        weights = np.array(parameters["weights"], dtype=float, order="C")
        if weights.ndim != 2 or weights.shape[1] != self.n_members:
            raise ValueError(
                f"weights must have the shape (components, {self.n_members}); got {weights.shape}."
            )
        if not (weights >= 0).all() or not np.allclose(weights.sum(axis=1), 1, rtol=0, atol=1e-6):
            raise ValueError("The weights of the members must not be negative, and sum to one.")
        kind = kernels.TiedMixtureOf if self.tied else kernels.MixtureOf
        packed = kind(weights, np.empty_like(weights), self.member.pack(self._flat(parameters)))
        self._refresh_weights(packed)
        return packed

    @staticmethod
    def _refresh_weights(packed):
        with np.errstate(divide="ignore"):
            packed.logarithms[:] = np.log(packed.weights)

    def refresh(self, packed):
        self._refresh_weights(packed)
        return self.member.refresh(packed.members)

    def unpack(self, packed):
        parameters = {"weights": packed.weights}
        for name, array in self.member.unpack(packed.members).items():
            array = array.reshape(-1, self.n_members, *array.shape[1:])
            parameters[name] = array[:, 0] if self.tied and name == "covariances" else array
        return parameters

    def size(self, packed):
        return len(packed.weights), self.member.size(packed.members)[1]

    def buffers(self, packed):
        return kernels.MixtureOfSums(
            np.zeros_like(packed.weights), self.member.buffers(packed.members)
        )

    def collect(self, packed, mass, buffers):
        inner = self.member.collect(packed.members, buffers.counts.ravel(), buffers.members)
        return {"counts": buffers.counts, **inner}

    def disperse(self, blocks, packed):
        return kernels.MixtureOfSums(
            blocks["counts"].copy(), self.member.disperse(blocks, packed.members)
        )

    def start(self, centres):
        centres = np.asarray(centres, dtype=float)
        n_components, n_columns = centres.shape
        # Members that are all alike would stay so: they begin a little apart.
        spread = 0.1 * (centres.std(axis=0) + 1e-3 * (np.abs(centres).mean(axis=0) + 1))
        shifts = np.random.default_rng(0).standard_normal((n_components, self.n_members, n_columns))
        if self.n_members == 1:
            shifts[:] = 0.0
        apart = (centres[:, None] + spread * shifts).reshape(-1, n_columns)
        parameters = {"weights": np.full((n_components, self.n_members), 1.0 / self.n_members)}
        for name, array in self.member.start(apart).items():
            array = np.asarray(array).reshape(n_components, self.n_members, *np.shape(array)[1:])
            parameters[name] = array[:, 0] if self.tied and name == "covariances" else array
        return parameters

    def draw(self, parameters, labels, rng, horizon=None):
        cumulative = np.cumsum(parameters["weights"], axis=1)[labels]
        chosen = (rng.random(len(labels))[:, None] > cumulative[:, :-1]).sum(axis=1)
        members = np.asarray(labels) * self.n_members + chosen
        return self.member.draw(self._flat(parameters), members, rng, horizon)

    def cross(self, parameters, other, horizon=None):
        # Of the joint law of member and row: member m of one goes with member m of the other.
        n_components, n_members = parameters["weights"].shape
        inner = self.member.cross(self._flat(parameters), self._flat(other), horizon)
        inner = inner.reshape(n_components, n_members, n_components, n_members)
        same = np.einsum("hmlm->hlm", inner)
        weights = parameters["weights"][:, None, :]
        with np.errstate(divide="ignore", invalid="ignore"):
            choice = np.log(np.asarray(other["weights"]))[None]
            return np.where(weights > 0, weights * (choice + same), 0.0).sum(axis=2)

    def log_joint(self, blocks, mass, packed):
        counts = blocks["counts"]
        counted = counts > 0
        choice = np.sum(counts[counted] * packed.logarithms[counted])
        inner = {name: block for name, block in blocks.items() if name != "counts"}
        return float(choice + self.member.log_joint(inner, counts.ravel(), packed.members))

    def n_parameters(self, parameters):
        weights = parameters["weights"]
        n_components, n_columns = weights.shape[0], np.shape(parameters["means"])[-1]
        members = self.member.n_parameters(self._flat(parameters))
        if self.tied:
            shared = n_columns * (n_columns + 1) // 2
            members -= n_components * (self.n_members - 1) * shared
        return members + weights.size - n_components
