"""Families of component distributions."""

from __future__ import annotations

from ..files import FileError
from .base import ExponentialFamily, Family
from .categorical import Categorical
from .compound_dirichlet import DirichletMultinomial
from .gaussian import Gaussian
from .linear import Bernoulli, Beta, Exponential, Gamma, Multinomial, Poisson
from .mixture_of import MixtureOf
from .product import Product

__all__ = ["Bernoulli", "Beta", "Categorical", "DirichletMultinomial", "Exponential",
           "ExponentialFamily", "Family", "Gamma", "Gaussian", "MixtureOf", "Multinomial",
           "Poisson", "Product"]  # fmt: skip

_BY_NAME = {
    kind.__name__: kind
    for kind in (
        Bernoulli,
        Beta,
        Categorical,
        DirichletMultinomial,
        Exponential,
        Gamma,
        Gaussian,
        Multinomial,
        Poisson,
    )
}


#: The names of the families that need no arguments.
FAMILY_NAMES = tuple(sorted(name.lower() for name in _BY_NAME if name != "Categorical"))


def as_family(family) -> Family:
    """A family from an instance, or from the lower-case name of one that needs no arguments."""
    if isinstance(family, Family):
        return family
    if isinstance(family, str) and family in FAMILY_NAMES:
        return next(kind for name, kind in _BY_NAME.items() if name.lower() == family)()
    if isinstance(family, str) and family == "categorical":
        raise ValueError(
            "The categorical family needs the number of categories: pass "
            "fastem.families.Categorical(n_categories) instead of its name."
        )
    raise ValueError(
        f"family must be one of {list(FAMILY_NAMES)}, or an instance from fastem.families or of a "
        f"subclass of fastem.ExponentialFamily; got {family!r}."
    )


def family_to_settings(family) -> dict:
    """What makes a family, as JSON can hold it."""
    # The kinds of Gaussian are private subclasses; any other class has its own name.
    kind = Gaussian if isinstance(family, Gaussian) else type(family)
    return {"family": kind.__name__, **family.settings()}


def family_from_settings(settings, known=()) -> Family:
    """The inverse of :func:`family_to_settings`; ``known`` are families of the user's own."""
    settings = dict(settings)
    name = settings.pop("family")
    for family in known:
        if isinstance(family, type) and family.__name__ == name:
            return family(**settings)
        if type(family).__name__ == name:
            if family.settings() != settings:
                raise FileError(
                    f"The file holds a model of the family {name} with the settings {settings}, "
                    f"and the one that was passed has {family.settings()}."
                )
            return family
    if name == "MixtureOf":
        member = family_from_settings(settings.pop("member"), known)
        return MixtureOf(member, **settings)
    if name == "Product":
        members = [(family_from_settings(f, known), c) for f, c in settings["members"]]
        return Product(*members)
    if name not in _BY_NAME:
        raise FileError(
            f"The file holds a model of the family {name}, which is not one of fastem's. "
            f"Pass it: fastem.load(path, families=[{name}])."
        )
    return _BY_NAME[name](**settings)
