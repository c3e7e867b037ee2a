"""The only imports of names that scikit-learn does not document.

They have existed, with these arguments, since version 1.6. If one moves, change it here.
"""

from sklearn.base import _fit_context as fit_context
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints
from sklearn.utils.validation import _check_sample_weight as check_sample_weight

__all__ = [
    "Interval",
    "StrOptions",
    "check_sample_weight",
    "fit_context",
    "validate_parameter_constraints",
]
