"""M-steps of batch EM in kernels, with the priors of hmmlearn's models or without.

The formulas are those of ``fastem/hmm/priors.py``. Statistics are totals over the data. A step
that needs a word to the user, for instance because a covariance is not positive definite, is not
taken: False is returned, and parameters may have changed by then.
"""

from collections import namedtuple

import numpy as np

from ..cholesky import EPSILON
from ..families.base import maximize
from ..families.categorical import Categorical
from ..families.gaussian_diagonal import implements_both
from ..families.gaussian_full import FullGaussian, padded
from ..families.gaussian_tied import TiedGaussian, fold_overlap
from ..families.linear import MULTINOMIAL, Linear
from ..families.mixture_of import MixtureOf, SharingMixtureOf
from ..mixture.online import LEAST_SHARE
from ..options import implements, inlined, kernel
from .online import update_chain

#: No prior: ``M(S)`` itself. told_dead (K,), the states whose death the user was told of; revived,
#: the share of the mass from which such a state counts as alive.
NoPrior = namedtuple("NoPrior", "told_dead revived")

#: Dirichlet priors of the start (K,) and of the rows of the transition matrix (K, K), less one; the
#: emissions have none, and ``emissions`` is a ``NoPrior``.
ChainPrior = namedtuple("ChainPrior", "start transitions emissions")

#: The same with one of the priors of emissions below.
AllPriors = namedtuple("AllPriors", "start transitions emissions")

#: Priors of Gaussians: of the means, (K, D), which weigh ``pulls`` (K, D); and of the covariances,
#: a scatter in their shape ((K, D) for spherical ones) and what is added to the mass, (K,).
GaussianPrior = namedtuple("GaussianPrior", "means pulls scatter strengths")

#: Priors of mixtures of Gaussians: of the weights (K, M), less one; of the means of all K·M
#: members, (K·M, D), which weigh ``pulls`` (K·M,); of their covariances, a scatter, (K·M, D), one
#: column if they are spherical, or (K·M, D, D), and what is added to the mass, (K·M, D) or one
#: column.
MixturePrior = namedtuple("MixturePrior", "weights means pulls scatter strengths")

#: Priors of rates, gamma, ``alphas`` and ``betas`` (K, D); or Dirichlet ones of the rows of a table
#: of probabilities, ``alphas`` (K, C), less one.
CountPrior = namedtuple("CountPrior", "alphas betas")


# The whole step ----------------------------------------------------------------------------------


def take_step(prior, family, start, transitions, mass, statistics, absorbing, startprob, transmat,
              fixed_start, fixed_transmat, fixed):  # fmt: skip
    """Set the parameters to their maximum, in place; False if the step is not to be taken."""


def maximize_given(family, prior, mass, statistics, fixed):
    """The same for the emissions, with a prior."""


@implements(take_step, NoPrior)
def _plain_step(prior, family, start, transitions, mass, statistics, absorbing, startprob, transmat,
                fixed_start, fixed_transmat, fixed):  # fmt: skip
    update_chain(
        start, transitions, absorbing, fixed_start, fixed_transmat, startprob, transmat
    )  # fmt: skip
    return _maximize_plain(family, prior, mass, statistics, fixed)


@implements(take_step, ChainPrior)
def _step_with_chain_prior(prior, family, start, transitions, mass, statistics, absorbing,
                           startprob, transmat, fixed_start, fixed_transmat, fixed):  # fmt: skip
    _set_chain(prior, start, transitions, startprob, transmat, fixed_start, fixed_transmat)
    return _maximize_plain(family, prior.emissions, mass, statistics, fixed)


@implements(take_step, AllPriors)
def _step_with_priors(prior, family, start, transitions, mass, statistics, absorbing, startprob,
                      transmat, fixed_start, fixed_transmat, fixed):  # fmt: skip
    _set_chain(prior, start, transitions, startprob, transmat, fixed_start, fixed_transmat)
    return maximize_given(family, prior.emissions, mass, statistics, fixed)


@kernel
def _set_chain(prior, start, transitions, startprob, transmat, fixed_start, fixed_transmat):
    if not fixed_start:
        dirichlet_mode(start, prior.start, startprob, True)
    if not fixed_transmat:
        for i in range(startprob.shape[0]):
            dirichlet_mode(transitions[i], prior.transitions[i], transmat[i], True)


@kernel
def _maximize_plain(family, prior, mass, statistics, fixed):
    n_states = mass.shape[0]
    everything = mass.sum()
    alive = np.empty(n_states)
    for k in range(n_states):
        is_dead = mass[k] < LEAST_SHARE * everything
        # The user is told of a state that dies, and after it has come back again.
        if prior.told_dead[k] and mass[k] >= prior.revived * everything:
            return False
        if is_dead and not prior.told_dead[k]:
            return False
        alive[k] = 0.0 if is_dead else mass[k]
    return maximize(family, alive, statistics, fixed)


# Probabilities -----------------------------------------------------------------------------------


@kernel
def dirichlet_mode(counts, prior, row, keep_zeros):
    """``row ∝ max(counts + prior, 0)``, the prior less one; unchanged if nothing was seen of it.

    With ``keep_zeros`` what is impossible stays so.
    """
    n = row.shape[0]
    total = 0.0
    for j in range(n):
        if row[j] > 0.0 or not keep_zeros:
            total += max(counts[j] + prior[j], 0.0)
    if not total > 0.0:
        return
    for j in range(n):
        if row[j] > 0.0 or not keep_zeros:
            row[j] = max(counts[j] + prior[j], 0.0) / total
    # The second time takes off what rounding left of the sum.
    again = 0.0
    for j in range(n):
        again += row[j]
    for j in range(n):
        row[j] /= again


@implements(maximize_given, Categorical)
def _categorical(family, prior, mass, sums, fixed):
    if not fixed[0]:
        for k in range(mass.shape[0]):
            dirichlet_mode(sums.counts[k, 0], prior.alphas[k], family.probabilities[k, 0], False)
    return True


@implements(maximize_given, Linear)
def _linear(family, prior, mass, sums, fixed):
    n_states, n_columns = family.parameters.shape
    if fixed[0]:
        return True
    n_steps = mass.sum()
    for k in range(n_states):
        if family.kind == MULTINOMIAL:
            dirichlet_mode(sums.first[k], prior.alphas[k], family.parameters[k], False)
        elif mass[k] > 0.0:
            for c in range(n_columns):
                mean = sums.first[k, c] / mass[k]
                rate = (prior.alphas[k, c] + n_steps * mean) / (prior.betas[k, c] + n_steps)
                if not 0.0 <= rate < np.inf:
                    return False
                family.parameters[k, c] = rate
    return True


# Gaussians ---------------------------------------------------------------------------------------

#: A variance up to this part of the square of the mean is that of rounding: of a column that is
#: constant it would be zero or not by chance. The spacing of doubles is the fourth of its root.
ROUNDING = (8.0 * EPSILON) ** 2
#: Smaller variances have lost digits, and their inverses are infinite.
LEAST_VARIANCE = np.finfo(np.float64).tiny


@inlined
def largest_rounding(old, new):
    """The largest variance that may be nothing but rounding, with these means, old and new."""
    size = max(abs(old), abs(new))
    return max(ROUNDING * size * size, LEAST_VARIANCE)


@kernel
def _mean(prior, pull, mass, old, shift):
    """The new mean of one column; the data's is ``shift`` away from the old one."""
    seen = pull + mass
    return (pull * prior + mass * (old + shift)) / seen if seen > 0.0 else old


@implements_both(maximize_given)
def _diagonal(family, prior, mass, moments, fixed):
    n_states, n_columns = family.means.shape
    for k in range(n_states):
        divisor = max(prior.strengths[k] + mass[k], 1e-5)
        squares, roundings = 0.0, 0.0
        for c in range(n_columns):
            first, old = moments.first[k, c], family.means[k, c]
            shift = first / mass[k] if mass[k] > 0.0 else 0.0
            pull, center = prior.pulls[k, c], prior.means[k, c]
            new = old if fixed[0] else _mean(center, pull, mass[k], old, shift)
            family.means[k, c] = new
            aside = old + shift - new
            about = pull * (new - center) * (new - center) + mass[k] * aside * aside
            square = prior.scatter[k, c] + about + (moments.second[k, c] - first * shift)
            squares += square
            rounding = largest_rounding(old, new)
            roundings += rounding
            if mass[k] > 0.0 and not fixed[1] and not family.spherical:
                family.variances[k, c] = square / divisor
                if not family.variances[k, c] > rounding:
                    return False
        if mass[k] > 0.0 and not fixed[1] and family.spherical:
            if not squares / divisor > roundings:
                return False
            for c in range(n_columns):
                family.variances[k, c] = squares / n_columns / divisor
    return True


@implements(maximize_given, FullGaussian)
def _full(family, prior, mass, moments, fixed):
    n_states, n_columns = family.means.shape
    size = padded(n_columns)
    aside, roundings = np.empty(n_columns), np.empty(n_columns)
    for k in range(n_states):
        first, second, means = moments.first[k], moments.second[k], family.means[k]
        for c in range(n_columns):
            shift = first[c] / mass[k] if mass[k] > 0.0 else 0.0
            old = means[c]
            if not fixed[0]:
                means[c] = _mean(prior.means[k, c], prior.pulls[k, c], mass[k], old, shift)
            aside[c] = old + shift - means[c]
            roundings[c] = largest_rounding(old, means[c])
        if fixed[1] or not mass[k] > 0.0:
            continue
        divisor = prior.strengths[k] + mass[k]
        for r in range(n_columns):
            pulled = prior.pulls[k, 0] * (means[r] - prior.means[k, r])
            for c in range(r + 1):
                value = prior.scatter[k, r, c] + pulled * (means[c] - prior.means[k, c])
                value += mass[k] * aside[r] * aside[c]
                value += second[r * size + c] - first[r] * first[c] / mass[k]
                family.covariances[k, r, c] = value / divisor
                family.covariances[k, c, r] = value / divisor
            if not family.covariances[k, r, r] > roundings[r]:
                return False
    return True


@implements(maximize_given, TiedGaussian)
def _tied(family, prior, mass, moments, fixed):
    n_states, n_columns = family.means.shape
    size = padded(n_columns)
    fold_overlap(family.means, moments)
    scatter = moments.residual
    aside, roundings = np.empty(n_columns), np.zeros(n_columns)
    for k in range(n_states):
        first, means = moments.first[k], family.means[k]
        for c in range(n_columns):
            shift = first[c] / mass[k] if mass[k] > 0.0 else 0.0
            old = means[c]
            if not fixed[0]:
                means[c] = _mean(prior.means[k, c], prior.pulls[k, c], mass[k], old, shift)
            aside[c] = old + shift - means[c]
            roundings[c] = max(roundings[c], largest_rounding(old, means[c]))
        for r in range(n_columns):
            pulled = prior.pulls[k, 0] * (means[r] - prior.means[k, r])
            for c in range(r + 1):
                value = pulled * (means[c] - prior.means[k, c]) + mass[k] * aside[r] * aside[c]
                if mass[k] > 0.0:
                    value -= first[r] * first[c] / mass[k]
                scatter[r * size + c] += value
    if not fixed[1]:
        divisor = prior.strengths[0] + mass.sum()
        for r in range(n_columns):
            for c in range(r + 1):
                value = (prior.scatter[r, c] + scatter[r * size + c]) / divisor
                family.covariance[r, c] = value
                family.covariance[c, r] = value
            if not family.covariance[r, r] > roundings[r]:
                return False
    return True


# Mixtures of Gaussians ---------------------------------------------------------------------------


def maximize_members(family, prior, mass, n_shared, moments, fixed):
    """``maximize_given`` for the members of mixtures, of the masses ``mass`` (K·M,).

    Covariances are about the means before the step, as the moments are. ``n_shared`` members, one
    after another, share theirs.
    """


@implements(maximize_given, MixtureOf)
def _mixture(family, prior, mass, sums, fixed):
    _set_weights(family, prior, sums, fixed)
    counts = sums.counts.reshape(-1)
    return maximize_members(family.members, prior, counts, 1, sums.members, fixed[1])


@implements(maximize_given, SharingMixtureOf)
def _sharing_mixture(family, prior, mass, sums, fixed):
    _set_weights(family, prior, sums, fixed)
    counts, n_members = sums.counts.reshape(-1), family.weights.shape[1]
    return maximize_members(family.members, prior, counts, n_members, sums.members, fixed[1])


@kernel
def _set_weights(family, prior, sums, fixed):
    if not fixed[0][0]:
        for k in range(family.weights.shape[0]):
            dirichlet_mode(sums.counts[k], prior.weights[k], family.weights[k], False)


@kernel
def _set_member_means(means, prior, mass, first, fixed):
    """The new means of all members; returns for each column what may be rounding."""
    roundings = np.empty(means.shape)
    for j in range(means.shape[0]):
        for c in range(means.shape[1]):
            shift, old = first[j, c] / mass[j] if mass[j] > 0.0 else 0.0, means[j, c]
            if not fixed[0]:
                means[j, c] = _mean(prior.means[j, c], prior.pulls[j], mass[j], old, shift)
            roundings[j, c] = largest_rounding(old, means[j, c])
    return roundings


@implements_both(maximize_members)
def _diagonal_members(family, prior, mass, n_shared, moments, fixed):
    n_members, n_columns = family.means.shape
    roundings = _set_member_means(family.means, prior, mass, moments.first, fixed)
    if fixed[1]:
        return True
    for j in range(n_members):
        if not mass[j] > 0.0:
            continue
        squares = 0.0
        for c in range(n_columns):
            from_prior = family.means[j, c] - prior.means[j, c]
            square = prior.pulls[j] * from_prior * from_prior + moments.second[j, c]
            squares += square
            if not family.spherical:
                divisor = mass[j] + prior.strengths[j, c]
                if divisor > 0.0:
                    family.variances[j, c] = (square + prior.scatter[j, c]) / divisor
                if not family.variances[j, c] > roundings[j, c]:
                    return False
        if family.spherical:
            divisor = n_columns * mass[j] + prior.strengths[j, 0]
            if divisor > 0.0:
                for c in range(n_columns):
                    family.variances[j, c] = (squares + prior.scatter[j, 0]) / divisor
            if not n_columns * family.variances[j, 0] > roundings[j].sum():
                return False
    return True


@implements(maximize_members, FullGaussian)
def _full_members(family, prior, mass, n_shared, moments, fixed):
    n_members, n_columns = family.means.shape
    size = padded(n_columns)
    roundings = _set_member_means(family.means, prior, mass, moments.first, fixed)
    if fixed[1]:
        return True
    for begin in range(0, n_members, n_shared):
        total = 0.0
        for j in range(begin, begin + n_shared):
            total += mass[j]
        divisor = total + prior.strengths[begin, 0]
        if not (total > 0.0 and divisor > 0.0):
            continue
        for r in range(n_columns):
            for c in range(r + 1):
                value = prior.scatter[begin, r, c]
                for j in range(begin, begin + n_shared):
                    from_prior = family.means[j, r] - prior.means[j, r]
                    pulled = prior.pulls[j] * from_prior
                    value += pulled * (family.means[j, c] - prior.means[j, c])
                    value += moments.second[j, r * size + c]
                for j in range(begin, begin + n_shared):
                    family.covariances[j, r, c] = value / divisor
                    family.covariances[j, c, r] = value / divisor
            for j in range(begin, begin + n_shared):
                if not family.covariances[j, r, r] > roundings[j, r]:
                    return False
    return True
