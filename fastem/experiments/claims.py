"""The paper's claims, as functions of curves."""

from __future__ import annotations

import numpy as np

from .result import Claim, Curve, Level

__all__ = ["OURS", "above", "never_above", "overtakes", "stable"]

#: In the place of the paper's words, where it has none.
OURS = "says nothing of it; a comparison of ours"


def _percent(number):
    """Two digits, and whole numbers in full."""
    return f"{number:.0f} %" if number >= 10 else f"{number:.2g} %"


def overtakes(
    curve: Curve, level: Level, about: float, what: str = "sequences", paper: str | None = None
) -> Claim:
    """``curve`` is at or below ``level`` after about so many; it holds within three times that."""
    below = np.flatnonzero(curve.mean <= level.mean)
    measured, held = "never", False
    if len(below) > 0:
        at = curve.x[below[0]]
        measured, held = f"after {at:g} {what}", bool(at <= 3 * about)
    return Claim(
        f"online EM soon passes {level.label}",
        measured,
        held,
        f"after about {about:g} {what}" if paper is None else paper,
        f"by {3 * about:g} {what}",
    )


def above(curve: Curve, level: Level, percent: float, paper: str) -> Claim:
    """The end of ``curve`` is at most so many percent above ``level``."""
    excess = 100 * (curve.final - level.mean) / abs(level.mean)
    where = "below" if excess < 0 else "above"
    return Claim(
        f"online EM ends close to {level.label}",
        f"{curve.final:.2f}, {_percent(abs(excess))} {where} {level.mean:.2f}",
        bool(excess <= percent),
        paper,
        f"at most {percent:g} % above",
    )


def stable(curves: list[Curve], percent: float, paper: str) -> Claim:
    """The ends of curves of different learning rates are within so many percent."""
    finals = [curve.final for curve in curves]
    spread = 100 * (max(finals) - min(finals)) / abs(min(finals))
    ends = ", ".join(f"{c.final:.2f} for {c.label.split(', ')[-1]}" for c in curves)
    return Claim(
        "online EM is stable in η₀: its last losses hardly depend on it",
        f"{_percent(spread)} apart: {ends}",
        bool(spread <= percent),
        paper,
        f"at most {percent:g} % apart",
    )


def never_above(one: Curve, other: Curve, what: str, paper: str) -> Claim:
    """``one`` is at or below ``other`` at every place but the common start."""
    below = one.mean[1:] <= other.mean[1:] + 1e-12
    return Claim(
        f"{one.label} combining is consistently at least as good as {other.label}",
        f"at {below.sum()} of {len(below)} {what}s",
        bool(below.all()),
        paper,
        f"at or below it at every {what}, in the mean over the starts",
    )
