"""What the states of a hidden Markov model emit.

An estimator makes its emissions from its settings. They supply everything that depends on their
kind: names, shapes, checks, initialization, priors, draws. Emissions are values, and know nothing
about the estimator.

*Parameters* have the names of the family; *values* are the same arrays with the names, and in the
shapes, that the estimator shows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from numbers import Integral
from typing import ClassVar

import numpy as np
from sklearn.utils import check_random_state

from .. import checks
from ..clustering import kmeans
from ..data.remote import map_tables
from ..data.rows import Table
from ..drawing import check_drawable
from ..families import Categorical, Family, Gaussian, MixtureOf, Multinomial, Poisson, as_family
from ..families.support import first_wrong, no_negatives
from ..mixture.model import MixtureModel
from . import priors
from .chain import Shown, index_draws
from .checks import check_values
from .covariances import covariance_shape, initial_covariances, normal_draws
from .initialization import clusters, complete_rows, covariance, mean_and_variance

__all__ = ["CategoricalEmissions", "Emissions", "FamilyEmissions", "GaussianEmissions",
           "GaussianMixtureEmissions", "MultinomialEmissions", "PoissonEmissions"]  # fmt: skip


@dataclass(frozen=True)
class Emissions(ABC):
    """The emissions of ``n_states`` states."""

    n_states: int

    #: Which attribute of the estimator shows which parameter of the family.
    shown: ClassVar[tuple[Shown, ...]]
    #: Whether each fit finds the number of outcomes from its data.
    sized_by_data: ClassVar[bool] = False

    @property
    @abstractmethod
    def family(self) -> Family:
        """The family of the emissions."""

    @abstractmethod
    def shapes(self, n_columns) -> dict[str, tuple[int, ...]]:
        """The shapes of the values for data of so many columns."""

    @abstractmethod
    def n_columns(self, values) -> int | None:
        """The number of columns of the data, if these values tell. Some may be missing."""

    @abstractmethod
    def initialize(self, data, wanted, n_columns, seed, absorbing) -> dict[str, np.ndarray]:
        """First values of the ``wanted`` parameters, from the data and a random state."""

    @abstractmethod
    def draw(self, model, path: Iterable[int], random_state) -> np.ndarray:
        """A row for each state of a path."""

    # Defaults ----------------------------------------------------------------------------------

    def maximize(self, model, statistics, n_sequences) -> dict[str, np.ndarray]:
        """The family's parameters after a step of batch EM, priors included."""
        parameters = model.maximize(statistics).parameters
        return {name: parameters[name] for name in model.family.parameter_names}

    def kernel_prior(self, model):
        """The priors of :meth:`maximize` as kernels take them; None if there are none."""
        return None

    def n_free(self, model) -> dict[str, int]:
        """The number of free parameters of the model's emissions, by their letters."""
        return {self.shown[0].letter: model.family.n_parameters(_unpacked(model))}

    def value(self, name, array) -> np.ndarray:
        """A value that may have been set by hand, as an array."""
        return checks.numbers(f"{name}_", array)

    def to_parameters(self, values) -> dict[str, np.ndarray]:
        """The family's parameters, from the values."""
        return {shown.parameter: values[shown.name] for shown in self.shown}

    def to_values(self, parameters) -> dict[str, np.ndarray]:
        """The values, from the family's parameters."""
        return {shown.name: parameters[shown.parameter] for shown in self.shown}

    def check(self, table, n_before, *, reset) -> bool:
        """Raise ``ValueError`` for rows that cannot be emitted; return whether some are missing.

        With ``reset`` the emissions are yet to be fitted to the data.
        """
        return check_values(table, self.family, n_before)

    def fitted_to(self, data, wanted) -> Emissions:
        """The emissions with the sizes that are found from the data."""
        return self

    @property
    def found(self) -> dict:
        """What was found from the data, by the attributes that show it."""
        return {}


def _unpacked(model):
    """The parameters of a model's emissions."""
    return model.family.unpack(model.packed)


def _drawn(draw, path):
    """Rows that are drawn one by one, as in hmmlearn, each before the state that follows it."""
    rows = [draw(state) for state in path]
    return np.array(rows).reshape(len(rows), -1)


@dataclass(frozen=True)
class GaussianEmissions(Emissions):
    """A Gaussian for each state."""

    covariance_type: str
    min_covar: float
    means_prior: object
    means_weight: object
    covars_prior: object
    covars_weight: object

    shown: ClassVar = (
        Shown("means", "m", "means", "means_"),
        Shown("covars", "c", "covariances", "_covars_"),
    )
    #: The new means and covariances of a step of batch EM, by functions of :mod:`.priors`.
    m_steps: ClassVar = (priors.gaussian_means, priors.gaussian_covariances)

    @property
    def family(self):
        return Gaussian(self.covariance_type, 0.0)

    @property
    def parts(self) -> tuple[int, ...]:
        """How many Gaussians there are, along each axis of the parameters."""
        return (self.n_states,)

    def shapes(self, n_columns):
        covars = covariance_shape(self.covariance_type, self.parts, n_columns)
        return {"means": (*self.parts, n_columns), "covars": covars}

    def n_columns(self, values):
        means, n_axes = values.get("means"), len(self.parts) + 1
        if means is None:
            return None
        if means.ndim != n_axes:
            words = {2: "two", 3: "three"}[n_axes]
            raise ValueError(f"means_ must have {words} dimensions; got the shape {means.shape}.")
        return means.shape[-1]

    def n_free(self, model):
        parameters = _unpacked(model)
        n_means = parameters["means"].size
        return {"m": n_means, "c": model.family.n_parameters(parameters) - n_means}

    def initialize(self, data, wanted, n_columns, seed, absorbing):
        random_state = check_random_state(seed)
        values = {}
        if "means" in wanted:
            values["means"] = clusters(data, self.n_states, random_state, seed, absorbing).centers
        if "covars" in wanted:
            values["covars"] = self._initial_covariances(self._spread(data, random_state))
        return values

    def _spread(self, data, random_state):
        """The covariance matrix of all rows, with ``min_covar`` added to the variances."""
        matrix = covariance(complete_rows(data, random_state))
        return matrix + self.min_covar * np.eye(len(matrix))

    def _initial_covariances(self, matrix):
        shape = self.shapes(len(matrix))["covars"]
        return initial_covariances(matrix, self.covariance_type, shape)

    def maximize(self, model, statistics, n_sequences):
        moments, old = statistics["moments"] * n_sequences, _unpacked(model)
        new_means, new_covariances = self.m_steps
        new = {"means": old["means"]}
        if "means" not in model.fixed:
            new["means"] = new_means(self, moments, old["means"])
        if "covariances" not in model.fixed:
            new["covariances"] = new_covariances(self, moments, new["means"], old)
        return new

    def kernel_prior(self, model):
        n_columns = model.family.size(model.packed)[1]
        return priors.gaussian_prior(self, n_columns, self.shapes(n_columns)["covars"])

    def draw(self, model, path, random_state):
        means, covariances = (_unpacked(model)[shown.parameter] for shown in self.shown)
        draw = normal_draws(means, covariances, self.covariance_type, random_state)
        return _drawn(draw, path)


@dataclass(frozen=True)
class GaussianMixtureEmissions(GaussianEmissions):
    """A mixture of ``n_mix`` Gaussians for each state."""

    n_mix: int
    weights_prior: object

    shown: ClassVar = (
        Shown("weights", "w", "weights", "weights_"),
        Shown("means", "m", "means", "means_"),
        Shown("covars", "c", "covariances", "covars_"),
    )
    m_steps: ClassVar = (priors.mixture_means, priors.mixture_covariances)

    @property
    def family(self):
        return MixtureOf(Gaussian(self.covariance_type, 0.0), self.n_mix)

    @property
    def parts(self):
        return (self.n_states, self.n_mix)

    def shapes(self, n_columns):
        return {"weights": self.parts, **super().shapes(n_columns)}

    def n_free(self, model):
        counts, n_weights = super().n_free(model), self.n_states * (self.n_mix - 1)
        return {"w": n_weights, "m": counts["m"], "c": counts["c"] - n_weights}

    def initialize(self, data, wanted, n_columns, seed, absorbing):
        random_state = check_random_state(seed)
        values = {}
        if "means" in wanted or "covars" in wanted:
            matrix = self._spread(data, random_state)
        if "weights" in wanted:
            values["weights"] = np.full(self.parts, 1.0 / self.n_mix)
        if "means" in wanted:
            found = clusters(data, self.n_states, random_state, seed, absorbing)
            values["means"] = self._initial_means(found, matrix, random_state, seed)
        if "covars" in wanted:
            values["covars"] = self._initial_covariances(matrix)
        return values

    def _initial_means(self, found, matrix, random_state, seed):
        """The centers of clusters within each state's cluster of rows."""
        middle = found.centers.mean(axis=0)
        means = []
        for state in range(self.n_states):
            mine = found.labels == state
            if mine.sum() >= self.n_mix:
                weights = None if found.sample_weight is None else found.sample_weight[mine]
                within = kmeans(
                    found.X[mine], self.n_mix, n_init=10, random_state=seed, sample_weight=weights
                )
                means.append(np.asarray(within.centers, dtype=float))
            else:
                means.append(random_state.multivariate_normal(middle, matrix, size=self.n_mix))
        return np.stack(means)

    def maximize(self, model, statistics, n_sequences):
        counts, old = statistics["counts"] * n_sequences, _unpacked(model)["weights"]
        prior = priors.shaped_prior(self, "weights_prior", old.shape)
        weights = priors.dirichlet_mode(counts, prior, old, keep_zeros=False)
        return {"weights": weights, **super().maximize(model, statistics, n_sequences)}

    def kernel_prior(self, model):
        n_columns = model.family.size(model.packed)[1]
        return priors.mixture_prior(self, n_columns, self.shapes(n_columns)["covars"])

    def draw(self, model, path, random_state):
        weights, means, covariances = (_unpacked(model)[shown.parameter] for shown in self.shown)
        draws = [
            normal_draws(*parts, self.covariance_type, random_state)
            for parts in zip(means, covariances, strict=True)
        ]

        def draw(state):
            return draws[state](random_state.choice(self.n_mix, p=weights[state]))

        return _drawn(draw, path)


class _OneTable(Emissions):
    """Emissions with a single table of parameters, a row for each state."""

    def value(self, name, array):
        return np.atleast_2d(super().value(name, array))

    def shapes(self, n_columns):
        return {self.shown[0].name: (self.n_states, n_columns)}

    def n_columns(self, values):
        table = values.get(self.shown[0].name)
        return None if table is None else table.shape[-1]


# Poisson counts of so many columns are drawn one by one.
_FEW_COLUMNS = 3


@dataclass(frozen=True)
class PoissonEmissions(_OneTable):
    """Counts, Poisson in each column."""

    lambdas_prior: object
    lambdas_weight: object

    shown: ClassVar = (Shown("lambdas", "l", "rates", "lambdas_"),)
    family: ClassVar = Poisson()

    def initialize(self, data, wanted, n_columns, seed, absorbing):
        mean, variance = mean_and_variance(data)
        random_state = check_random_state(seed)
        shape = (self.n_states, n_columns)
        if variance > 0:
            rates = random_state.gamma(shape=mean**2 / variance, scale=variance / mean, size=shape)
        else:
            rates = max(mean, 1e-3) * random_state.uniform(0.5, 1.5, size=shape)
        return {"lambdas": rates}

    def maximize(self, model, statistics, n_sequences):
        mass, sums = (statistics[name] * n_sequences for name in ("mass", "sums"))
        return {"rates": priors.poisson_rates(self, mass, sums, _unpacked(model)["rates"])}

    def kernel_prior(self, model):
        return priors.poisson_prior(self, model.family.size(model.packed))

    def draw(self, model, path, random_state):
        rates = _unpacked(model)["rates"]
        if rates.shape[1] > _FEW_COLUMNS:
            return _drawn(lambda state: random_state.poisson(rates[state]), path)
        # The same numbers one by one, which for a few columns takes NumPy less time.
        numbers = rates.tolist()
        return _drawn(lambda state: [random_state.poisson(r) for r in numbers[state]], path)


class _Probabilities(_OneTable):
    """Emissions whose table holds probabilities, which are drawn at random to begin with."""

    shown: ClassVar = (Shown("emissionprob", "e", "probabilities", "emissionprob_"),)

    def initialize(self, data, wanted, n_columns, seed, absorbing):
        drawn = check_random_state(seed).rand(*self.shapes(n_columns)["emissionprob"])
        return {"emissionprob": drawn / drawn.sum(axis=1, keepdims=True)}


# The largest table of probabilities that one large symbol may cause: this many numbers (128
# megabytes), or this many for each row of the data.
_FREE_TABLE = 2**24
_TABLE_FOR_ROW = 64
# Symbols are always below this.
_TOO_LARGE_SYMBOL = np.iinfo(np.int32).max


@dataclass(frozen=True)
class CategoricalEmissions(_Probabilities):
    """One column of symbols, whose number is given, or found from the data."""

    emissionprob_prior: object
    n_given: int | None = None
    n_found: int | None = None

    @property
    def n_symbols(self) -> int | None:
        """The number of symbols, if it is known."""
        return self.n_found if self.n_given is None else self.n_given

    @property
    def sized_by_data(self):
        return self.n_given is None

    @property
    def family(self):
        return Categorical(self.n_symbols)

    def shapes(self, n_columns):
        return {"emissionprob": (self.n_states, self.n_symbols)}

    def n_columns(self, values):
        return 1

    def to_parameters(self, values):
        return {"probabilities": values["emissionprob"][:, None, :]}

    def to_values(self, parameters):
        return {"emissionprob": parameters["probabilities"][:, 0, :]}

    def check(self, table, n_before, *, reset):
        if self.n_given is None and (reset or self.n_found is None):
            # Missing symbols are filled in by the only one that is sure to exist.
            missing = check_values(table, Categorical(1), n_before, check=_check_symbols)
        else:
            missing = super().check(table, n_before, reset=reset)
        if table.X.shape[1] != 1:
            raise ValueError(
                f"CategoricalHMM takes one column of symbols; got {table.X.shape[1]}. For several "
                "columns use fastem.HMM(fastem.families.Categorical(n_categories), n_components)."
            )
        return missing

    def fitted_to(self, data, wanted):
        if self.n_given is not None or "emissionprob" not in wanted:
            return self
        found = map_tables(_largest_and_count, data)
        largest = int(max(largest for largest, _ in found))
        if largest < 0:
            raise ValueError("All symbols are missing: there is nothing to learn from.")
        n_rows = sum(count for _, count in found)
        if self.n_states * (largest + 1) > max(_FREE_TABLE, _TABLE_FOR_ROW * n_rows):
            raise ValueError(
                f"The largest symbol is {largest}, so that emissionprob_ would have the shape "
                f"({self.n_states}, {largest + 1}), for {n_rows} rows of data. Symbols are "
                "the numbers 0 .. n_features - 1: number those that occur, for instance by "
                "numpy.unique(X, return_inverse=True), or give n_features if so many are meant."
            )
        return replace(self, n_found=largest + 1)

    def maximize(self, model, statistics, n_sequences):
        old, counts = _unpacked(model)["probabilities"], statistics["counts"] * n_sequences
        prior = priors.shaped_prior(self, "emissionprob_prior", (self.n_states, old.shape[2]))
        new = priors.dirichlet_mode(counts, prior[:, None], old, keep_zeros=False)
        return {"probabilities": new}

    def kernel_prior(self, model):
        shape = (self.n_states, model.packed.probabilities.shape[2])
        return priors.table_prior(priors.shaped_prior(self, "emissionprob_prior", shape))

    def draw(self, model, path, random_state):
        return _drawn(index_draws(_unpacked(model)["probabilities"][:, 0], random_state), path)


def _check_symbols(X):
    """Raise ``ValueError`` unless all entries can be symbols, however many there are."""
    what = "Symbols must be whole numbers, zero or more"
    no_negatives(X, what)
    first_wrong(X, (X != np.floor(X)) | (X >= _TOO_LARGE_SYMBOL), what)


def _largest_and_count(table):
    """The largest symbol, or -1 if all are missing, and how many rows there are."""
    missing = table.missing and np.isnan(table.X).all()
    return (-1 if missing else np.nanmax(table.X)), len(table.X)


@dataclass(frozen=True)
class MultinomialEmissions(_Probabilities):
    """Rows of counts, whose numbers of trials are given, or found from the data."""

    given_trials: object = None
    found_trials: int | None = None

    @property
    def n_trials(self) -> int | None:
        """The number of trials of a row, if it is always the same."""
        given = self.found_trials if self.given_trials is None else self.given_trials
        if isinstance(given, Integral):
            return int(given)
        distinct = np.unique([] if given is None else checks.numbers("n_trials", given))
        if not ((distinct >= 0) & (distinct < np.inf) & (distinct % 1 == 0)).all():
            raise ValueError(f"n_trials must be whole numbers, zero or more; got {given!r}.")
        return int(distinct[0]) if len(distinct) == 1 else None

    @property
    def family(self):
        return Multinomial(self.n_trials)

    def check(self, table, n_before, *, reset):
        missing = super().check(table, n_before, reset=reset)
        if self.given_trials is not None and reset:
            totals = table.X.sum(axis=1)
            given = np.asarray(self.given_trials)
            if given.ndim and given.shape != totals.shape:
                raise ValueError(
                    f"n_trials has {given.size} numbers, and the data have {len(totals)} rows."
                )
            wrong = (totals != given) & ~np.isnan(totals)
            if wrong.any():
                row = int(np.argmax(wrong))
                raise ValueError(
                    f"Row {row} sums to {totals[row]}, and n_trials says "
                    f"{np.broadcast_to(given, totals.shape)[row]}."
                )
        return missing

    def fitted_to(self, data, wanted):
        if self.given_trials is not None:
            return self
        totals = np.unique(np.concatenate(map_tables(_totals, data)))
        return replace(self, found_trials=int(totals[0]) if len(totals) == 1 else None)

    @property
    def found(self):
        return {"n_trials_": self.n_trials}

    def maximize(self, model, statistics, n_sequences):
        old = _unpacked(model)["probabilities"]
        sums = statistics["sums"] * n_sequences
        return {"probabilities": priors.dirichlet_mode(sums, 1.0, old, keep_zeros=False)}

    def kernel_prior(self, model):
        return priors.table_prior(np.ones(model.family.size(model.packed)))

    def draw(self, model, path, random_state):
        n_trials = self.n_trials
        if n_trials is None:
            raise ValueError(
                "For sampling, n_trials must be a single number: model.set_params(n_trials=...)."
            )
        check_drawable(n_trials)
        probabilities = _unpacked(model)["probabilities"].copy()
        # The last outcome gets what rounding left of the sum.
        probabilities[:, -1] = np.maximum(1.0 - probabilities[:, :-1].sum(axis=1), 0.0)
        return _drawn(lambda state: random_state.multinomial(n_trials, probabilities[state]), path)


def _totals(table):
    """What the rows sum to."""
    totals = np.unique(table.X.sum(axis=1))
    return totals[~np.isnan(totals)]


@dataclass(frozen=True)
class FamilyEmissions(Emissions):
    """Emissions of any family, with the family's own names of parameters."""

    given_family: Family | str
    n_jobs: int | None = None

    @property
    def family(self):
        return as_family(self.given_family)

    @property
    def shown(self):
        return tuple(Shown(name, "e", name, f"{name}_") for name in self.family.parameter_names)

    def shapes(self, n_columns):
        example = self.family.start(np.full((self.n_states, n_columns), 0.5))
        return {name: np.shape(array) for name, array in example.items()}

    def n_columns(self, values):
        return None

    def initialize(self, data, wanted, n_columns, seed, absorbing):
        n_states = self.n_states
        found = clusters(data, n_states, check_random_state(seed), seed, absorbing, n_init=1)

        def one_hot(start, stop):
            return np.eye(n_states)[found.labels[start:stop]]

        in_mixture = self.family.beside_weights()
        rough = MixtureModel(
            in_mixture, np.full(n_states, 1.0 / n_states), in_mixture.start(found.centers),
            n_jobs=self.n_jobs,
        )  # fmt: skip
        rows = Table(found.X, found.sample_weight)
        parameters = rough.maximize(rough.expect_given(rows, one_hot)).parameters
        names = zip(self.family.parameter_names, in_mixture.parameter_names, strict=True)
        return {name: parameters[its_name] for name, its_name in names if name in wanted}

    def maximize_given(self, rows, posteriors, parameters) -> dict[str, np.ndarray]:
        """The family's parameters after an M-step from rows and the probabilities of their states.

        ``parameters`` are those before the step.
        """
        in_mixture, n_states = self.family.beside_weights(), self.n_states
        names = dict(zip(self.family.parameter_names, in_mixture.parameter_names, strict=True))
        before = {names[name]: array for name, array in parameters.items()}
        even = np.full(n_states, 1.0 / n_states)
        rough = MixtureModel(in_mixture, even, before, n_jobs=self.n_jobs)
        given = rough.expect_given(Table(rows), lambda start, stop: posteriors[start:stop])
        after = rough.maximize(given).parameters
        return {name: after[its_name] for name, its_name in names.items()}

    def draw(self, model, path, random_state):
        # Families draw many rows at once.
        states = np.array(list(path))
        rng = np.random.default_rng(random_state.randint(2**31))
        return model.family.draw(_unpacked(model), states, rng)
