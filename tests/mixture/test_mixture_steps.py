"""Steps of batch EM that a kernel takes at once, against the same steps one by one."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris

import fastem
from fastem import GaussianMixture, Mixture, algebra
from fastem.data.rows import Table
from fastem.families import Gaussian
from fastem.mixture.model import MixtureModel
from fastem.model import Model
from fastem.statistics import Iterated
from fastem.stopping import StoppingRule, Tolerance

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

KINDS = ("full", "tied", "diag", "spherical")
IRIS = load_iris().data


def outcome(estimator, X, **given):
    """What a fit ends with: the estimator or the error, and the warnings on the way."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            end = estimator.fit(X, **given)
        except ValueError as error:
            end = str(error)
    return end, [(w.category, str(w.message), w.filename) for w in told]


def both(monkeypatch, make, X, **given):
    """The outcome with steps at once, and with steps one by one."""
    at_once = outcome(make(), X, **given)
    with monkeypatch.context() as patch:
        patch.setattr(MixtureModel, "iterate", Model.iterate)
        return at_once, outcome(make(), X, **given)


def assert_same_outcome(one, other):
    (end, told), (other_end, other_told) = one, other
    assert told == other_told
    if isinstance(end, str) or isinstance(other_end, str):
        assert end == other_end
        return
    assert (end.n_iter_, end.converged_) == (other_end.n_iter_, other_end.converged_)
    np.testing.assert_allclose(end.lower_bounds_, other_end.lower_bounds_, rtol=1e-9)
    for name in ("weights_", "means_", "covariances_"):
        got, want = getattr(end, name), getattr(other_end, name)
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-9 * np.abs(want).max())
    assert getattr(end, "_told_dead", None) == getattr(other_end, "_told_dead", None)


@pytest.fixture
def kernel_calls(monkeypatch):
    """How many steps the kernel took in each call."""
    calls, original = [], MixtureModel.iterate

    def watched(self, data, limit, prior=None):
        taken = original(self, data, limit, prior)
        calls.append(0 if taken is None else len(taken.log_likelihoods))
        return taken

    monkeypatch.setattr(MixtureModel, "iterate", watched)
    return calls


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fixed", [(), ("weights",), ("means",), ("covariances", "weights")])
@pytest.mark.parametrize("init_params", ["kmeans", "random", "k-means++", "random_from_data"])
def test_fits_of_iris(monkeypatch, kind, fixed, init_params):
    def make():
        return GaussianMixture(
            3, covariance_type=kind, fixed=fixed, init_params=init_params, random_state=1, tol=1e-4
        )

    assert_same_outcome(*both(monkeypatch, make, IRIS))


def test_a_small_fit_is_one_call_of_the_kernel(kernel_calls):
    fitted = GaussianMixture(3, random_state=0).fit(IRIS)
    assert kernel_calls == [fitted.n_iter_]
    # More steps than Python waits for.
    kernel_calls.clear()
    GaussianMixture(2, random_state=0, tol=0.0, max_iter=600).fit(IRIS[:, :1])
    assert kernel_calls == [256, 256, 88]


@pytest.mark.parametrize("kind", KINDS)
def test_a_component_that_collapses_is_the_same_error(monkeypatch, kernel_calls, kind):
    rng = np.random.default_rng(0)
    # At the origin rounding leaves nothing of a variance in scikit-learn either.
    X = np.vstack([rng.normal(-3.0, size=(40, 2)), np.zeros((6, 2))])
    if kind == "tied":
        X[:, 1] = X[:, 0]

    def make():
        return GaussianMixture(
            3, covariance_type=kind, reg_covar=0.0, random_state=0, max_iter=300, tol=0.0,
            means_init=[[0.0, 0.0], [-3.0, -3.0], [-2.0, -2.0]],
        )  # fmt: skip

    one, other = both(monkeypatch, make, X)
    assert_same_outcome(one, other)
    assert isinstance(one[0], str), "nothing collapsed"


def test_a_collapse_after_some_steps_leaves_the_estimator_as_it_was(kernel_calls):
    """The kernel has changed its arrays by then."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(-3.0, size=(40, 2)), np.zeros((6, 2))])
    start = {
        "weights_init": np.full(2, 0.5), "means_init": [[0.0, 0.0], [-3.0, -3.0]],
        "precisions_init": np.ones((2, 2)), "covariance_type": "diag",
    }  # fmt: skip
    model = GaussianMixture(2, reg_covar=0.0, max_iter=300, tol=0.0, **start)
    with pytest.raises(ValueError, match="ill-defined empirical covariance"):
        model.fit(X)
    assert max(kernel_calls) > 1 and kernel_calls[-1] == 0
    assert not [name for name in vars(model) if name.endswith("_")]


def test_an_overflow_is_the_same_error(monkeypatch):
    X = IRIS.copy()
    X[7, 2] = 1e200
    start = {
        "weights_init": np.full(2, 0.5), "means_init": IRIS[:2], "covariance_type": "spherical",
        "precisions_init": np.ones(2),
    }  # fmt: skip
    one, other = both(monkeypatch, lambda: GaussianMixture(2, **start), X)
    assert_same_outcome(one, other)
    assert "not finite at iteration 1" in one[0]


def dying(**settings):
    """A mixture one of whose components dies, is told of, and stays dead."""
    return GaussianMixture(
        3, covariance_type="diag", weights_init=np.full(3, 1 / 3), max_iter=40, tol=0.0,
        means_init=[[0.0], [1.0], [90.0]], precisions_init=np.ones((3, 1)), **settings,
    )  # fmt: skip


def test_a_component_that_dies_is_told_of_once(monkeypatch, kernel_calls):
    X = np.random.default_rng(0).normal(size=(50, 1))
    one, other = both(monkeypatch, dying, X)
    assert_same_outcome(one, other)
    deaths = [text for _, text, _ in one[1] if "no points left" in text]
    assert len(deaths) == 1
    assert [path for _, _, path in one[1]] == [__file__] * len(one[1])
    # The step of the death is left to Python, and the kernel takes those that follow.
    assert sum(kernel_calls) == 39


def test_a_component_that_comes_back_may_die_again(monkeypatch):
    X = np.vstack([np.random.default_rng(0).normal(size=(50, 1)), [[89.0]]])
    weights = np.ones(51)
    weights[-1] = 1e-16

    def make():
        model = dying(warm_start=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, sample_weight=weights)
        assert model._told_dead == {2}
        return model

    assert_same_outcome(*both(monkeypatch, make, X))
    returned, _ = outcome(make(), X)
    assert not hasattr(returned, "_told_dead")
    assert returned.weights_[2] > 0.01


def test_who_watches_sees_each_step(kernel_calls):
    silent = GaussianMixture(2, random_state=0).fit(IRIS)
    told = GaussianMixture(2, random_state=0, verbose=1).fit(IRIS)
    assert kernel_calls == [silent.n_iter_] + [1] * told.n_iter_
    assert told.lower_bounds_ == silent.lower_bounds_


def test_tables_of_several_chunks_streams_and_wide_rows_go_step_by_step(kernel_calls):
    X = np.random.default_rng(0).normal(size=(70_000, 2))
    GaussianMixture(2, max_iter=2, tol=0.0, random_state=0).fit(X)
    GaussianMixture(2, max_iter=2, tol=0.0, random_state=0).fit(lambda: iter([IRIS, IRIS]))
    wide = np.random.default_rng(0).normal(size=(300, 70))
    GaussianMixture(2, max_iter=2, tol=0.0, random_state=0).fit(wide)
    assert set(kernel_calls) == {0}


def test_rows_of_any_type_and_weights(monkeypatch):
    weights = np.random.default_rng(0).uniform(0.0, 2.0, 150)
    weights[::7] = 0.0
    for X in (IRIS.astype(np.float32), (10 * IRIS).astype(np.int16), IRIS[::-1, ::2],
              np.asfortranarray(IRIS), IRIS.astype(">f8")):  # fmt: skip

        def make():
            return GaussianMixture(3, random_state=0, max_iter=8, tol=0.0, reg_covar=1e-3)

        assert_same_outcome(*both(monkeypatch, make, X, sample_weight=weights))


def test_the_model_that_the_steps_begin_with_stays_as_it_is():
    model = GaussianMixture(2, random_state=0, max_iter=2).fit(IRIS)._model()
    before = {name: array.copy() for name, array in model.parameters.items()}
    algebra.fit(model, Table(IRIS), StoppingRule(5))
    for name, array in model.parameters.items():
        np.testing.assert_array_equal(array, before[name])


def test_rows_of_another_width_are_refused():
    model = GaussianMixture(2, random_state=0, max_iter=2).fit(IRIS)._model()
    with pytest.raises(ValueError, match="The data have 3 columns, and the model has 4"):
        algebra.fit(model, Table(IRIS[:, :3]), StoppingRule(5))
    with pytest.raises(ValueError, match="sample"):
        algebra.fit(model, Table(IRIS, np.ones(149)), StoppingRule(5))


class Overshooting(MixtureModel):
    """A model whose kernel ignores the tolerance."""

    def iterate(self, data, limit, prior=None) -> Iterated | None:
        return super().iterate(data, type(limit)(limit.n_steps), prior)


def test_the_rule_has_the_last_word():
    parameters = {"means": IRIS[[0, 60]], "covariances": np.stack([np.eye(4)] * 2)}
    ends = []
    for kind in (Overshooting, MixtureModel):
        rule = Tolerance(50, 1e-2)
        model = kind(Gaussian(), np.full(2, 0.5), parameters)
        ends.append((algebra.fit(model, Table(IRIS), rule), rule))
    (one, rule), (other, other_rule) = ends
    assert rule.log_likelihoods == other_rule.log_likelihoods
    assert rule.converged and 2 < rule.n_iter < 50
    for name, array in one.model.parameters.items():
        np.testing.assert_array_equal(array, other.model.parameters[name])


def test_families_with_a_size_of_observations(monkeypatch):
    X = np.random.default_rng(0).multinomial(7, [0.2, 0.3, 0.5], size=60)

    def make():
        return Mixture("multinomial", 2, random_state=0, max_iter=5, tol=0.0)

    (one, _), (other, _) = both(monkeypatch, make, X)
    np.testing.assert_allclose(one.probabilities_, other.probabilities_, rtol=1e-10)
    np.testing.assert_allclose(one.lower_bounds_, other.lower_bounds_, rtol=1e-11)
    assert fastem.divergence(one, other) == pytest.approx(0.0, abs=1e-12)
