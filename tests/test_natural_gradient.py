"""The online step follows the natural gradient: numerical Fisher matrices and gradients."""

import numpy as np
import pytest

from fastem import Lengths, algebra
from fastem.data.sequences import Sequences
from fastem.dirichlet.model import CompoundDirichletModel

from cases import hmm as hmm_cases
from cases.families import ALL, assert_same_model, pair_of
from oracles import families as oracles


def assert_natural(loss, divergence, at, moved):
    """``dξ/dρ = -F⁻¹ ∇ loss`` at ρ = 0, in any coordinates ξ; ``moved`` is a function of ρ.

    The Fisher matrix F of the joint law is the curvature of its divergence.
    """
    fisher = oracles.hessian(divergence, at)
    natural = -np.linalg.solve(fisher, oracles.gradient(loss, at))
    small = 1e-4
    # The second difference takes away what is of the second order in ρ.
    slope = (4 * (moved(small) - at) - (moved(2 * small) - at)) / (2 * small)
    np.testing.assert_allclose(slope, natural, rtol=2e-4, atol=2e-4 * np.abs(natural).max())
    assert np.abs(natural).max() > 1e-3


FAMILIES = [
    case for case in ALL if case.name in ("full", "tied", "poisson", "gamma", "categorical")
]


@pytest.mark.parametrize("case", FAMILIES, ids=str)
def test_of_mixtures(case):
    pair, X = case.problem(1, n_components=2)
    model = case.model(pair)
    at, back = oracles.coordinates(case.oracle.domains, pair)
    assert_natural(
        lambda vector: oracles.nll(case.oracle, *back(vector), X),
        lambda vector: oracles.divergence(case.oracle, pair, back(vector)),
        at,
        lambda rho: oracles.coordinates(
            case.oracle.domains, pair_of(algebra.natural_gradient(model, X, rho))
        )[0],
    )


@pytest.mark.parametrize("absorbing", [False, True])
def test_of_hidden_markov_models(absorbing):
    case = hmm_cases.BY_NAME["poisson"]
    lengths = [2, 5, 3, 4]
    hidden, X, lengths = case.problem(2, lengths, n_states=2 + absorbing, absorbing=absorbing)
    model = case.model(hidden)
    at, back = hmm_cases.coordinates(case, hidden)
    data = Sequences(X, lengths)
    assert absorbing or data.horizon == Lengths(lengths)
    assert_natural(
        lambda vector: hmm_cases.nll(case, back(vector), X, lengths),
        lambda vector: hmm_cases.divergence(case, hidden, back(vector), lengths),
        at,
        lambda rho: hmm_cases.coordinates(
            case, hmm_cases.hidden_of(algebra.natural_gradient(model, data, rho))
        )[0],
    )


def test_of_compound_dirichlets():
    rng = np.random.default_rng(3)
    X = rng.poisson(3.0, (20, 3))
    model = CompoundDirichletModel([0.7, 1.5, 2.0])
    assert_natural(
        lambda vector: -CompoundDirichletModel(np.exp(vector)).log_likelihoods(X).mean(),
        lambda vector: algebra.divergence(model, CompoundDirichletModel(np.exp(vector))),
        np.log(model.alpha),
        lambda rho: np.log(algebra.natural_gradient(model, X, rho).alpha),
    )


def test_it_is_the_online_step_and_in_the_end_batch_em():
    pair, X = ALL[0].problem(4)
    model = ALL[0].model(pair)
    step = algebra.natural_gradient(model, X, 0.2)
    assert_same_model(step, algebra.online(model, X, 0.25)[0], rtol=1e-12)
    assert_same_model(algebra.natural_gradient(model, X, 1.0), algebra.batch(model, X), rtol=1e-12)
    for rho in (0.0, -0.1, 1.1, np.nan):
        with pytest.raises(ValueError, match="rho must be"):
            algebra.natural_gradient(model, X, rho)
