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

_MADE_OF_ARRAYS = {"statistics": Statistics, "lengths": Lengths}


def save(model, path) -> None:
    """Write a fitted estimator to one file.

    Writing is atomic: after a crash an existing file is intact. The file contains no code (no
    pickle), and arrays are loaded exact to the bit. A ``random_state`` that is a ``RandomState`` is
    loaded as None; a number is kept. A ``callback`` is left out.

    Parameters
    ----------
    model : estimator
    path : str or path-like

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import fastem
    >>> model = fastem.GaussianMixture(1).fit([[0.0], [2.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fastem.save(model, Path(folder) / "model.fastem")
    ...     again = fastem.load(Path(folder) / "model.fastem")
    >>> bool((again.means_ == model.means_).all())
    True
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

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import fastem
    >>> model = fastem.GaussianMixture(1, random_state=5).fit([[0.0], [2.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fastem.save(model, Path(folder) / "model.fastem")
    ...     again = fastem.load(Path(folder) / "model.fastem")
    >>> again
    GaussianMixture(random_state=5)
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
    learned = model._learned_attributes()
    parameters = model.get_params(deep=False)
    if "callback" in parameters:
        # It watches a process, and is no part of a model.
        parameters["callback"] = None
    attributes = {name: value for name, value in vars(model).items() if name in learned}
    return kind, {
        "parameters": _entries(parameters, arrays, f"{prefix}parameter"),
        "attributes": _entries(attributes, arrays, f"{prefix}attribute"),
    }


def _restore(kind, settings, arrays, families, path):
    """The inverse of :func:`_describe`."""

    def unknown(what=""):
        return files.FileError(
            f"{path} holds a {kind}{what}, which this version of fastem does not know. Upgrade "
            "fastem (pip install --upgrade fastem) to read it."
        )

    def get(entries):
        return {name: _get(entry, arrays, families, path) for name, entry in entries.items()}

    made = _kinds().get(kind)
    if made is None:
        raise unknown()
    parameters, attributes = settings["parameters"], settings["attributes"]
    if others := sorted(parameters.keys() - inspect.signature(made).parameters.keys()):
        raise unknown(f" with the settings {others}")
    model = made(**get(parameters))
    model._validate_params()
    if others := sorted(attributes.keys() - set(model._learned_attributes())):
        raise unknown(f" with the attributes {others}")
    for name, value in get(attributes).items():
        setattr(model, name, value)
    model._check_learned()
    model._show_bounds()
    return model


def _kinds():
    return {name: getattr(fastem, name) for name in fastem.ESTIMATORS}


def _entries(values, arrays, key):
    """Settings or attributes, each as its kind and its content; arrays are put aside."""
    return {name: _entry(value, arrays, f"{key}.{name}") for name, value in values.items()}


def _entry(value, arrays, key):
    for kind, made in _MADE_OF_ARRAYS.items():
        if isinstance(value, made):
            parts = value.to_arrays()
            arrays.update({f"{key}.{part}": array for part, array in parts.items()})
            return {kind: {part: f"{key}.{part}" for part in parts}}
    if isinstance(value, Estimator):
        return {"estimator": _describe(value, arrays, f"{key}.")}
    if isinstance(value, list) and any(isinstance(item, Estimator) for item in value):
        described = [_describe(item, arrays, f"{key}.{n}.") for n, item in enumerate(value)]
        return {"estimators": described}
    if isinstance(value, Family):
        return {"family": value.to_settings()}
    if type(value) is Decay:
        return {"decay": [value.eta0, value.beta]}
    if isinstance(value, np.ndarray) and value.dtype.kind in "OU":
        return {"strings": [str(item) for item in value]}
    if isinstance(value, np.ndarray):
        arrays[key] = value
        return {"array": key}
    if isinstance(value, tuple) and any(isinstance(item, np.ndarray) for item in value):
        keys = [f"{key}.{number}" for number in range(len(value))]
        arrays.update(zip(keys, value, strict=True))
        return {"arrays": keys}
    if isinstance(value, dict):
        return {"dict": _entries(value, arrays, key)}
    if isinstance(value, np.random.RandomState):
        # Only later fits and draws use its state, which they do not repeat anyway.
        return {"value": None}
    if callable(value):
        name = key.rpartition(".")[2]
        raise TypeError(
            f"{name} is a function, and files hold no code. Before saving, set it to a number or "
            f"fastem.Decay: model.set_params({name}=fastem.Decay()). After loading, set it back."
        )
    if isinstance(value, (tuple, set, frozenset)):
        return {"tuple": value if isinstance(value, tuple) else sorted(value)}
    return {"value": value}


def _get(entry, arrays, families, path):
    ((kind, content),) = entry.items()
    if kind == "estimator":
        return _restore(*content, arrays, families, path)
    if kind == "estimators":
        return [_restore(*item, arrays, families, path) for item in content]
    if kind in _MADE_OF_ARRAYS:
        for key in content.values():
            checks.numbers(key, arrays[key])
        return _MADE_OF_ARRAYS[kind].from_arrays(
            {part: arrays[key] for part, key in content.items()}
        )
    if kind == "family":
        return family_from_settings(content, families)
    if kind == "decay":
        return Decay(*content)
    if kind == "strings":
        return np.array(content, dtype=object)
    if kind == "array":
        return arrays[content]
    if kind == "arrays":
        return tuple(arrays[key] for key in content)
    if kind == "dict":
        return {name: _get(item, arrays, families, path) for name, item in content.items()}
    return tuple(content) if kind == "tuple" else content
