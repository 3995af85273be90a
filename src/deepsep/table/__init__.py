"""Read tables from files, check them for problems, and encode them for an estimator.

Names load on first use, since pandas, pyarrow and skrub take seconds to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepsep._lazy import lazy_names

if TYPE_CHECKING:
    from deepsep.table.join import add_labels, join_labels
    from deepsep.table.quality import check_table
    from deepsep.table.reading import read_table
    from deepsep.table.reading_settings import Reading
    from deepsep.table.sampling import read_sample

__all__ = ["Reading", "add_labels", "check_table", "join_labels", "read_sample", "read_table"]

_HOME = {
    "Reading": "deepsep.table.reading_settings",
    "add_labels": "deepsep.table.join",
    "check_table": "deepsep.table.quality",
    "join_labels": "deepsep.table.join",
    "read_sample": "deepsep.table.sampling",
    "read_table": "deepsep.table.reading",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
