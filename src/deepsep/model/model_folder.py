"""Files of a model folder: the model, and next to it predictions, a report, and labels."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from deepsep.errors import ParameterError, Setting
from deepsep.evaluation.suspicious import SUSPICIOUS_COLUMNS, doubtful_labels, suspicious_labels
from deepsep.files.atomic import install
from deepsep.files.saving import MODEL_FILES, model_files
from deepsep.model.predictions import predict_unlabeled
from deepsep.model.training_table import Training
from deepsep.report.page import render
from deepsep.scoring.writer import Writer
from deepsep.table.drawn import DRAWN_COLUMN

if TYPE_CHECKING:
    from deepsep.model.table_model import TableModel

REPORT_FILE, SUMMARY_FILE = "report.html", "report.json"
SUSPICIOUS_FILE, LABELS_FILE = "suspicious.csv", "labels_used.csv"
PREDICTIONS_FORMATS = ("parquet", "csv", "xlsx")


def write_folder(model: TableModel, target: Path, *, report: bool, predictions: str) -> None:
    """Write all files of a model that has its training rows."""
    if predictions not in PREDICTIONS_FORMATS:
        raise ParameterError(
            f"{{format}}; pass one of {', '.join(PREDICTIONS_FORMATS)}.", format=Setting("predictions", predictions)
        )
    with TemporaryDirectory() as scratch:
        predicted = predict_unlabeled(model, model.training, folder=Path(scratch))
        files: dict[str, bytes | Path] = {
            predictions_file(predictions): predicted.write(Path(scratch, predictions_file(predictions)))
        }
        summary = model.summary() if report else None
        install_folder(model, files | other_files(model, model.training, summary), target)


def predictions_file(format: str) -> str:
    """Return the name of the file of predictions."""
    return f"predictions.{format}"


def install_folder(model: Any, extra: Mapping[str, bytes | Path], target: Path) -> None:
    """Write a model and the files that go with it to a folder; if anything fails, the folder is unchanged.

    The folder is new or was returned by ``check_model_folder``. Predictions, reports and labels of an earlier model in
    it are removed; other files stay.
    """
    other = (*map(predictions_file, PREDICTIONS_FORMATS), REPORT_FILE, SUMMARY_FILE, SUSPICIOUS_FILE, LABELS_FILE)
    install({**model_files(model), **extra}, target, own=(*MODEL_FILES, *other))


def other_files(model: Any, data: Training, summary: Mapping[str, Any] | None) -> dict[str, bytes | Path]:
    """Return the files of a folder besides the model and its predictions."""
    files: dict[str, bytes | Path] = {}
    if summary is not None:
        files[REPORT_FILE] = render(dict(summary), data_file=SUMMARY_FILE).encode()
        files[SUMMARY_FILE] = json.dumps(summary, ensure_ascii=False, indent=1).encode()
    return files | label_files(model, data, summary)


def label_files(model: Any, data: Training, summary: Mapping[str, Any] | None) -> dict[str, bytes]:
    """Return the labels of a fit as a file and, if labels were held out, those that are improbable.

    Origins of labels are those that were given: a guess stays a guess when the file is read again.
    """
    at = data.labeled
    drawn = None if data.labels_drawn is None else data.labels_drawn[at]
    labels = {data.ids.name: data.ids.to_numpy()[at], data.label: data.y.to_numpy()[at], DRAWN_COLUMN: drawn}
    files = {LABELS_FILE: as_file(pd.DataFrame(labels), "csv", {DRAWN_COLUMN: pa.string()})}
    if summary is not None and summary["suspicious"] is not None:
        doubtful = pd.DataFrame(summary["suspicious"], columns=["id", *SUSPICIOUS_COLUMNS])
        doubtful = doubtful.rename(columns={} if data.ids.name in SUSPICIOUS_COLUMNS else {"id": data.ids.name})
    elif getattr(model[-1], "out_of_fold_", None) is not None:
        doubtful = doubtful_labels(suspicious_labels(model, ids=data.ids), len(model.classes_))
    else:
        return files
    return files | {SUSPICIOUS_FILE: as_file(doubtful, "csv", {})}


def as_file(frame: pd.DataFrame, format: str, types: Mapping[str, Any]) -> bytes:
    """Return a DataFrame as a file; ``types`` are those of columns that may be empty."""
    with TemporaryDirectory() as folder:
        place = Path(folder, f"table.{format}")
        with Writer(place, types) as writer:
            writer.write(frame)
        return place.read_bytes()
