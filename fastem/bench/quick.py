"""Calls that may be as short as microseconds: many in a turn, and the best of all turns."""

from __future__ import annotations

from typing import Any

from .side import Disagreement, difference

__all__ = ["measure"]

#: Turns of each side, and seconds of each turn; a longer call is a turn by itself.
_TURNS, _TURN = 4, 0.012
#: Calls of more seconds get fewer turns.
_SLOW, _VERY_SLOW = 0.15, 0.6


def measure(ours, peer=None, turns: int = _TURNS, turn: float = _TURN) -> dict[str, Any]:
    """Seconds of both sides, their ratio, and its spread over the turns; they must agree.

    ``ours`` and ``peer`` have the methods of :class:`~fastem.bench.measured.Measured`. Without a
    peer, our seconds alone.
    """
    sides = [ours] if peer is None else [ours, peer]
    for side in sides:
        side.seconds()
    result: dict[str, Any] = {}
    if peer is not None:
        gap = difference(ours.answer(), peer.answer())
        if not gap <= peer.tolerance:
            raise Disagreement(
                f"the answers differ by {gap:.2g} (relative; {peer.tolerance:.0e} is allowed)"
            )
        result["agreement"] = gap
    longest = max(side.best(0.0) for side in sides)
    n_turns = 1 if longest > _VERY_SLOW else min(turns, 2) if longest > _SLOW else turns
    times = [[side.best(turn) for side in sides] for _ in range(n_turns)]
    best = [min(column) for column in zip(*times, strict=True)]
    result["seconds"] = best[0]
    if peer is not None:
        ratios = [theirs / mine for mine, theirs in times]
        result |= {"peer seconds": best[1], "ratio": best[1] / best[0]}
        result["spread"] = [min(ratios), max(ratios)]
    return result
