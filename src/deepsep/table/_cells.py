"""Cells of text to columns of numbers, truth values, dates or text; and the columns of labels and identifiers."""

from __future__ import annotations

from typing import Any, Literal

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from deepsep.errors import DataError
from deepsep.table._notice import notice

ColumnType = Literal["number", "boolean", "date", "text"]

# What means a missing value in a feature: the words of pandas. In a column of labels only an empty cell does.
MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A"),
    *("NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
MOSTLY = 0.9  # a column with at least this part of numbers is one of numbers; other words in it are missing values
LEADING_ZERO = r"^[+-]?0\d"
DECIMAL_COMMA = r"^[+-]?(\d+(\.\d{3})*(,\d+)?|,\d+)([eE][+-]?\d+)?$"
THOUSANDS = r"^[+-]?(0|[1-9]\d{0,2}(,\d{3})*)(\.\d+)?$"
ISO_DATE = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?$"
WHOLE = r"^-?(0|[1-9]\d{0,17})$"
WHOLE_FLOAT = r"^-?(0|[1-9]\d{0,14})(\.0+)?$"


def typed(cells: Any, name: str, *, wanted: ColumnType | None, delimiter: str, first_row: int) -> Any:
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
    first_row : int
        Number of the first row, for messages.
    """
    cells = pc.utf8_trim_whitespace(cells)
    cells = pc.if_else(pc.is_in(cells, pa.array(MISSING)), pa.scalar(None, pa.string()), cells)
    given = pc.drop_null(cells)
    if wanted == "text" or (not len(given) and wanted is None):
        return cells
    if wanted in (None, "boolean"):
        lower = pc.utf8_lower(cells)
        if _all(pc.is_in(pc.utf8_lower(given), pa.array(["true", "false"]))):
            return pc.equal(lower, "true")
    if wanted in (None, "date") and _all(pc.match_substring_regex(given, ISO_DATE)):
        dates = pd.to_datetime(cells.to_pandas(), format="ISO8601", utc=True, errors="coerce").dt.tz_localize(None)
        return pa.chunked_array([pa.array(dates, from_pandas=True)])
    if wanted in (None, "number"):
        numbers = _numbers(cells, given, name, wanted, delimiter, first_row)
        if numbers is not None:
            return numbers
    return cells


def _numbers(cells: Any, given: Any, name: str, wanted: str | None, delimiter: str, first_row: int) -> Any:
    """Return the cells as numbers; None if they are not mostly numbers."""
    if wanted is None and pc.any(pc.match_substring_regex(given, LEADING_ZERO)).as_py():
        return None  # a code such as 01234, not a quantity
    for target in (pa.int64(), pa.float64()):
        try:
            return pc.cast(cells, target)
        except pa.ArrowInvalid:
            continue
    bare = pc.replace_substring_regex(cells, r"^\+", "")
    if delimiter != ";" and _all(pc.match_substring_regex(given, THOUSANDS)):
        commas = given.filter(pc.match_substring(given, ","))
        if delimiter != "," and len(commas):
            notice(
                f"column {name!r} holds numbers such as {commas[0].as_py()!r}, whose comma is taken for one between "
                "thousands. If it is a decimal comma, write the file with decimal points."
            )
        return pc.cast(pc.replace_substring(bare, ",", ""), pa.float64())
    if delimiter != "," and _all(pc.match_substring_regex(given, DECIMAL_COMMA)):
        return pc.cast(pc.replace_substring(pc.replace_substring(bare, ".", ""), ",", "."), pa.float64())
    text = cells.to_pandas()
    numbers = pd.to_numeric(text, errors="coerce")
    strays = numbers.isna() & text.notna()
    if wanted is None and strays.sum() > (1 - MOSTLY) * len(given):
        return None
    at = int(strays.to_numpy().argmax())
    words = text[strays].value_counts().index[:3].tolist()
    row = f"first in row {first_row + at}"
    if wanted == "number" and strays.sum() == len(given):  # a share would depend on which rows come together
        raise DataError(
            f"column {name!r} must hold numbers, but none of {len(given)} values is one, such as "
            f"{', '.join(map(repr, words))} ({row})."
        )
    notice(
        f"column {name!r} holds {len(given) - int(strays.sum()):,} numbers and {int(strays.sum()):,} other values such "
        f"as {', '.join(map(repr, words))} ({row}), which are taken as missing."
        # A type that was asked for, or that a model brings along, is not up for choice.
        + ("" if wanted else f" If it is a column of names or codes, pass types={{{name!r}: 'text'}}.")
    )
    return pa.chunked_array([pa.array(numbers.to_numpy(float), from_pandas=True)])


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
