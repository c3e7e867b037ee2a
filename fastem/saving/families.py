"""Families in files: by name, as files hold no code."""

from __future__ import annotations

from .. import families
from .files import FileError

__all__ = ["family_from_settings"]


def family_from_settings(settings, known=()) -> families.Family:
    """The inverse of :meth:`Family.to_settings`; ``known`` are families of the user's own."""
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
    if name not in families.BY_NAME:
        raise FileError(
            f"The file holds a model of the family {name}, which is not one of fastem's. "
            f"Pass it: fastem.load(path, families=[{name}])."
        )
    return families.BY_NAME[name].from_settings(
        settings, lambda inner: family_from_settings(inner, known)
    )
