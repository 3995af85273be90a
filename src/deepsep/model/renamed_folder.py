"""Rename the classes of a saved model, or the segments of a survey, also in the files next to it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa

from deepsep.classifiers.renaming import new_names
from deepsep.files.atomic import install
from deepsep.files.manifest import read_folder
from deepsep.files.saving import MODEL_FILES, model_files
from deepsep.model.model_folder import (
    LABELS_FILE,
    PREDICTIONS_FILES,
    REPORT_FILE,
    SUMMARY_FILE,
    SUSPICIOUS_FILE,
    as_file,
)
from deepsep.models import load, rename_classes
from deepsep.report import render, render_segments
from deepsep.survey import SurveySegments, segment_files
from deepsep.survey.answer_profiles import dump_names

Names = Mapping[str, str]  # old to new, as text


class RenamedFolder(NamedTuple):
    """Result of :func:`rename_folder`."""

    folder: Path
    what: str  # "classes" or "segments"
    names: dict[str, str]  # all of them, old to new, as text
    files: list[str]  # those next to the model that have the new names


def rename_folder(
    path: str | os.PathLike[str], names: Mapping[Any, str], *, command: str | None = None
) -> RenamedFolder:
    """Rename classes in a model folder, or segments in a folder of ``deepsep segments``, everywhere they appear.

    Probabilities stay the same to the last bit, and their columns keep their order. The folder is changed completely or
    not at all. ``command`` is what the page of segments says it was made by.

    Raises DataError if an old name does not exist, a new one is empty, or two would be the same.
    """
    around = Path(path).resolve()
    if around.name == segment_files.MODEL_FOLDER and segment_files.read_summary(around.parent) is not None:
        around = around.parent
    summary = segment_files.read_summary(around)
    model = load(around if summary is None else around / segment_files.MODEL_FOLDER)
    segments = isinstance(model, SurveySegments)
    new = new_names(model.segment_names_ if segments else model.classes_, names)
    as_text = {str(old): name for old, name in new.items()}
    files = model_files(model.rename([*new.values()]) if segments else rename_classes(model, new))
    own: tuple[str, ...] = MODEL_FILES
    others = {} if segments else dict(_of_classifier(around, as_text))
    if summary is not None:
        root = segment_files.MODEL_FOLDER
        files = {f"{root}/{name}": content for name, content in (read_folder(around / root) | files).items()}
        own, others = (root,), dict(_of_segments(around, summary, as_text, command))
    install(files | others, around, own={*others, *own})
    return RenamedFolder(around, "segments" if segments else "classes", as_text, sorted(others))


def _of_classifier(folder: Path, names: Names) -> Iterator[tuple[str, bytes]]:
    """Yield the files next to a classifier that name its classes, with the new names."""
    for name, columns in {**dict.fromkeys((*PREDICTIONS_FILES, LABELS_FILE), 1), SUSPICIOUS_FILE: 2}.items():
        if (folder / name).is_file():
            yield name, _table(folder / name, names, columns)
    if (folder / SUMMARY_FILE).is_file():
        summary = _in_report(json.loads((folder / SUMMARY_FILE).read_bytes()), names)
        yield SUMMARY_FILE, json.dumps(summary, ensure_ascii=False, indent=1).encode()
        if (folder / REPORT_FILE).is_file():
            yield REPORT_FILE, render(summary, data_file=SUMMARY_FILE).encode()


def _of_segments(
    folder: Path, summary: dict[str, Any], names: Names, command: str | None
) -> Iterator[tuple[str, bytes]]:
    """Yield the files of ``deepsep segments`` around its model, with the new names."""
    for segment in summary["segments"]:
        segment["name"] = names[segment["name"]]
    content = {
        segment_files.SUMMARY_FILE: lambda: json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False) + "\n",
        segment_files.NAMES_FILE: lambda: dump_names([segment["name"] for segment in summary["segments"]]),
        segment_files.PAGE_FILE: lambda: render_segments(summary, command=command),
    }
    tables = {segment_files.RESPONDENTS_FILE: 1, segment_files.PROFILES_FILE: 0}
    for name in (*content, *tables):
        if (folder / name).is_file():
            yield name, content[name]().encode() if name in content else _table(folder / name, names, tables[name])


def _table(file: Path, names: Names, label_columns: int) -> bytes:
    """Return a table with new names in the columns of labels, which follow the first column, and of probabilities."""
    as_text: dict[str, Any] = {"keep_default_na": False, "na_values": [""]}  # a class may be called "NA"
    if file.suffix == ".parquet":
        frame = pd.read_parquet(file, dtype_backend="pyarrow")
    elif file.suffix == ".xlsx":
        frame = pd.read_excel(file, dtype=object, **as_text)
    else:
        frame = pd.read_csv(file, dtype=str, **as_text)
    other = "set" if label_columns else "name"  # of classes, and of segments
    labels = [name for i, name in enumerate(frame.columns) if 0 < i <= label_columns or name == other]
    for name in labels:
        frame[name] = [None if pd.isna(cell) else _set(str(cell), names) for cell in frame[name]]
    frame = frame.rename(columns={f"probability_{old}": f"probability_{new}" for old, new in names.items()})
    return as_file(frame, file.suffix[1:], dict.fromkeys(labels, pa.string()))


def _set(value: str, names: Names) -> str:
    """Return the new name of a class, or of each in a set such as "gold|blue"."""
    if value in names:
        return names[value]
    parts = value.split("|")
    return "|".join(names[part] for part in parts) if all(part in names for part in parts) else value


def _in_report(value: Any, names: Names, key: str = "") -> Any:
    """Return the results behind a report with new names, where a class is named and where a sentence quotes it."""
    classes = ("classes", "class", "given", "predicted", "first", "second")  # keys whose text is a class
    quotes = ("notes", "findings", "priors")  # keys whose text quotes classes
    if isinstance(value, list):
        return [_in_report(part, names, key) for part in value]
    if isinstance(value, dict):
        return {name: _in_report(part, names, key if key in quotes else name) for name, part in value.items()}
    if isinstance(value, str) and key in classes:
        return names.get(value, value)
    if not isinstance(value, str) or key not in quotes:
        return value
    new = {repr(old): repr(name) for old, name in names.items()}
    return re.sub(rf"(?<!column )(?:{'|'.join(map(re.escape, new))})", lambda found: new[found[0]], value)
