"""Count the cells of a column that cannot be read as its type, and report them once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from deepsep.errors import DataError, Setting, warn


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
