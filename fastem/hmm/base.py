"""What all hidden Markov estimators share: hmmlearn's conventions around the algebra."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from .. import checks
from ..data.batches import check_total
from ..data.remote import Remote, sample_of
from ..data.sequences import Sequences, SequenceStream, as_sequences
from ..estimator import Estimator, is_count
from ..families import Family
from ..learning_rate import DEFAULT_RATE
from ..lengths import Lengths
from ..notices import warn
from ..sklearn_compat import Interval, StrOptions, fit_context
from ..stopping import ConvergenceMonitor, Monitored
from .checks import check_possible, check_values
from .inference import HMMInference
from .model import HMMModel
from .priors import dirichlet_mode

__all__ = ["BaseHMM"]


class BaseHMM(HMMInference, Estimator):
    """Common part of all hidden Markov estimators."""

    _parameter_constraints = {  # noqa: RUF012 (scikit-learn's convention)
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "startprob_prior": [Real, "array-like"],
        "transmat_prior": [Real, "array-like"],
        "algorithm": [StrOptions({"viterbi", "map"})],
        "random_state": ["random_state"],
        "n_iter": [Interval(Integral, 0, None, closed="left")],
        "tol": [Real],
        "verbose": ["verbose"],
        "params": [str],
        "init_params": [str],
        "implementation": [StrOptions({"log", "scaling"})],
        "absorbing": ["array-like", Integral, None],
        **Estimator._online_constraints,
    }

    _learned_kinds = {  # noqa: RUF012
        **Estimator._learned_kinds,
        "lengths_": lambda value: isinstance(value, Lengths) and value.lengths[0] >= 1,
        "n_sequences_": is_count,
    }
    #: The letter that stands for each attribute in ``params`` and ``init_params``.
    _letters = {"startprob": "s", "transmat": "t"}  # noqa: RUF012
    #: What the family calls the parameters that are shown under another name.
    _family_names = {}  # noqa: RUF012
    _stream_batch = 100
    #: Whether the chain of the start is drawn at random.
    _random_chain = True
    #: The model; tests put a naive one in its place.
    _model_class = HMMModel

    def __init__(
        self,
        n_components=1,
        startprob_prior=1.0,
        transmat_prior=1.0,
        algorithm="viterbi",
        random_state=None,
        n_iter=10,
        tol=1e-2,
        verbose=False,
        params="st",
        init_params="st",
        implementation="log",
        *,
        absorbing=None,
        learning_rate=DEFAULT_RATE,
        batch_size=None,
        memory="model",
        fixed=(),
        n_jobs=None,
    ):
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
        self.absorbing = absorbing
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.memory = memory
        self.fixed = fixed
        self.n_jobs = n_jobs

    # Supplied by each estimator --------------------------------------------------------------

    def _family(self) -> Family:
        """The family of the emissions."""
        raise AttributeError(f"{type(self).__name__} has no family.")

    def _emission_names(self) -> tuple[str, ...]:
        """The names of the emissions' attributes, without the underscore."""
        return tuple(name for name in self._letters if name not in ("startprob", "transmat"))

    def _emission_shapes(self, n_columns) -> dict[str, tuple[int, ...]]:
        """The shapes of the emissions' attributes for data of so many columns."""
        raise AttributeError(f"{type(self).__name__} has no emissions.")

    def _to_family(self, emissions) -> dict[str, np.ndarray]:
        """The family's parameters from the emissions' attributes."""
        return {self._family_name(name): array for name, array in emissions.items()}

    def _from_family(self, parameters) -> dict[str, np.ndarray]:
        """The emissions' attributes from the family's parameters."""
        return {name: parameters[self._family_name(name)] for name in self._emission_names()}

    def _start_emissions(self, data, wanted, n_columns) -> dict[str, np.ndarray]:
        """First values for the ``wanted`` emission parameters, by the attributes' names."""
        raise AttributeError(f"{type(self).__name__} has no start.")

    def _step_emissions(self, model, statistics, n_sequences) -> dict[str, np.ndarray]:
        """The family's parameters after a batch step, priors included."""
        parameters = model.maximize(statistics).parameters
        return {name: parameters[name] for name in model.family.parameter_names}

    def _n_emission_parameters(self, n_columns) -> dict[str, int]:
        """How many free numbers each emission parameter has."""
        raise AttributeError(f"{type(self).__name__} has no emissions.")

    def _emit(self, random_state) -> Callable:
        """A function that draws a row from a state, as hmmlearn would."""
        raise AttributeError(f"{type(self).__name__} has no emissions.")

    # The model -------------------------------------------------------------------------------

    def _family_name(self, name):
        return self._family_names.get(name, name)

    def _absorbing(self) -> tuple[int, ...]:
        """The absorbing states, checked."""
        if self.absorbing is None:
            return ()
        states = np.atleast_1d(np.asarray(self.absorbing))
        whole = states.ndim == 1 and (states.dtype.kind in "iu" or states.size == 0)
        if not whole or len(set(states.tolist())) < len(states):
            raise ValueError(
                f"absorbing must be a list of states, each once; got {self.absorbing!r}."
            )
        for state in states:
            if not 0 <= state < self.n_components:
                raise ValueError(
                    f"absorbing: {state} is not one of the states 0 .. {self.n_components - 1}."
                )
        if len(states) == self.n_components:
            raise ValueError("absorbing: at least one state must not be absorbing.")
        return tuple(sorted(int(state) for state in states))

    def _held(self) -> tuple[str, ...]:
        """The model's names of the parameters that learning leaves alone."""
        names = ("startprob", "transmat", *self._emission_names())
        known = set(self._letters.values())
        for letter in self.params:
            if letter not in known:
                raise ValueError(
                    f"params: {letter!r} stands for nothing; the letters are "
                    f"{sorted(known)}, for {list(self._letters)}."
                )
        held = set(self._fixed_names(names))
        held |= {name for name in names if self._letters.get(name, "e") not in self.params}
        return tuple(self._family_name(name) for name in names if name in held)

    def _set_model(self, model):
        """Show a model's parameters as attributes."""
        parameters = model.parameters
        # Copies, so that changing an attribute changes nothing that was given or is shared.
        self.startprob_ = np.array(parameters["startprob"])
        self.transmat_ = np.array(parameters["transmat"])
        for name, array in self._from_family(parameters).items():
            setattr(self, self._attribute(name), np.array(array))
        self._learned = {name: getattr(self, name) for name in self._attributes()}
        self._keep_told(model.told_dead)
        if model.horizon is not None:
            self.lengths_ = model.horizon

    def _model(self):
        """The model that the attributes describe, whoever set them."""
        emissions = {name: self._emission(name) for name in self._emission_names()}
        n_columns = self._n_columns(emissions)
        if n_columns is not None:
            self._check_shapes(emissions, n_columns)
        return self._make_model(self.startprob_, self.transmat_, emissions)

    def _emission(self, name):
        return checks.numbers(f"{name}_", getattr(self, self._attribute(name)))

    def _n_columns(self, emissions) -> int | None:
        """The number of columns of the data that go with these parameters, if they tell."""
        return None

    def _check_shapes(self, emissions, n_columns):
        for name, shape in self._emission_shapes(n_columns).items():
            if emissions[name].shape != shape:
                raise ValueError(
                    f"{name}_ must have the shape {shape} for {self.n_components} states and data "
                    f"of {n_columns} columns; got {emissions[name].shape}."
                )

    def _make_model(self, startprob, transmat, emissions):
        n_states = self.n_components
        startprob = _probabilities("startprob_", startprob, (n_states,))
        absorbing = self._absorbing()
        transmat = np.array(checks.numbers("transmat_", transmat))
        if transmat.shape == (n_states, n_states):
            for state in absorbing:
                # A chain never leaves an absorbing state; its row may be left out.
                if not transmat[state].any():
                    transmat[state, state] = 1.0
        transmat = _probabilities("transmat_", transmat, (n_states, n_states))
        for state in absorbing:
            if transmat[state, state] != 1.0:
                raise ValueError(
                    f"State {state} is absorbing, but transmat_[{state}] leads elsewhere: it must "
                    "be all zeros but for a one on the diagonal."
                )
        return self._model_class(
            self._family(), startprob, transmat, self._to_family(emissions), absorbing=absorbing,
            fixed=self._held(), horizon=getattr(self, "lengths_", None), n_jobs=self.n_jobs,
            told_dead=set(getattr(self, "_told_dead", ())),
        )  # fmt: skip

    def _attribute(self, name):
        """The attribute that holds a parameter."""
        return f"{name}_"

    def _attributes(self):
        return tuple(
            self._attribute(name) for name in ("startprob", "transmat", *self._emission_names())
        )

    def _parameter_attributes(self):
        return self._attributes()

    @property
    def monitor_(self) -> ConvergenceMonitor:
        """Watches batch EM; set one of your own before fitting to change when it stops."""
        if "_monitor" not in vars(self):
            self.monitor_ = ConvergenceMonitor(self.tol, self.n_iter, self.verbose)
        return self._monitor

    @monitor_.setter
    def monitor_(self, monitor):
        self._monitor = monitor
        self._monitor_made_for = {name: getattr(self, name) for name in _MONITORED}

    def _start_monitor(self):
        """The monitor, with settings that were changed since it was made, and no history."""
        monitor = self.monitor_
        for name, value in self._monitor_made_for.items():
            if getattr(self, name) != value:
                setattr(monitor, name, getattr(self, name))
        self._monitor_made_for = {name: getattr(self, name) for name in _MONITORED}
        monitor._reset()
        return monitor

    # Data ------------------------------------------------------------------------------------

    def _check_table(self, table, n_before=0, *, reset):
        """Sequences whose rows are fit for the emissions; ``n_before`` of them came before."""
        X = validate_data(self, table.X, reset=reset, dtype="numeric", ensure_all_finite=False)
        if table.cut_off is not None and table.cut_off.any() and self.absorbing is None:
            raise ValueError(
                "cut_off says which sequences end before they are absorbed, and this model has no "
                "absorbing states. Leave it out, or name them: absorbing=[...]."
            )
        table = Sequences(X, table.lengths, table.sample_weight, table.cut_off, missing=False)
        table.missing = check_values(table, self._support(reset), n_before)
        return table

    def _support(self, reset):
        """The family whose support the rows must be in."""
        return self._family()

    def _check_data(
        self, X, lengths=None, sample_weight=None, cut_off=None, *, reset, once=False
    ):  # fmt: skip
        """``X`` in any of the accepted forms, as checked sequences or a stream of them."""
        if isinstance(X, Remote):
            return X.checked(self, reset=reset)
        data = as_sequences(X, lengths, sample_weight, cut_off, once=once)
        if isinstance(data, Sequences):
            return self._check_table(data, reset=reset)
        first = reset

        def check(table, n_before):
            nonlocal first
            checked = self._check_table(table, n_before, reset=first)
            first = False
            return checked

        return SequenceStream(data.source, check, once=True, cut_off=data.cut_off)

    def _take_width(self, model):
        """See that data are compared with the attributes, which may have been set by hand."""
        if model.family.compiled:
            n_columns = model.family.size(model.packed)[1]
            if getattr(self, "n_features_in_", None) != n_columns:
                self.n_features_in_ = n_columns
                vars(self).pop("feature_names_in_", None)

    # The start -------------------------------------------------------------------------------

    def _needs_start(self, name, overwrite):
        """Whether the start decides on a parameter, and not the user."""
        attribute = self._attribute(name)
        if not hasattr(self, attribute):
            return True
        if not (overwrite and self._letters.get(name, "e") in self.init_params):
            return False
        learned = vars(self).get("_learned", {}).get(attribute)
        by_hand = not hasattr(self, "n_iter_") if learned is None else (
            not np.array_equal(getattr(self, attribute), learned)
        )  # fmt: skip
        if by_hand:
            warn(
                f"{name}_ was set, and is overwritten by the start because init_params "
                f"contains {self._letters.get(name, 'e')!r}.",
                UserWarning,
            )
        return True

    def _start(self, data, *, overwrite=True):
        """The first model; what the user set stays unless ``overwrite`` and ``init_params``."""
        n_columns = self.n_features_in_
        self._begin(data, overwrite)
        data = sample_of(data)
        n_states = self.n_components
        random_state = check_random_state(self.random_state)
        even = np.full(n_states, 1.0 / n_states)
        absorbing = self._absorbing()
        # Random chains are hmmlearn's start. Where it has none, an even one leaves it to the
        # emissions to tell the states apart, and ends in fewer poor maxima.
        drawn = self._random_chain and not absorbing
        startprob, transmat = None, None
        if self._needs_start("startprob", overwrite):
            startprob = _finite(random_state.dirichlet(even)) if drawn else even
        if self._needs_start("transmat", overwrite):
            if drawn:
                transmat = _finite(random_state.dirichlet(even, size=n_states))
            else:
                transmat = np.repeat(even[None], n_states, axis=0)
            for state in absorbing:
                transmat[state] = np.eye(n_states)[state]
        names = self._emission_names()
        wanted = [name for name in names if self._needs_start(name, overwrite)]
        started = self._start_emissions(data, wanted, n_columns) if wanted else {}
        emissions = {
            name: started[name] if name in wanted else self._emission(name) for name in names
        }
        self._check_shapes(emissions, n_columns)
        startprob = self.startprob_ if startprob is None else startprob
        transmat = self.transmat_ if transmat is None else transmat
        return self._make_model(startprob, transmat, emissions)

    def _begin(self, data, overwrite):
        """Find out from the data what the family needs to know."""

    def _n_parameters(self):
        """How many free numbers each parameter has."""
        n_states = self.n_components
        return {
            "startprob": n_states - 1,
            "transmat": (n_states - len(self._absorbing())) * (n_states - 1),
            **self._n_emission_parameters(self.n_features_in_),
        }

    def _warn_of_few_rows(self, data):
        counts = self._n_parameters()
        n_free = sum(count for name, count in counts.items() if self._is_learned(name))
        if isinstance(data, Sequences) and data.X.size < n_free:
            warn(
                f"Fitting a model with {n_free} free numbers to only {data.X.size} data points "
                "gives a degenerate solution. Use fewer states, hold parameters fixed, or find "
                "more data.",
                RuntimeWarning,
            )

    def _is_learned(self, name):
        return self._letters.get(name, "e") in self.params

    # Learning --------------------------------------------------------------------------------

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, lengths=None, sample_weight=None, cut_off=None) -> Self:
        """Fit by batch EM.

        Parameters not named in ``init_params`` start from the attributes if these are set.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), list, 3-D array, or stream
            Rows of all sequences one after another; or a list of sequences, each an array of steps
            by columns; or an array (n_sequences, n_steps, n_features); or a function that returns
            a new iterator over sequences, over lists of them, or over pairs of these and weights.
            A list of arrays of one dimension is the rows of one array, as in hmmlearn.
            NaN marks a missing value, or, in a whole row, a missing step.
        lengths : array-like of int, optional
            How many rows each sequence has, for a single array. By default it is one sequence.
        sample_weight : array-like of shape (n_sequences,), optional
            A sequence of weight 2 counts as two.
        cut_off : bool or array-like of bool, optional
            For models with absorbing states: which sequences end before they are absorbed.

        Returns
        -------
        self
        """
        monitor = self.monitor_
        before = monitor.iter, list(monitor.history)
        try:
            self._fit(X, lengths=lengths, sample_weight=sample_weight, cut_off=cut_off)
        except BaseException:
            monitor._reset()
            monitor.iter = before[0]
            monitor.history.extend(before[1])
            raise
        return self

    def _forget_fit(self):
        for name in ("_told_dead", "lengths_", "n_sequences_"):
            vars(self).pop(name, None)

    def _check_fit(self, data):
        if isinstance(data, SequenceStream):
            # Its first table tells the number of columns.
            next(data.tables())
        self._held()

    def _initial_models(self, data):
        yield self._start(data)
        self._warn_of_few_rows(data)

    def _stopping_rule(self, data):
        def check(model, expectation):
            check_possible(model, data, expectation.log_likelihood)

        return Monitored(self._start_monitor(), self.n_iter, check)

    def _set_fitted(self, fitted, rule):
        super()._set_fitted(fitted, rule)
        monitor = rule.monitor
        self.converged_ = bool(len(monitor.history) > 1 and monitor._settled)
        self.n_iter_ = monitor.iter
        self.lower_bounds_ = [float(value) for value in monitor.history]
        self.lower_bound_ = self.lower_bounds_[-1] if self.lower_bounds_ else -np.inf

    def _maximize(self, model, expectation):
        """The next model of batch EM, priors included."""
        # Priors count as observations, so that totals are needed, not means.
        statistics, n_sequences = expectation.statistics, expectation.weight
        parameters = model.parameters
        new = self._step_emissions(model, statistics, n_sequences)
        new["startprob"] = dirichlet_mode(
            statistics["start"] * n_sequences,
            _shaped("startprob_prior", self.startprob_prior, parameters["startprob"].shape),
            parameters["startprob"],
        )
        new["transmat"] = dirichlet_mode(
            statistics["transitions"] * n_sequences,
            _shaped("transmat_prior", self.transmat_prior, parameters["transmat"].shape),
            parameters["transmat"],
        )
        for name, array in new.items():
            if name not in model.fixed:
                parameters[name] = array
        return model.with_parameters(parameters)

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, lengths=None, sample_weight=None, cut_off=None) -> Self:
        """Learn online from new sequences.

        Each batch moves the model to the minimum of the batch's loss plus the divergence from the
        present model over the learning rate. The batches are ``batch_size`` sequences each; if
        that is None, all of the call's, or 100 of a stream. A batch that weighs less than a whole
        one moves the model less, and batches go on from one item of a stream to the next: how a
        stream is cut makes no difference. The first call starts the model from its rows, of a
        stream from the first sequences of 10,000 rows or more, except for attributes that are
        set. Priors have no part in it: the present model is what is held on to.

        Parameters
        ----------
        X, lengths, sample_weight, cut_off
            As for :meth:`fit`; an iterator will do for a stream.

        Returns
        -------
        self
        """
        return self._partial_fit(X, lengths=lengths, sample_weight=sample_weight, cut_off=cut_off)

    _more_online_settings = ("absorbing", "params")

    def _has_learned(self):
        return all(hasattr(self, name) for name in self._attributes())

    def _before_learning(self, *, started):
        self._held()
        if started:
            self._take_width(self._model())

    def _initial_model_online(self, table):
        check_total(table.sample_weight, table.observation_name)
        return self._start(table, overwrite=False)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


_MONITORED = ("tol", "n_iter", "verbose")


def _finite(rows):
    """Rows of probabilities as they were drawn, or even where the draw came to nothing."""
    return np.where(np.isfinite(rows), rows, 1.0 / rows.shape[-1])


def _shaped(name, prior, shape):
    prior = np.asarray(prior, dtype=float)
    try:
        return np.broadcast_to(prior, shape)
    except ValueError:
        raise ValueError(
            f"{name} must be a number, or have the shape {shape}; got {prior.shape}."
        ) from None


def _probabilities(name, array, shape):
    """An array whose last axis holds probabilities, checked."""
    array = checks.numbers(name, array)
    checks.shaped(name, array, shape, f" for {shape[0]} states")
    checks.check_probabilities(name, array)
    return array
