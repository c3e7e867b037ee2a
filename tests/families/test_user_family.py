"""A family of the user's own: the documented example, run as it is written, and all it promises."""

import doctest
import importlib
import pkgutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.exceptions import ConvergenceWarning

import fastem
from fastem import Decay, Mixture
from fastem.families import Poisson, Product

DOCUMENT = Path(__file__).parents[2] / "docs" / "your-own-family.md"


@pytest.fixture(scope="module")
def document():
    """What the document's examples leave behind, and how many of them there were and failed."""
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner()
    test = parser.get_doctest(DOCUMENT.read_text(), {}, DOCUMENT.name, str(DOCUMENT), 0)
    output = []
    results = runner.run(test, out=output.append, clear_globs=False)
    return test.globs, results, "".join(output)


@pytest.fixture(scope="module")
def InverseGaussian(document):
    return document[0]["InverseGaussian"]


def test_the_document(document):
    _, results, output = document
    assert results.failed == 0, output
    assert results.attempted > 25


def _modules():
    names = ["fastem"]
    for module in pkgutil.walk_packages(fastem.__path__, "fastem."):
        # Peers are other libraries, which need not be there.
        left_out = ("fastem.kernels", "fastem.experiments", "fastem.bench.peers")
        if not module.name.startswith(left_out):
            names.append(module.name)
    return names


@pytest.mark.parametrize("name", _modules())
def test_examples_in_docstrings(name):
    results = doctest.testmod(importlib.import_module(name))
    assert results.failed == 0


@pytest.mark.parametrize(
    "name",
    ["mixture.estimators", "families.user", "families.product", "learning_rate",
     "statistics"],
)  # fmt: skip
def test_there_are_examples(name):
    module = importlib.import_module(f"fastem.{name}")
    tests = doctest.DocTestFinder().find(module)
    assert sum(len(test.examples) for test in tests) > 0


# The family of the document -----------------------------------------------------------------------


def rows(n_rows=300, seed=0):
    """Two columns from two components."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=(n_rows, 1))
    return rng.wald(np.where(labels, 6.0, 1.0), np.where(labels, 30.0, 8.0), size=(n_rows, 2))


def natural(m, shape):
    m, shape = np.asarray(m, dtype=float), np.asarray(shape, dtype=float)
    return np.hstack([-shape / (2 * m**2), -shape / 2])


# (K, D) means and shapes, as natural parameters of two components.
START = {"weights": [0.5, 0.5], "natural": natural([[0.8, 1.2], [5.0, 7.0]], [[5, 5], [20, 20]])}


def model(family, **settings):
    return Mixture(family, 2, init=START, **{"max_iter": 6, "tol": 0.0, **settings})


def fit(estimator, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(*args, **kwargs)


def log_density(m, shape, x):
    return stats.invgauss(m / shape, scale=shape).logpdf(x)


def test_density_is_scipys(InverseGaussian):
    X = rows(50)
    start = model(InverseGaussian(), max_iter=0).fit(X)
    m, shape = start.family.usual(start.natural_)
    joint = [
        np.log(0.5) + log_density(m[k], shape[k], X).sum(axis=1) for k in range(2)
    ]  # fmt: skip
    expected = np.logaddexp(*joint)
    np.testing.assert_allclose(start.score_samples(X), expected, rtol=1e-10)
    posterior = np.exp(np.stack(joint, axis=1) - expected[:, None])
    np.testing.assert_allclose(start.predict_proba(X), posterior, atol=1e-10)


def test_one_step_is_the_formula(InverseGaussian):
    X = rows(80)
    weights = np.random.default_rng(1).uniform(0.5, 2, 80)
    start = model(InverseGaussian(), max_iter=0).fit(X)
    posterior = start.predict_proba(X) * weights[:, None]
    step = fit(model(InverseGaussian(), max_iter=1), X, sample_weight=weights)
    m = posterior.T @ X / posterior.sum(axis=0)[:, None]
    shape = 1 / (posterior.T @ (1 / X) / posterior.sum(axis=0)[:, None] - 1 / m)
    np.testing.assert_allclose(step.natural_, natural(m, shape), rtol=1e-10)
    np.testing.assert_allclose(step.weights_, posterior.sum(axis=0) / weights.sum(), rtol=1e-12)


def test_fitting_raises_the_likelihood_and_finds_the_truth(InverseGaussian):
    X = rows(4000)
    fitted = fit(model(InverseGaussian(), max_iter=60), X)
    assert np.diff(fitted.lower_bounds_).min() > -1e-10
    m, shape = fitted.family.usual(fitted.natural_)
    np.testing.assert_allclose(m, [[1, 1], [6, 6]], rtol=0.05)
    np.testing.assert_allclose(shape, [[8, 8], [30, 30]], rtol=0.15)
    drawn, labels = fitted.sample(20_000)
    np.testing.assert_allclose(drawn[labels == 1].mean(axis=0), m[1], rtol=0.05)


@pytest.mark.parametrize("memory", ["model", "statistics"])
def test_online_in_batches_and_in_calls(InverseGaussian, memory):
    X = rows(70)
    settings = {"memory": memory, "learning_rate": Decay(0.5, 0.6)}
    at_once = model(InverseGaussian(), batch_size=7, **settings).partial_fit(X)
    by_call = model(InverseGaussian(), **settings)
    for start in range(0, 70, 7):
        by_call.partial_fit(X[start : start + 7])
    np.testing.assert_allclose(at_once.natural_, by_call.natural_, rtol=1e-10)
    assert at_once.n_steps_ == by_call.n_steps_ == 10
    other = model(InverseGaussian(), batch_size=7, learning_rate=Decay(0.5, 0.6)).partial_fit(X)
    np.testing.assert_allclose(at_once.natural_, other.natural_, rtol=1e-8)


def test_one_online_step_is_the_formula(InverseGaussian):
    X, eta = rows(40), 0.3
    start = model(InverseGaussian(), max_iter=0).fit(X)
    posterior = start.predict_proba(X) / 40
    features = start.family.sufficient(X)
    mass = posterior.sum(axis=0) + start.weights_ / eta
    sums = posterior.T @ features
    sums += start.weights_[:, None] / eta * start.family.mean(start.natural_)
    step = model(InverseGaussian(), learning_rate=eta).partial_fit(X)
    expected = start.family.natural(sums / mass[:, None])
    np.testing.assert_allclose(step.natural_, expected, rtol=1e-10)
    np.testing.assert_allclose(step.weights_, mass / mass.sum(), rtol=1e-12)


def test_streams_and_types(InverseGaussian):
    X = np.round(rows(120) * 8).clip(1) / 8
    expected = fit(model(InverseGaussian()), X)
    for other in ([X[:50], X[50:]], X.astype(np.float32), np.asfortranarray(X), X.tolist()):
        fitted = fit(model(InverseGaussian()), other)
        np.testing.assert_allclose(fitted.natural_, expected.natural_, rtol=1e-9)


def test_fixed_parameters(InverseGaussian):
    fitted = fit(model(InverseGaussian(), fixed="natural"), rows())
    np.testing.assert_array_equal(fitted.natural_, START["natural"])
    assert abs(fitted.weights_[0] - 0.5) > 1e-4


def test_failed_partial_fit_leaves_it_alone(InverseGaussian):
    learned = model(InverseGaussian()).partial_fit(rows())
    before = learned.natural_.copy()
    bad = rows(20)
    bad[4, 1] = -1.0
    with pytest.raises(ValueError, match="must be positive; row 4, column 1 is -1.0"):
        learned.partial_fit([rows(20), bad])
    np.testing.assert_array_equal(learned.natural_, before)
    assert learned.n_steps_ == 1


def test_combining_is_the_mean_of_the_statistics(InverseGaussian):
    one, other = fit(model(InverseGaussian()), rows()), fit(model(InverseGaussian()), rows(seed=1))
    merged = fastem.combine([one, other], weights=[1, 3])
    family = InverseGaussian()
    shares = np.stack([0.25 * one.weights_, 0.75 * other.weights_])
    means = np.stack([family.mean(one.natural_), family.mean(other.natural_)])
    mean = (shares[:, :, None] * means).sum(axis=0) / shares.sum(axis=0)[:, None]
    np.testing.assert_allclose(merged.natural_, family.natural(mean), rtol=1e-10)
    np.testing.assert_allclose(merged.weights_, shares.sum(axis=0), rtol=1e-12)
    turned = Mixture(InverseGaussian(), 2, max_iter=6, tol=0.0, init={
        "weights": START["weights"], "natural": START["natural"][::-1]
    })  # fmt: skip
    aligned = fastem.combine([one, fit(turned, rows())], align=True)
    np.testing.assert_allclose(aligned.natural_, one.natural_, rtol=1e-8)


def test_divergence_is_the_relative_entropy(InverseGaussian):
    one, other = (
        Mixture(InverseGaussian(), init={"weights": [1.0], "natural": natural([[m]], [[shape]])},
                max_iter=0).fit([[1.0], [2.0]])
        for m, shape in ((1.0, 8.0), (1.5, 3.0))
    )  # fmt: skip

    def integrand(x):
        log_p, log_q = log_density(1.0, 8.0, x), log_density(1.5, 3.0, x)
        return np.exp(log_p) * (log_p - log_q)

    expected, _ = integrate.quad(integrand, 1e-3, 50, epsabs=1e-12, limit=200)
    assert fastem.divergence(one, other) == pytest.approx(expected, rel=1e-8)
    assert fastem.divergence(one, one) == pytest.approx(0.0, abs=1e-14)


def test_in_a_product(InverseGaussian):
    rng = np.random.default_rng(0)
    X = np.column_stack([rows(200)[:, 0], rng.poisson(3.0, 200)])
    family = Product((InverseGaussian(), 1), (Poisson(), 1))
    fitted = Mixture(family, random_state=0).fit(X)
    m, _ = InverseGaussian().usual(fitted.inversegaussian_natural_)
    np.testing.assert_allclose(m, X[:, :1].mean(axis=0, keepdims=True), rtol=1e-10)
    np.testing.assert_allclose(fitted.poisson_rates_, X[:, 1:].mean(axis=0, keepdims=True))


def test_saving(InverseGaussian, tmp_path):
    learned = model(InverseGaussian(), memory="statistics", batch_size=9).partial_fit(rows())
    fastem.save(learned, tmp_path / "model")
    loaded = fastem.load(tmp_path / "model", families=[InverseGaussian])
    np.testing.assert_array_equal(loaded.score_samples(rows()), learned.score_samples(rows()))
    for each in (learned, loaded):
        each.partial_fit(rows(seed=2))
    np.testing.assert_array_equal(loaded.natural_, learned.natural_)
    with pytest.raises(ValueError, match="family InverseGaussian, which is not one of fastem's"):
        fastem.load(tmp_path / "model")


def test_a_private_name_is_a_name_too(InverseGaussian, tmp_path):
    kind = type("_Hidden", (InverseGaussian,), {})
    fitted = fit(model(kind()), rows())
    fastem.save(fitted, tmp_path / "model")
    loaded = fastem.load(tmp_path / "model", families=[kind])
    np.testing.assert_array_equal(loaded.predict(rows()), fitted.predict(rows()))
