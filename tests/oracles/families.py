"""Slow and obvious twins of what fastem computes: plain NumPy and SciPy, sharing no code with it.

A family here is an object with ``random`` parameters, ``sample``, ``log_density`` (through
scipy.stats), the features ``phi``, and ``kl``, the relative entropy of component k to that of
another model. Parameters are dicts of arrays, components first. A model is a pair of weights and
parameters.
"""

import numpy as np
from scipy import special, stats
from scipy.special import digamma, gammaln, logsumexp, xlogy

# Families -------------------------------------------------------------------------------------


class Gaussian:
    def __init__(self, kind, n_columns):
        self.kind, self.n_columns = kind, n_columns
        matrix = "matrix" if kind in ("full", "tied") else "positive"
        self.domains = {"means": "real", "covariances": matrix}

    def random(self, rng, n_components):
        shape = {"full": (n_components,), "tied": (), "diag": None, "spherical": None}[self.kind]
        D = self.n_columns
        if shape is None:
            columns = (D,) if self.kind == "diag" else ()
            covariances = rng.uniform(0.5, 2.0, (n_components, *columns))
        else:
            A = rng.normal(size=(*shape, D, D)) / np.sqrt(D)
            covariances = A @ np.swapaxes(A, -1, -2) + 0.5 * np.eye(D)
        return {"means": 1.5 * rng.normal(size=(n_components, D)), "covariances": covariances}

    def matrices(self, parameters):
        """The covariances as (K, D, D), whatever their kind."""
        K, D = parameters["means"].shape
        c = parameters["covariances"]
        if self.kind == "diag":
            return np.array([np.diag(v) for v in c])
        if self.kind == "spherical":
            return np.array([v * np.eye(D) for v in c])
        return np.broadcast_to(c, (K, D, D))

    def sample(self, parameters, labels, rng, trials=None):
        roots = np.linalg.cholesky(self.matrices(parameters))
        noise = rng.normal(size=(len(labels), self.n_columns))
        return parameters["means"][labels] + np.array(
            [roots[k] @ z for k, z in zip(labels, noise, strict=True)]
        )

    def log_density(self, parameters, X):
        pairs = zip(parameters["means"], self.matrices(parameters), strict=True)
        columns = [stats.multivariate_normal(m, c).logpdf(X) for m, c in pairs]
        return np.stack(columns, axis=-1).reshape(len(X), -1)

    def kl(self, p, q, trials=None):
        out = []
        for m, S, n, T in zip(
            p["means"], self.matrices(p), q["means"], self.matrices(q), strict=True
        ):
            inverse = np.linalg.inv(T)
            log_ratio = np.linalg.slogdet(T)[1] - np.linalg.slogdet(S)[1]
            d = n - m
            out.append(0.5 * (np.trace(inverse @ S) + d @ inverse @ d - len(m) + log_ratio))
        return np.array(out)

    def statistics(self, gamma, X):
        """Means of mass, of x, and of the scatter about it in the shape of this kind."""
        mass = gamma.sum(axis=0) / len(X)
        mean = gamma.T @ X / gamma.sum(axis=0)[:, None]
        d = X[:, None, :] - mean
        columns = zip(gamma.T, np.swapaxes(d, 0, 1), strict=True)
        scatter = np.array([(g[:, None] * e).T @ e for g, e in columns]) / len(X)
        if self.kind == "tied":
            scatter = scatter.sum(axis=0)
        elif self.kind == "diag":
            scatter = np.einsum("kaa->ka", scatter)
        elif self.kind == "spherical":
            scatter = np.einsum("kaa->k", scatter)
        return {"moments": (mass, mean, scatter)}


class Linear:
    """Families whose statistics are plain sums of ``phi``."""

    def phi(self, X):
        return X

    def statistics(self, gamma, X):
        return {"sums": gamma.T @ self.phi(X) / len(X)}


class Poisson(Linear):
    domains = {"rates": "positive"}  # noqa: RUF012

    def __init__(self, n_columns):
        self.n_columns = n_columns

    def random(self, rng, n_components):
        return {"rates": rng.uniform(0.5, 8.0, (n_components, self.n_columns))}

    def sample(self, parameters, labels, rng, trials=None):
        return rng.poisson(parameters["rates"][labels]).astype(float)

    def log_density(self, parameters, X):
        return stats.poisson.logpmf(X[:, None, :], parameters["rates"]).sum(axis=-1)

    def kl(self, p, q, trials=None):
        a, b = p["rates"], q["rates"]
        return (a * np.log(a / b) + b - a).sum(axis=1)


class Bernoulli(Linear):
    domains = {"probabilities": "unit"}  # noqa: RUF012

    def __init__(self, n_columns):
        self.n_columns = n_columns

    def random(self, rng, n_components):
        return {"probabilities": rng.uniform(0.1, 0.9, (n_components, self.n_columns))}

    def sample(self, parameters, labels, rng, trials=None):
        return rng.binomial(1, parameters["probabilities"][labels]).astype(float)

    def log_density(self, parameters, X):
        return stats.bernoulli.logpmf(X[:, None, :], parameters["probabilities"]).sum(axis=-1)

    def kl(self, p, q, trials=None):
        a, b = p["probabilities"], q["probabilities"]
        return (a * np.log(a / b) + (1 - a) * np.log((1 - a) / (1 - b))).sum(axis=1)


class Categorical:
    domains = {"probabilities": "simplex"}  # noqa: RUF012

    def __init__(self, n_columns, n_categories):
        self.n_columns, self.n_categories = n_columns, n_categories

    def random(self, rng, n_components):
        size = (n_components, self.n_columns)
        return {"probabilities": rng.dirichlet(np.full(self.n_categories, 2.0), size) * 0.9
                + 0.1 / self.n_categories}  # fmt: skip

    def sample(self, parameters, labels, rng, trials=None):
        # The first category whose cumulative probability exceeds a uniform number.
        cumulative = parameters["probabilities"].cumsum(axis=-1)[labels]
        cumulative[..., -1] = 1.0
        u = rng.uniform(size=(len(labels), self.n_columns, 1))
        return np.argmax(u < cumulative, axis=-1).astype(float)

    def log_density(self, parameters, X):
        chosen = parameters["probabilities"][:, np.arange(self.n_columns), X.astype(int)]
        return np.log(chosen).sum(axis=2).T

    def kl(self, p, q, trials=None):
        a, b = p["probabilities"], q["probabilities"]
        return (a * np.log(a / b)).sum(axis=(1, 2))

    def statistics(self, gamma, X):
        one_hot = X[:, :, None] == np.arange(self.n_categories)
        return {"counts": np.einsum("nk,ncj->kcj", gamma, one_hot) / len(X)}


class Multinomial(Linear):
    domains = {"probabilities": "simplex"}  # noqa: RUF012

    def __init__(self, n_columns, trials):
        self.n_columns, self.trials = n_columns, trials

    def random(self, rng, n_components):
        drawn = rng.dirichlet(np.full(self.n_columns, 2.0), n_components)
        return {"probabilities": 0.9 * drawn + 0.1 / self.n_columns}

    def sample(self, parameters, labels, rng, trials=None):
        trials = self.trials if trials is None else trials
        return rng.multinomial(trials, parameters["probabilities"][labels]).astype(float)

    def log_density(self, parameters, X):
        p = parameters["probabilities"]
        return stats.multinomial.logpmf(X[:, None, :], X.sum(axis=1)[:, None], p)

    def kl(self, p, q, trials=None):
        a, b = p["probabilities"], q["probabilities"]
        return (self.trials if trials is None else trials) * (a * np.log(a / b)).sum(axis=1)


class MultinomialOfAnyLength(Multinomial):
    """Rows of 1 .. ``trials`` trials each."""

    def sample(self, parameters, labels, rng, trials=None):
        trials = rng.integers(1, self.trials, size=len(labels), endpoint=True)
        return super().sample(parameters, labels, rng, trials)


class Exponential(Linear):
    domains = {"scales": "positive"}  # noqa: RUF012

    def __init__(self, n_columns):
        self.n_columns = n_columns

    def random(self, rng, n_components):
        return {"scales": rng.uniform(0.3, 4.0, (n_components, self.n_columns))}

    def sample(self, parameters, labels, rng, trials=None):
        return rng.exponential(parameters["scales"][labels])

    def log_density(self, parameters, X):
        return stats.expon.logpdf(X[:, None, :], scale=parameters["scales"]).sum(axis=-1)

    def kl(self, p, q, trials=None):
        a, b = p["scales"], q["scales"]
        return (np.log(b / a) + a / b - 1).sum(axis=1)


class Gamma(Linear):
    domains = {"shapes": "positive", "scales": "positive"}  # noqa: RUF012

    def __init__(self, n_columns):
        self.n_columns = n_columns

    def random(self, rng, n_components):
        size = (n_components, self.n_columns)
        return {"shapes": rng.uniform(0.7, 6.0, size), "scales": rng.uniform(0.3, 2.0, size)}

    def sample(self, parameters, labels, rng, trials=None):
        return rng.gamma(parameters["shapes"][labels], parameters["scales"][labels])

    def log_density(self, parameters, X):
        shapes, scales = parameters["shapes"], parameters["scales"]
        return stats.gamma.logpdf(X[:, None, :], shapes, scale=scales).sum(axis=-1)

    def phi(self, X):
        return np.hstack([X, np.log(X)])

    def kl(self, p, q, trials=None):
        a, s, b, t = p["shapes"], p["scales"], q["shapes"], q["scales"]
        return ((a - b) * digamma(a) - gammaln(a) + gammaln(b) + b * np.log(t / s)
                + a * (s - t) / t).sum(axis=1)  # fmt: skip


class Beta(Linear):
    domains = {"alphas": "positive", "betas": "positive"}  # noqa: RUF012

    def __init__(self, n_columns):
        self.n_columns = n_columns

    def random(self, rng, n_components):
        size = (n_components, self.n_columns)
        return {"alphas": rng.uniform(0.7, 6.0, size), "betas": rng.uniform(0.7, 6.0, size)}

    def sample(self, parameters, labels, rng, trials=None):
        return rng.beta(parameters["alphas"][labels], parameters["betas"][labels])

    def log_density(self, parameters, X):
        a, b = parameters["alphas"], parameters["betas"]
        return stats.beta.logpdf(X[:, None, :], a, b).sum(axis=-1)

    def phi(self, X):
        return np.hstack([np.log(X), np.log1p(-X)])

    def kl(self, p, q, trials=None):
        a, b, c, d = p["alphas"], p["betas"], q["alphas"], q["betas"]
        return (special.betaln(c, d) - special.betaln(a, b) + (a - c) * digamma(a)
                + (b - d) * digamma(b) + (c - a + d - b) * digamma(a + b)).sum(axis=1)  # fmt: skip


class Rayleigh(Linear):
    """``natural = -1 / 2σ²``, ``φ(x) = x²``."""

    domains = {"natural": "negative"}  # noqa: RUF012

    def __init__(self, n_columns):
        self.n_columns = n_columns

    def random(self, rng, n_components):
        return {"natural": -0.5 / rng.uniform(0.5, 3.0, (n_components, self.n_columns)) ** 2}

    def sample(self, parameters, labels, rng, trials=None):
        return rng.rayleigh(np.sqrt(-0.5 / parameters["natural"][labels]))

    def log_density(self, parameters, X):
        scales = np.sqrt(-0.5 / parameters["natural"])
        return stats.rayleigh.logpdf(X[:, None, :], scale=scales).sum(axis=-1)

    def phi(self, X):
        return X**2

    def kl(self, p, q, trials=None):
        ratio = q["natural"] / p["natural"]
        return (ratio - 1 - np.log(ratio)).sum(axis=1)


class Product:
    """Members side by side, as ``(name, family, columns)``."""

    def __init__(self, *members):
        self.members = members
        self.n_columns = sum(len(columns) for _, _, columns in members)
        self.domains = {f"{name}_{p}": d for name, f, _ in members for p, d in f.domains.items()}

    def part(self, parameters, name):
        return {key[len(name) + 1 :]: v for key, v in parameters.items() if key.startswith(name)}

    def random(self, rng, n_components):
        drawn = [(name, f.random(rng, n_components)) for name, f, _ in self.members]
        return {f"{name}_{key}": value for name, part in drawn for key, value in part.items()}

    def sample(self, parameters, labels, rng, trials=None):
        X = np.empty((len(labels), self.n_columns))
        for name, f, columns in self.members:
            X[:, columns] = f.sample(self.part(parameters, name), labels, rng)
        return X

    def log_density(self, parameters, X):
        return sum(f.log_density(self.part(parameters, n), X[:, c]) for n, f, c in self.members)

    def kl(self, p, q, trials=None):
        return sum(f.kl(self.part(p, name), self.part(q, name)) for name, f, _ in self.members)

    def statistics(self, gamma, X):
        parts = [(name, f.statistics(gamma, X[:, c])) for name, f, c in self.members]
        return {f"{name}_{key}": value for name, part in parts for key, value in part.items()}


# Mixtures -------------------------------------------------------------------------------------


def log_joint(family, weights, parameters, X):
    """``log w_k p(x_n | k)``, (n, K)."""
    return np.log(weights) + family.log_density(parameters, X)


def posteriors(family, weights, parameters, X):
    table = log_joint(family, weights, parameters, X)
    return np.exp(table - logsumexp(table, axis=1, keepdims=True))


def log_likelihoods(family, weights, parameters, X):
    return logsumexp(log_joint(family, weights, parameters, X), axis=1)


def nll(family, weights, parameters, X, sample_weight=None):
    return -np.average(log_likelihoods(family, weights, parameters, X), weights=sample_weight)


def expect(family, weights, parameters, X, sample_weight=None):
    """Mean expected statistics, as a dict of arrays and of (mass, mean, scatter) triples."""
    gamma = posteriors(family, weights, parameters, X)
    if sample_weight is not None:
        gamma = gamma * (sample_weight / sample_weight.mean())[:, None]
    return {"mass": gamma.sum(axis=0) / len(X), **family.statistics(gamma, X)}


def divergence(family, one, other, trials=None):
    """Relative entropy of the joint laws of (weights, parameters) pairs."""
    (w, p), (v, q) = one, other
    return float(xlogy(w, w / v).sum() + w @ family.kl(p, q, trials))


def upper_bound(family, one, other, X):
    """``NLL(Θ) + mean_n Σ_k γ_nk (log p(k, x_n|Θ) - log p(k, x_n|Θ̃))``."""
    gamma = posteriors(family, *one, X)
    gap = log_joint(family, *one, X) - log_joint(family, *other, X)
    return nll(family, *one, X) + (gamma * gap).sum() / len(X)


# Unconstrained coordinates --------------------------------------------------------------------


def _to_real(array, domain):
    if domain == "real":
        return array.ravel()
    if domain == "positive":
        return np.log(array).ravel()
    if domain == "negative":
        return np.log(-array).ravel()
    if domain == "unit":
        return special.logit(array).ravel()
    if domain == "simplex":
        return (np.log(array) - np.log(array[..., :1]))[..., 1:].ravel()
    lower = np.linalg.cholesky(array)
    rows, columns = np.tril_indices(array.shape[-1])
    entries = lower[..., rows, columns]
    return np.where(rows == columns, np.log(np.abs(entries)), entries).ravel()


def _from_real(vector, shape, domain):
    if domain == "real":
        return vector.reshape(shape)
    if domain == "positive":
        return np.exp(vector).reshape(shape)
    if domain == "negative":
        return -np.exp(vector).reshape(shape)
    if domain == "unit":
        return special.expit(vector).reshape(shape)
    if domain == "simplex":
        free = vector.reshape(*shape[:-1], shape[-1] - 1)
        return special.softmax(np.concatenate([np.zeros((*shape[:-1], 1)), free], axis=-1), axis=-1)
    rows, columns = np.tril_indices(shape[-1])
    entries = vector.reshape(*shape[:-2], len(rows))
    lower = np.zeros(shape)
    lower[..., rows, columns] = np.where(rows == columns, np.exp(entries), entries)
    return lower @ np.swapaxes(lower, -1, -2)


def coordinates(domains, model, fixed=()):
    """The free parameters of (weights, parameters) as one real vector, and the way back."""
    weights, parameters = model
    every = {"weights": weights, **parameters}
    domains = {"weights": "simplex", **domains}
    names = [name for name in every if name not in fixed]
    parts = {name: _to_real(every[name], domains[name]) for name in names}

    def back(vector):
        result, at = dict(every), 0
        for name in names:
            piece = vector[at : at + len(parts[name])]
            result[name] = _from_real(piece, every[name].shape, domains[name])
            at += len(parts[name])
        return result.pop("weights"), result

    return np.concatenate([np.zeros(0), *parts.values()]), back


def gradient(f, x, step=1e-5):
    """Central differences."""
    return np.array([(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(len(x))])


def hessian(f, x, step=1e-4):
    return np.array(
        [(gradient(f, x + step * e, step) - gradient(f, x - step * e, step)) / (2 * step)
         for e in np.eye(len(x))]
    )  # fmt: skip


# One observation at a time ------------------------------------------------------------------------


def online_full(X, rates, weights, means, covariances, blur=0.0, sample_weight=None):
    """Online EM of full Gaussians, one row a step, with dense covariances throughout."""
    w, m, S = weights.copy(), means.copy(), covariances.copy()
    identity = np.eye(X.shape[1])
    total = 0.0
    for t, x in enumerate(X):
        d = x - m
        norms = (d * np.linalg.solve(S, d[:, :, None])[:, :, 0]).sum(axis=1)
        log_p = np.log(w) - 0.5 * (np.linalg.slogdet(2 * np.pi * S)[1] + norms)
        top = np.logaddexp.reduce(log_p)
        gamma = np.exp(log_p - top)
        weight = 1.0 if sample_weight is None else sample_weight[t]
        total += top * weight
        memory = w / rates[t]
        # One that comes back remembers an observation, or a tenth of an even share of the memory.
        least = min(1 / weight, 0.1 / rates[t] / len(w))
        for k in np.flatnonzero((memory < least) & (gamma > w)):
            memory[k] += min(least - memory[k], gamma[k] - w[k])
        share = (memory + gamma) / (memory.sum() + 1)
        # A component with next to no mass keeps its parameters and a least weight.
        r = np.where(share >= 1e-14, gamma / (memory + gamma), 0.0)
        m = m + r[:, None] * d
        r = r[:, None, None]
        S = (1 - r) * S + r * (1 - r) * d[:, :, None] * d[:, None, :] + r * blur * identity
        w = np.maximum(share, 1e-14)
    return w / w.sum(), m, S, total


# Matrices -------------------------------------------------------------------------------------


def inverse_factor(matrix):
    """``L⁻¹`` for ``L Lᵀ = matrix``."""
    return np.linalg.inv(np.linalg.cholesky(matrix))
