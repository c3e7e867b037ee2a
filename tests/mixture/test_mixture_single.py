"""Rows of float32: computed in float32 where that is as precise as they are, else in float64."""

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture as ScikitMixture

from fastem import GaussianMixture
from fastem.families import Gaussian
from fastem.kernels.mixture import expectation
from fastem.mixture.model import MixtureModel

KINDS = ["full", "tied", "diag", "spherical"]

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
N_COMPONENTS = 6


@pytest.fixture
def types_computed_in(monkeypatch):
    """The types that rows were computed in, of each call of a kernel."""
    seen = []

    def type_of(packed):
        fields = packed._asdict()
        return next(fields[f] for f in ("factors", "factor", "scales") if f in fields).dtype

    def watch(name, place):
        kernel = getattr(expectation, name)

        def watched(*arguments):
            seen.append(type_of(arguments[place]))
            return kernel(*arguments)

        monkeypatch.setattr(expectation, name, watched)

    watch("expect", 5)
    watch("infer", 4)
    return seen


def rows(n_rows=70_000, n_columns=16, *, offset=0.0, separation=0.7, inflation=1.0, seed=0):
    """Rows of a mixture as float32; the last column is the first but for 1 / ``inflation``."""
    rng = np.random.default_rng(seed)
    means = separation * rng.normal(size=(N_COMPONENTS, n_columns))
    labels = rng.integers(N_COMPONENTS, size=n_rows)
    A = np.eye(n_columns) + 0.5 * rng.normal(size=(n_columns, n_columns)) / np.sqrt(n_columns)
    noise = rng.normal(size=(n_rows, n_columns)) @ A
    noise[:, -1] = noise[:, 0] + noise[:, -1] / np.sqrt(inflation)
    return (offset + means[labels] + noise).astype(np.float32), offset + means


def settings(kind, means, dtype=np.float64, **others):
    n_components, n_columns = means.shape
    precisions = {
        "full": np.stack([np.eye(n_columns)] * n_components),
        "tied": np.eye(n_columns),
        "diag": np.ones((n_components, n_columns)),
        "spherical": np.ones(n_components),
    }[kind]
    return {
        "n_components": n_components,
        "covariance_type": kind,
        "means_init": means.astype(dtype),
        "weights_init": np.full(n_components, 1 / n_components, dtype=dtype),
        "precisions_init": precisions.astype(dtype),
        "max_iter": 5,
        "tol": 0.0,
        "random_state": 0,
        **others,
    }


def errors(model, X, reference):
    """How far a fit is from one in float64, in standard deviations, and of what it predicts."""
    doubles = X.astype(float)
    full = reference.covariance_type in ("full", "tied")
    covariances = reference.covariances_
    variances = np.diagonal(covariances, axis1=-2, axis2=-1) if full else covariances
    scale = np.sqrt(variances.mean())
    ours, exact = model.predict_proba(X), reference.predict_proba(doubles)
    return {
        "means": np.abs(model.means_ - reference.means_).max() / scale,
        "covariances": np.abs(model.covariances_ - reference.covariances_).max() / scale**2,
        "weights": np.abs(model.weights_ - reference.weights_).max(),
        "lower bound": abs(model.lower_bound_ / reference.lower_bound_ - 1),
        "score": abs(
            float(np.mean(model.score_samples(X))) / reference.score_samples(doubles).mean() - 1
        ),
        "probabilities": np.abs(ours - exact).mean(),
        "labels": np.mean(ours.argmax(axis=1) != exact.argmax(axis=1)),
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "problem",
    [{}, {"offset": 1e4}, {"inflation": 1e6}, {"offset": 1e3, "inflation": 1e3}],
    ids=str,
)
@pytest.mark.parametrize("kind", KINDS)
def test_as_precise_as_scikit_learn(kind, problem, types_computed_in):
    X, means = rows(**problem)
    reference = GaussianMixture(**settings(kind, means)).fit(X.astype(float))
    assert set(types_computed_in) == {np.dtype(np.float64)}
    types_computed_in.clear()
    model = GaussianMixture(**settings(kind, means)).fit(X)
    matrices = kind in ("full", "tied")
    if "inflation" not in problem or not matrices:
        assert types_computed_in[-1] == np.float32
    elif problem["inflation"] > 1e4:
        assert types_computed_in[-1] == np.float64
    assert model.means_.dtype == model.covariances_.dtype == np.float32
    try:
        peer = ScikitMixture(**settings(kind, means, np.float32)).fit(X)
    except ValueError:  # its covariance is no longer positive definite
        theirs = dict.fromkeys(errors(model, X, reference), np.inf)
    else:
        theirs = errors(peer, X, reference)
    for name, ours in errors(model, X, reference).items():
        # What float32 rounds, in a few steps.
        assert ours <= max(2e-6, theirs[name]), name


@pytest.mark.parametrize("kind", KINDS)
def test_a_start_far_away_is_computed_in_double(kind, types_computed_in):
    X, means = rows(offset=3e3)
    start = np.zeros_like(means) + np.arange(N_COMPONENTS)[:, None]
    given = settings(kind, start, max_iter=3)
    model = GaussianMixture(**given).fit(X)
    assert np.dtype(np.float64) in types_computed_in
    reference = GaussianMixture(**given).fit(X.astype(float))
    np.testing.assert_allclose(model.means_, reference.means_, rtol=1e-6)
    np.testing.assert_allclose(model.covariances_, reference.covariances_, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1e-30, 1e-10, 1e10, 1e30])
def test_any_scale(kind, scale):
    X, means = rows(separation=3.0)
    X = (X * np.float32(scale)).astype(np.float32)
    given = settings(kind, means * scale, reg_covar=0.0)
    given["precisions_init"] = given["precisions_init"] / scale**2
    reference = GaussianMixture(**given).fit(X.astype(float))
    model = GaussianMixture(**given).fit(X)
    np.testing.assert_allclose(model.means_, reference.means_, atol=3e-6 * scale)
    np.testing.assert_allclose(model.covariances_, reference.covariances_, atol=3e-6 * scale**2)
    np.testing.assert_allclose(model.lower_bound_, reference.lower_bound_, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [1e10, 3e38])
def test_rows_whose_squares_overflow(kind, value):
    X, means = rows(n_columns=12, n_rows=90_000)
    X[1234, 3] = value
    X[80_000, 3] = -value
    given = settings(kind, means, max_iter=1)
    reference = GaussianMixture(**given)
    model = GaussianMixture(**given)
    reference.fit(X.astype(float))
    model.fit(X)
    assert np.isfinite(model.covariances_).all()
    np.testing.assert_allclose(model.means_, reference.means_, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(model.covariances_, reference.covariances_, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model.lower_bound_, reference.lower_bound_, rtol=1e-5)
    near = GaussianMixture(**settings(kind, means, max_iter=1)).fit(rows(n_columns=12)[0])
    doubles = X.astype(float)
    np.testing.assert_array_equal(near.predict(X), near.predict(doubles))
    np.testing.assert_allclose(near.predict_proba(X), near.predict_proba(doubles), atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_log_likelihoods_are_those_of_doubles(kind):
    X, means = rows()
    model = GaussianMixture(**settings(kind, means)).fit(X)
    doubles = model.score_samples(X.astype(float))
    assert doubles.dtype == np.float64
    np.testing.assert_array_equal(model.score_samples(X), doubles.astype(np.float32))
    assert model.score_samples(X).dtype == np.float32
    assert model.score(X) == pytest.approx(model.score(X.astype(float)), rel=1e-6)
    np.testing.assert_allclose(
        model.predict_proba(X), model.predict_proba(X.astype(float)), atol=1e-5
    )


@pytest.mark.parametrize("kind", KINDS)
def test_weights_streams_maps_and_threads(kind, tmp_path):
    X, means = rows()
    rng = np.random.default_rng(1)
    weights = rng.integers(0, 4, len(X)).astype(float)
    X[weights == 0] = 3e38
    given = settings(kind, means, max_iter=4)

    def fit(data, sample_weight=None, **others):
        return GaussianMixture(**given, **others).fit(data, sample_weight=sample_weight)

    def assert_same(one, other, exact):
        for name in ("weights_", "means_", "covariances_", "lower_bound_"):
            a, b = getattr(one, name), getattr(other, name)
            if exact:
                np.testing.assert_array_equal(a, b)
            else:
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)

    model = fit(X, weights)
    assert_same(fit(np.repeat(X, weights.astype(int), axis=0)), model, False)
    assert_same(fit(X.astype(float), weights), model, False)
    for n_jobs in (1, 2, 3):
        assert_same(fit(X, weights, n_jobs=n_jobs), model, True)
    path = tmp_path / "rows.npy"
    np.save(path, X)
    assert_same(fit(np.load(path, mmap_mode="r"), weights), model, True)
    assert_same(fit(np.asfortranarray(X), weights), model, True)

    half = len(X) // 2

    def parts():
        yield X[:half], weights[:half]
        yield X[half:].astype(float), weights[half:]

    assert_same(fit(parts), model, False)


def test_a_model_of_few_rows_is_computed_in_double(types_computed_in):
    X, means = rows(n_rows=3000)
    model = GaussianMixture(**settings("full", means)).fit(X)
    model.predict(X)
    reference = GaussianMixture(**settings("full", means)).fit(X.astype(float))
    assert set(types_computed_in) <= {np.dtype(np.float64)}
    np.testing.assert_array_equal(model.means_, reference.means_.astype(np.float32))
    np.testing.assert_array_equal(
        model._model().parameters["means"], reference._model().parameters["means"]
    )


@pytest.mark.parametrize("kind", ["diag", "spherical"])
@pytest.mark.parametrize("separation", [0.3, 2.0, 4.0])
def test_independent_columns_with_not_so_many_rows(kind, separation, types_computed_in):
    # Few rows of a component, many and nearly all are summed over in different ways.
    X, means = rows(n_rows=100_000, separation=separation)
    model = GaussianMixture(**settings(kind, means)).fit(X)
    assert set(types_computed_in) == {np.dtype(np.float32)}
    reference = GaussianMixture(**settings(kind, means)).fit(X.astype(float))
    scale = np.sqrt(reference.covariances_.mean())
    np.testing.assert_allclose(model.means_, reference.means_, atol=2e-6 * scale)
    np.testing.assert_allclose(model.covariances_, reference.covariances_, rtol=4e-6)
    again = GaussianMixture(**settings(kind, means, n_jobs=1)).fit(X)
    np.testing.assert_array_equal(again.means_, model.means_)
    np.testing.assert_array_equal(again.covariances_, model.covariances_)


def test_other_byte_orders_and_types_stay_double(types_computed_in):
    X, means = rows()
    for dtype in (">f4", "float16", "int16"):
        GaussianMixture(**settings("diag", means, max_iter=1)).fit(X.astype(dtype))
    assert set(types_computed_in) == {np.dtype(np.float64)}


@pytest.mark.parametrize("kind", KINDS)
def test_which_models_are_computed_in_float32(kind):
    family = Gaussian(kind)
    rng = np.random.default_rng(0)
    means = rng.normal(size=(3, 5))

    def single(factor=1.0, means=means):
        start = family.start(means)
        return family.in_single(
            family.pack({"means": means, "covariances": start["covariances"] * factor})
        )

    assert single() is not None
    assert single(1e20) is not None
    assert single(1e26) is None
    assert single(1e-26) is None
    assert single(means=means + 1e20) is None
    if kind == "tied":
        assert single(means=means * 1e3) is None


@pytest.mark.parametrize("kind", KINDS)
def test_statistics_of_a_step_in_float32(kind):
    X, means = rows(offset=50.0)
    doubles = X.astype(float)
    start = GaussianMixture(**settings(kind, means, max_iter=2)).fit(doubles)
    model: MixtureModel = start._model()
    got, expected = model.expect(X), model.expect(doubles)
    assert got.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-7)
    assert got.log_likelihood != expected.log_likelihood
    np.testing.assert_allclose(got.statistics["mass"], expected.statistics["mass"], atol=1e-7)
    ours, exact = got.statistics["moments"], expected.statistics["moments"]
    np.testing.assert_allclose(ours.mean, exact.mean, atol=1e-6)
    np.testing.assert_allclose(ours.scatter, exact.scatter, atol=1e-6 * exact.scatter.max())
