"""Put what ``fastem reproduce --full`` measured into docs/reproduction.md.

``python -m benchmarks.reproduction DIR``, where DIR is the folder it wrote: claims and figures.
Experiments of which there is nothing in DIR stay on the page as they are.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from fastem.experiments import NAMES
from fastem.experiments.report import grouped, tally
from fastem.experiments.result import Result

from .generated import ROOT, table, write

PAGE = "docs/reproduction.md"


def section(group: list[Result], folder: Path) -> str:
    """One experiment: its claims with what each reading found, then settings and figures."""
    first = group[0]
    lines = [f"## {first.title}", "", f"{tally(group)}, over {first.n_starts} starts.", ""]
    head = ["claim", "the paper", *[result.reading or "found" for result in group]]
    lines += [table(head, [claim_row(group, n) for n in range(len(first.claims))])]
    for result in group:
        if result.reading:
            kind = "Main reading" if result.main else "Other reading"
            lines += ["", f"### {kind}: {result.reading}"]
        lines += ["", *[f"- *{name}*: {text}" for name, text in result.setting.items()]]
        for figure in result.figures:
            shutil.copy(folder / f"{figure.name}.png", ROOT / "docs/figures" / f"{figure.name}.png")
            lines += ["", f"![{figure.title}](figures/{figure.name}.png)", "", figure.caption]
        lines += [f"\n{note}" for note in result.notes]
    return "\n".join(lines)


def claim_row(group: list[Result], n: int) -> list[str]:
    """The n-th claim, what the paper says of it, and what each reading found."""
    claim = group[0].claims[n]
    found = [result.claims[n] for result in group]
    marks = [f"{'held' if f.held else '**not held**'}: {f.measured}" for f in found]
    return [f"{claim.text} (held if: {claim.rule})", claim.paper, *marks]


def main(folder: Path):
    results = [
        Result.from_json(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))
    ]
    if not results:
        raise SystemExit(f"There are no results in {folder}.")
    (ROOT / "docs/figures").mkdir(exist_ok=True)
    for name in NAMES:
        groups = grouped([result for result in results if result.experiment == name])
        if groups:
            text = "\n\n".join(section(group, folder) for group in groups)
            write(PAGE, f"results of {name}", text)
    print(tally(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
