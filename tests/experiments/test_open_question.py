"""The alternate inertia: its objective and steps, against the algebra."""

import numpy as np
import pytest

from fastem import algebra
from fastem.experiments import open_question
from fastem.families import Gaussian
from fastem.mixture.model import MixtureModel

from oracles import families as oracles


def model_of(vector):
    log_weights, means, log_variances = open_question._unpacked(vector)
    parameters = {"means": means[:, None], "covariances": np.exp(log_variances)[:, None]}
    return MixtureModel(Gaussian("diag", reg_covar=0.0), np.exp(log_weights), parameters)


def random_vectors(seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(2, 5)), rng.normal(size=6)


@pytest.mark.parametrize("eta", [0.1, 2.0])
def test_the_objective_is_the_bound_and_the_divergence(eta):
    (old, new), X = random_vectors(1)
    gamma = open_question._posteriors(old, X)
    rows = X[:, None]

    def by_algebra(vector):
        bound = algebra.upper_bound(model_of(old), model_of(vector), rows)
        return bound + algebra.divergence(model_of(vector), model_of(old)) / eta

    def value(vector):
        return open_question.objective(vector, old, gamma, X, eta)[0]

    assert value(new) - value(old) == pytest.approx(by_algebra(new) - by_algebra(old), rel=1e-10)
    slope = open_question.objective(new, old, gamma, X, eta)[1]
    np.testing.assert_allclose(slope, oracles.gradient(value, new), rtol=1e-6, atol=1e-7)


def test_the_step_of_the_paper_is_that_of_the_algebra():
    (old, _), X = random_vectors(2)
    new, taken = open_question._paper_step(old, X, 0.3)
    want, _ = algebra.online(model_of(old), X[:, None], 0.3)
    assert taken
    for name, array in model_of(new).parameters.items():
        np.testing.assert_allclose(array, want.parameters[name], rtol=1e-10)


def test_a_weight_that_vanishes_beside_the_other_one_stays_positive():
    old = np.array([30.0, -2.0, 2.0, 0.0, 0.0])
    for _ in range(40):
        old, _ = open_question._paper_step(old, np.array([2.1]), 0.5)
    assert old[0] == pytest.approx(30.0 + 40.0 * np.log(1.5), abs=0.01)
    assert np.isfinite(old).all()
    assert np.isfinite(open_question._loss(old, np.array([-2.0, 2.0])))


def test_a_step_goes_down_or_is_refused():
    (old, _), X = random_vectors(3)
    new, taken = open_question.alternate_step(old, X, 0.1)
    gamma = open_question._posteriors(old, X)
    before, after = (open_question.objective(v, old, gamma, X, 0.1)[0] for v in (old, new))
    assert taken and after < before
    at_the_mean = np.array([0.0, 0.0, 3.0, 0.0, 0.0])
    kept, taken = open_question.alternate_step(at_the_mean, np.array([0.1]), 50.0)
    assert not taken and kept is at_the_mean


def test_what_is_claimed_of_one_step_holds():
    assert all(claim.held for claim in open_question._claims_of_one_step())
