"""fastem: EM for hidden-variable models, in one batch, online, or in shards that are merged.

The names below are loaded when they are first used: importing scikit-learn and numba takes over a
second, and a script that only reads a file should not wait for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from . import old_paths

if TYPE_CHECKING:
    from . import algebra as algebra
    from . import base as base
    from . import data as data
    from . import dirichlet as dirichlet
    from . import distributed as distributed
    from . import exceptions as exceptions
    from . import families as families
    from . import functional as functional
    from . import hmm as hmm
    from . import kalman as kalman
    from . import kernels as kernels
    from . import matching as matching
    from . import mixture as mixture
    from . import model as model
    from . import plot as plot
    from . import simulated as simulated
    from . import statistics as statistics
    from . import stopping as stopping
    from . import vhmm as vhmm
    from .combining import average as average
    from .combining import combine as combine
    from .combining import divergence as divergence
    from .combining import singleton_divergences as singleton_divergences
    from .combining import upper_bound as upper_bound
    from .dirichlet import CompoundDirichlet as CompoundDirichlet
    from .dirichlet import Dirichlet as Dirichlet
    from .families import ExponentialFamily as ExponentialFamily
    from .hmm import GMMHMM as GMMHMM
    from .hmm import HMM as HMM
    from .hmm import CategoricalHMM as CategoricalHMM
    from .hmm import GaussianHMM as GaussianHMM
    from .hmm import MultinomialHMM as MultinomialHMM
    from .hmm import PoissonHMM as PoissonHMM
    from .kalman import KalmanFilter as KalmanFilter
    from .learning_rate import Decay as Decay
    from .lengths import Lengths as Lengths
    from .mixture import BayesianGaussianMixture as BayesianGaussianMixture
    from .mixture import GaussianMixture as GaussianMixture
    from .mixture import Mixture as Mixture
    from .mixture_of_models import MixtureOfModels as MixtureOfModels
    from .patching import patch as patch
    from .patching import unpatch as unpatch
    from .saving import load as load
    from .saving import save as save
    from .statistics import Statistics as Statistics
    from .vhmm import VariationalCategoricalHMM as VariationalCategoricalHMM
    from .vhmm import VariationalGaussianHMM as VariationalGaussianHMM
    from .warming import warmup as warmup


__version__ = "0.1.0"

#: Every estimator, and the package that it comes from: what can be saved, and what is documented.
ESTIMATORS = {
    "GaussianMixture": "mixture",
    "BayesianGaussianMixture": "mixture",
    "Mixture": "mixture",
    "GaussianHMM": "hmm",
    "GMMHMM": "hmm",
    "PoissonHMM": "hmm",
    "CategoricalHMM": "hmm",
    "MultinomialHMM": "hmm",
    "HMM": "hmm",
    "VariationalGaussianHMM": "vhmm",
    "VariationalCategoricalHMM": "vhmm",
    "KalmanFilter": "kalman",
    "CompoundDirichlet": "dirichlet",
    "Dirichlet": "dirichlet",
    "MixtureOfModels": "mixture_of_models",
}

#: Every other public name, and the module that it comes from.
FUNCTIONS = {
    "combine": "combining",
    "average": "combining",
    "divergence": "combining",
    "upper_bound": "combining",
    "singleton_divergences": "combining",
    "save": "saving",
    "load": "saving",
    "Decay": "learning_rate",
    "Lengths": "lengths",
    "Statistics": "statistics",
    "ExponentialFamily": "families",
    "warmup": "warming",
    "patch": "patching",
    "unpatch": "patching",
}

#: The modules that are documented.
MODULES = (
    "algebra", "base", "callbacks", "data", "dirichlet", "distributed", "drift", "exceptions",
    "families", "functional", "hmm", "kalman", "kernels", "learning_rate", "matching", "mixture",
    "mixture_of_models", "model",
    "monitoring", "plot", "simulated", "statistics", "stopping", "vhmm",
)  # fmt: skip

_HOMES = {**ESTIMATORS, **FUNCTIONS}

__all__ = sorted(_HOMES)

old_paths.install()


def __getattr__(name):
    if name in MODULES or name in old_paths.MOVED:
        return import_module(f".{name}", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module 'fastem' has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_HOMES, *MODULES})
