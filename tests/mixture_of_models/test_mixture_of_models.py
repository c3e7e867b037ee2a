"""Mixtures of models: clusters that are there are found, and answers agree with brute force."""

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning

import fastem
from fastem import algebra
from fastem.families import Poisson
from fastem.mixture.model import MixtureModel
from fastem.mixture_of_models.model import ModelMixture
from fastem.statistics import Statistics


def agreement(labels, truth):
    """The share of labels that agree with the truth, for the best names of the clusters."""
    labels, truth = np.asarray(labels), np.asarray(truth)
    names = range(max(labels.max(), truth.max()) + 1)
    return max((np.array(order)[labels] == truth).mean() for order in itertools.permutations(names))


def chains(rng, stay, n=25, n_steps=60):
    states = np.cumsum(rng.random((n, n_steps)) > stay, axis=1) % 2
    return list((3.0 * states + rng.normal(size=states.shape))[:, :, None])


def autoregressions(rng, a, n=25, n_steps=60):
    x = np.zeros((n, n_steps))
    for t in range(1, n_steps):
        x[:, t] = a * x[:, t - 1] + rng.normal(size=n)
    return list((x + 0.3 * rng.normal(size=x.shape))[:, :, None])


def documents(rng, alpha, n=40):
    return np.array([rng.multinomial(40, topic) for topic in rng.dirichlet(alpha, size=n)])


def test_sequences_by_hidden_markov_models():
    rng = np.random.default_rng(1)
    X = chains(rng, 0.95) + chains(rng, 0.5)
    model = fastem.MixtureOfModels(fastem.GaussianHMM(2, random_state=0), 2, random_state=0).fit(X)
    assert agreement(model.predict(X), np.repeat([0, 1], 25)) == 1.0
    stays = sorted(member.transmat_.diagonal().mean() for member in model.members_)
    np.testing.assert_allclose(stays, [0.5, 0.95], atol=0.07)


def test_sequences_by_kalman_filters():
    rng = np.random.default_rng(2)
    X = autoregressions(rng, 0.95) + autoregressions(rng, -0.6)
    member = fastem.KalmanFilter(n_dim_state=1, random_state=0)
    model = fastem.MixtureOfModels(member, 2, random_state=0, max_iter=50, tol=1e-2).fit(X)
    assert agreement(model.predict(X), np.repeat([0, 1], 25)) >= 0.98


def test_documents_by_compound_dirichlets():
    rng = np.random.default_rng(3)
    X = np.vstack([documents(rng, [8, 1, 1]), documents(rng, [1, 8, 1]), documents(rng, [1, 1, 8])])
    model = fastem.MixtureOfModels(fastem.CompoundDirichlet(), 3, random_state=0).fit(X)
    assert agreement(model.predict(X), np.repeat([0, 1, 2], 40)) >= 0.95
    assert sorted(int(np.argmax(member.alpha_)) for member in model.members_) == [0, 1, 2]


def test_online_learning_finds_the_clusters_too():
    rng = np.random.default_rng(4)
    X = [x for pair in zip(chains(rng, 0.95, 60), chains(rng, 0.5, 60), strict=True) for x in pair]
    member = fastem.GaussianHMM(2, random_state=0)
    model = fastem.MixtureOfModels(member, 2, random_state=0, batch_size=10)
    model.partial_fit(X)
    assert model.n_observations_ == 120 and model.n_steps_ == 12
    assert agreement(model.predict(X), np.tile([0, 1], 60)) >= 0.95


def test_answers_are_those_of_the_members():
    rng = np.random.default_rng(5)
    X = chains(rng, 0.9, 8) + chains(rng, 0.4, 8)
    model = fastem.MixtureOfModels(
        fastem.GaussianHMM(2, random_state=0), 2, random_state=1, max_iter=5, tol=0
    )
    with pytest.warns(ConvergenceWarning):
        model.fit(X)
    joint = np.log(model.weights_) + np.array(
        [[member.score(x) for member in model.members_] for x in X]
    )
    np.testing.assert_allclose(model.score_samples(X), logsumexp(joint, axis=1), rtol=1e-12)
    expected = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-12)
    weights = rng.uniform(size=len(X))
    assert model.score(X, sample_weight=weights) == pytest.approx(
        np.average(logsumexp(joint, axis=1), weights=weights)
    )


def test_a_mixture_of_one_model_is_that_model():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(200, 2)) + np.repeat([[0.0, 0.0], [5.0, 5.0]], 100, axis=0)
    one = fastem.MixtureOfModels(
        fastem.GaussianMixture(2, random_state=0), 1, random_state=0, tol=1e-8
    )
    plain = fastem.GaussianMixture(2, random_state=0, tol=1e-8)
    assert one.fit(X).score(X) == pytest.approx(plain.fit(X).score(X), abs=1e-6)


def test_settings_that_cannot_be():
    X = [[0.0], [1.0], [5.0]]
    with pytest.raises(ValueError, match="The 'estimator' parameter of MixtureOfModels must be"):
        fastem.MixtureOfModels("gaussian", 2).fit(X)
    with pytest.raises(ValueError, match="n_components is 4, and there are only 3 observations"):
        fastem.MixtureOfModels(fastem.GaussianMixture(1), 4).fit(X)
    with pytest.raises(TypeError, match="unexpected keyword argument 'lengths'"):
        fastem.MixtureOfModels(fastem.GaussianMixture(1), 2).fit(X, lengths=[1, 2])


def poissons(weights, rates):
    """A mixture of models, each of which is one Poisson distribution."""
    members = [MixtureModel(Poisson().with_zeros(), [1.0], {"rates": [[rate]]}) for rate in rates]
    return ModelMixture(weights, members)


def test_an_observation_that_no_member_allows_has_no_posterior():
    model = poissons([0.5, 0.5], [0.0, 0.0])
    X = np.array([[0.0], [3.0]])
    assert model.log_likelihoods(X).tolist() == [0.0, -np.inf]
    np.testing.assert_array_equal(model.responsibilities(X), [[0.5, 0.5], [0.0, 0.0]])


def test_a_member_of_no_weight_gains_nothing_from_any_partner():
    one, other = poissons([1.0, 0.0], [0.0, 2.0]), poissons([0.5, 0.5], [0.0, 1.0])
    gains = one.matching_gains(other).pairs
    np.testing.assert_allclose(gains, [[np.log(0.5), np.log(0.5) - 1.0], [0.0, 0.0]])


def test_statistics_of_a_mass_that_is_not_finite_are_refused():
    model = poissons([0.5, 0.5], [1.0, 2.0])
    own = model.own()
    model.check_statistics(own)
    wrong = Statistics(**{**own, "mass": [0.5, np.nan]})
    with pytest.raises(ValueError, match="The statistics 'mass' contains NaN or infinity"):
        model.check_statistics(wrong)


@pytest.mark.parametrize("distance", [38.0, 38.3, 38.6])
def test_responsibilities_that_are_all_but_nothing_leave_statistics_finite(distance):
    def chain(mean):
        one = fastem.GaussianHMM(1, init_params="")
        one.startprob_, one.transmat_, one.n_features = np.ones(1), np.ones((1, 1)), 1
        one.means_, one.covars_ = np.array([[mean]]), np.ones((1, 1))
        return one._model()

    model = ModelMixture([0.5, 0.5], [chain(0.0), chain(distance)])
    table = fastem.GaussianHMM(1)._check_data([np.zeros((1, 1))], reset=True)
    assert 0.0 < model.responsibilities(table)[0, 1] < np.finfo(float).tiny
    statistics = model.expect(table).statistics
    model.check_statistics(statistics)
    new, _ = algebra.online(model, table, 0.01)
    for k in range(2):
        np.testing.assert_allclose(new.parameters[f"member{k}_means"], [[k * distance]])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_seed_makes_the_starts_of_members_too_reproducible():
    X = chains(np.random.default_rng(3), 0.9) + chains(np.random.default_rng(4), 0.5)
    one, other = (
        fastem.MixtureOfModels(fastem.GaussianHMM(2), 2, random_state=0, max_iter=3).fit(X)
        for _ in range(2)
    )
    for a, b in zip(one.members_, other.members_, strict=True):
        np.testing.assert_array_equal(a.means_, b.means_)
        assert a.random_state is None
