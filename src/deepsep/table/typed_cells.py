"""Cells of a table as typed columns, labels and identifiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from deepsep.core.column_kinds import ColumnType
from deepsep.table.column_types import identifiers_of, labels_of, trimmed, typed
from deepsep.table.columns import convert, cut_long_cells
from deepsep.table.dates import DateColumn
from deepsep.table.locations import find_column
from deepsep.table.numbers import DECIMAL_COMMA, NumberStyle


def tidied(
    frame: pd.DataFrame, kind: str, label: str | None, id: str | None, types: Mapping[str, ColumnType]
) -> pd.DataFrame:
    """Return the rows of a table of some kind with labels, identifiers and types as they were asked for."""
    if label is not None:
        find_column(frame.columns, label, "label column")
        frame[label] = labels_of(frame[label], typed=kind not in ("text", "excel"))
    if id is not None:
        find_column(frame.columns, id, "id column")
        if kind == "text":  # other formats store the types
            frame[id] = identifiers_of(frame[id])
    for name, wanted in types.items():
        find_column(frame.columns, name, setting="types")
        if wanted == "text" and name not in (label, id):
            frame[name] = convert(frame[name], "text").astype(
                "category"
            )  # so that digits are not read as numbers later
    return cut_long_cells(frame, apart=(label, id))


def typed_table(
    table: Any,
    delimiter: str,
    types: Mapping[str, ColumnType],
    unconverted: Sequence[str | None],
    dayfirst: bool | None = None,
    *,
    known: Mapping[str, NumberStyle | DateColumn] | None = None,
) -> Any:
    """Return a table of text cells as an Arrow table of typed columns.

    If the table is part of a file, ``known`` holds the columns that were examined over the whole file.
    """
    columns = {}
    for name in table.column_names:
        if name in unconverted:
            columns[name] = table[name]
        elif known is not None and name in known:
            columns[name] = known[name].read(trimmed(table[name]))
        else:
            wanted = types.get(name)
            columns[name] = typed(table[name], name, wanted=wanted, delimiter=delimiter, dayfirst=dayfirst)
    return pa.table(columns)


def sheet_frame(
    cells: pd.DataFrame,
    label: str | None,
    id: str | None,
    types: Mapping[str, ColumnType],
    dayfirst: bool | None,
) -> pd.DataFrame:
    """Return cells of a sheet as typed columns; text among them is read as in a text file."""
    columns = {}
    for name, column in cells.items():
        if column.map(lambda value: isinstance(value, str)).any():
            text = pa.chunked_array([pa.array(_as_text(str(name), column), pa.string())])
            table = pa.table({name: text})
            columns[name] = typed_table(table, "\t", types, (label, id), dayfirst).to_pandas()[name]
        else:
            columns[name] = column.infer_objects()
    return pd.DataFrame(columns)


def _as_text(name: str, column: pd.Series[Any]) -> list[str | None]:
    """Return cells as text, real numbers with the decimal mark of the numbers that are written as text."""
    words = [value if isinstance(value, str) else None for value in column]
    style = NumberStyle(name, "\t")
    style.examine(trimmed(pa.chunked_array([pa.array(words, pa.string())])))
    comma = style.style == DECIMAL_COMMA

    def text(value: Any) -> str | None:
        if pd.isna(value):
            return None
        if isinstance(value, float):
            return str(int(value)) if value.is_integer() else str(value).replace(".", "," if comma else ".")
        return str(value)

    return [word if word is not None else text(value) for word, value in zip(words, column, strict=True)]
