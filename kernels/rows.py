"""Rows of any array, in blocks that kernels like: one column after another.

A kernel never sees the user's array, only its address, strides and element type, so float32,
integers, images in uint8 and memory maps are read where they lie, and the heavy kernels are
compiled once, for blocks of float64; for those of float32, which only rows of float32 are read
into, they are compiled once more when such rows come. A block holds a few hundred rows,
transposed: ``block[c * width + i]`` is column ``c`` of row ``i``, so that every inner loop runs
over rows and vectorizes whatever the number of columns is.
"""

from collections import namedtuple
from functools import lru_cache

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from . import simd
from .options import CHECK_BOUNDS, inlined, kernel, overloaded

#: ``offsets[c]`` is the distance in bytes from the start of a row to its column ``c``;
#: ``contiguous`` says that columns are neighbors in memory, ``count`` how many rows there are.
Rows = namedtuple("Rows", "address row_stride offsets contiguous code count")

#: The element types that are read in place; ``Rows.code`` is the position in this list. Others are
#: converted a chunk at a time before they come here.
READABLE = (np.float64, np.float32, np.uint8, np.int16, np.int32, np.int64)

#: The first of them have fractions.
N_FLOATS = 2

#: ``Rows.code`` of float32.
SINGLE = READABLE.index(np.float32)

#: Rows are taken eight at a time, two vectors of four doubles; rows of floats sixteen at a time.
GROUP = 8

#: Rows in a block: enough to fill vectors, few enough to stay in the cache.
BLOCK_ROWS = 256

#: Rows are asked for so many rows before they are read, a line of the cache at a time.
_AHEAD, _LINE = 32, 64

#: How many elements more an array must have for ``on_a_line``.
SPARE = 16


def rows_of(array):
    """Describe a two-dimensional array of a readable type; the caller keeps it alive."""
    code = READABLE.index(array.dtype.type)
    offsets, contiguous = _columns(array.shape[1], array.strides[1], array.itemsize)
    return Rows(array.ctypes.data, array.strides[0], offsets, contiguous, code, len(array))


@lru_cache(maxsize=64)
def _columns(n_columns, stride, item_size):
    """Where the columns of a row are, which nobody changes, and whether they are neighbors."""
    offsets = np.arange(n_columns, dtype=np.int64) * stride
    return offsets, bool(np.all(np.diff(offsets) == item_size))


_DOUBLE = ir.DoubleType()
#: How each readable type is loaded and made a double.
_LOADS = (
    (_DOUBLE, None),
    (ir.FloatType(), "fpext"),
    (ir.IntType(8), "uitofp"),
    (ir.IntType(16), "sitofp"),
    (ir.IntType(32), "sitofp"),
    (ir.IntType(64), "sitofp"),
)


def _loader(n_elements, result_type):
    """Make the intrinsic that loads ``n_elements`` neighbors at an address as doubles.

    The element type is chosen by a jump inside the loop; a loop for each type would not be faster,
    and takes six times as long to compile.
    """

    def widen(llvm_type):
        return llvm_type if n_elements == 1 else ir.VectorType(llvm_type, n_elements)

    @intrinsic
    def load(typing_context, address, code):
        def generate(context, builder, signature, arguments):
            address, code = arguments
            end = builder.append_basic_block("load.end")
            blocks = [builder.append_basic_block(f"load.{i}") for i in range(len(_LOADS))]
            choice = builder.switch(code, blocks[0])
            for i, block in enumerate(blocks[1:], start=1):
                choice.add_case(ir.Constant(code.type, i), block)
            values = []
            for block, (llvm_type, convert) in zip(blocks, _LOADS, strict=True):
                builder.position_at_end(block)
                pointer = builder.inttoptr(address, widen(llvm_type).as_pointer())
                value = builder.load(pointer, align=1)
                if convert:
                    value = getattr(builder, convert)(value, widen(_DOUBLE))
                values.append(value)
                builder.branch(end)
            builder.position_at_end(end)
            result = builder.phi(widen(_DOUBLE))
            for value, block in zip(values, blocks, strict=True):
                result.add_incoming(value, block)
            return result

        return result_type(types.int64, types.int64), generate

    return load


load_one = _loader(1, types.float64)
load_four = _loader(simd.LANES, simd.lanes)
_load_eight = _loader(2 * simd.LANES, simd.lanes8)


def _float_loader(llvm_type, result_type):
    """Make the intrinsic that loads floats at an address as they are."""

    @intrinsic
    def load(typing_context, address):
        def generate(context, builder, signature, arguments):
            pointer = builder.inttoptr(arguments[0], llvm_type.as_pointer())
            return builder.load(pointer, align=1)

        return result_type(types.int64), generate

    return load


_load_float = _float_loader(ir.FloatType(), types.float32)
_load_four_floats = _float_loader(ir.VectorType(ir.FloatType(), simd.LANES), simd.four_floats)
_load_sixteen_floats = _float_loader(
    ir.VectorType(ir.FloatType(), 4 * simd.LANES), simd.Lanes(4 * simd.LANES, types.float32)
)


def one_for(block, address, code):
    """The element at an address, in the type of ``block``; for floats it must be one."""


def four_for(block, address, code):
    """As ``one_for``, for a vector of four neighbors."""


def vector_for(block, address, code):
    """As ``one_for``, for a vector of ``simd.count8(block)`` neighbors."""


@overloaded(one_for)
def _one_for(block, address, code):
    if block.dtype == types.float32:
        return lambda block, address, code: _load_float(address)
    return lambda block, address, code: load_one(address, code)


@overloaded(four_for)
def _four_for(block, address, code):
    if block.dtype == types.float32:
        return lambda block, address, code: _load_four_floats(address)
    return lambda block, address, code: load_four(address, code)


@overloaded(vector_for)
def _vector_for(block, address, code):
    if block.dtype == types.float32:
        return lambda block, address, code: _load_sixteen_floats(address)
    return lambda block, address, code: _load_eight(address, code)


@intrinsic
def prefetch(typing_context, address):
    """Ask for the cache line at an address, which need not exist."""

    def generate(context, builder, signature, arguments):
        pointer_type, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        signature = ir.FunctionType(ir.VoidType(), [pointer_type, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, signature, "llvm.prefetch.p0")
        # To read, to keep, data.
        options = [ir.Constant(number, value) for value in (0, 3, 1)]
        builder.call(function, [builder.inttoptr(arguments[0], pointer_type), *options])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@inlined
def check_rows(rows, first, last):
    """Raise ``IndexError`` unless rows ``first .. last`` exist, if bounds are to be checked."""
    if CHECK_BOUNDS and (first < 0 or last >= rows.count):
        raise IndexError("rows that are to be read are not all within the array")


@kernel
def read_block(rows, first, n, block, width):
    """Copy rows ``first .. first + n - 1`` into ``block``; the last group is filled with zeros."""
    check_rows(rows, first, first + n - 1)
    n_columns = rows.offsets.shape[0]
    code, stride = rows.code, rows.row_stride
    # Where columns are neighbors, eight rows by four columns are transposed in registers.
    whole_rows = n // GROUP * GROUP
    whole_columns = n_columns if rows.contiguous and n_columns >= 4 else 0
    length = whole_columns * (rows.offsets[1] - rows.offsets[0]) if whole_columns > 0 else 0
    for i in range(0, whole_rows, GROUP):
        row = rows.address + (first + i) * stride
        # Eight short streams are more than the processor follows by itself.
        for j in range(_AHEAD, _AHEAD + GROUP):
            for at in range(row + j * stride, row + j * stride + length, _LINE):
                prefetch(at)
        for first_column in range(0, whole_columns, 4):
            # The last four columns overlap those before, rather than leave a rest.
            c = min(first_column, n_columns - 4)
            at = row + rows.offsets[c]
            x0 = four_for(block, at, code)
            x1 = four_for(block, at + stride, code)
            x2 = four_for(block, at + 2 * stride, code)
            x3 = four_for(block, at + 3 * stride, code)
            simd.store_transposed(block, c * width + i, width, x0, x1, x2, x3)
            at += 4 * stride
            x0 = four_for(block, at, code)
            x1 = four_for(block, at + stride, code)
            x2 = four_for(block, at + 2 * stride, code)
            x3 = four_for(block, at + 3 * stride, code)
            simd.store_transposed(block, c * width + i + 4, width, x0, x1, x2, x3)
    for c in range(n_columns):
        start = whole_rows if c < whole_columns else 0
        row = rows.address + rows.offsets[c] + first * stride
        for i in range(start, n):
            block[c * width + i] = one_for(block, row + i * stride, code)
        for i in range(n, whole_vectors(n, block)):
            block[c * width + i] = 0.0


@kernel
def read_row(rows, i, x):
    """Copy row ``i`` into ``x``."""
    check_rows(rows, i, i)
    n_columns = rows.offsets.shape[0]
    row = rows.address + i * rows.row_stride
    whole = n_columns // 4 * 4 if rows.contiguous else 0
    for c in range(0, whole, 4):
        simd.store(x, c, load_four(row + rows.offsets[c], rows.code))
    for c in range(whole, n_columns):
        x[c] = load_one(row + rows.offsets[c], rows.code)


@inlined
def on_a_line(array, n):
    """``n`` elements of an array that has ``SPARE`` more, from one that begins a cache line.

    NumPy's arrays begin anywhere in a line, so that each vector of 64 bytes would lie in two of
    them, and take two loads.
    """
    past = array.ctypes.data % _LINE
    first = (_LINE - past) % _LINE // array.itemsize
    return array[first : first + n]


def empty_on_a_line(n):
    """An array of ``n`` doubles that begins a cache line; not for kernels."""
    room = np.empty(n + SPARE)
    return on_a_line.py_func(room, n)


@inlined
def whole_groups(n):
    """``n`` rounded up to whole groups of rows."""
    return (n + GROUP - 1) // GROUP * GROUP


@inlined
def whole_vectors(n, block):
    """``n`` rounded up to whole groups of rows of a block of doubles or floats."""
    group = simd.count8(block)
    return (n + group - 1) // group * group


@inlined
def block_width(n_rows):
    """The distance between columns of a block, padded so that they fall in other cache sets."""
    return n_rows + GROUP


@inlined
def width_for(n_rows, block):
    """As ``block_width``, for whole groups of rows of a block of doubles or floats."""
    return whole_vectors(n_rows, block) + simd.count8(block)
