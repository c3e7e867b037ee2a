"""How sequences of any lengths are laid out for the recursions.

Sequences are taken longest first. Eight of about one length are laid side by side in the lanes of
a *unit*; a sequence that is much longer than the next seven, or very long, is a unit alone. The
densities of a unit are one stretch of a long array, ``at`` being where it begins, and what is kept
for each step is one stretch of another, beginning ``step_at``.
"""

from collections import namedtuple

import numpy as np

from ..options import kernel
from ..rows import GROUP
from .chain import padded_states

#: order (n_sequences,), longest first; then for each unit: first, its first place in ``order``;
#: count, its sequences, 0 for one alone; steps, of the longest; at and step_at, with one more
#: entry that is the end of the last unit.
Layout = namedtuple("Layout", "order first count steps at step_at")

#: Eight sequences are laid side by side while they take no more entries than this in all, and
#: waste no more than this share of them.
MOST_ENTRIES = 2**20
LEAST_FILLED = 0.4


@kernel
def _lay_out(lengths, order, n_states, first, count, steps, at, step_at):
    size = padded_states(n_states)
    n_sequences = order.shape[0]
    unit = 0
    begin = 0
    at[0] = 0
    step_at[0] = 0
    while begin < n_sequences:
        longest = lengths[order[begin]]
        stop = min(begin + GROUP, n_sequences)
        total = 0
        for i in range(begin, stop):
            total += lengths[order[i]]
        first[unit] = begin
        steps[unit] = longest
        fits = longest * GROUP * size <= MOST_ENTRIES
        if fits and total >= LEAST_FILLED * GROUP * longest:
            count[unit] = stop - begin
            entries = (longest + 1) * GROUP
            begin = stop
        else:
            count[unit] = 0
            # One place before the first step, and room for whole vectors after the last.
            entries = (longest + GROUP) // GROUP * GROUP + GROUP
            begin += 1
        at[unit + 1] = at[unit] + entries * size
        step_at[unit + 1] = step_at[unit] + entries
        unit += 1
    return unit


def lay_out(lengths, n_states):
    """The layout of sequences of these lengths."""
    lengths = np.ascontiguousarray(lengths, dtype=np.int64)
    n = len(lengths)
    if (lengths == lengths[0]).all():
        order = np.arange(n)
    else:
        order = np.argsort(-lengths, kind="stable")
    arrays = [np.zeros(n + 1, dtype=np.int64) for _ in range(5)]
    n_units = _lay_out(lengths, order, n_states, *arrays)
    first, count, steps, at, step_at = arrays
    return Layout(
        order, first[:n_units], count[:n_units], steps[:n_units], at[: n_units + 1],
        step_at[: n_units + 1],
    )  # fmt: skip
