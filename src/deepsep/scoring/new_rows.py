"""The rows of a file that a table of predictions lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray

from deepsep.table.arrow_frames import without_dictionary
from deepsep.table.column_types import ColumnType


class NewRows:
    """The rows of a file without those whose keys are known, read like the rows of a ``TableFile``.

    Parameters
    ----------
    source : TableFile
    id : str
        The column of keys.
    kind : Arrow type
        Type of the keys in the result.
    are_known : callable or None
        Called with the keys of a batch, and tells which are known. None: all rows are new.
    """

    def __init__(
        self, source: Any, id: str, kind: Any, are_known: Callable[[Sequence[Any]], NDArray[Any]] | None
    ) -> None:
        self.source, self.id, self.kind, self.are_known = source, id, kind, are_known
        self.names, self.n_rows = source.names, source.n_rows

    def tables(
        self,
        rows: int,
        columns: Sequence[str],
        types: Mapping[str, ColumnType],
        id: str | None = None,
        dictionaries: Sequence[str] = (),
    ) -> Iterator[tuple[Any, float]]:
        """Yield what the file does, without the rows whose keys are known."""
        for batch, share in self.source.tables(rows, columns, types, id, dictionaries):
            if self.are_known is not None:
                new = ~self.are_known(keys_of(batch, self.id).to_pylist())
                is_arrow = isinstance(batch, pa.Table)
                batch = batch.filter(pa.array(new)) if is_arrow else batch[new].reset_index(drop=True)
            if len(batch):
                yield batch, share

    def has_more_rows(self, rows: int) -> bool:
        """Whether the file has more rows than this."""
        return bool(self.source.has_more_rows(rows))

    def id_type(self, name: str) -> Any:
        """Return the Arrow type of a column of identifiers."""
        return self.kind


def keys_of(batch: Any, id: str) -> Any:
    """Return a column of a batch of a ``TableFile`` in Arrow's form."""
    return without_dictionary(batch[id]) if isinstance(batch, pa.Table) else pa.chunked_array([pa.array(batch[id])])
