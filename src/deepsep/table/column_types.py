"""Turn columns of text cells into numbers, booleans, dates or text, and read columns of labels and identifiers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from deepsep.core.column_kinds import ColumnType
from deepsep.errors import LabelError
from deepsep.table.dates import DATE_PATTERN, DateColumn
from deepsep.table.numbers import NumberStyle, plain_numbers

# Words that mean a missing value in a feature (those of pandas). In a column of labels only an empty cell does.
MISSING_WORDS = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A"),
    *("NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
LEADING_ZERO = r"^[+-]?0\d"
WHOLE_NUMBER = r"^-?(0|[1-9]\d{0,17})$"


def trimmed(cells: Any) -> Any:
    """Return cells without surrounding blanks, and null for words that mean a missing value."""
    cells = pc.utf8_trim_whitespace(cells)
    return pc.if_else(pc.is_in(cells, pa.array(MISSING_WORDS)), pa.scalar(None, pa.string()), cells)


def typed(cells: Any, name: str, *, wanted: ColumnType | None, delimiter: str, dayfirst: bool | None = None) -> Any:
    """Return a column of text converted to the type it holds, or to the one that is wanted.

    The delimiter of the file tells a decimal comma from a thousands separator; ``dayfirst`` is that of ``Reading``.
    """
    cells = trimmed(cells)
    given = pc.drop_null(cells)
    if wanted == "text" or (not len(given) and wanted is None):
        return cells
    if wanted in (None, "boolean"):
        lower = pc.utf8_lower(cells)
        if _all(pc.is_in(pc.utf8_lower(given), pa.array(["true", "false"]))):
            return pc.equal(lower, "true")
    if wanted == "date" or (wanted is None and _all(pc.match_substring_regex(given, DATE_PATTERN))):
        dates = DateColumn(name, dayfirst)
        dates.examine(cells)
        if wanted is None and dates.order is None:
            dates.warn_of_ambiguity()
            return cells
        if wanted is not None or dates.n_unreadable < dates.n_values:  # otherwise no cell is a real date: text
            dates.report(wanted=wanted is not None)
            return dates.read(cells)
    if wanted in (None, "number"):
        numbers = _numbers(cells, name, wanted, delimiter)
        if numbers is not None:
            return numbers
    return cells


def _numbers(cells: Any, name: str, wanted: str | None, delimiter: str) -> Any:
    """Return the cells as numbers; None if they are not mostly numbers."""
    mostly = 0.9  # a column with at least this share of numbers is numeric; its other cells are missing values
    if wanted is None and pc.any(pc.match_substring_regex(cells, LEADING_ZERO)).as_py():
        return None  # a code such as 01234, not a quantity
    numbers = plain_numbers(cells)
    if numbers is not None:
        return numbers
    style = NumberStyle(name, delimiter)
    style.examine(cells)
    if wanted is None and style.n_unreadable > (1 - mostly) * style.n_values:
        return None
    style.report(wanted=wanted is not None)
    return style.read(cells)


def labels_of(column: pd.Series[Any], *, typed: bool = False) -> pd.Series[Any]:
    """Return a column of labels: empty cells as missing, whole numbers as integers, everything else unchanged.

    "NA", "None" and "nan" are names like any other. Whole numbers that were written as 1.0 because some labels are
    missing become integers again. Text stays text if the file stores types (``typed``).

    Examples
    --------
    >>> labels_of(pd.Series(["NA", "", "gold"])).isna().tolist()
    [False, True, False]
    >>> labels_of(pd.Series(["1.0", "", "2.0"])).tolist()
    [1, <NA>, 2]
    """
    whole_float = r"^-?(0|[1-9]\d{0,14})(\.0+)?$"
    if pd.api.types.is_bool_dtype(column) or isinstance(column.dtype, pd.CategoricalDtype):
        return column
    if pd.api.types.is_numeric_dtype(column):
        given = column.dropna()
        whole = bool((given % 1 == 0).all())
        return column.astype("Int64" if column.isna().any() else "int64") if whole and len(given) else column
    if column.dtype == object and not column.map(lambda value: isinstance(value, Hashable)).all():
        example = next(value for value in column if not isinstance(value, Hashable))
        raise LabelError(
            f"label column {column.name!r} holds lists or other objects, such as {str(example)[:60]}. A label is a "
            "text, a whole number or true or false: name another column, or write one value per row."
        )
    kinds = {type(value) for value in column.dropna().unique()}
    if not kinds <= {str}:
        return column
    text = column.str.strip()
    text = text.mask(text == "")
    given = text.dropna()
    if not typed and len(given) and given.str.fullmatch(whole_float).all():
        numbers = text.str.replace(r"\.0+$", "", regex=True)
        return numbers.astype("Int64") if text.isna().any() else numbers.astype("int64")
    return text


def identifiers_of(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column of identifiers: integers if all of them are plain integers, otherwise text, such as "007"."""
    if not pd.api.types.is_string_dtype(column) or column.isna().any():
        return column
    text = column.str.strip()
    return text.astype("int64") if len(text) and text.str.fullmatch(WHOLE_NUMBER).all() else text


def _all(mask: Any) -> bool:
    return bool(pc.all(mask).as_py())
