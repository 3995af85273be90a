"""Columns as readable features: numbers, dates, and one yes-or-no feature per category."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from deepsep.core.column_kinds import kind_of, seconds_of
from deepsep.report.wording import number, percent
from deepsep.table.columns import as_frame

Array = NDArray[Any]

LEAST_SHARE = 0.01  # of the rows, for a category or missing values to be a feature
SECONDS_PER_DAY = 86_400.0


@dataclass(frozen=True)
class Feature:
    """One property of the rows.

    Attributes
    ----------
    column : str
        The column of the user's table.
    level : str or None
        The category, for a yes-or-no feature; None for a number or a date.
    kind : {"number", "date", "level"}
        The type of the values.
    values : array (n,) of float
        Numbers, NaN where missing; days since 1970 for dates; 1 or 0 for categories.
    """

    column: str
    level: str | None
    kind: Literal["number", "date", "level"]
    values: Array

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


def features_of(table: Any) -> list[Feature]:
    """Return the features of a table."""
    frame = as_frame(table)
    return [feature for name in frame.columns for feature in _of_column(name, frame[name])]


def _of_column(name: str, column: Any, max_levels: int = 30) -> list[Feature]:
    kind, missing = kind_of(column), column.isna().to_numpy()
    if kind == "boolean":
        return [
            Feature(name, "yes", "level", column.fillna(False).to_numpy(float)),
            *_if_missing(name, missing),
        ]
    if kind == "date":
        return [Feature(name, None, "date", _days(column)), *_if_missing(name, missing)]
    if kind == "number":
        values = column.to_numpy(dtype=float, na_value=np.nan)
        largest = float(np.finfo(np.float32).max)  # trees compute in single precision
        values = np.clip(np.where(np.isfinite(values), values, np.nan), -largest, largest)
        if np.isin(values[~missing], (0, 1)).all() and not missing.all():
            return [Feature(name, "1", "level", np.nan_to_num(values)), *_if_missing(name, missing)]
        return [Feature(name, None, "number", values), *_if_missing(name, missing)]
    text = column.astype(str).to_numpy(object)
    text[missing] = None
    levels, counts = np.unique(text[~missing].astype(str), return_counts=True)
    often = np.argsort(-counts, kind="stable")[:max_levels]
    chosen = levels[often][counts[often] >= LEAST_SHARE * len(text)]
    return [
        *(Feature(name, str(level), "level", (text == level).astype(float)) for level in chosen),
        *_if_missing(name, missing),
    ]


def _if_missing(name: str, missing: Array) -> list[Feature]:
    if not LEAST_SHARE <= missing.mean() < 1:
        return []
    return [Feature(name, "missing", "level", missing.astype(float))]


def _days(column: Any) -> Array:
    if getattr(column.dtype, "tz", None) is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    return np.asarray(np.floor(seconds_of(column)) / SECONDS_PER_DAY)
