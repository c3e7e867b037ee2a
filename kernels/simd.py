"""Four or eight doubles at a time: numba types for SIMD vectors, and what can be done with them.

LLVM vectorizes a plain innermost loop well, but cannot be told to keep a tile of sums in registers
across it, which is worth a factor of three in a matrix product. ``Lanes`` makes that explicit: a
value of this type is one vector of four or eight doubles, and each function here is one instruction
or a short sequence of them. The vector is LLVM's own, so it works on any machine LLVM knows: eight
doubles are one register with AVX-512, and two with AVX2.

``splat``, ``load`` and ``pick`` make vectors of four, ``splat8`` and ``load8`` of eight.
``store_transposed`` takes vectors of four, and the other functions either.

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

_INT32 = ir.IntType(32)


class Lanes(types.Type):
    """The numba type of a vector of ``count`` doubles."""

    def __init__(self, count):
        self.count = count
        super().__init__(name=f"Lanes({count})")


lanes = Lanes(LANES)
lanes8 = Lanes(2 * LANES)


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, numba_type):
        super().__init__(manager, numba_type, _vector(numba_type.count))


def _vector(count, element=None):
    """LLVM's type of a vector of ``count`` doubles, or of another type of element."""
    return ir.VectorType(element or ir.DoubleType(), count)


def _undefined(count):
    return ir.Constant(_vector(count), ir.Undefined)


def _constant(value, like):
    """A number in each lane of a vector of the type ``like``."""
    return ir.Constant(like, [value] * like.count)


def _bits_of(like):
    """The type of the bits of a vector of the type ``like``."""
    return _vector(like.count, ir.IntType(64))


def _call(builder, name, *arguments):
    kind = arguments[0].type
    signature = ir.FunctionType(kind, [kind] * len(arguments))
    function = cgutils.get_or_insert_function(
        builder.module, signature, f"llvm.{name}.v{kind.count}f64"
    )
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
    indices = ir.Constant(ir.VectorType(_INT32, len(order)), list(order))
    return builder.shuffle_vector(a, b, indices)


def _address(context, builder, array_type, array, index, count):
    """A pointer to the vector ``array[index : index + count]``."""
    first = _element(context, builder, array_type, array, index, count)
    return builder.bitcast(first, _vector(count).as_pointer())


def _splat(kind):
    @intrinsic
    def splat(typing_context, x):
        """The scalar ``x`` in every lane."""

        def generate(context, builder, signature, arguments):
            nothing = _undefined(kind.count)
            first = builder.insert_element(nothing, arguments[0], ir.Constant(_INT32, 0))
            return _shuffle(builder, first, nothing, *[0] * kind.count)

        return kind(types.float64), generate

    return splat


def _load(kind):
    @intrinsic
    def load(typing_context, array, index):
        """``array[index : index + 4]``, or ``array[index : index + 8]``."""

        def generate(context, builder, signature, arguments):
            pointer = _address(context, builder, signature.args[0], *arguments, kind.count)
            return builder.load(pointer, align=8)

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
        result = _undefined(LANES)
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
        pointer = _address(context, builder, signature.args[0], array, index, x.count)
        builder.store(value, pointer, align=8)
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
            pointer = _address(context, builder, signature.args[0], array, index, LANES)
            builder.store(_shuffle(builder, low, high, *order), pointer, align=8)
            index = builder.add(index, stride)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp, *[lanes] * 4), generate


def _elementwise(write):
    """The intrinsic that writes the instructions of ``write`` for ``Lanes`` of one width."""

    @functools.wraps(write)
    def define(typing_context, *kinds):
        if not all(isinstance(kind, Lanes) and kind == kinds[0] for kind in kinds):
            return None

        def generate(context, builder, signature, arguments):
            return write(builder, *arguments)

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
def where_above(builder, a, b, x, y):
    """``x`` in each lane where ``a`` is above ``b``, ``y`` in the others."""
    return builder.select(builder.fcmp_ordered(">", a, b), x, y)


@_elementwise
def is_positive(builder, a):
    """One in each lane that is above zero, zero in the others."""
    zero, one = _constant(0.0, a.type), _constant(1.0, a.type)
    return builder.select(builder.fcmp_ordered(">", a, zero), one, zero)


@_elementwise
def square_root(builder, a):
    """The square root of each lane."""
    return _call(builder, "sqrt", a)


@intrinsic
def total(typing_context, a):
    """The sum of all lanes; the halves of a vector of eight are added first."""
    if not isinstance(a, Lanes):
        return None

    def generate(context, builder, signature, arguments):
        vector = arguments[0]
        if a.count == 2 * LANES:
            vector = builder.fadd(
                _shuffle(builder, vector, vector, 0, 1, 2, 3),
                _shuffle(builder, vector, vector, 4, 5, 6, 7),
            )
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
    terms = [_constant(c, x.type) for c in coefficients]
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
    number = functools.partial(_constant, like=a.type)
    whole = _bits_of(a.type)
    bits = functools.partial(_constant, like=whole)
    alive = builder.fcmp_ordered(">=", a, number(_EXP_FLOOR))
    x = builder.select(alive, a, number(_EXP_FLOOR))
    x = builder.select(builder.fcmp_ordered("<=", x, number(_EXP_CEILING)), x,
                       number(_EXP_CEILING))  # fmt: skip
    shifted = _call(builder, "fma", x, number(_LOG2_E), number(_SHIFT))
    n = builder.fsub(shifted, number(_SHIFT))
    r = _call(builder, "fma", n, number(-_LOG_2_HIGH), x)
    r = _call(builder, "fma", n, number(-_LOG_2_LOW), r)
    y = _polynomial(builder, r, [1.0 / factorial for factorial in _FACTORIALS])
    power = builder.shl(builder.bitcast(shifted, whole), bits(52))
    y = builder.bitcast(builder.add(builder.bitcast(y, whole), power), a.type)
    return builder.select(alive, y, number(0.0))


# log(x) = e log 2 + log(m) with m within [√½, √2); log(m) = 2 artanh(f), f = (m - 1) / (m + 1).
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD


@_elementwise
def log(builder, a):
    """``log`` of each lane, which must be positive, finite and normal. Within 2 ulp."""
    number = functools.partial(_constant, like=a.type)
    whole = _bits_of(a.type)
    bits = functools.partial(_constant, like=whole)
    x = builder.bitcast(a, whole)
    # The exponent, rounded so that the mantissa falls around one.
    offset = builder.sub(x, bits(_SQRT_HALF_BITS))
    exponent = builder.ashr(offset, bits(52))
    m = builder.bitcast(builder.sub(x, builder.shl(exponent, bits(52))), a.type)
    # A small integer as a double without a conversion instruction: the same trick as in exp.
    shift_bits = 0x4338000000000000
    e = builder.bitcast(builder.add(exponent, bits(shift_bits)), a.type)
    e = builder.fsub(e, number(_SHIFT))
    f = builder.fdiv(builder.fsub(m, number(1.0)), builder.fadd(m, number(1.0)))
    s = builder.fmul(f, f)
    y = _polynomial(builder, s, [2.0 / i for i in range(3, 25, 2)])
    tail = builder.fmul(builder.fmul(y, s), f)
    tail = _call(builder, "fma", e, number(_LOG_2_LOW), tail)
    two_f = builder.fadd(f, f)
    return _call(builder, "fma", e, number(_LOG_2_HIGH), builder.fadd(two_f, tail))
