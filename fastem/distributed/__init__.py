"""Learning on many machines: exact EM and online EM on a Dask cluster, or on any other engine.

:func:`fit` and :func:`fit_online` run on Dask (``pip install "fastem[dask]"``). :func:`expect` and
:func:`maximize` are the E-step and the M-step, for any engine that can map and add.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .em_step import expect, maximize
    from .exact import fit, score
    from .online import fit_online

__all__ = ["expect", "fit", "fit_online", "maximize", "score"]

#: The module of each public name; not all of them need Dask.
_HOMES = {
    "expect": "em_step",
    "fit": "exact",
    "fit_online": "online",
    "maximize": "em_step",
    "score": "exact",
}


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f"module 'fastem.distributed' has no attribute {name!r}")
    try:
        module = import_module(f".{_HOMES[name]}", __name__)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("dask", "distributed"):
            raise
        raise ImportError(
            f'fastem.distributed.{name} runs on Dask: pip install "fastem[dask]".'
        ) from error
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__():
    return sorted([*globals(), *_HOMES])
