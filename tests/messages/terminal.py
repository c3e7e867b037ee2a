"""What a process writes to standard error when that is a terminal."""

import os
import pty
import re
import struct
import subprocess
import sys
import time

#: What a bar is moved and colored with.
_CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def on_terminal(code, *arguments, columns=120, until=None, signal=None):
    """The text and the exit code of a process that runs ``code``.

    With ``until`` it is sent ``signal`` as soon as it has written this.
    """
    import fcntl
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(
        theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30 if columns else 0, columns, 0, 0)
    )
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stderr=theirs)
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
        if until is not None and until.encode() in written:
            until = None
            time.sleep(0.2)
            process.send_signal(signal)
    os.close(ours)
    return _CONTROL.sub("", written.decode()), process.wait()


def shown(text):
    """The lines as they stand in the end: what a carriage return goes back over is gone."""
    lines = []
    for line in text.replace("\r\n", "\n").split("\n"):
        parts = [part for part in line.split("\r") if part.strip()]
        lines.append(parts[-1].rstrip() if parts else "")
    return [line for line in lines if line]
