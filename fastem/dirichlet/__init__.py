"""Dirichlet and compound Dirichlet distributions: ``from fastem.dirichlet import Dirichlet``."""

from .compound import CompoundDirichlet
from .plain import Dirichlet

__all__ = ["CompoundDirichlet", "Dirichlet"]
