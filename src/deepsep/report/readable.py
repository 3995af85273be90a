"""The columns that a model uses, and as readable features: numbers, dates, and a yes-or-no feature per category."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deepsep.core.column_kinds import ColumnType, seconds_of
from deepsep.core.model_parts import first_step
from deepsep.report.wording import number, percent
from deepsep.table.columns import UsefulColumns, as_frame, decide, for_encoders

Array = NDArray[Any]

LEAST_SHARE = 0.01  # of the rows, for a category or missing values to be a feature
SECONDS_PER_DAY = 86_400.0


@dataclass(frozen=True)
class Feature:
    """One property of the rows."""

    column: str  # the column of the user's table
    level: str | None  # the category, for a yes-or-no feature; None for a number or a date
    kind: Literal["number", "date", "level"]
    values: Array  # (n,), numbers, NaN where missing; days since 1970 for dates; 1 or 0 for categories

    @property
    def name(self) -> str:
        """The feature in words."""
        return self.column if self.level is None else f"{self.column} = {self.level}"

    def text(self, value: float | None) -> str:
        """Return a value, or a mean of values, in words."""
        if value is None or not np.isfinite(value):
            return "–"
        if self.kind == "level":
            return percent(value)
        if self.kind == "date":
            return str(np.datetime64(int(value * SECONDS_PER_DAY), "s").astype("datetime64[D]"))
        return number(value)


def typed_columns(model: Any, table: Any) -> tuple[pd.DataFrame, dict[str, ColumnType], dict[str, str]]:
    """Return the columns that a model uses, converted to their types; the types; and why other columns are left out."""
    first = first_step(model)
    if isinstance(first, UsefulColumns):
        return first.transform(table), first.schema_, first.left_out_
    frame = as_frame(table)
    decided = {name: decide(frame[name]) for name in frame.columns}
    kinds = {name: each.kind for name, each in decided.items() if each.kind is not None}
    return pd.DataFrame({name: for_encoders(decided[name].cells, kind) for name, kind in kinds.items()}), kinds, {}


def features_of(model: Any, table: Any) -> list[Feature]:
    """Return the features of the columns that a model uses."""
    columns, kinds, _ = typed_columns(model, table)
    return [feature for name, kind in kinds.items() for feature in _of_column(name, columns[name], kind)]


def _of_column(name: str, column: pd.Series[Any], kind: ColumnType, max_levels: int = 30) -> list[Feature]:
    missing = column.isna().to_numpy()
    if kind == "boolean":
        own = [Feature(name, "yes", "level", (column == "true").to_numpy(float))]
    elif kind == "date":
        own = [Feature(name, None, "date", np.floor(seconds_of(column)) / SECONDS_PER_DAY)]
    elif kind == "number":
        largest = float(np.finfo(np.float32).max)  # trees compute in single precision
        values = np.clip(column.to_numpy(float), -largest, largest)
        binary = np.isin(values[~missing], (0, 1)).all() and not missing.all()
        own = [Feature(name, "1", "level", np.nan_to_num(values)) if binary else Feature(name, None, "number", values)]
    else:
        text = column.to_numpy(object)
        levels, counts = np.unique(text[~missing].astype(str), return_counts=True)
        often = np.argsort(-counts, kind="stable")[:max_levels]
        chosen = levels[often][counts[often] >= LEAST_SHARE * len(text)]
        own = [Feature(name, str(level), "level", (text == level).astype(float)) for level in chosen]
    if LEAST_SHARE <= missing.mean() < 1:
        own.append(Feature(name, "missing", "level", missing.astype(float)))
    return own
