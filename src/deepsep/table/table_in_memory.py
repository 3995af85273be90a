"""A table in memory, as a source of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from deepsep.table.column_types import ColumnType


class TableInMemory:
    """A DataFrame whose rows are read on request, like those of a ``TableFile``.

    Parameters
    ----------
    frame : DataFrame

    Attributes
    ----------
    names : list of str
        The columns.
    n_rows : int
        The number of rows.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame, self.names, self.n_rows = frame, list(frame.columns), len(frame)

    def __str__(self) -> str:
        return "the table"

    def tables(
        self,
        rows: int,
        columns: Sequence[str],
        types: Mapping[str, ColumnType],
        id: str | None = None,
        dictionaries: Sequence[str] = (),
    ) -> Iterator[tuple[Any, float]]:
        """Yield DataFrames of ``rows`` rows (the last may be shorter), each with the share of the rows read so far."""
        for start in range(0, self.n_rows, rows):
            yield self.frame.iloc[start : start + rows][list(columns)], min((start + rows) / self.n_rows, 1.0)

    @property
    def rows_at_most(self) -> int:
        """The number of rows."""
        return self.n_rows

    def id_type(self, name: str) -> Any:
        """Return the Arrow type of a column of identifiers."""
        return pa.array(self.frame[name], from_pandas=True).type
