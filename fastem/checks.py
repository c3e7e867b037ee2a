"""Checks of every array before a kernel sees it.

Kernels trust the sizes they are given: with a wrong size they would read or write other memory of
the process. Parameters are checked in the constructor of a model and where a family packs them,
statistics where a model uses them, and rows at the beginning of a pass, whether they come from an
argument, an attribute that was set by hand, a file, a stream or a worker.
"""

from __future__ import annotations

import numpy as np

from .statistics import Moments, Statistics

__all__ = ["are_whole", "block", "check_batch_size", "check_probabilities", "check_rates",
           "check_table", "check_weights", "finite", "finite_statistics", "is_numeric", "moments",
           "numbers", "same_shapes", "shaped", "statistics_of", "table_of", "unmasked"]  # fmt: skip


# Parameters ------------------------------------------------------------------------------------


def numbers(name, values) -> np.ndarray:
    """``values`` as an array of doubles; ``TypeError`` if they are not numbers."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(
            f"{name} must be an array of numbers; got rows of different lengths."
        ) from None
    if not is_numeric(array):
        got = type(values).__name__ if array.ndim == 0 else f"an array of dtype {array.dtype}"
        raise TypeError(f"{name} must be an array of real numbers; got {got}.")
    return np.asarray(array, dtype=float)


def unmasked(name, values):
    """``values``; ``ValueError`` if some are masked, since what is under a mask would be used."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        raise ValueError(f"{name} has masked values, and all are needed.")
    return values


def is_numeric(array) -> bool:
    """Whether an array holds real numbers or booleans."""
    return array.dtype.kind in "biuf"


def are_whole(array) -> bool:
    """Whether all entries are whole numbers."""
    if array.dtype.kind != "f":
        return array.dtype.kind in "iu"
    return bool(np.isfinite(array).all() and (array % 1 == 0).all())


def shaped(name, array, shape, why="") -> np.ndarray:
    """``array``; ``ValueError`` unless it has this shape."""
    if array.shape != shape:
        raise ValueError(f"{name} must have the shape {shape}{why}; got {array.shape}.")
    return array


def same_shapes(parameters, others) -> None:
    """``ValueError`` unless the parameters of two models have the same shapes."""
    for name, array in parameters.items():
        if array.shape != others[name].shape:
            raise ValueError(
                f"Models of different sizes: {name} has shape {array.shape} in one and "
                f"{others[name].shape} in another."
            )


def table_of(name, values) -> np.ndarray:
    """``values`` as finite doubles, components by columns of the data."""
    array = numbers(name, values)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(
            f"{name} must have the shape (components, columns), with one or more of each; got "
            f"{array.shape}."
        )
    return finite(name, array)


def finite(name, array) -> np.ndarray:
    """``array``; ``ValueError`` if some entry is NaN or infinite."""
    if not np.isfinite(array).all():
        at = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name} contains NaN or infinity: {name}{list(at)} is {array[at]}.")
    return array


def check_probabilities(name, array) -> None:
    """``ValueError`` unless entries along the last axis are nonnegative and sum to one."""
    if not (array >= 0).all():
        raise ValueError(
            f"{name} holds probabilities, which cannot be negative or NaN; got {array}."
        )
    sums = array.sum(axis=-1)
    # As ``numpy.isclose``, which takes ten times as long.
    wrong = ~(np.abs(sums - 1.0) <= 1e-8 + 1e-5)
    if wrong.any():
        at = [int(i) for i in np.argwhere(wrong)[0]]
        where = f"{name}{at}" if at else name
        raise ValueError(f"{where} must sum to 1; it sums to {sums[tuple(at)]}.")


# Statistics ------------------------------------------------------------------------------------


def statistics_of(statistics) -> Statistics:
    """``statistics``; ``TypeError`` if they are something else."""
    if not isinstance(statistics, Statistics):
        raise TypeError(f"Statistics are a fastem.Statistics; got a {type(statistics).__name__}.")
    return statistics


def block(blocks, name, shape) -> np.ndarray:
    """The statistics of this name; ``ValueError`` unless they have the shape the model asks for."""
    found = blocks.get(name)
    if found is None or isinstance(found, Moments) or found.shape != shape:
        raise ValueError(_of_another_model(name, found, shape))
    return found


def moments(blocks, name, kind, mean_shape, scatter_shape) -> Moments:
    """As :func:`block` for moments of this kind."""
    found = blocks.get(name)
    if type(found) is not kind:
        raise ValueError(_of_another_model(name, found, f"{mean_shape} of {kind.__name__}"))
    for part, shape in (
        ("mass", mean_shape[:1]), ("mean", mean_shape), ("scatter", scatter_shape)
    ):  # fmt: skip
        array = getattr(found, part)
        if array.shape != shape:
            raise ValueError(_of_another_model(f"{name}.{part}", array, shape))
    return found


def _of_another_model(name, found, shape):
    got = "are missing" if found is None else f"have the shape {np.shape(found)}"
    if isinstance(found, Moments):
        got = f"are {type(found).__name__} of the shape {found.mean.shape}"
    return (
        f"These statistics are of another model: {name} should have the shape {shape}, and {got}."
    )


def finite_statistics(statistics) -> None:
    """``ValueError`` if some of the statistics are NaN or infinite."""
    for name, array in statistics.to_arrays().items():
        finite(f"The statistics {name!r}", array)


# Rows ------------------------------------------------------------------------------------------


def check_table(X) -> None:
    """``ValueError`` or ``TypeError`` unless ``X`` is an array of rows of numbers."""
    if getattr(X, "ndim", None) != 2:
        raise ValueError(
            "Rows are an array of two dimensions, observations by columns; got the shape "
            f"{np.shape(X)}."
        )
    if not is_numeric(X):
        raise TypeError(f"Rows must be real numbers; got an array of dtype {X.dtype}.")


def check_weights(sample_weight, n: int, name: str = "row") -> None:
    """``ValueError`` unless there is a weight for each row, finite and not negative.

    ``name`` is what has a weight.
    """
    weights = numbers("sample_weight", sample_weight)
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight must have one entry for each of the {n} {name}s; got the shape "
            f"{weights.shape}: each {name} has one weight."
        )
    wrong = ~((weights >= 0) & (weights < np.inf))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValueError(
            f"Sample weights must be finite and not negative; that of {name} {at} is {weights[at]}."
        )


def check_rates(rates, n_steps) -> np.ndarray:
    """``rates`` as doubles; ``ValueError`` unless there is one for each online step."""
    rates = np.ascontiguousarray(numbers("rates", rates))
    if rates.ndim != 1 or len(rates) < n_steps:
        raise ValueError(
            f"One rate is needed for each of the {n_steps} online steps; got the shape "
            f"{rates.shape}."
        )
    return rates


def check_batch_size(batch_size) -> None:
    """``ValueError`` unless a mini-batch has a whole number of observations, one or more."""
    if not (isinstance(batch_size, (int, np.integer)) and batch_size >= 1):
        raise ValueError(f"batch_size must be a whole number, 1 or more; got {batch_size!r}.")
