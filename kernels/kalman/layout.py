"""Named arrays in one flat array of doubles: offsets for kernels, NumPy views for Python."""

from math import prod
from typing import NamedTuple

import numpy as np

_BYTES = 8


class Place(NamedTuple):
    """Where an array lies, in bytes from the beginning, and the shape and strides of its view."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class Layout:
    """Blocks of named arrays that follow one another in a flat array.

    Parameters
    ----------
    sizes : dict of int
        The lengths of axes, by the names that shapes use.
    shown : dict of int, optional
        For sizes that include padding, how many entries a view shows.
    """

    def __init__(self, sizes, shown=None):
        self._sizes, self._shown = sizes, shown or {}
        #: How many numbers there are.
        self.size = 0
        #: The places of a block's arrays, by the name of the block.
        self.blocks: dict[str, dict[str, Place]] = {}

    def add(self, block, fields) -> None:
        """Append a block of ``(name, shape)``, where a shape has names of sizes, or numbers."""
        self.blocks[block] = {name: self._append(shape) for name, shape in fields}

    def _append(self, shape):
        stored = [self._sizes.get(axis, axis) for axis in shape]
        shown = tuple(self._shown.get(axis, n) for axis, n in zip(shape, stored, strict=True))
        strides, count = [], 1
        for n in reversed(stored):
            strides.insert(0, _BYTES * count)
            count *= n
        place = Place(_BYTES * self.size, shown, tuple(strides))
        self.size += count
        return place

    def stride(self, block, name) -> int:
        """How many numbers there are from one entry along an array's first axis to the next."""
        return self.blocks[block][name].strides[0] // _BYTES

    def begins(self, block) -> dict[str, int]:
        """The index of the first number of each array of a block."""
        return {name: place.offset // _BYTES for name, place in self.blocks[block].items()}


class Block:
    """The arrays of one block as attributes: each is a view of the flat array."""

    def __init__(self, x, places: dict[str, Place]):
        views, view = self.__dict__, np.ndarray
        for name, (offset, shape, strides) in places.items():
            views[name] = view(shape, float, x, offset, strides)

    def put(self, **values) -> None:
        """Write some arrays; padding is left alone."""
        for name, value in values.items():
            self.__dict__[name][...] = value


class Arena:
    """A flat array ``x``, zero at first, whose blocks are attributes.

    ``arena.sums.first2`` is the array ``first2`` of the block ``sums``, to be read or written.
    """

    def __init__(self, layout: Layout):
        self.x = np.zeros(layout.size)
        self._layout = layout

    def places_of(self, block) -> dict[str, tuple[slice, tuple[int, ...]]]:
        """For each array of a block, which numbers of ``x`` it has, and its shape; no padding."""
        return {
            name: (slice(offset // _BYTES, offset // _BYTES + prod(shape)), shape)
            for name, (offset, shape, _) in self._layout.blocks[block].items()
        }

    def __getattr__(self, name) -> Block:
        # Only for blocks that were not asked for before: few of them are ever read.
        if name.startswith("_") or name not in self._layout.blocks:
            raise AttributeError(f"There is no block {name!r}.")
        block = self.__dict__[name] = Block(self.x, self._layout.blocks[name])
        return block
