"""The manifest of a saved model: the contents of the folder, the versions that wrote it, and a hash of every file."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import stat
import sys
import warnings
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from deepsep._version import __version__
from deepsep.errors import DeepSepWarning, ModelFileError, VersionError

MODEL_FORMAT = "deepsep-model"
MODEL_FORMAT_VERSION = 1
MANIFEST_FILE, ARRAYS_FILE, PROFILE_FILE = "manifest.json", "arrays.safetensors", "profile.json"
STEPS_FOLDER, PARTS_FOLDER = "steps", "parts"


def canonical(manifest: Mapping[str, Any]) -> bytes:
    """Return the canonical text of a manifest, the same in all format versions; any other text was edited."""
    return (json.dumps(manifest, indent=1, allow_nan=False) + "\n").encode("ascii")


def versions() -> dict[str, str]:
    """Return the versions of deepsep, Python and the imported packages."""
    used = {name: name for name in ("numpy", "scipy", "torch", "skrub", "lightgbm")}
    used["sklearn"] = "scikit-learn"
    packages = {package: metadata.version(package) for name, package in used.items() if name in sys.modules}
    return {"deepsep": __version__, "python": platform.python_version(), **packages}


def read_manifest(root: Path) -> dict[str, Any]:
    """Return the manifest of a folder, or raise if it was changed since it was written."""
    if not os.path.lexists(root):
        aside = [place.name for place in root.parent.glob(f".{root.name}.*.old")] if root.parent.is_dir() else []
        hint = f" An interrupted save left the earlier model in {aside[0]}; rename it." if aside else ""
        raise ModelFileError(f"{root} does not exist.{hint or ' Check the path.'}")
    if not root.is_dir():
        raise ModelFileError(
            f"{root} is a file; a model saved by deepsep is a folder with a {MANIFEST_FILE}. Name that folder."
        )
    if not os.path.lexists(root / MANIFEST_FILE):
        raise ModelFileError(f"{root} is not a model saved by deepsep: it has no {MANIFEST_FILE}. Check the path.")
    raw = read_file(root, MANIFEST_FILE)
    try:
        manifest = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{root / MANIFEST_FILE} is damaged: {error}. Save the model again.") from error
    if not isinstance(manifest, dict) or manifest.get("format") != MODEL_FORMAT:
        raise ModelFileError(
            f"{root / MANIFEST_FILE} belongs to something else: its format is not {MODEL_FORMAT!r}. Check the path."
        )
    try:
        content = {key: value for key, value in manifest.items() if key != "sha256"}
        intact = canonical(manifest) == raw and sha256(canonical(content)) == manifest["sha256"]
    except (ValueError, KeyError, RecursionError):
        intact = False
    if not intact:
        raise ModelFileError(
            f"{root / MANIFEST_FILE} was edited or damaged: its hash does not match. Restore it, or save the model "
            "again."
        )
    return manifest


def check_versions(root: Path, manifest: Mapping[str, Any]) -> None:
    """Raise if this version cannot read the format; warn if another version wrote the model."""
    writers, version = manifest["versions"], manifest["format_version"]
    if version > MODEL_FORMAT_VERSION:
        raise VersionError(
            f"{root} was written by deepsep {writers['deepsep']} in format {version}; deepsep {__version__} "
            f"reads formats up to {MODEL_FORMAT_VERSION}. Upgrade deepsep."
        )
    if version != MODEL_FORMAT_VERSION:
        raise VersionError(f"{root} has format {version!r}, which no version of deepsep writes. Save the model again.")
    holds_steps = any(name.endswith(".gz") for name in manifest["files"])  # or a classifier of another library
    for package in ("deepsep", "scikit-learn") if holds_steps else ("deepsep",):
        here = versions()[package]
        if here.split(".")[:2] != writers[package].split(".")[:2]:
            warnings.warn(
                f"{root} was written with {package} {writers[package]}, but {package} {here} is installed: predictions "
                "may differ. Use the version that wrote it, or fit and save the model again.",
                DeepSepWarning,
                stacklevel=3,
            )


def check_model_folder(path: str | os.PathLike[str]) -> Path:
    """Return the resolved path, or raise if a model must not be written there."""
    target = Path(os.path.realpath(path))  # Path.resolve has an error of its own for a loop of links
    if target.exists() and not target.is_dir():
        raise ModelFileError(f"{target} is a file, and it is not overwritten. Save to another path.")
    if target.is_dir() and any(target.iterdir()):
        try:
            ours = json.loads(read_file(target, MANIFEST_FILE)).get("format") == MODEL_FORMAT
        except (ModelFileError, ValueError, AttributeError, RecursionError):
            ours = False
        if not ours:
            raise ModelFileError(
                f"{target} holds files that are not a deepsep model, and they are not overwritten. Save to another "
                "path, or empty the folder."
            )
    return target


def describe_earlier(target: Path) -> str | None:
    """Return the kind of the model in a folder and the time at which it was written; None without a model."""
    try:
        manifest = json.loads(read_file(target, MANIFEST_FILE))
        return f"{manifest['estimator']['kind']} of {manifest['created'][:16].replace('T', ' ')} UTC"
    except (ModelFileError, ValueError, LookupError, TypeError, RecursionError):
        return None


# -- files of the folder ---------------------------------------------------------------------------------------


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
