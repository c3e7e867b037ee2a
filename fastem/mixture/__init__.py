"""Mixtures of exponential families: ``from fastem.mixture import GaussianMixture``."""

from .gaussian import GaussianMixture
from .general import Mixture

__all__ = ["GaussianMixture", "Mixture"]
