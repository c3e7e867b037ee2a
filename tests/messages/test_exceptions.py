"""Warnings and errors have classes of their own, which filters of earlier versions still meet."""

import ast
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import sklearn.exceptions

import fastem
from fastem import algebra, exceptions
from fastem.families import Poisson
from fastem.mixture.model import MixtureModel
from fastem.statistics import Expectation, Statistics
from fastem.stopping import Tolerance

PACKAGE = Path(fastem.__file__).parent
#: What each was until the classes were there.
BEFORE = {
    "AlignmentWarning": RuntimeWarning,
    "ChangedBehaviorWarning": FutureWarning,
    "ChangedShapeWarning": UserWarning,
    "CovarianceWarning": RuntimeWarning,
    "Customized": TypeError,
    "DeadComponentWarning": RuntimeWarning,
    "DriftError": ValueError,
    "FewDataWarning": RuntimeWarning,
    "FileError": ValueError,
    "ImpossibleDataError": ValueError,
    "LearningRateError": ValueError,
    "MissingMatricesWarning": UserWarning,
    "NoCacheWarning": RuntimeWarning,
    "NoDensityError": ValueError,
    "NoDivergence": ValueError,
    "NotEnoughData": ValueError,
    "NothingInCommon": ValueError,
    "NothingToLearnWarning": UserWarning,
    "OverwritingWarning": UserWarning,
    "SymbolColumnsWarning": DeprecationWarning,
}
OF_SCIKIT_LEARN = ("ConvergenceWarning", "DataConversionWarning", "NotFittedError")
ROWS = np.random.default_rng(0).normal(size=(60, 2))


def test_every_class_is_of_its_earlier_category_and_of_one_of_ours():
    assert {*BEFORE, *OF_SCIKIT_LEARN, "FastemError", "FastemWarning"} == {*exceptions.__all__}
    for name, before in BEFORE.items():
        kind = getattr(exceptions, name)
        assert issubclass(kind, before)
        ours = exceptions.FastemWarning if issubclass(kind, Warning) else exceptions.FastemError
        assert issubclass(kind, ours)
        assert kind.__doc__ and kind.__module__ == "fastem.exceptions"
        again = pickle.loads(pickle.dumps(kind("what happened")))
        assert type(again) is kind and str(again) == "what happened"


def test_scikit_learns_classes_are_its_own():
    for name in OF_SCIKIT_LEARN:
        assert getattr(exceptions, name) is getattr(sklearn.exceptions, name)
        assert name in dir(exceptions)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        exceptions.Nothing  # noqa: B018


def test_the_module_is_public_and_light():
    assert "exceptions" in fastem.MODULES
    code = (
        "import sys, fastem; fastem.exceptions.FileError; "
        "assert not {'sklearn', 'numba', 'tqdm'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_old_places_have_the_same_classes():
    from fastem.hmm.custom import Customized
    from fastem.kalman.model import NoDensityError
    from fastem.log_linear import NothingInCommon
    from fastem.saving import FileError
    from fastem.waiting import NotEnoughData

    for kind in (Customized, NoDensityError, NothingInCommon, FileError, NotEnoughData):
        assert kind is getattr(exceptions, kind.__name__)
    assert algebra.NoDivergence is exceptions.NoDivergence


def test_every_warning_in_the_package_has_a_class_of_this_module():
    found = []
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).parts
        if parts[0] in ("bench", "experiments"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            function = node.func
            name = getattr(function, "id", getattr(function, "attr", None))
            if name == "warn" and isinstance(getattr(function, "value", None), ast.Name):
                pytest.fail(f"{path}:{node.lineno} calls warnings.warn: use fastem.notices.warn")
            if name == "warn":
                found.append(node.args[1].id)
    assert len(found) > 10
    assert {*found} <= {*exceptions.__all__}


# Each is raised by what it is for ---------------------------------------------------------------


def dead_component():
    MixtureModel(Poisson(), [0.5, 0.5], {"rates": [[1.0], [2.0]]}).maximize(
        Statistics(mass=[1.0, 0.0], sums=[[3.0], [0.0]])
    )


def overwritten():
    model = fastem.HMM("poisson", 2, n_iter=1, random_state=0)
    model.rates_ = [[1.0], [2.0]]
    model.fit(np.random.default_rng(0).poisson(3.0, (50, 1)))


def overwritten_posterior():
    model = fastem.VariationalGaussianHMM(2, n_iter=1, random_state=0)
    model.means_posterior_ = np.zeros((2, 2))
    model.fit(ROWS)


def few_data():
    fastem.HMM("poisson", 3, n_iter=1, random_state=0).fit([[1], [2], [4]])


def not_positive_definite():
    X = np.hstack([ROWS, ROWS])
    fastem.GaussianHMM(
        2, "full", n_iter=2, random_state=0, covars_prior=0.0, min_covar=1e-6
    ).fit(X)  # fmt: skip


def not_aligned():
    models = [
        fastem.KalmanFilter([[0.9]], [[1.0]], [[0.1]], [[0.1]], None, None, [mean], [[0.0]])
        for mean in (0.0, 1.0)
    ]
    fastem.combine(models, horizon=5)


def nothing_to_learn():
    fastem.KalmanFilter(em_vars=[], random_state=0).fit(ROWS)


def no_matrices():
    fastem.KalmanFilter().smooth(ROWS)


def changed_behavior():
    fastem.KalmanFilter(random_state=0).fit(ROWS)


def changed_shape():
    fastem.KalmanFilter(
        transition_matrices=np.ones((59, 1, 1)), observation_matrices=[[1.0], [1.0]]
    ).em(ROWS, n_iter=1, em_vars=["transition_matrices"])


def symbols_in_columns():
    fastem.CategoricalHMM(2, n_iter=1, random_state=0).fit(np.tile([[0, 1], [1, 0]], (9, 1)))


def no_convergence():
    fastem.GaussianMixture(2, max_iter=1, tol=0.0, random_state=0).fit(ROWS)


@pytest.mark.parametrize(
    ("name", "act"),
    [
        ("DeadComponentWarning", dead_component),
        ("FewDataWarning", few_data),
        ("CovarianceWarning", not_positive_definite),
        ("OverwritingWarning", overwritten),
        ("OverwritingWarning", overwritten_posterior),
        ("AlignmentWarning", not_aligned),
        ("NothingToLearnWarning", nothing_to_learn),
        ("MissingMatricesWarning", no_matrices),
        ("ChangedBehaviorWarning", changed_behavior),
        ("ChangedShapeWarning", changed_shape),
        ("SymbolColumnsWarning", symbols_in_columns),
        ("ConvergenceWarning", no_convergence),
    ],
)
def test_warnings_can_be_told_apart(name, act, monkeypatch):
    # Hidden Markov models log what they would warn of, as hmmlearn does.
    monkeypatch.setattr("fastem.hmm.base.BaseHMM._logs", False)
    kind = getattr(exceptions, name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        act()
    assert kind in {warning.category for warning in caught}
    # A filter of the category it had hears of nothing else.
    before = BEFORE.get(name, UserWarning)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", before)
        act()
    assert kind not in {warning.category for warning in caught}
    assert {warning.filename for warning in caught} <= {__file__}


def test_kernels_that_cannot_be_kept(monkeypatch):
    monkeypatch.setattr("fastem.notices._told_of_no_cache", False)
    with pytest.warns(exceptions.NoCacheWarning, match="cannot be kept"):
        fastem.notices.warn_of_no_cache(OSError("full"))


def no_start():
    fastem.GaussianMixture(3).learner()


def few_rows():
    fastem.MixtureOfModels(fastem.GaussianHMM(1), 9).fit([ROWS])


def impossible_sequence():
    model = fastem.CategoricalHMM(1, init_params="", n_iter=2)
    model.startprob_, model.transmat_, model.emissionprob_ = [1.0], [[1.0]], [[1.0, 0.0]]
    model.fit([[0], [1]])


def impossible_online():
    model = fastem.CategoricalHMM(1, init_params="")
    model.startprob_, model.transmat_, model.emissionprob_ = [1.0], [[1.0]], [[1.0, 0.0]]
    model.partial_fit([[0], [1]])


def no_number():
    found = Expectation(Statistics(), np.nan, 1.0)
    Tolerance(max_iter=3, tol=0.1).before_step(None, found)


def no_rate():
    fastem.GaussianMixture(1, learning_rate=lambda step: -1.0).partial_fit(ROWS)


def two_rates():
    fastem.GaussianMixture(1, learning_rate=0.5, forgetting=9.0).partial_fit(ROWS)


def no_file(path=PACKAGE / "__init__.py"):
    fastem.load(path)


@pytest.mark.parametrize(
    ("name", "act"),
    [
        ("NotFittedError", no_start),
        ("NotEnoughData", few_rows),
        ("ImpossibleDataError", impossible_sequence),
        ("ImpossibleDataError", impossible_online),
        ("ImpossibleDataError", no_number),
        ("LearningRateError", no_rate),
        ("LearningRateError", two_rates),
        ("FileError", no_file),
    ],
)
def test_errors_can_be_told_apart(name, act):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(getattr(exceptions, name)) as caught:
            act()
    assert isinstance(caught.value, BEFORE.get(name, ValueError))
