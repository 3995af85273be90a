"""Detect how a column of text writes its numbers (decimal point or comma), once for the whole column.

Cells that cannot be read as numbers, or as dates, are counted and reported once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deepsep.errors import DataError, Setting, warn

# Ways to write a number.
PLAIN_NUMBER = r"^[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:inf|infinity|nan))$"
THOUSANDS_NUMBER = r"^[+-]?(0|[1-9]\d{0,2}(,\d{3})*)(\.\d+)?$"
DECIMAL_COMMA = r"^[+-]?(\d+(\.\d{3})*(,\d+)?|,\d+)([eE][+-]?\d+)?$"
# A unit before or after a number: € 17,02, -5 $, 55,0 %. Blanks between them may be non-breaking.
BLANK_CELL = "[ \\t\u00a0\u202f]*"
AMOUNT_PATTERN = rf"^([+-]?{BLANK_CELL}({{units}}){BLANK_CELL}[+-]?[\d.,]+|[+-]?[\d.,]+{BLANK_CELL}({{units}}))$"


@dataclass
class UnreadableCells:
    """Cells of a column that cannot be read as its type: how many, where the first one is, and examples."""

    count: int = 0
    first_row: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, cells: Any, wrong: Any, start: int) -> None:
        """Count the cells that the mask ``wrong`` marks; the first of ``cells`` is in row ``start``."""
        shown = 60  # characters of each
        examples = 3  # in a message
        count = pc.sum(wrong).as_py() or 0
        if count and not self.count:
            self.first_row = start + pc.index(wrong, True).as_py()
        if count and len(self.examples) < examples:
            new = [word[:shown] for word in pc.unique(cells.filter(wrong)).to_pylist()]
            self.examples = list(dict.fromkeys([*self.examples, *new]))[:examples]
        self.count += count

    def report(self, name: str, what: str, n_values: int, *, wanted: bool) -> None:
        """Warn that these cells are taken as missing; raise if they are all that the column has."""
        if not self.count:
            return
        examples = ", ".join(map(repr, self.examples))
        if self.count == n_values:
            raise DataError(
                f"column {name!r} must hold {what}, but none of its {n_values} values is one: it has {examples} "
                f"(first in row {self.first_row})."
            )
        warn(
            f"column {name!r} holds {n_values - self.count:,} {what} and {self.count:,} other values such "
            f"as {examples} (first in row {self.first_row}), which are taken as missing."
            # A type that the user or the model has set is not up for choice.
            + ("" if wanted else " If it is a column of names or codes, pass {types}."),
            types=Setting("types", {name: "text"}),
        )


class NumberStyle:
    """Notation of the numbers in a column: examine all of its cells, then read them, all at once or piece by piece.

    The style is the one that reads most cells. On a tie, plain numbers come first, then commas as thousands separators
    (not if semicolons separate the values of the file), then decimal commas. A unit, such as € or %, is left out; a
    cell with another unit than the first one is not read. Cells that are not read are missing values.

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
        styles = [PLAIN_NUMBER, *([THOUSANDS_NUMBER] if delimiter != ";" else []), DECIMAL_COMMA]
        self._unreadable = {style: UnreadableCells() for style in styles}
        self._comma: str | None = None
        self._unit: str | None = None
        self._amount: str | None = None  # the first cell with the unit

    def examine(self, cells: Any) -> None:
        """Examine the next cells: trimmed text, null where a value is missing."""
        if self._unit is None:
            self._find_unit(cells)
        cells = self._without_unit(cells)
        for style, unreadable in self._unreadable.items():
            wrong = pc.fill_null(pc.invert(pc.match_substring_regex(cells, style)), False)
            unreadable.add(cells, wrong, self._rows + 1)
        self._rows += len(cells)
        self.n_values += len(cells) - cells.null_count
        if self._comma is None:
            commas = cells.filter(pc.fill_null(pc.match_substring(cells, ","), False))
            self._comma = commas[0].as_py() if len(commas) else None

    @property
    def style(self) -> str:
        """Pattern of the style that reads most cells."""
        return min(self._unreadable, key=lambda style: self._unreadable[style].count)

    @property
    def n_unreadable(self) -> int:
        """Number of cells that are not numbers."""
        return self._unreadable[self.style].count

    def report(self, *, wanted: bool) -> None:
        """Warn about units, doubtful commas and cells that are not numbers; raise if no cell is a number."""
        if self._amount is not None:
            warn(f"column {self.name!r} holds values such as {self._amount!r}, read as numbers without {self._unit!r}.")
        if self.style == THOUSANDS_NUMBER and self.delimiter != "," and self._comma is not None:
            warn(
                f"column {self.name!r} holds numbers such as {self._comma!r}, whose comma is read as a thousands "
                "separator. If it is a decimal comma, write the file with decimal points."
            )
        self._unreadable[self.style].report(self.name, "numbers", self.n_values, wanted=wanted)

    def read(self, cells: Any) -> Any:
        """Return cells of the column as numbers."""
        cells, style = self._without_unit(cells), self.style
        if self.n_unreadable:
            known = pc.fill_null(pc.match_substring_regex(cells, style), False)
            cells = pc.if_else(known, cells, pa.scalar(None, pa.string()))
        if style != PLAIN_NUMBER:
            cells = pc.replace_substring(cells, "," if style == THOUSANDS_NUMBER else ".", "")
            cells = pc.replace_substring(cells, ",", ".")
        return pc.cast(pc.replace_substring_regex(cells, r"^\+", ""), pa.float64())

    def _find_unit(self, cells: Any) -> None:
        units = ("€", "$", "£", "¥", "%", "EUR", "USD", "GBP", "CHF", "JPY")
        pattern = AMOUNT_PATTERN.format(units="|".join(map(re.escape, units)))
        amounts = cells.filter(pc.fill_null(pc.match_substring_regex(cells, pattern), False))
        if len(amounts):
            self._amount = amounts[0].as_py()
            self._unit = next(unit for unit in units if unit in str(self._amount))

    def _without_unit(self, cells: Any) -> Any:
        if self._unit is None:
            return cells
        amounts = pc.match_substring_regex(cells, AMOUNT_PATTERN.format(units=re.escape(self._unit)))
        bare = pc.replace_substring_regex(cells, rf"{BLANK_CELL}{re.escape(self._unit)}{BLANK_CELL}", "")
        return pc.if_else(amounts, bare, cells)


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
