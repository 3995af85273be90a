"""Rename classes and segments in the files beside a model: predictions, labels, reports and profiles."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from deepsep.cli.options import Format
from deepsep.cli.outputs import LABELS, REPORT, SUMMARY, SUSPICIOUS

Names = Mapping[str, str]  # old to new, as text

CELL = re.compile(r'("(?:[^"]|"")*"|[^",\r\n]*)(,|\r?\n|$)')
SHARE = "probability_"


def classifier_files(folder: Path, names: Names) -> dict[str, bytes]:
    """Return the files beside a classifier that name its classes, with the new names."""
    files = {}
    for name, rename in {
        Format.parquet.file: _parquet,
        Format.csv.file: _predictions_csv,
        Format.xlsx.file: _workbook,
        LABELS: lambda content, names: _csv(content, names, lambda head: [1]),
        SUSPICIOUS: lambda content, names: _csv(content, names, lambda head: [1, 2]),
        SUMMARY: _report,
    }.items():
        if (folder / name).is_file():
            files[name] = rename((folder / name).read_bytes(), names)
    if SUMMARY in files and (folder / REPORT).is_file():
        from deepsep.report import render

        files[REPORT] = render(json.loads(files[SUMMARY]), data_file=SUMMARY).encode()
    return files


def segment_files(folder: Path, names: Names, command: str) -> dict[str, bytes]:
    """Return the files of ``deepsep segments`` around its model, with the new names."""
    from deepsep.report import render_segments
    from deepsep.survey.names import dump_names
    from deepsep.survey.segment_files import NAMES, PAGE, PROFILES, RESPONDENTS, read_summary
    from deepsep.survey.segment_files import SUMMARY as SEGMENTS

    summary = read_summary(folder) or {}
    for segment in summary["segments"]:
        segment["name"] = names[segment["name"]]
    files = {
        SEGMENTS: (json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode(),
        RESPONDENTS: _parquet((folder / RESPONDENTS).read_bytes(), names),
    }
    if (folder / PROFILES).is_file():
        files[PROFILES] = _csv((folder / PROFILES).read_bytes(), names, lambda head: [head.index("name")])
    if (folder / NAMES).is_file():
        files[NAMES] = dump_names([segment["name"] for segment in summary["segments"]]).encode()
    if (folder / PAGE).is_file():
        files[PAGE] = render_segments(summary, command=command).encode()
    return files


def _parquet(content: bytes, names: Names) -> bytes:
    """Rename in a table of predictions: the labels, the columns of probabilities, and the sets."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(content))
    columns = {_column(name, names): table.column(name) for name in table.column_names}
    for name in [table.column_names[1], *(["set"] if "set" in columns else [])]:
        values = [None if value is None else _set(str(value), names) for value in columns[name].to_pylist()]
        columns[name] = pa.array(values, pa.string())
    metadata = {key: value for key, value in (table.schema.metadata or {}).items() if key != b"pandas"}
    written = io.BytesIO()
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), written)
    return written.getvalue()


def _predictions_csv(content: bytes, names: Names) -> bytes:
    return _csv(content, names, lambda head: [1, *([head.index("set")] if "set" in head else [])])


def _workbook(content: bytes, names: Names) -> bytes:
    from openpyxl import load_workbook

    from deepsep.table.excel_cells import fill

    book = load_workbook(io.BytesIO(content))
    head, *rows = book.active.iter_rows()
    called = [1, *(j for j, cell in enumerate(head) if cell.value == "set")]
    for cell in head:
        fill(cell, _column(str(cell.value), names))
    for row in rows:
        for j in called:
            if row[j].value is not None:
                fill(row[j], _set(str(row[j].value), names))
    written = io.BytesIO()
    book.save(written)
    return written.getvalue()


def _csv(content: bytes, names: Names, called: Callable[[Sequence[str]], Sequence[int]]) -> bytes:
    """Rename in the cells of some columns, and in the names of columns of probabilities; all else stays as it is."""
    text = content.decode("utf-8-sig")
    mark = content[: len(content) - len(text.encode())]
    out: list[str] = []
    head: list[str] = []
    column, columns, in_head = 0, [], True
    for found in CELL.finditer(text):
        cell, end = found.groups()
        plain = cell[1:-1].replace('""', '"') if cell.startswith('"') else cell
        if in_head:
            head.append(plain)
            new = _column(plain, names)
        else:
            new = _set(plain, names) if column in columns and cell else plain
        quoted = '"' + new.replace('"', '""') + '"'
        out.append((cell if new == plain else quoted) + end)
        column += 1
        if end != ",":
            if in_head:
                in_head, columns = False, list(called(head))
            column = 0
    return mark + "".join(out).encode()


def _report(content: bytes, names: Names) -> bytes:
    """Rename in the results behind a report: where a class is named, and where a sentence quotes it."""
    summary = json.loads(content)
    summary["classes"] = [names.get(name, name) for name in summary["classes"]]
    for key in ("shares", "suspicious", "least_certain", "profiles", "explanation"):
        _rename_values(summary.get(key), names)
    for key in ("notes", "findings"):
        summary[key] = _rename_quoted(summary.get(key), names)
    _rename_priors(summary, names)
    return json.dumps(summary, ensure_ascii=False, indent=1).encode()


def _rename_values(value: Any, names: Names) -> None:
    for part in value if isinstance(value, list) else []:
        _rename_values(part, names)
    if isinstance(value, dict):
        for key, part in value.items():
            if key in ("class", "given", "believed", "first", "second") and isinstance(part, str):
                value[key] = names.get(part, part)
            else:
                _rename_values(part, names)


def _rename_priors(value: Any, names: Names) -> None:
    """Rename the classes in the known shares that were passed to the fit."""
    for part in value if isinstance(value, list) else []:
        _rename_priors(part, names)
    if isinstance(value, dict):
        for key, part in value.items():
            if key == "priors":
                value[key] = _rename_quoted(part, names)
            else:
                _rename_priors(part, names)


def _rename_quoted(value: Any, names: Names) -> Any:
    if isinstance(value, list):
        return [_rename_quoted(part, names) for part in value]
    if isinstance(value, dict):
        return {key: _rename_quoted(part, names) for key, part in value.items()}
    if not isinstance(value, str):
        return value
    quoted = "|".join(re.escape(repr(name)) for name in names)
    by_quoted = {repr(old): repr(new) for old, new in names.items()}
    return re.sub(rf"(?<!column )(?:{quoted})", lambda found: by_quoted[found[0]], value)


def _column(name: str, names: Names) -> str:
    known = name.removeprefix(SHARE)
    return f"{SHARE}{names[known]}" if name.startswith(SHARE) and known in names else name


def _set(value: str, names: Names) -> str:
    """Return the new name of a class, or of each in a set such as "gold|blue"."""
    if value in names:
        return names[value]
    parts = value.split("|")
    return "|".join(names[part] for part in parts) if all(part in names for part in parts) else value
