"""Memory follows the size of the data, not a value in it."""

import tracemalloc

import numpy as np
import pytest

import fastem
from fastem import drawing
from fastem.dirichlet.model import CompoundDirichletModel
from fastem.families import DirichletMultinomial, Multinomial, Poisson
from fastem.hmm.model import HMMModel, long_usages
from fastem.lengths import Lengths


@pytest.fixture(autouse=True)
def modest_memory():
    """Fail where much is asked for, although memory that is not touched would be granted."""
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 500e6


# Symbols --------------------------------------------------------------------------------------


def test_a_huge_symbol_is_named():
    with pytest.raises(ValueError, match="largest symbol is 100000003.*n_features"):
        fastem.CategoricalHMM(4).fit([[100_000_003], [1], [2]])
    with pytest.raises(ValueError, match="largest symbol is 100000003"):
        fastem.CategoricalHMM(4).partial_fit([[100_000_003], [1], [2]])


def test_a_huge_symbol_in_a_refit_leaves_the_model():
    model = fastem.CategoricalHMM(2, random_state=0).fit(np.tile([[0], [1], [2]], (9, 1)))
    before = model.emissionprob_.copy()
    with pytest.raises(ValueError, match="largest symbol is 100000003"):
        model.fit([[100_000_003], [1], [2]])
    np.testing.assert_array_equal(model.emissionprob_, before)


def test_as_many_symbols_as_are_said_to_be_meant():
    model = fastem.CategoricalHMM(2, n_iter=1, random_state=0, n_features=200_000)
    assert model.fit(np.tile([[0], [150_000]], (9, 1))).emissionprob_.shape == (2, 200_000)


def test_a_loaded_categorical_model_can_be_refitted_with_more_symbols(tmp_path):
    few, more = np.tile([[0], [1], [2]], (9, 1)), np.tile([[0], [4], [2]], (9, 1))
    model = fastem.CategoricalHMM(2, random_state=0).fit(few)
    fastem.save(model, tmp_path / "model")
    loaded = fastem.load(tmp_path / "model")
    assert loaded.n_features == 3
    # What is not refitted keeps to the symbols that it knows.
    for one in (model, loaded):
        with pytest.raises(ValueError, match="from 0 to 2"):
            one.score(more)
    np.testing.assert_array_equal(loaded.fit(more).emissionprob_, model.fit(more).emissionprob_)
    assert loaded.n_features == 5


def test_a_loaded_categorical_model_keeps_symbols_that_were_given(tmp_path):
    model = fastem.CategoricalHMM(2, n_features=3, random_state=0)
    fastem.save(model.fit(np.tile([[0], [1]], (9, 1))), tmp_path / "model")
    loaded = fastem.load(tmp_path / "model")
    for one in (model, loaded):
        with pytest.raises(ValueError, match="from 0 to 2"):
            one.fit([[3], [0]])


# Counts ---------------------------------------------------------------------------------------


def test_documents_of_many_words_are_drawn():
    counts = 10**8 * np.array([[1, 2, 1], [3, 1, 1], [1, 1, 4], [2, 2, 1]])
    model = fastem.CompoundDirichlet(random_state=0).fit(counts)
    drawn = model.sample(300)
    assert (drawn.sum(axis=1) == round(model.mean_length_)).all()
    shares = drawn.mean(axis=0) / model.mean_length_
    np.testing.assert_allclose(shares, model.alpha_ / model.alpha_.sum(), atol=0.05)


@pytest.mark.parametrize("lengths", [1e19, 10**30, [5, 2**63]])
def test_more_words_than_can_be_drawn_are_refused(lengths):
    model = fastem.CompoundDirichlet().fit([[1, 2], [3, 1], [1, 1]])
    with pytest.raises(ValueError, match=r"2\*\*63 - 1.*lengths"):
        model.sample(2, lengths=lengths)


def test_both_ways_to_draw_documents_have_the_same_law(monkeypatch):
    # Also when they mix: short documents, and long ones, in any order.
    alpha = np.array([0.4, 2.0, 1.0])
    model = CompoundDirichletModel(alpha)
    lengths = np.tile([3, 40], 4000)
    word_by_word = model.draw(8000, np.random.default_rng(0), lengths).toarray()
    monkeypatch.setattr(drawing, "MOST_WORDS", 1000)
    at_once = model.draw(8000, np.random.default_rng(1), lengths).toarray()
    np.testing.assert_array_equal(at_once.sum(axis=1), lengths)
    total = alpha.sum()
    for length in (3, 40):
        expected = length * alpha / total
        variance = expected * (1 - alpha / total) * (length + total) / (1 + total)
        for drawn in (word_by_word, at_once):
            part = drawn[lengths == length]
            error = np.sqrt(variance / len(part))
            assert (np.abs(part.mean(axis=0) - expected) < 5 * error).all()
            np.testing.assert_allclose(part.var(axis=0), variance, rtol=0.15)


def test_rows_of_many_words_of_the_family_are_drawn():
    family = DirichletMultinomial(n_trials=10**8)
    alphas = np.array([[0.5, 2.0], [3.0, 1.0]])
    labels = np.repeat([0, 1], 2000)
    drawn = family.draw({"alphas": alphas}, labels, np.random.default_rng(0))
    assert (drawn.sum(axis=1) == 10**8).all()
    for k, alpha in enumerate(alphas):
        share = drawn[labels == k, 0] / 1e8
        mean, total = alpha[0] / alpha.sum(), alpha.sum()
        assert abs(share.mean() - mean) < 5 * np.sqrt(mean * (1 - mean) / (total + 1) / 2000)


def test_rows_of_the_family_in_parts_have_their_length(monkeypatch):
    monkeypatch.setattr(drawing, "MOST_WORDS", 100)
    family = DirichletMultinomial(n_trials=30)
    drawn = family.draw({"alphas": np.ones((2, 4))}, [0, 1] * 20, np.random.default_rng(0))
    assert (drawn.sum(axis=1) == 30).all()


def test_sampled_inertia_says_what_it_cannot_do():
    model = fastem.CompoundDirichlet(inertia="sampled", random_state=0)
    with pytest.raises(ValueError, match="3e.08 words.*inertia='exact'"):
        model.partial_fit([[10**8, 2 * 10**8], [1, 2]])
    assert not hasattr(model, "alpha_")
    model.set_params(inertia="exact").partial_fit([[10**8, 2 * 10**8], [10, 2]])


@pytest.mark.parametrize("trials", [2.0**61, 1e300])
def test_trials_beyond_what_can_be_drawn(trials):
    X = np.array([[0.5, 0.5], [0.25, 0.75], [0.5, 0.5]] * 4) * trials
    model = fastem.MultinomialHMM(2, random_state=0).fit(X)
    if trials < 2**63:
        assert (model.sample(3)[0].sum(axis=1) == trials).all()
        return
    with pytest.raises(ValueError, match=r"1e\+300 trials cannot be drawn.*2\*\*63 - 1"):
        model.sample(3)
    model.set_params(n_trials=7)
    assert (model.sample(3)[0].sum(axis=1) == 7).all()


def test_a_multinomial_family_refuses_trials_that_cannot_be_drawn():
    family = Multinomial(n_trials=10**30)
    with pytest.raises(ValueError, match=r"1e\+30 trials cannot be drawn"):
        family.draw({"probabilities": np.array([[0.5, 0.5]])}, [0], np.random.default_rng(0))


# Horizons -------------------------------------------------------------------------------------


def random_chain(rng, n_states):
    return rng.dirichlet(np.ones(n_states)), rng.dirichlet(np.ones(n_states), size=n_states)


@pytest.mark.parametrize("lengths", [1, 2, 7, 100, [1, 2, 9], [5, 64, 65, 1000]])
def test_usages_by_doubling_are_those_step_by_step(lengths):
    rng = np.random.default_rng(3)
    startprob, transmat = random_chain(rng, 4)
    lengths = Lengths(lengths, None if np.ndim(lengths) == 0 else rng.random(len(lengths)))
    emissions, transitions = np.zeros(4), np.zeros(4)
    for length, share in zip(lengths.lengths, lengths.shares, strict=True):
        delta = startprob
        for t in range(length):
            emissions += share * delta
            if t < length - 1:
                transitions += share * delta
            delta = delta @ transmat
    found = long_usages(startprob, transmat, lengths)
    np.testing.assert_allclose(found[0], emissions, rtol=1e-12)
    np.testing.assert_allclose(found[1], transitions, rtol=1e-12, atol=1e-15)


def test_a_huge_horizon_is_a_stationary_chain():
    rng = np.random.default_rng(0)
    startprob, transmat = random_chain(rng, 3)
    models = [
        HMMModel(Poisson(), startprob, transmat, {"rates": rates})
        for rates in ([[1.0], [4.0], [9.0]], [[2.0], [3.0], [8.0]])
    ]
    horizon = 10**15
    usages = models[0].usages(Lengths(horizon))[0]
    values, vectors = np.linalg.eig(transmat.T)
    stationary = np.real(vectors[:, np.argmax(np.real(values))])
    np.testing.assert_allclose(usages / horizon, stationary / stationary.sum(), rtol=1e-10)
    assert usages.sum() == pytest.approx(horizon, rel=1e-12)
    per_step = [fastem.algebra.divergence(*models, horizon=h) / h for h in (4 * 10**6, horizon)]
    assert per_step[0] == pytest.approx(per_step[1], rel=1e-5)


def test_a_table_of_a_huge_length_is_refused():
    with pytest.raises(ValueError, match="1000000000000 steps"):
        Lengths(10**12).survival()
