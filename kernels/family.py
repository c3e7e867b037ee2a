"""What a family of component distributions does inside a kernel.

Each function below is generic: the kind of its first argument, a named tuple of the family's
parameters, chooses the implementation (see ``options.implements``). A product of families is a
plain tuple of such named tuples, each with its own columns of the block.
"""


def log_density(family, block, width, n, log_p, work):
    """``log_p[k, i] += log p(x_i | k)`` for the ``n`` rows of a block, up to the base measure."""


def accumulate(family, block, width, n, gamma, statistics, work):
    """``statistics += Σ_i γ_ki φ(x_i)`` for the ``n`` rows of a block."""


def add_own(family, mass, statistics):
    """``statistics += mass_k E[φ(x) | k]``, the family's own expected statistics."""


def maximize(family, mass, statistics, fixed):
    """Set the parameters in place to the maximum of Q; False if there is none."""
