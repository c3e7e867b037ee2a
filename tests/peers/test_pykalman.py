"""fastem.KalmanFilter in the place of pykalman's: the same calls, the same numbers."""

import contextlib
import importlib
import inspect
import pkgutil
import runpy
import sys
import unittest
import warnings

import numpy as np
import pykalman
import pykalman.standard
import pytest
from pykalman.datasets import load_robot
from sklearn.base import clone

import fastem
from fastem.kalman.checks import NAMES

BOTH = (fastem.KalmanFilter, pykalman.KalmanFilter)
SCALAR = {"transition_matrices": [1], "observation_matrices": [1]}


@pytest.fixture(autouse=True)
def no_notice_of_defaults():
    """Identities in the place of matrices that are not given are what these tests are about."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Neither transition_matrices nor")
        yield


def in_both(call):
    """What a call gives with fastem's class, and with pykalman's."""
    return tuple(call(kind) for kind in BOTH)


def assert_same(ours, theirs, tolerance=1e-8, *, types=True):
    """The same numbers in results of the same types and shapes."""
    if not isinstance(theirs, tuple):
        ours, theirs = (ours,), (theirs,)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert np.shape(a) == np.shape(b)
        if types:
            assert type(a) is type(b)
            assert getattr(a, "dtype", None) == getattr(b, "dtype", None)
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


# What is read as what -------------------------------------------------------------------------


SERIES = np.random.default_rng(0).normal(size=7).cumsum()


@pytest.mark.parametrize("given", [{}, SCALAR, {"initial_state_mean": [1.0]}], ids=str)
@pytest.mark.parametrize(
    "X",
    [
        SERIES, SERIES[None], SERIES[:, None], SERIES.tolist(), [SERIES.tolist()], 3.0, 3,
        np.float32(3.0), np.array(3.0), np.array([3.0]), np.array([[3.0]]), np.ma.masked,
        np.ma.array(SERIES, mask=SERIES < 0), np.ma.array(SERIES, mask=SERIES < 0)[None],
    ],
    ids=lambda X: f"{type(X).__name__} {np.shape(X)}",
)  # fmt: skip
@pytest.mark.parametrize("method", ["filter", "smooth", "loglikelihood"])
def test_series_rows_and_numbers(method, X, given):
    assert_same(*in_both(lambda kind: getattr(kind(**given), method)(X)))


def test_a_row_of_as_many_columns_as_the_model_observes_is_one_step():
    # pykalman reads seven steps of one column here too, and fails.
    kf = fastem.KalmanFilter(n_dim_obs=7)
    assert kf.filter(SERIES[None])[0].shape == (1, 1)
    with pytest.raises(ValueError, match="broadcast"):
        pykalman.KalmanFilter(n_dim_obs=7).filter(SERIES[None])


def test_learning_still_reads_a_row_as_one_step():
    X = np.random.default_rng(1).normal(size=(40, 1, 3))
    kf = fastem.KalmanFilter(n_dim_state=1, max_iter=2, tol=0.0).fit(list(X))
    assert kf.n_features_in_ == kf.n_dim_obs == 3
    assert kf.filter(X[0])[0].shape == (1, 1)


def test_em_of_a_number_and_of_a_row():
    for X in (3.0, SERIES[None]):
        ours, theirs = in_both(
            lambda kind, X=X: kind([1.0], [1.0]).em(
                X, em_vars=["observation_covariance", "initial_state_mean"]
            )
        )
        for name in NAMES:
            assert_same(getattr(ours, name), getattr(theirs, name))


@pytest.mark.parametrize("mean", [20.0, 20, [20.0], np.array([20.0]), np.array([[20.0]])], ids=repr)
@pytest.mark.parametrize("covariance", [1.0, [[1.0]], np.array([1.0])], ids=repr)
@pytest.mark.parametrize("observation", [19.5, [19.5], None], ids=repr)
def test_filter_update_takes_numbers(mean, covariance, observation):
    def update(kind):
        kf, state = kind(**SCALAR), (mean, covariance)
        for _ in range(3):
            state = kf.filter_update(*state, observation)
        return state

    # The mean is an array here, and a masked one, of which nothing is masked, there.
    ours, theirs = in_both(update)
    assert_same(ours, theirs, types=False)
    assert type(ours[0]) is type(ours[1]) is np.ndarray


def test_log_likelihoods_are_numpy_numbers():
    for X in (SERIES, SERIES[:1], np.ma.masked_all((3, 1))):
        assert_same(*in_both(lambda kind, X=X: kind(**SCALAR).loglikelihood(X)))
        assert type(fastem.KalmanFilter(**SCALAR).loglikelihood(X)) is np.float64


# Sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {}, SCALAR, {"n_dim_obs": 3}, {"n_dim_state": 2}, {"initial_state_mean": [0, 1]},
        {"observation_matrices": np.ones((3, 2))}, {"observation_offsets": np.zeros((5, 4))},
        {"transition_matrices": np.ones((6, 2, 2))}, {"transition_covariance": 2.0},
    ],
    ids=str,
)  # fmt: skip
def test_sizes_are_attributes(given):
    ours, theirs = in_both(lambda kind: kind(**given))
    assert (ours.n_dim_state, ours.n_dim_obs) == (theirs.n_dim_state, theirs.n_dim_obs)
    # What was given, and nothing else, is a setting.
    settings = ours.get_params()
    assert settings["n_dim_state"] == given.get("n_dim_state")
    assert settings["n_dim_obs"] == given.get("n_dim_obs")
    copy = clone(ours)
    assert copy.get_params()["n_dim_state"] == given.get("n_dim_state")
    assert (copy.n_dim_state, copy.n_dim_obs) == (ours.n_dim_state, ours.n_dim_obs)


def test_sizes_that_are_shown_are_not_sizes_that_are_given():
    X = np.random.default_rng(2).normal(size=(60, 3)).cumsum(axis=0)
    kf = fastem.KalmanFilter(max_iter=2, tol=0.0)
    assert (kf.n_dim_state, kf.n_dim_obs) == (1, 1)
    with pytest.warns(FutureWarning, match="as many dimensions as there are columns, 3"):
        kf.fit(X)
    assert (kf.n_dim_state, kf.n_dim_obs) == (3, 3)
    assert (clone(kf).n_dim_state, clone(kf).n_dim_obs) == (1, 1)
    kf = fastem.KalmanFilter(transition_matrices=np.eye(2))
    kf.set_params(transition_matrices=np.eye(3))
    assert kf.n_dim_state == 3
    kf.n_dim_state = 2
    assert kf.n_dim_state == kf.get_params()["n_dim_state"] == 2
    with pytest.raises(ValueError, match="differ in the number of states"):
        kf.filter(X[:, :1])


# Sixty problems -------------------------------------------------------------------------------


UPDATES = {
    "transition_matrix": "transition_matrices",
    "transition_offset": "transition_offsets",
    "transition_covariance": "transition_covariance",
    "observation_matrix": "observation_matrices",
    "observation_offset": "observation_offsets",
    "observation_covariance": "observation_covariance",
}
EM_VARS = (
    None, "all", [], ["transition_matrices"], ["observation_offsets", "transition_offsets"],
    ["observation_matrices", "observation_covariance"], ["initial_state_mean"],
    ["initial_state_covariance"], ("transition_covariance", "transition_matrices"),
)  # fmt: skip


def covariance(n, rng):
    root = rng.normal(size=(n, n))
    return root @ root.T / n + 0.2 * np.eye(n)


class Problem:
    """A random system, of which some parameters change with time or are not given, and data."""

    def __init__(self, seed):
        self.rng = rng = np.random.default_rng(seed)
        self.d, self.p = d, p = rng.integers(1, 5, size=2).tolist()
        # Every sixth has one step, or two if pykalman would read one as several.
        self.T = T = int(rng.integers(d + p + 8, 30)) if seed % 6 else min(p, 2)
        self.draw = {
            "transition_matrices": lambda: 0.8 * np.linalg.qr(rng.normal(size=(d, d)))[0],
            "observation_matrices": lambda: rng.normal(size=(p, d)),
            "transition_covariance": lambda: covariance(d, rng),
            "observation_covariance": lambda: covariance(p, rng),
            "transition_offsets": lambda: rng.normal(size=d),
            "observation_offsets": lambda: rng.normal(size=p),
            "initial_state_mean": lambda: rng.normal(size=d),
            "initial_state_covariance": lambda: covariance(d, rng),
        }
        self.given, self.varying = {"n_dim_state": d, "n_dim_obs": p}, set()
        for name, draw in self.draw.items():
            kind = rng.choice(["none", "constant", "list", "varying"], p=[0.25, 0.4, 0.15, 0.2])
            if kind == "varying" and T > 1 and not name.startswith("initial"):
                n = T - 1 if name.startswith("transition") else T
                self.given[name] = np.stack([draw() for _ in range(n)])
                self.varying.add(name)
            elif kind != "none":
                self.given[name] = draw().tolist() if kind == "list" else draw()
        self.X = self._data(rng.normal(size=(T, p)).cumsum(axis=0))
        self.em_vars = EM_VARS[seed % len(EM_VARS)]
        self.seed = seed

    def _data(self, X):
        form = self.rng.choice(["array", "floats", "masked", "list", "series", "row"])
        if form == "floats":
            return X.astype(np.float32)
        if form == "masked":
            return np.ma.array(X, mask=self.rng.random(X.shape) < 0.15)
        if form == "list":
            return X.tolist()
        if form in ("series", "row") and self.p == 1:
            return X[:, 0] if form == "series" else X.T
        return X

    def make(self, kind):
        return kind(**self.given, random_state=self.seed, em_vars=self.em_vars)


PROBLEMS = range(60)


@pytest.mark.parametrize("seed", PROBLEMS)
def test_states_and_log_likelihoods(seed):
    problem = Problem(seed)
    assert_same(*in_both(lambda kind: problem.make(kind).filter(problem.X)))
    assert_same(*in_both(lambda kind: problem.make(kind).smooth(problem.X)))
    if "observation_covariance" not in problem.varying:
        assert_same(*in_both(lambda kind: problem.make(kind).loglikelihood(problem.X)))
        return
    # pykalman's log-likelihood takes no R that changes with time: its steps, one by one.
    with pytest.raises(ValueError, match="broadcast"):
        problem.make(pykalman.KalmanFilter).loglikelihood(problem.X)
    ours = problem.make(fastem.KalmanFilter)
    assert ours.loglikelihood(problem.X) == pytest.approx(step_by_step(problem), rel=1e-9)


def step_by_step(problem):
    """The log-likelihood from pykalman's predictions, each step with its own R."""
    kf = problem.make(pykalman.KalmanFilter)
    A, b, Q, C, c, R, m, V = kf._initialize_parameters()
    Z = kf._parse_observations(problem.X)
    h, P = pykalman.standard._filter(A, C, Q, R, b, c, m, V, Z)[:2]
    total = 0.0
    for t, row in enumerate(Z):
        if not np.ma.getmaskarray(row).any():
            at = [x[t] if np.ndim(x) > n else x for x, n in ((C, 2), (c, 1), (R, 2))]
            S = at[0] @ P[t] @ at[0].T + at[2]
            e = np.asarray(row) - at[0] @ h[t] - at[1]
            total -= 0.5 * (e @ np.linalg.solve(S, e) + np.linalg.slogdet(2.0 * np.pi * S)[1])
    return total


@pytest.mark.parametrize("seed", PROBLEMS)
def test_steps(seed):
    problem = Problem(seed)
    rng, d, p = problem.rng, problem.d, problem.p
    state = rng.normal(size=d), covariance(d, rng)
    everything = {name: problem.draw[of]() for name, of in UPDATES.items()}
    needed = {k: v for k, v in everything.items() if UPDATES[k] in problem.varying}
    row = rng.normal(size=p)
    partly = np.ma.array(row, mask=np.arange(p) == 0)
    for observation in (row, row.tolist(), np.ma.array(row), None, partly):
        for given in (needed, everything):
            ours, theirs = in_both(
                lambda kind, v=observation, given=given: problem.make(kind).filter_update(
                    *state, v, **given
                )
            )
            # Masked arrays, of which nothing is masked, are plain ones here.
            assert_same(ours, theirs, types=False)
            assert [type(x) for x in ours] == [np.ndarray, np.ndarray]
            assert not np.ma.getmaskarray(theirs[0]).any()
    if needed:
        for kind in BOTH:
            with pytest.raises(ValueError, match="changes with time|not constant for all time"):
                problem.make(kind).filter_update(*state, row)


@pytest.mark.parametrize("seed", PROBLEMS)
def test_samples(seed):
    problem = Problem(seed)
    varying = problem.varying & {"transition_covariance", "observation_covariance"}
    first = problem.rng.normal(size=problem.d)
    calls = (
        lambda kf: kf.sample(problem.T),
        lambda kf: kf.sample(problem.T, first),
        lambda kf: kf.sample(problem.T, initial_state=first, random_state=5),
        lambda kf: kf.sample(problem.T, random_state=np.random.RandomState(6)),
    )
    # Of a covariance that changes with time, pykalman draws from the first one only.
    given = {k: np.asarray(v)[0] if k in varying else v for k, v in problem.given.items()}
    for call in calls:
        assert_same(*in_both(lambda kind, call=call: call(kind(**given, random_state=seed))))
    if not varying:
        return
    # Ours has its own at each step.
    ours, theirs = in_both(lambda kind: problem.make(kind).sample(problem.T, first, 0))
    assert [x.shape for x in ours] == [x.shape for x in theirs]
    if problem.T > 2:
        assert any(not np.allclose(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("seed", [seed for seed in PROBLEMS if seed % 6])
def test_em(seed):
    problem = Problem(seed)
    for given in (None, EM_VARS[(seed + 4) % len(EM_VARS)]):
        for n_iter in (0, 1, 3):
            found = []
            for kind in BOTH:
                kf = problem.make(kind)
                with warnings.catch_warnings(record=True) as noted:
                    warnings.simplefilter("always")
                    assert kf.em(problem.X, n_iter=n_iter, em_vars=given) is kf
                told = sorted(str(note.message).split()[0] for note in noted)
                found.append((kf, [word for word in told if word in NAMES]))
            (ours, told), (theirs, told_there) = found
            assert told == told_there
            for name in NAMES:
                assert_same(getattr(ours, name), getattr(theirs, name), 1e-6)
            assert (ours.n_dim_state, ours.n_dim_obs) == (theirs.n_dim_state, theirs.n_dim_obs)
            assert_same(ours.smooth(problem.X), theirs.smooth(problem.X), 1e-6)


def test_em_leaves_what_the_data_say_nothing_of():
    # Without a transition, or without an observation, pykalman sets matrices and covariances to
    # zero.
    given = {"transition_matrices": [[0.5]], "observation_matrices": [[2.0]]}
    ours, theirs = in_both(lambda kind: kind(**given).em([3.0], n_iter=1, em_vars="all"))
    assert theirs.transition_matrices == theirs.transition_covariance == 0.0
    assert (ours.transition_matrices, ours.transition_covariance) == (0.5, 1.0)
    unseen = np.ma.masked_all((3, 1))
    ours, theirs = in_both(lambda kind: kind(**given).em(unseen, n_iter=1, em_vars="all"))
    assert theirs.observation_matrices == theirs.observation_covariance == 0.0
    assert (ours.observation_matrices, ours.observation_covariance) == (2.0, 1.0)


def test_em_ends_where_nothing_is_left_of_the_noise():
    # Two steps of four columns: pykalman goes on with an R of rank two.
    X = np.random.default_rng(0).normal(size=(2, 4))
    settings = {"n_dim_state": 1, "n_dim_obs": 4}
    pykalman.KalmanFilter(**settings).em(X, n_iter=9)
    with pytest.raises(ValueError, match="no density"):
        fastem.KalmanFilter(**settings).em(X, n_iter=9)


# The robot ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def robot():
    data = load_robot()
    given = {
        "transition_matrices": data.transition_matrix,
        "observation_matrices": data.observation_matrix,
        "transition_covariance": data.initial_transition_covariance,
        "observation_covariance": data.initial_observation_covariance,
        "transition_offsets": data.transition_offsets,
        "observation_offsets": data.observation_offset,
        "initial_state_mean": data.initial_state_mean,
        "initial_state_covariance": data.initial_state_covariance,
    }
    return data, given


def test_the_robots_states_are_those_of_its_data_set(robot):
    data, given = robot
    given = {
        **given,
        "transition_covariance": data.transition_covariance,
        "observation_covariance": data.observation_covariance,
    }
    kf = fastem.KalmanFilter(**given)
    for found, states in ((kf.filter, "filtered"), (kf.smooth, "smoothed")):
        means, covariances = found(data.observations)
        # The data set gives no values of the first step, which observes nothing.
        np.testing.assert_allclose(
            means[1:], np.asarray(data[f"{states}_state_means"])[1:], atol=1e-7
        )
        np.testing.assert_allclose(
            covariances[1:], np.asarray(data[f"{states}_state_covariances"])[1:], atol=1e-7
        )


def test_em_on_the_robot_climbs_as_its_data_set_says(robot):
    data, given = robot
    given = {**given, "em_vars": ["transition_covariance", "observation_covariance"]}
    X = data.observations[:60]
    shorter = {**given, "transition_offsets": data.transition_offsets[:59]}
    kf, theirs = in_both(lambda kind: kind(**shorter))
    for _ in range(4):
        assert kf.loglikelihood(X) == pytest.approx(theirs.loglikelihood(X), rel=1e-9)
        kf.em(X, n_iter=1)
        theirs.em(X, n_iter=1)
    # All of the series: the log-likelihoods of the data set, one for each iteration.
    kf = fastem.KalmanFilter(**given)
    for value in data.loglikelihoods[:10]:
        assert kf.loglikelihood(data.observations) == pytest.approx(value, abs=1e-3)
        kf.em(data.observations, n_iter=1)


# To pykalman and back -------------------------------------------------------------------------


def assert_same_filters(one, other, X):
    for method in ("filter", "smooth"):
        for a, b in zip(getattr(one, method)(X), getattr(other, method)(X), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("seed", PROBLEMS)
def test_models_travel_to_pykalman_and_back(seed):
    problem = Problem(seed)
    ours, theirs = in_both(problem.make)
    there = ours.to_pykalman()
    assert type(there) is pykalman.KalmanFilter
    here = fastem.KalmanFilter.from_pykalman(theirs)
    back = fastem.KalmanFilter.from_pykalman(there)
    for kf in (there, here, back):
        assert_same_filters(kf, theirs, problem.X)
        assert (kf.n_dim_state, kf.n_dim_obs) == (problem.d, problem.p)
        assert_same(
            tuple(np.asarray(x) for x in kf.sample(problem.T)),
            tuple(np.asarray(x) for x in (theirs if kf is there else ours).sample(problem.T)),
        )
        # What was not given is not given.
        for name in NAMES:
            assert (getattr(kf, name) is None) == (name not in problem.given)
    if seed % 6:
        for kf in (there, here, back, theirs):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                kf.em(problem.X, n_iter=2)
        for kf in (there, here, back):
            for name in NAMES:
                np.testing.assert_allclose(
                    getattr(kf, name), getattr(theirs, name), rtol=1e-6, atol=1e-6
                )


def test_what_was_learned_travels():
    X = np.random.default_rng(4).normal(size=(80, 3)).cumsum(axis=0)
    kf = fastem.KalmanFilter(n_dim_state=2, max_iter=5, tol=0.0, random_state=0).fit(X)
    there = kf.to_pykalman()
    assert_same_filters(kf, there, X)
    assert_same_filters(fastem.KalmanFilter.from_pykalman(there), there, X)
    # Copies: what happens to one does not happen to the other.
    there.transition_matrices[:] = 0.0
    assert kf.transition_matrices_.any()
    back = fastem.KalmanFilter.from_pykalman(there, tol=0.5)
    assert back.tol == 0.5
    there.observation_matrices[:] = 0.0
    assert back.observation_matrices.any()


def test_what_em_learns_travels():
    assert fastem.KalmanFilter().to_pykalman().em_vars is None
    kf = fastem.KalmanFilter(em_vars="transition_matrices")
    assert kf.to_pykalman().em_vars == ["transition_matrices"]
    kf = fastem.KalmanFilter(fixed=("initial_state_mean",)).to_pykalman()
    assert sorted(kf.em_vars) == [
        "initial_state_covariance", "observation_covariance", "transition_covariance",
    ]  # fmt: skip
    assert fastem.KalmanFilter.from_pykalman(pykalman.KalmanFilter(em_vars="all")).em_vars == "all"


def test_what_cannot_travel_is_refused(monkeypatch):
    with pytest.raises(ValueError, match=r"takes a pykalman\.KalmanFilter; got a Unscented"):
        fastem.KalmanFilter.from_pykalman(pykalman.UnscentedKalmanFilter())
    with pytest.raises(ValueError, match=r"\['em_vars'\] are taken from the model"):
        fastem.KalmanFilter.from_pykalman(pykalman.KalmanFilter(), em_vars="all")
    with pytest.raises(ValueError, match="not positive semidefinite"):
        fastem.KalmanFilter.from_pykalman(pykalman.KalmanFilter(transition_covariance=[[-1.0]]))
    with pytest.raises(ValueError, match="not positive semidefinite"):
        fastem.KalmanFilter(transition_covariance=[[-1.0]]).to_pykalman()
    monkeypatch.setitem(sys.modules, "pykalman", None)
    with pytest.raises(ImportError, match="to_pykalman needs pykalman"):
        fastem.KalmanFilter().to_pykalman()


# pykalman's own tests -------------------------------------------------------------------------

#: Tests of the installed pykalman that cannot pass with fastem's class, and why.
DIFFERENT: dict[str, str] = {}


@contextlib.contextmanager
def in_place_of_pykalmans():
    """fastem's class wherever pykalman's modules have their own."""
    theirs = pykalman.KalmanFilter
    changed = [
        module
        for name, module in list(sys.modules.items())
        if name.split(".")[0] == "pykalman" and getattr(module, "KalmanFilter", None) is theirs
    ]
    try:
        for module in changed:
            module.KalmanFilter = fastem.KalmanFilter
        yield changed
    finally:
        for module in changed:
            module.KalmanFilter = theirs


def peers_tests():
    """All tests that the installed package has, by name, as functions without arguments.

    Modules that are a test as a whole, and functions and methods in modules named as tests are.
    """
    found = {}
    for module in pkgutil.walk_packages(pykalman.__path__, "pykalman."):
        last = module.name.split(".")[-1]
        if last.endswith("_nopytest_tests"):
            found[module.name] = lambda name=module.name: runpy.run_module(name)
        elif last.startswith("test_"):
            found |= those_in(importlib.import_module(module.name))
    return found


def those_in(module):
    found = {}
    for name, value in vars(module).items():
        if inspect.isfunction(value) and name.startswith("test"):
            found[f"{module.__name__}.{name}"] = value
        elif inspect.isclass(value) and issubclass(value, unittest.TestCase):
            for method in unittest.defaultTestLoader.getTestCaseNames(value):
                found[f"{module.__name__}.{name}.{method}"] = value(method).debug
    return found


@pytest.mark.parametrize("name", peers_tests())
def test_of_pykalman(name):
    test = peers_tests()[name]
    with in_place_of_pykalmans() as changed:
        assert {module.__name__ for module in changed} >= {"pykalman", "pykalman.standard"}
        if name in DIFFERENT:
            with pytest.raises(Exception, match=""):
                test()
        else:
            test()


def test_the_list_names_tests():
    assert peers_tests().keys() >= DIFFERENT.keys()
    assert "pykalman._nopytest_tests" in peers_tests()
