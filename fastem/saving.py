"""Saving fitted estimators to files and loading them."""

from __future__ import annotations

import numpy as np

from . import files
from .families import Family, family_from_settings, family_to_settings
from .learning_rate import Decay
from .statistics import Statistics

__all__ = ["load", "save"]


def save(model, path) -> None:
    """Write a fitted estimator to one file.

    The file is written whole or not at all: after a crash in the middle the old one is still
    there. It holds no code (no pickle); arrays come back exact to the bit.

    Parameters
    ----------
    model : estimator
    path : str or path-like
    """
    kinds = _kinds()
    kind = type(model).__name__
    if kinds.get(kind) is not type(model):
        raise TypeError(f"Only fastem's own estimators can be saved; got {kind}.")
    arrays, settings = {}, {"parameters": {}, "attributes": {}}
    for name, value in model.get_params(deep=False).items():
        _put(settings["parameters"], arrays, f"parameter.{name}", name, value)
    for name, value in vars(model).items():
        if name.endswith("_") and not name.startswith("_"):
            _put(settings["attributes"], arrays, f"attribute.{name}", name, value)
    files.write(path, kind, settings, arrays)


def load(path, *, families=()):
    """Read an estimator that :func:`save` wrote.

    Parameters
    ----------
    path : str or path-like
    families : sequence of Family
        Instances of the families of your own that the model may use: the file holds no code.

    Returns
    -------
    estimator
    """
    kind, settings, arrays = files.read(path)
    kinds = _kinds()
    if kind not in kinds:
        raise files.FileError(
            f"{path} holds a {kind}, which this version of fastem does not know; upgrade fastem."
        )
    parameters = {
        name: _get(value, arrays, families) for name, value in settings["parameters"].items()
    }
    model = kinds[kind](**parameters)
    for name, value in settings["attributes"].items():
        setattr(model, name, _get(value, arrays, families))
    return model


def _kinds():
    from .gaussian_mixture import GaussianMixture
    from .mixture import Mixture

    return {"GaussianMixture": GaussianMixture, "Mixture": Mixture}


def _put(entries, arrays, key, name, value):
    """Store one setting or attribute, as JSON or as arrays."""
    if isinstance(value, Statistics):
        parts = value.to_arrays()
        for part, array in parts.items():
            arrays[f"{key}.{part}"] = array
        entries[name] = {"statistics": {part: f"{key}.{part}" for part in parts}}
    elif isinstance(value, Family):
        entries[name] = {"family": family_to_settings(value)}
    elif isinstance(value, Decay):
        entries[name] = {"decay": [value.eta0, value.beta]}
    elif isinstance(value, np.ndarray) and value.dtype == object:
        entries[name] = {"strings": [str(item) for item in value]}
    elif isinstance(value, np.ndarray):
        arrays[key] = value
        entries[name] = {"array": key}
    elif isinstance(value, dict):
        inner = {}
        for part, item in value.items():
            _put(inner, arrays, f"{key}.{part}", part, item)
        entries[name] = {"dict": inner}
    elif isinstance(value, np.random.RandomState):
        # Its state is of no use to a fitted model; a later fit draws anew.
        entries[name] = {"value": None}
    elif callable(value):
        raise TypeError(
            f"{name} is a function, and files hold no code. Use a number or fastem.Decay, or set "
            "it back before saving."
        )
    else:
        entries[name] = {"value": value}


def _get(entry, arrays, families):
    ((kind, content),) = entry.items()
    if kind == "statistics":
        return Statistics.from_arrays({part: arrays[key] for part, key in content.items()})
    if kind == "family":
        return family_from_settings(content, families)
    if kind == "decay":
        return Decay(*content)
    if kind == "strings":
        return np.array(content, dtype=object)
    if kind == "array":
        return arrays[content]
    if kind == "dict":
        return {name: _get(item, arrays, families) for name, item in content.items()}
    return tuple(content) if isinstance(content, list) else content
