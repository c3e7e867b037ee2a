"""The parameters of a Kalman filter, and what they and its statistics must be.

Kernels trust the sizes they are given, so :class:`~fastem.kalman.model.KalmanModel` accepts only
what passes these checks, wherever it comes from.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from math import isfinite

import numpy as np

from .. import checks
from ..kernels.kalman.one_step import ASYMMETRY, LEAST_EIGENVALUE, SAFE, UNKNOWN, soundness
from ..statistics import Moments

__all__ = ["AXES", "COVARIANCES", "NAMES", "VARYING", "as_numbers", "at_times",
           "check_constant", "check_covariance", "check_held", "check_statistics", "check_system",
           "check_times", "promoted"]  # fmt: skip

# Each parameter: its letter in the formulas, and its axes when it is constant in time, which count
# states (d) and observed coordinates (p). Kernels use this order.
_PARAMETERS = {
    "initial_state_mean": ("m", "d"),
    "initial_state_covariance": ("V", "dd"),
    "transition_matrices": ("A", "dd"),
    "transition_offsets": ("b", "d"),
    "transition_covariance": ("Q", "dd"),
    "observation_matrices": ("C", "pd"),
    "observation_offsets": ("c", "p"),
    "observation_covariance": ("R", "pp"),
}
#: The parameters by name, and the letters that the formulas use.
NAMES = {name: letter for name, (letter, _) in _PARAMETERS.items()}
#: The parameters that may have time as a first axis.
VARYING = tuple(name for name in NAMES if not name.startswith("initial"))
#: The axes; where sizes differ, errors name matrices before the initial state.
AXES = {name: _PARAMETERS[name][1] for name in (*VARYING, *NAMES)}
# Sizes up to which a kernel looks at the values of a system.
_MOST_SIZE = 32
_DOUBLE = np.dtype(float)
COVARIANCES = tuple(name for name in AXES if name.endswith("covariance"))


def as_numbers(name, value) -> np.ndarray:
    """``value`` as an array of doubles whose rows lie one after another."""
    if type(value) is np.ndarray and value.dtype is _DOUBLE and value.flags.c_contiguous:
        return value
    if np.ma.isMaskedArray(value):
        if np.ma.getmaskarray(value).any():
            raise ValueError(f"{name} has masked values: a parameter must be given whole.")
        value = value.data
    try:
        array = np.asarray(value)
        if array.dtype.kind == "c":
            raise ValueError("complex numbers are not allowed")
        return np.ascontiguousarray(array, dtype=float).reshape(array.shape)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} cannot be read as an array of numbers: {error}.") from None


def promoted(name, value) -> np.ndarray:
    """The same with axes of length one put before the others, as pykalman reads 2.0 or [1, 0]."""
    array = as_numbers(name, value)
    return array.reshape((1,) * (len(AXES[name]) - array.ndim) + array.shape)


def check_system(parameters, *, trusted=False, known=None) -> dict[str, np.ndarray]:
    """All parameters as arrays, by name; raises ``ValueError`` unless they are one system.

    Parameters
    ----------
    parameters : mapping
        By the names of ``AXES``.
    trusted : bool
        Whether the covariances are known to be positive semidefinite, and need no check.
    known : dict, optional
        Is given ``values``, all numbers in the order of ``NAMES``, if the system was found to be
        constant in time, and R to have a factor that can be relied on.
    """
    absent = [name for name in AXES if name not in parameters]
    if absent:
        raise ValueError(f"The parameters {absent} of the Kalman filter are missing.")
    arrays = {name: as_numbers(name, parameters[name]) for name in AXES}
    for name in ("transition_matrices", "observation_matrices"):
        if arrays[name].ndim < 2:
            raise ValueError(
                f"{name} should be a matrix, or have time as one more axis before; its shape is "
                f"{arrays[name].shape}."
            )
    d, p = arrays["transition_matrices"].shape[-1], arrays["observation_matrices"].shape[-2]
    if not trusted and _is_known(arrays, d, p, known):
        return arrays
    sizes = {"d": d, "p": p}
    for name, array in arrays.items():
        _check_shape(name, array, sizes)
        check_finite(name, array, trusted=trusted)
    if not trusted:
        for name in COVARIANCES:
            check_covariance(name, arrays[name])
    return arrays


def _is_known(arrays, d, p, known):
    """Whether one call of a kernel finds that a system is sound; errors are left to others."""
    if not (0 < d <= _MOST_SIZE and 0 < p <= _MOST_SIZE):
        return False
    shapes, n_room = _constant(d, p)
    for name, shape in shapes:
        if arrays[name].shape != shape:
            return False
    everything = [arrays[name].reshape(-1) for name in NAMES]
    values = np.concatenate([*everything, np.empty(n_room)])
    found = soundness(values, d, p)
    if found == SAFE and known is not None:
        known["values"] = values[:-n_room]
    return found != UNKNOWN


@lru_cache(maxsize=64)
def _constant(d, p):
    """The shapes of a system that is constant in time, and the room that ``soundness`` needs."""
    sizes = {"d": d, "p": p}
    shapes = tuple((name, tuple(sizes[axis] for axis in axes)) for name, axes in AXES.items())
    return shapes, 2 * max(d, p) ** 2


def are_finite(arrays) -> bool:
    """Whether all entries of some arrays are finite."""
    # One pass: a few numbers take as long as one. A finite sum has finite terms.
    everything = np.concatenate([array.reshape(-1) for array in arrays])
    return isfinite(everything.sum()) or bool(np.isfinite(everything).all())


def check_finite(name, array, *, trusted=False) -> None:
    """Raise ``ValueError`` if some entry is NaN or infinite; what was learned can only overflow."""
    if not np.isfinite(array).all():
        overflow = " Squares of the data overflow: scale the columns to a moderate range."
        raise ValueError(f"{name} contains NaN or infinity.{overflow if trusted else ''}")


def _check_shape(name, array, sizes):
    expected = tuple(sizes[axis] for axis in AXES[name])
    has_time = name in VARYING and array.ndim == len(expected) + 1
    if array.shape[has_time:] != expected:
        more = ", or time as one more axis before" if name in VARYING else ""
        raise ValueError(
            f"{name} should have the shape {expected}{more}; got {array.shape}. By the last axes "
            f"of transition_matrices and observation_matrices there are {sizes['d']} states and "
            f"{sizes['p']} observed coordinates."
        )
    if 0 in array.shape:
        raise ValueError(f"{name} is empty: its shape is {array.shape}.")


def check_covariance(name, array) -> None:
    """Raise ``ValueError`` unless this is a covariance, or one for each step."""
    stack = array.reshape(-1, *array.shape[-2:])
    scales = np.abs(stack).max(axis=(1, 2))
    skew = np.abs(stack - stack.transpose(0, 2, 1)).max(axis=(1, 2))

    def place(t):
        return name if array.ndim == 2 else f"{name}[{t}]"

    wrong = np.flatnonzero(skew > ASYMMETRY * scales)
    if len(wrong):
        raise ValueError(f"{place(wrong[0])} is not symmetric.")
    try:
        np.linalg.cholesky(stack)
        return
    except np.linalg.LinAlgError:
        # Not definite, which is allowed, or indefinite, which is not.
        units = np.where(scales > 0, scales, 1.0)
        least = np.linalg.eigvalsh(stack / units[:, None, None])[:, 0]
    wrong = np.flatnonzero(least < LEAST_EIGENVALUE)
    if len(wrong):
        t = wrong[0]
        raise ValueError(
            f"{place(t)} is not positive semidefinite: its least eigenvalue is "
            f"{least[t] * units[t]:.3g}."
        )


def check_constant(parameters) -> None:
    """Raise ``ValueError`` if some parameter changes with time."""
    for name, axes in AXES.items():
        shape = np.shape(parameters[name])
        if len(shape) > len(axes):
            raise ValueError(
                f"{name} changes with time: its shape is {shape}. Such systems can be filtered, "
                "smoothed and sampled, and em can learn the rest; for everything else, fit and "
                "partial_fit included, a system must be constant."
            )


def check_times(parameters, longest: int) -> None:
    """Raise ``ValueError`` unless what changes with time has a value for each step."""
    for name in VARYING:
        value = parameters[name]
        needed = longest - 1 if name.startswith("transition") else longest
        if value.ndim > len(AXES[name]) and len(value) < needed:
            raise ValueError(
                f"{name} has values for {len(value)} steps, and the sequence needs {needed}."
            )


def at_times(name, value, times) -> np.ndarray:
    """The values of a parameter at some steps, whether it changes with time or not."""
    if value.ndim == len(AXES[name]):
        return np.broadcast_to(value, (len(times), *value.shape))
    return value[times]


def check_held(held, parameters) -> dict[str, bool | np.ndarray]:
    """Which entries of each parameter are held, by name: all, none, or an array of booleans."""
    checked = dict.fromkeys(NAMES, False)
    for name, entries in held.items():
        if name not in NAMES:
            raise ValueError(f"fixed: {name!r} is not one of the parameters {tuple(NAMES)}.")
        if not isinstance(entries, bool):
            entries = _check_entries(name, entries, parameters[name].shape)
        checked[name] = entries
    return checked


def _check_entries(name, entries, shape):
    given = np.asarray(entries)
    if given.dtype.kind != "b" and not np.isin(given, (0, 1)).all():
        raise ValueError(
            f"fixed: the entries of {name} are held or not, True or False; got {entries!r}."
        )
    given = given.astype(bool)
    if given.shape not in ((), shape):
        raise ValueError(
            f"fixed: the entries of {name} have the shape {given.shape}, but the parameter has "
            f"{shape}."
        )
    if name in COVARIANCES and given.ndim and (given != np.swapaxes(given, -1, -2)).any():
        raise ValueError(f"fixed: the entries of {name} must be held symmetrically.")
    return bool(given.all()) if given.all() or not given.any() else given


def check_statistics(statistics, d: int, p: int) -> None:
    """Raise ``ValueError`` unless these are moments of a filter of d states and p coordinates."""
    sizes = {"initial": d, "transition": 2 * d, "observation": p + d}
    if checks.statistics_of(statistics).keys() != sizes.keys():
        raise ValueError(
            f"A Kalman filter has the statistics {list(sizes)}; these are {sorted(statistics)}."
        )
    found = [
        checks.moments(statistics, name, Moments, (1, n), (1, n, n)) for name, n in sizes.items()
    ]
    parts = [(moments.mass, moments.mean, moments.scatter) for moments in found]
    if are_finite(chain.from_iterable(parts)) and all(moments.mass[0] >= 0 for moments in found):
        return
    for name, (mass, *others) in zip(sizes, parts, strict=True):
        if not are_finite((mass, *others)) or mass[0] < 0:
            raise ValueError(
                f"The statistics {name} must be finite, and their mass not negative. Squares of "
                "large data overflow: scale the columns to a moderate range."
            )
