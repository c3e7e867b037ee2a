"""Dirichlet and compound Dirichlet distributions: ``from fastem.dirichlet import Dirichlet``."""

from .estimators import CompoundDirichlet, Dirichlet

__all__ = ["CompoundDirichlet", "Dirichlet"]
