"""A table on disk, batch by batch, in flat memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deepsep.table.column_types import WHOLE, ColumnType, identifiers_of, trimmed
from deepsep.table.dates import DateColumn
from deepsep.table.locations import Kind, kind_of, readable
from deepsep.table.numbers import NumberStyle, plain_numbers
from deepsep.table.reading import damaged, plain, read_table, text_frame, to_frame
from deepsep.table.text import TextFormat, check_unique, stream_text

PIECE = 100_000  # rows that are looked at together, at most
CELLS = 1_000_000  # likewise: a wide table must not take more memory here than batch by batch


class TableFile:
    """One file of rows: its columns at once, its rows when asked for.

    Attributes
    ----------
    names : list of str
        The columns.
    n_rows : int or None
        None for a text file, where counting would mean reading.
    """

    def __init__(
        self,
        path: Path,
        *,
        id: str | None = None,
        encoding: str | None = None,
        delimiter: str | None = None,
        sheet: str | int = 0,
    ) -> None:
        self.path = path
        self.kind: Kind = kind_of(path)
        self.n_rows: int | None = None
        self._form: TextFormat | None = None
        self._frame: pd.DataFrame | None = None
        self._schema: Any = None
        self._integers: dict[str, bool] = {}
        self._counted = 0  # rows of a text file, once they have been looked at
        with readable(path):
            try:
                if self.kind == "text":
                    self._form = TextFormat.of(path, encoding, delimiter)
                    self.names = self._form.names
                elif self.kind == "parquet":
                    with pq.ParquetFile(path) as file:
                        self._schema, self.n_rows = file.schema_arrow, file.metadata.num_rows
                        self.names = self._schema.names
                elif self.kind == "feather":
                    with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as file:
                        self._schema, self.names = file.schema, file.schema.names
                        self.n_rows = sum(file.get_batch(i).num_rows for i in range(file.num_record_batches))
                else:  # an Excel sheet has at most a million rows, and cannot be read in part
                    self._frame = read_table(path, id=id, sheet=sheet)
                    self.names, self.n_rows = self._frame.columns.tolist(), len(self._frame)
            except pa.ArrowException as error:
                raise damaged(path, error) from error
        check_unique(path, self.names)

    def batches(
        self, rows: int, columns: Sequence[str], types: Mapping[str, ColumnType], id: str | None = None
    ) -> Iterator[tuple[pd.DataFrame, float]]:
        """Yield DataFrames of so many rows (the last may be shorter), and the part of the file that has been read.

        The cells of a text file are read as ``types`` says, and numbers as the whole file writes them, so that a row
        does not depend on the batch that it is in. What is doubtful about a column is said once, before the first.
        """
        try:
            known = self._look_at({name: types[name] for name in columns if name in types and name != id})
            done = 0
            for table, share in self._tables(rows, columns):
                if self._form is not None:
                    frame = text_frame(table, self._form.delimiter, types, (id,), known=known)
                    if id is not None and self._plain_integers(id):
                        frame[id] = identifiers_of(frame[id])
                else:
                    frame = table if isinstance(table, pd.DataFrame) else to_frame(table, id)
                done += len(frame)
                yield frame, min(done / self._counted, 1.0) if self._counted else share
        except pa.ArrowException as error:
            raise damaged(self.path, error) from error

    def id_type(self, name: str) -> Any:
        """Return the Arrow type of a column of identifiers: of the whole file, whatever its first rows look like."""
        if self._form is not None:
            return pa.int64() if self._plain_integers(name) else pa.string()
        if self._frame is not None:
            return pa.Schema.from_pandas(self._frame[[name]]).field(name).type
        return plain(self._schema.empty_table()[name]).type

    def _plain_integers(self, name: str) -> bool:
        """Whether a whole column of a text file holds plain integers, so that every batch has them as such."""
        if name not in self._integers:
            self._integers[name] = all(
                pc.all(pc.match_substring_regex(pc.utf8_trim_whitespace(table[name]), WHOLE)).as_py()
                for table in self._look([name])
            )
        return self._integers[name]

    def _look_at(self, types: Mapping[str, ColumnType]) -> dict[str, NumberStyle | DateColumn]:
        """Return the columns of numbers and dates of a text file, after a look at all rows."""
        if self._form is None:
            return {}
        numbers = {name: NumberStyle(name, self._form.delimiter) for name in types if types[name] == "number"}
        dates = {name: DateColumn(name) for name in types if types[name] == "date"}
        doubtful: list[str] = []
        self._counted = 0
        for table in self._look([*numbers, *dates]):
            self._counted += len(table)
            for name, column in dates.items():
                column.look(trimmed(table[name]))
            others = [name for name in numbers if name not in doubtful]  # plain numbers, as most are, are quickly found
            doubtful += [name for name in others if plain_numbers(trimmed(table[name])) is None]
        for table in self._look(doubtful):
            for name in doubtful:
                numbers[name].look(trimmed(table[name]))
        known = numbers | dates
        for name in types:
            if name in known:
                known[name].tell(wanted=True)
        return known

    def _look(self, columns: list[str]) -> Iterator[Any]:
        """Yield some columns of a text file, piece by piece."""
        if columns and self._form is not None:
            rows = max(min(PIECE, CELLS // len(columns)), 1)
            yield from stream_text(self._form, rows, columns, lambda done: None)

    def _tables(self, rows: int, columns: Sequence[str]) -> Iterator[tuple[Any, float]]:
        if self._form is not None:
            size, read = max(self.path.stat().st_size, 1), [0]
            for table in stream_text(self._form, rows, columns, lambda done: read.append(done)):
                yield table, min(read[-1] / size, 1.0)
                del read[:-1]
            return
        done, total = 0, max(self.n_rows or 0, 1)
        for table in self._slices(rows, list(columns)):
            done += len(table)
            yield table, done / total

    def _slices(self, rows: int, columns: list[str]) -> Iterator[Any]:
        if self._frame is not None:
            for start in range(0, len(self._frame), rows):
                yield self._frame.iloc[start : start + rows][columns].reset_index(drop=True)
        elif self.kind == "parquet":
            with pq.ParquetFile(self.path, memory_map=False) as file:
                for batch in file.iter_batches(rows, columns=columns):
                    yield pa.Table.from_batches([batch]).select(columns)
        else:
            with pa.memory_map(str(self.path)) as source, pa.ipc.open_file(source) as file:
                for i in range(file.num_record_batches):
                    table = pa.Table.from_batches([file.get_batch(i)]).select(columns)
                    for start in range(0, len(table), rows):
                        yield table.slice(start, rows)
