"""Read tables of survey answers, in which words such as "None" and "NA" are answers."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepsep.cli.training import read_options
from deepsep.errors import DeepSepWarning
from deepsep.table import read_table

if TYPE_CHECKING:
    import pandas as pd

    from deepsep.cli.console import Console


def read_answers(
    out: Console, file: Path, *, id: str | None, encoding: str | None, delimiter: str | None, sheet: str | None
) -> pd.DataFrame:
    """Read a table in which an answer is missing only where the cell is empty.

    In other tables the usual words mean a missing value, but in a survey "None" is an answer. Numbers stay numbers.
    """
    from pandas.api.types import is_numeric_dtype

    from deepsep.table.column_types import MISSING

    how = read_options("", encoding, delimiter, sheet)
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

    from deepsep.table.locations import kind_of
    from deepsep.table.text import TextFormat, load_bytes, read_text

    kind = kind_of(file)
    if kind == "text":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeepSepWarning)  # read_table has already issued them
            form = TextFormat.of(file, how["encoding"], how["delimiter"])
        frame = read_text(form, load_bytes(file, math.inf) or b"").to_pandas()
    elif kind == "excel":  # without empty rows and columns, like read_table
        cells = pd.read_excel(file, how["sheet"], header=None, dtype=object, keep_default_na=False, engine="openpyxl")
        cells = cells.mask((cells == "") | cells.isna(), None).dropna(how="all").dropna(how="all", axis=1)
        names = [f"unnamed_{i}" if v is None else str(v).strip() for i, v in enumerate(cells.iloc[0], start=1)]
        frame = cells.iloc[1:].reset_index(drop=True).set_axis(names, axis=1)
        frame = frame.map(lambda value: value if isinstance(value, str) else None).astype("str")
    else:
        return {}
    return {str(name): frame[name] for name in frame}


def _counted(words: dict[str, int]) -> str:
    first = sorted(words, key=lambda word: -words[word])[:3]
    return f"{sum(words.values()):,} cells with {', '.join(map(repr, first))}{' ...' if len(words) > 3 else ''}"
