"""Lengths of sequences and documents: their distribution, its mixes, its way through a file."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fastem
from fastem import Lengths, checks
from fastem.dirichlet.model import CompoundDirichletModel


def test_equal_lengths_are_one_and_weights_become_shares():
    lengths = Lengths([7, 3, 7, 0], [1.0, 2.0, 4.0, 1.0])
    assert_array_equal(lengths.lengths, [0, 3, 7])
    assert_allclose(lengths.shares, [1 / 8, 2 / 8, 5 / 8], rtol=1e-15)
    assert_allclose(lengths.mean, (0 + 2 * 3 + 5 * 7) / 8, rtol=1e-15)
    assert Lengths(4) == Lengths([4, 4]) != Lengths(5)


@pytest.mark.parametrize("values", [[2, 5, 5, 9], [0, 1, 4], [0]])
def test_survival_counts_those_that_reach_a_step(values):
    want = [np.mean([value >= t for value in values]) for t in range(1, max(values) + 1)]
    assert_allclose(Lengths(values).survival(), want, rtol=1e-14)


def test_draws_have_the_shares():
    lengths = Lengths([0, 2, 6], [0.2, 0.5, 0.3])
    drawn = lengths.draw(40_000, np.random.default_rng(0))
    counted = np.array([(drawn == value).mean() for value in lengths.lengths])
    error = np.sqrt(lengths.shares * (1 - lengths.shares) / len(drawn))
    assert (np.abs(counted - lengths.shares) < 4.5 * error).all()


def test_a_mix_is_that_of_all_data():
    parts = [[3, 3, 8], [8, 1], [4, 4, 4, 3, 9]]
    n = sum(len(part) for part in parts)
    one, two, three = (len(part) / n * Lengths(part) for part in parts)
    whole = Lengths(np.concatenate(parts))
    for mix in (one + two + three, one + (two + three)):
        assert_array_equal(mix.lengths, whole.lengths)
        assert_allclose(mix.shares, whole.shares, rtol=1e-14)
        assert_allclose(mix.weight, 1.0, rtol=1e-14)
    # A part that counts for nothing changes no share.
    mix = 0.0 * Lengths(2) + 1.0 * whole
    assert_allclose(mix.shares, [1 / n, 0.0, *whole.shares[1:]], rtol=1e-15)


def estimators():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2))
    return {
        "hmm": (fastem.GaussianHMM(2, n_iter=3, random_state=0), X),
        "kalman": (fastem.KalmanFilter(n_dim_state=1, max_iter=3, tol=0.0), X),
    }


@pytest.mark.parametrize("name", ["hmm", "kalman"])
def test_estimators_hold_them_and_files_keep_them_to_the_bit(name, tmp_path):
    model, X = estimators()[name]
    model.fit(X, lengths=[10, 20, 30], sample_weight=[0.1, 0.3, 0.7])
    model.partial_fit(X[:7], lengths=[3, 4], sample_weight=[0.3, 0.1])
    assert isinstance(model.lengths_, Lengths)
    fastem.save(model, tmp_path / "model")
    for copy in (fastem.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        for part, array in model.lengths_.to_arrays().items():
            assert copy.lengths_.to_arrays()[part].tobytes() == array.tobytes()
        assert fastem.divergence(model, copy) == pytest.approx(0.0, abs=1e-12)


def test_documents_have_lengths_too():
    documents = np.array([[1, 2, 0], [0, 0, 0], [3, 0, 0], [4, 1, 1]])
    horizon = CompoundDirichletModel([1.0, 1.0, 1.0]).expect(documents).horizon
    assert horizon == Lengths(documents.sum(axis=1))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([],), "whole number"),
        (([[1, 2]],), "whole number"),
        (([2.5],), "whole number"),
        (([-1, 2],), "0 or more"),
        ((["a"],), "whole number"),
        (([np.nan],), "whole number"),
        (([1, 2], [1.0]), "each length has one weight"),
        (([1, 2], [1.0, -1.0]), "not negative"),
        (([1, 2], [1.0, np.nan]), "finite"),
        (([1, 2], [0.0, 0.0]), "sum to zero"),
    ],
)
def test_what_is_no_length_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        Lengths(*arguments)


@pytest.mark.parametrize("name", ["hmm", "kalman"])
@pytest.mark.parametrize("horizon", [0, Lengths([0, 3])])
def test_sequences_have_a_step_or_more(name, horizon):
    model, X = estimators()[name]
    model.fit(X)
    with pytest.raises(ValueError, match="1 step or more"):
        fastem.divergence(model, model, horizon=horizon)


def test_probabilities_sum_to_one_as_closely_as_numpy_has_it():
    edges = [1.0 - 1.001e-5, 1.0 + 1.001e-5]
    sums = [np.nextafter(edge, to) for edge in edges for to in (0.0, 1.0, 2.0)]
    for total in (*sums, 1.0, 0.9999, 1.00002, 0.0, np.inf):
        refused = False
        try:
            checks.check_probabilities("p", np.array([total]))
        except ValueError:
            refused = True
        assert refused != np.isclose(total, 1.0), total
