"""Kernels compiled ahead of time: a process that comes after compiles nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fastem
from fastem import warming
from fastem.cli import main
from fastem.kernels.families.gaussian_diagonal import WIDE


def python(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_there_is_a_task_for_every_estimator():
    assert set(warming._TASKS) == set(fastem.ESTIMATORS)


def test_many_columns_are_those_with_kernels_of_their_own():
    assert warming._WIDE > WIDE


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


def test_the_folder_it_is_started_in_makes_no_difference(tmp_path):
    # A file with the name of a module, and another checkout.
    (tmp_path / "secrets.py").write_text("raise SystemExit('the wrong module')")
    (tmp_path / "fastem").mkdir()
    (tmp_path / "fastem" / "__init__.py").write_text("raise SystemExit('the wrong package')")
    code = "import sys; from fastem.cli import main; sys.exit(main(['warmup', 'Dirichlet']))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True,
        check=False, env={**os.environ, "PYTHONPATH": str(Path(fastem.__file__).parents[1])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Dirichlet" in done.stdout


@pytest.mark.parametrize("where", ["given", "beside the code"])
def test_the_folder_that_is_told_holds_all_kernels(where, tmp_path):
    code = """
import json
from fastem import warming
from fastem.kernels.hmm.few import decode_few
from fastem.kernels.kalman.one_step import update
from fastem.kernels.mixture.expectation import infer
kernels = infer, decode_few, update
print(json.dumps([warming._folder(), *(kernel.stats.cache_path for kernel in kernels)]))
"""
    environment = {"NUMBA_CACHE_DIR": str(tmp_path) if where == "given" else ""}
    code, out, err = python(code, **environment)
    assert code == 0, err
    folder, *paths = json.loads(out)
    assert all(path.startswith(folder + os.sep) for path in paths)
    if where == "given":
        assert folder == str(tmp_path)


@pytest.mark.parametrize("wrong", ["GaussianMixtur", ["GaussianMixture"], 3])
def test_names_are_checked_before_anything_is_done(wrong):
    with pytest.raises(ValueError, match="no estimator .*; choose from .*Gaussian"):
        fastem.warmup("Dirichlet", wrong)


def test_the_command_checks_names(capsys):
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
