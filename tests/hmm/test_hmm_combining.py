"""Combining, averaging, aligning and comparing hidden Markov models."""

import numpy as np
import pytest

import fastem
from fastem import algebra
from fastem.families import Poisson
from fastem.hmm.model import HMMModel
from fastem.lengths import Lengths
from fastem.mixture.model import MixtureModel

from cases.families import assert_same_model
from cases.hmm import ALL, BY_NAME, divergence, hidden_of

every = pytest.mark.parametrize("case", ALL, ids=str)
both = pytest.mark.parametrize("absorbing", [False, True], ids=["fixed length", "absorbing"])
HORIZON = Lengths([3, 8, 8, 5])


def shuffled(model, rng):
    """The same model with its states in another order; which are absorbing may change."""
    order = rng.permutation(len(model.startprob))
    return model.reordered(order), order


# One model ------------------------------------------------------------------------------------


@every
@both
def test_combining_copies_is_the_model(case, absorbing):
    model = case.model(case.hidden(np.random.default_rng(1), absorbing=absorbing))
    for weights in (None, [0.2, 3.0, 1.0]):
        combined = fastem.combine([model] * 3, weights, horizon=HORIZON)
        assert isinstance(combined, HMMModel)
        assert_same_model(combined, model, rtol=1e-9, atol=1e-11)
        averaged = fastem.average([model] * 3, weights, horizon=HORIZON)
        assert_same_model(averaged, model, rtol=1e-12, atol=1e-13)
    assert fastem.divergence(model, model, horizon=HORIZON) == 0.0


@every
@both
def test_reordering_is_a_change_of_names(case, absorbing):
    rng = np.random.default_rng(2)
    hidden = case.hidden(rng, absorbing=absorbing)
    model, other = case.model(hidden), case.model(case.near(hidden, rng, 0.2))
    moved, order = shuffled(model, rng)
    np.testing.assert_array_equal(moved.absorbing, model.absorbing[order])
    np.testing.assert_array_equal(moved.transmat, model.transmat[order][:, order])
    X, lengths = case.draw(hidden, rng, [4] * 5)
    data = fastem.sequences.Sequences(X, lengths)
    np.testing.assert_allclose(moved.infer(data)[0], model.infer(data)[0], rtol=1e-12)
    gap = fastem.divergence(model, other, align=False, horizon=HORIZON)
    again = fastem.divergence(moved, other.reordered(order), align=False, horizon=HORIZON)
    assert again == pytest.approx(gap, rel=1e-11)
    assert gap == pytest.approx(divergence(case, hidden, hidden_of(other), [3, 8, 8, 5]), rel=1e-9)


# Several --------------------------------------------------------------------------------------


@both
def test_averages_are_those_of_the_parameters(absorbing):
    case = BY_NAME["full"]
    rng = np.random.default_rng(3)
    models = [case.model(case.hidden(rng, absorbing=absorbing)) for _ in range(3)]
    averaged = fastem.average(models, [1.0, 2.0, 5.0], align=False)
    for name, array in averaged.parameters.items():
        want = sum(w * m.parameters[name] for w, m in zip((1, 2, 5), models, strict=True)) / 8
        np.testing.assert_allclose(array, want, rtol=1e-13)
    np.testing.assert_array_equal(averaged.absorbing, models[0].absorbing)


@both
def test_combination_is_nearer_in_total_than_any_of_the_models(absorbing):
    case = BY_NAME["diag"]
    rng = np.random.default_rng(4)
    models = [case.model(case.hidden(rng, absorbing=absorbing)) for _ in range(3)]
    weights = np.array([0.5, 0.2, 0.3])

    def total(center):
        gaps = [algebra.divergence(model, center, HORIZON) for model in models]
        return weights @ gaps

    combined = fastem.combine(models, weights, align=False, horizon=HORIZON)
    others = [*models, fastem.average(models, weights, align=False)]
    assert all(total(combined) < total(other) for other in others)


def test_a_combination_by_simulation_tends_to_the_exact_one():
    case = BY_NAME["diag"]
    rng = np.random.default_rng(5)
    for absorbing in (False, True):
        models = [case.model(case.hidden(rng, absorbing=absorbing)) for _ in range(2)]
        exact = fastem.combine(models, horizon=HORIZON)
        errors = []
        for n_pseudo in (200, 3200):
            runs = [fastem.combine(models, horizon=HORIZON, n_pseudo=n_pseudo, random_state=s)
                    for s in range(20)]  # fmt: skip
            gaps = np.array([run.transmat - exact.transmat for run in runs])
            errors.append(np.sqrt((gaps**2).mean()))
        assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.5)


def test_longer_sequences_count_more_for_transitions():
    """The horizon is part of what is combined: after one step there is no transition."""
    case = BY_NAME["poisson"]
    rng = np.random.default_rng(6)
    models = [case.model(case.hidden(rng)) for _ in range(2)]
    one, many = (fastem.combine(models, align=False, horizon=n) for n in (1, 500))
    np.testing.assert_array_equal(one.transmat, models[0].transmat)
    np.testing.assert_allclose(one.startprob, many.startprob, rtol=1e-13)
    long_run = [np.linalg.matrix_power(m.transmat, 500)[0] for m in models]
    rows = sum(p[:, None] * m.transmat for p, m in zip(long_run, models, strict=True))
    want = rows / rows.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(many.transmat, want, atol=0.01)


# In any order ---------------------------------------------------------------------------------


@every
@both
def test_aligning_finds_a_relabeling(case, absorbing):
    rng = np.random.default_rng(7)
    model = case.model(case.hidden(rng, 4, absorbing))
    copies = [shuffled(model, rng)[0] for _ in range(4)]
    for aligned in algebra.align([model, *copies], horizon=HORIZON):
        assert_same_model(aligned, model, rtol=1e-9, atol=1e-11)
        np.testing.assert_array_equal(aligned.absorbing, model.absorbing)
    combined = fastem.combine([model, *copies], align=True, horizon=HORIZON)
    assert_same_model(combined, model, rtol=1e-8, atol=1e-10)
    averaged = fastem.average([model, *copies], align=True, horizon=HORIZON)
    assert_same_model(averaged, model, rtol=1e-8, atol=1e-10)
    for copy in copies:
        gap = fastem.divergence(model, copy, align=True, horizon=HORIZON)
        assert gap == pytest.approx(0.0, abs=1e-9)


@both
def test_aligning_never_makes_it_worse(absorbing):
    case = BY_NAME["diag"]
    for seed in range(6):
        rng = np.random.default_rng(seed)
        hidden = case.hidden(rng, 4, absorbing)
        models = [case.model(case.near(hidden, rng, 0.4)) for _ in range(3)]
        models = [models[0], *(shuffled(m, rng)[0] for m in models[1:])]
        if absorbing:
            # Without aligning, the same states must end sequences in all.
            models = [models[0], *(m.reordered(np.argsort(m.absorbing, kind="stable"))
                                   for m in models[1:])]  # fmt: skip

        def total(models):
            center = algebra.combine(models, None, HORIZON)
            return sum(algebra.divergence(model, center, HORIZON) for model in models)

        aligned = algebra.align(models, horizon=HORIZON)
        assert total(aligned) <= total(models) * (1 + 1e-12)
        assert_same_model(aligned[0], models[0], rtol=0, atol=0)


def test_models_that_know_their_horizon_need_not_be_told():
    case = BY_NAME["diag"]
    rng = np.random.default_rng(8)
    hidden = case.hidden(rng)
    one = case.model(hidden, horizon=HORIZON)
    other = case.model(case.near(hidden, rng, 0.2), horizon=HORIZON)
    told = fastem.combine([case.model(hidden_of(m)) for m in (one, other)], horizon=HORIZON)
    assert_same_model(fastem.combine([one, other], align=True), told, rtol=1e-12)
    with pytest.raises(ValueError, match="How long are the sequences"):
        fastem.divergence(case.model(hidden), other)


# What cannot be compared ----------------------------------------------------------------------


def test_models_of_different_kinds_are_refused():
    case = BY_NAME["diag"]
    rng = np.random.default_rng(9)
    model = case.model(case.hidden(rng), horizon=4)
    mixture = MixtureModel(case.family, np.full(3, 1 / 3), case.oracle.random(rng, 3))
    others = {
        "a hidden Markov model and a mixture": mixture,
        "different kinds: Gaussian": BY_NAME["spherical"].model(BY_NAME["spherical"].hidden(rng)),
        "different sizes: startprob": case.model(case.hidden(rng, 4)),
        "0 states are absorbing in one and 1": case.model(case.hidden(rng, absorbing=True)),
    }
    for words, other in others.items():
        with pytest.raises(ValueError, match=words):
            fastem.divergence(model, other)
        with pytest.raises(ValueError, match=words):
            fastem.combine([model, other])


def test_a_model_that_allows_less_is_infinitely_far():
    emissions = {"rates": np.array([[1.0], [5.0]])}
    open_, shut = (
        HMMModel(Poisson(), [0.5, 0.5], matrix, emissions, horizon=3)
        for matrix in ([[0.5, 0.5], [0.5, 0.5]], [[0.5, 0.5], [0.0, 1.0]])
    )
    assert fastem.divergence(open_, shut) == np.inf
    assert 0 < fastem.divergence(shut, open_) < np.inf


def test_models_that_absorb_in_different_states_are_aligned_first():
    case = BY_NAME["diag"]
    model = case.model(case.hidden(np.random.default_rng(9), absorbing=True))
    other = model.reordered(np.roll(np.arange(len(model.startprob)), 1))
    for merge in (fastem.combine, fastem.average):
        with pytest.raises(ValueError, match="align=True"):
            merge([model, other], align=False)
        assert_same_model(merge([model, other]), model, rtol=1e-9)
