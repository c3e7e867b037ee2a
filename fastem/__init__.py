"""fastem: EM for hidden-variable models, in one batch, online, or in pieces that are merged.

The names below are loaded when they are first used: importing scikit-learn and numba takes over a
second, and a script that only reads a file should not wait for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import algebra as algebra
    from . import convergence as convergence
    from . import count_tables as count_tables
    from . import distributed as distributed
    from . import families as families
    from . import kalman_stream as kalman_stream
    from . import kernels as kernels
    from . import sequences as sequences
    from . import simulated as simulated
    from . import statistics as statistics
    from .combining import average, combine, divergence
    from .compound_dirichlet import CompoundDirichlet
    from .dirichlet import Dirichlet
    from .discrete_hmm import CategoricalHMM, MultinomialHMM, PoissonHMM
    from .families import ExponentialFamily
    from .gaussian_hmm import GaussianHMM
    from .gaussian_mixture import GaussianMixture
    from .gmm_hmm import GMMHMM
    from .hmm import HMM
    from .kalman_filter import KalmanFilter
    from .learning_rate import Decay
    from .lengths import Lengths
    from .mixture import Mixture
    from .saving import load, save
    from .statistics import Statistics

__version__ = "0.1.0"

__all__ = [
    "GMMHMM",
    "HMM",
    "CategoricalHMM",
    "CompoundDirichlet",
    "Decay",
    "Dirichlet",
    "ExponentialFamily",
    "GaussianHMM",
    "GaussianMixture",
    "KalmanFilter",
    "Lengths",
    "Mixture",
    "MultinomialHMM",
    "PoissonHMM",
    "Statistics",
    "average",
    "combine",
    "divergence",
    "load",
    "save",
]

#: The module that each public name comes from.
_HOMES = {
    "CategoricalHMM": "discrete_hmm",
    "CompoundDirichlet": "compound_dirichlet",
    "Decay": "learning_rate",
    "Dirichlet": "dirichlet",
    "ExponentialFamily": "families",
    "GMMHMM": "gmm_hmm",
    "GaussianHMM": "gaussian_hmm",
    "GaussianMixture": "gaussian_mixture",
    "HMM": "hmm",
    "KalmanFilter": "kalman_filter",
    "Lengths": "lengths",
    "Mixture": "mixture",
    "MultinomialHMM": "discrete_hmm",
    "PoissonHMM": "discrete_hmm",
    "Statistics": "statistics",
    "average": "combining",
    "combine": "combining",
    "divergence": "combining",
    "load": "saving",
    "save": "saving",
}

#: The modules that are documented.
_MODULES = frozenset(
    {"algebra", "convergence", "count_tables", "distributed", "families", "kalman_model",
     "kalman_stream", "kernels", "matching", "sequences", "simulated", "statistics"}
)  # fmt: skip


def __getattr__(name):
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module 'fastem' has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_HOMES, *_MODULES})
