"""The results as Markdown: the whole of it, and what a reader of README can take in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import picture, results

__all__ = [
    "SHOWN", "SUMMARY", "TABLE", "everything", "failures", "line", "lines_of", "markdown",
    "small_markdown", "summary", "sweep_markdown", "write", "write_into", "write_into_checkout",
]  # fmt: skip

#: The names of the places that are written into: of the rows in README, and of the whole table.
SUMMARY, TABLE = "benchmark summary", "benchmark table"
#: In the folder of the results, and in docs/figures.
_PICTURE = "sizes.png"

#: What README shows: the part, words that its name begins with, and the peer.
SHOWN = [
    ("rows", "GMM full, N=200,000 D=16 K=16, scikit-learn", "scikit-learn"),
    ("rows", "GMM diag, N=60,000 D=784 K=10, Armadillo", "Armadillo"),
    ("rows", "HMM diag Gaussian, 2,000 × T=50 K=4 D=4, hmmlearn", "hmmlearn"),
    ("rows", "HMM diag Gaussian, 1 × T=100,000 K=64 D=4", "dynamax"),
    ("rows", "Kalman EM, 1 × T=2,000 d=5 p=10", "pykalman"),
    ("rows", "Kalman smoothing, 1 × T=20,000 d=5 p=10, 10% missing", "statsmodels"),
    ("rows", "compound Dirichlet, whole fit to 1e-8, N=100,000 D=10", "SciPy"),
    ("small", "small, GaussianMixture.predict, 1 row", "scikit-learn"),
]

_HEAD = [
    "work", "shape", "data", "peer", "its seconds", "fastem", "ratio (spread)", "bar", "goal",
    "log-likelihoods agree to", "of the matrix-product rate",
]  # fmt: skip


# The rows ----------------------------------------------------------------------------------


def markdown(found: dict) -> str:
    """The table of the rows, a line for each row and peer, and the notes below it."""
    lines = [_cells(_HEAD), _cells(["---"] * len(_HEAD))]
    notes: list[str] = []
    for row in found["rows"]:
        for peer in row["peers"]:
            lines.append(line(row, peer, found["machine"]["matrix_product_rate"], notes))
    for number, note in enumerate(notes, 1):
        lines += ["", f"{number}. {note[:1].upper()}{note[1:]}."]
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
    agreement = "stopped before the end" if it["stopped"] else _agreement(it)
    flops = row["useful_flops"]
    # Scoring, decoding and smoothing do less than the iteration that the operations are those of.
    share = f"{flops / row['seconds'] / rate:.0%}" if flops and row["iterates"] else "–"
    return _cells(
        [
            row["work"], row["shape"], row["data"], name, f"{more}{it['seconds']:.4g}",
            f"{row['seconds']:.4g}", _ratio(it, more), _times(it["bar"]), _times(it["goal"]),
            agreement, share,
        ]
    )  # fmt: skip


def _ratio(it, more=""):
    verdict = ""
    if it["ratio"] < 1:
        verdict = "**slower** "
    elif it["bar"] is not None and it["ratio"] < it["bar"]:
        verdict = "**below bar** "
    least, most = it["spread"]
    return f"{verdict}{more}{_times(it['ratio'])} ({_number(least)}–{_number(most)})"


# Small inputs ------------------------------------------------------------------------------


def small_markdown(found: dict) -> str:
    """The table of small inputs; bars without a peer are times."""
    head = ["work", "shape", "peer", "its time", "fastem", "ratio (spread)", "bar", "goal"]
    return _table(head, [_small_cells(row) for row in found["small"] if "seconds" in row])


def _small_cells(row):
    ours = _time(row["seconds"])
    if row["peer"] is None:
        over = "**above bar** " if row["bar"] and row["seconds"] > row["bar"] else ""
        return [row["work"], row["shape"], "–", "–", f"{over}{ours}", "–", _time(row["bar"]),
                _time(row["goal"])]  # fmt: skip
    return [row["work"], row["shape"], row["peer"], _time(row["peer seconds"]), ours, _ratio(row),
            _times(row["bar"]), _times(row["goal"])]  # fmt: skip


# The sweep ---------------------------------------------------------------------------------


def sweep_markdown(found: dict) -> str:
    """For each estimator where it leads least, and every cell that is slower than the peer."""
    curves = [curve for curve in found["sweep"] if curve["cells"]]
    lines = []
    for estimator in dict.fromkeys(curve["estimator"] for curve in curves):
        cells = [
            (cell["ratio"], curve, cell)
            for curve in curves
            if curve["estimator"] == estimator
            for cell in curve["cells"]
        ]
        ratios = sorted(ratio for ratio, _, _ in cells)
        least, curve, cell = min(cells, key=lambda it: it[0])
        n_slower = sum(ratio < 1 for ratio in ratios)
        lines.append(
            [estimator, curve["peer"], str(len(cells)), _times(ratios[len(ratios) // 2]),
             f"{_times(least)}: `{curve['method']}`, {cell['size']:,}", str(n_slower)]
        )  # fmt: skip
    head = ["estimator", "peer", "cells", "median ratio", "least ratio", "slower"]
    text = _table(head, lines)
    slower = [
        [curve["estimator"], f"`{curve['method']}`", f"{cell['size']:,}",
         _time(cell["peer seconds"]), _time(cell["seconds"]), _ratio({**cell, "bar": None})]
        for curve in curves for cell in curve["cells"] if cell["ratio"] < 1
    ]  # fmt: skip
    if not slower:
        return f"{text}\n\nNo cell is slower than the peer."
    head = ["slower", "method", "size", "its time", "fastem", "ratio (spread)"]
    return f"{text}\n\n{_table(head, slower)}"


# Together ----------------------------------------------------------------------------------


def everything(found: dict) -> str:
    """All that was measured."""
    parts = []
    if any(row["peers"] for row in found["rows"]):
        parts.append(markdown(found))
    if any("seconds" in row for row in found["small"]):
        parts.append(f"**Small inputs**\n\n{small_markdown(found)}")
    if any(curve["cells"] for curve in found["sweep"]):
        parts.append(f"**From one row up**\n\n{sweep_markdown(found)}")
    return "\n\n".join([*parts, "\n".join(_below(found))])


def summary(found: dict) -> str:
    """The rows that README shows, and how many of all are slower than the peer."""
    lines = []
    for part, begins, peer in SHOWN:
        for row in found[part]:
            if row["name"].startswith(begins) and "seconds" in row:
                lines.append(_summary_cells(row, peer))
    head = ["work", "shape", "beside", "its time", "fastem", "ratio"]
    return f"{_table(head, lines)}\n\n{_verdict(found)}\n\n{_measured_on(found['machine'])}"


def _summary_cells(row, peer):
    it = row["peers"].get(peer) if "peers" in row else {**row, "seconds": row["peer seconds"]}
    if it is None:
        return [row["work"], row["shape"], peer, "not measured", _time(row["seconds"]), "–"]
    return [row["work"], row["shape"], peer, _time(it["seconds"]), _time(row["seconds"]),
            f"**{_times(it['ratio'])}**"]  # fmt: skip


def _verdict(found):
    """In how many comparisons fastem is slower, and which they are, or the worst of many."""
    ratios = list(_ratios(found))
    slower = sorted((ratio, name) for name, ratio in ratios if ratio < 1)
    named = [f"{name} ({_times(ratio)})" for ratio, name in slower]
    which = "none came out slower"
    if len(named) > 8:
        which = f"{len(named)} came out slower, most of all {named[0]}"
    elif named:
        which = f"{len(named)} came out slower: {', '.join(named)}"
    return f"Of {len(ratios)} comparisons, from one row to {_largest(found):,}, {which}."


def _largest(found):
    rows = [row["n_observations"] for row in found["rows"] if row["peers"]]
    return max([1, *rows, *(it["size"] for curve in found["sweep"] for it in curve["cells"])])


def _ratios(found) -> Iterator[tuple[str, float]]:
    for row in found["rows"]:
        for peer, it in row["peers"].items():
            yield f"{row['work']}, {row['shape']}, {peer}", it["ratio"]
    for row in found["small"]:
        if "ratio" in row:
            yield f"{row['work']}, {row['shape']}", row["ratio"]
    for curve in found["sweep"]:
        for cell in curve["cells"]:
            yield f"{curve['estimator']} `{curve['method']}` at {cell['size']:,}", cell["ratio"]


def lines_of(part: str, it: dict, machine: dict) -> list[str]:
    """What to print of something that was just measured."""
    said = [f"{it['name']}: {message}" for message in it["failures"]]
    if part == "rows":
        for peer, found in it["peers"].items():
            said.append(f"agree {found['agrees']}: {found['our answer']:.12g} fastem, "
                        f"{found['answer']:.12g} {peer}")  # fmt: skip
            said.append(line(it, peer, machine["matrix_product_rate"], []))
    elif part == "small" and "seconds" in it:
        said.append(_cells(_small_cells(it)))
    elif part == "sweep" and it["cells"]:
        ratios = " ".join(f"{cell['size']:,}: {_times(cell['ratio'])}" for cell in it["cells"])
        said.append(f"{it['name']}: {ratios}")
    return said


def failures(found: dict) -> list[str]:
    """What could not be measured, and why."""
    return [
        f"{it['name']}: {message}"
        for part in results.PARTS
        for it in found[part]
        for message in it["failures"]
    ]


def _below(found):
    for message in failures(found):
        yield f"**Not measured:** {message}"
        yield ""
    if found["missing"]:
        yield f"Not installed, and so not measured: {', '.join(found['missing'])}."
        yield ""
    machine = found["machine"]
    versions = {**machine["versions"], **found["versions"]}
    named = ", ".join(f"{name} {number}" for name, number in versions.items() if number)
    yield (
        f"{_measured_on(machine)[:-1]}, Python {machine['python']}; {named}; matrix product "
        f"{machine['matrix_product_rate'] / 1e9:.0f} GF/s."
    )


def _measured_on(machine):
    busy = machine.get("busy", 0.0)
    others = f", while other programs used {busy:.0%} of them" if busy > 0.05 else ""
    return f"Measured on {machine['cpu']}, {machine['cores']} cores{others}."


def _cells(cells):
    return f"| {' | '.join(cells)} |"


def _table(head, lines):
    return "\n".join(map(_cells, [head, ["---"] * len(head), *lines]))


def _number(value):
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _times(value):
    if value is None:
        return "–"
    if value < 1:
        return f"{value:.2f}×"
    return f"{_number(float(value)).removesuffix('.0')}×"


def _time(value):
    if value is None:
        return "–"
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= unit or name == "µs":
            return f"{value / unit:.3g} {name}"
    raise AssertionError


def _agreement(it):
    when = "" if it["agrees"].startswith(("after 2", "in the end")) else f", {it['agrees']}"
    return f"{max(it['agreement'], 1e-16):.0e}{when}"


# Files -------------------------------------------------------------------------------------


def write(found: dict[str, Any], folder) -> list[Path]:
    """``bench.json``, ``bench.md`` and the picture in a folder; their paths."""
    folder = Path(folder)
    paths = [results.save(found, folder), folder / "bench.md"]
    paths[1].write_text(everything(found) + "\n", encoding="utf-8")
    return paths + _write_picture(found, folder)


def _write_picture(found, folder):
    curves = [curve for curve in found["sweep"] if curve["cells"]]
    if not curves:
        return []
    try:
        return [picture.draw(curves, Path(folder) / _PICTURE)]
    except ImportError:
        print('matplotlib is not installed: no picture (pip install "fastem[bench]").')
        return []


def write_into_checkout(found: dict, root) -> list[Path]:
    """README, the page on performance, and the picture; their paths."""
    root = Path(root)
    readme, page = root / "README.md", root / "docs" / "performance.md"
    write_into(readme, SUMMARY, summary(found))
    write_into(page, TABLE, everything(found))
    return [readme, page, *_write_picture(found, root / "docs" / "figures")]


def write_into(path, name: str, text: str) -> None:
    """Put a text between the marks of a name in a Markdown file."""
    path = Path(path)
    begin, end = f"<!-- {name}: generated -->", f"<!-- end of {name} -->"
    old = path.read_text(encoding="utf-8")
    if old.count(begin) != 1 or old.count(end) != 1 or old.index(begin) > old.index(end):
        raise ValueError(f"{path} must have {begin} and, below, {end}, once each.")
    head, rest = old.split(begin)
    path.write_text(f"{head}{begin}\n{text}\n{end}{rest.split(end)[1]}", encoding="utf-8")
