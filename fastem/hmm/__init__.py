"""Hidden Markov models: ``from fastem.hmm import GaussianHMM``."""

from ..stopping import ConvergenceMonitor
from .custom import BaseHMM
from .estimators import GMMHMM, HMM, CategoricalHMM, GaussianHMM, MultinomialHMM, PoissonHMM

__all__ = ["GMMHMM", "HMM", "BaseHMM", "CategoricalHMM", "ConvergenceMonitor", "GaussianHMM",
           "MultinomialHMM", "PoissonHMM"]  # fmt: skip
