"""Files and folders that are written completely or not at all.

They are written under a hidden name next to the target, by which a later run recognises what killed runs have left.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import secrets
import shutil
import time
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path


@contextmanager
def writing(target: Path) -> Iterator[Path]:
    """Give a ``with`` block the place to write a file to, which replaces the target if the block ends without an error.

    The permissions of an earlier file are kept.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(target)
    new = hidden_name(target, f"new{target.suffix}")
    try:
        yield new
        with open(new, "rb+") as file:
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, new)
        os.replace(new, target)
        _sync(target.parent)
    finally:
        new.unlink(missing_ok=True)


def replace_file(target: Path, content: bytes | str) -> None:
    """Write the content of a file; text in UTF-8."""
    with writing(target) as new:
        new.write_bytes(content.encode() if isinstance(content, str) else content)


def install(files: Mapping[str, bytes | Path], target: Path, own: Container[str]) -> None:
    """Write the files of a folder next to the target, and move them into place; if anything fails, nothing changes.

    A file is given by its content or by its present path. Files of an existing folder are replaced if their name is in
    ``own``, and kept otherwise.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(target)
    new = hidden_name(target, "new")
    try:
        for name, data in files.items():
            _write(new / name, data)
        for folder in {(new / name).parent for name in files}:
            _sync(folder)
        replace_folder(new, target, own)
        _sync(target.parent)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def replace_folder(new: Path, target: Path, own: Container[str] | None = None) -> None:
    """Move a folder to its target, or raise and leave everything as it was.

    Files of an earlier folder are kept unless they are named in ``own``; None replaces all.
    """
    if not target.exists():
        os.rename(new, target)
        return
    old = hidden_name(target, "old")
    try:
        os.rename(target, old)
        for name in [item.name for item in old.iterdir() if own is not None and item.name not in own]:
            os.rename(old / name, new / name)
        os.rename(new, target)
    except BaseException:
        if old.exists() and not target.exists():
            for item in new.iterdir():
                if own is not None and item.name not in own:
                    os.rename(item, old / item.name)
            os.rename(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _write(place: Path, data: bytes | Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(data, Path):
        shutil.copyfile(data, place)
        return
    with open(place, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    with suppress(OSError):  # Windows cannot open folders
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# -- hidden names ----------------------------------------------------------------------------------------------


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
    hidden = r"(?P<process>\d+)-(?P<machine>[0-9a-f]{8})-[0-9a-f]{8}\.(?P<what>new|old)"
    start, found = f".{target.name}.", []
    for left in target.parent.glob(f"{escape(start)}*"):
        rest = re.match(hidden, left.name.removeprefix(start))
        if rest is not None and _is_forgotten(left, rest) and (rest["what"] != "old" or target.exists()):
            found.append(left)
    return found


def _is_forgotten(left: Path, name: re.Match[str]) -> bool:
    """Return whether the process of a file has ended or, if that is unknown, whether the file is a day old."""
    try:
        if os.name != "nt" and name["machine"] == _machine():
            os.kill(int(name["process"]), 0)
            return False
        return time.time() - left.stat().st_mtime > 24 * 3600
    except ProcessLookupError:
        return True
    except OSError:  # the process runs, for another user, or has just removed the file
        return False


def _machine() -> str:
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]
