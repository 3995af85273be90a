"""Read a whole table from a file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from deepsep.errors import DataError, Setting
from deepsep.table.column_types import ColumnType, identifiers_of, labels_of, trimmed, typed
from deepsep.table.columns import convert
from deepsep.table.dates import DateColumn
from deepsep.table.locations import GROWTH, check_memory, find_column, kind_of, part_files, readable
from deepsep.table.numbers import NumberStyle
from deepsep.table.text import TextFormat, check_unique, load_bytes, read_text

TYPES = ("number", "boolean", "date", "text")
NULLABLE = {
    getattr(pa, f"{kind}{bits}")(): pd.api.types.pandas_dtype(f"{name}{bits}")
    for kind, name in (("int", "Int"), ("uint", "UInt"))
    for bits in (8, 16, 32, 64)
}


def read_table(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    id: str | None = None,
    types: Mapping[str, ColumnType] | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    sheet: str | int = 0,
    max_bytes: int | None = None,
) -> pd.DataFrame:
    r"""Read a table from a CSV, TSV, Parquet, Feather or Excel file, or from a folder of Parquet parts.

    The content decides what a file is, not its name. Text files may be compressed (gzip, bz2, xz, zstd, zip); their
    encoding (UTF-8, UTF-16, cp1252) and delimiter (comma, semicolon, tab, bar) are detected. A column of a text file
    holds numbers, booleans, ISO dates or text; codes with leading zeros stay text, and decimal commas are understood.

    In features, the usual words ("", "NA", "None", "null", "nan", "N/A" ...) are missing values. **In the column of
    labels only an empty cell is one**, so that a class may be called "NA", "None" or "nan"; and -1 among integers
    means unlabelled, as everywhere.

    Parameters
    ----------
    path : str or path
        The file, or a folder of ``.parquet`` files, which are read in the order of their names.
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
        If it is an Excel file and openpyxl is not installed.

    Warns
    -----
    DeepSepWarning
        If the file is not in UTF-8, or a column of numbers or dates has a few other values, which are then taken as
        missing.

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
    place = Path(path)
    types = check_types(types)
    kind = kind_of(place)
    with readable(place):
        if kind == "text":
            frame = _read_text(place, label, id, types, encoding, delimiter, max_bytes)
        elif kind == "excel":
            check_memory(place, place.stat().st_size * GROWTH["excel"], max_bytes)
            frame = _read_excel(place, label, id, types, sheet)
        else:
            frame = _read_arrow(place, kind, id, max_bytes)
    check_unique(place, frame.columns.astype(str).tolist())
    if not len(frame):
        raise DataError(f"{place} has {frame.shape[1]} columns but no rows. Write the table again.")
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
    return frame


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
    path: Path,
    label: str | None,
    id: str | None,
    types: dict[str, ColumnType],
    encoding: str | None,
    delimiter: str | None,
    max_bytes: int | None,
) -> pd.DataFrame:
    allowed = check_memory(path, path.stat().st_size * GROWTH["text"], max_bytes)
    data = load_bytes(path, allowed / GROWTH["text"])
    if data is None:  # a large compressed file
        check_memory(path, allowed * 1.01, max_bytes)
    form = TextFormat.of(path, encoding, delimiter)
    for name, role in ((label, "label column"), (id, "id column")):
        if name is not None:
            find_column(form.names, name, role)
    for name in types:
        find_column(form.names, name, setting="types")
    table = read_text(form, data or b"")
    del data
    return text_frame(table, form.delimiter, types, (label, id))


def text_frame(
    table: Any,
    delimiter: str,
    types: Mapping[str, ColumnType],
    unconverted: Sequence[str | None],
    *,
    known: Mapping[str, NumberStyle | DateColumn] | None = None,
) -> pd.DataFrame:
    """Return a table of text cells as a DataFrame of typed columns.

    If the table is part of a file, ``known`` holds the columns that were examined over the whole file.
    """
    columns = {}
    for name in table.column_names:
        if name in unconverted:
            columns[name] = table[name]
        elif known is not None and name in known:
            columns[name] = known[name].read(trimmed(table[name]))
        else:
            columns[name] = typed(table[name], name, wanted=types.get(name), delimiter=delimiter)
    frame: pd.DataFrame = pa.table(columns).to_pandas()
    return frame


# -- Excel -----------------------------------------------------------------------------------------------------


def _read_excel(
    path: Path, label: str | None, id: str | None, types: Mapping[str, ColumnType], sheet: str | int
) -> pd.DataFrame:
    if find_spec("openpyxl") is None:
        raise ImportError(f'{path} is an Excel file. Reading it needs an extra: pip install "deepsep[excel]"')
    try:
        cells = pd.read_excel(path, sheet, header=None, dtype=object, keep_default_na=False, engine="openpyxl")
    except (ValueError, KeyError, IndexError) as error:
        with pd.ExcelFile(path, engine="openpyxl") as book:
            names = book.sheet_names
        raise DataError(f"{path}: sheet {sheet!r} cannot be read ({error}). Its sheets are {names}.") from error
    cells = cells.mask((cells == "") | cells.isna(), None).dropna(how="all").dropna(how="all", axis=1)
    if cells.empty:
        raise DataError(f"{path}: sheet {sheet!r} is empty. Name another one with {{sheet}}.", sheet=Setting("sheet"))
    names = [f"unnamed_{i}" if value is None else str(value).strip() for i, value in enumerate(cells.iloc[0], start=1)]
    check_unique(path, names)
    if len(cells) < 2:
        raise DataError(f"{path}: sheet {sheet!r} has a header ({', '.join(names[:5])}) but no rows.")
    body = cells.iloc[1:].reset_index(drop=True).set_axis(names, axis=1)
    for name in names:
        column = body[name]
        if column.map(lambda value: isinstance(value, str)).any():
            text = pa.chunked_array([pa.array([None if pd.isna(v) else _as_text(v) for v in column], pa.string())])
            body[name] = text_frame(pa.table({name: text}), ",", types, (label, id))[name]
        else:
            body[name] = column.infer_objects()
    return body


def _as_text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


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


def to_frame(table: Any, id: str | None = None) -> pd.DataFrame:
    """Return an Arrow table as a DataFrame; a named index becomes columns, and identifiers keep every digit."""
    frame: pd.DataFrame = table.to_pandas()
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    frame = frame.reset_index(drop=True)
    if id in table.column_names:  # integers with gaps would become floats, and lose digits
        frame[id] = without_dictionary(table[id]).to_pandas(types_mapper=NULLABLE.get)
    return frame


def without_dictionary(column: Any) -> Any:
    """Return an Arrow column decoded, if it is dictionary-encoded."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
