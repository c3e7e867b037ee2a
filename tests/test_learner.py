"""Learners where it matters how they come to their numbers: the quick way and the other in turn."""

import copy
import threading
import warnings

import numpy as np
import pytest
from conformance import same

import fastem
from fastem.callbacks import EarlyStopping
from fastem.lengths import Lengths, RunningLengths

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def rows(n=200, D=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, D)) + 4.0 * rng.integers(2, size=(n, 1))


def walks(n, T=8, D=3, seed=0):
    rng = np.random.default_rng(seed)
    return [np.cumsum(rng.normal(size=(T + i % 3, D)), axis=0) for i in range(n)]


def mixture(kind="diag", n_components=2, **settings):
    return fastem.GaussianMixture(
        n_components, covariance_type=kind, random_state=0, max_iter=3, **settings
    )


def assert_same_as_partial_fit(estimator, stream, data=lambda x: x, start=lambda x: x):
    learner = estimator.learner()
    for x in stream:
        learner.learn_one(x)
        estimator.partial_fit(data(x))
    assert same(vars(learner.model()), vars(estimator))
    return learner


# Forms of observations ---------------------------------------------------------------------------


FORMS = {
    "list": list,
    "tuple": tuple,
    "reversed": lambda x: x[::-1].copy()[::-1],
    "strided": lambda x: np.repeat(x, 2)[::2],
    **{kind: lambda x, kind=kind: x.astype(kind)
       for kind in ("float32", "float16", "int64", "uint8", "bool", ">f8")},
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_any_form_of_numbers_is_read_as_doubles(form):
    make = FORMS[form]
    X = (rows() > 2.0).astype(float) if form == "bool" else np.round(np.abs(rows()))
    one = mixture().fit(X)
    two, reference = copy.deepcopy(one).learner(), one.learner()
    for x in X[:20]:
        two.learn_one(make(x))
        reference.learn_one(x)
        assert two.score_one(make(x)) == reference.score_one(x)
    assert same(vars(two.model()), vars(reference.model()))


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 1e200, 1e308])
@pytest.mark.parametrize("kind", ["diag", "full", "tied", "spherical"])
@pytest.mark.parametrize("column", [0, 2])
def test_wrong_numbers_leave_a_mixture_as_it_was(kind, wrong, column):
    X = rows()
    learner = mixture(kind).fit(X).learner()
    for x in X[:3]:
        learner.learn_one(x)
    before, bad = learner.model(), X[3].copy()
    bad[column] = wrong
    with pytest.raises(ValueError):
        learner.learn_one(bad)
    assert same(vars(learner.model()), vars(before))
    for method in (learner.score_one, learner.predict_one):
        expected = getattr(before, "score_samples" if method == learner.score_one else "predict")
        try:
            answer = expected(bad[None])[0]
        except ValueError:
            with pytest.raises(ValueError):
                method(bad)
        else:
            assert method(bad) == answer
    learner.learn_one(X[3])
    assert same(vars(learner.model()), vars(before.partial_fit(X[3:4])))


def test_a_symbol_that_does_not_exist_is_refused():
    rng = np.random.default_rng(0)
    X = rng.integers(3, size=(100, 2))
    learner = fastem.Mixture(fastem.families.Categorical(3), 2, random_state=0).fit(X).learner()
    learner.learn_one(X[0])
    for wrong in ([0, 3], [-1, 0], [0.5, 1], [0, 10**9], [0], [0, 1, 2]):
        for method in (learner.learn_one, learner.score_one, learner.predict_one):
            with pytest.raises(ValueError):
                method(np.array(wrong))
    assert learner.model().n_observations_ == 101


def test_one_observation_at_a_time():
    learner = mixture().fit(rows()).learner()
    with pytest.raises(ValueError, match="One row"):
        learner.learn_one(rows(2))
    hmm = fastem.GaussianHMM(2, random_state=0).fit(np.concatenate(walks(5)), [8, 9, 10, 8, 9])
    for several in (walks(2), np.zeros((2, 4, 3))):
        with pytest.raises(ValueError):
            hmm.learner().learn_one(several)


# The quick way and the other in turn -------------------------------------------------------------


@pytest.mark.parametrize("make", [
    lambda: fastem.GaussianHMM(2, "full", random_state=0, n_iter=2),
    lambda: fastem.KalmanFilter(n_dim_state=2, random_state=0, max_iter=2),
], ids=["hmm", "kalman"])  # fmt: skip
def test_missing_values_and_other_lengths_in_between(make):
    stream = walks(24)
    stream[4][2] = np.nan
    stream[9][1, 0] = np.nan
    stream[12:15] = walks(3, T=200)  # longer than there was room for
    stream[15] = stream[15][:1]
    stream[16] = stream[16].astype(np.float32).astype(float)
    estimator = make().fit(walks(20, seed=1))
    learner = assert_same_as_partial_fit(estimator, stream)
    assert learner.score_one(stream[0]) == estimator.score_samples(stream[0])[0]


@pytest.mark.parametrize("algorithm", ["viterbi", "map"])
@pytest.mark.parametrize("kind", ["diag", "full"])
def test_states_are_predicted_by_the_estimators_algorithm(algorithm, kind):
    stream = walks(30)
    stream[7][2] = np.nan
    stream[9] = stream[9].astype(np.float32)
    hmm = fastem.GaussianHMM(3, kind, algorithm=algorithm, random_state=0, n_iter=2)
    hmm.fit(np.vstack(walks(9, seed=1)), [8, 9, 10] * 3)
    learner = hmm.learner()
    for x in stream:
        learner.learn_one(x.astype(float))
        found, score = learner.predict_one(x), learner.score_one(x)
        model = learner.model()
        assert same(found, model.predict(x.astype(float)))
        assert same(score, model.score(x.astype(float)))


def test_weights_and_cut_off_sequences():
    estimator = mixture().fit(rows())
    learner = estimator.learner()
    for i, x in enumerate(rows(12, seed=3)):
        weight = {"sample_weight": 0.5} if i % 3 == 1 else {}
        learner.learn_one(x, **weight)
        estimator.partial_fit(x[None], sample_weight=np.array([0.5 if weight else 1.0]))
    assert learner.model().n_observations_ == estimator.n_observations_ == 210.0
    np.testing.assert_allclose(learner.model().means_, estimator.means_, rtol=1e-12)

    rng = np.random.default_rng(0)
    ending = [np.vstack([rng.normal(size=(4, 2)), 12 + rng.normal(size=(1, 2))]) for _ in range(20)]
    hmm = fastem.GaussianHMM(3, "diag", absorbing=[2], random_state=0, n_iter=2).fit(ending)
    learner = hmm.learner()
    for i, x in enumerate(ending[:8]):
        given = {"cut_off": True} if i % 2 else {}
        x = x[:-1] if given else x
        learner.learn_one(x, **given)
        hmm.partial_fit(x, **given)
    assert same(vars(learner.model()), vars(hmm))


QUICK = {
    "mixture": lambda **more: (mixture(**more).fit(rows()), list(rows(700, seed=2))),
    "full mixture": lambda **more: (mixture("full", **more).fit(rows()), list(rows(700, seed=2))),
    "counts": lambda **more: (
        fastem.Mixture("poisson", 2, random_state=0, **more).fit(np.floor(np.abs(rows()))),
        list(np.floor(np.abs(rows(700, seed=2)))),
    ),
    "hmm": lambda **more: (
        fastem.GaussianHMM(2, random_state=0, **more).fit(walks(9)), walks(700, seed=2)
    ),
    "kalman": lambda **more: (
        fastem.KalmanFilter(n_dim_state=2, random_state=0, max_iter=2, **more).fit(walks(9)),
        walks(700, seed=2),
    ),
}  # fmt: skip


@pytest.mark.parametrize("alarm", [None, 0.01, 1e-12], ids=["no test", "alarm", "no alarm"])
@pytest.mark.parametrize("kind", QUICK)
def test_histories_and_tests_of_drift_are_those_of_partial_fit(kind, alarm):
    estimator, stream = QUICK[kind](drift_alarm=alarm)
    # What comes later is less likely; and one of them takes the other way.
    stream[400:] = [2.0 * x + 3.0 for x in stream[400:]]
    learner = estimator.learner()
    for number, x in enumerate(stream):
        given = {"sample_weight": [0.5]} if number == 300 else {}
        learner.learn_one(x, **given)
        estimator.partial_fit(x[None] if x.ndim == 1 else x, **given)
        if number in (255, 256, 257, 450):
            model = learner.model()
            assert model.history_ == estimator.history_
            if alarm is not None:
                assert model.drift_ == learner.drift_ == estimator.drift_
        if number == 500:
            learner = copy.deepcopy(learner)
    assert same(vars(learner.model()), vars(estimator))
    assert 128 < len(estimator.history_) <= 256
    assert estimator.history_[-1][0] == estimator.n_observations_
    if alarm is None:
        with pytest.raises(AttributeError, match="drift_"):
            learner.drift_  # noqa: B018
    elif alarm == 0.01 and kind != "kalman":
        assert 400 < estimator.drift_.n_scores < 700


def test_a_callback_is_the_one_that_was_given():
    stop = EarlyStopping(patience=100)
    learner = mixture(callback=stop).fit(rows()).learner()
    learner.learn_one(rows(1)[0])
    n_waited = stop.n_waited_
    learner.learn_one(rows(1)[0] + 100.0)
    assert stop.n_waited_ == n_waited + 1
    assert learner.model().callback is stop


def test_a_callback_that_fails_leaves_the_learner_as_it_was():
    def fail(report):
        if report.n_observations == 202:
            raise KeyError("no")

    learner = mixture(callback=fail).fit(rows()).learner()
    learner.learn_one(rows(1)[0])
    before = learner.model()
    with pytest.raises(KeyError):
        learner.learn_one(rows(1)[0])
    assert same(vars(learner.model()), vars(before))


def test_wide_rows():
    X = np.random.default_rng(0).normal(size=(300, 70))
    assert_same_as_partial_fit(mixture("full").fit(X), X[:4], lambda x: x[None])


def test_a_component_that_dies_is_told_of_as_often_as_by_partial_fit():
    X = np.concatenate([rows(60), rows(1) + 60.0])
    estimator = mixture("spherical", 3, learning_rate=3.0, batch_size=1).fit(X)
    learner, told = estimator.learner(), []
    for learn in (learner.learn_one, lambda x: estimator.partial_fit(x[None])):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for x in rows(80, seed=5):
                learn(x)
        told.append([str(each.message) for each in caught])
    assert told[0] == told[1]
    assert any("no points left" in message for message in told[0])
    assert same(vars(learner.model()), vars(estimator))


def test_a_warning_that_is_an_error_leaves_the_learner_as_it_was():
    X = np.concatenate([rows(60), rows(1) + 60.0])
    learner = mixture("spherical", 3, learning_rate=3.0, batch_size=1).fit(X).learner()
    n_learned = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for x in rows(80, seed=5):
            before = learner.model()
            try:
                learner.learn_one(x)
            except RuntimeWarning:
                assert same(vars(learner.model()), vars(before))
                with pytest.raises(RuntimeWarning):
                    before.partial_fit(x[None])
                break
            n_learned += 1
    assert 1 < n_learned < 80
    with pytest.warns(RuntimeWarning, match="no points left"):
        learner.learn_one(x)
    with pytest.warns(RuntimeWarning, match="no points left"):
        before.partial_fit(x[None])
    assert same(vars(learner.model()), vars(before))


def test_a_rate_may_look_at_the_learner():
    learner = None

    def rate(step):
        return 0.1 if learner is None else 0.1 + 0.0 * learner.model().means_.sum()

    learner = mixture(learning_rate=rate, batch_size=1).fit(rows()).learner()
    for x in rows(5):
        learner.learn_one(x)
    assert learner.model().n_steps_ == 5


def test_a_rate_that_fails_leaves_the_learner_as_it_was():
    learner = mixture(learning_rate=lambda t: 0.5 - 0.1 * t, batch_size=1).fit(rows()).learner()
    for x in rows(4):
        learner.learn_one(x)
    before = learner.model()
    with pytest.raises(ValueError, match="at step 5"):
        learner.learn_one(rows(1)[0])
    assert same(vars(learner.model()), vars(before))


@pytest.mark.parametrize("rate", [1e-310, fastem.Decay(1.0, 2000.0), fastem.Decay(1.0, 1000.0)])
def test_a_rate_that_is_too_small_is_refused_as_by_partial_fit(rate):
    start = mixture(learning_rate=rate, batch_size=1).fit(rows())
    learner, messages = start.learner(), []
    for learn in (learner.learn_one, lambda x: start.partial_fit(x[None])):
        with pytest.raises(fastem.exceptions.LearningRateError) as error:
            for x in rows(3):
                learn(x)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_a_step_without_a_maximum_is_undone():
    # Without noise, a variance falls to nothing when every row is the same.
    X = rows(50)
    learner = mixture(n_components=1, reg_covar=0.0, learning_rate=np.inf).fit(X).learner()
    before = learner.model()
    for _ in range(3):
        with pytest.raises(ValueError, match="ill-defined"):
            learner.learn_one(X[0])
        assert same(vars(learner.model()), vars(before))


# Subclasses --------------------------------------------------------------------------------------


def test_a_subclass_learns_and_answers_by_its_own_methods():
    class Doubling(fastem.GaussianMixture):
        def partial_fit(self, X, y=None, sample_weight=None):
            return super().partial_fit(2.0 * X, y, sample_weight)

    class Answering(fastem.GaussianMixture):
        def score_samples(self, X):
            return np.full(len(X), -7.0)

        def predict(self, X):
            return np.full(len(X), 9)

    X = rows(60)
    estimator = Doubling(2, random_state=0).fit(X)
    assert_same_as_partial_fit(estimator, X[:5], lambda x: x[None])
    learner = Answering(2, random_state=0).fit(X).learner()
    for x in X[:4]:
        assert (learner.score_one(x), learner.predict_one(x)) == (-7.0, 9)
        learner.learn_one(x)


def test_a_subclass_of_another_kind_of_model_answers_by_its_own_methods():
    class Named(fastem.GaussianHMM):
        def predict(self, X, lengths=None):
            return ["low" if state == 0 else "high" for state in super().predict(X, lengths)]

    class Shifted(fastem.KalmanFilter):
        def smooth(self, X):
            means, covariances = super().smooth(X)
            return means + 1.0, covariances

    data, x = np.concatenate(walks(5)), walks(1)[0]
    for estimator in (Named(2, random_state=0, n_iter=2),
                      Shifted(n_dim_state=2, random_state=0, max_iter=2)):  # fmt: skip
        learner = estimator.fit(data).learner()
        for _ in range(3):
            learner.learn_one(x)
            model = learner.model()
            expected = model.predict(x) if isinstance(model, Named) else model.smooth(x)[0]
            assert np.array_equal(learner.predict_one(x), expected)


def test_a_subclass_that_replaces_nothing_is_as_quick():
    class Named(fastem.GaussianMixture):
        """Has a method and a setting more."""

        def __init__(self, n_components=2, name="", *, random_state=0):
            super().__init__(n_components, random_state=random_state)
            self.name = name

        def described(self):
            return f"{self.name}: {self.weights_}"

    estimator = Named(name="own").fit(rows())
    learner = assert_same_as_partial_fit(estimator, rows(5, seed=1), lambda x: x[None])
    assert learner._quick is not None


# Threads -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [
    lambda: (mixture().fit(rows()), list(rows(400, seed=2))),
    lambda: (fastem.GaussianHMM(2, random_state=0).fit(np.vstack(walks(9)), [8, 9, 10] * 3),
             [w for T in (8, 80, 300) for w in walks(30, T=T)]),
], ids=["mixture", "hmm"])  # fmt: skip
def test_threads_that_share_a_learner_wait_for_each_other(make):
    estimator, stream = make()
    learner = estimator.learner()
    failed = []

    def work(part):
        try:
            for x in part:
                learner.learn_one(x)
                assert np.isfinite(learner.score_one(x))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(stream[i::4],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    model = learner.model()
    assert model.n_observations_ == estimator.n_observations_ + len(stream)


# Lengths -----------------------------------------------------------------------------------------


def test_running_lengths_are_mixed_lengths_to_the_bit():
    rng = np.random.default_rng(0)
    lengths = Lengths([3, 5, 5, 9], [1.0, 0.3, 2.0, 0.1])
    running = RunningLengths(lengths)
    for n in range(200):
        new, share = int(rng.integers(1, 14)), 1.0 / (n + 5.0)
        lengths = (1.0 - share) * lengths + share * Lengths(new)
        running.add(new, share)
        found = running.now()
        assert found.lengths.tobytes() == lengths.lengths.tobytes()
        assert found.shares.tobytes() == lengths.shares.tobytes()
        assert found.weight == lengths.weight
