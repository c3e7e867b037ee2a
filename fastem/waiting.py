"""The first observations of online learning, kept until they are enough to start a model from."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted as is_fitted_or_raise

__all__ = [
    "KEPT",
    "MOST_ROWS",
    "NotEnoughData",
    "arrays_of",
    "check_is_fitted",
    "has_enough",
    "is_kept",
    "more_needed",
    "with_kept",
]

#: The attribute of an estimator that keeps them: arrays by the name of the argument.
KEPT = "_first_observations"
#: What each of them may be, besides ``X``.
_GIVEN = ("lengths", "sample_weight", "cut_off")
#: Rows for each component, and in all, that a start waits for once observations are kept.
_ROWS_PER_COMPONENT, _LEAST_ROWS = 10, 20
#: If so many rows are not enough, more of them are not either.
MOST_ROWS = 10_000


class NotEnoughData(ValueError):
    """A model cannot be made of these observations, but perhaps of more of them."""


def check_is_fitted(estimator, attributes=None) -> None:
    """Raise ``NotFittedError`` if there is no model yet; it says how many observations are missing.

    Parameters
    ----------
    estimator
    attributes : str or list of str, optional
        As for scikit-learn's function of this name.
    """
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
    return bool(kept) and _n_rows(table) < max(kept["n_needed"], _wanted(table, n_components))


def has_enough(kept: dict, data) -> bool:
    """Whether there are as many observations as were waited for, for a start or another one."""
    if data.is_stream:
        return True
    if data.sample_weight is None:
        return data.X.shape[0] >= kept["n_needed"]
    return np.sum(data.sample_weight * getattr(data, "lengths", 1)) >= kept["n_needed"]


def _wanted(table, n_components):
    return max(_ROWS_PER_COMPONENT * n_components, table.X.shape[1], _LEAST_ROWS)


def _n_rows(table):
    """The rows of observations that have some weight."""
    if table.sample_weight is None:
        return table.X.shape[0]
    lengths = getattr(table, "lengths", 1)
    return int(np.sum((table.sample_weight > 0) * lengths))


def arrays_of(estimator, table, n_components: int, *, tried: bool = False) -> dict[str, Any]:
    """A table as an estimator keeps it; ``tried`` says that it was not enough.

    Raises :class:`NotEnoughData` if waiting for more is of no use.
    """
    n_rows = _n_rows(table)
    if tried and n_rows >= MOST_ROWS:
        raise NotEnoughData
    n_needed = _wanted(table, n_components)
    # After a vain attempt with as many as this, the next one has twice as many.
    while tried and n_needed <= n_rows:
        n_needed = min(2 * n_needed, MOST_ROWS)
    kept = {"n_rows": n_rows, "n_needed": n_needed}
    X = table.X
    if sparse.issparse(X):
        X = X.tocsr()
        kept["X"] = {
            "data": X.data.copy(), "indices": X.indices.copy(), "indptr": X.indptr.copy(),
            "shape": np.array(X.shape),
        }  # fmt: skip
    else:
        kept["X"] = np.array(X)
    for name in _GIVEN:
        values = getattr(table, name, None)
        if values is not None:
            kept[name] = np.array(values)
    names = vars(estimator).get("feature_names_in_")
    if names is not None:
        kept["feature_names"] = names
    return kept


def is_kept(value) -> bool:
    """Whether this can be what an estimator keeps; its data are checked when they are used."""
    numbers = ("n_rows", "n_needed")
    return (
        isinstance(value, dict)
        and value.keys() >= {"X", *numbers}
        and value.keys() <= {"X", "feature_names", *numbers, *_GIVEN}
        and all(type(value[name]) is int and value[name] > 0 for name in numbers)
    )


def with_kept(estimator, kept: dict, data, given: dict, *, reset: bool):
    """``data`` after the observations that are kept, checked together, as one table or stream."""
    X, own = kept["X"], {name: kept[name] for name in _GIVEN if name in kept}
    if isinstance(X, dict):
        parts = X["data"], X["indices"], X["indptr"]
        X = sparse.csr_array(parts, shape=tuple(int(n) for n in X["shape"]))
        X.check_format(full_check=True)
    names = vars(estimator).get("feature_names_in_")
    first = estimator._check_data(X, **own, reset=reset, once=True)
    if data.is_stream:
        items = data.source() if callable(data.source) else data.source
        item = first if hasattr(first, "lengths") else (first.X, first.sample_weight)
        given = {name: value for name, value in given.items() if value is not None}
        return estimator._check_data(chain([item], items), **given, reset=reset, once=True)
    if data.X.shape[1] != first.X.shape[1]:
        raise ValueError(
            f"X has {data.X.shape[1]} features, and the first observations had {first.X.shape[1]}."
        )
    both = first.joined([first, data])
    own = {name: getattr(both, name, None) for name in _GIVEN}
    own = {name: values for name, values in own.items() if values is not None}
    # Checks may learn from the data, the number of categories for instance: from all of them.
    data = estimator._check_data(both.X, **own, reset=reset, once=True)
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
