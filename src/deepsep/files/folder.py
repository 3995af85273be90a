"""Files of a folder, read with a check of size and hash, and written completely or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Container, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from deepsep.errors import ModelFileError
from deepsep.files.leftovers import hidden_name, remove_leftovers


def sha256(data: bytes) -> str:
    """Return the hash of a file's content."""
    return hashlib.sha256(data).hexdigest()


def read_file(root: Path, name: str) -> bytes:
    """Return the content of a file in the folder, which must be a regular file and not a link."""
    try:
        place = root
        for part in name.split("/"):
            place = place / part
            if stat.S_ISLNK(place.lstat().st_mode):
                raise ModelFileError(
                    f"{place} is a link. Replace it with the file: a model's files must be in its folder."
                )
        if not stat.S_ISREG(place.lstat().st_mode):
            raise ModelFileError(f"{place} is not a file. Restore it, or save the model again.")
        return place.read_bytes()
    except FileNotFoundError as error:
        raise ModelFileError(f"{root / name} is missing. Restore it, or save the model again.") from error
    except OSError as error:
        raise ModelFileError(f"{root / name} cannot be read: {error}.") from error


def read_checked(root: Path, name: str, entry: Mapping[str, Any]) -> bytes:
    """Return the content of a file, or raise if its size or hash differs from its entry in the manifest."""
    data = read_file(root, name)
    if len(data) != entry["size"]:
        raise ModelFileError(
            f"{root / name} has {len(data)} bytes instead of {entry['size']}: it is truncated or another file. "
            "Restore it, or save the model again."
        )
    if sha256(data) != entry["sha256"]:
        raise ModelFileError(
            f"{root / name} was edited or damaged: its hash does not match. Restore it, or save again."
        )
    return data


def read_folder(root: Path) -> dict[str, bytes]:
    """Return the content of every file below a folder."""
    return {file.relative_to(root).as_posix(): file.read_bytes() for file in root.rglob("*") if file.is_file()}


def install(files: Mapping[str, bytes | Path], target: Path, own: Container[str]) -> None:
    """Write the files next to the target folder and move them into place; if anything fails, nothing changes.

    A file is given by its content or by its present path. Files of an existing folder are replaced if their name is in
    ``own``, and kept otherwise.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(target)
    new, old = hidden_name(target, "new"), hidden_name(target, "old")
    try:
        for name, data in files.items():
            _write(new / name, data)
        for folder in {(new / name).parent for name in files}:
            _sync(folder)
        _swap(new, old, target, own)
        _sync(target.parent)
    finally:
        shutil.rmtree(new, ignore_errors=True)
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)


def replace_file(target: Path, data: bytes) -> None:
    """Write a file completely or not at all; an earlier file is replaced, and its permissions are kept."""
    target.parent.mkdir(parents=True, exist_ok=True)
    new = hidden_name(target, "new")
    try:
        _write(new, data)
        if target.exists():
            shutil.copymode(target, new)
        os.replace(new, target)
        _sync(target.parent)
    finally:
        new.unlink(missing_ok=True)


def _swap(new: Path, old: Path, target: Path, own: Container[str]) -> None:
    if not target.exists():
        os.rename(new, target)
        return
    try:
        os.rename(target, old)
        others = [item.name for item in old.iterdir() if item.name not in own]
        for name in others:
            os.rename(old / name, new / name)
        os.rename(new, target)
    except BaseException:
        if old.exists() and not target.exists():
            for item in new.iterdir():
                if item.name not in own:
                    os.rename(item, old / item.name)
            os.rename(old, target)
        raise


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
