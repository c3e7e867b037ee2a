"""A linear dynamical system as kernels see it, and the one array in which they work."""

from functools import lru_cache

import numpy as np

from ..options import apart, helper
from ..small_matrices import copy, pad, store_columns

#: What there is for one kind of step: see kalman_observation.
REDUCED = (("G", "p*rr"), ("minus_C", "d*rr"), ("Ct", "r*d"), ("Rt", "r*r"), ("rest", "p*pp"),
           ("rest_rows", "1"), ("n_seen", "1"), ("half", "1"))  # fmt: skip

#: What there is of each step that differs from the others: see kalman_filter.
RECORD = (("gain", "r*dd"), ("whiten", "r*rr"), ("J", "d*dd"), ("F", "d*d"), ("B", "d*d"),
          ("log_det", "1"), ("root", "d*d"), ("Ez", "d*r"), ("Ey", "d*d"))  # fmt: skip

#: The sums of covariances of a sequence: see kalman_smoother.
COVARIANCES = (("first", "d*d"), ("last", "d*d"), ("seen", "d*d"), ("unseen", "d*d"),
               ("lag", "d*d"), ("vv", "p*p"), ("vh", "p*d"))  # fmt: skip

#: The sums of statistics over sequences: see kalman_statistics.
SUMS = (("weight", "1"), ("log_likelihood", "1"), ("transitions", "1"), ("observed", "1"),
        ("rows", "1"), ("reference", "dd"), ("first", "dd"), ("first2", "d*dd"), ("last", "dd"),
        ("last2", "d*dd"), ("seen", "dd"), ("seen2", "d*dd"), ("unseen", "dd"),
        ("unseen2", "d*dd"), ("lag", "d*dd"), ("vh", "p*dd"), ("v", "pp"), ("vv", "p*pp")
        )  # fmt: skip

_ROOM = (
    ("A", "d*d"), ("columns", "d*dd"), ("b", "dd"), ("Q", "d*d"), ("C", "p*d"), ("c", "p"),
    ("R", "p*p"),
    ("turned", "p*(d+p)"), ("factor", "p*p"), ("inverse", "p*p"), ("indices", "p"),
    ("D", "p*d"), ("fill", "p*p"), ("Omega", "p*p"), ("solved", "p*p"), ("wide", "p*d"),
    ("P", "d*d"), ("old", "d*d"), ("new", "d*d"), ("M", "d*r"), ("S", "r*r"), ("L", "r*r"),
    ("Li", "r*r"), ("K", "d*r"), ("Kt", "d*r"), ("lower", "d*d"), ("AF", "d*d"), ("keep", "d*d"),
    ("scratch", "d*d"), ("gain", "d*d"), ("left", "d*d"), ("V", "d*d"), ("lag", "d*d"),
    ("u", "pp"), ("raw", "pp"), ("e", "rr"), ("z", "rr"), ("noise", "pp"), ("delta", "dd"),
    ("singular", "1"), ("largest", "d"), ("U", "d*d"), ("Rroot", "r*r"),
    ("square", "(r+d)*(r+2*d)"), ("stack", "4*d*d"), ("pivots", "d"),
    ("left_root", "d*d"), ("info", "dd"),
)  # fmt: skip

#: The system: each has time as its first axis, of length one if it is constant, so that t has to
#: be multiplied by the stride of its name; and of the first state m (d), V (d, d).
_SYSTEM = (("m", "d"), ("V", "d*d"), ("A", "nA*d*d"), ("b", "nb*d"), ("Q", "nQ*d*d"),
           ("C", "nC*p*d"), ("c", "nc*p"), ("R", "nR*p*p"))  # fmt: skip
_STRIDES = (("A", "d*d*(nA>1)"), ("b", "d*(nb>1)"), ("Q", "d*d*(nQ>1)"), ("C", "p*d*(nC>1)"),
            ("c", "p*(nc>1)"), ("R", "p*p*(nR>1)"))  # fmt: skip

_SIZES = ("d", "p", "r", "dd", "rr", "pp")
#: ``varies`` says that the system changes with time, ``direct`` that R is singular at some step.
_NUMBERS = (*_SIZES, "varies", "direct", "predicted", "states", "records")


def _record(fields, *more):
    return np.dtype((np.record, [(name, np.int64) for name, _ in fields] + list(more)))


#: Sizes, and where everything begins in the array: the system, room to work in, complete and
#: partial steps, sums of covariances and of statistics; then predicted and filtered means of the
#: longest sequence, and records, as many as are needed. A record is one pointer to a kernel.
PLACES = np.dtype(
    (
        np.record,
        [
            *[(name, np.int64) for name in _NUMBERS],
            ("system", _record(_SYSTEM)),
            ("stride", _record(_STRIDES)),
            ("room", _record(_ROOM)),
            ("whole", _record(REDUCED)),
            ("partial", _record(REDUCED)),
            ("covariances", _record(COVARIANCES)),
            ("sums", _record(SUMS)),
            ("record", _record(RECORD, ("size", np.int64))),
        ],
    )
)

#: Records that room is made for at first.
FIRST_RECORDS = 128


class Names(dict):
    """Where things begin, by name: what Python reads instead of the record, which is slow."""

    __getattr__ = dict.__getitem__


def workspace(system, longest, direct=False):
    """The array to work in, holding a system; where everything in it begins, for kernels; by name.

    Parameters
    ----------
    system : dict
        m (d), V (d, d); A (d, d), b (d), Q (d, d), C (p, d), c (p), R (p, p), or each with time as
        a first axis.
    longest : int
        The length of the longest sequence.
    direct : bool
        Whether R is singular.
    """
    p, d = system["C"].shape[-2:]
    lengths = tuple(
        len(system[name]) if system[name].ndim == axes else 1
        for name, axes in (("A", 3), ("b", 2), ("Q", 3), ("C", 3), ("c", 2), ("R", 3))
    )
    places, names, size = _places(d, p, longest, bool(direct), lengths)
    x = np.zeros(size)
    for name, _ in _SYSTEM:
        flat = system[name].reshape(-1)
        begin = names.system[name]
        x[begin : begin + len(flat)] = flat
    return x, places, names


@lru_cache(maxsize=64)
def _places(d, p, longest, direct, lengths):
    r = p if direct else min(d, p)
    sizes = {"d": d, "p": p, "r": r, "dd": pad(d), "rr": pad(r), "pp": pad(p)}
    values = {**sizes, **{f"n{name}": n for name, n in zip("AbQCcR", lengths, strict=True)}}
    names = Names(sizes, varies=int(max(lengths) > 1), direct=int(direct))
    names["stride"] = Names({name: _value(stride, values) for name, stride in _STRIDES})
    end = 0
    for block, fields in (
        ("system", _SYSTEM), ("room", _ROOM), ("whole", REDUCED), ("partial", REDUCED),
        ("covariances", COVARIANCES), ("sums", SUMS),
    ):  # fmt: skip
        names[block] = Names()
        for name, size in fields:
            names[block][name] = end
            end += _value(size, values)
    names["predicted"], names["states"] = end, end + longest * sizes["dd"]
    names["records"] = end + 2 * longest * sizes["dd"]
    names["record"] = Names(size=0)
    for name, size in RECORD:
        names["record"][name] = names.record.size
        names["record"]["size"] += _value(size, values)
    w = np.zeros(1, PLACES)
    for name, value in names.items():
        if isinstance(value, Names):
            for inner, number in value.items():
                w[name][inner] = number
        else:
            w[name] = value
    return w, names, names.records + min(longest, FIRST_RECORDS) * names.record.size


def _value(expression, values):
    """The value of an expression over sizes, one of those written above."""
    return int(eval(expression, {"__builtins__": {}}, values))


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
