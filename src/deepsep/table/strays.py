"""Cells that do not hold what their column does: counted over the whole column, and told of once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from deepsep.core.notices import warn
from deepsep.errors import DataError, Setting

WORDS = 3  # examples in a message


@dataclass
class Strays:
    """What one way to read a column cannot read."""

    count: int = 0
    row: int = 0  # of the first one
    words: list[str] = field(default_factory=list)

    def note(self, cells: Any, wrong: Any, start: int) -> None:
        """Add those of some cells that are wrong; the first cell is in row ``start``."""
        found = pc.sum(wrong).as_py() or 0
        if found and not self.count:
            self.row = start + pc.index(wrong, True).as_py()
        if found and len(self.words) < WORDS:
            new = pc.unique(cells.filter(wrong)).to_pylist()
            self.words = list(dict.fromkeys([*self.words, *new]))[:WORDS]
        self.count += found

    def tell(self, name: str, what: str, given: int, *, wanted: bool) -> None:
        """Say that strays are missing values; raise if they are all that is given."""
        if not self.count:
            return
        words = ", ".join(map(repr, self.words))
        if self.count == given:
            raise DataError(
                f"column {name!r} must hold {what}, but none of {given} values is one, such as {words} "
                f"(first in row {self.row})."
            )
        warn(
            f"column {name!r} holds {given - self.count:,} {what} and {self.count:,} other values such "
            f"as {words} (first in row {self.row}), which are taken as missing."
            # A type that was asked for, or that a model brings along, is not up for choice.
            + ("" if wanted else " If it is a column of names or codes, pass {types}."),
            types=Setting("types", {name: "text"}),
        )
