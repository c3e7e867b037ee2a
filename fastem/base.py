"""Hidden Markov models with emissions of your own: ``from fastem.base import BaseHMM``.

The names of hmmlearn's module ``base``; see :class:`fastem.hmm.BaseHMM`.
"""

from .hmm.custom import BaseHMM
from .stopping import ConvergenceMonitor

__all__ = ["BaseHMM", "ConvergenceMonitor"]
