"""Tables: read them from files, look for what would go wrong, and bring them to an estimator.

Names load on first use, since pandas, pyarrow and skrub take seconds to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepsep._lazy import lazy_names

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

__getattr__, __dir__ = lazy_names(__name__, _HOME)
