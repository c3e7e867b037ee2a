"""Online learning from the beginning: starts that are refined and made again, and what is kept."""

import copy
import pickle
import threading
import warnings

import numpy as np
import pandas as pd
import pytest
from conformance import same
from scipy import sparse
from sklearn.datasets import load_digits

import fastem
from fastem import algebra
from fastem.data.rows import Table
from fastem.learning_rate import LEAST_MEMORY, Clock, schedule, step_size
from fastem.stopping import StoppingRule
from fastem.waiting import KEPT, joined_again


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


def steps(model, table, n):
    return algebra.fit(model, table, StoppingRule(n)).model


@every
def test_a_start_that_is_made_again_is_that_of_one_call_unless_the_model_so_far_is_better(name):
    make, data = CASES[name]
    X, estimator = data(2600), make()
    starts, before = [], 0
    for last in range(4, 2601, 4):
        so_far = copy.deepcopy(estimator)
        call(estimator, X[last - 4 : last])
        if not hasattr(estimator, "n_observations_"):
            continue
        if KEPT in vars(estimator):
            n_needed = vars(estimator)[KEPT]["n_needed"]
            if before and n_needed > before:
                # It was just made: as if these had come in one call, or from the model so far.
                table = joined_again(estimator, vars(estimator)[KEPT])
                at_once = call(make(), X[:last])._model()
                starts.append(same(parameters(estimator), at_once.parameters))
                if not starts[-1]:
                    refined = steps(steps(so_far._model(), table, 20), table, 30)
                    progress = algebra.Progress(refined, None, Clock())
                    expected = algebra.learn(
                        progress, [table], "auto", largest_batch=1000 if len(table) > 1000 else None
                    ).model
                    assert same(parameters(estimator), expected.parameters)
                    fresh = make()
                    fresh.n_features_in_ = X.shape[-1]
                    first = fresh._initial_model_online(table)
                    scores = [steps(model, table, 20).expect(table).log_likelihood
                              for model in (first, so_far._model())]  # fmt: skip
                    assert scores[1] > scores[0] - 1e-9 * abs(scores[0])
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
def test_observations_that_come_one_by_one_are_kept_in_few_parts_and_in_order(name):
    make, data = CASES[name]
    X, estimator = data(150), call(make(), data(10, seed=1))
    most = 0
    for number, x in enumerate(X):
        call(estimator, x[None])
        kept = vars(estimator)[KEPT]
        most = max(most, len(kept.get("later", {})))
        whole = joined_again(estimator, kept).X
        expected = np.concatenate([data(10, seed=1), X[: number + 1]])
        assert np.array_equal(whole, expected.reshape(-1, X.shape[-1]))
    assert most <= 8


def test_parts_are_kept_with_weights_lengths_and_flags():
    chain = fastem.GaussianHMM(2, random_state=0, absorbing=[1])
    X, lengths = rows(400, 2), np.full(100, 4)
    weights, flags = np.linspace(0.5, 2.0, 100), np.arange(100) % 3 == 0
    chain.partial_fit(X[:40], lengths[:10], weights[:10], flags[:10])
    for first in range(10, 100, 5):
        at, steps = slice(first, first + 5), slice(4 * first, 4 * first + 20)
        # What is not given is one or False.
        given = {} if first == 50 else {"sample_weight": weights[at], "cut_off": flags[at]}
        if first == 50:
            weights[at], flags[at] = 1.0, False
        chain.partial_fit(X[steps], lengths[at], **given)
    whole = joined_again(chain, vars(chain)[KEPT])
    assert np.array_equal(whole.X, X)
    assert np.array_equal(whole.lengths, lengths)
    assert np.array_equal(whole.sample_weight, weights)
    assert np.array_equal(whole.cut_off, flags)


def test_what_is_kept_is_learned_from_as_a_whole_when_it_has_grown_by_a_tenth():
    X = rows(500)
    model = fastem.GaussianMixture(2, random_state=0).partial_fit(X[:400])
    grid = vars(model)[KEPT]["n_needed"]
    assert grid > 460
    model.partial_fit(X[400:439])
    online = pickle.loads(pickle.dumps(model))
    del vars(online)[KEPT]
    model.partial_fit(X[439:440])
    # Two steps after the online one, with the step size of as many observations.
    expected = online.partial_fit(X[439:440])._model()
    (eta,), _ = schedule("auto", Clock(), np.array([440.0]), 440, expected.first_memory)
    for _ in range(2):
        expectation = expected.expect(Table(X[:440]))
        mixed = expectation.statistics * step_size(eta) + expected.own() * (1 - step_size(eta))
        expected = expected.maximize(mixed)
    for name, values in parameters(model).items():
        np.testing.assert_allclose(values, expected.parameters[name], rtol=1e-9, atol=1e-12)
    assert vars(model)[KEPT]["n_improved"] == 440


@pytest.mark.parametrize("seed", [7, 16])
def test_steps_from_few_observations_do_not_collapse_states(seed):
    """With steps of batch EM, some state was left with too few of the first rows."""
    X = load_digits().images
    X = (X + np.random.default_rng(0).normal(0.0, 0.2, X.shape)) / 4.0
    X = X[np.random.default_rng(seed).permutation(len(X))][len(X) // 5 :]
    chain = fastem.GaussianHMM(6, "full", random_state=seed)
    for sequence in X[:60]:
        chain.partial_fit(sequence)
    assert chain.n_observations_ == 60


def test_calls_of_any_size_learn_alike():
    X = load_digits().data / 4.0
    X = X + np.random.default_rng(0).normal(0.0, 0.05, X.shape)
    X = X[np.random.default_rng(1).permutation(len(X))]
    scores = []
    for size in (7, 100, 450):
        model = fastem.GaussianMixture(5, covariance_type="diag", reg_covar=1e-3, random_state=0)
        for first in range(0, 1400, size):
            model.partial_fit(X[first : first + size])
        scores.append(model.score(X[1400:]))
    one = fastem.GaussianMixture(1, covariance_type="diag", reg_covar=1e-3).fit(X[:1400])
    gains = np.array(scores) - one.score(X[1400:])
    assert gains.min() > 0.9 * gains.max()


def test_the_best_of_several_starts_is_taken():
    """Of a single start of k-means, two centers may be in one of eight clusters."""
    rng = np.random.default_rng(0)
    X = 10.0 * rng.normal(size=(8, 2))[rng.integers(8, size=3000)] + rng.normal(size=(3000, 2))

    def make(seed):
        return fastem.GaussianMixture(8, covariance_type="spherical", random_state=seed)

    batch = [make(seed).fit(X).score(X) for seed in range(12)]
    online = [make(seed).partial_fit(X).score(X) for seed in range(12)]
    assert min(batch) < max(batch) - 0.05
    assert min(online) > max(batch) - 0.01


def test_parameters_set_by_hand_are_not_overwritten_by_another_start():
    X = rows(2000)
    model = fastem.GaussianMixture(2, random_state=0).partial_fit(X[:100])
    assert KEPT in vars(model)
    model.means_ = model.means_ + 100.0
    model.partial_fit(X[100:300])
    assert KEPT not in vars(model)
    # Another start would have no center there.
    assert model.means_.max() > 50.0


def test_a_rate_or_a_half_life_ends_what_is_kept():
    X = rows(400)
    for change, ends in (({"learning_rate": 0.1}, True), ({"forgetting": 50.0}, True),
                         ({"forgetting": 1e4}, False)):  # fmt: skip
        model = fastem.GaussianMixture(2, random_state=0).partial_fit(X[:100])
        model.set_params(**change).partial_fit(X[100:])
        assert (KEPT not in vars(model)) == ends


def test_large_weights_do_not_start_again_at_each_call():
    X, starts = rows(100), []

    class Counting(fastem.GaussianMixture):
        def _start(self, *args, **settings):
            starts.append(1)
            return super()._start(*args, **settings)

    model = Counting(2, random_state=0).partial_fit(X[:20], sample_weight=np.full(20, 100.0))
    before = len(starts)
    for first in range(20, 35, 5):
        part = X[first : first + 5]
        model.partial_fit(part, sample_weight=np.full(5, 100.0))
    assert len(starts) == before
    model.partial_fit(X[35:45], sample_weight=np.full(10, 100.0))
    assert len(starts) > before


def test_names_of_columns_stay_and_do_not_warn():
    X = pd.DataFrame(rows(300), columns=["a", "b", "c"])
    model = fastem.GaussianMixture(2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for first in range(0, 300, 10):
            model.partial_fit(X[first : first + 10])
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]


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


@pytest.mark.parametrize("kind, least", [("diag", 0.95), ("spherical", 0.95), ("full", 0.8)])
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


# What must not be lost ---------------------------------------------------------------------------


def test_a_start_that_cannot_be_made_again_leaves_the_model():
    rng = np.random.default_rng(0)
    model = fastem.GaussianMixture(2, reg_covar=0.0, random_state=0)
    model.partial_fit(rng.normal(size=(30, 1)))
    for _ in range(3):
        # One of two components would have no variance.
        model.partial_fit(np.full((10, 1), 100.0))
    assert model.n_observations_ == 60
    assert np.isfinite(model.score(rng.normal(size=(5, 1))))


def test_more_columns_than_rows_are_ever_kept():
    rng = np.random.default_rng(0)

    def documents(n):
        return sparse.random_array((n, 12_000), density=0.002, rng=rng).ceil().tocsr()

    model = fastem.CompoundDirichlet().partial_fit(documents(150))
    for _ in range(25):
        model.partial_fit(documents(400))
    assert model.n_observations_ == 10_150
    assert KEPT not in vars(model)


@every
def test_what_is_fixed_on_the_way_stays(name):
    make, data = CASES[name]
    X, estimator = data(400), call(make(), data(30, seed=1))
    held = {"kalman": "transition_matrices"}.get(name, "means")
    before = parameters(estimator)[held]
    estimator.set_params(fixed=held)
    for first in range(0, 400, 40):
        call(estimator, X[first : first + 40])
    assert np.array_equal(parameters(estimator)[held], before)


def test_other_sizes_on_the_way_are_refused_and_do_not_start_again():
    X = rows(400)
    model, other = (fastem.GaussianMixture(3, random_state=0).partial_fit(X[:50]) for _ in range(2))
    for first in range(50, 400, 50):
        model.set_params(n_components=4)
        with pytest.raises(ValueError, match="n_components is 4, and the model has 3 components"):
            model.partial_fit(X[first : first + 50])
        model.set_params(n_components=3).partial_fit(X[first : first + 50])
        other.partial_fit(X[first : first + 50])
    for name, values in parameters(other).items():
        assert np.array_equal(parameters(model)[name], values)


def test_an_alarm_stays_when_a_start_is_made_again():
    n_alarms = 0
    for seed in range(8):
        rng, alarms = np.random.default_rng(seed), []
        model = fastem.GaussianMixture(2, random_state=0, drift_alarm=0.2)
        for number in range(160):
            model.partial_fit(rng.normal(6.0 * (number >= 90), 1.0, size=(3, 2)))
            if hasattr(model, "n_observations_"):
                alarms.append(model.drift_.detected)
        if True in alarms:
            n_alarms += 1
            assert all(alarms[alarms.index(True) :])
    assert n_alarms


def test_rows_without_weight_do_not_end_what_is_kept():
    model = fastem.GaussianMixture(2, random_state=0)
    for seed in range(6):
        weights = np.zeros(2000)
        weights[:30] = 1.0
        model.partial_fit(rows(2000, seed=seed), sample_weight=weights)
    assert KEPT in vars(model)


def test_a_failed_call_gives_back_random_numbers():
    generator = np.random.RandomState(0)

    def fail(report):
        raise KeyError("no")

    model = fastem.GaussianMixture(2, random_state=generator, callback=fail)
    before = generator.get_state()[1].copy(), generator.get_state()[2]
    with pytest.raises(KeyError):
        model.partial_fit(rows(300))
    assert np.array_equal(generator.get_state()[1], before[0])
    assert generator.get_state()[2] == before[1]


def test_other_threads_always_find_a_model():
    X = rows(2000)
    model = fastem.GaussianMixture(2, random_state=0).partial_fit(X[:20])
    done, failures = threading.Event(), []

    def predict():
        while not done.is_set():
            try:
                model.predict(X[:5])
            except Exception as error:
                failures.append(error)

    thread = threading.Thread(target=predict)
    thread.start()
    try:
        for first in range(20, 600, 10):
            model.partial_fit(X[first : first + 10])
    finally:
        done.set()
        thread.join()
    assert not failures


@every
def test_a_large_call_is_learned_from_in_batches(name):
    make, draw = CASES[name]
    size = 1000 if name in ("mixture", "diag") else 100
    data = draw(3 * size + 7)
    start = call(make(), draw(40, seed=1))
    vars(start).pop(KEPT, None)  # only how later observations are cut is compared
    default, cut = (call(copy.deepcopy(start).set_params(batch_size=b), data) for b in (None, size))
    whole = call(copy.deepcopy(start).set_params(batch_size=len(data)), data)
    same(parameters(default), parameters(cut))
    assert any(
        not np.array_equal(parameters(default)[name], parameters(whole)[name])
        for name in parameters(whole)
    )
    # A rate of one's own is that of a call.
    one, other = (
        call(copy.deepcopy(start).set_params(learning_rate=0.5, batch_size=b), data)
        for b in (None, len(data))
    )
    same(parameters(one), parameters(other))


def test_a_first_call_with_many_rows_starts_from_a_few_as_well():
    # Five clusters, of which a poor start finds fewer.
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30_000, 4)) + 6.0 * rng.normal(size=(5, 4))[rng.integers(5, size=30_000)]
    held_out, X = X[:5000], X[5000:]
    batch = max(
        fastem.GaussianMixture(5, n_init=5, random_state=seed).fit(X).score(held_out)
        for seed in range(2)
    )
    for seed in range(5):
        online = fastem.GaussianMixture(5, random_state=seed).partial_fit(X)
        assert online.score(held_out) > batch - 0.02
        assert KEPT not in vars(online)


def test_rows_without_weight_are_none_of_the_many():
    X = rows(12_000)
    weights = np.ones(len(X))
    weights[:3000] = 0.0
    X[:3000] = 1e6
    model = fastem.GaussianMixture(2, random_state=0).partial_fit(X, sample_weight=weights)
    assert np.abs(model.means_).max() < 10.0
