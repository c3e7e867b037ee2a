"""``fastem.GaussianMixture`` is scikit-learn's class: same interface, same start, same answer."""

import contextlib
import copy
import inspect
import pickle
import re
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.mixture import GaussianMixture as Reference
from sklearn.utils import get_tags
from sklearn.utils._param_validation import InvalidParameterError

from fastem import GaussianMixture

KINDS = ["full", "tied", "diag", "spherical"]
INITS = ["kmeans", "k-means++", "random", "random_from_data"]
SHAPES = [(1, 1), (1, 3), (2, 1), (2, 3), (2, 8), (5, 3), (5, 8), (17, 1), (17, 3), (17, 8)]
PARAMETERS = ["weights_", "means_", "covariances_"]
FACTORS = ["precisions_", "precisions_cholesky_"]


def blobs(n_columns, n_components, n_rows=None, seed=0):
    """Rows of correlated clusters."""
    rng = np.random.default_rng(1000 * n_columns + 10 * n_components + seed)
    n_rows = n_rows or 120 + 40 * n_columns
    centers = 4 * rng.normal(size=(n_components, n_columns))
    roots = np.eye(n_columns) + 0.4 * rng.normal(size=(n_components, n_columns, n_columns))
    labels = rng.integers(n_components, size=n_rows)
    return centers[labels] + np.einsum(
        "nd,nde->ne", rng.normal(size=(n_rows, n_columns)), roots[labels]
    )


def start(kind, n_columns, n_components, seed=0):
    """All three parameters to start from, different for each component."""
    rng = np.random.default_rng(seed)
    roots = np.eye(n_columns) + 0.2 * rng.normal(size=(n_components, n_columns, n_columns))
    matrices = roots @ np.swapaxes(roots, 1, 2)
    precisions = {
        "full": matrices,
        "tied": matrices[0],
        "diag": np.einsum("kdd->kd", matrices),
        "spherical": matrices[:, 0, 0],
    }[kind]
    weights = rng.uniform(1, 2, n_components)
    return {
        "weights_init": weights / weights.sum(),
        "means_init": 3 * rng.normal(size=(n_components, n_columns)),
        "precisions_init": precisions,
    }


@contextlib.contextmanager
def quiet():
    """Too few iterations are what many of these tests ask for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def fit_both(X, **settings):
    with quiet():
        return Reference(**settings).fit(X), GaussianMixture(**settings).fit(X)


def assert_close(actual, expected, name):
    """Within 1e-8 of the largest entry, or of one."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, name
    scale = max(1.0, np.abs(expected).max(initial=0.0))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-8 * scale, err_msg=name)


def assert_same_fit(ours, theirs, names=(*PARAMETERS, *FACTORS)):
    for name in names:
        assert_close(getattr(ours, name), getattr(theirs, name), name)
    # Bounds differ in size from one iteration to the next, so each is compared at its own scale.
    np.testing.assert_allclose(ours.lower_bounds_, theirs.lower_bounds_, rtol=1e-8, atol=1e-8)
    assert ours.n_iter_ == theirs.n_iter_
    assert ours.converged_ == theirs.converged_


# Same start, same answer --------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("kind", KINDS)
def test_each_iteration_is_scikit_learns(kind, init, shape):
    n_columns, n_components = shape
    X = blobs(n_columns, n_components)
    # Starts from single points have covariances of reg_covar alone, which scikit-learn computes as
    # a difference of squares: a larger reg_covar keeps its own rounding below the tolerance.
    reg_covar = 1e-6 if init in ("kmeans", "random") else 1e-2
    settings = {
        "n_components": n_components,
        "covariance_type": kind,
        "init_params": init,
        "random_state": 3,
        "tol": 0.0,
        "reg_covar": reg_covar,
    }
    for max_iter in (0, 1, 10):
        theirs, ours = fit_both(X, max_iter=max_iter, **settings)
        assert_same_fit(ours, theirs)


@pytest.mark.parametrize("kind", KINDS)
def test_all_ten_first_iterations(kind):
    X = blobs(3, 4)
    for max_iter in range(11):
        theirs, ours = fit_both(
            X, n_components=4, covariance_type=kind, tol=0.0, max_iter=max_iter, random_state=0
        )
        assert_same_fit(ours, theirs)
        assert len(ours.lower_bounds_) == max_iter


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("kind", KINDS)
def test_default_settings_stop_at_the_same_iteration(kind, init):
    X = blobs(2, 3, 400)
    theirs, ours = fit_both(
        X, n_components=3, covariance_type=kind, init_params=init, random_state=1
    )
    assert ours.n_iter_ == theirs.n_iter_
    assert ours.converged_ == theirs.converged_
    assert_close(ours.lower_bound_, theirs.lower_bound_, "lower_bound_")
    assert_close(ours.means_, theirs.means_, "means_")


@pytest.mark.parametrize("kind", KINDS)
def test_n_init_keeps_the_same_run(kind):
    X = blobs(2, 5, 300)
    for seed in range(3):
        theirs, ours = fit_both(
            X, n_components=5, covariance_type=kind, n_init=4, init_params="random",
            random_state=seed, max_iter=15,
        )  # fmt: skip
        assert_same_fit(ours, theirs)
    theirs, ours = fit_both(X, n_components=5, n_init=3, random_state=0, max_iter=0)
    assert_same_fit(ours, theirs)
    assert ours.lower_bound_ == theirs.lower_bound_ == -np.inf


@pytest.mark.parametrize("given", ["weights", "means", "precisions", "all"])
@pytest.mark.parametrize("kind", KINDS)
def test_given_starts(kind, given):
    X = blobs(3, 4)
    parameters = start(kind, 3, 4)
    if given != "all":
        parameters = {f"{given}_init": parameters[f"{given}_init"]}
    for max_iter in (1, 5):
        theirs, ours = fit_both(
            X, n_components=4, covariance_type=kind, random_state=0, tol=0.0, max_iter=max_iter,
            **parameters,
        )  # fmt: skip
        assert_same_fit(ours, theirs)


@pytest.mark.parametrize("kind", KINDS)
def test_float32_input_gives_the_answer_of_float64(kind):
    X = blobs(5, 3).astype(np.float32)
    settings = {"n_components": 3, "covariance_type": kind, "tol": 0.0, "max_iter": 10}
    for extra in (start(kind, 5, 3), {"init_params": "random", "random_state": 0}):
        with quiet():
            ours = GaussianMixture(**settings, **extra).fit(X)
            theirs = Reference(**settings, **extra).fit(X.astype(float))
        exact = copy.copy(ours)
        exact._set_model(ours._model())
        assert_same_fit(exact, theirs)
        for name in (*PARAMETERS, *FACTORS):
            rounded = getattr(exact, name).astype(np.float32)
            assert getattr(ours, name).dtype == np.float32
            np.testing.assert_array_equal(getattr(ours, name), rounded)
        scores = theirs.score_samples(X.astype(float))
        assert_close(ours.score_samples(X.astype(float)), scores, "scores")
        np.testing.assert_allclose(ours.score_samples(X), scores, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_warm_start_goes_on_as_scikit_learns_does(kind):
    X = blobs(2, 3)
    settings = {
        "n_components": 3, "covariance_type": kind, "warm_start": True, "max_iter": 2, "tol": 0.0,
        "random_state": 0,
    }  # fmt: skip
    theirs, ours = Reference(**settings), GaussianMixture(**settings)
    with quiet():
        for _ in range(4):
            theirs.fit(X)
            ours.fit(X)
            assert_same_fit(ours, theirs)
        eight = clone(ours).set_params(warm_start=False, max_iter=8).fit(X)
    assert_close(ours.means_, eight.means_, "means_")
    with pytest.raises(ValueError, match="3 features, but GaussianMixture is expecting 2"):
        ours.fit(np.zeros((9, 3)))


def test_warm_start_converges_when_it_starts_converged():
    X = blobs(2, 2)
    model = GaussianMixture(2, warm_start=True, random_state=0, tol=1e-6, max_iter=500).fit(X)
    assert model.converged_
    model.fit(X)
    assert model.n_iter_ == 1


# Using the model ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_methods_agree(kind):
    X = blobs(4, 3)
    theirs, ours = fit_both(X, n_components=3, covariance_type=kind, random_state=0)
    other = blobs(4, 3, 77, seed=1)
    assert_close(ours.score_samples(other), theirs.score_samples(other), "score_samples")
    assert_close(ours.predict_proba(other), theirs.predict_proba(other), "predict_proba")
    np.testing.assert_array_equal(ours.predict(other), theirs.predict(other))
    assert ours.predict(other).dtype == theirs.predict(other).dtype
    for name in ("score", "bic", "aic"):
        assert_close(getattr(ours, name)(other), getattr(theirs, name)(other), name)
        assert isinstance(getattr(ours, name)(other), float)
    with quiet():
        labels = GaussianMixture(3, covariance_type=kind, random_state=0).fit_predict(X)
    np.testing.assert_array_equal(labels, theirs.predict(X))
    # Lists too, which scikit-learn's criteria do not take.
    assert ours.bic(other.tolist()) == pytest.approx(theirs.bic(other), rel=1e-12)


@pytest.mark.parametrize("max_iter", [0, 1, 7])
def test_fit_predict_is_predict_after_fit(max_iter):
    X = blobs(2, 4)
    model = GaussianMixture(4, random_state=0, max_iter=max_iter)
    with quiet():
        np.testing.assert_array_equal(model.fit_predict(X), clone(model).fit(X).predict(X))


@pytest.mark.parametrize("kind", KINDS)
def test_precisions_invert_covariances(kind):
    model = GaussianMixture(3, covariance_type=kind, random_state=0).fit(blobs(4, 3))
    if kind in ("full", "tied"):
        eye = np.broadcast_to(np.eye(4), model.covariances_.shape)
        np.testing.assert_allclose(model.precisions_ @ model.covariances_, eye, atol=1e-10)
        factors = model.precisions_cholesky_
        np.testing.assert_allclose(factors @ np.swapaxes(factors, -1, -2), model.precisions_)
        np.testing.assert_array_equal(factors, np.triu(factors))
    else:
        np.testing.assert_allclose(model.precisions_ * model.covariances_, 1.0, rtol=1e-13)
        np.testing.assert_allclose(model.precisions_cholesky_**2, model.precisions_, rtol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_sample_draws_what_scikit_learn_draws(kind):
    theirs, ours = fit_both(blobs(3, 4), n_components=4, covariance_type=kind, random_state=5)
    for n in (1, 2, 500):
        X, y = ours.sample(n)
        X_theirs, y_theirs = theirs.sample(n)
        assert X.shape == (n, 3)
        assert X.dtype == np.float64
        np.testing.assert_array_equal(y, y_theirs)
        np.testing.assert_allclose(X, X_theirs, rtol=0, atol=1e-7)
        assert (np.diff(y) >= 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_sampled_moments(kind):
    model = GaussianMixture(2, covariance_type=kind, random_state=0).fit(blobs(3, 2))
    X, y = model.sample(100_000)
    for k in range(2):
        rows = X[y == k]
        covariance = {
            "full": lambda k=k: model.covariances_[k],
            "tied": lambda: model.covariances_,
            "diag": lambda k=k: np.diag(model.covariances_[k]),
            "spherical": lambda k=k: model.covariances_[k] * np.eye(3),
        }[kind]()
        deviations = np.sqrt(np.diag(covariance))
        # Six standard errors of each moment.
        error = 6 / np.sqrt(len(rows))
        assert (np.abs(rows.mean(axis=0) - model.means_[k]) < error * deviations).all()
        bound = error * np.sqrt(2) * np.outer(deviations, deviations)
        assert (np.abs(np.cov(rows.T) - covariance) < bound).all()
        assert abs(len(rows) / len(X) - model.weights_[k]) < 6 * 0.5 / np.sqrt(len(X))


def test_sample_refuses_none():
    model = GaussianMixture(1).fit(blobs(1, 1))
    with pytest.raises(ValueError, match="'n_samples': it must be 1 or more; got 0"):
        model.sample(0)


def test_parameters_set_by_hand():
    X = blobs(2, 3)
    theirs, _ = fit_both(X, n_components=3, random_state=0)
    by_hand = GaussianMixture(3)
    for name in ("weights_", "means_", "precisions_cholesky_"):
        setattr(by_hand, name, getattr(theirs, name))
    assert_close(by_hand.score_samples(X), theirs.score_samples(X), "score_samples")
    np.testing.assert_array_equal(by_hand.predict(X), theirs.predict(X))
    with pytest.raises(ValueError, match="The data have 3 columns, and the model has 2"):
        by_hand.predict(np.zeros((4, 3)))
    by_hand.weights_ = np.array([0.5, 0.5])
    with pytest.raises(ValueError, match=r"'weights_' should have the shape of \(3,\)"):
        by_hand.predict(X)


def test_changing_the_kind_after_fitting_is_refused():
    model = GaussianMixture(2, random_state=0).fit(blobs(2, 2))
    model.set_params(covariance_type="diag")
    with pytest.raises(ValueError, match=r"covariances_ \(diag\).*should have the shape of"):
        model.predict(blobs(2, 2))


# The interface ------------------------------------------------------------------------------------


def test_constructor_starts_with_scikit_learns():
    theirs = list(inspect.signature(Reference).parameters.values())
    ours = list(inspect.signature(GaussianMixture).parameters.values())
    assert ours[: len(theirs)] == theirs
    extra = [parameter.name for parameter in ours[len(theirs) :]]
    assert extra == [
        "learning_rate",
        "batch_size",
        "memory",
        "fixed",
        "n_jobs",
        "forgetting",
        "average_from",
        "callback",
        "drift_alarm",
        "solver",
        "n_blocks",
    ]
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in ours[1:])


def test_public_names_and_fitted_attributes():
    X = blobs(2, 2)
    theirs, ours = fit_both(X, n_components=2, random_state=0)
    missing = {name for name in dir(theirs) if not name.startswith("_")} - set(dir(ours))
    assert missing == set()
    for name, value in vars(theirs).items():
        if name.endswith("_") and not name.startswith("_"):
            assert type(getattr(ours, name)) is type(value) or np.isscalar(value), name
    for method in ("fit", "fit_predict", "predict", "predict_proba", "score", "score_samples",
                   "sample", "bic", "aic"):  # fmt: skip
        expected = list(inspect.signature(getattr(Reference, method)).parameters.values())
        actual = list(inspect.signature(getattr(GaussianMixture, method)).parameters.values())
        assert actual[: len(expected)] == expected, method


def test_tags_are_scikit_learns():
    theirs, ours = get_tags(Reference()), get_tags(GaussianMixture())
    assert ours.estimator_type == theirs.estimator_type == "density_estimator"
    assert ours.input_tags == theirs.input_tags
    assert ours.target_tags == theirs.target_tags
    assert ours.requires_fit == theirs.requires_fit


def test_get_and_set_params_and_clone():
    model = GaussianMixture(4, covariance_type="diag", fixed=("means",), batch_size=8)
    assert GaussianMixture(**model.get_params()).get_params() == model.get_params()
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(n_components=2, tol=0.5).n_components == 2
    assert repr(GaussianMixture(n_components=3)) == "GaussianMixture(n_components=3)"
    with pytest.raises(ValueError, match="Invalid parameter 'bogus'"):
        model.set_params(bogus=1)


@pytest.mark.parametrize("copier", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy])
def test_copies_score_alike(copier):
    X = blobs(3, 2)
    model = GaussianMixture(2, random_state=0, memory="statistics").fit(X).partial_fit(X)
    copied = copier(model)
    np.testing.assert_array_equal(copied.score_samples(X), model.score_samples(X))
    copied.partial_fit(X)
    model.partial_fit(X)
    np.testing.assert_array_equal(copied.means_, model.means_)
    assert copied.means_ is not model.means_


@pytest.mark.parametrize("method", ["predict", "predict_proba", "score", "score_samples", "bic"])
def test_not_fitted(method):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(GaussianMixture(), method)([[1.0]])


def test_sampling_before_fitting():
    with pytest.raises(NotFittedError, match="not fitted yet"):
        GaussianMixture().sample()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_components", 0), ("n_components", 1.5), ("covariance_type", "round"), ("tol", -1.0),
        ("reg_covar", -1e-9), ("max_iter", -1), ("n_init", 0), ("init_params", "guess"),
        ("random_state", "seed"), ("warm_start", "yes"), ("verbose", -1), ("verbose_interval", 0),
        ("weights_init", 3.0), ("means_init", "x"), ("precisions_init", 1),
    ],
)  # fmt: skip
def test_invalid_settings_have_scikit_learns_error(name, value):
    X = blobs(2, 1)
    with pytest.raises(InvalidParameterError) as theirs:
        Reference(**{name: value}).fit(X)
    with pytest.raises(InvalidParameterError) as ours:
        GaussianMixture(**{name: value}).fit(X)

    # The options of a set are listed in no particular order.
    def words(error):
        return sorted(re.findall(r"[^\s,{}]+", str(error.value)))

    assert words(ours) == words(theirs)


@pytest.mark.parametrize(
    "settings",
    [
        {"n_components": 2, "weights_init": [0.5, 0.6]},
        {"n_components": 2, "weights_init": [1.0]},
        {"n_components": 2, "means_init": [[0.0, 0.0]]},
        {"n_components": 2, "precisions_init": np.ones((2, 2))},
        {"precisions_init": [[[1.0, 2.0], [2.0, 1.0]]]},
        {"precisions_init": [[[1.0, 0.5], [0.0, 1.0]]]},
        {"covariance_type": "tied", "precisions_init": [[1.0, 2.0], [2.0, 1.0]]},
        {"covariance_type": "diag", "precisions_init": [[1.0, -1.0]]},
        {"covariance_type": "spherical", "precisions_init": [0.0]},
        {"n_components": 500},
    ],
    ids=str,
)
def test_invalid_starts_have_scikit_learns_words(settings):
    X = blobs(2, 1)
    with pytest.raises(ValueError) as theirs:
        Reference(**settings).fit(X)
    with pytest.raises(ValueError, match=re.escape(str(theirs.value))):
        GaussianMixture(**settings).fit(X)


def test_silent_unless_told(capsys):
    GaussianMixture(2, random_state=0).fit(blobs(2, 2))
    assert capsys.readouterr() == ("", "")


def test_convergence_warning_points_at_the_caller():
    for method in ("fit", "fit_predict"):
        with pytest.warns(ConvergenceWarning, match="did not converge") as caught:
            getattr(GaussianMixture(3, max_iter=1, random_state=0), method)(blobs(2, 3))
        assert caught[0].filename == __file__


class Frame:
    """A table with named columns, as far as scikit-learn looks at one."""

    def __init__(self, array, columns):
        self.array = array
        self.columns = list(columns)
        self.shape = array.shape

    def __len__(self):
        return len(self.array)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.array, dtype=dtype)


def test_feature_names(monkeypatch):
    import sklearn.utils.validation as validation

    names_of = validation._get_feature_names

    def feature_names(X):
        return np.array(X.columns, dtype=object) if isinstance(X, Frame) else names_of(X)

    monkeypatch.setattr(validation, "_get_feature_names", feature_names)
    X = blobs(2, 2)
    model = GaussianMixture(2, random_state=0).fit(Frame(X, ["a", "b"]))
    np.testing.assert_array_equal(model.feature_names_in_, ["a", "b"])
    assert model.n_features_in_ == 2
    np.testing.assert_array_equal(model.predict(Frame(X, ["a", "b"])), model.predict_proba(
        Frame(X, ["a", "b"])).argmax(axis=1))  # fmt: skip
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(Frame(X, ["b", "a"]))
    with pytest.raises(ValueError, match="feature names should match"):
        model.partial_fit(Frame(X, ["b", "a"]))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X)
    assert not hasattr(GaussianMixture(2, random_state=0).fit(X), "feature_names_in_")
