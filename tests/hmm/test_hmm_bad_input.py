"""Bad input to hidden Markov models is refused in words, and changes nothing."""

import re

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import InvalidParameterError

import fastem
from fastem import GMMHMM, CategoricalHMM, GaussianHMM, MultinomialHMM, PoissonHMM


def rows(n_rows=30, n_columns=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n_rows, n_columns))


def spoiled(value, row=13, column=1):
    X = rows()
    X[row, column] = value
    return X


def refused(call, words, error=ValueError):
    with pytest.raises(error, match=words):
        call()


@pytest.fixture(scope="module")
def fitted():
    return GaussianHMM(2, random_state=0, n_iter=2).fit(rows())


METHODS = [
    "fit", "partial_fit", "predict", "predict_proba", "score", "score_samples", "score_sequences",
    "decode", "aic", "bic",
]  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("X", "lengths", "words"),
    [
        (spoiled(np.inf), None, "contains infinity: row 13, column 1 is inf"),
        (spoiled(-np.inf), [10, 20], "sequence 1, row 3 of it, column 1 is -inf"),
        (np.empty((0, 2)), None, "There are no rows"),
        (np.empty((5, 0)), None, r"Found array with 0 feature\(s\)"),
        (np.zeros(5), None, "Expected 2D array, got 1D array"),
        (np.array([["a", "b"]]), None, "could not convert string to float|dtype='numeric'"),
        (rows() + 1j, None, "Complex data not supported"),
        (rows(), [10, 10], "The lengths sum to 20, and X has 30 rows"),
        (rows(), [30, 0], r"lengths\[1\] is 0"),
        ([rows(5), rows(0)], None, "Sequence 1 is empty"),
        ([rows(5), rows(5, 3)], None, "Sequence 1 has 3 columns"),
        ([], None, "list is empty"),
    ],
    ids=["inf", "-inf", "no rows", "no columns", "1-D", "text", "complex", "lengths", "zero length",
         "empty sequence", "ragged columns", "empty list"],
)  # fmt: skip
def test_data(fitted, method, X, lengths, words):
    before = dict(vars(fitted))
    refused(lambda: getattr(fitted, method)(X, lengths), words)
    assert vars(fitted).keys() == before.keys()
    assert all(vars(fitted)[name] is value for name, value in before.items())


@pytest.mark.parametrize("method", METHODS[1:])
def test_wrong_width(fitted, method):
    words = "X has 3 features, but GaussianHMM is expecting 2 features as input"
    refused(lambda: getattr(fitted, method)(rows(5, 3)), words)


@pytest.mark.parametrize(
    "method", [*METHODS[2:], "sample", "filter", "get_stationary_distribution"]
)
def test_not_fitted(method):
    arguments = () if method in ("sample", "filter", "get_stationary_distribution") else (rows(),)
    refused(lambda: getattr(GaussianHMM(2), method)(*arguments), "not fitted", NotFittedError)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_components": 0}, "n_components"),
        ({"n_iter": -1}, "n_iter"),
        ({"covariance_type": "round"}, "covariance_type"),
        ({"algorithm": "guess"}, "algorithm"),
        ({"implementation": "guess"}, "implementation"),
        ({"min_covar": -1.0}, "min_covar"),
        ({"memory": "none"}, "memory"),
        ({"batch_size": 0}, "batch_size"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"random_state": "x"}, "random_state"),
        ({"learning_rate": "fast"}, "learning_rate"),
    ],
)
def test_settings(settings, words):
    model = GaussianHMM(**{"n_components": 2, **settings})
    refused(lambda: model.fit(rows()), words, InvalidParameterError)
    refused(lambda: model.partial_fit(rows()), words, InvalidParameterError)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"params": "stx"}, "params: 'x' stands for nothing"),
        ({"fixed": ("covariances",)}, "fixed: 'covariances' is not one of the parameters"),
        ({"absorbing": [2]}, r"absorbing: 2 is not one of the states 0 \.\. 1"),
        ({"absorbing": [0.5]}, "list of states"),
        ({"absorbing": [1, 1]}, "each once"),
        ({"absorbing": [0, 1]}, "at least one state must not be absorbing"),
    ],
)
def test_settings_that_do_not_fit_together(settings, words):
    refused(lambda: GaussianHMM(2, **settings).fit(rows()), words)
    refused(lambda: GaussianHMM(2, **settings).partial_fit(rows()), words)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"startprob_prior": [1.0, 2.0, 3.0]}, "startprob_prior must be a number, or have"),
        ({"transmat_prior": np.ones((3, 3))}, "transmat_prior must be a number, or have"),
        ({"means_prior": np.ones((3, 3))}, "means_prior has the shape"),
        ({"covars_prior": np.ones((7, 7))}, "covars_prior has the shape"),
    ],
)
def test_priors(settings, words):
    refused(lambda: GaussianHMM(2, n_iter=1, **settings).fit(rows()), words)


@pytest.mark.parametrize("name", ["weights_prior", "means_prior", "means_weight"])
def test_priors_of_mixtures(name):
    model = GMMHMM(2, 2, n_iter=1, **{name: np.ones((3, 3))})
    refused(lambda: model.fit(rows()), f"{name} must be a number, or have")


def test_weights():
    model = GaussianHMM(2)
    for method in (model.fit, model.partial_fit):
        refused(lambda m=method: m(rows(), [10, 20], [0, 0]), "weights are all zero")
        refused(lambda m=method: m(rows(), [10, 20], [1, 1, 1]), "each sequence has one weight")
        refused(lambda m=method: m(rows(), [10, 20], [1, -1]), "not negative")


def test_cut_off_needs_absorbing_states(fitted):
    refused(lambda: GaussianHMM(2).fit(rows(), cut_off=True), "has no absorbing states")
    refused(lambda: fitted.score(rows(), cut_off=True), "has no absorbing states")
    model = GaussianHMM(2, absorbing=[1])
    refused(lambda: model.fit(rows(), cut_off=[True, False]), "there are 1 sequences")


def test_fewer_rows_than_states():
    refused(lambda: GaussianHMM(5).fit(rows(3)), "3 rows to start from, fewer than the 5 states")


def by_hand(**changes):
    model = GaussianHMM(2, init_params="", n_iter=1)
    model.startprob_ = np.array([0.5, 0.5])
    model.transmat_ = np.array([[0.9, 0.1], [0.2, 0.8]])
    model.means_ = np.zeros((2, 2))
    model.covars_ = np.ones((2, 2))
    for name, value in changes.items():
        setattr(model, name, value)
    return model


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"startprob_": [0.5, 0.6]}, "startprob_ must sum to 1; it sums to 1.1"),
        ({"startprob_": [1.5, -0.5]}, "startprob_ holds probabilities, which cannot be negative"),
        ({"startprob_": [1.0]}, r"startprob_ must have the shape \(2,\) for 2 states"),
        ({"startprob_": [np.nan, 0.5]}, "negative or NaN"),
        ({"transmat_": [[0.9, 0.1], [0.2, 0.7]]}, r"transmat_\[1\] must sum to 1"),
        ({"transmat_": np.eye(3)}, r"transmat_ must have the shape \(2, 2\)"),
        ({"means_": np.zeros((3, 2))}, r"means_ must have the shape \(2, 2\)"),
        ({"means_": np.zeros(2)}, "means_ must have"),
        ({"_covars_": np.ones((2, 3))}, r"covars_ must have the shape \(2, 2\)"),
    ],
)
def test_parameters_set_by_hand(changes, words):
    for method in ("fit", "partial_fit", "score", "predict", "sample"):
        model = by_hand(**changes)
        arguments = () if method == "sample" else (rows(),)
        refused(lambda m=model, a=arguments, name=method: getattr(m, name)(*a), words)


@pytest.mark.parametrize(
    ("kind", "covars", "words"),
    [
        ("diag", np.zeros((2, 2)), "not positive"),
        ("spherical", [-1.0, 1.0], "not positive"),
        ("full", np.zeros((2, 2, 2)), "not positive definite"),
        ("full", [[[1.0, 0.5], [0.0, 1.0]], np.eye(2)], "not symmetric"),
        ("tied", [[1.0, 2.0], [2.0, 1.0]], "not positive definite"),
        ("full", np.ones((2, 2)), "must have 3 dimensions"),
        ("diag", np.ones((3, 2)), "the first of length 2"),
        ("diag", [[[1.0, 0.5], [0.5, 1.0]]] * 2, "not of the type 'diag'"),
    ],
)
def test_covariances_set_by_hand(kind, covars, words):
    model = GaussianHMM(2, kind)
    model.means_ = np.zeros((2, 2))
    with pytest.raises(ValueError, match=words):
        model.covars_ = covars
    assert not hasattr(model, "covars_")


def test_impossible_sequences():
    # State 2 ends a sequence, and cannot follow state 0, in which every sequence starts.
    model = CategoricalHMM(3, absorbing=[2], init_params="", n_iter=2)
    model.startprob_ = [1.0, 0.0, 0.0]
    model.transmat_ = [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]]
    model.emissionprob_ = np.full((3, 2), 0.5)
    X = np.array([[0], [1], [0], [1], [1]])
    assert model.score(X) == model.score_sequences(X)[0] > -np.inf
    assert list(model.score_sequences(X, [3, 2]) == -np.inf) == [False, True]
    assert model.score(X, [3, 2]) == -np.inf
    words = "Sequence 1 has probability zero under the model"
    before = dict(vars(model))
    refused(lambda: model.fit(X, [3, 2]), words)
    refused(lambda: model.fit(lambda: iter([X[:3], X[3:]])), words)
    refused(lambda: model.partial_fit(X, [3, 2]), "probability zero under the model")
    model.batch_size = 1
    refused(lambda: model.partial_fit(X, [3, 2]), "probability zero under the model")
    del before["batch_size"]
    for name, value in before.items():
        if name not in ("_monitor", "_monitor_made_for"):
            assert vars(model)[name] is value, name
    model.fit(X, [3, 2], sample_weight=[1.0, 0.0])
    assert np.isfinite(model.emissionprob_).all()


def test_zeros_in_the_emissions_mean_never():
    model = CategoricalHMM(2, init_params="", n_iter=2)
    model.startprob_, model.transmat_ = [1.0, 0.0], [[1.0, 0.0], [0.5, 0.5]]
    model.emissionprob_ = [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    X = np.array([[0], [1], [0], [2]])
    assert list(model.score_sequences(X, [2, 2]) == -np.inf) == [False, True]
    refused(lambda: model.fit(X, [2, 2]), "Sequence 1 has probability zero under the model")
    refused(lambda: model.partial_fit(X, [2, 2]), "probability zero under the model")
    counts = PoissonHMM(1, init_params="")
    counts.startprob_, counts.transmat_, counts.lambdas_ = [1.0], [[1.0]], [[0.0]]
    assert counts.score([[0], [0]]) == 0.0
    refused(lambda: counts.fit([[0], [1]]), "Sequence 0 has probability zero")


def test_values_whose_squares_overflow():
    X = rows() * 1e200
    refused(lambda: by_hand().fit(X), "probability zero|not finite")
    refused(lambda: by_hand().partial_fit(X), "probability zero|not finite")


def test_failed_learning_changes_nothing():
    model = GaussianHMM(2, random_state=0, n_iter=3).fit(rows())
    before, history = dict(vars(model)), list(model.monitor_.history)

    def broken():
        yield rows(10)
        yield spoiled(np.inf)

    refused(lambda: model.partial_fit(broken()), "infinity")
    refused(lambda: model.fit(broken), "infinity")
    refused(lambda: model.fit(rows(), [29]), "sum to 29")
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())
    assert list(model.monitor_.history) == history


def test_streams():
    model = GaussianHMM(2)
    refused(lambda: model.fit(iter([rows()])), "can be read only once", TypeError)
    refused(lambda: model.fit(lambda: iter([])), "The stream has no data")
    refused(lambda: model.fit(lambda: iter([rows()]), [30]), "lengths goes with an array")
    refused(lambda: model.fit(lambda: iter([rows(), rows(5, 3)])), "has 3 features")
    refused(lambda: model.fit(lambda: iter([rows(9), spoiled(np.inf)])), "sequence 1, row 13 of it")


@pytest.mark.parametrize("eta", [0.0, -1.0, np.nan])
def test_learning_rates(eta):
    model = GaussianHMM(2, random_state=0, learning_rate=eta)
    refused(lambda: model.partial_fit(rows()), "learning rate must be positive")
    assert not hasattr(model, "startprob_")


def test_counts():
    refused(lambda: PoissonHMM(2).fit([[1.5], [2.0]]), "must be whole numbers; row 0, column 0")
    refused(lambda: PoissonHMM(2).fit([[1], [-2]]), "cannot be negative; row 1")
    refused(lambda: PoissonHMM(2).fit(np.array([[1], [1], [-2]]), [2, 1]), "In sequence 1: .*row 0")
    refused(lambda: MultinomialHMM(2).fit([[1, -2]]), "cannot be negative")
    refused(lambda: MultinomialHMM(2, n_trials=3).fit([[1, 2], [2, 2]]), "Row 1 sums to 4")
    refused(lambda: MultinomialHMM(2, n_trials=[3, 4, 5]).fit([[1, 2], [2, 2]]), "3 numbers")


def test_symbols():
    refused(lambda: CategoricalHMM(2).fit([[0.5], [1.0]]), "whole numbers")
    refused(lambda: CategoricalHMM(2).fit([[-1], [1]]), "whole numbers, zero or more; row 0")
    refused(lambda: CategoricalHMM(2, n_features=2).fit([[0], [2]]), "from 0 to 1; row 1")
    model = CategoricalHMM(2, random_state=0).fit([[0], [1], [0]])
    refused(lambda: model.score([[2]]), "from 0 to 1; row 0")
    refused(lambda: model.partial_fit([[2]]), "from 0 to 1; row 0")
    refused(lambda: CategoricalHMM(2).fit([[np.nan], [np.nan]]), "All symbols are missing")


def test_parts_of_rows_that_hang_together_cannot_be_missing():
    X = np.array([[1.0, 2.0], [np.nan, 1.0]])
    refused(lambda: MultinomialHMM(1).fit(X), re.escape("A part of a row is missing (NaN): row 1"))


def test_sampling():
    model = by_hand()
    refused(lambda: model.sample(0), "n_samples must be 1 or more")
    refused(lambda: model.sample(3, currstate=2), r"currstate must be a state, 0 \.\. 1")
    model = MultinomialHMM(2, random_state=0, n_iter=1).fit([[1, 2], [2, 2], [3, 3]])
    refused(lambda: model.sample(3), "n_trials must be a single number")


def test_decoders(fitted):
    refused(lambda: fitted.decode(rows(), algorithm="guess"), "Unknown decoder 'guess'")


def test_absorbing_states():
    model = GaussianHMM(3, absorbing=[2], init_params="", n_iter=1)
    model.startprob_ = [0.5, 0.5, 0.0]
    model.transmat_ = [[0.5, 0.4, 0.1], [0.2, 0.7, 0.1], [0.5, 0.0, 0.5]]
    model.means_, model.covars_ = np.zeros((3, 1)), np.ones((3, 1))
    X = rows(6, 1)
    refused(lambda: model.fit(X), r"State 2 is absorbing, but transmat_\[2\] leads elsewhere")
    model.transmat_ = [[0.5, 0.5, 0.0], [0.2, 0.8, 0.0], [0.0, 0.0, 1.0]]
    refused(lambda: model.fit(X), "probability zero under the model.*absorbing states")
    refused(model.get_stationary_distribution, "no stationary distribution")


def test_combining_models_of_different_kinds(fitted):
    other = GaussianHMM(3, random_state=0, n_iter=1).fit(rows())
    refused(lambda: fastem.combine([fitted, other]), "different sizes")
    full = GaussianHMM(2, "full", random_state=0, n_iter=1).fit(rows())
    refused(lambda: fastem.combine([fitted, full]), "different kinds")
    mixture = fastem.GaussianMixture(2, random_state=0).fit(rows())
    refused(lambda: fastem.combine([fitted, mixture]), "different kinds")
    absorbing = GaussianHMM(2, absorbing=[1], random_state=0, n_iter=1).fit(rows())
    refused(lambda: fastem.divergence(fitted, absorbing), "absorbing in one")
