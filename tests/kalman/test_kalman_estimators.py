"""fastem.KalmanFilter: pykalman's answers, learning, forecasts, streams, files, bad input."""

import warnings

import numpy as np
import pykalman
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from statsmodels.tsa.statespace.kalman_smoother import KalmanSmoother

import fastem
from fastem import algebra
from fastem.kalman.model import NAMES

from cases.kalman import model, parameters
from oracles import kalman as oracles

EM_VARS = [
    "all",
    None,
    ["transition_matrices", "observation_matrices"],
    ["transition_offsets", "observation_offsets"],
    *[[name] for name in NAMES],
]


def example(seed=0, d=3, p=4, T=40, masked=True):
    rng = np.random.default_rng(seed)
    truth, start = oracles.random_lds(d, p, rng), oracles.random_lds(d, p, rng)
    X = np.ma.array(oracles.sample(truth, T, rng)[1])
    if masked:
        X[5] = np.ma.masked
        X[9, 1] = np.ma.masked
    return X, parameters(start)


def both(given):
    return fastem.KalmanFilter(**given), pykalman.KalmanFilter(**given)


# pykalman ------------------------------------------------------------------------------------


@pytest.mark.parametrize("masked", [False, True])
def test_inference_is_pykalmans(masked):
    X, given = example(masked=masked)
    ours, theirs = both(given)
    for name in ("filter", "smooth"):
        for a, b in zip(getattr(ours, name)(X), getattr(theirs, name)(X), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)
    assert ours.loglikelihood(X) == pytest.approx(theirs.loglikelihood(X), rel=1e-10)


@pytest.mark.parametrize("em_vars", EM_VARS, ids=str)
@pytest.mark.parametrize("masked", [False, True])
def test_em_is_pykalmans_iteration_by_iteration(em_vars, masked):
    X, given = example(1, masked=masked)
    ours, theirs = both(given)
    for _ in range(5):
        assert ours.em(X, n_iter=1, em_vars=em_vars) is ours
        theirs.em(X, n_iter=1, em_vars=em_vars)
        for name in NAMES:
            np.testing.assert_allclose(
                getattr(ours, name), getattr(theirs, name), rtol=1e-8, atol=1e-8, err_msg=name
            )


def test_em_with_the_constructors_em_vars_and_defaults():
    X, _ = example(2, d=2, p=2, masked=False)
    ours = fastem.KalmanFilter(n_dim_state=2, n_dim_obs=2, em_vars=["transition_matrices"])
    theirs = pykalman.KalmanFilter(n_dim_state=2, n_dim_obs=2, em_vars=["transition_matrices"])
    ours.em(X)
    theirs.em(X)
    for name in NAMES:
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-8)


def varying(T=12, seed=3):
    rng = np.random.default_rng(seed)
    lds = oracles.random_lds(2, 3, rng)
    lds = lds.with_(
        A=lds.A + 0.1 * rng.normal(size=(T - 1, 2, 2)),
        b=rng.normal(size=(T - 1, 2)),
        C=rng.normal(size=(T, 3, 2)),
        c=rng.normal(size=(T, 3)),
    )
    X = np.ma.array(oracles.sample(lds, T, rng)[1])
    X[4] = np.ma.masked
    return X, parameters(lds)


def test_matrices_that_change_with_time_as_in_pykalman():
    X, given = varying()
    ours, theirs = both(given)
    for name in ("filter", "smooth"):
        for a, b in zip(getattr(ours, name)(X), getattr(theirs, name)(X), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)
    assert ours.loglikelihood(X) == pytest.approx(theirs.loglikelihood(X), rel=1e-10)
    for a, b in zip(
        ours.sample(12, random_state=1), theirs.sample(12, random_state=1), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-10)


@pytest.mark.parametrize("em_vars", EM_VARS, ids=str)
def test_em_with_matrices_that_change_with_time(em_vars):
    X, given = varying()
    ours, theirs = both(given)
    for _ in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours.em(X, n_iter=1, em_vars=em_vars)
            theirs.em(X, n_iter=1, em_vars=em_vars)
        for name in NAMES:
            np.testing.assert_allclose(
                getattr(ours, name), getattr(theirs, name), rtol=1e-8, atol=1e-8, err_msg=name
            )


def test_em_warns_of_a_parameter_that_will_be_constant():
    X, given = varying()
    with pytest.warns(UserWarning, match="transition_matrices has 3 dimensions"):
        fastem.KalmanFilter(**given).em(X, n_iter=1, em_vars=["transition_matrices"])


def test_filter_update_is_pykalmans():
    X, given = example(4)
    ours, theirs = both(given)
    rng = np.random.default_rng(0)
    means, covariances = theirs.filter(X)
    observation = np.ma.array([0.1, 0.2, 0.3, 0.4], mask=[False, True, False, False])
    for options in (
        {},
        {"observation": np.array([0.1, 0.2, 0.3, 0.4])},
        {"observation": observation},
        {"observation": np.ones(4), "transition_matrix": rng.normal(size=(3, 3))},
        {"observation": np.ones(4), "observation_matrix": rng.normal(size=(4, 3)),
         "observation_offset": np.ones(4), "transition_offset": np.ones(3),
         "observation_covariance": np.eye(4), "transition_covariance": 2 * np.eye(3)},
    ):  # fmt: skip
        for a, b in zip(
            ours.filter_update(means[-1], covariances[-1], **options),
            theirs.filter_update(means[-1], covariances[-1], **options),
            strict=True,
        ):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)
    with pytest.raises(ValueError, match="changes with time"):
        X, given = varying()
        fastem.KalmanFilter(**given).filter_update(np.zeros(2), np.eye(2))


def test_sample_draws_what_pykalman_draws():
    _, given = example(5)
    ours, theirs = both(given)
    for options in ({"random_state": 3}, {"random_state": 3, "initial_state": np.ones(3)}):
        for a, b in zip(ours.sample(6, **options), theirs.sample(6, **options), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-10)
    assert np.ma.isMaskedArray(ours.sample(2)[1])


def test_one_dimensional_series_and_sizes_as_in_pykalman():
    x = np.random.default_rng(0).normal(size=30).cumsum()
    ours, theirs = fastem.KalmanFilter(), pykalman.KalmanFilter()
    for a, b in zip(ours.smooth(x), theirs.smooth(x), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)
    kf = fastem.KalmanFilter(observation_matrices=np.ones((3, 2)))
    assert (kf.n_dim_state, kf.n_dim_obs) == (2, 3)
    with pytest.raises(ValueError, match="differ in the number of states"):
        fastem.KalmanFilter(transition_matrices=np.eye(2), n_dim_state=3)


# statsmodels ---------------------------------------------------------------------------------


@pytest.mark.parametrize("gaps", [False, True])
def test_the_smoother_is_statsmodels(gaps):
    rng = np.random.default_rng(6)
    lds = oracles.random_lds(3, 4, rng, offsets=False)
    _, v = oracles.sample(lds, 60, rng)
    if gaps:
        v[rng.random(v.shape) < 0.1] = np.nan
        v[7] = np.nan
    peer = KalmanSmoother(k_endog=4, k_states=3)
    peer.bind(v)
    peer["design"], peer["obs_cov"] = lds.C, lds.R
    peer["transition"], peer["state_cov"], peer["selection"] = lds.A, lds.Q, np.eye(3)
    peer.initialize_known(lds.m, lds.V)
    peer.tolerance = 0
    result = peer.smooth()
    ours = fastem.KalmanFilter(**parameters(lds))
    means, covariances = ours.smooth(v)
    np.testing.assert_allclose(means, result.smoothed_state.T, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(
        covariances, result.smoothed_state_cov.transpose(2, 0, 1), rtol=1e-8, atol=1e-9
    )
    assert ours.loglikelihood(v) == pytest.approx(result.llf, rel=1e-10)
    means, _ = ours.filter(v)
    np.testing.assert_allclose(means, result.filtered_state.T, rtol=1e-8, atol=1e-9)


# Learning ------------------------------------------------------------------------------------


def many(seed=7, n=60, d=2, p=3, T=(5, 30)):
    rng = np.random.default_rng(seed)
    truth = oracles.random_lds(d, p, rng)
    return truth, [oracles.sample(truth, int(t), rng)[1] for t in rng.integers(*T, size=n)]


def test_fit_needs_only_the_number_of_states():
    truth, X = many()
    kf = fastem.KalmanFilter(n_dim_state=2, max_iter=500).fit(X)
    assert kf.converged_ and kf.n_features_in_ == 3
    assert np.all(np.diff(kf.lower_bounds_) > -1e-8)
    expected = np.mean([oracles.log_likelihood(truth, v) for v in X])
    # More parameters than the truth was drawn with: at least as likely, and not by much.
    assert expected - 0.3 < kf.score(X) < expected + 1.5
    _, fresh = many(seed=7, n=90)
    held_out = fresh[60:]
    assert kf.score(held_out) > np.mean([oracles.log_likelihood(truth, v) for v in held_out]) - 1.0


def test_fit_is_em_and_takes_any_form_of_data():
    _, X = many(8, n=12, T=(6, 7))
    start = parameters(oracles.random_lds(2, 3, np.random.default_rng(1)))
    options = {"max_iter": 3, "tol": 0.0, "em_vars": "all"}
    fits = [
        fastem.KalmanFilter(**start, **options).fit(X),
        fastem.KalmanFilter(**start, **options).fit(np.array(X)),
        fastem.KalmanFilter(**start, **options).fit(np.concatenate(X), lengths=[6] * 12),
        fastem.KalmanFilter(**start, **options).fit(lambda: iter([X[:5], X[5:]])),
        fastem.KalmanFilter(**start, **options).fit(
            X[:6] + X[:6] + X[6:], sample_weight=[0.5] * 12 + [1.0] * 6
        ),
    ]
    reference = model(oracles.LDS(**{a: start[n] for n, a in NAMES.items()}))
    for _ in range(3):
        reference = algebra.batch(reference, X)
    for kf in fits:
        for name, value in reference.parameters.items():
            np.testing.assert_allclose(getattr(kf, f"{name}_"), value, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(fits[0].score_samples(X).mean(), fits[0].score(X))
    assert fits[0].loglikelihood(X) == pytest.approx(12 * fits[0].score(X))


def test_one_long_sequence_is_what_pykalman_learns_too():
    X, given = example(9, T=80, masked=False)
    names = [name for name in NAMES if not name.endswith("offsets")]
    ours = fastem.KalmanFilter(**given, max_iter=4, tol=0.0, em_vars=names).fit(X)
    theirs = pykalman.KalmanFilter(**given).em(X, n_iter=4, em_vars=names)
    for name in NAMES:
        np.testing.assert_allclose(
            getattr(ours, f"{name}_"), getattr(theirs, name), rtol=1e-7, atol=1e-8
        )


def test_fixed_parameters_and_entries_stay():
    _, X = many(10)
    start = parameters(oracles.random_lds(2, 3, np.random.default_rng(2)))
    mask = np.array([[True, False], [False, False]])
    kf = fastem.KalmanFilter(
        **start, max_iter=3, tol=0.0, em_vars="all",
        fixed={"transition_matrices": mask, "observation_covariance": True},
    ).fit(X)  # fmt: skip
    assert kf.transition_matrices_[0, 0] == start["transition_matrices"][0, 0]
    assert (kf.transition_matrices_[~mask] != start["transition_matrices"][~mask]).all()
    np.testing.assert_array_equal(kf.observation_covariance_, start["observation_covariance"])
    assert np.all(np.diff(kf.lower_bounds_) > -1e-8)
    diagonal = fastem.KalmanFilter(
        n_dim_state=2, max_iter=5, tol=0.0, observation_covariance_type="diag",
        transition_covariance_type="spherical",
    ).fit(X)  # fmt: skip
    R, Q = diagonal.observation_covariance_, diagonal.transition_covariance_
    np.testing.assert_array_equal(R, np.diag(np.diag(R)))
    np.testing.assert_array_equal(Q, Q[0, 0] * np.eye(2))


@pytest.mark.parametrize("batch_size", [1, 10, None])
@pytest.mark.parametrize("memory", ["model", "statistics"])
def test_partial_fit_learns(batch_size, memory):
    truth, X = many(11, n=300)
    kf = fastem.KalmanFilter(
        n_dim_state=2, batch_size=batch_size, memory=memory,
        learning_rate=fastem.Decay(0.3, 0.6) if batch_size else 1.0, random_state=0,
    )  # fmt: skip
    kf.partial_fit(X[:50])
    before = kf.score(X[200:])
    for start in range(50, 200, 50):
        kf.partial_fit(X[start : start + 50])
    assert kf.n_steps_ == (200 if batch_size == 1 else 20 if batch_size else 4)
    after = kf.score(X[200:])
    assert after > before
    assert after > np.mean([oracles.log_likelihood(truth, v) for v in X[200:]]) - 6.0
    assert hasattr(kf, "statistics_") == (memory == "statistics")


def test_partial_fit_takes_the_same_steps_in_one_call_or_several_or_a_stream():
    _, X = many(12, n=20)
    start = parameters(oracles.random_lds(2, 3, np.random.default_rng(3)))
    options = {**start, "batch_size": 2, "em_vars": "all"}
    one = fastem.KalmanFilter(**options).partial_fit(X)
    two = fastem.KalmanFilter(**options).partial_fit(X[:8]).partial_fit(X[8:])
    three = fastem.KalmanFilter(**options).partial_fit(iter([X[:6], X[6:]]))
    for other in (two, three):
        for name in NAMES:
            np.testing.assert_allclose(
                getattr(one, f"{name}_"), getattr(other, f"{name}_"), rtol=1e-8, atol=1e-9
            )
        assert other.n_steps_ == 10


def test_the_papers_example_improves_as_the_paper_says():
    # State 5, output 10, Q and R known, learning rate 1/t^0.9; beyond one batch step after some
    # 40 sequences, near ten of them in the end, and whatever η₀ is.
    rng = np.random.default_rng(0)
    truth = oracles.random_lds(5, 10, rng, radius=0.9, offsets=False)
    train = np.array([oracles.sample(truth, 10, rng)[1] for _ in range(400)])
    test = np.array([oracles.sample(truth, 10, rng)[1] for _ in range(200)])
    start = parameters(
        truth.with_(
            A=0.5 * np.eye(5), C=truth.C + rng.normal(size=(10, 5)), m=np.zeros(5), V=np.eye(5)
        )
    )
    learned = ("initial_state_mean", "initial_state_covariance", "transition_matrices",
               "observation_matrices")  # fmt: skip

    def loss(kf):
        return -kf.score(test)

    def batch(n_iter):
        kf = fastem.KalmanFilter(**start, em_vars=learned, max_iter=n_iter, tol=0.0)
        return loss(kf.fit(train))

    first, tenth = batch(1), batch(10)
    begun = loss(fastem.KalmanFilter(**start))
    assert tenth < first < begun
    for eta0 in (0.1, 1.0, 10.0):
        online = fastem.KalmanFilter(
            **start, em_vars=learned, batch_size=1, learning_rate=fastem.Decay(eta0, 0.9)
        )
        losses = []
        for v in train:
            losses.append(loss(online.partial_fit(v)))
        assert losses[-1] < begun
        if eta0 == 1.0:
            assert min(losses[:80]) < first
            assert losses[-1] < first - 0.5 * (first - tenth)


# Beyond --------------------------------------------------------------------------------------


def test_forecasts_are_the_joint_gaussian():
    rng = np.random.default_rng(13)
    lds = oracles.random_lds(2, 3, rng)
    _, v = oracles.sample(lds, 6, rng)
    v[2, 1] = np.nan
    means, covariances = fastem.KalmanFilter(**parameters(lds)).forecast(v, 3)
    longer = np.vstack([v, np.full((3, 3), np.nan)])
    mean, S = oracles.posterior(lds, longer)
    for k in range(3):
        at = slice(9 * 2 + (6 + k) * 3, 9 * 2 + (7 + k) * 3)
        np.testing.assert_allclose(means[k], mean[at], rtol=1e-9)
        np.testing.assert_allclose(covariances[k], S[at, at], rtol=1e-9, atol=1e-12)


def test_a_stream_filters_as_the_whole_does():
    rng = np.random.default_rng(14)
    lds = oracles.random_lds(3, 4, rng)
    _, v = oracles.sample(lds, 20, rng)
    v[4, 2] = np.nan
    v[7] = np.nan
    kf = fastem.KalmanFilter(**parameters(lds))
    stream = kf.stream()
    means, covariances = kf.filter(v)
    for t in range(20):
        mean, covariance, _ = stream.update(None if t == 7 else v[t])
        np.testing.assert_allclose(mean, means[t], rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(covariance, covariances[t], rtol=1e-9, atol=1e-10)
    assert stream.log_likelihood == pytest.approx(kf.loglikelihood(v), rel=1e-10)
    assert stream.n_steps == 20
    with pytest.raises(ValueError, match="3 values"):
        stream.update([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="infinity"):
        stream.update([1.0, 2.0, np.inf, 0.0])
    np.testing.assert_array_equal(stream.mean, mean)


def test_many_sequences_are_filtered_at_once():
    _, X = many(15, n=4, T=(5, 6))
    kf = fastem.KalmanFilter(**parameters(oracles.random_lds(2, 3, np.random.default_rng(0))))
    means, covariances = kf.smooth(X)
    assert len(means) == 4 and means[1].shape == (5, 2)
    stacked, _ = kf.smooth(np.array(X))
    np.testing.assert_array_equal(stacked[1], means[1])
    np.testing.assert_array_equal(kf.smooth(X[1])[1], covariances[1])


def test_combine_average_divergence_and_align():
    _, X = many(16, n=120)
    kfs = [fastem.KalmanFilter(n_dim_state=2, max_iter=200).fit(part) for part in (X[:60], X[60:])]
    combined = fastem.combine(kfs, align=True)
    assert combined.score(X) > min(kf.score(X) for kf in kfs) - 0.5
    assert fastem.divergence(kfs[0], kfs[1], align=True) < fastem.divergence(kfs[0], combined) * 50
    T = np.array([[2.0, 1.0], [0.5, -1.0]])
    moved = clone(kfs[0])
    moved._set_model(kfs[0]._model().transformed(T))
    assert moved.score(X) == pytest.approx(kfs[0].score(X), rel=1e-9)
    assert fastem.divergence(moved, kfs[0], align=False) > 0.1
    assert fastem.divergence(moved, kfs[0], align=True) == pytest.approx(0, abs=1e-6)
    again = fastem.combine([kfs[0], moved], align=True)
    assert again.score(X) == pytest.approx(kfs[0].score(X), rel=1e-6)
    plain = fastem.average([kfs[0], moved], align=True)
    assert plain.score(X) == pytest.approx(kfs[0].score(X), rel=1e-6)
    more = fastem.combine(kfs, align=True, horizon=10).partial_fit(X[:10])
    assert np.isfinite(more.score(X))


def test_saved_and_loaded(tmp_path):
    _, X = many(17)
    kf = fastem.KalmanFilter(n_dim_state=2, batch_size=5, memory="statistics").partial_fit(X)
    path = tmp_path / "kalman"
    fastem.save(kf, path)
    loaded = fastem.load(path)
    for name in NAMES:
        np.testing.assert_array_equal(getattr(kf, f"{name}_"), getattr(loaded, f"{name}_"))
    assert loaded.score(X) == kf.score(X)
    a, b = kf.partial_fit(X[:5]), loaded.partial_fit(X[:5])
    np.testing.assert_array_equal(a.transition_matrices_, b.transition_matrices_)


def test_scikit_learns_conventions():
    _, X = many(18)
    kf = fastem.KalmanFilter(n_dim_state=2, max_iter=2, tol=0.0)
    copy = clone(kf)
    assert copy.get_params()["n_dim_state"] == 2
    kf.fit(X)
    again = clone(kf).fit(X)
    np.testing.assert_array_equal(kf.transition_matrices_, again.transition_matrices_)
    assert clone(
        fastem.KalmanFilter(**parameters(oracles.random_lds(2, 3, np.random.default_rng(0))))
    )
    warm = fastem.KalmanFilter(n_dim_state=2, max_iter=2, tol=0.0, warm_start=True).fit(X).fit(X)
    four = fastem.KalmanFilter(n_dim_state=2, max_iter=4, tol=0.0).fit(X)
    np.testing.assert_allclose(warm.transition_matrices_, four.transition_matrices_, rtol=1e-9)
    with pytest.warns(ConvergenceWarning):
        fastem.KalmanFilter(n_dim_state=2, max_iter=1).fit(X)


# Bad input -----------------------------------------------------------------------------------


GOOD = np.random.default_rng(0).normal(size=(20, 3))
INFINITE = np.where(np.arange(60).reshape(20, 3) == 7, np.inf, GOOD)


@pytest.mark.parametrize(
    ("X", "options", "message"),
    [
        (INFINITE, {}, "infinity at row 2, column 1"),
        (np.empty((0, 3)), {}, "empty|no observations"),
        ([], {}, "no observations|no columns|empty"),
        ([GOOD, GOOD[:, :2]], {}, "different numbers of columns|2 columns"),
        ([GOOD, GOOD[:0]], {}, "Sequence 1 is empty"),
        (GOOD, {"lengths": [5, 5]}, "sum to 10, and X has 20"),
        (GOOD, {"lengths": [0, 20]}, "one or more"),
        ([GOOD, GOOD], {"sample_weight": [1.0]}, "one entry for each of the 2"),
        ([GOOD, GOOD], {"sample_weight": [1.0, -1.0]}, "not negative"),
        ([GOOD, GOOD], {"sample_weight": [0.0, 0.0]}, "all zero"),
        (np.zeros((2, 2, 2, 2)), {}, "shape"),
        ([["a", "b"]], {}, "numbers"),
    ],
)  # fmt: skip
def test_bad_data_are_refused_and_nothing_changes(X, options, message):
    kf = fastem.KalmanFilter(n_dim_state=2)
    with pytest.raises(ValueError, match=message):
        kf.fit(X, **options)
    assert not hasattr(kf, "transition_matrices_") and not hasattr(kf, "n_features_in_")
    kf.partial_fit(GOOD)
    before = {name: value for name, value in vars(kf).items() if name.endswith("_")}
    with pytest.raises(ValueError, match=message):
        kf.partial_fit(X, **options)
    after = {name: value for name, value in vars(kf).items() if name.endswith("_")}
    assert before.keys() == after.keys()
    for name in before:
        np.testing.assert_array_equal(before[name], after[name])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"transition_covariance": -np.eye(2)}, "not positive semidefinite"),
        ({"observation_covariance": [[1.0, 0.5], [0.0, 1.0]], "n_dim_state": 2}, "not symmetric"),
        ({"transition_matrices": [[np.nan, 0], [0, 1]]}, "NaN or infinity"),
        ({"n_dim_state": 2, "fixed": ("A",)}, "not one of the parameters"),
        ({"n_dim_state": 2, "fixed": {"transition_matrices": np.ones((3, 3), bool)}}, "shape"),
        ({"n_dim_state": 0}, "n_dim_state"),
        ({"n_dim_state": 2, "observation_covariance_type": "round"}, "observation_covariance_type"),
        ({"transition_matrices": np.zeros((19, 2, 2))}, "changes with time"),
    ],
)  # fmt: skip
def test_bad_parameters_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        fastem.KalmanFilter(**options).fit(GOOD[:, :2])


def test_other_bad_input():
    kf = fastem.KalmanFilter(n_dim_state=2, learning_rate=0.0)
    with pytest.raises(ValueError, match="learning rate must be positive"):
        kf.partial_fit(GOOD)
    assert not hasattr(kf, "transition_matrices_")
    with pytest.raises(ValueError, match="not among the parameters"):
        fastem.KalmanFilter().em(GOOD[:, :1], em_vars=["A"])
    fitted = fastem.KalmanFilter(n_dim_state=2).partial_fit(GOOD)
    with pytest.raises(ValueError, match="2 columns, and the model observes 3"):
        fitted.score(GOOD[:, :2])
    with pytest.raises(ValueError, match="n_steps"):
        fitted.forecast(GOOD, 0)
    with pytest.raises(TypeError, match="only once"):
        fitted.fit(iter([GOOD]))
    with pytest.raises(ValueError, match="sizes"):
        fastem.combine([fitted, fastem.KalmanFilter(n_dim_state=3).partial_fit(GOOD)])
    with pytest.raises(ValueError, match="kinds"):
        fastem.combine([fitted, fastem.GaussianMixture().fit(GOOD)])
    with pytest.raises(ValueError, match="values for 3 steps"):
        fastem.KalmanFilter(transition_matrices=np.zeros((3, 2, 2)), n_dim_obs=3).filter(GOOD)


def test_data_that_are_all_missing_leave_the_observations_alone():
    given = parameters(oracles.random_lds(2, 3, np.random.default_rng(0)))
    kf = fastem.KalmanFilter(**given, max_iter=2, tol=0.0, em_vars="all")
    kf.fit(np.full((10, 3), np.nan))
    np.testing.assert_array_equal(kf.observation_matrices_, given["observation_matrices"])
    for name in NAMES:
        assert np.isfinite(getattr(kf, f"{name}_")).all()
    assert kf.loglikelihood(np.full((4, 3), np.nan)) == 0.0


def test_a_fit_without_iterations_knows_no_lengths():
    X = np.random.default_rng(0).normal(size=(5, 8, 2))
    kf = fastem.KalmanFilter(n_dim_state=1, max_iter=2).fit(X)
    assert kf.lengths_.lengths.tolist() == [8]
    kf.set_params(max_iter=0).fit(X[:, :3])
    assert not hasattr(kf, "lengths_")


@pytest.mark.parametrize("name", ["_initialize_parameters", "_parse_observations"])
def test_private_methods_of_pykalman_are_not_overridden_in_silence(name):
    with pytest.raises(TypeError, match=f"Own overrides {name} of pykalman's"):
        type("Own", (fastem.KalmanFilter,), {name: lambda self: None})
    type("Own", (fastem.KalmanFilter,), {"filter": lambda self: None})


def test_complex_observations_are_refused():
    for X in (GOOD + 0j, list(GOOD + 0j)):
        with pytest.raises(ValueError, match="complex"):
            fastem.KalmanFilter().smooth(X)
