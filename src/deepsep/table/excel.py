"""Read the cells of an Excel sheet."""

from __future__ import annotations

import zipfile
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from deepsep.errors import DataError, Setting, missing_package
from deepsep.table.locations import MEMORY_GROWTH, check_memory, readable
from deepsep.table.text import names_in


def read_cells(path: Path, sheet: str | int, skip_rows: int = 0, max_bytes: int | None = None) -> pd.DataFrame:
    """Return the rows below the header, without empty rows and columns; every cell as it is, None if it is empty."""
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
    header = names_in(cells.iloc[0])
    if len(cells) < 2:
        raise DataError(f"{path}: sheet {sheet!r} has a header ({', '.join(header[:5])}) but no rows.")
    return cells.iloc[1:].reset_index(drop=True).set_axis(header, axis=1)


def sheet_names(path: Path, max_bytes: int | None = None) -> list[str]:
    """Return the names of the sheets of a workbook."""
    with readable(path):
        _check_archive(path, max_bytes)
        with pd.ExcelFile(path, engine="openpyxl") as book:
            return [str(name) for name in book.sheet_names]


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
