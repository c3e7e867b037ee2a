"""What Python calls of the kernels that may need a longer array to work in.

These return numbers only. To make a Python object of an array numba calls back into Python, and
where an interrupt (Ctrl-C) waits to be raised it is raised there, and lost: the caller then gets a
SystemError instead. So what was done in a longer array is copied back to the one that was given.
"""

from ..options import helper, kernel
from . import chunks, statistics
from . import online as online_steps

_expect, _expect_long, _online = statistics.expect, chunks.expect_long, online_steps.online


@helper
def _keep(y, places, x):
    """Copy all but the records, if the work was done in another array."""
    if y.shape[0] != x.shape[0]:
        for i in range(places[0].records):
            x[i] = y[i]


@kernel
def expect(x, places, *arguments):
    """As ``statistics.expect``; returns a sequence and a step, or -1, -1."""
    y, sequence, step = _expect(x, places, *arguments)
    _keep(y, places, x)
    return sequence, step


@kernel
def expect_long(x, places, *arguments):
    """As ``chunks.expect_long``; returns a sequence and a step, or -1, -1."""
    y, sequence, step = _expect_long(x, places, *arguments)
    _keep(y, places, x)
    return sequence, step


@kernel
def online(x, places, *arguments):
    """As ``online.online``; returns all but the array."""
    y, sequence, step, done, log_likelihood = _online(x, places, *arguments)
    _keep(y, places, x)
    return sequence, step, done, log_likelihood
