"""Models of tables: fit one to a file or a DataFrame, open a saved one.

Names load on first use, since pandas, scikit-learn and skrub take seconds to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepsep._lazy import lazy_names

if TYPE_CHECKING:
    from deepsep.model.fitting import fit
    from deepsep.model.table_model import TableModel, for_table, load

__all__ = ["TableModel", "fit", "for_table", "load"]

_HOME = {
    "TableModel": "deepsep.model.table_model",
    "fit": "deepsep.model.fitting",
    "for_table": "deepsep.model.table_model",
    "load": "deepsep.model.table_model",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
