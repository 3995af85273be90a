"""The kind of a column, by the type of its values: one answer for encoders, profiles, reports and workbooks."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

ColumnType = Literal["boolean", "number", "date", "text"]


def kind_of(column: pd.Series[Any]) -> ColumnType:
    """Return the kind of a column whose values have been converted; anything but numbers and dates is text.

    Examples
    --------
    >>> kind_of(pd.Series([1.5, None])), kind_of(pd.Series(["1.5", None])), kind_of(pd.Series([True]))
    ('number', 'text', 'boolean')
    """
    api = pd.api.types
    if isinstance(column.dtype, pd.CategoricalDtype):
        return "text"
    if api.is_bool_dtype(column):
        return "boolean"
    if api.is_numeric_dtype(column):
        return "number"
    return "date" if api.is_datetime64_any_dtype(column) else "text"


def seconds_of(dates: pd.Series[Any]) -> NDArray[np.float64]:
    """Return dates as seconds since 1970, NaN where one is missing."""
    seconds = dates.to_numpy("datetime64[us]").astype(np.int64) / 1e6
    return np.where(dates.isna(), np.nan, seconds)
