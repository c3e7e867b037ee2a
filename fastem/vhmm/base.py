"""What variational hidden Markov estimators share: hmmlearn's conventions around the algebra."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .. import algebra, checks
from ..data.remote import map_tables, sample_of
from ..estimator import is_count
from ..exceptions import ImpossibleDataError, OverwritingWarning
from ..hmm.base import BaseHMM
from ..hmm.chain import Chain
from ..hmm.custom import overridden_hooks
from ..hmm.priors import shaped_prior
from ..learning_rate import DEFAULT_RATE
from ..notices import warn
from ..sklearn_compat import Interval
from ..stopping import Monitored, Slowing
from .model import VariationalHMM
from .posteriors import Posterior, checks_positive

__all__ = ["BaseVariationalHMM"]

#: A first model of online learning takes so many steps of batch learning at most.
_REFINE_STEPS = 30
#: Draws of pseudo-counts that underflow are this: a posterior has no zeros.
_LEAST_COUNT = 1e-300


class BaseVariationalHMM(BaseHMM):
    """Common part of all variational hidden Markov estimators."""

    _parameter_constraints = {  # noqa: RUF012 (scikit-learn's convention)
        **BaseHMM._parameter_constraints,
        "startprob_prior": [Real, "array-like", None],
        "transmat_prior": [Real, "array-like", None],
        "total_sequences": [Interval(Real, 0.0, None, closed="neither"), None],
    }
    _learned_kinds = {**BaseHMM._learned_kinds, "evidence_": is_count}  # noqa: RUF012
    _more_online_settings = ("params", "total_sequences")

    # Settings of other estimators that make no sense for a posterior, which is its own memory.
    absorbing = None
    memory = "model"
    fixed = ()

    def __init__(
        self, n_components=1, startprob_prior=None, transmat_prior=None, algorithm="viterbi",
        random_state=None, n_iter=100, tol=1e-6, verbose=False, params="ste", init_params="ste",
        implementation="log", *, learning_rate=DEFAULT_RATE, batch_size=None, forgetting=None,
        average_from=None, total_sequences=None, callback=None, drift_alarm=None, n_jobs=None,
        solver="em", n_blocks=None,
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
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.forgetting = forgetting
        self.average_from = average_from
        self.total_sequences = total_sequences
        self.callback = callback
        self.drift_alarm = drift_alarm
        self.n_jobs = n_jobs
        self.solver = solver
        self.n_blocks = n_blocks

    # Supplied by each estimator --------------------------------------------------------------

    def _posterior_kind(self) -> Posterior:
        """The kind of the posterior of the emissions."""
        raise NotImplementedError

    def _emission_priors(self, shapes, wanted, sample) -> dict[str, np.ndarray]:
        """The priors of the emissions whose letters are ``wanted``."""
        raise NotImplementedError

    def _emission_starts(self, priors, wanted, sample, n_rows) -> dict[str, np.ndarray]:
        """The posteriors from which batch learning starts."""
        raise NotImplementedError

    def _width(self, emissions) -> int:
        """The number of columns, or of symbols."""
        return self.n_features_in_

    # The model -------------------------------------------------------------------------------

    def _chain(self):
        return Chain(self.n_components)

    def _letters(self) -> dict[str, str]:
        """The letter of each hyperparameter."""
        return {"startprob": "s", "transmat": "t", **self._posterior_kind().letters}

    def _plug_in_attributes(self) -> tuple[str, ...]:
        """The attributes that show the model at the mean of the posterior."""
        # The means are those of the posterior.
        return tuple(s.attribute for s in self._shown() if s.attribute != "means_")

    def _parameter_attributes(self):
        names = self._letters()
        hyper = [f"{name}_{which}_" for name in names for which in ("prior", "posterior")]
        return (*hyper, *self._plug_in_attributes())

    _module_of_hmmlearn = "hmmlearn.vhmm"

    def _travelling(self):
        return {name: name for name in self._parameter_attributes()}

    def _refuse_hooks(self):
        """Raise ``TypeError`` if a subclass overrides a hook, which nothing here would call."""
        names = overridden_hooks(self)
        if names:
            kind = next(
                k.__name__ for k in type(self).__mro__ if k.__module__.startswith("fastem.")
            )
            raise TypeError(
                f"{type(self).__name__} overrides {', '.join(names)}, and fastem's variational "
                f"models have no hooks. Derive it from hmmlearn.vhmm.{kind}, whose recursions "
                "fastem.patch() makes faster."
            )

    def _check_data(self, *data, **settings):
        self._refuse_hooks()
        return super()._check_data(*data, **settings)

    def _used_model(self):
        self._refuse_hooks()
        return super()._used_model()

    def _fit_customized(self, X, lengths, sample_weight, cut_off):
        self._refuse_hooks()

    def _set_model(self, model):
        emissions, shown = self._emissions_of(model), {}
        for which, values in (("prior", model.prior), ("posterior", model.posterior)):
            for name, array in values.items():
                # A number stays a number, and arrays are copied.
                array = np.array(array, dtype=float)
                shown[f"{name}_{which}_"] = array if array.ndim else float(array)
        values = {"startprob": model.startprob, "transmat": model.transmat}
        values |= emissions.to_values(model.family.unpack(model.packed))
        wanted = self._plug_in_attributes()
        for one in Chain.shown + emissions.shown:
            if one.attribute in wanted:
                shown[one.attribute] = np.array(values[one.name])
        for attribute, value in shown.items():
            setattr(self, attribute, value)
        self._learned, self.evidence_ = shown, model.evidence
        self._keep_told(model.told_dead)
        if model.horizon is not None:
            self.lengths_ = model.horizon

    def _emissions_of(self, model) -> Any:
        """The emissions in the sizes of a model."""
        return self._emissions()

    def _model(self):
        prior, posterior = (
            {name: getattr(self, f"{name}_{which}_") for name in self._letters()}
            for which in ("prior", "posterior")
        )
        emissions = self._emissions()
        values = self._values(emissions)
        width = np.shape(posterior[next(iter(self._posterior_kind().letters))])[-1]
        self._check_shapes(emissions, values, width)
        startprob, transmat = self._chain().checked(values["startprob"], values["transmat"])
        family = emissions.family.with_zeros()
        plug_in = startprob, transmat, family.pack(emissions.to_parameters(values))
        evidence = getattr(self, "evidence_", None)
        return self._make_variational(emissions, prior, posterior, width, evidence, plug_in)

    def _make_variational(self, emissions, prior, posterior, width, evidence, plug_in=None):
        """A model of given hyperparameters, which are checked."""
        prior, posterior = (
            self._checked_values(which, values, width)
            for which, values in (("prior", prior), ("posterior", posterior))
        )
        if evidence is None:
            # A posterior has as many more first states than the prior as there were sequences.
            evidence = max(posterior["startprob"].sum() - prior["startprob"].sum(), 0.0)
        return VariationalHMM(
            emissions.family.with_zeros(), self._posterior_kind(), posterior, prior,
            evidence=evidence, total=self.total_sequences, plug_in=plug_in,
            fixed=self._fixed_parameters(), horizon=getattr(self, "lengths_", None),
            n_jobs=self.n_jobs, told_dead=set(getattr(self, "_told_dead", ())),
        )  # fmt: skip

    def _checked_values(self, which, values, width):
        """Hyperparameters as arrays; ``ValueError`` if they are those of no distribution."""
        kind, n_states = self._posterior_kind(), self.n_components
        shapes = {"startprob": (n_states,), "transmat": (n_states, n_states)}
        shapes |= kind.shapes(n_states, width)
        arrays = {}
        for name, shape in shapes.items():
            attribute = f"{name}_{which}_"
            arrays[name] = checks.shaped(
                attribute, checks.numbers(attribute, values[name]), shape,
                f" for {n_states} states and {width} columns or symbols",
            )  # fmt: skip
        for name in ("startprob", "transmat"):
            checks_positive(f"{name}_{which}_", arrays[name])
        kind.check(f"{{}}_{which}_", arrays)
        return arrays

    # Data ------------------------------------------------------------------------------------

    def _check_table(self, table, n_before=0, *, reset):
        table = super()._check_table(table, n_before, reset=reset)
        if table.missing:
            raise ValueError(
                "Input X contains NaN. Variational hidden Markov models take no missing values: "
                "leave incomplete rows out, or use the estimator without a posterior, as "
                "fastem.GaussianHMM."
            )
        return table

    # The initialization ----------------------------------------------------------------------

    def _initial_model(self, data, *, overwrite=True):
        """The first model. Attributes that are set are kept, as in hmmlearn group by group."""
        overwritten = self.init_params if overwrite else ""
        letters = self._letters()
        attributes = {
            letter: [f"{name}_{which}_" for name, its in letters.items() if its == letter
                     for which in ("prior", "posterior")]
            for letter in dict.fromkeys(letters.values())
        }  # fmt: skip
        wanted = {
            letter for letter, names in attributes.items()
            if letter in overwritten or not all(hasattr(self, name) for name in names)
        }  # fmt: skip
        self._warn_of_overwritten(attributes, wanted & set(overwritten))
        names = [shown.name for shown in self._shown() if shown.letter in wanted]
        emissions = self._fitted_emissions(data, names)
        width = self._width(emissions)
        prior, posterior = self._hyperparameters(data, wanted, width)
        for name, letter in letters.items():
            if letter not in wanted:
                prior[name] = getattr(self, f"{name}_prior_")
                posterior[name] = getattr(self, f"{name}_posterior_")
        evidence = 0.0 if wanted else None
        return self._make_variational(emissions, prior, posterior, width, evidence)

    def _hyperparameters(self, data, wanted, width):
        """Priors and first posteriors of what is ``wanted``."""
        n_states, chain = self.n_components, self._chain()
        n_sequences, n_rows = np.sum(map_tables(_weights_of, data), axis=0)
        names = [shown.name for shown in Chain.shown if shown.letter in wanted]
        drawn = chain.initialize(names, check_random_state(self.random_state), drawn=True)
        times = {"startprob": n_sequences, "transmat": n_rows / n_states}
        posterior = {
            name: np.maximum(array * times[name], _LEAST_COUNT) for name, array in drawn.items()
        }
        prior = {
            name: self._setting(f"{name}_prior", 1.0 / n_states, array.shape)
            for name, array in posterior.items()
        }
        kind = self._posterior_kind()
        if wanted & set(kind.letters.values()):
            sample = sample_of(data)
            shapes = kind.shapes(n_states, width)
            prior |= self._emission_priors(shapes, wanted, sample)
            posterior |= self._emission_starts(prior, wanted, sample, float(n_rows))
        return prior, posterior

    def _setting(self, name, default, shape):
        """A prior as it was given, or else ``default``, in a shape."""
        if getattr(self, name) is None:
            return np.array(np.broadcast_to(default, shape), dtype=float)
        return np.array(shaped_prior(self, name, shape))

    def _warn_of_overwritten(self, attributes, letters):
        """Warn of hyperparameters that the user has set and that are initialized all the same."""
        learned = vars(self).get("_learned", {})
        for letter in letters:
            for name in attributes[letter]:
                if not hasattr(self, name):
                    continue
                by_hand = not hasattr(self, "n_iter_")
                if name in learned:
                    by_hand = not np.array_equal(getattr(self, name), learned[name])
                if by_hand:
                    warn(
                        f"{name} was set, and is overwritten by the start because init_params "
                        f"contains {letter!r}.",
                        OverwritingWarning,
                    )

    # Learning --------------------------------------------------------------------------------

    def _forget_fit(self):
        super()._forget_fit()
        vars(self).pop("evidence_", None)

    def _stopping_rule(self, data):
        rule = super()._stopping_rule(data)
        return _Bounded(rule.monitor, rule.max_iter)

    def _watched(self, rule, shown=None):
        return super()._watched(rule, lambda model: model.plain())

    def _run(self, model, data, rule):
        fitted = super()._run(model.bounding(), data, rule)
        return fitted._replace(model=fitted.model.plain())

    def _maximize(self, model, expectation):
        return model.after(expectation.statistics, expectation.weight)

    def _prior(self, model):
        # No kernel takes these steps.
        return None

    def _refined(self, model, table, so_far=None):
        """A first model after some steps of batch learning, which are no evidence yet."""
        model = algebra.fit(model, table, Slowing(_REFINE_STEPS), self._maximize).model
        return model._copied(evidence=0.0), False

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags


class _Bounded(Monitored):
    """hmmlearn's rule, for the bound on the logarithm of the evidence."""

    _bound = -np.inf
    measure = "lower bound"

    def limit(self):
        return None

    def before_step(self, model, expectation):
        if not np.isfinite(expectation.log_likelihood):
            raise ImpossibleDataError(
                f"The bound is not finite at iteration {self.n_iter + 1}: some sequence is "
                "impossible under the posterior, or squares of the data overflow. Scale the "
                "columns to a moderate range, or start from another posterior."
            )
        total = expectation.log_likelihood * expectation.weight - model.divergence_from_prior()
        self._bound = total / expectation.weight
        return False

    def after_step(self, expectation):
        return super().after_step(expectation._replace(log_likelihood=self._bound))


def _weights_of(table):
    """The weight of the sequences of a table, and that of their rows."""
    weights = table.sample_weight
    n_rows = len(table.X) if weights is None else weights @ table.lengths
    return np.array([table.total_weight, n_rows], dtype=float)
