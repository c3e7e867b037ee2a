"""A Kalman filter that is used again is not built again, and nothing a user changes goes unseen."""

import copy
import gc
import pickle
import threading
import weakref

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import fastem
from fastem.kalman import present

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 2))
STATE = np.array([0.3, -0.2]), np.array([[1.0, 0.2], [0.2, 0.5]])
GIVEN = {
    "transition_matrices": np.array([[0.9, 0.1], [0.0, 0.8]]),
    "observation_matrices": np.array([[1.0, 0.5], [0.0, 1.0]]),
    "transition_covariance": 0.1 * np.eye(2),
    "observation_covariance": np.array([[0.5, 0.1], [0.1, 0.4]]),
    "transition_offsets": np.array([0.1, 0.0]),
    "observation_offsets": np.array([0.0, 0.2]),
    "initial_state_mean": np.zeros(2),
    "initial_state_covariance": np.eye(2),
}


def given(kind="arrays"):
    if kind == "arrays":
        return {name: value.copy() for name, value in GIVEN.items()}
    return {name: value.tolist() for name, value in GIVEN.items()}


def answers(kf):
    return [
        *kf.filter_update(*STATE, X[0]),
        *kf.filter_update(*STATE, X[0], transition_offset=[1.0, 2.0]),
        *kf.filter(X),
        *kf.smooth(X),
        kf.score_samples(X),
        kf.sample(4, random_state=0)[0],
    ]


def assert_as_built_anew(kf):
    fresh = copy.deepcopy(kf)
    assert id(fresh) not in present._kept
    for found, expected in zip(answers(kf), answers(fresh), strict=True):
        assert_array_equal(found, expected)


@pytest.mark.parametrize("name", list(GIVEN))
@pytest.mark.parametrize("kind", ["arrays", "lists"])
def test_changes_are_seen(name, kind):
    kf = fastem.KalmanFilter(**given(kind))
    before = answers(kf)
    assert id(kf) in present._kept
    value = getattr(kf, name)
    # In place, and small enough that a covariance stays one.
    row = value if GIVEN[name].ndim == 1 else value[1]
    row[1] += 1e-3
    after = answers(kf)
    changed = not all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    assert changed
    assert_as_built_anew(kf)
    setattr(kf, name, 1.01 * GIVEN[name])
    assert_as_built_anew(kf)


def test_views_shapes_and_types_are_seen():
    kf = fastem.KalmanFilter(**given())
    answers(kf)
    kf.transition_matrices.T[0, 1] = 0.05
    assert_as_built_anew(kf)
    kf.transition_matrices.shape = (1, 2, 2)
    with pytest.raises(ValueError, match="changes with time"):
        kf.filter_update(*STATE, X[0])
    kf.transition_matrices.shape = (2, 2)
    assert_as_built_anew(kf)
    kf.transition_matrices = kf.transition_matrices.astype(np.float32)
    assert_as_built_anew(kf)
    kf.transition_matrices[:] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        kf.filter_update(*STATE, X[0])


def test_items_of_lists_are_seen():
    kf = fastem.KalmanFilter(**given("lists"))
    answers(kf)
    kf.transition_matrices[0] = [0.5, 0.5]
    assert_as_built_anew(kf)
    kf.transition_matrices.append([0.0, 1.0])
    with pytest.raises(ValueError, match="transition_matrices"):
        kf.filter_update(*STATE, X[0])
    kf.transition_matrices[:] = [["a", "b"]]
    with pytest.raises(ValueError, match="transition_matrices"):
        kf.filter_update(*STATE, X[0])


def test_learning_is_seen():
    kf = fastem.KalmanFilter(n_dim_state=2, random_state=0)
    kf.fit(X)
    answers(kf)
    kf.partial_fit(X)
    assert_as_built_anew(kf)
    kf.observation_covariance_[0, 0] += 0.5
    assert_as_built_anew(kf)
    kf.set_params(n_dim_state=1).fit(X)
    assert kf.filter(X)[0].shape == (12, 1)
    kf = fastem.KalmanFilter(**given())
    answers(kf)
    kf.em(X, n_iter=2)
    assert_as_built_anew(kf)


def test_names_that_change_places_are_seen():
    kf = fastem.KalmanFilter(**given())
    answers(kf)
    # The same objects in the same order under other names.
    state = vars(kf)
    names = list(state)
    first, second = names.index("transition_covariance"), names.index("initial_state_covariance")
    names[first], names[second] = names[second], names[first]
    objects = list(state.values())
    state.clear()
    state.update(zip(names, objects, strict=True))
    assert_as_built_anew(kf)


def test_copies_pickles_and_the_dead_are_not_remembered():
    kf = fastem.KalmanFilter(**given())
    answers(kf)
    for other in (copy.copy(kf), copy.deepcopy(kf), pickle.loads(pickle.dumps(kf))):
        assert id(other) not in present._kept
        for a, b in zip(answers(other), answers(kf), strict=True):
            assert_array_equal(a, b)
    key = id(kf)
    del kf
    gc.collect()
    assert key not in present._kept


def test_what_holds_its_filter_does_not_keep_it_alive():
    class Own:
        def rate(self, step):
            return 1.0 / (step + 1.0)

    reports, own = [], Own()
    own.kf = kf = fastem.KalmanFilter(
        n_dim_state=2, max_iter=2, random_state=0, callback=reports.append, learning_rate=own.rate
    )
    kf.fit(X).partial_fit(X)
    kf.itself = kf
    answers(kf)
    key = id(kf)
    assert key in present._kept
    alive = weakref.ref(kf)
    del kf, own, reports
    gc.collect()
    assert alive() is None
    assert key not in present._kept


@pytest.mark.parametrize("how", ["given", "learned", "em"])
def test_nothing_else_is_read(how):
    read = set()

    class Recording(fastem.KalmanFilter):
        def __getattribute__(self, name):
            read.add(name)
            return super().__getattribute__(name)

    kf = (
        Recording(n_dim_state=2, random_state=0, max_iter=2)
        if how == "learned"
        else Recording(**given())
    )
    if how == "learned":
        kf.fit(X)
    elif how == "em":
        kf.em(X, n_iter=2)
    read.clear()
    kf._inferring_model()
    kf._n_columns()
    assert read & vars(kf).keys() <= present._READ


def test_subclasses_and_strange_parameters_are_built_each_time():
    class Own(fastem.KalmanFilter):
        pass

    kf = Own(**given())
    answers(kf)
    assert id(kf) not in present._kept
    values = given()
    values["transition_matrices"] = [values["transition_matrices"][0], [0.0, 0.8]]
    kf = fastem.KalmanFilter(**values)
    answers(kf)
    assert id(kf) not in present._kept
    values["transition_matrices"][0][1] = 0.3
    assert_as_built_anew(kf)


def test_the_warning_about_no_matrices_comes_each_time():
    kf = fastem.KalmanFilter(observation_covariance=np.eye(2))
    for _ in range(2):
        with pytest.warns(UserWarning, match="identities are used"):
            kf.filter_update([0.0], [[1.0]], X[0])


def test_threads_do_not_disturb_each_other():
    kf = fastem.KalmanFilter(**given())
    rows = RNG.normal(size=(50, 2))
    expected = [kf.filter_update(*STATE, row) for row in rows]
    failures = []

    def work(order):
        for i in np.tile(order, 40):
            found = kf.filter_update(*STATE, rows[i])
            if not all(map(np.array_equal, found, expected[i])):
                failures.append(i)

    orders = [RNG.permutation(len(rows)) for _ in range(4)]
    threads = [threading.Thread(target=work, args=(order,)) for order in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


# One step ------------------------------------------------------------------------------------


def textbook(values, mean, covariance, row):
    A, C = values["transition_matrices"], values["observation_matrices"]
    mean = A @ mean + values["transition_offsets"]
    P = A @ covariance @ A.T + values["transition_covariance"]
    seen = ~np.isnan(row)
    C, R = C[seen], values["observation_covariance"][np.ix_(seen, seen)]
    K = np.linalg.solve(C @ P @ C.T + R, C @ P).T
    e = row[seen] - C @ mean - values["observation_offsets"][seen]
    return mean + K @ e, P - K @ C @ P


def assert_step(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(("d", "p"), [(1, 1), (2, 2), (3, 5), (5, 2), (9, 12)])
def test_one_step_is_the_textbooks(d, p):
    rng = np.random.default_rng(d)
    root, noise = rng.normal(size=(d, d)), rng.normal(size=(p, p))
    values = {
        "transition_matrices": rng.normal(size=(d, d)),
        "observation_matrices": rng.normal(size=(p, d)),
        "transition_covariance": root @ root.T,
        "observation_covariance": noise @ noise.T + np.eye(p),
        "transition_offsets": rng.normal(size=d),
        "observation_offsets": rng.normal(size=p),
        "initial_state_mean": np.zeros(d),
        "initial_state_covariance": np.eye(d),
    }
    kf = fastem.KalmanFilter(**values)
    state = rng.normal(size=d), root.T @ root + np.eye(d)
    rows = rng.normal(size=(4, p))
    rows[1, 0] = rows[3, -1] = np.nan
    rows[2] = np.nan
    for row in rows:
        for form in (row, row.tolist(), row.astype(object), np.repeat(row, 2)[::2]):
            assert_step(kf.filter_update(*state, form), textbook(values, *state, row))
    others = {
        "transition_matrix": ("transition_matrices", rng.normal(size=(d, d))),
        "transition_offset": ("transition_offsets", rng.normal(size=d)),
        "transition_covariance": ("transition_covariance", 2.0 * values["transition_covariance"]),
        "observation_matrix": ("observation_matrices", rng.normal(size=(p, d))),
        "observation_offset": ("observation_offsets", rng.normal(size=p)),
        "observation_covariance": ("observation_covariance", np.diag(1.0 + rng.random(p))),
    }
    for argument, (name, value) in others.items():
        expected = textbook({**values, name: value}, *state, rows[1])
        assert_step(kf.filter_update(*state, rows[1], **{argument: value}), expected)
    everything = {argument: value for argument, (_, value) in others.items()}
    expected = textbook({**values, **dict(others.values())}, *state, rows[0])
    assert_step(kf.filter_update(*state, rows[0], **everything), expected)
    # What was given for one step is forgotten.
    assert_step(kf.filter_update(*state, rows[0]), textbook(values, *state, rows[0]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"transition_matrix": np.full((2, 2), np.nan)}, "NaN"),
        ({"transition_matrix": np.eye(3)}, "shape"),
        ({"transition_offset": [np.inf, 0.0]}, "NaN or infinity"),
        ({"transition_covariance": [[1.0, 2.0], [0.0, 1.0]]}, "symmetric"),
        ({"transition_covariance": [[1.0, 2.0], [2.0, 1.0]]}, "semidefinite"),
        ({"observation_covariance": -np.eye(2)}, "semidefinite"),
        ({"observation_covariance": np.eye(3)}, "shape"),
        ({"observation": [1.0]}, "columns"),
        ({"observation": [np.inf, 1.0]}, "infinity"),
        ({"observation": ["a", "b"]}, "numbers"),
        ({"filtered_state_mean": [np.nan, 0.0]}, "NaN"),
        ({"filtered_state_mean": np.array([np.nan, 0.0])}, "NaN"),
        ({"filtered_state_covariance": np.array([[1.0, 2.0], [0.0, 1.0]])}, "symmetric"),
        ({"filtered_state_covariance": np.array([[1.0, 2.0], [2.0, 1.0]])}, "semidefinite"),
        ({"filtered_state_covariance": np.array([[np.inf, 0.0], [0.0, 1.0]])}, "infinity"),
    ],
)
def test_what_is_wrong_with_a_step_is_told(change, message):
    kf = fastem.KalmanFilter(**given())
    arguments = {
        "filtered_state_mean": STATE[0], "filtered_state_covariance": STATE[1],
        "observation": X[0], **change,
    }  # fmt: skip
    for _ in range(2):
        with pytest.raises(ValueError, match=message):
            kf.filter_update(**arguments)


@pytest.mark.parametrize("form", [np.array, list, np.ma.array])
def test_complex_observations_of_a_step_are_refused(form):
    kf = fastem.KalmanFilter(**given())
    row, stream = form(X[0] + 1j), kf.stream()
    with pytest.raises(ValueError, match="complex numbers; observations must be real"):
        kf.filter_update(*STATE, row)
    with pytest.raises(ValueError, match="complex numbers; observations must be real"):
        stream.update(row)
    assert stream.n_steps == 0
    stream.update(X[0])
    assert_array_equal(stream.mean, kf.filter(X[:1])[0][0])


def test_singular_covariances_of_a_step():
    values = {**given(), "transition_covariance": np.zeros((2, 2))}
    kf = fastem.KalmanFilter(**values)
    row = np.array([0.5, np.nan])
    for covariance in (np.zeros((2, 2)), np.diag([1.0, 0.0]), STATE[1]):
        found = kf.filter_update(STATE[0], covariance, row)
        assert_step(found, textbook(values, STATE[0], covariance, row))
    exact = fastem.KalmanFilter(**{**given(), "observation_covariance": np.zeros((2, 2))})
    mean, covariance = exact.filter_update(*STATE, X[0])
    C, c = GIVEN["observation_matrices"], GIVEN["observation_offsets"]
    np.testing.assert_allclose(C @ mean + c, X[0], atol=1e-10)
    np.testing.assert_allclose(covariance, 0.0, atol=1e-12)


def test_arrays_that_cannot_be_written_to():
    kf = fastem.KalmanFilter(**given())
    arguments = [np.array(value) for value in (*STATE, X[0])]
    for array in arguments:
        array.flags.writeable = False
    for a, b in zip(kf.filter_update(*arguments), kf.filter_update(*STATE, X[0]), strict=True):
        assert_array_equal(a, b)
    stream = kf.stream()
    stream.update(arguments[2])
    assert stream.n_steps == 1


# Learning ------------------------------------------------------------------------------------


def learning(**settings):
    kf = fastem.KalmanFilter(n_dim_state=2, random_state=0, max_iter=3, tol=0.0, **settings)
    return kf.fit(X).partial_fit(X[:5])


def assert_learns_as_anew(kf):
    """The next step is that of a copy, which remembers nothing."""
    fresh = copy.deepcopy(kf)
    assert present.recall_learner(fresh) is None
    kf.partial_fit(X[3:9])
    fresh.partial_fit(X[3:9])
    for name in GIVEN:
        assert_array_equal(getattr(kf, f"{name}_"), getattr(fresh, f"{name}_"))
    assert kf.lengths_ == fresh.lengths_
    assert kf.n_observations_ == fresh.n_observations_


@pytest.mark.parametrize("memory", ["model", "statistics"])
def test_the_model_that_learned_last_learns_on(memory):
    kf = learning(memory=memory)
    assert present.recall_learner(kf) is not None
    for _ in range(3):
        assert_learns_as_anew(kf)


@pytest.mark.parametrize("name", list(GIVEN))
def test_changes_between_online_steps_are_seen(name):
    kf = learning()
    value = getattr(kf, f"{name}_")
    value[(1,) * value.ndim] += 0.125
    assert present.recall_learner(kf) is None
    assert_learns_as_anew(kf)
    setattr(kf, f"{name}_", 1.5 * getattr(kf, f"{name}_"))
    assert_learns_as_anew(kf)


def test_settings_between_online_steps_are_seen():
    kf = learning()
    for settings in (
        {"fixed": ("transition_matrices",)},
        {"fixed": ["observation_matrices"]},
        {"em_vars": "all"},
        {"em_vars": ("observation_covariance",), "fixed": ()},
        {"observation_covariance_type": "diag"},
        {"fixed": {"transition_matrices": [[True, False], [False, False]]}, "em_vars": None},
    ):
        kf.set_params(**settings)
        assert_learns_as_anew(kf)
    # A list that is changed.
    kf.set_params(fixed=["transition_matrices"])
    kf.partial_fit(X[:5])
    kf.fixed.append("observation_matrices")
    assert_learns_as_anew(kf)


def test_warnings_about_learning_come_each_time():
    kf = fastem.KalmanFilter(transition_matrices=np.eye(2), max_iter=2, tol=0.0)
    for _ in range(3):
        with pytest.warns(FutureWarning, match="given, and therefore not learned"):
            kf.partial_fit(X)
    quiet = learning()
    quiet.partial_fit(X)
    quiet.transition_matrices = np.eye(2)
    with pytest.warns(FutureWarning, match="given, and therefore not learned"):
        quiet.partial_fit(X)


def test_a_failed_step_leaves_what_was_known():
    kf = learning()
    before = {name: getattr(kf, f"{name}_").copy() for name in GIVEN}
    with pytest.raises(ValueError, match="infinity"):
        kf.partial_fit(np.full((3, 2), np.inf))
    for name, value in before.items():
        assert_array_equal(getattr(kf, f"{name}_"), value)
    assert_learns_as_anew(kf)
