"""Changing the import is enough: hmmlearn's numbers, from its starts, iteration by iteration."""

import warnings

import hmmlearn.hmm
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fastem

LENGTHS = [17, 1, 40, 2, 60]
N_ROWS = sum(LENGTHS)
KINDS = ("full", "tied", "diag", "spherical")
PARAMETERS = {
    "GaussianHMM": ["means_", "covars_"],
    "GMMHMM": ["weights_", "means_", "covars_"],
    "PoissonHMM": ["lambdas_"],
    "CategoricalHMM": ["emissionprob_"],
    "MultinomialHMM": ["emissionprob_"],
}
CLASSES = list(PARAMETERS)


def data(name, seed=0):
    rng = np.random.default_rng(seed)
    states = np.repeat(rng.integers(0, 3, N_ROWS // 5), 5)
    if name in ("GaussianHMM", "GMMHMM"):
        centers = rng.normal(scale=2.0, size=(3, 2))
        mixing = np.array([[1.0, 0.3], [0.3, 0.8]])
        return centers[states] + rng.normal(size=(N_ROWS, 2)) @ mixing
    if name == "PoissonHMM":
        return rng.poisson(rng.gamma(2.0, 4.0, size=(3, 2))[states])
    probabilities = rng.dirichlet(np.full(4, 0.5), size=3)[states]
    if name == "CategoricalHMM":
        return np.array([[rng.choice(4, p=p)] for p in probabilities])
    return rng.multinomial(7, probabilities)


def covariances(model):
    """hmmlearn's, in the shape of its own documentation."""
    if type(model).__name__ == "GaussianHMM" and model.covariance_type == "spherical":
        # Its covars_ has as many matrices as there are states times columns.
        return model._covars_[:, :1, None] * np.eye(model.n_features)
    return model.covars_


def pair(name, **settings):
    return getattr(fastem, name)(**settings), getattr(hmmlearn.hmm, name)(**settings)


def quietly(call, *arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*arguments)


def assert_same(ours, theirs, rtol=1e-8):
    for attribute in ("startprob_", "transmat_", *PARAMETERS[type(ours).__name__]):
        expected = covariances(theirs) if attribute == "covars_" else getattr(theirs, attribute)
        assert_allclose(getattr(ours, attribute), expected, rtol=rtol, atol=1e-8, err_msg=attribute)
    assert ours.n_features == theirs.n_features


def compare(name, X=None, n_iter=5, **settings):
    """Both after 0, 1, ... iterations from the same random state."""
    X = data(name) if X is None else X
    settings = {"n_components": 3, "random_state": 5, "tol": -np.inf, **settings}
    for count in range(n_iter + 1):
        ours, theirs = pair(name, n_iter=count, **settings)
        for model in (ours, theirs):
            quietly(model.fit, X, LENGTHS)
        assert_same(ours, theirs)
        assert ours.monitor_.iter == theirs.monitor_.iter == count
        assert_allclose(ours.monitor_.history, theirs.monitor_.history, rtol=1e-10)
    return ours, theirs, X


def kinds_of(name):
    return KINDS if name in ("GaussianHMM", "GMMHMM") else (None,)


CASES = [
    pytest.param(name, {} if kind is None else {"covariance_type": kind}, id=f"{name} {kind or ''}")
    for name in CLASSES
    for kind in kinds_of(name)
]


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_fit(name, settings):
    if name == "GMMHMM":
        settings = {"n_mix": 2, **settings}
    compare(name, **settings)


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_what_a_fitted_model_says(name, settings):
    ours, theirs, X = compare(name, n_iter=2, **settings)
    new = data(name, seed=1)
    assert_allclose(ours.score(new, LENGTHS), theirs.score(new, LENGTHS), rtol=1e-10)
    assert_allclose(ours.score(new), theirs.score(new), rtol=1e-10)
    for ask in ("score_samples", "decode"):
        mine, yours = (getattr(model, ask)(new, LENGTHS) for model in (ours, theirs))
        assert_allclose(mine[0], yours[0], rtol=1e-10)
        assert_allclose(mine[1], yours[1], atol=1e-9)
    mine, yours = (model.decode(new, LENGTHS, algorithm="map") for model in (ours, theirs))
    assert_allclose(mine[0], yours[0], rtol=1e-10)
    assert_array_equal(mine[1], yours[1])
    assert_array_equal(ours.predict(new, LENGTHS), theirs.predict(new, LENGTHS))
    assert_allclose(ours.predict_proba(new, LENGTHS), theirs.predict_proba(new, LENGTHS), atol=1e-9)
    assert_allclose(ours.aic(new, LENGTHS), theirs.aic(new, LENGTHS), rtol=1e-10)
    assert_allclose(ours.bic(new, LENGTHS), theirs.bic(new, LENGTHS), rtol=1e-10)
    assert_allclose(
        ours.get_stationary_distribution(), theirs.get_stationary_distribution(), atol=1e-9
    )
    assert len(X) == N_ROWS


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_draws(name, settings):
    settings = {"n_components": 3, **settings}
    if name == "MultinomialHMM":
        settings["n_trials"] = 7
    if name == "GMMHMM":
        settings["n_mix"] = 2
    ours, theirs = pair(name, random_state=0, n_iter=2, **settings)
    quietly(ours.fit, data(name), LENGTHS)
    copy_to(ours, theirs)
    for currstate in (None, 1):
        mine = ours.sample(30, random_state=7, currstate=currstate)
        yours = theirs.sample(30, random_state=7, currstate=currstate)
        assert_array_equal(mine[1], yours[1])
        assert_allclose(mine[0], yours[0], rtol=1e-10)
    one, states = ours.sample()
    assert one.shape == (1, data(name).shape[1])
    assert states.shape == (1,)


def copy_to(ours, theirs):
    """Set a model of hmmlearn's by hand."""
    theirs.n_features = ours.n_features
    theirs.startprob_, theirs.transmat_ = ours.startprob_.copy(), ours.transmat_.copy()
    for attribute in PARAMETERS[type(ours).__name__]:
        value = ours._covars_ if hasattr(ours, "_covars_") and attribute == "covars_" else (
            getattr(ours, attribute)
        )  # fmt: skip
        setattr(theirs, attribute, np.array(value))


SUBSETS = {
    "GaussianHMM": ["", "s", "st", "m", "mc", "stm", "tmc"],
    "GMMHMM": ["", "w", "m", "c", "mc", "stw", "tmcw"],
    "PoissonHMM": ["", "st", "l", "tl"],
    "CategoricalHMM": ["", "st", "e", "te"],
    "MultinomialHMM": ["", "st", "e", "te"],
}


@pytest.mark.parametrize(
    ("name", "params"), [(name, subset) for name in CLASSES for subset in SUBSETS[name]]
)
def test_params(name, params):
    for settings in [{"covariance_type": kind} if kind else {} for kind in kinds_of(name)]:
        ours, _, X = compare(name, n_iter=3, params=params, **settings)
        start = quietly(
            getattr(fastem, name)(3, random_state=5, n_iter=0, **settings).fit, X, LENGTHS
        )
        for shown in ours._shown():
            if shown.letter not in params:
                attribute = f"{shown.name}_"
                assert_array_equal(getattr(ours, attribute), getattr(start, attribute), attribute)


PRIORS = [
    ("GaussianHMM", {"startprob_prior": 3.0, "transmat_prior": 2.5}),
    ("GaussianHMM", {"startprob_prior": 0.4, "transmat_prior": 0.2}),
    ("GaussianHMM", {"transmat_prior": np.arange(1.0, 10.0).reshape(3, 3)}),
    ("GaussianHMM", {"startprob_prior": np.array([1.0, 5.0, 2.0])}),
    ("GaussianHMM", {"means_prior": 1.5, "means_weight": 4.0}),
    ("GaussianHMM", {"covars_prior": 3.0, "covars_weight": 6.0}),
    ("GaussianHMM", {"means_prior": -1.0, "means_weight": 2.0, "covars_prior": 0.5}),
    ("PoissonHMM", {"lambdas_prior": 3.0, "lambdas_weight": 2.0}),
    ("PoissonHMM", {"transmat_prior": 2.0, "lambdas_prior": 1.0}),
    ("CategoricalHMM", {"emissionprob_prior": 2.0, "transmat_prior": 3.0}),
    ("CategoricalHMM", {"emissionprob_prior": 0.5}),
    ("CategoricalHMM", {"emissionprob_prior": np.arange(1.0, 13.0).reshape(3, 4)}),
    ("MultinomialHMM", {"startprob_prior": 2.0, "transmat_prior": 3.0}),
    ("GMMHMM", {"weights_prior": 3.0, "transmat_prior": 2.0}),
    ("GMMHMM", {"means_prior": 1.0, "means_weight": 3.0}),
    ("GMMHMM", {"covars_prior": 2.0, "covars_weight": 8.0}),
]


@pytest.mark.parametrize(("name", "priors"), PRIORS)
def test_priors(name, priors):
    for kind in kinds_of(name):
        settings = {**priors, **({"covariance_type": kind} if kind else {})}
        if name == "GMMHMM":
            settings["n_mix"] = 2
        compare(name, n_iter=3, **settings)


@pytest.mark.parametrize("kind", KINDS)
def test_priors_that_are_arrays(kind):
    matrix = np.array([[2.0, 0.5], [0.5, 1.0]])
    prior = matrix if kind in ("full", "tied") else np.array([[0.5, 1.0], [2.0, 0.3], [1.0, 1.0]])
    means_prior = np.array([[0.0, 1.0], [1.0, -1.0], [2.0, 0.0]])
    compare(
        "GaussianHMM", n_iter=3, covariance_type=kind, covars_prior=prior, means_prior=means_prior,
        means_weight=1.5,
    )  # fmt: skip


@pytest.mark.parametrize("implementation", ["log", "scaling"])
def test_both_implementations(implementation):
    compare("GaussianHMM", n_iter=2, implementation=implementation)


def test_where_it_stops():
    X = data("GaussianHMM")
    ours, theirs = pair("GaussianHMM", n_components=3, random_state=1, n_iter=100, tol=0.5)
    for model in (ours, theirs):
        model.fit(X, LENGTHS)
    assert ours.monitor_.iter == theirs.monitor_.iter < 100
    assert ours.monitor_.converged
    assert theirs.monitor_.converged
    assert ours.converged_
    assert_same(ours, theirs)


def test_a_random_state_is_used_as_hmmlearn_uses_it():
    for name in CLASSES:
        ours, theirs = pair(name, n_components=3, n_iter=2)
        ours.random_state, theirs.random_state = (np.random.RandomState(3) for _ in range(2))
        for model in (ours, theirs):
            quietly(model.fit, data(name), LENGTHS)
        assert_same(ours, theirs)


@pytest.mark.parametrize("name", CLASSES)
def test_a_start_that_is_set_by_hand(name):
    start = quietly(getattr(fastem, name)(3, random_state=2, n_iter=1).fit, data(name), LENGTHS)
    ours, theirs = pair(name, n_components=3, init_params="", n_iter=4, tol=-np.inf)
    for model in (ours, theirs):
        copy_to(start, model)
        if name == "CategoricalHMM":
            model.n_features = 4
        quietly(model.fit, data(name), LENGTHS)
    assert_same(ours, theirs)


@pytest.mark.parametrize("name", CLASSES)
def test_a_model_without_fit(name):
    start = quietly(getattr(fastem, name)(3, random_state=2, n_iter=1).fit, data(name), LENGTHS)
    settings = {"n_trials": 7} if name == "MultinomialHMM" else {}
    ours, theirs = pair(name, n_components=3, **settings)
    for model in (ours, theirs):
        copy_to(start, model)
    X = data(name, seed=3)
    assert_allclose(ours.score(X, LENGTHS), theirs.score(X, LENGTHS), rtol=1e-10)
    mine, yours = ours.decode(X, LENGTHS), theirs.decode(X, LENGTHS)
    assert_allclose(mine[0], yours[0], rtol=1e-10)
    # Symbols that recur make paths of equal probability.
    assert_array_equal(mine[1], yours[1])


def test_left_to_right():
    X = data("GaussianHMM")
    ours, theirs = pair("GaussianHMM", n_components=3, init_params="mc", random_state=0, n_iter=3)
    for model in (ours, theirs):
        model.startprob_ = np.array([1.0, 0.0, 0.0])
        model.transmat_ = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]])
        model.fit(X, LENGTHS)
    assert_same(ours, theirs)
    assert_array_equal(ours.transmat_ == 0, np.tril(np.ones((3, 3)), -1) + np.eye(3, k=2) > 0)
    assert_array_equal(ours.startprob_, [1.0, 0.0, 0.0])


def test_the_constructors_have_hmmlearns_arguments():
    import inspect

    for name in CLASSES:
        ours, theirs = (inspect.signature(getattr(m, name)) for m in (fastem, hmmlearn.hmm))
        mine = list(ours.parameters.values())
        for i, (argument, parameter) in enumerate(theirs.parameters.items()):
            assert ours.parameters[argument].default == parameter.default, argument
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                assert mine[i].name == argument
                assert mine[i].kind is parameter.kind
        for parameter in mine[len(theirs.parameters) :]:
            assert parameter.kind is parameter.KEYWORD_ONLY


# Where hmmlearn has a bug that nobody can want, the mathematics is followed ---------------------


@pytest.mark.parametrize("kind", KINDS)
def test_covariances_alone_are_about_the_means_that_are_kept(kind):
    # hmmlearn counts no rows without 'm' in params, and divides the squares by nearly zero.
    X = data("GaussianHMM")
    model = fastem.GaussianHMM(
        2, kind, params="c", covars_prior=0.0, n_iter=1, random_state=0
    ).fit(X, LENGTHS)  # fmt: skip
    start = fastem.GaussianHMM(2, kind, n_iter=0, random_state=0).fit(X, LENGTHS)
    gamma = start.predict_proba(X, LENGTHS)
    matrices = np.stack(
        [
            (gamma[:, k, None] * (X - start.means_[k])).T @ (X - start.means_[k])
            for k in range(2)
        ]
    )  # fmt: skip
    mass = gamma.sum(axis=0)[:, None, None]
    if kind == "tied":
        expected = np.repeat(matrices.sum(axis=0)[None] / mass.sum(), 2, axis=0)
    else:
        expected = matrices / mass
        if kind != "full":
            expected = expected * np.eye(2)
        if kind == "spherical":
            expected = np.trace(expected, axis1=1, axis2=2)[:, None, None] / 2 * np.eye(2)
    assert_allclose(model.covars_, expected, rtol=1e-8)
    assert_array_equal(model.means_, start.means_)


def test_the_covariances_of_spherical_states_are_one_for_each_state():
    X = data("GaussianHMM")
    ours, theirs = pair("GaussianHMM", n_components=3, covariance_type="spherical", random_state=0)
    for model in (ours, theirs):
        model.fit(X, LENGTHS)
    assert ours.covars_.shape == (3, 2, 2)
    assert theirs.covars_.shape == (6, 2, 2)
    assert_allclose(ours.covars_[:, 0, 0], theirs._covars_[:, 0], rtol=1e-8)


def test_a_state_without_transitions_keeps_its_row():
    # hmmlearn leaves a row of zeros, and refuses to use the model afterwards.
    X = np.array([[0.0], [0.1], [-0.1], [9.0]])
    model = fastem.GaussianHMM(2, init_params="", n_iter=3, tol=-np.inf)
    model.startprob_, model.transmat_ = [1.0, 0.0], [[0.5, 0.5], [0.3, 0.7]]
    model.means_, model.covars_ = [[0.0], [9.0]], [[0.01], [0.01]]
    quietly(model.fit, X)
    assert_allclose(model.transmat_[1], [0.3, 0.7])
    assert np.isfinite(model.score(X))


def test_the_weights_of_every_state_are_counted():
    # hmmlearn counts those of one.
    ours, theirs = pair("GMMHMM", n_components=3, n_mix=2, random_state=0, n_iter=1)
    X = data("GMMHMM")
    for model in (ours, theirs):
        quietly(model.fit, X, LENGTHS)
    assert_allclose(ours.aic(X, LENGTHS), theirs.aic(X, LENGTHS) + 2 * (3 - 1) * (2 - 1), rtol=1e-9)
