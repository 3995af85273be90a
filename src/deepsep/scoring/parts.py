"""The unit of work of every scoring engine: one file or query to score."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from deepsep.core.column_kinds import ColumnType
from deepsep.table.source import Source

Report = Callable[[int, float], None]  # rows just scored, and the share of the source read so far


class UnreadablePart(Exception):
    """One of several parts could not be read; the others can."""


@dataclass(frozen=True)
class Part:
    """One table to score."""

    name: str  # of its pieces
    relative: str  # where it is in the folder of parts
    source: Source
    target: Path  # parts with the same target are written to it one after another; none in a database
    first_row: int
    n_rows: int | None
    types: Mapping[str, ColumnType]  # of the columns to read
    alone: bool  # whether there is no other, so that scoring fails if it cannot be read
