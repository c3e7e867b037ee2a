"""Every Python block of the README and the documents runs as it is printed, page by page."""

import doctest
import functools
import importlib.util
import re
import sys
import types
import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest

import fastem

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PAGES = [
    path for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
    if BLOCK.search(path.read_text())
]  # fmt: skip


def blocks(page):
    """The blocks of a page, each with the number of its first line."""
    text = page.read_text()
    for found in BLOCK.finditer(text):
        yield found[1], text[: found.start(1)].count("\n") + 1


def test_all_fences_of_python_are_found():
    for page in PAGES:
        fences = re.findall(r"^\s*(?:```|~~~) *py", page.read_text(), re.MULTILINE)
        assert len(fences) == len(list(blocks(page))), page.name
    assert {page.name for page in PAGES} >= {"README.md", "hmm.md", "kalman.md", "dirichlet.md"}


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_a_page_runs_as_printed(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, stand_in in (("ray", fake_ray), ("pyspark", fake_pyspark)):
        if find_spec(name) is None:
            for module, content in stand_in().items():
                monkeypatch.setitem(sys.modules, module, content)
    scope = {"__name__": "__main__"}
    try:
        for source, line in blocks(page):
            if source.startswith(">>>"):
                check_session(source, scope, page, line)
                continue
            # Lines are counted as on the page, so that an error points there.
            code = compile("\n" * (line - 1) + source, str(page), "exec")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(code, scope)
    finally:
        if "client" in scope:
            scope["client"].shutdown()


def check_session(source, scope, page, line):
    """Run a session of the interpreter, and compare what it prints."""
    test = doctest.DocTestParser().get_doctest(source, scope, page.name, str(page), line - 1)
    runner = doctest.DocTestRunner()
    said = []
    results = runner.run(test, out=said.append, clear_globs=False)
    assert results.attempted > 0
    assert results.failed == 0, "".join(said)
    scope.update(test.globs)


# Engines that are not installed for the tests, as far as the page uses them --------------------


def fake_ray():
    """Ray with everything in this process."""

    def remote(kind):
        class Actor:
            @staticmethod
            def remote(*arguments):
                actor = kind(*arguments)
                methods = {
                    name: types.SimpleNamespace(remote=getattr(actor, name))
                    for name in vars(kind) if not name.startswith("_")
                }  # fmt: skip
                return types.SimpleNamespace(**methods)

        return Actor

    ray = types.ModuleType("ray")
    ray.remote, ray.put, ray.get = remote, lambda value: value, list
    return {"ray": ray}


class Rows:
    """A distributed data set in a list."""

    def __init__(self, items):
        self.items = list(items)

    def map(self, function):
        return Rows(map(function, self.items))

    def cache(self):
        return self

    def first(self):
        return self.items[0]

    def treeReduce(self, function):
        return functools.reduce(function, self.items)


def fake_pyspark():
    """Spark with everything in this process."""
    context = types.SimpleNamespace(
        parallelize=lambda items, n_slices: Rows(items),
        broadcast=lambda value: types.SimpleNamespace(value=value),
    )
    session = types.SimpleNamespace(sparkContext=context)
    sql = types.ModuleType("pyspark.sql")
    sql.SparkSession = types.SimpleNamespace(
        builder=types.SimpleNamespace(getOrCreate=lambda: session)
    )
    pyspark = types.ModuleType("pyspark")
    pyspark.sql = sql
    return {"pyspark": pyspark, "pyspark.sql": sql}


def test_the_walks_name_functions_that_exist():
    text = (ROOT / "docs" / "architecture.md").read_text()
    hops = set(re.findall(r"`([\w/]+\.py):(\w+)`", text))
    assert len(hops) > 50
    missing = [
        f"{path}:{name}" for path, name in sorted(hops)
        if not re.search(rf"^\s*def {name}\(", (ROOT / path).read_text(), re.MULTILINE)
    ]  # fmt: skip
    assert missing == []


def test_the_tree_names_files_that_exist():
    text = (ROOT / "docs" / "architecture.md").read_text()
    tree = re.search(r"^```\n(fastem/\n.*?)^```$", text, re.DOTALL | re.MULTILINE)[1]
    top = ""
    for line in tree.splitlines():
        names = re.match(r" *((?:[\w.]+(?:\.py|/) *)+)", line)
        if names is None:
            continue
        if not line.startswith(" "):
            top = names[1].split()[0]
            assert (ROOT / top).is_dir(), line
            continue
        for name in names[1].split() if line.startswith("  ") and line[2] != " " else ():
            assert (ROOT / top / name).exists(), line


# Links -------------------------------------------------------------------------------------------

LINK = re.compile(r"(?<!\\)\]\(([^)\s]+)\)")
TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.DOTALL | re.MULTILINE)
#: Pages that Sphinx writes when it builds the site.
MADE = {"auto_gallery/index"}
TEXTS = [
    path for path in [*ROOT.glob("*.md"), *sorted(ROOT.glob("docs/**/*.md"))]
    if "_build" not in path.parts
]  # fmt: skip


def anchors(page):
    """What the headings of a page are linked to by, as on GitHub."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    found = set()
    for heading in re.findall(r"^#+ +(.*?) *$", text, re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", re.sub(r"\]\(.*?\)", "", heading).lower())
        found.add(plain.replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", TEXTS, ids=[str(page.relative_to(ROOT)) for page in TEXTS])
def test_relative_links_lead_somewhere(page):
    text = re.sub(r"^```python.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`\n]+`", "", text)
    broken = []
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        exists = target.exists()
        if not exists or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_page_is_in_the_navigation():
    listed = {ROOT / "docs" / "index.md"}
    for page in TEXTS:
        for block in TOCTREE.findall(page.read_text()):
            for line in block.splitlines():
                if line and not line.startswith(":") and line not in MADE:
                    path = (page.parent / f"{line}.md").resolve()
                    assert path.exists(), f"{page.name}: {line}"
                    listed.add(path)
    assert {page for page in TEXTS if page.parent != ROOT} == listed


def reference_pages():
    """The extension of Sphinx that writes the reference."""
    path = ROOT / "docs" / "_extensions" / "reference_pages.py"
    spec = importlib.util.spec_from_file_location("reference_pages", path)
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    return pages


def test_every_public_name_has_a_page_in_the_reference():
    pages = reference_pages()
    names = [name for _, section in pages.sections() for name in section]
    assert len(names) == len(set(names)) > 80
    shown = {id(pages.found(name)) for name in names}
    for module, inside in pages.developers().items():
        shown.update(id(getattr(getattr(fastem, module), name)) for name in inside)
    public = [f"fastem.{name}" for name in fastem.__all__]
    for module in fastem.MODULES:
        inside = getattr(getattr(fastem, module), "__all__", ())
        public += [f"fastem.{module}.{name}" for name in inside]
    assert [name for name in public if id(pages.found(name)) not in shown] == []


def test_names_in_code_font_lead_to_their_pages():
    known = reference_pages().linkable()
    assert known["GaussianMixture"] == "fastem.GaussianMixture"
    assert known["Poisson"] == "fastem.families.Poisson"
    assert known["combine"] == "fastem.combine"
    assert known["fastem.distributed.fit"] == "fastem.distributed.fit"
    # Names of methods too.
    assert not {"fit", "score", "load", "components", "states"} & set(known)


def test_the_alarm_of_the_guide_is_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope = {}
    for source, _ in blocks(ROOT / "docs" / "guide" / "stream.md"):
        exec(source, scope)
    found = scope["guarded"].drift_
    assert found.detected
    assert 20_000 < found.at < 25_000


def test_the_bayesian_mixture_of_the_guide_finds_the_three_kinds_of_wine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope = {}
    for source, _ in blocks(ROOT / "docs" / "guide" / "cluster.md"):
        exec(source, scope)
    assert (scope["bayesian"].weights_ > 0.05).sum() == 3


def test_members_are_those_a_user_needs():
    pages = reference_pages()
    shown = pages.members(fastem.GaussianMixture)
    assert {"fit", "partial_fit", "predict", "sample", "learner"} <= set(shown)
    noise = [name for name in shown if name.endswith("_request") or "metadata" in name]
    assert noise == []
    # Kernels and models call those of families.
    written = "\n".join(pages._class("fastem.families.Poisson", fastem.families.Poisson))
    assert "automethod" not in written
