"""Compound Dirichlet components of a mixture: the component and the topic are both hidden.

``log p(v|k)`` is that of the counts, and the statistics of component k are the posterior's times
``E[log h_j | v, k] = ψ(v_j + α_kj) - ψ(n + α_k0)``.
"""

from collections import namedtuple

import numpy as np

from ..dirichlet.newton import digamma_rise, log_rise, maximum, own_statistics
from ..options import implements, inlined
from ..special import digamma
from . import base
from .linear import MULTINOMIAL, add_log_base

#: alphas (K, D).
CompoundDirichlet = namedtuple("CompoundDirichlet", "alphas")

#: log_topics (K, D), Σ γ E[log h | v, k].
LogTopics = namedtuple("LogTopics", "log_topics")


@implements(base.columns_of, CompoundDirichlet)
def _columns_of(family):
    return family.alphas.shape[1]


implements(base.block_rows, CompoundDirichlet)(base.usual_block_rows)


@implements(base.log_density, CompoundDirichlet)
def _log_density(family, block, width, n, log_p, work):
    n_components, n_words = family.alphas.shape
    log_base = np.zeros(width)
    add_log_base(MULTINOMIAL, block, n_words, width, n, log_base)
    lengths = work[:width]
    _lengths(block, width, n, n_words, lengths)
    for k in range(n_components):
        alpha = family.alphas[k]
        log_pk = log_p[k]
        for j in range(n_words):
            column = block[j * width : j * width + n]
            for i in range(n):
                if column[i] > 0.0:
                    log_pk[i] += log_rise(alpha[j], column[i])
        total = alpha.sum()
        for i in range(n):
            log_pk[i] += log_base[i] - log_rise(total, lengths[i])


@implements(base.accumulate, CompoundDirichlet)
def _accumulate(family, block, width, n, gamma, sums, work):
    n_components, n_words = family.alphas.shape
    lengths = work[:width]
    _lengths(block, width, n, n_words, lengths)
    for k in range(n_components):
        alpha = family.alphas[k]
        total = alpha.sum()
        weights = gamma[k]
        log_topics = sums.log_topics[k]
        mass = 0.0
        common = 0.0
        for i in range(n):
            if weights[i] > 0.0:
                mass += weights[i]
                common += weights[i] * digamma_rise(total, lengths[i])
        common += mass * digamma(total)
        for j in range(n_words):
            column = block[j * width : j * width + n]
            own = mass * digamma(alpha[j])
            for i in range(n):
                if column[i] > 0.0 and weights[i] > 0.0:
                    own += weights[i] * digamma_rise(alpha[j], column[i])
            log_topics[j] += own - common


@inlined
def _lengths(block, width, n, n_words, lengths):
    """``lengths[i]``: the number of words of document i of a block."""
    for i in range(n):
        lengths[i] = 0.0
    for j in range(n_words):
        column = block[j * width : j * width + n]
        for i in range(n):
            lengths[i] += column[i]


implements(base.horizon_of, CompoundDirichlet)(base.unit_horizon)


@implements(base.add_own, CompoundDirichlet)
def _add_own(family, mass, sums, horizon):
    n_components, n_words = family.alphas.shape
    own = np.empty(n_words)
    for k in range(n_components):
        own_statistics(family.alphas[k], own)
        for j in range(n_words):
            sums.log_topics[k, j] += mass[k] * own[j]


@implements(base.maximize, CompoundDirichlet)
def _maximize(family, mass, sums, fixed):
    n_components, n_words = family.alphas.shape
    mean_log = np.empty(n_words)
    done = True
    for k in range(n_components):
        if mass[k] <= 0.0 or fixed[0]:
            continue
        for j in range(n_words):
            mean_log[j] = sums.log_topics[k, j] / mass[k]
        done = maximum(mean_log, family.alphas[k]) and done
    return done


@implements(base.refresh, CompoundDirichlet)
def _refresh(family):
    return True


@implements(base.log_marginal, CompoundDirichlet)
def _log_marginal(family, x, log_p):
    base.whole_marginal(family, x, log_p)


@implements(base.accumulate_missing, CompoundDirichlet)
def _accumulate_missing(family, x, gamma, sums):
    base.accumulate_whole(family, x, gamma, sums)
