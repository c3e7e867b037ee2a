"""Saving fitted estimators to files and loading them."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

import fastem

from .. import checks
from ..estimator import Estimator
from ..families import Family
from ..learning_rate import Decay
from ..lengths import Lengths
from ..statistics import Statistics
from . import files
from .families import family_from_settings

__all__ = ["load", "save"]


def save(model, path) -> None:
    """Write a fitted estimator to one file.

    Writing is atomic: after a crash an existing file is intact. The file contains no code (no
    pickle), and arrays are loaded exact to the bit. A ``random_state`` that is a ``RandomState`` is
    loaded as None; a number is kept.

    Parameters
    ----------
    model : estimator
    path : str or path-like
    """
    arrays = {}
    kind, settings = _describe(model, arrays, "")
    files.write(path, kind, settings, arrays)


def load(path, *, families=()) -> Any:
    """Read an estimator that :func:`save` wrote.

    Parameters
    ----------
    path : str or path-like
    families : sequence of Family
        Your own families that the model may use, classes or instances: files contain no code.

    Returns
    -------
    estimator

    Raises
    ------
    FileError
        If the file was not written by fastem, or does not contain what such an estimator can have
        learned: other attributes, or arrays whose shapes do not agree.
    """
    kind, settings, arrays = files.read(path)
    try:
        return _restore(kind, settings, arrays, tuple(families), path)
    except files.FileError:
        raise
    except (KeyError, AttributeError, TypeError, ValueError) as error:
        raise files.FileError(
            f"{path} is damaged: it is not what fastem.save writes for a {kind} ({error}). Copy "
            "it again from its source, or save the model again."
        ) from error


def _describe(model, arrays, prefix):
    """The kind of an estimator, and its settings and attributes; arrays are put aside."""
    kind = type(model).__name__
    if _kinds().get(kind) is not type(model):
        raise TypeError(f"Only fastem's own estimators can be saved; got {kind}.")
    settings = {"parameters": {}, "attributes": {}}
    for name, value in model.get_params(deep=False).items():
        _put(settings["parameters"], arrays, f"{prefix}parameter.{name}", name, value)
    learned = model._learned_attributes()
    for name, value in vars(model).items():
        if name in learned:
            _put(settings["attributes"], arrays, f"{prefix}attribute.{name}", name, value)
    return kind, settings


def _restore(kind, settings, arrays, families, path):
    """The inverse of :func:`_describe`."""
    kinds = _kinds()
    upgrade = "of fastem does not know. Upgrade fastem (pip install --upgrade fastem) to read it."
    if kind not in kinds:
        raise files.FileError(f"{path} holds a {kind}, which this version {upgrade}")
    parameters, attributes = settings["parameters"], settings["attributes"]
    unknown = parameters.keys() - inspect.signature(kinds[kind]).parameters.keys()
    if unknown:
        raise files.FileError(
            f"{path} holds a {kind} with the settings {sorted(unknown)}, which this version "
            f"{upgrade}"
        )

    def get(entry):
        return _get(entry, arrays, families, path)

    model = kinds[kind](**{name: get(entry) for name, entry in parameters.items()})
    model._validate_params()
    unknown = attributes.keys() - set(model._learned_attributes())
    if unknown:
        raise files.FileError(
            f"{path} holds a {kind} with the attributes {sorted(unknown)}, which this version "
            f"{upgrade}"
        )
    for name, entry in attributes.items():
        setattr(model, name, get(entry))
    model._check_learned()
    return model


def _kinds():
    return {name: getattr(fastem, name) for name in fastem.ESTIMATORS}


def _put(entries, arrays, key, name, value):
    """Store one setting or attribute, as JSON or as arrays."""
    if isinstance(value, (Statistics, Lengths)):
        parts = value.to_arrays()
        for part, array in parts.items():
            arrays[f"{key}.{part}"] = array
        kind = "statistics" if isinstance(value, Statistics) else "lengths"
        entries[name] = {kind: {part: f"{key}.{part}" for part in parts}}
    elif isinstance(value, Estimator):
        entries[name] = {"estimator": list(_describe(value, arrays, f"{key}."))}
    elif isinstance(value, list) and any(isinstance(item, Estimator) for item in value):
        entries[name] = {
            "estimators": [
                list(_describe(item, arrays, f"{key}.{number}."))
                for number, item in enumerate(value)
            ]
        }
    elif isinstance(value, Family):
        entries[name] = {"family": value.to_settings()}
    elif type(value) is Decay:
        entries[name] = {"decay": [value.eta0, value.beta]}
    elif isinstance(value, np.ndarray) and value.dtype.kind in "OU":
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
        # Only later fits and draws use its state, which they do not repeat anyway.
        entries[name] = {"value": None}
    elif callable(value):
        raise TypeError(
            f"{name} is a function, and files hold no code. Before saving, set it to a number or "
            f"fastem.Decay: model.set_params({name}=fastem.Decay()). After loading, set it back."
        )
    elif isinstance(value, (tuple, set, frozenset)):
        entries[name] = {"tuple": sorted(value) if isinstance(value, (set, frozenset)) else value}
    else:
        entries[name] = {"value": value}


def _get(entry, arrays, families, path):
    ((kind, content),) = entry.items()
    if kind == "estimator":
        return _restore(*content, arrays, families, path)
    if kind == "estimators":
        return [_restore(*item, arrays, families, path) for item in content]
    if kind in ("statistics", "lengths"):
        made = Statistics if kind == "statistics" else Lengths
        for key in content.values():
            checks.numbers(key, arrays[key])
        return made.from_arrays({part: arrays[key] for part, key in content.items()})
    if kind == "family":
        return family_from_settings(content, families)
    if kind == "decay":
        return Decay(*content)
    if kind == "strings":
        return np.array(content, dtype=object)
    if kind == "array":
        return arrays[content]
    if kind == "dict":
        return {name: _get(item, arrays, families, path) for name, item in content.items()}
    return tuple(content) if kind == "tuple" else content
