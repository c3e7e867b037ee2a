"""Models that need not be built again, and settings that need not be checked again.

The model of an estimator follows from its attributes, which users may set or change in place.
Building it checks and packs all of them, which takes longer than a prediction for a few rows. So
the last model is kept, with the values of the attributes that it was built from; it is used again
if none of them has changed. Settings that were checked are kept likewise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from .learning_rate import Decay
from .lengths import Lengths

__all__ = ["Memory"]

#: Larger arrays are not kept a second time: building their model is not what takes the time.
_MOST_BYTES = 2**20

_MISSING = object()

#: Values of these types do not change in a way that matters to a model that is used.
_CONSTANT = (str, int, float, type(None), np.generic, Decay, Lengths)


class _CanChangeUnseen(Exception):
    """An attribute is of a type whose changes are not noticed."""


class Memory:
    """The last result of a function for each estimator, and what it was computed from.

    It is not an attribute, so that copies, pickles and files of estimators do not contain it. Only
    the estimators of this package have one: a subclass may keep its values elsewhere.
    """

    def __init__(self):
        self.last: WeakKeyDictionary[Any, tuple[Snapshot, Any]] = WeakKeyDictionary()

    def recall(self, owner, build: Callable[[], Any], state: dict, ignored=frozenset()) -> Any:
        """``build()``, or its last result if nothing has changed since.

        Parameters
        ----------
        owner
            The estimator.
        build : callable
            A function of the values in ``state``, and of nothing else.
        state : dict
            Attributes by name; a copy, which no other thread changes meanwhile.
        ignored : frozenset of str
            Names of attributes that the result does not depend on.
        """
        if not type(owner).__module__.startswith("fastem."):
            return build()
        known = self.last.get(owner)
        if known is not None and known[0].matches(state):
            return known[1]
        try:
            before = Snapshot(state, ignored)
        except _CanChangeUnseen:
            return build()
        result = build()
        # Not if the contents of an array have changed meanwhile.
        if before.matches(state):
            self.last[owner] = before, result
        return result


class Snapshot:
    """Attributes as they are now: the same objects later, with the same contents, are the same."""

    def __init__(self, state: dict, ignored: frozenset):
        self.n_bytes = 0
        self.attributes = [
            (name, value, self._content(value))
            for name, value in state.items()
            if name not in ignored
        ]
        self.known = ignored.union(name for name, _, _ in self.attributes)

    def _content(self, value):
        """What is compared besides the identity; None for constants."""
        if _is_constant(value):
            return None
        if type(value) is not np.ndarray or value.dtype.hasobject:
            raise _CanChangeUnseen
        self.n_bytes += value.nbytes
        if self.n_bytes > _MOST_BYTES:
            raise _CanChangeUnseen
        return value.shape, value.dtype, value.tobytes()

    def matches(self, state: dict) -> bool:
        """Whether attributes have the same values as those of this snapshot."""
        for name, value, content in self.attributes:
            if state.get(name, _MISSING) is not value:
                return False
            if content is not None:
                shape, dtype, data = content
                if value.shape != shape or value.dtype != dtype or value.tobytes() != data:
                    return False
        return self.known.issuperset(state)


def _is_constant(value):
    return isinstance(value, _CONSTANT) or (type(value) is tuple and all(map(_is_constant, value)))
