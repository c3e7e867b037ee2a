"""One case for each family: fastem's and its oracle, with random models and data."""

import numpy as np
from scipy.optimize import minimize

from fastem.families import (
    Bernoulli,
    Beta,
    Categorical,
    Exponential,
    ExponentialFamily,
    Gamma,
    Gaussian,
    Multinomial,
    Poisson,
    Product,
)
from fastem.mixture.model import MixtureModel
from fastem.statistics import Moments

from oracles import families as oracles


class Rayleigh(ExponentialFamily):
    def sufficient(self, X):
        return X**2

    def log_base(self, X):
        return np.log(X).sum(axis=1)

    def log_partition(self, natural):
        return -np.log(-2 * natural).sum(axis=1)

    def mean(self, natural):
        return -1 / natural

    def natural(self, mean):
        return -1 / mean

    def sample(self, natural, rng):
        return rng.rayleigh(np.sqrt(-0.5 / natural))


class Case:
    """A family of fastem's, ``family``, and its twin, ``oracle``."""

    def __init__(self, name, family, oracle):
        self.name, self.family, self.oracle = name, family, oracle

    def __repr__(self):
        return self.name

    @property
    def gaussian(self):
        return isinstance(self.family, Gaussian)

    def pair(self, rng, n_components=3):
        """Random (weights, parameters), no weight small."""
        weights = 0.8 * rng.dirichlet(np.full(n_components, 3.0)) + 0.2 / n_components
        return weights, self.oracle.random(rng, n_components)

    def model(self, pair, **options):
        return MixtureModel(self.family, pair[0], pair[1], **options)

    def data(self, pair, rng, n_rows):
        """Rows from a model, drawn by the oracle."""
        labels = rng.choice(len(pair[0]), size=n_rows, p=pair[0])
        return self.oracle.sample(pair[1], labels, rng)

    def problem(self, seed, n_rows=60, n_components=3):
        """A model, and rows from another that is not far from it."""
        rng = np.random.default_rng(seed)
        pair = self.pair(rng, n_components)
        return pair, self.data(self.near(pair, rng, 0.3), rng, n_rows)

    def near(self, pair, rng, distance):
        """The model moved by ``distance`` in unconstrained coordinates."""
        vector, back = oracles.coordinates(self.oracle.domains, pair)
        return back(vector + distance * rng.normal(size=len(vector)))


def pair_of(model):
    """(weights, parameters) of a fastem model."""
    parameters = dict(model.parameters)
    return parameters.pop("weights"), parameters


def cases(n_columns=3):
    """All families at ``n_columns`` columns, and a product of five and three."""
    D = n_columns
    every = [
        Case(kind, Gaussian(kind, reg_covar=0.0), oracles.Gaussian(kind, D))
        for kind in ("full", "tied", "diag", "spherical")
    ]
    every += [
        Case("poisson", Poisson(), oracles.Poisson(D)),
        Case("bernoulli", Bernoulli(), oracles.Bernoulli(D)),
        Case("categorical", Categorical(4), oracles.Categorical(D, 4)),
        Case("multinomial", Multinomial(n_trials=12), oracles.Multinomial(D, 12)),
        Case("exponential", Exponential(), oracles.Exponential(D)),
        Case("gamma", Gamma(), oracles.Gamma(D)),
        Case("beta", Beta(), oracles.Beta(D)),
        Case(
            "product",
            Product((Gaussian("diag", reg_covar=0.0), 5), (Poisson(), 3)),
            oracles.Product(
                ("gaussian", oracles.Gaussian("diag", 5), range(5)),
                ("poisson", oracles.Poisson(3), range(5, 8)),
            ),
        ),
        Case("rayleigh", Rayleigh(), oracles.Rayleigh(D)),
    ]
    return every


ALL = cases()
GAUSSIAN = [case for case in ALL if case.gaussian]
COMPILED = [case for case in ALL if case.family.compiled]

#: A product whose members' columns are interleaved, one member the user's own.
INTERLEAVED = Case(
    "interleaved",
    Product((Rayleigh(), [1, 3]), (Gaussian("full", reg_covar=0.0), [0, 4]), (Poisson(), [2])),
    oracles.Product(
        ("rayleigh", oracles.Rayleigh(2), [1, 3]),
        ("gaussian", oracles.Gaussian("full", 2), [0, 4]),
        ("poisson", oracles.Poisson(1), [2]),
    ),
)

#: Rows of different numbers of trials: the one family whose observations have a size.
UNEQUAL = Case("unequal", Multinomial(), oracles.MultinomialOfAnyLength(3, 30))


def assert_statistics(statistics, expected, rtol=1e-10, atol=1e-12):
    """Statistics of fastem's against a dict of arrays and of (mass, mean, scatter) triples."""
    assert set(statistics) == set(expected)
    for name, block in expected.items():
        if isinstance(block, tuple):
            moments = statistics[name]
            assert isinstance(moments, Moments)
            for got, want in zip((moments.mass, moments.mean, moments.scatter), block, strict=True):
                np.testing.assert_allclose(got, want, rtol=rtol, atol=atol, err_msg=name)
        else:
            np.testing.assert_allclose(statistics[name], block, rtol=rtol, atol=atol, err_msg=name)


def assert_same_statistics(one, other, rtol=1e-10, atol=1e-12):
    a, b = one.to_arrays(), other.to_arrays()
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_allclose(a[name], b[name], rtol=rtol, atol=atol, err_msg=name)


def assert_same_model(one, other, rtol=1e-10, atol=1e-12):
    a, b = one.parameters, other.parameters
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_allclose(a[name], b[name], rtol=rtol, atol=atol, err_msg=name)


def raw_sums(statistics):
    """All statistics as plain sums in one vector, linear in the data's law."""
    parts = []
    for block in statistics.values():
        if isinstance(block, Moments):
            center = block.spread(block.mass, block.mean)
            parts += [block.mass, block.mass[:, None] * block.mean, block.scatter + center]
        else:
            parts.append(block)
    return np.concatenate([np.ravel(part) for part in parts])


def assert_minimum(objective, at, rng, *, starts=1):
    """No direction goes down from ``at``, and no descent from elsewhere ends lower."""
    least = objective(at)
    assert np.isfinite(least)
    np.testing.assert_allclose(oracles.gradient(objective, at), 0.0, atol=2e-8)
    for distance in (1e-3, 1e-2, 0.1, 0.5):
        for _ in range(3):
            assert objective(at + distance * rng.normal(size=len(at))) > least
    for _ in range(starts):
        start = at + 0.3 * rng.normal(size=len(at))
        found = minimize(objective, start, method="BFGS", options={"gtol": 1e-7})
        assert found.fun > least - 1e-11
        # It is the same minimum, so that the agreement says something.
        assert found.fun < least + 1e-9
