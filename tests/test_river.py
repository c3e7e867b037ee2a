"""Learners within river: its own checks, pipelines, and the numbers of the learner."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from river import compose, preprocessing, stream
from river.checks import anomaly, common
from river.checks import check_estimator as check_river_estimator

import fastem
from fastem.river import AnomalyDetector, Clusterer

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def rows(n=300, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)) + 4.0 * rng.integers(2, size=(n, 1))


def dicts(X):
    return [x for x, _ in stream.iter_array(X, feature_names=["a", "b", "c"])]


def mixture(**settings):
    return fastem.GaussianMixture(2, covariance_type="diag", random_state=0, **settings)


@pytest.mark.parametrize("kind", [Clusterer, AnomalyDetector])
def test_river_accepts_them(kind):
    model = kind(mixture(), n_first=20)
    outliers = np.random.default_rng(1).random(300) < 0.1
    X = rows() + 30.0 * outliers[:, None]
    data = list(zip(dicts(X), outliers.tolist(), strict=True))
    for check in (
        common.check_learn_one,
        common.check_predict_one_pure,
        common.check_shuffle_features_no_impact,
    ):
        check(model.clone(), data)
    if kind is AnomalyDetector:
        anomaly.check_roc_auc(model.clone(), data)


def test_the_checks_of_river_pass_for_a_clusterer():
    check_river_estimator(Clusterer(mixture(), n_first=20))


def test_the_numbers_are_those_of_the_learner():
    X = rows()
    fitted = mixture().fit(X[:100])
    clusterer, detector, learner = Clusterer(fitted), AnomalyDetector(fitted), fitted.learner()
    for x, row in zip(dicts(X[100:]), X[100:], strict=True):
        assert clusterer.predict_one(x) == learner.predict_one(row)
        assert -detector.score_one(x) == clusterer.score_one(x) == learner.score_one(row)
        for each in (clusterer, detector):
            assert each.learn_one(x) is None
        learner.learn_one(row)
    assert (clusterer.learner.model().means_ == learner.model().means_).all()
    assert fitted.n_observations_ == 100


def test_a_model_that_is_not_fitted_begins_with_the_first_observations():
    X, unfitted = rows(), mixture()
    clusterer = Clusterer(unfitted, n_first=50)
    for x in dicts(X[:49]):
        clusterer.learn_one(x)
        assert (clusterer.predict_one(x), clusterer.score_one(x)) == (0, 0.0)
    assert clusterer.learner is None
    clusterer.learn_one(dicts(X[49:50])[0])
    expected = mixture().fit(X[:50])
    assert (clusterer.learner.model().means_ == expected.means_).all()
    assert not hasattr(unfitted, "means_")
    again = clusterer.clone()
    assert again.learner is None
    assert again.model.get_params() == unfitted.get_params()


def test_in_a_pipeline():
    X = rows()
    pipeline = compose.Pipeline(
        preprocessing.StandardScaler(), AnomalyDetector(mixture(), n_first=50)
    )
    for x in dicts(X):
        pipeline.learn_one(x)
    usual = [pipeline.score_one(x) for x in dicts(X[:20])]
    assert pipeline.score_one({"a": 50.0, "b": -50.0, "c": 50.0}) > max(usual)
    selected = compose.Select("a", "b") | Clusterer(mixture(), n_first=50)
    for x in dicts(X):
        selected.learn_one(x)
    low, high = ({"a": v, "b": v, "c": 0.0} for v in (0.0, 4.0))
    assert selected.predict_one(low) != selected.predict_one(high)


def test_names_of_columns_are_kept():
    frame = pd.DataFrame(rows(), columns=["c", "a", "b"])
    fitted = mixture().fit(frame)
    clusterer = Clusterer(fitted)
    x = {"a": 1.0, "b": 2.0, "c": 3.0}
    expected = fitted.score_samples(pd.DataFrame([[3.0, 1.0, 2.0]], columns=["c", "a", "b"]))[0]
    assert clusterer.score_one(x) == expected
    clusterer.learn_one(x)
    assert clusterer.learner.model().feature_names_in_.tolist() == ["c", "a", "b"]


@pytest.mark.parametrize("x", [{"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}])
def test_features_that_do_not_fit_change_nothing(x):
    clusterer = Clusterer(mixture(), n_first=50)
    for each in dicts(rows()):
        clusterer.learn_one(each)
    before = clusterer.learner.model().means_
    for call in (clusterer.learn_one, clusterer.predict_one, clusterer.score_one):
        with pytest.raises(ValueError, match="feature"):
            call(x)
    with pytest.raises(ValueError):
        clusterer.learn_one({"a": 1.0, "b": np.nan, "c": 1.0})
    assert (clusterer.learner.model().means_ == before).all()


WRONG = [
    {}, {"a": 1.0, "b": np.nan, "c": 1.0}, {"a": 1.0, "b": np.inf, "c": 1.0},
    {"a": 1.0, "b": None, "c": 1.0}, {"a": "x", "b": 1.0, "c": 1.0}, {"a": [1.0], "b": 1.0, "c": 1},
    {"x": "y"}, None, [1.0, 2.0, 3.0],
]  # fmt: skip


@pytest.mark.parametrize("kind", [Clusterer, AnomalyDetector])
@pytest.mark.parametrize("when", [0, 1, 19, 20, 25])
def test_wrong_observations_are_refused_and_leave_nothing(kind, when):
    X = rows()
    model, clean = (kind(mixture(), n_first=20) for _ in range(2))
    for number, x in enumerate(dicts(X[:60])):
        if number == when:
            for wrong in WRONG:
                with pytest.raises((ValueError, TypeError)):
                    model.learn_one(wrong)
        for each in (model, clean):
            each.learn_one(x)
        assert model.score_one(x) == clean.score_one(x)
    assert (model.learner.model().means_ == clean.learner.model().means_).all()
    assert model.learner.model().n_observations_ == 60


def test_rows_outside_the_support_are_refused_from_the_first():
    detector = AnomalyDetector(fastem.Mixture("poisson", 2, random_state=0), n_first=10)
    counts = np.random.default_rng(0).poisson([[2.0], [20.0]], size=(2, 10)).reshape(-1, 1)
    for x in counts.ravel().tolist():
        detector.learn_one({"n": x})
        with pytest.raises(ValueError):
            detector.learn_one({"n": -1})
        with pytest.raises(ValueError):
            detector.learn_one({"n": 0.5})
    assert detector.learner.model().n_observations_ == 20


def test_what_is_asked_first_does_not_say_what_the_features_are():
    clusterer = Clusterer(mixture(), n_first=20)
    assert clusterer.predict_one({"z": 1.0}) == 0
    assert clusterer.score_one({}) == 0.0
    for x in dicts(rows(30)):
        clusterer.learn_one(x)
    assert clusterer.learner.model().n_features_in_ == 3


def test_more_first_observations_are_waited_for_if_they_are_too_few():
    X = rows(60)
    for n_first, model in ((1, mixture()), (3, fastem.GaussianMixture(5, random_state=0))):
        clusterer = Clusterer(model, n_first=n_first)
        for x in dicts(X):
            clusterer.learn_one(x)
        assert clusterer.learner.model().n_observations_ == 60
    # Equal rows have no variance.
    clusterer = Clusterer(mixture(reg_covar=0.0), n_first=4)
    for x in dicts(np.concatenate([np.zeros((7, 3)), X])):
        clusterer.learn_one(x)
    assert clusterer.learner.model().n_observations_ == 67


@pytest.mark.parametrize("n_first", [0, -1, 2.5, "x", None])
def test_a_number_of_first_observations_is_a_number(n_first):
    with pytest.raises(ValueError, match="n_first"):
        Clusterer(mixture(), n_first=n_first)


@pytest.mark.parametrize("n_columns", [1, 3])
def test_copies_go_on_alike(n_columns):
    clusterer = Clusterer(mixture(), n_first=50)
    names = "abc"[:n_columns]
    X = [{name: x[name] for name in names} for x in dicts(rows())]
    for x in X[:100]:
        clusterer.learn_one(x)
    others = [copy.deepcopy(clusterer), pickle.loads(pickle.dumps(clusterer))]
    for x in X[100:]:
        for each in (clusterer, *others):
            each.learn_one(x)
    for other in others:
        assert (other.learner.model().means_ == clusterer.learner.model().means_).all()


def test_only_rows_and_only_components():
    with pytest.raises(TypeError, match="rows"):
        AnomalyDetector(fastem.GaussianHMM(2))
    with pytest.raises(TypeError, match="components"):
        Clusterer(fastem.Dirichlet())
