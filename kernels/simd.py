"""Four or eight doubles at a time: numba types for SIMD vectors, and what can be done with them.

LLVM vectorizes a plain innermost loop well, but cannot be told to keep a tile of sums in registers
across it, which is worth a factor of three in a matrix product. ``Lanes`` makes that explicit: a
value of this type is one vector of four doubles or a pair of them, and each function here is one
instruction or a short sequence of them for each vector. The vector is LLVM's own, so it works on
any machine LLVM knows.

``splat``, ``load`` and ``pick`` make vectors of four, ``splat8`` and ``load8`` pairs.
``store_transposed`` takes vectors of four, and the other functions either. A pair is what two
variables would be: LLVM's vectors of eight are unrolled and reassociated otherwise than two of
four, and answers would differ in their last bits.

All arrays are one-dimensional and contiguous; ``index`` counts elements, not vectors. Numba's check
of bounds does not see these loads and stores; with ``FASTEM_CHECK_BOUNDS=1`` they check themselves.
"""

import functools
import operator

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from .options import CHECK_BOUNDS, overloaded

LANES = 4

_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_PAIR = ir.ArrayType(_VECTOR, 2)
_BITS = ir.VectorType(ir.IntType(64), LANES)
_INT32 = ir.IntType(32)
_UNDEFINED = ir.Constant(_VECTOR, ir.Undefined)


class Lanes(types.Type):
    """The numba type of ``count`` doubles: a vector of four, or a pair of vectors."""

    def __init__(self, count):
        self.count = count
        super().__init__(name=f"Lanes({count})")


lanes = Lanes(LANES)
lanes8 = Lanes(2 * LANES)


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, numba_type):
        super().__init__(manager, numba_type, _VECTOR if numba_type.count == LANES else _PAIR)


def _vectors(builder, x):
    """The vectors of four of a value of type ``Lanes``."""
    return [x] if x.type == _VECTOR else [builder.extract_value(x, i) for i in range(2)]


def _lanes(builder, vectors):
    """The value of type ``Lanes`` of one vector of four or of two."""
    if len(vectors) == 1:
        return vectors[0]
    pair = builder.insert_value(ir.Constant(_PAIR, ir.Undefined), vectors[0], 0)
    return builder.insert_value(pair, vectors[1], 1)


def _constant(value):
    return ir.Constant(_VECTOR, [value] * LANES)


def _bits(value):
    return ir.Constant(_BITS, [value] * LANES)


def _call(builder, name, *arguments):
    signature = ir.FunctionType(_VECTOR, [_VECTOR] * len(arguments))
    function = cgutils.get_or_insert_function(builder.module, signature, f"llvm.{name}.v4f64")
    return builder.call(function, arguments)


def _element(context, builder, array_type, array, index, count=1):
    """A pointer to ``array[index]``, of which ``count`` elements are meant."""
    array = context.make_array(array_type)(context, builder, array)
    if CHECK_BOUNDS:
        room = builder.sub(array.nitems, ir.Constant(array.nitems.type, count))
        below = builder.icmp_signed("<", index, ir.Constant(index.type, 0))
        above = builder.icmp_signed(">", index, room)
        with cgutils.if_unlikely(builder, builder.or_(below, above)):
            message = f"{count} elements are not all within the array that they are to be in"
            context.call_conv.return_user_exc(builder, IndexError, (message,))
    return builder.gep(array.data, [index])


def _shuffle(builder, a, b, *order):
    indices = ir.Constant(ir.VectorType(_INT32, LANES), list(order))
    return builder.shuffle_vector(a, b, indices)


def _addresses(context, builder, array_type, array, index, count):
    """Pointers to the vectors of four from ``array[index]`` on, ``count`` elements in all."""
    first = _element(context, builder, array_type, array, index, count)
    places = [ir.Constant(index.type, i) for i in range(0, count, LANES)]
    return [builder.bitcast(builder.gep(first, [place]), _VECTOR.as_pointer()) for place in places]


def _splat(kind):
    @intrinsic
    def splat(typing_context, x):
        """The scalar ``x`` in every lane."""

        def generate(context, builder, signature, arguments):
            first = builder.insert_element(_UNDEFINED, arguments[0], ir.Constant(_INT32, 0))
            vector = _shuffle(builder, first, _UNDEFINED, 0, 0, 0, 0)
            return _lanes(builder, [vector] * (kind.count // LANES))

        return kind(types.float64), generate

    return splat


def _load(kind):
    @intrinsic
    def load(typing_context, array, index):
        """``array[index : index + 4]``, or ``array[index : index + 8]``."""

        def generate(context, builder, signature, arguments):
            pointers = _addresses(context, builder, signature.args[0], *arguments, kind.count)
            return _lanes(builder, [builder.load(pointer, align=8) for pointer in pointers])

        return kind(array, types.intp), generate

    return load


splat, splat8 = _splat(lanes), _splat(lanes8)
load, load8 = _load(lanes), _load(lanes8)


@intrinsic
def pick(typing_context, array, offset, places, index):
    """``array[offset + places[index : index + 4]]``, by four loads: faster than a gather."""

    def generate(context, builder, signature, arguments):
        array, offset, places, index = arguments
        array_type, _, places_type, _ = signature.args
        result = _UNDEFINED
        for i in range(LANES):
            at = builder.add(index, ir.Constant(index.type, i))
            place = builder.load(_element(context, builder, places_type, places, at))
            place = builder.add(offset, place)
            value = builder.load(_element(context, builder, array_type, array, place))
            result = builder.insert_element(result, value, ir.Constant(_INT32, i))
        return result

    return lanes(array, types.intp, places, types.intp), generate


@intrinsic
def store(typing_context, array, index, x):
    """``array[index : index + 4] = x``, or ``array[index : index + 8] = x``."""
    if not isinstance(x, Lanes):
        return None

    def generate(context, builder, signature, arguments):
        array, index, value = arguments
        pointers = _addresses(context, builder, signature.args[0], array, index, x.count)
        for pointer, vector in zip(pointers, _vectors(builder, value), strict=True):
            builder.store(vector, pointer, align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, x), generate


@intrinsic
def store_transposed(typing_context, array, index, stride, a, b, c, d):
    """Store the 4 × 4 matrix whose *columns* are a, b, c, d; its rows are ``stride`` apart."""

    def generate(context, builder, signature, arguments):
        array, index, stride, a, b, c, d = arguments
        low_ab, high_ab = _shuffle(builder, a, b, 0, 4, 2, 6), _shuffle(builder, a, b, 1, 5, 3, 7)
        low_cd, high_cd = _shuffle(builder, c, d, 0, 4, 2, 6), _shuffle(builder, c, d, 1, 5, 3, 7)
        for low, high, order in [
            (low_ab, low_cd, (0, 1, 4, 5)),
            (high_ab, high_cd, (0, 1, 4, 5)),
            (low_ab, low_cd, (2, 3, 6, 7)),
            (high_ab, high_cd, (2, 3, 6, 7)),
        ]:
            pointer = _addresses(context, builder, signature.args[0], array, index, LANES)[0]
            builder.store(_shuffle(builder, low, high, *order), pointer, align=8)
            index = builder.add(index, stride)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp, *[lanes] * 4), generate


def _elementwise(write):
    """The intrinsic that does to ``Lanes`` what ``write`` does to vectors of four."""

    @functools.wraps(write)
    def define(typing_context, *kinds):
        if not all(isinstance(kind, Lanes) and kind == kinds[0] for kind in kinds):
            return None

        def generate(context, builder, signature, arguments):
            operands = zip(*(_vectors(builder, x) for x in arguments), strict=True)
            return _lanes(builder, [write(builder, *vectors) for vectors in operands])

        return kinds[0](*kinds), generate

    return intrinsic(define)


@_elementwise
def fma(builder, a, b, c):
    """``a * b + c``, rounded once."""
    return _call(builder, "fma", a, b, c)


@_elementwise
def maximum(builder, a, b):
    """The larger of ``a`` and ``b`` in each lane."""
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


@_elementwise
def is_positive(builder, a):
    """One in each lane that is above zero, zero in the others."""
    above = builder.fcmp_ordered(">", a, _constant(0.0))
    return builder.select(above, _constant(1.0), _constant(0.0))


@_elementwise
def square_root(builder, a):
    """The square root of each lane."""
    return _call(builder, "sqrt", a)


@intrinsic
def total(typing_context, a):
    """The sum of all lanes; the vectors of a pair are added first."""
    if not isinstance(a, Lanes):
        return None

    def generate(context, builder, signature, arguments):
        vector = functools.reduce(builder.fadd, _vectors(builder, arguments[0]))
        x = [builder.extract_element(vector, ir.Constant(_INT32, i)) for i in range(LANES)]
        return builder.fadd(builder.fadd(x[0], x[2]), builder.fadd(x[1], x[3]))

    return types.float64(a), generate


def _binary(name, symbol):
    @_elementwise
    def instruction(builder, a, b):
        return getattr(builder, name)(a, b)

    @overloaded(symbol)
    def choose(a, b):
        if isinstance(a, Lanes) and a == b:
            return lambda a, b: instruction(a, b)
        return None


for _name, _symbol in [
    ("fadd", operator.add),
    ("fsub", operator.sub),
    ("fmul", operator.mul),
    ("fdiv", operator.truediv),
]:
    _binary(_name, _symbol)

# exp(x) = 2^n exp(r) with n = round(x / log 2): r is within ±0.347, where the Taylor polynomial of
# degree 13 is good to the last bit, and 2^n is written straight into the exponent bits.
_LOG2_E = 1.4426950408889634
_LOG_2_HIGH = 0.6931471803691238
_LOG_2_LOW = 1.9082149292705877e-10
_SHIFT = 6755399441055744.0  # 1.5 · 2^52: adding it leaves round(x) in the low mantissa bits
_EXP_FLOOR = -708.0  # below, exp is under 3.3e-308 and is given as exactly zero
_EXP_CEILING = 709.0

_FACTORIALS = [1.0]
for _i in range(1, 14):
    _FACTORIALS.append(_FACTORIALS[-1] * _i)


def _polynomial(builder, x, coefficients):
    """Σ coefficients[i] xⁱ, halves first: the chain of dependent steps is logarithmic in length."""
    terms = [_constant(c) for c in coefficients]
    while len(terms) > 1:
        pairs = [
            _call(builder, "fma", terms[i + 1], x, terms[i]) for i in range(0, len(terms) - 1, 2)
        ]
        terms = pairs + terms[len(terms) - len(terms) % 2 :]
        x = builder.fmul(x, x)
    return terms[0]


@_elementwise
def exp(builder, a):
    """``exp`` of each lane for ``a <= 709``; zero below -708. Within 2 ulp, about 1 ns a lane."""
    alive = builder.fcmp_ordered(">=", a, _constant(_EXP_FLOOR))
    x = builder.select(alive, a, _constant(_EXP_FLOOR))
    x = builder.select(builder.fcmp_ordered("<=", x, _constant(_EXP_CEILING)), x,
                       _constant(_EXP_CEILING))  # fmt: skip
    shifted = _call(builder, "fma", x, _constant(_LOG2_E), _constant(_SHIFT))
    n = builder.fsub(shifted, _constant(_SHIFT))
    r = _call(builder, "fma", n, _constant(-_LOG_2_HIGH), x)
    r = _call(builder, "fma", n, _constant(-_LOG_2_LOW), r)
    y = _polynomial(builder, r, [1.0 / factorial for factorial in _FACTORIALS])
    power = builder.shl(builder.bitcast(shifted, _BITS), _bits(52))
    y = builder.bitcast(builder.add(builder.bitcast(y, _BITS), power), _VECTOR)
    return builder.select(alive, y, _constant(0.0))


# log(x) = e log 2 + log(m) with m within [√½, √2); log(m) = 2 artanh(f), f = (m - 1) / (m + 1).
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD


@_elementwise
def log(builder, a):
    """``log`` of each lane, which must be positive, finite and normal. Within 2 ulp."""
    bits = builder.bitcast(a, _BITS)
    # The exponent, rounded so that the mantissa falls around one.
    offset = builder.sub(bits, _bits(_SQRT_HALF_BITS))
    exponent = builder.ashr(offset, _bits(52))
    m = builder.bitcast(builder.sub(bits, builder.shl(exponent, _bits(52))), _VECTOR)
    # A small integer as a double without a conversion instruction: the same trick as in exp.
    shift_bits = 0x4338000000000000
    e = builder.bitcast(builder.add(exponent, _bits(shift_bits)), _VECTOR)
    e = builder.fsub(e, _constant(_SHIFT))
    f = builder.fdiv(builder.fsub(m, _constant(1.0)), builder.fadd(m, _constant(1.0)))
    s = builder.fmul(f, f)
    y = _polynomial(builder, s, [2.0 / i for i in range(3, 25, 2)])
    tail = builder.fmul(builder.fmul(y, s), f)
    tail = _call(builder, "fma", e, _constant(_LOG_2_LOW), tail)
    two_f = builder.fadd(f, f)
    return _call(builder, "fma", e, _constant(_LOG_2_HIGH), builder.fadd(two_f, tail))
