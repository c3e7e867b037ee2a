"""Who waits for kernels to be compiled is told, once, and in the usual ways not at all."""

import logging
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import fastem
from fastem import notices
from fastem.notices import CompilingNotice

pty = pytest.importorskip("pty", reason="This system has no pseudo-terminals.")

FIT = """
import fastem
documents = [[1, 2], [3, 1], [2, 2]]
for _ in range(2):
    model = fastem.CompoundDirichlet(max_iter=2, tol=10.0).fit(documents)
"""


def on_terminal(code, folder, **environment):
    """What a process writes to stderr, which is a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code], stderr=theirs,
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder), **environment},
    )  # fmt: skip
    os.close(theirs)
    written = b""
    while True:
        try:
            block = os.read(ours, 4096)
        except OSError:  # Linux says so when the other side is closed
            break
        if not block:
            break
        written += block
    os.close(ours)
    assert process.wait() == 0, written.decode()
    return written.decode()


@pytest.mark.parametrize("plain", ["0", "1"])
def test_one_line_on_a_terminal_and_none_from_the_cache(plain, tmp_path):
    told = on_terminal(FIT, tmp_path, FASTEM_PLAIN_NUMBA=plain)
    assert told.count("\n") == 1
    assert "compiling kernels for CompoundDirichlet.fit" in told
    assert on_terminal(FIT, tmp_path, FASTEM_PLAIN_NUMBA=plain) == ""


def test_the_logger_silences_it(tmp_path):
    silence = "import logging; logging.getLogger('fastem').setLevel(logging.WARNING)\n"
    assert on_terminal(silence + FIT, tmp_path) == ""


def test_without_a_terminal_only_configured_logging_shows_it(tmp_path):
    def written(code, folder):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / folder)},
        )  # fmt: skip
        return done.stderr

    assert written(FIT, "first") == ""
    configured = "import logging; logging.basicConfig(level=logging.INFO)\n" + FIT
    assert written(configured, "second").count("INFO:fastem:fastem is compiling kernels for") == 1


# In this process ------------------------------------------------------------------------------


@pytest.fixture
def told(caplog, monkeypatch):
    """The messages so far; nobody has patience."""
    monkeypatch.setattr(notices, "_PATIENCE", 0.0)
    caplog.set_level(logging.INFO, logger="fastem")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "fastem"]


class Waiting(fastem.GaussianMixture):
    """An estimator whose method compiles kernels of a folder."""

    def compile(self, notice, folder="mixture"):
        notice.begin(folder)
        notice.end()
        return self

    def compile_in_a_thread(self, notice):
        thread = threading.Thread(target=Waiting._compile_there, args=(notice,))
        thread.start()
        thread.join()

    @staticmethod
    def _compile_there(notice):
        notice.begin("mixture")
        notice.end()

    def compile_twice(self, notice):
        self.compile(notice)
        self.compile_in_a_thread(notice)
        self.compile(notice, "families")


def test_one_line_for_a_call_and_its_threads(told):
    notice = CompilingNotice()
    Waiting().compile_twice(notice)
    Waiting().compile_twice(notice)
    (message,) = told()
    assert "Waiting(covariance_type='full').compile_twice" in message


def test_another_setting_or_method_is_another_thing(told):
    notice = CompilingNotice()
    Waiting().compile(notice)
    Waiting(covariance_type="diag").compile(notice)
    Waiting().compile_twice(notice)
    assert len(told()) == 3


def test_kernels_that_no_estimator_calls_go_by_their_folder(told):
    notice = CompilingNotice()
    for _ in range(2):
        notice.begin("kalman")
        notice.end()
    (message,) = told()
    assert "for Kalman filters" in message


def test_what_is_compiled_at_once_is_not_worth_a_word(told, monkeypatch):
    monkeypatch.setattr(notices, "_PATIENCE", 60.0)
    Waiting().compile(CompilingNotice())
    assert told() == []


def test_short_waits_add_up(told, monkeypatch):
    monkeypatch.setattr(notices, "_PATIENCE", 1.0)
    clock = iter(np.arange(0.0, 20.0, 0.3))
    monkeypatch.setattr(notices.time, "monotonic", lambda: next(clock))
    notice, estimator = CompilingNotice(), Waiting()
    for _ in range(6):
        estimator.compile(notice)
    assert len(told()) == 1


def test_workers_say_nothing(told, monkeypatch):
    monkeypatch.setattr("fastem.parallel.in_worker", lambda: True)
    Waiting().compile(CompilingNotice())
    assert told() == []
