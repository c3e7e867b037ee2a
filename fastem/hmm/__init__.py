"""Hidden Markov models: ``from fastem.hmm import GaussianHMM``."""

from ..stopping import ConvergenceMonitor
from .estimators import GMMHMM, HMM, CategoricalHMM, GaussianHMM, MultinomialHMM, PoissonHMM

__all__ = ["GMMHMM", "HMM", "CategoricalHMM", "ConvergenceMonitor", "GaussianHMM",
           "MultinomialHMM", "PoissonHMM"]  # fmt: skip
