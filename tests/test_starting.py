"""Online learning from the beginning: starts that are refined and made again, and what is kept."""

import pickle

import numpy as np
import pytest
from conformance import same
from sklearn.datasets import load_digits

import fastem
from fastem.learning_rate import LEAST_MEMORY
from fastem.waiting import KEPT


def rows(n, n_columns=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, n_columns)) + 4.0 * rng.integers(2, size=(n, 1))


def sequences(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 5, 2)).cumsum(axis=1)


CASES = {
    "mixture": (lambda **s: fastem.GaussianMixture(2, random_state=0, **s), rows),
    "diag": (
        lambda **s: fastem.GaussianMixture(2, covariance_type="diag", random_state=0, **s),
        rows,
    ),
    "hmm": (lambda **s: fastem.GaussianHMM(2, random_state=0, **s), sequences),
    "kalman": (lambda **s: fastem.KalmanFilter(n_dim_state=1, random_state=0, **s), sequences),
}
every = pytest.mark.parametrize("name", CASES)


def call(estimator, X):
    if isinstance(estimator, fastem.GaussianHMM):
        return estimator.partial_fit(X.reshape(-1, X.shape[2]), [X.shape[1]] * len(X))
    return estimator.partial_fit(X)


def parameters(estimator):
    return estimator._model().parameters


@every
def test_a_start_that_is_made_again_is_that_of_all_observations_in_one_call(name):
    make, data = CASES[name]
    X, estimator = data(800), make()
    starts, before = [], 0
    for last in range(4, 801, 4):
        call(estimator, X[last - 4 : last])
        if not hasattr(estimator, "n_observations_"):
            continue
        if KEPT in vars(estimator):
            n_needed = vars(estimator)[KEPT]["n_needed"]
            if before and n_needed > before:
                # It was just made: as if these had come in one call.
                starts.append(last)
                assert same(parameters(estimator), parameters(call(make(), X[:last])))
            before = n_needed
        assert estimator.n_observations_ == last
    assert starts
    assert KEPT not in vars(estimator)  # enough in the end


@every
def test_a_copy_and_a_file_go_on_from_a_start_to_the_bit(name, tmp_path):
    make, data = CASES[name]
    X, estimator = data(200), make()
    call(estimator, X[:12])
    assert KEPT in vars(estimator)
    fastem.save(estimator, tmp_path / "model")
    others = [pickle.loads(pickle.dumps(estimator)), fastem.load(tmp_path / "model")]
    for first in range(12, 200, 9):
        for one in (estimator, *others):
            call(one, X[first : first + 9])
    for other in others:
        assert same(parameters(other), parameters(estimator))
        assert other.n_observations_ == 200


@every
def test_a_rate_of_ones_own_never_starts_again(name):
    make, data = CASES[name]
    estimator = call(make(learning_rate=0.1), data(12))
    assert KEPT not in vars(estimator)


def test_a_start_that_is_given_is_neither_refined_nor_made_again():
    X = rows(2000)
    means = np.array([[0.0, 0, 0], [4.0, 4, 4]])
    model = fastem.GaussianMixture(2, means_init=means, random_state=0).partial_fit(X[:20])
    assert KEPT not in vars(model)
    chain = fastem.GaussianHMM(2, init_params="stc", random_state=0)
    chain.means_ = means
    assert KEPT not in vars(chain.partial_fit(X[:20]))
    system = fastem.KalmanFilter(transition_matrices=np.eye(1), n_dim_obs=2, em_vars="all")
    assert KEPT not in vars(system.partial_fit(sequences(4)))


def test_fit_and_streams_forget_what_was_kept():
    X = rows(500)
    model = fastem.GaussianMixture(2, random_state=0).partial_fit(X[:20])
    assert KEPT in vars(model)
    assert KEPT not in vars(pickle.loads(pickle.dumps(model)).fit(X))
    assert KEPT not in vars(model.partial_fit(iter([X])))


def test_a_call_that_fails_leaves_a_start_as_it_was():
    X = rows(100)
    model = fastem.GaussianMixture(2, random_state=0).partial_fit(X[:20])
    before = pickle.loads(pickle.dumps(vars(model)))
    for bad in (np.full((40, 3), np.nan), np.ones((40, 2))):
        with pytest.raises(ValueError, match=r"NaN|features"):
            model.partial_fit(bad)
    assert same(vars(model), before)


def test_the_first_memory_is_ten_rows_for_each_parameter_of_a_column():
    for kind, n_parameters in (("full", 3 * (54 + 54 * 55 / 2)), ("diag", 3 * 108),
                               ("tied", 3 * 54 + 54 * 55 / 2)):  # fmt: skip
        X = np.random.default_rng(0).normal(size=(400, 54))
        model = fastem.GaussianMixture(3, covariance_type=kind, max_iter=1).fit(X)._model()
        assert model.first_memory == pytest.approx(10 * n_parameters / 54, rel=0.01, abs=1.0)
    assert fastem.GaussianMixture(1).fit(rows(50, 1))._model().first_memory >= LEAST_MEMORY


@pytest.mark.parametrize("kind, least", [("diag", 0.85), ("spherical", 0.85), ("full", 0.6)])
@pytest.mark.parametrize("size", [100, 1000])
def test_one_pass_keeps_most_of_the_gain_of_batch_learning(kind, least, size):
    """With step sizes that suit fewer parameters, full covariances lost all of it and more."""
    X = load_digits().data / 4.0
    X = X + np.random.default_rng(0).normal(0.0, 0.05, X.shape)
    X = X[np.random.default_rng(1).permutation(len(X))]
    held_out, X = X[:360], X[360:]

    def make(n=10, **settings):
        return fastem.GaussianMixture(
            n, covariance_type=kind, reg_covar=1e-3, random_state=0, **settings
        )

    one, batch = make(1).fit(X), make(max_iter=50, tol=0.0).fit(X)
    online = make()
    for first in range(0, len(X), size):
        online.partial_fit(X[first : first + size])
    least_score = one.score(held_out)
    gain = batch.score(held_out) - least_score
    assert online.score(held_out) - least_score > least * gain


def test_observations_of_hardly_any_weight_do_not_make_a_start_again():
    X = rows(60)
    model = fastem.GaussianMixture(2, random_state=0).partial_fit(X[:20])
    before = parameters(model)
    model.partial_fit(X[20:], sample_weight=np.full(40, 1e-9))
    for name, values in parameters(model).items():
        np.testing.assert_allclose(values, before[name], rtol=1e-6)
