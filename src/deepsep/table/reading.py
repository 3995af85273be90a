"""Read a whole table from a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa

from deepsep.core.checks import with_fields
from deepsep.core.column_kinds import ColumnType
from deepsep.errors import DataError, Setting
from deepsep.table.arrow_frames import to_frame
from deepsep.table.batches import Opened, OpenFiles, TableFile, open_table
from deepsep.table.columns import tidied
from deepsep.table.excel import sheet_frame, sheets_with
from deepsep.table.locations import Named, check_memory, find_column, readable
from deepsep.table.reading_settings import AS_DETECTED, Reading
from deepsep.table.source import ExternalRows, TableInMemory


def read_table(
    path: Named | Opened,
    *,
    label: str | None = None,
    id: str | None = None,
    types: Mapping[str, ColumnType] | None = None,
    max_bytes: int | None = None,
    reading: Reading = AS_DETECTED,
    **fields: Any,
) -> pd.DataFrame:
    r"""Read a table from a CSV, TSV, Parquet, Feather, Excel or SPSS file, from several of one format, or a database.

    The content decides what a file is, not its name. Text files may be compressed (gzip, bz2, xz, zstd, zip); their
    encoding (UTF-8, UTF-16, cp1252) and delimiter (comma, semicolon, tab, bar) are detected. A column of a text file
    holds numbers, booleans, dates or text; codes with leading zeros stay text, and decimal commas, units (€ 17,02 and
    55 %) and dates such as 31.12.2025 are understood. So is text in an Excel file. In an SPSS file, labels of values
    take the place of codes where all values have one. Of a cell of more than 10,000 characters only these are read.

    In features, the usual words ("", "NA", "None", "null", "nan", "N/A" ...) are missing values. **In the column of
    labels only an empty cell is one**, so that a class may be called "NA", "None" or "nan"; and -1 among integers
    means unlabelled, as everywhere.

    Parameters
    ----------
    path : str, path, sequence of them, or Query
        The file; a pattern such as ``"parts/*.csv"``, or a folder of ``.parquet`` files, which are read in the order of
        their names; or several of these, in the order given. All files need the same columns. Or the rows of a
        :class:`deepsep.apps.sql.Query` to a database, sorted by ``id``.
    label : str, optional
        The column of labels.
    id : str, optional
        The column of identifiers, kept as it is: "007" stays "007", and text in a Parquet, Feather or Excel file stays
        text.
    types : dict {column: "number", "boolean", "date" or "text"}, optional
        Types of columns in a text or Excel file that are not what they look like. "text" works for every kind of file:
        codes that look like numbers become categories.
    max_bytes : int, optional
        Most memory that reading may use. None: the environment variable ``DEEPSEP_MAX_BYTES``, or else 60 % of the free
        memory.
    reading : Reading, optional
        How the files are read: ``encoding``, ``delimiter``, ``sheet``, ``skip_rows`` and ``dayfirst``.
    **fields
        Fields of ``reading`` by name, such as ``skip_rows=2``.

    Returns
    -------
    pandas.DataFrame

    Raises
    ------
    DataError
        If the file cannot be read as a table, with the reason, the place and the next step.
    ImportError
        If it is an SPSS file and pyreadstat is not installed.

    Warns
    -----
    DeepSepWarning
        If the file is not in UTF-8, a column of numbers or dates has a few other values, which are then taken as
        missing, or units or dates were read in a way that should be checked.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from deepsep.table import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "people.csv")
    ...     _ = file.write_text("zip;income;segment\n01234;10,5;NA\n98765;NA;\n")
    ...     read_table(file, label="segment")
         zip  income segment
    0  01234    10.5      NA
    1  98765     NaN     NaN
    """
    (reading,) = with_fields("read_table", fields, reading)
    types = check_types(types)
    table = open_table(path, reading, max_bytes)
    if isinstance(table, TableInMemory):
        return tidied(table.frame.reset_index(drop=True), "frame", label, id, types)
    with readable(table):
        if isinstance(table, ExternalRows):
            return _read_external(table, label, id, types, max_bytes)
        for name, role in ((label, "label column"), (id, "id column")):
            if name is not None:
                _find_column(table, name, role)
        check_memory(table, sum(file.bytes_needed for file in table.tables), max_bytes)
        if table.in_parts:
            pieces = (piece for file in table.tables for piece in file.pieces(1_000_000, table.names))
            return typed_rows(joined(table, table.names, pieces), table.tables[0], label, id, types)
        frame = pd.concat([file.cells for file in table.tables], ignore_index=True)
        if not len(frame):
            raise _no_rows(table, table.names)
        if table.kind == "excel":
            frame = sheet_frame(frame, label, id, types, table.tables[0].reading.dayfirst)
        return tidied(frame, table.kind, label, id, types)


def _find_column(table: OpenFiles, name: str, role: str) -> None:
    """Raise if a table has no such column; of a workbook, name the sheets that have it."""
    try:
        find_column(table.names, name, role)
    except DataError as error:
        if table.kind != "excel":
            raise
        file = table.tables[0]
        others = sheets_with(file.path, name, file.reading.skip_rows)
        if not others:
            raise
        raise error.followed_by(
            f"It is on {'the sheet' if len(others) == 1 else 'the sheets'} {', '.join(map(repr, others))}: name the "
            "sheet with {sheet}.",
            sheet=Setting("sheet", others[0]),
        ) from None


def check_types(types: Mapping[str, ColumnType] | None) -> dict[str, ColumnType]:
    """Return the requested types, or raise if one is unknown."""
    type_names = ("number", "boolean", "date", "text")
    wanted = dict(types or {})
    for name, kind in wanted.items():
        if kind not in type_names:
            raise DataError(
                f"{{types}}: the type of a column must be one of {', '.join(map(repr, type_names))}.",
                types=Setting("types", {name: kind}),
            )
    return wanted


def joined(source: object, names: list[str], pieces: Iterable[Any]) -> Any:
    """Return pieces of a table as one, or raise if there are none, or if their types do not go together."""
    parts = [piece.select(names) for piece in pieces]
    if not sum(map(len, parts)):
        raise _no_rows(source, names)
    try:
        return pa.concat_tables(parts, promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(
            f"the files of {source} do not go together ({str(error).splitlines()[0][:200]}). Use one type for a column "
            "in all files."
        ) from error


def typed_rows(
    table: Any, source: Any, label: str | None, id: str | None, types: Mapping[str, ColumnType]
) -> pd.DataFrame:
    """Return rows that are joined as a DataFrame, with labels, identifiers and types as they were asked for."""
    if isinstance(source, TableFile) and source.form is not None:
        return tidied(source.typed(table, types, (label, id)).to_pandas(), "text", label, id, types)
    return tidied(to_frame(table, id), "arrow", label, id, types)


def _read_external(
    rows: ExternalRows, label: str | None, id: str | None, types: Mapping[str, ColumnType], max_bytes: int | None
) -> pd.DataFrame:
    """Return all rows, sorted by identifiers if there are any."""
    growth = 4.0  # bytes of memory needed, per byte of the rows as Arrow
    pieces, size = [], 0
    with rows.open(id) as table:
        for piece in table.pieces(50_000, table.names):
            pieces.append(piece)
            size += piece.nbytes
            check_memory(rows, growth * size * max(table.n_rows / sum(map(len, pieces)), 1.0), max_bytes)
        return typed_rows(joined(rows, table.names, pieces), table, label, id, types)


def _no_rows(source: object, names: list[str]) -> DataError:
    shown = ", ".join(names[:5]) + (" ..." if len(names) > 5 else "")
    advice = "Write the table again." if isinstance(source, OpenFiles) else "Check its conditions."
    return DataError(f"{source} has columns ({shown}) but no rows. {advice}")
