"""The one place that knows numba's options, and how a kernel is chosen by the kind of its model.

Kernels are serial and release the GIL; threads above them only ever add their results. They are
cached on disk. Fast-math is limited to what keeps infinities and NaN meaningful: sums may be
reassociated (so that they vectorise) and multiply-adds contracted. One trap remains:
``np.isfinite(x)`` is computed from ``x - x``, which reassociation makes zero; compare with
infinity instead.
"""

import hashlib
import os
from pathlib import Path

from numba import config, njit, types
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.extending import intrinsic, overload

FASTMATH = frozenset({"reassoc", "contract", "nsz", "arcp"})

#: Whether vector loads and stores, and reads of the user's rows, compare their places with the
#: sizes of the arrays, and raise ``IndexError``. For finding errors in kernels: it is slow.
#: Numba's own check (NUMBA_BOUNDSCHECK=1) sees plain indexing and none of these.
CHECK_BOUNDS = os.environ.get("FASTEM_CHECK_BOUNDS", "0") not in ("", "0")


def _fingerprint():
    # Code that checks bounds is other code.
    digest = hashlib.sha256(f"{CHECK_BOUNDS} {config.BOUNDSCHECK}".encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


_FINGERPRINT = _fingerprint()


class _Cache(FunctionCache):
    """Numba's cache on disk, keyed by every kernel's source.

    Numba looks only at the file of the function it compiles, and would go on using stale code
    after a change to a kernel that is compiled into it from another file.
    """

    def _index_key(self, signature, codegen):
        return (*super()._index_key(signature, codegen), _FINGERPRINT)


class _InnerCode(JITCodeLibrary):
    """Code that only other code calls: it is optimised and made machine code there, not here too.

    Numba would do both for every function, with all that it calls, at each level of calls.
    """

    def _optimize_final_module(self):
        pass

    def _finalize_final_module(self):
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name):
        self._ensure_finalized()
        return 0

    @property
    def codegen(self):
        return _NoEnvironment(self._codegen)


class _NoEnvironment:
    """A code generator that has no place for a function's Python objects: kernels have none."""

    def __init__(self, codegen):
        self._codegen = codegen

    def __getattr__(self, name):
        return getattr(self._codegen, name)

    def set_env(self, name, environment):
        pass


class _Inner(Compiler):
    """Numba's compiler, for functions that Python does not call."""

    def __init__(self, typingctx, targetctx, library, args, return_type, flags, locals):
        if library is None:
            library = _InnerCode(targetctx.codegen(), "inner")
        super().__init__(typingctx, targetctx, library, args, return_type, flags, locals)


#: The options of functions that only kernels call.
_INNER = {
    "nogil": True,
    "fastmath": set(FASTMATH),
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "pipeline_class": _Inner,
}


def kernel(function):
    """Decorate a kernel that Python calls."""
    dispatcher = njit(nogil=True, fastmath=set(FASTMATH), error_model="numpy")(function)
    dispatcher._cache = _Cache(function)
    # Where another kernel calls it, it is a helper.
    inner = helper(function)
    dispatcher.get_call_template = inner.get_call_template
    dispatcher.get_overload = inner.get_overload
    return dispatcher


def inlined(function):
    """Decorate a helper that only kernels call; its body is put into theirs before compiling.

    A helper compiled by itself would be optimised again inside each of its callers.
    """
    return njit(inline="always", fastmath=set(FASTMATH), error_model="numpy")(function)


def helper(function):
    """Decorate a helper that only kernels call, and that is compiled by itself.

    It has no entry from Python and no file of its own on disk.
    """
    return njit(**_INNER)(function)


_implemented = set()


def implements(generic, kind):
    """Register the decorated function as ``generic`` for a first argument of type ``kind``.

    ``kind`` is a named-tuple class. Numba resolves the choice when it compiles a caller, so a
    loop written once over ``generic`` costs nothing, and, unlike a function passed as an argument,
    a named tuple does not defeat numba's cache on disk.
    """

    def register(function):
        def choose(first, *rest):
            if isinstance(first, types.BaseNamedTuple) and first.instance_class is kind:
                return function
            return None

        overload(generic, strict=False, jit_options=_INNER)(choose)
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
#: paste it into each of them and optimise it there again.
apart = _attributes("apart", "noinline")

#: Called at the head of a helper: paste it into its callers whatever its size, where LLVM knows
#: which arrays cannot overlap.
within = _attributes("within", "alwaysinline")
