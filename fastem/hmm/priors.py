"""M-steps of hidden Markov models with priors: the maximum of ``Q`` plus the prior's logarithm.

They are the updates of hmmlearn, iteration by iteration. Its statistics are sums of squares about
zero; here they follow from mass, mean and scatter about the mean, so that nothing cancels for data
far from the origin. All statistics are totals over the data, because a prior counts as so many
observations. What no observation speaks of keeps its old value.
"""

from __future__ import annotations

import numpy as np

from ..notices import warn

__all__ = [
    "dirichlet_mode",
    "gaussian_covariances",
    "gaussian_means",
    "mixture_covariance_priors",
    "mixture_covariances",
    "mixture_means",
    "mixture_weights",
    "poisson_rates",
    "shaped_prior",
]


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


def shaped_prior(name, prior, shape):
    """A Dirichlet prior in the shape of the probabilities."""
    prior = np.asarray(prior, dtype=float)
    try:
        return np.broadcast_to(prior, shape)
    except ValueError:
        raise ValueError(
            f"{name} must be a number, or have the shape {shape}; got {prior.shape}."
        ) from None


# Counts ----------------------------------------------------------------------------------------


def poisson_rates(mass, sums, alpha, beta, old):
    """``(α + n ȳ_k) / (β + n)`` with ``ȳ_k`` the mean of state k, and ``n`` the steps of all.

    The conjugate update would have the steps of state k in place of ``n``; this is hmmlearn's.
    """
    n_steps = mass.sum()
    seen = mass > 0
    means = sums / np.where(seen, mass, 1.0)[:, None]
    alpha = _for_each_state(alpha, sums.shape, "lambdas_prior")
    beta = _for_each_state(beta, sums.shape, "lambdas_weight")
    return np.where(seen[:, None], (alpha + n_steps * means) / (beta + n_steps), old)


# Gaussians -------------------------------------------------------------------------------------


def gaussian_means(moments, prior, weight, old):
    """``(λ μ + Σ γ x) / (λ + Σ γ)``."""
    mass = moments.mass[:, None]
    prior = _for_each_state(prior, old.shape, "means_prior")
    weight = _for_each_state(weight, old.shape, "means_weight")
    total = weight + mass
    seen = total > 0
    means = (weight * prior + mass * moments.mean) / np.where(seen, total, 1.0)
    return np.where(seen, means, old)


def gaussian_covariances(
    moments, means, kind, means_prior, means_weight, prior, weight, old, floor
):  # fmt: skip
    """``(Ψ + λ(m-μ)(m-μ)ᵀ + Σ γ (x-m)(x-m)ᵀ) / (ν + Σ γ)`` with ``m`` the new means."""
    n_states, n_columns = means.shape
    mass = moments.mass
    from_prior = means - _for_each_state(means_prior, means.shape, "means_prior")
    shift = moments.mean - means
    weight = np.asarray(weight, dtype=float)
    if kind in ("diag", "spherical"):
        pull = _for_each_state(means_weight, means.shape, "means_weight")
        prior = _for_each_state(prior, means.shape, "covars_prior")
        divisor = np.maximum(np.maximum(weight - 1.0, 0.0) + mass, 1e-5)
        about = pull * from_prior**2 + mass[:, None] * shift**2
        if kind == "spherical":
            total = prior.mean(axis=1) + (about.sum(axis=1) + moments.scatter) / n_columns
            return _kept(mass > 0, _positive(total / divisor, floor, kind), old)
        new = (prior + about + moments.scatter) / divisor[:, None]
        return _kept(mass > 0, _positive(new, floor, kind), old)
    pull = _one_for_each_state(means_weight, n_states, "means_weight")
    divisor = np.maximum(weight - n_columns, 0.0) + (mass if kind == "full" else mass.sum())
    about = _outer(pull, from_prior) + _outer(mass, shift)
    if kind == "tied":
        prior = _for_each_state(prior, (n_columns, n_columns), "covars_prior")
        new = (prior + about.sum(axis=0) + moments.scatter) / divisor
        return _positive(new[None], floor, kind)[0]
    prior = _for_each_state(prior, (n_states, n_columns, n_columns), "covars_prior")
    seen = mass > 0
    new = (prior + about + moments.scatter) / np.where(seen, divisor, 1.0)[:, None, None]
    return _kept(seen, _positive(new, floor, kind, seen), old)


# Mixtures of Gaussians -------------------------------------------------------------------------


def mixture_weights(counts, prior, old):
    """``(Σ γ + α - 1) / Σ_m (Σ γ + α - 1)`` within each state."""
    prior = np.broadcast_to(np.asarray(prior, dtype=float), counts.shape)
    return dirichlet_mode(counts, prior, old, keep_zeros=False)


def mixture_means(moments, prior, weight, old):
    """``(λ μ + Σ γ x) / (λ + Σ γ)`` for each component of each state."""
    mass = moments.mass.reshape(old.shape[:2])
    prior = np.broadcast_to(np.asarray(prior, dtype=float), old.shape)
    weight = np.broadcast_to(np.asarray(weight, dtype=float), mass.shape)
    total = (weight + mass)[:, :, None]
    seen = total > 0
    sums = weight[:, :, None] * prior + mass[:, :, None] * moments.mean.reshape(old.shape)
    return np.where(seen, sums / np.where(seen, total, 1.0), old)


def mixture_covariance_priors(kind, prior, weight, n_mix, n_columns):
    """``covars_prior`` and ``covars_weight``, or hmmlearn's in place of None."""
    priors = {"full": 0.0, "tied": 0.0, "diag": -1.5, "spherical": -(n_mix + 2.0) / 2.0}
    weights = {
        "full": -(n_columns + 2.0), "tied": -(n_mix + n_columns + 1.0), "diag": 0.0,
        "spherical": 0.0,
    }  # fmt: skip
    prior = priors[kind] if prior is None else np.asarray(prior, dtype=float)
    return prior, weights[kind] if weight is None else np.asarray(weight, dtype=float)


def mixture_covariances(
    moments, means, old_means, kind, means_prior, means_weight, prior, weight, old, floor
):  # fmt: skip
    """The covariances about the means before the step, which maximize ``Q`` in turn with these."""
    n_states, n_mix, n_columns = means.shape
    mass = moments.mass.reshape(n_states, n_mix)
    pull = np.broadcast_to(np.asarray(means_weight, dtype=float), mass.shape)
    from_prior = means - np.broadcast_to(np.asarray(means_prior, dtype=float), means.shape)
    shift = moments.mean.reshape(means.shape) - old_means
    prior, weight = mixture_covariance_priors(kind, prior, weight, n_mix, n_columns)
    scatter = moments.scatter.reshape(n_states, n_mix, *moments.scatter.shape[1:])
    if kind == "diag":
        new = pull[:, :, None] * from_prior**2 + 2 * weight + scatter + mass[:, :, None] * shift**2
        divisor = mass[:, :, None] + 1 + 2 * (np.broadcast_to(prior, means.shape) + 1)
    elif kind == "spherical":
        squares = pull * np.square(from_prior).sum(axis=2) + mass * np.square(shift).sum(axis=2)
        new = squares + 2 * weight + scatter
        divisor = n_columns * (mass + 1) + 2 * (np.broadcast_to(prior, mass.shape) + 1)
    else:
        about = _outer(pull, from_prior) + _outer(mass, shift) + scatter
        prior = np.swapaxes(np.broadcast_to(prior, old.shape), -1, -2)
        if kind == "full":
            new = prior + about
            divisor = (mass + 1 + weight + n_columns + 1)[:, :, None, None]
        else:
            new = prior + about.sum(axis=1)
            divisor = (mass.sum(axis=1) + n_mix + weight + n_columns + 1)[:, None, None]
    seen = divisor > 0
    new = np.where(seen, new / np.where(seen, divisor, 1.0), old)
    mine = mass.sum(axis=1) if kind == "tied" else mass
    return _kept(mine > 0, _positive(new, floor, kind, mine > 0), old)


# Parts -----------------------------------------------------------------------------------------


def _outer(weights, vectors):
    return weights[..., None, None] * vectors[..., :, None] * vectors[..., None, :]


def _kept(seen, new, old):
    """``new`` where something was seen, and else ``old``."""
    seen = seen.reshape(seen.shape + (1,) * (new.ndim - seen.ndim))
    return np.where(seen, new, old)


def _for_each_state(value, shape, name):
    """A prior's number or array in the shape of what it is a prior of."""
    value = np.asarray(value, dtype=float)
    for candidate in (value, value.reshape(-1, *(1,) * (len(shape) - 1))):
        try:
            return np.broadcast_to(candidate, shape)
        except ValueError:
            continue
    raise ValueError(
        f"{name} has the shape {value.shape}; it must be a number, or an array of the shape {shape}"
        f" or ({shape[0]},)."
    )


def _one_for_each_state(value, n_states, name):
    value = np.asarray(value, dtype=float)
    if value.shape == (n_states, 1):
        value = value[:, 0]
    if value.shape not in ((), (n_states,)):
        raise ValueError(
            f"{name} has the shape {value.shape}; with full or tied covariances it must be a "
            f"number, or an array of the shape ({n_states},)."
        )
    return np.broadcast_to(value, (n_states,))


def _positive(covariances, floor, kind, seen=None):
    """The covariances, those that are none mended by ``floor`` on the diagonal."""
    if kind in ("diag", "spherical"):
        wrong = ~(covariances > 0)
        if seen is not None:
            wrong &= seen.reshape(seen.shape + (1,) * (wrong.ndim - seen.ndim))
        if not wrong.any():
            return covariances
        mended = np.where(wrong, floor, covariances)
        failed = not floor > 0
    else:
        mended, failed, wrong = covariances.copy(), False, np.zeros(covariances.shape[:-2], bool)
        identity = np.eye(covariances.shape[-1])
        for at in np.ndindex(wrong.shape):
            if seen is not None and not seen[at]:
                continue
            # Products are symmetric to rounding only.
            mended[at] = 0.5 * (covariances[at] + covariances[at].T)
            if not _is_positive_definite(mended[at]):
                wrong[at] = True
                # Beside huge variances a small floor would be lost to rounding.
                least = max(floor, 1e-10 * floor * np.trace(mended[at]) / len(identity))
                mended[at] = mended[at] + least * identity
                failed |= not _is_positive_definite(mended[at])
    if failed:
        raise ValueError(
            "The covariance of some state is not positive definite: too few rows are left to it, "
            "or columns depend on one another. Use fewer states, another covariance_type, a larger "
            "covars_prior or min_covar."
        )
    if wrong.any():
        warn(
            f"{int(wrong.sum())} covariances are not positive definite, for want of rows or "
            f"because columns depend on one another; min_covar = {floor} was added to the "
            "variances.",
            RuntimeWarning,
        )
    return mended


def _is_positive_definite(matrix):
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True
