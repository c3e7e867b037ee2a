"""Whether rows are finite is found by threads, and gives scikit-learn's answers and errors."""

import numpy as np
import pytest

import fastem
from fastem.data.rows import are_finite

N_ROWS, N_COLUMNS = 90_000, 50


@pytest.fixture(scope="module")
def large():
    return np.random.default_rng(0).normal(size=(N_ROWS, N_COLUMNS))


@pytest.mark.parametrize("n_jobs", [1, 2, None])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_one_wrong_number_is_found_anywhere(large, dtype, order, n_jobs):
    X = np.array(large, dtype=dtype, order=order)
    assert are_finite(X, n_jobs)
    for row in (0, 1, N_ROWS // 2 - 1, N_ROWS // 2, N_ROWS - 1):
        for wrong in (np.nan, np.inf, -np.inf):
            column = row % N_COLUMNS
            right, X[row, column] = X[row, column], wrong
            assert not are_finite(X, n_jobs)
            X[row, column] = right
    assert are_finite(X[::2, ::-1], n_jobs)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sums_that_overflow_are_no_wrong_numbers(large, dtype):
    X = large.astype(dtype)
    X[100:200] = np.finfo(dtype).max
    with np.errstate(all="raise"):
        assert are_finite(X)
        # Infinities that would cancel to NaN, too.
        X[-200:-100] = -np.finfo(dtype).max
        assert are_finite(X)


def test_small_arrays_and_whole_numbers():
    assert are_finite(np.zeros((3, 2)))
    assert not are_finite(np.array([[0.0, np.nan]]))
    assert are_finite(np.zeros((3, 2), dtype=np.uint8))


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_errors_are_those_of_scikit_learn_at_any_size(large, wrong):
    for n_rows in (10, N_ROWS):
        X = large[:n_rows].copy()
        model = fastem.GaussianMixture(2, covariance_type="diag", max_iter=2, tol=1e9)
        model.fit(X)
        X[-1, -1] = wrong
        for call in (fastem.GaussianMixture(2).fit, model.predict, model.partial_fit):
            with pytest.raises(ValueError, match="contains (NaN|infinity)"):
                call(X)
        with pytest.raises(ValueError, match="is expecting 50 features"):
            model.predict(large[:n_rows, 1:])
