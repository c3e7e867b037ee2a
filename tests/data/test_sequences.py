"""Sequences in every form in which people have them."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import fastem.data.sequences
from fastem.data.sequences import Sequences, SequenceStream, as_sequences, is_sequence_stream


def three(seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, 2)) for n in (4, 1, 3)]


def assert_are(data, parts):
    assert_array_equal(data.X, np.concatenate(parts))
    assert_array_equal(data.lengths, [len(part) for part in parts])
    assert data.lengths.dtype == np.int64


def test_one_array_is_not_copied():
    X = np.concatenate(three())
    data = as_sequences(X, [4, 1, 3])
    assert data.X is X
    assert_array_equal(data.starts, [0, 4, 5])
    assert len(data) == 3
    for part, expected in zip(data.split(), three(), strict=True):
        assert_array_equal(part, expected)
    whole = as_sequences(X)
    assert_array_equal(whole.lengths, [8])


def test_lists_tuples_and_three_dimensions():
    assert_are(as_sequences(three()), three())
    assert_are(as_sequences(tuple(three())), three())
    X = np.random.default_rng(1).normal(size=(5, 3, 2))
    assert_are(as_sequences(X), list(X))
    assert np.shares_memory(as_sequences(X).X, X)
    assert_are(as_sequences(X.tolist()), list(X))
    nested = [part.tolist() for part in three()]
    assert_are(as_sequences(nested), three())


def test_a_list_of_one_dimensional_arrays_is_the_rows_of_one_sequence():
    rows = [np.arange(3.0), np.arange(3.0) + 5.0]
    for given in (rows, tuple(rows), [pd.Series(row) for row in rows]):
        assert_are(as_sequences(given), [np.stack(rows)])
    with pytest.raises(ValueError, match=r"different lengths.*\[x.reshape\(-1, 1\) for x in X\]"):
        as_sequences([np.arange(3.0), np.arange(2.0)])
    with pytest.raises(ValueError, match=r"Sequence 1 has 1 dimension; .*x.reshape\(-1, 1\)"):
        as_sequences([np.ones((3, 1)), np.arange(2.0)])


def test_an_item_of_a_stream_is_a_sequence_of_one_column():
    parts = [np.arange(3.0), np.arange(2.0)]
    for given in (parts, [pd.Series(part, index=range(7, 7 + len(part))) for part in parts]):
        (table,) = as_sequences(lambda given=given: iter(given)).tables()
        assert_are(table, [part[:, None] for part in parts])


def test_a_list_of_rows_is_an_array_written_out():
    data = as_sequences([[1.0, 2.0], [3.0, 4.0]])
    assert_array_equal(data.X, [[1.0, 2.0], [3.0, 4.0]])
    assert_array_equal(data.lengths, [2])
    data = as_sequences([np.array([1.0, 2.0]), np.array([3.0, 4.0])], lengths=[1, 1])
    assert_array_equal(data.X, [[1.0, 2.0], [3.0, 4.0]])
    assert_array_equal(data.lengths, [1, 1])


def test_weights_and_flags():
    data = as_sequences(three(), sample_weight=[1, 2, 0.5], cut_off=[True, False, True])
    assert_array_equal(data.sample_weight, [1.0, 2.0, 0.5])
    assert_array_equal(data.row_weights, [1, 1, 1, 1, 2, 0.5, 0.5, 0.5])
    assert_array_equal(data.cut_off, [True, False, True])
    assert_array_equal(as_sequences(three(), cut_off=True).cut_off, [True] * 3)
    assert as_sequences(three()).row_weights is None


def test_missing_is_found():
    parts = three()
    assert not as_sequences(parts).missing
    parts[1][0, 1] = np.nan
    assert as_sequences(parts).missing
    assert not as_sequences([np.zeros((2, 1), int)]).missing


def test_parts():
    data = as_sequences(three(), sample_weight=[1, 2, 3], cut_off=[True, False, False])
    part = data.part(1, 3)
    assert_are(part, three()[1:])
    assert_array_equal(part.sample_weight, [2, 3])
    assert_array_equal(part.cut_off, [False, False])
    assert np.shares_memory(part.X, data.X)
    assert_are(data.part(0, 1), three()[:1])
    assert list(data.tables()) == [data]


# Streams ----------------------------------------------------------------------------------------


def rows_of(stream):
    tables = list(stream.tables())
    return np.concatenate([t.X for t in tables]), np.concatenate([t.lengths for t in tables])


@pytest.mark.parametrize(
    "items",
    [
        lambda: iter(three()),
        lambda: iter([three()[:2], three()[2]]),
        lambda: iter([three()]),
        lambda: iter([as_sequences(three()[:1]), *three()[1:]]),
    ],
    ids=["sequences", "lists and sequences", "one list", "Sequences"],
)
def test_items_of_streams(items):
    stream = as_sequences(items)
    for _ in range(2):
        X, lengths = rows_of(stream)
        assert_array_equal(X, np.concatenate(three()))
        assert_array_equal(lengths, [4, 1, 3])


def test_what_is_a_stream():
    class Again:
        def __iter__(self):
            return iter(three())

    assert is_sequence_stream(Again())
    assert is_sequence_stream(lambda: iter(three()))
    assert is_sequence_stream(iter(three()))
    for data in (three(), tuple(three()), np.zeros((2, 2)), as_sequences(three())):
        assert not is_sequence_stream(data)
    assert_array_equal(rows_of(as_sequences(Again()))[1], [4, 1, 3])


def test_items_of_one_dimension_are_single_columns():
    (table,) = as_sequences(lambda: iter([np.arange(3.0), np.arange(2.0)])).tables()
    assert_are(table, [np.arange(3.0)[:, None], np.arange(2.0)[:, None]])


def test_pairs_carry_weights():
    stream = as_sequences(lambda: iter([(three()[0], 2.0), (three()[1:], [3.0, 4.0]), three()[0]]))
    (table,) = stream.tables()
    assert_array_equal(table.sample_weight, [2.0, 3.0, 4.0, 1.0])


def test_short_items_are_joined_and_long_ones_are_not_copied(monkeypatch):
    monkeypatch.setattr(fastem.sequences, "_JOINED_ROWS", 10)
    parts = [np.full((n, 1), float(i)) for i, n in enumerate([3, 3, 3, 3, 50, 2, 2])]
    tables = list(as_sequences(lambda: iter(parts)).tables())
    assert [len(table.X) for table in tables] == [12, 50, 4]
    assert tables[1].X is parts[4]
    assert_array_equal(np.concatenate([t.X for t in tables]), np.concatenate(parts))


def test_items_of_different_types_are_kept_apart():
    parts = [np.zeros((2, 1), np.uint8), np.zeros((2, 1)), np.zeros((2, 1))]
    tables = list(as_sequences(lambda: iter(parts)).tables())
    assert [table.X.dtype for table in tables] == [np.uint8, np.float64]


def test_a_check_sees_every_table_and_how_many_came_before(monkeypatch):
    monkeypatch.setattr(fastem.sequences, "_JOINED_ROWS", 4)
    seen = []

    def check(table, n_before):
        seen.append((len(table), n_before))
        return table

    list(SequenceStream(lambda: iter(three()), check).tables())
    assert seen == [(1, 0), (2, 1)]


def test_streams_can_mark_all_sequences_as_cut_off():
    (table,) = as_sequences(lambda: iter(three()), cut_off=True).tables()
    assert table.cut_off.all()


# What is refused --------------------------------------------------------------------------------


def refused(words, *arguments, error=ValueError, **options):
    with pytest.raises(error, match=words):
        as_sequences(*arguments, **options)


def test_bad_lengths():
    X = np.zeros((6, 2))
    refused("The lengths sum to 5, and X has 6 rows", X, [2, 3])
    refused(r"lengths\[1\] is 0", X, [6, 0])
    refused(r"lengths\[0\] is -1", X, [-1, 7])
    refused("whole numbers", X, [2.5, 3.5])
    refused("whole numbers", X, ["a", "b"])
    refused("list of the numbers", X, [])
    refused("list of the numbers", X, [[2, 4]])
    refused("The lengths sum to 5, and X has 6 rows", X, 5)
    assert_array_equal(as_sequences(X, [2.0, 4.0]).lengths, [2, 4])


@pytest.mark.parametrize(
    "lengths",
    [[2**62] * 3 + [2**62 + 6], [2**63 - 1, 2**63 - 1, 8], [10**19], [1e300, 6.0]],
    ids=str,
)
def test_lengths_whose_sum_is_too_large_for_an_integer(lengths):
    refused(
        f"The lengths sum to {sum(map(int, lengths))}, and X has 6 rows", np.zeros((6, 2)), lengths
    )


def test_lengths_as_hmmlearn_takes_them():
    X = np.zeros((6, 2))
    assert_array_equal(as_sequences(X, 6).lengths, [6])
    assert_array_equal(as_sequences(X, np.int64(6)).lengths, [6])
    assert_array_equal(as_sequences(X, np.array([[2], [4]])).lengths, [2, 4])


def test_bad_sequences():
    refused("list is empty", [])
    refused("Sequence 1 is empty", [np.zeros((2, 2)), np.zeros((0, 2))])
    refused("Sequence 1 has 3 columns, and the first has 2", [np.zeros((2, 2)), np.zeros((2, 3))])
    refused("Sequence 0 has 3 dimensions", [np.zeros((2, 2, 2))])
    refused("Expected 2D array, got 1D", np.zeros(5))
    refused("Expected 2D array, got 0D", 3.0)
    refused("Expected 2D array, got 4D", np.zeros((1, 2, 3, 4)))
    refused("no rows", np.zeros((0, 2)))
    refused("no entries", np.zeros((0, 3, 2)))


def test_bad_weights_and_flags():
    refused("each sequence has one weight", three(), sample_weight=[1.0, 2.0])
    refused("that of sequence 1 is -1", three(), sample_weight=[1.0, -1.0, 1.0])
    refused("that of sequence 2 is nan", three(), sample_weight=[1.0, 1.0, np.nan])
    refused("True or False", three(), cut_off=[0, 1, 1])
    refused("there are 3 sequences", three(), cut_off=[True])


def test_lengths_only_with_one_array():
    refused("a list of sequences has the lengths of its items", three(), [4, 1, 3])
    refused("all sequences have one length", np.zeros((2, 3, 1)), [3, 3])
    refused("lengths goes with an array or a list", lambda: iter(three()), [4, 1, 3])
    refused("sample_weight goes with", lambda: iter(three()), sample_weight=[1, 1, 1])
    refused("carry their own", Sequences(np.zeros((2, 1))), [2])


def test_bad_streams():
    refused("can be read only once", iter(three()), error=TypeError)
    as_sequences(iter(three()), once=True)
    with pytest.raises(ValueError, match="The stream has no data"):
        list(as_sequences(lambda: iter([])).tables())
    with pytest.raises(ValueError, match="In item 1 of the stream: Expected 2D array, got 0D"):
        list(as_sequences(lambda: iter([np.zeros((2, 2)), 3.0])).tables())
    refused("True or False for all", lambda: iter(three()), cut_off=[True, False])
