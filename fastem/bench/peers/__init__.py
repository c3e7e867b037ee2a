"""The libraries that fastem is measured beside, a file for each.

A file has a function for each task it can do, named as in :mod:`fastem.bench.rows`, from a problem
to a :class:`~fastem.bench.side.Side`. Files are imported only when a row asks for them.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from ..machine import installed_version

__all__ = ["DISTRIBUTIONS", "find", "installed", "needs"]

#: What to import, and what to install, for each peer of Python's.
DISTRIBUTIONS = {
    "scikit-learn": ("sklearn", "scikit-learn"),
    "hmmlearn": ("hmmlearn", "hmmlearn"),
    "pomegranate": ("pomegranate", "pomegranate"),
    "dynamax": ("dynamax", "dynamax"),
    "pykalman": ("pykalman", "pykalman"),
    "simdkalman": ("simdkalman", "simdkalman"),
    "statsmodels": ("statsmodels", "statsmodels"),
    "mlpack": ("mlpack", "mlpack"),
    "SciPy": ("scipy", "scipy"),
}
_FILES = {name: module for name, (module, _) in DISTRIBUTIONS.items()} | {"Armadillo": "armadillo"}


@cache
def installed() -> dict[str, str | None]:
    """The version of each peer; None for those that are not installed."""
    there = {
        name: installed_version(distribution) if find_spec(module) else None
        for name, (module, distribution) in DISTRIBUTIONS.items()
    }
    return there | {"Armadillo": find("Armadillo").version()}


def needs(name: str) -> str:
    """What to install for a peer."""
    if name == "Armadillo":
        return "a C++ compiler and its headers; of Debian g++ and libarmadillo-dev"
    return 'pip install "fastem[bench]"'


def find(name: str) -> ModuleType:
    """The file of a peer; ImportError if the peer is not installed."""
    return import_module(f".{_FILES[name]}", __name__)
