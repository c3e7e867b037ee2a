"""The arrangement of the code: what may be named where."""

import importlib
import pickle
import re
from pathlib import Path

import pytest

import fastem
from fastem import old_paths
from fastem.model import Model

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = [*ROOT.glob("fastem/**/*.py"), *ROOT.glob("kernels/**/*.py")]
LIBRARY = [path for path in LIBRARY if path.parent.name != "__pycache__"]


def lines_with(pattern, paths=LIBRARY):
    """The lines of the code in which a pattern occurs, by file."""
    found = {}
    for path in paths:
        lines = [line for line in path.read_text().splitlines() if re.search(pattern, line)]
        if lines:
            found[path.relative_to(ROOT).as_posix()] = lines
    return found


def test_private_names_of_scikit_learn_are_imported_in_one_file():
    private = r"import.*\b_fit_context|_param_validation|\b_check_sample_weight|sklearn.*import _"
    assert list(lines_with(private)) == ["fastem/sklearn_compat.py"]


def test_internals_of_numba_are_imported_in_one_file():
    # cgutils belongs to the documented ways of extending numba, and events are documented too.
    documented = r"(?!extending)(?!core import (cgutils|event)\b)"
    internal = rf"(from|import) numba\.{documented}|import llvmlite\.binding"
    inside = [path for path in LIBRARY if "bench" not in path.relative_to(ROOT).parts]
    assert list(lines_with(internal, inside)) == ["kernels/fast_compile.py"]


@pytest.mark.parametrize(
    "folder, names",
    [
        ("mixture", "MixtureModel"),
        ("hmm", "HMMModel|StateFilter"),
        ("kalman", "KalmanModel|Observations"),
        ("dirichlet", "DirichletModel|CountTables"),
        ("mixture_of_models", "ModelMixture"),
    ],
)
def test_models_are_named_in_their_own_folder_only(folder, names):
    outside = [
        path
        for path in ROOT.glob("fastem/**/*.py")
        # Benchmarks and experiments are about certain models.
        if not {folder, "bench", "experiments", "kernels"} & set(path.parts[len(ROOT.parts) :])
    ]
    found = lines_with(rf"(import|isinstance).*\b({names})\b", outside)
    if folder == "mixture":
        # Emissions of any family are initialized as the components of a mixture.
        assert found.pop("fastem/hmm/emissions.py") == ["from ..mixture.model import MixtureModel"]
    if folder == "hmm":
        # A posterior is used as the model at its mean.
        assert found.pop("fastem/vhmm/model.py") == ["from ..hmm.model import HMMModel"]
    assert found == {}


def test_algorithms_ask_no_model_what_it_is():
    algorithms = [ROOT / "fastem" / name for name in ("algebra.py", "combining.py", "simulated.py")]
    assert lines_with(r"hasattr\(|getattr\(model", algorithms) == {
        # What an estimator has seen, if anything, is carried over to a combination.
        "fastem/combining.py": lines_with(r"hasattr\(|getattr\(model", algorithms)[
            "fastem/combining.py"
        ]
    }
    assert all(
        "n_" in line or "name" in line
        for line in lines_with(r"hasattr\(|getattr\(model", algorithms)["fastem/combining.py"]
    )


def test_there_are_no_other_loops_of_em():
    # An E-step followed by an M-step in one function is a loop, or the body of one.
    loops = {}
    for path in ROOT.glob("fastem/**/*.py"):
        if {"bench", "experiments", "kernels"} & set(path.parts[len(ROOT.parts) :]):
            continue
        for function in re.split(r"\n(?=\s*def )", path.read_text()):
            code = re.sub(r'""".*?"""', "", function, flags=re.S)
            if re.search(r"expect\(", code) and re.search(r"maximize\(", code):
                name = re.search(r"def (\w+)", code)
                loops.setdefault(path.name, []).append(name[1] if name else "")
    assert loops.get("algebra.py") and set(loops) <= {"algebra.py", "base.py"}
    assert set(loops.get("base.py", ())) <= {"_start"}


def test_american_spelling():
    british = r"\b\w*(centre|neighbour|colour|favour|behaviour|ising\b|isation|labelled|modelling)"
    allowed = r"raising|rising|surprising|promising|comprising|arising|advertising"
    texts = [*LIBRARY, *ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"]
    assert {
        name: wrong
        for name, lines in lines_with(british, texts).items()
        if (wrong := [line for line in lines if re.search(british, re.sub(allowed, "", line))])
    } == {}


@pytest.mark.parametrize("old", sorted(old_paths.MOVED))
def test_modules_are_found_where_they_were_in_0_1(old):
    module = importlib.import_module(f"fastem.{old}")
    assert module is importlib.import_module(f"fastem.{old_paths.MOVED[old]}")
    assert module.__spec__.name == module.__name__ == f"fastem.{old_paths.MOVED[old]}"
    assert getattr(fastem, old) is module


def test_a_pickle_of_0_1_finds_its_class():
    # Only the module and the name of the class are in a pickle.
    old = b"\x80\x04cfastem.gaussian_mixture\nGaussianMixture\n."
    assert pickle.loads(old) is fastem.GaussianMixture


def test_the_paths_that_users_of_other_libraries_write():
    from fastem.dirichlet import CompoundDirichlet
    from fastem.hmm import GaussianHMM
    from fastem.kalman import KalmanFilter
    from fastem.mixture import GaussianMixture

    assert GaussianHMM is fastem.GaussianHMM and GaussianMixture is fastem.GaussianMixture
    assert KalmanFilter is fastem.KalmanFilter and CompoundDirichlet is fastem.CompoundDirichlet


def test_models_are_values():
    model = fastem.GaussianMixture(1).fit([[0.0], [1.0], [3.0]])._model()
    assert isinstance(model, Model)
    with pytest.raises(AttributeError, match="Models are values, and weights cannot be assigned"):
        model.weights = None
