"""Results as they are kept: a file that grows row by row, so that a run can be resumed.

``rows``, ``small`` and ``sweep`` are lists of what was measured, each with its ``name``. What is
measured again takes the place of what was measured before.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["PARTS", "empty", "load", "put", "save"]

PARTS = ("rows", "small", "sweep")


def empty() -> dict[str, Any]:
    """Nothing measured."""
    return {"machine": None, "versions": {}, "missing": [], **{part: [] for part in PARTS}}


def load(folder) -> dict[str, Any]:
    """What ``save`` has put into a folder; nothing if there is nothing."""
    path = Path(folder) / "bench.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else empty()


def save(results: dict[str, Any], folder) -> Path:
    """Write ``bench.json`` into a folder; its path."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path, new = folder / "bench.json", folder / "bench.json.new"
    new.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    # A run that is cut off here leaves the old file or the new one.
    new.replace(path)
    return path


def put(results: dict[str, Any], part: str, found: dict[str, Any], order: list[str]) -> None:
    """Add what was measured, or put it in its place; ``order`` has all names, as they are shown."""
    kept = {old["name"]: old for old in results[part] if old["name"] in order}
    old = kept.get(found["name"], {})
    if "cells" in old:
        # Sizes that were not measured now stay.
        cells = {cell["size"]: cell for cell in [*old["cells"], *found["cells"]]}
        found = {**found, "cells": [cells[size] for size in sorted(cells)]}
    kept[found["name"]] = found
    results[part] = [kept[name] for name in order if name in kept]
