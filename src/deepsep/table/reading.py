"""Read a whole table from a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from deepsep.core.checks import with_fields
from deepsep.core.column_kinds import ColumnType
from deepsep.errors import DataError, Setting
from deepsep.table.arrow_frames import checked, to_frame
from deepsep.table.batches import Opened, OpenFiles, TableFile, open_table
from deepsep.table.external import read_external
from deepsep.table.locations import MEMORY_GROWTH, Named, Place, check_memory, find_column, readable
from deepsep.table.reading_settings import AS_DETECTED, Reading
from deepsep.table.text import load_bytes, read_text
from deepsep.table.typed_cells import sheet_frame, tidied


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
    with readable(table):
        if not isinstance(table, OpenFiles):
            return tidied(read_external(table, id, max_bytes), "query", label, id, types)
        if table.kind == "text":
            frame = _read_text(table.tables, label, id, types, max_bytes)
        elif table.kind == "excel":
            cells = pd.concat([each.cells for each in table.tables], ignore_index=True)
            frame = sheet_frame(cells, label, id, types, table.tables[0].reading.dayfirst)
        elif table.kind == "spss":
            frame = table.tables[0].cells.copy()
        else:
            frame = _read_arrow(table.place, table.tables, id, max_bytes)
        if not len(frame):
            raise DataError(f"{table} has {frame.shape[1]} columns but no rows. Write the table again.")
        return tidied(frame, table.kind, label, id, types)


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


def _read_text(
    tables: Sequence[TableFile],
    label: str | None,
    id: str | None,
    types: dict[str, ColumnType],
    max_bytes: int | None,
) -> pd.DataFrame:
    files, forms = [table.path for table in tables], [table.form for table in tables if table.form is not None]
    place = files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more files"
    allowed = check_memory(place, sum(file.stat().st_size for file in files) * MEMORY_GROWTH["text"], max_bytes)
    for name, role in ((label, "label column"), (id, "id column")):
        if name is not None:
            find_column(forms[0].names, name, role)
    for name in types:
        find_column(forms[0].names, name, setting="types")
    cells, left = [], allowed / MEMORY_GROWTH["text"]
    for form in forms:
        data = load_bytes(form, left)
        if data is None:  # a large compressed file
            check_memory(form.path, allowed * 1.01, max_bytes)
        cells.append(read_text(form, data or b"").select(forms[0].names))
        left -= len(data or b"")
        del data
    return tables[0].typed_frame(pa.concat_tables(cells), types, (label, id))


def _read_arrow(place: Place, files: Sequence[TableFile], id: str | None, max_bytes: int | None) -> pd.DataFrame:
    check_memory(place, sum(file.bytes_needed for file in files), max_bytes)
    tables = [_read_arrow_file(file) for file in files]
    try:
        parts = [table.select(tables[0].column_names) for table in tables]
        whole = pa.concat_tables(parts, promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(
            f"the files of {place} do not go together ({str(error).splitlines()[0][:200]}). Use one type for a column "
            "in all files."
        ) from error
    return to_frame(whole, id)


def _read_arrow_file(file: TableFile) -> Any:
    with readable(file.path):
        if file.kind == "feather":
            with pa.memory_map(str(file.path)) as source:
                return checked(pa.ipc.open_file(source).read_all())
        return checked(pq.read_table(file.path, partitioning=None))
