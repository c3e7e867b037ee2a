"""Loops of compiled kernels whose sums depend on where in memory their arrays happen to lie.

LLVM compiles a loop that stores into an array and reads others twice, with vectors and without, and
compares addresses to choose one of the two. Where such a loop adds up as well, the order of its
additions, and with it the last bits of the sum, depend on the addresses.
"""

import re

from fastem.kernels import options

_FUNCTION = re.compile(r"^define [^@]*@\"?([\w.$]+)", re.MULTILINE)
_LABEL = re.compile(r"^([\w.$-]+):", re.MULTILINE)
#: A sum of floating-point numbers that a loop with vectors carries along.
_SUM = re.compile(r"= phi (?:[a-z]+ )*<\d+ x (?:double|float)>")
_STORE = re.compile(r"^ +store ", re.MULTILINE)
#: A comparison of addresses: of their difference, or of the bounds of arrays.
_CHECK = re.compile(r"%(?:diff\.check|found\.conflict|bound0)")


def sums_that_depend_on_addresses(code):
    """The names of functions in LLVM's code that have such loops."""
    starts = [match.start() for match in _FUNCTION.finditer(code)]
    found = set()
    for begin, end in zip(starts, [*starts[1:], len(code)], strict=True):
        body = code[begin:end]
        if _CHECK.search(body) and any(map(_adds_and_stores, _loops(body))):
            found.add(_name(_FUNCTION.match(body)[1]))
    return found


def _loops(body):
    """The blocks that are loops with vectors."""
    labels = [(match[1], match.start()) for match in _LABEL.finditer(body)]
    for i, (label, begin) in enumerate(labels):
        if label.startswith("vector.body"):
            yield body[begin : labels[i + 1][1] if i + 1 < len(labels) else None]


def _adds_and_stores(block):
    return _SUM.search(block) and _STORE.search(block)


def _name(symbol):
    """The parts of a symbol's name, ``kernels.hmm.forward.forward_alone``."""
    parts, rest = [], symbol.partition("_ZN")[2]
    while (length := re.match(r"\d+", rest)) is not None:
        size = int(length[0])
        parts.append(rest[length.end() : length.end() + size])
        rest = rest[length.end() + size :]
    return ".".join(parts) or symbol


def watch():
    """From now on, whoever compiles a kernel with such a loop in this process fails."""
    compiler = options._fast
    if compiler is None:
        return
    optimize = compiler._KernelCode._optimize_final_module

    def optimize_and_look(library):
        optimize(library)
        found = sums_that_depend_on_addresses(str(library._final_module))
        assert not found, (
            f"In {', '.join(sorted(found))} a loop adds up and stores into an array: its sum "
            "depends on where arrays lie. Make two loops of it."
        )

    compiler._KernelCode._optimize_final_module = optimize_and_look
