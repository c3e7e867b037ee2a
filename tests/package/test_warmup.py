"""Kernels compiled ahead of time: a process that comes after compiles nothing."""

import json
import os
import subprocess
import sys

import pytest

import fastem
from fastem import warming
from fastem.cli import main


def python(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_there_is_a_task_for_every_estimator():
    assert set(warming._TASKS) == set(fastem.ESTIMATORS)


@pytest.mark.parametrize("name, data", [
    ("Dirichlet", "rng.dirichlet(np.ones(4), 30)"),
    ("CompoundDirichlet", "rng.integers(1, 5, (50, 3))"),
])  # fmt: skip
def test_a_process_that_comes_after_compiles_nothing(name, data, tmp_path):
    environment = {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = f"from fastem.cli import main; raise SystemExit(main(['warmup', {name!r}]))"
    code, out, err = python(command, **environment)
    assert code == 0, err
    assert name in out and str(tmp_path) in out and "Compiled 0" not in out
    fit = f"""
import numpy as np
import fastem
from fastem.kernels import options
rng = np.random.default_rng(1)
X = {data}
model = fastem.{name}().fit(X)
model.score(X)
fastem.{name}(batch_size=1).partial_fit(X)
print(options.n_compiled())
"""
    assert python(fit, **environment) == (0, "0\n", "")
    # Again there is nothing to do.
    code, out, err = python(command, **environment)
    assert code == 0 and "Compiled 0 kernels" in out, err


def test_names_are_checked(capsys):
    with pytest.raises(ValueError, match="no estimator 'GaussianMixtur'; choose from .*Gaussian"):
        fastem.warmup("GaussianMixtur")
    assert main(["warmup", "nothing"]) == 2
    assert "no model 'nothing'" in capsys.readouterr().err
    assert main(["warmup", "--jobs", "0"]) == 2


def test_without_a_place_for_files_it_says_so(tmp_path):
    # Below a regular file no folder can be made, not even by the superuser.
    (tmp_path / "file").write_text("")
    code, out, err = python(
        "from numba.core import caching\n"
        "caching.CacheImpl._locator_classes = caching.CacheImpl._locator_classes[:1]\n"
        "from fastem.cli import main\n"
        "raise SystemExit(main(['warmup', 'Dirichlet']))",
        NUMBA_CACHE_DIR=str(tmp_path / "file" / "below"),
    )
    assert code == 1
    assert "cannot be kept on disk" in err and "NUMBA_CACHE_DIR" in err
    assert out == ""


@pytest.mark.parametrize("answer", ["unkept", "failed"])
def test_a_process_that_fails_is_an_error(answer, monkeypatch):
    report = json.dumps({"n_compiled": 1, "unkept": "The disk is full."})
    child = f"print('''{report}''')" if answer == "unkept" else "raise SystemExit('no memory')"
    monkeypatch.setattr(warming, "_CHILD", child)
    with pytest.raises(RuntimeError, match="The disk is full|no memory"):
        fastem.warmup("Dirichlet")
