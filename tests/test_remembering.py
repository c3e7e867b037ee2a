"""Models that are not built again: nothing that a user changes may go unnoticed."""

import copy
import pickle
import threading

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import fastem
from fastem.estimator import _models
from fastem.remembering import Memory

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(60, 2)) + 3 * RNG.integers(2, size=(60, 1))
COUNTS = RNG.poisson(3 + 3 * RNG.integers(2, size=(60, 1)), size=(60, 2))

CASES = {
    "full": (fastem.GaussianMixture(2, random_state=0), ROWS),
    "tied": (fastem.GaussianMixture(2, covariance_type="tied", random_state=0), ROWS),
    "diag": (fastem.GaussianMixture(2, covariance_type="diag", random_state=0), ROWS),
    "spherical": (fastem.GaussianMixture(2, covariance_type="spherical", random_state=0), ROWS),
    "Mixture": (fastem.Mixture("poisson", 2, random_state=0), COUNTS),
    "GaussianHMM": (fastem.GaussianHMM(2, random_state=0), ROWS),
    "GMMHMM": (fastem.GMMHMM(2, 2, random_state=0), ROWS),
    "PoissonHMM": (fastem.PoissonHMM(2, random_state=0), COUNTS),
    "CategoricalHMM": (fastem.CategoricalHMM(2, random_state=0), COUNTS[:, :1] % 3),
    "HMM": (fastem.HMM("poisson", 2, random_state=0), COUNTS),
}
METHODS = ("predict", "predict_proba", "score_samples", "score")


def fitted(name):
    estimator, X = CASES[name]
    return copy.deepcopy(estimator).fit(X), X


def answers(estimator, X):
    """What the methods return, or the error that they raise."""
    found = {}
    for method in METHODS:
        try:
            result = getattr(estimator, method)(X)
            parts = result if isinstance(result, tuple) else (result,)
            found[method] = np.concatenate([np.ravel(part) for part in parts])
        except (ValueError, TypeError, AttributeError) as error:
            found[method] = f"{type(error).__name__}: {error}"
    return found


def assert_as_built_anew(estimator, X):
    """The answers are those of a copy, which remembers nothing."""
    fresh = copy.deepcopy(estimator)
    assert fresh not in _models.last
    for method, expected in answers(fresh, X).items():
        found = answers(estimator, X)[method]
        assert type(found) is type(expected), (method, found, expected)
        assert_array_equal(found, expected, err_msg=method)


@pytest.mark.parametrize("name", CASES)
def test_a_model_is_built_once(name, monkeypatch):
    estimator, X = fitted(name)
    built = []
    original = type(estimator)._model
    monkeypatch.setattr(
        type(estimator), "_model", lambda self: built.append(self) or original(self)
    )
    first = answers(estimator, X)
    assert len(built) == 1
    for method, found in answers(estimator, X).items():
        assert_array_equal(found, first[method])
    assert len(built) == 1
    estimator.partial_fit(X)
    del built[:]
    assert_as_built_anew(estimator, X)


@pytest.mark.parametrize("name", CASES)
def test_every_array_that_is_changed_in_place_is_noticed(name):
    estimator, X = fitted(name)
    arrays = [
        attribute for attribute, value in vars(estimator).items()
        if isinstance(value, np.ndarray) and attribute.endswith("_")
    ]  # fmt: skip
    assert len(arrays) >= 2
    for attribute in arrays:
        for change in (1.1, np.nan, -1.0):
            changed = copy.deepcopy(estimator)
            answers(changed, X)  # now it remembers
            array = getattr(changed, attribute)
            array[(0,) * array.ndim] *= change
            assert_as_built_anew(changed, X)


@pytest.mark.parametrize("name", CASES)
def test_every_setting_that_is_changed_is_noticed(name):
    estimator, X = fitted(name)
    others = {"covariance_type": "diag", "n_components": 3, "reg_covar": 0.5, "fixed": "no such",
              "params": "x", "absorbing": [1], "n_jobs": 1, "n_mix": 3, "family": "bernoulli",
              "n_features": 7, "algorithm": "map", "min_covar": 0.1}  # fmt: skip
    for setting in others.keys() & estimator.get_params().keys():
        changed = copy.deepcopy(estimator)
        answers(changed, X)
        changed.set_params(**{setting: others[setting]})
        assert_as_built_anew(changed, X)


@pytest.mark.parametrize("name", CASES)
def test_attributes_that_are_set_or_removed_are_noticed(name):
    estimator, X = fitted(name)
    for attribute in estimator._parameter_attributes():
        changed = copy.deepcopy(estimator)
        answers(changed, X)
        setattr(changed, attribute, getattr(changed, attribute).tolist())
        assert_as_built_anew(changed, X)
        # A list that is changed in place.
        values = getattr(changed, attribute)
        if isinstance(values, list):
            inner = values
            while isinstance(inner[0], list):
                inner = inner[0]
            inner[0] = inner[0] * 1.5 + 0.01
            assert_as_built_anew(changed, X)
        setattr(changed, attribute, getattr(estimator, attribute))
        assert_as_built_anew(changed, X)
        delattr(changed, attribute)
        assert_as_built_anew(changed, X)


def test_copies_pickles_and_files_do_not_contain_it(tmp_path):
    estimator, X = fitted("full")
    before = vars(estimator).copy()
    estimator.predict(X)
    assert estimator in _models.last
    assert vars(estimator).keys() == before.keys()
    for other in (copy.copy(estimator), pickle.loads(pickle.dumps(estimator))):
        assert other not in _models.last
        other.means_ = other.means_ + 1.0
        assert (other.score_samples(X) != estimator.score_samples(X)).all()
    n_before = len(_models.last)
    del estimator, other
    assert len(_models.last) < n_before


class Owner:
    """Something that has values, as if it were of the package."""

    __module__ = "fastem.tests"

    def __init__(self, value):
        self.value = value


def test_what_can_change_unseen_is_not_remembered():
    for value in ({}, object(), [], [1.0], (np.zeros(2),), ([],), np.array([{}]),
                  np.zeros(2**18)):  # fmt: skip
        owner, memory = Owner(value), Memory()
        found = [memory.recall(owner, object, vars(owner)) for _ in range(2)]
        assert found[0] is not found[1]
        # Unless the result does not depend on it.
        found = [memory.recall(owner, object, vars(owner), frozenset({"value"})) for _ in range(2)]
        assert found[0] is found[1]


def test_what_changes_while_it_is_built_is_not_remembered():
    owner = Owner(np.zeros(1))

    def build():
        owner.value[0] += 1.0
        return object()

    memory = Memory()
    found = [memory.recall(owner, build, vars(owner)) for _ in range(2)]
    assert found[0] is not found[1]


def test_what_is_set_and_set_back_while_it_is_built_makes_no_difference(monkeypatch):
    # As another thread might do.
    estimator, X = fitted("diag")
    expected, means = copy.deepcopy(estimator).score(X), estimator.means_
    original = fastem.GaussianMixture._model

    def meddled(self):
        estimator.means_ = means + 1.0
        try:
            return original(self)
        finally:
            estimator.means_ = means

    monkeypatch.setattr(fastem.GaussianMixture, "_model", meddled)
    assert [estimator.score(X) for _ in range(2)] == [expected] * 2


@pytest.mark.parametrize(
    "change",
    [
        lambda means: means.__setitem__(0, np.array([1.0, 2.0])),
        lambda means: means[0].__setitem__(0, np.float16(means[0][0])),
    ],
)
def test_what_was_a_list_and_is_changed_in_place(change):
    estimator, X = fitted("full")
    estimator.means_ = estimator.means_.tolist()
    answers(estimator, X)
    # As in scikit-learn, it is an array once it has been used.
    assert isinstance(estimator.means_, np.ndarray)
    change(estimator.means_)
    assert_as_built_anew(estimator, X)


@pytest.mark.parametrize("lengths", [-3, "x", [0], np.array([-1])])
def test_lengths_are_checked_still(lengths):
    estimator, X = fitted("GaussianHMM")
    answers(estimator, X)
    estimator.lengths_ = lengths
    assert_as_built_anew(estimator, X)


def test_subclasses_may_keep_their_values_elsewhere():
    kept = {}

    class Elsewhere(fastem.GaussianMixture):
        means_ = property(lambda self: kept["means"], lambda self, value: kept.update(means=value))

    estimator = Elsewhere(2, random_state=0).fit(ROWS)
    first = estimator.score(ROWS)
    estimator.means_ = estimator.means_ + 1.0
    assert estimator.score(ROWS) < first - 0.1


def test_threads_that_predict_and_one_that_changes():
    estimator, X = fitted("diag")
    other = copy.deepcopy(estimator)
    other.means_ = other.means_ + 1.0
    allowed = {estimator.score(X), other.score(X)}
    means, found, stop = (estimator.means_, other.means_), set(), threading.Event()

    def predict():
        while not stop.is_set():
            found.add(estimator.score(X))

    threads = [threading.Thread(target=predict) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(300):
        estimator.means_ = means[i % 2]
    stop.set()
    for thread in threads:
        thread.join()
    assert found <= allowed


# Small arrays are not given to scikit-learn -----------------------------------------------------

ARRAYS = {
    "plain": ROWS, "one row": ROWS[:1], "float32": ROWS.astype(np.float32),
    "integers": ROWS.astype(np.int64), "bytes": np.abs(ROWS).astype(np.uint8),
    "int8": ROWS.astype(np.int8), "columns first": np.asfortranarray(ROWS), "strided": ROWS[::2],
    "reversed": ROWS[::-1], "swapped": ROWS.astype(">f8"), "list": ROWS.tolist(),
    "no rows": ROWS[:0], "one column": ROWS[:, :1], "three columns": np.ones((4, 3)),
    "one dimension": ROWS[0], "three dimensions": ROWS[None], "booleans": ROWS > 0,
    "objects": ROWS.astype(object), "strings": ROWS.astype(str), "complex": ROWS.astype(complex),
    "nan": np.full((3, 2), np.nan), "infinity": np.full((1, 2), np.inf),
    "minus infinity": np.full((1, 2), -np.inf), "float16": ROWS.astype(np.float16),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("name", ["full", "GaussianHMM"])
def test_rows_are_accepted_or_refused_as_by_scikit_learn(name, array, monkeypatch):
    estimator, _ = fitted(name)
    X = ARRAYS[array]
    found = answers(estimator, X)
    monkeypatch.setattr(type(estimator), "_are_plain_rows", lambda *_, **__: False)
    for method, expected in answers(estimator, X).items():
        assert_array_equal(found[method], expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("name", ["full", "Mixture", "GaussianHMM"])
def test_rows_to_learn_from_are_accepted_or_refused_as_by_scikit_learn(
    name, method, array, monkeypatch
):
    X, kind = ARRAYS[array], type(CASES[name][0])

    def learned():
        estimator = copy.deepcopy(CASES[name][0])
        try:
            getattr(estimator, method)(X)
        except (ValueError, TypeError) as error:
            return type(error), str(error)
        return {key: value for key, value in vars(estimator).items() if key[-1] == "_"}

    found = learned()
    monkeypatch.setattr(kind, "_are_plain_rows", lambda *_, **__: False)
    expected = learned()
    if isinstance(expected, tuple):
        assert found == expected
        return
    assert found.keys() == expected.keys()
    for key in found:
        assert_array_equal(found[key], expected[key])


def test_a_fit_without_names_forgets_names():
    pd = pytest.importorskip("pandas")
    for estimator in (fastem.GaussianMixture(2), fastem.GaussianHMM(2)):
        estimator.fit(pd.DataFrame(ROWS, columns=["a", "b"]))
        assert list(estimator.feature_names_in_) == ["a", "b"]
        estimator.fit(np.hstack([ROWS, ROWS])[:, :3])
        assert not hasattr(estimator, "feature_names_in_")
        assert estimator.n_features_in_ == 3


# Settings that were valid before --------------------------------------------------------------


def test_settings_that_are_equal_but_of_another_type_are_checked():
    fastem.GaussianMixture(1, tol=1.0, max_iter=1, warm_start=True).fit(ROWS)
    for name, value in (("n_components", 1.0), ("max_iter", 1.0),
                        ("warm_start", "yes"), ("random_state", 0.0)):  # fmt: skip
        wrong = fastem.GaussianMixture(1, tol=1.0, max_iter=1, warm_start=True)
        wrong.set_params(**{name: value})
        with pytest.raises(ValueError, match=f"The '{name}' parameter"):
            wrong.fit(ROWS)
        # Also the second time.
        with pytest.raises(ValueError, match=f"The '{name}' parameter"):
            wrong.fit(ROWS)


def test_arrays_among_the_settings_are_always_checked():
    good = fastem.GaussianMixture(2, weights_init=[0.5, 0.5], random_state=0).fit(ROWS)
    good.weights_init = 0.5
    with pytest.raises(ValueError, match="The 'weights_init' parameter"):
        good.fit(ROWS)


def test_settings_of_a_class_are_its_own():
    class Strict(fastem.GaussianMixture):
        _parameter_constraints = {  # noqa: RUF012
            **fastem.GaussianMixture._parameter_constraints, "init_params": [dict],
        }  # fmt: skip

    fastem.GaussianMixture(2, random_state=0).fit(ROWS)
    with pytest.raises(ValueError, match="The 'init_params' parameter of Strict"):
        Strict(2, random_state=0).fit(ROWS)


def test_names_of_columns_are_still_compared(monkeypatch):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(ROWS, columns=["a", "b"])
    estimator = fastem.GaussianMixture(2, random_state=0).fit(frame)
    with pytest.warns(UserWarning, match="valid feature names"):
        estimator.predict(ROWS)
    with pytest.raises(ValueError, match="feature names"):
        estimator.predict(frame.rename(columns={"a": "c"}))


def test_an_estimator_without_a_hash():
    class Unhashable(fastem.GaussianMixture):
        __hash__ = None

        def __eq__(self, other):
            return True

    X = ROWS
    estimator = Unhashable(2, random_state=0).fit(X)
    first = estimator.score_samples(X)
    estimator.means_ = estimator.means_ + 1.0
    assert (estimator.score_samples(X) != first).all()


def test_estimators_that_count_as_equal_keep_their_own():
    class AllEqual(fastem.GaussianMixture):
        def __eq__(self, other):
            return True

        def __hash__(self):
            return 0

    one, two = AllEqual(2, random_state=0).fit(ROWS), AllEqual(2, random_state=0).fit(ROWS + 1.0)
    expected = [copy.deepcopy(model).score_samples(ROWS[:3]) for model in (one, two)]
    for _ in range(2):
        for model, scores in zip((one, two), expected, strict=True):
            assert_array_equal(model.score_samples(ROWS[:3]), scores)
