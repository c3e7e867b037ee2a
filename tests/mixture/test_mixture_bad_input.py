"""Bad input is refused in words that say what is wrong, where, and what to do."""

import re

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import InvalidParameterError

import fastem
from fastem import Decay, GaussianMixture, Mixture
from fastem.families import Bernoulli, Categorical, Gaussian, Poisson, Product
from fastem.saving.files import FileError


def rows(n_rows=20, n_columns=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n_rows, n_columns))


def spoiled(value, row=3, column=1):
    X = np.abs(rows()) + 0.5
    X[row, column] = value
    return X


def refused(call, words, error=ValueError):
    with pytest.raises(error, match=words):
        call()


METHODS = ["fit", "partial_fit", "predict", "predict_proba", "score", "score_samples"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("X", "words"),
    [
        (spoiled(np.nan), "Input X contains NaN"),
        (spoiled(np.inf), "Input X contains infinity"),
        (spoiled(-np.inf), "Input X contains infinity"),
        (np.empty((0, 2)), r"Found array with 0 sample\(s\)"),
        (np.empty((5, 0)), r"Found array with 0 feature\(s\)"),
        (np.zeros(5), "Expected 2D array, got 1D array"),
        (np.zeros((2, 2, 2)), "Found array with dim 3"),
        (np.array([["a", "b"]]), "could not convert string to float|dtype='numeric'"),
        (rows() + 1j, "Complex data not supported"),
    ],
    ids=["nan", "inf", "-inf", "no rows", "no columns", "1-D", "3-D", "text", "complex"],
)
def test_arrays(method, X, words):
    model = GaussianMixture(2, random_state=0).fit(rows())
    refused(lambda: getattr(model, method)(X), words)


@pytest.mark.parametrize("method", METHODS[1:])
def test_wrong_width(method):
    model = GaussianMixture(2, random_state=0).fit(rows())
    words = "X has 3 features, but GaussianMixture is expecting 2 features as input"
    refused(lambda: getattr(model, method)(rows(5, 3)), words)


def test_too_few_rows():
    words = "n_samples >= n_components but got n_components = 9, n_samples = 4"
    refused(lambda: GaussianMixture(9).fit(rows(4)), words)
    refused(lambda: Mixture("poisson", 9).fit(np.ones((4, 1))), words)
    refused(lambda: GaussianMixture().fit(rows(1)), "minimum of 2 is required")


@pytest.mark.parametrize(
    ("family", "X", "words"),
    [
        ("poisson", spoiled(-2.0), "Negative values in data: Poisson.*row 3, column 1 is -2.0"),
        ("poisson", np.array([[1, 2], [3, -4]]), "cannot be negative; row 1, column 1 is -4"),
        ("poisson", np.array([[1.0], [2.5]]), "whole numbers; row 1, column 0 is 2.5"),
        ("multinomial", np.array([[1, 2], [-1, 3]]), "Multinomial.*row 1, column 0 is -1"),
        ("multinomial", np.array([[1, 2], [0.5, 3]]), "whole numbers; row 1, column 0 is 0.5"),
        ("bernoulli", np.array([[0, 1], [1, 2]]), "must be 0 or 1; row 1, column 1 is 2"),
        ("bernoulli", np.array([[0, 1], [1, 0.5]]), "must be 0 or 1; row 1, column 1 is 0.5"),
        ("bernoulli", np.array([[0, 1], [-1, 0]]), "must be 0 or 1; row 1, column 0 is -1"),
        ("exponential", spoiled(-1.0), "Exponential.*negative; row 3, column 1 is -1.0"),
        ("gamma", spoiled(0.0), "Gamma data must be positive; row 3, column 1 is 0.0"),
        ("gamma", spoiled(-1.0), "Gamma data must be positive; row 3, column 1 is -1.0"),
        ("beta", np.array([[0.5], [1.0]]), "between 0 and 1; row 1, column 0 is 1.0"),
        ("beta", np.array([[0.5], [0.0]]), "between 0 and 1; row 1, column 0 is 0.0"),
        ("beta", np.array([[0.5], [7.0]]), "between 0 and 1; row 1, column 0 is 7.0"),
        (Categorical(3), np.array([[0], [3]]), "from 0 to 2; row 1, column 0 is 3"),
        (Categorical(3), np.array([[0], [-1]]), "from 0 to 2; row 1, column 0 is -1"),
        (Categorical(3), np.array([[0], [1.5]]), "from 0 to 2; row 1, column 0 is 1.5"),
        (
            Product((Gaussian("diag"), 1), (Poisson(), 1)),
            np.array([[-1.5, 2], [2.5, -3]]),
            r"Poisson.*row 1, column 0 is -3.0\. \(counting columns from 1\)",
        ),
    ],
)  # fmt: skip
def test_values_outside_the_support(family, X, words):
    refused(lambda: Mixture(family).fit(X), words)
    refused(lambda: Mixture(family).partial_fit(X), words)
    refused(lambda: Mixture(family).fit([X, X]), "In array 0 of the stream: .*" + words)
    refused(lambda: Mixture(family).fit(np.asfortranarray(X.astype(np.float32))), "row")


def test_the_row_is_named_in_long_data():
    X = np.zeros((70_000, 1))
    X[66_000] = -1
    words = r"row 464, column 0 is -1.0\. \(counting rows from 65536\)"
    refused(lambda: Mixture("poisson").fit(X), words)
    model = Mixture("poisson").fit(X[:100])._model()
    refused(lambda: model.expect(X), words)
    X[66_000] = np.nan
    refused(lambda: model.expect(X), words.replace("-1.0", "nan"))


@pytest.mark.parametrize("method", ["fit", "partial_fit", "score"])
@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.ones(19), r"sample_weight.shape == \(19,\), expected \(20,\)"),
        (np.ones((20, 2)), "Sample weights must be 1D"),
        (-np.ones(20), "Negative values in data passed to `sample_weight`"),
        (np.full(20, np.nan), "sample_weight contains NaN"),
        (np.zeros(20), "(?i)sample weights .*zero"),
    ],
    ids=["short", "2-D", "negative", "nan", "zero"],
)
def test_sample_weights(method, weights, words):
    model = GaussianMixture(1).fit(rows())
    refused(lambda: getattr(model, method)(rows(), sample_weight=weights), words)


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        (0, "must be positive; at step 1 it is 0.0. A rate near zero leaves the model alone"),
        (-0.5, "must be positive; at step 1 it is -0.5"),
        (np.nan, "must be positive; at step 1 it is nan"),
        (lambda t: 2.0 - t, "must be positive; at step 2 it is 0.0"),
        (1e-310, "too small; at step 1 it is 1e-310"),
        (Decay(1e-300, 30.0), "too small; at step 2 it is 9.3"),
        (Decay(1.0, 2000.0), "must be positive; at step 2 it is 0.0"),
    ],
)
@pytest.mark.parametrize("batch_size", [None, 5])
def test_learning_rates(rate, words, batch_size):
    model = GaussianMixture(learning_rate=rate, batch_size=batch_size)

    def learn():
        model.partial_fit(rows())
        model.partial_fit(rows())

    refused(learn, words)


@pytest.mark.parametrize("kind", [GaussianMixture, Mixture, fastem.BayesianGaussianMixture])
def test_another_number_of_components_than_the_model_has(kind):
    model = kind(n_components=2, random_state=0).partial_fit(rows(60))
    model.set_params(n_components=3)
    refused(lambda: model.partial_fit(rows()), "n_components is 3, and the model has 2 components")
    assert model.set_params(n_components=2).partial_fit(rows()).n_observations_ > 60


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_jobs": 0}, "'n_jobs' parameter of GaussianMixture must be an int in the range"),
        ({"n_jobs": 1.5}, "'n_jobs' parameter"),
        ({"batch_size": 0}, r"'batch_size' parameter.*in the range \[1, inf\) or None"),
        ({"memory": "both"}, "'memory' parameter.*a str among.*'statistics'"),
        ({"learning_rate": "fast"}, "'learning_rate' parameter"),
        ({"fixed": 3}, "'fixed' parameter"),
    ],
)
def test_settings(settings, words):
    error = InvalidParameterError
    refused(lambda: GaussianMixture(**settings).fit(rows()), words, error)
    refused(lambda: GaussianMixture(**settings).partial_fit(rows()), words, error)
    started = GaussianMixture().fit(rows()).set_params(**settings)
    refused(lambda: started.partial_fit(rows()), words, error)


def test_names_of_fixed_parameters():
    words = re.escape("fixed: 'rate' is not one of the parameters ('weights', 'rates')")
    refused(lambda: Mixture("poisson", fixed=["rate"]).fit(np.ones((4, 1))), words)


@pytest.mark.parametrize(
    ("family", "words"),
    [
        ("normal", "family must be one of .*'poisson'.*got 'normal'"),
        ("categorical", r"needs the number of categories.*Categorical\(n_categories\)"),
    ],
)
def test_names_of_families(family, words):
    refused(lambda: Mixture(family).fit(rows()), words)
    refused(lambda: Mixture(3).fit(rows()), "'family' parameter", InvalidParameterError)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Categorical(0), "n_categories must be a whole number >= 1; got 0"),
        (lambda: Categorical(2.5), "n_categories must be a whole number >= 1; got 2.5"),
        (lambda: Gaussian("round"), "covariance_type must be one of .*got 'round'"),
        (lambda: Gaussian(reg_covar=-1), "reg_covar must be zero or more; got -1"),
        (lambda: Product(), r"at least one \(family, columns\) pair"),
        (lambda: Product(Poisson()), r"such as \(Poisson\(\), 3\)"),
        (lambda: Product((Poisson(), [0]), (Poisson(), [0])), "each once; got"),
    ],
)
def test_families(call, words):
    refused(call, words)


@pytest.mark.parametrize(
    ("family", "init", "words"),
    [
        ("gaussian", {"mean": [[0, 0]]}, "init: 'mean' is not one of the parameters"),
        ("gaussian", {"means": [[0, 0, 0]]}, r"'means' should have the shape \(1, 2\) for 1"),
        ("gaussian", {"means": [[0, np.nan]]}, "init: 'means' contains NaN"),
        ("gaussian", {"weights": [0.5]}, r"normalized, but got sum\(weights\) = 0.5"),
        ("gaussian", {"weights": [np.nan]}, "'weights' contains NaN"),
        ("gaussian", {"weights": [0.5, 0.5]}, r"should have the shape of \(1,\)"),
        ("gaussian", {"weights": [-1.0]}, r"in the range \[0, 1\]"),
        (
            "gaussian",
            {"covariances": [[[1.0, 2.0], [2.0, 1.0]]]},
            "covariance of component 0 is not positive definite: its eigenvalues must all be",
        ),
        ("gaussian", {"covariances": [[[1.0, 0.5], [0.0, 1.0]]]}, "component 0 is not symmetric"),
        (Gaussian("tied"), {"covariances": [[1.0, 2.0], [2.0, 1.0]]}, "not positive definite"),
        (Gaussian("tied"), {"covariances": [[1.0, 0.9], [0.0, 1.0]]}, "not symmetric"),
        (Gaussian("diag"), {"covariances": [[1.0, -1.0]]}, "component 0 is not positive and"),
        (Gaussian("spherical"), {"covariances": [0.0]}, "component 0 is not positive and"),
        ("poisson", {"rates": [[-1.0, 1.0]]}, r"rates must be zero or more.*rates\[\(0, 0\)\] is"),
        ("poisson", {"rates": [1.0]}, r"'rates' should have the shape \(1, 2\)"),
        ("gamma", {"shapes": [[1.0, 0.0]]}, "shapes must be positive and finite"),
        ("gamma", {"scales": [[1.0]]}, r"'scales' should have the shape \(1, 2\)"),
        ("bernoulli", {"probabilities": [[0.5, 1.5]]}, "probabilities must be between 0 and 1"),
        ("multinomial", {"probabilities": [[0.5, 0.6]]}, r"\[0\] must sum to one; it sums to 1.1"),
        (
            Categorical(2),
            {"probabilities": [[[0.5, 0.5], [0.5, 0.6]]]},
            r"probabilities\[0, 1\] must sum to one",
        ),
        (Categorical(2), {"probabilities": [[[0.5, 0.5], [1.5, -0.5]]]}, "not be negative"),
    ],
)
def test_given_starts(family, init, words):
    X = np.array([[1, 1], [1, 0], [0, 1], [1, 1]])
    if family == "gamma":
        X = X + np.array([[1.0, 2.0]] * 4) + rows(4) ** 2
    model = Mixture(family, init=init)
    refused(lambda: model.fit(X), words)
    refused(lambda: model.partial_fit(X), words)
    assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize(
    ("kind", "matrix", "words"),
    [
        ("full", [[[1.0, 2.0], [2.0, 1.0]]], "'full precision' should be symmetric, positive-def"),
        ("tied", [[1.0, 0.5], [0.0, 1.0]], "'tied precision' should be symmetric, positive-def"),
        ("diag", [[1.0, 0.0]], "'diag precision' should be positive"),
        ("spherical", [-1.0], "'spherical precision' should be positive"),
        ("full", [[[np.nan, 0], [0, 1]]], "'full precision' contains NaN or infinity"),
    ],
)
def test_given_precisions(kind, matrix, words):
    model = GaussianMixture(covariance_type=kind, precisions_init=matrix)
    refused(lambda: model.fit(rows()), words)
    assert not hasattr(model, "n_features_in_")


def test_parameters_set_by_hand_that_do_not_fit_together():
    model = Mixture("gamma", 2)
    model.weights_, model.shapes_, model.scales_ = np.ones(2) / 2, np.ones((2, 3)), np.ones((2, 1))
    words = "scales must have the shape .*the same for all"
    refused(lambda: model.predict(np.ones((4, 3))), words)
    model.scales_ = np.ones((2, 3))
    refused(lambda: model.predict(np.ones((4, 2))), "data have 2 columns, and the model has 3")
    model.weights_ = np.ones(3) / 3
    refused(lambda: model.predict(np.ones((4, 3))), r"weights have the shape \(3,\).*2 components")


def test_collapse_without_regularization():
    # At the origin rounding leaves nothing of a variance in scikit-learn either.
    X = np.repeat([[0.0, 0.0, 0.0], [8.0, 0.0, 2.0]], 5, axis=0)
    for kind in ("full", "diag", "spherical"):
        model = GaussianMixture(2, covariance_type=kind, reg_covar=0.0, random_state=0)
        refused(lambda model=model: model.fit(X), "ill-defined empirical covariance.*reg_covar")
        assert not hasattr(model, "weights_")


def test_overflow_is_said():
    X = rows()
    X[0] = 1e200
    model = GaussianMixture(
        1, weights_init=[1.0], means_init=[[0.0, 0.0]], precisions_init=np.eye(2)[None]
    )
    refused(lambda: model.fit(X), "scale the input data|Scale the columns")


# Combining ----------------------------------------------------------------------------------------


def fitted(n_components=2, n_columns=2, kind="full"):
    model = GaussianMixture(n_components, covariance_type=kind, random_state=0, reg_covar=1e-3)
    return model.fit(rows(60, n_columns))


@pytest.mark.parametrize("function", [fastem.combine, fastem.average])
def test_models_that_cannot_be_combined(function):
    one = fitted()
    poisson = Mixture("poisson", 2, random_state=0).fit(np.arange(20).reshape(10, 2))
    refused(lambda: function([]), "nothing to combine: the list of models is empty")
    refused(lambda: function([one, poisson]), "Models of different kinds: Gaussian.*Poisson")
    refused(lambda: function([one, fitted(kind="diag")]), "different kinds: .*'full'.*'diag'")
    refused(lambda: function([one, fitted(3)]), r"different sizes: weights has shape \(2,\).*\(3,")
    refused(lambda: function([one, fitted(n_columns=3)]), r"means has shape \(2, 2\) in one and")
    refused(lambda: function([one, one], weights=[1.0]), "One weight is needed for each of the 2")
    refused(lambda: function([one, one], weights=[1, -1]), r"nonnegative.*got \[1.0, -1.0\]")
    refused(lambda: function([one, one], weights=[0, 0]), "not all zero")
    refused(lambda: function([one, one], weights=[1, np.nan]), "nonnegative")
    refused(lambda: function([one, GaussianMixture(2)]), "not fitted yet", NotFittedError)
    refused(lambda: function([one, "model"]), "Not a fastem model: str. Pass fitted", TypeError)
    refused(lambda: function(one), "A list of models is needed; got a single one", TypeError)


def test_products_of_different_members():
    X = np.array([[0, 1], [1, 0], [1, 1], [0, 0]])
    one = Mixture(Product((Poisson(), 2))).fit(X)
    other = Mixture(Product((Bernoulli(), 2))).fit(X)
    refused(lambda: fastem.combine([one, other]), "Models of different kinds: Product")
    refused(lambda: fastem.divergence(one, other), "Models of different kinds: Product")


def test_models_that_cannot_be_compared():
    one = fitted()
    refused(lambda: fastem.divergence(one, fitted(3)), "different sizes")
    refused(lambda: fastem.divergence(one, fitted(kind="tied")), "different kinds")
    refused(lambda: fastem.divergence(one, GaussianMixture()), "not fitted yet", NotFittedError)
    refused(lambda: fastem.divergence(one, 3), "Not a fastem model: int", TypeError)


# Files --------------------------------------------------------------------------------------------


def test_files_that_cannot_be_loaded(tmp_path):
    path = tmp_path / "model"
    fastem.save(fitted(), path)
    whole = path.read_bytes()
    for length in (0, 1, 40, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        refused(lambda: fastem.load(path), "is cut short|is not a fastem file", FileError)
    path.write_bytes(b"weights,means\n1,2\n")
    refused(lambda: fastem.load(path), "is not a fastem file", FileError)
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 1
    path.write_bytes(bytes(changed))
    refused(lambda: fastem.load(path), "is damaged", FileError)
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    refused(lambda: fastem.load(tmp_path / "other.npz"), "is not a fastem file", FileError)
    refused(lambda: fastem.load(tmp_path / "none"), "No such file", FileNotFoundError)
