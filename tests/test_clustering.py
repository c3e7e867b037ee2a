"""K-means of small data is scikit-learn's: the same random numbers, and the same clusters."""

import numpy as np
import pytest
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning

from fastem import clustering

quiet = pytest.mark.filterwarnings("ignore:Number of distinct clusters")


@pytest.fixture
def no_sklearn(monkeypatch):
    """What is small must not need scikit-learn's estimator."""

    def refuse(*arguments, **options):
        raise AssertionError("scikit-learn's KMeans was called")

    def compared(X, n_clusters, *, n_init, seed, sample_weight=None):
        ours, theirs = np.random.RandomState(seed), np.random.RandomState(seed)
        want = KMeans(n_clusters, n_init=n_init, random_state=theirs)
        want.fit(X, sample_weight=sample_weight)
        with monkeypatch.context() as patch:
            patch.setattr(KMeans, "fit", refuse)
            got = clustering.kmeans(
                X, n_clusters, n_init=n_init, random_state=ours, sample_weight=sample_weight
            )
        assert ours.random_sample() == theirs.random_sample()
        return got, want

    return compared


def problem(seed):
    """Rows, the number of clusters and of runs, and weights, of many kinds."""
    rng = np.random.default_rng(seed)
    n_rows, n_columns = int(rng.integers(2, 300)), int(rng.integers(1, 6))
    X = rng.normal(size=(n_rows, n_columns)) * rng.choice([1e-4, 1.0, 1e6]) + rng.choice([0, 1, 9])
    n_clusters = int(rng.integers(1, min(n_rows, 12) + 1))
    kind = ("plain", "integers", "constant column", "duplicates", "as many clusters as rows",
            "by columns", "ties")[seed % 7]  # fmt: skip
    if kind == "integers":
        X = rng.integers(0, 50, size=X.shape)
    elif kind == "constant column":
        X[:, 0] = 3.0
    elif kind == "duplicates":
        X = X[rng.integers(0, max(2, n_rows // 5), size=n_rows)]
    elif kind == "as many clusters as rows":
        X = X[:20]
        n_clusters = n_rows = len(X)
    elif kind == "by columns":
        X = np.asfortranarray(X)
    elif kind == "ties":
        X = rng.integers(0, 4, size=X.shape).astype(float)
    # Of runs that are equally good, rounding decides which is the best.
    has_equals = kind in ("as many clusters as rows", "ties")
    n_init = 1 if has_equals else int(rng.choice([1, 1, 3, 10]))
    weights = None
    if rng.random() < 0.5:
        weights = rng.random(n_rows) * (rng.random(n_rows) < 0.8) + (np.arange(n_rows) == 0)
    return X, n_clusters, n_init, weights


@quiet
@pytest.mark.parametrize("seed", range(280))
def test_clusters_are_those_of_scikit_learn(no_sklearn, seed):
    X, n_clusters, n_init, weights = problem(seed)
    got, want = no_sklearn(X, n_clusters, n_init=n_init, seed=seed, sample_weight=weights)
    np.testing.assert_array_equal(got.labels, want.labels_)
    # Rounding says where the centers of empty clusters are.
    used = np.unique(got.labels)
    centers = got.centers[used], want.cluster_centers_[used]
    np.testing.assert_allclose(*centers, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(140))
def test_seeds_are_those_of_scikit_learn(seed):
    X, n_clusters, _, weights = problem(seed)
    ours, theirs = np.random.RandomState(seed), np.random.RandomState(seed)
    got = clustering.seeds(X, n_clusters, random_state=ours, sample_weight=weights)
    want = kmeans_plusplus(X, n_clusters, random_state=theirs, sample_weight=weights)[1]
    np.testing.assert_array_equal(X[got], X[want])
    assert ours.random_sample() == theirs.random_sample()


def test_the_arguments_stay_as_they_are():
    X, weights = np.random.default_rng(0).normal(size=(40, 2)), np.ones(40)
    before = X.copy()
    found = clustering.kmeans(X, 3, n_init=2, random_state=0, sample_weight=weights)
    clustering.seeds(X, 3, random_state=0, sample_weight=weights)
    np.testing.assert_array_equal(X, before)
    assert (weights == 1.0).all()
    assert not np.shares_memory(found.centers, X)


def test_runs_that_are_seeded_apart_are_the_same(monkeypatch):
    X = np.random.default_rng(1).normal(size=(200, 3))
    together = clustering.kmeans(X, 4, n_init=7, random_state=0)
    monkeypatch.setattr(clustering, "_DISTANCES", 1)
    apart = clustering.kmeans(X, 4, n_init=7, random_state=0)
    np.testing.assert_array_equal(together.labels, apart.labels)


def test_too_few_distinct_rows_are_told(no_sklearn):
    X = np.repeat([[0.0], [1.0]], 5, axis=0)
    with pytest.warns(ConvergenceWarning, match="Number of distinct clusters") as told:
        got, want = no_sklearn(X, 3, n_init=1, seed=0)
    assert len(told) == 2  # scikit-learn's, and ours
    assert str(told[0].message) == str(told[1].message)
    np.testing.assert_array_equal(got.labels, want.labels_)


@pytest.mark.parametrize(
    "X, n_clusters, weights",
    [
        (np.array([[1.0], [np.nan], [2.0]]), 2, None),
        (np.array([[1.0], [np.inf], [2.0]]), 2, None),
        (np.ones((2, 2)), 3, None),
        (np.ones((4, 0)), 2, None),
        (np.arange(4.0)[:, None], 2, np.ones(3)),
        (np.arange(4.0)[:, None], 2, np.array([1.0, np.nan, 1.0, 1.0])),
    ],
    ids=["nan", "infinity", "few rows", "no columns", "few weights", "nan weight"],
)
def test_what_scikit_learn_refuses_is_refused(X, n_clusters, weights):
    with pytest.raises(ValueError) as theirs:
        KMeans(n_clusters, n_init=1, random_state=0).fit(X, sample_weight=weights)
    with pytest.raises(ValueError) as ours:
        clustering.kmeans(X, n_clusters, n_init=1, random_state=0, sample_weight=weights)
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("without_steps", [False, True])
def test_other_data_and_other_versions_are_left_to_scikit_learn(monkeypatch, without_steps):
    X = np.random.default_rng(2).normal(size=(60, 3))
    if without_steps:
        monkeypatch.setattr(clustering, "lloyd_iteration", lambda: None)
    else:
        X = X.astype(np.float32)
    got = clustering.kmeans(X, 4, n_init=2, random_state=0)
    want = KMeans(4, n_init=2, random_state=0).fit(X)
    np.testing.assert_array_equal(got.labels, want.labels_)
    np.testing.assert_array_equal(got.centers, want.cluster_centers_)
    assert got.centers.dtype == X.dtype
