"""Armadillo: Gaussian mixtures in C++ with OpenMP, by a program that is built when first asked for.

It needs a C++ compiler, which the environment variable ``CXX`` may name, and Armadillo's headers
(Debian's ``libarmadillo-dev``).
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
import weakref
from functools import cache
from pathlib import Path

import numpy as np

from ..side import Problem, Side

__all__ = ["mixture_em", "version"]

_SOURCE = Path(__file__).with_suffix(".cpp")
_FLAGS = ["-std=c++17", "-O3", "-march=native", "-fopenmp", "-DARMA_NO_DEBUG"]
_VERSION = "#include <armadillo>\nARMA_VERSION_MAJOR.ARMA_VERSION_MINOR.ARMA_VERSION_PATCH\n"


def _compiler():
    named = os.environ.get("CXX")
    return next(filter(shutil.which, [named] if named else ["g++", "c++", "clang++"]), None)


@cache
def version() -> str | None:
    """The version of its headers; None without them or without a compiler."""
    compiler = _compiler()
    if compiler is None:
        return None
    command = [compiler, "-std=c++17", "-fopenmp", "-E", "-P", "-x", "c++", "-"]
    found = subprocess.run(command, input=_VERSION, capture_output=True, text=True, check=False)
    if found.returncode:
        return None
    return found.stdout.strip().splitlines()[-1].replace(" ", "")


def _program() -> Path:
    """The program, built unless an earlier run has built it."""
    compiler = _compiler()
    made_of = "\0".join([_SOURCE.read_text(), compiler, *_FLAGS, str(version())])
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fastem"
    program = folder / f"armadillo-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        # Under another name first: a build that is cut off leaves no program.
        with tempfile.TemporaryDirectory(dir=folder) as building:
            made = Path(building) / "program"
            command = [compiler, *_FLAGS, str(_SOURCE), "-o", str(made), "-larmadillo"]
            subprocess.run(command, check=True, capture_output=True)
            made.replace(program)
    return program


class _Running:
    """The program, with the data and the start of a problem."""

    def __init__(self, problem: Problem):
        start, shape = problem.start, problem.shape
        X = np.ascontiguousarray(problem.X, dtype=float)
        precisions = start["precisions_init"]
        full = shape.covariance_type == "full"
        covariances = np.linalg.inv(precisions) if full else 1.0 / precisions
        with tempfile.TemporaryDirectory() as folder:
            rows, first = Path(folder, "rows"), Path(folder, "start")
            X.tofile(rows)
            parts = start["weights_init"], start["means_init"], covariances
            np.concatenate([np.ravel(part) for part in parts]).tofile(first)
            self._process = subprocess.Popen(
                [_program(), shape.covariance_type, *map(str, X.shape), str(shape.n_components),
                 rows, first],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            weakref.finalize(self, _end, self._process)
            # It has read both files when it answers.
            self.run(0)

    def run(self, n_iter):
        if self._ask(f"run {n_iter}") != "done":
            raise RuntimeError("learn() failed")
        return self

    def score(self):
        return float(self._ask("score"))

    def _ask(self, line):
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


def _end(process):
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def mixture_em(problem: Problem) -> Side:
    program = _Running(problem)
    return Side(program.run, lambda program: program.score())
