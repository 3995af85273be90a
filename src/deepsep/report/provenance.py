"""Provenance of a page: versions, command and date."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from deepsep._version import __version__

LIBRARIES = ("numpy", "scikit-learn", "torch", "skrub", "pandas", "lightgbm")


def made(command: str | None, seconds: float | None = None) -> dict[str, Any]:
    """Return the versions, command, date and duration shown at the end of a page."""
    versions = {"deepsep": __version__, "Python": platform.python_version()}
    for name in LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "versions": versions,
        "command": command,
        "date": now,
        "seconds": None if seconds is None else round(seconds, 1),
    }
