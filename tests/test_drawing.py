"""Normal numbers are those of NumPy, and leave its generators where NumPy leaves them."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from fastem import drawing
from fastem.drawing import multivariate_normal, standard_normal

FEW = drawing._FEW


def state_of(rng):
    _, key, position, has_kept, kept = rng.get_state()
    return key.tolist(), position, has_kept, kept


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    words_before=st.integers(0, 1300),
    numbers_before=st.integers(0, 3),
    n=st.integers(drawing._FEW_IF_LOADED, 3 * FEW),
)
def test_numbers_and_state_are_those_of_numpy(seed, words_before, numbers_before, n):
    standard_normal(np.random.RandomState(0), FEW)  # from now on the kernel is loaded
    ours, theirs = np.random.RandomState(seed), np.random.RandomState(seed)
    for rng in (ours, theirs):
        rng.bytes(4 * words_before)
        rng.standard_normal(numbers_before)
    for _ in range(2):
        assert_array_equal(standard_normal(ours, n), theirs.standard_normal(n))
        assert state_of(ours) == state_of(theirs)


def test_many_numbers():
    n = 3_000_001
    assert_array_equal(
        standard_normal(np.random.RandomState(5), n), np.random.RandomState(5).standard_normal(n)
    )


@pytest.mark.parametrize("shape", [(FEW // 4, 4), (3, FEW), FEW - 1, (0, 3), ()])
def test_shapes(shape):
    ours, theirs = np.random.RandomState(1), np.random.RandomState(1)
    expected = theirs.standard_normal(shape)
    found = standard_normal(ours, shape)
    assert np.shape(found) == np.shape(expected)
    assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.random.default_rng(3),
        lambda: np.random.RandomState(np.random.PCG64(3)),
        lambda: np.random.RandomState(np.random.MT19937(3)),
        lambda: np.random.Generator(np.random.MT19937(3)),
    ],
    ids=["generator", "other bits", "its bits", "generator of its bits"],
)
def test_any_generator(make):
    ours, theirs = make(), make()
    assert_array_equal(standard_normal(ours, 2 * FEW), theirs.standard_normal(2 * FEW))
    assert_array_equal(ours.standard_normal(5), theirs.standard_normal(5))


class Other(np.random.RandomState):
    """Draws other numbers."""

    def standard_normal(self, size=None):
        return super().standard_normal(size) + 9.0

    def multivariate_normal(self, *given, **more):
        return super().multivariate_normal(*given, **more) + 5.0


@pytest.mark.parametrize("n", [10, FEW])
def test_a_subclass_draws_its_own_numbers(n):
    assert_array_equal(standard_normal(Other(1), n), Other(1).standard_normal(n))
    assert_array_equal(
        multivariate_normal(Other(1), np.eye(2), n),
        Other(1).multivariate_normal(np.zeros(2), np.eye(2), n),
    )


def test_the_generator_of_the_module():
    np.random.seed(7)  # noqa: NPY002
    found = standard_normal(np.random.mtrand._rand, 2 * FEW)
    np.random.seed(7)  # noqa: NPY002
    assert_array_equal(found, np.random.standard_normal(2 * FEW))  # noqa: NPY002


@pytest.mark.parametrize("n_columns", [1, 2, 5])
def test_rows_of_a_covariance(n_columns):
    root = np.random.RandomState(n_columns).standard_normal((n_columns, n_columns))
    for n in (10, FEW):
        ours, theirs = np.random.RandomState(2), np.random.RandomState(2)
        assert_array_equal(
            multivariate_normal(ours, root @ root.T, n),
            theirs.multivariate_normal(np.zeros(n_columns), root @ root.T, n),
        )


@pytest.mark.parametrize("position", [-1, 625, 2**31 - 1])
def test_impossible_positions_never_reach_the_kernel(position, monkeypatch):
    class Told:
        """A generator whose state says where it is, without being there."""

        def __init__(self, value):
            self.value = value

    rng = np.random.RandomState(0)
    key, _ = drawing._state_of(rng._bit_generator)
    monkeypatch.setattr(drawing, "_state_of", lambda twister: (key, Told(position)))
    monkeypatch.setattr(drawing, "_kernel_draws_as_numpy", lambda: True)
    expected = np.random.RandomState(0).standard_normal(FEW)
    assert_array_equal(standard_normal(rng, FEW), expected)


def test_another_layout_of_the_state_is_left_to_numpy(monkeypatch):
    monkeypatch.setattr(drawing, "_kernel_draws_as_numpy", lambda: False)
    monkeypatch.setattr(drawing, "standard_normals", None)
    expected = np.random.RandomState(0).standard_normal(FEW)
    assert_array_equal(standard_normal(np.random.RandomState(0), FEW), expected)


@pytest.mark.parametrize("alike", [True, False])
def test_a_kernel_that_rounds_otherwise_is_not_used(monkeypatch, alike):
    calls = []

    def rounded(key, position, out):
        calls.append(len(out))
        position = kernel(key, position, out)
        if not alike:
            out[out > 3.0] *= 1.0 + np.finfo(float).eps
        return position

    kernel = drawing.standard_normals
    monkeypatch.setattr(drawing, "standard_normals", rounded)
    drawing._kernel_draws_as_numpy.cache_clear()
    try:
        assert drawing._kernel_draws_as_numpy() is alike
        expected = np.random.RandomState(0).standard_normal(FEW)
        assert_array_equal(standard_normal(np.random.RandomState(0), FEW), expected)
        assert len(calls) == (2 if alike else 1)
    finally:
        drawing._kernel_draws_as_numpy.cache_clear()


def test_threads_share_a_generator():
    rng, n, parts = np.random.RandomState(9), 2 * FEW, []

    def draw():
        parts.append(standard_normal(rng, n))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Each draws a whole portion of one sequence of numbers: none is drawn twice or left out.
    expected = np.random.RandomState(9).standard_normal((4, n))
    parts.sort(key=lambda part: [row[0] for row in expected].index(part[0]))
    assert_array_equal(parts, expected)
