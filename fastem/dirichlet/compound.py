"""``fastem.CompoundDirichlet``: documents whose words come from a topic of their own."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Literal, Self, overload

import numpy as np
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..drawing import check_drawable
from ..estimator import is_count
from ..kernels.dirichlet.count_tables import ascend
from ..learning_rate import DEFAULT_RATE, Clock
from ..lengths import Lengths
from ..notices import warn
from .base import BaseDirichlet
from .count_tables import CountTables, documents_of
from .model import CompoundDirichletModel

__all__ = ["CompoundDirichlet"]

# The α of a word that is never seen, of which the likelihood would have zero.
_NEVER_SEEN = 1e-10
# Where the moments of the counts allow no precision, or any, the search for it starts here.
_LARGEST_START = 1e4


class CompoundDirichlet(BaseDirichlet):
    """The compound Dirichlet (Dirichlet-multinomial, Pólya) distribution of counts.

    Each document has a topic ``h`` of its own, a point on the simplex drawn from a Dirichlet of
    parameters ``alpha``, from which its words are drawn. Documents, sequencing reads, clicks.

    Parameters
    ----------
    solver : {'newton', 'em'}, default='newton'
        How ``fit`` climbs the likelihood: by EM, or by Newton's method on the likelihood itself,
        which takes some ten steps where EM may take thousands. Both reach the same optimum.
    tol : float, default=1e-6
        ``fit`` stops when no entry of the gradient of the mean log-likelihood, by ``log alpha``,
        is larger than this, or than its rounding error.
    max_iter : int, default=1000
        The most iterations.
    alpha_init : array-like of shape (n_features,), optional
        Where to start; by default from the moments of the counts.
    random_state : int, RandomState instance or None, default=None
        For ``sample`` and the sampled inertia.
    warm_start : bool, default=False
        Whether ``fit`` goes on from the last fit.
    verbose : int, default=0
    verbose_interval : int, default=10
    learning_rate : 'auto', float, callable or Decay, default='auto'
        The rate of online learning. ``'auto'`` counts observations: it goes on from those behind
        the model, and how data are cut into batches hardly matters. A number η, or a function of
        the step 1, 2, ..., is the rate of a whole batch; a smaller one takes its share of it.
    batch_size : int or None, default=None
        Documents of a mini-batch in ``partial_fit``; None takes each call's as one batch, and a
        stream in batches of 1000.
    memory : {'model', 'statistics'}, default='model'
        What online learning remembers: the model alone, or running statistics (Cappé, Moulines).
    inertia : {'exact', 'sampled'}, default='exact'
        How online learning computes the model's own statistics, if the model is the memory: in
        closed form, or from documents drawn from it, as long as those of the batch.
    n_pseudo : int, default=2000
        The number of those documents.
    fixed : iterable of str, default=()
        ``"alpha"`` to learn nothing.
    n_jobs : int or None, default=None
        Threads; None: as many as there are cores, one inside a worker. The result does not depend
        on it.

    Attributes
    ----------
    alpha_ : ndarray of shape (n_features,)
    solver_ : str
        The solver that found it; absent if ``partial_fit`` did.
    n_iter_ : int
    converged_ : bool
    lower_bound_ : float
        The mean log-likelihood of the documents.
    lower_bounds_ : list of float
        The same after each iteration.
    mean_length_ : float
        The mean length of the documents last learned from.
    n_steps_ : int or float
        Online steps since the last ``fit``; a batch of a half counts a half.
    n_observations_ : float
        The weight of the observations behind the model, of the last ``fit`` and since.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> rng = np.random.default_rng(0)
    >>> topics = rng.dirichlet([1.0, 2.0, 5.0], size=5000)
    >>> model = fastem.CompoundDirichlet().fit(rng.multinomial(50, topics))
    >>> model.alpha_.round(1)
    array([1., 2., 5.])
    """

    _parameter_constraints = {  # noqa: RUF012
        **BaseDirichlet._parameter_constraints,
        "solver": [StrOptions({"em", "newton"})],
        "tol": [Interval(Real, 0.0, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
        "verbose_interval": [Interval(Integral, 1, None, closed="left")],
        "inertia": [StrOptions({"exact", "sampled"})],
        "n_pseudo": [Interval(Integral, 1, None, closed="left")],
    }

    _learned_kinds = {  # noqa: RUF012
        **BaseDirichlet._learned_kinds,
        "mean_length_": is_count,
        "solver_": lambda value: value in ("em", "newton"),
    }
    _kind = CompoundDirichletModel
    _sparse = True

    def __init__(
        self,
        *,
        solver="newton",
        tol=1e-6,
        max_iter=1000,
        alpha_init=None,
        random_state=None,
        warm_start=False,
        verbose=0,
        verbose_interval=10,
        learning_rate=DEFAULT_RATE,
        batch_size=None,
        memory="model",
        inertia="exact",
        n_pseudo=2000,
        fixed=(),
        n_jobs=None,
    ):
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.alpha_init = alpha_init
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.verbose_interval = verbose_interval
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.memory = memory
        self.inertia = inertia
        self.n_pseudo = n_pseudo
        self.fixed = fixed
        self.n_jobs = n_jobs

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags

    # Learning --------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None) -> Self:
        """Fit to documents: the counts are tabulated in one pass, and the tables are climbed.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_documents, n_words), or stream of such
            Counts: whole numbers, of any type. A stream is an iterable, or a function that
            returns one; items may be pairs ``(array, weights)``. It is read once.
        y : ignored
        sample_weight : array-like of shape (n_documents,), optional
            A document of weight 2 counts as two.

        Returns
        -------
        self
        """
        with self._all_or_nothing():
            resumed = self.warm_start and hasattr(self, "alpha_")
            data = self._check_data(X, sample_weight, reset=not resumed, once=True)
            tables = CountTables.of(data, self.n_jobs)
            if resumed:
                start = self._model().alpha
                if len(start) != tables.n_words:
                    raise ValueError(
                        f"The documents have {tables.n_words} words, and alpha_ has {len(start)} "
                        "entries."
                    )
            elif self.alpha_init is not None:
                start = self._given_alpha(tables.n_words)
            else:
                start = start_from_moments(tables)
            self._run(self._make_model(start), tables)
            self.mean_length_ = Lengths(*tables.lengths()).mean
            self.solver_ = self.solver
            self._set_clock(Clock(observations=tables.weight))
            self._forget()
        return self

    def _run(self, model, tables):
        """Climb the mean log-likelihood of the documents until its gradient is small."""
        alpha = model.alpha.copy()
        coefficient = tables.log_coefficient
        never = _never_seen(tables)
        if not model.fixed:
            alpha[never] = np.minimum(alpha[never], _NEVER_SEEN * min(1.0, alpha.sum()))
        level = tables.log_likelihood(alpha) - coefficient
        bounds, n_iter, converged = [], 0, bool(model.fixed)
        while not converged:
            first, second = tables.derivatives(alpha)
            slope = alpha * (first[:-1] - first[-1])
            # The likelihood of a word that is never seen only falls with its α, which stays.
            slope[never] = 0.0
            steepest = np.abs(slope).max()
            # A slope is the difference of two sums; what rounding leaves of it says nothing.
            terms = alpha * (np.abs(first[:-1]) + abs(first[-1]))
            if steepest <= max(self.tol, 4.0 * np.finfo(float).eps * terms.max()):
                converged = True
                break
            if n_iter == self.max_iter:
                break
            n_iter += 1
            before, previous, step = alpha.copy(), level, "EM"
            if self.solver == "em":
                expectation = model.with_parameters({"alpha": alpha}).expect(tables)
                alpha = model.with_parameters({"alpha": alpha}).maximize(
                    expectation.statistics
                ).alpha  # fmt: skip
                level = tables.log_likelihood(alpha) - coefficient
            else:
                level, newton = ascend(tables.finished(), alpha, first, second, level)
                step = "Newton" if newton else "fixed point"
            bounds.append(float(level + coefficient))
            if self.verbose and n_iter % self.verbose_interval == 0:
                change = f", log-likelihood {bounds[-1]:.6f} (+{level - previous:.2g})"
                print(f"  Iteration {n_iter}, {step}: gradient {steepest:.3g}{change}")
            if np.array_equal(alpha, before):
                # As high as rounding lets see.
                break
        if self.verbose:
            end = "converged" if converged else "did not converge"
            print(f"{self.solver} {end} after {n_iter} iterations.")
        if not converged and self.max_iter > 0:
            warn(
                f"The gradient is still {steepest:.2g} after {n_iter} iterations of "
                f"solver={self.solver!r}, more than tol={self.tol}. Try solver='newton', a larger "
                "max_iter or tol.",
                ConvergenceWarning,
            )
        self.alpha_ = alpha
        self.n_iter_ = n_iter
        self.converged_ = converged
        self.lower_bound_ = float(level + coefficient)
        self.lower_bounds_ = bounds

    def _first_alpha(self, table):
        return start_from_moments(CountTables.of(table, self.n_jobs))

    def _learn(self, table, size, model=None):
        super()._learn(table, size, model)
        X, w = table.X, table.sample_weight
        lengths = np.asarray(X.sum(axis=1)).ravel()
        self.mean_length_ = float(np.average(lengths, weights=w))
        if hasattr(self, "solver_"):
            del self.solver_

    def _online_options(self, n_steps):
        if self.inertia == "exact":
            return {}
        # A seed that is given means the same documents in each run, yet others at each step.
        seed = check_random_state(self.random_state).randint(2**31)
        return {"n_pseudo": self.n_pseudo, "seed": (seed + 7919 * n_steps) % 2**31}

    # Using the model -------------------------------------------------------------------------

    def transform(self, X) -> np.ndarray:
        """The mean of each document's topic given its words, ``E[h|v] = (v + α) / (n + α₀)``.

        Returns
        -------
        topics : ndarray of shape (n_documents, n_words)
            Dense, as no entry is zero.
        """
        X = self._checked(X)
        if sparse.issparse(X):
            documents_of(X, 0, X.shape[0])  # raises for what is not a count
            topics = X.toarray().astype(float)
        else:
            for start in range(0, len(X), 16_384):
                documents_of(X, start, min(start + 16_384, len(X)))
            topics = X.astype(float)
        lengths = topics.sum(axis=1, keepdims=True)
        alpha = self._model().alpha
        if len(alpha) != topics.shape[1]:
            raise ValueError(
                f"The documents have {topics.shape[1]} words, and alpha_ has {len(alpha)} entries."
            )
        topics += alpha
        topics /= lengths + alpha.sum()
        return topics

    def fit_transform(self, X, y=None, sample_weight=None) -> np.ndarray:
        """Fit, and return the mean of each document's topic."""
        return self.fit(X, sample_weight=sample_weight).transform(X)

    @overload
    def sample(
        self, n_samples=1, lengths=None, *, as_sparse: Literal[False] = False
    ) -> np.ndarray: ...

    @overload
    def sample(
        self, n_samples=1, lengths=None, *, as_sparse: Literal[True]
    ) -> sparse.csr_array: ...

    def sample(self, n_samples=1, lengths=None, *, as_sparse=False):
        """Draw documents from the model.

        Parameters
        ----------
        n_samples : int, default=1
        lengths : int or array-like of shape (n_samples,), optional
            The number of words of each; by default the mean of those learned from.
        as_sparse : bool, default=False
            Whether to return a sparse matrix.

        Returns
        -------
        X : ndarray or sparse array of shape (n_samples, n_words), of integers
        """
        check_is_fitted(self, "alpha_")
        if n_samples < 1:
            raise ValueError(f"n_samples must be 1 or more; got {n_samples}.")
        if lengths is None:
            if not hasattr(self, "mean_length_"):
                raise ValueError("This model has seen no documents: give the lengths to draw.")
            lengths = np.rint(self.mean_length_)
        lengths = np.asarray(lengths)
        if lengths.dtype.kind == "O":  # of numbers too large for other types
            lengths = lengths.astype(float)
        if lengths.shape not in ((), (n_samples,)):
            raise ValueError(
                f"lengths must be one number, or one for each of the {n_samples} documents; got "
                f"the shape {lengths.shape}."
            )
        if not np.isfinite(lengths).all() or (lengths < 0).any() or (lengths % 1 != 0).any():
            raise ValueError("lengths must be whole numbers, zero or more.")
        check_drawable(lengths.max(initial=0))
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        X = self._model().draw(n_samples, rng, lengths)
        return X if as_sparse else X.toarray()


def start_from_moments(tables) -> np.ndarray:
    """α whose first and second moments are those of the counts, roughly.

    ``E[v_j (v_j - 1)] = n (n - 1) m_j (m_j α₀ + 1) / (α₀ + 1)`` with ``m_j = α_j / α₀``; summed
    over words, that gives α₀. Each word is granted half an occurrence more than it has.
    """
    first, second = tables.moments()
    n_words = tables.n_words
    means = (first[:-1] + 0.5) / (first[-1] + 0.5 * n_words)
    if not second[-1] > 0:
        # Documents of one word each say nothing of the precision.
        return means * n_words
    shares = first[:-1] / first[-1]
    same = second[:-1].sum() / second[-1]
    excess = same - shares @ shares
    precision = _LARGEST_START
    if excess > 0:
        precision = np.clip((1.0 - same) / excess, 1e-6, _LARGEST_START)
    return means * precision


def _never_seen(tables):
    starts = tables.finished().starts
    return starts[1:-1] == starts[:-2]
