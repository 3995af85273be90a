"""The command line, called in this process or as a process of its own."""

import contextlib
import os
import select
import struct
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from deepsep.cli import app

PATIENCE = 600  # seconds: nothing waits so long but on a machine that is far too busy
SHORT = ("--method", "deepsep", "--set", "rounds=1", "--set", "initial_epochs=5")


def run(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def deepsep_process(*arguments: object, **settings) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deepsep", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **settings)


def open_terminal(columns: int = 200) -> tuple[int, int]:
    """Return our end and the other end of a terminal."""
    fcntl, pty, termios = (pytest.importorskip(name) for name in ("fcntl", "pty", "termios"))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 30, columns, 0, 0))
    return ours, theirs


def read_terminal(terminal: int, until: bytes | None = None) -> bytes:
    """Return what a terminal shows up to a word, or everything until its last process ends."""
    shown = b""
    with contextlib.suppress(OSError):  # Linux raises it once the other end is closed
        while until is None or until not in shown:
            if not select.select([terminal], [], [], PATIENCE)[0]:
                pytest.fail(f"the terminal was silent for {PATIENCE} seconds after {shown[-500:]!r}")
            if not (more := os.read(terminal, 1 << 16)):
                break
            shown += more
    return shown
