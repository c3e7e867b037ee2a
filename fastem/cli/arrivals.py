"""Lines of text as they come, from a file, a pipe or a terminal."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import os
import queue
import stat
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

from .errors import Failure

__all__ = ["lines", "opened", "standard_input", "unpacking"]

_BLOCK = 1 << 16
#: Blocks that are read ahead, and seconds between two looks at whether to stop.
_AHEAD, _LOOK = 16, 0.2


def standard_input() -> BinaryIO:
    """Bytes of standard input; raises :class:`Failure` if it is closed."""
    if sys.stdin is None:
        raise Failure("standard input is closed.")
    return sys.stdin.buffer


def opened(source: str) -> BinaryIO:
    """A file for reading, unpacked if its name says that it is packed: see :func:`unpacking`."""
    return (gzip.open if source.endswith(".gz") else open)(source, "rb")


@contextlib.contextmanager
def unpacking(source: str):
    """Raise :class:`Failure` for what gzip says of a file that is not whole or of another kind."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise Failure(f"{source} cannot be unpacked: {error}.") from error


def lines(source: str, stopped: Callable[[], bool]) -> Iterator[list[str] | None]:
    """Lists of whole lines with their ends; None whenever they have been waited for, for a moment.

    It ends with the input, or soon after ``stopped()``, with what has arrived until then.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    beginning = ""
    for block in _blocks(source, stopped):
        if block is None:
            yield None
            continue
        try:
            text = beginning + decoder.decode(block)
        except UnicodeDecodeError as error:
            raise Failure(f"{source} is not text in UTF-8: {error.reason}.") from error
        *whole, beginning = text.replace("\r\n", "\n").split("\n")
        if whole:
            yield [f"{line}\n" for line in whole]
    if beginning.strip() and not stopped():
        yield [beginning]


def _blocks(source, stopped):
    if source != "-" and stat.S_ISREG(os.stat(source).st_mode):
        with unpacking(source), opened(source) as file:
            while not stopped() and (block := file.read(_BLOCK)):
                yield block
        return
    # Python's buffered standard input has a lock that a thread would keep to the end.
    descriptor = standard_input().fileno() if source == "-" else os.open(source, os.O_RDONLY)
    arrived: queue.Queue = queue.Queue(_AHEAD)

    def read():
        try:
            while block := os.read(descriptor, _BLOCK):
                arrived.put(block)
            arrived.put(b"")
        except OSError as error:
            error.filename = source
            arrived.put(error)

    threading.Thread(target=read, daemon=True).start()
    patience = _LOOK
    while not stopped():
        began = time.monotonic()
        try:
            block = arrived.get(timeout=max(patience, 0.0))
        except queue.Empty:
            patience = _LOOK
            yield None
            continue
        # Lines that come one by one, each soon after the last, are waited for as well.
        patience -= time.monotonic() - began
        if isinstance(block, OSError):
            raise block
        if not block:
            return
        yield block
    # As much as there is: a stream without end would go on while it is learned from.
    for _ in range(arrived.qsize()):
        block = arrived.get()
        if not isinstance(block, bytes) or not block:
            return
        yield block
