"""Detect how a column of text writes its numbers (decimal point or comma), once for the whole column."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deepsep.core.notices import warn
from deepsep.table.unreadable import UnreadableCells

# Ways to write a number, and the character to remove from each; a comma that remains is the decimal comma.
PLAIN = r"^[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:inf|infinity|nan))$"
THOUSANDS = r"^[+-]?(0|[1-9]\d{0,2}(,\d{3})*)(\.\d+)?$"
DECIMAL_COMMA = r"^[+-]?(\d+(\.\d{3})*(,\d+)?|,\d+)([eE][+-]?\d+)?$"
REMOVED = {PLAIN: "", THOUSANDS: ",", DECIMAL_COMMA: "."}


class NumberStyle:
    """How a column writes its numbers: examine all of its cells, then read them, all at once or piece by piece.

    The style is the one that reads most cells. On a tie, plain numbers come first, then commas as thousands separators,
    then decimal commas. Cells that it cannot read are missing values.

    Parameters
    ----------
    name : str
        Name of the column, for messages.
    delimiter : str
        The file's delimiter: a file with commas between its values has no decimal commas, and one with semicolons no
        commas as thousands separators.

    Examples
    --------
    >>> style = NumberStyle("x", ";")
    >>> pieces = [pa.chunked_array([["1.234"]]), pa.chunked_array([["2.500,5", None]])]
    >>> for piece in pieces:
    ...     style.examine(piece)
    >>> [style.read(piece).to_pylist() for piece in pieces]
    [[1234.0], [2500.5, None]]
    """

    def __init__(self, name: str, delimiter: str) -> None:
        self.name, self.delimiter = name, delimiter
        self.n_values = 0
        self._rows = 0
        styles = [PLAIN, *([THOUSANDS] if delimiter != ";" else []), *([DECIMAL_COMMA] if delimiter != "," else [])]
        self._unreadable = {style: UnreadableCells() for style in styles}
        self._comma: str | None = None

    def examine(self, cells: Any) -> None:
        """Examine the next cells: trimmed text, null where a value is missing."""
        start = self._rows + 1
        self._rows += len(cells)
        self.n_values += len(cells) - cells.null_count
        for style, unreadable in self._unreadable.items():
            unreadable.add(cells, pc.fill_null(pc.invert(pc.match_substring_regex(cells, style)), False), start)
        if self._comma is None:
            commas = cells.filter(pc.fill_null(pc.match_substring(cells, ","), False))
            self._comma = commas[0].as_py() if len(commas) else None

    @property
    def style(self) -> str:
        """Pattern of the style that reads most cells."""
        return min(self._unreadable, key=lambda style: self._unreadable[style].count)

    @property
    def n_unreadable(self) -> int:
        """How many cells are not numbers."""
        return self._unreadable[self.style].count

    def report(self, *, wanted: bool) -> None:
        """Warn about doubtful commas and cells that are not numbers; raise if no cell is a number."""
        if self.style == THOUSANDS and self.delimiter != "," and self._comma is not None:
            warn(
                f"column {self.name!r} holds numbers such as {self._comma!r}, whose comma is read as a thousands "
                "separator. If it is a decimal comma, write the file with decimal points."
            )
        self._unreadable[self.style].report(self.name, "numbers", self.n_values, wanted=wanted)

    def read(self, cells: Any) -> Any:
        """Return cells of the column as numbers."""
        style = self.style
        if self.n_unreadable:
            known = pc.fill_null(pc.match_substring_regex(cells, style), False)
            cells = pc.if_else(known, cells, pa.scalar(None, pa.string()))
        if REMOVED[style]:
            cells = pc.replace_substring(cells, REMOVED[style], "")
            cells = pc.replace_substring(cells, ",", ".")
        return pc.cast(pc.replace_substring_regex(cells, r"^\+", ""), pa.float64())


def plain_numbers(cells: Any) -> Any:
    """Return the cells as integers, or as floats with a decimal point; None if some cell is neither."""
    try:
        numbers = pc.cast(cells, pa.float64())
    except pa.ArrowInvalid:
        return None
    try:
        return pc.cast(cells, pa.int64())
    except pa.ArrowInvalid:
        return numbers
