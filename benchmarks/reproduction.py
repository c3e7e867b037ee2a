"""Put what ``fastem reproduce --full`` measured into docs/reproduction.md.

``python -m benchmarks.reproduction DIR``, where DIR is the folder it wrote: claims and figures.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from fastem.experiments.result import Result

from .generated import ROOT, table, write

PAGE = "docs/reproduction.md"
ORDER = ("hmm", "kalman", "dirichlet", "mixture")


def section(result: Result, folder: Path) -> str:
    """One experiment: its setting, figure and claims."""
    lines = [f"## {result.title}", ""]
    lines += [f"- *{name}*: {text}" for name, text in result.setting.items()]
    for figure in result.figures:
        shutil.copy(folder / f"{figure.name}.png", ROOT / "docs/figures" / f"{figure.name}.png")
        lines += ["", f"![{figure.title}](figures/{figure.name}.png)", "", figure.caption]
    rows = [("held" if c.held else "**not held**", c.text, c.measured) for c in result.claims]
    lines += ["", table(["", "claim", "measured"], rows)]
    lines += [f"\n{note}" for note in result.notes]
    return "\n".join(lines)


def main(folder: Path):
    results = [
        Result.from_json(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))
    ]
    results.sort(key=lambda result: ORDER.index(result.experiment))
    if not results:
        raise SystemExit(f"There are no results in {folder}.")
    (ROOT / "docs/figures").mkdir(exist_ok=True)
    held = sum(claim.held for result in results for claim in result.claims)
    total = sum(len(result.claims) for result in results)
    minutes = sum(result.seconds for result in results) / 60
    starts = sorted({result.n_starts for result in results})
    kinds = sorted({result.size for result in results})
    summary = (
        f"{held} of {total} claims held, over {' or '.join(map(str, starts))} starts (size: "
        f"{', '.join(kinds)}), in {minutes:.0f} minutes."
    )
    text = "\n\n".join([summary, *[section(result, folder) for result in results]])
    write(PAGE, "results", text)
    print(summary)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
