"""Programs that know scikit-learn's ``GaussianMixture`` from the inside work with fastem's."""

import copy
import inspect
import pickle
import subprocess
import sys

import numpy as np
import pytest
import sklearn.mixture
from sklearn.base import clone, is_clusterer
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

import fastem
from fastem import GaussianMixture
from fastem.mixture import GaussianMixture as FromPackage

Scikit = sklearn.mixture.GaussianMixture
KINDS = ["full", "tied", "diag", "spherical"]
X = load_iris().data
PARAMETERS = ("weights_", "means_", "covariances_", "precisions_cholesky_", "precisions_")


def fitted(kind="full", made=GaussianMixture, **settings):
    return made(3, covariance_type=kind, random_state=0, **settings).fit(X)


def assert_same_answers(one, other, rows=X):
    np.testing.assert_array_equal(one.predict(rows), other.predict(rows))
    np.testing.assert_allclose(one.predict_proba(rows), other.predict_proba(rows), atol=1e-11)
    np.testing.assert_allclose(one.score_samples(rows), other.score_samples(rows), rtol=1e-10)
    assert one.score(rows) == pytest.approx(other.score(rows), rel=1e-11)
    assert one.bic(rows) == pytest.approx(other.bic(rows), rel=1e-11)
    assert type(one.bic(rows)) is type(other.bic(rows))


def assert_same_fit(one, other, rtol=1e-6):
    for name in PARAMETERS:
        np.testing.assert_allclose(
            getattr(one, name), getattr(other, name), rtol=rtol, atol=1e-8, err_msg=name
        )
    # scikit-learn's are differences of large numbers where variances are small.
    np.testing.assert_allclose(one.lower_bounds_, other.lower_bounds_, rtol=1e-7)
    assert (one.n_iter_, one.converged_) == (other.n_iter_, other.converged_)


# Attributes that are set by hand --------------------------------------------------------------


@pytest.mark.parametrize("has_covariances", [True, False])
@pytest.mark.parametrize("how", ["lower", "square", "scaled"])
@pytest.mark.parametrize("kind", KINDS)
def test_any_factor_of_precisions(kind, how, has_covariances):
    precisions = fitted(kind).precisions_
    if kind in ("full", "tied"):
        factors = np.linalg.cholesky(precisions)
        assert np.tril(factors, -1).any()
        if how == "square":
            factors = factors + 0.3 * np.triu(np.ones_like(factors), 1)
    else:
        factors = np.sqrt(precisions)
    if how == "scaled":
        factors = 1.3 * factors
    models = fitted(kind), fitted(kind, Scikit)
    for model in models:
        model.precisions_cholesky_ = factors
        if not has_covariances:
            del model.covariances_
    assert_same_answers(*models)


def test_a_lower_factor_gives_the_gaussian_density():
    from scipy.stats import multivariate_normal

    covariance = np.array([[2.0, 0.6], [0.6, 0.5]])
    model = GaussianMixture(1)
    model.weights_, model.means_ = np.ones(1), np.array([[1.0, -1.0]])
    model.precisions_cholesky_ = np.linalg.cholesky(np.linalg.inv(covariance))[None]
    rows = np.random.default_rng(0).normal(size=(20, 2))
    expected = multivariate_normal([1.0, -1.0], covariance).logpdf(rows)
    np.testing.assert_allclose(model.score_samples(rows), expected, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_sample_of_what_is_set_by_hand(kind):
    source = fitted(kind)
    drawn = []
    for made in (GaussianMixture, Scikit):
        model = made(3, covariance_type=kind, random_state=7)
        for name in ("weights_", "means_", "covariances_"):
            setattr(model, name, getattr(source, name))
        drawn.append(model.sample(200))
    np.testing.assert_allclose(drawn[0][0], drawn[1][0], rtol=1e-12)
    np.testing.assert_array_equal(drawn[0][1], drawn[1][1])


def test_sample_of_a_singular_covariance():
    drawn = []
    for made in (GaussianMixture, Scikit):
        model = made(1, random_state=7)
        model.weights_, model.means_ = np.ones(1), np.zeros((1, 2))
        model.covariances_ = np.ones((1, 2, 2))
        drawn.append(model.sample(50)[0])
    np.testing.assert_allclose(*drawn, atol=1e-12)
    np.testing.assert_allclose(drawn[0][:, 0], drawn[0][:, 1], atol=1e-6)


def test_sample_says_what_is_missing_or_wrong():
    model = GaussianMixture(1)
    with pytest.raises(NotFittedError):
        model.sample()
    model.weights_, model.means_ = np.ones(1), np.zeros((1, 2))
    with pytest.raises(AttributeError, match="neither covariances_ nor precisions_cholesky_"):
        model.sample()
    model.covariances_ = np.ones((1, 3, 3))
    with pytest.raises(ValueError, match="covariances_ .*should have the shape"):
        model.sample()
    model.covariances_ = np.ones((1, 2, 2))
    model.weights_ = np.array([-1.0])
    with pytest.raises(ValueError, match="not negative"):
        model.sample()
    model = GaussianMixture(1, covariance_type="diag")
    model.weights_, model.means_ = np.ones(1), np.zeros((1, 2))
    model.covariances_ = np.array([[1.0, -1.0]])
    with pytest.raises(ValueError, match="not be negative"):
        model.sample()


@pytest.mark.parametrize("use", ["predict", "sample", "partial_fit"])
@pytest.mark.parametrize("kind", KINDS)
def test_lists_become_arrays(kind, use):
    source = fitted(kind)
    model = GaussianMixture(3, covariance_type=kind, random_state=0)
    for name in PARAMETERS[:4]:
        setattr(model, name, getattr(source, name).tolist())
    model.n_features_in_ = 4
    {
        "predict": lambda: model.predict(X),
        "sample": model.sample,
        "partial_fit": lambda: model.partial_fit(X),
    }[use]()
    for name in PARAMETERS[:4]:
        assert isinstance(getattr(model, name), np.ndarray), name
    if use != "partial_fit":
        assert_same_answers(model, source)


def test_a_list_that_is_wrong_stays_and_is_said():
    model = fitted()
    model.means_ = ragged = [[1.0, 2.0], [3.0]]
    with pytest.raises(ValueError, match="means_.*rows of different lengths"):
        model.predict(X)
    assert model.means_ is ragged


# Steps that subclasses override -------------------------------------------------------------------


class Counting:
    """Counts the calls of steps, each of which does what it does in the next class."""

    calls = ()

    def _count(self, name):
        self.calls = (*self.calls, name)


def counting(base, names):
    """A subclass that overrides these steps and calls the original ones."""

    def make(name):
        def step(self, *arguments, **keywords):
            self._count(name)
            return getattr(base, name)(self, *arguments, **keywords)

        return step

    return type("Counted", (Counting, base), {name: make(name) for name in names})


STEPS = [
    "_check_parameters", "_initialize_parameters", "_initialize", "_e_step", "_m_step",
    "_estimate_log_prob", "_estimate_log_weights", "_estimate_weighted_log_prob",
    "_estimate_log_prob_resp", "_compute_lower_bound", "_get_parameters", "_set_parameters",
    "_print_verbose_msg_init_beg", "_print_verbose_msg_iter_end", "_print_verbose_msg_init_end",
]  # fmt: skip


@pytest.mark.parametrize("init_params", ["kmeans", "k-means++", "random", "random_from_data"])
@pytest.mark.parametrize("kind", KINDS)
def test_all_steps_are_called_as_scikit_learn_calls_them(kind, init_params):
    # With variances of 1e-6 about single points, scikit-learn's squares lose the digits compared.
    start = {"init_params": init_params, "reg_covar": 1e-2}
    models = [
        counting(base, STEPS)(3, covariance_type=kind, random_state=0, **start).fit(X)
        for base in (GaussianMixture, Scikit)
    ]
    ours, theirs = models
    assert set(ours.calls) == set(STEPS)
    assert ours.calls == theirs.calls
    assert_same_fit(ours, theirs)
    plain = fitted(kind, **start)
    assert_same_fit(ours, plain)
    for model in models:
        model.calls = ()
        model.predict(X), model.predict_proba(X), model.score_samples(X), model.score(X)
    assert ours.calls.count("_estimate_log_prob") == theirs.calls.count("_estimate_log_prob") == 4
    assert_same_answers(ours, theirs)


@pytest.mark.parametrize("step", STEPS)
def test_each_step_alone(step):
    model = counting(GaussianMixture, [step])(3, random_state=0, max_iter=4, tol=0.0)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        labels = model.fit_predict(X)
    assert step in model.calls
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        plain = GaussianMixture(3, random_state=0, max_iter=4, tol=0.0).fit(X)
    assert_same_fit(model, plain)
    np.testing.assert_array_equal(labels, plain.predict(X))
    assert model.n_observations_ == len(X)


@pytest.mark.parametrize("base", [GaussianMixture, Scikit])
@pytest.mark.parametrize("step", STEPS)
def test_a_class_that_is_given_a_step_later_on(monkeypatch, base, step):
    class Later(base):
        pass

    def counted(original, calls):
        def called(self, *arguments, **keywords):
            calls.append(step)
            return original(self, *arguments, **keywords)

        return called

    settings = {"n_components": 3, "random_state": 0, "reg_covar": 1e-2}
    plain = base(**settings).fit(X)
    for kind in (Later, base):
        calls = []
        before = Later(**settings).fit(X)
        monkeypatch.setattr(kind, step, counted(getattr(kind, step), calls))
        assert_same_fit(kind(**settings).fit(X), plain)
        assert calls
        del calls[:]
        before.predict(X)
        assert bool(calls) == (step in ("_estimate_log_prob", "_estimate_log_weights",
                                        "_estimate_weighted_log_prob"))  # fmt: skip
        monkeypatch.undo()


@pytest.mark.parametrize("base", [GaussianMixture, Scikit])
def test_a_parameter_that_is_a_property(base):
    class Shared(base):
        @property
        def means_(self):
            return self.kept

        @means_.setter
        def means_(self, means):
            self.kept = means

    for rows in (X, X.astype(np.float32)):
        model, plain = (kind(3, random_state=0).fit(rows) for kind in (Shared, base))
        assert model.kept.dtype == plain.means_.dtype == rows.dtype
        np.testing.assert_array_equal(model.means_, plain.means_)
        np.testing.assert_array_equal(model.score_samples(rows), plain.score_samples(rows))


@pytest.mark.parametrize("base", [GaussianMixture, Scikit])
def test_a_step_of_ones_own_is_what_counts(base):
    class EqualWeights(base):
        def _m_step(self, X, log_resp, xp=None):
            super()._m_step(X, log_resp)
            self.weights_ = np.full(self.n_components, 1 / self.n_components)

    model = EqualWeights(3, random_state=0, tol=1e-8, max_iter=500).fit(X)
    np.testing.assert_array_equal(model.weights_, 1 / 3)
    fixed = GaussianMixture(
        3, random_state=0, tol=1e-8, max_iter=500, fixed="weights", weights_init=np.ones(3) / 3
    ).fit(X)
    assert model.lower_bound_ == pytest.approx(fixed.lower_bound_, rel=1e-6)


@pytest.mark.parametrize("base", [GaussianMixture, Scikit])
def test_a_density_of_ones_own(base):
    class Tempered(base):
        def _estimate_weighted_log_prob(self, X, xp=None):
            return 0.1 * super()._estimate_weighted_log_prob(X)

    ours = Tempered(3, random_state=0, tol=1e-7, max_iter=300).fit(X)
    theirs = type("Tempered", (Scikit,), {
        "_estimate_weighted_log_prob": lambda self, X, xp=None: (
            0.1 * Scikit._estimate_weighted_log_prob(self, X)
        )
    })(3, random_state=0, tol=1e-7, max_iter=300).fit(X)  # fmt: skip
    assert_same_fit(ours, theirs)
    assert_same_answers(ours, theirs)
    assert ours.predict_proba(X).max(axis=1).mean() < 0.99


def test_a_step_set_on_an_instance():
    model = GaussianMixture(3, random_state=0)
    seen = []

    def e_step(X, xp=None):
        seen.append(len(X))
        return GaussianMixture._e_step(model, X)

    model._e_step = e_step
    model.fit(X)
    assert len(seen) == model.n_iter_ + 1
    model._estimate_log_weights = lambda xp=None: np.array([-np.inf, 0.0, -np.inf])
    assert (model.predict(X) == 1).all()
    np.testing.assert_array_equal(model.predict_proba(X)[:, 1], 1.0)


def test_a_fit_predict_of_ones_own_is_what_fit_calls():
    for base in (GaussianMixture, Scikit):

        class Noting(base):
            seen = 0

            def fit_predict(self, X, y=None):
                self.seen += 1
                return super().fit_predict(X, y)

        model = Noting(3, random_state=0).fit(X)
        assert model.seen == 1
        assert_same_fit(model, fitted())


def test_score_is_the_mean_of_scores_of_ones_own():
    class Shifted(GaussianMixture):
        def score_samples(self, X):
            return super().score_samples(X) + np.arange(len(X))

    model = Shifted(3, random_state=0).fit(X)
    plain = fitted()
    assert model.score(X) == pytest.approx(plain.score(X) + (len(X) - 1) / 2)
    weights = np.arange(len(X), dtype=float)
    expected = np.average(model.score_samples(X), weights=weights)
    assert model.score(X, sample_weight=weights) == pytest.approx(expected)


def test_steps_of_ones_own_are_never_passed_over():
    """Where nothing would call them, that is an error; the estimator stays as it was."""
    made = counting(GaussianMixture, ["_m_step"])
    cases = {
        "sample_weight": lambda model: model.fit(X, sample_weight=np.ones(len(X))),
        "a stream": lambda model: model.fit([X, X]),
        "solver='incremental'": lambda model: model.set_params(solver="incremental").fit(X),
        "a callback": lambda model: model.set_params(callback=print).fit(X),
    }
    for what, call in cases.items():
        model = made(3)
        with pytest.raises(ValueError, match=f"overrides _m_step: .*{what} has no place"):
            call(model)
        assert not hasattr(model, "weights_")
    for call in (lambda model: model.partial_fit(X), lambda model: model.learner()):
        model = made(3, random_state=0).fit(X)
        with pytest.raises(TypeError, match="overrides _m_step, which online learning does not"):
            call(model)
    tempered = counting(GaussianMixture, ["_estimate_log_prob"])(3, random_state=0).fit(X)
    with pytest.raises(TypeError, match="overrides _estimate_log_prob"):
        tempered.to_sklearn()
    with pytest.raises(ValueError, match="Score the arrays of the stream one by one"):
        tempered.score([X, X])


def test_a_step_that_fails_leaves_the_estimator_as_it_was():
    class Failing(GaussianMixture):
        steps = 0

        def _m_step(self, X, log_resp, xp=None):
            type(self).steps += 1
            if type(self).steps == 3:
                raise RuntimeError("third")
            super()._m_step(X, log_resp)

    generator = np.random.RandomState(0)
    model = Failing(3, random_state=generator)
    before, state = dict(vars(model)), generator.get_state()[1].copy()
    with pytest.raises(RuntimeError, match="third"):
        model.fit(X)
    assert vars(model) == before
    np.testing.assert_array_equal(generator.get_state()[1], state)


def test_warm_start_and_fixed_parameters_step_by_step():
    made = counting(GaussianMixture, ["_m_step"])
    settings = {"random_state": 0, "max_iter": 2, "tol": 0.0, "warm_start": True}
    models = made(3, **settings), GaussianMixture(3, **settings)
    for model in models:
        for _ in range(3):
            with pytest.warns(ConvergenceWarning):
                model.fit(X)
    assert_same_fit(*models)
    means = X[[0, 75, 140]]
    held = {"fixed": "means", "means_init": means, "random_state": 0}
    models = made(3, **held).fit(X), GaussianMixture(3, **held).fit(X)
    np.testing.assert_array_equal(models[0].means_, means)
    assert_same_fit(*models)


def test_wrong_responsibilities_are_said():
    model = fitted()
    with pytest.raises(ValueError, match="Responsibilities must have the shape"):
        model._m_step(X, np.zeros((3, 3)))


def started(kind, scale=1.0):
    """Settings that start from given parameters, of data that are larger by a factor."""
    rough = fitted(kind, max_iter=2, tol=10.0)
    return {
        "weights_init": rough.weights_,
        "means_init": scale * rough.means_,
        "precisions_init": rough.precisions_ / scale**2,
    }


# Single precision ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_types_are_those_of_scikit_learn(kind):
    rows = {np.float32: X.astype(np.float32), np.float64: X}
    for fit_type, of_fit in rows.items():
        models = [made(3, covariance_type=kind, random_state=0).fit(of_fit)
                  for made in (GaussianMixture, Scikit)]  # fmt: skip
        for name in PARAMETERS:
            types = {getattr(model, name).dtype for model in models}
            assert types == {np.dtype(fit_type)}, name
        for of_use in rows.values():
            for method in ("predict_proba", "score_samples", "predict"):
                ours, theirs = (getattr(model, method)(of_use) for model in models)
                assert ours.dtype == theirs.dtype, (method, fit_type, of_use.dtype)
        assert models[0].sample(3)[0].dtype == models[1].sample(3)[0].dtype


@pytest.mark.parametrize("kind", KINDS)
def test_no_digits_are_lost_after_a_fit_of_float32(kind, tmp_path):
    single = X.astype(np.float32)
    start = started(kind)
    model = GaussianMixture(3, covariance_type=kind, **start).fit(single)
    double = GaussianMixture(3, covariance_type=kind, **start).fit(single.astype(float))
    assert model.means_.dtype == np.float32
    fastem.save(model, tmp_path / "model")
    others = {
        "fit": model,
        "saved": fastem.load(tmp_path / "model"),
        "pickled": pickle.loads(pickle.dumps(model)),
        "copied": copy.deepcopy(model),
    }
    rows = X[::-1]
    expected = copy.deepcopy(double).partial_fit(rows)
    combined = fastem.combine([double, double])
    for name, other in others.items():
        np.testing.assert_array_equal(
            other.score_samples(rows), double.score_samples(rows), err_msg=name
        )
        merged = fastem.combine([other, other])
        for attribute in PARAMETERS:
            np.testing.assert_array_equal(getattr(merged, attribute), getattr(combined, attribute))
        other.partial_fit(rows)
        for attribute in PARAMETERS:
            assert getattr(other, attribute).dtype == np.float64
            np.testing.assert_array_equal(
                getattr(other, attribute), getattr(expected, attribute), err_msg=name
            )


def test_float32_that_is_set_by_hand_counts():
    model = GaussianMixture(3, random_state=0).fit(X.astype(np.float32))
    exact = model._model().parameters
    model.means_ = model.means_ + np.float32(1.0)
    got = model._model().parameters
    np.testing.assert_array_equal(got["means"], model.means_.astype(float))
    np.testing.assert_array_equal(got["covariances"], exact["covariances"])
    model.weights_[:] = [0.5, 0.25, 0.25]
    np.testing.assert_array_equal(model._model().parameters["weights"], [0.5, 0.25, 0.25])
    # Of other components, nothing that was kept is used.
    model.weights_, model.means_ = model.weights_[:2], model.means_[:2]
    model.covariances_ = model.covariances_[:2]
    model.precisions_cholesky_ = model.precisions_cholesky_[:2]
    np.testing.assert_array_equal(model._model().parameters["means"], model.means_)


def test_a_damaged_copy_of_the_digits_is_not_used():
    model = GaussianMixture(3, random_state=0).fit(X.astype(np.float32))
    shown = model.means_.astype(float)
    for damaged in (np.zeros(4), np.zeros_like(model._in_double), np.zeros((2, 2))):
        model._in_double = damaged
        np.testing.assert_array_equal(model._model().parameters["means"], shown)


@pytest.mark.parametrize("kind", KINDS)
def test_variances_outside_float32_stay_in_double(kind):
    for scale in (1e25, 1e-25):
        rows = (X * scale).astype(np.float32)
        start = started(kind, scale)
        model = GaussianMixture(3, covariance_type=kind, reg_covar=0.0, **start).fit(rows)
        assert model.covariances_.dtype == np.float64
        assert np.isfinite(model.score_samples(rows)).all()


# Fits that hang on rounding -----------------------------------------------------------------------


def test_variances_that_are_rounding_are_those_of_scikit_learn():
    settings = {"covariance_type": "spherical", "reg_covar": 0, "random_state": 0}
    ours = GaussianMixture(6, **settings).fit(X[:12])
    theirs = Scikit(6, **settings).fit(X[:12])
    for name in PARAMETERS:
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)
    assert ours.lower_bounds_ == theirs.lower_bounds_
    np.testing.assert_array_equal(ours.predict(X[:12]), theirs.predict(X[:12]))
    assert ours.n_observations_ == 12
    # From the same generator, too, whose numbers the first attempt has used.
    settings["random_state"] = np.random.RandomState(0)
    again = GaussianMixture(6, **settings).fit(X[:12])
    np.testing.assert_array_equal(again.means_, theirs.means_)


def test_a_fit_of_scikit_learn_that_is_no_number_is_no_fit():
    """Squares of these rows overflow there, and it goes on with NaN."""
    rows = (X * 1e25).astype(np.float32)
    with pytest.raises(ValueError):
        GaussianMixture(2, covariance_type="diag", reg_covar=0.0, random_state=0).fit(rows)


def test_such_a_fit_that_scikit_learn_has_no_place_for_is_an_error():
    settings = {"covariance_type": "spherical", "reg_covar": 0, "random_state": 0}
    model = GaussianMixture(6, **settings)
    with pytest.raises(ValueError, match="ill-defined empirical covariance"):
        model.fit(X[:12], sample_weight=np.ones(12))
    assert not hasattr(model, "weights_")


# One of scikit-learn's --------------------------------------------------------------------------


def test_it_is_one_of_scikit_learns():
    assert FromPackage is GaussianMixture
    model = fitted()
    assert isinstance(model, Scikit)
    assert issubclass(GaussianMixture, Scikit)
    assert not isinstance(fastem.Mixture(), Scikit)
    assert inspect.signature(GaussianMixture).parameters.keys() == model.get_params().keys()
    assert inspect.signature(Scikit).parameters.keys() <= model.get_params().keys()
    twin = clone(model.set_params(n_jobs=1))
    assert type(twin) is GaussianMixture and twin.n_jobs == 1 and not hasattr(twin, "means_")
    again = pickle.loads(pickle.dumps(model))
    assert type(again) is GaussianMixture
    assert_same_answers(again, model)
    assert "GaussianMixture" in model._repr_html_() and "n_components" in model._repr_html_()
    assert repr(model) == "GaussianMixture(n_components=3, n_jobs=1, random_state=0)"
    tags = get_tags(model)
    assert tags.estimator_type == get_tags(Scikit()).estimator_type == "density_estimator"
    assert not tags.array_api_support
    assert is_clusterer(model) == is_clusterer(Scikit())
    pipeline = make_pipeline(StandardScaler(), GaussianMixture(3, random_state=0)).fit(X)
    assert pipeline.predict(X).shape == (150,)


def test_every_method_is_fastems_own():
    """Nothing public comes from scikit-learn's class by chance."""
    for name in vars(Scikit).keys() | vars(Scikit.__mro__[1]).keys():
        if not name.startswith("_") and name != "set_fit_request":
            method = getattr(GaussianMixture, name)
            assert method.__module__.startswith("fastem."), name


def test_the_package_alone_loads_nothing_of_scikit_learn():
    code = "import fastem, sys; assert not any(m.startswith('sklearn') for m in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# There and back ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", KINDS)
def test_to_scikit_learn_and_back(kind, dtype):
    rows = X.astype(dtype)
    model = GaussianMixture(
        3, covariance_type=kind, random_state=0, reg_covar=1e-5, n_jobs=1
    ).fit(rows)  # fmt: skip
    peer = model.to_sklearn()
    assert type(peer) is Scikit
    assert peer.get_params().items() <= model.get_params().items()
    for name in (*PARAMETERS, "lower_bound_", "n_iter_", "converged_", "n_features_in_"):
        np.testing.assert_array_equal(getattr(peer, name), getattr(model, name), err_msg=name)
    again = GaussianMixture.from_sklearn(peer, n_observations=150, n_jobs=1)
    assert again.get_params() == model.get_params()
    assert again.n_observations_ == model.n_observations_
    np.testing.assert_array_equal(peer.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    if dtype == np.float64:
        assert_same_answers(peer, model)
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    peer.means_[:] = 0.0
    assert model.means_.any() and again.means_.any()


@pytest.mark.parametrize("kind", KINDS)
def test_from_scikit_learn_and_on(kind):
    peer = Scikit(3, covariance_type=kind, random_state=0).fit(X)
    model = GaussianMixture.from_sklearn(peer, n_observations=len(X))
    assert_same_answers(model, peer)
    expected = fitted(kind).partial_fit(X)
    model.partial_fit(X)
    np.testing.assert_allclose(model.means_, expected.means_, rtol=1e-7)
    for warm in (peer, model):
        warm.set_params(warm_start=True).fit(X)
    assert model.lower_bound_ >= peer.lower_bound_ - 1e-2


def test_covariances_of_float32_that_rounding_left_asymmetric():
    rows = (X + 100).astype(np.float32)
    peer = Scikit(3, covariance_type="tied", random_state=0, reg_covar=1e-2).fit(rows)
    assert not np.allclose(peer.covariances_, peer.covariances_.T)
    model = GaussianMixture.from_sklearn(peer, n_observations=len(X))
    # In float32, scikit-learn's own products would differ.
    for name in ("weights_", "means_", "precisions_cholesky_"):
        setattr(peer, name, getattr(peer, name).astype(float))
    expected = peer.score_samples(X + 100)
    np.testing.assert_allclose(model.score_samples(X + 100), expected, rtol=1e-9, atol=1e-9)
    covariance = np.diag([1.0, 1.0, 1.0, 1.0]).astype(np.float32)
    covariance[0, 1] = 0.5
    model.covariances_ = covariance
    with pytest.raises(ValueError, match="not symmetric"):
        model.score(X)


def test_models_that_were_never_fitted_travel_too():
    peer = GaussianMixture(4, tol=0.1).to_sklearn()
    assert peer.get_params() == Scikit(4, tol=0.1).get_params() and not hasattr(peer, "means_")
    model = GaussianMixture.from_sklearn(Scikit(4, tol=0.1), solver="incremental")
    assert (model.n_components, model.solver) == (4, "incremental")
    assert not hasattr(model, "means_")
    with pytest.raises(TypeError, match="takes a sklearn.mixture.GaussianMixture; got a Mixture"):
        GaussianMixture.from_sklearn(fastem.Mixture())


def test_what_is_set_by_hand_travels_whole():
    source = fitted()
    model = GaussianMixture(3)
    model.weights_, model.means_ = source.weights_.tolist(), source.means_
    model.covariances_, model.n_features_in_ = source.covariances_, 4
    assert_same_answers(model.to_sklearn(), source)


def test_a_model_that_cannot_be_is_refused():
    peer = Scikit(3, random_state=0).fit(X)
    peer.weights_ = peer.weights_[:2]
    with pytest.raises(ValueError, match="weights_"):
        GaussianMixture.from_sklearn(peer)


@pytest.mark.parametrize("kind", KINDS)
def test_export_to_onnx(kind):
    import onnxruntime
    import skl2onnx

    model = fitted(kind)
    rows = X.astype(np.float32)
    exported = skl2onnx.to_onnx(model.to_sklearn(), rows[:1])
    session = onnxruntime.InferenceSession(
        exported.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    labels, probabilities = session.run(None, {session.get_inputs()[0].name: rows})[:2]
    np.testing.assert_array_equal(labels.ravel(), model.predict(X))
    np.testing.assert_allclose(probabilities, model.predict_proba(X), atol=1e-3)


def test_lists_that_were_set_go_to_scikit_learn_as_arrays():
    model = GaussianMixture(2)
    model.weights_, model.means_ = [0.5, 0.5], [[0.0, 0.0], [1.0, 1.0]]
    model.covariances_ = [np.eye(2).tolist()] * 2
    sent = model.to_sklearn()
    assert sent.sample(3)[0].shape == (3, 2)
    np.testing.assert_array_equal(sent.covariances_, [np.eye(2)] * 2)


def test_bounds_have_the_methods_of_numpy():
    model = GaussianMixture(2, random_state=0).fit(X)
    for bound in (model.lower_bound_, *model.lower_bounds_):
        assert bound.round(2) == round(float(bound), 2)
