"""``fastem fit --online``: streams, checkpoints, and what ends them."""

import itertools
import os
import signal
import sys
import time

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import fastem as library
from fastem.cli import arrivals

PATIENCE = 60  # seconds, on a slow machine whose kernels are not compiled


def wait_for(condition, process):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def rows(fastem):
    return np.loadtxt(fastem.folder / "log.csv", delimiter=",", skiprows=1)


ONLINE = ("fit", "gmm", "-", "-k", 3, "--seed", 1, "--online", "-o", "m.fastem")


def test_it_learns_as_partial_fit_does(fastem, rows):
    text = (fastem.folder / "log.csv").read_text()
    _, err = fastem.process(
        *ONLINE, "--chunk", 100, "--checkpoint-every", "150rows", "-v", stdin=text
    )
    assert [line.rpartition("; ")[2] for line in err] == ["wrote m.fastem"] * 3
    assert "200 rows" in err[0] and "300 rows" in err[1]  # the last chunk, at the end
    found = library.load(fastem.folder / "m.fastem")
    assert found.feature_names_in_.tolist() == ["height", "weight"]
    expected = library.GaussianMixture(3, random_state=1)
    for part in np.split(rows, 3):
        expected.partial_fit(part)
    assert_array_equal(found.means_, expected.means_)
    assert found.n_observations_ == 300


def test_it_goes_on_from_a_model(fastem, rows):
    whole, first, second = (fastem.folder / f"{name}.csv" for name in ("log", "first", "second"))
    lines = whole.read_text().splitlines(keepends=True)
    first.write_text("".join(lines[:151]))
    # Its columns are in another order.
    second.write_text("".join(f"{b},{a}\n" for a, b in (ln.strip().split(",") for ln in
                                                          [lines[0], *lines[151:]])))  # fmt: skip
    fit = ("fit", "gmm", "-k", 3, "--seed", 1, "--online", "--chunk", 150)
    fastem(*fit, "log.csv", "-o", "whole.fastem")
    fastem(*fit, "first.csv", "-o", "parts.fastem", "--resume")
    fastem(*fit, "second.csv", "-o", "parts.fastem", "--resume")
    fastem(*fit, "second.csv", "-o", "from.fastem", "--from", "parts.fastem")
    whole, parts, longer = (
        library.load(fastem.folder / f"{name}.fastem") for name in ("whole", "parts", "from")
    )
    assert_array_equal(whole.means_, parts.means_)
    assert longer.n_observations_ == 450


def test_a_group_is_a_sequence(fastem):
    out = ("-k", 2, "--seed", 1, "--online", "-o", "h.fastem")
    fastem("fit", "hmm", "visits.csv", "--group", "patient", *out)
    found = library.load(fastem.folder / "h.fastem")
    assert found.n_observations_ == 4
    X = np.loadtxt(fastem.folder / "visits.csv", delimiter=",", skiprows=1, usecols=1)[:, None]
    expected = library.GaussianHMM(2, random_state=1)
    expected.partial_fit(X, [40, 50, 30, 20])
    assert_array_equal(found.means_, expected.means_)
    np.save(fastem.folder / "several.npy", np.random.default_rng(0).normal(size=(6, 20, 1)))
    fastem("fit", "kalman", "several.npy", "-d", 1, "--online", "-o", "k.fastem")
    assert library.load(fastem.folder / "k.fastem").n_observations_ == 6


def test_too_few_rows_are_kept(fastem):
    few = ("fit", "gmm", "-", "-k", 2, "--seed", 0, "--online", "-o", "few.fastem", "--resume")
    _, err = fastem.process(*few, stdin="1.5\n", code=1)
    assert len(err) == 1 and "19 more rows are needed" in err[0] and "--resume" in err[0]
    _, err = fastem.process("score", "few.fastem", "-", stdin="1\n", code=1)
    assert len(err) == 1 and "without a model" in err[0]
    fastem.process(*few, stdin="".join(f"{n % 7}\n" for n in range(30)))
    assert library.load(fastem.folder / "few.fastem").n_observations_ == 31


def test_what_was_learned_before_an_error_is_saved(fastem):
    text = (fastem.folder / "log.csv").read_text() + "1,two\n"
    _, err = fastem.process(*ONLINE, "--chunk", 100, stdin=text, code=1)
    assert len(err) == 1 and "column 'weight' holds text ('two' in row 301)" in err[0]
    assert library.load(fastem.folder / "m.fastem").n_observations_ == 300


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_a_stream_without_end(end, fastem):
    path = fastem.folder / "endless.fastem"
    path.unlink(missing_ok=True)
    reading, writing = os.pipe()
    arguments = ("--checkpoint-every", "0.1s", "-o", "endless.fastem")
    process = fastem.start(*ONLINE[:-2], *arguments, stdin=reading)
    os.close(reading)
    lines = (fastem.folder / "log.csv").read_text().splitlines(keepends=True)
    with os.fdopen(writing, "w") as stream:
        stream.write("".join(lines[:101]))
        stream.flush()
        wait_for(path.exists, process)
        # A checkpoint can be used while learning goes on.
        assert library.load(path).n_observations_ == 100
        stream.write("".join(lines[101:201]))
        stream.flush()
        wait_for(lambda: library.load(path).n_observations_ == 200, process)
        stream.write("".join(lines[201:221]))
        stream.flush()
        time.sleep(0.3)
        process.send_signal(end)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert out == "" and len(err.splitlines()) == 1 and "wrote endless.fastem" in err
    assert library.load(path).n_observations_ == 220


def test_a_slow_stream_is_written_in_time(fastem):
    """Rows that come one by one, never a moment apart, do not wait until a chunk is full."""
    path = fastem.folder / "slow.fastem"
    reading, writing = os.pipe()
    arguments = ("--checkpoint-every", "0.5s", "--chunk", 10**6, "-o", "slow.fastem")
    process = fastem.start(*ONLINE[:-2], *arguments, stdin=reading)
    os.close(reading)
    lines = itertools.cycle((fastem.folder / "log.csv").read_text().splitlines()[1:])
    with os.fdopen(writing, "w") as stream:

        def comes():
            stream.write(next(lines) + "\n")
            stream.flush()
            return path.exists()

        wait_for(comes, process)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="a pipe cannot be opened by a name")
def test_what_has_arrived_is_taken_when_it_is_to_stop():
    reading, writing = os.pipe()
    stopped = False
    arrived = arrivals.lines(f"/dev/fd/{reading}", lambda: stopped)
    with os.fdopen(writing, "wb") as stream, os.fdopen(reading):
        stream.write(b"1\n")
        stream.flush()
        assert next(line for line in arrived if line) == ["1\n"]
        # Two blocks; the second ends within a line.
        stream.write(b"2\n" * (1 << 14))
        stream.flush()
        time.sleep(0.5)
        stream.write(b"3\n4")
        stream.flush()
        time.sleep(0.5)
        stopped = True
        rest = [line for part in arrived if part for line in part]
    assert rest == ["2\n"] * (1 << 14) + ["3\n"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT to send")
def test_an_interrupt_of_a_long_fit_is_one_line(fastem):
    path = fastem.folder / "long.npy"
    np.save(path, np.random.default_rng(0).normal(size=(200_000, 4)))
    process = fastem.start("fit", "gmm", "long.npy", "-k", 8, "--iterations", 10**6,
                           "--tolerance", 0, "-o", "long.fastem",
                           start_new_session=True)  # fmt: skip
    # Interrupts of the imports are tested as well as those of the fit.
    time.sleep(8.0)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (130, "", "fastem fit: interrupted\n")
    assert not (fastem.folder / "long.fastem").exists()


def test_rows_before_a_wrong_one_are_learned_from(fastem):
    lines = (fastem.folder / "log.csv").read_text().splitlines()
    for wrong, words in (("1", "line 252 has 1 value, and"), ('1,"2" 3', "line 252 is not CSV")):
        text = "\n".join([*lines[:251], wrong, *lines[251:]])
        _, err = fastem.process(*ONLINE, "--chunk", 100, stdin=text, code=1)
        assert len(err) == 1 and words in err[0]
        assert library.load(fastem.folder / "m.fastem").n_observations_ == 250


def test_a_row_may_go_on_in_the_next_block(fastem, rows):
    # Blocks have 64 KiB.
    names = [f'"a long name,\nof ""{n}""' + " and so on" * 30 + '"' for n in range(len(rows))]
    text = ["name,height,weight"]
    text += [f"{name},{x},{y}" for name, (x, y) in zip(names, rows, strict=True)]
    (fastem.folder / "long.csv").write_text("\n".join(text))
    fit = ("fit", "gmm", "long.csv", "-k", 3, "--seed", 1, "--online", "--ignore", "name")
    fastem(*fit, "-o", "m.fastem")
    expected = library.GaussianMixture(3, random_state=1).partial_fit(rows)
    assert_array_equal(library.load(fastem.folder / "m.fastem").means_, expected.means_)
    (fastem.folder / "long.csv").write_text("\n".join([*text, '"open,1,2', "x,1,2"]))
    _, err = fastem(*fit, "-o", "m.fastem", code=1)
    # At the end of the input, lines of a row are counted from the first.
    assert err == ["fastem fit: line 603 is not CSV: unexpected end of data."]
    assert library.load(fastem.folder / "m.fastem").n_observations_ == 300


def test_groups_are_as_in_a_whole_file(fastem):
    visits = (fastem.folder / "visits.csv").read_text()
    (fastem.folder / "spaces.csv").write_text(visits.replace("bob,6", " bob ,6"))
    out = ("--group", "patient", "-k", 2, "--seed", 1, "--online", "-o", "h.fastem")
    fastem("fit", "hmm", "spaces.csv", *out)
    assert library.load(fastem.folder / "h.fastem").n_observations_ == 4
    (fastem.folder / "gaps.csv").write_text(visits.replace("dee", ""))
    _, err = fastem("fit", "hmm", "gaps.csv", *out, code=1)
    assert err == ["fastem fit: row 121 has no value in the column of --group."]
    assert library.load(fastem.folder / "h.fastem").n_observations_ == 3
