"""Write predictions to Parquet, CSV, TSV and Excel files, batch by batch."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from openpyxl import Workbook
from openpyxl.cell import WriteOnlyCell
from openpyxl.utils import get_column_letter

from deepsep.table.excel_cells import PERCENT_FORMAT, as_header, check_fits, fill, set_widths, width_of

PARQUET_MARK = {b"deepsep": b"scores"}  # metadata of our Parquet files, which the next scoring may replace
OTHER_FORMAT = "Write a .csv or .parquet file instead."


class Writer:
    """Writes frames to one file, of the format that its name ends in: .parquet, .csv, .tsv or .xlsx.

    ``types`` are the Arrow types of columns that the first rows do not determine; ``provenance`` tells which model made
    the predictions, in the metadata of Parquet and Excel files. CSV gets a byte order mark, without which Excel garbles
    accents.
    """

    def __init__(self, path: Path, types: Mapping[str, Any], provenance: Mapping[str, Any] | None = None) -> None:
        self.path, self.types = path, types
        self._about = json.dumps(dict(provenance)) if provenance else ""
        self._writer: Any = None
        self._file: Any = None

    def __enter__(self) -> Self:
        return self

    def write(self, frame: pd.DataFrame) -> None:
        """Append rows; the first ones set the types of columns for which none is given."""
        self.write_table(pa.Table.from_pandas(frame, preserve_index=False))

    def write_table(self, table: Any) -> None:
        """Append rows of an Arrow table."""
        if self._writer is None:
            about = {b"deepsep_model": self._about.encode()} if self._about else {}
            schema = result_schema(table.schema, self.types)
            self._schema = schema.with_metadata((table.schema.metadata or {}) | PARQUET_MARK | about)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = self._open()
        self._writer.write_table(table.cast(self._schema))

    def _open(self) -> Any:
        kind = self.path.suffix.lower()
        if kind == ".parquet":
            # Hardly two rows have the same probability: to look for repetitions would double the time of writing.
            others = [field.name for field in self._schema if not pa.types.is_floating(field.type)]
            return pq.ParquetWriter(self.path, self._schema, use_dictionary=[name for name in others if name != "row"])
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


def is_result(path: Path) -> bool:
    """Whether a file is a Parquet file that a :class:`Writer` wrote."""
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (pa.ArrowException, OSError):
        return False
    return PARQUET_MARK.items() <= metadata.items()


def result_schema(schema: Any, types: Mapping[str, Any]) -> Any:
    """Return the Arrow schema of a result, with the types of columns that its first rows do not determine."""
    return pa.schema([field.with_type(types.get(field.name, field.type)) for field in schema])


class _ExcelWriter:
    """Writes one sheet, row by row: a header that stays in sight, filters, and probabilities as percentages."""

    def __init__(self, path: Path, names: list[str], about: str) -> None:
        self.path, self.names, self.rows = path, names, 0
        self._formats = [_format(name) for name in names]
        self._book = Workbook(write_only=True)
        self._book.properties.creator = "deepsep"
        self._book.properties.description = about or None  # the comments in the properties of the document
        self._sheet = self._book.create_sheet("predictions")
        self._sheet.freeze_panes = "A2"
        set_widths(self._sheet, [width_of(name) for name in names])
        self._sheet.append([as_header(fill(WriteOnlyCell(self._sheet), name)) for name in names])
        self._cells = [WriteOnlyCell(self._sheet) for _ in names]  # a row is written at once, so that cells serve again

    def write_table(self, table: Any) -> None:
        self.rows += len(table)
        check_fits(self.rows, len(self.names), "the result", OTHER_FORMAT)
        for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
            self._sheet.append(list(map(fill, self._cells, row, self._formats)))

    def close(self) -> None:
        self._sheet.auto_filter.ref = f"A1:{get_column_letter(len(self.names))}{self.rows + 1}"
        self._book.save(self.path)


def _format(name: str) -> str | None:
    """Return the Excel format of a column of predictions."""
    if name == "confidence" or name.startswith("probability_"):
        return PERCENT_FORMAT
    return "0.0" if re.fullmatch(r"reason_\d+_odds", name) else None
