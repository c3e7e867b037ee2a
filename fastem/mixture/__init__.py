"""Mixtures of exponential families: ``from fastem.mixture import GaussianMixture``."""

from .bayesian import BayesianGaussianMixture
from .estimators import GaussianMixture, Mixture

__all__ = ["BayesianGaussianMixture", "GaussianMixture", "Mixture"]
