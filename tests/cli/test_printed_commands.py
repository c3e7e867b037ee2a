"""Examples in the help of commands and in docs/command-line.md run as they are printed."""

import importlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "command-line.md").read_text()


def from_help():
    for name in ("fit", "use", "forecast", "merge", "show", "plot"):
        module = importlib.import_module(f"fastem.cli.{name}")
        for variable in ("EXAMPLES", "SCORE", "PREDICT", "SAMPLE", "COMBINE", "DIVERGENCE"):
            yield from getattr(module, variable, "").strip().splitlines()


def in_page():
    """The commands in blocks of the page; a backslash joins lines."""
    for block in re.findall(r"^```sh\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE):
        yield from block.replace("\\\n", " ").strip().splitlines()


#: What takes long, or never ends, or changes the machine.
NOT_RUN = ("tail -n +1 -f", "pip install", "fastem warmup", "fastem reproduce", "fastem bench")


def run(line, fitted, tmp_path):
    """Run a line in a folder with data and models; by the shell if it has pipes."""
    words = shlex.split(line)
    if words[0] == "fastem" and not {"|", ">"} & set(words):
        fitted(*words[1:])
        return
    if sys.platform == "win32":
        pytest.skip("the examples are for a shell")
    command = tmp_path / "fastem"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fastem "$@"\n')
    command.chmod(0o755)
    environment = {**fitted.environment, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["/bin/sh", "-c", line], cwd=fitted.folder, env=environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (line, done.stderr)


def is_picture(line):
    return "fastem plot" in line


@pytest.mark.parametrize("pictures", [False, True])
@pytest.mark.parametrize("lines", [from_help, in_page])
def test_examples_run(lines, pictures, fitted, tmp_path):
    if pictures:
        pytest.importorskip("matplotlib")
    pytest.importorskip("pyarrow")
    lines = [
        line for line in lines()
        if is_picture(line) == pictures and not any(word in line for word in NOT_RUN)
    ]  # fmt: skip
    assert lines
    for line in lines:
        run(line, fitted, tmp_path)
        if pictures:
            path = fitted.folder / re.search(r"-o (\S+)", line)[1]
            assert path.stat().st_size > 2000


def test_the_page_names_all_commands():
    from fastem.cli.main import main

    with pytest.raises(SystemExit):
        main(["--help"])
    for name in ("fit", "score", "predict", "sample", "forecast", "combine", "divergence", "show",
                 "plot", "warmup", "reproduce", "bench"):  # fmt: skip
        assert f"fastem {name}" in PAGE
