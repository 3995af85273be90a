"""Write the files of a model folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from deepsep.cli.options import Format
from deepsep.files.folder import install
from deepsep.files.saving import MODEL_FILES, model_files

if TYPE_CHECKING:
    from deepsep.cli.training import Training

REPORT, SUMMARY = "report.html", "report.json"
SUSPICIOUS, LABELS = "suspicious.csv", "labels_used.csv"


def save_model(model: Any, extra: Mapping[str, bytes | Path], target: Path) -> None:
    """Write a model and the files that go with it to a folder; if anything fails, the folder is unchanged.

    The folder is new or was returned by ``check_model_folder``. Predictions, reports and labels of an earlier model in
    it are removed; other files stay.
    """
    own = (*MODEL_FILES, *(format.file for format in Format), REPORT, SUMMARY, SUSPICIOUS, LABELS)
    install({**model_files(model), **extra}, target, own=own)


def read_folder(root: Path) -> dict[str, bytes]:
    """Return the content of every file below a folder."""
    return {file.relative_to(root).as_posix(): file.read_bytes() for file in root.rglob("*") if file.is_file()}


def label_files(model: Any, data: Training, summary: Mapping[str, Any] | None) -> dict[str, bytes]:
    """Return the labels of a fit as a file and, if labels were held out, those that were contradicted.

    Origins of labels are those that were given: a guess stays a guess when the file is read again.
    """
    import pandas as pd
    import pyarrow as pa

    from deepsep.evaluation.suspicious import SUSPICIOUS_COLUMNS, contradicted, suspicious_labels
    from deepsep.table.drawn import DRAWN

    at = data.labeled
    drawn = None if data.labels_drawn is None else data.labels_drawn[at]
    labels = {data.ids.name: data.ids.to_numpy()[at], data.label: data.y.to_numpy()[at], DRAWN: drawn}
    files = {LABELS: as_file(pd.DataFrame(labels), Format.csv, {DRAWN: pa.string()})}
    if summary is not None and summary["suspicious"] is not None:
        doubtful = pd.DataFrame(summary["suspicious"], columns=["id", *SUSPICIOUS_COLUMNS])
        doubtful = doubtful.rename(columns={} if data.ids.name in SUSPICIOUS_COLUMNS else {"id": data.ids.name})
    elif getattr(model[-1], "out_of_fold_", None) is not None:
        doubtful = contradicted(suspicious_labels(model, ids=data.ids))
    else:
        return files
    return files | {SUSPICIOUS: as_file(doubtful, Format.csv, {})}


def as_file(frame: Any, format: Format, types: Mapping[str, Any]) -> bytes:
    """Return a DataFrame as a file of predictions; ``types`` are those of columns that may be empty."""
    from deepsep.scoring.writing import Writer

    with TemporaryDirectory() as folder:
        place = Path(folder, format.file)
        with Writer(place, types) as writer:
            writer.write(frame)
        return place.read_bytes()
