"""Write values to the cells of an Excel sheet."""

from __future__ import annotations

from typing import Any

import pandas as pd
from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE


def fill(cell: Any, value: Any) -> None:
    """Write a value to a cell: text that starts with "=" as text, and what Excel has no cell for as text."""
    if value is None or value is pd.NA or value is pd.NaT or value != value:
        return
    if hasattr(value, "item"):
        value = value.item()
    if not isinstance(value, bool | int | float) and not (isinstance(value, pd.Timestamp) and value.tzinfo is None):
        value = ILLEGAL_CHARACTERS_RE.sub("\ufffd", str(value))
    cell.value = value
    if isinstance(value, str):
        cell.data_type = "s"
