"""The system that a Kalman filter's attributes describe, kept until one of them changes.

A step of the filter takes less time than reading its parameters. So the model that was made of
them is kept, with what they were: the same objects with the same contents are the same parameters,
also where a user writes into an array or a list. See ``fastem/remembering.py``, whose rules these
are; here a comparison must take a microsecond.
"""

from __future__ import annotations

import marshal
from operator import is_, itemgetter
from weakref import ref

import numpy as np

from .checks import NAMES
from .one_step import OneStep

__all__ = ["Learner", "Present", "keep_learner", "recall", "recall_learner", "remember"]

#: The attributes whose contents matter.
_PARAMETERS = frozenset(name + end for name in NAMES for end in ("", "_"))
#: Of these it is which object they are. No others are looked at, or kept: a callback may hold its
#: estimator, which would then live forever.
_READ = _PARAMETERS | {
    "transition_covariance_type", "observation_covariance_type", "n_jobs", "n_dim_state",
    "n_dim_obs", "n_features_in_", "lengths_", "given_", "_filled",
}  # fmt: skip
#: Larger systems are built anew each time: building them is not what takes the time.
_MOST_BYTES = 2**18
# Lists are written like this to be compared; later formats depend on how often an object is used.
_FORMAT = 2


class _CanChangeUnseen(Exception):
    """A parameter is of a type whose changes are not noticed."""


class Present:
    """A model, and the attributes that it was made of.

    Attributes
    ----------
    model : KalmanModel
    n_columns : int
        How many columns data must have.
    """

    __slots__ = (
        "_step", "arrays", "lists", "model", "n_columns", "names", "owner", "select", "values",
    )  # fmt: skip

    def __init__(self, state: dict):
        self.names = list(state)
        self.select = itemgetter(*(name for name in self.names if name in _READ))
        self.values = self.select(state)
        self.arrays, self.lists = [], []
        n_bytes = 0
        for name in _PARAMETERS & state.keys():
            value = state[name]
            kind = type(value)
            if value is None or isinstance(value, (int, float, np.number)):
                continue
            if kind is np.ndarray and value.dtype.kind in "fiub":
                n_bytes += value.nbytes
                if n_bytes > _MOST_BYTES:
                    raise _CanChangeUnseen
                self.arrays.append((value, value.shape, value.dtype, value.tobytes()))
            elif kind is list or kind is tuple:
                _check_plain(value)
                data = marshal.dumps(value, _FORMAT)
                n_bytes += len(data)
                if n_bytes > _MOST_BYTES:
                    raise _CanChangeUnseen
                self.lists.append((value, data))
            else:
                raise _CanChangeUnseen

    def matches(self, state: dict) -> bool:
        """Whether attributes are what they were."""
        if list(state) != self.names or not all(map(is_, self.select(state), self.values)):
            return False
        if not _are_same(self.arrays):
            return False
        for value, data in self.lists:
            try:
                if marshal.dumps(value, _FORMAT) != data:
                    return False
            except ValueError:  # something else is in it now
                return False
        return True

    @property
    def step(self) -> OneStep:
        """The step of :meth:`fastem.KalmanFilter.filter_update`."""
        if self._step is None:
            self._step = OneStep(self.model)
        return self._step


def _are_same(arrays):
    """Whether arrays have the contents they had."""
    for array, shape, dtype, data in arrays:
        if array.shape != shape or array.dtype is not dtype or array.tobytes() != data:
            return False
    return True


def _check_plain(value):
    """Raise an error if a list holds something besides numbers and lists of numbers."""
    for item in value:
        kind = type(item)
        if kind is list or kind is tuple:
            _check_plain(item)
        elif kind is not float and kind is not int:
            raise _CanChangeUnseen


#: By the id of the estimator: not an attribute, so that copies and files do not contain it.
_kept: dict[int, Present] = {}


def recall(owner) -> Present | None:
    """What is known of an estimator, if nothing has changed since."""
    present = _kept.get(id(owner))
    if present is None or present.owner() is not owner or not present.matches(vars(owner)):
        return None
    return present


def remember(owner, build) -> Present | None:
    """Build a model and keep it; None if that cannot be kept.

    Parameters
    ----------
    owner
        The estimator. A subclass that is not of this package may keep its values elsewhere.
    build : callable
        The model and the number of columns: a function of an estimator, which is a copy of the
        owner whose attributes no other thread changes.
    """
    if not type(owner).__module__.startswith("fastem."):
        return None
    state = vars(owner).copy()
    try:
        present = Present(state)
    except _CanChangeUnseen:
        return None
    still = object.__new__(type(owner))
    vars(still).update(state)
    present.model, present.n_columns = build(still)
    present._step = None
    # Not if the contents of an array have changed meanwhile.
    if present.n_columns is None or not present.matches(state):
        return None
    key = id(owner)

    def forget(dead):
        if key in _kept and _kept[key].owner is dead:
            del _kept[key]

    present.owner = ref(owner, forget)
    _kept[key] = present
    return present


# Learning -----------------------------------------------------------------------------------------

_LEARNED = tuple(f"{name}_" for name in NAMES)
#: What else the model depends on that goes on learning. Of what was given, whether it was.
_SETTINGS = (
    *NAMES, "fixed", "em_vars", "transition_covariance_type", "observation_covariance_type",
    "n_jobs", "n_dim_state", "n_dim_obs", "given_", "_filled",
)  # fmt: skip


class Learner:
    """The model of the last online step, and the attributes that show it.

    Attributes
    ----------
    model : KalmanModel
    is_silent : bool
        Whether there is nothing to warn of with these settings.
    """

    __slots__ = ("arrays", "is_silent", "lengths", "model", "owner", "settings")

    def __init__(self, model, state: dict):
        self.model, self.is_silent = model, False
        self.settings = tuple(map(state.get, _SETTINGS))
        self.lengths = state.get("lengths_")
        arrays = [state[name] for name in _LEARNED]
        self.arrays = [(array, array.shape, array.dtype, array.tobytes()) for array in arrays]

    def has_settings_of(self, state: dict) -> bool:
        """Whether the settings are what they were."""
        return all(map(is_, map(state.get, _SETTINGS), self.settings))

    def matches(self, state: dict) -> bool:
        """Whether attributes are what they were."""
        arrays = (array for array, _, _, _ in self.arrays)
        return (
            self.lengths is state.get("lengths_")
            and all(map(is_, map(state.get, _LEARNED), arrays))
            and self.has_settings_of(state)
            and _are_same(self.arrays)
        )


_learners: dict[int, Learner] = {}


def recall_learner(owner) -> Learner | None:
    """The model from which an estimator learns on, if nothing has changed since."""
    known = _learners.get(id(owner))
    if known is None or known.owner() is not owner or not known.matches(vars(owner)):
        return None
    return known


def keep_learner(owner, model) -> None:
    """Keep the model that an estimator's attributes show now."""
    state, key = vars(owner), id(owner)
    before = _learners.pop(key, None)
    if (
        not type(owner).__module__.startswith("fastem.")
        or model.horizon is not state.get("lengths_")
        or not all(_cannot_change(state.get(name)) for name in ("fixed", "em_vars"))
        or sum(getattr(model, letter).nbytes for letter in NAMES.values()) > _MOST_BYTES
    ):
        return
    known = Learner(model, state)
    if before is not None and before.owner() is owner and before.has_settings_of(state):
        known.is_silent = before.is_silent

    def forget(dead):
        if key in _learners and _learners[key].owner is dead:
            del _learners[key]

    known.owner = ref(owner, forget)
    _learners[key] = known


def _cannot_change(value):
    if isinstance(value, (tuple, frozenset)):
        return all(type(item) is str for item in value)
    return value is None or type(value) is str
