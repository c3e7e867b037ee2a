"""Rows of any array, in blocks that kernels like: float64, one column after another.

A kernel never sees the user's array, only its address, strides and element type, so float32,
integers, images in uint8 and memory maps are read where they lie, and the heavy kernels are
compiled once. A block holds a few hundred rows, transposed: ``block[c * width + i]`` is column
``c`` of row ``i``, so that every inner loop runs over rows and vectorises whatever the number of
columns is.
"""

from collections import namedtuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .options import inlined, kernel

#: ``offsets[c]`` is the distance in bytes from the start of a row to its column ``c``.
Rows = namedtuple("Rows", "address row_stride offsets code")

#: The element types that are read in place; ``Rows.code`` is the position in this list. Others are
#: converted a chunk at a time before they come here.
READABLE = (np.float64, np.float32, np.uint8, np.int16, np.int32, np.int64)

#: Rows are taken eight at a time, two vectors of four.
GROUP = 8


def rows_of(array, columns=None):
    """Describe a two-dimensional array of a readable type; the caller keeps it alive."""
    code = READABLE.index(array.dtype.type)
    columns = np.arange(array.shape[1]) if columns is None else np.asarray(columns)
    offsets = columns.astype(np.int64) * array.strides[1]
    return Rows(array.ctypes.data, array.strides[0], offsets, code)


def _element(llvm_type, convert):
    @intrinsic
    def element(typing_context, address):
        """The element at ``address`` as a double."""

        def generate(context, builder, signature, arguments):
            pointer = builder.inttoptr(arguments[0], llvm_type.as_pointer())
            value = builder.load(pointer, align=1)
            return convert(builder, value) if convert else value

        return types.float64(types.int64), generate

    return element


_DOUBLE = ir.DoubleType()
_float64 = _element(_DOUBLE, None)
_float32 = _element(ir.FloatType(), lambda builder, value: builder.fpext(value, _DOUBLE))
_uint8 = _element(ir.IntType(8), lambda builder, value: builder.uitofp(value, _DOUBLE))
_int16 = _element(ir.IntType(16), lambda builder, value: builder.sitofp(value, _DOUBLE))
_int32 = _element(ir.IntType(32), lambda builder, value: builder.sitofp(value, _DOUBLE))
_int64 = _element(ir.IntType(64), lambda builder, value: builder.sitofp(value, _DOUBLE))


@inlined
def _copy(element, rows, first, n, block, width):
    # Eight columns at a time: each row's piece is then about one cache line, read once.
    n_columns = rows.offsets.shape[0]
    for start in range(0, n_columns, 8):
        stop = min(start + 8, n_columns)
        for i in range(n):
            row = rows.address + (first + i) * rows.row_stride
            for c in range(start, stop):
                block[c * width + i] = element(row + rows.offsets[c])


@kernel
def read_block(rows, first, n, block, width):
    """Copy rows ``first .. first + n - 1`` into ``block``; the last group is filled with zeros."""
    code = rows.code
    if code == 0:
        _copy(_float64, rows, first, n, block, width)
    elif code == 1:
        _copy(_float32, rows, first, n, block, width)
    elif code == 2:
        _copy(_uint8, rows, first, n, block, width)
    elif code == 3:
        _copy(_int16, rows, first, n, block, width)
    elif code == 4:
        _copy(_int32, rows, first, n, block, width)
    else:
        _copy(_int64, rows, first, n, block, width)
    for c in range(rows.offsets.shape[0]):
        for i in range(n, whole_groups(n)):
            block[c * width + i] = 0.0


@inlined
def whole_groups(n):
    """``n`` rounded up to whole groups of rows."""
    return (n + GROUP - 1) // GROUP * GROUP


@inlined
def block_rows(n_columns):
    """How many rows a block has: enough to fill vectors, few enough to stay in the cache.

    Wide rows get longer blocks again: there most responsibilities are zero, and a component's
    share of a block should still fill a matrix product.
    """
    if n_columns <= 128:
        return 256
    return 1024


@inlined
def block_width(n_rows):
    """The distance between columns of a block, padded so that they fall in other cache sets."""
    return n_rows + GROUP
