"""Hidden Markov models: ``from fastem.hmm import GaussianHMM``."""

from .discrete import CategoricalHMM, MultinomialHMM, PoissonHMM
from .gaussian import GaussianHMM
from .gaussian_mixtures import GMMHMM
from .general import HMM

__all__ = ["GMMHMM", "HMM", "CategoricalHMM", "GaussianHMM", "MultinomialHMM", "PoissonHMM"]
