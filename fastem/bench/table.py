"""The results as Markdown and JSON, and into README."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["BEGIN", "END", "line", "markdown", "write", "write_into"]

BEGIN, END = "<!-- benchmark table: generated -->", "<!-- end of benchmark table -->"

_HEAD = [
    "work", "shape", "data", "peer", "its seconds", "fastem", "ratio (spread)", "bar", "goal",
    "log-likelihoods agree to", "of the matrix-product rate",
]  # fmt: skip


def markdown(results: dict) -> str:
    """The table, a line for each row and peer; what was not measured is said below it."""
    lines = [_cells(_HEAD), _cells(["---"] * len(_HEAD))]
    notes: list[str] = []
    rate = results["machine"]["matrix_product_rate"]
    for row in results["rows"]:
        for peer in row["peers"]:
            lines.append(line(row, peer, rate, notes))
    for number, note in enumerate(notes, 1):
        lines += ["", f"{number}. {note[:1].upper()}{note[1:]}."]
    lines += ["", *_below(results)]
    return "\n".join(lines)


def line(row: dict, peer: str, rate: float, notes: list[str]) -> str:
    """One line; notes on peers are collected, and numbered."""
    it = row["peers"][peer]
    name = peer
    if it["note"]:
        if it["note"] not in notes:
            notes.append(it["note"])
        name = f"{peer} ({notes.index(it['note']) + 1})"
    more = "> " if it["stopped"] else ""
    verdict = ""
    if it["ratio"] < 1:
        verdict = "**slower** "
    elif it["bar"] is not None and it["ratio"] < it["bar"]:
        verdict = "**below bar** "
    least, most = it["spread"]
    ratio = f"{verdict}{more}{_times(it['ratio'])} ({_number(least)}–{_number(most)})"
    agreement = "stopped before the end" if it["stopped"] else _agreement(it)
    flops = row["useful_flops"]
    # Scoring, decoding and smoothing do less than the iteration that the operations are those of.
    share = f"{flops / row['seconds'] / rate:.0%}" if flops and row["iterates"] else "–"
    return _cells(
        [
            row["work"], row["shape"], row["data"], name, f"{more}{it['seconds']:.4g}",
            f"{row['seconds']:.4g}", ratio, _times(it["bar"]), _times(it["goal"]), agreement, share,
        ]
    )  # fmt: skip


def _below(results):
    machine = results["machine"]
    for message in results["failures"]:
        yield f"**Not measured:** {message}"
        yield ""
    if results["missing"]:
        yield f"Not installed, and so not measured: {', '.join(results['missing'])}."
        yield ""
    versions = {**machine["versions"], **results["versions"]}
    named = ", ".join(f"{name} {number}" for name, number in versions.items() if number)
    yield (
        f"Measured on {machine['cpu']}, {machine['cores']} cores, Python {machine['python']}; "
        f"{named}; matrix product {machine['matrix_product_rate'] / 1e9:.0f} GF/s."
    )


def _cells(cells):
    return f"| {' | '.join(cells)} |"


def _number(value):
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _times(value):
    return "–" if value is None else f"{_number(float(value)).removesuffix('.0')}×"


def _agreement(it):
    when = "" if it["agrees"].startswith(("after 2", "in the end")) else f", {it['agrees']}"
    return f"{max(it['agreement'], 1e-16):.0e}{when}"


def write(results: dict, folder) -> list[Path]:
    """``bench.json`` and ``bench.md`` in a folder; their paths."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    as_json, as_markdown = folder / "bench.json", folder / "bench.md"
    as_json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    as_markdown.write_text(markdown(results) + "\n", encoding="utf-8")
    return [as_json, as_markdown]


def write_into(path, table: str) -> None:
    """Put the table between the marks in a Markdown file."""
    path = Path(path)
    text = path.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"{path} must have {BEGIN} and, below, {END}, once each.")
    head, rest = text.split(BEGIN)
    path.write_text(f"{head}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}", encoding="utf-8")
