"""First calls of ``partial_fit`` with too few observations to start a model from."""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import fastem
from fastem import CategoricalHMM, GaussianHMM, GaussianMixture, MixtureOfModels
from fastem.families import Gaussian, MixtureOf
from fastem.mixture import Mixture

KINDS = ("full", "tied", "diag", "spherical")


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) + 6.0 * rng.integers(2, size=(n, 1))


def same(one, other):
    ours, theirs = one._model().parameters, other._model().parameters
    return all(np.array_equal(ours[name], theirs[name]) for name in ours)


def make(**settings):
    return GaussianMixture(3, random_state=0, covariance_type="diag", **settings)


@pytest.mark.parametrize("weighted", [False, True])
def test_single_rows_are_kept_until_there_are_ten_for_each_component(weighted):
    X = rows(40)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 40) if weighted else np.ones(40)
    model = make()
    for i in range(40):
        assert model.partial_fit(X[i : i + 1], sample_weight=weights[i : i + 1]) is model
        if i < 29:
            with pytest.raises(NotFittedError, match=rf"first {i + 1} rows.* {29 - i} more"):
                model.predict(X)
    at_once = make().partial_fit(X[:30], sample_weight=weights[:30])
    for i in range(30, 40):
        at_once.partial_fit(X[i : i + 1], sample_weight=weights[i : i + 1])
    assert same(model, at_once)
    assert model.n_observations_ == pytest.approx(weights.sum())


def test_a_first_call_with_enough_rows_starts_at_once():
    assert hasattr(make().partial_fit(rows(3)), "means_")


def test_what_is_kept_is_saved_pickled_and_not_cloned(tmp_path):
    X = rows(30)
    model = make().partial_fit(X[:2])
    fastem.save(model, tmp_path / "model")
    for again in (fastem.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert same(again.partial_fit(X[2:]), make().partial_fit(X))
    assert same(clone(model).partial_fit(X[2:]), make().partial_fit(X[2:]))


def test_fit_and_the_caller_s_array_have_nothing_to_do_with_what_is_kept():
    X = rows(30)
    first = X[:2].copy()
    model = make().partial_fit(first)
    first[:] = 1e9
    assert same(model.partial_fit(X[2:]), make().partial_fit(X))
    fitted = make(max_iter=50, tol=1e-2).partial_fit(X[:2]).fit(X)
    assert same(fitted, make(max_iter=50, tol=1e-2).fit(X))


def test_a_stream_goes_on_from_what_is_kept():
    X = rows(3000)
    model = make(batch_size=100).partial_fit(X[:1]).partial_fit(iter([X[1:2]]))
    model.partial_fit(iter([X[2:1000], X[1000:]]))
    assert same(model, make(batch_size=100).partial_fit(iter([X[:2], X[2:1000], X[1000:]])))


def test_sparse_rows_are_kept():
    X = sparse.csr_array(np.random.default_rng(0).poisson(2.0, size=(30, 4)))
    model = MixtureOfModels(fastem.CompoundDirichlet(), 2, random_state=0)
    each = clone(model)
    for i in range(30):
        each = pickle.loads(pickle.dumps(each.partial_fit(X[i : i + 1])))
    whole = clone(model).partial_fit(X[:20])
    for i in range(20, 30):
        whole.partial_fit(X[i : i + 1])
    assert same(each, whole)


def test_short_sequences_are_kept_with_what_belongs_to_them():
    X = rows(40)
    model = GaussianHMM(4, random_state=0, absorbing=[3])
    for i in range(0, 40, 2):
        model.partial_fit(X[i : i + 2], sample_weight=[1.0 + i], cut_off=[i % 4 == 0])
    at = np.arange(0, 40, 2)
    given = {"sample_weight": 1.0 + at, "cut_off": at % 4 == 0}
    assert same(model, GaussianHMM(4, random_state=0, absorbing=[3]).partial_fit(
        X, lengths=np.full(20, 2), **given))  # fmt: skip


def test_categories_are_counted_in_all_that_is_kept():
    X = [np.array([[0, 4], [1, 0], [2, 1]])[:, [i % 2]] for i in range(7)]
    model = MixtureOfModels(CategoricalHMM(2, random_state=0), 2, random_state=0)
    each = clone(model)
    for sequence in X:
        each.partial_fit([sequence])
    assert same(each, clone(model).partial_fit(X))


def test_a_call_that_fails_leaves_what_is_kept():
    X = rows(30)
    model = make().partial_fit(X[:2])
    for wrong in (np.full((1, 2), np.nan), np.ones((1, 3))):
        with pytest.raises(ValueError, match="NaN|features"):
            model.partial_fit(wrong)
    with pytest.raises(ValueError, match="non-zero"):
        make().partial_fit(X[:1], sample_weight=[0.0])
    assert same(model.partial_fit(X[2:]), make().partial_fit(X))


def test_columns_keep_their_names_and_order():
    X = pd.DataFrame(rows(30), columns=["a", "b"])
    model = make().partial_fit(X[:1])
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(X[["b", "a"]][1:2])
    assert model.partial_fit(X[1:]).feature_names_in_.tolist() == ["a", "b"]


def test_rows_that_are_all_the_same_are_kept_until_others_come():
    model = Mixture("gamma", 2, random_state=0)
    for _ in range(50):
        model.partial_fit([[1.0]])
    with pytest.raises(NotFittedError, match="30 more"):
        model.predict([[1.0]])
    X = np.random.default_rng(0).gamma(2.0, size=(30, 1))
    assert hasattr(model.partial_fit(X), "weights_")


@pytest.mark.parametrize("n_rows", [5, 200])
@pytest.mark.parametrize(
    "make",
    [
        *(partial(GaussianMixture, covariance_type=kind) for kind in KINDS),
        *(partial(fastem.BayesianGaussianMixture, covariance_type=kind) for kind in KINDS),
        partial(Mixture, "gaussian"),
        partial(Mixture, MixtureOf(Gaussian("diag"), 2)),
    ],
)
def test_a_row_whose_square_no_double_holds_is_not_kept(make, n_rows):
    model, X = make(n_components=2, random_state=0), rows(n_rows)
    before = set(vars(model))
    X[0, 1] = -1e160
    with pytest.raises(ValueError, match=r"column 1 are of the size 1e\+160, and sums of their sq"):
        model.partial_fit(X)
    assert set(vars(model)) == before
    # Nor beside others that are kept.
    model.partial_fit(rows(1))
    with pytest.raises(ValueError, match="beyond what a double can hold"):
        model.partial_fit(X)
    assert hasattr(model.partial_fit(rows(60)), "weights_")


def test_a_model_that_cannot_start_from_many_rows_says_why():
    model = Mixture("gamma", 2, random_state=0)
    with pytest.raises(ValueError, match="all its weight is on one value"):
        model.partial_fit(np.ones((10_000, 1)))


def test_a_learner_of_what_is_kept_says_how_many_are_missing():
    with pytest.raises(NotFittedError, match="28 more"):
        make().partial_fit(rows(2)).learner()
