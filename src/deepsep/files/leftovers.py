"""Hidden names for files that are being written, from which a later run recognises the leftovers of killed runs."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import secrets
import shutil
import time
from glob import escape
from pathlib import Path

HIDDEN_NAME = re.compile(r"(?:(?P<process>\d+)-(?P<machine>[0-9a-f]{8})-)?[0-9a-f]{8}\.(?P<what>new|old)")


def hidden_name(target: Path, what: str) -> Path:
    """Return a new hidden name next to the target, for a file that this process writes ("new") or replaces ("old")."""
    mark = f"{os.getpid()}-{_machine()}-{secrets.token_hex(4)}"
    return target.with_name(f".{target.name}.{mark}.{what}")


def remove_leftovers(target: Path) -> None:
    """Remove the leftovers of killed runs with the same target, but not files that a live run is writing.

    An earlier target that was being replaced ("old") is kept as well, unless there is a target.
    """
    for left in leftovers(target):
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


def leftovers(target: Path) -> list[Path]:
    """Return the files that :func:`remove_leftovers` would remove."""
    start, found = f".{target.name}.", []
    for left in target.parent.glob(f"{escape(start)}*"):
        rest = HIDDEN_NAME.match(left.name.removeprefix(start))
        if rest is not None and _is_forgotten(left, rest) and (rest["what"] != "old" or target.exists()):
            found.append(left)
    return found


def _is_forgotten(left: Path, name: re.Match[str], max_seconds: float = 24 * 3600) -> bool:
    """Return whether the process of a file has ended or, if that is unknown, whether the file is old."""
    if os.name != "nt" and name["machine"] == _machine():
        return not _is_alive(int(name["process"]))
    try:
        return time.time() - left.stat().st_mtime > max_seconds
    except OSError:  # its own run has just removed it
        return False


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it runs, for another user
        return True
    return True


def _machine() -> str:
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]
