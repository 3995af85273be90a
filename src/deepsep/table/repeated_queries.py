"""A query that is run several times for one fit, while a database may be written to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepsep.databases.connections import Connection
from deepsep.errors import DataError
from deepsep.table.arrow_frames import key_hashes
from deepsep.table.queries import QueryTable
from deepsep.table.source import SomeRows

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
            f"the query to {self.connection.place} gave other rows when it was run again. A fit to a large table runs "
            "it several times, and draws a part of the unlabelled ones itself. Leave out random(), samples and limit, "
            "or fit again when nothing writes to the table."
        )


def rows_without_keys(table: QueryTable, id: str, without: Array) -> SomeRows:
    """Return the rows of a query without those whose keys have these hashes: others may have come since."""
    return SomeRows(
        table, lambda batch, first: ~np.isin(key_hashes(batch[id]), without), n_without=len(without), key=id
    )
