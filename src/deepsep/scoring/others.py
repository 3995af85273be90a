"""Predict the rows of a table that is too large for memory, but for those that have a label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from deepsep.scoring.decisions import Tally
from deepsep.scoring.local import id_type, label_type, scored_batches
from deepsep.scoring.run import Progress, Scoring
from deepsep.scoring.settings import BATCH_ROWS, Decision
from deepsep.scoring.writing import Writer
from deepsep.table.source import NUMBER_COLUMN, Source


def score_others(
    model: Any,
    rows: Sequence[Source],
    target: Path,
    decision: Decision,
    *,
    id: str | None,
    number: str,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Predict these rows batch by batch, and write a Parquet file as ``score_file`` does.

    Who scores follows from their number, as in ``score_file``, which says what the result holds; ``number`` is the name
    of the column of row numbers, where there is no ``id``.
    """
    scoring = Scoring(model, decision, id=id or NUMBER_COLUMN)
    scoring.profile = None  # the model was made for this table
    parts = [scoring.part(part, "the table") for part in rows]
    scoring.choose(parts)
    types = label_type(model, scoring.decisions) | {
        id or number: id_type(parts, id or NUMBER_COLUMN)[id or NUMBER_COLUMN]
    }
    tallies, done, n = [], 0, sum(part.n_rows or 0 for part in parts)
    with Writer(target, types) as writer:
        for part in parts:
            for scored, share in scored_batches(scoring.scorer, part, scoring.options, 0):
                writer.write(scored.frame.rename(columns={NUMBER_COLUMN: number}))
                tallies.append(scored.tally)
                done += len(scored.frame)
                if progress is not None:
                    progress(done, done / n if n else share)
    return scoring.result([sum(tallies, Tally())])


def read_frames(file: Path) -> Iterator[pd.DataFrame]:
    """Yield the predictions in a Parquet file, batch by batch."""
    with pq.ParquetFile(file) as source:
        for batch in source.iter_batches(BATCH_ROWS):
            yield batch.to_pandas()
