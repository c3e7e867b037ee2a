"""Mixtures of exponential families: ``from fastem.mixture import GaussianMixture``."""

from .estimators import GaussianMixture, Mixture

__all__ = ["GaussianMixture", "Mixture"]
