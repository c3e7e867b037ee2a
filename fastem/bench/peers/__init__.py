"""The libraries that fastem is measured beside, a file for each.

A file has a function for each task it can do, named as in :mod:`fastem.bench.rows`, from a problem
to a :class:`~fastem.bench.side.Side`. Files are imported only when a row asks for them.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from ..machine import installed_version

__all__ = ["DISTRIBUTIONS", "find", "installed"]

#: What to import, and what to install, for each peer.
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


def installed() -> dict[str, str | None]:
    """The version of each peer; None for those that are not installed."""
    return {
        name: installed_version(distribution) if find_spec(module) else None
        for name, (module, distribution) in DISTRIBUTIONS.items()
    }


def find(name: str) -> ModuleType:
    """The file of a peer; ImportError if the peer is not installed."""
    return import_module(f".{DISTRIBUTIONS[name][0]}", __name__)
