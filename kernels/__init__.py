"""The compiled core: serial, GIL-free functions from arrays to arrays.

No classes, no Python objects, no policy. Each file is named after what it computes; numba's
options are set in ``options.py`` and nowhere else.
"""
