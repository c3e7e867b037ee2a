"""The command as a process, and a folder of small data for it."""

import contextlib
import io
import os
import subprocess
import sys

import numpy as np
import pytest

from fastem.cli import main

N_ROWS = 300


class Command:
    """The command in a folder: in this process, which has imported everything, or in its own."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self.started = []

    def __call__(self, *arguments, code=0):
        """The output, and the lines on standard error; the exit code is checked."""
        out, err = io.StringIO(), io.StringIO()
        with (
            contextlib.chdir(self.folder), contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):  # fmt: skip
            try:
                found = main([str(argument) for argument in arguments])
            except SystemExit as end:
                found = end.code
        assert found == code, (out.getvalue()[-2000:], err.getvalue()[-4000:])
        return out.getvalue(), err.getvalue().splitlines()

    def process(self, *arguments, stdin=None, code=0, env=None, main=("-m", "fastem")):
        """The same of ``python -m fastem``, in a process."""
        done = subprocess.run(
            [sys.executable, *main, *map(str, arguments)], cwd=self.folder, input=stdin,
            env={**self.environment, **(env or {})}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == code, (done.stdout[-2000:], done.stderr[-4000:])
        return done.stdout, done.stderr.splitlines()

    def start(self, *arguments, **options):
        """A process that goes on; at the latest until the tests of the module have ended."""
        process = subprocess.Popen(
            [sys.executable, "-m", "fastem", *map(str, arguments)], cwd=self.folder,
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            **options,
        )  # fmt: skip
        self.started.append(process)
        return process


def write_csv(path, names, columns):
    rows = [",".join(names)]
    rows += [",".join(map(str, row)) for row in zip(*columns, strict=True)]
    path.write_text("\n".join(rows) + "\n")


def write_data(folder):
    """The files that the examples name."""
    rng = np.random.default_rng(3)
    centers = np.array([[0.0, 0.0], [6.0, 5.0], [0.0, 8.0]])
    X = centers[rng.integers(0, 3, N_ROWS)] + rng.normal(size=(N_ROWS, 2))
    write_csv(folder / "measurements.csv", ["height", "weight"], X.T.tolist())
    write_csv(folder / "log.csv", ["height", "weight"], (X[::-1]).T.tolist())
    write_csv(folder / "more.csv", ["weight", "height"], (X[::2, ::-1]).T.tolist())
    people = np.repeat(["ann", "bob", "cy", "dee"], [40, 50, 30, 20])
    state = np.cumsum(rng.random(len(people)) < 0.15) % 4
    pulse = 60.0 + 10.0 * state + rng.normal(size=len(people))
    write_csv(folder / "visits.csv", ["patient", "pulse"], [people.tolist(), pulse.tolist()])
    level = (np.cumsum(rng.normal(size=80)) + rng.normal(size=80)).tolist()
    level[10] = ""
    write_csv(folder / "series.csv", ["level"], [level])
    write_csv(folder / "counts.csv", list("abcd"), rng.poisson(3, (80, 4)).T.tolist())
    return X


def fit_models(fastem):
    """The models that the examples name."""
    for name, seed in (("model", 1), ("a", 1), ("b", 2), ("c", 3)):
        fastem("fit", "gmm", "measurements.csv", "-k", 3, "--seed", seed, "-o", f"{name}.fastem")
    fastem("fit", "hmm", "visits.csv", "--group", "patient", "-k", 4, "--seed", 1,
           "-o", "visits.fastem")  # fmt: skip
    fastem("fit", "kalman", "series.csv", "-d", 1, "--iterations", 10, "-o", "series.fastem")
    fastem("fit", "dirichlet", "counts.csv", "-o", "counts.fastem")


@pytest.fixture(scope="module")
def fastem(tmp_path_factory):
    """The command, in a folder with data."""
    folder = tmp_path_factory.mktemp("data")
    write_data(folder)
    command = Command(folder)
    yield command
    for process in command.started:
        process.kill()


@pytest.fixture
def series(fastem):
    """The rows of series.csv, of which one is missing."""
    values = (fastem.folder / "series.csv").read_text().splitlines()[1:]
    assert values.count("") == 1
    return np.array([float(value or "nan") for value in values])[:, None]


@pytest.fixture(scope="module")
def fitted(fastem):
    """The command, in a folder with data and models."""
    fit_models(fastem)
    return fastem
