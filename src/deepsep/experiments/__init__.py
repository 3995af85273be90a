"""The paper's study on any labelled table, and the same question about one's own labels.

:func:`prepare` lists the fits of an experiment, :func:`run` does those that are not done, :func:`find` gathers what
they say and :func:`write` leaves it in a folder. :func:`compare` holds methods against each other on few labels.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deepsep.experiments._compare import compare
    from deepsep.experiments._run import prepare, run
    from deepsep.experiments._write import find, write

__all__ = ["compare", "find", "prepare", "run", "write"]

_HOME = {
    "compare": "deepsep.experiments._compare",
    "find": "deepsep.experiments._write",
    "prepare": "deepsep.experiments._run",
    "run": "deepsep.experiments._run",
    "write": "deepsep.experiments._write",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'deepsep.experiments' has no attribute {name!r}; it has {', '.join(__all__)}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
