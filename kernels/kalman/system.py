"""A linear dynamical system as kernels see it, and the one array in which they work."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..options import apart, helper
from ..small_matrices import copy, pad, store_columns
from .layout import Arena, Layout

# Shapes use the sizes d (states), p (observed coordinates) and r (see observation.py); dd, pp and
# rr are the same, padded to whole SIMD vectors.

#: What there is for one kind of step: see observation.py.
REDUCED = (
    ("G", ("p", "rr")), ("minus_C", ("d", "rr")), ("Ct", ("r", "d")), ("Rt", ("r", "r")),
    ("rest", ("p", "pp")), ("rest_rows", ()), ("n_seen", ()), ("half", ()),
)  # fmt: skip

#: What there is of each step that differs from the others: see filter.py.
RECORD = (
    ("gain", ("r", "dd")), ("whiten", ("r", "rr")), ("J", ("d", "dd")), ("F", ("d", "d")),
    ("B", ("d", "d")), ("log_det", ()), ("root", ("d", "d")), ("Ez", ("d", "r")),
    ("Ey", ("d", "d")),
)  # fmt: skip

#: The sums of covariances of a sequence: see smoother.py.
COVARIANCES = (
    ("first", ("d", "d")), ("last", ("d", "d")), ("seen", ("d", "d")), ("unseen", ("d", "d")),
    ("lag", ("d", "d")), ("vv", ("p", "p")), ("vh", ("p", "d")),
)  # fmt: skip

#: The sums of statistics over sequences: see statistics.py.
SUMS = (
    ("weight", ()), ("log_likelihood", ()), ("transitions", ()), ("observed", ()), ("rows", ()),
    ("reference", ("dd",)), ("first", ("dd",)), ("first2", ("d", "dd")), ("last", ("dd",)),
    ("last2", ("d", "dd")), ("seen", ("dd",)), ("seen2", ("d", "dd")), ("unseen", ("dd",)),
    ("unseen2", ("d", "dd")), ("lag", ("d", "dd")), ("vh", ("p", "dd")), ("v", ("pp",)),
    ("vv", ("p", "pp")),
)  # fmt: skip

_ROOM = (
    ("A", ("d", "d")), ("columns", ("d", "dd")), ("b", ("dd",)), ("Q", ("d", "d")),
    ("C", ("p", "d")), ("c", ("p",)), ("R", ("p", "p")),
    ("turned", ("p", "d+p")), ("factor", ("p", "p")), ("inverse", ("p", "p")), ("indices", ("p",)),
    ("D", ("p", "d")), ("fill", ("p", "p")), ("Omega", ("p", "p")), ("solved", ("p", "p")),
    ("wide", ("p", "d")),
    ("P", ("d", "d")), ("old", ("d", "d")), ("new", ("d", "d")), ("M", ("d", "r")),
    ("S", ("r", "r")), ("L", ("r", "r")), ("Li", ("r", "r")), ("K", ("d", "r")),
    ("Kt", ("d", "r")), ("lower", ("d", "d")), ("AF", ("d", "d")), ("keep", ("d", "d")),
    ("scratch", ("d", "d")), ("gain", ("d", "d")), ("left", ("d", "d")), ("V", ("d", "d")),
    ("lag", ("d", "d")),
    ("u", ("pp",)), ("raw", ("pp",)), ("e", ("rr",)), ("z", ("rr",)), ("noise", ("pp",)),
    ("delta", ("dd",)),
    ("singular", ()), ("largest", ("d",)), ("U", ("d", "d")), ("Rroot", ("r", "r")),
    ("square", ("r+d", "r+2d")), ("stack", (4, "d", "d")), ("pivots", ("d",)),
    ("left_root", ("d", "d")), ("info", ("dd",)),
)  # fmt: skip

#: The first state, and what may have time as one more axis before: t has to be multiplied by the
#: stride of its name, which is zero if it is constant.
_FIRST = {"m": ("d",), "V": ("d", "d")}
_VARYING = {"A": ("d", "d"), "b": ("d",), "Q": ("d", "d"),
            "C": ("p", "d"), "c": ("p",), "R": ("p", "p")}  # fmt: skip

#: The ``times`` of a :class:`Packed` system that is constant in time.
NEVER = (None,) * len(_VARYING)

#: ``varies`` says that the system changes with time, ``direct`` that R is singular at some step.
_NUMBERS = ("d", "p", "r", "dd", "rr", "pp", "varies", "direct", "predicted", "states", "records")

_NAMES = {
    "system": (*_FIRST, *_VARYING),
    "stride": tuple(_VARYING),
    "room": tuple(name for name, _ in _ROOM),
    "whole": tuple(name for name, _ in REDUCED),
    "partial": tuple(name for name, _ in REDUCED),
    "covariances": tuple(name for name, _ in COVARIANCES),
    "sums": tuple(name for name, _ in SUMS),
    "record": (*(name for name, _ in RECORD), "size"),
}


def _record(names):
    return np.dtype((np.record, [(name, np.int64) for name in names]))


#: Sizes, and where everything begins in the array: the system, room to work in, complete and
#: partial steps, sums of covariances and of statistics; then predicted and filtered means of the
#: longest sequence, and records, as many as are needed. A record is one pointer to a kernel.
PLACES = [
    *[(name, np.int64) for name in _NUMBERS],
    *[(block, _record(names)) for block, names in _NAMES.items()],
]

#: What a kernel can do besides: the type of its records says so, and helpers for what it cannot do
#: are not compiled. With square roots of covariances; with sequences side by side.
ROOTS, LANES = "roots", "lanes"

#: Records that room is made for at first.
FIRST_RECORDS = 128


class Packed(NamedTuple):
    """A system whose parameters follow one another, as they do in a :class:`Workspace`."""

    values: np.ndarray
    d: int
    p: int
    #: For each parameter that may change with time, for how many steps there are values, or None.
    times: tuple


def pack(system) -> Packed:
    """A system from its parameters by letter.

    m (d), V (d, d); A (d, d), b (d), Q (d, d), C (p, d), c (p), R (p, p), these six also with time
    as a first axis.
    """
    p, d = system["C"].shape[-2:]
    times = tuple(
        len(system[name]) if system[name].ndim > len(shape) else None
        for name, shape in _VARYING.items()
    )
    values = np.concatenate([system[name].reshape(-1) for name in _NAMES["system"]])
    return Packed(values, d, p, times)


class Workspace(Arena):
    """The array ``x`` that kernels work in, holding a system, and ``places``, where things begin.

    Parameters
    ----------
    system : Packed or dict
        See :func:`pack`.
    longest : int
        The length of the longest sequence.
    direct : bool
        Whether R is singular.
    abilities : tuple of str
        What the kernel can do: ``ROOTS``, ``LANES``, both or neither.
    """

    def __init__(self, system, longest, direct=False, abilities=(ROOTS, LANES)):
        values, d, p, times = system if isinstance(system, Packed) else pack(system)
        layout, self.places = _layout(d, p, longest, bool(direct), times, abilities)
        super().__init__(layout)
        self.longest = longest
        # They come first.
        self.x[: len(values)] = values


def sums_arena(d, p) -> Arena:
    """Sums by themselves, as the memory of online learning."""
    return Arena(_sums_layout(d, p))


@lru_cache(maxsize=64)
def _sums_layout(d, p):
    layout = Layout(*_sizes(d, p, min(d, p)))
    layout.add("sums", SUMS)
    return layout


def _sizes(d, p, r):
    """The sizes that shapes use, and what views show of padded axes."""
    sizes = {"d": d, "p": p, "r": r, "dd": pad(d), "rr": pad(r), "pp": pad(p)}
    sums = {"d+p": d + p, "r+d": r + d, "r+2d": r + 2 * d}
    return {**sizes, **sums}, {"dd": d, "rr": r, "pp": p}


@lru_cache(maxsize=64)
def _layout(d, p, longest, direct, times, abilities):
    """Where everything lies, for Python and as kernels are told."""
    sizes, shown = _sizes(d, p, p if direct else min(d, p))
    record = Layout(sizes)
    record.add("record", RECORD)
    layout = Layout(sizes, shown)
    varying = [
        (name, shape if n is None else (n, *shape))
        for (name, shape), n in zip(_VARYING.items(), times, strict=True)
    ]
    layout.add("system", [*_FIRST.items(), *varying])
    for block, fields in (("room", _ROOM), ("whole", REDUCED), ("partial", REDUCED),
                          ("covariances", COVARIANCES), ("sums", SUMS)):  # fmt: skip
        layout.add(block, fields)
    n_records = min(longest, FIRST_RECORDS)
    layout.add(
        "steps",
        (("predicted", (longest, "dd")), ("states", (longest, "dd")),
         ("records", (n_records, record.size))),
    )  # fmt: skip
    varies = {name: n is not None and n > 1 for name, n in zip(_VARYING, times, strict=True)}
    begins = {block: layout.begins(block) for block in layout.blocks}
    begins["stride"] = {
        name: layout.stride("system", name) if varies[name] else 0 for name in _VARYING
    }
    begins["record"] = {**record.begins("record"), "size": record.size}
    numbers = {**sizes, "varies": any(varies.values()), "direct": direct, **begins["steps"]}
    entries = [numbers[name] for name in _NUMBERS]
    for block, names in _NAMES.items():
        entries += [begins[block][name] for name in names]
    kind, n_more = _kind_of_places(abilities)
    return layout, np.array([1] * n_more + entries, np.int64).view(kind)


@lru_cache(maxsize=16)
def _kind_of_places(abilities):
    """The type of the places of kernels that have some abilities, and how many fields come first.

    It is one object for all sizes: numba looks the type of an argument up in each call, and takes
    microseconds to find that two such types are equal.
    """
    # Numba takes a record for another that has the same fields and fewer, unless the first differ.
    names = ("_".join(("can", *abilities)), *abilities)
    return np.dtype((np.record, [*((name, np.int64) for name in names), *PLACES])), len(names)


@helper
def load_transition(x, w, t):
    """Put A, b and Q of step ``t`` where they are used."""
    apart()
    d, room, system, stride = w.d, w.room, w.system, w.stride
    copy(x, system.A + t * stride.A, d * d, room.A)
    copy(x, system.b + t * stride.b, d, room.b)
    copy(x, system.Q + t * stride.Q, d * d, room.Q)
    store_columns(x, room.A, d, d, 1.0, w.dd, room.columns)


@helper
def load_observation(x, w, t):
    """Put C, c and R of step ``t`` where they are used."""
    apart()
    d, p, room, system, stride = w.d, w.p, w.room, w.system, w.stride
    copy(x, system.C + t * stride.C, p * d, room.C)
    copy(x, system.c + t * stride.c, p, room.c)
    copy(x, system.R + t * stride.R, p * p, room.R)
