"""What a family of component distributions does inside a kernel.

Each function below is generic: the kind of its first argument, a named tuple of the family's
parameters, chooses the implementation (see ``options.implements``). A product of families is a
plain tuple of such named tuples, each with its own columns of the block; the functions of a
product, at the end of this file, run those of its members.
"""

from numba import types

from ..options import is_implemented, overloaded


def columns_of(family):
    """How many columns of the block the family takes."""


def block_rows(family):
    """How many rows the family likes in a block."""


def log_density(family, block, width, n, log_p, work):
    """``log_p[k, i] += log p(x_i | k)`` for the ``n`` rows of a block."""


def likely_log_density(family, block, width, n, log_p, work):
    """As ``log_density``, for components one of which is to be chosen by ``log_p`` alone.

    Where a component's posterior is zero whatever it may be, ``log_p`` may stay above the truth.
    """


def accumulate(family, block, width, n, gamma, statistics, work):
    """``statistics += Σ_i γ_ki φ(x_i)`` for the ``n`` rows of a block."""


def horizon_of(family, total, statistics):
    """The mean size of an observation (1 unless it is a count of trials), from statistics."""


def add_own(family, mass, statistics, horizon):
    """``statistics += mass_k E[φ(x) | k]``, the family's own expected statistics."""


def maximize(family, mass, statistics, fixed):
    """Set the parameters in place to the maximum of Q; False if there is none.

    A component of no mass keeps its parameters. ``fixed`` says which parameters are held. What
    follows from the parameters is left to ``refresh``.
    """


def refresh(family):
    """Recompute what densities need from the parameters; False if these are impossible."""


def scale(statistics, factor):
    """``statistics *= factor``, every array of it."""
    for array in statistics:
        array *= factor


@overloaded(scale)
def _scale(statistics, factor):
    if not isinstance(statistics, types.BaseTuple):

        def implementation(statistics, factor):
            flat = statistics.reshape(-1)
            for i in range(flat.shape[0]):
                flat[i] *= factor

    elif len(statistics) == 1:

        def implementation(statistics, factor):
            scale(statistics[0], factor)

    else:

        def implementation(statistics, factor):
            scale(statistics[0], factor)
            scale(statistics[1:], factor)

    return implementation


@overloaded(likely_log_density, strict=False)
def _likely_log_density(family, block, width, n, log_p, work):
    if is_implemented(likely_log_density, family):
        return None
    return lambda family, block, width, n, log_p, work: log_density(
        family, block, width, n, log_p, work
    )


def _product(generic, one, many):
    """Define ``generic`` for a plain tuple: by its first member, and the tuple of the others."""

    @overloaded(generic, strict=False)
    def choose(family, *rest):
        if isinstance(family, types.BaseTuple) and not isinstance(family, types.BaseNamedTuple):
            return one if len(family) == 1 else many
        return None


_product(
    columns_of,
    lambda family: columns_of(family[0]),
    lambda family: columns_of(family[0]) + columns_of(family[1:]),
)


_product(
    block_rows,
    lambda family: block_rows(family[0]),
    lambda family: max(block_rows(family[0]), block_rows(family[1:])),
)


def _one_log_density(family, block, width, n, log_p, work):
    log_density(family[0], block, width, n, log_p, work)


def _log_density(family, block, width, n, log_p, work):
    log_density(family[0], block, width, n, log_p, work)
    log_density(family[1:], block[columns_of(family[0]) * width :], width, n, log_p, work)


_product(log_density, _one_log_density, _log_density)


def _one_accumulate(family, block, width, n, gamma, statistics, work):
    accumulate(family[0], block, width, n, gamma, statistics[0], work)


def _accumulate(family, block, width, n, gamma, statistics, work):
    accumulate(family[0], block, width, n, gamma, statistics[0], work)
    rest = block[columns_of(family[0]) * width :]
    accumulate(family[1:], rest, width, n, gamma, statistics[1:], work)


_product(accumulate, _one_accumulate, _accumulate)


def _one_horizon_of(family, total, statistics):
    return (horizon_of(family[0], total, statistics[0]),)


def _horizon_of(family, total, statistics):
    first = (horizon_of(family[0], total, statistics[0]),)
    return first + horizon_of(family[1:], total, statistics[1:])


_product(horizon_of, _one_horizon_of, _horizon_of)


def _one_add_own(family, mass, statistics, horizon):
    add_own(family[0], mass, statistics[0], horizon[0])


def _add_own(family, mass, statistics, horizon):
    add_own(family[0], mass, statistics[0], horizon[0])
    add_own(family[1:], mass, statistics[1:], horizon[1:])


_product(add_own, _one_add_own, _add_own)


def _one_maximize(family, mass, statistics, fixed):
    return maximize(family[0], mass, statistics[0], fixed[0])


def _maximize(family, mass, statistics, fixed):
    done = maximize(family[0], mass, statistics[0], fixed[0])
    return maximize(family[1:], mass, statistics[1:], fixed[1:]) and done


_product(maximize, _one_maximize, _maximize)


_product(
    refresh,
    lambda family: refresh(family[0]),
    lambda family: refresh(family[1:]) and refresh(family[0]),
)
