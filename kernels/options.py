"""The one place that knows numba's options, and how a kernel is chosen by the kind of its model.

Kernels are serial and release the GIL; threads above them only ever add their results. They are
cached on disk. Fast-math is limited to what keeps infinities and NaN meaningful: sums may be
reassociated (so that they vectorize) and multiply-adds contracted. One trap remains:
``np.isfinite(x)`` is computed from ``x - x``, which reassociation makes zero; compare with
infinity instead.
"""

import os

from llvmlite.binding import Linkage
from numba import config, njit, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.extending import intrinsic, overload

from .disk_cache import cache_for

FASTMATH = frozenset({"reassoc", "contract", "nsz", "arcp"})

#: Whether vector loads and stores, and reads of the user's rows, compare their places with the
#: sizes of the arrays, and raise ``IndexError``. For finding errors in kernels: it is slow.
#: Numba's own check (NUMBA_BOUNDSCHECK=1) sees plain indexing and none of these.
CHECK_BOUNDS = os.environ.get("FASTEM_CHECK_BOUNDS", "0") not in ("", "0")


class _KernelCode(JITCodeLibrary):
    """The code of a kernel and of all that it calls, which no other kernel's code can replace.

    Numba leaves functions that are called weak symbols, named after their names, argument types and
    a number that begins anew in each process; where two objects have one of the same name, the
    linker takes that of the object that came first. Objects come from the cache on disk, made by
    different processes, and each is optimized by itself: a kernel would compute something else,
    or the same in another order, after some other kernel was loaded.
    """

    def _optimize_final_module(self):
        super()._optimize_final_module()
        # Not before: what is optimized stays what it was.
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.linkonce_odr:
                function.linkage = Linkage.internal


class _InnerCode(JITCodeLibrary):
    """Code that only other code calls: it is optimized and made machine code there, not here too.

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


class _Outer(Compiler):
    """Numba's compiler, for functions that Python calls."""

    def __init__(self, typingctx, targetctx, library, args, return_type, flags, locals):
        if library is None:
            library = _KernelCode(targetctx.codegen(), "kernel")
            library.enable_object_caching()
        super().__init__(typingctx, targetctx, library, args, return_type, flags, locals)


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
    dispatcher = njit(
        nogil=True, fastmath=set(FASTMATH), error_model="numpy", pipeline_class=_Outer
    )(function)
    dispatcher._cache = cache_for(function, (CHECK_BOUNDS, config.BOUNDSCHECK))
    # Where another kernel calls it, it is a helper.
    inner = helper(function)
    dispatcher.get_call_template = inner.get_call_template
    dispatcher.get_overload = inner.get_overload
    return dispatcher


def inlined(function):
    """Decorate a helper that only kernels call; its body is put into theirs before compiling.

    A helper compiled by itself would be optimized again inside each of its callers.
    """
    return njit(inline="always", fastmath=set(FASTMATH), error_model="numpy")(function)


def helper(function):
    """Decorate a helper that only kernels call, and that is compiled by itself.

    It has no entry from Python and no file of its own on disk.
    """
    return njit(**_INNER)(function)


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
#: paste it into each of them and optimize it there again.
apart = _attributes("apart", "noinline")

#: Called at the head of a helper: paste it into its callers whatever its size, where LLVM knows
#: which arrays cannot overlap.
within = _attributes("within", "alwaysinline")
