"""A family whose every component is itself a mixture of M members of another family.

``p(x|k) = Σ_m w_km p(x|θ_km)``; the members of all components are one family of K·M, those of a
component side by side. The member is hidden too: its posterior given the component shares out the
responsibility of the component. What is held fixed is told by a pair: whether the weights are, and
what the members take.
"""

from collections import namedtuple

import numpy as np

from ..options import implements, inlined, kernel
from . import base

#: weights (K, M) and their logarithms; members, the packed family of K·M.
MixtureOf = namedtuple("MixtureOf", "weights logarithms members")

#: The same with members that share a parameter within a component (``share``).
SharingMixtureOf = namedtuple("SharingMixtureOf", MixtureOf._fields)

#: counts (K, M), Σ γ_km; members, the statistics of the members.
MixtureOfSums = namedtuple("MixtureOfSums", "counts members")


@kernel
def _log_total(logs, first, n, i):
    """``log Σ_m exp logs[first + m, i]``."""
    top = -np.inf
    for m in range(n):
        top = max(top, logs[first + m, i])
    if top == -np.inf:
        return top
    total = 0.0
    for m in range(n):
        total += np.exp(logs[first + m, i] - top)
    return top + np.log(total)


@kernel
def _fill(logarithms, logs):
    """Start the log-densities of the members from the logarithms of their weights."""
    n_components, n_members = logarithms.shape
    for k in range(n_components):
        for m in range(n_members):
            for i in range(logs.shape[1]):
                logs[k * n_members + m, i] = logarithms[k, m]


@kernel
def _share_out(logs, n_members, n, gamma, counts):
    """Turn the members' log-densities into γ_km, given γ_k; add them to ``counts``."""
    for k in range(counts.shape[0]):
        first = k * n_members
        for i in range(logs.shape[1]):
            g = gamma[k, i] if i < n else 0.0
            total = _log_total(logs, first, n_members, i) if g > 0.0 else 0.0
            for m in range(n_members):
                count = g * np.exp(logs[first + m, i] - total) if g > 0.0 else 0.0
                logs[first + m, i] = count
                counts[k, m] += count


@implements(base.columns_of, SharingMixtureOf)
@implements(base.columns_of, MixtureOf)
def _columns_of(family):
    return base.columns_of(family.members)


@implements(base.block_rows, SharingMixtureOf)
@implements(base.block_rows, MixtureOf)
def _block_rows(family):
    return base.block_rows(family.members)


@implements(base.log_density, SharingMixtureOf)
@implements(base.log_density, MixtureOf)
def _log_density(family, block, width, n, log_p, work):
    n_components, n_members = family.weights.shape
    logs = np.empty((n_components * n_members, width))
    _fill(family.logarithms, logs)
    base.log_density(family.members, block, width, n, logs, work)
    for k in range(n_components):
        for i in range(n):
            log_p[k, i] += _log_total(logs, k * n_members, n_members, i)


@implements(base.accumulate, SharingMixtureOf)
@implements(base.accumulate, MixtureOf)
def _accumulate(family, block, width, n, gamma, sums, work):
    n_components, n_members = family.weights.shape
    logs = np.empty((n_components * n_members, width))
    _fill(family.logarithms, logs)
    base.log_density(family.members, block, width, n, logs, work)
    _share_out(logs, n_members, n, gamma, sums.counts)
    base.accumulate(family.members, block, width, n, logs, sums.members, work)


@implements(base.log_marginal, SharingMixtureOf)
@implements(base.log_marginal, MixtureOf)
def _log_marginal(family, x, log_p):
    n_components, n_members = family.weights.shape
    logs = np.empty((n_components * n_members, 1))
    _fill(family.logarithms, logs)
    base.log_marginal(family.members, x, logs.reshape(-1))
    for k in range(n_components):
        log_p[k] += _log_total(logs, k * n_members, n_members, 0)


@implements(base.accumulate_missing, SharingMixtureOf)
@implements(base.accumulate_missing, MixtureOf)
def _accumulate_missing(family, x, gamma, sums):
    n_components, n_members = family.weights.shape
    logs = np.empty((n_components * n_members, 1))
    _fill(family.logarithms, logs)
    base.log_marginal(family.members, x, logs.reshape(-1))
    _share_out(logs, n_members, 1, gamma.reshape((n_components, 1)), sums.counts)
    base.accumulate_missing(family.members, x, logs.reshape(-1), sums.members)


@implements(base.horizon_of, SharingMixtureOf)
@implements(base.horizon_of, MixtureOf)
def _horizon_of(family, total, sums):
    return base.horizon_of(family.members, total, sums.members)


@implements(base.add_own, SharingMixtureOf)
@implements(base.add_own, MixtureOf)
def _add_own(family, mass, sums, horizon):
    n_components, n_members = family.weights.shape
    inner = np.empty(n_components * n_members)
    for k in range(n_components):
        for m in range(n_members):
            count = mass[k] * family.weights[k, m]
            inner[k * n_members + m] = count
            sums.counts[k, m] += count
    base.add_own(family.members, inner, sums.members, horizon)


@inlined
def _maximize_each(family, mass, sums, fixed):
    n_components, n_members = family.weights.shape
    for k in range(n_components):
        total = 0.0
        for m in range(n_members):
            total += sums.counts[k, m]
        if total > 0.0 and mass[k] > 0.0 and not fixed[0][0]:
            for m in range(n_members):
                family.weights[k, m] = sums.counts[k, m] / total
    return base.maximize(family.members, sums.counts.reshape(-1), sums.members, fixed[1])


@implements(base.maximize, MixtureOf)
def _maximize(family, mass, sums, fixed):
    return _maximize_each(family, mass, sums, fixed)


@implements(base.maximize, SharingMixtureOf)
def _sharing_maximize(family, mass, sums, fixed):
    done = _maximize_each(family, mass, sums, fixed)
    base.share(family.members, sums.counts, mass, fixed[1])
    return done


@implements(base.refresh, SharingMixtureOf)
@implements(base.refresh, MixtureOf)
def _refresh(family):
    n_components, n_members = family.weights.shape
    for k in range(n_components):
        for m in range(n_members):
            family.logarithms[k, m] = np.log(family.weights[k, m])
    return base.refresh(family.members)
