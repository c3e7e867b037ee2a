"""The settings of an estimator from options of the command line."""

from __future__ import annotations

import inspect
import json

import fastem

from .errors import Usage
from .text import article

__all__ = ["add_settings", "class_of", "made", "settings_of"]

#: Options, and the names that their setting has in constructors: the first one that there is.
_OPTIONS = {
    "components": ("n_components",),
    "states": ("n_dim_state", "n_components"),
    "covariance": ("covariance_type", "observation_covariance_type"),
    "iterations": ("max_iter", "n_iter"),
    "tolerance": ("tol",),
    "n_init": ("n_init",),
    "seed": ("random_state",),
    "solver": ("solver",),
    "jobs": ("n_jobs",),
    "n_mix": ("n_mix",),
}
_FLAGS = {"components": "--components", "states": "--states", "covariance": "--covariance",
          "iterations": "--iterations", "tolerance": "--tolerance", "n_init": "--n-init",
          "seed": "--seed", "solver": "--solver", "jobs": "--jobs", "n_mix": "--n-mix"}  # fmt: skip
_EMISSIONS = {"gaussian": "GaussianHMM", "poisson": "PoissonHMM", "categorical": "CategoricalHMM",
              "gmm": "GMMHMM", "multinomial": "MultinomialHMM"}  # fmt: skip
_BAYESIAN = {"gaussian": "VariationalGaussianHMM", "categorical": "VariationalCategoricalHMM"}


def add_settings(parser):
    """Options for the settings of the model."""
    group = parser.add_argument_group("settings of the model (defaults are those of the class)")
    add = group.add_argument
    add("-k", "--components", type=int, metavar="K", help="components, or states of an hmm")
    add("-d", "--states", type=int, metavar="D", help="dimensions of the state of a kalman; as -k")
    add("--covariance", metavar="TYPE",
        help="full, tied, diag or spherical (kalman: of the observations)")  # fmt: skip
    add("--family", metavar="NAME",
        help="of a gmm: bernoulli, beta, dirichletmultinomial, exponential, gamma, gaussian, "
        "multinomial or poisson components (default: gaussian, with --covariance)")  # fmt: skip
    add("--emissions", metavar="NAME",
        help="of an hmm: gaussian (default), poisson, categorical, multinomial, gmm (with --n-mix) "
        "or another family")  # fmt: skip
    add("--n-mix", type=int, metavar="M", help="components in each state, with --emissions gmm")
    add("--bayesian", action="store_true",
        help="variational Bayes: gmm, and hmm with gaussian or categorical emissions")  # fmt: skip
    add("--proportions", action="store_true",
        help="of a dirichlet: rows are proportions that sum to one, and not counts")  # fmt: skip
    add("--iterations", type=int, metavar="N", help="the most iterations of EM")
    add("--tolerance", type=float, metavar="X", help="the gain of an iteration at which EM stops")
    add("--n-init", type=int, metavar="N", help="starts, of which the best is kept")
    add("--seed", type=int, metavar="N", help="seed of the random numbers of the start")
    add("--solver", metavar="NAME", help="em or incremental (dirichlet: newton too)")
    add("--jobs", type=int, metavar="N", help="threads; -1 for all cores")
    add("--set", action="append", default=[], metavar="NAME=VALUE",
        help="any other argument of the constructor, in JSON: --set reg_covar=1e-4, "
        "--set learning_rate=0.1, --set 'fixed=[\"means\"]'")  # fmt: skip
    add("-v", "--verbose", action="count", default=0,
        help="show a bar with the log-likelihood, or with --online a line for each checkpoint; "
        "-vv: a line for each iteration, or each chunk")  # fmt: skip


def class_of(options) -> str:
    """The name of the estimator that options ask for."""
    _only(options.kind == "gmm", options.family, "--family is for gmm.")
    _only(options.kind == "hmm", options.emissions, "--emissions is for hmm.")
    _only(options.kind == "dirichlet", options.proportions, "--proportions is for dirichlet.")
    _only(options.kind in ("gmm", "hmm"), options.bayesian, "--bayesian is for gmm and hmm.")
    if options.kind == "gmm":
        _check_family("--family", options.family)
        if options.bayesian:
            _only(options.family in (None, "gaussian"), True, "--bayesian is for gaussian.")
            return "BayesianGaussianMixture"
        return "GaussianMixture" if options.family in (None, "gaussian") else "Mixture"
    if options.kind == "hmm":
        emissions = options.emissions or "gaussian"
        if options.bayesian:
            if emissions not in _BAYESIAN:
                raise Usage(f"--bayesian is for emissions {' and '.join(_BAYESIAN)}.")
            return _BAYESIAN[emissions]
        _check_family("--emissions", emissions, _EMISSIONS)
        return _EMISSIONS.get(emissions, "HMM")
    if options.kind == "kalman":
        return "KalmanFilter"
    return "Dirichlet" if options.proportions else "CompoundDirichlet"


def _check_family(option, name, others=()):
    """Raise for a family that has no name, or needs more than its name."""
    from ..families import FAMILY_NAMES

    if name not in (None, *others, *FAMILY_NAMES):
        known = ", ".join(sorted({*others, *FAMILY_NAMES}))
        raise Usage(f"{option} must be one of {known}; got {name!r}.")


def _only(holds, given, message):
    if given and not holds:
        raise Usage(message)


def settings_of(options, name: str) -> dict:
    """The settings that options give for the estimator of a name."""
    known = inspect.signature(getattr(fastem, name)).parameters
    settings = {}
    if name == "Mixture":
        settings["family"] = options.family
    if name == "HMM":
        settings["family"] = options.emissions
    for option, names in _OPTIONS.items():
        value = getattr(options, option)
        if value is None:
            continue
        setting = next((setting for setting in names if setting in known), None)
        if setting is None:
            raise Usage(f"{_FLAGS[option]}: {article(name)} has no such setting.")
        if setting in settings:
            raise Usage(f"{_FLAGS[option]} gives {setting} a second time.")
        settings[setting] = value
    # Of a stream, the lines of checkpoints say how it goes.
    if options.verbose > (1 if options.online else 0) and "verbose" in known:
        settings["verbose"] = options.verbose
    for text in options.set:
        setting, equals, value = text.partition("=")
        setting = setting.strip()
        if not equals:
            raise Usage(f"--set needs NAME=VALUE; got {text!r}.")
        if setting not in known or setting == "callback":
            others = ", ".join(sorted(set(known) - {"callback"}))
            raise Usage(f"--set: {article(name)} has no setting {setting!r}; it has {others}.")
        settings[setting] = _value(value)
    return settings


def _value(text):
    """A value in JSON; a single word may lack its quotation marks."""
    try:
        value = json.loads(text)
    except ValueError:
        if text.strip().replace("_", "").replace("-", "").isalnum():
            return text.strip()
        raise Usage(f"--set: {text!r} is not JSON.") from None
    if isinstance(value, list) and value and not isinstance(value[0], str):
        import numpy as np

        try:
            return np.array(value, dtype=float)
        except ValueError as error:
            raise Usage(f"--set: {text!r} is not an array of numbers.") from error
    return tuple(value) if isinstance(value, list) else value


def made(name: str, settings: dict):
    """The estimator, its settings checked."""
    try:
        model = getattr(fastem, name)(**settings)
        model._validate_params()
        if settings.get("family") is not None:
            from ..families import as_family

            as_family(settings["family"])
    except (TypeError, ValueError) as error:
        raise Usage(str(error)) from error
    return model
