"""Rows that are read on request, batch by batch: of a DataFrame, of a query, or some of these.

Those of a file are in ``batches.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from deepsep.core.arrays import Array
from deepsep.core.column_kinds import ColumnType
from deepsep.errors import DataError
from deepsep.table.arrow_frames import key_hashes

Names = Sequence[str]
Types = Mapping[str, ColumnType]
Pairs = Iterator[tuple[Any, float]]  # Arrow tables or DataFrames, each with the share of the rows read so far

NUMBER_COLUMN = "deepsep row number"  # the column in which SomeRows has the number of a row


class Source(ABC):
    """Rows that are read batch by batch."""

    names: list[str]  # the columns
    n_rows: int | None  # None for a text file whose rows have not been counted

    @abstractmethod
    def tables(self, rows: int, columns: Names, types: Types, id: str | None = None, dictionaries: Names = ()) -> Pairs:
        """Yield Arrow tables or DataFrames of at most ``rows`` rows, each with the share of the source read so far."""

    @abstractmethod
    def id_type(self, name: str) -> Any:
        """Return the Arrow type of a column of identifiers."""

    @property
    def rows_at_most(self) -> int:
        """The number of rows; of a text file, that of the lines below the header, until its rows are counted."""
        return self.n_rows or 0


class SomeRows(Source):
    """The rows of a source that are kept, with their numbers if asked for.

    ``keep(batch, first)`` tells which rows of a batch are kept, whose first row has this number; ``key`` is a column
    that it needs. ``n_without`` is the number of rows left out, as far as that is known, and ``key_type`` the Arrow
    type of identifiers in the result, if not that of the source.
    """

    def __init__(
        self,
        table: Source,
        keep: Callable[[Any, int], Array],
        *,
        first_row: int = 0,
        n_without: int = 0,
        key: str | None = None,
        key_type: Any = None,
    ) -> None:
        self.table, self.keep, self.first_row, self.n_without = table, keep, first_row, n_without
        self.key, self.key_type = key, key_type
        self.names = [*table.names, NUMBER_COLUMN]
        self.n_rows = None if table.n_rows is None else max(table.n_rows - n_without, 0)

    def tables(self, rows: int, columns: Names, types: Types, id: str | None = None, dictionaries: Names = ()) -> Pairs:
        """Yield what the source does, without the rows that are left out."""
        first, key = self.first_row, [] if self.key is None else [self.key]
        own = [name for name in dict.fromkeys([*columns, *key]) if name != NUMBER_COLUMN]
        for batch, share in self.table.tables(rows, own, types, None if id == NUMBER_COLUMN else id, dictionaries):
            kept = self.keep(batch, first)
            numbers = first + np.flatnonzero(kept)
            first += len(batch)
            if not len(numbers):
                continue
            if isinstance(batch, pa.Table):
                batch = batch if kept.all() else batch.filter(pa.array(kept))
                yield batch.append_column(NUMBER_COLUMN, pa.array(numbers)).select(list(columns)), share
            else:
                yield batch[kept].reset_index(drop=True).assign(**{NUMBER_COLUMN: numbers})[list(columns)], share

    @property
    def rows_at_most(self) -> int:
        """The number of rows, as far as the source knows its own."""
        return max(self.table.rows_at_most - self.n_without, 0)

    def id_type(self, name: str) -> Any:
        """Return the Arrow type of a column of identifiers."""
        if name == NUMBER_COLUMN:
            return pa.int64()
        return self.table.id_type(name) if self.key_type is None else self.key_type


class TableInMemory(Source):
    """A DataFrame whose rows are read on request."""

    kind = "frame"

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame, self.names = frame, list(frame.columns)
        self.n_rows: int = len(frame)

    def __str__(self) -> str:
        return "the table"

    def tables(self, rows: int, columns: Names, types: Types, id: str | None = None, dictionaries: Names = ()) -> Pairs:
        """Yield DataFrames of ``rows`` rows (the last may be shorter), each with the share of the rows read so far."""
        for start in range(0, len(self.frame), rows):
            yield self.frame.iloc[start : start + rows][list(columns)], min((start + rows) / len(self.frame), 1.0)

    def id_type(self, name: str) -> Any:
        """Return the Arrow type of a column of identifiers."""
        return pa.array(self.frame[name], from_pandas=True).type


# -- rows of other programs ------------------------------------------------------------------------------------


class OpenRows(Source):
    """Open rows of another program, which knows their number and the types of their columns."""

    n_rows: int

    @abstractmethod
    def pieces(self, rows: int, columns: Names) -> Iterator[Any]:
        """Yield Arrow tables of at most ``rows`` rows."""

    def tables(self, rows: int, columns: Names, types: Types, id: str | None = None, dictionaries: Names = ()) -> Pairs:
        """Yield Arrow tables, each with the share of the rows read so far; ``types`` and the rest are for files."""
        done = 0
        for piece in self.pieces(rows, columns):
            done += len(piece)
            yield piece, min(done / max(self.n_rows, 1), 1.0)


class ExternalRows(ABC):
    """Rows of another program, which are opened for each use.

    A subclass stands where a path does: in ``fit``, ``read_table``, ``read_sample`` and ``score_file``. That of
    deepsep is :class:`deepsep.apps.sql.Query`.
    """

    kind = "query"

    @property
    @abstractmethod
    def place(self) -> str:
        """The path or address of what holds the rows."""

    @abstractmethod
    def open(self, id: str | None = None, *, unique: bool = False) -> AbstractContextManager[OpenRows]:
        """Open the rows, sorted by ``id`` if it is given; ``unique``: raise if two rows have the same."""


class RepeatedRows(OpenRows):
    """Open rows that are read several times for one fit, and must be the same each time, while others may write.

    ``place`` holds the rows, which are sorted by ``id``. ``keys`` are hashes of the keys that they had before, in
    order; None until all rows have been read for the first time.
    """

    def __init__(self, table: OpenRows, place: str, id: str, keys: Array | None) -> None:
        self.table, self.names, self.n_rows = table, table.names, table.n_rows
        self.place, self.id, self.keys = place, id, keys

    def pieces(self, rows: int, columns: Names) -> Iterator[Any]:
        """Yield Arrow tables, or raise if their keys are not those of before."""
        hashes, done = [np.empty(0, np.uint64)], 0
        known = self.keys
        for piece in self.table.pieces(rows, list(dict.fromkeys([*columns, self.id]))):
            hashes.append(key_hashes(piece[self.id]))
            if known is not None and not np.array_equal(hashes.pop(), known[done : done + len(piece)]):
                self._refuse()
            done += len(piece)
            yield piece.select(columns)
        if known is None:
            self.keys = np.concatenate(hashes)
        elif done < len(known):
            self._refuse()

    def id_type(self, name: str) -> Any:
        """Return the Arrow type of a column of identifiers."""
        return self.table.id_type(name)

    def without(self, keys: Array) -> SomeRows:
        """Return the rows without those whose keys have these hashes: others may have come since."""
        return SomeRows(
            self, lambda batch, first: ~np.isin(key_hashes(batch[self.id]), keys), n_without=len(keys), key=self.id
        )

    def _refuse(self) -> None:
        raise DataError(
            f"the query to {self.place} gave other rows when it was run again. A fit to a large table runs it several "
            "times, and draws a part of the unlabelled ones itself. Leave out random(), samples and limit, or fit "
            "again when nothing writes to the table."
        )
