"""Warnings and errors of fastem, to be filtered or caught by their kind.

All warnings of fastem's own are of the class :class:`FastemWarning`, and all errors with a class of
their own are of the class :class:`FastemError`. Each has a category of Python's besides. Where
scikit-learn has a class for something, fastem uses it, and it can be imported from here as well.

Examples
--------
>>> import warnings
>>> from fastem.exceptions import DeadComponentWarning
>>> warnings.filterwarnings("ignore", category=DeadComponentWarning)
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sklearn.exceptions import ConvergenceWarning as ConvergenceWarning
    from sklearn.exceptions import DataConversionWarning as DataConversionWarning
    from sklearn.exceptions import NotFittedError as NotFittedError

__all__ = [
    "AlignmentWarning",
    "ChangedBehaviorWarning",
    "ChangedShapeWarning",
    "ConvergenceWarning",
    "CovarianceWarning",
    "Customized",
    "DataConversionWarning",
    "DeadComponentWarning",
    "DriftError",
    "FastemError",
    "FastemWarning",
    "FewDataWarning",
    "FileError",
    "ImpossibleDataError",
    "LearningRateError",
    "MissingMatricesWarning",
    "NoCacheWarning",
    "NoDensityError",
    "NoDivergence",
    "NotEnoughData",
    "NotFittedError",
    "NothingInCommon",
    "NothingToLearnWarning",
    "OverwritingWarning",
    "SymbolColumnsWarning",
]


# Warnings --------------------------------------------------------------------------------------


class FastemWarning(Warning):
    """What all warnings of fastem's own are."""


class DeadComponentWarning(FastemWarning, RuntimeWarning):
    """Components or states have no observations left."""


class FewDataWarning(FastemWarning, RuntimeWarning):
    """A model has more free parameters than the data have numbers."""


class CovarianceWarning(FastemWarning, RuntimeWarning):
    """Covariances were not positive definite, and something was added to them."""


class AlignmentWarning(FastemWarning, RuntimeWarning):
    """Models are combined in the order they have: nothing says which parts are alike."""


class NoCacheWarning(FastemWarning, RuntimeWarning):
    """Compiled kernels cannot be kept on disk, so that each process compiles them."""


class OverwritingWarning(FastemWarning, UserWarning):
    """A parameter that was set by hand is initialized all the same."""


class MissingMatricesWarning(FastemWarning, UserWarning):
    """A Kalman filter has neither been given its matrices nor learned them."""


class NothingToLearnWarning(FastemWarning, UserWarning):
    """Every parameter of a Kalman filter is held."""


class ChangedShapeWarning(FastemWarning, UserWarning):
    """A parameter that changes with time is constant after ``em``."""


class ChangedBehaviorWarning(FastemWarning, FutureWarning):
    """What is computed is not what an earlier version of fastem computed."""


class SymbolColumnsWarning(FastemWarning, DeprecationWarning):
    """Symbols in several columns are read row by row, as hmmlearn does."""


# Errors ----------------------------------------------------------------------------------------


class FastemError(Exception):
    """What all errors are that have a class of fastem's own."""


class NotEnoughData(FastemError, ValueError):
    """A model cannot be made of these observations, but perhaps of more of them."""


class ImpossibleDataError(FastemError, ValueError):
    """Observations have probability zero under the model, or one that is no number."""


class NoDensityError(FastemError, ValueError):
    """An observation has a singular covariance under a Kalman filter."""


class NoDivergence(FastemError, ValueError):
    """There is no divergence between two models: their joint laws have no densities."""


class NothingInCommon(FastemError, ValueError):
    """Every model is infinitely far from some of the models that are to be combined."""


class LearningRateError(FastemError, ValueError):
    """A learning rate is no positive number, or does not go with other settings."""


class DriftError(FastemError, ValueError):
    """A model does not compute what the test of drift needs."""


class FileError(FastemError, ValueError):
    """A file cannot be used; the message says which one, why, and what to do."""


class Customized(FastemError, TypeError):
    """A kernel was asked for what a subclass has changed."""


# scikit-learn's ----------------------------------------------------------------------------------

_OF_SCIKIT_LEARN = ("ConvergenceWarning", "DataConversionWarning", "NotFittedError")


def __getattr__(name):
    # Loaded when it is asked for: to read a file takes no scikit-learn.
    if name not in _OF_SCIKIT_LEARN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import sklearn.exceptions

    value = getattr(sklearn.exceptions, name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_OF_SCIKIT_LEARN})
