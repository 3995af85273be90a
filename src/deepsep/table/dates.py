"""Read a column of text as dates, which must have the year first: otherwise day and month would be a guess."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from deepsep.errors import DataError
from deepsep.table.unreadable import UnreadableCells

ISO_DATE = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?$"
OTHER_DATE = re.compile(  # dates not in ISO format: 31/12/2025, 2025/12/31, 31 Dec 2025
    r"(\d{1,2}([./-])\d{1,2}\2(\d{4}|\d{2})|\d{4}([./])\d{1,2}\4\d{1,2}"
    r"|\d{1,2}[ -][A-Za-z]{3,9}\.?[ -](\d{4}|\d{2}))\b",
    re.ASCII,  # as Arrow reads \d
)


class DateColumn:
    """A column of dates: examine all of its cells, then read them, all at once or piece by piece.

    A cell that is not a date, or not a day in the calendar, is a missing value. A date in another format is an error:
    guessing day and month would depend on the other rows of the batch, and dropping such dates would lose them.

    Parameters
    ----------
    name : str
        Name of the column, for messages.

    Examples
    --------
    >>> column = DateColumn("joined")
    >>> cells = pa.chunked_array([["2024-01-31", "unknown", None]])
    >>> column.examine(cells)
    >>> column.n_unreadable
    1
    >>> column.read(cells).to_pandas().dt.year.tolist()
    [2024.0, nan, nan]
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.n_values = 0
        self._rows = 0
        self._unreadable = UnreadableCells()
        self._other_format: str | None = None

    @property
    def n_unreadable(self) -> int:
        """How many cells are not dates."""
        return self._unreadable.count

    def examine(self, cells: Any) -> None:
        """Examine the next cells: trimmed text, null where a value is missing."""
        start = self._rows + 1
        self._rows += len(cells)
        self.n_values += len(cells) - cells.null_count
        dates = self.read(cells)
        if dates.null_count == cells.null_count:
            return
        wrong = pc.and_(pc.is_valid(cells), pc.is_null(dates))
        self._unreadable.add(cells, wrong, start)
        if self._other_format is None:
            words = pc.unique(cells.filter(wrong)).to_pylist()
            self._other_format = next((word for word in words if OTHER_DATE.match(word)), None)

    def report(self, *, wanted: bool) -> None:
        """Warn about cells that are not dates; raise if dates are in another format, or if there are none."""
        if self._other_format is not None:
            raise DataError(
                f"column {self.name!r} must hold dates such as 2024-01-31, but has {self._other_format!r}, where day "
                "and month would be a guess. Write its dates with the year first."
            )
        self._unreadable.report(self.name, "dates", self.n_values, wanted=wanted)

    def read(self, cells: Any) -> Any:
        """Return cells of the column as dates."""
        known = pc.fill_null(pc.match_substring_regex(cells, ISO_DATE), False)
        cells = pc.if_else(known, cells, pa.scalar(None, pa.string()))
        dates = pd.to_datetime(cells.to_pandas(), format="ISO8601", utc=True, errors="coerce").dt.tz_localize(None)
        return pa.chunked_array([pa.array(dates, from_pandas=True)])
