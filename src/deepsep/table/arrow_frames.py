"""Arrow tables as DataFrames."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from deepsep.errors import DataError

NULLABLE_TYPES = {
    getattr(pa, f"{kind}{bits}")(): pd.api.types.pandas_dtype(f"{name}{bits}")
    for kind, name in (("int", "Int"), ("uint", "UInt"))
    for bits in (8, 16, 32, 64)
}


def to_frame(table: Any, id: str | None = None) -> pd.DataFrame:
    """Return an Arrow table as a DataFrame; a named index becomes columns, and identifiers keep every digit."""
    try:
        frame = _converted(table)
    except Exception:  # pandas' notes about the columns are hints, which a damaged or foreign file may have wrong
        try:
            frame = _converted(table.replace_schema_metadata(None))
        except (pa.ArrowException, ValueError) as error:
            raise DataError(
                f"columns {[str(name)[:60] for name in table.column_names[:5]]} hold values that cannot be converted "
                f"({str(error).splitlines()[0][:200]}). Write them with other types, or leave them out."
            ) from error
    if id in table.column_names:  # integers with gaps would become floats, and lose digits
        frame[id] = without_dictionary(table[id]).to_pandas(types_mapper=NULLABLE_TYPES.get)
    return frame


def _converted(table: Any) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas()
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    unnamed = "__index_level_"  # how pandas calls the columns of an index without a name
    if lost := {name for name in table.column_names if not name.startswith(unnamed)} - {str(name) for name in frame}:
        raise ValueError(f"without {lost}")
    return frame.reset_index(drop=True)


def checked(part: Any) -> Any:
    """Return a table or batch as read from a file, or raise ArrowInvalid if following its contents could crash."""
    for column in part.columns:
        column.validate(full=not pa.types.is_date64(column.type))  # some programs put times of the day into dates
    return part


def without_dictionary(column: Any) -> Any:
    """Return an Arrow column decoded, if it is dictionary-encoded."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def cells_of(batch: Any, name: str) -> Any:
    """Return a column of a table or DataFrame in Arrow's form."""
    return without_dictionary(batch[name]) if isinstance(batch, pa.Table) else pa.chunked_array([pa.array(batch[name])])


def key_hashes(keys: Any) -> NDArray[np.uint64]:
    """Return a hash of each key of an Arrow column: integers are their own, and a gap is that of 0 or of a text."""
    if pa.types.is_integer(keys.type):
        return np.asarray(keys.cast(pa.int64()).fill_null(0).to_numpy().view(np.uint64))
    return np.asarray(pd.util.hash_array(keys.cast(pa.string()).to_numpy(), categorize=False), np.uint64)
