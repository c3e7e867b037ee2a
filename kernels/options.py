"""The one place that knows numba's options, and how a kernel is chosen by the kind of its model.

Kernels are serial and release the GIL; threads above them only ever add their results. They are
cached on disk. Fast-math is limited to what keeps infinities and NaN meaningful: sums may be
reassociated (so that they vectorise) and multiply-adds contracted.
"""

from numba import njit, types
from numba.extending import overload, register_jitable

FASTMATH = frozenset({"reassoc", "contract", "nsz", "arcp"})

#: Decorator of every kernel that Python calls.
kernel = njit(nogil=True, cache=True, fastmath=set(FASTMATH), error_model="numpy")

#: Decorator of helpers that only kernels call; they are compiled into their caller.
inlined = register_jitable(fastmath=set(FASTMATH), error_model="numpy")


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

        options = {"nogil": True, "fastmath": set(FASTMATH), "error_model": "numpy"}
        overload(generic, strict=False, jit_options=options)(choose)
        return function

    return register
