"""The files of a table, opened once: their columns are known, and their rows are read batch by batch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deepsep.core.column_kinds import ColumnType
from deepsep.errors import DataError
from deepsep.table.arrow_frames import checked
from deepsep.table.column_types import WHOLE_NUMBER, trimmed, typed
from deepsep.table.columns import as_frame, tidied
from deepsep.table.dates import DateColumn
from deepsep.table.excel import read_cells, sheet_frame
from deepsep.table.locations import (
    MEMORY_GROWTH,
    FileType,
    Kind,
    Named,
    Place,
    SeveralFiles,
    check_memory,
    file_type,
    file_types,
    files_of,
    readable,
    table_at,
)
from deepsep.table.numbers import NumberStyle, plain_numbers
from deepsep.table.reading_settings import AS_DETECTED, Reading
from deepsep.table.source import ExternalRows, Names, Pairs, Source, TableInMemory, Types
from deepsep.table.spss import read_spss
from deepsep.table.text import TextFormat, check_unique


class TableFile(Source):
    """A file of rows: its columns are read at once, its rows on request."""

    def __init__(
        self,
        path: Path,
        reading: Reading = AS_DETECTED,
        *,
        type: FileType | None = None,
        max_bytes: int | None = None,
    ) -> None:
        type = type or file_type(path)
        self.path, self.reading, self.kind = path, reading, type.kind
        self.n_rows: int | None = None  # None for a text file, until its rows have been examined or counted
        self.form: TextFormat | None = None  # of a text file
        self.cells = pd.DataFrame()  # all cells of an Excel or SPSS file, which cannot be read in part
        self.bytes_needed = 0.0  # memory to read all rows, if they are not in memory yet
        self._schema: Any = None
        self.integers: dict[str, bool] = {}  # whether all identifiers in a column of a text file are plain integers
        self._frames: dict[str | None, pd.DataFrame] = {}
        with readable(path):
            if self.kind == "text":
                self.form = TextFormat.of(path, type, reading)
                self.names, self.bytes_needed = self.form.names, self.form.n_bytes * MEMORY_GROWTH["text"]
            elif self.kind == "parquet":
                with pq.ParquetFile(path) as file:
                    self._schema, about = file.schema_arrow, file.metadata
                self.n_rows = about.num_rows
                self.bytes_needed = 3.0 * sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
            elif self.kind == "feather":
                with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as file:
                    self._schema = file.schema
                    self.n_rows = sum(file.get_batch(i).num_rows for i in range(file.num_record_batches))
                self.bytes_needed = path.stat().st_size * MEMORY_GROWTH["feather"]
            elif self.kind == "excel":
                self.cells = read_cells(path, reading.sheet, reading.skip_rows, max_bytes)
            else:
                check_memory(path, path.stat().st_size * MEMORY_GROWTH["spss"], max_bytes)
                self.cells = read_spss(path)
        if self._schema is not None:
            self.names = self._schema.names
        elif self.form is None:
            self.names, self.n_rows = self.cells.columns.astype(str).tolist(), len(self.cells)
        check_unique(path, self.names)

    def _frame(self, id: str | None) -> pd.DataFrame:
        """Return the rows of an Excel or SPSS file, typed; text among the identifiers stays text."""
        if id not in self._frames:
            excel = self.kind == "excel"
            frame = sheet_frame(self.cells, None, id, {}, self.reading.dayfirst) if excel else self.cells.copy()
            self._frames = {id: tidied(frame, self.kind, None, id, {})}
        return self._frames[id]

    def count_rows(self) -> None:
        """Count the rows, if they are not known: a pass over a text file."""
        if self.n_rows is None:
            with readable(self.path):
                self.n_rows = sum(map(len, self._pieces(self.names[:1])))

    def pieces(self, rows: int, columns: Sequence[str]) -> Iterator[Any]:
        """Yield tables, the cells of a text file as text, or DataFrames of Excel and SPSS files."""
        with readable(self.path):
            yield from self._slices(rows, list(columns), (), None)

    def tables(self, rows: int, columns: Names, types: Types, id: str | None = None, dictionaries: Names = ()) -> Pairs:
        """Yield tables of ``rows`` rows (the last may be shorter): Arrow's, but for Excel and SPSS files DataFrames.

        The cells of a text file are read as ``types`` says, and numbers in the style of the whole file, so that a row
        does not depend on its batch. Warnings about a column come once, before the first table. ``dictionaries`` are
        columns of text to read dictionary-encoded, if the file is a Parquet file.
        """
        with readable(self.path):
            examined = self._examine({name: types[name] for name in columns if name in types and name != id})
            done = 0
            for table in self._slices(rows, list(columns), dictionaries, id):
                if self.form is not None:
                    table = self.typed(table, types, (id,), examined)
                    if id is not None and self.plain_integers(id):
                        integers = pc.cast(pc.utf8_trim_whitespace(table[id]), pa.int64())
                        table = table.set_column(table.column_names.index(id), id, integers)
                done += len(table)
                yield table, min(done / max(self.rows_at_most, 1), 1.0)

    def typed(
        self, cells: Any, types: Types, unconverted: Sequence[str | None], examined: Mapping[str, Any] | None = None
    ) -> Any:
        """Return cells of a text file as an Arrow table; ``examined`` are columns known from the whole file."""
        assert self.form is not None
        columns = {}
        for name in cells.column_names:
            if name in unconverted:
                columns[name] = cells[name]
            elif examined and name in examined:
                columns[name] = examined[name].read(trimmed(cells[name]))
            else:
                style: Any = {"delimiter": self.form.delimiter, "dayfirst": self.reading.dayfirst}
                columns[name] = typed(cells[name], name, wanted=types.get(name), **style)
        return pa.table(columns)

    @property
    def rows_at_most(self) -> int:
        """The number of rows; of a text file, that of the lines below the header, until its rows are counted."""
        return self.form.n_lines - 1 if self.form is not None and self.n_rows is None else self.n_rows or 0

    def id_type(self, name: str) -> Any:
        """Return the Arrow type of a column of identifiers, which holds for the whole file, not only its first rows."""
        if self.form is not None:
            return pa.int64() if self.plain_integers(name) else pa.string()
        if self._schema is None:
            return pa.Schema.from_pandas(self._frame(name)[[name]]).field(name).type
        kind = self._schema.field(name).type
        return kind.value_type if pa.types.is_dictionary(kind) else kind

    def plain_integers(self, name: str) -> bool:
        """Whether every cell of a column of a text file is a plain integer, so that all batches have the same type."""
        if name not in self.integers:
            self.integers[name] = all(
                pc.all(pc.match_substring_regex(pc.utf8_trim_whitespace(table[name]), WHOLE_NUMBER)).as_py()
                for table in self._pieces([name])
            )
        return self.integers[name]

    def _examine(self, types: Mapping[str, ColumnType]) -> dict[str, NumberStyle | DateColumn]:
        """Return how each column of numbers or dates in a text file is read, after a pass over all rows."""
        if self.form is None:
            return {}
        numbers = {name: NumberStyle(name, self.form.delimiter) for name in types if types[name] == "number"}
        dates = {name: DateColumn(name, self.reading.dayfirst) for name in types if types[name] == "date"}
        doubtful: list[str] = []
        n_rows = 0
        for table in self._pieces([*numbers, *dates]):
            n_rows += len(table)
            for name, column in dates.items():
                column.examine(trimmed(table[name]))
            others = [name for name in numbers if name not in doubtful]  # most are plain numbers, which is quick to see
            doubtful += [name for name in others if plain_numbers(trimmed(table[name])) is None]
        self.n_rows = n_rows if numbers or dates else self.n_rows
        for table in self._pieces(doubtful):
            for name in doubtful:
                numbers[name].examine(trimmed(table[name]))
        examined = numbers | dates
        for name in [name for name in types if name in examined]:
            examined[name].report(wanted=True)
        return examined

    def _pieces(self, columns: list[str]) -> Iterator[Any]:
        """Yield some columns of a text file, a piece at a time."""
        cells = 1_000_000  # most cells examined at a time, so that a wide table takes no more memory than a batch does
        rows = 100_000  # most rows examined at a time
        if columns and self.form is not None:
            yield from self.form.tables(max(min(rows, cells // len(columns)), 1), columns)

    def _slices(self, rows: int, columns: list[str], dictionaries: Sequence[str], id: str | None) -> Iterator[Any]:
        """Yield what is in the file, ``rows`` rows at a time."""
        if self.form is not None:
            yield from self.form.tables(rows, columns)
        elif self.kind == "parquet":
            texts = [name for name in dictionaries if _is_text(self._schema.field(name).type)]
            # Buffers read ahead would stay until the end of the file.
            with pq.ParquetFile(self.path, memory_map=False, pre_buffer=False, read_dictionary=texts) as file:
                for batch in file.iter_batches(rows, columns=columns):
                    yield pa.Table.from_batches([checked(batch)]).select(columns)
        elif self.kind == "feather":
            with pa.memory_map(str(self.path)) as source, pa.ipc.open_file(source) as file:
                for i in range(file.num_record_batches):
                    table = checked(pa.Table.from_batches([file.get_batch(i)]).select(columns))
                    for start in range(0, len(table), rows):
                        yield table.slice(start, rows)
        else:
            frame = self._frame(id)
            for start in range(0, len(frame), rows):
                yield frame.iloc[start : start + rows][columns].reset_index(drop=True)


@dataclass(frozen=True)
class OpenFiles:
    """The files of one table, whose encoding, delimiter and columns are known."""

    place: Place  # what they are called in messages
    tables: Sequence[TableFile]  # the files, in the order of their rows

    def __str__(self) -> str:
        return str(self.place)

    @property
    def kind(self) -> Kind:
        """The format of the first file."""
        return self.tables[0].kind

    @property
    def names(self) -> list[str]:
        """The columns."""
        return self.tables[0].names

    @property
    def in_parts(self) -> bool:
        """Whether they can be read batch by batch: Excel and SPSS files cannot."""
        return self.kind not in ("excel", "spss")


Opened = OpenFiles | ExternalRows | TableInMemory


def open_table(named: Any, reading: Reading = AS_DETECTED, max_bytes: int | None = None) -> Opened:
    """Open the files of a table, or a DataFrame.

    External rows are returned as they are, since each use opens them again.
    """
    if isinstance(named, ExternalRows | TableInMemory):
        return named
    named = list(named) if isinstance(named, Iterator | Set) else named
    several = isinstance(named, list | tuple)
    paths = several and all(isinstance(each, str | os.PathLike) for each in named)
    if paths or isinstance(named, str | os.PathLike | SeveralFiles | OpenFiles):
        return open_files(named, reading, max_bytes)
    is_column = hasattr(named, "to_frame")
    if several or is_column or not (hasattr(named, "__arrow_c_stream__") or hasattr(named, "__array__")):
        parts = " and ".join(dict.fromkeys(type(each).__name__ for each in named)) if several else ""
        raise DataError(
            "a table is a path, a list of paths, a DataFrame or a Query, but this is "
            f"{type(named).__name__}{f' of {parts}' if parts else ''}. Pass one table; several DataFrames can be "
            "joined with pandas.concat."
        )
    return TableInMemory(as_frame(named))


def open_files(named: Named | OpenFiles, reading: Reading = AS_DETECTED, max_bytes: int | None = None) -> OpenFiles:
    """Open the files of one table, or raise unless they have the same format and columns.

    Files that are open already are returned as they are.
    """
    if isinstance(named, OpenFiles):
        return named
    place = table_at(named)
    files = files_of(place)
    types = file_types(files)
    if types[0].kind == "spss" and len(files) > 1:
        raise DataError(f"{place}: SPSS files are read one by one. Write them to one file, or as Parquet.")
    tables = [TableFile(file, reading, type=type, max_bytes=max_bytes) for file, type in zip(files, types, strict=True)]
    first = tables[0]
    for table in tables:
        if differ := sorted(set(table.names) ^ set(first.names)):
            raise DataError(
                f"{table.path} and {first.path.name} have different columns: {differ[:5]}. All files of a table need "
                "the same."
            )
        if table.form and first.form and table.form.delimiter != first.form.delimiter:  # tells how numbers are written
            raise DataError(
                f"{table.path} has {table.form.delimiter!r} between its columns, and {first.path.name} has "
                f"{first.form.delimiter!r}. All files of a table need the same."
            )
    return OpenFiles(place, tables)


def same_identifiers(tables: Sequence[TableFile], id: str) -> None:
    """Let text files have identifiers of one type: integers if they are plain integers in all of them."""
    tables = [table for table in tables if table.form is not None and id in table.names]
    if not all(table.plain_integers(id) for table in tables):
        for table in tables:
            table.integers[id] = False


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
