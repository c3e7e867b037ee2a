"""Arrays that each thread uses again and again, because fresh memory is slow at first."""

from __future__ import annotations

import threading

from ..kernels.rows import empty_on_a_line

__all__ = ["MOST_ENTRIES", "large_enough", "workspace"]

#: States times steps of the largest piece of short sequences.
MOST_ENTRIES = 2**20


def large_enough(arrays, n_entries, n_steps):
    """``arrays``, three of entries and two of steps, or new ones if these are too small."""
    if arrays and len(arrays[0]) >= n_entries and len(arrays[3]) >= n_steps:
        return arrays
    return tuple(empty_on_a_line(n) for n in (n_entries, n_entries, n_entries, n_steps, n_steps))


class _Workspace(threading.local):
    arrays = ()

    def take(self, n_entries, n_steps):
        """Arrays of at least such sizes: see ``large_enough``."""
        arrays = large_enough(self.arrays, n_entries, n_steps)
        if n_entries <= 2 * MOST_ENTRIES:
            self.arrays = arrays
        return arrays

    def take_units(self, layout, first, last):
        """Arrays for the units ``first .. last - 1`` of sequences side by side."""
        n_entries = int(layout.at[last] - layout.at[first])
        n_steps = int(layout.step_at[last] - layout.step_at[first])
        return self.take(n_entries, n_steps)


workspace = _Workspace()
