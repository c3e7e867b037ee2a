"""Distributions of the lengths of sequences or documents, the horizon of models of them."""

from __future__ import annotations

import numpy as np

from . import checks

__all__ = ["LONGEST_TABLE", "Lengths", "RunningLengths"]

#: Longer lengths are not tabulated step by step.
LONGEST_TABLE = 2**24


class Lengths:
    """A distribution of the lengths of sequences or documents. Two of them can be mixed.

    Parameters
    ----------
    lengths : int or array-like of int
        Whole numbers; a document may be empty, a sequence has at least one step.
    weights : array-like, optional
        The weight of each length; equal by default.

    Attributes
    ----------
    lengths : ndarray of int
        The lengths that occur, in order.
    shares : ndarray of float
        The share of each; they sum to one.

    Examples
    --------
    >>> import fastem
    >>> 0.5 * fastem.Lengths(3) + 0.5 * fastem.Lengths([4, 4])
    Lengths([3, 4], [0.5, 0.5])
    """

    # ``weight`` is what this one counts for in a sum.
    __slots__ = ("lengths", "shares", "weight")

    def __init__(self, lengths, weights=None):
        given = np.atleast_1d(np.asarray(lengths))
        if given.ndim != 1 or len(given) == 0 or not checks.are_whole(given) or given.min() < 0:
            raise ValueError(f"A length is a whole number, 0 or more; got {lengths!r}.")
        weights = np.ones(len(given)) if weights is None else np.asarray(weights, dtype=float)
        if weights.shape != given.shape:
            raise ValueError(
                f"The weights of the lengths have the shape {weights.shape}, and there are "
                f"{len(given)} lengths: each length has one weight."
            )
        if not ((weights >= 0) & (weights < np.inf)).all():
            raise ValueError(
                f"The weights of the lengths must be finite and not negative; got {weights!r}."
            )
        self.lengths, self.shares = _counted(given.astype(np.int64), weights)
        self.weight = 1.0

    @classmethod
    def of_sequences(cls, horizon) -> Lengths:
        """``horizon``, which may be a number or a list, as lengths of sequences."""
        if not isinstance(horizon, Lengths):
            horizon = cls(horizon)
        if horizon.lengths[0] < 1:
            raise ValueError(f"A sequence has 1 step or more; got the horizon {horizon}.")
        return horizon

    def __repr__(self):
        return f"Lengths({self.lengths.tolist()}, {self.shares.tolist()})"

    def __eq__(self, other):
        return isinstance(other, Lengths) and repr(self) == repr(other)

    def __hash__(self):
        return hash(repr(self))

    @property
    def mean(self) -> float:
        """The mean length."""
        return float(self.lengths @ self.shares)

    def survival(self) -> np.ndarray:
        """``P(length ≥ t)`` for t = 1, 2, … up to the longest."""
        if self.lengths[-1] > LONGEST_TABLE:
            raise ValueError(
                f"A table of {self.lengths[-1]} steps, one for each of the longest length, does "
                f"not fit into memory; {LONGEST_TABLE} is the most."
            )
        shares = np.zeros(self.lengths[-1] + 1)
        shares[self.lengths] = self.shares
        return np.cumsum(shares[:0:-1])[::-1].copy()

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """``n`` lengths at random."""
        return rng.choice(self.lengths, size=n, p=self.shares)

    def __mul__(self, factor):
        return _made(self.lengths, self.shares, factor * self.weight)

    __rmul__ = __mul__

    def __add__(self, other):
        if not isinstance(other, Lengths):
            return NotImplemented
        weights = [part.weight * part.shares for part in (self, other)]
        both = np.concatenate([self.lengths, other.lengths])
        return _made(*_counted(both, np.concatenate(weights)), self.weight + other.weight)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """All numbers as arrays, for files."""
        return {"lengths": self.lengths, "shares": self.shares, "weight": np.array(self.weight)}

    @classmethod
    def from_arrays(cls, arrays) -> Lengths:
        """The lengths that :meth:`to_arrays` took apart, exact to the bit."""
        lengths, shares, weight = (np.asarray(arrays[n]) for n in ("lengths", "shares", "weight"))
        # The constructor raises if lengths or shares are invalid.
        cls(lengths, shares)
        in_order = lengths.dtype == np.int64 and (np.diff(lengths) > 0).all()
        sums_to_one = shares.dtype.kind == "f" and abs(shares.sum() - 1.0) < 1e-9
        counts = weight.dtype.kind == "f" and weight.shape == () and 0 < weight < np.inf
        if not (in_order and sums_to_one and counts):
            raise ValueError(
                "Lengths are whole numbers in order, each once, with shares that sum to one; got "
                f"{lengths!r}, {shares!r} and the weight {weight!r}."
            )
        return _made(lengths, shares, weight)


class RunningLengths:
    """Lengths to which one sequence after another is added, in place."""

    def __init__(self, lengths: Lengths):
        self._set(lengths)

    def _set(self, lengths):
        self._lengths, self._weight = lengths.lengths, lengths.weight
        self._shares = lengths.shares.copy()
        self._places = {length: place for place, length in enumerate(self._lengths.tolist())}

    def add(self, length: int, share: float) -> None:
        """``(1 - share) * self + share * Lengths(length)``, the same to the bit."""
        place = self._places.get(length)
        if place is None:
            self._set((1.0 - share) * self.now() + share * Lengths(length))
            return
        shares, kept = self._shares, (1.0 - share) * self._weight
        shares *= kept
        shares[place] += share
        shares /= shares.sum()
        self._weight = kept + share

    def now(self) -> Lengths:
        """The lengths as they are now."""
        return _made(self._lengths, self._shares.copy(), self._weight)


def _made(lengths, shares, weight):
    """Lengths of these shares, which are not normalized again: it might change their last bit."""
    new = object.__new__(Lengths)
    new.lengths, new.shares, new.weight = lengths, shares, float(weight)
    return new


def _counted(lengths, weights):
    """The lengths in order, each once, and their shares."""
    if len(lengths) == 1 and weights[0] > 0:
        # A single sequence: learning from one should not take long.
        return lengths, np.ones(1)
    lengths, place = np.unique(lengths, return_inverse=True)
    weights = np.bincount(place, weights, minlength=len(lengths))
    total = weights.sum()
    if not total > 0:
        raise ValueError("The weights of the lengths sum to zero.")
    return lengths, weights / total
