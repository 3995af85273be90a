"""Read a whole table from a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from deepsep.errors import DataError, Setting
from deepsep.table.arrow_frames import to_frame
from deepsep.table.column_types import ColumnType, identifiers_of, labels_of, trimmed, typed
from deepsep.table.columns import convert, cut_long_cells
from deepsep.table.dates import DateColumn
from deepsep.table.excel import read_cells
from deepsep.table.locations import (
    GROWTH,
    Named,
    Place,
    check_columns,
    check_memory,
    files_of,
    find_column,
    kind_of,
    readable,
    same_kind,
    table_at,
)
from deepsep.table.numbers import DECIMAL_COMMA, NumberStyle
from deepsep.table.queries import Query, read_query
from deepsep.table.spss import read_spss
from deepsep.table.text import TextFormat, check_delimiters, check_unique, load_bytes, read_text

TYPES = ("number", "boolean", "date", "text")


def read_table(
    path: Named | Query,
    *,
    label: str | None = None,
    id: str | None = None,
    types: Mapping[str, ColumnType] | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    sheet: str | int = 0,
    skip_rows: int = 0,
    dayfirst: bool | None = None,
    max_bytes: int | None = None,
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
        :class:`deepsep.table.Query` to a database, sorted by ``id``.
    label : str, optional
        The column of labels.
    id : str, optional
        The column of identifiers, kept as it is: "007" stays "007", and text in a Parquet, Feather or Excel file stays
        text.
    types : dict {column: "number", "boolean", "date" or "text"}, optional
        Types of columns in a text or Excel file that are not what they look like. "text" works for every kind of file:
        codes that look like numbers become categories.
    encoding, delimiter : str, optional
        Encoding and delimiter of a text file. None: detected.
    sheet : str or int, default=0
        Sheet of an Excel file.
    skip_rows : int, default=0
        Lines above the header of a text or Excel file, such as a title.
    dayfirst : bool, optional
        Whether the day comes first in dates such as 05/03/2025 in a text or Excel file. None: as the column shows; if
        it does not, they stay text.
    max_bytes : int, optional
        Most memory that reading may use. None: the environment variable ``DEEPSEP_MAX_BYTES``, or else 60 % of the free
        memory.

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
    place = path if isinstance(path, Query) else table_at(path)
    types = check_types(types)
    if not (isinstance(skip_rows, int) and skip_rows >= 0):
        raise DataError("{skip}; pass an integer of at least 0.", skip=Setting("skip_rows", skip_rows))
    files = [] if isinstance(place, Query) else files_of(place)
    kind = same_kind(files) if files else "query"
    with readable(place):
        if isinstance(place, Query):
            frame = read_query(place, id, max_bytes)
        elif kind == "text":
            forms = [TextFormat.of(file, encoding, delimiter, skip_rows) for file in files]
            frame = _read_text(forms, label, id, types, dayfirst, max_bytes)
        elif kind == "excel":
            sheets = [read_cells(file, sheet, skip_rows, max_bytes) for file in files]
            check_columns(files, [list(map(str, cells)) for cells in sheets])
            frame = _read_excel(pd.concat(sheets, ignore_index=True), label, id, types, dayfirst)
        elif kind == "spss":
            if len(files) > 1:
                raise DataError(f"{place}: SPSS files are read one by one. Write them to one file, or as Parquet.")
            check_memory(place, files[0].stat().st_size * GROWTH["spss"], max_bytes)
            frame = read_spss(files[0])
        else:
            frame = _read_arrow(place, files, id, max_bytes)
        check_unique(place, frame.columns.astype(str).tolist())
        if not len(frame):
            raise DataError(f"{place} has {frame.shape[1]} columns but no rows. Write the table again.")
        return tidied(frame, kind, label, id, types)


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
            frame[name] = _categories(frame[name])
    return cut_long_cells(frame, apart=(label, id))


def _categories(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column as categories of text, so that digits are not read as numbers later."""
    return convert(column, "text").astype("category")


def check_types(types: Mapping[str, ColumnType] | None) -> dict[str, ColumnType]:
    """Return the requested types, or raise if one is unknown."""
    wanted = dict(types or {})
    for name, kind in wanted.items():
        if kind not in TYPES:
            raise DataError(
                f"{{types}}: the type of a column must be one of {', '.join(map(repr, TYPES))}.",
                types=Setting("types", {name: kind}),
            )
    return wanted


# -- text ------------------------------------------------------------------------------------------------------


def _read_text(
    forms: Sequence[TextFormat],
    label: str | None,
    id: str | None,
    types: dict[str, ColumnType],
    dayfirst: bool | None,
    max_bytes: int | None,
) -> pd.DataFrame:
    files, form = [form.path for form in forms], forms[0]
    check_columns(files, [form.names for form in forms])
    check_delimiters(forms)
    place = files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more files"
    allowed = check_memory(place, sum(file.stat().st_size for file in files) * GROWTH["text"], max_bytes)
    for name, role in ((label, "label column"), (id, "id column")):
        if name is not None:
            find_column(form.names, name, role)
    for name in types:
        find_column(form.names, name, setting="types")
    tables, left = [], allowed / GROWTH["text"]
    for each in forms:
        data = load_bytes(each.path, left)
        if data is None:  # a large compressed file
            check_memory(each.path, allowed * 1.01, max_bytes)
        tables.append(read_text(each, data or b"").select(form.names))
        left -= len(data or b"")
        del data
    return text_frame(pa.concat_tables(tables), form.delimiter, types, (label, id), dayfirst)


def text_frame(
    table: Any,
    delimiter: str,
    types: Mapping[str, ColumnType],
    unconverted: Sequence[str | None],
    dayfirst: bool | None = None,
) -> pd.DataFrame:
    """Return a table of text cells as a DataFrame of typed columns."""
    frame: pd.DataFrame = typed_table(table, delimiter, types, unconverted, dayfirst).to_pandas()
    return frame


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


# -- Excel -----------------------------------------------------------------------------------------------------


def _read_excel(
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
            columns[name] = text_frame(table, "\t", types, (label, id), dayfirst)[name]
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


# -- Parquet and Feather ---------------------------------------------------------------------------------------


def _read_arrow(place: Place, files: Sequence[Path], id: str | None, max_bytes: int | None) -> pd.DataFrame:
    check_memory(place, sum(map(_bytes_needed, files)), max_bytes)
    tables = [_read_arrow_file(file) for file in files]
    check_columns(files, [table.column_names for table in tables])
    try:
        parts = [table.select(tables[0].column_names) for table in tables]
        whole = pa.concat_tables(parts, promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(
            f"the files of {place} do not go together ({str(error).splitlines()[0][:200]}). Use one type for a column "
            "in all files."
        ) from error
    return to_frame(whole, id)


def _bytes_needed(file: Path) -> float:
    if kind_of(file) == "feather":
        return file.stat().st_size * GROWTH["feather"]
    try:
        meta = pq.read_metadata(file)
    except pa.ArrowException as error:
        raise damaged(file, error) from error
    return 3.0 * float(sum(meta.row_group(i).total_byte_size for i in range(meta.num_row_groups)))


def _read_arrow_file(file: Path) -> Any:
    try:
        if kind_of(file) == "feather":
            with pa.memory_map(str(file)) as source:
                table = pa.ipc.open_file(source).read_all()
        else:
            table = pq.read_table(file, partitioning=None)
    except pa.ArrowException as error:
        raise damaged(file, error) from error
    check_unique(file, table.column_names)
    return table


def damaged(path: Path, error: Exception) -> DataError:
    """Return the error for a Parquet or Feather file that Arrow cannot read."""
    reason = str(error).splitlines()[0][:200]
    return DataError(f"{path} is damaged or incomplete ({reason}). Write it again.")
