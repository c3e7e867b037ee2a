"""Noise that is added to the data, ``reg_covar``: which loss a step lowers, and the bound on it."""

import numpy as np
import pytest

from fastem import algebra
from fastem.data.sequences import Sequences
from fastem.families import Gaussian, MixtureOf, Poisson, Product
from fastem.hmm.model import HMMModel
from fastem.mixture.model import MixtureModel

from cases.families import GAUSSIAN, pair_of
from cases.hmm import BY_NAME
from oracles import families as oracles

NOISES = (0.05, 2.0)
gaussian = pytest.mark.parametrize("case", GAUSSIAN, ids=str)
noises = pytest.mark.parametrize("noise", NOISES)


def noisy(case, pair, noise):
    return MixtureModel(Gaussian(case.name, reg_covar=noise), *pair)


def problems(noise):
    """Models that add noise to their data, others of their kind, and data."""
    rng = np.random.default_rng(1)
    for case in GAUSSIAN:
        pair, X = case.problem(2, n_rows=50)
        others = [case.near(pair, rng, d) for d in (0.01, 0.1, 0.5)]
        yield case.name, noisy(case, pair, noise), [noisy(case, o, noise) for o in others], X
    for name in ("full", "mixture-diag"):
        case = BY_NAME[name]
        hidden, X, lengths = case.problem(3, [4, 6, 3, 5, 8])
        kind = Gaussian("full", noise) if name == "full" else MixtureOf(Gaussian("diag", noise), 2)
        models = [
            HMMModel(kind, h.startprob, h.transmat, h.parameters)
            for h in (hidden, *(case.near(hidden, rng, d) for d in (0.1, 0.4)))
        ]
        yield name, models[0], models[1:], Sequences(X, lengths)
        X = X.copy()
        X[rng.random(X.shape) < 0.3] = np.nan
        yield f"{name}, missing values", models[0], models[1:], Sequences(X, lengths)
    family = Product((Gaussian("diag", noise), 2), (Poisson(), 1))
    models = [
        MixtureModel(
            family,
            [0.4, 0.6],
            {
                "gaussian_means": rng.normal(size=(2, 2)),
                "gaussian_covariances": rng.uniform(0.5, 2, (2, 2)),
                "poisson_rates": rng.uniform(1, 4, (2, 1)),
            },
        )
        for _ in range(3)
    ]
    X = np.hstack([rng.normal(size=(40, 2)), rng.poisson(2, (40, 1))])
    yield "product", models[0], models[1:], X


@gaussian
@noises
def test_the_loss_is_the_likelihood_and_the_noise_that_each_component_must_explain(case, noise):
    rng = np.random.default_rng(4)
    pair, X = case.problem(5)
    for other in (pair, case.near(pair, rng, 0.4)):
        masses = oracles.posteriors(case.oracle, *pair, X).mean(axis=0)
        precisions = np.linalg.inv(case.oracle.matrices(other[1]))
        traces = np.trace(precisions, axis1=1, axis2=2)
        expected = oracles.nll(case.oracle, *other, X) + 0.5 * noise * masses @ traces
        got = algebra.step_loss(noisy(case, pair, noise), noisy(case, other, noise), X)
        assert got == pytest.approx(expected, rel=1e-11)
        # The same as the mean over noise of what each component says of blurred rows.
        if case.name == "diag":
            blurred = X[:, None] + np.sqrt(noise) * rng.normal(size=(len(X), 4000, X.shape[1]))
            gamma = oracles.posteriors(case.oracle, *pair, X)
            flat = case.oracle.log_density(other[1], blurred.reshape(-1, X.shape[1]))
            mean = flat.reshape(len(X), 4000, -1).mean(axis=1)
            plain = case.oracle.log_density(other[1], X)
            sampled = (gamma * (plain - mean)).sum(axis=1).mean()
            assert sampled == pytest.approx(0.5 * noise * masses @ traces, rel=0.05)


@noises
def test_the_bound_lies_above_the_loss_and_touches_it(noise):
    for name, model, others, data in problems(noise):
        touching = algebra.upper_bound(model, model, data)
        assert touching == pytest.approx(algebra.step_loss(model, model, data), rel=1e-12), name
        for other in others:
            bound = algebra.upper_bound(model, other, data)
            loss = algebra.step_loss(model, other, data)
            assert bound > loss, name
            # It says more than the bound on the likelihood alone, which noise can break.
            assert loss > -other.expect(data).log_likelihood, name


@noises
@pytest.mark.parametrize("eta", [0.05, 1.0, 50.0, np.inf])
def test_no_step_raises_its_loss(noise, eta):
    for name, model, _, data in problems(noise):
        for _ in range(4):
            if np.isinf(eta):
                after = algebra.batch(model, data)
            else:
                after, _ = algebra.online(model, data, eta)
            before = algebra.step_loss(model, model, data)
            assert algebra.step_loss(model, after, data) <= before + 1e-11 * abs(before), name
            model = after


def test_the_likelihood_itself_may_fall():
    case = next(case for case in GAUSSIAN if case.name == "diag")
    pair, X = case.problem(6)
    fitted = case.model(pair)
    for _ in range(50):
        fitted = algebra.batch(fitted, X)
    model = noisy(case, pair_of(fitted), 1.0)
    after = algebra.batch(model, X)
    assert after.expect(X).log_likelihood < model.expect(X).log_likelihood


@noises
def test_a_shared_covariance_has_one_loss_for_all_steps(noise):
    """The masses sum to one: ``NLL + ½ reg_covar tr Σ⁻¹`` falls over a whole run."""
    case = next(case for case in GAUSSIAN if case.name == "tied")
    pair, X = case.problem(7)
    model = noisy(case, pair, noise)
    losses = []
    for _ in range(20):
        model = algebra.batch(model, X)
        cost = 0.5 * noise * np.trace(np.linalg.inv(model.parameters["covariances"]))
        losses.append(oracles.nll(case.oracle, *pair_of(model), X) + cost)
    assert (np.diff(losses) <= 1e-11).all()
    assert losses[-1] < losses[0]
