"""Families that users define."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from .. import checks
from ..exceptions import NotEnoughData
from ..kernels.families.linear import READY, Linear
from ..log_linear import weighted_sum
from .sums import NaturalFamily

__all__ = ["ExponentialFamily"]


class ExponentialFamily(NaturalFamily):
    """A family of your own: ``log p(x|θ) = log b(x) + θ·φ(x) - G(θ)``.

    Subclass it and define the methods below, in NumPy, for K components at a time. ``D`` is the
    number of columns of the data and ``P`` that of the features ``φ``. The parameters are the
    natural ones, ``natural`` of shape (K, P).

    Examples
    --------
    The Rayleigh distribution, ``p(x) = x/σ² exp(-x²/2σ²)``:

    >>> import numpy as np
    >>> import fastem
    >>> class Rayleigh(fastem.ExponentialFamily):
    ...     def sufficient(self, X):
    ...         return X**2
    ...     def log_base(self, X):
    ...         return np.log(X).sum(axis=1)
    ...     def log_partition(self, natural):
    ...         return -np.log(-2 * natural).sum(axis=1)
    ...     def mean(self, natural):
    ...         return -1 / natural
    ...     def natural(self, mean):
    ...         return -1 / mean
    ...     def sample(self, natural, rng):
    ...         return rng.rayleigh(np.sqrt(-0.5 / natural))
    >>> X = np.random.default_rng(0).rayleigh([[1.0], [9.0]], size=(2, 500)).reshape(-1, 1)
    >>> model = fastem.Mixture(Rayleigh(), 2, random_state=0).fit(X)
    >>> np.sort(np.sqrt(-0.5 / model.natural_).ravel()).round(1)
    array([1. , 8.7])
    """

    parameter_names = ("natural",)
    compiled = False

    @abstractmethod
    def sufficient(self, X):
        """``φ(x)`` of each row: (n, D) to (n, P)."""

    def log_base(self, X):
        """``log b(x)`` of each row: (n, D) to (n,)."""
        return np.zeros(len(X))

    @abstractmethod
    def log_partition(self, natural):
        """``G(θ)`` of each component: (K, P) to (K,)."""

    @abstractmethod
    def mean(self, natural):
        """``g(θ) = E[φ]``: (K, P) to (K, P)."""

    @abstractmethod
    def natural(self, mean):
        """``g⁻¹(μ)``: (K, P) to (K, P)."""

    @abstractmethod
    def sample(self, natural, rng):
        """One draw from each row of parameters: (n, P) to (n, D)."""

    def _ask(self, method, argument, shape, *more):
        """What a method of the user's returns, which must have this shape; None is any size."""
        answer = checks.numbers(
            f"{type(self).__name__}.{method}()", getattr(self, method)(argument, *more)
        )
        fits = answer.ndim == len(shape) and all(
            want is None or got == want for got, want in zip(answer.shape, shape, strict=True)
        )
        if not fits:
            wanted = ", ".join("any" if size is None else str(size) for size in shape)
            raise ValueError(
                f"{type(self).__name__}.{method}() must return an array of the shape ({wanted}) "
                f"for an argument of the shape {np.shape(argument)}; it returned one of "
                f"{answer.shape}."
            )
        return answer

    def prepare(self, X):
        X = np.asarray(X, dtype=float)
        features = self._ask("sufficient", X, (len(X), None))
        return np.ascontiguousarray(features), self._ask("log_base", X, (len(X),))

    def pack(self, parameters):
        natural = np.ascontiguousarray(self.given(parameters)["natural"])
        if natural.ndim != 2 or 0 in natural.shape:
            raise ValueError(
                "natural must have the shape (components, features), with one or more of each; got "
                f"{natural.shape}."
            )
        if not np.isfinite(natural).all():
            raise NotEnoughData(self.failure)
        offsets = -self._ask("log_partition", natural, natural.shape[:1])
        if not np.isfinite(offsets).all():
            raise NotEnoughData(self.failure)
        expected = np.ascontiguousarray(self._ask("mean", natural, natural.shape))
        return Linear(READY, natural, natural, offsets, expected)

    def refresh(self, packed):
        return True

    def unpack(self, packed):
        return {"natural": packed.natural}

    def start(self, centers):
        centers = np.asarray(centers, dtype=float)
        features = self._ask("sufficient", centers, (len(centers), None))
        return {"natural": self._ask("natural", features, features.shape)}

    def draw(self, parameters, labels, rng, horizon=None):
        natural = parameters["natural"][labels]
        return self._ask("sample", natural, (len(natural), None), rng)

    def cross(self, packed, other, horizon=None):
        return packed.expected @ other.natural.T + other.offsets

    def log_linear_parameters(self, parameters, alphas, held):
        return {"natural": weighted_sum([p["natural"] for p in parameters], alphas)}

    def maximize(self, blocks, mass, packed, fixed=()):
        self.check_blocks(blocks, packed)
        if "natural" in fixed:
            return packed
        alive = mass > 0
        mean = np.where(alive[:, None], blocks["sums"] / np.where(alive, mass, 1)[:, None],
                        packed.expected)  # fmt: skip
        natural = self._ask("natural", mean, mean.shape)
        natural = np.where(alive[:, None], natural, packed.natural)
        return self.pack({"natural": natural})
