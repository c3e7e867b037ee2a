"""The results of an experiment: curves, figures of them, and claims with what was measured."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

import numpy as np

__all__ = ["Claim", "Curve", "Figure", "Level", "Result", "Size"]


class Size(NamedTuple):
    """How much of an experiment to run."""

    name: str
    n_starts: int

    @property
    def full(self) -> bool:
        """Whether the paper's sizes and data sets are wanted."""
        return self.name == "full"

    @property
    def quick(self) -> bool:
        """Whether it is only a test that everything runs."""
        return self.name == "quick"


@dataclass
class Curve:
    """Losses at the same places ``x`` from several starts, (starts, places)."""

    label: str
    x: list[float]
    losses: list[list[float]]
    shown: bool = True

    @property
    def mean(self) -> np.ndarray:
        """The mean over the starts."""
        return np.mean(self.losses, axis=0)

    @property
    def spread(self) -> np.ndarray:
        """The standard deviation over the starts."""
        return np.std(self.losses, axis=0)

    @property
    def final(self) -> float:
        """The mean loss at the end."""
        return float(self.mean[-1])


@dataclass
class Level:
    """A loss to compare curves with, from each start: a line across the figure."""

    label: str
    losses: list[float]

    @property
    def mean(self) -> float:
        """The mean over the starts."""
        return float(np.mean(self.losses))


@dataclass
class Figure:
    """Curves and levels that are shown together."""

    name: str
    title: str
    x_label: str
    curves: list[Curve]
    levels: list[Level] = field(default_factory=list)
    y_label: str = "negative log-likelihood of an observation"
    log_x: bool = False
    caption: str = ""


@dataclass
class Claim:
    """What is claimed, what was measured, and whether it held.

    ``paper`` is what the paper says of it, and ``rule`` when it counts as held: that is our choice.
    """

    text: str
    measured: str
    held: bool
    paper: str = ""
    rule: str = ""


@dataclass
class Result:
    """One experiment, on one set of data, with one reading of what the paper leaves open.

    ``reading`` is empty where there is only one; ``main`` tells which of several comes first.
    """

    name: str
    experiment: str
    title: str
    size: str
    n_starts: int
    setting: dict[str, str]
    figures: list[Figure]
    claims: list[Claim]
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    reading: str = ""
    main: bool = True

    @property
    def heading(self) -> str:
        """The title, with the reading."""
        return f"{self.title}: {self.reading}" if self.reading else self.title

    @property
    def n_held(self) -> int:
        """How many claims held."""
        return sum(claim.held for claim in self.claims)

    def to_json(self) -> str:
        """Everything, to be read back by :meth:`from_json`."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Result:
        """A result from what :meth:`to_json` wrote."""
        content = json.loads(text)
        for figure in content["figures"]:
            figure["curves"] = [Curve(**curve) for curve in figure["curves"]]
            figure["levels"] = [Level(**level) for level in figure["levels"]]
        content["figures"] = [Figure(**figure) for figure in content["figures"]]
        content["claims"] = [Claim(**claim) for claim in content["claims"]]
        return cls(**content)
