"""Files that appear complete or not at all."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from deepsep.errors import DataError
from deepsep.files.folder import install
from deepsep.files.manifest import check_model_folder
from deepsep.files.saving import OWN, model_files

PREDICTIONS, REPORT, SUMMARY = "predictions.parquet", "report.html", "report.json"


def save_model(model: Any, extra: Mapping[str, bytes], path: str | os.PathLike[str]) -> None:
    """Write a model and what belongs to it to one folder, which is as it was before if anything fails.

    Predictions and reports of an earlier model in that folder go; other files in it stay.
    """
    target = check_model_folder(path)
    install({**model_files(model), **extra}, target, own=(*OWN, PREDICTIONS, REPORT, SUMMARY))


def read_folder(root: Path) -> dict[str, bytes]:
    """Return the content of every file below a folder."""
    return {file.relative_to(root).as_posix(): file.read_bytes() for file in root.rglob("*") if file.is_file()}


def parquet_bytes(frame: Any) -> bytes:
    """Return a DataFrame as a Parquet file."""
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()


def check_id(id: Any, names: Iterable[str]) -> None:
    """Raise if the identifier has the name of a column of the result, where one would replace the other."""
    if id in names:
        raise DataError(f"the id column is named {id!r}, like a column of the result. Rename it.")


def predicted_names(classes: Any) -> list[str]:
    """Return the names of the columns of predictions, but for the identifier."""
    return ["label", *(f"probability_{name}" for name in classes), "confidence"]


def predictions(classes: Any, proba: Any, ids: Any) -> Any:
    """Return a DataFrame with identifier, label, probability of each class, and confidence."""
    import pandas as pd

    columns = [classes[proba.argmax(axis=1)], *proba.T, proba.max(axis=1)]
    named = dict(zip(predicted_names(classes), columns, strict=True))
    return pd.DataFrame({ids.name: ids.to_numpy(), **named})
