"""How a column of text writes its numbers, found once for the whole column: with a point, or with commas."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deepsep.core.notices import warn
from deepsep.table.strays import Strays

# Each way to write a number, and what is to be removed from it; a comma that is left is the decimal one.
PLAIN = r"^[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:inf|infinity|nan))$"
THOUSANDS = r"^[+-]?(0|[1-9]\d{0,2}(,\d{3})*)(\.\d+)?$"
DECIMAL_COMMA = r"^[+-]?(\d+(\.\d{3})*(,\d+)?|,\d+)([eE][+-]?\d+)?$"
REMOVED = {PLAIN: "", THOUSANDS: ",", DECIMAL_COMMA: "."}


class NumberStyle:
    """How a column writes its numbers: look at all of its cells, then read them, in one piece or in many.

    The style is the one that reads most cells; among equals a plain number comes first, then commas between thousands,
    then decimal commas. What it cannot read is a missing value.

    Parameters
    ----------
    name : str
        Of the column, for messages.
    delimiter : str
        Between the values of the file: a decimal comma is none where commas stand between values, nor are there commas
        between thousands where semicolons do.

    Examples
    --------
    >>> style = NumberStyle("x", ";")
    >>> pieces = [pa.chunked_array([["1.234"]]), pa.chunked_array([["2.500,5", None]])]
    >>> for piece in pieces:
    ...     style.look(piece)
    >>> [style.read(piece).to_pylist() for piece in pieces]
    [[1234.0], [2500.5, None]]
    """

    def __init__(self, name: str, delimiter: str) -> None:
        self.name, self.delimiter = name, delimiter
        self.given = 0
        self._rows = 0
        styles = [PLAIN, *([THOUSANDS] if delimiter != ";" else []), *([DECIMAL_COMMA] if delimiter != "," else [])]
        self._strays = {style: Strays() for style in styles}
        self._comma: str | None = None

    def look(self, cells: Any) -> None:
        """Take note of the next cells: trimmed text, null where a value is missing."""
        start = self._rows + 1
        self._rows += len(cells)
        self.given += len(cells) - cells.null_count
        for style, strays in self._strays.items():
            strays.note(cells, pc.fill_null(pc.invert(pc.match_substring_regex(cells, style)), False), start)
        if self._comma is None:
            commas = cells.filter(pc.fill_null(pc.match_substring(cells, ","), False))
            self._comma = commas[0].as_py() if len(commas) else None

    @property
    def style(self) -> str:
        """The pattern of the style that reads most cells."""
        return min(self._strays, key=lambda style: self._strays[style].count)

    @property
    def strays(self) -> int:
        """How many cells are no numbers."""
        return self._strays[self.style].count

    def tell(self, *, wanted: bool) -> None:
        """Say what is doubtful about the column; raise if numbers are wanted of one that holds none."""
        if self.style == THOUSANDS and self.delimiter != "," and self._comma is not None:
            warn(
                f"column {self.name!r} holds numbers such as {self._comma!r}, whose comma is taken for one between "
                "thousands. If it is a decimal comma, write the file with decimal points."
            )
        self._strays[self.style].tell(self.name, "numbers", self.given, wanted=wanted)

    def read(self, cells: Any) -> Any:
        """Return cells of the column as numbers."""
        style = self.style
        if self.strays:
            known = pc.fill_null(pc.match_substring_regex(cells, style), False)
            cells = pc.if_else(known, cells, pa.scalar(None, pa.string()))
        if REMOVED[style]:
            cells = pc.replace_substring(cells, REMOVED[style], "")
            cells = pc.replace_substring(cells, ",", ".")
        return pc.cast(pc.replace_substring_regex(cells, r"^\+", ""), pa.float64())


def plain_numbers(cells: Any) -> Any:
    """Return cells as integers or numbers with a point, if all are; otherwise None."""
    try:
        numbers = pc.cast(cells, pa.float64())
    except pa.ArrowInvalid:
        return None
    try:
        return pc.cast(cells, pa.int64())
    except pa.ArrowInvalid:
        return numbers
