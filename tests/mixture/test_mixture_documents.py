"""Mixtures of compound Dirichlets: the component and the topic are both hidden."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import digamma, logsumexp

import fastem
from fastem import algebra
from fastem.data.rows import Table
from fastem.dirichlet.model import CompoundDirichletModel
from fastem.families import DirichletMultinomial, Poisson, Product
from fastem.mixture.model import MixtureModel

from oracles import dirichlet as oracles

WEIGHTS = np.array([0.3, 0.5, 0.2])
ALPHAS = np.array([[0.5, 2.0, 1.0, 4.0], [3.0, 0.4, 0.9, 0.6], [1.0, 1.0, 9.0, 2.0]])


def model(weights=WEIGHTS, alphas=ALPHAS, **options):
    return MixtureModel(DirichletMultinomial(), weights, {"alphas": alphas}, **options)


def documents(seed=0, n_documents=80, alphas=ALPHAS, weights=WEIGHTS, longest=30):
    rng = np.random.default_rng(seed)
    labels = rng.choice(len(weights), size=n_documents, p=weights)
    topics = np.array([rng.dirichlet(alphas[k]) for k in labels])
    return rng.multinomial(rng.integers(0, longest, n_documents), topics), labels


def joint(weights, alphas, X):
    return np.log(weights) + np.stack([oracles.log_likelihoods(a, X) for a in alphas], axis=1)


def nll(weights, alphas, X):
    return -logsumexp(joint(weights, alphas, X), axis=1).mean()


def posteriors(weights, alphas, X):
    table = joint(weights, alphas, X)
    return np.exp(table - logsumexp(table, axis=1, keepdims=True))


@pytest.mark.parametrize("weighted", [False, True])
def test_expected_statistics_are_those_of_brute_force(weighted):
    X, _ = documents(n_documents=300, longest=60)
    w = np.random.default_rng(1).uniform(0, 2, len(X)) if weighted else np.ones(len(X))
    got = model().expect(Table(X, w if weighted else None))
    gamma = posteriors(WEIGHTS, ALPHAS, X) * (w / w.sum())[:, None]
    np.testing.assert_allclose(got.statistics["mass"], gamma.sum(axis=0), rtol=1e-11)
    lengths = X.sum(axis=1, keepdims=True)
    expected = [
        gamma[:, k] @ (digamma(X + alpha) - digamma(lengths + alpha.sum()))
        for k, alpha in enumerate(ALPHAS)
    ]
    np.testing.assert_allclose(got.statistics["log_topics"], expected, rtol=1e-11)
    log_likelihood = logsumexp(joint(WEIGHTS, ALPHAS, X), axis=1)
    assert got.log_likelihood == pytest.approx(np.average(log_likelihood, weights=w), rel=1e-12)


def test_one_component_is_the_compound_dirichlet():
    X, _ = documents(2)
    one = model([1.0], ALPHAS[:1])
    single = CompoundDirichletModel(ALPHAS[0])
    for eta in (0.3, np.inf):
        np.testing.assert_allclose(
            algebra.online(one, X, eta)[0].parameters["alphas"][0],
            algebra.online(single, X, eta)[0].alpha,
            rtol=1e-10,
        )
    assert one.expect(X).log_likelihood == pytest.approx(single.expect(X).log_likelihood)


def test_online_step_minimizes_bound_plus_divergence():
    X, _ = documents(3)
    eta = 0.7
    step, _ = algebra.online(model(), X, eta)
    gamma = posteriors(WEIGHTS, ALPHAS, X)
    lengths = X.sum(axis=1, keepdims=True)
    logs = [digamma(X + a) - digamma(lengths + a.sum()) for a in ALPHAS]

    def objective(vector):
        alphas = np.exp(vector.reshape(3, 4))
        value = 0.0
        for k in range(3):
            mean_log = gamma[:, k] @ logs[k] / gamma[:, k].sum()
            value -= gamma[:, k].mean() * oracles.log_joint(alphas[k], mean_log)
            value += WEIGHTS[k] * oracles.divergence(ALPHAS[k], alphas[k]) / eta
        return value

    at = np.log(step.parameters["alphas"]).ravel()
    np.testing.assert_allclose(oracles.gradient(objective, at), 0.0, atol=1e-7)
    weights = (gamma.mean(axis=0) + WEIGHTS / eta) / (1 + 1 / eta)
    np.testing.assert_allclose(step.weights, weights, rtol=1e-10)


@settings(deadline=None, max_examples=40, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), log_eta=st.floats(-5, 5))
def test_online_step_never_raises_the_loss_of_its_batch(seed, log_eta):
    rng = np.random.default_rng(seed)
    alphas, others = 10.0 ** rng.uniform(-1, 1, (2, 3, 4))
    X, _ = documents(seed, 60, others)
    step, _ = algebra.online(model(WEIGHTS, alphas), X, 10.0**log_eta)
    before = nll(WEIGHTS, alphas, X)
    assert nll(step.weights, step.parameters["alphas"], X) <= before + 1e-11 * max(1.0, before)


def test_own_statistics_and_divergences():
    one, other = model(), model(WEIGHTS[::-1].copy(), ALPHAS + 0.5)
    own = one.own()
    np.testing.assert_allclose(own["log_topics"], [w * oracles.own(a) for w, a in
                                                   zip(WEIGHTS, ALPHAS, strict=True)])  # fmt: skip
    expected = sum(
        w * (np.log(w / v) + oracles.divergence(a, a + 0.5))
        for w, v, a in zip(WEIGHTS, WEIGHTS[::-1], ALPHAS, strict=True)
    )
    assert algebra.divergence(one, other) == pytest.approx(expected, rel=1e-10)
    assert np.trace(one.component_divergences(other)) == pytest.approx(expected, rel=1e-10)
    shuffled = one.reordered([2, 0, 1])
    assert fastem.divergence(one, shuffled, align=True) == pytest.approx(0.0, abs=1e-12)
    combined = fastem.combine([one, shuffled], align=True)
    np.testing.assert_allclose(combined.parameters["alphas"], ALPHAS, rtol=1e-9)


def test_own_statistics_are_what_simulation_tends_to():
    mixture = model()
    own = mixture.own()["log_topics"]
    runs = np.array(
        [algebra.own_by_simulation(mixture, 300, s, 12)["log_topics"] for s in range(100)]
    )
    error = runs.std(axis=0, ddof=1) / 10
    assert (np.abs(runs.mean(axis=0) - own) < 4.5 * error).all()


def test_the_estimator_clusters_documents_and_finds_the_components():
    X, labels = documents(4, 6000, longest=120)
    mixture = fastem.Mixture(DirichletMultinomial(), 3, random_state=0, tol=1e-7, max_iter=500)
    mixture.fit(X)
    assert mixture.converged_
    order = np.argmin(np.abs(mixture.alphas_[None] - ALPHAS[:, None]).sum(axis=2), axis=1)
    assert sorted(order) == [0, 1, 2]
    np.testing.assert_allclose(mixture.alphas_[order], ALPHAS, rtol=0.25)
    np.testing.assert_allclose(mixture.weights_[order], WEIGHTS, atol=0.03)
    best = posteriors(WEIGHTS, ALPHAS, X).argmax(axis=1)
    found = np.argsort(order)[mixture.predict(X)]
    assert (found == labels).mean() > (best == labels).mean() - 0.02
    bounds = np.array(mixture.lower_bounds_)
    assert (np.diff(bounds) >= -1e-11 * np.abs(bounds[:-1])).all()
    assert mixture.score(X) == pytest.approx(-nll(mixture.weights_, mixture.alphas_, X), rel=1e-10)
    drawn, _ = mixture.sample(50)
    assert drawn.shape == (50, 4) and (drawn.sum(axis=1) == 100).all()


def test_the_kernel_of_online_learning_is_the_algebra():
    X, _ = documents(5)
    rates = 1.0 / np.arange(1, 9)
    plain = model()
    for t in range(8):
        plain, _ = algebra.online(plain, X[10 * t : 10 * t + 10], rates[t])
    learned, _, _ = model().learn(Table(X), rates, 10)
    np.testing.assert_allclose(learned.parameters["alphas"], plain.parameters["alphas"], rtol=1e-9)
    np.testing.assert_allclose(learned.weights, plain.weights, rtol=1e-10)


def test_files_products_and_bad_input(tmp_path):
    X, _ = documents(6, 200)
    mixture = fastem.Mixture(DirichletMultinomial(n_trials=7), 2, random_state=0).fit(X)
    fastem.save(mixture, tmp_path / "mixture.fastem")
    back = fastem.load(tmp_path / "mixture.fastem")
    np.testing.assert_array_equal(back.alphas_, mixture.alphas_)
    assert back.family == DirichletMultinomial(n_trials=7)
    assert (back.sample(5)[0].sum(axis=1) == 7).all()
    named = fastem.Mixture("dirichletmultinomial", 2, random_state=0).fit(X)
    np.testing.assert_array_equal(named.alphas_, mixture.alphas_)
    product = Product((DirichletMultinomial(), 4), (Poisson(), 1))
    both = np.column_stack([X, X.sum(axis=1)])
    fitted = fastem.Mixture(product, 2, random_state=0, max_iter=3, tol=0.0).fit(both)
    assert np.isfinite(fitted.score(both))
    for value, words in ((-1.0, "cannot be negative; row 3, column 1"), (0.5, "whole numbers")):
        bad = X.astype(float)
        bad[3, 1] = value
        with pytest.raises(ValueError, match=words):
            mixture.fit(bad)
    with pytest.raises(ValueError, match=r"alphas must be positive and finite; alphas\[\(0, 1\)\]"):
        model([1.0], [[1.0, 0.0, 1.0, 1.0]])


def test_a_dead_component_keeps_its_alpha():
    X, _ = documents(7)
    weights = np.array([0.5, 0.5 - 1e-30, 1e-30])
    with pytest.warns(RuntimeWarning, match="no points left"):
        step = algebra.batch(model(weights), X)
    np.testing.assert_array_equal(step.parameters["alphas"][2], ALPHAS[2])
    assert np.isfinite(step.parameters["alphas"]).all()


def test_any_number_of_threads_gives_the_same_bits():
    X, _ = documents(8, 20_000)
    results = [model(n_jobs=n).expect(X) for n in (1, 3)]
    np.testing.assert_array_equal(
        results[0].statistics["log_topics"], results[1].statistics["log_topics"]
    )
    assert results[0].log_likelihood == results[1].log_likelihood
