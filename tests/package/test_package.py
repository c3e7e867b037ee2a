"""The package: what is loaded when, and what a source distribution holds."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import fastem

ROOT = Path(__file__).resolve().parents[2]


def python(code, *options):
    done = subprocess.run(
        [sys.executable, *options, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_documented_modules_are_there_from_the_beginning():
    code = "import fastem\nfor name in sorted(fastem.MODULES): print(getattr(fastem, name))"
    assert python(code).count("<module") == len(fastem.MODULES)
    # Each by itself: none is there because another has loaded it.
    name = python("import fastem; print(fastem.families.Poisson.__name__)")
    assert name == ["Poisson"]
    assert python("import fastem; print(fastem.distributed.__name__)") == ["fastem.distributed"]


def test_the_documents_name_no_other_modules():
    text = "".join(path.read_text() for path in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
    text += "".join(path.read_text() for path in ROOT.glob("fastem/*.py"))
    modules = {path.stem for path in ROOT.glob("fastem/*.py")} | {"families", "distributed"}
    named = set(re.findall(r"\bfastem\.([a-z_]+)\b", text)) & modules
    # The command, and what is loaded by its name only, because it needs another package.
    others = {"cli", "river"}
    assert named - others <= {*fastem.MODULES, *fastem.__all__}


def test_importing_fastem_loads_nothing_heavy():
    code = "import fastem, sys; print(*[m for m in ('numba', 'sklearn') if m in sys.modules])"
    assert python(code) == []


def test_every_name_is_listed_and_there():
    assert {*fastem.__all__, *fastem.MODULES} <= set(dir(fastem))
    for name in fastem.__all__:
        # ``fastem.patch`` is a module that can be called, once it was imported as one.
        assert getattr(fastem, name).__name__ in (name, f"fastem.{name}")
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = fastem.nothing
