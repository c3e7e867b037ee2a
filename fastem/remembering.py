"""Models that need not be built again, and settings that need not be checked again.

The model of an estimator follows from its attributes, which users may set or change in place.
Building it checks and packs all of them, which takes longer than a prediction for a few rows. So
the last model is kept, with the values of the attributes that it was built from; it is used again
if none of them has changed. Settings that were checked are kept likewise.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from .learning_rate import Decay

__all__ = ["Memory"]

#: Larger arrays are not kept a second time: building their model is not what takes the time.
_MOST_BYTES = 2**18

_MISSING = object()

#: Values of these types cannot change.
_CONSTANT = (str, int, float, type(None), np.generic, Decay)


class _CanChangeUnseen(Exception):
    """An attribute is of a type whose changes are not noticed."""


class Memory:
    """The last result of a function for each estimator, and what it was computed from.

    It is not an attribute, so that copies, pickles and files of estimators do not contain it.
    """

    def __init__(self):
        self.last: WeakKeyDictionary[Any, tuple[Snapshot, Any]] = WeakKeyDictionary()

    def recall(self, owner, build: Callable[[], Any], state: dict, ignored=frozenset()) -> Any:
        """``build()``, or its last result if nothing has changed since.

        Parameters
        ----------
        owner
            An object that can be referred to weakly.
        build : callable
            A function of ``state``.
        state : dict
            Attributes by name.
        ignored : frozenset of str
            Names of attributes that the result does not depend on.
        """
        try:
            known = self.last.get(owner)
            if known is not None and known[0].matches(state):
                return known[1]
            before = Snapshot(state, ignored)
        except (_CanChangeUnseen, TypeError):  # the latter: a subclass that has no hash
            return build()
        result = build()
        # Not if another thread, or the function itself, has changed something meanwhile.
        if before.matches(state):
            self.last[owner] = before, result
        return result


class Snapshot:
    """Attributes as they are now: the same objects later, with the same contents, are the same."""

    def __init__(self, state: dict, ignored: frozenset):
        self.n_bytes = 0
        self.attributes = [
            (name, value, self._content(value))
            for name, value in list(state.items())
            if name not in ignored
        ]
        self.known = ignored.union(name for name, _, _ in self.attributes)

    def _content(self, value):
        """What is compared besides the identity; None for constants."""
        if isinstance(value, _CONSTANT):
            return None
        if type(value) is np.ndarray and not value.dtype.hasobject:
            self.n_bytes += value.nbytes
            if self.n_bytes > _MOST_BYTES:
                raise _CanChangeUnseen
            return value.shape, value.dtype, value.tobytes()
        if type(value) in (list, tuple):
            if not _holds_constants(value):
                raise _CanChangeUnseen
            return copy.deepcopy(value)
        raise _CanChangeUnseen

    def matches(self, state: dict) -> bool:
        """Whether attributes have the same values as those of this snapshot."""
        for name, value, content in self.attributes:
            if state.get(name, _MISSING) is not value:
                return False
            if content is not None and not _has(value, content):
                return False
        return self.known.issuperset(state)


def _holds_constants(values):
    return all(
        isinstance(value, _CONSTANT) or (type(value) in (list, tuple) and _holds_constants(value))
        for value in values
    )


def _has(value, content):
    if type(value) is np.ndarray:
        shape, dtype, data = content
        return value.shape == shape and value.dtype == dtype and value.tobytes() == data
    return value == content
