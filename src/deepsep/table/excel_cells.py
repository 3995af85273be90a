"""Cells of an Excel sheet: values as Excel takes them, never a formula, and how many fit."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd
from openpyxl.styles import Alignment, Font, PatternFill
from openpyxl.utils import get_column_letter

from deepsep.errors import DataError

MAX_SHEET_ROWS, MAX_SHEET_COLUMNS = 1_048_575, 16_384  # rows below the header
BOLD_FONT = Font(bold=True)
WRAPPED_TEXT = Alignment(wrap_text=True, vertical="top")
PERCENT_FORMAT = "0.0%"


def fits(n_rows: int, n_columns: int) -> bool:
    """Whether a table fits on a sheet."""
    return n_rows <= MAX_SHEET_ROWS and n_columns <= MAX_SHEET_COLUMNS


def check_fits(n_rows: int, n_columns: int, what: str, cure: str) -> None:
    """Raise if a table does not fit on a sheet."""
    if n_rows > MAX_SHEET_ROWS:
        raise DataError(f"{what} has more than {MAX_SHEET_ROWS:,} rows, the most that an Excel sheet holds. {cure}")
    if n_columns > MAX_SHEET_COLUMNS:
        raise DataError(f"{what} has {n_columns:,} columns; an Excel sheet holds {MAX_SHEET_COLUMNS:,}. {cure}")


def cell_value(value: Any) -> Any:
    """Return a value as a cell holds it; what Excel has no type for becomes text, and a missing value None.

    Examples
    --------
    >>> cell_value("=1+1"), cell_value(float("nan")), cell_value(12345678901234567890), cell_value(True)
    ('=1+1', None, '12345678901234567890', True)
    """
    whole = 10**15  # Excel keeps 15 digits: longer whole numbers, such as identifiers, are text
    first_day = datetime(1900, 3, 1)  # Excel's calendar has a 29 February 1900, so earlier dates are text
    no_xml = "[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]"  # characters that no workbook may contain
    if value is None or value is pd.NA or value is pd.NaT or value != value:
        return None
    if isinstance(value, pd.Timestamp):
        value = value.to_pydatetime(warn=False)
    elif hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < whole else str(value)
    if isinstance(value, float):
        return value if abs(value) < float("inf") else str(value)
    if isinstance(value, Decimal) and value.is_finite() and len(value.as_tuple().digits) <= 15:
        return float(value)
    if isinstance(value, datetime):
        return value if value.tzinfo is None and value >= first_day else value.isoformat(" ")
    if isinstance(value, date):
        return value if value >= first_day.date() else value.isoformat()
    return _fitting(re.sub(no_xml, "\ufffd", str(value)))


def _fitting(text: str) -> str:
    """Return a text cut to what a cell holds, with an ellipsis."""
    characters = 32_767  # most characters of a cell, as UTF-16 counts them
    if len(text) * 2 <= characters or len(text.encode("utf-16-le")) <= 2 * characters:
        return text
    return text.encode("utf-16-le")[: 2 * (characters - 1)].decode("utf-16-le", "ignore") + "…"


def fill(cell: Any, value: Any, number_format: str | None = None) -> Any:
    """Write a value to a cell, and return the cell; text is text, also if it starts with "=" or is "#N/A"."""
    value = cell_value(value)
    cell.value = value
    if isinstance(value, str):
        cell.data_type = "s"
    elif number_format is not None and value is not None:
        cell.number_format = number_format
    return cell


def save_book(book: Any, place: Path) -> None:
    """Write a workbook to a file, at once: an archive on a disk that is full would complain once more when it goes."""
    content = BytesIO()
    book.save(content)
    place.write_bytes(content.getvalue())


def as_header(cell: Any) -> Any:
    """Make a cell one of a header, and return it."""
    cell.font, cell.alignment = BOLD_FONT, WRAPPED_TEXT
    cell.fill = PatternFill("solid", fgColor="E7ECF5")
    return cell


def set_widths(sheet: Any, widths: list[float]) -> None:
    """Set the width of each column, in characters."""
    for j, width in enumerate(widths, start=1):
        sheet.column_dimensions[get_column_letter(j)].width = width


def width_of(name: str) -> float:
    """Return the width for a column of short values under a header."""
    return float(min(max(len(name) + 4, 11), 40))
