"""Densities of one column or of two, for components of any family."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .. import families
from .fitted import Parts, gaussians

__all__ = ["Marginal", "joints", "marginal"]

#: Rows of counts have so many different totals at most; of more, quantiles stand for all.
_MOST_TOTALS = 50


class Marginal(NamedTuple):
    """The law of one column in each component: a mixture of distributions of ``scipy.stats``."""

    #: For each component pairs of a share and a distribution.
    members: list
    #: Whether values are whole numbers, so that there are probabilities in place of densities.
    whole: bool

    def densities(self, x) -> np.ndarray:
        """The density or the probability of each value in each component, (K, n)."""
        x = np.asarray(x, dtype=float)
        result = np.zeros((len(self.members), len(x)))
        for k, members in enumerate(self.members):
            for share, law in members:
                if share > 0:
                    result[k] += share * (law.pmf(x) if self.whole else law.pdf(x))
        return result

    def quantiles(self, levels) -> np.ndarray:
        """Quantiles of all members of all components that have a share, (n, len(levels))."""
        laws = [law for members in self.members for share, law in members if share > 0]
        return np.array([law.ppf(levels) for law in laws])

    def borders(self, gap) -> np.ndarray:
        """Where densities may jump: ends of the support, and values outside, nearer than a gap."""
        laws = [law for members in self.members for share, law in members if share > 0]
        ends = np.array([law.support() for law in laws if hasattr(law, "support")]).reshape(-1, 2)
        ends = np.concatenate([ends, ends + np.array([-gap, gap])])
        return np.unique(ends[np.isfinite(ends)])


def marginal(parts: Parts, column: int, X=None, n_trials=None) -> Marginal:
    """The law of a column in each component.

    Parameters
    ----------
    parts : Parts
    column : int
    X : array, optional
        Data, which say how many trials rows of counts have.
    n_trials : int, optional
        The same, where there are no data.
    """
    return _marginal(parts.family, parts.parameters, column, parts, X, n_trials)


def _marginal(family, parameters, column, parts, X, n_trials) -> Marginal:
    from scipy import stats

    n = parts.n_components

    def each(laws, whole):
        return Marginal([[(1.0, law)] for law in laws], whole)

    if isinstance(family, families.Product):
        inner, column, own, X = _member_of(family, parameters, column, parts, X)
        return _marginal(*inner, column, own, X, n_trials)
    if isinstance(family, families.MixtureOf):
        return _mixed(family, parameters, column, parts, X, n_trials)
    if isinstance(family, families.Gaussian):
        found = gaussians(parts._replace(family=family, parameters=parameters), "densities")
        spread = np.sqrt(found.covariances[:, column, column])
        return each([stats.norm(found.means[k, column], spread[k]) for k in range(n)], False)
    if isinstance(family, (families.Multinomial, families.DirichletMultinomial)):
        totals = _totals(family, X, n_trials)
        return Marginal([_counts(family, parameters, k, column, totals) for k in range(n)], True)
    if isinstance(family, families.Categorical):
        shares = parameters["probabilities"][:, column]
        values = np.arange(shares.shape[1])
        return each([stats.rv_discrete(values=(values, p / p.sum())) for p in shares], True)
    if isinstance(family, families.ExponentialFamily):
        if parts.n_columns != 1:
            raise ValueError(
                "The density of one column is not known for a family of your own over "
                f"{parts.n_columns} columns: fastem.plot.densities draws it for one."
            )
        return _of_user(family, parameters, n, X)
    if isinstance(family, families.Poisson):
        return each([stats.poisson(rate) for rate in parameters["rates"][:, column]], True)
    if isinstance(family, families.Bernoulli):
        return each([stats.bernoulli(p) for p in parameters["probabilities"][:, column]], True)
    if isinstance(family, families.Exponential):
        return each([stats.expon(scale=s) for s in parameters["scales"][:, column]], False)
    if isinstance(family, families.Gamma):
        pairs = zip(parameters["shapes"][:, column], parameters["scales"][:, column], strict=True)
        return each([stats.gamma(shape, scale=scale) for shape, scale in pairs], False)
    if isinstance(family, families.Beta):
        pairs = zip(parameters["alphas"][:, column], parameters["betas"][:, column], strict=True)
        return each([stats.beta(alpha, beta) for alpha, beta in pairs], False)
    raise TypeError(f"fastem.plot.densities does not know the density of the family {family!r}.")


def _member_of(family, parameters, column, parts, X):
    """The member of a product that has a column, the column's number in it, and what it has."""
    members = zip(family.families, family.columns, family._split(parameters), strict=True)
    for member, columns, own in members:
        if column in columns:
            parts = parts._replace(n_columns=len(columns))
            rows = None if X is None else X[:, columns]
            return (member, own), columns.index(column), parts, rows
    raise AssertionError("A product has all columns.")


def _mixed(family, parameters, column, parts, X, n_trials):
    """The law of a column where each component is itself a mixture."""
    flat = family._flat(parameters)
    n_members = family.n_members
    inner = parts._replace(n_components=parts.n_components * n_members)
    found = _marginal(family.member, flat, column, inner, X, n_trials)
    shares = np.asarray(parameters[family.weights_name])
    members = [
        [
            (float(shares[k, m] * share), law)
            for m in range(n_members)
            for share, law in found.members[k * n_members + m]
        ]
        for k in range(parts.n_components)
    ]
    return Marginal(members, found.whole)


# Counts -----------------------------------------------------------------------------------------


def _totals(family, X, n_trials):
    """The numbers of trials of rows of counts, each with its share of the rows."""
    if X is not None:
        X = X[~np.isnan(X).any(axis=1)]
        values, counts = np.unique(X.sum(axis=1).astype(int), return_counts=True)
        if len(values) > _MOST_TOTALS:
            levels = (np.arange(_MOST_TOTALS) + 0.5) / _MOST_TOTALS
            values = np.quantile(X.sum(axis=1), levels, method="nearest").astype(int)
            values, counts = np.unique(values, return_counts=True)
        return list(zip(values.tolist(), (counts / counts.sum()).tolist(), strict=True))
    n_trials = family.n_trials if n_trials is None else n_trials
    if n_trials is None or np.ndim(n_trials):
        raise ValueError(
            f"The density of counts of the family {family!r} depends on the number of trials of a "
            "row: pass the data as X, or set n_trials."
        )
    return [(int(n_trials), 1.0)]


def _counts(family, parameters, k, column, totals):
    """The law of one count among several, for each number of trials."""
    from scipy import stats

    if isinstance(family, families.Multinomial):
        p = float(parameters["probabilities"][k, column])
        return [(share, stats.binom(n, p)) for n, share in totals]
    alphas = parameters["alphas"][k]
    rest = float(alphas.sum() - alphas[column])
    if rest == 0.0:
        # A single column has all of the trials.
        return [(share, stats.randint(n, n + 1)) for n, share in totals]
    return [(share, stats.betabinom(n, float(alphas[column]), rest)) for n, share in totals]


# Families of the user's own ---------------------------------------------------------------------


class _UserLaw:
    """One component of a family of the user's own, over one column."""

    def __init__(self, family, packed, k, drawn):
        self.family, self.packed, self.k, self.drawn = family, packed, k, drawn

    def pdf(self, x):
        """The density, or the probability, which are computed in the same way."""
        with np.errstate(all="ignore"):
            features, base = self.family.prepare(np.asarray(x, dtype=float)[:, None])
            density = np.exp(base + features @ self.packed.natural[self.k] + self._offset)
        return np.where(np.isfinite(density), density, 0.0)

    pmf = pdf

    @property
    def _offset(self):
        return self.packed.offsets[self.k]

    def ppf(self, levels):
        """Quantiles of draws: all that is known of the range."""
        return np.quantile(self.drawn, levels)


def _of_user(family, parameters, n_components, X):
    packed = family.pack(parameters)
    rng = np.random.default_rng(0)
    laws = []
    for k in range(n_components):
        drawn = family.draw(parameters, np.full(1000, k), rng)
        laws.append(_UserLaw(family, packed, k, np.asarray(drawn, dtype=float)[:, 0]))
    whole = all((law.drawn == np.floor(law.drawn)).all() for law in laws)
    return Marginal([[(1.0, law)] for law in laws], whole)


# Two columns ------------------------------------------------------------------------------------


def joints(parts: Parts, a: int, b: int, X=None, n_trials=None):
    """For each component a function of two arrays: the joint density of two columns."""
    return _joints(parts.family, parts.parameters, a, b, parts, X, n_trials)


def _joints(family, parameters, a, b, parts, X, n_trials):
    from scipy import stats

    n = parts.n_components
    if isinstance(family, families.Product):
        if any({a, b} <= set(columns) for columns in family.columns):
            inner, new_a, own, rows = _member_of(family, parameters, a, parts, X)
            _, new_b, _, _ = _member_of(family, parameters, b, parts, X)
            return _joints(*inner, new_a, new_b, own, rows, n_trials)
    elif isinstance(family, families.MixtureOf):
        inner = parts._replace(n_components=n * family.n_members)
        found = _joints(family.member, family._flat(parameters), a, b, inner, X, n_trials)
        shares = np.asarray(parameters[family.weights_name])
        return [
            _weighted(shares[k], found[k * family.n_members : (k + 1) * family.n_members])
            for k in range(n)
        ]
    elif isinstance(family, families.Gaussian):
        found = gaussians(parts._replace(family=family, parameters=parameters), "densities")
        pair = [a, b]
        laws = [
            stats.multivariate_normal(
                found.means[k, pair], found.covariances[k][np.ix_(pair, pair)]
            )
            for k in range(n)
        ]
        return [_at_points(law.pdf) for law in laws]
    elif isinstance(family, (families.Multinomial, families.DirichletMultinomial)):
        totals = _totals(family, X, n_trials)
        return [
            _weighted(
                [share for _, share in totals],
                [_two_counts(family, parameters, k, a, b, total) for total, _ in totals],
            )
            for k in range(n)
        ]
    # Columns are independent within a component.
    one, two = (_marginal(family, parameters, c, parts, X, n_trials) for c in (a, b))
    return [_product(one, two, k) for k in range(n)]


def _weighted(shares, functions):
    def density(x, y):
        return sum(
            share * function(x, y) for share, function in zip(shares, functions, strict=True)
        )

    return density


def _at_points(function):
    def density(x, y):
        return function(np.stack([x, y], axis=-1))

    return density


def _product(one, two, k):
    def density(x, y):
        shape = np.shape(x)
        first = _one_component(one, k).densities(np.ravel(x))[0]
        second = _one_component(two, k).densities(np.ravel(y))[0]
        return (first * second).reshape(shape)

    return density


def _one_component(law, k):
    return Marginal([law.members[k]], law.whole)


def _two_counts(family, parameters, k, a, b, total):
    """The joint law of two counts, and of all others together."""
    from scipy import stats

    name = family.parameter_names[0]
    values = np.asarray(parameters[name][k], dtype=float)
    three = np.array([values[a], values[b], values.sum() - values[a] - values[b]])
    if isinstance(family, families.Multinomial):
        three = np.maximum(three, 0.0)
        law = stats.multinomial(total, three / three.sum())
    else:
        law = stats.dirichlet_multinomial(np.maximum(three, 1e-12), total)

    def density(x, y):
        x, y = (np.rint(np.ravel(values)).astype(int) for values in (x, y))
        possible = (x >= 0) & (y >= 0) & (x + y <= total)
        result = np.zeros(len(x))
        inside = np.stack([x, y, total - x - y], axis=-1)[possible]
        if len(inside):
            result[possible] = law.pmf(inside)
        return result

    def shaped(x, y):
        return density(x, y).reshape(np.shape(x))

    return shaped
