"""Tables that programs write into pages, between ``<!-- name: generated -->`` and its end."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def table(header, rows) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def write(page: str, name: str, text: str) -> None:
    """Replace what lies between the marks of ``name`` on a page."""
    path = ROOT / page
    begin, end = f"<!-- {name}: generated -->", f"<!-- end of {name} -->"
    old = path.read_text()
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(old):
        raise ValueError(f"{page} has no place for {name}.")
    path.write_text(pattern.sub(lambda _: f"{begin}\n{text}\n{end}", old))
