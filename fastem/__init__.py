"""fastem: EM for hidden-variable models, in one batch, online, or in pieces that are merged."""

from .combining import average, combine, divergence
from .families import ExponentialFamily
from .gaussian_mixture import GaussianMixture
from .learning_rate import Decay
from .mixture import Mixture
from .saving import load, save
from .statistics import Statistics

__version__ = "0.1.0"

__all__ = [
    "Decay",
    "ExponentialFamily",
    "GaussianMixture",
    "Mixture",
    "Statistics",
    "average",
    "combine",
    "divergence",
    "load",
    "save",
]
