"""Cells of text to columns of numbers, truth values, dates or text; and the columns of labels and identifiers."""

from __future__ import annotations

from typing import Any, Literal

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from deepsep.table.dates import ISO_DATE, DateColumn
from deepsep.table.numbers import NumberStyle, plain_numbers

ColumnType = Literal["number", "boolean", "date", "text"]

# What means a missing value in a feature: the words of pandas. In a column of labels only an empty cell does.
MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A"),
    *("NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
MOSTLY = 0.9  # a column with at least this part of numbers is one of numbers; other words in it are missing values
LEADING_ZERO = r"^[+-]?0\d"
WHOLE = r"^-?(0|[1-9]\d{0,17})$"
WHOLE_FLOAT = r"^-?(0|[1-9]\d{0,14})(\.0+)?$"


def trimmed(cells: Any) -> Any:
    """Return cells without blanks around them; null where a word stands for a missing value."""
    cells = pc.utf8_trim_whitespace(cells)
    return pc.if_else(pc.is_in(cells, pa.array(MISSING)), pa.scalar(None, pa.string()), cells)


def typed(cells: Any, name: str, *, wanted: ColumnType | None, delimiter: str) -> Any:
    """Return a column of text as what it holds, or as what is wanted.

    Parameters
    ----------
    cells : ChunkedArray of string
    name : str
        Of the column, for messages.
    wanted : "number", "boolean", "date", "text" or None
        None: what the cells look like.
    delimiter : str
        Between the values of the file: it tells a decimal comma from one between thousands.
    """
    cells = trimmed(cells)
    given = pc.drop_null(cells)
    if wanted == "text" or (not len(given) and wanted is None):
        return cells
    if wanted in (None, "boolean"):
        lower = pc.utf8_lower(cells)
        if _all(pc.is_in(pc.utf8_lower(given), pa.array(["true", "false"]))):
            return pc.equal(lower, "true")
    if wanted == "date" or (wanted is None and _all(pc.match_substring_regex(given, ISO_DATE))):
        dates = DateColumn(name)
        dates.look(cells)
        if wanted is not None or dates.strays < dates.given:  # else no day of the calendar: text
            dates.tell(wanted=wanted is not None)
            return dates.read(cells)
    if wanted in (None, "number"):
        numbers = _numbers(cells, name, wanted, delimiter)
        if numbers is not None:
            return numbers
    return cells


def _numbers(cells: Any, name: str, wanted: str | None, delimiter: str) -> Any:
    """Return the cells as numbers; None if they are not mostly numbers."""
    if wanted is None and pc.any(pc.match_substring_regex(cells, LEADING_ZERO)).as_py():
        return None  # a code such as 01234, not a quantity
    numbers = plain_numbers(cells)
    if numbers is not None:
        return numbers
    style = NumberStyle(name, delimiter)
    style.look(cells)
    if wanted is None and style.strays > (1 - MOSTLY) * style.given:
        return None
    style.tell(wanted=wanted is not None)
    return style.read(cells)


def labels_of(column: pd.Series[Any], *, typed: bool = False) -> pd.Series[Any]:
    """Return a column of labels: empty cells as missing, whole numbers as integers, all else as it is.

    "NA", "None" and "nan" are names like any other. Whole numbers that were written as 1.0 because some labels are
    missing are integers again. Text stays text where the file itself says that it is (``typed``).

    Examples
    --------
    >>> labels_of(pd.Series(["NA", "", "gold"])).isna().tolist()
    [False, True, False]
    >>> labels_of(pd.Series(["1.0", "", "2.0"])).tolist()
    [1, <NA>, 2]
    """
    if pd.api.types.is_bool_dtype(column) or isinstance(column.dtype, pd.CategoricalDtype):
        return column
    if pd.api.types.is_numeric_dtype(column):
        given = column.dropna()
        whole = bool((given % 1 == 0).all())
        return column.astype("Int64" if column.isna().any() else "int64") if whole and len(given) else column
    kinds = {type(value) for value in column.dropna().unique()}
    if not kinds <= {str}:
        return column
    text = column.str.strip()
    text = text.mask(text == "")
    given = text.dropna()
    if not typed and len(given) and given.str.fullmatch(WHOLE_FLOAT).all():
        numbers = text.str.replace(r"\.0+$", "", regex=True)
        return numbers.astype("Int64") if text.isna().any() else numbers.astype("int64")
    return text


def identifiers_of(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column of identifiers: integers if all are plain ones, otherwise the text as it stands, as in "007"."""
    if not pd.api.types.is_string_dtype(column) or column.isna().any():
        return column
    text = column.str.strip()
    return text.astype("int64") if len(text) and text.str.fullmatch(WHOLE).all() else text


def _all(mask: Any) -> bool:
    return bool(pc.all(mask).as_py())
