"""Pictures of fitted models, with matplotlib: ``pip install "fastem[plot]"``.

Every function draws on the axes it is given as ``ax``, or on the current ones, and returns them.
No function changes the model. A component or state has the same color in all pictures.
"""

from .chains import states, transitions
from .filters import bands
from .learning import drift, learning_curves
from .mixtures import components, densities, responsibilities
from .sites import divergences, matches
from .style import color

__all__ = [
    "bands", "color", "components", "densities", "divergences", "drift", "learning_curves",
    "matches", "responsibilities", "states", "transitions",
]  # fmt: skip
