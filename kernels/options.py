"""The one place that sets numba's options, and how a kernel is chosen by the kind of its model.

Kernels are serial and release the GIL; threads above them only ever add their results. They are
cached on disk. Fast-math is limited to what keeps infinities and NaN meaningful: sums may be
reassociated (so that they vectorize) and multiply-adds contracted. Two traps remain:

- ``np.isfinite(x)`` is computed from ``x - x``, which reassociation makes zero; compare with
  infinity instead.
- A loop that adds up should not store into an array. Such a loop is compiled twice, with vectors
  and without, and which of the two adds depends on how near to each other its arrays happen to lie:
  the same fit would differ in its last bits from time to time. Store in one loop, add up in
  another. The tests look for such loops in every kernel that they compile.

This file uses numba's documented interface only. ``fast_compile`` uses its internals to compile
faster; where this numba differs from what that file expects, or where the environment variable
``FASTEM_PLAIN_NUMBA`` is 1, kernels are compiled by plain ``njit(cache=True)`` instead. The first
fit then takes 1.2 to 3.4 times as long, and answers may differ in their last bits, also from one
process to another: functions are optimized before they are put into kernels, sums are reassociated
otherwise, and of a function that two kernels on disk call the linker takes either's code.

Numba's cache has two flaws that would make answers wrong; names prevent both:

- It uses stale code after a change in another file than the kernel's own. So a digest of the source
  of all kernels is part of a kernel's name, and with it of the names of its files.
- Functions that two kernels on disk call can have the same symbol, and the linker takes one for
  both (see ``fast_compile._KernelCode``). The symbol holds the function's name, so a part of the
  name belongs to this process alone. A kernel whose name other functions may have, because it was
  made within a function, is not cached.

Other flaws of the plain cache remain, and end in an error: a file that was cut short, a full disk,
and two processes that write the same kernel for different types at the same moment. Without a
cache, every process would spend the time of a first fit.
"""

import functools
import hashlib
import os
import secrets

from numba import config, njit, typeof, types
from numba.core import event
from numba.extending import intrinsic, overload

from ..notices import CompilingNotice, warn_of_no_cache
from .fingerprint import FINGERPRINT

FASTMATH = frozenset({"reassoc", "contract", "nsz", "arcp"})

#: Whether vector loads and stores, and reads of the user's rows, compare their places with the
#: sizes of the arrays, and raise ``IndexError``. For finding errors in kernels: it is slow.
#: Numba's own check (NUMBA_BOUNDSCHECK=1) sees plain indexing and none of these.
CHECK_BOUNDS = os.environ.get("FASTEM_CHECK_BOUNDS", "0") not in ("", "0")


def _load_fast_compile():
    """The module ``fast_compile``, or None, and why it is None."""
    if os.environ.get("FASTEM_PLAIN_NUMBA", "0") not in ("", "0"):
        return None, "FASTEM_PLAIN_NUMBA is set"
    try:
        from . import fast_compile
    except Exception as error:  # in whatever way numba's internals differ
        return None, str(error)
    return fast_compile, None


#: ``WHY_PLAIN`` says why numba's public interface compiles the kernels, and is None if it does not.
_fast, WHY_PLAIN = _load_fast_compile()

_OPTIONS = {"nogil": True, "fastmath": set(FASTMATH), "error_model": "numpy"}

#: The options of functions that only kernels call.
_INNER = _OPTIONS if _fast is None else _fast.inner_options(_OPTIONS)

#: What kernels are compiled with besides their source.
_VARIANT = (CHECK_BOUNDS, config.BOUNDSCHECK)

#: Ends of names: of kernels of this source, and of functions that this process compiles.
_SOURCE = hashlib.sha256(repr((FINGERPRINT, _VARIANT)).encode()).hexdigest()[:16]
_PROCESS = secrets.token_hex(8)


class _Compiling(event.Listener):
    """Hears of what numba compiles, and tells the user of kernels."""

    def __init__(self):
        self._notice = CompilingNotice()
        self._kernels = set()
        self._depth = 0
        #: How many kernels there were.
        self.count = 0

    def add(self, kernel):
        self._kernels.add(kernel)
        return kernel

    def on_start(self, event):
        dispatcher = event.data["dispatcher"]
        if dispatcher in self._kernels:
            self._depth += 1
            self.count += 1
            if self._depth == 1:
                _, _, path = dispatcher.py_func.__module__.partition(".kernels.")
                self._notice.begin(path.partition(".")[0])

    def on_end(self, event):
        if event.data["dispatcher"] in self._kernels:
            self._depth -= 1
            if self._depth == 0:
                self._notice.end()


_compiling = _Compiling()
event.register("numba:compile", _compiling)


def n_compiled() -> int:
    """How many kernels this process has compiled, rather than loaded from disk."""
    return _compiling.count


def kernel(function):
    """Decorate a kernel that Python calls."""
    return _compiling.add(_kernel(function))


def brief_kernel(function):
    """Decorate a kernel that takes microseconds, and keeps the GIL.

    To release it takes as long as some steps of a recursion.
    """
    return _compiling.add(_kernel(function, {**_OPTIONS, "nogil": False}))


def strict_kernel(function):
    """Decorate a kernel whose sums and products are rounded one by one, in the order written."""
    return _compiling.add(_kernel(function, {**_OPTIONS, "fastmath": False}))


def _kernel(function, options=_OPTIONS):
    if _fast is not None:
        return _fast.kernel(function, options, _VARIANT)
    if "<" in function.__qualname__:
        # Several functions may have this name, and numba would take one for another on disk.
        return helper(function)
    _rename(function, _SOURCE)
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError as error:  # numba has found no place for files
        warn_of_no_cache(error)
        return njit(**options)(function)


def compiled_for(kernel, *arguments):
    """The machine code of a kernel for arguments of such types, as a function.

    A call of the kernel itself first finds out the types of its arguments, which for named tuples
    takes longer than small work. This function trusts that arguments have the types of these.
    """
    return kernel.compile(tuple(map(typeof, arguments)))


def limited_to(kernel, *arguments):
    """The kernel, compiled for arguments of such types, and from now on for no others.

    A call is the check of its arguments: of others it raises ``TypeError``. Numba finds the types
    of arrays in C, many times as fast as Python can look at them. Where an array that is given here
    cannot be written to, both kinds are taken.
    """
    kernel.compile(tuple(map(typeof, arguments)))
    kernel.disable_compile()
    return kernel


def inlined(function):
    """Decorate a helper that only kernels call; its body is put into theirs before compiling.

    A helper compiled by itself would be optimized again inside each of its callers.
    """
    return njit(inline="always", fastmath=set(FASTMATH), error_model="numpy")(function)


def helper(function):
    """Decorate a helper that only kernels call, and that is compiled by itself.

    It has no file of its own on disk, and no entry from Python if ``fast_compile`` is used.
    """
    return njit(**_INNER)(_named(function))


def overloaded(generic, **options):
    """Decorate a function that chooses an implementation of ``generic`` by types.

    As ``numba.extending.overload``, which takes the same options; implementations are named, and
    compiled as helpers.
    """
    options.setdefault("jit_options", _INNER)

    def register(choose):
        @functools.wraps(choose)
        def choose_and_name(*arguments, **keywords):
            chosen = choose(*arguments, **keywords)
            return chosen if chosen is None else _named(chosen)

        overload(generic, **options)(choose_and_name)
        return choose

    return register


def _named(function):
    """A function that is compiled into kernels, by a name of its own if names matter."""
    return function if _fast is not None else _rename(function, _PROCESS)


def _rename(function, end):
    if not function.__qualname__.endswith(end):
        function.__qualname__ += f"_{end}"
    return function


def only_with(field, otherwise):
    """Decorate a helper that kernels have only if their record ``w`` has a field of this name.

    It is called as ``function(x, w, ...)``. Where the type of ``w`` has no such field, a call is
    worth ``otherwise``, and nothing of the helper is compiled.
    """

    def decorate(function):
        @functools.wraps(function)
        def generic(x, w, *rest):
            return function(x, w, *rest)

        def without(x, w, *rest):
            return otherwise

        @overloaded(generic, strict=False, jit_options=_INNER)
        def choose(x, w, *rest):
            return function if field in w.fields else without

        return generic

    return decorate


_implemented = set()

#: The named tuples that choose an implementation, by name.
_kinds = {}


def implements(generic, kind):
    """Register the decorated function as ``generic`` for a first argument of type ``kind``.

    ``kind`` is a named-tuple class. Numba resolves the choice when it compiles a caller, so a
    loop written once over ``generic`` costs nothing, and, unlike a function passed as an argument,
    a named tuple does not defeat numba's cache on disk.

    Numba tells the types of named tuples apart by the name of the class, the fields and their
    types, when it looks for code that is compiled already. So no two kinds may have one name.
    """
    if _kinds.setdefault(kind.__name__, kind) is not kind:
        raise ValueError(
            f"Two named tuples are called {kind.__name__}, and numba would take one for the other. "
            "Give the second another name."
        )

    def register(function):
        def choose(first, *rest):
            if isinstance(first, types.BaseNamedTuple) and first.instance_class is kind:
                return function
            return None

        overloaded(generic, strict=False, jit_options=_INNER)(choose)
        _implemented.add((generic, kind))
        return function

    return register


def is_implemented(generic, family) -> bool:
    """Whether ``generic`` is registered for the named tuple of this numba type."""
    return (generic, getattr(family, "instance_class", None)) in _implemented


def _attributes(name, *attributes):
    @intrinsic
    def mark(typing_context):
        def generate(context, builder, signature, arguments):
            for attribute in attributes:
                builder.function.attributes.add(attribute)
            return context.get_dummy_value()

        return types.void(), generate

    mark.__name__ = name
    return mark


#: Called at the head of a helper: keep it a function that its callers call. LLVM would otherwise
#: paste it into each of them and optimize it there again.
apart = _attributes("apart", "noinline")

#: Called at the head of a helper: paste it into its callers whatever its size, where LLVM knows
#: which arrays cannot overlap.
within = _attributes("within", "alwaysinline")
