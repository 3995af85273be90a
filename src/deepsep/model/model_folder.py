"""Files of a model folder: the model, and next to it predictions, a report, and labels."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from deepsep.evaluation.suspicious import SUSPICIOUS_COLUMNS, doubtful_labels, suspicious_labels
from deepsep.files.atomic import as_utf8, install
from deepsep.files.saving import MODEL_FILES, model_files
from deepsep.model.predictions import Predictions
from deepsep.model.training_table import Training
from deepsep.report.page import render
from deepsep.scoring.writer import Writer
from deepsep.table.batches import open_files
from deepsep.table.excel_cells import fits
from deepsep.table.join import DRAWN_COLUMN
from deepsep.table.reading import read_table

if TYPE_CHECKING:
    from deepsep.model.table_model import TableModel

REPORT_FILE, SUMMARY_FILE = "report.html", "report.json"
SUSPICIOUS_FILE, LABELS_FILE = "suspicious.csv", "labels_used.csv"
PREDICTIONS_NAME, PREDICTIONS_FORMATS = "predictions.", ("parquet", "csv", "xlsx")
PREDICTIONS_FILES = tuple(f"{PREDICTIONS_NAME}{format}" for format in PREDICTIONS_FORMATS)


def usual_format(data: Training) -> str:
    """Return the format of the predictions of a table: its own where that is Excel or text, and else Parquet.

    What does not fit on an Excel sheet is CSV, and so are predictions for SPSS, which reads no Parquet.
    """
    format = {"excel": "xlsx", "text": "csv", "spss": "csv"}.get(data.origin.kind if data.origin else "", "parquet")
    return "csv" if format == "xlsx" and not fits(data.n_unlabeled, len(data.labels.classes) + 4) else format


def write_folder(
    model: TableModel,
    target: Path,
    predictions: Predictions,
    format: str | None = None,
    *,
    summary: Mapping[str, Any] | None,
    escape_formulas: bool = False,
) -> list[str]:
    """Write a model and the files that go with it, and return their names; if anything fails, nothing changes.

    The folder is new or was returned by ``check_model_folder``. Predictions, reports and labels of an earlier model in
    it are removed; other files stay. Without a format, the predictions have the usual one. Cells of CSV files that look
    like formulas are escaped, or warned of.
    """
    name = f"{PREDICTIONS_NAME}{format or usual_format(model.training)}"
    with TemporaryDirectory() as scratch:
        written = predictions.write(Path(scratch, name), escape_formulas=escape_formulas)
        files: dict[str, bytes | Path] = {name: written}
        if summary is not None:
            files[REPORT_FILE] = as_utf8(render(dict(summary), data_file=SUMMARY_FILE))
            files[SUMMARY_FILE] = as_utf8(json.dumps(summary, ensure_ascii=False, indent=1))
        files |= label_files(model, model.training, summary, escape_formulas)
        own = (*MODEL_FILES, *PREDICTIONS_FILES, REPORT_FILE, SUMMARY_FILE, SUSPICIOUS_FILE, LABELS_FILE)
        install({**model_files(model), **files}, target, own)
    return list(files)


def read_labels_used(folder: Path) -> pd.DataFrame | None:
    """Return the identifiers, labels and origins of labels that a saved model was fitted to; None if they are gone."""
    if not (folder / LABELS_FILE).exists():
        return None
    table = open_files(folder / LABELS_FILE)
    id, label, *_ = table.names
    return read_table(table, label=label, id=id)


def label_files(
    model: Any, data: Training, summary: Mapping[str, Any] | None, escape_formulas: bool = False
) -> dict[str, bytes]:
    """Return the labels of a fit as a file and, if labels were held out, those that are improbable.

    Origins of labels are those that were given: a guess stays a guess when the file is read again.
    """
    at = data.labeled
    drawn = None if data.labels_drawn is None else data.labels_drawn[at]
    labels = {data.ids.name: data.ids.to_numpy()[at], data.label: data.y.to_numpy()[at], DRAWN_COLUMN: drawn}
    files = {
        LABELS_FILE: as_file(
            pd.DataFrame(labels), LABELS_FILE, {DRAWN_COLUMN: pa.string()}, escape_formulas=escape_formulas
        )
    }
    if summary is not None and summary["suspicious"] is not None:
        doubtful = pd.DataFrame(summary["suspicious"], columns=["id", *SUSPICIOUS_COLUMNS])
        doubtful = doubtful.rename(columns={} if data.ids.name in SUSPICIOUS_COLUMNS else {"id": data.ids.name})
    elif getattr(model[-1], "out_of_fold_", None) is not None:
        doubtful = doubtful_labels(suspicious_labels(model, ids=data.ids), len(model.classes_))
    else:
        return files
    return files | {SUSPICIOUS_FILE: as_file(doubtful, SUSPICIOUS_FILE, {}, escape_formulas)}


def as_file(frame: pd.DataFrame, name: str, types: Mapping[str, Any], escape_formulas: bool = False) -> bytes:
    """Return the content of a file of this name with a DataFrame; ``types`` are those of columns that may be empty."""
    with TemporaryDirectory() as folder:
        place = Path(folder, name)
        with Writer(place, types, escape_formulas=escape_formulas) as writer:
            writer.write(frame)
        return place.read_bytes()
