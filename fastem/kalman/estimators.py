"""``fastem.KalmanFilter``: linear dynamical systems, with pykalman's interface and more."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_random_state

from ..data.batches import beginning
from ..data.remote import Remote, sample_of
from ..drawing import standard_normal
from ..estimator import Estimator
from ..exceptions import (
    ChangedBehaviorWarning,
    ChangedShapeWarning,
    ConvergenceWarning,
    MissingMatricesWarning,
    NoDensityError,
    NothingToLearnWarning,
)
from ..learning_rate import DEFAULT_RATE
from ..lengths import Lengths
from ..notices import warn
from ..progress import display_of
from ..sklearn_compat import Interval, StrOptions, fit_context
from ..stopping import StoppingRule, Tolerance
from . import checks
from .checks import AXES, NAMES, VARYING, check_constant, check_times, promoted
from .data import Observations, as_observations, as_series, as_table, is_one_row
from .em import pykalman_em
from .initialization import initial_parameters
from .model import KalmanModel
from .one_step import as_peer, as_state
from .present import keep_learner, recall, recall_learner, remember
from .stream import KalmanStream

__all__ = ["KalmanFilter"]

# What pykalman's em estimates by default.
_EM_VARS = frozenset({"initial_state_mean", *checks.COVARIANCES})
# The settings of the sizes, and what they count.
_SIZES = {"d": ("n_dim_state", "states"), "p": ("n_dim_obs", "observed coordinates")}
_OFFSETS = frozenset(name for name in AXES if name.endswith("offsets"))


class ToleranceOfSteps(Tolerance):
    """Stop when the log-likelihood per observed step changes by less than ``tol``."""

    def scale(self, expectation):
        return max(float(expectation.statistics["observation"].mass[0]), 1.0)


class _Size:
    """A size of a system, as pykalman shows it: given, said by a parameter, learned, or else one.

    What was given is kept in the instance under the same name, None if nothing was: what ``fit``
    may learn is not what the attribute shows, but what was given.
    """

    def __init__(self, axis):
        self.axis = axis

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, kf, owner=None):
        if kf is None:
            return self
        given = vars(kf).get(self.name)
        if given is not None:
            return given
        try:
            return kf._sizes_now().get(self.axis, 1)
        except ValueError:
            # Whoever uses parameters that contradict each other is told; who looks, or changes
            # them one after another, is not.
            return 1

    def __set__(self, kf, value):
        vars(kf)[self.name] = value


class KalmanFilter(Estimator):
    """A linear dynamical system: a hidden state that moves linearly and is observed linearly.

    ``h₁ ~ N(m, V)``, ``h' = A h + b + N(0, Q)``, ``v = C h + c + N(0, R)``.

    The first twelve parameters, and the methods ``em``, ``filter``, ``smooth``, ``filter_update``,
    ``loglikelihood`` and ``sample``, are pykalman's. A matrix, offset or covariance may have time
    as a first axis there; learning is for systems that are constant in time.

    What is learned:

    =====================  ===============================  ======================================
    a parameter is         ``em_vars`` not given            ``em_vars`` given
    =====================  ===============================  ======================================
    in ``fixed``           stays                            stays
    an offset              stays in ``fit``, ``em``         learned if in ``em_vars``, else stays
    given                  stays in ``fit``; ``em``         learned from there if in ``em_vars``,
                           estimates pykalman's four        else stays
    not given              learned by ``fit``; ``em``       learned if in ``em_vars``, else stays
                           estimates pykalman's four        as it was initialized
    partly in ``fixed``    its other entries are            its other entries are
                           learned, given or not            learned if it is in ``em_vars``
    =====================  ===============================  ======================================

    ``partial_fit`` does as ``fit``. Pykalman's four are the covariances and the initial mean. An
    offset that is not given is zero, or, for the observations', the mean of the data if ``fit``
    initializes the model from them.

    Parameters
    ----------
    transition_matrices : array-like of shape (n_dim_state, n_dim_state), optional
        A; the first axis may be time, n_timesteps - 1 long.
    observation_matrices : array-like of shape (n_dim_obs, n_dim_state), optional
        C; the first axis may be time, n_timesteps long.
    transition_covariance : array-like of shape (n_dim_state, n_dim_state), optional
        Q.
    observation_covariance : array-like of shape (n_dim_obs, n_dim_obs), optional
        R.
    transition_offsets : array-like of shape (n_dim_state,), optional
        b.
    observation_offsets : array-like of shape (n_dim_obs,), optional
        c.
    initial_state_mean : array-like of shape (n_dim_state,), optional
        m.
    initial_state_covariance : array-like of shape (n_dim_state, n_dim_state), optional
        V.
    random_state : int, RandomState instance or None, default=None
        For ``sample``, and for the initialization where the data leave it open.
    em_vars : iterable of str or 'all', optional
        What is learned, by ``fit``, ``partial_fit`` and ``em`` alike. By default ``em`` estimates
        the covariances and the initial mean, and the others learn what is not given here, except
        the offsets.
    n_dim_state : int, optional
        The size of the state, where no parameter says it: by default the number of columns in
        ``fit`` and ``partial_fit``, and 1 in pykalman's methods. As an attribute it is the size
        as it is known now, or 1, as in pykalman.
    n_dim_obs : int, optional
        The number of observed coordinates, where no parameter says it; as an attribute likewise.
    tol : float, default=1e-4
        ``fit`` stops when the log-likelihood per observed step changes by less.
    max_iter : int, default=100
        The most iterations of ``fit``.
    fixed : iterable of str, or dict, default=()
        Parameters that stay besides. A dict has for each name True, or an array of booleans that
        says which entries stay: the others are learned, even of a parameter that is given, unless
        ``em_vars`` leaves it out.
    transition_covariance_type : {'full', 'diag', 'spherical'}, default='full'
        What Q is learned as.
    observation_covariance_type : {'full', 'diag', 'spherical'}, default='full'
        What R is learned as.
    warm_start : bool, default=False
        Whether ``fit`` continues from the last fit.
    learning_rate : 'auto', float, callable or Decay, default='auto'
        The rate of online learning. ``'auto'`` counts observations: it goes on from those behind
        the model, and how data are cut into batches hardly matters. A number η, or a function of
        the step 1, 2, ..., is the rate of a whole batch; a smaller one takes its share of it.
    batch_size : int or None, default=None
        Sequences of a mini-batch in ``partial_fit``. None: 100 at most in a call or a stream with
        the automatic rate; with a rate of your own, the sequences of a call are one batch.
    memory : {'model', 'statistics'}, default='model'
        What online learning remembers: the model alone, or running statistics (Cappé, Moulines).
    forgetting : float or None, default=None
        For streams that drift, with ``learning_rate='auto'``: a half-life in observations. Steps do
        not fall below ``1 - 2^(-1/forgetting)``; None: they go on falling.
    average_from : float, 'auto' or None, default=None
        Whether the model shown is the average over time (Polyak, Ruppert) of those that online
        learning goes through: of those after this number of observations, or, with 'auto', of all,
        the later the more. Learning itself goes on from the last one.
    callback : callable or None, default=None
        Called after each iteration of ``fit``, and after each call or part of a stream that
        ``partial_fit`` learns from, with a :class:`fastem.monitoring.Report`. If it returns True,
        learning ends.
    drift_alarm : float or None, default=None
        The probability of a false alarm with which ``partial_fit`` tests whether the progressive
        log-likelihood has fallen; ``drift_`` is what it found. None: no test.
    verbose : int or bool, default=0
        How progress is shown: 0 not at all; 1 by a bar with the log-likelihood, on a terminal; 2 by
        a line for each iteration. Without a terminal, lines go to the logger ``fastem`` (INFO), or
        to standard error if logging is not configured. No number depends on it.
    n_jobs : int or None, default=None
        Threads; None: as many as there are cores, one inside a worker. The result does not depend
        on it.
    solver : {'em', 'incremental'}, default='em'
        How ``fit`` maximizes the likelihood: by batch EM, one step for each pass over the data, or
        by incremental EM, one step for each block of them. See :doc:`/incremental`.
    n_blocks : int or None, default=None
        The number of blocks of incremental EM; None: 10, or fewer for few data.

    Attributes
    ----------
    transition_matrices_, observation_matrices_, transition_covariance_, \
observation_covariance_, transition_offsets_, observation_offsets_, initial_state_mean_, \
initial_state_covariance_ : ndarray
        What was learned.
    n_iter_ : int
    converged_ : bool
    lower_bound_ : float
        The mean log-likelihood of a sequence.
    lower_bounds_ : list of float
        The same at each iteration. With ``solver="incremental"`` both are bounds of it.
    n_steps_ : int or float
        Online steps since the last ``fit``; a batch of a half counts a half.
    n_observations_ : float
        The weight of the observations behind the model, of the last ``fit`` and since.
    lengths_ : Lengths
        The lengths of the sequences last learned from.
    given_ : tuple of str
        The parameters that were given before ``em`` replaced them.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> truth = fastem.KalmanFilter(
    ...     transition_matrices=[[0.9, 0.2], [-0.2, 0.9]],
    ...     observation_matrices=np.eye(3, 2),
    ...     observation_covariance=0.1 * np.eye(3),
    ... )
    >>> _, X = truth.sample(2000, random_state=0)
    >>> model = fastem.KalmanFilter(n_dim_state=2).fit(X)
    >>> np.abs(np.linalg.eigvals(model.transition_matrices_)).round(1)
    array([0.9, 0.9])
    """

    _parameter_constraints = {  # noqa: RUF012 (scikit-learn's convention)
        **Estimator._online_constraints,
        **Estimator._solver_constraints,
        "random_state": ["random_state"],
        "n_dim_state": [Interval(Integral, 1, None, closed="left"), None],
        "n_dim_obs": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0.0, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "fixed": ["array-like", str, dict],
        "transition_covariance_type": [StrOptions({"full", "diag", "spherical"})],
        "observation_covariance_type": [StrOptions({"full", "diag", "spherical"})],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
    }

    _more_online_settings = tuple(_parameter_constraints)
    _predicts_one = True
    _stream_batch = 100
    _learns_sequences = True

    #: Private methods of pykalman's that subclasses may override there.
    _not_called = ("_initialize_parameters", "_parse_observations")

    def __init_subclass__(cls, **keywords):
        super().__init_subclass__(**keywords)
        for name in cls._not_called:
            if not getattr(vars(cls).get(name), "__module__", "fastem.").startswith("fastem."):
                raise TypeError(
                    f"{cls.__name__} overrides {name} of pykalman's, which fastem does not call. "
                    "Override public methods, or derive the class from pykalman.KalmanFilter."
                )

    def __init__(
        self, transition_matrices=None, observation_matrices=None, transition_covariance=None,
        observation_covariance=None, transition_offsets=None, observation_offsets=None,
        initial_state_mean=None, initial_state_covariance=None, random_state=None, em_vars=None,
        n_dim_state=None, n_dim_obs=None, *, tol=1e-4, max_iter=100, fixed=(),
        transition_covariance_type="full", observation_covariance_type="full", warm_start=False,
        learning_rate=DEFAULT_RATE, batch_size=None, memory="model", verbose=0, n_jobs=None,
        forgetting=None, average_from=None, callback=None,
        drift_alarm=None, solver="em", n_blocks=None,
    ):  # fmt: skip
        self.transition_matrices = transition_matrices
        self.observation_matrices = observation_matrices
        self.transition_covariance = transition_covariance
        self.observation_covariance = observation_covariance
        self.transition_offsets = transition_offsets
        self.observation_offsets = observation_offsets
        self.initial_state_mean = initial_state_mean
        self.initial_state_covariance = initial_state_covariance
        self.random_state = random_state
        self.em_vars = em_vars
        self.n_dim_state = n_dim_state
        self.n_dim_obs = n_dim_obs
        self.tol = tol
        self.max_iter = max_iter
        self.fixed = fixed
        self.transition_covariance_type = transition_covariance_type
        self.observation_covariance_type = observation_covariance_type
        self.warm_start = warm_start
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.memory = memory
        self.forgetting = forgetting
        self.average_from = average_from
        self.callback = callback
        self.drift_alarm = drift_alarm
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.solver = solver
        self.n_blocks = n_blocks
        # They must not contradict each other.
        self._sizes()

    n_dim_state = _Size("d")
    n_dim_obs = _Size("p")

    def get_params(self, deep=True):
        """The settings, as they were given: a size that was not given is None.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the settings of objects that are settings.

        Returns
        -------
        dict
        """
        settings = super().get_params(deep)
        settings.update((name, vars(self).get(name)) for name, _ in _SIZES.values())
        return settings

    # The model -------------------------------------------------------------------------------

    def _sizes(self):
        """The sizes d and p, where the given parameters determine them; they must agree."""
        said = {"d": {}, "p": {}}
        for name, axes in AXES.items():
            value = getattr(self, name)
            if value is not None:
                # A number is a matrix of one row and column, as in pykalman.
                shape = (1,) * (len(axes) - np.ndim(value)) + np.shape(value)
                for axis, size in zip(axes, shape[len(shape) - len(axes) :], strict=True):
                    said[axis].setdefault(size, name)
        for axis, (name, what) in _SIZES.items():
            value = vars(self).get(name)
            if value is not None:
                said[axis].setdefault(value, name)
            if len(said[axis]) > 1:
                found = ", ".join(f"{size} in {where}" for size, where in said[axis].items())
                raise ValueError(f"The parameters differ in the number of {what}: {found}.")
        return {axis: next(iter(values)) for axis, values in said.items() if values}

    def _sizes_now(self):
        """The same, of what was learned if anything was."""
        if not self._has_learned():
            return self._sizes()
        shape = np.shape(self.observation_matrices_)
        return dict(zip("pd", shape[-2:], strict=True)) if len(shape) >= 2 else {}

    def _given(self):
        """The parameters that have a value before anything is learned, by name."""
        self._sizes()
        return {
            name: promoted(name, getattr(self, name))
            for name in NAMES
            if getattr(self, name) is not None
        }

    def _given_names(self):
        """The parameters that the user gave: not those that ``em`` put there."""
        names = {name for name in NAMES if getattr(self, name) is not None}
        if not hasattr(self, "given_"):
            return names
        filled = vars(self).get("_filled", {})
        changed = {name for name in filled if getattr(self, name) is not filled[name]}
        return names & (set(self.given_) | changed)

    def _parameters(self, n_columns=None):
        """All parameters as they are now: learned, given, or pykalman's defaults."""
        if self._has_learned():
            return {
                name: checks.as_numbers(f"{name}_", getattr(self, f"{name}_")) for name in NAMES
            }
        sizes = {"d": 1, "p": n_columns or 1, **self._sizes()}
        shapes = {name: [sizes[axis] for axis in axes] for name, axes in AXES.items()}
        defaults = {
            name: np.zeros(shape) if len(shape) == 1 else np.eye(*shape)
            for name, shape in shapes.items()
        }
        return {**defaults, **self._given()}

    # What is learned -------------------------------------------------------------------------

    def _fixed(self):
        """``fixed`` as a dict: for each name True, or which of its entries stay."""
        names = self._fixed_names(NAMES)
        fixed = self.fixed if isinstance(self.fixed, dict) else dict.fromkeys(names, True)
        # A plain False says nothing.
        return {name: held for name, held in fixed.items() if np.ndim(held) or held}

    def _free(self, fixed):
        """The parameters that ``fit`` and ``partial_fit`` learn, at least some entries of them."""
        if self.em_vars is None:
            free = NAMES.keys() - self._given_names() - _OFFSETS
            free |= {name for name, entries in fixed.items() if np.ndim(entries)}
        else:
            free = _named(self.em_vars)
        return {name for name in free if not np.all(fixed.get(name, False))}

    def _held(self, parameters):
        """The entries that ``fit`` and ``partial_fit`` leave alone: see the class."""
        fixed = self._fixed()
        held, free = checks.check_held(fixed, parameters), self._free(fixed)
        return {name: held[name] if name in free else True for name in NAMES}

    def _warn_about_learning(self, n_columns, *, resumed):
        """Warn if this is not what fastem 0.1 learned, or if there is nothing to learn.

        Returns whether there was something to warn of.
        """
        changes, fixed = [], self._fixed()
        learns = bool(self._free(fixed))
        if not learns:
            warn(
                "There is nothing to learn: every parameter is given, fixed, or not in em_vars. "
                "Name in em_vars what is to be learned.",
                NothingToLearnWarning,
            )
        if self.em_vars is None:
            kept = self._given_names() - _OFFSETS - fixed.keys()
            if kept:
                names = ", ".join(name for name in NAMES if name in kept)
                changes.append(
                    f"{names}: given, and therefore not learned; fastem 0.1 learned them. To learn "
                    "them from what is given, name in em_vars all that is to be learned ('all' is "
                    "everything, the offsets too); to keep them without this warning, name them "
                    "in fixed."
                )
        size = 1 if resumed or "d" in self._sizes() else n_columns
        if size > 1:
            changes.append(
                f"The state has as many dimensions as there are columns, {size}; in fastem 0.1 it "
                "had one. Give n_dim_state: 1 is what it was."
            )
        if changes:
            warn(" ".join(changes), ChangedBehaviorWarning)
        return bool(changes) or not learns

    # The model -------------------------------------------------------------------------------

    def _make_model(self, parameters, held=None):
        return KalmanModel(
            parameters, held=held, transition_shape=self.transition_covariance_type,
            observation_shape=self.observation_covariance_type,
            horizon=getattr(self, "lengths_", None), n_jobs=self.n_jobs,
        )  # fmt: skip

    _learned_kinds = {  # noqa: RUF012
        **Estimator._learned_kinds,
        "lengths_": lambda value: isinstance(value, Lengths) and value.lengths[0] >= 1,
        "given_": lambda value: isinstance(value, tuple) and set(value) <= NAMES.keys(),
    }

    def _parameter_attributes(self):
        return tuple(f"{name}_" for name in NAMES)

    def _learned_model(self):
        # Parameters that change with time can be kept, if not learned.
        return self._make_model(self._parameters())

    def _learner(self, parameters, held=None):
        """A model, constant in time, that knows what it leaves alone."""
        check_constant(parameters)
        return self._make_model(parameters, self._held(parameters) if held is None else held)

    def _model(self) -> KalmanModel:
        """The model that the attributes describe."""
        known = recall_learner(self)
        if known is not None:
            return known.model
        # Filters that were never fitted are combined as they were given, except for the offsets.
        given = None if self._has_learned() else {**dict.fromkeys(_OFFSETS, True), **self._fixed()}
        return self._learner(self._parameters(), given)

    def _lacks_matrices(self):
        unknown = self.transition_matrices is None and self.observation_matrices is None
        return unknown and not self._has_learned()

    def _inferring_model(self, n_columns=None) -> KalmanModel:
        """The model for inference, which may change with time."""
        if self._lacks_matrices():
            warn(
                "Neither transition_matrices nor observation_matrices are given or learned: "
                "identities are used, as in pykalman. Call fit first, or give the matrices.",
                MissingMatricesWarning,
            )
        return self._make_model(self._parameters(n_columns))

    def _present(self):
        """The model for inference, kept from an earlier call; None if it has to be built."""
        present = recall(self)
        if present is not None:
            return present
        if self._lacks_matrices():
            return None
        return remember(self, lambda still: (still._inferring_model(), still._n_columns()))

    def _set_model(self, model):
        """Show a model's parameters as attributes."""
        for name, array in model.parameters.items():
            # A copy, so that changing an attribute changes nothing that is shared.
            setattr(self, f"{name}_", np.array(array))
        if isinstance(model.horizon, Lengths):
            self.lengths_ = model.horizon

    def _set_progress(self, progress):
        super()._set_progress(progress)
        keep_learner(self, progress.shown)

    def __sklearn_is_fitted__(self):
        given = self.transition_matrices is not None and self.observation_matrices is not None
        return self._has_learned() or given

    # Data ------------------------------------------------------------------------------------

    def _n_columns(self):
        if hasattr(self, "n_features_in_"):
            return self.n_features_in_
        return self._sizes().get("p")

    def _check_data(self, X, lengths=None, sample_weight=None, *, reset, once=False):
        """``X`` as checked sequences, or a stream of them."""
        if isinstance(X, Remote):
            return X.checked(self, reset=reset)
        n_columns = self._sizes().get("p") if reset else self._n_columns()
        data = as_observations(X, lengths, sample_weight, n_columns, once=once)
        # A stream that can be read only once shows its columns when it is learned from.
        if reset and (isinstance(data, Observations) or not once):
            self.n_features_in_ = next(data.tables()).X.shape[1]
        return data

    # Learning --------------------------------------------------------------------------------

    def _initial_model(self, data):
        """The first model: as given, or from the data if no part of the dynamics is given."""
        data = sample_of(data)
        # How a stream is cut makes no difference.
        sequences = beginning(data.tables())[0] if data.is_stream else data
        given = self._given()
        dynamics = NAMES.keys() - {"observation_offsets", "observation_covariance"}
        if given.keys() & dynamics:
            parameters = self._parameters(sequences.X.shape[1])
        else:
            d = self._sizes().get("d", sequences.X.shape[1])
            seed = check_random_state(self.random_state).randint(2**31)
            found = initial_parameters(sequences, d, np.random.default_rng(seed))
            parameters = {**found, **given}
        for name in ("transition_covariance", "observation_covariance"):
            kind = getattr(self, f"{name}_type")
            if name not in given and kind != "full":
                variances = np.diag(parameters[name])
                parameters[name] = np.diag(
                    variances if kind == "diag" else np.full_like(variances, variances.mean())
                )
        return self._learner(parameters)

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, lengths=None, sample_weight=None):
        """Fit by batch EM.

        Parameters
        ----------
        X : array-like of shape (n_timesteps, n_dim_obs), list of such, 3-D array, or stream
            One sequence, or many: a list of arrays of unequal length, an array (n_sequences,
            n_timesteps, n_dim_obs), or one array with ``lengths``. NaN is a missing value; a
            masked value makes its whole step missing, as in pykalman. A stream is a function that
            returns a new iterator over sequences or lists of them.
        y : ignored
        lengths : array-like of int, optional
            The lengths of the sequences whose rows lie one after another in ``X``.
        sample_weight : array-like of shape (n_sequences,), optional
            A sequence of weight 2 counts as two.

        Returns
        -------
        self
        """
        self._fit(X, lengths=lengths, sample_weight=sample_weight)
        return self

    def _forget_fit(self):
        for name in (*self._parameter_attributes(), "lengths_"):
            vars(self).pop(name, None)

    def _check_fit(self, data):
        self._warn_about_learning(self._n_columns(), resumed=self._resumes())

    def _initial_models(self, data):
        yield self._initial_model(data)

    def _is_given_start(self):
        return super()._is_given_start() or bool(self._given_names())

    def _stopping_rule(self, data):
        return ToleranceOfSteps(self.max_iter, self.tol)

    def _run(self, model, data, rule):
        try:
            return super()._run(model, data, rule)
        except NoDensityError as error:
            if rule.n_iter == 0:
                raise
            raise ValueError(
                f"At iteration {rule.n_iter + 1} nothing is left of the noise: {error} The data "
                "leave none if columns are constant or copies of each other, or if there are too "
                "few rows. Give observation_covariance, which then stays, or other columns or data."
            ) from error

    def _warn_of_end(self, rule):
        if not rule.converged and self.max_iter > 0 and self.tol > 0:
            warn(
                f"EM did not converge in {rule.n_iter} iterations. Try a larger max_iter or tol.",
                ConvergenceWarning,
            )

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None, lengths=None, sample_weight=None):
        """Learn online from new sequences.

        Each batch moves the model to the minimum of the batch's loss plus the divergence from the
        present model over the learning rate. The batches are ``batch_size`` sequences; if that is
        None, all of ``X``, or 100 of a stream. A batch that weighs less than a whole one moves
        the model less, and batches go on from one item of a stream to the next: how a stream is
        cut makes no difference. The first call starts the model from its sequences, of a stream
        from the first ones of 10,000 rows or more.

        Parameters
        ----------
        X, y, lengths, sample_weight
            As for :meth:`fit`; a stream may be an iterator.

        Returns
        -------
        self
        """
        return self._partial_fit(X, lengths=lengths, sample_weight=sample_weight)

    def _predict_one(self, X):
        return self.smooth(X)[0]

    def _online_tables(self, data, started):
        tables, first = super()._online_tables(data, started)
        known = recall_learner(self) if started else None
        if known is None or not known.is_silent:
            n_columns = self._n_columns() if first is None else first.X.shape[1]
            warned = self._warn_about_learning(n_columns, resumed=started)
            if known is not None:
                known.is_silent = not warned
        return tables, first

    def _initial_model_online(self, table):
        self.n_features_in_ = table.X.shape[1]
        return self._initial_model(table)

    def _start_is_given(self):
        return bool(self._given_names())

    def em(self, X, y=None, n_iter=10, em_vars=None):
        """EM as pykalman has it, for ``n_iter`` iterations; the parameters given are replaced.

        Parameters
        ----------
        X : array-like of shape (n_timesteps, n_dim_obs), or many sequences as for :meth:`fit`
        y : ignored
        n_iter : int, default=10
        em_vars : iterable of str or 'all', optional
            What to estimate; the others stay, and may change with time.

        Returns
        -------
        self
        """
        if not isinstance(n_iter, Integral) or n_iter < 0:
            raise ValueError(f"n_iter must be a whole number, 0 or more; got {n_iter!r}.")
        if em_vars is None:
            em_vars = _EM_VARS if self.em_vars is None else self.em_vars
        fixed = self._fixed()
        free = _named(em_vars) - {name for name, held in fixed.items() if np.ndim(held) == 0}
        sequences = self._sequences(X)
        parameters = self._parameters(sequences.X.shape[1])
        for name in sorted(free):
            n_axes, n_learned = parameters[name].ndim, len(AXES[name])
            if n_axes != n_learned:
                warn(
                    f"{name} has {n_axes} dimensions now; after fitting, it will have {n_learned}.",
                    ChangedShapeWarning,
                )
        held = checks.check_held(fixed, parameters)
        entries = {name: held[name] for name in fixed if name in free}
        model = self._make_model(parameters)
        check_times(model.parameters, int(sequences.lengths.max()))
        rule = self._watched(StoppingRule(n_iter), lambda system: system.model)
        with display_of(self, "em") as rule.display:
            rule.display.begin(n_iter)
            model = pykalman_em(model, sequences, rule, free, entries)
            rule.display.end("ended")
        with self._all_or_nothing():
            self.given_ = tuple(name for name in NAMES if name in self._given_names())
            self._filled = {name: np.array(value) for name, value in model.parameters.items()}
            for name, value in self._filled.items():
                setattr(self, name, value)
                vars(self).pop(f"{name}_", None)
        return self

    # Using the model -------------------------------------------------------------------------

    def _sequences(self, X, lengths=None) -> Observations:
        """The observations for pykalman's methods, which read a number or one row as a series."""
        n_columns = self._n_columns()
        X = as_series(X)
        if n_columns is None and lengths is None and is_one_row(X):
            n_columns = 1
        return as_table(X, lengths, n_columns)

    def _inferring(self, X, lengths=None):
        X = as_series(X)
        present = self._present()
        if present is not None:
            return present.model, as_table(X, lengths, present.n_columns)
        sequences = self._sequences(X, lengths)
        return self._inferring_model(sequences.X.shape[1]), sequences

    def _infer(self, X, smooth):
        model, sequences = self._inferring(X)
        means, covariances = model.infer(sequences, smooth, scores=False)[:2]
        if getattr(X, "ndim", 2) == 3:
            n, T = X.shape[:2]
            return means.reshape(n, T, -1), covariances.reshape(n, T, *covariances.shape[1:])
        if isinstance(X, (list, tuple)) and np.ndim(X[0]) == 2:
            cuts = sequences.bounds[1:-1]
            return np.split(means, cuts), np.split(covariances, cuts)
        return means, covariances

    def filter(self, X):
        """The state at each step given the observations up to it.

        Parameters
        ----------
        X : array-like of shape (n_timesteps, n_dim_obs), list of such, or 3-D array
            As in pykalman, of one column a series of shape (n_timesteps,), one row of shape
            (1, n_timesteps), or a number, which is a single step.

        Returns
        -------
        means : ndarray of shape (n_timesteps, n_dim_state)
        covariances : ndarray of shape (n_timesteps, n_dim_state, n_dim_state)
            Both are lists for a list of sequences, and have one more axis for a 3-D array.
        """
        return self._infer(X, smooth=False)

    def smooth(self, X):
        """The state at each step given all observations; see :meth:`filter`."""
        return self._infer(X, smooth=True)

    def filter_update(
        self, filtered_state_mean, filtered_state_covariance, observation=None,
        transition_matrix=None, transition_offset=None, transition_covariance=None,
        observation_matrix=None, observation_offset=None, observation_covariance=None,
    ):  # fmt: skip
        """From the filtered state at one step to that at the next.

        Parameters
        ----------
        filtered_state_mean : array-like of shape (n_dim_state,)
        filtered_state_covariance : array-like of shape (n_dim_state, n_dim_state)
        observation : array-like of shape (n_dim_obs,), optional
            None is a missing step; masked values make it one; NaN is a missing value.
        transition_matrix, transition_offset, transition_covariance, observation_matrix, \
observation_offset, observation_covariance : array-like, optional
            Used for this step instead of the model's; needed where the model's change with time.

        Returns
        -------
        mean, covariance : ndarray
            The mean has the shape (1, 1) if a number was given for it, as in pykalman.
        """
        given = {
            name: value
            for name, value in (
                ("transition_matrices", transition_matrix),
                ("transition_offsets", transition_offset),
                ("transition_covariance", transition_covariance),
                ("observation_matrices", observation_matrix),
                ("observation_offsets", observation_offset),
                ("observation_covariance", observation_covariance),
            )
            if value is not None
        }
        state = filtered_state_mean, filtered_state_covariance
        present = self._present()
        if present is not None:
            if given:
                found = present.step.after_with(given, *state, observation)
            else:
                found = present.step.after(*state, observation)
            if found is not None:
                return as_peer(found, filtered_state_mean)
        model = self._inferring_model() if present is None else present.model
        found = self._updated(dict(model.parameters), given, *state, observation)
        return as_peer(found, filtered_state_mean)

    def _updated(self, parameters, given, mean, covariance, observation):
        """The next filtered state for any system, as the first of a sequence of one step."""
        for name in VARYING:
            if name in given:
                parameters[name] = promoted(name, given[name])
            if parameters[name].ndim > len(AXES[name]):
                raise ValueError(f"{name} changes with time: give the one of this step.")
        parameters = checks.check_system(parameters)
        A, b, Q = (parameters[f"transition_{k}"] for k in ("matrices", "offsets", "covariance"))
        p, d = parameters["observation_matrices"].shape
        mean = as_state("filtered_state_mean", mean, (d,))
        covariance = as_state("filtered_state_covariance", covariance, (d, d))
        checks.check_covariance("filtered_state_covariance", covariance)
        parameters["initial_state_mean"] = A @ mean + b
        spread = A @ covariance @ A.T
        parameters["initial_state_covariance"] = 0.5 * (spread + spread.T) + Q
        if observation is None:
            observation = np.full(p, np.nan)
        row = np.ma.atleast_1d(observation).reshape(1, -1)
        row = row if np.ma.isMaskedArray(observation) else np.asarray(row)
        means, covariances, _, _ = self._make_model(parameters).infer(row, False, scores=False)
        return means[0], covariances[0]

    def loglikelihood(self, X):
        """The log-likelihood of all observations, a NumPy number."""
        return self.score_samples(X).sum()

    def score_samples(self, X, lengths=None):
        """The log-likelihood of each sequence."""
        model, sequences = self._inferring(X, lengths)
        return model.log_likelihoods(sequences)

    def score(self, X, y=None, lengths=None, sample_weight=None):
        """The mean log-likelihood of a sequence; of arrays, lists, or a stream."""
        data = self._check_data(X, lengths, sample_weight, reset=False, once=True)
        total, weight, model = 0.0, 0.0, None
        for sequences in data.tables():
            model = model or self._inferring_model(sequences.X.shape[1])
            each = model.log_likelihoods(sequences)
            w = sequences.sample_weight
            total += each.sum() if w is None else each @ w
            weight += sequences.total_weight
        return float(total / weight)

    def forecast(self, X, n_steps=1):
        """The next observations, with their variances.

        Parameters
        ----------
        X : array-like of shape (n_timesteps, n_dim_obs)
            One sequence.
        n_steps : int, default=1
            How many steps ahead.

        Returns
        -------
        means : ndarray of shape (n_steps, n_dim_obs)
        covariances : ndarray of shape (n_steps, n_dim_obs, n_dim_obs)
        """
        if not isinstance(n_steps, Integral) or n_steps < 1:
            raise ValueError(f"n_steps must be a whole number, 1 or more; got {n_steps}.")
        model, sequences = self._inferring(X)
        if len(sequences) > 1:
            raise ValueError("forecast takes one sequence; call it for each.")
        check_constant(model.parameters)
        means, covariances, _, _ = model.infer(sequences, False)
        h, P = means[-1], covariances[-1]
        ahead, spreads = [], []
        for _ in range(n_steps):
            h, P = model.A @ h + model.b, model.A @ P @ model.A.T + model.Q
            P = 0.5 * (P + P.T)
            ahead.append(model.C @ h + model.c)
            spreads.append(model.C @ P @ model.C.T + model.R)
        return np.array(ahead), np.array(spreads)

    def stream(self) -> KalmanStream:
        """An object that filters observations one at a time, each in microseconds."""
        return KalmanStream(self._inferring_model(self._n_columns()))

    def sample(self, n_timesteps, initial_state=None, random_state=None):
        """Draw a sequence from the model.

        Parameters
        ----------
        n_timesteps : int
        initial_state : array-like of shape (n_dim_state,), optional
        random_state : int or RandomState, optional
            The estimator's unless given.

        Returns
        -------
        states : ndarray of shape (n_timesteps, n_dim_state)
        observations : masked array of shape (n_timesteps, n_dim_obs)
        """
        if not isinstance(n_timesteps, Integral) or n_timesteps < 1:
            raise ValueError(f"n_timesteps must be a whole number, 1 or more; got {n_timesteps}.")
        present = self._present()
        model = self._inferring_model() if present is None else present.model
        check_times(model.parameters, n_timesteps)
        rng = check_random_state(self.random_state if random_state is None else random_state)

        d, p = model.A.shape[-1], model.C.shape[-2]
        if initial_state is not None:
            initial_state = as_state("initial_state", initial_state, (d,))
        # In the order of the steps, each a state and an observation.
        n_first = 0 if initial_state is not None else d
        draws = standard_normal(rng, n_timesteps * (d + p) - d + n_first)
        first, draws = draws[:n_first], draws[n_first:]
        of_observations = np.empty((n_timesteps, p))
        of_observations[0], rest = draws[:p], draws[p:].reshape(n_timesteps - 1, d + p)
        of_observations[1:] = rest[:, d:]

        states, steps = np.empty((n_timesteps, d)), np.arange(n_timesteps)
        states[0] = model.m + _noise(first[None], model.V)[0] if n_first else initial_state
        A, b, Q, C, c, R = (
            checks.at_times(name, model.parameters[name], times)
            for name, times in zip(VARYING, 3 * [steps[1:] - 1] + 3 * [steps], strict=True)
        )
        moved = b + _noise(rest[:, :d], model.Q if model.Q.ndim == 2 else Q)
        for t in range(1, n_timesteps):
            states[t] = A[t - 1] @ states[t - 1] + moved[t - 1]
        observations = np.einsum("tij,tj->ti", C, states) + c
        observations += _noise(of_observations, model.R if model.R.ndim == 2 else R)
        return states, np.ma.array(observations)

    # pykalman --------------------------------------------------------------------------------

    def to_pykalman(self):
        """The same model as a filter of pykalman, which has to be installed.

        Returns
        -------
        pykalman.KalmanFilter
            With copies of the parameters, learned or given; what is neither is left to its
            defaults, which are those of :meth:`filter`. Its ``em`` estimates what :meth:`em`
            does, except that it knows no single entries that stay.
        """
        peer = _filter_of_pykalman("to_pykalman")
        found = self._parameters() if self._has_learned() else self._given()
        # What is no system here would fail there later, and not say why.
        self._make_model(self._parameters())
        fixed = {name for name, held in self._fixed().items() if np.all(held)}
        em_vars = None if self.em_vars is None else _named(self.em_vars)
        if fixed:
            em_vars = (_EM_VARS if em_vars is None else em_vars) - fixed
        return peer(
            **{name: np.array(value) for name, value in found.items()},
            random_state=self.random_state,
            em_vars=None if em_vars is None else sorted(em_vars),
            n_dim_state=self.n_dim_state,
            n_dim_obs=self.n_dim_obs,
        )

    @classmethod
    def from_pykalman(cls, model, **settings):
        """A filter of pykalman as one of this class.

        Parameters
        ----------
        model : pykalman.KalmanFilter
            Or one of its subclasses, which compute the same by other means.
        **settings
            What pykalman has not, ``tol`` or ``n_jobs`` for instance.

        Returns
        -------
        KalmanFilter
            With copies of the parameters that ``model`` was given or has estimated.

        Examples
        --------
        >>> import fastem, pykalman
        >>> theirs = pykalman.KalmanFilter(transition_matrices=[[1, 1], [0, 1]], n_dim_obs=1)
        >>> ours = fastem.KalmanFilter.from_pykalman(theirs)
        >>> bool(abs(ours.loglikelihood([1, 2, 4]) - theirs.loglikelihood([1, 2, 4])) < 1e-12)
        True
        """
        if not isinstance(model, _filter_of_pykalman("from_pykalman")):
            raise ValueError(
                f"from_pykalman takes a pykalman.KalmanFilter; got a {type(model).__name__}. Other "
                "filters of pykalman, unscented ones for instance, are not linear."
            )
        theirs = (*NAMES, "random_state", "em_vars", "n_dim_state", "n_dim_obs")
        twice = sorted(settings.keys() & set(theirs))
        if twice:
            raise ValueError(f"{twice} are taken from the model: change them there, or afterwards.")
        given = {name: getattr(model, name) for name in NAMES}
        made = cls(
            **{
                name: None if value is None else np.array(promoted(name, value))
                for name, value in given.items()
            },
            **{name: getattr(model, name) for name in theirs if name not in given},
            **settings,
        )
        made._make_model(made._parameters())
        return made


def _noise(draws, covariance):
    """Noise of a covariance, or of one for each row, made of rows of standard normal numbers.

    The numbers are those of ``RandomState.multivariate_normal``.
    """
    _, values, vectors = np.linalg.svd(covariance)
    roots = np.sqrt(values)[..., None] * vectors
    return draws @ roots if roots.ndim == 2 else np.einsum("ti,tij->tj", draws, roots)


def _filter_of_pykalman(method):
    """pykalman's own class, which is not needed otherwise."""
    try:
        import pykalman
    except ImportError:
        raise ImportError(
            f"{method} needs pykalman, which is not installed: pip install pykalman."
        ) from None
    from ..patching import original_of

    # While fastem.patch is in force, the name leads back here.
    return original_of(pykalman.KalmanFilter)


def _named(em_vars):
    """The names in ``em_vars``."""
    if isinstance(em_vars, str):
        em_vars = tuple(NAMES) if em_vars == "all" else (em_vars,)
    try:
        names = frozenset(em_vars)
    except TypeError:
        raise ValueError(f"em_vars should be 'all' or a list of names; got {em_vars!r}.") from None
    if names - NAMES.keys():
        raise ValueError(
            f"em_vars: {sorted(map(str, names - NAMES.keys()))} are not among the parameters "
            f"{tuple(NAMES)}."
        )
    return names
