"""A column of text as dates: with the year first, since the order of day and month is otherwise a guess."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from deepsep.errors import DataError
from deepsep.table.strays import Strays

ISO_DATE = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?$"
OTHER_DATE = re.compile(  # than ISO's: 31/12/2025, 2025/12/31, 31 Dec 2025
    r"(\d{1,2}([./-])\d{1,2}\2(\d{4}|\d{2})|\d{4}([./])\d{1,2}\4\d{1,2}"
    r"|\d{1,2}[ -][A-Za-z]{3,9}\.?[ -](\d{4}|\d{2}))\b",
    re.ASCII,  # as Arrow reads \d
)


class DateColumn:
    """A column of dates: look at all of its cells, then read them, in one piece or in many.

    What is no date, or no day of the calendar, is a missing value. A date that is written otherwise is an error: a
    guess at day and month would depend on which rows come together, and to leave such dates out would lose them.

    Parameters
    ----------
    name : str
        Of the column, for messages.

    Examples
    --------
    >>> column = DateColumn("joined")
    >>> cells = pa.chunked_array([["2024-01-31", "unknown", None]])
    >>> column.look(cells)
    >>> column.strays
    1
    >>> column.read(cells).to_pandas().dt.year.tolist()
    [2024.0, nan, nan]
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.given = 0
        self._rows = 0
        self._strays = Strays()
        self._other: str | None = None

    @property
    def strays(self) -> int:
        """How many cells are no dates."""
        return self._strays.count

    def look(self, cells: Any) -> None:
        """Take note of the next cells: trimmed text, null where a value is missing."""
        start = self._rows + 1
        self._rows += len(cells)
        self.given += len(cells) - cells.null_count
        dates = self.read(cells)
        if dates.null_count == cells.null_count:
            return
        wrong = pc.and_(pc.is_valid(cells), pc.is_null(dates))
        self._strays.note(cells, wrong, start)
        if self._other is None:
            words = pc.unique(cells.filter(wrong)).to_pylist()
            self._other = next((word for word in words if OTHER_DATE.match(word)), None)

    def tell(self, *, wanted: bool) -> None:
        """Say what is doubtful about the column; raise if dates are written otherwise, or if there are none."""
        if self._other is not None:
            raise DataError(
                f"column {self.name!r} must hold dates such as 2024-01-31, and has {self._other!r}, whose order of day "
                "and month is a guess. Write its dates with the year first."
            )
        self._strays.tell(self.name, "dates", self.given, wanted=wanted)

    def read(self, cells: Any) -> Any:
        """Return cells of the column as dates."""
        known = pc.fill_null(pc.match_substring_regex(cells, ISO_DATE), False)
        cells = pc.if_else(known, cells, pa.scalar(None, pa.string()))
        dates = pd.to_datetime(cells.to_pandas(), format="ISO8601", utc=True, errors="coerce").dt.tz_localize(None)
        return pa.chunked_array([pa.array(dates, from_pandas=True)])
