"""Rename classes and segments in the files next to a model: predictions, labels, reports and profiles."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deepsep.model.model_folder import (
    LABELS_FILE,
    PREDICTIONS_FILES,
    REPORT_FILE,
    SUMMARY_FILE,
    SUSPICIOUS_FILE,
    as_file,
)

Names = Mapping[str, str]  # old to new, as text

NAMING_KEYS = (
    "classes",
    "class",
    "given",
    "predicted",
    "first",
    "second",
)  # keys of a report whose text is the name of a class


def classifier_files(folder: Path, names: Names) -> dict[str, bytes]:
    """Return the files next to a classifier that name its classes, with the new names."""
    files = {}
    for name, label_columns in {
        **dict.fromkeys(PREDICTIONS_FILES, 1),
        LABELS_FILE: 1,
        SUSPICIOUS_FILE: 2,
    }.items():
        if (folder / name).is_file():
            files[name] = _table(folder / name, names, label_columns)
    if (folder / SUMMARY_FILE).is_file():
        summary = _in_report(json.loads((folder / SUMMARY_FILE).read_bytes()), names)
        files[SUMMARY_FILE] = json.dumps(summary, ensure_ascii=False, indent=1).encode()
        if (folder / REPORT_FILE).is_file():
            from deepsep.report import render

            files[REPORT_FILE] = render(summary, data_file=SUMMARY_FILE).encode()
    return files


def segment_files(folder: Path, names: Names, command: str) -> dict[str, bytes]:
    """Return the files of ``deepsep segments`` around its model, with the new names."""
    from deepsep.report import render_segments
    from deepsep.survey.names import dump_names
    from deepsep.survey.segment_files import NAMES_FILE, PAGE_FILE, PROFILES_FILE, RESPONDENTS_FILE, read_summary
    from deepsep.survey.segment_files import SUMMARY_FILE as SEGMENTS

    summary = read_summary(folder) or {}
    for segment in summary["segments"]:
        segment["name"] = names[segment["name"]]
    files = {
        SEGMENTS: (json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode(),
        RESPONDENTS_FILE: _table(folder / RESPONDENTS_FILE, names, 1),
    }
    if (folder / PROFILES_FILE).is_file():
        files[PROFILES_FILE] = _table(folder / PROFILES_FILE, names, 0, "name")
    if (folder / NAMES_FILE).is_file():
        files[NAMES_FILE] = dump_names([segment["name"] for segment in summary["segments"]]).encode()
    if (folder / PAGE_FILE).is_file():
        files[PAGE_FILE] = render_segments(summary, command=command).encode()
    return files


def _table(file: Path, names: Names, label_columns: int, also: str = "set") -> bytes:
    """Return a table with new names in the columns of labels, which follow the first column, and of probabilities."""
    import pandas as pd
    import pyarrow as pa

    probability_prefix = "probability_"

    as_text: dict[str, Any] = {"keep_default_na": False, "na_values": [""]}  # a class may be called "NA"
    if file.suffix == ".parquet":
        frame = pd.read_parquet(file, dtype_backend="pyarrow")
    elif file.suffix == ".xlsx":
        frame = pd.read_excel(file, dtype=object, **as_text)
    else:
        frame = pd.read_csv(file, dtype=str, **as_text)
    labels = [name for i, name in enumerate(frame.columns) if 0 < i <= label_columns or name == also]
    for name in labels:
        frame[name] = [None if pd.isna(cell) else _set(str(cell), names) for cell in frame[name]]
    frame = frame.rename(
        columns={f"{probability_prefix}{old}": f"{probability_prefix}{new}" for old, new in names.items()}
    )
    return as_file(frame, file.suffix[1:], dict.fromkeys(labels, pa.string()))


def _set(value: str, names: Names) -> str:
    """Return the new name of a class, or of each in a set such as "gold|blue"."""
    if value in names:
        return names[value]
    parts = value.split("|")
    return "|".join(names[part] for part in parts) if all(part in names for part in parts) else value


def _in_report(value: Any, names: Names, key: str = "") -> Any:
    """Return the results behind a report with new names, where a class is named and where a sentence quotes it."""
    quoted = ("notes", "findings", "priors")  # keys of a report whose text quotes names
    if isinstance(value, list):
        return [_in_report(part, names, key) for part in value]
    if isinstance(value, dict):
        return {name: _in_report(part, names, key if key in quoted else name) for name, part in value.items()}
    if not isinstance(value, str):
        return value
    if key in NAMING_KEYS:
        return names.get(value, value)
    if key not in quoted:
        return value
    new = {repr(old): repr(name) for old, name in names.items()}
    return re.sub(rf"(?<!column )(?:{'|'.join(map(re.escape, new))})", lambda found: new[found[0]], value)
