"""The wheel and the source distribution, as they are built: what they hold, and what PyPI shows."""

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import fastem

build = pytest.importorskip("build")
setuptools = pytest.importorskip("setuptools", minversion="77")

ROOT = Path(__file__).resolve().parents[2]


def source_files():
    """The files of the repository, or of the source distribution that this is, from the root."""
    if not (ROOT / ".git").exists():
        made = ("__pycache__", "build", "dist", "fastem.egg-info")
        return [
            path.relative_to(ROOT) for path in ROOT.rglob("*")
            if path.is_file() and not any(name in made for name in path.relative_to(ROOT).parts)
        ]  # fmt: skip
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    paths = map(Path, done.stdout.decode().rstrip("\0").split("\0"))
    return [path for path in paths if (ROOT / path).is_file() and path.name != ".gitignore"]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with both distributions, built without a network in a copy of the tree."""
    folder = tmp_path_factory.mktemp("built")
    tree = folder / "tree"
    for path in source_files():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tree / path)
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, tree],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    """The names of the files in the wheel, with their sizes in it, and its metadata."""
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        sizes = {item.filename: item.compress_size for item in archive.infolist()}
        (metadata,) = [name for name in sizes if name.endswith(".dist-info/METADATA")]
        return sizes, Parser().parsestr(archive.read(metadata).decode())


def test_the_wheel_holds_the_code_and_its_data_and_nothing_else(wheel):
    files = {name for name in wheel[0] if ".dist-info/" not in name}
    expected = {"fastem/py.typed"}
    for path in source_files():
        if path.parts[0] in ("fastem", "kernels") and path.suffix in (".py", ".cpp"):
            place = path if path.parts[0] == "fastem" else Path("fastem", path)
            expected.add(place.as_posix())
    assert "fastem/kernels/mixture/__init__.py" in expected
    assert files == expected


def test_benchmarks_and_experiments_are_a_small_part_of_the_wheel(wheel):
    sizes, _ = wheel
    extra = sum(
        size for name, size in sizes.items()
        if name.startswith(("fastem/bench/", "fastem/experiments/"))
    )  # fmt: skip
    assert 0 < extra < 0.2 * sum(sizes.values())
    assert extra < 150_000


def test_the_metadata_have_the_version_of_the_code(wheel):
    _, metadata = wheel
    assert metadata["Version"] == fastem.__version__
    assert metadata["License-Expression"] == "BSD-3-Clause"
    assert metadata["Description-Content-Type"] == "text/markdown"


def test_links_and_pictures_of_the_page_on_pypi_lead_somewhere(wheel):
    text = wheel[1].get_payload()
    # Code is the same as in README, and everything else but the addresses.
    readme = (ROOT / "README.md").read_text()
    assert re.findall(r"```.*?```", text, re.DOTALL) == re.findall(r"```.*?```", readme, re.DOTALL)
    without_code = re.sub(r"```.*?```|`[^`\n]+`", "", text, flags=re.DOTALL)
    links = re.findall(r"\]\(([^)\s]+)", without_code)
    links += re.findall(r'\b(?:src|href|srcset)="([^"]+)"', without_code)
    links += re.findall(r"^\[[^\]]+\]:\s+(\S+)", without_code, re.MULTILINE)
    assert links and [link for link in links if not re.match(r"https://|#", link)] == []
    ours = r"https://(?:raw\.githubusercontent\.com/fastem/fastem|github\.com/fastem/fastem/blob)"
    places = [found[1] for link in links if (found := re.match(rf"{ours}/v[^/]+/([^#]+)", link))]
    assert places and [place for place in places if not (ROOT / place).exists()] == []
    pictures = re.findall(r"!\[[^\]]*\]\(([^)\s]+)", text)
    assert pictures and all("//raw.githubusercontent.com/" in link for link in pictures)


def test_pypi_can_show_the_page(built):
    pytest.importorskip("twine")
    files = [*built.glob("*.whl"), *built.glob("*.tar.gz")]
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *files],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert len(files) == 2 and done.returncode == 0, done.stdout + done.stderr


def test_the_source_distribution_lacks_nothing(built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    files = {path.as_posix() for path in source_files()}
    assert "tests/conftest.py" in files and "deploy/Dockerfile" in files
    assert files - inside == set()
