"""Rows outside files and memory, such as those of a query to a database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from deepsep.core.arrays import Array
from deepsep.errors import DataError
from deepsep.table.arrow_frames import key_hashes
from deepsep.table.source import Names, Pairs, SomeRows, Source, Types


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
