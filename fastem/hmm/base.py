"""What all hidden Markov estimators share: hmmlearn's conventions around the algebra."""

from __future__ import annotations

import contextlib
import logging
from numbers import Integral, Real
from typing import Self

import numpy as np
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import validate_data

from .. import checks
from ..data.batches import check_total
from ..data.remote import Remote, sample_of
from ..data.sequences import Sequences, SequenceStream, as_sequences
from ..estimator import Estimator, is_count
from ..exceptions import FewDataWarning, OverwritingWarning
from ..learning_rate import DEFAULT_RATE
from ..lengths import Lengths
from ..notices import logged, warn
from ..sklearn_compat import (
    Interval,
    StrOptions,
    fit_context,
    validate_parameter_constraints,
)
from ..stopping import Monitored
from ..waiting import check_is_fitted
from .chain import Chain, Shown, absorbing_states
from .checks import check_possible
from .custom import Customized, HookedModel, overridden_hooks, what_is_customized
from .emissions import Emissions
from .hooks import EmissionHooks
from .model import HMMModel

__all__ = ["BaseHMM"]

_log = logging.getLogger(__name__)


class BaseHMM(EmissionHooks, Estimator):
    """Common part of all hidden Markov estimators of this package.

    Users see :class:`fastem.hmm.custom.BaseHMM`, of which this is a subclass.
    """

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
        **Estimator._solver_constraints,
    }

    _learned_kinds = {  # noqa: RUF012
        **Estimator._learned_kinds,
        "lengths_": lambda value: isinstance(value, Lengths) and value.lengths[0] >= 1,
        "n_sequences_": is_count,
    }
    _stream_batch = 100
    _learns_sequences = True
    _not_in_model = Estimator._not_in_model | {
        "n_sequences_", "_monitor", "_monitor_made_for", "_learned",
    }  # fmt: skip
    #: Whether ``fit`` logs what it would warn of otherwise, as hmmlearn does.
    _logs = True
    #: The model; tests put a naive one in its place.
    _model_class = HMMModel

    def __init__(
        self, n_components=1, startprob_prior=1.0, transmat_prior=1.0, algorithm="viterbi",
        random_state=None, n_iter=10, tol=1e-2, verbose=False, params="st", init_params="st",
        implementation="log", *, absorbing=None, learning_rate=DEFAULT_RATE, batch_size=None,
        memory="model", fixed=(), n_jobs=None,
        forgetting=None, average_from=None, callback=None,
        drift_alarm=None, solver="em", n_blocks=None,
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
        self.absorbing = absorbing
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.memory = memory
        self.forgetting = forgetting
        self.average_from = average_from
        self.callback = callback
        self.drift_alarm = drift_alarm
        self.fixed = fixed
        self.n_jobs = n_jobs
        self.solver = solver
        self.n_blocks = n_blocks

    # The model -------------------------------------------------------------------------------

    def _emissions(self) -> Emissions:
        """The emissions that the settings describe."""
        raise NotImplementedError

    def _chain(self) -> Chain:
        """The chain that the settings describe."""
        absorbing = absorbing_states(self.absorbing, self.n_components)
        return Chain(self.n_components, absorbing, self.startprob_prior, self.transmat_prior)

    def _shown(self) -> tuple[Shown, ...]:
        """Which attribute shows which parameter of the model."""
        return Chain.shown + self._emissions().shown

    def _parameter_attributes(self):
        return tuple(shown.attribute for shown in self._shown())

    def _fixed_parameters(self) -> tuple[str, ...]:
        """The model's names of the parameters that learning leaves alone, by both settings."""
        table = self._shown()
        names = [shown.name for shown in table]
        letters = sorted({shown.letter for shown in table})
        for letter in self.params:
            if letter not in letters:
                raise ValueError(
                    f"params: {letter!r} stands for nothing; the letters are {letters}, for "
                    f"{names}."
                )
        fixed = self._fixed_names(names)
        return tuple(s.parameter for s in table if s.name in fixed or s.letter not in self.params)

    def _set_model(self, model):
        """Show a model's parameters as attributes."""
        parameters, emissions = model.parameters, self._emissions()
        values = parameters | emissions.to_values(parameters)
        # Copies, so that changing an attribute changes nothing that was given or is shared.
        shown = {s.attribute: np.array(values[s.name]) for s in Chain.shown + emissions.shown}
        for attribute, value in shown.items():
            # Not past a subclass, which may have made a property of it.
            setattr(self, attribute, value)
        self._learned = shown
        self._keep_told(model.told_dead)
        if model.horizon is not None:
            self.lengths_ = model.horizon

    def _model(self):
        """The model that the attributes describe, including attributes set by hand."""
        self._check_not_customized()
        return self._plain_model()

    def _plain_model(self):
        """The same, whatever hooks a subclass overrides."""
        emissions = self._emissions()
        values = self._values(emissions)
        n_columns = emissions.n_columns(values)
        if n_columns is not None:
            self._check_shapes(emissions, values, n_columns)
        return self._make_model(emissions, values)

    def _values(self, emissions, without=()):
        """The values that the attributes show, by name, except for those in ``without``."""
        all_shown = Chain.shown + emissions.shown
        values = {s.name: getattr(self, s.attribute) for s in all_shown if s.name not in without}
        for name in [shown.name for shown in emissions.shown if shown.name in values]:
            values[name] = emissions.value(name, values[name])
        return values

    def _check_shapes(self, emissions, values, n_columns):
        why = f" for {self.n_components} states and data of {n_columns} columns"
        for name, shape in emissions.shapes(n_columns).items():
            checks.shaped(f"{name}_", values[name], shape, why)

    def _make_model(self, emissions, values):
        chain, family = self._chain(), emissions.family.with_zeros()
        startprob, transmat = chain.checked(values["startprob"], values["transmat"])
        return self._model_class(
            family, startprob, transmat, None, packed=family.pack(emissions.to_parameters(values)),
            absorbing=chain.absorbing, fixed=self._fixed_parameters(),
            horizon=getattr(self, "lengths_", None), n_jobs=self.n_jobs,
            told_dead=set(getattr(self, "_told_dead", ())),
        )  # fmt: skip

    @property
    def n_features(self) -> int:
        """The number of columns."""
        emissions = self._emissions()
        absent = [shown.name for shown in self._shown() if not hasattr(self, shown.attribute)]
        n_columns = emissions.n_columns(self._values(emissions, without=absent))
        return self.n_features_in_ if n_columns is None else n_columns

    @n_features.setter
    def n_features(self, n_features):
        self.n_features_in_ = int(n_features)

    # Hooks that a subclass overrides -----------------------------------------------------------

    def _check_not_customized(self):
        """Raise :class:`Customized` if a subclass has changed what kernels would compute."""
        names = overridden_hooks(self)
        if names:
            raise Customized(what_is_customized(self, names))

    def _used_model(self):
        """The model that the attributes describe; it is not built again unless one has changed."""
        try:
            return self._present_model()
        except Customized:
            return super()._used_model()
        except AttributeError:
            if self.__sklearn_is_fitted__():
                raise
        # Attributes are missing.
        return check_is_fitted(self)

    def _after_building(self):
        # As in hmmlearn, lists that were set are arrays once they have been used.
        for shown in self._shown():
            value = getattr(self, shown.attribute)
            if not isinstance(value, np.ndarray):
                setattr(self, shown.attribute, np.asarray(value))

    def _draw(self, model, path, random_state):
        if isinstance(model, HookedModel):
            return super()._draw(model, path, random_state)
        return self._emissions().draw(model, path, random_state)

    #: Settings that have no hook, and what they are by default.
    _without_hooks = {  # noqa: RUF012
        "absorbing": None, "fixed": (), "solver": "em", "callback": None,
    }  # fmt: skip

    def _fit_customized(self, X, lengths, sample_weight, cut_off):
        """Batch EM through the hooks of a subclass."""
        settings = self._without_hooks.items()
        is_plain = all(value is None for value in (sample_weight, cut_off)) and all(
            np.size(getattr(self, name)) == 0 if default == () else getattr(self, name) == default
            for name, default in settings
        )
        if not is_plain:
            raise ValueError(
                f"{type(self).__name__} overrides {', '.join(overridden_hooks(self))}, and is "
                "fitted through hmmlearn's hooks, which know of no sample_weight, cut_off, "
                f"{', '.join(self._without_hooks)}: leave these as they are by default."
            )
        return EmissionHooks.fit(self, X, lengths)

    def _validate_params(self):
        with contextlib.suppress(RuntimeError):
            return super()._validate_params()
        # The constructor of a subclass may pass on arguments without naming them.
        names = [name for name in self._parameter_constraints if hasattr(self, name)]
        settings = {name: getattr(self, name) for name in names}
        caller = type(self).__name__
        return validate_parameter_constraints(
            self._parameter_constraints, settings, caller_name=caller
        )

    # Data ------------------------------------------------------------------------------------

    def _check_table(self, table, n_before=0, *, reset):
        """Checked sequences; ``n_before`` sequences came before them in the stream."""
        X = table.X
        if self._are_plain_rows(X, reset=reset, most=np.inf):
            if reset:
                self._set_columns(X)
        elif not reset and isinstance(X, np.ndarray) and hasattr(self, "feature_names_in_"):
            # hmmlearn, which knows no names of columns, does not warn of arrays without names.
            X = check_array(X, ensure_all_finite=False)
            if X.shape[1] != self.n_features_in_:
                raise ValueError(
                    f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                    f"{self.n_features_in_} features as input."
                )
        else:
            X = validate_data(self, X, reset=reset, dtype="numeric", ensure_all_finite=False)
        if table.cut_off is not None and table.cut_off.any() and self.absorbing is None:
            raise ValueError(
                "cut_off says which sequences end before they are absorbed, and this model has no "
                "absorbing states. Leave it out, or name them: absorbing=[...]."
            )
        table = Sequences(X, table.lengths, table.sample_weight, table.cut_off, missing=False)
        table.missing = self._emissions().check(table, n_before, reset=reset)
        return table

    def _check_data(
        self, X, lengths=None, sample_weight=None, cut_off=None, *, reset, once=False
    ):  # fmt: skip
        """``X`` in any of the accepted forms, as checked sequences or a stream of them."""
        if overridden_hooks(self):
            return EmissionHooks._check_data(
                self, X, lengths, sample_weight, cut_off, reset=reset, once=once
            )
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

    def _set_width(self, model):
        """Set the number of columns that data must have; attributes may have been set by hand."""
        if isinstance(model, HookedModel):
            return
        if model.family.compiled:
            n_columns = model.family.size(model.packed)[1]
            if getattr(self, "n_features_in_", None) != n_columns:
                self.n_features_in_ = n_columns
                vars(self).pop("feature_names_in_", None)

    # The initialization ----------------------------------------------------------------------

    def _initial_model(self, data, *, overwrite=True):
        """The first model. Attributes that are set are kept.

        With ``overwrite`` those that ``init_params`` names are initialized all the same.
        """
        self._check_not_customized()
        n_columns, seed = self.n_features_in_, self.random_state
        overwritten = self.init_params if overwrite else ""
        wanted = [shown.name for shown in self._shown()
                  if shown.letter in overwritten or not hasattr(self, shown.attribute)]  # fmt: skip
        emissions = self._fitted_emissions(data, wanted)
        self._warn_of_overwriting(wanted)
        chain = self._chain()
        values = chain.initialize(wanted, check_random_state(seed), drawn=self._draws_chain)
        if any(shown.name in wanted for shown in emissions.shown):
            values |= emissions.initialize(
                sample_of(data), wanted, n_columns, seed, chain.absorbing
            )
        values |= self._values(emissions, without=wanted)
        self._check_shapes(emissions, values, n_columns)
        return self._make_model(emissions, values)

    def _fitted_emissions(self, data, wanted):
        """The emissions, of the sizes that the data have."""
        emissions = self._emissions()
        for shown in emissions.shown:
            if emissions.sized_by_data and shown.name in wanted:
                # The old number of outcomes does not apply to these data.
                vars(self).pop(shown.attribute, None)
        emissions = emissions.fitted_to(data, wanted)
        for attribute, found in emissions.found.items():
            setattr(self, attribute, found)
        return emissions

    def _warn_of_overwriting(self, wanted):
        """Warn of parameters that the user has set and that are initialized all the same."""
        learned = vars(self).get("_learned", {})
        for name, letter, _, attribute in self._shown():
            if name not in wanted or not hasattr(self, attribute):
                continue
            if attribute in learned:
                by_hand = not np.array_equal(getattr(self, attribute), learned[attribute])
            else:
                by_hand = not hasattr(self, "n_iter_")
            if by_hand:
                warn(
                    f"{name}_ was set, and will be overwritten by the start because init_params "
                    f"contains {letter!r}.",
                    OverwritingWarning,
                )

    def _is_given_start(self):
        return not {shown.letter for shown in self._shown()} <= set(self.init_params)

    def _n_free(self, model):
        """The number of free parameters, by their letters."""
        if isinstance(model, HookedModel):
            return super()._n_free(model)
        return {**self._chain().n_free(), **self._emissions().n_free(model)}

    def _initial_models(self, data):
        model = self._initial_model(data)
        n_free = sum(n for letter, n in self._n_free(model).items() if letter in self.params)
        if isinstance(data, Sequences) and data.X.size < n_free:
            warn(
                f"Fitting a model with {n_free} free scalar parameters with only {data.X.size} "
                "data points will result in a degenerate solution. Use fewer states, hold "
                "parameters fixed, or find more data.",
                FewDataWarning,
            )
        return [model]

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
        if overridden_hooks(self):
            return self._fit_customized(X, lengths, sample_weight, cut_off)
        with self._all_or_nothing(), logged(_log if self._logs else None):
            monitor = self.monitor_
            before = monitor.iter, list(monitor.history)
            try:
                X, lengths = self._as_read(X, lengths)
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
        self._fixed_parameters()

    def _stopping_rule(self, data):
        def check(model, expectation):
            check_possible(model, data, expectation.log_likelihood)

        # A stream may hold rows of any type.
        in_single = getattr(data, "is_single", isinstance(data, SequenceStream))
        return Monitored(self._reset_monitor(), self.n_iter, check, in_single)

    def _set_fitted(self, fitted, rule):
        super()._set_fitted(fitted, rule)
        monitor = rule.monitor
        self.converged_ = rule.has_settled
        self.n_iter_ = monitor.iter
        self.lower_bounds_ = [float(value) for value in monitor.history]
        self.lower_bound_ = self.lower_bounds_[-1] if self.lower_bounds_ else -np.inf

    def _maximize(self, model, expectation):
        """The next model of batch EM, priors included."""
        # Priors count as observations, so that totals are needed, not means.
        statistics, n_sequences = expectation.statistics, expectation.weight
        new = self._emissions().maximize(model, statistics, n_sequences)
        new |= self._chain().maximize(model, statistics, n_sequences)
        kept = {name: array for name, array in model.parameters.items() if name in model.fixed}
        return model.with_parameters(new | kept)

    def _prior(self, model):
        """The priors of ``_maximize`` as kernels take them; None if they must say what is wrong."""
        try:
            emissions = self._emissions().kernel_prior(model)
            return self._chain().kernel_prior(emissions)
        except ValueError:
            return None

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
    _predicts_one = True

    def _score_one(self, X):
        return self.score(X)

    def _predict_one(self, X):
        return self.predict(X)

    def _predict_quickly(self, quick, x):
        return quick.predict(x) if self.algorithm == "viterbi" else quick.predict_each(x)

    def _before_learning(self, model):
        if model is None:
            # Wrong names are found before the initialization, and not by the model it makes.
            self._fixed_parameters()
        else:
            self._set_width(model)

    def _start_is_given(self):
        return any(hasattr(self, name) for name in self._parameter_attributes())

    def _initial_model_online(self, table):
        check_total(table.sample_weight, table.observation_name)
        model = self._initial_model(table, overwrite=False)
        # The tables that follow are checked against it.
        self._set_model(model)
        return model

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
