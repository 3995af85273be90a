"""Read a whole table from a file."""

from __future__ import annotations

import os
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
from deepsep.table.locations import GROWTH, check_memory, find_column, kind_of, part_files, readable
from deepsep.table.numbers import DECIMAL_COMMA, NumberStyle
from deepsep.table.queries import Query, read_query
from deepsep.table.spss import read_spss
from deepsep.table.text import TextFormat, check_unique, load_bytes, read_text

TYPES = ("number", "boolean", "date", "text")


def read_table(
    path: str | os.PathLike[str] | Query,
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
    r"""Read a table from a CSV, TSV, Parquet, Feather, Excel or SPSS file, a folder of Parquet parts, or a database.

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
    path : str, path or Query
        The file, or a folder of ``.parquet`` files, which are read in the order of their names; or the rows of a
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
    place = path if isinstance(path, Query) else Path(path)
    types = check_types(types)
    if not (isinstance(skip_rows, int) and skip_rows >= 0):
        raise DataError("{skip}; pass an integer of at least 0.", skip=Setting("skip_rows", skip_rows))
    kind = "query" if isinstance(place, Query) else kind_of(place)
    with readable(place):
        if isinstance(place, Query):
            frame = read_query(place, id, max_bytes)
        elif kind == "text":
            form = TextFormat.of(place, encoding, delimiter, skip_rows)
            frame = _read_text(form, label, id, types, dayfirst, max_bytes)
        elif kind == "excel":
            frame = _read_excel(read_cells(place, sheet, skip_rows, max_bytes), label, id, types, dayfirst)
        elif kind == "spss":
            check_memory(place, place.stat().st_size * GROWTH["spss"], max_bytes)
            frame = read_spss(place)
        else:
            frame = _read_arrow(place, kind, id, max_bytes)
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
    form: TextFormat,
    label: str | None,
    id: str | None,
    types: dict[str, ColumnType],
    dayfirst: bool | None,
    max_bytes: int | None,
) -> pd.DataFrame:
    path = form.path
    allowed = check_memory(path, path.stat().st_size * GROWTH["text"], max_bytes)
    data = load_bytes(path, allowed / GROWTH["text"])
    if data is None:  # a large compressed file
        check_memory(path, allowed * 1.01, max_bytes)
    for name, role in ((label, "label column"), (id, "id column")):
        if name is not None:
            find_column(form.names, name, role)
    for name in types:
        find_column(form.names, name, setting="types")
    table = read_text(form, data or b"")
    del data
    return text_frame(table, form.delimiter, types, (label, id), dayfirst)


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


def _read_arrow(path: Path, kind: str, id: str | None, max_bytes: int | None) -> pd.DataFrame:
    try:
        if kind == "feather":
            check_memory(path, path.stat().st_size * GROWTH["feather"], max_bytes)
            with pa.memory_map(str(path)) as file:
                table = pa.ipc.open_file(file).read_all()
        else:
            files = part_files(path) if kind == "parts" else [path]
            sizes = [pq.read_metadata(file) for file in files]
            needed = sum(meta.row_group(i).total_byte_size for meta in sizes for i in range(meta.num_row_groups))
            check_memory(path, 3.0 * needed, max_bytes)
            tables = [pq.read_table(file, partitioning=None) for file in files]
            for file, part in zip(files, tables, strict=True):
                if part.column_names != tables[0].column_names:
                    differ = sorted(set(part.column_names) ^ set(tables[0].column_names))[:5]
                    raise DataError(
                        f"{file} and {files[0].name} have different columns: {differ}. All parts of a table need the "
                        "same ones."
                    )
            table = pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise damaged(path, error) from error
    check_unique(path, table.column_names)
    return to_frame(table, id)


def damaged(path: Path, error: Exception) -> DataError:
    """Return the error for a Parquet or Feather file that Arrow cannot read."""
    reason = str(error).splitlines()[0][:200]
    return DataError(f"{path} is damaged or incomplete ({reason}). Write it again.")
