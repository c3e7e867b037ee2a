"""Plain gradient ascent for hidden Markov models, one sequence at a time.

The gradient of a sequence's log-likelihood is that of the complete-data log-likelihood, expected
given the sequence (Fisher's identity), so that the statistics of the E-step are all it needs. The
coordinates are free of constraints: logits of probabilities, means, and the factors ``L`` of the
covariances ``L Lᵀ`` with the logarithms of their diagonals. A step is ``γ = γ₀/t^β`` times the
gradient, in no other metric.
"""

from __future__ import annotations

import numpy as np

__all__ = ["GradientHMM", "gradient"]


class GradientHMM:
    """An absorbing hidden Markov model with Gaussian emissions that climbs its log-likelihood.

    Parameters
    ----------
    model : HMMModel
        Where to begin; covariances are full.
    means, covariances : arrays
        Of its emissions.
    gamma, beta : float
        The step size is ``gamma / t**beta``.
    """

    def __init__(self, model, means, covariances, gamma, beta):
        self.model, self.gamma, self.beta = model, float(gamma), float(beta)
        self.means, self.covariances = np.array(means), np.array(covariances)
        self.t = 0

    def learn(self, data) -> None:
        """One step, with ``data`` of one sequence; a step that ends at no model is not taken."""
        self.t += 1
        model, size = self.model, self.gamma / self.t**self.beta
        factors = np.linalg.cholesky(self.covariances)
        with np.errstate(all="ignore"):
            slopes = gradient(model, self.means, factors, model.expect(data).statistics)
            means = self.means + size * slopes["means"]
            moved = factors + size * slopes["factors"]
            diagonal = np.einsum("kii->ki", moved)
            diagonal[:] = np.einsum("kii->ki", factors) * np.exp(size * slopes["log_diagonals"])
            covariances = moved @ moved.transpose(0, 2, 1)
            found = {
                "startprob": _moved(model.startprob, size * slopes["start"]),
                "transmat": _moved(model.transmat, size * slopes["transitions"]),
                "means": means,
                "covariances": covariances,
            }
        if all(np.isfinite(array).all() for array in found.values()) and _are_definite(covariances):
            self.model = model.with_parameters(found)
            self.means, self.covariances = means, covariances


def gradient(model, means, factors, statistics) -> dict[str, np.ndarray]:
    """The derivatives of a sequence's log-likelihood by logits, means and factors."""
    steps = statistics["transitions"]
    moments = statistics["moments"]
    shifts = moments.mean - means
    precisions = np.linalg.inv(factors @ factors.transpose(0, 2, 1))
    mass = moments.mass[:, None]
    outer = shifts[:, :, None] * shifts[:, None, :]
    excess = precisions @ (moments.scatter + mass[:, :, None] * outer) @ precisions
    by_factor = np.tril((excess - mass[:, :, None] * precisions) @ factors)
    diagonals = np.einsum("kii->ki", by_factor) * np.einsum("kii->ki", factors)
    np.einsum("kii->ki", by_factor)[:] = 0.0
    totals = np.where(model.absorbing, 0.0, steps.sum(axis=1))[:, None]
    return {
        "start": statistics["start"] - model.startprob,
        "transitions": np.where(model.absorbing[:, None], 0.0, steps - totals * model.transmat),
        "means": np.einsum("kij,kj->ki", precisions, mass * shifts),
        "factors": by_factor,
        "log_diagonals": diagonals,
    }


def _moved(probabilities, by):
    """The probabilities whose logits are ``by`` larger; a zero stays one."""
    scaled = probabilities * np.exp(by - by.max(axis=-1, keepdims=True))
    return scaled / scaled.sum(axis=-1, keepdims=True)


def _are_definite(covariances):
    """Whether there are factors, and densities that are no overflow."""
    spread = np.linalg.eigvalsh(covariances)
    return bool((spread[:, 0] > 1e-8 * spread[:, -1]).all() and (spread[:, 0] > 1e-12).all())
