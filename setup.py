"""What pyproject.toml cannot say: the version, where the packages are, the page on PyPI."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
PAGES = "https://github.com/fastem/fastem/blob"
PICTURES = "https://raw.githubusercontent.com/fastem/fastem"

#: The version is written there and nowhere else.
VERSION = re.search(
    r'^__version__ = "(.+)"$',
    (HERE / "fastem" / "__init__.py").read_text(encoding="utf-8"),
    re.MULTILINE,
)[1]


def page():
    """README as PyPI can show it: what is named by its place in the tree, by its address.

    A page on PyPI has no tree beside it. Addresses are those of this version's tag, so that the
    page of a version keeps showing what was in it. A heading of README itself stays as it is.
    """
    text = (HERE / "README.md").read_text(encoding="utf-8")

    def address(match):
        before, path, after = match.groups()
        if re.match(r"[a-z]+:|#|/", path):
            return match[0]
        is_picture = re.search(r"\.(png|svg|gif|jpe?g|webp)$", path)
        root = PICTURES if is_picture else PAGES
        return f"{before}{root}/v{VERSION}/{path}{after}"

    def rewrite(part):
        for link in (
            r"(\]\()([^)\s]+)((?:\s+\"[^\"]*\")?\))",  # [text](place "title"), and pictures
            r"(^\[[^\]]+\]:\s+)(\S+)()",  # [name]: place
            r"(\b(?:src|srcset|href)=\")([^\"]+)(\")",  # HTML
        ):
            part = re.sub(link, address, part, flags=re.MULTILINE)
        return part

    # Every second part is code, where a call of something indexed looks like a link.
    parts = re.split(r"(^```.*?^```|`[^`\n]+`)", text, flags=re.MULTILINE | re.DOTALL)
    parts[::2] = map(rewrite, parts[::2])
    return "".join(parts)


setup(
    version=VERSION,
    packages=[
        *find_packages(include=["fastem", "fastem.*"]),
        *(f"fastem.{name}" for name in find_packages(include=["kernels", "kernels.*"])),
    ],
    package_dir={"fastem": "fastem", "fastem.kernels": "kernels"},
    long_description=page(),
    long_description_content_type="text/markdown",
)
