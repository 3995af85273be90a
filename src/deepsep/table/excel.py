"""The cells of an Excel sheet, as they are and as typed columns."""

from __future__ import annotations

import zipfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from deepsep.errors import DataError, Setting, missing_package
from deepsep.table.column_types import trimmed, typed
from deepsep.table.locations import MEMORY_GROWTH, check_memory, readable
from deepsep.table.numbers import DECIMAL_COMMA, NumberStyle
from deepsep.table.source import Types
from deepsep.table.text import names_in


def read_cells(path: Path, sheet: str | int, skip_rows: int = 0, max_bytes: int | None = None) -> pd.DataFrame:
    """Return the rows below the header, without empty rows and columns; every cell as it is, None if it is empty."""
    cells = _filled_cells(path, sheet, skip_rows, max_bytes)
    header = names_in(cells.iloc[0])
    if len(cells) < 2:
        raise DataError(f"{path}: sheet {sheet!r} has a header ({', '.join(header[:5])}) but no rows.")
    return cells.iloc[1:].reset_index(drop=True).set_axis(header, axis=1)


def lines_of_table(path: Path, sheet: str | int, skip_rows: int = 0) -> list[int]:
    """Return the numbers, from 1 on, of the lines of a sheet that hold the header and the rows of its table."""
    return [int(line) + skip_rows + 1 for line in _filled_cells(path, sheet, skip_rows, None).index]


def _filled_cells(path: Path, sheet: str | int, skip_rows: int, max_bytes: int | None) -> pd.DataFrame:
    """Return the header and the rows of a sheet, without empty rows and columns."""
    if find_spec("openpyxl") is None:
        raise missing_package(f"{path} is an Excel file. Reading it", "openpyxl")
    _check_archive(path, max_bytes)
    with pd.ExcelFile(path, engine="openpyxl") as book:
        names = [str(name) for name in book.sheet_names]
        if not names:
            raise DataError(f"{path} has no sheet with cells, only charts. Name a workbook that holds the table.")
        if sheet not in names and not (isinstance(sheet, int) and 0 <= sheet < len(names)):
            raise DataError(
                f"{path}: {{sheet}} cannot be read, since there is no such sheet. Its sheets are {names}.",
                sheet=Setting("sheet", sheet),
            )
        cells = pd.read_excel(book, sheet, header=None, dtype=object, keep_default_na=False, skiprows=skip_rows)
    cells = cells.mask((cells == "") | cells.isna(), None).dropna(how="all").dropna(how="all", axis=1)
    if cells.empty:
        raise DataError(f"{path}: sheet {sheet!r} is empty. Name another one with {{sheet}}.", sheet=Setting("sheet"))
    return cells


def sheet_names(path: Path, max_bytes: int | None = None) -> list[str]:
    """Return the names of the sheets of a workbook."""
    with readable(path):
        _check_archive(path, max_bytes)
        with pd.ExcelFile(path, engine="openpyxl") as book:
            return [str(name) for name in book.sheet_names]


def sheets_with(path: Path, column: str, skip_rows: int = 0) -> list[str]:
    """Return the names of the sheets whose table has a column."""
    found = []
    for sheet in sheet_names(path):
        with suppress(DataError):
            found += [sheet] if column in read_cells(path, sheet, skip_rows).columns else []
    return found


def _check_archive(path: Path, max_bytes: int | None) -> None:
    """Raise if a workbook needs too much memory, or defines entities, which Excel never does and bombs do."""
    start = 1 << 16  # bytes in which a definition of entities is sought; it precedes everything else
    unpacked_growth = 3.0  # bytes of memory needed per byte of an unpacked workbook
    with zipfile.ZipFile(path) as archive:
        unpacked = sum(file.file_size for file in archive.infolist())
        check_memory(path, max(path.stat().st_size * MEMORY_GROWTH["excel"], unpacked * unpacked_growth), max_bytes)
        for file in archive.infolist():
            if file.filename.endswith((".xml", ".rels")):
                with archive.open(file) as part:
                    if b"<!DOCTYPE" in part.read(start).replace(b"\0", b"").upper():
                        raise DataError(
                            f"{path}: its part {file.filename} defines entities, which Excel never writes; it may be "
                            "made to exhaust the memory, and is not opened. Ask where it comes from."
                        )


def sheet_frame(
    cells: pd.DataFrame, label: str | None, id: str | None, types: Types, dayfirst: bool | None
) -> pd.DataFrame:
    """Return cells of a sheet as typed columns; text among them is read as in a text file."""
    columns = {}
    for name, column in cells.items():
        if column.map(lambda value: isinstance(value, str)).any():
            text = pa.chunked_array([pa.array(_as_text(str(name), column), pa.string())])
            if name not in (label, id):
                text = typed(text, str(name), wanted=types.get(str(name)), delimiter="\t", dayfirst=dayfirst)
            columns[name] = pa.table({"": text}).to_pandas()[""]
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
