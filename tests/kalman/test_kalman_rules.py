"""What KalmanFilter learns, and what it leaves alone."""

import copy
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import fastem
from fastem.exceptions import ChangedBehaviorWarning, NothingToLearnWarning
from fastem.kalman.model import NAMES

from cases.kalman import parameters
from oracles import kalman as oracles

OFFSETS = {"transition_offsets", "observation_offsets"}
RNG = np.random.default_rng(0)
TRUTH = oracles.random_lds(2, 3, RNG)
X = [oracles.sample(TRUTH, T, RNG)[1] for T in (15, 20, 15, 20)]
START = parameters(oracles.random_lds(2, 3, np.random.default_rng(1)))


def moved(kf, start=START):
    """Which parameters are no longer as they were given."""
    return {n for n in start if not np.array_equal(getattr(kf, f"{n}_"), start[n])}


def learn(method, data=X, **options):
    kf = fastem.KalmanFilter(max_iter=2, tol=0.0, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(kf, method)(data)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    ("options", "learned"),
    [
        ({}, set()),
        ({"em_vars": "all"}, set(NAMES)),
        ({"em_vars": ["transition_matrices"]}, {"transition_matrices"}),
        ({"em_vars": "all", "fixed": ("transition_matrices",)},
         set(NAMES) - {"transition_matrices"}),
        ({"em_vars": "all", "fixed": "observation_covariance"},
         set(NAMES) - {"observation_covariance"}),
        ({"fixed": ("transition_matrices", "observation_matrices")}, set()),
        ({"fixed": {"transition_matrices": np.eye(2, dtype=bool)}}, {"transition_matrices"}),
        ({"fixed": {"transition_matrices": True}}, set()),
        ({"em_vars": ["observation_matrices"], "fixed": {"transition_matrices": np.eye(2) > 0}},
         {"observation_matrices"}),
    ],
    ids=lambda value: str(sorted(value) if isinstance(value, set) else value),
)  # fmt: skip
def test_of_what_is_given_only_that_is_learned_which_is_said(method, options, learned):
    assert moved(learn(method, **START, **options)) == learned


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_what_is_not_given_is_learned_but_for_the_offsets(method):
    for name in NAMES:
        given = {n: v for n, v in START.items() if n not in {name} | OFFSETS}
        kf = learn(method, **given)
        assert moved(kf, given) == set()
        defaults = fastem.KalmanFilter(n_dim_state=2, n_dim_obs=3)._parameters()
        changed = not np.array_equal(getattr(kf, f"{name}_"), defaults[name])
        assert changed == (name not in OFFSETS)
        for offset in OFFSETS:
            np.testing.assert_array_equal(getattr(kf, f"{offset}_"), 0.0)


def test_entries_of_a_given_parameter_stay_and_the_others_are_learned():
    mask = np.array([[True, False], [False, False]])
    kf = learn("fit", **START, fixed={"transition_matrices": mask})
    A = START["transition_matrices"]
    assert kf.transition_matrices_[0, 0] == A[0, 0]
    assert (kf.transition_matrices_[~mask] != A[~mask]).all()


@pytest.mark.parametrize("em_vars", [None, "all", ["transition_matrices", "transition_offsets"]])
def test_em_estimates_its_variables_but_for_what_is_fixed(em_vars):
    four = {"transition_covariance", "observation_covariance", "initial_state_mean",
            "initial_state_covariance"}  # fmt: skip
    expected = four if em_vars is None else set(NAMES) if em_vars == "all" else set(em_vars)
    for fixed in ((), ("transition_covariance", "transition_matrices")):
        kf = fastem.KalmanFilter(**START, em_vars=em_vars, fixed=fixed).em(X, n_iter=2)
        changed = {n for n in NAMES if not np.array_equal(getattr(kf, n), START[n])}
        assert changed == expected - set(fixed)
    mask = np.array([[True, False], [False, False]])
    kf = fastem.KalmanFilter(**START, fixed={"transition_matrices": mask})
    kf.em(X, n_iter=2, em_vars=["transition_matrices"])
    assert kf.transition_matrices[0, 0] == START["transition_matrices"][0, 0]
    assert (kf.transition_matrices[~mask] != START["transition_matrices"][~mask]).all()


def test_the_state_has_as_many_dimensions_as_there_are_columns():
    with pytest.warns(FutureWarning, match="n_dim_state"):
        kf = fastem.KalmanFilter(max_iter=2, tol=0.0).fit(X)
    assert kf.transition_matrices_.shape == (3, 3)
    with pytest.warns(FutureWarning, match="n_dim_state"):
        kf = fastem.KalmanFilter().partial_fit(X)
    assert kf.transition_matrices_.shape == (3, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one = fastem.KalmanFilter(max_iter=2, tol=0.0).fit(X[0][:, :1])
        assert one.transition_matrices_.shape == (1, 1)
        said = fastem.KalmanFilter(n_dim_state=1, max_iter=2, tol=0.0).fit(X)
        assert said.transition_matrices_.shape == (1, 1)
    # As in pykalman.
    assert fastem.KalmanFilter().em(X[0], n_iter=1).transition_matrices.shape == (1, 1)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_what_changed_is_said_once_and_not_where_the_user_was_clear(method):
    given = {n: START[n] for n in ("transition_matrices", "observation_matrices")}

    def said(**options):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            getattr(fastem.KalmanFilter(max_iter=2, tol=0.0, **options), method)(X)
        return [w for w in caught if issubclass(w.category, (FutureWarning, UserWarning))]

    warned = said(**given)
    assert [w.category for w in warned] == [ChangedBehaviorWarning]
    assert "transition_matrices, observation_matrices" in str(warned[0].message)
    assert "em_vars" in str(warned[0].message) and warned[0].filename == __file__
    assert said(**given, em_vars="all") == []
    assert said(**given, fixed=tuple(given)) == []
    assert said(n_dim_state=2) == []
    nothing = said(**START, fixed=tuple(NAMES))
    assert [w.category for w in nothing] == [NothingToLearnWarning]
    assert "nothing to learn" in str(nothing[0].message)


@pytest.mark.parametrize(
    "call",
    [
        lambda kf: kf.smooth(X[0]),
        lambda kf: kf.filter(X[0]),
        lambda kf: kf.score(X),
        lambda kf: kf.loglikelihood(X[0]),
        lambda kf: kf.forecast(X[0]),
        lambda kf: kf.sample(3, random_state=0),
        lambda kf: kf.stream(),
    ],
)
def test_inference_before_learning_says_what_it_uses(call):
    with pytest.warns(UserWarning, match="identities are used") as caught:
        call(fastem.KalmanFilter(n_dim_state=2, n_dim_obs=3))
    assert len(caught) == 1 and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call(fastem.KalmanFilter(**START))
        call(learn("fit", n_dim_state=2))


def test_the_rules_hold_for_what_goes_on(tmp_path):
    given = {n: START[n] for n in ("transition_matrices", "observation_covariance")}
    kf = learn("fit", **given, warm_start=True)
    fastem.save(kf, tmp_path / "kalman")
    loaded = fastem.load(tmp_path / "kalman")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for again in (copy.deepcopy(kf).fit(X), kf.partial_fit(X), loaded.partial_fit(X)):
            assert moved(again, given) == set()
        np.testing.assert_array_equal(loaded.observation_matrices_, kf.observation_matrices_)


def test_a_filter_saved_with_the_offsets_fixed_means_the_same(tmp_path):
    # So 0.1 wrote the default.
    old = ("transition_offsets", "observation_offsets")
    kf = learn("fit", n_dim_state=2, fixed=old)
    fastem.save(kf, tmp_path / "kalman")
    loaded = fastem.load(tmp_path / "kalman")
    assert loaded.fixed == old
    new = learn("fit", n_dim_state=2)
    for name in NAMES:
        np.testing.assert_array_equal(getattr(loaded, f"{name}_"), getattr(new, f"{name}_"))
    a, b = loaded.partial_fit(X), new.partial_fit(X)
    for name in NAMES:
        np.testing.assert_array_equal(getattr(a, f"{name}_"), getattr(b, f"{name}_"))


def test_after_em_what_was_given_before_stays(tmp_path):
    given = {n: START[n] for n in ("transition_matrices", "observation_matrices")}
    kf = fastem.KalmanFilter(**given, max_iter=2, tol=0.0).em(X, n_iter=1)
    assert kf.given_ == tuple(n for n in NAMES if n in given)
    fastem.save(kf, tmp_path / "kalman")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for again in (kf, fastem.load(tmp_path / "kalman")):
            R = again.observation_covariance
            again.fit(X)
            assert moved(again, given) == set()
            assert not np.array_equal(again.observation_covariance_, R)
        # What is set by hand is given.
        kf.observation_covariance = np.eye(3)
        kf.fit(X)
    np.testing.assert_array_equal(kf.observation_covariance_, np.eye(3))


def test_filters_that_are_given_whole_can_be_combined():
    other = parameters(oracles.random_lds(2, 3, np.random.default_rng(2)))
    kfs = [fastem.KalmanFilter(**given) for given in (START, other)]
    combined = fastem.combine(kfs, horizon=10)
    assert moved(combined) == set(NAMES) - OFFSETS


def test_bad_rules_are_refused_before_anything_changes():
    for options, message in (
        ({"em_vars": ["A"]}, "not among the parameters"),
        ({"em_vars": 3}, "em_vars should be"),
        ({"fixed": ("A",)}, "not one of the parameters"),
        ({"fixed": {"transition_matrices": np.full((2, 2), 0.5)}}, "True or False"),
    ):
        kf = fastem.KalmanFilter(n_dim_state=2, **options)
        for call in (kf.fit, kf.partial_fit, kf.em):
            with pytest.raises(ValueError, match=message), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                call(X)
        assert not hasattr(kf, "transition_matrices_")


def test_clones_are_as_they_were_made():
    kf = clone(fastem.KalmanFilter(**START, em_vars="all", fixed={"transition_matrices": True}))
    kf.set_params(max_iter=2, tol=0.0).fit(X)
    assert moved(kf) == set(NAMES) - {"transition_matrices"}
