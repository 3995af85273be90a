"""Predictions of the unlabelled rows of a training table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from deepsep.evaluation.frames import check_id_name, prediction_names
from deepsep.model.training_table import ROW_COLUMN, Training
from deepsep.scoring.decisions import MOST_PROBABLE_CLASS, Decision, Decisions
from deepsep.scoring.files import score_others
from deepsep.scoring.frame import label_type
from deepsep.scoring.job import BATCH_ROWS, Progress
from deepsep.scoring.writer import Writer


@dataclass(frozen=True)
class Predictions:
    """Predictions of the unlabelled rows of a training table."""

    frame: pd.DataFrame  # those of the rows in memory
    labels: dict[Any, int]  # number of rows for which each class is predicted, of all unlabelled rows
    n_rows: int  # number of unlabelled rows
    decisions: dict[str, Any]  # what sets, abstentions and costs did
    types: dict[str, Any]  # Arrow types of columns that may be empty
    # Of rows that are not in memory: the result of ``score_file``, and the Parquet file of all predictions
    scored: dict[str, Any] | None = None
    file: Path | None = None

    @property
    def by_student(self) -> bool:
        """Whether the student of a committee predicted them."""
        return self.scored is not None and self.scored["scored_by"] == "student"

    def frames(self) -> Iterator[pd.DataFrame]:
        """Yield the predictions of all unlabelled rows, batch by batch."""
        if self.file is None:
            yield self.frame
        else:
            with pq.ParquetFile(self.file) as file:
                for batch in file.iter_batches(BATCH_ROWS):
                    yield batch.to_pandas()

    def write(self, target: Path) -> Path:
        """Write the predictions of all unlabelled rows to a file, and return where they are."""
        if self.file is not None and target.suffix == self.file.suffix:
            return self.file
        with Writer(target, self.types) as writer:
            for frame in self.frames():
                writer.write(frame)
        return target


def check_predicted_names(data: Training, decision: Decision) -> None:
    """Raise before a long fit if the column of identifiers has the name of a column of predictions."""
    check_id_name(data.ids.name, prediction_names(data.labels.classes, data.label, sets=decision.sets is not None))


def predict_unlabeled(
    model: Any,
    data: Training,
    decision: Decision = MOST_PROBABLE_CLASS,
    *,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> Predictions:
    """Return the predictions of the unlabelled rows.

    ``folder`` is for the predictions of rows that are not in memory; without it, only those in memory are predicted.
    """
    check_predicted_names(data, decision)
    decisions, free = Decisions.of(model, decision), ~data.labeled
    predicted, tally = decisions.columns(model[-1].label_distributions_[free], data.label)
    frame = pd.DataFrame({data.ids.name: data.ids.to_numpy()[free], **predicted})
    if data.large is None or folder is None:
        counts = frame.iloc[:, 1].value_counts().to_dict()
        described = decisions.describe(tally, model.evidence_)
        return Predictions(frame, counts, len(frame), described, label_type(model, decisions))
    place = folder / "all.parquet"
    with data.large.unlabeled() as tables:
        done = score_others(model, tables, place, decision, id=data.large.id, number=ROW_COLUMN, progress=progress)
    return Predictions(frame, done["labels"], done["rows"], done["decisions"], {}, done, place)
