"""A few short sequences: inference in one call of a kernel, and steps of batch EM in another."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from fastem import GMMHMM, HMM, CategoricalHMM, GaussianHMM, MultinomialHMM, PoissonHMM
from fastem.families import Beta, Exponential, Gamma, Gaussian, Product
from fastem.hmm.model import HMMModel
from fastem.model import Model

LENGTHS = [40, 7, 1, 52]


def rows(seed=0, n_columns=2):
    rng = np.random.default_rng(seed)
    states = np.repeat(rng.integers(3, size=25), 4)
    return 3.0 * rng.normal(size=(3, n_columns))[states] + rng.normal(size=(100, n_columns))


def counts():
    return np.random.default_rng(1).poisson(np.repeat([1.0, 9.0] * 5, 10)[:, None] * [1.0, 2.0])


def trials():
    return np.random.default_rng(2).multinomial(6, [0.2, 0.3, 0.5], size=100)


def symbols():
    return np.random.default_rng(3).integers(4, size=(100, 1))


CHAIN = {"startprob_prior": [1.5, 1.0, 2.0], "transmat_prior": 1.7}
OF_GAUSSIANS = {"means_prior": 0.3, "means_weight": 2.0, "covars_prior": 0.2, "covars_weight": 6.0}
#: Estimators, their data, and priors, as numbers and as arrays.
CASES = {
    f"{kind.__name__}-{covariance_type}": (
        kind(3, covariance_type=covariance_type, random_state=0, **more), rows(),
        [OF_GAUSSIANS, {"means_prior": np.full(shape, 0.2), "means_weight": np.ones(shape[:-1])}],
    )
    for kind, shape, more in (
        (GaussianHMM, (3, 2), {}), (GMMHMM, (3, 2, 2), {"n_mix": 2, "min_covar": 1e-2}),
    )
    for covariance_type in ("full", "tied", "diag", "spherical")
}  # fmt: skip
CASES |= {
    "PoissonHMM": (
        PoissonHMM(3, random_state=0), counts(),
        [{"lambdas_prior": 0.5, "lambdas_weight": 0.7}, {"lambdas_prior": [[1.0, 2.0]] * 3}],
    ),
    "CategoricalHMM": (
        CategoricalHMM(3, random_state=0), symbols(),
        [{"emissionprob_prior": 1.4}, {"emissionprob_prior": np.full((3, 4), 2.0)}],
    ),
    "MultinomialHMM": (MultinomialHMM(3, random_state=0), trials(), []),
    "HMM": (HMM(Gaussian("diag"), 3, random_state=0), rows(), []),
    "HMM-product": (
        HMM(Product((Gaussian("full"), 1), (Exponential(), 1)), 3, random_state=0), abs(rows()), [],
    ),
}  # fmt: skip


@pytest.fixture
def steps(monkeypatch):
    """The number of steps that kernels take."""
    taken = []

    def iterate(self, *arguments):
        found = original(self, *arguments)
        taken.append(0 if found is None else len(found.log_likelihoods))
        return found

    original = HMMModel.iterate
    monkeypatch.setattr(HMMModel, "iterate", iterate)
    return taken


def one_by_one(model, monkeypatch, *data):
    """The same fit, by an E-step and an M-step in each iteration."""
    with monkeypatch.context() as patch:
        patch.setattr(HMMModel, "iterate", Model.iterate)
        return clone(model).fit(*data)


def assert_same(one, other, rtol=1e-9):
    assert one.n_iter_ == other.n_iter_
    assert_allclose(one.lower_bounds_, other.lower_bounds_, rtol=1e-11)
    for name in one._parameter_attributes():
        assert_allclose(getattr(one, name), getattr(other, name), rtol=rtol, atol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_steps_with_priors_are_those_that_python_takes(name, steps, monkeypatch):
    model, X, priors = CASES[name]
    names = [shown.name for shown in model._shown()]
    variants = [{}, CHAIN, *priors, *({**CHAIN, **prior} for prior in priors[:1])]
    variants += [{**variants[-1], "fixed": (fixed,)} for fixed in names]
    for settings in variants:
        steps.clear()
        chosen = clone(model).set_params(n_iter=6, tol=-np.inf, **settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            got = clone(chosen).fit(X, LENGTHS)
            assert steps == [6], settings
            assert_same(got, one_by_one(chosen, monkeypatch, X, LENGTHS))


@pytest.mark.parametrize("name", ["GaussianHMM-diag", "CategoricalHMM", "HMM"])
def test_weights_count_in_the_kernel(name, monkeypatch):
    model, X, _ = CASES[name]
    model = clone(model).set_params(n_iter=5)
    weights = [0.5, 2.0, 0.0, 1.0]
    got = clone(model).fit(X, LENGTHS, weights)
    assert_same(got, one_by_one(model, monkeypatch, X, LENGTHS, weights))


def test_absorbing_states_in_the_kernel(steps, monkeypatch):
    model = GaussianHMM(3, random_state=0, absorbing=[2], n_iter=5, tol=-np.inf)
    got = clone(model).fit(rows(), LENGTHS)
    assert steps == [5]
    assert_same(got, one_by_one(model, monkeypatch, rows(), LENGTHS))


@pytest.mark.parametrize("tol", [1e-3, 0.5, 30.0])
def test_it_stops_where_the_monitor_does(tol, monkeypatch):
    model = GaussianHMM(3, random_state=0, n_iter=200, tol=tol)
    got, want = clone(model).fit(rows()), one_by_one(model, monkeypatch, rows())
    assert_same(got, want)
    assert got.converged_ == want.converged_
    assert got.monitor_.history == pytest.approx(want.monitor_.history, rel=1e-12)


@pytest.mark.parametrize("kind", ["diag", "spherical", "full", "tied"])
def test_a_step_that_the_user_is_told_of_is_taken_by_python(kind, monkeypatch, caplog):
    """A prior that makes covariances negative; the floor takes its place."""
    X = rows()
    settings = {"covars_prior": -1e4, "min_covar": 1e6, "n_iter": 4, "tol": -np.inf}
    model = GaussianHMM(3, covariance_type=kind, random_state=0, **settings)
    found = []
    for fit in (lambda: clone(model).fit(X), lambda: one_by_one(model, monkeypatch, X)):
        caplog.clear()
        found.append((fit(), sorted({record.getMessage() for record in caplog.records})))
    (got, told), (want, expected) = found
    assert told == expected and any("min_covar" in text for text in told)
    assert_same(got, want, rtol=1e-6)


def test_what_is_impossible_is_an_error_as_before():
    model = CategoricalHMM(2, n_features=3, init_params="", params="ste")
    model.startprob_, model.transmat_ = [0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]]
    model.emissionprob_ = [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]
    with pytest.raises(ValueError, match="probability zero"):
        model.fit([[0], [1], [2]])
    assert_array_equal(model.emissionprob_[0], [0.5, 0.5, 0.0])


def test_priors_of_a_wrong_shape_are_named():
    model = GaussianHMM(3, means_prior=np.zeros((2, 2)), random_state=0)
    with pytest.raises(ValueError, match="means_prior has the shape"):
        model.fit(rows())
    with pytest.raises(ValueError, match="transmat_prior"):
        GaussianHMM(3, transmat_prior=np.ones((2, 2)), random_state=0).fit(rows())


# Inference --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_every_result_is_that_of_a_pass_over_the_table(name, lengths, monkeypatch):
    model, X, _ = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        model = clone(model).set_params(n_iter=3).fit(X, LENGTHS)
    calls = [
        lambda: model.score(X, lengths),
        lambda: model.score_sequences(X, lengths),
        lambda: model.score_samples(X, lengths),
        lambda: model.predict(X, lengths),
        lambda: model.predict_proba(X, lengths),
        lambda: model.decode(X, lengths),
        lambda: model.decode(X, lengths, "map"),
    ]
    got = [call() for call in calls]
    monkeypatch.setattr(type(model._model().few), "batch", lambda self, X, lengths: None)
    for one, other in zip(got, (call() for call in calls), strict=True):
        assert type(one) is type(other)
        pairs = zip(one, other, strict=True) if isinstance(one, tuple) else [(one, other)]
        for a, b in pairs:
            assert_allclose(a, b, rtol=1e-11, atol=1e-11)
            assert np.asarray(a).dtype == np.asarray(b).dtype


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.int64, np.uint8])
def test_rows_of_any_type_and_order(dtype):
    model = PoissonHMM(3, random_state=0).fit(counts())
    X = counts().astype(dtype)
    want = model.predict_proba(counts().astype(float))
    for view in (X, np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2], X[::-1][::-1]):
        assert_allclose(model.predict_proba(view), want, rtol=1e-12)


WRONG = {
    "GaussianHMM-diag": [np.inf, -np.inf],
    "PoissonHMM": [-1.0, 0.5, np.inf],
    "CategoricalHMM": [4.0, -1.0, 0.5, 1e18],
    "MultinomialHMM": [-1.0, 1.5],
}


@pytest.mark.parametrize("name, value", [(name, v) for name in WRONG for v in WRONG[name]])
def test_values_outside_the_support_are_still_refused(name, value):
    model, X, _ = CASES[name]
    model, X = clone(model).fit(X), X[:9].astype(float)
    X[5, 0] = value
    for call in (model.score, model.predict, model.predict_proba, model.decode):
        with pytest.raises(ValueError, match=r"row 5|infinity|Row 5"):
            call(X)


@pytest.mark.parametrize("family", [Gamma(), Beta()])
def test_ends_of_the_support(family):
    model = HMM(family, 2, random_state=0).fit(np.random.default_rng(4).uniform(0.1, 0.9, (50, 1)))
    for value in (0.0, 1.0)[: 1 if isinstance(family, Gamma) else 2]:
        with pytest.raises(ValueError, match="data must"):
            model.score(np.array([[0.5], [value]]))
    assert np.isfinite(model.score(np.array([[0.5], [1e-300]])))


def test_missing_values_are_left_to_the_other_way():
    model = GaussianHMM(3, random_state=0).fit(rows())
    X = rows()
    X[3] = np.nan
    few = model._model().few
    batch = few.batch(X, None)
    assert few.scores(batch) is few.posteriors(batch) is few.paths(batch) is None
    assert np.isfinite(model.score(X))
    assert model.predict(X).shape == (100,)


@pytest.mark.parametrize(
    "lengths", [[50, 49], [50, 51], [-1, 101], [0, 100], [[50, 50]], ["a"], [1.5]]
)
def test_wrong_lengths_are_refused(lengths):
    model = GaussianHMM(3, random_state=0).fit(rows())
    with pytest.raises((ValueError, TypeError)):
        model.predict(rows(), lengths)


def test_a_model_that_is_copied_gets_its_own():
    model = GaussianHMM(3, random_state=0).fit(rows())._model()
    few = model.few
    assert model.few is few
    moved = model._copied(startprob=np.array([1.0, 0.0, 0.0]))
    assert moved.few is not few
    assert_array_equal(moved.few.chain.start[:3], [1.0, 0.0, 0.0])
    assert "few" not in model.__getstate__()


def test_an_estimator_that_is_not_fitted():
    with pytest.raises(NotFittedError):
        GaussianHMM(3).predict(rows())


def test_columns_are_compared_before_a_kernel_sees_them():
    model = GaussianHMM(3, random_state=0).fit(rows())
    with pytest.raises(ValueError, match="3 features"):
        model.predict(rows(n_columns=3))
    model.means_ = np.zeros((3, 3))
    with pytest.raises(ValueError):
        model.predict(rows())
