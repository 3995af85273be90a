"""Tables: read them from files, look for what would go wrong, and bring them to an estimator.

Names load on first use, since pandas, pyarrow and skrub take seconds to import.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deepsep.table._check import check_table
    from deepsep.table._join import join_labels
    from deepsep.table._pipeline import for_table
    from deepsep.table._read import read_table

__all__ = ["check_table", "for_table", "join_labels", "read_table"]

_HOME = {
    "check_table": "deepsep.table._check",
    "for_table": "deepsep.table._pipeline",
    "join_labels": "deepsep.table._join",
    "read_table": "deepsep.table._read",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'deepsep.table' has no attribute {name!r}; it has {', '.join(__all__)}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
