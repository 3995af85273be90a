"""Files of a folder, read with a check of size and hash."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deepsep.errors import ModelFileError


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
