"""The only imports of names that scikit-learn does not document.

They have existed, with these arguments, since version 1.6. If one moves, change it here.
"""

from functools import cache

import numpy as np
from sklearn.base import _fit_context as fit_context
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints
from sklearn.utils.validation import _check_sample_weight as check_sample_weight

__all__ = [
    "Interval",
    "StrOptions",
    "check_sample_weight",
    "fit_context",
    "lloyd_iteration",
    "validate_parameter_constraints",
]


@cache
def lloyd_iteration():
    """The function that takes one step of k-means; None if there is none with these arguments."""
    try:
        from sklearn.cluster._k_means_lloyd import lloyd_iter_chunked_dense as step

        X, centers, new = (
            np.array([[0.0], [2.0], [9.0]]),
            np.array([[0.0], [9.0]]),
            np.zeros((2, 1)),
        )
        labels = np.full(3, -1, dtype=np.int32)
        step(X, np.ones(3), centers, new, np.zeros(2), labels, np.zeros(2), 1)
        step(X, np.ones(3), new, new, np.zeros(2), labels, np.zeros(2), 1, update_centers=False)
        is_known = labels.tolist() == [0, 0, 1] and new.tolist() == [[1.0], [9.0]]
    except (ImportError, TypeError, ValueError):
        return None
    return step if is_known else None
