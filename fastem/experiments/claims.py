"""The paper's claims, as functions of curves."""

from __future__ import annotations

import numpy as np

from .result import Claim, Curve, Level

__all__ = ["above", "never_above", "overtakes", "stable"]


def overtakes(curve: Curve, level: Level, about: int, what: str = "observations") -> Claim:
    """``curve`` is at or below ``level`` after about so many; it holds within three times that."""
    below = np.flatnonzero(curve.mean <= level.mean)
    text = f"{curve.label} passes {level.label} after about {about} {what}"
    if len(below) == 0:
        return Claim(f"{text} (held: by {3 * about})", "never", False)
    at = curve.x[below[0]]
    return Claim(f"{text} (held: by {3 * about})", f"after {at:g} {what}", bool(at <= 3 * about))


def above(curve: Curve, level: Level, percent: float, when: str = "after one epoch") -> Claim:
    """The end of ``curve`` is at most so many percent above ``level``."""
    excess = 100 * (curve.final - level.mean) / abs(level.mean)
    where = "below" if excess < 0 else "above"
    return Claim(
        f"{when}, {curve.label} is close to {level.label} (held: at most {percent:g} % above)",
        f"{curve.final:.2f}, {abs(excess):.2g} % {where} {level.mean:.2f}",
        bool(excess <= percent),
    )


def stable(curves: list[Curve], percent: float, paper: str) -> Claim:
    """The ends of curves of different learning rates are within so many percent."""
    finals = [curve.final for curve in curves]
    spread = 100 * (max(finals) - min(finals)) / abs(min(finals))
    ends = ", ".join(f"{c.final:.2f} for {c.label.split(', ')[-1]}" for c in curves)
    return Claim(
        f"stable in η₀: the spread of the last losses is small ({paper}; held: at most "
        f"{percent:g} %)",
        f"{spread:.2g} %: {ends}",
        bool(spread <= percent),
    )


def never_above(one: Curve, other: Curve, what: str) -> Claim:
    """``one`` is at or below ``other`` at every place but the common start."""
    below = one.mean[1:] <= other.mean[1:] + 1e-12
    return Claim(
        f"{one.label} at or below {other.label} at every {what} (mean over starts)",
        f"at {below.sum()} of {len(below)}",
        bool(below.all()),
    )
