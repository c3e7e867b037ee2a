"""Models that travel to hmmlearn and back."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any, Self

import numpy as np

from .custom import HOOKS, overridden_hooks

__all__ = ["Exchange"]


class Exchange:
    """``to_hmmlearn`` and ``from_hmmlearn`` of the classes that have the names of hmmlearn's."""

    #: The module that has hmmlearn's class of this name.
    _module_of_hmmlearn = "hmmlearn.hmm"

    def _travelling(self) -> dict[str, str]:
        """hmmlearn's attributes, and the names by which they are set here."""
        # The setter knows the shapes that hmmlearn has for some covariances.
        return {shown.attribute: f"{shown.name}_" for shown in self._shown()}

    def to_hmmlearn(self) -> Any:
        """The same model as an object of hmmlearn's class of this name.

        Settings that hmmlearn knows, the parameters, and the history of the monitor go with it.

        Returns
        -------
        object
            It has the same scores and paths.

        Raises
        ------
        ImportError
            If hmmlearn is not installed.
        ValueError
            If the model has absorbing states, which hmmlearn does not know.
        """
        if self._chain().absorbing:
            raise ValueError("hmmlearn has no absorbing states: this model cannot go there.")
        kind = _class_of_hmmlearn(type(self))
        settings = self.get_params(deep=False)
        known = inspect.signature(kind).parameters
        theirs = kind(**{name: value for name, value in settings.items() if name in known})
        travelling = self._travelling()
        present = [name for name in travelling if hasattr(self, name)]
        for name in present:
            setattr(theirs, name, _copied(getattr(self, name)))
        if len(present) == len(travelling):
            self._check_not_customized()
            theirs.n_features = self.n_features
        if "n_trials" in known and theirs.n_trials is None and present:
            found = getattr(self, "n_trials_", None)
            # hmmlearn asks for some numbers of trials, and looks at none of them for scores.
            theirs.n_trials = np.empty(0, dtype=int) if found is None else found
        _copy_history(self.monitor_, theirs.monitor_)
        return theirs

    @classmethod
    def from_hmmlearn(cls, model) -> Self:
        """A model of hmmlearn's class of this name, as an object of this class.

        Parameters
        ----------
        model : object
            Of hmmlearn's class, fitted or not.

        Returns
        -------
        object
            It has the same scores and paths.

        Raises
        ------
        ImportError
            If hmmlearn is not installed.
        TypeError
            If ``model`` is of another class, or overrides some of hmmlearn's methods.
        ValueError
            If its parameters are not those of a model.
        """
        kind = _class_of_hmmlearn(cls)
        if not isinstance(model, kind):
            raise TypeError(
                f"Expected an object of {kind.__module__}.{kind.__name__}; got one of "
                f"{type(model).__module__}.{type(model).__name__}."
            )
        if isinstance(model, cls):
            # Of the class that :func:`fastem.patch` has put in the place of hmmlearn's.
            changed = overridden_hooks(model)
        else:
            own, theirs = vars(model), type(model)
            changed = [
                name
                for name in sorted(HOOKS)
                if name in own or getattr(theirs, name, None) is not getattr(kind, name, None)
            ]
        if changed:
            raise TypeError(
                f"{type(model).__name__} overrides {', '.join(changed)}, which would be lost: let "
                f"it inherit from fastem.{cls.__name__} instead."
            )
        names = inspect.signature(kind).parameters
        ours = cls(**{name: getattr(model, name) for name in names})
        shown = ours._shown()
        letters = {one.letter for one in shown}
        for name in ("params", "init_params"):
            setattr(ours, name, "".join(a for a in getattr(ours, name) if a in letters))
        travelling = ours._travelling()
        present = [name for name in travelling if hasattr(model, name)]
        for name in present:
            setattr(ours, travelling[name], _copied(getattr(model, name)))
        if len(present) == len(travelling):
            ours._model()
        _copy_history(model.monitor_, ours.monitor_)
        return ours


def _copied(value):
    """A copy of an array; a number stays a number."""
    array = np.array(value)
    return array if array.ndim else value


def _copy_history(source, target):
    target.iter = source.iter
    target.history.extend(source.history)


def _class_of_hmmlearn(kind):
    """hmmlearn's class with the name of the first class of this package."""
    try:
        module = import_module(kind._module_of_hmmlearn)
    except ImportError as error:
        raise ImportError(
            "hmmlearn is not installed, which this model comes from or goes to: pip install "
            "hmmlearn."
        ) from error
    from ..patching import original_of

    name = next(one.__name__ for one in kind.__mro__ if one.__module__.startswith("fastem."))
    # While fastem.patch is in force, the name leads back here.
    return original_of(getattr(module, name))
