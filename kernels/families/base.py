"""What a family of component distributions does inside a kernel.

Each function below is generic: the kind of its first argument, a named tuple of the family's
parameters, chooses the implementation (see ``options.implements``). A product of families is a
plain tuple of such named tuples, each with its own columns of the block; the functions of a
product, at the end of this file, run those of its members.
"""

import numpy as np
from numba import types

from ..options import inlined, is_implemented, kernel, overloaded
from ..rows import BLOCK_ROWS, GROUP, SPARE, on_a_line, read_block

#: Posteriors up to this add nothing to the sums of Gaussian components. A component lives on 1e-14
#: of the mass, so that what they are left out of is larger by 1e46, and a row 1e15 deviations away
#: would not show.
NOTHING = 1e-60

#: A component that is less likely by the first adds nothing to sums, and one that is less likely by
#: the second has the posterior zero.
GAP_OF_SUMS, GAP_OF_POSTERIORS = -np.log(NOTHING), 710.0


def columns_of(family):
    """How many columns of the block the family takes."""


def block_rows(family):
    """How many rows the family likes in a block."""


def usual_block_rows(family):
    """``block_rows`` of most families."""
    return BLOCK_ROWS


def numbers(family, n):
    """Room for ``n`` numbers of the type that the family computes in: float64 or float32."""


def lowest(log_p):
    """Log-densities below this are not precise enough in their type to compare components by."""


@overloaded(lowest)
def _lowest(log_p):
    if log_p.dtype == types.float32:
        return lambda log_p: -1e6
    return lambda log_p: -np.inf


def log_density(family, block, width, n, log_p, work):
    """``log_p[k, i] += log p(x_i | k)`` for the ``n`` rows of a block."""


def accumulate(family, block, width, n, gamma, statistics, work):
    """``statistics += Σ_i γ_ki φ(x_i)`` for the ``n`` rows of a block."""


# Mixtures, where a row belongs to one component or a few, and what is far away need not be known.
# A family that gains by it lays out a block in its own way, for these functions alone.


def work_size(family):
    """How many numbers ``prepare`` writes."""


def prepare(family, work):
    """Before blocks: put into ``work`` what serves all of them, and is left alone by the others."""


def read_rows(family, rows, first, n, block, width):
    """Copy rows into a block."""


def likely_log_density(family, block, width, n, log_p, work, gap):
    """As ``log_density``, or -inf for a component that is less likely by ``gap`` than another."""


def accumulate_likely(family, block, width, n, gamma, statistics, work):
    """As ``accumulate``."""


def horizon_of(family, total, statistics):
    """The mean size of an observation (1 unless it is a count of trials), from statistics."""


def unit_horizon(family, total, statistics):
    """``horizon_of`` families whose observations are not counts of trials."""
    return 1.0


def add_own(family, mass, statistics, horizon):
    """``statistics += mass_k E[φ(x) | k]``, the family's own expected statistics."""


def maximize(family, mass, statistics, fixed):
    """Set the parameters in place to the maximum of Q; False if there is none.

    A component of no mass keeps its parameters. ``fixed`` says which parameters are held. What
    follows from the parameters is left to ``refresh``.
    """


def share(family, counts, mass, fixed):
    """Let the components of a group share a parameter that ``maximize`` has set for each of them.

    ``counts`` (G, M) are the masses of the components, M of a group one after another; a group of
    no ``mass`` (G,) keeps its parameters. For members of ``mixture_of.SharingMixtureOf``.
    """


def refresh(family):
    """Recompute what densities need from the parameters; False if these are impossible."""


# Rows with missing values, marked by NaN. Given the component and what is seen of the row, what is
# not seen has its conditional distribution; the statistics of the row are their expectation.


def log_marginal(family, x, log_p):
    """``log_p[k] += log p(what is seen of x | k)``, for one row."""


def accumulate_missing(family, x, gamma, statistics):
    """``statistics += γ_k E[φ(x) | what is seen of x, k]``, for one row."""


# Online steps with batches of one row, for families that can update a component in less time than
# it takes to recompute it (``mixture.online_rows``).


def row_workspace(family, n_rows):
    """What the functions below need besides the parameters, for steps over ``n_rows`` rows."""


def row_log_density(family, x, workspace, k):
    """``log p(x | k)``; ``workspace`` keeps what ``move_to_row`` needs."""


def move_to_row(family, workspace, k, r):
    """Move component ``k`` by ``r`` to the last row of ``row_log_density``; False if impossible."""


def finish_rows(family, workspace, k):
    """Put into the parameters what ``move_to_row`` has put off; False if impossible."""


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


def _otherwise(generic, implementation):
    """Define ``generic`` for families that do not implement it."""

    @overloaded(generic, strict=False)
    def choose(family, *rest):
        return None if is_implemented(generic, family) else implementation


def _read_rows(family, rows, first, n, block, width):
    read_block(rows, first, n, block, width)


def _likely_log_density(family, block, width, n, log_p, work, gap):
    log_density(family, block, width, n, log_p, work)


def _accumulate_likely(family, block, width, n, gamma, statistics, work):
    accumulate(family, block, width, n, gamma, statistics, work)


_otherwise(numbers, lambda family, n: on_a_line(np.empty(n + SPARE), n))
_otherwise(read_rows, _read_rows)
_otherwise(work_size, lambda family: 0)
_otherwise(prepare, lambda family, work: None)
_otherwise(likely_log_density, _likely_log_density)
_otherwise(accumulate_likely, _accumulate_likely)


@kernel
def _complete(x):
    """Whether nothing is missing."""
    for c in range(x.shape[0]):
        if x[c] != x[c]:
            return False
    return True


@inlined
def _block_of_one(x):
    """A block of one row, and the room for work on it."""
    block = np.zeros(x.shape[0] * GROUP)
    for c in range(x.shape[0]):
        block[c * GROUP] = x[c]
    return block, np.empty(2 * (x.shape[0] + 4) * GROUP)


@inlined
def whole_marginal(family, x, log_p):
    """``log_marginal`` of families that take a row with any missing value as wholly missing."""
    if _complete(x):
        block, work = _block_of_one(x)
        out = np.zeros((log_p.shape[0], GROUP))
        log_density(family, block, GROUP, 1, out, work)
        for k in range(log_p.shape[0]):
            log_p[k] += out[k, 0]


@inlined
def accumulate_whole(family, x, gamma, statistics):
    """``accumulate_missing`` of the same families."""
    if _complete(x):
        block, work = _block_of_one(x)
        weights = np.zeros((gamma.shape[0], GROUP))
        for k in range(gamma.shape[0]):
            weights[k, 0] = gamma[k]
        accumulate(family, block, GROUP, 1, weights, statistics, work)
    else:
        add_own(family, gamma, statistics, 1.0)


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


def _one_log_marginal(family, x, log_p):
    log_marginal(family[0], x, log_p)


def _log_marginal(family, x, log_p):
    log_marginal(family[0], x[: columns_of(family[0])], log_p)
    log_marginal(family[1:], x[columns_of(family[0]) :], log_p)


_product(log_marginal, _one_log_marginal, _log_marginal)


def _one_accumulate_missing(family, x, gamma, statistics):
    accumulate_missing(family[0], x, gamma, statistics[0])


def _accumulate_missing(family, x, gamma, statistics):
    accumulate_missing(family[0], x[: columns_of(family[0])], gamma, statistics[0])
    accumulate_missing(family[1:], x[columns_of(family[0]) :], gamma, statistics[1:])


_product(accumulate_missing, _one_accumulate_missing, _accumulate_missing)
