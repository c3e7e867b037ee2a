"""What a type checker, and so an editor, believes of the public names."""

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fastem

pytest.importorskip("pyright")

ESTIMATORS = sorted(fastem.ESTIMATORS)

#: Arguments that a constructor needs.
ARGUMENTS = {"MixtureOfModels": "fastem.GaussianHMM()"}

#: What comes of them, where there is one answer.
RESULTS = {
    "aic": "float", "bic": "float", "fit": "{estimator}", "partial_fit": "{estimator}",
    "predict": "ndarray", "predict_proba": "ndarray", "score": "float", "transform": "ndarray",
}  # fmt: skip


def revealed(tmp_path, lines):
    """What pyright says of ``reveal_type`` in each line; None for what it takes as unreachable."""
    script = tmp_path / "script.py"
    script.write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(
        [*command, str(script)], capture_output=True, text=True, check=False, cwd=tmp_path,
        # Type checkers do not follow the hooks of an editable installation.
        env={**os.environ, "PYTHONPATH": str(Path(fastem.__file__).parents[1])},
    )  # fmt: skip
    if not done.stdout.startswith("{"):
        pytest.skip(f"pyright does not run here: {done.stderr[-500:]}")
    found = [None] * len(lines)
    for item in json.loads(done.stdout)["generalDiagnostics"]:
        assert item["severity"] == "information", item
        found[item["range"]["start"]["line"]] = re.search(r' is "(.*)"$', item["message"])[1]
    return found


def methods(kind):
    """The names of the methods of an estimator that are fastem's own, and public."""
    own = inspect.getmembers(getattr(fastem, kind), inspect.isfunction)
    return [
        name for name, function in own
        if not name.startswith("_") and function.__module__.startswith("fastem.")
        and name not in ("get_params", "set_params")
    ]  # fmt: skip


def needed(kind, name):
    """The arguments that a method cannot do without."""
    parameters = list(inspect.signature(getattr(kind, name)).parameters.values())[1:]
    return [p for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]


def test_no_method_is_believed_never_to_return(tmp_path):
    lines, calls = ["import fastem", "X = [[1.0, 2.0], [2.0, 1.0]]"], [None, None]
    for kind in ESTIMATORS:
        lines.append(f"model_{kind} = fastem.{kind}({ARGUMENTS.get(kind, '')})")
        calls.append(None)
        for name in methods(kind):
            given = ", ".join("X" for _ in needed(getattr(fastem, kind), name))
            lines.append(f"reveal_type(model_{kind}.{name}({given}))")
            calls.append((kind, name))
    assert len(lines) > 80
    for call, found in zip(calls, revealed(tmp_path, lines), strict=True):
        if call is None:
            continue
        kind, name = call
        assert found is not None, f"{kind}.{name} is believed never to return"
        assert "NoReturn" not in found and "Never" not in found, (call, found)
        if name in RESULTS and kind != "KalmanFilter":
            assert found.startswith(RESULTS[name].format(estimator=kind)), (call, found)


def test_settings_are_known(tmp_path):
    lines = ["import fastem"]
    for kind in ESTIMATORS:
        lines.append(f"model_{kind} = fastem.{kind}({ARGUMENTS.get(kind, '')})")
        settings = inspect.signature(getattr(fastem, kind)).parameters
        lines += [f"reveal_type(model_{kind}.{name})" for name in settings]
    assert len(lines) > 150
    # An attribute that pyright does not know is an error, and not information.
    found = revealed(tmp_path, lines)
    for line, kind in zip(lines, found, strict=True):
        assert kind is not None or not line.startswith("reveal_type"), line


def test_functions_and_modules_have_types(tmp_path):
    lines = [
        "import fastem",
        "model = fastem.GaussianMixture(2)",
        "reveal_type(fastem.combine([model, model]))",
        "reveal_type(fastem.average([model, model]))",
        "reveal_type(fastem.divergence(model, model))",
        "reveal_type(fastem.distributed.fit(model, None))",
        "reveal_type(fastem.families.Poisson())",
        "reveal_type(fastem.CompoundDirichlet().sample(3, as_sparse=True))",
        "reveal_type(fastem.load('path'))",
    ]
    found = revealed(tmp_path, lines)
    mixture = "GaussianMixture"
    assert found[2:] == [mixture, mixture, "float", mixture, "Poisson", found[7], "Any"]
    assert found[7].startswith("csr_array")


def test_the_package_says_that_it_has_types():
    from importlib.resources import files

    assert (files("fastem") / "py.typed").is_file()
