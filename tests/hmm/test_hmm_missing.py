"""Missing values of hidden Markov models against oracles that integrate them out."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from fastem import algebra
from fastem.data.sequences import Sequences
from fastem.hmm import passes as hmm_passes
from fastem.lengths import Lengths
from fastem.statistics import Moments

from cases.families import assert_statistics
from cases.hmm import ALL, BY_NAME, MIXTURES, blocks, coordinates, hidden_of
from oracles import hmm as hmm_oracles

# One column of a family: the log-density of a value, the features, and their expectations by
# numerical integration or from scipy.stats.
COLUMNS = {
    "poisson": (lambda x, p: stats.poisson.logpmf(x, p["rates"]), [lambda x: x]),
    "bernoulli": (lambda x, p: stats.bernoulli.logpmf(x, p["probabilities"]), [lambda x: x]),
    "exponential": (lambda x, p: stats.expon.logpdf(x, scale=p["scales"]), [lambda x: x]),
    "gamma": (
        lambda x, p: stats.gamma.logpdf(x, p["shapes"], scale=p["scales"]),
        [lambda x: x, np.log],
    ),
    "beta": (
        lambda x, p: stats.beta.logpdf(x, p["alphas"], p["betas"]),
        [np.log, lambda x: np.log1p(-x)],
    ),
}
LAWS = {
    "poisson": lambda p: stats.poisson(p["rates"]),
    "bernoulli": lambda p: stats.bernoulli(p["probabilities"]),
    "exponential": lambda p: stats.expon(scale=p["scales"]),
    "gamma": lambda p: stats.gamma(p["shapes"], scale=p["scales"]),
    "beta": lambda p: stats.beta(p["alphas"], p["betas"]),
}


class Columns:
    """Families of independent columns, with the interface of ``hmm_oracles.Emission``."""

    def __init__(self, name):
        self.log_p, self.features = COLUMNS[name]
        self.law = LAWS[name]

    @staticmethod
    def each(parameters):
        shape = next(iter(parameters.values())).shape
        for k, c in np.ndindex(shape):
            yield k, c, {name: array[k, c] for name, array in parameters.items()}

    def log_density(self, X, parameters):
        out = np.zeros((len(X), len(next(iter(parameters.values())))))
        for k, c, p in self.each(parameters):
            seen = ~np.isnan(X[:, c])
            out[seen, k] += self.log_p(X[seen, c], p)
        return out

    def blocks(self, X, gamma, parameters):
        n_states, n_columns = next(iter(parameters.values())).shape
        sums = np.zeros((n_states, len(self.features) * n_columns))
        for k, c, p in self.each(parameters):
            seen = ~np.isnan(X[:, c])
            for f, phi in enumerate(self.features):
                filled = np.full(len(X), self.law(p).expect(phi))
                filled[seen] = phi(X[seen, c])
                sums[k, f * n_columns + c] = gamma[:, k] @ filled
        return {"sums": sums}


class Whole:
    """Families of which a row is seen or not: what is not seen says nothing."""

    def __init__(self, case):
        self.case = case

    def log_density(self, X, parameters):
        seen = ~np.isnan(X).any(axis=1)
        out = np.zeros((len(X), len(next(iter(parameters.values())))))
        out[seen] = self.case.oracle.log_density(parameters, X[seen])
        return out

    def blocks(self, X, gamma, parameters):
        seen = ~np.isnan(X).any(axis=1)
        found = blocks(self.case.oracle, parameters, gamma[seen], X[seen])
        return {n: Moments(*b) if isinstance(b, tuple) else b for n, b in found.items()}


class Product:
    def __init__(self, *members):
        self.members = members

    def parts(self, X, parameters):
        for name, emission, columns in self.members:
            prefix = len(name) + 1
            own = {k[prefix:]: v for k, v in parameters.items() if k.startswith(name)}
            yield name, emission, X[:, columns], own

    def log_density(self, X, parameters):
        return sum(e.log_density(part, own) for _, e, part, own in self.parts(X, parameters))

    def blocks(self, X, gamma, parameters):
        return {
            f"{name}_{key}": block
            for name, e, part, own in self.parts(X, parameters)
            for key, block in e.blocks(part, gamma, own).items()
        }


class PoissonMixtures:
    """Mixtures of Poisson columns: the member is hidden, and so is what is missing."""

    def log_parts(self, X, parameters):
        inner = Columns("poisson")
        return np.stack(
            [np.log(w) + inner.log_density(X, {"rates": rates})
             for w, rates in zip(parameters["weights"], parameters["rates"], strict=True)], axis=1
        )  # fmt: skip

    def log_density(self, X, parameters):
        return logsumexp(self.log_parts(X, parameters), axis=2)

    def blocks(self, X, gamma, parameters):
        parts = self.log_parts(X, parameters)
        shares = np.exp(parts - logsumexp(parts, axis=2, keepdims=True)) * gamma[:, :, None]
        flat = {"rates": parameters["rates"].reshape(-1, X.shape[1])}
        sums = Columns("poisson").blocks(X, shares.reshape(len(X), -1), flat)
        return {"counts": shares.sum(axis=0), **sums}


def emission_of(case):
    if case.name in COLUMNS:
        return Columns(case.name)
    if case.name == "product":
        return Product(("gaussian", hmm_oracles.Gaussian("diag"), [0, 1]),
                       ("poisson", Columns("poisson"), [2]))  # fmt: skip
    if case.name == "mixture-poisson":
        return PoissonMixtures()
    if case in MIXTURES:
        return hmm_oracles.GaussianMixtures(case.name.removeprefix("mixture-"))
    if case.name in ("full", "tied", "diag", "spherical"):
        return hmm_oracles.Gaussian(case.name)
    return hmm_oracles.Categorical() if case.name == "categorical" else Whole(case)


WHOLE = ("multinomial", "dirichlet", "rayleigh", "interleaved")


def with_holes(case, X, rng):
    """Some coordinates missing where a family allows it, and some rows whole."""
    X = X.copy()
    if case.name not in WHOLE:
        X[rng.random(X.shape) < 0.25] = np.nan
    X[rng.random(len(X)) < 0.15] = np.nan
    return X


def expected(case, hidden, data):
    """Log-likelihoods, posteriors and mean statistics."""
    emission = emission_of(case)
    pi, A = hidden.startprob, hidden.transmat
    scores, gammas, parts = [], [], []
    weights = np.ones(len(data)) if data.sample_weight is None else data.sample_weight
    cuts = np.zeros(len(data), bool) if data.cut_off is None else data.cut_off
    for X, w, cut in zip(data.split(), weights, cuts, strict=True):
        statistics, score = hmm_oracles.sequence_statistics(
            pi, A, hidden.parameters, emission, X, hidden.absorbing, cut
        )
        log_b = hmm_oracles.masked(
            emission.log_density(X, hidden.parameters), hidden.absorbing, cut
        )
        scores.append(score)
        gammas.append(hmm_oracles.posteriors(pi, A, log_b))
        parts.append(statistics * w)
    return np.array(scores), np.concatenate(gammas), sum(parts) / weights.sum()


def as_dict(statistics):
    return {
        name: (b.mass, b.mean, b.scatter) if isinstance(b, Moments) else b
        for name, b in statistics.items()
    }


@pytest.mark.parametrize("case", ALL, ids=str)
@pytest.mark.parametrize("absorbing", [False, True], ids=["fixed length", "absorbing"])
def test_missing_values_are_integrated_out(monkeypatch, case, absorbing):
    rng = np.random.default_rng(1)
    lengths = [6, 1, 4, 9, 3, 5, 2, 7, 4, 40]
    hidden, X, lengths = case.problem(2, lengths, absorbing=absorbing)
    data = Sequences(with_holes(case, X, rng), lengths, rng.uniform(0.5, 2, len(lengths)))
    assert data.missing
    scores, gamma, statistics = expected(case, hidden, data)
    for long_entries in (2**18, 16):
        # Side by side and alone, then each as a long one.
        monkeypatch.setattr(hmm_passes, "_LONG_ENTRIES", long_entries)
        data.plans.clear()
        model = case.model(hidden)
        got, posteriors = model.infer(data, posteriors=True)
        np.testing.assert_allclose(got, scores, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(posteriors, gamma, rtol=0, atol=1e-10)
        np.testing.assert_allclose(model.infer(data)[0], scores, rtol=1e-10, atol=1e-10)
        assert_statistics(model.expect(data).statistics, as_dict(statistics), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", ["full", "poisson", "mixture-tied"])
def test_paths_and_missing_values(name):
    case = BY_NAME[name]
    hidden, X, lengths = case.problem(3, [20, 7, 7, 7, 7, 7, 7, 7, 7, 5])
    data = Sequences(with_holes(case, X, np.random.default_rng(4)), lengths)
    scores, states = case.model(hidden).decode(data)
    parts = np.split(states, np.cumsum(lengths)[:-1])
    for rows, score, part in zip(data.split(), scores, parts, strict=True):
        log_b = emission_of(case).log_density(rows, hidden.parameters)
        path, best = hmm_oracles.viterbi(hidden.startprob, hidden.transmat, log_b)
        np.testing.assert_array_equal(part, path)
        assert score == pytest.approx(best, rel=1e-10)


@pytest.mark.parametrize("case", ALL, ids=str)
def test_learning_with_missing_values_raises_the_likelihood_of_what_was_seen(case):
    rng = np.random.default_rng(5)
    hidden, X, lengths = case.problem(6, [7] * 40)
    data = Sequences(with_holes(case, X, rng), lengths)
    model, values = case.model(hidden), []
    for _ in range(12):
        expectation = model.expect(data)
        values.append(expectation.log_likelihood)
        model = model.maximize(expectation.statistics)
    assert (np.diff(values) > -1e-11 * np.abs(values[0])).all()
    assert values[-1] > values[0] + 1e-3
    online, _ = algebra.online(case.model(hidden), data, 0.7)
    assert online.expect(data).log_likelihood > values[0]


def test_a_step_is_one_of_em_on_what_was_seen():
    """A fixed point of EM is where the likelihood of the seen values has no slope."""
    case = BY_NAME["full"]
    rng = np.random.default_rng(7)
    hidden, X, lengths = case.problem(8, [12] * 15, n_states=2)
    data = Sequences(with_holes(case, X, rng), lengths)
    model = case.model(hidden)
    for _ in range(400):
        model = algebra.batch(model, data)
    at, back = coordinates(case, hidden_of(model))

    def loss(vector):
        return -case.model(back(vector)).expect(data).log_likelihood

    slopes = [(loss(at + 1e-5 * e) - loss(at - 1e-5 * e)) / 2e-5 for e in np.eye(len(at))]
    np.testing.assert_allclose(slopes, 0.0, atol=1e-4)


def test_nothing_seen_leaves_the_chain_to_itself():
    case = BY_NAME["diag"]
    hidden = case.hidden(np.random.default_rng(9))
    data = Sequences(np.full((12, 2), np.nan), [5, 7])
    scores, posteriors = case.model(hidden).infer(data, posteriors=True)
    np.testing.assert_allclose(scores, 0.0, atol=1e-13)
    powers = [hidden.startprob @ np.linalg.matrix_power(hidden.transmat, t) for t in range(7)]
    np.testing.assert_allclose(posteriors[5:], powers, rtol=1e-12)
    statistics = case.model(hidden).expect(data).statistics
    np.testing.assert_array_equal(statistics["mass"], 0.0)
    own = case.model(hidden).own(Lengths([5, 7]))
    np.testing.assert_allclose(statistics["transitions"], own["transitions"], rtol=1e-12)
