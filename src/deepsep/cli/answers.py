"""Read tables of survey answers, in which words such as "None" and "NA" are answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from deepsep.cli.console import Console
from deepsep.table.batches import OpenFiles, open_files
from deepsep.table.column_types import MISSING_WORDS
from deepsep.table.reading import joined, read_table
from deepsep.table.reading_settings import Reading


def read_answers(out: Console, file: Path, reading: Reading, *, id: str | None) -> pd.DataFrame:
    """Read a table in which an answer is missing only where the cell is empty.

    In other tables the usual words mean a missing value, but in a survey "None" is an answer. Numbers stay numbers.
    """
    table = open_files(file, reading)
    frame = read_table(table, id=id)
    kept: dict[str, int] = {}
    lost: dict[str, int] = {}
    for name, cells in _raw_cells(table).items():
        words = cells.str.strip()
        words = words[words.isin(MISSING_WORDS) & (words != "")]
        if name == id or not len(words):
            continue
        number = pd.api.types.is_numeric_dtype(frame[name]) and not frame[name].isna().all()
        if not number:
            frame[name] = frame[name].astype(object).where(~frame.index.isin(words.index), words)
        for word, count in words.value_counts().items():
            counts = lost if number else kept
            counts[str(word)] = counts.get(str(word), 0) + int(count)
    if kept:
        out.warn(f"{_counted(kept)} in text columns count as answers. Empty these cells if no answer was given.")
    if lost:
        out.warn(f"{_counted(lost)} in numeric columns are taken as missing answers.")
    return frame


def _raw_cells(table: OpenFiles) -> dict[str, pd.Series[Any]]:
    """Return the columns as text exactly as in the file; empty for formats that mark missing values themselves."""
    frames = []
    for file in table.tables:
        if file.form is not None:
            frames.append(joined(table, table.names, file.pieces(1_000_000, table.names)).to_pandas())
        elif file.kind == "excel":
            words = file.cells.map(lambda value: value if isinstance(value, str) else None)
            frames.append(words.astype("str").mask(words.isna()))
    frame = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    return {str(name): frame[name] for name in frame}


def text_cells(file: Path, reading: Reading) -> pd.DataFrame:
    """Return a small table with every cell as text, "" where it is empty: words and numbers mean nothing special."""
    table = open_files(file, reading)
    if table.kind == "excel":
        frame = pd.concat([file.cells for file in table.tables])
    else:
        raw = _raw_cells(table)
        frame = (pd.DataFrame(raw) if raw else read_table(table)).astype(object)
    return frame.map(_cell_text)


def _cell_text(value: Any) -> str:
    if value is None or value != value:
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def _counted(words: dict[str, int]) -> str:
    first = sorted(words, key=lambda word: -words[word])[:3]
    return f"{sum(words.values()):,} cells with {', '.join(map(repr, first))}{' ...' if len(words) > 3 else ''}"
