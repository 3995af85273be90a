"""Read tables of survey answers, in which words such as "None" and "NA" are answers."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepsep.cli.options import ReadingOptions
from deepsep.errors import DeepSepWarning
from deepsep.table import read_table

if TYPE_CHECKING:
    import pandas as pd

    from deepsep.cli.console import Console


def read_answers(out: Console, file: Path, reading: ReadingOptions, *, id: str | None) -> pd.DataFrame:
    """Read a table in which an answer is missing only where the cell is empty.

    In other tables the usual words mean a missing value, but in a survey "None" is an answer. Numbers stay numbers.
    """
    from pandas.api.types import is_numeric_dtype

    from deepsep.table.column_types import MISSING

    how = reading.for_reader()
    frame = read_table(file, id=id, **how)
    kept: dict[str, int] = {}
    lost: dict[str, int] = {}
    for name, cells in _raw_cells(file, how).items():
        words = cells.str.strip()
        words = words[words.isin(MISSING) & (words != "")]
        if name == id or not len(words):
            continue
        number = is_numeric_dtype(frame[name]) and not frame[name].isna().all()
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


def _raw_cells(file: Path, how: dict[str, Any]) -> dict[str, pd.Series[Any]]:
    """Return the columns as text exactly as in the file; empty for formats that mark missing values themselves."""
    import pandas as pd

    from deepsep.table.excel import read_cells
    from deepsep.table.locations import files_of, same_kind, table_at
    from deepsep.table.text import TextFormat, load_bytes, read_text

    files, frames = files_of(table_at(file)), []
    kind = same_kind(files)
    for each in files:
        if kind == "text":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeepSepWarning)  # read_table has already issued them
                form = TextFormat.of(each, how["encoding"], how["delimiter"], how["skip_rows"])
            frames.append(read_text(form, load_bytes(each, math.inf) or b"").to_pandas())
        elif kind == "excel":
            cells = read_cells(each, how["sheet"], how["skip_rows"])
            frames.append(cells.map(lambda value: value if isinstance(value, str) else None).astype("str"))
    frame = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    return {str(name): frame[name] for name in frame}


def text_cells(file: Path, reading: ReadingOptions) -> pd.DataFrame:
    """Return a small table with every cell as text, "" where it is empty, whatever the words and numbers in it."""
    from deepsep.table.excel import read_cells
    from deepsep.table.locations import kind_of

    how = reading.for_reader()
    if kind_of(file) == "excel":
        frame = read_cells(file, how["sheet"], how["skip_rows"])
    else:
        raw = _raw_cells(file, how)
        frame = read_table(file, **how).astype(object) if not raw else _frame(raw)
    return frame.map(_cell_text)


def _frame(columns: dict[str, pd.Series[Any]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(columns).astype(object)


def _cell_text(value: Any) -> str:
    if value is None or value != value:
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def _counted(words: dict[str, int]) -> str:
    first = sorted(words, key=lambda word: -words[word])[:3]
    return f"{sum(words.values()):,} cells with {', '.join(map(repr, first))}{' ...' if len(words) > 3 else ''}"
