"""How a model of components is brought to another: by the order of its components."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

__all__ = ["Components"]


class Components:
    """Supplies what aligning asks of a model, given ``component_divergences`` and ``reordered``.

    A model whose hidden variables have another freedom, a basis for example, has these three
    functions of its own.
    """

    def check_same_order(self, other) -> None:
        """Raise ``ValueError`` if the components of the two cannot be meant in one order."""

    def change_to(self, other, horizon=None):
        """The order of components in which this model is nearest to ``other``."""
        _, partners = linear_sum_assignment(self.component_divergences(other, horizon))
        return np.argsort(partners)

    def changed(self, order):
        """This model with its components in that order."""
        return self.reordered(order)

    def undone(self, order):
        """This model with a change of order undone."""
        return self.reordered(np.argsort(order))
