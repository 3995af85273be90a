"""The unit of work of every scoring engine: one file or query to score."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from deepsep.scoring.scores_tables import ScoresTable
from deepsep.table.batches import TableFile
from deepsep.table.column_types import ColumnType
from deepsep.table.queries import QueryTable

Source = TableFile | QueryTable
Target = Path | ScoresTable

Report = Callable[[int, float], None]  # rows just scored, and the share of the source read so far


@dataclass(frozen=True)
class Part:
    """One table to score."""

    source: Source
    target: Target  # parts with the same target are written to it one after another
    first_row: int
    n_rows: int | None
    types: Mapping[str, ColumnType]  # of the columns to read
