"""The first observations of online learning, kept until they are enough to start a model from."""

from __future__ import annotations

import copy
import math
import zlib
from itertools import chain
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted as is_fitted_or_raise

from .exceptions import NotEnoughData, NotFittedError

__all__ = [
    "KEPT",
    "MOST_ROWS",
    "MOST_STEPS",
    "NotEnoughData",
    "arrays_of",
    "check_is_fitted",
    "is_due",
    "is_kept",
    "joined_again",
    "mark_of",
    "more_needed",
    "n_rows_of",
    "postponed",
    "settled",
    "steps_due",
    "with_kept",
    "with_more",
]

#: The attribute of an estimator that keeps them: arrays by the name of the argument.
KEPT = "_first_observations"
#: What each of them may be, besides ``X``, and what stands for a value that is not given.
_GIVEN = {"lengths": 1, "sample_weight": 1.0, "cut_off": False}
#: What is counted: rows, and rows times their weights; of both, how many a start waits for, and how
#: many there were when all of them were last learned from.
_COUNTS = ("n_rows", "n_needed", "n_improved")
_WEIGHTS = ("weight", "weight_needed", "weight_improved")
#: Each time that observations have grown by this factor, all of them are learned from again, in so
#: many steps for each factor, and so many at most.
_GROWTH, _STEPS, MOST_STEPS = 1.1, 2, 20
#: Rows for each component, and in all, that a start waits for once observations are kept.
_ROWS_PER_COMPONENT, _LEAST_ROWS = 10, 20
#: If so many rows are not enough, more of them are not either.
MOST_ROWS = 10_000


def check_is_fitted(estimator, attributes=None) -> None:
    """Raise ``NotFittedError`` if there is no model yet; it says how many observations are missing.

    Parameters
    ----------
    estimator
    attributes : str or list of str, optional
        As for scikit-learn's function of this name.
    """
    if attributes is None and estimator.__sklearn_is_fitted__():
        # scikit-learn would ask the same, after it has made all tags of the estimator.
        return
    kept = vars(estimator).get(KEPT)
    if kept is not None and not estimator.__sklearn_is_fitted__():
        missing = kept["n_needed"] - kept["n_rows"]
        raise NotFittedError(
            f"This {type(estimator).__name__} has no model yet: partial_fit keeps the first "
            f"{kept['n_rows']} rows, and starts when there are {missing} more."
        )
    is_fitted_or_raise(estimator, attributes)


def more_needed(kept: dict, table, n_components: int) -> bool:
    """Whether a start waits for more, if observations are kept and a table is all there is."""
    return bool(kept) and n_rows_of(table) < max(kept["n_needed"], _wanted(table, n_components))


def is_due(kept: dict) -> bool:
    """Whether the observations that are kept are as many as the next start waits for.

    Those of hardly any weight do not count, but they are not kept without end.
    """
    n_rows = kept["n_rows"]
    enough = n_rows >= kept["n_needed"] and _weight(kept) >= kept.get("weight_needed", 0.0)
    return enough or n_rows >= MOST_ROWS


def steps_due(kept: dict) -> int:
    """The steps from all that is kept as one batch, in proportion to the logarithm of its growth.

    How it was cut into calls then hardly matters.
    """
    growth = min(
        kept["n_rows"] / kept.get("n_improved", kept["n_rows"]),
        _weight(kept) / kept.get("weight_improved", _weight(kept)),
    )
    # Growth by a whole factor may miss it by rounding.
    factors = math.floor(math.log(max(growth, 1.0)) / math.log(_GROWTH) + 1e-9)
    return min(_STEPS * factors, MOST_STEPS)


def settled(kept: dict) -> dict:
    """The same, all of which was learned from just now."""
    return {**kept, "n_improved": kept["n_rows"], "weight_improved": _weight(kept)}


def postponed(kept: dict) -> dict[str, Any] | None:
    """The same, but the next start waits for more; None if there should be no other."""
    n_rows = kept["n_rows"]
    if n_rows >= MOST_ROWS:
        return None
    n_needed = kept["n_needed"]
    while n_needed <= n_rows:
        n_needed = min(2 * n_needed, MOST_ROWS)
    return {**kept, "n_needed": n_needed, "weight_needed": _weight(kept) * n_needed / n_rows}


def mark_of(model) -> int:
    """A number that tells whether a model is as learning left it.

    It changes with parameters that are set by hand, and with what is held fixed.
    """
    mark = zlib.adler32(repr(sorted(getattr(model, "fixed", ()))).encode())
    for values in model.parameters.values():
        mark = zlib.adler32(np.ascontiguousarray(values), mark)
    return mark


def _weight(kept):
    # Files that were written before it was counted do not have it.
    return kept.get("weight", float(kept["n_rows"]))


def _wanted(table, n_components):
    wanted = max(_ROWS_PER_COMPONENT * n_components, table.X.shape[1], _LEAST_ROWS)
    return min(wanted, MOST_ROWS)


def n_rows_of(table) -> int:
    """The rows of observations that have some weight."""
    if table.sample_weight is None:
        return table.X.shape[0]
    lengths = getattr(table, "lengths", 1)
    return int(np.sum((table.sample_weight > 0) * lengths))


def _weight_of(table):
    """The weight of all rows."""
    if table.sample_weight is None:
        return float(table.X.shape[0])
    return float(np.sum(table.sample_weight * getattr(table, "lengths", 1)))


def arrays_of(estimator, table, n_components: int, *, tried: bool = False) -> dict[str, Any]:
    """A table as an estimator keeps it; ``tried`` says that it was not enough.

    Raises :class:`NotEnoughData` if waiting for more is of no use.
    """
    n_rows = n_rows_of(table)
    if tried and n_rows >= MOST_ROWS:
        raise NotEnoughData
    n_needed = _wanted(table, n_components)
    # After a vain attempt with as many as this, the next one has twice as many.
    while tried and n_needed <= n_rows:
        n_needed = min(2 * n_needed, MOST_ROWS)
    kept = {"n_rows": n_rows, "n_needed": n_needed, "weight": _weight_of(table)}
    kept["weight_needed"] = kept["weight"] * n_needed / max(n_rows, 1)
    kept.update(_part(table))
    names = vars(estimator).get("feature_names_in_")
    if names is not None:
        kept["feature_names"] = names
    return settled(kept)


def with_more(kept: dict, table) -> dict[str, Any]:
    """The same with the observations of a table after the others.

    They are kept in parts, of which each is larger than the next: two that are not become one. So
    observations that come one by one are copied a few times each, and not whenever others come.
    """
    parts = [*kept.get("later", {}).values(), _part(table)]
    while len(parts) > 1 and _size(parts[-2]) <= _size(parts[-1]):
        parts[-2:] = [_merged(parts[-2:])]
    return {
        **kept,
        "n_rows": kept["n_rows"] + n_rows_of(table),
        "weight": _weight(kept) + _weight_of(table),
        "later": {str(number): part for number, part in enumerate(parts)},
    }


def _part(table) -> dict[str, Any]:
    """Copies of the arrays of a table."""
    X = table.X
    given = {name: getattr(table, name, None) for name in _GIVEN}
    part = {name: np.array(values) for name, values in given.items() if values is not None}
    return {"X": _stored(X.tocsr().copy()) if sparse.issparse(X) else np.array(X), **part}


def _stored(X):
    """A sparse matrix as arrays."""
    return {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": np.array(X.shape)}


def _restored(X):
    """The array or sparse matrix that is kept."""
    if not isinstance(X, dict):
        return X
    parts = X["data"], X["indices"], X["indptr"]
    X = sparse.csr_array(parts, shape=tuple(int(n) for n in X["shape"]))
    X.check_format(full_check=True)
    return X


def _size(part):
    """The number of observations."""
    return len(part["lengths"]) if "lengths" in part else _restored(part["X"]).shape[0]


def _merged(parts: list[dict]) -> dict[str, Any]:
    """Several parts in one, in their order."""
    if len(parts) == 1:
        return parts[0]
    arrays = [_restored(part["X"]) for part in parts]
    if any(map(sparse.issparse, arrays)):
        merged = {"X": _stored(sparse.csr_array(sparse.vstack(arrays)))}
    else:
        merged = {"X": np.concatenate(arrays)}
    for name, default in _GIVEN.items():
        if any(name in part for part in parts):
            merged[name] = np.concatenate(
                [part[name] if name in part else np.full(_size(part), default) for part in parts]
            )
    return merged


def is_kept(value) -> bool:
    """Whether this can be what an estimator keeps; its data are checked when they are used."""
    needed = {"X", "n_rows", "n_needed"}
    known = needed | {"feature_names", "later", "mark", *_COUNTS, *_WEIGHTS, *_GIVEN}
    return (
        isinstance(value, dict)
        and needed <= value.keys() <= known
        and all(type(value[name]) is int and value[name] > 0 for name in _COUNTS if name in value)
        and all(_is_positive(value[name]) for name in _WEIGHTS if name in value)
        and isinstance(value.get("mark", 0), int)
        and isinstance(value.get("later", {}), dict)
        and all(map(_is_part, value.get("later", {}).values()))
    )


def _is_positive(value):
    return isinstance(value, float) and 0.0 < value < np.inf


def _is_part(value):
    return isinstance(value, dict) and {"X"} <= value.keys() <= {"X", *_GIVEN}


def _whole(kept):
    """All that is kept: an array or a sparse matrix, and what was given with it."""
    first = {name: kept[name] for name in ("X", *_GIVEN) if name in kept}
    own = _merged([first, *kept.get("later", {}).values()])
    return _restored(own.pop("X")), own


def joined_again(estimator, kept: dict):
    """All that a model has learned from so far, as one table, if it is kept."""
    X, own = _whole(kept)
    # They have no names, but their columns are those of the model.
    nameless = copy.copy(estimator)
    vars(nameless).pop("feature_names_in_", None)
    return nameless._check_data(X, **own, reset=False, once=True)


def with_kept(estimator, kept: dict, data, given: dict):
    """``data`` after the observations that a first model waits for, as one table or stream."""
    X, own = _whole(kept)
    names = vars(estimator).get("feature_names_in_")
    first = estimator._check_data(X, **own, reset=True, once=True)
    if data.is_stream:
        items = data.source() if callable(data.source) else data.source
        item = first if hasattr(first, "lengths") else (first.X, first.sample_weight)
        given = {name: value for name, value in given.items() if value is not None}
        return estimator._check_data(chain([item], items), **given, reset=True, once=True)
    if data.X.shape[1] != first.X.shape[1]:
        raise ValueError(
            f"X has {data.X.shape[1]} features, and the first observations had {first.X.shape[1]}."
        )
    both = first.joined([first, data])
    own = {name: getattr(both, name, None) for name in _GIVEN}
    own = {name: values for name, values in own.items() if values is not None}
    # Checks may learn from the data, the number of categories for instance: from all of them.
    data = estimator._check_data(both.X, **own, reset=True, once=True)
    _set_names(estimator, names, kept.get("feature_names"))
    return data


def _set_names(estimator, names, first_names):
    """Set the names of the columns, which have to be those of the first observations."""
    if names is not None and first_names is not None and list(names) != list(first_names):
        raise ValueError(
            f"The feature names {list(names)} are not those of the first observations, "
            f"{list(first_names)}."
        )
    known = first_names if names is None else names
    if known is not None:
        estimator.feature_names_in_ = known
