"""``python docs/_extensions/check_links.py FOLDER``: do links within a built site lead anywhere?

Every ``href`` and ``src`` that is not on another site has to be a file, and every anchor an ``id``
of that file. Exits with 1 and a list of those that are not.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = set(), set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.links.add(value)
            elif name == "id" or (name == "name" and tag == "a"):
                self.anchors.add(value)


def broken_links(folder):
    """Pairs of a page and a link in it that leads nowhere, and how many links there are."""
    files = [path for path in folder.rglob("*.html") if "_static" not in path.parts]
    pages = {path.resolve(): Page(path) for path in files}
    broken, count = [], 0
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            known = pages.get(target)
            missing = known and parts.fragment and unquote(parts.fragment) not in known.anchors
            if not target.exists() or missing:
                broken.append((path.relative_to(folder.resolve()), link))
    return broken, count


def main(folder):
    broken, count = broken_links(Path(folder))
    for page, link in broken:
        print(f"{page}: {link} leads nowhere", file=sys.stderr)
    print(f"{count} links within the site, {len(broken)} broken")
    return 1 if broken or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
