"""One file to score, as every engine is given it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from deepsep.table.batches import TableFile
from deepsep.table.column_types import ColumnType

Report = Callable[[int, float], None]  # rows that were scored, and which share of the source has been


@dataclass(frozen=True)
class Part:
    """One file to score."""

    source: TableFile
    target: Path  # several parts with one target follow each other in it
    first_row: int
    n_rows: int | None
    types: Mapping[str, ColumnType]  # the columns that are read
