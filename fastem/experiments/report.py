"""What experiments leave behind: a table on the screen, curves as JSON, figures, and a page."""

from __future__ import annotations

import textwrap
from html import escape
from pathlib import Path

from .. import __version__
from .result import Claim, Figure, Result

__all__ = ["grouped", "summary", "tally", "write", "write_page"]


def grouped(results: list[Result]) -> list[list[Result]]:
    """Results of the same data side by side: the readings of one experiment, the main one first."""
    titles = dict.fromkeys(result.title for result in results)
    return [
        sorted((r for r in results if r.title == title), key=lambda result: not result.main)
        for title in titles
    ]


def tally(results: list[Result]) -> str:
    """How many claims held: with the main readings, and with the others."""
    main = [result for result in results if result.main]
    others = [result for result in results if not result.main]
    if not others:
        return f"{_held(main)} claims held"
    if not main:
        return f"with other readings, {_held(others)} claims held"
    return f"{_held(main)} claims held with main readings, {_held(others)} with other readings"


def _held(results):
    return f"{sum(r.n_held for r in results)} of {sum(len(r.claims) for r in results)}"


def summary(results: list[Result], width: int = 100) -> str:
    """For each experiment its claims: what the paper says, what was found, and whether it held."""
    lines = ["What the paper claims, what it says, and what was found here"]
    if any(result.reading for result in results):
        lines += textwrap.wrap(
            "The paper leaves open from what models its synthetic data come and where learning "
            "starts. Such an experiment is run with two readings: first the main one, which is "
            "closer to the paper's numbers.",
            width,
        )
    if any(result.size == "quick" for result in results):
        lines += textwrap.wrap(
            "This was a small run, which shows that everything works. Whether claims hold is "
            "judged by larger ones, without --quick.",
            width,
        )
    for group in grouped(results):
        starts = f"{group[0].n_starts} start{'s' if group[0].n_starts > 1 else ''}"
        lines += ["", f"{group[0].title} ({starts})"]
        labels = [result.reading or "found" for result in group]
        room = max(len("the paper"), *map(len, labels)) + 2
        for n, claim in enumerate(group[0].claims):
            lines += _wrap("  * ", claim.text, width)
            said = f"{claim.paper} [held here if: {claim.rule}]" if claim.rule else claim.paper
            if said:
                lines += _wrap(f"    {'the paper':<{room + 10}}", said, width)
            for label, result in zip(labels, group, strict=True):
                found = result.claims[n]
                mark = "held" if found.held else "NOT held"
                lines += _wrap(f"    {label:<{room}}{mark:<10}", found.measured, width)
    return "\n".join([*lines, "", *textwrap.wrap(f"In all: {tally(results)}.", width)])


def _wrap(begin, text, width):
    # "η₀ = 1" stays on one line.
    text = text.replace(" = ", "\u00a0=\u00a0").replace(" %", "\u00a0%")
    lines = textwrap.wrap(text, width, initial_indent=begin, subsequent_indent=" " * len(begin))
    return [line.replace("\u00a0", " ") for line in lines]


def write(result: Result, folder: Path) -> list[Path]:
    """Write the curves and, where matplotlib is installed, the figures."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    try:
        from .figures import as_png

        for figure in result.figures:
            path = folder / f"{figure.name}.png"
            path.write_bytes(as_png(figure))
            written.append(path)
    except ImportError:
        print('  (no figures: pip install "fastem[experiments]" brings matplotlib)')
    # The curves are last: where they are, all of the result is.
    path = folder / f"{result.name}.json"
    path.write_text(result.to_json(), encoding="utf-8")
    return [*written, path]


def write_page(results: list[Result], folder: Path) -> Path:
    """One page that shows it all and needs no other file."""
    path = folder / "report.html"
    path.write_text(page(results), encoding="utf-8")
    return path


# The page -------------------------------------------------------------------------------------

STYLE = """
:root { --ink: #1f2937; --soft: #6b7280; --line: #e5e7eb; --paper: #ffffff; --ground: #f6f5f2;
        --held: #1d7a46; --held-ground: #e6f4ec; --not: #b3261e; --not-ground: #fbeae9;
        --link: #1f5fa8; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
       font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 48px 24px 64px; }
h1 { font-size: 32px; line-height: 1.2; margin: 0 0 8px; letter-spacing: -0.01em; }
h2 { font-size: 21px; margin: 0; letter-spacing: -0.005em; }
.lead { color: var(--soft); margin: 0 0 28px; max-width: 46em; }
section { background: var(--paper); border: 1px solid var(--line); border-radius: 14px;
          padding: 28px 32px; margin: 0 0 28px; }
header { display: flex; justify-content: space-between; align-items: baseline; gap: 16px;
         margin: 0 0 18px; flex-wrap: wrap; }
header span { color: var(--soft); font-size: 14px; white-space: nowrap; }
figure { margin: 0 auto 20px; max-width: 760px; }
figure svg { width: 100%; height: auto; display: block; }
figcaption { color: var(--soft); font-size: 14px; margin-top: 8px; }
table { border-collapse: collapse; width: 100%; margin: 8px 0 4px; font-size: 15px; }
th { text-align: left; font-weight: 600; color: var(--soft); font-size: 13px;
     padding: 6px 12px 6px 0; border-bottom: 2px solid var(--line); }
td { padding: 10px 12px 10px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child td { border-bottom: 0; }
td:first-child { width: 92px; }
td:last-child { width: 40%; font-variant-numeric: tabular-nums; }
.held, .not { display: inline-block; border-radius: 999px; padding: 1px 10px; font-size: 13px;
              font-weight: 600; white-space: nowrap; }
.held { color: var(--held); background: var(--held-ground); }
.not { color: var(--not); background: var(--not-ground); }
.overview td:first-child { width: 30%; }
.overview td:nth-child(2) { width: 24%; }
.overview td:last-child { width: 46%; }
.overview td div + div { margin-top: 8px; }
small { color: var(--soft); }
a { color: var(--link); }
details { margin-top: 16px; border-top: 1px solid var(--line); padding-top: 12px; }
summary { cursor: pointer; color: var(--link); font-size: 15px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 6px 20px; margin: 14px 0 0;
     font-size: 15px; }
dt { color: var(--soft); }
dd { margin: 0; }
.numbers { overflow-x: auto; }
.numbers td, .numbers th { width: auto; padding: 5px 14px 5px 0; font-size: 14px;
                           font-variant-numeric: tabular-nums; }
.note { margin: 12px 0 0; font-size: 15px; color: var(--ink); max-width: 60em; }
footer { color: var(--soft); font-size: 13.5px; }
@media (max-width: 640px) { section { padding: 20px 18px; } td:last-child { width: auto; } }
@media print { body { background: #fff; } section { break-inside: avoid; } }
"""


def page(results: list[Result]) -> str:
    """The page as text."""
    sizes = sorted({result.size for result in results})
    lead = (
        "What the paper claims, what it says, and what was found here. It leaves open from what "
        "models its synthetic data come and where learning starts; such an experiment is run with "
        "two readings: first the main one, which is closer to the paper's numbers. Curves are "
        "means over random starts, the bands one standard deviation on either side. In all: "
        f"{tally(results)}."
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>fastem: the paper's experiments</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>Divergence-based online EM: the experiments</h1>
<p class="lead">{escape(lead)}</p>
{"".join(_overview(group) for group in grouped(results))}
{"".join(_section(result) for group in grouped(results) for result in group)}
<footer>Made by fastem {__version__}, size: {escape(", ".join(sizes))}. The raw curves are in the
JSON files beside this page.</footer>
</main>
</body>
</html>
"""


def _overview(group):
    """The claims of an experiment, with what each reading found."""
    head = "".join(f"<th>{name}</th>" for name in ("claim", "the paper", "found"))
    rows = []
    for n, claim in enumerate(group[0].claims):
        rule = f"<br><small>held if: {escape(claim.rule)}</small>" if claim.rule else ""
        found = "".join(
            f"<div>{_mark(result.claims[n])} "
            + (f'<a href="#{escape(result.name)}">{escape(result.reading or "see below")}</a>: ')
            + f"{escape(result.claims[n].measured)}</div>"
            for result in group
        )
        rows.append(
            f"<tr><td>{escape(claim.text)}{rule}</td><td>{escape(claim.paper)}</td>"
            f"<td>{found}</td></tr>"
        )
    return (
        f'<section class="overview"><header><h2>{escape(group[0].title)}</h2></header>'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></section>"
    )


def _section(result: Result) -> str:
    starts = f"{result.n_starts} random start{'s' if result.n_starts > 1 else ''}"
    return f"""
<section id="{escape(result.name)}">
<header><h2>{escape(result.heading)}</h2><span>{starts}, {result.seconds:.0f} s</span></header>
{"".join(_figure(figure) for figure in result.figures)}
<table><thead><tr><th></th><th>claim</th><th>measured</th></tr></thead>
<tbody>{"".join(_claim(claim) for claim in result.claims)}</tbody></table>
{"".join(f'<p class="note">{escape(note)}</p>' for note in result.notes)}
<details><summary>Setting</summary><dl>{
        "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in result.setting.items())
    }</dl></details>
<details><summary>Last losses</summary>{"".join(_numbers(f) for f in result.figures)}</details>
</section>
"""


def _figure(figure: Figure) -> str:
    try:
        from .figures import as_svg

        drawing = as_svg(figure)
    except ImportError:
        drawing = "<p>(matplotlib is not installed: no figure)</p>"
    return f"<figure>{drawing}<figcaption>{escape(figure.caption)}</figcaption></figure>"


def _mark(claim: Claim) -> str:
    return '<span class="held">held</span>' if claim.held else '<span class="not">not held</span>'


def _claim(claim: Claim) -> str:
    cells = (_mark(claim), escape(claim.text), escape(claim.measured))
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _numbers(figure: Figure) -> str:
    rows = [(c.label, f"{c.mean[0]:.3f}", f"{c.final:.3f}", f"{c.spread[-1]:.3f}")
            for c in figure.curves]  # fmt: skip
    rows += [(level.label, "", f"{level.mean:.3f}", "") for level in figure.levels]
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    head = "".join(f"<th>{name}</th>" for name in ("", "start", "end", "deviation over starts"))
    return (
        f'<div class="numbers"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody>'
        "</table></div>"
    )
