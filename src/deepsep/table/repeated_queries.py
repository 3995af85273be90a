"""A query that is run several times for one fit, while a database may be written to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from deepsep.databases.connections import Connection
from deepsep.errors import DataError
from deepsep.table.arrow_frames import key_hashes
from deepsep.table.column_types import ColumnType
from deepsep.table.queries import QueryTable

Array = NDArray[Any]


class RepeatedQuery(QueryTable):
    """The rows of a query, sorted by a key, which must be the same each time that they are read.

    Parameters
    ----------
    connection : Connection
    sql : str
        The query.
    id : str
        The column of keys.
    keys : array of uint64, optional
        Hashes of the keys that the rows had before. None: they are read for the first time.

    Attributes
    ----------
    keys : array of uint64 or None
        Hashes of the keys, in order, once all rows have been read.
    """

    def __init__(self, connection: Connection, sql: str, *, id: str, keys: Array | None = None) -> None:
        super().__init__(connection, sql, id=id, unique=True)
        self.id, self.keys = id, keys

    def pieces(self, rows: int, columns: Sequence[str]) -> Iterator[Any]:
        """Yield Arrow tables of ``rows`` rows, or raise if their keys are not those of before."""
        known, hashes, done = self.keys, [np.empty(0, np.uint64)], 0
        for piece in super().pieces(rows, list(dict.fromkeys([*columns, self.id]))):
            own = key_hashes(piece[self.id])
            if known is None:
                hashes.append(own)
            elif not np.array_equal(own, known[done : done + len(own)]):
                self._refuse()
            done += len(own)
            yield piece.select(columns)
        if known is None:
            self.keys = np.concatenate(hashes)
        elif done < len(known):
            self._refuse()

    def _refuse(self) -> None:
        raise DataError(
            f"the query to {self.connection.place} gave other rows when it was run again. A fit to so many rows runs "
            "it several times, and draws a part of the unlabelled ones itself. Leave out random(), samples and limit, "
            "or fit again when nothing writes to the table."
        )


class RowsWithoutKeys:
    """The rows of a query without those of some keys, read like those of a ``TableFile``: others may have come since.

    Parameters
    ----------
    table : QueryTable
    id : str
        The column of keys.
    without : array of uint64
        Hashes of the keys of rows to leave out.
    """

    def __init__(self, table: QueryTable, id: str, without: Array) -> None:
        self.table, self.id, self.without = table, id, without
        self.names, self.n_rows = table.names, max(table.n_rows - len(without), 0)

    def tables(
        self,
        rows: int,
        columns: Sequence[str],
        types: Mapping[str, ColumnType],
        id: str | None = None,
        dictionaries: Sequence[str] = (),
    ) -> Iterator[tuple[Any, float]]:
        """Yield what the query does, without the rows that are left out."""
        for batch, share in self.table.tables(rows, list(dict.fromkeys([*columns, self.id])), types, id, dictionaries):
            kept = ~np.isin(key_hashes(batch[self.id]), self.without)
            yield batch.select(columns).filter(pa.array(kept)), share

    def has_more_rows(self, rows: int) -> bool:
        """Whether there are more rows than this."""
        return self.n_rows > rows

    def id_type(self, name: str) -> Any:
        """Return the Arrow type of a column of identifiers."""
        return self.table.id_type(name)
