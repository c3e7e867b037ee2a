"""M-steps of hidden Markov models with priors: the maximum of ``Q`` plus the prior's logarithm.

They are the updates of hmmlearn, iteration by iteration. Its statistics are sums of squares about
zero; here they follow from mass, mean and scatter about the mean, so that nothing cancels for data
far from the origin. All statistics are totals over the data, because a prior counts as so many
observations. What has no observations keeps its old value. ``settings`` have the priors as
attributes, with the names that users know.

Kernels take the same steps, many at a time (``kernels/hmm/priors.py``); functions that end in
``_prior`` make what they know of the settings. They raise ``ValueError`` where the M-steps would.
"""

from __future__ import annotations

import numpy as np

from ..exceptions import CovarianceWarning
from ..families import Gaussian
from ..kernels.hmm.priors import (
    LEAST_VARIANCE,
    ROUNDING,
    CountPrior,
    GaussianPrior,
    MixturePrior,
)
from ..notices import warn

__all__ = ["dirichlet_mode", "finite_priors", "gaussian_covariances", "gaussian_means",
           "gaussian_prior", "mixture_covariances", "mixture_means", "mixture_prior",
           "poisson_prior", "poisson_rates", "shaped_prior", "table_prior"]  # fmt: skip

_FULL = Gaussian("full", 0.0)


# Probabilities ---------------------------------------------------------------------------------


def dirichlet_mode(counts, prior, old, *, keep_zeros=True):
    """Rows ``∝ max(counts + prior - 1, 0)``.

    With ``keep_zeros`` what is impossible stays so. A row of which nothing was seen stays as it is.
    """
    rows = np.maximum(counts + (np.asarray(prior, dtype=float) - 1.0), 0.0)
    if keep_zeros:
        rows = np.where(old == 0, 0.0, rows)
    total = rows.sum(axis=-1, keepdims=True)
    rows = rows / np.where(total > 0, total, 1.0)
    # The second time takes off what rounding left of the sum.
    return np.where(total > 0, rows / np.where(total > 0, rows.sum(-1, keepdims=True), 1.0), old)


# Counts ----------------------------------------------------------------------------------------


def poisson_rates(settings, mass, sums, old):
    """``(α + n ȳ_k) / (β + n)`` with ``ȳ_k`` the mean of state k, and ``n`` the steps of all.

    The conjugate update would have the steps of state k in place of ``n``; this is hmmlearn's.
    """
    n_steps = mass.sum()
    seen = mass > 0
    means = sums / np.where(seen, mass, 1.0)[:, None]
    alpha = _for_each_state(settings, "lambdas_prior", sums.shape)
    beta = _for_each_state(settings, "lambdas_weight", sums.shape)
    return np.where(seen[:, None], (alpha + n_steps * means) / (beta + n_steps), old)


def poisson_prior(settings, shape):
    """The prior of :func:`poisson_rates`, for kernels."""
    alphas = _for_each_state(settings, "lambdas_prior", shape)
    betas = _for_each_state(settings, "lambdas_weight", shape)
    return CountPrior(*finite_priors(alphas, betas))


def table_prior(prior):
    """The prior of :func:`dirichlet_mode` of rows of a table, for kernels."""
    return CountPrior(*finite_priors(prior - 1.0, np.zeros((1, 1))))


# Gaussians -------------------------------------------------------------------------------------


def gaussian_means(settings, moments, old):
    """``(λ μ + Σ γ x) / (λ + Σ γ)``."""
    prior = _for_each_state(settings, "means_prior", old.shape)
    weight = _for_each_state(settings, "means_weight", old.shape)
    return _means(prior, weight, moments, old)


def gaussian_covariances(settings, moments, means, old):
    """``(Ψ + λ(m-μ)(m-μ)ᵀ + Σ γ (x-m)(x-m)ᵀ) / (ν + Σ γ)`` with ``m`` the new means."""
    n_states, n_columns = means.shape
    roundings = _roundings(means, moments.mean)
    kind, old = settings.covariance_type, old["covariances"]
    mass, scatter = moments.mass, moments.scatter
    from_prior = means - _for_each_state(settings, "means_prior", means.shape)
    shift = moments.mean - means
    weight = np.asarray(settings.covars_weight, dtype=float)
    if kind in ("diag", "spherical"):
        pull = _for_each_state(settings, "means_weight", means.shape)
        prior = _for_each_state(settings, "covars_prior", means.shape)
        about = pull * from_prior**2 + mass[:, None] * shift**2
        divisor = np.maximum(np.maximum(weight - 1.0, 0.0) + mass, 1e-5)
        if kind == "diag":
            new = (prior + about + scatter) / divisor[:, None]
        else:
            new = (prior.mean(axis=1) + (about.sum(axis=1) + scatter) / n_columns) / divisor
            roundings = roundings.mean(axis=1)
        return _kept_or_new(settings, mass > 0, new, old, roundings)
    prior = _for_each_state(settings, "covars_prior", old.shape)
    about = _outer(_number_for_each_state(settings, "means_weight", n_states), from_prior)
    about = about + _outer(mass, shift)
    divisor = np.maximum(weight - n_columns, 0.0)
    if kind == "tied":
        new = (prior + about.sum(axis=0) + scatter) / (divisor + mass.sum())
        roundings = roundings.max(axis=0)
        return _kept_or_new(settings, np.array([True]), new[None], old[None], roundings[None])[0]
    divisor = np.where(mass > 0, divisor + mass, 1.0)[:, None, None]
    return _kept_or_new(settings, mass > 0, (prior + about + scatter) / divisor, old, roundings)


def gaussian_prior(settings, n_columns, shape):
    """The priors of both, for kernels; ``shape`` is that of the covariances."""
    kind, n_states = settings.covariance_type, settings.n_states
    means = _for_each_state(settings, "means_prior", (n_states, n_columns))
    pulls = _for_each_state(settings, "means_weight", (n_states, n_columns))
    if kind in ("diag", "spherical"):
        scatter = _for_each_state(settings, "covars_prior", (n_states, n_columns))
        n_free = 1.0
    else:
        _number_for_each_state(settings, "means_weight", n_states)
        scatter = _symmetric(_for_each_state(settings, "covars_prior", shape))
        n_free = n_columns
    weight = np.asarray(settings.covars_weight, dtype=float)
    strengths = np.maximum(weight - n_free, 0.0)
    strengths = np.broadcast_to(strengths, () if kind == "tied" else (n_states,)).reshape(-1)
    return GaussianPrior(*finite_priors(means, pulls, scatter, strengths))


# Mixtures of Gaussians -------------------------------------------------------------------------


def mixture_means(settings, moments, old):
    """``(λ μ + Σ γ x) / (λ + Σ γ)`` for each component of each state."""
    prior = shaped_prior(settings, "means_prior", old.shape)
    weight = shaped_prior(settings, "means_weight", old.shape[:2])[:, :, None]
    return _means(prior, weight, moments, old)


def mixture_covariances(settings, moments, means, old):
    """The covariances about the means before the step, which maximize ``Q`` in turn with these."""
    n_states, n_mix, n_columns = means.shape
    kind, old_means, old = settings.covariance_type, old["means"], old["covariances"]
    mass = moments.mass.reshape(n_states, n_mix)
    pull = shaped_prior(settings, "means_weight", mass.shape)
    from_prior = means - shaped_prior(settings, "means_prior", means.shape)
    shift = moments.mean.reshape(means.shape) - old_means
    scatter = moments.scatter.reshape(n_states, n_mix, *moments.scatter.shape[1:])
    prior, weight = _mixture_covariance_priors(settings, n_mix, n_columns)
    roundings = _roundings(means, old_means)
    if kind == "diag":
        new = pull[:, :, None] * from_prior**2 + 2 * weight + scatter + mass[:, :, None] * shift**2
        divisor = mass[:, :, None] + 1 + 2 * (np.broadcast_to(prior, means.shape) + 1)
    elif kind == "spherical":
        squares = pull * np.square(from_prior).sum(axis=2) + mass * np.square(shift).sum(axis=2)
        new = squares + 2 * weight + scatter
        divisor = n_columns * (mass + 1) + 2 * (np.broadcast_to(prior, mass.shape) + 1)
        roundings = roundings.mean(axis=2)
    else:
        about = _outer(pull, from_prior) + _outer(mass, shift) + scatter
        prior = np.swapaxes(np.broadcast_to(prior, old.shape), -1, -2)
        n_each = 1
        if kind == "tied":
            about, mass, n_each = about.sum(axis=1), mass.sum(axis=1), n_mix
            roundings = roundings.max(axis=1)
        new = prior + about
        divisor = (mass + n_each + weight + n_columns + 1)[..., None, None]
    usable = divisor > 0
    new = np.where(usable, new / np.where(usable, divisor, 1.0), old)
    return _kept_or_new(settings, mass > 0, new, old, roundings)


def mixture_prior(settings, n_columns, shape):
    """The priors of weights, means and covariances, for kernels."""
    parts, n_mix, kind = settings.parts, settings.n_mix, settings.covariance_type
    columns = (*parts, n_columns)
    weights = shaped_prior(settings, "weights_prior", parts) - 1.0
    means = shaped_prior(settings, "means_prior", columns)
    pulls = shaped_prior(settings, "means_weight", parts)
    prior, weight = _mixture_covariance_priors(settings, n_mix, n_columns)
    if kind == "diag":
        scatter = np.broadcast_to(2 * np.asarray(weight), columns)
        strengths = 1 + 2 * (np.broadcast_to(prior, columns) + 1)
    elif kind == "spherical":
        scatter = np.broadcast_to(2 * np.asarray(weight), parts)[..., None]
        strengths = (n_columns + 2 * (np.broadcast_to(prior, parts) + 1))[..., None]
    else:
        scatter = _symmetric(np.broadcast_to(prior, shape))
        n_each, strengths = 1, np.asarray(weight)
        if kind == "tied":
            # Kernels have the matrix of a state with each of its members.
            n_each, strengths = n_mix, np.broadcast_to(strengths, parts[:1])[:, None]
            scatter = np.repeat(scatter[:, None], n_mix, axis=1)
        strengths = np.broadcast_to(n_each + strengths + n_columns + 1, parts)[..., None]
    means, scatter, strengths = (
        array.reshape(-1, *array.shape[2:]) for array in (means, scatter, strengths)
    )
    return MixturePrior(*finite_priors(weights, means, pulls.reshape(-1), scatter, strengths))


# Parts -----------------------------------------------------------------------------------------


def finite_priors(*arrays):
    """Arrays that kernels can take; ``ValueError`` if some number is not finite."""
    if not all(np.isfinite(array).all() for array in arrays):
        raise ValueError("Priors must be finite.")
    return [np.array(array, dtype=float, order="C") for array in arrays]


def _symmetric(matrices):
    return 0.5 * (matrices + np.swapaxes(matrices, -1, -2))


def _mixture_covariance_priors(settings, n_mix, n_columns):
    """The settings ``covars_prior`` and ``covars_weight``; hmmlearn's where they are None."""
    prior, weight = {
        "full": (0.0, -(n_columns + 2.0)),
        "tied": (0.0, -(n_mix + n_columns + 1.0)),
        "diag": (-1.5, 0.0),
        "spherical": (-(n_mix + 2.0) / 2.0, 0.0),
    }[settings.covariance_type]
    if settings.covars_prior is not None:
        prior = np.asarray(settings.covars_prior, dtype=float)
    if settings.covars_weight is not None:
        weight = np.asarray(settings.covars_weight, dtype=float)
    return prior, weight


def _outer(weights, vectors):
    return weights[..., None, None] * vectors[..., :, None] * vectors[..., None, :]


def _means(prior, weight, moments, old):
    mass = moments.mass.reshape(old.shape[:-1])[..., None]
    total = weight + mass
    seen = total > 0
    means = (weight * prior + mass * moments.mean.reshape(old.shape)) / np.where(seen, total, 1.0)
    return np.where(seen, means, old)


def shaped_prior(settings, name, shape):
    """The setting ``name``, a number or an array, in the shape of the parameter."""
    prior = np.asarray(getattr(settings, name), dtype=float)
    try:
        return np.broadcast_to(prior, shape)
    except ValueError:
        raise ValueError(
            f"{name} must be a number, or have the shape {shape}; got {prior.shape}."
        ) from None


def _for_each_state(settings, name, shape):
    """As :func:`shaped_prior`; an array may also have one number for each state."""
    value = np.asarray(getattr(settings, name), dtype=float)
    for candidate in (value, value.reshape(-1, *(1,) * (len(shape) - 1))):
        try:
            return np.broadcast_to(candidate, shape)
        except ValueError:
            continue
    raise ValueError(
        f"{name} has the shape {value.shape}; it must be a number, or an array of the shape {shape}"
        f" or ({shape[0]},)."
    )


def _number_for_each_state(settings, name, n_states):
    value = np.asarray(getattr(settings, name), dtype=float)
    if value.shape not in ((), (n_states,), (n_states, 1)):
        raise ValueError(
            f"{name} has the shape {value.shape}; with full or tied covariances it must be a "
            f"number, or an array of the shape ({n_states},)."
        )
    return np.broadcast_to(value.reshape(-1), (n_states,))


def _roundings(means, others):
    """The largest variances that may be nothing but rounding, of such means."""
    size = np.maximum(np.abs(means), np.abs(others))
    return np.maximum(ROUNDING * size * size, LEAST_VARIANCE)


def _kept_or_new(settings, seen, new, old, roundings):
    """The new covariances of those that were seen, made positive definite; the old of others.

    Variances up to ``roundings`` count as zero.
    """
    floor = settings.min_covar
    if settings.covariance_type in ("diag", "spherical"):
        seen = seen.reshape(seen.shape + (1,) * (new.ndim - seen.ndim))
        wrong = seen & ~(new > roundings)
        new = np.where(wrong, floor, new)
        failed = wrong.any() and not floor > 0
    else:
        # Products are symmetric only up to rounding.
        new = 0.5 * (new + np.swapaxes(new, -1, -2))
        wrong, failed = np.zeros(seen.shape, bool), False
        for at in zip(*np.nonzero(seen), strict=True):
            is_spread = (np.diagonal(new[at]) > roundings[at]).all()
            if not (is_spread and _is_positive_definite(new[at])):
                wrong[at] = True
                # Beside huge variances a small floor would be lost to rounding.
                least = max(floor, 1e-10 * floor * np.trace(new[at]) / new.shape[-1])
                new[at] += least * np.eye(new.shape[-1])
                failed |= not _is_positive_definite(new[at])
        seen = seen[..., None, None]
    if failed:
        raise ValueError(
            "The covariance of some state is not positive definite: too few rows are left to it, "
            "or columns depend on one another. Use fewer states, another covariance_type, a larger "
            "covars_prior or min_covar."
        )
    if wrong.any():
        count = int(wrong.sum())
        warn(
            f"{count} {'covariance is' if count == 1 else 'covariances are'} not positive "
            "definite, for want of rows or because columns depend on one another; "
            f"min_covar = {floor} was added to the variances.",
            CovarianceWarning,
        )
    return np.where(seen, new, old)


def _is_positive_definite(matrix):
    # By the family's own test: another, rounded otherwise, lets through what the model refuses.
    try:
        _FULL.pack({"means": np.zeros((1, len(matrix))), "covariances": matrix[None]})
    except ValueError:
        return False
    return True
