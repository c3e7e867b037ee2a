"""How commands end: exit codes, and errors in one line."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import warnings

__all__ = ["CLOSED_PIPE", "INTERRUPTED", "Failure", "Usage", "check_place", "run", "say"]

#: Exit codes besides 0.
FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130
#: As a shell sees a program that wrote to a pipe nobody reads, such as ``| head``.
CLOSED_PIPE = 141


class Failure(Exception):
    """Data or a model cannot be used."""


class Usage(Exception):
    """The command was given wrongly."""


def check_place(path, *, replaced: bool = False) -> None:
    """Raise, before anything is computed, if --out cannot be written.

    Parameters
    ----------
    path : Path
        What is given.
    replaced : bool, default=False
        Whether a new file takes the place of one that is there, as models do.
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise Failure(f"--out: there is no folder {folder}.")
    if os.path.isdir(target):
        raise Usage(f"--out: {path} is a folder.")
    if replaced or not os.path.exists(target):
        if not os.access(folder, os.W_OK | os.X_OK):
            raise Failure(f"--out: nothing can be written into the folder {folder}.")
    elif not os.access(target, os.W_OK):
        raise Failure(f"--out: {path} cannot be written: permission denied.")


def run(options) -> int:
    """Run a command, and return its exit code; errors are one line on standard error."""
    name = options.command
    with _open_streams(), _warnings_in_one_line(name):
        try:
            code = options.run(options) or 0
            sys.stdout.flush()
            return code
        except KeyboardInterrupt:
            say(name, "interrupted")
            return INTERRUPTED
        except BrokenPipeError:
            # Python flushes standard output once more when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return CLOSED_PIPE
        except Exception as error:
            if options.traceback or os.environ.get("FASTEM_DEBUG"):
                raise
            say(name, _message(error))
            return WRONG_USAGE if _is_wrong_usage(error) else FAILED


def say(name: str, message: str) -> None:
    """One line on standard error, of a command or of all."""
    if sys.stderr is None:  # it is closed, and print would take standard output
        return
    with contextlib.suppress(OSError):
        prefix = f"fastem {name}".rstrip()
        print(f"{prefix}: {' '.join(message.split())}", file=sys.stderr, flush=True)


def _is_wrong_usage(error):
    # scikit-learn's error about a setting, whose module need not have been imported.
    return isinstance(error, Usage) or type(error).__name__ == "InvalidParameterError"


def _message(error):
    """An error in words."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}" if str(error) else "not enough memory"
    expected = (Failure, Usage, ValueError, TypeError, OSError, ImportError, RuntimeError,
                ArithmeticError)  # fmt: skip
    if isinstance(error, expected) and str(error):
        return str(error)
    return (
        f"unexpected error: {type(error).__name__}: {error}. Run it with --traceback, and please "
        "report what it prints"
    )


@contextlib.contextmanager
def _open_streams():
    """Standard output and error, for which Python has None where they are closed."""
    with contextlib.ExitStack() as stack:
        if sys.stdout is None:
            stack.enter_context(contextlib.redirect_stdout(_ClosedOutput()))
        if sys.stderr is None:
            nowhere = stack.enter_context(open(os.devnull, "w"))
            stack.enter_context(contextlib.redirect_stderr(nowhere))
        yield


class _ClosedOutput(io.TextIOBase):
    """Refuses what a command prints."""

    def write(self, text):
        raise Failure("standard output is closed.")


@contextlib.contextmanager
def _warnings_in_one_line(name):
    """Show warnings, and what libraries log, as errors are shown."""
    with warnings.catch_warnings():

        def show(message, category, filename, lineno, file=None, line=None):
            say(name, f"warning: {message}")

        warnings.showwarning = show
        # For what is logged where no logging is configured. A handler would configure it: fastem
        # would log what ``verbose`` and the notice of compiling should show.
        before, logging.lastResort = logging.lastResort, _Logged(name)
        try:
            yield
        finally:
            logging.lastResort = before


class _Logged(logging.Handler):
    """Log records as lines on standard error."""

    def __init__(self, name):
        super().__init__(logging.WARNING)
        self._command = name

    def emit(self, record):
        say(self._command, f"warning: {record.getMessage()}")
