"""Learning from a stream of single observations: the base of all learners.

A learner is what ``partial_fit`` is, one observation after another, without a model being built
between two of them. A model that has a quick way returns it from ``one_by_one``; whatever that way
does not take (values that are missing or wrong, settings it has no kernel for), ``partial_fit`` of
an estimator that belongs to the learner does.
"""

from __future__ import annotations

import copy
import threading
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from . import drift
from .exceptions import NotFittedError
from .learning_rate import Clock, next_rate
from .monitoring import MOST_ENTRIES, halved
from .progress import silently
from .waiting import KEPT, check_is_fitted

__all__ = ["Learner", "OneByOne", "PredictingLearner", "RowReader", "SequenceReader",
           "are_finite", "in_one_array"]  # fmt: skip


_INFINITY = float("inf")
#: The kinds of types that hold real numbers.
_NUMERIC = "fiub"
_NOTHING = np.empty(0, dtype=object)
#: Steps of a sequence that there is room for at first.
_FEW_STEPS = 64
#: So many numbers are added quicker by Python than by NumPy.
_FEW_NUMBERS = 64
#: More values of a sequence are not tested one by one.
_FEW_VALUES = 1024
#: How names of scikit-learn's methods for metadata begin and end.
_OF_REQUESTS = "set_", "_request"


class OneByOne(ABC):
    """A model that changes in place, by one observation at a time: see ``Model.one_by_one``.

    Methods that cannot take an observation leave everything as it was, and say so.
    """

    @abstractmethod
    def learn(self, x, eta: float, n_before: float) -> float | None:
        """One online step with the rate ``eta``, after ``n_before`` observations.

        The log-likelihood of the observation before the step, as ``Model.learn`` has it; None if
        all is left to ``partial_fit``.
        """

    def score(self, x) -> float | None:
        """The log-likelihood of an observation; None if this is left to the estimator."""
        return None

    def predict(self, x) -> Any:
        """The hidden variable of an observation; None if this is left to the estimator."""
        return None

    @abstractmethod
    def model(self):
        """The model as it is now, which later steps do not change."""


class Learner:
    """Learns from single observations, each in microseconds.

    Made by the method ``learner`` of a fitted estimator. After any number of observations,
    :meth:`model` is the estimator that ``partial_fit`` would have made of them, called once for
    each, the same to the bit: with its ``history_`` and its test of drift. The estimator that the
    learner was made from stays as it is. A ``callback`` is called after each observation, as
    ``partial_fit`` does; every step then takes as long as a call of ``partial_fit``.

    Calls of one learner from several threads wait for each other. Learners can be copied and
    pickled.

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> X = np.random.default_rng(0).normal(size=(500, 2)) + 9.0 * (np.arange(500) % 2)[:, None]
    >>> learner = fastem.GaussianMixture(2, random_state=0).fit(X[:400]).learner()
    >>> for x in X[400:]:
    ...     learner.learn_one(x)
    >>> learner.model().n_observations_
    500.0
    """

    def __init__(self, estimator):
        if not estimator._has_learned():
            if KEPT in vars(estimator):
                check_is_fitted(estimator)
            raise NotFittedError(
                f"This {type(estimator).__name__} has no model to go on from. Call fit or "
                "partial_fit with the first observations, then learner()."
            )
        #: It has the present model unless ``_quick`` is ahead of it.
        self._estimator = _copied(estimator)
        # Rows come without names.
        self._names = vars(self._estimator).pop("feature_names_in_", None)
        self._quick: OneByOne | None = None
        self._is_ahead = False
        # Methods of one's own are called, and the quick way calls none.
        self._has_own_methods = _replaces_methods(type(estimator))
        #: Whether there may be a quick way: settings are checked by a first ``partial_fit``.
        self._may_be_quick = False
        # Reentrant: a learning rate that is a function may look at the learner.
        self._lock = threading.RLock()

    def __getstate__(self):
        with self._lock:
            return {"estimator": self._present()}

    def __setstate__(self, state):
        self.__init__(state["estimator"])

    def __repr__(self):
        return f"{type(self).__name__}({self._estimator!r})"

    def learn_one(self, x, **given) -> None:
        """Learn from one observation.

        Parameters
        ----------
        x : array-like
            A row, a sequence (steps by columns) or a document.
        **given
            What ``partial_fit`` takes besides, ``sample_weight`` or ``cut_off``, for this one.
        """
        with self._lock:
            quick = self._quick
            if quick is not None and not given:
                n_before = self._observations
                eta, steps, n_after = next_rate(
                    self._rate, self._steps, n_before, 1.0, self._size, self._first_memory
                )
                score = quick.learn(x, eta, n_before)
                if score is not None:
                    self._steps, self._observations = steps, n_after
                    self._is_ahead = True
                    self._note(n_after, n_after - n_before, score)
                    return
            self._learn_slowly(x, given)

    def score_one(self, x) -> float:
        """The log-likelihood of one observation."""
        with self._lock:
            quick = self._quick or self._begin()
            score = None if quick is None else quick.score(x)
            if score is None:
                self._catch_up()
                score = self._estimator._score_one(self._estimator._one(x))
            return float(score)

    def model(self):
        """The model as it is now: a fitted estimator, which later observations do not change."""
        with self._lock:
            return _copied(self._present())

    @property
    def drift_(self) -> drift.Drift:
        """What the test of drift has found so far, if ``drift_alarm`` is set."""
        with self._lock:
            self._catch_up()
            return self._estimator.drift_

    # The two ways ------------------------------------------------------------------------------

    def _learn_slowly(self, x, given):
        """By ``partial_fit``, which raises what there is to raise."""
        self._catch_up()
        estimator = self._estimator
        given = {name: np.atleast_1d(value) for name, value in given.items()}
        with silently():
            estimator.partial_fit(estimator._one(x), **given)
        self._quick = None
        self._may_be_quick = True
        self._begin()

    def _begin(self) -> OneByOne | None:
        """The quick way from the present model, if there is one."""
        estimator = self._estimator
        if self._may_be_quick and self._quick is None:
            self._may_be_quick = False
            self._rate, self._size = estimator._rate, estimator.batch_size or 1
            self._steps, self._observations = estimator._clock
            # While first observations are kept, learning may begin again from all of them.
            waits = KEPT in vars(estimator)
            # Averages, and models that callbacks are shown, are made after each observation.
            plain = estimator.average_from is None and estimator.callback is None
            if estimator.memory == "model" and plain and not waits and not self._has_own_methods:
                self._history = list(vars(estimator).get("history_", ()))
                self._alarm, self._drift = estimator.drift_alarm, vars(estimator).get("_drift")
                model = estimator._model()
                self._first_memory = model.first_memory
                self._quick = model.one_by_one()
        return self._quick

    def _note(self, n, weight, score):
        """What ``Estimator._report_online`` does with a progressive log-likelihood."""
        history = self._history
        history.append([n, weight, score])
        if len(history) > MOST_ENTRIES:
            self._history = halved(history)
        if self._alarm is not None:
            state = self._drift or drift.beginning()
            self._drift = drift.next_drift(state, self._alarm, n, weight, score)

    def _present(self):
        """The present model as an estimator, which shares its arrays with that of the learner."""
        self._catch_up()
        estimator = copy.copy(self._estimator)
        if self._names is not None:
            estimator.feature_names_in_ = self._names
        return estimator

    def _catch_up(self):
        """Show the present model as attributes of the estimator."""
        if self._is_ahead:
            self._estimator._set_model(self._quick.model())
            self._estimator._set_clock(Clock(self._steps, self._observations))
            self._estimator.history_ = list(self._history)
            if self._alarm is not None:
                self._estimator._drift = self._drift
            self._is_ahead = False


def _copied(estimator):
    """A copy that shares nothing but the callback, which the user may look at."""
    callback = estimator.callback
    return copy.deepcopy(estimator, {id(callback): callback})


def _replaces_methods(kind):
    """Whether a subclass that is not of this package has something in the place of its class's."""
    package = __name__.partition(".")[0]
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] == package:
            return False
        for name in vars(base):
            # Those that Python and scikit-learn make for each class.
            is_made = name.startswith(("__", "_abc_")) or (name[:4], name[-8:]) == _OF_REQUESTS
            if not is_made and hasattr(super(base, kind), name):
                return True
    return False


class PredictingLearner(Learner):
    """A learner of a model whose hidden variables can be predicted.

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> X = np.random.default_rng(0).normal(size=(500, 2)) + 9.0 * (np.arange(500) % 2)[:, None]
    >>> learner = fastem.GaussianMixture(2, random_state=0).fit(X).learner()
    >>> learner.predict_one(X[0]) == learner.predict_one(X[2])
    True
    """

    def predict_one(self, x):
        """The hidden variable of one observation.

        The component of a row (an int), the states of a sequence, or the means of its states for
        a Kalman filter: what the estimator's ``predict`` or ``smooth`` has for this observation.
        """
        with self._lock:
            quick = self._quick or self._begin()
            answer = None if quick is None else self._estimator._predict_quickly(quick, x)
            if answer is None:
                self._catch_up()
                answer = self._estimator._predict_one(self._estimator._one(x))
            return answer


class RowReader:
    """Puts rows where kernels read them, after quick tests of their values.

    Parameters
    ----------
    family : Family
        A compiled one.
    n_columns : int

    Attributes
    ----------
    prepared : ndarray of shape (1, n_columns)
        The last row that was taken.
    """

    def __init__(self, family, n_columns):
        self._family, self._shape = family, (n_columns,)
        self._given = np.zeros((1, n_columns))
        self._row = self._given[0]
        self.prepared, log_base = family.prepare(self._given)
        self._as_it_is = self.prepared is self._given
        # NumPy takes longer over one row than a step.
        self._takes_any_number = family.takes_any_number and log_base is None
        # A base measure is left to the estimator.
        self._tests = family.entry_tests(n_columns) if log_base is None else None

    def takes(self, x) -> bool:
        """Whether this is a row of numbers in the support; False if only the estimator can tell."""
        if type(x) is not np.ndarray:
            x = _as_array(x)
        if x.shape != self._shape or x.dtype.kind not in _NUMERIC:
            return False
        row = self._row
        row[:] = x
        if self._takes_any_number:
            if not are_finite(row):
                return False
        elif self._tests is None:
            return False
        else:
            for test, value in zip(self._tests, row.tolist(), strict=True):
                if not test(value):
                    return False
        if not self._as_it_is:
            self.prepared[:] = self._family.prepare(self._given)[0]
        return True


class SequenceReader:
    """Puts sequences where kernels read them, after quick tests of their values.

    Parameters
    ----------
    family : Family
        A compiled one, of the rows.
    n_columns : int

    Attributes
    ----------
    prepared : ndarray of shape (n, n_columns)
        The rows of the last sequence that was taken come first. A longer one makes it another
        array.
    """

    def __init__(self, family, n_columns):
        self._family, self._n_columns = family, n_columns
        self._make_room(_FEW_STEPS)
        # A base measure is left to the estimator.
        has_base = family.prepare(self._given)[1] is not None
        self._takes_any_number = family.takes_any_number and not has_base
        self._tests = None if has_base else family.entry_tests(n_columns)

    def _make_room(self, n_steps):
        self._given = np.zeros((n_steps, self._n_columns))
        self.prepared = self._family.prepare(self._given)[0]
        self._as_it_is = self.prepared is self._given

    def takes(self, x) -> int:
        """The number of steps of a sequence of numbers in the support.

        0 if it is not one, or if only the estimator can tell.
        """
        if type(x) is not np.ndarray:
            x = _as_array(x)
        if x.ndim != 2 or x.shape[1] != self._n_columns or x.dtype.kind not in _NUMERIC:
            return 0
        n_steps = len(x)
        if n_steps > len(self._given):
            self._make_room(2 * n_steps)
        rows = self._given[:n_steps]
        rows[:] = x
        if self._takes_any_number:
            if not are_finite(rows.reshape(-1)):
                return 0
        elif self._tests is None or rows.size > _FEW_VALUES:
            return 0
        else:
            for test, column in zip(self._tests, rows.T.tolist(), strict=True):
                if not all(map(test, column)):
                    return 0
        if not self._as_it_is:
            self.prepared[:n_steps] = self._family.prepare(rows)[0]
        return n_steps


def _as_array(x):
    """``x`` as an array, one without numbers if it cannot be or if it has values masked."""
    if isinstance(x, np.ndarray):
        return _NOTHING
    try:
        return np.asarray(x)
    except (TypeError, ValueError):
        return _NOTHING


def are_finite(values: np.ndarray) -> bool:
    """Whether some numbers are finite; perhaps not, if they are very large."""
    if values.size <= _FEW_NUMBERS:
        total = sum(values.tolist())
    else:
        with np.errstate(over="ignore"):
            total = values.dot(values)
    return -_INFINITY < total < _INFINITY


def in_one_array(parts):
    """A flat array, and ``parts``, nested tuples, whose arrays of doubles are views of it."""
    sizes = []

    def measure(part):
        if isinstance(part, tuple):
            for member in part:
                measure(member)
        elif isinstance(part, np.ndarray) and part.dtype == np.float64:
            sizes.append(part.size)

    measure(parts)
    flat, first = np.empty(sum(sizes)), 0

    def put(part):
        nonlocal first
        if isinstance(part, tuple):
            members = [put(member) for member in part]
            return type(part)(*members) if hasattr(part, "_fields") else tuple(members)
        if isinstance(part, np.ndarray) and part.dtype == np.float64:
            view = flat[first : first + part.size].reshape(part.shape)
            view[...] = part
            first += part.size
            return view
        return part.copy() if isinstance(part, np.ndarray) else part

    return flat, put(parts)
