"""Families of component distributions."""

from __future__ import annotations

from . import gaussian_diagonal, gaussian_full, gaussian_tied  # noqa: F401 (the kinds of Gaussian)
from .base import Family
from .categorical import Categorical
from .compound_dirichlet import DirichletMultinomial
from .gaussian import Gaussian
from .linear import Bernoulli, Beta, Exponential, Gamma, Multinomial, Poisson
from .mixture_of import MixtureOf
from .product import Product
from .user import ExponentialFamily

__all__ = ["Bernoulli", "Beta", "Categorical", "DirichletMultinomial", "Exponential",
           "ExponentialFamily", "Family", "Gamma", "Gaussian", "MixtureOf", "Multinomial",
           "Poisson", "Product"]  # fmt: skip

#: fastem's own families, by name.
BY_NAME = {
    kind.__name__: kind
    for kind in (Bernoulli, Beta, Categorical, DirichletMultinomial, Exponential, Gamma, Gaussian,
                 MixtureOf, Multinomial, Poisson, Product)
}  # fmt: skip

#: The names of the families that need no arguments.
FAMILY_NAMES = tuple(
    sorted(name.lower() for name in BY_NAME if name not in ("Categorical", "MixtureOf", "Product"))
)


def as_family(family) -> Family:
    """A family from an instance, or from the lower-case name of one that needs no arguments."""
    if isinstance(family, Family):
        return family
    if isinstance(family, str) and family in FAMILY_NAMES:
        return next(kind for name, kind in BY_NAME.items() if name.lower() == family)()
    if isinstance(family, str) and family == "categorical":
        raise ValueError(
            "The categorical family needs the number of categories: pass "
            "fastem.families.Categorical(n_categories) instead of its name."
        )
    raise ValueError(
        f"family must be one of {list(FAMILY_NAMES)}, or an instance from fastem.families or of a "
        f"subclass of fastem.ExponentialFamily; got {family!r}."
    )
