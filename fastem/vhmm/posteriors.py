"""Conjugate distributions of the parameters of a hidden Markov model: priors and posteriors.

A distribution is a dict of arrays, its hyperparameters by name. Each kind knows how to add such
distributions up: in natural parameters a posterior is the prior plus the statistics of the data,
so that an M-step, an online step and a combination of posteriors are weighted sums, with different
weights (:meth:`Posterior.pooled`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from scipy.special import digamma, gammaln

from .. import checks
from ..hmm.covariances import covariance_shape

__all__ = ["CategoricalPosterior", "GaussianPosterior", "Posterior", "dirichlet_divergence",
           "expected_logs"]  # fmt: skip

#: A distribution with the weight it has in a sum.
Part = tuple[float, dict[str, np.ndarray]]


# Rows of probabilities -------------------------------------------------------------------------


def expected_logs(counts) -> np.ndarray:
    """``E[log p]`` of rows ``p`` of probabilities with Dirichlet distributions."""
    return digamma(counts) - digamma(counts.sum(axis=-1, keepdims=True))


def dirichlet_divergence(counts, prior) -> float:
    """The relative entropy of Dirichlet distributions, the rows of ``counts``, to a prior's."""
    total, prior_total = counts.sum(axis=-1), prior.sum(axis=-1)
    normalizers = gammaln(total) - gammaln(prior_total)
    normalizers = normalizers - (gammaln(counts) - gammaln(prior)).sum(axis=-1)
    return float(np.sum(normalizers) + np.sum((counts - prior) * expected_logs(counts)))


def summed(parts: Sequence[Part], name) -> np.ndarray:
    """The weighted sum of the arrays of one name."""
    return sum(weight * values[name] for weight, values in parts)  # type: ignore[return-value]


# Emissions -------------------------------------------------------------------------------------


class Posterior(ABC):
    """A kind of distributions over the parameters of emissions."""

    #: The names of the hyperparameters, and the letter of each in ``params``.
    letters: ClassVar[dict[str, str]]

    @abstractmethod
    def shapes(self, n_states, n_columns) -> dict[str, tuple[int, ...]]:
        """The shapes of the hyperparameters, for ``n_columns`` columns or symbols."""

    @abstractmethod
    def check(self, name, values) -> None:
        """Raise ``ValueError`` for impossible hyperparameters; ``name.format(...)`` names one."""

    @abstractmethod
    def plug_in(self, values) -> dict[str, np.ndarray]:
        """The family's parameters at the mean of the distribution."""

    @abstractmethod
    def expected(self, family, values) -> tuple[object, np.ndarray]:
        """``E[log p(x|k)]``: parameters as kernels take them, and what to add for each state."""

    @abstractmethod
    def of_data(self, statistics) -> dict[str, np.ndarray]:
        """The hyperparameters that statistics of data add to those of a prior."""

    @abstractmethod
    def pooled(self, parts: Sequence[Part], fixed, old) -> dict[str, np.ndarray]:
        """The distribution whose natural parameters are the weighted sum of those of the parts.

        The parameters of a family named in ``fixed`` keep their distribution in ``old``.
        """

    @abstractmethod
    def divergence(self, values, prior) -> float:
        """The relative entropy of one distribution to another."""

    def reordered(self, values, order) -> dict[str, np.ndarray]:
        """The distribution for states in another order."""
        return {name: array[order] if np.ndim(array) else array for name, array in values.items()}


class CategoricalPosterior(Posterior):
    """Dirichlet distributions of the probabilities of symbols."""

    letters: ClassVar = {"emissionprob": "e"}

    def shapes(self, n_states, n_columns):
        return {"emissionprob": (n_states, n_columns)}

    def check(self, name, values):
        checks_positive(name.format("emissionprob"), values["emissionprob"])

    def plug_in(self, values):
        counts = values["emissionprob"]
        return {"probabilities": (counts / counts.sum(axis=1, keepdims=True))[:, None, :]}

    def expected(self, family, values):
        # They sum to less than one, which kernels do not mind.
        probabilities = np.exp(expected_logs(values["emissionprob"]))[:, None, :]
        packed = family.pack(self.plug_in(values))
        packed = packed._replace(
            probabilities=probabilities, logarithms=np.empty_like(probabilities)
        )
        family.refresh(packed)
        return packed, np.zeros(len(probabilities))

    def of_data(self, statistics):
        return {"emissionprob": statistics["counts"][:, 0, :]}

    def pooled(self, parts, fixed, old):
        return old if "probabilities" in fixed else {"emissionprob": summed(parts, "emissionprob")}

    def divergence(self, values, prior):
        return dirichlet_divergence(values["emissionprob"], prior["emissionprob"])


class GaussianPosterior(Posterior):
    """Normal-Wishart distributions of means and precisions.

    ``Λ`` has ``dof`` degrees of freedom and the inverse scale ``scale``; given ``Λ``, the mean of a
    state is normal about ``means`` with the precision ``beta Λ``. Of a diagonal covariance the
    inverse scale is a diagonal, and of a spherical one a number times the unit matrix: among such
    Wishart distributions the posterior is the nearest to the exact one, as in hmmlearn.

    Parameters
    ----------
    kind : {'full', 'tied', 'diag', 'spherical'}
    """

    letters: ClassVar = {"means": "m", "beta": "m", "dof": "c", "scale": "c"}

    def __init__(self, kind):
        self.kind = kind

    def shapes(self, n_states, n_columns):
        return {
            "means": (n_states, n_columns),
            "beta": (n_states,),
            "dof": () if self.kind == "tied" else (n_states,),
            "scale": covariance_shape(self.kind, (n_states,), n_columns),
        }

    def check(self, name, values):
        checks.finite(name.format("means"), values["means"])
        for which in ("beta", "dof"):
            checks_positive(name.format(which), values[which])
        n_columns = values["means"].shape[1]
        if not (np.asarray(values["dof"]) > n_columns - 1).all():
            raise ValueError(
                f"{name.format('dof')} must be above {n_columns - 1}, one less than the columns: "
                f"there is no Wishart distribution otherwise; got {values['dof']}."
            )
        scale = values["scale"]
        checks.finite(name.format("scale"), scale)
        if self.kind in ("diag", "spherical"):
            checks_positive(name.format("scale"), scale)
            return
        if not np.allclose(scale, np.swapaxes(scale, -1, -2)):
            raise ValueError(f"{name.format('scale')} must be symmetric.")
        if not (np.linalg.eigvalsh(scale) > 0).all():
            raise ValueError(f"{name.format('scale')} must be positive definite.")

    def plug_in(self, values):
        return {"means": values["means"], "covariances": self.covariances(values)}

    def covariances(self, values) -> np.ndarray:
        """``scale / dof``, the inverse of the mean of ``Λ``."""
        scale, dof = values["scale"], np.asarray(values["dof"])
        return scale / dof.reshape(dof.shape + (1,) * (scale.ndim - dof.ndim))

    def expected(self, family, values):
        n_columns, dof = values["means"].shape[1], np.asarray(values["dof"], dtype=float)
        # E[log |Λ|] - log |E[Λ]|: a Gaussian of the mean of Λ is too certain by half of this. The
        # constant of the density is left out of the bound, as in hmmlearn.
        doubts = digamma(0.5 * (dof - np.arange(n_columns).reshape(-1, *(1,) * dof.ndim)))
        doubts = doubts.sum(axis=0) - n_columns * np.log(0.5 * dof)
        shifts = 0.5 * (doubts + n_columns * (np.log(2.0 * np.pi) - 1.0 / values["beta"]))
        return family.pack(self.plug_in(values)), shifts

    def of_data(self, statistics):
        moments, mass = statistics["moments"], statistics["mass"]
        scatter = moments.scatter
        if self.kind == "spherical":
            scatter = scatter / moments.mean.shape[1]
        dof = mass.sum() if self.kind == "tied" else mass
        return {"means": moments.mean, "beta": moments.mass, "dof": dof, "scale": scatter}

    def pooled(self, parts, fixed, old):
        new = dict(old)
        beta = summed(parts, "beta")
        # Sums are taken about the mean of the part that weighs most, so that nothing cancels.
        heaviest = np.argmax([np.abs(weight * values["beta"]) for weight, values in parts], axis=0)
        means = np.stack([values["means"] for _, values in parts])
        about = means[heaviest, np.arange(len(beta))]
        if "means" not in fixed:
            new["beta"] = beta
            shift = sum(w * v["beta"][:, None] * (v["means"] - about) for w, v in parts)
            new["means"] = about + shift / beta[:, None]
        if "covariances" not in fixed:
            scale = summed(parts, "scale")
            for weight, values in parts:
                # About the new means no term is left to subtract, fixed or not.
                shift = values["means"] - new["means"]
                scale = scale + self._spread(weight * values["beta"], shift)
            new["dof"] = summed(parts, "dof")
            new["scale"] = _symmetric(scale) if scale.ndim > 1 and self._has_matrices else scale
        return new

    @property
    def _has_matrices(self):
        return self.kind in ("full", "tied")

    def _spread(self, weights, shifts):
        """``Σ w d dᵀ``, as the kind has it."""
        if self.kind == "tied":
            return (weights[:, None] * shifts).T @ shifts
        if self.kind == "full":
            return (weights[:, None] * shifts)[:, :, None] * shifts[:, None, :]
        squares = weights[:, None] * shifts**2
        return squares if self.kind == "diag" else squares.mean(axis=1)

    def divergence(self, values, prior):
        n_states, n_columns = values["means"].shape
        scale, prior_scale = self._matrices(values), self._matrices(prior)
        dof, prior_dof = (np.broadcast_to(v["dof"], (n_states,)) for v in (values, prior))
        beta, prior_beta = values["beta"], prior["beta"]
        shift = values["means"] - prior["means"]
        solved = np.linalg.solve(scale, shift[:, :, None])[:, :, 0]
        distances = dof * np.einsum("kc,kc->k", shift, solved)
        of_means = n_columns * (np.log(beta / prior_beta) + prior_beta / beta - 1.0)
        of_means = 0.5 * (of_means + prior_beta * distances)
        log_det, prior_log_det = (np.linalg.slogdet(s / 2.0)[1] for s in (scale, prior_scale))
        logs = digamma(_halves(dof, n_columns)).sum(axis=1) - log_det
        traces = np.trace(np.linalg.solve(scale, prior_scale), axis1=1, axis2=2)
        of_precisions = 0.5 * ((dof - prior_dof) * logs + dof * (traces - n_columns))
        of_precisions += _log_normalizer(prior_dof, prior_log_det, n_columns)
        of_precisions -= _log_normalizer(dof, log_det, n_columns)
        if self.kind == "tied":
            of_precisions = of_precisions[:1]
        return float(of_means.sum() + of_precisions.sum())

    def _matrices(self, values):
        """The inverse scale of each state as a matrix."""
        n_states, n_columns = values["means"].shape
        scale, shape = values["scale"], (n_states, n_columns, n_columns)
        if self._has_matrices:
            return np.broadcast_to(scale, shape)
        diagonals = np.broadcast_to(scale.reshape(n_states, -1), (n_states, n_columns))
        return diagonals[:, :, None] * np.eye(n_columns)

    def reordered(self, values, order):
        shared = ("dof", "scale") if self.kind == "tied" else ()
        return {name: a if name in shared else a[order] for name, a in values.items()}


def _halves(dof, n_columns):
    return 0.5 * (dof[:, None] - np.arange(n_columns))


def _log_normalizer(dof, log_det, n_columns):
    """Of a Wishart distribution, up to a term that depends on the number of columns alone."""
    return gammaln(_halves(dof, n_columns)).sum(axis=1) - 0.5 * dof * log_det


def _symmetric(matrices):
    """Sums of products are symmetric only up to rounding."""
    return 0.5 * (matrices + np.swapaxes(matrices, -1, -2))


def checks_positive(name, array) -> None:
    """Raise ``ValueError`` unless all numbers are positive and finite."""
    array = np.asarray(array)
    if not ((array > 0) & np.isfinite(array)).all():
        raise ValueError(f"{name} must be positive and finite; got {array.tolist()}.")
