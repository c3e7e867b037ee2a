"""Observations in every form in which the Kalman filter takes them."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import fastem
from fastem.data.sequences import Sequences
from fastem.kalman.data import Observations, as_observations, as_table


def assert_are(data, parts):
    assert isinstance(data, Observations)
    assert len(data) == len(parts)
    for got, want in zip(data.split(), parts, strict=True):
        assert_array_equal(got, want)


def test_arrays_and_lists():
    X = np.arange(24.0).reshape(12, 2)
    assert_are(as_observations(X), [X])
    assert_are(as_observations(X, [5, 7]), [X[:5], X[5:]])
    assert_are(as_observations([X[:5], X[5:].tolist()]), [X[:5], X[5:]])
    assert_are(as_observations(X.reshape(3, 4, 2)), list(X.reshape(3, 4, 2)))
    assert_are(as_observations(Sequences(X, [5, 7], [1, 2])), [X[:5], X[5:]])
    assert_array_equal(as_observations(Sequences(X, [5, 7], [1, 2])).weights, [1.0, 2.0])
    # One column may be written without its axis; a list of rows is one sequence.
    assert_are(as_observations(X[:, 0]), [X[:, :1]])
    assert_are(as_observations(X[None, :, 0], n_columns=1), [X[:, :1]])
    assert_are(as_observations(list(X)), [X])


@pytest.mark.parametrize("shape", ["one", "three", "list"])
def test_a_masked_value_takes_its_step_and_nan_only_itself(shape):
    X = np.arange(12.0).reshape(6, 2)
    X[4, 0] = np.nan
    masked = np.ma.array(X, mask=np.zeros(X.shape, bool))
    masked[1, 1] = np.ma.masked
    form = {
        "one": masked,
        "three": masked.reshape(2, 3, 2),
        "list": [masked[:3], masked[3:]],
    }[shape]
    want = X.copy()
    want[1] = np.nan
    data = as_observations(form)
    assert_array_equal(data.X, want)
    assert data.missing
    assert X[1, 1] == 3.0  # what was given stays


class Again:
    """Can be iterated over again and again, and is no array."""

    def __init__(self, items):
        self.items = items

    def __iter__(self):
        return iter(self.items)


def test_each_item_of_a_stream_is_a_table():
    X = np.random.default_rng(0).normal(size=(9, 2))
    items = [X[:2], [X[2:4], X[4:5]], (X[5:], 2.0), Sequences(X[:3])]
    for source in (lambda: iter(items), Again(items)):
        tables = list(as_observations(source).tables())
        assert [table.lengths.tolist() for table in tables] == [[2], [2, 1], [4], [3]]
        assert all(isinstance(table, Observations) for table in tables)
        assert_array_equal(tables[2].weights, [2.0])


def test_a_stream_teaches_as_calls_would():
    X = np.random.default_rng(1).normal(size=(30, 2))
    parts = [X[:10], X[10:18], X[18:]]
    streamed = fastem.KalmanFilter(n_dim_state=1, batch_size=1).fit(X)
    called = fastem.KalmanFilter(n_dim_state=1, batch_size=1).fit(X)
    streamed.partial_fit(iter(parts))
    for part in parts:
        called.partial_fit(part)
    assert streamed.n_steps_ == called.n_steps_ == 3
    assert_array_equal(streamed.transition_matrices_, called.transition_matrices_)


def test_what_is_refused():
    X = np.zeros((4, 2))
    with pytest.raises(ValueError, match="item 1 of the stream: X has 1 columns, and the model ob"):
        list(as_observations(lambda: iter([X, X[:, :1]])).tables())
    with pytest.raises(ValueError, match="item 0 of the stream: The sample weights are all zero"):
        list(as_observations(lambda: iter([(X, 0.0)])).tables())
    with pytest.raises(ValueError, match="lengths goes with an array or a list"):
        as_observations(lambda: iter([X]), [4])
    with pytest.raises(ValueError, match="The stream has no data"):
        list(as_observations(lambda: iter([])).tables())
    with pytest.raises(ValueError, match="absorbing"):
        as_observations(Sequences(X, cut_off=True))
    for method in (as_table, fastem.KalmanFilter(n_dim_state=1, n_dim_obs=2).filter):
        with pytest.raises(ValueError, match="pass an array or a list"):
            method(lambda: iter([X]))
