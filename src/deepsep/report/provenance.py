"""Provenance of a page: settings, versions, command and date."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from sklearn.base import clone

from deepsep._version import __version__
from deepsep.core.model_parts import split_model


def changed_settings(estimator: Any) -> dict[str, Any]:
    """Return the settings that differ from the defaults of the class, as plain values."""
    try:
        usual = type(estimator)().get_params(deep=False)
    except TypeError:  # an adapter, whose estimator is a setting
        usual = {}
    own = clone(estimator).get_params(deep=False)
    skipped = ("random_state", "verbose", "callback", "twins", "learning_curve", "n_jobs")
    return {k: plain_value(v) for k, v in own.items() if k not in skipped and repr(v) != repr(usual.get(k, "–"))}


def plain_value(value: Any) -> Any:
    """Return a value for JSON: numbers, text, booleans and None as they are, anything else as text."""
    return value if isinstance(value, int | float | str | bool | None) else " ".join(str(value).split())


def rows_in_model(model: Any) -> int:
    """Return the number of training rows that a saved model contains: those in contexts and graphs of its networks."""
    estimator = split_model(model)[1]
    holders = [estimator, *getattr(estimator, "members_", {}).values()]
    return len({row for each in holders for name in ("context_", "graph_") for row in getattr(each, name, ())})


def made(command: str | None, seconds: float | None = None, model: Any = None) -> dict[str, Any]:
    """Return versions, command, date and duration for the end of a page, and how many rows the saved model contains."""
    versions = {"deepsep": __version__, "Python": platform.python_version()}
    for name in ("numpy", "scikit-learn", "torch", "skrub", "pandas", "lightgbm"):
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
        "rows_in_model": 0 if model is None else rows_in_model(model),
    }
