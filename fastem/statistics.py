"""Expected sufficient statistics: they add, scale and serialize; nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Expectation", "Iterated", "Learned", "Moments", "SharedMoments", "Statistics", "join",
           "mix_horizons", "split"]  # fmt: skip


class Moments:
    """Mass, mean and scatter of weighted points, for each of K components.

    Adding two of these is the pairwise update of Chan, Golub and LeVeque, so that the scatter is
    always about the mean and points far from the origin lose no digits.

    Parameters
    ----------
    mass : ndarray of shape (K,)
    mean : ndarray of shape (K, D)
    scatter : ndarray
        Sum of squares about the mean: (K, D, D) for matrices, (D, D) for one matrix shared by all
        components, (K, D) for independent columns, (K,) for their sum.
    """

    __slots__ = ("mass", "mean", "scatter")

    def __init__(self, mass, mean, scatter):
        self.mass = np.asarray(mass, dtype=float)
        self.mean = np.asarray(mean, dtype=float)
        self.scatter = np.asarray(scatter, dtype=float)

    def spread(self, weights, shifts):
        """The scatter of ``weights`` at ``shifts`` from the mean, in the shape of ``scatter``."""
        if self.scatter.ndim == 3:
            return (weights[:, None] * shifts)[:, :, None] * shifts[:, None, :]
        if self.scatter.ndim == 2:
            return weights[:, None] * shifts**2
        return weights * np.einsum("kc,kc->k", shifts, shifts)

    def __add__(self, other):
        return self.mixed(other, 1.0, 1.0)

    def __mul__(self, factor):
        return type(self)(self.mass * factor, self.mean.copy(), self.scatter * factor)

    def mixed(self, other, a, b):
        """``a`` times these moments and ``b`` times others: with fewer copies, the same numbers."""
        # Shapes that differ could still be broadcast, to nonsense.
        mine, theirs = ((type(m), m.mean.shape, m.scatter.shape) for m in (self, other))
        if mine != theirs:
            raise ValueError(
                "These moments are of different models: means and scatter have the shapes "
                f"{mine[1:]} in one and {theirs[1:]} in the other."
            )
        one, two = self.mass * a, other.mass * b
        mass = one + two
        share = np.divide(two, mass, out=np.zeros_like(mass), where=mass > 0)
        shift = other.mean - self.mean
        mean = self.mean + share[:, None] * shift
        if not (one > 0).all():
            # A component of no mass in either keeps the mean it was given first.
            mean = np.where((one > 0)[:, None], mean, other.mean)
            mean = np.where((mass > 0)[:, None], mean, self.mean)
        scatter = self.scatter * a
        scatter += other.scatter * b
        scatter += self.spread(one * share, shift)
        return type(self)(mass, mean, scatter)


class SharedMoments(Moments):
    """Moments whose scatter is one (D, D) matrix shared by all components."""

    __slots__ = ()

    def spread(self, weights, shifts):
        return (weights[:, None] * shifts).T @ shifts


class Statistics(Mapping):
    """Named statistics of a model: arrays, which add element by element, and :class:`Moments`.

    Examples
    --------
    >>> import numpy as np
    >>> from fastem import Statistics
    >>> s = Statistics(mass=np.array([1.0, 2.0]))
    >>> (s + s * 0.5)["mass"]
    array([1.5, 3. ])
    """

    def __init__(self, **blocks):
        self._blocks = {
            name: block if isinstance(block, Moments) else np.asarray(block, dtype=float)
            for name, block in blocks.items()
        }

    def __getitem__(self, name) -> Any:
        return self._blocks[name]

    def __iter__(self):
        return iter(self._blocks)

    def __len__(self):
        return len(self._blocks)

    def __repr__(self):
        return f"Statistics({', '.join(self._blocks)})"

    def __add__(self, other):
        if not isinstance(other, Statistics):
            return NotImplemented
        return self.mixed(other, 1.0, 1.0)

    def mixed(self, other: Statistics, a: float, b: float) -> Statistics:
        """``self * a + other * b``, with fewer copies."""
        if self._blocks.keys() != other._blocks.keys():
            raise ValueError(
                f"These statistics are of different models: {sorted(self)} and {sorted(other)}."
            )
        mixed = {}
        for name, block in self._blocks.items():
            another: Any = other._blocks[name]
            one, two = _shape(block), _shape(another)
            if one != two:
                raise ValueError(
                    f"These statistics are of different models: {name} has shape {one} in one and "
                    f"{two} in the other."
                )
            is_moments = isinstance(block, Moments)
            mixed[name] = block.mixed(another, a, b) if is_moments else block * a + another * b
        return Statistics(**mixed)

    def __radd__(self, other):
        # So that sum() works, which starts from 0.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __mul__(self, factor):
        if not np.isscalar(factor):
            return NotImplemented
        return Statistics(**{name: block * factor for name, block in self.items()})

    __rmul__ = __mul__

    def __truediv__(self, divisor):
        return self * (1.0 / divisor)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """As plain arrays with names, to be stored or sent; :meth:`from_arrays` is the inverse."""
        arrays = {}
        for name, block in self.items():
            if isinstance(block, Moments):
                kind = "shared" if isinstance(block, SharedMoments) else "moments"
                for part in ("mass", "mean", "scatter"):
                    arrays[f"{name}:{kind}:{part}"] = getattr(block, part)
            else:
                arrays[name] = block
        return arrays

    @classmethod
    def from_arrays(cls, arrays) -> Statistics:
        """Statistics from the arrays of :meth:`to_arrays`."""
        blocks, moments = {}, {}
        for key, array in arrays.items():
            name, *kind_and_part = key.rsplit(":", 2)
            if kind_and_part:
                kind, part = kind_and_part
                moments.setdefault((name, kind), {})[part] = array
            else:
                blocks[key] = array
        for (name, kind), parts in moments.items():
            blocks[name] = (SharedMoments if kind == "shared" else Moments)(**parts)
        return cls(**blocks)


def join(parts, prefixes) -> dict:
    """One dict of several, the names in each with its own prefix."""
    pairs = zip(prefixes, parts, strict=True)
    return {prefix + name: value for prefix, part in pairs for name, value in part.items()}


def split(named, prefixes) -> list[dict]:
    """For each prefix the entries that have it, without the prefix: the inverse of :func:`join`."""
    return [
        {name.removeprefix(prefix): v for name, v in named.items() if name.startswith(prefix)}
        for prefix in prefixes
    ]


class Expectation(NamedTuple):
    """What ``model.expect(data)`` returns: means over the observations, and their weight.

    The sum of two expectations is the expectation of the data of both.
    """

    statistics: Statistics
    log_likelihood: float
    weight: float
    horizon: object = None

    def __add__(self, other):
        if not isinstance(other, Expectation):
            return self if other == 0 else NotImplemented
        weight = self.weight + other.weight
        a, b = self.weight / weight, other.weight / weight
        return Expectation(
            self.statistics.mixed(other.statistics, a, b),
            a * self.log_likelihood + b * other.log_likelihood,
            weight,
            mix_horizons(self.horizon, other.horizon, a, b),
        )

    __radd__ = __add__


class Iterated(NamedTuple):
    """What ``model.iterate(data, ...)`` returns: one step of batch EM or more."""

    #: The model after the last step.
    model: Any
    #: The mean log-likelihood at the E-step of each step.
    log_likelihoods: Sequence[float]
    #: The weight of the observations.
    weight: float
    #: Their horizon, as ``model.expect`` has it.
    horizon: object = None


class Learned(NamedTuple):
    """What ``model.learn(table, ...)`` returns."""

    #: The model after the last step.
    model: Any
    #: The running statistics after the last step; None if the model is the memory.
    memory: Statistics | None
    #: The mean log-likelihood of the batches, each under the model that met it.
    log_likelihood: float


def _shape(block):
    # Moments compare their own.
    return () if isinstance(block, Moments) else block.shape


def mix_horizons(one, other, a, b):
    """The horizon of observations with shares ``a`` and ``b`` of two horizons."""
    if one is None or other is None:
        return other if one is None else one
    if hasattr(one, "mixed"):
        return one.mixed(other, a, b)
    if isinstance(one, tuple):
        return type(one)(mix_horizons(x, y, a, b) for x, y in zip(one, other, strict=True))
    return a * one + b * other
