"""The unit of work of every scoring engine: one file to score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deepsep.drift.counts import Counts
from deepsep.table.batches import TableFile
from deepsep.table.column_types import ColumnType

Report = Callable[[int, float], None]  # rows just scored, and the share of the source read so far


@dataclass(frozen=True)
class Part:
    """One file to score."""

    source: TableFile
    target: Path  # parts with the same target are written to it one after another
    first_row: int
    n_rows: int | None
    types: Mapping[str, ColumnType]  # of the columns to read


@dataclass(frozen=True)
class Tally:
    """What was scored in one file."""

    labels: Counter[Any]  # rows per label
    drift: Counts | None  # None: the model has no profile to compare with
