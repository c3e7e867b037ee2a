"""What a family of distributions is: the components of mixtures, the emissions of hidden chains."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from .. import checks
from ..exceptions import NotEnoughData
from ..kernels.mixture import expectation as kernels
from ..log_linear import weighted_sum
from ..statistics import Statistics

__all__ = ["Family"]


class Family(ABC):
    """A family of distributions, K of them at a time.

    Parameters are a dict of arrays whose first axis is the component. A *packed* family is the
    named tuple of arrays that kernels work on; *buffers* are the sums a kernel adds to, *blocks*
    the same as named :class:`~fastem.statistics.Statistics`.
    """

    #: The names of the parameters, in the order of the kernels' ``fixed`` flags.
    parameter_names: tuple[str, ...] = ()
    #: Whether values below zero are outside the support.
    nonnegative = False
    #: What a probability or rate that may be zero is taken to be at least. In mixtures an outcome
    #: that was never seen stays almost impossible, and can be learned; in chains zero means never.
    least = 1e-300
    #: Whether a row may have some of its entries missing; a whole row always may.
    separable = False
    #: Whether kernels can do every step, so that the online loop needs no Python.
    compiled = True
    #: Whether kernels use values of the data as indices, so that :meth:`check_indices` matters.
    indexes = False
    #: Whether kernels can move a component to one row without recomputing it (``online_rows``).
    row_by_row = False
    #: Whether every finite number is in the support.
    takes_any_number = False
    #: The names of the parameters that all components share.
    shared_parameters: tuple[str, ...] = ()

    def __eq__(self, other):
        return type(self) is type(other) and self.settings() == other.settings()

    def __hash__(self):
        return hash((type(self), repr(self.settings())))

    def __repr__(self):
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings().items())
        return f"{type(self).__name__}({settings})"

    def settings(self) -> dict:
        """The arguments that make this family, as JSON can hold them."""
        return {}

    @classmethod
    def public_name(cls) -> str:
        """The name by which files and products know the family: that of its class."""
        return cls.__name__

    def to_settings(self) -> dict:
        """What makes this family, as JSON can hold it: its name and its arguments."""
        return {"family": self.public_name(), **self.settings()}

    @classmethod
    def from_settings(cls, settings: dict, make) -> Family:
        """The inverse of :meth:`settings`; ``make`` is the inverse of :meth:`to_settings`."""
        return cls(**settings)

    def beside_weights(self) -> Family:
        """This family with no parameter called ``weights``: a mixture has some of its own."""
        return self

    def as_members(self) -> Family:
        """The family of the members of mixtures of this family, all mixtures taken together.

        It has no shared parameters; those of this family are shared by the members of a mixture.
        """
        return self

    def with_zeros(self) -> Family:
        """This family with zeros meant: an outcome of probability zero is impossible."""
        exact = copy.copy(self)
        exact.least = 0.0
        return exact

    # What a family supplies -----------------------------------------------------------------

    def check(self, X: np.ndarray) -> None:  # noqa: B027 (not every family has something to check)
        """Raise ``ValueError`` if some entry of ``X`` is outside the support."""

    def check_indices(self, X: np.ndarray, missing: bool = False) -> None:  # noqa: B027
        """Raise ``ValueError`` if a value is no index for kernels; ``missing`` allows for NaN."""

    def entry_tests(self, n_columns) -> list | None:
        """For each column a quick test of one value: whether it is finite and in the support.

        None if only :meth:`check` can tell.
        """
        return None

    def support(self) -> tuple[float, float, bool] | None:
        """The least and the largest value of every column, and whether values are whole numbers.

        None if columns differ, or if only :meth:`check` can tell.
        """
        return None

    def columns_missing_together(self, n_columns) -> list[np.ndarray]:
        """The groups of columns of which a row may lack all, and not some."""
        return [] if self.separable else [np.arange(n_columns)]

    def prepare(self, X: np.ndarray):
        """The columns that kernels read, and the part of the log-density they leave out."""
        return X, None

    @abstractmethod
    def pack(self, parameters):
        """The kernels' form of ``parameters``, whose sizes and values are checked here.

        Raises ``ValueError`` if they are impossible, ``TypeError`` if they are not numbers.
        """

    @abstractmethod
    def check_blocks(self, blocks, packed) -> None:
        """Raise ``ValueError`` unless blocks of statistics have the shapes of a packed family."""

    @abstractmethod
    def refresh(self, packed) -> bool:
        """Recompute in place what kernels need from the parameters; False if impossible."""

    @abstractmethod
    def unpack(self, packed) -> dict[str, np.ndarray]:
        """The parameters of a packed family."""

    @abstractmethod
    def buffers(self, packed):
        """Sums, all zero, for a packed family."""

    @abstractmethod
    def collect(self, packed, mass, buffers) -> dict:
        """Blocks of statistics from a kernel's sums."""

    @abstractmethod
    def disperse(self, blocks, packed):
        """A kernel's sums from blocks of statistics; the inverse of :meth:`collect`."""

    @abstractmethod
    def start(self, centers) -> dict[str, np.ndarray]:
        """Parameters of K components near ``centers`` (K, D), about which to take statistics."""

    def stirred(self, parameters, rng) -> dict[str, np.ndarray]:
        """Parameters of a start, moved apart at random where they do not depend on the centers."""
        return parameters

    @abstractmethod
    def draw(self, parameters, labels, rng, horizon=None) -> np.ndarray:
        """One row for each component in ``labels``."""

    @abstractmethod
    def cross(self, packed, other, horizon=None) -> np.ndarray:
        """``E[log p(x | h' of other)]`` for ``x`` from component ``h``, for all pairs.

        It is minus infinity where ``h`` has outcomes that ``h'`` rules out. What is inside
        components, if anything, is matched as it fits best.
        """

    @abstractmethod
    def log_joint(self, blocks, mass, packed) -> float:
        """``Σ_k s₁·θ_k - s₀ G(θ_k)``: the components' part of Q."""

    def size(self, packed) -> tuple[int, int]:
        """The number of components, and of the columns that kernels read."""
        return np.shape(next(iter(self.unpack(packed).values())))[:2]

    def n_parameters(self, parameters) -> int:
        """The number of free parameters."""
        return sum(array.size for array in parameters.values())

    # Computing in float32: data of this type may be, where that is accurate enough.

    #: From so many columns densities take most of the time of a hidden Markov model.
    single_columns: ClassVar[int] = 8

    def in_single(self, packed):
        """The packed family with which kernels compute in float32; None where they should not."""
        return None

    def sums_are_precise(self, packed, mass, buffers) -> bool:
        """Whether sums that were computed in float32 are finite, and as good as the data."""
        return True

    # What follows for all -------------------------------------------------------------------

    def given(self, parameters) -> dict[str, np.ndarray]:
        """The parameters by name, as arrays of doubles; raises if some are missing."""
        missing = [name for name in self.parameter_names if name not in parameters]
        if missing:
            raise ValueError(
                f"{self!r} has the parameters {self.parameter_names}; lacking {missing}."
            )
        return {name: checks.numbers(name, parameters[name]) for name in self.parameter_names}

    def steps_in_kernel(self, packed) -> bool:
        """Whether a kernel should take whole steps of batch EM, and not Python."""
        return self.compiled

    def packs_exactly(self, packed) -> bool:
        """Whether ``pack(unpack(packed))`` is what kernels make of ``packed``, to the bit."""
        return self.compiled

    def horizon(self, packed, total, buffers):
        """The mean size of an observation, if the family's observations have one."""
        return None

    def flags(self, fixed) -> np.ndarray:
        """The kernels' form of the names of parameters held fixed."""
        return np.array([name in fixed for name in self.parameter_names])

    def reorder(self, parameters, order) -> dict[str, np.ndarray]:
        """The parameters with the components in another order."""
        return {name: array[order] for name, array in parameters.items()}

    def rules_out(self, blocks, mass, packed) -> bool:
        """Whether some component has outcomes in the statistics that its parameters rule out."""
        return False

    def without_noise(self, packed):
        """The packed family that takes data as they are: with no noise added to them."""
        return packed

    def arranged(self, packed, other, horizon=None):
        """The packed family with what is inside its components in the order of ``other``'s.

        Component k is arranged for the least divergence to component k of ``other``. Returns
        ``packed`` itself if nothing has to move.
        """
        return packed

    def pooled(self, packed, mass, other, other_mass, horizon=None, fixed=()) -> np.ndarray | None:
        """What Q of a combination gains from putting ``h`` and ``h'`` into one component.

        ``max_θ mass_h E_h[log p(x|θ)] + mass_h' E_h'[log p(x|θ)]`` for all pairs; parameters that
        are ``fixed`` stay those of ``h``. None where such a table does not exist.
        """
        n, m = len(mass), len(other_mass)
        rows, columns = np.repeat(np.arange(n), m), np.tile(np.arange(m), n)
        one = self.pack(self.reorder(self.unpack(packed), rows))
        two = self.pack(self.reorder(self.unpack(other), columns))
        a, b = mass[rows], other_mass[columns]
        blocks = Statistics(**self.own(one, a, horizon)) + Statistics(**self.own(two, b, horizon))
        best = self.maximize(blocks, a + b, one, fixed)
        pair = np.arange(n * m)
        first = self.cross(packed, best, horizon)[rows, pair]
        second = self.cross(other, best, horizon)[columns, pair]
        return (_times(a, first) + _times(b, second)).reshape(n, m)

    def pooled_orders(
        self, packed, mass, other, other_mass, orders, horizon=None, fixed=()
    ) -> np.ndarray | None:
        """The same in total for each order of the components of ``other``, a row of ``orders``."""
        table = self.pooled(packed, mass, other, other_mass, horizon, fixed)
        return None if table is None else table[np.arange(len(mass)), orders].sum(axis=1)

    def arranged_to_pool(self, packed, mass, other, other_mass, horizon=None, fixed=()):
        """``other`` with what is inside its components in the order that :meth:`pooled` takes.

        Component k is to be pooled with component k.
        """
        return other

    # The other direction of the divergence, with the new components in the first argument.

    def log_linear(self, packs, alphas, horizon=None, fixed=()):
        """The packed family whose component k has the least ``Σ α_m KL(p̃_k, p_mk)``.

        The natural parameters of several packed families are averaged: ``p̃_k ∝ Π p_mk^α``.
        Parameters that are ``fixed`` stay those of the first. Where ``Π p_mk^α`` is zero
        everywhere, a component is that of the first as well.
        """
        held = [name for name in self.parameter_names if name in fixed]
        if len(held) == len(self.parameter_names):
            return packs[0]
        parameters = [self.unpack(packed) for packed in packs]
        return self.pack(self.log_linear_parameters(parameters, alphas, held))

    def log_linear_parameters(self, parameters, alphas, held) -> dict[str, np.ndarray]:
        """Its parameters from those of several; some, but not all, may be ``held``."""
        raise ValueError(
            f"Models of {self!r} cannot be combined in the direction 'reverse': the family does "
            "not say what its natural parameters are (log_linear_parameters)."
        )

    def _none_held(self, held):
        if held:
            raise ValueError(
                f"Components of {self!r} cannot be combined in the direction 'reverse' while "
                f"{held} are held fixed: the least total divergence then has no closed form. "
                "Hold all parameters, or none."
            )

    def log_linear_costs(self, packed, packs, alphas, horizon=None) -> np.ndarray:
        """``Σ α_m KL(p_k, p_mk)`` of each component k of ``packed``."""
        itself = np.diag(self.cross(packed, packed, horizon))
        each = (itself - np.diag(self.cross(packed, other, horizon)) for other in packs)
        return weighted_sum(each, alphas)

    def own(self, packed, mass, horizon=None) -> dict:
        """Blocks of the family's own expected statistics, ``mass_k E[φ|k]``."""
        buffers = self.buffers(packed)
        kernels.own(packed, mass, buffers, self.kernel_horizon(horizon))
        return self.collect(packed, mass, buffers)

    def kernel_horizon(self, horizon):
        """The horizon as kernels take it."""
        return 1.0

    def maximize(self, blocks, mass, packed, fixed=()):
        """The packed family of greatest ``Q``; raises ``ValueError`` if there is none."""
        packed = copy_packed(packed)
        buffers = self.disperse(blocks, packed)
        done = kernels.maximize(packed, mass, buffers, self.flags(fixed))
        if not (self.refresh(packed) and done):
            raise NotEnoughData(self.failure)
        return packed

    failure = "The maximum-likelihood parameters of some component do not exist."


def _times(mass, values):
    """``mass · values``, where nothing times minus infinity is nothing."""
    with np.errstate(invalid="ignore"):
        return np.where(mass > 0, mass * values, 0.0)


def copy_packed(packed):
    """A packed family with arrays of its own."""
    if isinstance(packed, tuple):
        parts = [copy_packed(part) for part in packed]
        return type(packed)(*parts) if hasattr(packed, "_fields") else tuple(parts)
    return packed.copy() if isinstance(packed, np.ndarray) else packed
