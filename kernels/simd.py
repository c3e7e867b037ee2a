"""Several numbers at a time: numba types for SIMD vectors, and what can be done with them.

LLVM vectorizes a plain innermost loop well, but cannot be told to keep a tile of sums in registers
across it, which is worth a factor of three in a matrix product. ``Lanes`` makes that explicit: a
value of this type is one vector of four or eight doubles, or of as many bytes of floats (float32),
and each function here is one instruction or a short sequence of them. The vector is LLVM's own, so
it works on any machine LLVM knows: eight doubles are one register with AVX-512, and two with AVX2.

``splat``, ``load`` and ``pick`` make vectors of four doubles or eight floats, ``splat8`` and
``load8`` of eight doubles or sixteen floats, ``splat_register`` and ``load_register`` of as many as
a register of the machine holds; ``count``, ``count8`` and ``count_register`` say how many.
The type of the array, or of the scalar, decides: ``number`` gives a constant the type of an array,
so that a kernel written once runs on doubles and on floats. ``store_transposed`` takes vectors of
four, and the other functions any.

All arrays are one-dimensional and contiguous; ``index`` counts elements, not vectors. Numba's check
of bounds does not see these loads and stores; with ``FASTEM_CHECK_BOUNDS=1`` they check themselves.
"""

import functools
import math
import operator

from llvmlite import binding, ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from .options import CHECK_BOUNDS, overloaded

LANES = 4

_INT32 = ir.IntType(32)


def _has_long_registers():
    """Whether the machine that kernels are compiled for has registers of 64 bytes."""
    if config.CPU_FEATURES is not None or config.CPU_NAME not in (None, "host"):
        return "+avx512f" in (config.CPU_FEATURES or "").split(",")
    try:
        return bool(binding.get_host_cpu_features().get("avx512f", False))
    except RuntimeError:  # LLVM cannot tell
        return False


#: Doubles in a register, as far as it matters: a tile of sums has to fit into them.
_REGISTER = 2 * LANES if _has_long_registers() else LANES


class Lanes(types.Type):
    """The numba type of a vector of ``count`` doubles or floats."""

    def __init__(self, count, element=types.float64):
        self.count, self.element = count, element
        super().__init__(name=f"Lanes({count}, {element})")


lanes = Lanes(LANES)
lanes8 = Lanes(2 * LANES)

#: Four floats, in which rows of floats are read.
four_floats = Lanes(LANES, types.float32)


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, numba_type):
        super().__init__(manager, numba_type, _vector(numba_type))


def _vector(kind):
    """LLVM's type of a vector."""
    element = ir.FloatType() if kind.element == types.float32 else ir.DoubleType()
    return ir.VectorType(element, kind.count)


def _kind(element, width):
    """The vector of ``width`` doubles, or the one of as many bytes of floats."""
    if element == types.float32:
        return Lanes(2 * width, types.float32)
    return Lanes(width)


def _undefined(kind):
    return ir.Constant(_vector(kind), ir.Undefined)


def _constant(value, like):
    """A number in each lane of a vector of the type ``like``."""
    return ir.Constant(like, [value] * like.count)


def _is_single(like):
    """Whether the elements of an LLVM vector are floats."""
    return isinstance(like.element, ir.FloatType)


def _bits_of(like):
    """The type of the bits of a vector of the type ``like``."""
    return ir.VectorType(ir.IntType(32 if _is_single(like) else 64), like.count)


def _call(builder, name, *arguments):
    kind = arguments[0].type
    signature = ir.FunctionType(kind, [kind] * len(arguments))
    suffix = f"v{kind.count}f{32 if _is_single(kind) else 64}"
    function = cgutils.get_or_insert_function(builder.module, signature, f"llvm.{name}.{suffix}")
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


def _address(context, builder, array_type, array, index, kind):
    """A pointer to the vector ``array[index : index + count]``."""
    first = _element(context, builder, array_type, array, index, kind.count)
    return builder.bitcast(first, _vector(kind).as_pointer())


def _alignment(kind):
    return 4 if kind.element == types.float32 else 8


def _fill(builder, kind, scalar):
    nothing = _undefined(kind)
    first = builder.insert_element(nothing, scalar, ir.Constant(_INT32, 0))
    return _shuffle(builder, first, nothing, *[0] * kind.count)


def _splat(width):
    @intrinsic
    def splat(typing_context, x):
        """The scalar ``x`` in every lane."""
        element = types.float32 if x == types.float32 else types.float64
        kind = _kind(element, width)

        def generate(context, builder, signature, arguments):
            return _fill(builder, kind, arguments[0])

        return kind(element), generate

    return splat


def _load(width):
    @intrinsic
    def load(typing_context, array, index):
        """A vector from ``array[index]`` on."""
        kind = _kind(array.dtype, width)

        def generate(context, builder, signature, arguments):
            pointer = _address(context, builder, signature.args[0], *arguments, kind)
            return builder.load(pointer, align=_alignment(kind))

        return kind(array, types.intp), generate

    return load


def _count(width):
    @intrinsic
    def count(typing_context, array):
        """How many elements of ``array`` a vector has."""
        number = _kind(array.dtype, width).count

        def generate(context, builder, signature, arguments):
            return context.get_constant(types.intp, number)

        return types.intp(array), generate

    return count


splat, splat8 = _splat(LANES), _splat(2 * LANES)
load, load8 = _load(LANES), _load(2 * LANES)
count, count8 = _count(LANES), _count(2 * LANES)
splat_register, load_register = _splat(_REGISTER), _load(_REGISTER)
count_register = _count(_REGISTER)


def _load_lanes(width):
    @intrinsic
    def load(typing_context, array, index):
        """Four or eight elements from ``array[index]`` on, whatever their type."""
        kind = Lanes(width, array.dtype)

        def generate(context, builder, signature, arguments):
            pointer = _address(context, builder, signature.args[0], *arguments, kind)
            return builder.load(pointer, align=_alignment(kind))

        return kind(array, types.intp), generate

    return load


#: Four, for ``store_transposed``, and eight.
load_four, load_eight = _load_lanes(LANES), _load_lanes(2 * LANES)


def _load_doubles(width):
    @intrinsic
    def load(typing_context, array, index):
        """Four or eight elements from ``array[index]`` on, as doubles."""
        kind, result = Lanes(width, array.dtype), Lanes(width)

        def generate(context, builder, signature, arguments):
            pointer = _address(context, builder, signature.args[0], *arguments, kind)
            value = builder.load(pointer, align=_alignment(kind))
            return value if kind == result else builder.fpext(value, _vector(result))

        return result(array, types.intp), generate

    return load


load_doubles, load_doubles8 = _load_doubles(LANES), _load_doubles(2 * LANES)


def _converted(builder, doubles, element):
    """A vector of doubles as one of the elements of an array."""
    if element == types.float64:
        return doubles
    return builder.fptrunc(doubles, ir.VectorType(ir.FloatType(), doubles.type.count))


@intrinsic
def store_doubles(typing_context, array, index, x):
    """Store four doubles from ``array[index]`` on, in the type of ``array``."""
    if x != lanes:
        return None
    kind = Lanes(LANES, array.dtype)

    def generate(context, builder, signature, arguments):
        array, index, value = arguments
        pointer = _address(context, builder, signature.args[0], array, index, kind)
        builder.store(_converted(builder, value, kind.element), pointer, align=_alignment(kind))
        return context.get_dummy_value()

    return types.void(array, types.intp, x), generate


@intrinsic
def number(typing_context, x, array):
    """The scalar ``x`` in the type of the elements of ``array``."""

    def generate(context, builder, signature, arguments):
        return context.cast(builder, arguments[0], signature.args[0], signature.return_type)

    return array.dtype(x, array), generate


def _halves(builder, m):
    """The float nearest to a double, and what it leaves."""
    high = builder.fptrunc(m, ir.FloatType())
    low = builder.fptrunc(builder.fsub(m, builder.fpext(high, ir.DoubleType())), ir.FloatType())
    return high, low


@intrinsic
def centered(typing_context, x, m):
    """``x - m`` for a double ``m``; from floats it is subtracted in two steps, and rounded once.

    A float beside its mean is near it, so that the first step is exact: data with a large offset
    lose nothing.
    """
    if not isinstance(x, Lanes):
        return None

    def generate(context, builder, signature, arguments):
        vector, m = arguments
        if x.element == types.float64:
            return builder.fsub(vector, _fill(builder, x, m))
        high, low = _halves(builder, m)
        # Numba gives its fast-math flags to what has none, and LLVM would add the halves up again.
        exact = {"flags": ("nsz",)}
        difference = builder.fsub(vector, _fill(builder, x, high), **exact)
        return builder.fsub(difference, _fill(builder, x, low), **exact)

    return x(x, types.float64), generate


@intrinsic
def standardized(typing_context, x, m, s):
    """``s (x - m)`` for doubles ``m`` and ``s``; as ``centered``, without another instruction."""
    if not isinstance(x, Lanes):
        return None

    def generate(context, builder, signature, arguments):
        vector, m, s = arguments
        if x.element == types.float64:
            return builder.fmul(_fill(builder, x, s), builder.fsub(vector, _fill(builder, x, m)))
        high, low = _halves(builder, m)
        s = builder.fptrunc(s, ir.FloatType())
        rest = _fill(builder, x, builder.fneg(builder.fmul(s, low)))
        difference = builder.fsub(vector, _fill(builder, x, high))
        return _call(builder, "fma", _fill(builder, x, s), difference, rest)

    return x(x, types.float64, types.float64), generate


@intrinsic
def pick(typing_context, array, offset, places, index):
    """A vector of ``array[offset + places[index]]`` and on, one by one: faster than a gather."""
    kind = _kind(array.dtype, LANES)

    def generate(context, builder, signature, arguments):
        array, offset, places, index = arguments
        array_type, _, places_type, _ = signature.args
        result = _undefined(kind)
        for i in range(kind.count):
            at = builder.add(index, ir.Constant(index.type, i))
            place = builder.load(_element(context, builder, places_type, places, at))
            place = builder.add(offset, place)
            value = builder.load(_element(context, builder, array_type, array, place))
            result = builder.insert_element(result, value, ir.Constant(_INT32, i))
        return result

    return kind(array, types.intp, places, types.intp), generate


def _places_of_bits(module):
    """For each number of eight bits where its ones are, in order, and zeros behind."""
    name = "fastem.places_of_bits"
    if name not in module.globals:
        places = [[i for i in range(8) if number >> i & 1] for number in range(256)]
        flat = bytearray(i for row in places for i in row + [0] * (8 - len(row)))
        table = cgutils.global_constant(module, name, cgutils.make_bytearray(flat))
        table.align = 8
    return module.globals[name]


@intrinsic
def count_above(typing_context, a, b):
    """In how many lanes ``a`` is above ``b``."""
    if a != b:
        return None

    def generate(context, builder, signature, arguments):
        a, b = arguments
        mask = builder.bitcast(builder.fcmp_ordered(">", a, b), ir.IntType(a.type.count))
        return builder.ctpop(builder.zext(mask, ir.IntType(64)))

    return types.int64(a, b), generate


@intrinsic
def store_places(typing_context, places, index, first, a, b):
    """Store ``first`` plus the number of each lane where ``a`` is above ``b``, one after another.

    They are stored from ``places[index]`` on; returns where the next ones go. What lies behind, up
    to eight elements, is overwritten. There is no jump, which nobody could foresee.
    """
    if a != b or places.dtype != types.int32:
        return None

    def generate(context, builder, signature, arguments):
        places, index, first, a, b = arguments
        byte, eight = ir.IntType(8), ir.VectorType(_INT32, 8)
        table = builder.bitcast(_places_of_bits(builder.module), byte.as_pointer())
        n_lanes = a.type.count
        mask = builder.fcmp_ordered(">", a, b)
        bits = builder.zext(builder.bitcast(mask, ir.IntType(n_lanes)), index.type)
        first = builder.trunc(first, _INT32)
        for lane in range(0, n_lanes, 8):
            few = builder.lshr(bits, ir.Constant(index.type, lane))
            few = builder.and_(few, ir.Constant(index.type, 255))
            entry = builder.gep(table, [builder.mul(few, ir.Constant(index.type, 8))])
            entry = builder.bitcast(entry, ir.VectorType(byte, 8).as_pointer())
            lanes_here = builder.zext(builder.load(entry, align=8), eight)
            start = builder.add(first, ir.Constant(_INT32, lane))
            start = builder.insert_element(
                ir.Constant(eight, ir.Undefined), start, ir.Constant(_INT32, 0)
            )
            start = _shuffle(builder, start, start, *[0] * 8)
            to = _element(context, builder, signature.args[0], places, index, 8)
            to = builder.bitcast(to, eight.as_pointer())
            builder.store(builder.add(lanes_here, start), to, align=4)
            index = builder.add(index, builder.ctpop(few))
        return index

    return types.intp(places, types.intp, types.intp, a, b), generate


@intrinsic
def store(typing_context, array, index, x):
    """Store the vector ``x`` from ``array[index]`` on."""
    if not isinstance(x, Lanes) or x.element != array.dtype:
        return None

    def generate(context, builder, signature, arguments):
        array, index, value = arguments
        pointer = _address(context, builder, signature.args[0], array, index, x)
        builder.store(value, pointer, align=_alignment(x))
        return context.get_dummy_value()

    return types.void(array, types.intp, x), generate


@intrinsic
def store_transposed(typing_context, array, index, stride, a, b, c, d):
    """Store the 4 × 4 matrix whose *columns* are a, b, c, d; its rows are ``stride`` apart.

    Doubles may be stored among floats.
    """
    given, kind = a, Lanes(LANES, array.dtype)
    if given not in (kind, lanes):
        return None

    def generate(context, builder, signature, arguments):
        array, index, stride, *columns = arguments
        if given != kind:
            columns = [_converted(builder, column, kind.element) for column in columns]
        a, b, c, d = columns
        low_ab, high_ab = _shuffle(builder, a, b, 0, 4, 2, 6), _shuffle(builder, a, b, 1, 5, 3, 7)
        low_cd, high_cd = _shuffle(builder, c, d, 0, 4, 2, 6), _shuffle(builder, c, d, 1, 5, 3, 7)
        for low, high, order in [
            (low_ab, low_cd, (0, 1, 4, 5)),
            (high_ab, high_cd, (0, 1, 4, 5)),
            (low_ab, low_cd, (2, 3, 6, 7)),
            (high_ab, high_cd, (2, 3, 6, 7)),
        ]:
            pointer = _address(context, builder, signature.args[0], array, index, kind)
            builder.store(_shuffle(builder, low, high, *order), pointer, align=_alignment(kind))
            index = builder.add(index, stride)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp, *[given] * 4), generate


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


def _sum_of_lanes(builder, vector):
    """The sum of all lanes as a double; the halves of a vector of over four are added first."""
    size = vector.type.count
    while size > LANES:
        size //= 2
        vector = builder.fadd(
            _shuffle(builder, vector, vector, *range(size)),
            _shuffle(builder, vector, vector, *range(size, 2 * size)),
        )
    x = [builder.extract_element(vector, ir.Constant(_INT32, i)) for i in range(LANES)]
    result = builder.fadd(builder.fadd(x[0], x[2]), builder.fadd(x[1], x[3]))
    return builder.fpext(result, ir.DoubleType()) if _is_single(vector.type) else result


@intrinsic
def total(typing_context, a):
    """The sum of all lanes, as a double."""
    if not isinstance(a, Lanes):
        return None

    def generate(context, builder, signature, arguments):
        return _sum_of_lanes(builder, arguments[0])

    return types.float64(a), generate


def _sums_of_eight(builder, vectors):
    """A vector of the sums of the lanes of eight vectors of 4, 8 or 16.

    Two vectors are folded into one, whose lanes are sums of both in turn, three times.
    """
    size = vectors[0].type.count
    if size == 16:
        vectors = [
            builder.fadd(_shuffle(builder, v, v, *range(8)), _shuffle(builder, v, v, *range(8, 16)))
            for v in vectors
        ]

    # Within each half of four lanes, as the processor has it; the halves are added last.
    def fold(a, b, low, high):
        return builder.fadd(_shuffle(builder, a, b, *low), _shuffle(builder, a, b, *high))

    if size == 4:
        pairs = [
            fold(vectors[i], vectors[i + 1], (0, 4, 2, 6), (1, 5, 3, 7)) for i in range(0, 8, 2)
        ]
        fours = [fold(pairs[i], pairs[i + 1], (0, 1, 4, 5), (2, 3, 6, 7)) for i in range(0, 4, 2)]
        return _shuffle(builder, *fours, *range(8))
    pairs = [
        fold(vectors[i], vectors[i + 1], (0, 8, 2, 10, 4, 12, 6, 14), (1, 9, 3, 11, 5, 13, 7, 15))
        for i in range(0, 8, 2)
    ]
    fours = [
        fold(pairs[i], pairs[i + 1], (0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15))
        for i in range(0, 4, 2)
    ]
    return fold(*fours, (0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15))


@intrinsic
def totals(typing_context, a0, a1, a2, a3, a4, a5, a6, a7):
    """The sums of the lanes of eight vectors, as one vector of eight."""
    if not isinstance(a0, Lanes):
        return None

    def generate(context, builder, signature, arguments):
        return _sums_of_eight(builder, arguments)

    return Lanes(8, a0.element)(*[a0] * 8), generate


@intrinsic
def add_totals(typing_context, out, index, stride, a0, a1, b0, b1, c0, c1, d0, d1):
    """Add the sums of lanes to ``out``: a0, a1 from ``index`` on, b0, b1 ``stride`` further, …"""
    kind = a0

    def generate(context, builder, signature, arguments):
        out, index, stride, *vectors = arguments
        doubles = ir.VectorType(ir.DoubleType(), 2)
        if kind.element == types.float32:
            sums = builder.fpext(
                _sums_of_eight(builder, vectors), ir.VectorType(ir.DoubleType(), 8)
            )
            pairs = [_shuffle(builder, sums, sums, i, i + 1) for i in range(0, 8, 2)]
        else:
            nothing, pairs = ir.Constant(doubles, ir.Undefined), []
            for i in range(0, 8, 2):
                pair = nothing
                for j in range(2):
                    x = _sum_of_lanes(builder, vectors[i + j])
                    pair = builder.insert_element(pair, x, ir.Constant(_INT32, j))
                pairs.append(pair)
        for pair in pairs:
            first = _element(context, builder, signature.args[0], out, index, 2)
            pointer = builder.bitcast(first, doubles.as_pointer())
            builder.store(builder.fadd(builder.load(pointer, align=8), pair), pointer, align=8)
            index = builder.add(index, stride)
        return context.get_dummy_value()

    return types.void(out, types.intp, types.intp, *[kind] * 8), generate


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
# degree 13 is good to the last bit of a double (degree 7: of a float), and 2^n is written straight
# into the exponent bits.
_LOG2_E = 1.4426950408889634


class _Double:
    """Constants of ``exp`` and ``log`` of doubles."""

    log_2_high, log_2_low = 0.6931471803691238, 1.9082149292705877e-10
    shift = 6755399441055744.0  # 1.5 · 2^52: adding it leaves round(x) in the low mantissa bits
    shift_bits = 0x4338000000000000
    mantissa_bits = 52
    exp_floor = -708.0  # below, exp is under 3.3e-308 and is given as exactly zero
    exp_ceiling = 709.0
    exp_degree = 13
    sqrt_half_bits = 0x3FE6A09E667F3BCD
    log_degree = 23


class _Single:
    """The same of floats."""

    log_2_high, log_2_low = 0.693359375, -2.12194440e-4
    shift = 12582912.0
    shift_bits = 0x4B400000
    mantissa_bits = 23
    # Already below 1e-24 it is nothing beside one, and products with it would soon be numbers that
    # lack digits, with which processors are slow.
    exp_floor = -55.0
    exp_ceiling = 88.0
    exp_degree = 7
    sqrt_half_bits = 0x3F3504F3
    log_degree = 11


def _constants(like):
    return _Single if _is_single(like) else _Double


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


def _exp_without_power(builder, x):
    """``exp`` over 2^n, and a number whose low bits are n."""
    use = _constants(x.type)
    number = functools.partial(_constant, like=x.type)
    shifted = _call(builder, "fma", x, number(_LOG2_E), number(use.shift))
    n = builder.fsub(shifted, number(use.shift))
    r = _call(builder, "fma", n, number(-use.log_2_high), x)
    r = _call(builder, "fma", n, number(-use.log_2_low), r)
    y = _polynomial(builder, r, [1.0 / math.factorial(i) for i in range(use.exp_degree + 1)])
    return y, shifted


def _exp(builder, a):
    use = _constants(a.type)
    number = functools.partial(_constant, like=a.type)
    whole = _bits_of(a.type)
    bits = functools.partial(_constant, like=whole)
    alive = builder.fcmp_ordered(">=", a, number(use.exp_floor))
    x = builder.select(alive, a, number(use.exp_floor))
    x = builder.select(builder.fcmp_ordered("<=", x, number(use.exp_ceiling)), x,
                       number(use.exp_ceiling))  # fmt: skip
    y, shifted = _exp_without_power(builder, x)
    power = builder.shl(builder.bitcast(shifted, whole), bits(use.mantissa_bits))
    y = builder.bitcast(builder.add(builder.bitcast(y, whole), power), a.type)
    return builder.select(alive, y, number(0.0))


@_elementwise
def exp(builder, a):
    """``exp`` of each lane for ``a <= 709``; zero below -708. Within 2 ulp, about 1 ns a lane.

    Of floats: for ``a <= 88``, zero below -55.
    """
    return _exp(builder, a)


@intrinsic
def exp_doubles(typing_context, a):
    """``exp`` of each lane as a double, which has room for less than floats: zero below -708.

    Of floats it is computed in their precision.
    """
    if not isinstance(a, Lanes):
        return None
    result = Lanes(a.count)

    def generate(context, builder, signature, arguments):
        (x,) = arguments
        if a == result:
            return _exp(builder, x)
        use, number = _Single, functools.partial(_constant, like=x.type)
        whole, long = _bits_of(x.type), _bits_of(_vector(result))
        alive = builder.fcmp_ordered(">=", x, number(_Double.exp_floor))
        x = builder.select(alive, x, number(_Double.exp_floor))
        x = builder.select(builder.fcmp_ordered("<=", x, number(use.exp_ceiling)), x,
                           number(use.exp_ceiling))  # fmt: skip
        y, shifted = _exp_without_power(builder, x)
        # The power of two goes into the exponent of the double.
        power = builder.sub(builder.bitcast(shifted, whole), _constant(use.shift_bits, whole))
        power = builder.shl(builder.sext(power, long), _constant(_Double.mantissa_bits, long))
        y = builder.bitcast(builder.fpext(y, _vector(result)), long)
        y = builder.bitcast(builder.add(y, power), _vector(result))
        return builder.select(alive, y, _constant(0.0, _vector(result)))

    return result(a), generate


@intrinsic
def doubles(typing_context, a):
    """The lanes of a vector as doubles."""
    if not isinstance(a, Lanes):
        return None
    result = Lanes(a.count)

    def generate(context, builder, signature, arguments):
        return arguments[0] if a == result else builder.fpext(arguments[0], _vector(result))

    return result(a), generate


# log(x) = e log 2 + log(m) with m within [√½, √2); log(m) = 2 artanh(f), f = (m - 1) / (m + 1).


@_elementwise
def log(builder, a):
    """``log`` of each lane, which must be positive, finite and normal. Within 2 ulp."""
    use = _constants(a.type)
    number = functools.partial(_constant, like=a.type)
    whole = _bits_of(a.type)
    bits = functools.partial(_constant, like=whole)
    x = builder.bitcast(a, whole)
    # The exponent, rounded so that the mantissa falls around one.
    offset = builder.sub(x, bits(use.sqrt_half_bits))
    exponent = builder.ashr(offset, bits(use.mantissa_bits))
    m = builder.bitcast(builder.sub(x, builder.shl(exponent, bits(use.mantissa_bits))), a.type)
    # A small integer as a number without a conversion instruction: the same trick as in exp.
    e = builder.bitcast(builder.add(exponent, bits(use.shift_bits)), a.type)
    e = builder.fsub(e, number(use.shift))
    f = builder.fdiv(builder.fsub(m, number(1.0)), builder.fadd(m, number(1.0)))
    s = builder.fmul(f, f)
    y = _polynomial(builder, s, [2.0 / i for i in range(3, use.log_degree + 2, 2)])
    tail = builder.fmul(builder.fmul(y, s), f)
    tail = _call(builder, "fma", e, number(use.log_2_low), tail)
    two_f = builder.fadd(f, f)
    return _call(builder, "fma", e, number(use.log_2_high), builder.fadd(two_f, tail))
