"""Slow and obvious twins of the hidden Markov models: NumPy and SciPy, all in logarithms.

A chain is ``(startprob, transmat, absorbing)``; what it emits enters as a matrix of log-densities,
one row for each step and one column for each state. An absorbing model is the plain one with
impossible states masked: no step before the last may be absorbing, and the last one must be, or,
if the sequence was cut off, must not be.
"""

import itertools

import numpy as np
from scipy import stats
from scipy.special import logsumexp

from fastem.data.sequences import as_sequences
from fastem.lengths import Lengths
from fastem.statistics import Expectation, Moments, SharedMoments, Statistics


def log(x):
    with np.errstate(divide="ignore"):
        return np.log(x)


def masked(log_b, absorbing=(), cut_off=False):
    """The log-densities with the states that a step cannot be in made impossible."""
    log_b = np.array(log_b, dtype=float)
    if len(absorbing) == 0:
        return log_b
    absorbs = np.isin(np.arange(log_b.shape[1]), absorbing)
    log_b[:-1, absorbs] = -np.inf
    log_b[-1, absorbs if cut_off else ~absorbs] = -np.inf
    return log_b


# Every path ------------------------------------------------------------------------------------


def brute_force(startprob, transmat, log_b):
    """By all paths: log-likelihood, posteriors, expected transitions, best path and its log p."""
    n_steps, n_states = log_b.shape
    paths = np.array(list(itertools.product(range(n_states), repeat=n_steps)))
    log_p = log(startprob)[paths[:, 0]] + log_b[np.arange(n_steps), paths].sum(axis=1)
    for t in range(n_steps - 1):
        log_p = log_p + log(transmat)[paths[:, t], paths[:, t + 1]]
    total = logsumexp(log_p)
    p = np.exp(log_p - total)
    posteriors = np.zeros((n_steps, n_states))
    transitions = np.zeros((n_states, n_states))
    for path, share in zip(paths, p, strict=True):
        for t, state in enumerate(path):
            posteriors[t, state] += share
            if t + 1 < n_steps:
                transitions[state, path[t + 1]] += share
    best = int(np.argmax(log_p))
    return total, posteriors, transitions, paths[best], log_p[best]


# Recursions in logarithms ----------------------------------------------------------------------


def forward(startprob, transmat, log_b):
    alpha = np.empty_like(log_b)
    alpha[0] = log(startprob) + log_b[0]
    for t in range(1, len(log_b)):
        with np.errstate(divide="ignore"):
            alpha[t] = logsumexp(alpha[t - 1][:, None] + log(transmat), axis=0) + log_b[t]
    return alpha


def backward(transmat, log_b):
    beta = np.zeros_like(log_b)
    for t in range(len(log_b) - 2, -1, -1):
        with np.errstate(divide="ignore"):
            beta[t] = logsumexp(log(transmat) + (log_b[t + 1] + beta[t + 1])[None], axis=1)
    return beta


def log_likelihood(startprob, transmat, log_b):
    with np.errstate(divide="ignore"):
        return logsumexp(forward(startprob, transmat, log_b)[-1])


def posteriors(startprob, transmat, log_b):
    log_gamma = forward(startprob, transmat, log_b) + backward(transmat, log_b)
    return np.exp(log_gamma - logsumexp(log_gamma, axis=1, keepdims=True))


def transitions(startprob, transmat, log_b):
    """Expected numbers of transitions."""
    alpha, beta = forward(startprob, transmat, log_b), backward(transmat, log_b)
    total = logsumexp(alpha[-1])
    expected = np.zeros((log_b.shape[1],) * 2)
    for t in range(len(log_b) - 1):
        xi = alpha[t][:, None] + log(transmat) + (log_b[t + 1] + beta[t + 1])[None]
        expected += np.exp(xi - total)
    return expected


def viterbi(startprob, transmat, log_b):
    """The likeliest path and its log-probability with the observations.

    Of equal states the first is the end, and the last comes before another.
    """
    delta = log(startprob) + log_b[0]
    back = []
    for t in range(1, len(log_b)):
        scores = delta[:, None] + log(transmat)
        back.append(len(scores) - 1 - np.argmax(scores[::-1], axis=0))
        delta = np.max(scores, axis=0) + log_b[t]
    path = [int(np.argmax(delta))]
    for pointers in reversed(back):
        path.append(int(pointers[path[-1]]))
    return np.array(path[::-1]), np.max(delta)


def filtered(startprob, transmat, log_b):
    """``p(h_t | v_1..v_t)`` and the log-density of ``v_t`` given those before, for each step."""
    alpha = forward(startprob, transmat, log_b)
    totals = logsumexp(alpha, axis=1)
    return np.exp(alpha - totals[:, None]), np.diff(totals, prepend=0.0)


# Usages ----------------------------------------------------------------------------------------


def usages(startprob, transmat, n_steps):
    """Expected numbers of transitions out of, and of emissions from, each state."""
    delta = np.array(startprob, dtype=float)
    out, emitted = np.zeros_like(delta), np.zeros_like(delta)
    for t in range(n_steps):
        emitted += delta
        if t < n_steps - 1:
            out += delta
            delta = delta @ transmat
    return out, emitted


def absorbing_usages(startprob, transmat, absorbing, n_steps=100_000):
    """The same for sequences that end when they enter an absorbing state, step by step."""
    absorbs = np.isin(np.arange(len(startprob)), absorbing)
    delta = np.array(startprob, dtype=float)
    out, emitted = np.zeros_like(delta), np.zeros_like(delta)
    for _ in range(n_steps):
        emitted += delta
        delta = np.where(absorbs, 0.0, delta)
        out += delta
        delta = delta @ transmat
        if delta.sum() < 1e-300:
            break
    return out, emitted


# Emissions -------------------------------------------------------------------------------------


class Emission:
    """K distributions of rows with missing entries: log-densities and filled-in statistics."""

    def log_density(self, X, parameters):
        """(n_steps, K); entries that are NaN are integrated out."""
        raise AssertionError

    def blocks(self, X, gamma, parameters):
        """Statistics ``Σ_t γ_t(k) E[φ(v_t) | k, what was seen of v_t]``."""
        raise AssertionError


def covariance_matrices(parameters, kind):
    """(K, D, D) from the covariances of any kind."""
    means, covariances = np.asarray(parameters["means"]), np.asarray(parameters["covariances"])
    n_components, n_columns = means.shape
    if kind == "full":
        return covariances
    if kind == "tied":
        return np.repeat(covariances[None], n_components, axis=0)
    if kind == "diag":
        return np.stack([np.diag(row) for row in covariances])
    return covariances[:, None, None] * np.eye(n_columns)


class Gaussian(Emission):
    def __init__(self, kind):
        self.kind = kind

    def log_density(self, X, parameters):
        out = np.zeros((len(X), len(parameters["means"])))
        matrices = covariance_matrices(parameters, self.kind)
        X = np.asarray(X, dtype=float)
        for seen in np.unique(~np.isnan(X), axis=0):
            rows = (~np.isnan(X) == seen).all(axis=1)
            for k, (mean, matrix) in enumerate(zip(parameters["means"], matrices, strict=True)):
                if seen.any():
                    out[rows, k] = stats.multivariate_normal.logpdf(
                        X[rows][:, seen], mean[seen], matrix[np.ix_(seen, seen)]
                    )
        return out

    def filled(self, x, mean, matrix):
        """Mean and covariance of a row given what was seen of it."""
        seen = ~np.isnan(x)
        if seen.all():
            return x, np.zeros_like(matrix)
        if not seen.any():
            return mean, matrix
        gain = matrix[np.ix_(~seen, seen)] @ np.linalg.inv(matrix[np.ix_(seen, seen)])
        expected, spread = x.copy(), np.zeros_like(matrix)
        expected[~seen] = mean[~seen] + gain @ (x[seen] - mean[seen])
        spread[np.ix_(~seen, ~seen)] = (
            matrix[np.ix_(~seen, ~seen)] - gain @ matrix[np.ix_(seen, ~seen)]
        )
        return expected, spread

    def blocks(self, X, gamma, parameters):
        matrices = covariance_matrices(parameters, self.kind)
        n_components, n_columns = np.shape(parameters["means"])
        mass = gamma.sum(axis=0)
        mean = np.array(parameters["means"], dtype=float)
        scatter = np.zeros((n_components, n_columns, n_columns))
        for k in range(n_components):
            rows = [self.filled(x, mean[k], matrices[k]) for x in np.asarray(X, dtype=float)]
            expected = np.array([row[0] for row in rows])
            spread = np.array([row[1] for row in rows])
            if mass[k] > 0:
                mean[k] = gamma[:, k] @ expected / mass[k]
            d = expected - mean[k]
            scatter[k] = np.einsum("t,ta,tb->ab", gamma[:, k], d, d)
            scatter[k] += np.einsum("t,tab->ab", gamma[:, k], spread)
        if self.kind == "tied":
            return {"moments": SharedMoments(mass, mean, scatter.sum(axis=0))}
        columns = np.einsum("kaa->ka", scatter)
        kinds = {"full": scatter, "diag": columns, "spherical": columns.sum(axis=1)}
        return {"moments": Moments(mass, mean, kinds[self.kind])}


class Poisson(Emission):
    def log_density(self, X, parameters):
        X = np.asarray(X, dtype=float)[:, None, :]
        terms = stats.poisson.logpmf(np.nan_to_num(X), np.asarray(parameters["rates"])[None])
        return np.where(np.isnan(X), 0.0, terms).sum(axis=2)

    def blocks(self, X, gamma, parameters):
        X = np.asarray(X, dtype=float)[:, None, :]
        expected = np.where(np.isnan(X), np.asarray(parameters["rates"])[None], X)
        return {"sums": np.einsum("tk,tkd->kd", gamma, expected)}


class Categorical(Emission):
    def log_density(self, X, parameters):
        probabilities = np.asarray(parameters["probabilities"])
        out = np.zeros((len(X), len(probabilities)))
        for t, x in enumerate(np.asarray(X, dtype=float)):
            for c, value in enumerate(x):
                if not np.isnan(value):
                    out[t] += log(probabilities[:, c, int(value)])
        return out

    def blocks(self, X, gamma, parameters):
        probabilities = np.asarray(parameters["probabilities"])
        counts = np.zeros_like(probabilities)
        for x, g in zip(np.asarray(X, dtype=float), gamma, strict=True):
            for c, value in enumerate(x):
                if np.isnan(value):
                    counts[:, c] += g[:, None] * probabilities[:, c]
                else:
                    counts[:, c, int(value)] += g
        return {"counts": counts}


class Multinomial(Emission):
    """Rows are seen or missing whole; of a missing one not even the trials are known."""

    def log_density(self, X, parameters):
        out = np.zeros((len(X), len(parameters["probabilities"])))
        X = np.asarray(X, dtype=float)
        seen = ~np.isnan(X).any(axis=1)
        for k, p in enumerate(parameters["probabilities"]):
            out[seen, k] = stats.multinomial.logpmf(X[seen], X[seen].sum(axis=1), p)
        return out

    def blocks(self, X, gamma, parameters):
        return {"sums": gamma.T @ np.nan_to_num(np.asarray(X, dtype=float))}


class GaussianMixtures(Emission):
    """Each state emits from a mixture of ``n_mix`` Gaussians."""

    def __init__(self, kind):
        self.kind = kind

    def pieces(self, parameters, k):
        """State ``k``'s mixture as the parameters of Gaussians of full covariance."""
        means = np.asarray(parameters["means"])[k]
        covariances = np.asarray(parameters["covariances"])[k]
        kind = "tied" if self.kind == "tied" else self.kind
        matrices = covariance_matrices({"means": means, "covariances": covariances}, kind)
        return {"means": means, "covariances": matrices}

    def log_parts(self, X, parameters):
        """(n_steps, K, M)"""
        weights = np.asarray(parameters["weights"])
        return np.stack(
            [
                Gaussian("full").log_density(X, self.pieces(parameters, k)) + log(weights[k])
                for k in range(len(weights))
            ],
            axis=1,
        )

    def log_density(self, X, parameters):
        return logsumexp(self.log_parts(X, parameters), axis=2)

    def blocks(self, X, gamma, parameters):
        parts = self.log_parts(X, parameters)
        shares = np.exp(parts - logsumexp(parts, axis=2, keepdims=True)) * gamma[:, :, None]
        n_states, n_mix = shares.shape[1:]
        all_pieces = [self.pieces(parameters, k) for k in range(n_states)]
        stacked = {
            name: np.concatenate([pieces[name] for pieces in all_pieces])
            for name in ("means", "covariances")
        }
        moments = Gaussian("full").blocks(
            X, shares.reshape(len(X), n_states * n_mix), stacked
        )["moments"]  # fmt: skip
        columns = np.einsum("kaa->ka", moments.scatter)
        kinds = {"diag": columns, "spherical": columns.sum(axis=1)}
        scatter = kinds.get(self.kind, moments.scatter)
        return {
            "counts": shares.sum(axis=0),
            "moments": Moments(moments.mass, moments.mean, scatter),
        }


def emission_of(family):
    """The oracle's twin of a family of fastem's."""
    name = next(c.__name__ for c in type(family).__mro__ if not c.__name__.startswith("_"))
    if name == "Gaussian":
        return Gaussian(family.covariance_type)
    if name == "MixtureOf":
        return GaussianMixtures(family.kind.covariance_type)
    return {"Poisson": Poisson, "Categorical": Categorical, "Multinomial": Multinomial}[name]()


# Whole models ----------------------------------------------------------------------------------


def sequence_statistics(startprob, transmat, parameters, emission, X, absorbing=(), cut_off=False):
    """``E[T | v]`` of one sequence, and its log-likelihood."""
    log_b = masked(emission.log_density(X, parameters), absorbing, cut_off)
    gamma = posteriors(startprob, transmat, log_b)
    # A step of which nothing was seen says nothing of the emissions.
    emitted = np.where(np.isnan(X).all(axis=1)[:, None], 0.0, gamma)
    statistics = Statistics(
        start=gamma[0],
        transitions=transitions(startprob, transmat, log_b),
        mass=emitted.sum(axis=0),
        **emission.blocks(X, emitted, parameters),
    )
    return statistics, log_likelihood(startprob, transmat, log_b)


class NaiveHMMModel:
    """A hidden Markov model by the functions above, with the interface of fastem's own."""

    def __init__(
        self, family, startprob, transmat, parameters, *, absorbing=(), fixed=(), horizon=None,
        n_jobs=None, told_dead=(), packed=None,
    ):  # fmt: skip
        self.told_dead = set(told_dead)
        self.family = family
        self.startprob = np.array(startprob, dtype=float)
        self.transmat = np.array(transmat, dtype=float)
        self.packed = family.pack(parameters) if packed is None else packed
        self.absorbing = tuple(absorbing)
        self.fixed = frozenset(fixed)
        self.n_jobs = n_jobs
        self.horizon = horizon
        self.emission = emission_of(family)
        self.n_columns = family.size(self.packed)[1]

    @property
    def parameters(self):
        emissions = self.family.unpack(self.packed)
        return {"startprob": self.startprob, "transmat": self.transmat, **emissions}

    def with_parameters(self, parameters):
        parameters = dict(parameters)
        startprob, transmat = parameters.pop("startprob"), parameters.pop("transmat")
        return self._with(startprob, transmat, self.family.pack(parameters))

    def _with(self, startprob, transmat, packed):
        return NaiveHMMModel(
            self.family, startprob, transmat, None, absorbing=self.absorbing, fixed=self.fixed,
            horizon=self.horizon, packed=packed,
        )  # fmt: skip

    def iterate(self, data, limit, prior=None):
        """Each step is taken by itself."""
        return None

    def with_horizon(self, horizon):
        model = self._with(self.startprob, self.transmat, self.packed)
        model.horizon = None if self.absorbing else horizon[0]
        return model

    def _each(self, data):
        """Rows, weight and whether cut off, of each sequence."""
        for table in as_sequences(data).tables():
            for n, rows in enumerate(table.split()):
                weight = 1.0 if table.sample_weight is None else table.sample_weight[n]
                yield rows, weight, table.cut_off is not None and table.cut_off[n]

    def _log_b(self, rows, cut_off):
        emitted = self.emission.log_density(rows, self.family.unpack(self.packed))
        return masked(emitted, self.absorbing, cut_off)

    def expect(self, data):
        parts, lengths, log_likelihood, weight = [], [], 0.0, 0.0
        for rows, w, cut_off in self._each(data):
            if w == 0:
                continue
            lengths.append((len(rows), w))
            statistics, value = sequence_statistics(
                self.startprob, self.transmat, self.family.unpack(self.packed), self.emission,
                rows, self.absorbing, cut_off,
            )  # fmt: skip
            parts.append(statistics * w)
            log_likelihood += w * value
            weight += w
        horizon = (Lengths(*zip(*lengths, strict=True)), None)
        return Expectation(sum(parts) * (1.0 / weight), log_likelihood / weight, weight, horizon)

    def own(self, horizon=None):
        if self.absorbing:
            out, emitted = absorbing_usages(self.startprob, self.transmat, self.absorbing)
        else:
            lengths = self.horizon if horizon is None else horizon[0]
            out, emitted = 0.0, 0.0
            for n, share in zip(lengths.lengths, lengths.shares, strict=True):
                left, visited = usages(self.startprob, self.transmat, n)
                out, emitted = out + share * left, emitted + share * visited
        return Statistics(
            start=self.startprob,
            transitions=out[:, None] * self.transmat,
            mass=emitted,
            **self.family.own(self.packed, emitted, None),
        )

    def maximize(self, statistics):
        startprob, transmat = self.startprob, self.transmat
        if "startprob" not in self.fixed:
            startprob = statistics["start"] / statistics["start"].sum()
        if "transmat" not in self.fixed:
            counts = statistics["transitions"]
            rows = counts.sum(axis=1, keepdims=True)
            transmat = np.where(rows > 0, counts / np.where(rows > 0, rows, 1), transmat)
        blocks = {
            name: block
            for name, block in statistics.items()
            if name not in ("start", "transitions", "mass")
        }
        packed = self.family.maximize(blocks, statistics["mass"], self.packed, self.fixed)
        return self._with(startprob, transmat, packed)

    def log_likelihoods(self, data):
        return self.infer(data)[0]

    def infer(self, data, *, posteriors=False):
        values, gammas = [], [np.empty((0, len(self.startprob)))]
        for rows, _, cut_off in self._each(data):
            log_b = self._log_b(rows, cut_off)
            values.append(log_likelihood(self.startprob, self.transmat, log_b))
            if posteriors:
                gammas.append(globals()["posteriors"](self.startprob, self.transmat, log_b))
        return np.array(values), np.concatenate(gammas)

    def decode(self, data):
        found = [
            viterbi(self.startprob, self.transmat, self._log_b(rows, cut_off))
            for rows, _, cut_off in self._each(data)
        ]
        return np.array([value for _, value in found]), np.concatenate([path for path, _ in found])
