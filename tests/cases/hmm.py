"""Hidden Markov models of every emission family, by hand: random ones, their data and statistics.

Nothing here is fastem's: emissions are those of ``oracles`` (scipy.stats), recursions those of
``hmm_oracles`` (all in logarithms), and data are drawn state by state.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import digamma, gammaln, logsumexp, softmax, xlogy

from fastem.families import (
    Bernoulli,
    Beta,
    Categorical,
    DirichletMultinomial,
    Exponential,
    Gamma,
    Gaussian,
    MixtureOf,
    Multinomial,
    Poisson,
    Product,
)
from fastem.hmm.model import HMMModel

from cases.families import INTERLEAVED, Rayleigh
from oracles import dirichlet as dirichlet_oracles
from oracles import families as oracles
from oracles import hmm as hmm_oracles

# Emissions that hide something more than the state --------------------------------------------


class DirichletMultinomials:
    """Rows of counts whose topics are hidden too; ``log_topics`` are its statistics."""

    domains = {"alphas": "positive"}  # noqa: RUF012

    def __init__(self, n_columns, trials):
        self.n_columns, self.trials = n_columns, trials

    def random(self, rng, n_components):
        return {"alphas": rng.uniform(0.5, 4.0, (n_components, self.n_columns))}

    def sample(self, parameters, labels, rng):
        trials = np.full(1, self.trials)
        rows = [dirichlet_oracles.documents(parameters["alphas"][k], trials, rng) for k in labels]
        return np.concatenate(rows).astype(float)

    def log_density(self, parameters, X):
        return np.stack(
            [dirichlet_oracles.log_likelihoods(alpha, X) for alpha in parameters["alphas"]], axis=1
        )

    def blocks(self, parameters, gamma, X):
        trials = X.sum(axis=1, keepdims=True)
        return {"log_topics": np.array([
            g @ (digamma(X + alpha) - digamma(trials + alpha.sum()))
            for g, alpha in zip(gamma.T, parameters["alphas"], strict=True)
        ])}  # fmt: skip

    def log_complete(self, parameters, other, X):
        """``E[log p(x, topic | h of other)]`` over the topic given x and h, up to a constant."""
        trials = X.sum(axis=1, keepdims=True)
        columns = []
        for alpha, beta in zip(parameters["alphas"], other["alphas"], strict=True):
            logs = digamma(X + alpha) - digamma(trials + alpha.sum())
            columns.append(gammaln(beta.sum()) - gammaln(beta).sum() + logs @ (beta - 1))
        return np.stack(columns, axis=1)

    def kl(self, p, q):
        pairs = zip(p["alphas"], q["alphas"], strict=True)
        return np.array([dirichlet_oracles.divergence(a, b) for a, b in pairs])


class Mixtures:
    """Each component a mixture of ``n_members`` of the family ``member``, which are hidden too."""

    def __init__(self, member, n_members, tied=False):
        self.member, self.n_members, self.tied = member, n_members, tied
        self.n_columns = member.n_columns
        self.domains = {"weights": "simplex", **member.domains}

    def random(self, rng, n_components):
        weights = 0.8 * rng.dirichlet(np.full(self.n_members, 3.0), n_components) + 0.1
        parts = [self.member.random(rng, self.n_members) for _ in range(n_components)]
        return {
            "weights": weights / weights.sum(axis=1, keepdims=True),
            **{name: np.stack([part[name] for part in parts]) for name in parts[0]},
        }

    def of(self, parameters, k):
        """The parameters of the members of component ``k``; one covariance for all if tied."""
        return {name: array[k] for name, array in parameters.items() if name != "weights"}

    def sample(self, parameters, labels, rng):
        rows = []
        for k in labels:
            m = rng.choice(self.n_members, p=parameters["weights"][k])
            rows.append(self.member.sample(self.of(parameters, k), [m], rng))
        return np.concatenate(rows)

    def log_parts(self, parameters, X):
        """(n, K, M)"""
        return np.stack(
            [
                np.log(w) + self.member.log_density(self.of(parameters, k), X)
                for k, w in enumerate(parameters["weights"])
            ],
            axis=1,
        )

    def log_density(self, parameters, X):
        return logsumexp(self.log_parts(parameters, X), axis=2)

    def shares(self, parameters, X):
        return softmax(self.log_parts(parameters, X), axis=2)

    def blocks(self, parameters, gamma, X):
        shares = self.shares(parameters, X) * gamma[:, :, None]
        flat = shares.reshape(len(X), -1)
        member = oracles.Gaussian("full", self.n_columns) if self.tied else self.member
        return {"counts": shares.sum(axis=0), **blocks(member, None, flat, X)}

    def log_complete(self, parameters, other, X):
        return (self.shares(parameters, X) * self.log_parts(other, X)).sum(axis=2)

    def kl(self, p, q):
        return np.array([
            xlogy(w, w / v).sum() + w @ self.member.kl(self.of(p, k), self.of(q, k))
            for k, (w, v) in enumerate(zip(p["weights"], q["weights"], strict=True))
        ])  # fmt: skip


def blocks(oracle, parameters, gamma, X):
    """Sums over rows of ``γ E[φ(v) | v, h]``, with (mass, mean, scatter) for Gaussians."""
    if hasattr(oracle, "blocks"):
        return oracle.blocks(parameters, gamma, X)
    with np.errstate(invalid="ignore"):
        sums = scaled(oracle.statistics(gamma, X), len(X))
    # A state of no mass keeps its mean.
    for name, block in sums.items():
        if isinstance(block, tuple) and not block[0].all():
            mass, mean, scatter = block
            kept = np.where(
                mass[:, None] > 0, mean, parameters[name.removesuffix("moments") + "means"]
            )
            sums[name] = mass, kept, np.nan_to_num(scatter)
    return sums


def scaled(statistics, factor):
    """Statistics of ``oracles`` times a number."""
    return {
        name: (b[0] * factor, b[1], b[2] * factor) if isinstance(b, tuple) else b * factor
        for name, b in statistics.items()
    }


def log_complete(oracle, parameters, other, X):
    """``E[log p(x, z | h of other)]`` over what a component hides, given x and h; (n, K)."""
    if hasattr(oracle, "log_complete"):
        return oracle.log_complete(parameters, other, X)
    return oracle.log_density(other, X)


# Whole models ---------------------------------------------------------------------------------


class Hidden(NamedTuple):
    """A hidden Markov model by hand."""

    startprob: np.ndarray
    transmat: np.ndarray
    parameters: dict
    absorbing: tuple = ()


class Case:
    """An emission family of fastem's, ``family``, and its twin, ``oracle``."""

    def __init__(self, name, family, oracle):
        self.name, self.family, self.oracle = name, family, oracle

    def __repr__(self):
        return self.name

    def hidden(self, rng, n_states=3, absorbing=False, zeros=False):
        """A random model; with ``absorbing`` its last state is, with ``zeros`` it goes rightward.

        No probability that is not zero is small.
        """
        startprob, *transmat = 0.7 * rng.dirichlet(np.ones(n_states), n_states + 1) + 0.3 / n_states
        transmat = np.array(transmat)
        if zeros:
            transmat = np.triu(transmat)
            startprob[1] = 0.0
        ends = ()
        if absorbing:
            ends = (n_states - 1,)
            startprob[-1] = 0.0
            transmat[-1] = np.eye(n_states)[-1]
        transmat /= transmat.sum(axis=1, keepdims=True)
        parameters = self.oracle.random(rng, n_states)
        return Hidden(startprob / startprob.sum(), transmat, parameters, ends)

    def model(self, hidden, **options):
        startprob, transmat, parameters, absorbing = hidden
        return HMMModel(
            self.family, startprob, transmat, parameters, absorbing=absorbing, **options
        )

    def draw(self, hidden, rng, lengths):
        """Rows of sequences of these lengths; of an absorbing model, as many as there are."""
        paths = [path(hidden, rng, n) for n in lengths]
        X = self.oracle.sample(hidden.parameters, np.concatenate(paths), rng)
        return X, np.array([len(p) for p in paths])

    def problem(self, seed, lengths, **options):
        """A model, and the rows and lengths of sequences from another that is not far from it."""
        rng = np.random.default_rng(seed)
        hidden = self.hidden(rng, **options)
        return hidden, *self.draw(self.near(hidden, rng, 0.3), rng, lengths)

    def near(self, hidden, rng, distance):
        """The model moved by ``distance`` in unconstrained coordinates."""
        vector, back = coordinates(self, hidden)
        return back(vector + distance * rng.normal(size=len(vector)))


def path(hidden, rng, n_steps):
    """States of one sequence: ``n_steps`` of them, or as many as come until absorption."""
    n_states = len(hidden.startprob)
    states = [rng.choice(n_states, p=hidden.startprob)]
    while (states[-1] not in hidden.absorbing) if hidden.absorbing else len(states) < n_steps:
        states.append(rng.choice(n_states, p=hidden.transmat[states[-1]]))
    return states


def hidden_of(model):
    """A model of fastem's by hand."""
    parameters = dict(model.parameters)
    startprob, transmat = parameters.pop("startprob"), parameters.pop("transmat")
    return Hidden(startprob, transmat, parameters, tuple(np.flatnonzero(model.absorbing)))


def log_densities(case, hidden, X, lengths, cut_off=None):
    """For each sequence the log-densities of its steps in each state, the impossible masked."""
    cut_off = np.zeros(len(lengths), bool) if cut_off is None else cut_off
    parts = np.split(case.oracle.log_density(hidden.parameters, X), np.cumsum(lengths)[:-1])
    return [
        hmm_oracles.masked(part, hidden.absorbing, cut)
        for part, cut in zip(parts, cut_off, strict=True)
    ]


class Smoothed(NamedTuple):
    """What the oracles say of sequences."""

    log_likelihoods: np.ndarray
    posteriors: np.ndarray
    statistics: dict


def smoothed(case, hidden, X, lengths, weights=None, cut_off=None, brute=False):
    """Log-likelihoods, posteriors and mean statistics, by recursion or over all paths."""
    pi, A = hidden.startprob, hidden.transmat
    scores, gammas, xis = [], [], []
    for log_b in log_densities(case, hidden, X, lengths, cut_off):
        if brute:
            score, gamma, xi, _, _ = hmm_oracles.brute_force(pi, A, log_b)
        else:
            score = hmm_oracles.log_likelihood(pi, A, log_b)
            gamma = hmm_oracles.posteriors(pi, A, log_b)
            xi = hmm_oracles.transitions(pi, A, log_b)
        scores.append(score)
        gammas.append(gamma)
        xis.append(xi)
    w = np.ones(len(lengths)) if weights is None else weights
    gamma = np.concatenate(gammas)
    weighted = gamma * np.repeat(w, lengths)[:, None]
    sums = {
        "start": sum(u * g[0] for u, g in zip(w, gammas, strict=True)),
        "transitions": sum(u * xi for u, xi in zip(w, xis, strict=True)),
        "mass": weighted.sum(axis=0),
        **blocks(case.oracle, hidden.parameters, weighted, X),
    }
    return Smoothed(np.array(scores), gamma, scaled(sums, 1 / w.sum()))


def nll(case, hidden, X, lengths, weights=None):
    scores = [
        hmm_oracles.log_likelihood(hidden.startprob, hidden.transmat, log_b)
        for log_b in log_densities(case, hidden, X, lengths)
    ]
    return -np.average(scores, weights=weights)


def usages(hidden, lengths):
    """Expected transitions out of and emissions from each state, as a mean over the lengths."""
    if hidden.absorbing:
        return hmm_oracles.absorbing_usages(hidden.startprob, hidden.transmat, hidden.absorbing)
    pairs = [hmm_oracles.usages(hidden.startprob, hidden.transmat, n) for n in lengths]
    return tuple(np.mean(pairs, axis=0))


def divergence(case, one, other, lengths):
    """Relative entropy of the joint laws, from the usages."""
    left, emitted = usages(one, lengths)
    rows = xlogy(one.transmat, one.transmat / np.where(one.transmat > 0, other.transmat, 1.0))
    start = xlogy(one.startprob, one.startprob / np.where(one.startprob > 0, other.startprob, 1.0))
    emissions = case.oracle.kl(one.parameters, other.parameters)
    return start.sum() + left @ rows.sum(axis=1) + emitted @ emissions


def coordinates(case, hidden, fixed=()):
    """All that is free as one real vector, and the way back. What is zero stays zero."""
    startprob, transmat, parameters, absorbing = hidden
    free_rows = [k for k in range(len(startprob)) if k not in absorbing]
    rows = [] if "startprob" in fixed else [startprob]
    rows += [] if "transmat" in fixed else list(transmat[free_rows])
    names = [name for name in parameters if name not in fixed]
    pieces = [np.log(row[row > 0][1:] / row[row > 0][0]) for row in rows]
    pieces += [oracles._to_real(parameters[name], case.oracle.domains[name]) for name in names]
    cuts = np.cumsum([len(piece) for piece in pieces])[:-1]

    def back(vector):
        parts = iter(np.split(vector, cuts))
        made = []
        for row in rows:
            new = np.zeros(len(row))
            new[row > 0] = softmax(np.concatenate([[0.0], next(parts)]))
            made.append(new)
        start = startprob if "startprob" in fixed else made.pop(0)
        matrix = transmat.copy()
        if made:
            matrix[free_rows] = made
        new = {
            name: oracles._from_real(next(parts), parameters[name].shape, case.oracle.domains[name])
            for name in names
        }
        return Hidden(start, matrix, {**parameters, **new}, absorbing)

    return np.concatenate([np.zeros(0), *pieces]), back


# The cases ------------------------------------------------------------------------------------

D = 2

GAUSSIAN = [
    Case(kind, Gaussian(kind, reg_covar=0.0), oracles.Gaussian(kind, D))
    for kind in ("full", "tied", "diag", "spherical")
]
MIXTURES = [
    Case(
        f"mixture-{kind}",
        MixtureOf(Gaussian(kind, reg_covar=0.0), 2),
        Mixtures(oracles.Gaussian(kind, D), 2, tied=kind == "tied"),
    )
    for kind in ("full", "tied", "diag", "spherical")
] + [Case("mixture-poisson", MixtureOf(Poisson(), 2), Mixtures(oracles.Poisson(D), 2))]
ALL = [
    *GAUSSIAN,
    Case("poisson", Poisson(), oracles.Poisson(D)),
    Case("bernoulli", Bernoulli(), oracles.Bernoulli(D)),
    Case("categorical", Categorical(3), oracles.Categorical(D, 3)),
    Case("multinomial", Multinomial(n_trials=6), oracles.Multinomial(3, 6)),
    Case("exponential", Exponential(), oracles.Exponential(D)),
    Case("gamma", Gamma(), oracles.Gamma(D)),
    Case("beta", Beta(), oracles.Beta(D)),
    Case("dirichlet", DirichletMultinomial(n_trials=8), DirichletMultinomials(3, 8)),
    Case(
        "product",
        Product((Gaussian("diag", reg_covar=0.0), 2), (Poisson(), 1)),
        oracles.Product(
            ("gaussian", oracles.Gaussian("diag", 2), range(2)),
            ("poisson", oracles.Poisson(1), range(2, 3)),
        ),
    ),
    *MIXTURES,
    Case("rayleigh", Rayleigh(), oracles.Rayleigh(D)),
    Case("interleaved", INTERLEAVED.family, INTERLEAVED.oracle),
]
BY_NAME = {case.name: case for case in ALL}
