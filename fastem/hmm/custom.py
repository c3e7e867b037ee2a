"""Hidden Markov models with emissions of the user's own: hmmlearn's hooks, and fastem's recursions.

A *hook* is a method that hmmlearn documents for subclasses, such as ``_compute_log_likelihood`` and
``_do_mstep``. :class:`BaseHMM` calls the hooks as hmmlearn does. The estimators of this package are
subclasses of it: they have the same hooks, so that ``super()._do_mstep(stats)`` works, and learn
through the hooks as soon as a subclass overrides one. Otherwise kernels take the place of hooks.
"""

from __future__ import annotations

import logging
import string
from types import FunctionType
from typing import Self

import numpy as np
from scipy.special import logsumexp
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted

from .. import algebra, checks
from ..data.remote import Remote
from ..data.sequences import Sequences, SequenceStream, as_sequences
from ..estimator import Estimator
from ..exceptions import Customized
from ..progress import display_of
from ..statistics import Expectation
from ..stopping import ConvergenceMonitor, Monitored
from . import recursions
from .chain import Chain
from .inference import HMMInference
from .priors import dirichlet_mode

__all__ = ["BaseHMM", "Customized", "HookedModel", "overridden_hooks"]

_log = logging.getLogger(__name__)

#: Methods that a subclass can override.
HOOKS = frozenset({
    "_init", "_check", "_check_sum_1", "_check_and_set_n_features", "_needs_init",
    "_compute_likelihood", "_compute_log_likelihood", "_compute_log_weighted_gaussian_densities",
    "_generate_sample_from_state", "_initialize_sufficient_statistics",
    "_accumulate_sufficient_statistics", "_accumulate_sufficient_statistics_log",
    "_accumulate_sufficient_statistics_scaling", "_needs_sufficient_statistics_for_mean",
    "_needs_sufficient_statistics_for_covars", "_get_n_fit_scalars_per_param", "_do_estep",
    "_do_mstep", "_estep_begin", "_compute_lower_bound", "_fit_log", "_fit_scaling",
    "_compute_posteriors_log", "_compute_posteriors_scaling", "_decode_viterbi", "_decode_map",
    # Of variational models.
    "_compute_subnorm_likelihood", "_compute_subnorm_log_likelihood",
})  # fmt: skip

#: Methods of hmmlearn's that nothing here calls.
_NOT_CALLED = frozenset({"_score", "_score_log", "_score_scaling"})

_NAMES = tuple(sorted(HOOKS | _NOT_CALLED))


def overridden_hooks(estimator) -> list[str]:
    """The hooks that are not those of this package, in a subclass or in the object itself."""
    # Looked for each time, because a hook can also be set later on.
    kind, own = type(estimator), vars(estimator)
    return [name for name in _NAMES if name in own or _is_foreign(getattr(kind, name, None))]


#: Methods that were found to be written here: every call asks for all of them.
_ours: set[FunctionType] = set()


def _is_foreign(method):
    """Whether a method was not written here."""
    if method is None or (type(method) is FunctionType and method in _ours):
        return False
    module = getattr(method, "__module__", None)
    if not isinstance(module, str) or not module.startswith("fastem."):
        return True
    if type(method) is FunctionType:
        _ours.add(method)
    return False


def what_is_customized(estimator, names) -> str:
    """The words of :class:`Customized`."""
    return (
        f"{type(estimator).__name__} overrides {', '.join(names)}: fit, score, score_samples, "
        "score_sequences, decode, predict, predict_proba, sample, aic and bic call this, and "
        "nothing else does. Use these, or the class itself instead of the subclass."
    )


class HookedModel:
    """The present parameters of an estimator, as its hooks use them.

    Parameters
    ----------
    estimator : BaseHMM
    lengths : array-like of int, optional
        The lengths of the data of ``fit``, as hooks see them.
    """

    few = None

    def __init__(self, estimator, lengths=None):
        self.estimator, self.lengths = estimator, lengths
        not_called = _NOT_CALLED.intersection(overridden_hooks(estimator))
        if not_called:
            raise TypeError(
                f"{type(estimator).__name__} overrides {', '.join(sorted(not_called))}, which "
                "fastem does not call. Override _compute_log_likelihood, _fit_log or "
                "_decode_viterbi instead."
            )

    @property
    def startprob(self) -> np.ndarray:
        """The start of the chain."""
        return self.estimator.startprob_

    @property
    def transmat(self) -> np.ndarray:
        """The transitions of the chain."""
        return self.estimator.transmat_

    def expect(self, data) -> Expectation:
        """The E-step: the statistics of all data together, as one observation."""
        lengths = data.lengths if self.lengths is None else self.lengths
        statistics, log_likelihood = self.estimator._do_estep(data.X, lengths)
        bound = self.estimator._compute_lower_bound(log_likelihood)
        return Expectation(statistics, bound, 1.0)

    def with_horizon(self, horizon) -> Self:
        """This model: the lengths of sequences are no part of it."""
        return self

    def infer(self, table, *, posteriors) -> tuple[np.ndarray, np.ndarray]:
        """The log-likelihood of each sequence, and posteriors of all rows if they are wanted."""
        scores, rows = [], [np.empty((0, self.estimator.n_components))]
        for X in table.split():
            score, gamma = self._smoothed(X, posteriors)
            scores.append(score)
            if posteriors:
                rows.append(gamma)
        return np.array(scores), np.concatenate(rows)

    def _smoothed(self, X, posteriors):
        # Not by ``_fit_log`` and ``_fit_scaling``: they are for learning, and a subclass may have
        # changed what is learned, not what is scored.
        estimator = self.estimator
        chain = estimator.startprob_, estimator.transmat_
        if estimator.implementation == "log":
            log_b = estimator._log_densities(X)
            score, log_alpha = recursions.forward(*chain, log_b)
            if not posteriors:
                return score, None
            log_beta = recursions.backward(*chain, log_b)
            return score, estimator._compute_posteriors_log(log_alpha, log_beta)
        b = estimator._compute_likelihood(X)
        score, alpha, scales = recursions.scaled_forward(*chain, b)
        if not posteriors:
            return score, None
        beta = recursions.scaled_backward(*chain, b, scales)
        return score, estimator._compute_posteriors_scaling(alpha, beta)

    def log_likelihoods(self, table) -> np.ndarray:
        """The log-likelihood of each sequence."""
        return self.infer(table, posteriors=False)[0]

    def decode(self, table) -> tuple[np.ndarray, np.ndarray]:
        """The likeliest path of each sequence: its log-probability, and the states of all rows."""
        return self._decoded(self.estimator._decode_viterbi, table)

    def decode_rows(self, table) -> tuple[np.ndarray, np.ndarray]:
        """The likeliest state of each row, and for each sequence the sum of what they score."""
        return self._decoded(self.estimator._decode_map, table)

    def _decoded(self, decode, table):
        scores, states = zip(*map(decode, table.split()), strict=True)
        return np.array(scores), np.concatenate(states)


class BaseHMM(HMMInference, BaseEstimator):
    """A hidden Markov model with emissions of your own, by hmmlearn's contract.

    Subclasses override hooks, with hmmlearn's names and arguments:

    - ``_compute_log_likelihood(X)`` or ``_compute_likelihood(X)``: the (log-)density of each row in
      each state, (n_rows, n_components);
    - ``_init(X, lengths)`` and ``_check()``: first parameters, and a check of them;
    - ``_initialize_sufficient_statistics()``, ``_accumulate_sufficient_statistics(stats, X,
      lattice, posteriors, fwdlattice, bwdlattice)`` and ``_do_mstep(stats)``: learning;
    - ``_generate_sample_from_state(state, random_state)``: a draw;
    - ``_get_n_fit_scalars_per_param()``: the number of free parameters, by their letters.

    The methods of this class take care of the chain, so that an override calls ``super()`` first.
    The recursions are compiled.

    Parameters
    ----------
    n_components : int, default=1
        The number of states.
    startprob_prior : float or array-like of shape (n_components,), default=1.0
        Dirichlet prior of ``startprob_``; 1 means no prior.
    transmat_prior : float or array-like of shape (n_components, n_components), default=1.0
        Dirichlet prior of the rows of ``transmat_``; 1 means no prior.
    algorithm : {'viterbi', 'map'}, default='viterbi'
        How :meth:`decode` and :meth:`predict` choose states.
    random_state : int, RandomState instance or None, default=None
        The random numbers of the initialization and of :meth:`sample`. With an int, every call
        draws the same ones.
    n_iter : int, default=10
        The most iterations of EM.
    tol : float, default=1e-2
        EM stops when the log-likelihood of all sequences rises by less.
    verbose : int or bool, default=False
        How progress is shown: 0 not at all; 1 by a bar with the log-likelihood, on a terminal; 2 by
        a line for each iteration. Without a terminal, lines go to the logger ``fastem`` (INFO), or
        to standard error if logging is not configured. No number depends on it.
    params : str, default=all letters
        What is learned: 's' for ``startprob_``, 't' for ``transmat_``, and letters of the subclass.
    init_params : str, default=all letters
        What ``fit`` initializes, by the same letters.
    implementation : {'log', 'scaling'}, default='log'
        Whether the recursions run on log-densities, or on densities with scaling.

    Attributes
    ----------
    startprob_ : ndarray of shape (n_components,)
    transmat_ : ndarray of shape (n_components, n_components)
    n_features : int
        The number of columns.
    monitor_ : ConvergenceMonitor
        Its ``history`` has the log-likelihoods; another can be set before fitting.
    converged_ : bool
        Whether the last iteration of ``fit`` gained less than ``tol``.
    n_iter_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.stats import expon
    >>> from fastem.hmm import BaseHMM
    >>> class ExponentialHMM(BaseHMM):
    ...     def _init(self, X, lengths=None):
    ...         super()._init(X, lengths)
    ...         self.scales_ = np.quantile(X, np.linspace(0.2, 0.8, self.n_components))
    ...     def _compute_log_likelihood(self, X):
    ...         return expon.logpdf(X, scale=self.scales_)
    ...     def _initialize_sufficient_statistics(self):
    ...         empty = np.zeros(self.n_components)
    ...         return {**super()._initialize_sufficient_statistics(), "mass": empty, "sum": empty}
    ...     def _accumulate_sufficient_statistics(self, stats, X, lattice, posteriors, *lattices):
    ...         super()._accumulate_sufficient_statistics(stats, X, lattice, posteriors, *lattices)
    ...         stats["mass"] = stats["mass"] + posteriors.sum(axis=0)
    ...         stats["sum"] = stats["sum"] + posteriors.T @ X[:, 0]
    ...     def _do_mstep(self, stats):
    ...         super()._do_mstep(stats)
    ...         self.scales_ = stats["sum"] / stats["mass"]
    ...     def _get_n_fit_scalars_per_param(self):
    ...         return None
    >>> waits = np.random.default_rng(0).exponential(np.repeat([1.0, 50.0], 100)).reshape(-1, 1)
    >>> model = ExponentialHMM(2, random_state=0, n_iter=30).fit(waits)
    >>> bool(model.scales_.max() > 10 * model.scales_.min())
    True
    """

    def __init__(
        self, n_components=1, startprob_prior=1.0, transmat_prior=1.0, algorithm="viterbi",
        random_state=None, n_iter=10, tol=1e-2, verbose=False, params=string.ascii_letters,
        init_params=string.ascii_letters, implementation="log",
    ):  # fmt: skip
        self.n_components = n_components
        self.startprob_prior = startprob_prior
        self.transmat_prior = transmat_prior
        self.algorithm = algorithm
        self.random_state = random_state
        self.n_iter = n_iter
        self.tol = tol
        self.verbose = verbose
        self.params = params
        self.init_params = init_params
        self.implementation = implementation

    @property
    def monitor_(self) -> ConvergenceMonitor:
        """Watches batch EM; set one of your own before fitting to change when it stops."""
        if "_monitor" not in vars(self):
            self.monitor_ = ConvergenceMonitor(self.tol, self.n_iter, self.verbose)
        return self._monitor

    @monitor_.setter
    def monitor_(self, monitor):
        self._monitor = monitor
        made_for = ("tol", "n_iter", "verbose")
        self._monitor_made_for = {name: getattr(self, name) for name in made_for}

    def _reset_monitor(self):
        """The monitor, at its beginning, and made for the present settings."""
        monitor = self.monitor_
        for name, value in self._monitor_made_for.items():
            if getattr(self, name) != value:
                setattr(monitor, name, getattr(self, name))
        self.monitor_ = monitor
        monitor._reset()
        vars(monitor).pop("_rounding", None)
        return monitor

    # Learning --------------------------------------------------------------------------------

    def fit(self, X, lengths=None) -> Self:
        """Fit by batch EM, through the hooks.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), list of arrays, or 3-D array
            Rows of all sequences one after another, or a list of sequences.
        lengths : array-like of int, optional
            How many rows each sequence has, for a single array. By default it is one sequence.

        Returns
        -------
        self
        """
        # As in every estimator: a call that fails leaves it as it was.
        with Estimator._all_or_nothing(self):
            monitor = self.monitor_
            before = monitor.iter, list(monitor.history)
            try:
                self._fit_hooks(X, lengths)
            except BaseException:
                monitor._reset()
                monitor.iter = before[0]
                monitor.history.extend(before[1])
                raise
        return self

    def _fit_hooks(self, X, lengths):
        data = BaseHMM._check_data(self, X, lengths, reset=True)
        if not isinstance(data, Sequences):
            raise ValueError(
                "fit of a model with hooks takes arrays, or a list of sequences; got a stream."
            )
        # Hooks get the caller's own, as in hmmlearn.
        lengths = data.lengths if lengths is None else lengths
        self._init(data.X, lengths)
        self._check()
        rule = Monitored(self._reset_monitor(), self.n_iter, self._tell_of_empty_rows)
        with display_of(self, "fit") as rule.display:
            rule.display.begin(rule.max_iter)
            algebra.fit(HookedModel(self, lengths), data, rule, self._next_model)
            rule.display.end("converged" if rule.has_settled else "not converged")
        self.n_iter_ = rule.monitor.iter
        self.converged_ = rule.has_settled

    def _next_model(self, model, expectation):
        """The M-step."""
        self._do_mstep(expectation.statistics)
        return model

    def _tell_of_empty_rows(self, model, expectation):
        if (np.sum(model.transmat, axis=1) == 0).any():
            _log.warning(
                "Some rows of transmat_ have zero sum because no transition from the state was "
                "ever observed."
            )

    def _check_data(
        self, X, lengths=None, sample_weight=None, cut_off=None, *, reset, once=False
    ):  # fmt: skip
        """``X`` in any of the accepted forms, as sequences of numbers, or a stream of them."""
        if isinstance(X, Remote) or sample_weight is not None or cut_off is not None:
            raise ValueError(
                "A model with hooks takes data of this process, without sample_weight and cut_off."
            )
        data = as_sequences(X, lengths, once=once)
        if isinstance(data, SequenceStream):
            return SequenceStream(data.source, lambda table, _: _numbers(table), once=once)
        return _numbers(data)

    # Inference -------------------------------------------------------------------------------

    def _used_model(self):
        check_is_fitted(self, "startprob_")
        self._check()
        return HookedModel(self)

    def _set_width(self, model):
        """Hooks see data of any width."""

    def _decodes_each_row_itself(self):
        return "_decode_map" in overridden_hooks(self)

    def _chain(self) -> Chain:
        return Chain(self.n_components, (), self.startprob_prior, self.transmat_prior)

    def _draw(self, model, path, random_state):
        """A row for each state of a path."""
        rows = [self._generate_sample_from_state(s, random_state=random_state) for s in path]
        return np.atleast_2d(rows)

    def _n_free(self, model):
        counts = self._get_n_fit_scalars_per_param()
        if counts is None:
            raise ValueError(
                f"{type(self).__name__} does not say how many free parameters it has: let "
                "_get_n_fit_scalars_per_param return them by their letters."
            )
        return counts

    # Hooks: parameters -------------------------------------------------------------------------

    def _init(self, X, lengths=None):
        """Set first parameters."""
        self._check_and_set_n_features(X)
        wanted = [s.name for s in Chain.shown if self._needs_init(s.letter, s.attribute)]
        random_state = check_random_state(self.random_state)
        values = self._chain().initialize(wanted, random_state, drawn=self._draws_chain)
        for name, value in values.items():
            setattr(self, f"{name}_", value)
        self._tell_of_few_data(X, self._get_n_fit_scalars_per_param())

    #: Whether the chain is drawn at random to begin with, as in hmmlearn.
    _draws_chain = True

    def _tell_of_few_data(self, X, counts):
        """Log if the data have fewer numbers than the model; ``counts`` may be None."""
        if counts is None:
            return
        n_free = sum(counts[letter] for letter in self.params)
        if X.size < n_free:
            _log.warning(
                "Fitting a model with %d free scalar parameters with only %d data points will "
                "result in a degenerate solution. Use fewer states, hold parameters fixed, or find "
                "more data.", n_free, X.size,
            )  # fmt: skip

    def _needs_init(self, code, name) -> bool:
        """Whether ``_init`` sets the attribute ``name``, whose letter is ``code``."""
        if code in self.init_params:
            if hasattr(self, name):
                _log.warning(
                    "Even though the %r attribute is set, it will be overwritten during "
                    "initialization because 'init_params' contains %r", name, code,
                )  # fmt: skip
            return True
        return not hasattr(self, name)

    def _check_and_set_n_features(self, X):
        """Set ``n_features`` to the number of columns, or compare it with them."""
        n_columns = X.shape[1]
        n_features = getattr(self, "n_features", None)
        if n_features is None:
            self.n_features = n_columns
        elif n_features != n_columns:
            raise ValueError(f"The data have {n_columns} columns; expected {n_features}.")

    def _check(self):
        """Make arrays of the parameters; raise ``ValueError`` if they are wrong."""
        n_states, chain = self.n_components, self._chain()
        why = f" for {n_states} states"
        self.startprob_ = checks.numbers("startprob_", self.startprob_)
        checks.shaped("startprob_", self.startprob_, (n_states,), why)
        self._check_sum_1("startprob_")
        if chain.absorbing:
            # Rows that are left out become those of absorbing states.
            self.transmat_ = chain.checked_transitions(self.transmat_)
        self.transmat_ = checks.numbers("transmat_", self.transmat_)
        checks.shaped("transmat_", self.transmat_, (n_states, n_states), why)
        self._check_sum_1("transmat_")

    def _check_sum_1(self, name):
        """Raise ``ValueError`` unless the rows of the attribute ``name`` are probabilities."""
        checks.check_probabilities(name, np.asarray(getattr(self, name)))

    def _get_n_fit_scalars_per_param(self):
        """The number of free parameters, by their letters; None if it is not known."""
        raise NotImplementedError(
            f"{type(self).__name__} must override _get_n_fit_scalars_per_param; it may return None."
        )

    # Hooks: emissions --------------------------------------------------------------------------

    def _compute_likelihood(self, X):
        """The density of each row in each state."""
        if "_compute_log_likelihood" not in overridden_hooks(self):
            raise self._no_emissions()
        with np.errstate(under="ignore"):
            return np.exp(self._compute_log_likelihood(X))

    def _compute_log_likelihood(self, X):
        """The log-density of each row in each state."""
        if "_compute_likelihood" not in overridden_hooks(self):
            raise self._no_emissions()
        likelihood = self._compute_likelihood(X)
        with np.errstate(divide="ignore"):
            return np.log(likelihood)

    def _no_emissions(self):
        return NotImplementedError(
            f"{type(self).__name__} must override _compute_log_likelihood or _compute_likelihood."
        )

    def _log_densities(self, X):
        """The log-density of each row in each state, by whichever hook is overridden."""
        names = overridden_hooks(self)
        if "_compute_likelihood" in names and "_compute_log_likelihood" not in names:
            likelihood = self._compute_likelihood(X)
            with np.errstate(divide="ignore"):
                return np.log(likelihood)
        return self._compute_log_likelihood(X)

    def _generate_sample_from_state(self, state, random_state):
        """A row that is drawn from a state; by default it has no columns."""
        return ()

    # Hooks: recursions -------------------------------------------------------------------------

    def _fit_log(self, X):
        """Log-densities, log-likelihood, posteriors, ``log α`` and ``log β`` of a sequence."""
        log_b = self._log_densities(X)
        log_likelihood, log_alpha = recursions.forward(self.startprob_, self.transmat_, log_b)
        log_beta = recursions.backward(self.startprob_, self.transmat_, log_b)
        posteriors = self._compute_posteriors_log(log_alpha, log_beta)
        return log_b, log_likelihood, posteriors, log_alpha, log_beta

    def _fit_scaling(self, X):
        """The same of densities, with scaled α and β."""
        b = self._compute_likelihood(X)
        log_likelihood, alpha, scales = recursions.scaled_forward(
            self.startprob_, self.transmat_, b
        )
        beta = recursions.scaled_backward(self.startprob_, self.transmat_, b, scales)
        return b, log_likelihood, self._compute_posteriors_scaling(alpha, beta), alpha, beta

    def _compute_posteriors_log(self, fwdlattice, bwdlattice):
        """The probability of each state at each step; zero where the sequence is impossible."""
        joint = fwdlattice + bwdlattice
        total = logsumexp(joint, axis=1, keepdims=True)
        with np.errstate(under="ignore"):
            return np.exp(joint - np.where(total > -np.inf, total, 0.0))

    def _compute_posteriors_scaling(self, fwdlattice, bwdlattice):
        """The same from scaled α and β."""
        joint = fwdlattice * bwdlattice
        return joint / joint.sum(axis=1, keepdims=True)

    def _decode_viterbi(self, X):
        """The log-probability of the likeliest path of a sequence, and its states."""
        return recursions.likeliest_path(self.startprob_, self.transmat_, self._log_densities(X))

    def _decode_map(self, X):
        """The sum of the probabilities of the likeliest state of each row, and these states."""
        posteriors = self.score_samples(X)[1]
        return posteriors.max(axis=1).sum(), posteriors.argmax(axis=1)

    # Hooks: learning ---------------------------------------------------------------------------

    def _do_estep(self, X, lengths):
        """The statistics of all sequences, and their log-likelihood."""
        fit = self._fit_log if self.implementation == "log" else self._fit_scaling
        stats = self._initialize_sufficient_statistics()
        self._estep_begin()
        total = 0.0
        for number, rows in enumerate(np.split(X, np.cumsum(lengths)[:-1])):
            lattice, log_likelihood, posteriors, fwdlattice, bwdlattice = fit(rows)
            if not np.isfinite(log_likelihood):
                raise ValueError(
                    f"The log-likelihood of sequence {number} is {log_likelihood}, so that there "
                    "is nothing to learn from it. Look for zeros in startprob_, transmat_ and the "
                    "emissions."
                )
            self._accumulate_sufficient_statistics(
                stats, rows, lattice, posteriors, fwdlattice, bwdlattice
            )
            total += log_likelihood
        return stats, total

    def _estep_begin(self):
        """Called at the beginning of each E-step."""

    def _compute_lower_bound(self, curr_logprob):
        """What EM raises, from the log-likelihood of all sequences."""
        return curr_logprob

    def _initialize_sufficient_statistics(self):
        """Statistics of no data, by name."""
        n_states = self.n_components
        return {"nobs": 0, "start": np.zeros(n_states), "trans": np.zeros((n_states, n_states))}

    def _accumulate_sufficient_statistics(
        self, stats, X, lattice, posteriors, fwdlattice, bwdlattice
    ):
        """Add those of one sequence."""
        add = (
            self._accumulate_sufficient_statistics_log
            if self.implementation == "log"
            else self._accumulate_sufficient_statistics_scaling
        )
        add(
            stats=stats, X=X, lattice=lattice, posteriors=posteriors, fwdlattice=fwdlattice,
            bwdlattice=bwdlattice,
        )  # fmt: skip

    def _accumulate_sufficient_statistics_log(
        self, stats, X, lattice, posteriors, fwdlattice, bwdlattice
    ):
        """Those of the chain, from logarithms."""
        self._add_chain(stats, posteriors)
        if "t" in self.params and len(lattice) > 1:
            stats["trans"] += recursions.transition_counts(
                fwdlattice, self.transmat_, bwdlattice, lattice
            )

    def _accumulate_sufficient_statistics_scaling(
        self, stats, X, lattice, posteriors, fwdlattice, bwdlattice
    ):
        """Those of the chain, from scaled numbers."""
        self._add_chain(stats, posteriors)
        if "t" in self.params and len(lattice) > 1:
            stats["trans"] += recursions.scaled_transitions(
                fwdlattice, self.transmat_, bwdlattice, lattice
            )

    def _add_chain(self, stats, posteriors):
        stats["nobs"] += 1
        if "s" in self.params:
            stats["start"] += posteriors[0]

    def _do_mstep(self, stats):
        """Set the parameters to those of greatest expected log-likelihood, with priors."""
        # What is impossible stays so, and a state that is never left keeps its row.
        if "s" in self.params:
            self.startprob_ = dirichlet_mode(stats["start"], self.startprob_prior, self.startprob_)
        if "t" in self.params:
            self.transmat_ = dirichlet_mode(stats["trans"], self.transmat_prior, self.transmat_)


def _numbers(table):
    """The same sequences with rows that scikit-learn has checked."""
    return Sequences(check_array(table.X), table.lengths, missing=False)
