"""Variational hidden Markov models: ``from fastem.vhmm import VariationalGaussianHMM``."""

from .estimators import VariationalCategoricalHMM, VariationalGaussianHMM

__all__ = ["VariationalCategoricalHMM", "VariationalGaussianHMM"]
