"""The compiled core: serial, GIL-free functions from arrays to arrays.

No classes, no Python objects, no policy. Each file is named after what it computes. Numba's options
are set in ``options.py``, and its private interface is used in ``fast_compile.py`` only.
``numba.core.cgutils`` and ``llvmlite.ir``, with which ``simd.py`` and ``rows.py`` write
instructions, belong to the low-level interface that numba documents for extensions.
"""
