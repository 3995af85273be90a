"""Read a column of text as dates. Where the day or the month comes first, all rows of the column decide which."""

from __future__ import annotations

import re
from typing import Any, Literal

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from deepsep.errors import DataError, Setting, warn
from deepsep.table.numbers import UnreadableCells

TIME_PATTERN = r"([T ]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?$"
ISO_DATE = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?$"
YEAR_FIRST = r"^(\d{4})[./-](\d{1,2})[./-](\d{1,2})" + TIME_PATTERN
YEAR_LAST = r"^(\d{1,2})[./-](\d{1,2})[./-](\d{4})" + TIME_PATTERN
DATE_PATTERN = f"{ISO_DATE}|{YEAR_FIRST}|{YEAR_LAST}"
OTHER_DATE = re.compile(  # what looks like a date: 31/12/2025, 2025/12/31, 31.12.25, 31 Dec 2025
    r"(\d{1,2}([./-])\d{1,2}\2(\d{4}|\d{2})|\d{4}([./])\d{1,2}\4\d{1,2}"
    r"|\d{1,2}[ -][A-Za-z]{3,9}\.?[ -](\d{4}|\d{2}))\b",
    re.ASCII,  # as Arrow reads \d
)

Order = Literal["day", "month"]


class DateColumn:
    """A column of dates: examine all of its cells, then read them, all at once or piece by piece.

    Dates with the year first are clear, and dots mean that the day comes first, as in 31.12.2025. In dates such as
    05/03/2025 the order is that of ``dayfirst`` or, if it is None, the one in which more cells are days of the
    calendar; if there is none, it is unclear. A cell that is not a date, or not a day in the calendar, is a missing
    value.

    Examples
    --------
    >>> column = DateColumn("joined")
    >>> cells = pa.chunked_array([["05/03/2024", "31/12/2024", "unknown", None]])
    >>> column.examine(cells)
    >>> column.order, column.n_unreadable
    ('day', 1)
    >>> column.read(cells).to_pandas().dt.month.tolist()
    [3.0, 12.0, nan, nan]
    """

    def __init__(self, name: str, dayfirst: bool | None = None) -> None:
        self.name, self.dayfirst = name, dayfirst
        self.n_values = 0
        self._rows = 0
        self._unreadable: dict[Order, UnreadableCells] = {"day": UnreadableCells(), "month": UnreadableCells()}
        self._year_last: str | None = None  # the first cell with the year at the end
        self._without_dots: str | None = None  # the first of these that is not written with dots
        self._other_format: str | None = None

    @property
    def order(self) -> Order | None:
        """First part of dates that end with the year; None if that cannot be told."""
        if self.dayfirst is not None:
            return "day" if self.dayfirst else "month"
        day, month = (self._unreadable[order].count for order in ("day", "month"))
        if day != month:
            return "day" if day < month else "month"
        return "day" if self._without_dots is None else None

    @property
    def n_unreadable(self) -> int:
        """Number of cells that are not dates."""
        return self._unreadable[self.order or "day"].count

    def examine(self, cells: Any) -> None:
        """Examine the next cells: trimmed text, null where a value is missing."""
        start = self._rows + 1
        self._rows += len(cells)
        self.n_values += len(cells) - cells.null_count
        last = cells.filter(pc.fill_null(pc.match_substring_regex(cells, YEAR_LAST), False))
        if len(last) and self._year_last is None:
            self._year_last = last[0].as_py()
        if len(last) and self._without_dots is None:
            others = last.filter(pc.invert(pc.match_substring(last, ".")))
            self._without_dots = others[0].as_py() if len(others) else None
        for order, unreadable in self._unreadable.items():
            dates = self._read(cells, order)
            wrong = pc.and_(pc.is_valid(cells), pc.is_null(dates))
            unreadable.add(cells, wrong, start)
        if self._other_format is None and self._unreadable["day"].count:
            words = pc.unique(cells.filter(wrong)).to_pylist()
            self._other_format = next((word for word in words if _is_other(word)), None)

    def report(self, *, wanted: bool) -> None:
        """Say in which order the dates are read; raise if that cannot be told, or if they are no dates."""
        if self._other_format is not None:
            raise DataError(
                f"column {self.name!r} must hold dates such as 2024-01-31 or 31.01.2024, but has "
                f"{self._other_format!r}. Write its dates with the year first."
            )
        if self._year_last is not None and self.order is None:
            raise DataError(
                f"column {self.name!r} must hold dates, but in {self._without_dots!r} it is unclear whether the day or "
                "the month comes first. Pass {dayfirst} or {monthfirst}.",
                dayfirst=Setting("dayfirst", True),
                monthfirst=Setting("dayfirst", False),
            )
        if self._without_dots is not None and self.dayfirst is None:
            warn(f"column {self.name!r} holds dates such as {self._without_dots!r}, read with the {self.order} first.")
        self._unreadable[self.order or "day"].report(self.name, "dates", self.n_values, wanted=wanted)

    def warn_of_ambiguity(self) -> None:
        """Say that the dates stay text, since their order cannot be told."""
        warn(
            f"column {self.name!r} holds dates such as {self._without_dots!r}, where it is unclear whether the day or "
            "the month comes first; it is read as text. Pass {dayfirst} or {monthfirst}.",
            dayfirst=Setting("dayfirst", True),
            monthfirst=Setting("dayfirst", False),
        )

    def read(self, cells: Any) -> Any:
        """Return cells of the column as dates."""
        return self._read(cells, self.order or "day")

    def _read(self, cells: Any, order: Order) -> Any:
        iso = pc.fill_null(pc.match_substring_regex(cells, ISO_DATE), False)
        if not pc.all(iso).as_py():
            day, month = (1, 2) if order == "day" else (2, 1)
            other = pc.replace_substring_regex(cells, YEAR_LAST, rf"\3-\{month}-\{day}\4")
            other = pc.replace_substring_regex(other, YEAR_FIRST, r"\1-\2-\3\4")
            for _ in range(2):  # day and month overlap in the pattern
                other = pc.replace_substring_regex(other, r"([-T ])(\d)([-T: ]|$)", r"\10\2\3")
            known = pc.fill_null(pc.match_substring_regex(other, ISO_DATE), False)
            cells = pc.if_else(known, other, pa.scalar(None, pa.string()))
        dates = pd.to_datetime(cells.to_pandas(), format="ISO8601", utc=True, errors="coerce").dt.tz_localize(None)
        return pa.chunked_array([pa.array(dates, from_pandas=True)])


def _is_other(word: str) -> bool:
    return OTHER_DATE.match(word) is not None and not re.match(DATE_PATTERN, word, re.ASCII)
