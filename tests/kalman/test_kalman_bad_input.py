"""Kalman filters given what they cannot be: errors that say so, and never a dead process."""

import subprocess
import sys
import warnings
from pathlib import Path

import kalman_abuse
import numpy as np
import pykalman
import pytest

import fastem
from fastem.kalman.checks import COVARIANCES
from fastem.kalman.model import NAMES, KalmanModel
from fastem.kernels.kalman.one_step import SAFE, UNKNOWN, soundness

from cases.kalman import parameters
from oracles import kalman as oracles


def test_nothing_wrong_reaches_a_kernel():
    script = Path(__file__).parent / "kalman_abuse.py"
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    last = run.stdout.splitlines()[-1] if run.stdout else "nothing"
    assert run.returncode == 0, f"at {last!r}: {run.stderr[-500:]} (exit {run.returncode})"
    assert last.startswith("done")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", kalman_abuse.METHODS)
def test_what_is_right_is_answered(method):
    kf = fastem.KalmanFilter(**kalman_abuse.good(), max_iter=2, tol=0.0)
    assert kalman_abuse.finite(kalman_abuse.METHODS[method](kf))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "given",
    [
        {"transition_matrices": [1], "observation_matrices": [1]},
        {"transition_matrices": 1, "observation_matrices": 2.0, "transition_covariance": 0.1},
        {"transition_matrices": np.eye(2), "observation_matrices": [1, 0]},
        {"initial_state_mean": 0, "initial_state_covariance": 1, "observation_covariance": 1,
         "transition_covariance": 0.01, "transition_matrices": [1], "observation_matrices": [1]},
        {"observation_matrices": np.ones((30, 1, 2)), "transition_matrices": np.eye(2)},
        {"transition_matrices": np.ma.array(np.eye(2)), "observation_matrices": [[1.0, 0.0]]},
    ],
    ids=str,
)  # fmt: skip
def test_all_that_pykalman_takes_is_taken(given):
    X = np.random.default_rng(0).normal(size=30)
    ours, theirs = fastem.KalmanFilter(**given), pykalman.KalmanFilter(**given)
    for name in ("filter", "smooth"):
        for a, b in zip(getattr(ours, name)(X), getattr(theirs, name)(X), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)


def test_a_number_is_a_matrix_of_one_row():
    with pytest.raises(ValueError, match="3 columns, and the model observes 1"):
        fastem.KalmanFilter(observation_matrices=2.0).smooth(np.zeros((5, 3)))


def test_messages_say_what_and_where():
    given = kalman_abuse.good()
    with pytest.raises(ValueError, match=r"observation_matrices should have the shape \(2, 2\)"):
        fastem.KalmanFilter(transition_matrices=np.eye(2), observation_matrices=np.eye(2)
                            ).filter_update(np.zeros(2), np.eye(2), [0, 0],
                                            observation_matrix=np.ones((2, 5)))  # fmt: skip
    R = np.stack([np.eye(3)] * 12)
    R[7, 0, 0] = -1.0
    with pytest.raises(ValueError, match=r"observation_covariance\[7\] is not positive"):
        KalmanModel({**given, "observation_covariance": R})
    with pytest.raises(ValueError, match="filtered_state_mean should have the shape"):
        fastem.KalmanFilter(**given).filter_update(np.zeros(3), np.eye(2))
    with pytest.raises(ValueError, match="missing"):
        KalmanModel({})
    with pytest.raises(ValueError, match="values for 5 steps, and the sequence needs 11"):
        fastem.KalmanFilter(**{**given, "transition_matrices": np.zeros((5, 2, 2))}).sample(12)


def test_a_stream_is_as_it_was_after_an_error():
    rng = np.random.default_rng(0)
    kf = fastem.KalmanFilter(**parameters(oracles.random_lds(2, 3, rng)))
    spoiled, plain = kf.stream(), kf.stream()
    for row in rng.normal(size=(6, 3)):
        for wrong in ([np.inf, 0, 0], [0, 0], "abc", [1e300, 0, 0], [[1, 2], [3, 4]]):
            with pytest.raises(ValueError):
                spoiled.update(wrong)
        for a, b in zip(spoiled.update(row), plain.update(row), strict=True):
            np.testing.assert_array_equal(a, b)
    assert (spoiled.n_steps, spoiled.log_likelihood) == (plain.n_steps, plain.log_likelihood)
    # A masked value makes its step a missing one.
    spoiled.update(np.ma.masked_equal([1.0, 2.0, 3.0], 2.0))
    plain.update(None)
    np.testing.assert_array_equal(spoiled.mean, plain.mean)


HARD = {
    "constant": np.full((40, 2), 3.0),
    "zero": np.zeros((40, 2)),
    "equal rows": np.tile(np.random.default_rng(0).normal(size=(1, 2)), (40, 1)),
    "one row": np.ones((1, 2)),
    "one step each": list(np.random.default_rng(1).normal(size=(30, 1, 2))),
    "a column that is missing": np.column_stack([np.arange(20.0) % 3, np.full(20, np.nan)]),
    "all missing": np.full((10, 2), np.nan),
    "one value": np.where(np.arange(40).reshape(20, 2) == 7, 1.0, np.nan),
    "tiny": 1e-300 * np.random.default_rng(2).normal(size=(40, 2)),
    "small": 1e-150 * np.random.default_rng(2).normal(size=(40, 2)),
    "large": 1e150 * np.random.default_rng(2).normal(size=(40, 2)),
    "huge": 1e200 * np.random.default_rng(2).normal(size=(40, 2)),
    "copies": np.repeat(np.random.default_rng(3).normal(size=(40, 1)), 2, axis=1),
    "a line": np.outer(np.arange(40.0), [1.0, 2.0]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_data_that_say_little_are_learned_from_or_refused(name, method):
    for d in (1, 2, 3):
        kf = fastem.KalmanFilter(n_dim_state=d, max_iter=20)
        try:
            getattr(kf, method)(HARD[name])
        except ValueError as error:
            assert not isinstance(error, np.linalg.LinAlgError)
            assert "noise" in str(error) or "Scale the columns" in str(error)
            assert not hasattr(kf, "transition_matrices_")
        else:
            assert all(np.isfinite(getattr(kf, f"{n}_")).all() for n in NAMES)


def test_constant_columns_are_learned_with_a_noise_that_is_given():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kf = fastem.KalmanFilter(
            n_dim_state=1, observation_covariance=np.eye(2), fixed=("observation_covariance",)
        ).fit(np.full((40, 2), 3.0))
    np.testing.assert_allclose(kf.observation_offsets_, 3.0)
    np.testing.assert_array_equal(kf.observation_covariance_, np.eye(2))


def test_em_that_changes_with_time_takes_sequences_one_by_one():
    # By the joint Gaussian of each, and sums over them.
    rng = np.random.default_rng(4)
    T = 9
    lds = oracles.random_lds(2, 3, rng)
    lds = lds.with_(C=rng.normal(size=(T, 3, 2)), b=rng.normal(size=(T - 1, 2)))
    X = [oracles.sample(lds, T, rng)[1] for _ in range(3)]
    X[2] = X[2][:6]
    X[0][3] = np.nan
    names = ["transition_matrices", "transition_covariance", "observation_covariance",
             "initial_state_mean", "initial_state_covariance"]  # fmt: skip
    kf = fastem.KalmanFilter(**parameters(lds)).em(X, n_iter=1, em_vars=names)

    n, moves, seen = len(X), 0, 0
    h1, P1, left, R = np.zeros(2), np.zeros((2, 2)), [], np.zeros((3, 3))
    S10, S00 = np.zeros((2, 2)), np.zeros((2, 2))
    for v in X:
        length = len(v)
        part = lds.with_(C=lds.C[:length], b=lds.b[: length - 1])
        mean, S, lag = oracles.smoothed(part, v)
        h1 += mean[0] / n
        P1 += (S[0] + np.outer(mean[0], mean[0])) / n
        for t in range(length - 1):
            S10 += lag[t] + np.outer(mean[t + 1] - part.b[t], mean[t])
            S00 += S[t] + np.outer(mean[t], mean[t])
            left.append((mean, S, lag, t, part.b[t]))
            moves += 1
        for t in range(length):
            if not np.isnan(v[t]).any():
                e = v[t] - part.C[t] @ mean[t] - part.c
                R += np.outer(e, e) + part.C[t] @ S[t] @ part.C[t].T
                seen += 1
    A = np.linalg.solve(S00, S10.T).T
    Q = np.zeros((2, 2))
    for mean, S, lag, t, b in left:
        e = mean[t + 1] - A @ mean[t] - b
        Q += np.outer(e, e) + S[t + 1] - A @ lag[t].T - lag[t] @ A.T + A @ S[t] @ A.T
    for name, value in (
        ("transition_matrices", A),
        ("transition_covariance", Q / moves),
        ("observation_covariance", R / seen),
        ("initial_state_mean", h1),
        ("initial_state_covariance", P1 - np.outer(h1, h1)),
    ):
        np.testing.assert_allclose(getattr(kf, name), value, rtol=1e-8, atol=1e-9, err_msg=name)
    with pytest.raises(ValueError, match="values for 8 steps, and the sequence needs 11"):
        fastem.KalmanFilter(**parameters(lds)).em([X[0], np.zeros((12, 3))])


def test_em_holds_no_single_entries_of_what_changes_with_time():
    given = {**kalman_abuse.good(), "observation_covariance": np.stack([np.eye(3)] * 12)}
    fixed = {"observation_covariance": np.stack([np.eye(3, dtype=bool)] * 12)}
    with pytest.raises(ValueError, match="hold whole parameters"), pytest.warns(UserWarning):
        fastem.KalmanFilter(**given, fixed=fixed).em(kalman_abuse.X)


def test_the_same_parameters_written_out_for_each_step_learn_alike():
    rng = np.random.default_rng(5)
    lds = oracles.random_lds(2, 3, rng)
    X = [oracles.sample(lds, T, rng)[1] for T in (7, 4, 7)]
    free = [name for name in NAMES if name != "transition_offsets"]
    plain = fastem.KalmanFilter(**parameters(lds)).em(X, n_iter=1, em_vars=free)
    written = parameters(lds.with_(b=np.tile(lds.b, (6, 1))))
    varying = fastem.KalmanFilter(**written).em(X, n_iter=1, em_vars=free)
    for name in free:
        np.testing.assert_allclose(
            getattr(varying, name), getattr(plain, name), rtol=1e-9, atol=1e-9, err_msg=name
        )


def _spoiled(name, array):
    """What no covariance, or no number, may be in the place of a parameter."""
    yield np.where(np.arange(array.size).reshape(array.shape) == array.size - 1, np.nan, array)
    yield np.where(np.arange(array.size).reshape(array.shape) == 0, -np.inf, array)
    if name.endswith("covariance"):
        yield -array
        negative = np.array(array)
        negative[-1, -1] = -1e-6
        yield negative
        skew = np.array(array)
        skew[0, -1] += 1e-3
        if len(skew) > 1:
            yield skew


@pytest.mark.parametrize("d, p", [(1, 1), (3, 2), (2, 4), (32, 32), (33, 2)])
def test_a_kernel_finds_what_the_checks_find(d, p):
    # Small systems are checked by one call of a kernel; the checks say what is wrong.
    rng = np.random.default_rng(d)
    sound = {
        "transition_matrices": rng.normal(size=(d, d)), "transition_offsets": np.ones(d),
        "observation_matrices": rng.normal(size=(p, d)), "observation_offsets": np.ones(p),
        "initial_state_mean": np.zeros(d), "initial_state_covariance": np.eye(d),
        "transition_covariance": np.eye(d), "observation_covariance": np.eye(p),
    }  # fmt: skip
    model = KalmanModel(sound)
    # What the kernel found is what would be found without it.
    values = np.concatenate([sound[name].reshape(-1) for name in NAMES])
    np.testing.assert_array_equal(model.packed.values, values)
    assert model.packed.times == (None,) * 6 and (model.packed.d, model.packed.p) == (d, p)
    assert not model.varies and not model.direct
    for name in COVARIANCES:
        changed = KalmanModel({**sound, name: np.zeros_like(sound[name])})
        assert changed.direct is (name == "observation_covariance")
    for name in NAMES:
        for wrong in _spoiled(name, sound[name]):
            with pytest.raises(ValueError, match=f"{name}.*(NaN or inf|symmetric|semidefinite)"):
                KalmanModel({**sound, name: wrong})
        for wrong in (sound[name][:-1], sound[name][None, None], np.zeros(0)):
            with pytest.raises(ValueError, match="shape|matrix"):
                KalmanModel({**sound, name: wrong})


def test_a_kernel_checks_no_more_numbers_than_there_are():
    for d, p, n in ((0, 1, 100), (1, 0, 100), (2, 2, 33), (2, 2, 0), (10**6, 1, 100)):
        assert soundness(np.ones(n), d, p) == UNKNOWN
    zeros, one = np.zeros(2), np.eye(2).ravel()
    values = np.concatenate([zeros, one, one, zeros, one, one, zeros, one, np.empty(8)])
    assert soundness(values, 2, 2) == SAFE
    assert soundness(values[:-1], 2, 2) == UNKNOWN
