"""What hidden Markov estimators are composed of: a chain, and emissions."""

import dataclasses
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import fastem
from fastem.data.sequences import Sequences
from fastem.exceptions import CovarianceWarning
from fastem.families import Exponential
from fastem.hmm import priors
from fastem.hmm.chain import Chain
from fastem.hmm.covariances import as_matrices, of_kind
from fastem.hmm.emissions import (
    CategoricalEmissions,
    FamilyEmissions,
    GaussianEmissions,
    GaussianMixtureEmissions,
    MultinomialEmissions,
    PoissonEmissions,
)
from fastem.hmm.model import HMMModel
from fastem.statistics import Moments, SharedMoments

KINDS = ("full", "tied", "diag", "spherical")
PRIORS = (0.5, 2.0, 0.3, 1.7)
COUNTS = np.random.default_rng(0).multinomial(9, [0.2, 0.3, 0.5], size=40)
SYMBOLS = COUNTS[:, :1] % 4

EMISSIONS = {
    **{f"gaussian {kind}": (GaussianEmissions(3, kind, 1e-3, *PRIORS), 3) for kind in KINDS},
    **{
        f"mixture {kind}": (GaussianMixtureEmissions(3, kind, 1e-3, *PRIORS, 2, 1.5), 3)
        for kind in KINDS
    },
    "poisson": (PoissonEmissions(3, 1.5, 0.5), 3),
    "categorical": (CategoricalEmissions(3, 1.5, n_given=4), 1),
    "multinomial": (MultinomialEmissions(3), 3),
    "family": (FamilyEmissions(3, Exponential()), 3),
}


def initialized(name):
    emissions, n_columns = EMISSIONS[name]
    data = Sequences(SYMBOLS if n_columns == 1 else COUNTS + 0.0 + (name == "family"), [15, 25])
    wanted = [shown.name for shown in emissions.shown]
    emissions = emissions.fitted_to(data, wanted)
    return emissions, emissions.initialize(data, wanted, n_columns, 0, ()), data


def model_of(name):
    emissions, values, data = initialized(name)
    chain = Chain(3)
    start = chain.initialize(("startprob", "transmat"), np.random.RandomState(0), drawn=True)
    model = HMMModel(emissions.family, parameters=emissions.to_parameters(values), **start)
    return emissions, model, data


@pytest.mark.parametrize("name", EMISSIONS)
def test_emissions_are_values(name):
    with pytest.raises(dataclasses.FrozenInstanceError):
        EMISSIONS[name][0].n_states = 4


@pytest.mark.parametrize("name", EMISSIONS)
def test_initial_values_have_the_shapes_and_go_to_the_family_and_back(name):
    emissions, values, data = initialized(name)
    assert {name: array.shape for name, array in values.items()} == emissions.shapes(
        data.X.shape[1]
    )
    assert emissions.n_columns(values) in (None, data.X.shape[1])
    packed = emissions.family.pack(emissions.to_parameters(values))
    again = emissions.to_values(emissions.family.unpack(packed))
    assert again.keys() == values.keys()
    for parameter, array in again.items():
        assert_array_equal(array, values[parameter])


@pytest.mark.parametrize("name", EMISSIONS)
def test_free_parameters_are_those_of_the_family(name):
    emissions, model, _ = model_of(name)
    counts = emissions.n_free(model)
    assert counts.keys() == {shown.letter for shown in emissions.shown}
    assert sum(counts.values()) == model.family.n_parameters(model.family.unpack(model.packed))


@pytest.mark.parametrize("name", EMISSIONS)
def test_a_step_and_draws_have_the_shapes_of_the_model_and_data(name):
    emissions, model, data = model_of(name)
    expectation = model.expect(data)
    new = emissions.maximize(model, expectation.statistics, expectation.weight)
    for parameter, array in new.items():
        assert array.shape == model.parameters[parameter].shape
    rows = emissions.draw(model, iter([0, 1, 2, 1]), np.random.RandomState(0))
    assert rows.shape == (4, data.X.shape[1])
    emissions.check(Sequences(rows + 0.0, [4]), 0, reset=False)


def test_the_number_of_symbols_is_found_from_the_data_unless_given():
    data = Sequences(SYMBOLS, [40])
    open_ended = CategoricalEmissions(2, 1.0)
    assert open_ended.n_symbols is None
    assert open_ended.fitted_to(data, ["emissionprob"]).n_symbols == SYMBOLS.max() + 1
    assert open_ended.fitted_to(data, []) is open_ended
    assert CategoricalEmissions(2, 1.0, 9).fitted_to(data, ["emissionprob"]).n_symbols == 9
    found = CategoricalEmissions(2, 1.0, n_found=2)
    found.check(data, 0, reset=True)
    with pytest.raises(ValueError, match="whole numbers from 0 to 1"):
        found.check(data, 0, reset=False)


def test_the_number_of_trials_is_found_from_the_data_unless_given():
    data = Sequences(COUNTS, [40])
    assert MultinomialEmissions(2).fitted_to(data, []).found == {"n_trials_": 9}
    assert MultinomialEmissions(2, [4, 5]).fitted_to(data, []).found == {"n_trials_": None}


@pytest.mark.parametrize("kind", KINDS)
def test_covariances_of_a_kind_are_those_of_their_matrices(kind):
    emissions = GaussianEmissions(3, kind, 1e-3, *PRIORS)
    covars = np.eye(2) if kind in ("full", "tied") else np.ones(1)
    covars = np.broadcast_to(covars, emissions.shapes(2)["covars"])
    assert_array_equal(of_kind(as_matrices(covars, kind, 3, 2), kind, 3), covars)


def test_an_absorbing_chain_starts_even_and_its_paths_end():
    chain = Chain(3, absorbing=(1,))
    values = chain.initialize(("startprob", "transmat"), np.random.RandomState(0), drawn=True)
    startprob, transmat = chain.checked(**values)
    assert_array_equal(startprob, np.full(3, 1 / 3))
    assert_array_equal(transmat[1], [0.0, 1.0, 0.0])
    scales = Exponential().start(np.ones((3, 1)))
    model = HMMModel(Exponential(), startprob, transmat, scales, absorbing=(1,))
    path = list(chain.path(model, 10_000, np.random.RandomState(0)))
    assert path[-1] == 1
    assert 1 not in path[:-1]
    assert next(chain.path(model, 1, np.random.RandomState(0), first=2)) == 2


# Variances that are nothing but rounding --------------------------------------------------------


def new_covariances(kind, n_mix, mean, variance):
    """After a step from statistics of one column with this variance."""
    if n_mix is None:
        emissions = GaussianEmissions(2, kind, 1e-3, 0.0, 0.0, 0.0, 0.0)
        maximize, shape = priors.gaussian_covariances, (2,)
    else:
        emissions = GaussianMixtureEmissions(2, kind, 1e-3, 0.0, 0.0, None, None, n_mix, 1.0)
        maximize, shape = priors.mixture_covariances, (2, n_mix)
    means, old = np.full((*shape, 1), mean), np.ones(emissions.shapes(1)["covars"])
    mass = np.full(means.size, 10.0)
    scatter = {"full": (means.size, 1, 1), "spherical": (means.size,)}.get(kind, (means.size, 1))
    moments_kind = Moments
    if kind == "tied" and n_mix is None:
        moments_kind, scatter = SharedMoments, (1, 1)
    elif kind == "tied":
        scatter = (means.size, 1, 1)
    scatter = np.full(scatter, 10.0 * variance * (2.0 if moments_kind is SharedMoments else 1.0))
    moments = moments_kind(mass, means.reshape(-1, 1), scatter)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        new = maximize(emissions, moments, means, {"means": means, "covariances": old})
    return new, any(issubclass(warning.category, CovarianceWarning) for warning in told)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_mix", [None, 2])
@pytest.mark.parametrize("mean", [0.0, 5.0, -1e8])
def test_a_variance_of_rounding_counts_as_none(kind, n_mix, mean):
    new, told = new_covariances(kind, n_mix, mean, max(1e-31 * mean**2, 1e-310))
    np.testing.assert_allclose(new, 1e-3, rtol=1e-9)
    assert told
    # All that is more is kept, however small.
    variance = max(1e-29 * mean**2, 1e-300)
    new, told = new_covariances(kind, n_mix, mean, variance)
    # What the priors of spherical members count for is more than nothing.
    np.testing.assert_allclose(new, variance, rtol=0.2)
    assert not told


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("away", "variance"), [(4e-16, 1e-3), (1e-10, 25e-20)])
def test_kernels_take_the_same_variances_for_rounding(kind, away, variance):
    """The covariances of members are about the means before the step."""
    for callback in (None, lambda report: False):
        # With a callback, no kernel takes the steps.
        model = fastem.GMMHMM(1, 2, covariance_type=kind, n_iter=1, init_params="st")
        model.set_params(callback=callback)
        model.means_, model.weights_ = np.full((1, 2, 1), 5.0 * (1.0 + away)), [[0.5, 0.5]]
        model.covars_ = np.ones({"spherical": (1, 2), "full": (1, 2, 1, 1)}.get(kind, (1, 2, 1)))
        if kind == "tied":
            model.covars_ = np.ones((1, 1, 1))
        model.fit(np.full((40, 1), 5.0), [8] * 5)
        np.testing.assert_allclose(model.covars_, variance, rtol=0.1)
