"""How long sequences are: the horizon over which a model of sequences is compared with another."""

from __future__ import annotations

import numpy as np

__all__ = ["Lengths"]


class Lengths:
    """A distribution over the lengths of sequences. Two of them mix, as their data would.

    Parameters
    ----------
    lengths : int or array-like of int
    weights : array-like, optional
        The weight of each; equal unless given.

    Examples
    --------
    >>> 0.5 * Lengths(3) + 0.5 * Lengths([4, 4])
    Lengths([3, 4], [0.5, 0.5])
    """

    __slots__ = ("lengths", "shares")

    def __init__(self, lengths, weights=None):
        lengths = np.atleast_1d(np.asarray(lengths))
        if lengths.ndim != 1 or len(lengths) == 0 or (lengths % 1 != 0).any() or lengths.min() < 1:
            raise ValueError(f"A length is a whole number of steps, 1 or more; got {lengths!r}.")
        self.lengths, place = np.unique(lengths.astype(np.int64), return_inverse=True)
        weights = np.ones(len(lengths)) if weights is None else np.asarray(weights, dtype=float)
        self.shares = np.bincount(place, weights, minlength=len(self.lengths))
        total = self.shares.sum()
        if not total > 0:
            raise ValueError("The weights of the lengths sum to zero.")
        self.shares = self.shares / total

    def __repr__(self):
        return f"Lengths({self.lengths.tolist()}, {self.shares.tolist()})"

    def __eq__(self, other):
        return isinstance(other, Lengths) and repr(self) == repr(other)

    def __hash__(self):
        return hash(repr(self))

    def survival(self) -> np.ndarray:
        """``P(length ≥ t)`` for t = 1, 2, … up to the longest."""
        shares = np.zeros(self.lengths[-1])
        shares[self.lengths - 1] = self.shares
        return np.cumsum(shares[::-1])[::-1].copy()

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """``n`` lengths at random."""
        return rng.choice(self.lengths, size=n, p=self.shares)

    def __rmul__(self, factor):
        return _Share(self, factor)

    __mul__ = __rmul__


class _Share:
    """A part of a mix of lengths."""

    def __init__(self, lengths, factor):
        self.lengths, self.factor = lengths, factor

    def __add__(self, other):
        parts = (self, other)
        return Lengths(
            np.concatenate([part.lengths.lengths for part in parts]),
            np.concatenate([part.lengths.shares * part.factor for part in parts]),
        )
