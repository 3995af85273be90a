"""Write predictions to Parquet, CSV, TSV and Excel files, batch by batch."""

from __future__ import annotations

import codecs
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from openpyxl import Workbook
from openpyxl.cell import WriteOnlyCell
from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

from deepsep.errors import DataError
from deepsep.files.leftovers import hidden_name, remove_leftovers

MARK = {b"deepsep": b"scores"}  # metadata of our Parquet files, which the next scoring may replace
MODEL = b"deepsep_model"  # their metadata about the model, as JSON
EXCEL_ROWS = 1_048_575  # most rows below the header of a sheet


class Writer:
    """Writes frames to one file, of the format that its name ends in.

    Parameters
    ----------
    path : Path
        Ends in .parquet, .csv, .tsv or .xlsx. CSV gets a byte order mark, without which Excel garbles accents.
    types : dict {column: Arrow type}
        Types of columns that the first rows do not determine.
    provenance : dict, optional
        Which model made the predictions, for the metadata of Parquet and Excel files; text files have none.
    """

    def __init__(self, path: Path, types: Mapping[str, Any], provenance: Mapping[str, Any] | None = None) -> None:
        self.path, self.types = path, types
        self._about = json.dumps(dict(provenance)) if provenance else ""
        self._writer: Any = None
        self._file: Any = None

    @property
    def empty(self) -> bool:
        """Whether nothing has been written."""
        return self._writer is None

    def __enter__(self) -> Self:
        return self

    def write(self, frame: pd.DataFrame) -> None:
        """Append rows; the first ones set the types of columns for which none is given."""
        table = pa.Table.from_pandas(frame, preserve_index=False)
        if self._writer is None:
            about = {MODEL: self._about.encode()} if self._about else {}
            self._schema = pa.schema(
                [field.with_type(self.types.get(field.name, field.type)) for field in table.schema],
                (table.schema.metadata or {}) | MARK | about,
            )
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = self._open()
        self._writer.write_table(table.cast(self._schema))

    def _open(self) -> Any:
        kind = self.path.suffix.lower()
        if kind == ".parquet":
            return pq.ParquetWriter(self.path, self._schema)
        if kind == ".xlsx":
            return _ExcelWriter(self.path, self._schema.names, self._about)
        self._file = open(self.path, "wb")  # noqa: SIM115
        if kind == ".csv":
            self._file.write(codecs.BOM_UTF8)
        style = pacsv.WriteOptions(delimiter="\t" if kind == ".tsv" else ",", quoting_style="needed")
        return pacsv.CSVWriter(self._file, self._schema, write_options=style)

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()
        if self._file is not None:
            self._file.close()


def write_frame(
    frame: pd.DataFrame, target: Path, types: Mapping[str, Any], provenance: Mapping[str, Any] | None = None
) -> None:
    """Write a frame to a file as :class:`Writer` does, completely or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(target)
    scratch = hidden_name(target, f"new{target.suffix}")
    try:
        with Writer(scratch, types, provenance) as writer:
            writer.write(frame)
        os.replace(scratch, target)
    finally:
        scratch.unlink(missing_ok=True)


class _ExcelWriter:
    """Writes one sheet, row by row."""

    def __init__(self, path: Path, names: list[str], about: str) -> None:
        self.path, self.rows = path, 0
        self._book = Workbook(write_only=True)
        self._book.properties.creator = "deepsep"
        self._book.properties.description = about or None  # the comments in the properties of the document
        self._sheet = self._book.create_sheet("predictions")
        self._sheet.append(list(self._cells(names)))

    def write_table(self, table: Any) -> None:
        self.rows += len(table)
        if self.rows > EXCEL_ROWS:
            raise DataError(f"an Excel sheet holds at most {EXCEL_ROWS:,} rows. Write a .csv or .parquet file instead.")
        for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
            self._sheet.append(list(self._cells(row)))

    def close(self) -> None:
        self._book.save(self.path)

    def _cells(self, values: Any) -> Iterator[Any]:
        for value in values:
            if isinstance(value, str):  # text that starts with "=" is text, not a formula
                value = WriteOnlyCell(self._sheet, ILLEGAL_CHARACTERS_RE.sub("\ufffd", value))
                value.data_type = "s"
            yield value
