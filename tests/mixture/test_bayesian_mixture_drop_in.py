"""``fastem.BayesianGaussianMixture`` in the place of scikit-learn's: its steps, and its models."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.mixture import BayesianGaussianMixture as Scikit
from sklearn.mixture import GaussianMixture as ScikitMixture

import fastem
from fastem import BayesianGaussianMixture

KINDS = ("full", "tied", "diag", "spherical")
WEIGHTS = ("dirichlet_process", "dirichlet_distribution")
X = load_iris().data
every_kind = pytest.mark.parametrize("kind", KINDS)
every_prior = pytest.mark.parametrize("weights", WEIGHTS)
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

LEARNED = (
    "weights_", "weight_concentration_", "mean_precision_", "means_", "degrees_of_freedom_",
    "covariances_", "precisions_", "precisions_cholesky_", "weight_concentration_prior_",
    "mean_precision_prior_", "mean_prior_", "degrees_of_freedom_prior_", "covariance_prior_",
    "lower_bound_", "n_iter_", "converged_", "n_features_in_",
)  # fmt: skip
STEPS = (
    "_check_parameters", "_initialize_parameters", "_initialize", "_e_step", "_m_step",
    "_estimate_log_prob", "_estimate_log_weights", "_estimate_weighted_log_prob",
    "_estimate_log_prob_resp", "_compute_lower_bound", "_get_parameters", "_set_parameters",
    "_print_verbose_msg_init_beg", "_print_verbose_msg_iter_end", "_print_verbose_msg_init_end",
    "_check_weights_parameters", "_check_means_parameters", "_check_precision_parameters",
    "_checkcovariance_prior_parameter", "_estimate_weights", "_estimate_means",
    "_estimate_precisions", "_estimate_wishart_full",
)  # fmt: skip


def settings(kind="full", weights=WEIGHTS[0]):
    return {
        "n_components": 4, "covariance_type": kind, "weight_concentration_prior_type": weights,
        "random_state": 0, "max_iter": 30,
    }  # fmt: skip


def assert_same_fit(one, other):
    for name in LEARNED:
        a, b = (np.ravel(getattr(model, name)) for model in (one, other))
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8, err_msg=name)


def assert_same_answers(one, other, rows=X):
    np.testing.assert_array_equal(one.predict(rows), other.predict(rows))
    for method in ("predict_proba", "score_samples", "score"):
        a, b = (getattr(model, method)(rows) for model in (one, other))
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10, err_msg=method)


def counting(base, names):
    """A subclass that counts the calls of these steps."""

    def make(name):
        def step(self, *arguments, **keywords):
            self.calls = (*self.calls, name)
            return getattr(base, name)(self, *arguments, **keywords)

        return step

    return type("Counted", (base,), {"calls": (), **{name: make(name) for name in names}})


def test_it_is_one_of_scikit_learns():
    model = BayesianGaussianMixture()
    assert isinstance(model, Scikit) and not isinstance(model, ScikitMixture)
    for name in vars(Scikit).keys() | vars(Scikit.__mro__[1]).keys():
        if not name.startswith("_") and name != "set_fit_request":
            assert getattr(BayesianGaussianMixture, name).__module__.startswith("fastem."), name


@every_kind
@every_prior
def test_all_steps_are_called_as_scikit_learn_calls_them(kind, weights):
    names = [name for name in STEPS if not name.startswith("_estimate_wishart")]
    names.append(f"_estimate_wishart_{kind}")
    ours, theirs = (
        counting(base, names)(**settings(kind, weights)).fit(X)
        for base in (BayesianGaussianMixture, Scikit)
    )
    assert set(ours.calls) == set(names)
    assert ours.calls == theirs.calls
    assert_same_fit(ours, theirs)
    assert_same_answers(ours, theirs)
    assert isinstance(ours.lower_bound_, float)
    plain = BayesianGaussianMixture(**settings(kind, weights)).fit(X)
    assert_same_fit(ours, plain)
    assert_same_answers(ours, plain)


@pytest.mark.parametrize("step", STEPS)
def test_each_step_alone(step):
    model = counting(BayesianGaussianMixture, [step])(**settings())
    labels = model.fit_predict(X)
    assert step in model.calls
    assert_same_fit(model, BayesianGaussianMixture(**settings()).fit(X))
    np.testing.assert_array_equal(labels, model.predict(X))
    assert model.n_observations_ == len(X)


def test_a_step_of_ones_own_is_what_counts():
    def pinned(base):
        class Pinned(base):
            def _m_step(self, X, log_resp, **more):
                super()._m_step(X, log_resp, **more)
                self.means_[0] = 0.0

        return Pinned(**settings()).fit(X)

    ours, theirs = pinned(BayesianGaussianMixture), pinned(Scikit)
    np.testing.assert_array_equal(ours.means_[0], 0.0)
    assert_same_fit(ours, theirs)
    assert_same_answers(ours, theirs)


def test_steps_of_ones_own_are_never_passed_over():
    made = counting(BayesianGaussianMixture, ["_estimate_means"])
    for given in ({"sample_weight": np.ones(len(X))}, {"X": [X, X]}):
        with pytest.raises(ValueError, match=r"overrides _estimate_means: .* has no place"):
            made(**settings()).fit(**{"X": X, **given})
    with pytest.raises(TypeError, match="overrides _estimate_means, which online learning"):
        made(**settings()).fit(X).partial_fit(X)
    tempered = counting(BayesianGaussianMixture, ["_estimate_log_prob"])(**settings()).fit(X)
    with pytest.raises(TypeError, match="would give other answers"):
        tempered.to_sklearn()


@every_kind
def test_integers_are_as_good_as_floats(kind):
    rows = (10 * X).astype(int)
    model = counting(BayesianGaussianMixture, ["_m_step"])(**settings(kind)).fit(rows)
    tempered = counting(BayesianGaussianMixture, ["_estimate_log_prob_resp"])(**settings(kind))
    tempered.fit(rows)
    for one in (model, tempered):
        np.testing.assert_array_equal(
            one.score_samples(rows), one.score_samples(rows.astype(float))
        )


@every_kind
@every_prior
def test_a_posterior_set_by_hand_answers_without_the_prior(kind, weights):
    peer = Scikit(**settings(kind, weights)).fit(X)
    ours, theirs = (base(**settings(kind, weights)) for base in (BayesianGaussianMixture, Scikit))
    for model in (ours, theirs):
        for name in LEARNED[:6] + LEARNED[7:8]:
            setattr(model, name, getattr(peer, name))
    assert_same_answers(ours, theirs)
    np.testing.assert_array_equal(ours.sample(20)[1], theirs.sample(20)[1])
    np.testing.assert_allclose(ours.sample(20)[0], theirs.sample(20)[0], rtol=1e-6)
    with pytest.raises(AttributeError, match="weight_concentration_prior_"):
        ours.partial_fit(X)


@every_kind
@every_prior
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_to_scikit_learn_and_back(kind, weights, dtype):
    rows = X.astype(dtype)
    model = BayesianGaussianMixture(**settings(kind, weights), n_jobs=1).fit(rows)
    peer = model.to_sklearn()
    assert type(peer) is Scikit
    assert_same_answers(peer, model)
    peer.means_[0] += 1.0
    assert not np.allclose(model.means_, peer.means_)
    arrays = peer.weight_concentration_, model.weight_concentration_
    assert type(arrays[0]) is type(arrays[1])
    assert not np.shares_memory(arrays[0][0], arrays[1][0])
    theirs = Scikit(**settings(kind, weights), warm_start=True).fit(rows)
    ours = BayesianGaussianMixture.from_sklearn(theirs, n_observations=len(X), n_jobs=1)
    assert ours.n_jobs == 1 and ours.n_observations_ == len(X)
    assert isinstance(ours.lower_bound_, float)
    assert_same_answers(ours, theirs)
    if dtype is np.float64:
        assert_same_fit(ours.fit(rows), theirs.fit(rows))
    assert ours.partial_fit(rows).n_observations_ > len(X)


def test_models_of_other_classes_are_refused():
    with pytest.raises(TypeError, match=r"takes a sklearn\.mixture\.BayesianGaussianMixture; got"):
        BayesianGaussianMixture.from_sklearn(ScikitMixture())
    with pytest.raises(TypeError, match=r"takes a sklearn\.mixture\.GaussianMixture; got"):
        fastem.GaussianMixture.from_sklearn(Scikit())


@every_kind
def test_export_to_onnx(kind):
    onnxruntime = pytest.importorskip("onnxruntime")
    skl2onnx = pytest.importorskip("skl2onnx")
    rows = X.astype(np.float32)
    model = BayesianGaussianMixture(**settings(kind)).fit(X)
    exported = skl2onnx.to_onnx(model.to_sklearn(), rows[:1])
    session = onnxruntime.InferenceSession(
        exported.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    labels, probabilities = session.run(None, {"X": rows})[:2]
    np.testing.assert_array_equal(np.ravel(labels), model.predict(X))
    np.testing.assert_allclose(probabilities, model.predict_proba(X), atol=2e-3)
