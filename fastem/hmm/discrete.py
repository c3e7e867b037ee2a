"""``fastem.PoissonHMM``, ``CategoricalHMM`` and ``MultinomialHMM``: hmmlearn's classes."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_random_state

from .. import checks
from ..data.remote import map_tables
from ..data.sequences import Sequences
from ..drawing import check_drawable
from ..families import Categorical, Multinomial, Poisson
from ..learning_rate import DEFAULT_RATE
from ..sklearn_compat import Interval
from .base import BaseHMM
from .priors import dirichlet_mode, poisson_rates

__all__ = ["CategoricalHMM", "MultinomialHMM", "PoissonHMM"]

# How large a table of probabilities may be that one large symbol asks for: so many numbers (128
# megabytes), or so many for each row of the data.
_FREE_TABLE = 2**24
_TABLE_FOR_ROW = 64


class _DiscreteHMM(BaseHMM):
    """Emissions with one array of parameters, a row for each state."""

    _parameter: str

    @property
    def n_features(self) -> int:
        """The number of columns."""
        array = getattr(self, f"{self._parameter}_", None)
        return self.n_features_in_ if array is None else np.shape(np.atleast_2d(array))[1]

    @n_features.setter
    def n_features(self, n_features):
        self.n_features_in_ = int(n_features)

    def _emission(self, name):
        return np.atleast_2d(super()._emission(name))

    def _n_columns(self, emissions):
        return emissions[self._parameter].shape[-1]

    def _emission_shapes(self, n_columns):
        return {self._parameter: (self.n_components, n_columns)}


class PoissonHMM(_DiscreteHMM):
    """A hidden Markov model with Poisson emissions, with the interface of hmmlearn's class.

    Parameters
    ----------
    n_components : int, default=1
        The number of states.
    startprob_prior, transmat_prior : float or array-like, default=1.0
        Dirichlet priors of ``startprob_`` and of the rows of ``transmat_``; one is none. Priors
        act in :meth:`fit` alone: online, the present model plays their part.
    lambdas_prior, lambdas_weight : float or array-like, default=0.0
        Parameters α and β of the gamma prior of the rates. A batch step gives
        ``(α + n ȳ) / (β + n)``, with ȳ the mean of the state and, as in hmmlearn, n the number of
        steps of all states.
    algorithm : {'viterbi', 'map'}, default='viterbi'
        How :meth:`decode` and :meth:`predict` choose states.
    random_state : int, RandomState instance or None, default=None
    n_iter : int, default=10
        The most iterations of EM.
    tol : float, default=1e-2
        EM stops when the log-likelihood of all sequences rises by less.
    verbose : bool, default=False
        Whether each iteration is printed to standard error.
    params, init_params : str, default='stl'
        What is learned, and what the start decides: any of 's' for ``startprob_``, 't' for
        ``transmat_`` and 'l' for ``lambdas_``.
    implementation : {'log', 'scaling'}, default='log'
        Accepted for hmmlearn's sake: both are the same here, as fast as scaling and as exact as
        logarithms.
    absorbing, learning_rate, batch_size, memory, n_jobs
        As for :class:`~fastem.GaussianHMM`.
    fixed : iterable of str, default=()
        Which of ``"startprob"``, ``"transmat"``, ``"lambdas"`` learning leaves alone.

    Attributes
    ----------
    startprob_ : ndarray of shape (n_components,)
    transmat_ : ndarray of shape (n_components, n_components)
    lambdas_ : ndarray of shape (n_components, n_features)
        The rates.
    n_features, monitor_, converged_, n_iter_, lower_bounds_, n_steps_
        As for :class:`~fastem.GaussianHMM`.

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> counts = np.random.default_rng(0).poisson(np.repeat([2.0, 30.0], 60)).reshape(-1, 1)
    >>> model = fastem.PoissonHMM(2, random_state=3, n_iter=50).fit(counts)
    >>> np.sort(model.lambdas_.ravel()).round()
    array([ 2., 31.])
    """

    _parameter_constraints = {  # noqa: RUF012
        **BaseHMM._parameter_constraints,
        "lambdas_prior": [Real, "array-like"],
        "lambdas_weight": [Real, "array-like"],
    }
    _letters = {"startprob": "s", "transmat": "t", "lambdas": "l"}  # noqa: RUF012
    _family_names = {"lambdas": "rates"}  # noqa: RUF012
    _parameter = "lambdas"

    def __init__(
        self,
        n_components=1,
        startprob_prior=1.0,
        transmat_prior=1.0,
        lambdas_prior=0.0,
        lambdas_weight=0.0,
        algorithm="viterbi",
        random_state=None,
        n_iter=10,
        tol=1e-2,
        verbose=False,
        params="stl",
        init_params="stl",
        implementation="log",
        *,
        absorbing=None,
        learning_rate=DEFAULT_RATE,
        batch_size=None,
        memory="model",
        fixed=(),
        n_jobs=None,
    ):
        super().__init__(
            n_components, startprob_prior, transmat_prior, algorithm, random_state, n_iter, tol,
            verbose, params, init_params, implementation, absorbing=absorbing,
            learning_rate=learning_rate, batch_size=batch_size, memory=memory, fixed=fixed,
            n_jobs=n_jobs,
        )  # fmt: skip
        self.lambdas_prior = lambdas_prior
        self.lambdas_weight = lambdas_weight

    def _family(self):
        return Poisson()

    def _n_emission_parameters(self, n_columns):
        return {"lambdas": self.n_components * n_columns}

    def _start_emissions(self, data, wanted, n_columns):
        mean, variance = _mean_and_variance(data)
        random_state = check_random_state(self.random_state)
        shape = (self.n_components, n_columns)
        if variance > 0:
            rates = random_state.gamma(shape=mean**2 / variance, scale=variance / mean, size=shape)
        else:
            rates = max(mean, 1e-3) * random_state.uniform(0.5, 1.5, size=shape)
        return {"lambdas": rates}

    def _step_emissions(self, model, statistics, n_sequences):
        rates = poisson_rates(
            statistics["mass"] * n_sequences, statistics["sums"] * n_sequences,
            self.lambdas_prior, self.lambdas_weight, model.parameters["rates"],
        )  # fmt: skip
        return {"rates": rates}

    def _emit(self, random_state):
        rates = self._emission("lambdas")
        return lambda state: random_state.poisson(rates[state])


class CategoricalHMM(_DiscreteHMM):
    """A hidden Markov model with categorical emissions, with the interface of hmmlearn's class.

    The data have one column, of whole numbers ``0 .. n_features - 1``.

    Parameters
    ----------
    n_components : int, default=1
        The number of states.
    startprob_prior, transmat_prior : float or array-like, default=1.0
        Dirichlet priors of ``startprob_`` and of the rows of ``transmat_``; one is none. Priors
        act in :meth:`fit` alone: online, the present model plays their part.
    emissionprob_prior : float or array-like, default=1.0
        Dirichlet prior of the rows of ``emissionprob_``.
    n_features : int, optional
        The number of symbols; by default one more than the largest of the data. Give it for
        online learning, whose first sequences may lack some.
    algorithm : {'viterbi', 'map'}, default='viterbi'
        How :meth:`decode` and :meth:`predict` choose states.
    random_state : int, RandomState instance or None, default=None
    n_iter : int, default=10
        The most iterations of EM.
    tol : float, default=1e-2
        EM stops when the log-likelihood of all sequences rises by less.
    verbose : bool, default=False
        Whether each iteration is printed to standard error.
    params, init_params : str, default='ste'
        What is learned, and what the start decides: any of 's' for ``startprob_``, 't' for
        ``transmat_`` and 'e' for ``emissionprob_``.
    implementation : {'log', 'scaling'}, default='log'
        Accepted for hmmlearn's sake: both are the same here, as fast as scaling and as exact as
        logarithms.
    absorbing, learning_rate, batch_size, memory, n_jobs
        As for :class:`~fastem.GaussianHMM`.
    fixed : iterable of str, default=()
        Which of ``"startprob"``, ``"transmat"``, ``"emissionprob"`` learning leaves alone.

    Attributes
    ----------
    startprob_ : ndarray of shape (n_components,)
    transmat_ : ndarray of shape (n_components, n_components)
    emissionprob_ : ndarray of shape (n_components, n_features)
    monitor_, converged_, n_iter_, lower_bounds_, n_steps_
        As for :class:`~fastem.GaussianHMM`.

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> symbols = np.repeat([0, 1, 0, 2], 25).reshape(-1, 1)
    >>> model = fastem.CategoricalHMM(2, random_state=1, n_iter=50).fit(symbols)
    >>> model.n_features
    3
    """

    _parameter_constraints = {  # noqa: RUF012
        **BaseHMM._parameter_constraints,
        "emissionprob_prior": [Real, "array-like"],
        "n_features": [Interval(Integral, 1, None, closed="left"), None],
    }
    _letters = {"startprob": "s", "transmat": "t", "emissionprob": "e"}  # noqa: RUF012
    _family_names = {"emissionprob": "probabilities"}  # noqa: RUF012
    _parameter = "emissionprob"

    def __init__(
        self,
        n_components=1,
        startprob_prior=1.0,
        transmat_prior=1.0,
        *,
        emissionprob_prior=1.0,
        n_features=None,
        algorithm="viterbi",
        random_state=None,
        n_iter=10,
        tol=1e-2,
        verbose=False,
        params="ste",
        init_params="ste",
        implementation="log",
        absorbing=None,
        learning_rate=DEFAULT_RATE,
        batch_size=None,
        memory="model",
        fixed=(),
        n_jobs=None,
    ):
        super().__init__(
            n_components, startprob_prior, transmat_prior, algorithm, random_state, n_iter, tol,
            verbose, params, init_params, implementation, absorbing=absorbing,
            learning_rate=learning_rate, batch_size=batch_size, memory=memory, fixed=fixed,
            n_jobs=n_jobs,
        )  # fmt: skip
        self.emissionprob_prior = emissionprob_prior
        self.n_features = n_features

    @property
    def n_features(self) -> int | None:
        """The number of symbols: as given, or else as found."""
        if self._given_features is None and hasattr(self, "emissionprob_"):
            return np.shape(np.atleast_2d(self.emissionprob_))[1]
        return self._given_features

    @n_features.setter
    def n_features(self, n_features):
        self._given_features = n_features

    def get_params(self, deep=True):
        """The settings as they were given: a number of symbols that was found is none of them."""
        return {**super().get_params(deep), "n_features": self._given_features}

    def _family(self):
        return Categorical(self._n_symbols if self.n_features is None else self.n_features)

    def _support(self, reset):
        if self._given_features is None and (reset or not hasattr(self, "emissionprob_")):
            return _AnySymbols()
        return self._family()

    def _check_table(self, table, n_before=0, *, reset):
        table = super()._check_table(table, n_before, reset=reset)
        if table.X.shape[1] != 1:
            raise ValueError(
                f"CategoricalHMM takes one column of symbols; got {table.X.shape[1]}. For several "
                "columns use fastem.HMM(fastem.families.Categorical(n_categories), n_components)."
            )
        return table

    def _begin(self, data, overwrite):
        if self._given_features is not None:
            return
        if hasattr(self, "emissionprob_") and not (overwrite and "e" in self.init_params):
            return
        # The old number of symbols goes with the old probabilities.
        vars(self).pop("emissionprob_", None)
        found = map_tables(_largest_and_count, data)
        largest = int(max(largest for largest, _ in found))
        if largest < 0:
            raise ValueError("All symbols are missing: there is nothing to learn from.")
        n_rows = sum(count for _, count in found)
        if self.n_components * (largest + 1) > max(_FREE_TABLE, _TABLE_FOR_ROW * n_rows):
            raise ValueError(
                f"The largest symbol is {largest}, so that emissionprob_ would have the shape "
                f"({self.n_components}, {largest + 1}), for {n_rows} rows of data. Symbols are "
                "the numbers 0 .. n_features - 1: number those that occur, for instance by "
                "numpy.unique(X, return_inverse=True), or give n_features if so many are meant."
            )
        self._n_symbols = largest + 1

    def _take_width(self, model):
        self.n_features_in_ = 1

    def _n_columns(self, emissions):
        return 1

    def _emission_shapes(self, n_columns):
        n_symbols = self._n_symbols if self.n_features is None else self.n_features
        return {"emissionprob": (self.n_components, n_symbols)}

    def _to_family(self, emissions):
        return {"probabilities": emissions["emissionprob"][:, None, :]}

    def _from_family(self, parameters):
        return {"emissionprob": parameters["probabilities"][:, 0, :]}

    def _n_emission_parameters(self, n_columns):
        n_symbols = self._n_symbols if self.n_features is None else self.n_features
        return {"emissionprob": self.n_components * (n_symbols - 1)}

    def _start_emissions(self, data, wanted, n_columns):
        shape = self._emission_shapes(n_columns)["emissionprob"]
        drawn = check_random_state(self.random_state).rand(*shape)
        return {"emissionprob": drawn / drawn.sum(axis=1, keepdims=True)}

    def _step_emissions(self, model, statistics, n_sequences):
        old = model.parameters["probabilities"]
        prior = np.asarray(self.emissionprob_prior, dtype=float)
        shape = (self.n_components, old.shape[2])
        try:
            prior = np.broadcast_to(prior, shape)
        except ValueError:
            raise ValueError(
                f"emissionprob_prior must be a number, or have the shape {shape}; got "
                f"{prior.shape}."
            ) from None
        counts = statistics["counts"] * n_sequences
        return {"probabilities": dirichlet_mode(counts, prior[:, None], old, keep_zeros=False)}

    def _emit(self, random_state):
        cumulative = np.cumsum(self._emission("emissionprob"), axis=1)
        top = cumulative.shape[1] - 1

        def draw(state):
            found = np.searchsorted(cumulative[state], random_state.rand(), side="right")
            return [min(int(found), top)]

        return draw


class MultinomialHMM(_DiscreteHMM):
    """A hidden Markov model with multinomial emissions, with the interface of hmmlearn's class.

    A row holds the counts of ``n_features`` outcomes in so many trials.

    Parameters
    ----------
    n_components : int, default=1
        The number of states.
    n_trials : int or array-like of int, optional
        The number of trials of every row, or of each. If given, the rows of the data must sum to
        it. A single number is needed for :meth:`sample`; if none is given, it is that of the
        data, if their rows agree.
    startprob_prior, transmat_prior : float or array-like, default=1.0
        Dirichlet priors of ``startprob_`` and of the rows of ``transmat_``; one is none. Priors
        act in :meth:`fit` alone: online, the present model plays their part.
    algorithm : {'viterbi', 'map'}, default='viterbi'
        How :meth:`decode` and :meth:`predict` choose states.
    random_state : int, RandomState instance or None, default=None
    n_iter : int, default=10
        The most iterations of EM.
    tol : float, default=1e-2
        EM stops when the log-likelihood of all sequences rises by less.
    verbose : bool, default=False
        Whether each iteration is printed to standard error.
    params, init_params : str, default='ste'
        What is learned, and what the start decides: any of 's' for ``startprob_``, 't' for
        ``transmat_`` and 'e' for ``emissionprob_``.
    implementation : {'log', 'scaling'}, default='log'
        Accepted for hmmlearn's sake: both are the same here, as fast as scaling and as exact as
        logarithms.
    absorbing, learning_rate, batch_size, memory, n_jobs
        As for :class:`~fastem.GaussianHMM`.
    fixed : iterable of str, default=()
        Which of ``"startprob"``, ``"transmat"``, ``"emissionprob"`` learning leaves alone.

    Attributes
    ----------
    startprob_ : ndarray of shape (n_components,)
    transmat_ : ndarray of shape (n_components, n_components)
    emissionprob_ : ndarray of shape (n_components, n_features)
    n_trials_ : int or None
        The number of trials of every row that was fitted, if they agree.
    n_features, monitor_, converged_, n_iter_, lower_bounds_, n_steps_
        As for :class:`~fastem.GaussianHMM`.
    """

    _parameter_constraints = {  # noqa: RUF012
        **BaseHMM._parameter_constraints,
        "n_trials": [Interval(Integral, 0, None, closed="left"), "array-like", None],
    }
    _letters = {"startprob": "s", "transmat": "t", "emissionprob": "e"}  # noqa: RUF012
    _family_names = {"emissionprob": "probabilities"}  # noqa: RUF012
    _learned_kinds = {  # noqa: RUF012
        **BaseHMM._learned_kinds,
        "n_trials_": lambda value: value is None or (isinstance(value, Integral) and value >= 0),
    }
    _parameter = "emissionprob"

    def __init__(
        self,
        n_components=1,
        n_trials=None,
        startprob_prior=1.0,
        transmat_prior=1.0,
        algorithm="viterbi",
        random_state=None,
        n_iter=10,
        tol=1e-2,
        verbose=False,
        params="ste",
        init_params="ste",
        implementation="log",
        *,
        absorbing=None,
        learning_rate=DEFAULT_RATE,
        batch_size=None,
        memory="model",
        fixed=(),
        n_jobs=None,
    ):
        super().__init__(
            n_components, startprob_prior, transmat_prior, algorithm, random_state, n_iter, tol,
            verbose, params, init_params, implementation, absorbing=absorbing,
            learning_rate=learning_rate, batch_size=batch_size, memory=memory, fixed=fixed,
            n_jobs=n_jobs,
        )  # fmt: skip
        self.n_trials = n_trials

    def _family(self):
        return Multinomial(self._single_trials())

    def _single_trials(self):
        """The number of trials of a row, if it is always the same."""
        given = getattr(self, "n_trials_", None) if self.n_trials is None else self.n_trials
        if isinstance(given, Integral):
            return int(given)
        distinct = np.unique([] if given is None else checks.numbers("n_trials", given))
        if not ((distinct >= 0) & (distinct < np.inf) & (distinct % 1 == 0)).all():
            raise ValueError(f"n_trials must be whole numbers, zero or more; got {given!r}.")
        return int(distinct[0]) if len(distinct) == 1 else None

    def _check_table(self, table, n_before=0, *, reset):
        table = super()._check_table(table, n_before, reset=reset)
        if self.n_trials is not None and reset:
            totals = table.X.sum(axis=1)
            given = np.asarray(self.n_trials)
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
        return table

    def _begin(self, data, overwrite):
        if self.n_trials is None:
            totals = np.unique(np.concatenate(map_tables(_totals, data)))
            self.n_trials_ = int(totals[0]) if len(totals) == 1 else None
        else:
            self.n_trials_ = self._single_trials()

    def _n_emission_parameters(self, n_columns):
        return {"emissionprob": self.n_components * (n_columns - 1)}

    def _start_emissions(self, data, wanted, n_columns):
        drawn = check_random_state(self.random_state).rand(self.n_components, n_columns)
        return {"emissionprob": drawn / drawn.sum(axis=1, keepdims=True)}

    def _step_emissions(self, model, statistics, n_sequences):
        old = model.parameters["probabilities"]
        sums = statistics["sums"] * n_sequences
        return {"probabilities": dirichlet_mode(sums, 1.0, old, keep_zeros=False)}

    def _emit(self, random_state):
        n_trials = self._single_trials()
        if n_trials is None:
            raise ValueError(
                "For sampling, n_trials must be a single number: model.set_params(n_trials=...)."
            )
        check_drawable(n_trials)
        probabilities = self._emission("emissionprob").copy()
        # The last takes what rounding leaves.
        probabilities[:, -1] = np.maximum(1.0 - probabilities[:, :-1].sum(axis=1), 0.0)
        return lambda state: random_state.multinomial(n_trials, probabilities[state])


class _AnySymbols(Categorical):
    """Symbols whose number is not known yet."""

    def __init__(self):
        super().__init__(np.iinfo(np.int32).max)

    def start(self, centers):
        return Categorical(1).start(centers)

    def check(self, X):
        from ..families.support import first_wrong, no_negatives

        what = "Symbols must be whole numbers, zero or more"
        no_negatives(X, what)
        first_wrong(X, (X != np.floor(X)) | (X >= self.n_categories), what)


def _largest_and_count(table):
    """The largest symbol, or -1 if all are missing, and how many rows there are."""
    missing = table.missing and np.isnan(table.X).all()
    return (-1 if missing else np.nanmax(table.X)), len(table.X)


def _totals(table):
    """What the rows sum to."""
    totals = np.unique(table.X.sum(axis=1))
    return totals[~np.isnan(totals)]


def _mean_and_variance(data):
    """Of all entries of the data; sequences count by their weights."""
    if isinstance(data, Sequences) and not data.missing and data.sample_weight is None:
        return data.X.mean(), data.X.var()
    total, mean, scatter = 0.0, 0.0, 0.0
    for table in data.tables():
        X = np.asarray(table.X, dtype=float)
        weights = np.ones(len(X)) if table.row_weights is None else table.row_weights
        weights = np.where(np.isnan(X), 0.0, weights[:, None])
        weight = weights.sum()
        if weight > 0:
            X = np.nan_to_num(X)
            middle = (weights * X).sum() / weight
            shift = middle - mean
            scatter += (weights * (X - middle) ** 2).sum()
            scatter += shift**2 * total * weight / (total + weight)
            mean += shift * weight / (total + weight)
            total += weight
    if total == 0:
        raise ValueError("All values are missing: there is nothing to learn from.")
    return mean, scatter / total
