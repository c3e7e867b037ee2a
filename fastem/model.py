"""What a model is. Every algorithm in :mod:`fastem.algebra` uses this interface and nothing else.

Adding a model means writing the four functions, and what inference and combining ask for. What has
a default below is optional: it describes a model without components, noise or observations of
different sizes. ``docs/adding-a-model.md`` walks through a whole model.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np

from . import algebra
from .data.rows import as_data
from .learning_rate import LEAST_MEMORY
from .statistics import Expectation, Iterated, Learned, Statistics
from .stopping import Limit

if TYPE_CHECKING:
    from .learner import OneByOne

__all__ = ["Model"]


@runtime_checkable
class Model(Protocol):
    """A model Θ of observations V with hidden variables H.

    A model is a value: nothing is ever assigned to it. Constructors fill in attributes through
    ``vars(self).update(...)``; every other method returns a new model.

    *Data* is a table of observations, a stream of tables, or whatever else the model accepts; a
    *table* has a length, ``sample_weight`` and ``part(first, last)``. A *horizon* is the size of an
    observation, such as the length of a sequence, or a distribution of sizes; models whose
    observations have no size ignore it.
    """

    #: Threads; None: as many as there are cores, one inside a worker. It has no influence on the
    #: result.
    n_jobs: int | None = None
    #: What messages call such a model.
    noun = "model"
    #: What an online step says of observations that are impossible under the model.
    impossible = "An observation has probability zero under the model."

    def __setattr__(self, name, value):
        raise AttributeError(
            f"Models are values, and {name} cannot be assigned: with_parameters and the other "
            "with_... methods return a new model."
        )

    # The four functions ---------------------------------------------------------------------

    @abstractmethod
    def expect(self, data: Any) -> Expectation:
        """``S(V|Θ)``: mean statistics of the observations, and their mean log-likelihood."""

    @abstractmethod
    def own(self, horizon=None) -> Statistics:
        """``S(Θ)``: the model's own expected statistics of one observation."""

    @abstractmethod
    def maximize(self, statistics: Statistics) -> Self:
        """``M(S)``: the model of greatest ``Q(S, ·)``."""

    @abstractmethod
    def log_joint(self, statistics: Statistics) -> float:
        """``Q(S, Θ)``: the expected log-likelihood of observed and hidden variables together."""

    # Batch learning ---------------------------------------------------------------------------

    def iterate(self, data, limit: Limit, prior=None) -> Iterated | None:
        """Steps of batch EM, ``Θ ← M(S(V|Θ))``, where a kernel can take several at once.

        The kernel ends before a step that cannot be taken, or that the user is told of: before an
        E-step whose log-likelihood is not finite, before an M-step without a maximum or with a
        warning. :func:`fastem.algebra.fit` takes that step itself.

        Parameters
        ----------
        data
            As for :meth:`expect`.
        limit : Limit
            Where to stop.
        prior : optional
            What an M-step other than :meth:`maximize` knows besides the statistics.

        Returns
        -------
        Iterated or None
            None if no step was taken: there is no kernel for such data or such a prior, or the
            first step is one of those above.
        """
        return None

    # Online learning --------------------------------------------------------------------------

    @property
    def first_memory(self) -> float:
        """The observations that the automatic rate of online EM remembers at first.

        As many as determine the parameters: ten times the number of parameters over the numbers of
        an observation, or :data:`~fastem.learning_rate.LEAST_MEMORY`.
        """
        return LEAST_MEMORY

    # Inference --------------------------------------------------------------------------------

    def tables(self, data: Any) -> Iterator[Any]:
        """The tables of one pass over data in any form that the model accepts."""
        return as_data(data).tables()

    @abstractmethod
    def log_likelihoods(self, data: Any) -> np.ndarray:
        """The log-likelihood of each observation."""

    @abstractmethod
    def draw(self, n_samples: int, rng: np.random.Generator, horizon=None) -> Any:
        """Observations drawn from the model, as data."""

    # Parameters -------------------------------------------------------------------------------

    @property
    @abstractmethod
    def parameters(self) -> dict[str, np.ndarray]:
        """All parameters by name."""

    @abstractmethod
    def with_parameters(self, parameters) -> Self:
        """The same kind of model with other parameters."""

    @abstractmethod
    def check_same_kind(self, other) -> None:
        """Raise ``ValueError`` unless ``other`` is a model of the same kind and size."""

    def _check_class(self, other, expected: type | None = None) -> None:
        """Raise ``ValueError`` unless ``other`` is of the expected class, by default of this."""
        if type(other) is not type(self) if expected is None else not isinstance(other, expected):
            theirs = getattr(other, "noun", type(other).__name__)
            raise ValueError(f"Models of different kinds: a {self.noun} and a {theirs}.")

    @abstractmethod
    def check_statistics(self, statistics: Statistics) -> None:
        """Raise ``ValueError`` unless these are finite statistics of such a model."""

    def with_n_jobs(self, n_jobs: int | None) -> Self:
        """The same model with another number of threads."""
        return self._copied(n_jobs=n_jobs)

    def _copied(self, **changes) -> Self:
        """The same model with other values of some attributes, which are taken as they are."""
        other = copy.copy(self)
        vars(other).update(changes)
        return other

    # Observations of different sizes ------------------------------------------------------------

    def with_horizon(self, horizon) -> Self:
        """The same model with ``horizon`` as the horizon of :meth:`own` unless it is given."""
        return self

    def after_learning_from(self, table, n_before: float) -> Self:
        """The same model after online steps over a table; it had seen ``n_before`` observations.

        Models of sequences keep the lengths of the sequences.
        """
        return self

    def horizon_of(self, data) -> Any:
        """The horizon of the observations."""
        return self.expect(data).horizon

    # Online learning ----------------------------------------------------------------------------

    def learn(
        self, table, rates, batch_size: int | None = None, memory: Statistics | None = None
    ) -> Learned:
        """Take an online step for each batch of a table, in order.

        Parameters
        ----------
        table
            Observations in memory.
        rates : array of shape (n_batches,)
            The learning rate of each step.
        batch_size : int, optional
            The number of observations of a batch; None: all of them are one batch.
        memory : Statistics, optional
            The running statistics; by default the model is the memory.

        Returns
        -------
        Learned
            The model and the memory (None if the model is the memory) after the last step, and
            the mean log-likelihood of the batches, each under the model that met it.
        """
        return algebra.take_steps(self, table, rates, batch_size, memory)

    def one_by_one(self) -> OneByOne | None:
        """This model, to be changed in place by one observation after another.

        None if there is no quicker way than :meth:`learn`, which a learner then takes.
        """
        return None

    def revived(
        self, inertia: Statistics, gained: Statistics, observation: float, horizon=None
    ) -> Statistics:
        """``inertia``, increased for components that return from almost no weight."""
        return inertia

    # Zeros and noise ------------------------------------------------------------------------------

    def rules_out(self, statistics: Statistics) -> bool:
        """Whether the statistics contain an outcome of probability zero under this model."""
        return False

    def without_noise(self) -> Self:
        """The same model, whose ``expect`` adds no noise to the data."""
        return self

    # Combining --------------------------------------------------------------------------------

    def combined(self, models, weights=None) -> Self | None:
        """The combination of models like this one, if it is not ``M(Σ α_m S(Θ_m))``.

        Posteriors are multiplied. The weights are as they were given; None if all count alike.
        """
        return None

    def log_linear(self, models, alphas, horizon=None) -> Self:
        """The model of least ``Σ α_m Δ(Θ̃, Θ_m)``: of models like this one, the first of them.

        The weights ``alphas`` sum to one; a model of weight zero does not count. What is held fixed
        stays as it is in this model.
        """
        raise ValueError(
            f"Models of the kind {type(self).__name__} cannot be combined in the direction "
            "'reverse': they do not define log_linear, the least total divergence of a model to "
            "several."
        )

    # Models that are made of a number of observations ---------------------------------------------

    def shares(self, models) -> np.ndarray:
        """The weights of several models in their combination, where none are given: equal."""
        return np.full(len(models), 1.0 / len(models))

    def pooled(self, models, alphas) -> Self:
        """This model, whose M-step is to make the combination of several models."""
        return self

    def mixing(self, rho: float, weight: float) -> Self:
        """This model, whose M-step is to mix a batch, of share ``rho`` and this weight, with it."""
        return self

    def beside(self, other) -> Self:
        """The same model, to be compared with ``other``."""
        return self

    def mean_log_likelihood(self, expectation: Expectation) -> float:
        """The mean log-likelihood of observations, from their expectation under this model."""
        return expectation.log_likelihood

    # Alignment ------------------------------------------------------------------------------------

    def check_same_order(self, other) -> None:
        """Raise ``ValueError`` if components of the two cannot correspond in the given order."""
        return None

    def brought_to(self, other, horizon=None) -> Self:
        """An equivalent model (another order or basis) that is nearest to ``other``.

        The divergence to ``other`` never increases. The model itself is returned if it does not
        decrease.
        """
        return self

    def pooled_with(self, first, alphas, horizon=None) -> Self | None:
        """An equivalent model of least total divergence to its combination with ``first``.

        None if this model cannot find the exact minimum.
        """
        return None
