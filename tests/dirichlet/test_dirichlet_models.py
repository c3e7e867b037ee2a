"""The compound Dirichlet and the Dirichlet as models: the algebra's four functions and steps."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats
from scipy.optimize import minimize

import fastem
from fastem import Lengths, algebra
from fastem.data.rows import Table
from fastem.dirichlet.count_tables import CountTables, documents_of
from fastem.dirichlet.model import CompoundDirichletModel, DirichletModel
from fastem.families import Poisson
from fastem.kernels.dirichlet.documents import add_gradient
from fastem.mixture.model import MixtureModel
from fastem.simulated import Simulated

from oracles import dirichlet as oracles

ALPHA = np.array([0.4, 2.0, 0.9, 5.0, 1.3])
OTHER = np.array([1.4, 0.7, 2.2, 3.0, 0.2])


def problem(seed=0, n_documents=60, alpha=OTHER):
    rng = np.random.default_rng(seed)
    return oracles.documents(alpha, rng.integers(0, 25, n_documents), rng)


# The four functions ---------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("thin", [False, True])
def test_expected_statistics_are_those_of_brute_force(weighted, thin):
    X = problem()
    w = np.random.default_rng(1).uniform(0, 2, len(X)) if weighted else None
    data = Table(sparse.csr_array(X) if thin else X, w)
    got = CompoundDirichletModel(ALPHA).expect(data)
    np.testing.assert_allclose(
        got.statistics["log_topics"], oracles.expect(ALPHA, X, w), rtol=1e-12
    )
    assert got.log_likelihood == pytest.approx(-oracles.nll(ALPHA, X, w), rel=1e-12)
    assert got.weight == pytest.approx(len(X) if w is None else w.sum())
    assert got.horizon.mean == pytest.approx(np.average(X.sum(axis=1), weights=w), rel=1e-12)


def test_expected_statistics_are_the_posterior_mean_of_log_topics():
    """By Monte Carlo over the posterior, a Dirichlet of v + α."""
    v = np.array([[3, 0, 1, 7, 0]])
    topics = np.random.default_rng(2).dirichlet(v[0] + ALPHA, size=40_000)
    logs = np.log(topics)
    got = CompoundDirichletModel(ALPHA).expect(v).statistics["log_topics"]
    error = logs.std(axis=0) / np.sqrt(len(logs))
    assert (np.abs(logs.mean(axis=0) - got) < 4.5 * error).all()


def test_own_statistics_are_the_mean_of_log_topics_and_of_simulation():
    model = CompoundDirichletModel(ALPHA)
    own = model.own()["log_topics"]
    np.testing.assert_allclose(own, oracles.own(ALPHA), rtol=1e-13)
    logs = np.log(np.random.default_rng(3).dirichlet(ALPHA, size=40_000))
    error = logs.std(axis=0) / np.sqrt(len(logs))
    assert (np.abs(logs.mean(axis=0) - own) < 4.5 * error).all()
    # Whatever the lengths are, the mean of S(v|Θ) over v is S(Θ).
    for horizon in (3, Lengths([0, 5, 40], [0.2, 0.5, 0.3])):
        runs = np.array([
            algebra.own_by_simulation(model, 500, seed, horizon)["log_topics"]
            for seed in range(100)
        ])  # fmt: skip
        error = runs.std(axis=0, ddof=1) / 10
        assert (np.abs(runs.mean(axis=0) - own) < 4.5 * error).all()


def test_batch_step_minimizes_the_bound_and_log_joint_is_its_objective():
    X = problem(4)
    model = CompoundDirichletModel(ALPHA)
    statistics = model.expect(X).statistics
    step = model.maximize(statistics)
    expected = oracles.expect(ALPHA, X)
    np.testing.assert_allclose(step.alpha, oracles.maximum(expected, ALPHA), rtol=1e-6)
    gaps = [
        (model.log_joint(statistics) - CompoundDirichletModel(a).log_joint(statistics),
         oracles.log_joint(ALPHA, expected) - oracles.log_joint(a, expected))
        for a in (OTHER, step.alpha)
    ]  # fmt: skip
    for got, want in gaps:
        assert got == pytest.approx(want, rel=1e-10)


# Steps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fixed", [(), ("alpha",)], ids=["free", "fixed"])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("thin", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("batch_size", [1, 7, None])
def test_the_progressive_log_likelihood_is_that_of_brute_force(batch_size, thin, weighted, fixed):
    X = problem()
    X[3, 1], X[20, 2], X[21] = 17, 4321, 0
    w = np.random.default_rng(1).uniform(0, 2, len(X)) if weighted else np.ones(len(X))
    w[5:9] *= 1.0 - weighted
    size = batch_size or len(X)
    rates = 0.5 / np.arange(1, 1 + -(-len(X) // size))
    model, total = CompoundDirichletModel(ALPHA, fixed=fixed), 0.0
    for first, rate in zip(range(0, len(X), size), rates, strict=True):
        part = slice(first, first + size)
        total += w[part] @ oracles.log_likelihoods(model.alpha, X[part])
        if w[part].any():
            model, _ = algebra.online(model, Table(X[part], w[part]), rate)
    data = Table(sparse.csr_array(X) if thin else X, w if weighted else None)
    got = CompoundDirichletModel(ALPHA, fixed=fixed).learn(data, rates, batch_size)
    assert got.log_likelihood == pytest.approx(total / w.sum(), rel=1e-10)


@pytest.mark.parametrize(
    "alpha",
    [[1e-300, 1e-200, 1e-100, 1.0], [1e30, 2e30, 1e25, 1.0], [1e-12, 1e18, 3e17, 1e3], [3e5] * 4],
)
def test_log_likelihoods_keep_their_digits_for_tiny_and_huge_alpha(alpha):
    X = np.array([[16, 15, 3, 1], [1, 1, 1, 1], [0, 20, 16, 0], [2, 0, 0, 300]])
    with mpmath.workdps(400):
        a = [mpmath.mpf(value) for value in alpha]
        expected = []
        for v in X.tolist():
            n, rise = sum(v), mpmath.mpf(1)
            for aj, vj in zip(a, v, strict=True):
                rise *= mpmath.rf(aj, vj) / mpmath.factorial(vj)
            rise *= mpmath.factorial(n) / mpmath.rf(sum(a), n)
            expected.append(float(mpmath.log(rise)))
    model = CompoundDirichletModel(alpha)
    # Rounding of α is that of the logarithms, where these are all but zero.
    np.testing.assert_allclose(model.log_likelihoods(X), expected, rtol=1e-12, atol=1e-10)
    # The kernel of online steps, whose model may have no maximum.
    for i, value in enumerate(expected):
        found = add_gradient(
            *documents_of(X, 0, 4), i, i + 1, np.empty(0), model.alpha, model.alpha.sum(),
            np.zeros(4),
        )[1]  # fmt: skip
        assert found == pytest.approx(value, rel=1e-12, abs=1e-10)


@pytest.mark.parametrize("eta", [0.05, 3.0])
def test_online_step_minimizes_bound_plus_divergence(eta):
    X = problem(7)
    step, _ = algebra.online(CompoundDirichletModel(ALPHA), X, eta)
    mean_log = oracles.expect(ALPHA, X)

    def objective(u):
        alpha = np.exp(u)
        return -oracles.log_joint(alpha, mean_log) + oracles.divergence(ALPHA, alpha) / eta

    at = np.log(step.alpha)
    np.testing.assert_allclose(oracles.gradient(objective, at), 0.0, atol=1e-7)
    found = minimize(objective, np.log(OTHER), options={"gtol": 1e-8})
    assert objective(at) - 1e-9 < found.fun < objective(at) + 1e-7


@settings(deadline=None, max_examples=60, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), log_eta=st.floats(-6, 6), n_words=st.integers(1, 8))
def test_online_step_never_raises_the_loss_of_its_batch(seed, log_eta, n_words):
    rng = np.random.default_rng(seed)
    alpha, other = 10.0 ** rng.uniform(-2, 2, (2, n_words))
    X = oracles.documents(other, rng.integers(0, 30, 50), rng)
    step, _ = algebra.online(CompoundDirichletModel(alpha), X, 10.0**log_eta)
    before, after = oracles.nll(alpha, X), oracles.nll(step.alpha, X)
    assert after <= before + 1e-11 * max(1.0, before)


def test_statistics_of_the_maximum_are_the_statistics():
    model = CompoundDirichletModel(ALPHA)
    statistics = model.expect(problem(8)).statistics
    again = model.maximize(statistics).own()
    np.testing.assert_allclose(again["log_topics"], statistics["log_topics"], rtol=1e-10)


def test_sampled_step_tends_to_the_exact_one_as_one_over_the_root():
    X = problem(12)
    model = CompoundDirichletModel(ALPHA)
    exact, _, _ = model.learn(Table(X), np.array([0.5]), len(X))
    errors = []
    for n_pseudo in (100, 1600, 25_600):
        runs = np.array([
            CompoundDirichletModel(ALPHA, n_pseudo=n_pseudo, seed=s)
            .learn(Table(X), np.array([0.5]), len(X)).model.alpha
            for s in range(60)
        ])  # fmt: skip
        steps = np.log(runs / exact.alpha)
        errors.append(np.sqrt((steps**2).mean()))
    # Each root mean square of 60 × 5 numbers is known to some 6%, and a ratio to 9%.
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.35)
    assert errors[1] / errors[2] == pytest.approx(4.0, rel=0.35)
    assert errors[2] < 0.02
    # No bias is left: the mean of the last runs is within their error.
    spread = steps.std(axis=0, ddof=1) / np.sqrt(len(steps))
    assert (np.abs(steps.mean(axis=0)) < 4.5 * spread).all()


def test_sampled_steps_are_repeatable_and_those_of_the_wrapped_model():
    X = problem(13)
    model = CompoundDirichletModel(ALPHA)
    options = {"n_pseudo": 300, "seed": 5}
    sampled = CompoundDirichletModel(ALPHA, **options)
    one, other = (sampled.learn(Table(X), np.ones(6), 10).model for _ in range(2))
    np.testing.assert_array_equal(one.alpha, other.alpha)
    different = CompoundDirichletModel(ALPHA, n_pseudo=300, seed=6)
    different = different.learn(Table(X), np.ones(6), 10).model
    assert not np.array_equal(one.alpha, different.alpha)
    # The same law as the algebra with own() by simulation, for any model.
    kernel = [
        CompoundDirichletModel(ALPHA, n_pseudo=50, seed=s)
        .learn(Table(X), np.array([0.5]), 60)
        .model.alpha
        for s in range(200)
    ]
    wrapped = [algebra.online(Simulated(model, 50, s), X, 0.5)[0].model.alpha for s in range(200)]
    for a, b in zip(np.transpose(kernel), np.transpose(wrapped), strict=True):
        assert stats.ks_2samp(a, b).pvalue > 1e-4


# Draws ----------------------------------------------------------------------------------------


def test_drawn_documents_have_the_law_of_the_model():
    rng = np.random.default_rng(14)
    alpha = np.array([0.3, 1.0, 2.5])
    X = CompoundDirichletModel(alpha).draw(20_000, rng, 3).toarray()
    assert (X.sum(axis=1) == 3).all()
    every = np.array([(i, j, 3 - i - j) for i in range(4) for j in range(4 - i)])
    expected = np.exp(oracles.log_likelihoods(alpha, every)) * len(X)
    got = np.array([(row == X).all(axis=1).sum() for row in every])
    assert stats.chisquare(got, expected).pvalue > 1e-4


def test_documents_of_tiny_and_huge_alpha_can_be_drawn():
    rng = np.random.default_rng(15)
    tiny = CompoundDirichletModel(np.full(4, 1e-6)).draw(2000, rng, 30).toarray()
    # Almost surely one word only, each as often as the others.
    assert ((tiny > 0).sum(axis=1) == 1).mean() > 0.99
    assert stats.chisquare((tiny > 0).sum(axis=0)).pvalue > 1e-4
    huge = CompoundDirichletModel(np.array([1e6, 3e6])).draw(2000, rng, 40).toarray()
    assert huge[:, 0].var() == pytest.approx(40 * 0.25 * 0.75, rel=0.15)


def test_drawn_topics_have_the_law_of_the_model_and_stay_inside():
    rng = np.random.default_rng(16)
    points = DirichletModel(ALPHA).draw(20_000, rng)
    for j, a in enumerate(ALPHA):
        beta = stats.beta(a, ALPHA.sum() - a)
        assert stats.kstest(points[:, j], beta.cdf).pvalue > 1e-4
    tiny = DirichletModel(np.full(5, 1e-4)).draw(500, rng)
    assert (tiny > 0).all() and np.isfinite(np.log(tiny)).all()
    np.testing.assert_allclose(tiny.sum(axis=1), 1.0, rtol=1e-12)


# Divergences and combining --------------------------------------------------------------------

both = pytest.mark.parametrize("kind", [CompoundDirichletModel, DirichletModel])


@both
def test_divergence_is_that_of_two_dirichlets(kind):
    got = fastem.divergence(kind(ALPHA), kind(OTHER))
    assert got == pytest.approx(oracles.divergence(ALPHA, OTHER), rel=1e-12)
    topics = np.random.default_rng(17).dirichlet(ALPHA, size=40_000)
    terms = stats.dirichlet.logpdf(topics.T, ALPHA) - stats.dirichlet.logpdf(topics.T, OTHER)
    assert abs(terms.mean() - got) < 4.5 * terms.std() / np.sqrt(len(terms))
    assert fastem.divergence(kind(ALPHA), kind(ALPHA)) == 0.0
    assert fastem.divergence(kind(ALPHA), kind(OTHER), align=True) == got


def test_divergence_is_that_of_the_joint_law_of_topic_and_words():
    """The words drop out: p(v|h) does not depend on α."""
    rng = np.random.default_rng(18)
    topics = rng.dirichlet(ALPHA, size=20_000)
    X = rng.multinomial(12, topics)
    log_words = stats.multinomial.logpmf(X, 12, topics)
    one = log_words + stats.dirichlet.logpdf(topics.T, ALPHA)
    other = log_words + stats.dirichlet.logpdf(topics.T, OTHER)
    error = (one - other).std() / np.sqrt(len(X))
    got = algebra.divergence(CompoundDirichletModel(ALPHA), CompoundDirichletModel(OTHER))
    assert abs((one - other).mean() - got) < 4.5 * error


def test_divergence_keeps_its_digits_for_tiny_and_huge_alpha():
    for one, other in ([[1e-6, 2.0], [2e-6, 2.0]], [[1e6, 2e6], [1.1e6, 2e6]]):
        one, other = np.array(one), np.array(other)
        got = fastem.divergence(DirichletModel(one), DirichletModel(other))
        assert got == pytest.approx(oracles.divergence(one, other), rel=1e-6)
        assert got > 0


@both
def test_combining_minimizes_the_summed_divergences(kind):
    models = [kind(ALPHA), kind(OTHER), kind(np.full(5, 3.0))]
    share = np.array([0.2, 0.3, 0.5])
    combined = fastem.combine(models, 10 * share)

    def total(u):
        return sum(
            s * oracles.divergence(m.alpha, np.exp(u)) for s, m in zip(share, models, strict=True)
        )

    at = np.log(combined.alpha)
    np.testing.assert_allclose(oracles.gradient(total, at), 0.0, atol=1e-8)
    found = minimize(total, np.zeros(5), options={"gtol": 1e-8})
    assert total(at) - 1e-10 < found.fun < total(at) + 1e-8
    same = fastem.combine([models[0]] * 3, align=True)
    np.testing.assert_allclose(same.alpha, ALPHA, rtol=1e-10)


@both
def test_combining_by_simulation_tends_to_the_closed_form(kind):
    models = [kind(ALPHA), kind(OTHER)]
    exact = fastem.combine(models, [1, 2]).alpha
    errors = []
    for n_pseudo in (100, 1600):
        runs = [
            fastem.combine(models, [1, 2], n_pseudo=n_pseudo, random_state=s, horizon=20).alpha
            for s in range(60)
        ]
        errors.append(np.sqrt((np.log(np.array(runs) / exact) ** 2).mean()))
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.35)
    assert errors[1] < 0.1


def test_simulation_serves_any_model():
    mixture = MixtureModel(Poisson(), [0.4, 0.6], {"rates": np.array([[1.0], [9.0]])})
    combined = fastem.combine([mixture, mixture], n_pseudo=20_000, random_state=0)
    assert isinstance(combined, MixtureModel)
    np.testing.assert_allclose(combined.parameters["rates"].ravel(), [1.0, 9.0], rtol=0.05)


def test_models_of_different_kinds_and_sizes_do_not_combine():
    mixture = MixtureModel(Poisson(), [1.0], {"rates": np.ones((1, 5))})
    models = [CompoundDirichletModel(ALPHA), DirichletModel(ALPHA), mixture]
    for one in models:
        for other in models:
            if one is not other:
                with pytest.raises(ValueError, match="Models of different kinds"):
                    fastem.combine([one, other])
                with pytest.raises(ValueError, match="Models of different kinds"):
                    fastem.divergence(one, other)
    with pytest.raises(ValueError, match=r"sizes: alpha has shape \(5,\) in one and \(4,\)"):
        fastem.combine([models[0], CompoundDirichletModel(ALPHA[:4])])
    with pytest.raises(ValueError, match="n_pseudo must be 1 or more; got 0"):
        fastem.combine([models[0]] * 2, n_pseudo=0)


@pytest.mark.parametrize(
    "alpha, words",
    [
        ([1.0, 0.0], r"positive and finite; alpha\[1\] is 0.0"),
        ([np.nan, 1.0], r"positive and finite; alpha\[0\] is nan"),
        ([1.0, np.inf], r"alpha\[1\] is inf"),
        ([], r"one entry for each word; got the shape \(0,\)"),
        ([[1.0]], r"one entry for each word; got the shape \(1, 1\)"),
    ],
)
def test_alpha_that_makes_no_sense_is_refused(alpha, words):
    with pytest.raises(ValueError, match=words):
        CompoundDirichletModel(alpha)


def test_data_of_another_width_are_refused():
    with pytest.raises(ValueError, match="documents have 5 words, but the model has 4"):
        CompoundDirichletModel(ALPHA[:4]).expect(problem())


def test_tables_serve_instead_of_the_documents():
    X = problem(19)
    model = CompoundDirichletModel(ALPHA)
    one, other = model.expect(X), model.expect(CountTables.of(X))
    np.testing.assert_array_equal(one.statistics["log_topics"], other.statistics["log_topics"])


def test_fixed_alpha_stays():
    model = CompoundDirichletModel(ALPHA, fixed=["alpha"])
    assert algebra.batch(model, problem()) is model
    step = model.learn(Table(problem()), np.ones(6), 10).model
    np.testing.assert_array_equal(step.alpha, ALPHA)
