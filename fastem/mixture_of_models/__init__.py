"""Mixtures of models of any kind: ``from fastem.mixture_of_models import MixtureOfModels``."""

from .estimators import MixtureOfModels

__all__ = ["MixtureOfModels"]
