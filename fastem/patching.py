"""fastem's classes in the place of those of scikit-learn, hmmlearn and pykalman.

:func:`patch` puts them there, :func:`unpatch` takes them away. A class that takes a place is
fastem's and derives from the original besides: it is an instance of both, and what fastem does not
have is inherited. A subclass that somebody writes derives from the original alone, because it may
override what only the original calls; hidden Markov models gain by faster recursions all the same.
"""

from __future__ import annotations

import copyreg
import functools
import logging
import sys
import threading
import types
from abc import ABCMeta
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from .hmm.functions import _at_once
from .kernels.hmm import given, lattices

__all__ = ["Patched", "patch", "unpatch"]

logger = logging.getLogger("fastem.patch")

#: The modules of the peers, the names of their classes, and where fastem has its own.
_CLASSES = (
    ("sklearn.mixture", ("GaussianMixture", "BayesianGaussianMixture"), "fastem"),
    (
        "hmmlearn.hmm",
        ("GaussianHMM", "GMMHMM", "CategoricalHMM", "MultinomialHMM", "PoissonHMM"),
        "fastem",
    ),
    (
        "hmmlearn.vhmm",
        ("VariationalCategoricalHMM", "VariationalGaussianHMM"),
        "fastem.vhmm",
    ),
    ("pykalman", ("KalmanFilter",), "fastem"),
)

_RECURSIONS = "hmmlearn._hmmc"

_DOUBLE, _INTEGER = np.dtype(float), np.dtype(np.int64)
# Paths through more states are left to the peer if probabilities do not sum to one.
_MOST_STATES = 7
# The least states, and the least steps times states cubed, from which on the other recursions take
# less time than the peer's, which have less to do before the first step.
_WORTH = {
    "forward_log": (1, 1_000),
    "backward_log": (1, 2_000),
    "forward_scaling": (6, 30_000),
    "backward_scaling": (8, 100_000),
    "compute_log_xi_sum": (1, 300),
    "compute_scaling_xi_sum": (4, 10_000),
    "viterbi": (1, 0),
}
# Looking up attributes of modules takes a part of a call of a few steps.
_contiguous, _empty, _LOWEST = np.ascontiguousarray, np.empty, -np.inf

# What Python makes for each class by itself.
_OF_EACH_CLASS = {
    "__abstractmethods__", "__annotations__", "__dict__", "__doc__", "__firstlineno__",
    "__init_subclass__", "__module__", "__qualname__", "__slots__", "__static_attributes__",
    "__subclasshook__", "__weakref__", "_abc_impl",
}  # fmt: skip

_lock = threading.RLock()


class _Replacement(NamedTuple):
    place: str
    original: object
    ours: object
    name: str


#: What is in place now.
_in_place: list[_Replacement] = []
#: How the original classes were pickled before.
_reducers: dict[type, Any] = {}


def original_of(thing):
    """What had the place of ``thing`` before :func:`patch`; itself if it is in nobody's place."""
    return next((one.original for one in list(_in_place) if one.ours is thing), thing)


def patch() -> Patched:
    """Let users of scikit-learn, hmmlearn and pykalman get fastem's classes.

    The classes of ``sklearn.mixture``, ``hmmlearn.hmm`` and ``hmmlearn.vhmm``, and
    ``pykalman.KalmanFilter``, become fastem's, wherever a module has them as an attribute, for what
    is installed. ``isinstance`` with the original class holds for them. hmmlearn's compiled
    recursions are replaced too, by faster ones with the same results, so that subclasses of its
    ``BaseHMM`` gain as well. Lines of the logger ``fastem.patch`` (INFO) say which went where.

    Returns
    -------
    Patched
        For a ``with`` statement, at whose end everything is as it was at its beginning.

    See Also
    --------
    unpatch : Undo it.

    Examples
    --------
    >>> import fastem
    >>> with fastem.patch():
    ...     from sklearn.mixture import GaussianMixture
    ...     model = GaussianMixture(2)
    >>> isinstance(model, fastem.GaussianMixture)
    True
    >>> import sklearn.mixture
    >>> isinstance(model, sklearn.mixture.GaussianMixture)
    True
    >>> issubclass(sklearn.mixture.GaussianMixture, fastem.GaussianMixture)
    False
    """
    with _lock:
        done = Patched(bool(_in_place))
        if not _in_place:
            replacements = [*_classes(), *_recursions()]
            _in_place.extend(replacements)
            _exchange({id(r.original): r.ours for r in replacements})
            _reducers.update(_let_be_pickled(replacements))
            for replacement in replacements:
                logger.info("%s is now %s", replacement.place, replacement.name)
        return done


def unpatch() -> None:
    """Undo :func:`patch`, however often it was called: modules have what they had before.

    Models that were made meanwhile stay what they are.

    Examples
    --------
    >>> import fastem
    >>> _ = fastem.patch()
    >>> fastem.unpatch()
    """
    with _lock:
        replacements = list(_in_place)
        _in_place.clear()
        _exchange({id(r.ours): r.original for r in replacements})
        for kind, before in _reducers.items():
            copyreg.dispatch_table.pop(kind, None)
            if before is not None:
                copyreg.dispatch_table[kind] = before
        _reducers.clear()
        for replacement in replacements:
            logger.info("%s is the original again", replacement.place)


class Patched:
    """What :func:`patch` returns: at the end of a ``with`` statement it is undone.

    Parameters
    ----------
    before : bool
        Whether it had been done before; then it is left in place.
    """

    def __init__(self, before: bool):
        self._before = before

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if not self._before:
            unpatch()


def _exchange(by_id):
    """Put other objects for some, by their ids, wherever they are attributes of modules."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "fastem" or not isinstance(module, types.ModuleType):
            continue
        for attribute, value in list(vars(module).items()):
            if id(value) in by_id:
                setattr(module, attribute, by_id[id(value)])


# Classes ---------------------------------------------------------------------------------------


def _classes():
    """The classes that are there of both sides."""
    for place, names, home in _CLASSES:
        if find_spec(place.partition(".")[0]) is None or find_spec(place) is None:
            continue
        module = import_module(place)
        for name in names:
            ours, original = _ours(home, name), getattr(module, name, None)
            if ours is None or original is None:
                if original is not None:
                    logger.info("%s.%s stays: fastem has no such class", place, name)
                continue
            yield _Replacement(f"{place}.{name}", original, _made(ours, original), f"{home}.{name}")


def _ours(home, name):
    """fastem's class; None if there is none."""
    if home != "fastem" and find_spec(home) is None:
        return None
    return getattr(import_module(home), name, None)


@functools.cache
def _made(ours, original):
    """fastem's class, which derives from the original besides."""
    kinds = [type(ours), type(original)]
    # The more special first, and each once.
    kinds.sort(key=lambda kind: -len(kind.__mro__))
    kinds = kinds[:1] if issubclass(kinds[0], kinds[1]) else kinds

    class InPlace(*kinds):
        """The type of a class that is in the place of another."""

        def __new__(meta, name, bases, namespace, **keywords):
            if any(base is found for base in bases for found in made):
                # A subclass of somebody's: from the original.
                bases = tuple(original if base in made else base for base in bases)
                return types.new_class(
                    name, bases, keywords, lambda content: content.update(namespace)
                )
            return super().__new__(meta, name, bases, namespace, **keywords)

        def __getattribute__(cls, name):
            value = super().__getattribute__(name)
            if (
                made
                and cls is made[0]
                and type(value) is types.FunctionType
                and hasattr(original, name)
            ):
                return either(name, value)
            return value

        def __instancecheck__(cls, instance):
            return isinstance(instance, original)

        def __subclasscheck__(cls, other):
            # Not ``issubclass``: that of an abstract class asks all that derive from it.
            return original in other.__mro__

    @functools.cache
    def either(name, method):
        """A method that is called by the name of its class: ``Class.method(object)``.

        The object may be one of the original: made before, or of a subclass, which derives from it.
        """

        @functools.wraps(method)
        def called(*arguments, **keywords):
            is_other = (
                arguments
                and isinstance(arguments[0], original)
                and made[0] not in type(arguments[0]).__mro__
            )
            call = getattr(original, name) if is_other else method
            return call(*arguments, **keywords)

        return called

    made: list[type] = []
    _close(ours)
    shared = _shared(ours, original)
    namespace = {
        **_copied(ours, original),
        **shared,
        "__doc__": ours.__doc__,
        "__module__": __name__,
        "__qualname__": original.__name__,
    }
    made.append(InPlace(original.__name__, (ours, original), namespace))
    # The original may change classes that derive from it, for its own methods' sake.
    for name, value in shared.items():
        setattr(made[0], name, value)
    return made[0]


def _close(ours):
    """Let an abstract class take for its subclasses only what derives from it.

    By itself it asks its subclasses, and the one in place of the original says that the original is
    a subclass.
    """
    if isinstance(ours, ABCMeta):
        ours.__subclasshook__ = classmethod(lambda cls, other: cls in other.__mro__)


def _copied(ours, original):
    """The methods that only the original has, as fastem's: nobody has overridden one of fastem's.

    fastem tells those that somebody has overridden by the module that they are from.
    """
    content = {}
    for kind in reversed(original.__mro__):
        for name, value in vars(kind).items():
            if isinstance(value, types.FunctionType) and not hasattr(ours, name):
                copied = types.FunctionType(
                    value.__code__, value.__globals__, value.__name__, value.__defaults__,
                    value.__closure__,
                )  # fmt: skip
                content[name] = functools.update_wrapper(copied, value)
                copied.__kwdefaults__ = value.__kwdefaults__
                copied.__module__ = __name__
                del copied.__wrapped__
    return content


def _shared(ours, original):
    """What both classes have, as fastem has it, whatever the order of resolution is."""
    others = [kind for kind in original.__mro__ if kind not in ours.__mro__]
    content = {}
    for name in {name for kind in others for name in vars(kind)} - _OF_EACH_CLASS:
        for kind in ours.__mro__[:-1]:
            if name in vars(kind):
                content[name] = vars(kind)[name]
                break
    return content


def __getattr__(name):
    """The class of a model that was saved while classes were patched, for pickle."""
    for place, names, home in _CLASSES:
        if name in names and _ours(home, name) is not None:
            originals = {r.place: r.original for r in _in_place}
            original = originals.get(f"{place}.{name}")
            return _made(_ours(home, name), original or getattr(import_module(place), name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# Pickles of the originals ------------------------------------------------------------------------


def _let_be_pickled(replacements):
    """Let objects of the original classes be pickled while their names lead elsewhere.

    Returns how they were pickled before, by their classes.
    """
    before = {}
    for replacement in replacements:
        kind = replacement.original
        if isinstance(kind, type):
            before[kind] = copyreg.dispatch_table.get(kind)
            copyreg.pickle(kind, _reduced)
    return before


def _reduced(instance):
    """What :mod:`pickle` and :mod:`copy` make an object of: something empty, and a state."""
    _, _, *state = instance.__reduce_ex__(4)
    return (_Empty(type(instance)), (), *state)


class _Empty:
    """An object without attributes, of a class that is found by its name when a pickle is read.

    A pickle does not mention fastem.
    """

    def __init__(self, kind: type):
        self.kind = kind

    def __call__(self):
        return object.__new__(self.kind)

    def __reduce__(self):
        return functools.partial, (object.__new__, _Named(self.kind))


class _Named:
    """A class, for a pickle: what has its name where that is read."""

    def __init__(self, kind: type):
        self.kind = kind

    def __reduce__(self):
        return getattr, (_Module(self.kind.__module__), self.kind.__qualname__)


class _Module:
    """A module, for a pickle."""

    def __init__(self, name: str):
        self.name = name

    def __reduce__(self):
        return import_module, (self.name,)


# Recursions ------------------------------------------------------------------------------------


def _recursions():
    """hmmlearn's compiled recursions, and those that take their place."""
    if find_spec("hmmlearn") is None or find_spec(_RECURSIONS) is None:
        return
    module = import_module(_RECURSIONS)
    for name, make in _MAKERS.items():
        original = getattr(module, name, None)
        if original is not None:
            ours = functools.wraps(original)(make(original))
            yield _Replacement(f"{_RECURSIONS}.{name}", original, ours, f"fastem's {name}")


def _is_plain(array):
    """Whether kernels can take this array."""
    return type(array) is np.ndarray and array.dtype is _DOUBLE and array.flags.carray


def _is_table(name, table):
    """Whether kernels can take this table, and take less time for it than the peer's."""
    if not (_is_plain(table) and table.ndim == 2):
        return False
    n_rows, n_states = table.shape
    least_states, least_work = _WORTH[name]
    return (
        n_rows > 0
        and n_states > 0
        and n_states >= least_states
        and n_rows * n_states**3 >= least_work
    )


def _is_problem(name, startprob, transmat, table):
    """Whether these arrays are a problem that kernels can take, and take less time for."""
    return (
        _is_table(name, table)
        and _is_plain(startprob)
        and _is_plain(transmat)
        and startprob.shape == table.shape[1:]
        and transmat.shape == 2 * table.shape[1:]
    )


def _forward_log(original):
    def forward_log(startprob, transmat, log_frameprob):
        if _is_problem("forward_log", startprob, transmat, log_frameprob):
            lattice = np.empty(log_frameprob.shape)
            score, fine = lattices.forward_lattice(startprob, transmat, log_frameprob, lattice)
            if fine:
                return score, lattice
        return original(startprob, transmat, log_frameprob)

    return forward_log


def _backward_log(original):
    def backward_log(startprob, transmat, log_frameprob):
        if _is_problem("backward_log", startprob, transmat, log_frameprob):
            lattice = np.empty(log_frameprob.shape)
            if lattices.backward_lattice(startprob, transmat, log_frameprob, lattice):
                return lattice
        return original(startprob, transmat, log_frameprob)

    return backward_log


def _forward_scaling(original):
    def forward_scaling(startprob, transmat, frameprob):
        if _is_problem("forward_scaling", startprob, transmat, frameprob):
            lattice, scaling = np.empty(frameprob.shape), np.empty(len(frameprob))
            score, certain, _ = lattices.forward_scaled(
                startprob, transmat, frameprob, lattice, scaling
            )
            if certain:
                return score, lattice, scaling
        return original(startprob, transmat, frameprob)

    return forward_scaling


def _backward_scaling(original):
    def backward_scaling(startprob, transmat, frameprob, scaling):
        if (
            _is_problem("backward_scaling", startprob, transmat, frameprob)
            and _is_plain(scaling)
            and scaling.shape == frameprob.shape[:1]
        ):
            lattice = np.empty(frameprob.shape)
            if lattices.backward_scaled(startprob, transmat, frameprob, scaling, lattice):
                return lattice
        return original(startprob, transmat, frameprob, scaling)

    return backward_scaling


def _xi_sum(original, kernel):
    name = original.__name__

    def xi_sum(fwdlattice, transmat, bwdlattice, frameprob):
        if (
            _is_table(name, frameprob)
            and _is_plain(transmat)
            and _is_plain(fwdlattice)
            and _is_plain(bwdlattice)
            and fwdlattice.shape == bwdlattice.shape == frameprob.shape
            and transmat.shape == 2 * frameprob.shape[1:]
        ):
            out = np.empty(transmat.shape)
            if kernel(fwdlattice, transmat, bwdlattice, frameprob, out):
                return out
        return original(fwdlattice, transmat, bwdlattice, frameprob)

    return xi_sum


def _viterbi(original):
    def viterbi(startprob, transmat, log_frameprob):
        try:
            # For a few steps, anything more in Python would take longer than the recursion.
            table = _contiguous(log_frameprob)
            states = _empty(len(table), _INTEGER)
            score = _at_once.decode(table, _contiguous(startprob), _contiguous(transmat), states)
            if score > _LOWEST:
                return score, states
        except (TypeError, ValueError):  # no arrays of doubles of these dimensions
            return original(startprob, transmat, log_frameprob)
        if _is_problem("viterbi", startprob, transmat, log_frameprob):
            states, score = np.empty(len(log_frameprob), dtype=np.int64), np.empty(1)
            arrays = log_frameprob, np.array([len(log_frameprob)]), startprob, transmat
            if given.decode_given(*arrays, states, score) != given.FINE:
                if not (
                    len(startprob) <= _MOST_STATES
                    and lattices.are_nonnegative(startprob)
                    and lattices.are_nonnegative(transmat)
                    and given.are_numbers(log_frameprob)
                ):
                    return original(startprob, transmat, log_frameprob)
                # Probabilities need not sum to one.
                given.decode_directly(*arrays, states, score)
            if score[0] > -np.inf:
                return float(score[0]), states
        return original(startprob, transmat, log_frameprob)

    return viterbi


_MAKERS = {
    "forward_log": _forward_log,
    "backward_log": _backward_log,
    "forward_scaling": _forward_scaling,
    "backward_scaling": _backward_scaling,
    "viterbi": _viterbi,
    "compute_log_xi_sum": functools.partial(_xi_sum, kernel=lattices.transition_lattice),
    "compute_scaling_xi_sum": functools.partial(_xi_sum, kernel=lattices.transitions_scaled),
}
