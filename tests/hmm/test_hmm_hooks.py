"""Subclasses with hooks of hmmlearn's, beside the same subclasses of hmmlearn's own classes."""

import logging
import warnings

import hmmlearn.base
import hmmlearn.hmm
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats as scipy_stats
from scipy.special import logsumexp
from sklearn.base import clone

import fastem
import fastem.base
from fastem.hmm import BaseHMM, ConvergenceMonitor, recursions

LENGTHS = [17, 1, 40, 2, 60]
N_ROWS = sum(LENGTHS)
KINDS = ("full", "tied", "diag", "spherical")
PARAMETERS = {
    "GaussianHMM": ["means_", "_covars_"],
    "GMMHMM": ["weights_", "means_", "covars_"],
    "PoissonHMM": ["lambdas_"],
    "CategoricalHMM": ["emissionprob_"],
    "MultinomialHMM": ["emissionprob_"],
}
CASES = [
    (name, {"covariance_type": kind} if kind else {})
    for name in PARAMETERS
    for kind in (KINDS if name in ("GaussianHMM", "GMMHMM") else (None,))
]


def data(name, seed=0):
    rng = np.random.default_rng(seed)
    states = np.repeat(rng.integers(0, 3, N_ROWS // 5), 5)
    if name in ("GaussianHMM", "GMMHMM"):
        return rng.normal(scale=2.0, size=(3, 2))[states] + rng.normal(size=(N_ROWS, 2))
    if name == "PoissonHMM":
        return rng.poisson(rng.gamma(2.0, 4.0, size=(3, 2))[states])
    probabilities = rng.dirichlet(np.full(4, 0.5), size=3)[states]
    if name == "CategoricalHMM":
        return np.array([[rng.choice(4, p=p)] for p in probabilities])
    return rng.multinomial(7, probabilities)


def quietly(call, *arguments, **keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*arguments, **keywords)


# BaseHMM ----------------------------------------------------------------------------------------


def laplace_class(base):
    """States with Laplace emissions, as a subclass of hmmlearn's ``BaseHMM`` or of fastem's."""

    class LaplaceHMM(base):
        def _get_n_fit_scalars_per_param(self):
            n_states = self.n_components
            return {"s": n_states - 1, "t": n_states * (n_states - 1), "l": n_states}

        def _init(self, X, lengths=None):
            super()._init(X, lengths)
            if self._needs_init("l", "locations_"):
                self.locations_ = np.quantile(X, np.linspace(0.1, 0.9, self.n_components))

        def _check(self):
            super()._check()
            self.locations_ = np.asarray(self.locations_)

        def _compute_log_likelihood(self, X):
            return scipy_stats.laplace.logpdf(X, loc=self.locations_)

        def _generate_sample_from_state(self, state, random_state):
            return [self.locations_[state] + random_state.laplace()]

        def _initialize_sufficient_statistics(self):
            stats = super()._initialize_sufficient_statistics()
            return stats | {"mass": np.zeros(self.n_components), "sum": np.zeros(self.n_components)}

        def _accumulate_sufficient_statistics(
            self, stats, X, lattice, posteriors, fwdlattice, bwdlattice
        ):
            super()._accumulate_sufficient_statistics(
                stats, X, lattice, posteriors, fwdlattice, bwdlattice
            )
            stats["mass"] += posteriors.sum(axis=0)
            stats["sum"] += posteriors.T @ X[:, 0]

        def _do_mstep(self, stats):
            super()._do_mstep(stats)
            if "l" in self.params:
                self.locations_ = stats["sum"] / stats["mass"]

    return LaplaceHMM


LETTERS = {"params": "stl", "init_params": "stl"}


@pytest.mark.parametrize("implementation", ["log", "scaling"])
def test_emissions_of_ones_own(implementation):
    X = data("GaussianHMM")[:, :1]
    fitted = [
        laplace_class(base)(
            3, random_state=1, n_iter=20, tol=1e-3, implementation=implementation, **LETTERS
        ).fit(X, LENGTHS)
        for base in (BaseHMM, hmmlearn.base.BaseHMM)
    ]
    ours, theirs = fitted
    assert isinstance(ours, fastem.base.BaseHMM)
    for attribute in ("startprob_", "transmat_", "locations_"):
        assert_allclose(getattr(ours, attribute), getattr(theirs, attribute), rtol=1e-8)
    assert ours.monitor_.iter == theirs.monitor_.iter < 20
    assert ours.converged_ and ours.n_iter_ == theirs.monitor_.iter
    assert_allclose(ours.monitor_.history, theirs.monitor_.history, rtol=1e-10)
    assert ours.n_features == theirs.n_features == 1
    new = data("GaussianHMM", seed=1)[:, :1]
    for method in ("score", "aic", "bic", "predict_proba"):
        mine, yours = (getattr(model, method)(new, LENGTHS) for model in fitted)
        assert_allclose(mine, yours, rtol=1e-9, atol=1e-9)
    for algorithm in ("viterbi", "map"):
        mine, yours = (model.decode(new, LENGTHS, algorithm) for model in fitted)
        assert_allclose(mine[0], yours[0], rtol=1e-10)
        assert_array_equal(mine[1], yours[1])
    assert_array_equal(ours.predict(new), theirs.predict(new))
    mine, yours = (model.sample(50, random_state=3) for model in fitted)
    assert_allclose(mine[0], yours[0])
    assert_array_equal(mine[1], yours[1])
    assert_allclose(
        ours.get_stationary_distribution(), theirs.get_stationary_distribution(), atol=1e-9
    )
    sequences = np.split(new, np.cumsum(LENGTHS)[:-1])
    assert_allclose(ours.score_sequences(sequences).sum(), ours.score(new, LENGTHS))
    assert_allclose(ours.score(iter(sequences)), ours.score(new, LENGTHS))
    assert clone(ours).n_iter == 20


def test_a_fit_that_fails_changes_nothing():
    X = data("GaussianHMM")[:, :1]
    model = laplace_class(BaseHMM)(2, random_state=0, n_iter=2, **LETTERS).fit(X)
    before, history = dict(vars(model)), list(model.monitor_.history)
    model._do_mstep = lambda stats: 1 / 0
    with pytest.raises(ZeroDivisionError):
        model.fit(X)
    del model._do_mstep
    assert vars(model).keys() == before.keys()
    assert model.locations_ is before["locations_"]
    assert list(model.monitor_.history) == history


def test_a_model_without_emissions():
    model = BaseHMM(2)
    model.startprob_, model.transmat_ = [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]]
    X, states = model.sample(10, random_state=0)
    assert X.shape == (10, 0) and states.shape == (10,)
    with pytest.raises(NotImplementedError, match="_compute_log_likelihood"):
        model.score(np.zeros((3, 1)))


def test_densities_of_a_wrong_shape():
    class Wrong(BaseHMM):
        def _compute_log_likelihood(self, X):
            return np.zeros((len(X), 5))

    model = Wrong(2)
    model.startprob_, model.transmat_ = [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]]
    with pytest.raises(ValueError, match=r"must have the shape \(n_steps, 2\)"):
        model.score(np.zeros((3, 1)))


@pytest.mark.parametrize("implementation", ["log", "scaling"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("base", [BaseHMM, fastem.hmm.GaussianHMM])
def test_densities_that_are_no_numbers_are_named(base, value, implementation):
    custom = base is BaseHMM

    class Spoiled(laplace_class(BaseHMM) if custom else base):
        at = None

        def _compute_log_likelihood(self, X):
            found = super()._compute_log_likelihood(X)
            if self.at is not None:
                found[self.at] = value
            return found

    X = data("GaussianHMM")[:, :1]
    settings = {"random_state": 0, "implementation": implementation, **(LETTERS if custom else {})}
    model = Spoiled(2, **settings).fit(X, LENGTHS)
    model.at = 0, 1
    words = f"its row 0 in state 1 it is {value}"
    calls = [model.fit, model.score, model.predict_proba, model.score_samples]
    for call in calls if implementation == "scaling" else [*calls, model.predict, model.decode]:
        with pytest.raises(ValueError, match=words):
            call(X, LENGTHS)


@pytest.mark.parametrize("module", [hmmlearn.hmm, fastem.hmm], ids=["hmmlearn", "fastem"])
def test_public_methods_with_the_arguments_of_hmmlearn(module):
    class Own(module.GaussianHMM):
        calls = ()

        def score_samples(self, X, lengths=None):
            self.calls += ("score_samples",)
            return super().score_samples(X, lengths)

        def decode(self, X, lengths=None, algorithm=None):
            self.calls += ("decode",)
            return super().decode(X, lengths, algorithm)

        def score(self, X, lengths=None):
            self.calls += ("score",)
            return super().score(X, lengths) - 1000.0

    X = data("GaussianHMM")
    model, plain = (kind(2, random_state=0).fit(X, LENGTHS) for kind in (Own, module.GaussianHMM))
    assert_array_equal(model.predict(X, LENGTHS), plain.predict(X, LENGTHS))
    assert_array_equal(model.predict_proba(X, LENGTHS), plain.predict_proba(X, LENGTHS))
    assert set(model.calls) == {"decode", "score_samples"}
    for name in ("aic", "bic"):
        found, expected = (getattr(one, name)(X, LENGTHS) for one in (model, plain))
        assert found == pytest.approx(expected + 2000.0)


@pytest.mark.parametrize("module", [hmmlearn.hmm, fastem.hmm], ids=["hmmlearn", "fastem"])
def test_parameters_that_are_properties(module):
    class Shared(module.GaussianHMM):
        @property
        def transmat_(self):
            return self.kept

        @transmat_.setter
        def transmat_(self, transmat):
            self.kept = np.asarray(transmat)

    X = data("GaussianHMM")
    model, plain = (
        kind(2, random_state=0).fit(X, LENGTHS) for kind in (Shared, module.GaussianHMM)
    )
    assert_array_equal(model.kept, plain.transmat_)
    assert model.score(X, LENGTHS) == plain.score(X, LENGTHS)


@pytest.mark.parametrize("module", [hmmlearn.hmm, fastem.hmm], ids=["hmmlearn", "fastem"])
def test_the_likeliest_states_by_a_hook_of_ones_own(module):
    class Own(module.GaussianHMM):
        def _decode_map(self, X):
            return 1.5, super()._decode_map(X)[1]

    X = data("GaussianHMM")
    settings = {"n_components": 2, "random_state": 0, "algorithm": "map"}
    model, plain = (kind(**settings).fit(X, LENGTHS) for kind in (Own, module.GaussianHMM))
    score, states = model.decode(X, LENGTHS)
    assert score == 1.5 * len(LENGTHS)
    assert_array_equal(states, plain.predict(X, LENGTHS))


def test_arrays_without_names_after_a_data_frame():
    X = data("GaussianHMM")
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = fastem.hmm.GaussianHMM(2, random_state=0).fit(frame)
    assert_array_equal(model.predict(X), model.predict(frame))
    with pytest.raises(ValueError, match="X has 1 features, but GaussianHMM is expecting 2"):
        model.predict(X[:, :1])
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[["b", "a"]])


@pytest.mark.parametrize("module", [hmmlearn.hmm, fastem.hmm], ids=["hmmlearn", "fastem"])
def test_lengths_as_a_number_or_a_column(module):
    X = data("GaussianHMM")
    model = module.GaussianHMM(2, random_state=0).fit(X, len(X))
    assert model.score(X, len(X)) == model.score(X)
    assert model.score(X, np.array(LENGTHS)[:, None]) == model.score(X, LENGTHS)


def test_an_impossible_sequence_is_named():
    class Impossible(laplace_class(BaseHMM)):
        def _compute_log_likelihood(self, X):
            return np.where(X > 5, -np.inf, super()._compute_log_likelihood(X))

    X = np.array([[1.0], [2.0], [9.0]])
    with pytest.raises(ValueError, match="sequence 1 is -inf"):
        Impossible(2, n_iter=2, random_state=0, **LETTERS).fit(X, [2, 1])


# Recursions -------------------------------------------------------------------------------------


def naive(startprob, transmat, log_b):
    """``log α``, ``log β`` and counts of transitions, term by term."""
    with np.errstate(divide="ignore"):
        start, log_a = np.log(startprob), np.log(transmat)
    n_steps, n_states = log_b.shape
    alpha, beta = np.empty(log_b.shape), np.zeros(log_b.shape)
    alpha[0] = start + log_b[0]
    for t in range(1, n_steps):
        alpha[t] = logsumexp(alpha[t - 1][:, None] + log_a, axis=0) + log_b[t]
    for t in range(n_steps - 2, -1, -1):
        beta[t] = logsumexp(log_a + log_b[t + 1] + beta[t + 1], axis=1)
    total, counts = logsumexp(alpha[-1]), np.zeros((n_states, n_states))
    for t in range(1, n_steps):
        counts += np.exp(alpha[t - 1][:, None] + log_a + log_b[t] + beta[t] - total)
    return total, alpha, beta, counts


@pytest.mark.parametrize("scale", [1.0, 300.0, 3000.0])
@pytest.mark.parametrize("zeros", [False, True])
def test_recursions_on_given_densities(scale, zeros):
    rng = np.random.default_rng(0)
    for n_states in (1, 2, 5, 9):
        transmat = rng.dirichlet(np.full(n_states, 0.3), size=n_states)
        startprob = rng.dirichlet(np.ones(n_states))
        if zeros:
            transmat[rng.random(transmat.shape) < 0.4] = 0.0
            np.fill_diagonal(transmat, 1.0)
            transmat /= transmat.sum(axis=1, keepdims=True)
        log_b = scale * rng.normal(size=(40, n_states))
        total, alpha, beta, counts = quietly(naive, startprob, transmat, log_b)
        score, log_alpha = recursions.forward(startprob, transmat, log_b)
        log_beta = recursions.backward(startprob, transmat, log_b)
        assert_allclose(score, total, rtol=1e-12)
        assert_allclose(log_alpha, alpha, rtol=1e-10)
        assert_allclose(log_beta, beta, rtol=1e-10, atol=1e-10)
        found = recursions.transition_counts(log_alpha, transmat, log_beta, log_b)
        assert_allclose(found, counts, rtol=1e-7, atol=1e-12)
        if scale == 1.0:
            b = np.exp(log_b)
            score, alpha, scales = recursions.scaled_forward(startprob, transmat, b)
            beta = recursions.scaled_backward(startprob, transmat, b, scales)
            assert_allclose(score, total, rtol=1e-12)
            found = recursions.scaled_transitions(alpha, transmat, beta, b)
            assert_allclose(found, counts, rtol=1e-9, atol=1e-12)


def test_an_impossible_sequence_has_no_transitions():
    startprob, transmat = [1.0, 0.0], np.eye(2)
    log_b = np.array([[0.0, 0.0], [-np.inf, 0.0], [0.0, 0.0]])
    score, log_alpha = recursions.forward(startprob, transmat, log_b)
    log_beta = recursions.backward(startprob, transmat, log_b)
    assert score == -np.inf
    assert not recursions.transition_counts(log_alpha, transmat, log_beta, log_b).any()
    with pytest.raises(ValueError, match="underflow"):
        recursions.scaled_forward(startprob, transmat, np.exp(log_b))


# The hooks of the estimators --------------------------------------------------------------------


def changed_class(module, name):
    """A subclass whose M-step does a little more, and which counts its calls."""

    class Changed(getattr(module, name)):
        n_calls = 0

        def _do_mstep(self, stats):
            super()._do_mstep(stats)
            type(self).n_calls += 1
            self.transmat_ = 0.9 * self.transmat_ + 0.1 / self.n_components

    return Changed


@pytest.mark.parametrize("implementation", ["log", "scaling"])
@pytest.mark.parametrize(("name", "settings"), CASES)
def test_a_subclass_learns_through_its_hooks(name, settings, implementation):
    X = data(name)
    settings = {**settings, "implementation": implementation}
    if name == "GMMHMM":
        settings["n_mix"] = 2
    fitted = [
        changed_class(module, name)(3, random_state=5, n_iter=4, tol=-np.inf, **settings)
        for module in (fastem, hmmlearn.hmm)
    ]
    for model in fitted:
        quietly(model.fit, X, LENGTHS)
        assert type(model).n_calls == 4
    ours, theirs = fitted
    assert_allclose(ours.monitor_.history, theirs.monitor_.history, rtol=1e-9)
    for attribute in ("startprob_", "transmat_", *PARAMETERS[name]):
        yours = getattr(theirs, attribute)
        if attribute == "_covars_" and settings["covariance_type"] == "spherical":
            yours = yours[:, 0]
        assert_allclose(getattr(ours, attribute), yours, rtol=1e-7, atol=1e-9)
    new = data(name, seed=1)
    assert_allclose(ours.score(new, LENGTHS), theirs.score(new, LENGTHS), rtol=1e-9)
    assert_array_equal(ours.predict(new, LENGTHS), theirs.predict(new, LENGTHS))
    posteriors = (model.predict_proba(new, LENGTHS) for model in fitted)
    assert_allclose(*posteriors, atol=1e-8)
    if name == "MultinomialHMM":
        theirs.n_trials = ours.n_trials = 7
    if settings.get("covariance_type") == "spherical" and name == "GaussianHMM":
        # After a fit hmmlearn has a matrix for each column of a state, and draws by wrong ones.
        theirs._covars_ = theirs._covars_[:, 0]
    draws = [model.sample(20, random_state=2) for model in fitted]
    assert_allclose(draws[0][0], draws[1][0], rtol=1e-6)
    assert_array_equal(draws[0][1], draws[1][1])


def test_a_subclass_of_any_family():
    X = data("PoissonHMM")

    class Changed(fastem.HMM):
        n_calls = 0

        def _do_mstep(self, stats):
            super()._do_mstep(stats)
            type(self).n_calls += 1

    settings = {"random_state": 0, "n_iter": 5, "tol": -np.inf}
    changed = Changed("poisson", 3, **settings).fit(X, LENGTHS)
    plain = fastem.HMM("poisson", 3, **settings).fit(X, LENGTHS)
    assert Changed.n_calls == 5
    for attribute in ("startprob_", "transmat_", "rates_"):
        assert_allclose(getattr(changed, attribute), getattr(plain, attribute), rtol=1e-8)
    assert_allclose(changed.aic(X, LENGTHS), plain.aic(X, LENGTHS), rtol=1e-10)


def floor_of_likelihood(module, hook):
    """Emissions that are robust: a density is at least 1e-3."""

    class Robust(module.GaussianHMM):
        pass

    def log_likelihood(self, X):
        return np.maximum(super(Robust, self)._compute_log_likelihood(X), np.log(1e-3))

    def likelihood(self, X):
        return np.maximum(super(Robust, self)._compute_likelihood(X), 1e-3)

    functions = {"_compute_log_likelihood": log_likelihood, "_compute_likelihood": likelihood}
    setattr(Robust, hook, functions[hook])
    return Robust


@pytest.mark.parametrize("hook", ["_compute_log_likelihood", "_compute_likelihood"])
def test_either_likelihood_can_be_overridden(hook):
    X = data("GaussianHMM")
    X[3] = 50.0
    implementation = "log" if hook == "_compute_log_likelihood" else "scaling"
    settings = {"random_state": 0, "n_iter": 3, "implementation": implementation}
    ours, theirs = (
        floor_of_likelihood(module, hook)(2, **settings).fit(X) for module in (fastem, hmmlearn.hmm)
    )
    assert_allclose(ours.means_, theirs.means_, rtol=1e-8)
    assert_allclose(ours.score(X), theirs.score(X), rtol=1e-10)
    # Where hmmlearn ignores the other of the two, fastem does not.
    ours.implementation = "scaling" if implementation == "log" else "log"
    assert_allclose(ours.score(X), theirs.score(X), rtol=1e-10)


def labeled_class(base):
    """A model that learns from known states, and is used like any other."""

    class Labelled(base):
        def _fit_log(self, X):
            found = list(super()._fit_log(X))
            found[2] = np.eye(self.n_components)[(X[:, 0] > 0).astype(int)]
            return tuple(found)

        def _fit_scaling(self, X):
            found = list(super()._fit_scaling(X))
            found[2] = np.eye(self.n_components)[(X[:, 0] > 0).astype(int)]
            return tuple(found)

    return Labelled


@pytest.mark.parametrize("implementation", ["log", "scaling"])
def test_what_learning_does_is_not_done_to_scores(implementation):
    X = data("GaussianHMM")
    models = [
        quietly(labeled_class(base)(2, n_iter=3, random_state=0).set_params(
            implementation=implementation).fit, X, LENGTHS)
        for base in (hmmlearn.hmm.GaussianHMM, fastem.GaussianHMM)
    ]  # fmt: skip
    theirs, ours = models
    assert_allclose(ours.means_, theirs.means_, rtol=1e-10)
    assert_allclose(
        ours.predict_proba(X, LENGTHS), theirs.predict_proba(X, LENGTHS), rtol=1e-7, atol=1e-12
    )
    assert ((ours.predict_proba(X, LENGTHS) > 0.01).sum(axis=1) > 1).any()
    for algorithm in ("viterbi", "map"):
        (our_score, our_path), (their_score, their_path) = (
            model.decode(X, LENGTHS, algorithm=algorithm) for model in models
        )
        assert_array_equal(our_path, their_path)
        assert_allclose(our_score, their_score, rtol=1e-9)
    assert isinstance(our_score, np.float64)


def recorded_class(base):
    """A subclass that writes down which hook was called with what, and what it returned."""

    def plain(value):
        if isinstance(value, dict):
            return {name: plain(part) for name, part in value.items()}
        if isinstance(value, tuple):
            return [plain(part) for part in value]
        return np.array(value) if isinstance(value, np.ndarray) else value

    def recorded(name):
        def hook(self, *arguments, **keywords):
            self.calls.append((name, plain(arguments), plain(keywords)))
            result = getattr(super(Recorded, self), name)(*arguments, **keywords)
            self.calls.append((name, plain(result)))
            return result

        return hook

    names = [
        "_init", "_check", "_check_and_set_n_features", "_needs_init",
        "_compute_likelihood", "_compute_log_likelihood", "_generate_sample_from_state",
        "_initialize_sufficient_statistics", "_accumulate_sufficient_statistics",
        "_accumulate_sufficient_statistics_log", "_accumulate_sufficient_statistics_scaling",
        "_get_n_fit_scalars_per_param", "_do_estep", "_do_mstep", "_estep_begin",
        "_compute_lower_bound", "_fit_log", "_fit_scaling", "_compute_posteriors_log",
        "_compute_posteriors_scaling", "_decode_viterbi",
    ]  # fmt: skip
    Recorded = type("Recorded", (base,), {name: recorded(name) for name in names})
    # scikit-learn reads the settings off the constructor.
    Recorded.__init__ = lambda self, *settings, **more: base.__init__(self, *settings, **more)
    return Recorded


def assert_same(ours, theirs):
    if isinstance(ours, np.ndarray) and isinstance(theirs, list):
        # A row that is drawn.
        theirs = np.array(theirs)
    assert type(ours) is type(theirs) or np.ndim(ours) == np.ndim(theirs) == 0
    if isinstance(ours, dict):
        assert list(ours) == list(theirs)
        ours, theirs = list(ours.values()), list(theirs.values())
    if isinstance(ours, (list, tuple)):
        assert len(ours) == len(theirs)
        for our_part, their_part in zip(ours, theirs, strict=True):
            assert_same(our_part, their_part)
    elif isinstance(ours, (str, np.random.RandomState)) or ours is None:
        assert isinstance(theirs, type(ours))
    else:
        assert_allclose(ours, theirs, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("implementation", ["log", "scaling"])
@pytest.mark.parametrize("lengths", [LENGTHS, None], ids=["several", "one"])
@pytest.mark.parametrize("name", ["BaseHMM", "GaussianHMM", "CategoricalHMM"])
def test_hooks_are_called_as_hmmlearn_calls_them(name, lengths, implementation):
    X = data("GaussianHMM")[:, :1] if name == "BaseHMM" else data(name)
    calls = []
    for module in (hmmlearn, fastem):
        base = laplace_class(module.base.BaseHMM) if name == "BaseHMM" else (
            getattr(module.hmm, name)
        )  # fmt: skip
        model = recorded_class(base)(2, n_iter=3, random_state=0)
        model.implementation, model.calls = implementation, []
        if name == "BaseHMM":
            model.params = model.init_params = "stl"
        model.fit(X, lengths)
        model.score(X, lengths)
        model.score_samples(X, lengths)
        model.predict(X, lengths)
        model.sample(3, random_state=0)
        calls.append(model.calls)
    theirs, ours = calls
    assert [call[0] for call in ours] == [call[0] for call in theirs]
    assert_same(ours, theirs)


@pytest.mark.parametrize("module", [hmmlearn.hmm, fastem.hmm], ids=["hmmlearn", "fastem"])
@pytest.mark.parametrize("implementation", ["log", "scaling"])
def test_both_likelihoods_of_symbols_can_be_overridden(module, implementation):
    class Both(module.CategoricalHMM):
        def _compute_likelihood(self, X):
            return 0.5 * super()._compute_likelihood(X)

        def _compute_log_likelihood(self, X):
            return super()._compute_log_likelihood(X) - 1.0

    X = data("CategoricalHMM")
    models = [
        kind(2, n_iter=2, random_state=0, implementation=implementation).fit(X)
        for kind in (module.CategoricalHMM, Both)
    ]
    each = np.log(2.0) + (implementation == "log")
    assert_allclose(models[1].score(X), models[0].score(X) - len(X) * each, rtol=1e-9)
    assert_allclose(models[1].emissionprob_, models[0].emissionprob_, rtol=1e-9)


def test_sums_may_be_checked_otherwise():
    class Lax(laplace_class(BaseHMM)):
        def _check_sum_1(self, name):
            assert getattr(self, name).sum() > 0

    model = Lax(2)
    model.startprob_, model.transmat_, model.locations_ = [0.5, 0.4], np.eye(2), [0.0, 0.0]
    X = np.zeros((3, 1))
    assert_allclose(model.score(X), np.log(0.9) + 3 * scipy_stats.laplace.logpdf(0.0))
    strict = laplace_class(BaseHMM)(2)
    strict.startprob_, strict.transmat_, strict.locations_ = [0.5, 0.4], np.eye(2), [0.0, 0.0]
    with pytest.raises(ValueError, match="sum to 1"):
        strict.score(X)


def test_an_initialization_of_ones_own():
    X = data("GaussianHMM")

    def shifted(module):
        class Shifted(module.GaussianHMM):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)

            def _init(self, X, lengths=None):
                super()._init(X, lengths)
                self.means_ = self.means_ + 1.0

        return Shifted(3, random_state=2, n_iter=0)

    ours, theirs = (shifted(module).fit(X, LENGTHS) for module in (fastem, hmmlearn.hmm))
    for attribute in ("startprob_", "transmat_", "means_", "_covars_"):
        assert_allclose(getattr(ours, attribute), getattr(theirs, attribute), rtol=1e-10)


def test_a_constructor_that_passes_on_its_arguments():
    class Passing(fastem.GaussianHMM):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)

    X = data("GaussianHMM")
    model = Passing(2, random_state=0).fit(X)
    assert_array_equal(model.means_, fastem.GaussianHMM(2, random_state=0).fit(X).means_)
    with pytest.raises(ValueError, match="covariance_type"):
        Passing(2, covariance_type="bad").fit(X)


def test_a_hook_of_one_object():
    X = data("GaussianHMM")
    model = fastem.GaussianHMM(2, random_state=0).fit(X)
    before = model.score(X)
    plain = model._compute_log_likelihood
    model._compute_log_likelihood = lambda X: plain(X) - 1.0
    assert_allclose(model.score(X), before - len(X), rtol=1e-12)
    del model._compute_log_likelihood
    assert model.score(X) == before


def test_what_has_no_hooks_says_so():
    X = data("GaussianHMM")
    model = changed_class(fastem, "GaussianHMM")(2, random_state=0).fit(X)
    plain = fastem.GaussianHMM(2, random_state=0).fit(X)
    for call in (
        lambda: model.partial_fit(X),
        lambda: changed_class(fastem, "GaussianHMM")(2).partial_fit(X),
        lambda: model.filter().update(X[0]),
        lambda: fastem.combine([model, plain]),
        lambda: model.learner().learn_one(X),
    ):
        with pytest.raises((TypeError, ValueError), match="_do_mstep|hooks"):
            call()
    for settings in ({"absorbing": [1]}, {"fixed": ["means"]}, {"solver": "incremental"}):
        with pytest.raises(ValueError, match="hooks"):
            clone(model).set_params(**settings).fit(X)
    with pytest.raises(ValueError, match="hooks"):
        clone(model).fit(X, sample_weight=[1.0])

    class Scoring(fastem.GaussianHMM):
        def _score(self, X, lengths=None, *, compute_posteriors):
            return 0.0, None

    with pytest.raises(TypeError, match="_score"):
        Scoring(2).fit(X).score(X)


# hmmlearn's ways --------------------------------------------------------------------------------


def test_equal_paths():
    rng = np.random.default_rng(0)

    def rows(n_rows, n_columns):
        table = rng.integers(0, 3, size=(n_rows, n_columns))
        table[table.sum(axis=1) == 0] = 1
        return table / table.sum(axis=1, keepdims=True)

    n_ties = 0
    for trial in range(150):
        n_states, n_symbols = int(rng.integers(1, 10)), int(rng.integers(2, 4))
        lengths = rng.integers(1, 12, size=int(rng.integers(1, 30)))
        if trial % 10 == 0:
            # So many that they are taken side by side.
            lengths = rng.integers(1, 40, size=600)
        X = rng.integers(0, n_symbols, size=(lengths.sum(), 1))
        ours, theirs = fastem.CategoricalHMM(n_states), hmmlearn.hmm.CategoricalHMM(n_states)
        start, transitions = rows(1, n_states)[0], rows(n_states, n_states)
        emissions = rows(n_states, n_symbols)
        for model in (ours, theirs):
            model.startprob_, model.transmat_ = start, transitions
            model.emissionprob_ = emissions
        for each in (lengths, None):
            mine, yours = ours.predict(X, each), quietly(theirs.predict, X, each)
            assert_array_equal(mine, yours)
        with np.errstate(divide="ignore"):
            log_b = np.log(emissions[:, X[:, 0]].T)
        _, path = recursions.likeliest_path(start, transitions, log_b)
        assert_array_equal(path, yours)
        # Reversed states would be reversed in the path, if no paths were equal.
        turned = fastem.CategoricalHMM(n_states)
        turned.startprob_, turned.transmat_ = start[::-1], transitions[::-1, ::-1]
        turned.emissionprob_ = emissions[::-1]
        n_ties += not np.array_equal(n_states - 1 - turned.predict(X, lengths), yours)
    assert n_ties > 50


@pytest.mark.parametrize("name", PARAMETERS)
def test_lists_are_arrays_once_they_are_used(name):
    fitted = quietly(getattr(fastem, name)(2, random_state=0, n_iter=1).fit, data(name))
    model = getattr(fastem, name)(2)
    for attribute in ("startprob_", "transmat_", *PARAMETERS[name]):
        setattr(
            model, attribute.replace("_covars_", "covars_"), getattr(fitted, attribute).tolist()
        )
    assert_allclose(model.score(data(name)), fitted.score(data(name)))
    for attribute in ("startprob_", "transmat_", *PARAMETERS[name]):
        assert isinstance(getattr(model, attribute), np.ndarray)
        assert_array_equal(getattr(model, attribute), getattr(fitted, attribute))


@pytest.mark.parametrize("shape", [(1, -1), (-1, 2)])
def test_symbols_in_several_columns(shape):
    X = data("CategoricalHMM").reshape(shape)
    lengths = [len(X)] if len(X) == 1 else [20, len(X) - 20]
    settings = {"random_state": 0, "n_iter": 3}
    with pytest.warns(DeprecationWarning, match="read row by row"):
        ours = fastem.CategoricalHMM(2, **settings).fit(X, lengths)
    theirs = quietly(hmmlearn.hmm.CategoricalHMM(2, **settings).fit, X, lengths)
    assert_allclose(ours.emissionprob_, theirs.emissionprob_, rtol=1e-8)
    assert_allclose(ours.transmat_, theirs.transmat_, rtol=1e-8)
    mine, yours = (quietly(model.decode, X, lengths) for model in (ours, theirs))
    assert_allclose(mine[0], yours[0], rtol=1e-10)
    assert_array_equal(mine[1], yours[1])
    assert_allclose(quietly(ours.score, X, lengths), quietly(theirs.score, X, lengths))


@pytest.mark.parametrize("shape", [(2,), (2, 1), (2, 1, 1), (2, 1, 1, 1)])
def test_spherical_variances_in_any_shape(shape):
    X = data("GaussianHMM")
    ours, theirs = (
        module.GaussianHMM(2, covariance_type="spherical") for module in (fastem, hmmlearn.hmm)
    )
    for model in (ours, theirs):
        model.startprob_, model.transmat_ = [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]]
        model.means_ = [[0.0, 1.0], [2.0, 0.0]]
        model.covars_ = np.array([1.5, 0.5]).reshape(shape)
    assert_allclose(ours.covars_, np.array([1.5, 0.5])[:, None, None] * np.eye(2))
    if len(shape) <= 2:
        assert_allclose(ours.score(X), theirs.score(X), rtol=1e-12)


def test_a_bad_covariance_type():
    for kind in (fastem.GaussianHMM, fastem.GMMHMM):
        model = kind(2, covariance_type="bad")
        model.startprob_, model.transmat_ = [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]]
        with pytest.raises(ValueError, match="covariance_type"):
            model.covars_ = [1.0, 1.0]
            model.means_ = np.zeros((2, 1, 2) if kind is fastem.GMMHMM else (2, 2))
            model.weights_ = np.ones((2, 1))
            model.score(np.zeros((3, 2)))
        with pytest.raises(ValueError, match="covariance_type"):
            model._check()


def test_nothing_warns_where_hmmlearn_logs(caplog):
    X = np.random.default_rng(0).normal(size=(4, 2))
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.simplefilter("error")
        for name in PARAMETERS:
            rows = np.abs(X).astype(int) if "Gau" not in name and "GMM" not in name else X
            rows = rows[:, :1] if name == "CategoricalHMM" else rows
            model = getattr(fastem, name)(2, random_state=0, n_iter=2)
            model.startprob_ = [0.5, 0.5]
            model.fit(rows)
    assert caplog.text.count("startprob_ was set, and will be overwritten") == len(PARAMETERS)
    assert "degenerate solution" in caplog.text


@pytest.mark.parametrize("module", [fastem.base, hmmlearn.base])
def test_monitors(module):
    class Threshold(module.ConvergenceMonitor):
        @property
        def converged(self):
            return self.iter == 3

    X = data("GaussianHMM")
    for model in (fastem.GaussianHMM(2, random_state=0, n_iter=20),
                  laplace_class(BaseHMM)(2, random_state=0, n_iter=20, **LETTERS)):  # fmt: skip
        model.monitor_ = Threshold(model.monitor_.tol, model.monitor_.n_iter, False)
        model.fit(X[:, :1])
        assert model.monitor_.iter == model.n_iter_ == 3
        assert len(model.monitor_.history) == 3
        assert isinstance(model.converged_, bool)


def test_words_of_monitors(caplog, capsys):
    caplog.set_level(logging.WARNING)
    said = []
    for kind in (ConvergenceMonitor, hmmlearn.base.ConvergenceMonitor):
        caplog.clear()
        monitor = kind(1e-2, 10, True)
        monitor.report(-1.0)
        monitor.report(-2.0)
        said.append((caplog.records[0].getMessage(), capsys.readouterr().err, repr(monitor)))
    assert said[0][0].startswith(said[1][0])
    assert said[0][1:] == said[1][1:]


@pytest.mark.parametrize("rows", [list, "series"])
def test_a_list_of_rows_is_one_sequence(rows):
    import pandas as pd

    X = data("GaussianHMM")
    given = list(X) if rows is list else [pd.Series(row) for row in X]
    ours, theirs = (
        module.GaussianHMM(2, random_state=0, n_iter=3).fit(given)
        for module in (fastem, hmmlearn.hmm)
    )
    assert_allclose(ours.means_, theirs.means_, rtol=1e-8)
    assert_array_equal(ours.predict(given), theirs.predict(given))
    assert_allclose(ours.score(given, LENGTHS), theirs.score(given, LENGTHS), rtol=1e-10)


# Models that travel -----------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_models_travel_both_ways(name, settings):
    X, new = data(name), data(name, seed=1)
    settings = {
        "n_components": 3,
        "random_state": 3,
        "n_iter": 3,
        "transmat_prior": 2.0,
        **settings,
    }
    if name == "GMMHMM":
        settings["n_mix"] = 2
    ours = quietly(getattr(fastem, name)(**settings).fit, X, LENGTHS)
    theirs = quietly(getattr(hmmlearn.hmm, name)(**settings).fit, X, LENGTHS)
    for fitted, other in (
        (ours, ours.to_hmmlearn()),
        (theirs, getattr(fastem, name).from_hmmlearn(theirs)),
        (ours, getattr(fastem, name).from_hmmlearn(ours.to_hmmlearn())),
    ):
        assert_allclose(other.score(new, LENGTHS), fitted.score(new, LENGTHS), rtol=1e-10)
        assert_array_equal(other.predict(new, LENGTHS), fitted.predict(new, LENGTHS))
        assert other.n_features == fitted.n_features
        assert other.n_components == 3
        assert other.n_iter == 3 and np.all(other.transmat_prior == 2.0)
        assert list(other.monitor_.history) == list(fitted.monitor_.history)
    unfitted = getattr(fastem, name).from_hmmlearn(getattr(hmmlearn.hmm, name)(3))
    assert not hasattr(unfitted.to_hmmlearn(), "startprob_")


def test_what_cannot_travel():
    with pytest.raises(TypeError, match=r"Expected an object of hmmlearn\.hmm\.GaussianHMM"):
        fastem.GaussianHMM.from_hmmlearn(hmmlearn.hmm.PoissonHMM())
    with pytest.raises(TypeError, match="_do_mstep, which would be lost"):
        fastem.GaussianHMM.from_hmmlearn(changed_class(hmmlearn.hmm, "GaussianHMM")())
    with pytest.raises(ValueError, match="no absorbing states"):
        fastem.GaussianHMM(2, absorbing=[1]).to_hmmlearn()
    assert not hasattr(fastem.HMM, "to_hmmlearn")
